package step

import (
	"math"
	"slices"
	"testing"
)

// TestPicked: the exact step goes through rows that a mask or an index picked from a
// recorded value.
func TestPicked(t *testing.T) {
	tr := open(t, "picked")
	s := tr.Processes[0].Steps[0]
	if len(s.Unlinked) != 0 || len(s.Breaks) != 0 || len(tr.Findings) != 0 {
		t.Errorf("inputs without a producer %d, breaks %v, findings %v", len(s.Unlinked), s.Breaks, tr.Findings)
	}
	if off := s.Captured - s.Exact; math.Abs(off-s.Predicted) > 1e-9 || off == 0 {
		t.Errorf("the loss is off by %v, first-order effects explain %v", off, s.Predicted)
	}
	v := lookup(tr, "linear/5 input[0]")
	if !slices.Equal(v.From.rows, []int{3, 0, 3, 1}) || v.From.view.name() != "reshape/4 output[0]" {
		t.Errorf("rows %v of %s", v.From.rows, v.From.view.name())
	}
}

// TestFind: rows in another value, equal ones in turn.
func TestFind(t *testing.T) {
	tr := open(t, "picked")
	w := lookup(tr, "linear/1 input[0]")
	x, done, err := w.load(options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	raw := x.AppendBytes(nil)
	const size = 5 * 4
	for _, tc := range []struct {
		name string
		raw  []byte
		want []int
	}{
		{"all", raw, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		{"backwards", append(slices.Clone(raw[3*size:4*size]), raw[:size]...), []int{3, 0}},
		{"another", append(slices.Clone(raw[:size]), raw[1:size+1]...), nil},
	} {
		if got, err := w.find(tc.raw, size, options(t)); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
}
