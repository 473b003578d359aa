package step

import (
	"testing"

	"github.com/optool/optool/capture"
)

// TestReached: a call belongs to the loss whose backward pass began last before it reached the call.
func TestReached(t *testing.T) {
	at := func(order int) *Call { return &Call{Entry: &capture.Entry{BackwardOrder: order}} }
	roots := []*Call{at(10), at(40), at(30)}
	for order, want := range map[int]int{5: -1, 10: 0, 29: 0, 30: 2, 35: 2, 40: 1, 99: 1, -1: -1} {
		if got := at(order).reached(roots); got != want {
			t.Errorf("%d: loss %d, want %d", order, got, want)
		}
	}
	if got := at(99).reached(append(roots, at(-1))); got != -1 {
		t.Errorf("loss %d, though the recording does not say when the passes began", got)
	}
}

// TestGaveBefore: a call that runs before an update may take part in a backward pass behind it.
func TestGaveBefore(t *testing.T) {
	for _, tc := range []struct {
		name            string
		order, backward int // of the reading; where the update was recorded is 20, its order 5
		want            bool
	}{
		{"before", 3, 15, true},
		{"behind", 3, 25, false},
		{"not known", 3, -1, true},
		{"not known, behind", 6, -1, false},
	} {
		v := &Value{Call: &Call{Order: tc.order, Entry: &capture.Entry{BackwardOrder: tc.backward}}}
		if got := v.gaveBefore(&Call{Order: 5, Entry: &capture.Entry{Order: 20}}); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
