package step

import (
	"testing"

	"github.com/optool/optool/capture"
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
