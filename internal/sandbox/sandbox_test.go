package sandbox

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

func run(l Limits, src string) error {
	f, err := Dialect.Parse("f.py", src, 0)
	if err == nil {
		_, err = l.Exec("f.py", f, starlark.StringDict{})
	}
	return err
}

// TestMemoryOfOthers: a program is charged with what it holds, neither with garbage
// nor with what an earlier one that was given up still takes.
func TestMemoryOfOthers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // garbage stays
	l := Limits{Steps: 1_000_000, Time: time.Minute, Heap: 128 << 20}
	const grows = "s = 'x'\nfor i in range(60):\n    s = s + s\n"
	if err := run(l, grows); err == nil || !strings.Contains(err.Error(), "more than 128 MiB of memory") {
		t.Errorf("a text of 2^60 bytes: got error %v, want one of memory", err)
	}
	for range 3 {
		if err := run(l, "for i in range(150):\n    s = 'x' * 1000000\n    s = s + s\n"); err != nil {
			t.Errorf("texts of 2 MB that are dropped, after one that was given up: got error %v", err)
		}
	}
}
