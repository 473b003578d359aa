package cli

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/optool/optool/capture"
)

// aTree has calls whose files have so many bytes each.
func aTree(t *testing.T, calls, size int) string {
	t.Helper()
	root := t.TempDir()
	for i := range calls {
		dir := filepath.Join(root, "op_capture_result", "torch.add", "7", fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"input.pth", "output.pth"} {
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// Calls come as they were listed, and no more are read ahead than the window has room for.
func TestReadAhead(t *testing.T) {
	const calls, size = 40, 1 << 16
	root := aTree(t, calls, size)
	any := func(*capture.Entry) bool { return true }
	for _, window := range []int64{1, 3 * size, 8 * size, 1 << 40} {
		listed := 0 // by the goroutine that reads ahead
		asked := make(chan int, calls)
		in := func(yield func(found) bool) {
			for f := range scan(t.Context(), []string{root}, capture.Options{}) {
				listed++
				asked <- listed
				if !yield(f) {
					return
				}
			}
		}
		next, stop := iter.Pull(readAhead(t.Context(), in, window, any))
		taken := 0
		for f, ok := next(); ok; f, ok = next() {
			if f.err != nil || f.index != taken {
				t.Fatalf("window %d: call %d came as number %d, %v", window, f.index, taken, f.err)
			}
			taken++
			if taken == 1 {
				time.Sleep(20 * time.Millisecond) // as far ahead as it gets
				most := 2 + int(window)/(2*size) + 1
				if n := len(asked); n > most {
					t.Errorf("window %d: %d calls were listed when one was taken, want at most %d", window, n, most)
				}
			}
		}
		stop()
		if taken != calls {
			t.Errorf("window %d: %d of %d calls came", window, taken, calls)
		}
	}
}

// Who stops early leaves nobody waiting, and what is not wanted is not waited for.
func TestReadAheadStops(t *testing.T) {
	root := aTree(t, 200, 1<<10)
	ended := make(chan bool, 1)
	in := func(yield func(found) bool) {
		defer func() { ended <- true }()
		for f := range scan(t.Context(), []string{root}, capture.Options{}) {
			if !yield(f) {
				return
			}
		}
	}
	for f := range readAhead(t.Context(), in, 1, func(*capture.Entry) bool { return true }) {
		if f.index == 3 {
			break
		}
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the list is still read")
	}
	n := 0
	for range readAhead(t.Context(), in, 1, func(*capture.Entry) bool { return false }) {
		n++
	}
	if n != 200 {
		t.Errorf("%d of 200 calls that are not wanted came", n)
	}
}
