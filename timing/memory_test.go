package timing

import (
	"runtime"
	"testing"
)

// TestMemory: what a run of a function needs is told if it is large enough to be certain.
func TestMemory(t *testing.T) {
	const size = 32 << 20
	large := &HostFunc{Run: func() error {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		runtime.KeepAlive(b)
		return nil
	}}
	m, err := large.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		t.Skip("this system does not tell")
	}
	if m.Peak < size-certain || m.Peak > 10*size { // the race detector has memory of its own for each byte
		t.Errorf("%d bytes, want about %d", m.Peak, size)
	}
	small := &HostFunc{Run: func() error { return nil }}
	if m, err := small.Memory(t.Context()); m != nil || err != nil {
		t.Errorf("nothing needs %v, %v", m, err)
	}
}
