package step

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// rows are n rows of eight numbers, all different.
func rows(n int) []float64 {
	x := make([]float64, 8*n)
	for i := range x {
		x[i] = float64(i) + 1
	}
	return x
}

// readRows records a call that makes n rows and one that reads each as an argument of its own: as
// parts of the memory, or as copies that no recorded call made.
func readRows(t *testing.T, n int, copies bool) *Trace {
	t.Helper()
	root, x := t.TempDir(), rows(n)
	const made = 8000
	record(t, root, 1, "torch.abs", []any{located{1000, []int{n, 8}, x}}, nil, located{made, []int{n, 8}, x})
	list := value.NewList()
	args := make([]any, n)
	for i := range n {
		row := located{made + 32*i, []int{8}, x[8*i : 8*i+8]}
		args[i] = row
		list.Items = append(list.Items, tensor.New(tensor.Float32, row.shape, row.data).Rounded())
	}
	if copies {
		args = []any{list}
	}
	// What the call is does not matter: its arguments do.
	record(t, root, 2, "torch.cat", args, nil, located{90000, []int{8 * n}, x})
	return analyse(t, root)
}

// forget makes the arguments of the second call undecided again.
func forget(tr *Trace, copies bool) *Call {
	c := tr.Processes[0].Calls[1]
	for _, v := range c.Inputs {
		v.From.rows, v.From.held = nil, false
		if copies {
			v.From = Link{How: IsOutside, Role: unrecorded}
		}
	}
	return c
}

// TestLinear: a call that reads n values makes step read no more files than one that reads few.
func TestLinear(t *testing.T) {
	for _, copies := range []bool{false, true} {
		loads := func(n int) int {
			c := forget(readRows(t, n, copies), copies)
			opt := options(t)
			opt.files = &files{}
			defer opt.files.end()
			if err := c.compareMemory(opt); err != nil {
				t.Fatal(err)
			}
			linked := 0
			for _, v := range c.Inputs {
				if w := v.From.view; w != nil && w.Call.Entry.ID == 1 && (v.From.held || v.From.rows != nil) {
					linked++
				}
			}
			if linked != n {
				t.Errorf("copies %v: %d of %d arguments are linked to what they are part of", copies, linked, n)
			}
			return opt.files.loads
		}
		if few, many := loads(3), loads(60); many > few {
			t.Errorf("copies %v: %d files are read for 3 values, %d for 60", copies, few, many)
		}
	}
}

// TestOneClock: each phase of the analysis asks once for the time of a call, whatever the call reads.
func TestOneClock(t *testing.T) {
	within := func(n int, copies bool) int {
		tr := readRows(t, n, copies)
		forget(tr, copies)
		asked := 0
		opt := options(t)
		opt.Within = func(_ int64, f func() error) error {
			asked++
			return f()
		}
		if err := tr.Analyze(context.Background(), opt); err != nil {
			t.Fatal(err)
		}
		return asked
	}
	for _, copies := range []bool{false, true} {
		if few, many := within(3, copies), within(60, copies); many > few {
			t.Errorf("copies %v: time is asked for %d times for 3 values, %d times for 60", copies, few, many)
		}
	}
}

// TestGivenUp: where the time of a call is over the question is given up, which is said and no pass.
func TestGivenUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"late", fmt.Errorf("not done: %w", os.ErrDeadlineExceeded), true},
		{"a bug", &replay.InternalError{Value: "index out of range"}, true},
		{"a file that cannot be read", os.ErrNotExist, false},
	} {
		tr := readRows(t, 3, false)
		forget(tr, false)
		opt := options(t)
		opt.Within = func(int64, func() error) error { return tc.err }
		if err := tr.Analyze(context.Background(), opt); err != nil {
			t.Fatal(err)
		}
		given := tr.GivenUp()
		if (len(given) == 1) != tc.want || len(given) > 1 {
			t.Errorf("%s: %v given up, want some: %v", tc.name, given, tc.want)
		}
		results := tr.Results(func(*Call, bool) string { return "" }, "")
		said := slices.ContainsFunc(results, func(r *reports.Result) bool {
			return r.Verdict == verdict.Error && strings.HasPrefix(r.Reason, "its arguments were not compared")
		})
		if said != tc.want {
			t.Errorf("%s: the results say it: %v", tc.name, said)
		}
	}
}

// TestEach: a value that cannot be read costs itself, a limit ends all.
func TestEach(t *testing.T) {
	vs := []*Value{{}, {}, {}}
	for _, tc := range []struct {
		err  error
		want int
	}{{&tensor.ReadError{Err: os.ErrNotExist}, 3}, {fmt.Errorf("x: %w", os.ErrDeadlineExceeded), 1}} {
		n := 0
		each(vs, func(*Value) error {
			n++
			panic(tc.err)
		})
		if n != tc.want {
			t.Errorf("%v: %d values were looked at, want %d", tc.err, n, tc.want)
		}
	}
}
