package parallel

import (
	"testing"

	"github.com/optool/optool/step"
)

// TestBefore: what is wrong between the ranks in the forward pass comes before a value that changed later.
func TestBefore(t *testing.T) {
	q := &step.Process{Rank: 1}
	here, later := &step.Call{Order: 3, Process: q}, &step.Call{Order: 5, Process: q}
	for _, tc := range []struct {
		at, changed *step.Call
		backward    bool
		want        bool
	}{{here, later, false, true}, {later, here, false, false}, {here, later, true, false}, {nil, later, false, false}} {
		v := &violation{site: &site{calls: map[int]*step.Call{1: tc.at}}, backward: tc.backward}
		if got := v.before(tc.changed); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}
