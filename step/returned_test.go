package step

import (
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
)

// TestEncloses: which calls a call made, itself or by others.
func TestEncloses(t *testing.T) {
	entry := func(id, within int) *capture.Entry {
		e := &capture.Entry{Within: within}
		e.ID = id
		return e
	}
	p := &Process{}
	for i, within := range []int{-1, 0, 1, -1, 3} { // by number
		p.Calls = append(p.Calls, &Call{Process: p, Order: i, Entry: entry(i, within)})
	}
	p.nest()
	for _, tc := range []struct {
		outer, inner int
		want         bool
	}{{0, 1, true}, {0, 2, true}, {1, 2, true}, {0, 3, false}, {0, 4, false}, {3, 4, true}, {1, 0, false},
		{2, 2, false}} {
		if got := p.Calls[tc.outer].encloses(p.Calls[tc.inner]); got != tc.want {
			t.Errorf("%d encloses %d: got %v", tc.outer, tc.inner, got)
		}
	}
}

// TestCounts: an effect that a judged call has as a whole is not added again for the calls that it made.
func TestCounts(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name         string
		outer, inner float64
		verdict      verdict.Verdict // of the outer call
		want         float64
	}{
		{"both are known", 3, 2, verdict.Pass, 3},
		{"the outer call is not known", nan, 2, verdict.Unsupported, 2},
		{"the outer call has no gradient", nan, 2, verdict.Pass, 2},
	} {
		outer := &Call{Verdict: tc.verdict, Effect: tc.outer}
		s := &Step{Calls: []*Call{outer, {Effect: tc.inner, outer: outer}}}
		if sums := s.Sums(func(*Call) string { return "" }); len(sums) != 1 || sums[0].Effect != tc.want ||
			sums[0].Calls != 1 {
			t.Errorf("%s: %+v, want one call with %g", tc.name, sums, tc.want)
		}
		if top := s.Largest(2); len(top) != 1 || top[0].Effect != tc.want {
			t.Errorf("%s: largest %+v, want one call with %g", tc.name, top, tc.want)
		}
	}
}
