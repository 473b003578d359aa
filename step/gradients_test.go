package step

import (
	"slices"
	"testing"

	"github.com/optool/optool/capture"
)

// TestThere: a call reads no gradient that came later. Recorders that do not know the order leave all of them.
func TestThere(t *testing.T) {
	at := func(order, gradient int) *Call {
		return &Call{Entry: &capture.Entry{Order: order, GradientOrder: gradient}}
	}
	for _, tc := range []struct{ reader, gradient, want int }{{5, 4, 1}, {5, 6, 0}, {5, 0, 1}, {-1, 0, 1}, {-1, 6, 1}} {
		all := map[form]*gradients{}
		group(all, form{}, &Value{Call: at(0, tc.gradient)})
		if n := len(all[form{}].there(at(tc.reader, 0))); n != tc.want {
			t.Errorf("call %d has %d gradients of place %d, want %d", tc.reader, n, tc.gradient, tc.want)
		}
	}
}

// TestSharing: of many gradients, those with an element of a value at its place are found, in their order. Zeros, and
// elements at other places, make none of them.
func TestSharing(t *testing.T) {
	all := map[form]*gradients{}
	call := &Call{Entry: &capture.Entry{}}
	add := func(x, y, z float64) *Value {
		g := floats(x, y, z)
		g.Call = call
		group(all, form{}, g)
		return g
	}
	v := floats(1, 0, 3)
	v.Call = call
	var want []*Value
	for range 2 { // gradients that come after the first question are found, too
		for i := range 50 {
			add(float64(i+10), 0, 1)
		}
		want = append(want, add(1, 5, 3), add(7, 8, 3))
		add(3, 1, 0)
		if got := all[form{}].sharing(v); !slices.Equal(got, want) {
			t.Errorf("%d of %d gradients share an element, want %d", len(got), len(all[form{}].all), len(want))
		}
	}
}
