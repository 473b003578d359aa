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

// TestFind: rows among others, equal ones in turn.
func TestFind(t *testing.T) {
	places := map[string][]int{"aa": {0, 2}, "bb": {1}, "cc": {3}}
	for _, tc := range []struct {
		name, raw string
		want      []int
	}{
		{"all", "aabbaacc", []int{0, 1, 2, 3}},
		{"backwards", "ccaa", []int{3, 0}},
		{"again", "aaaaaa", []int{0, 2, 0}},
		{"another", "aaab", nil},
	} {
		if got := find([]byte(tc.raw), 2, places); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}
