package rss

import (
	"runtime"
	"testing"
)

// TestGrowth: a slice that a function fills is seen, also a second time, and the largest
// resident set of all stays known.
func TestGrowth(t *testing.T) {
	const size = 64 << 20
	for range 2 {
		grown, ok := Growth(func() {
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(i)
			}
			runtime.KeepAlive(b)
		})
		if !ok {
			t.Skip("this system does not tell")
		}
		if grown < size-4<<20 || grown > 10*size { // the race detector has memory of its own
			t.Errorf("grown by %d bytes, want about %d", grown, size)
		}
	}
	most := Peak()
	if grown, _ := Growth(func() {}); grown > 8<<20 {
		t.Errorf("grown by %d bytes by nothing", grown)
	}
	if Peak() < most-4<<20 || most < size {
		t.Errorf("the peak is %d bytes, was %d", Peak(), most)
	}
}
