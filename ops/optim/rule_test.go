package optim

import (
	"math"
	"testing"
)

// TestInfiniteWithoutDecay: without weight decay an infinite gradient, or parameter, stays what it is.
func TestInfiniteWithoutDecay(t *testing.T) {
	inf := math.Inf(1)
	v, s := []float64{inf, 0}, []float64{0, 0}
	g, size := (&rule{}).decayed(v, s, -inf)
	if g != -inf || v[0] != inf || size != inf {
		t.Errorf("gradient %v of size %v, parameter %v", g, size, v[0])
	}
	(&rule{after: true}).update(v, s, 0.1, 1, 1)
	if v[0] != inf {
		t.Errorf("parameter %v after the update", v[0])
	}
}
