package kernel

import (
	"fmt"
	"math"
)

// A ConvergenceError is what an iteration panics with that did not end: the
// numbers it has reached are no reference for anything.
type ConvergenceError struct {
	What  string // what was sought
	Limit int
	Unit  string // of Limit: "sweeps", "iterations"
}

func (e *ConvergenceError) Error() string {
	return fmt.Sprintf("%s did not converge in %d %s", e.What, e.Limit, e.Unit)
}

// negligible is what is zero beside numbers around 1: any less, and ratios of
// the two would leave the range of float64.
const negligible = 1e-290

// balanced is a copy of m, divided by 2**exponent so that its largest element is
// near 1: squares neither overflow nor underflow.
func balanced[T Field](m Mat[T]) (a Mat[T], exponent int) {
	largest := 0.0
	for _, x := range m.D {
		largest = math.Max(largest, math.Max(math.Abs(Re(x)), math.Abs(Im(x)))) // Abs may overflow
	}
	if largest-largest != 0 {
		return m.Clone(), 0
	}
	_, exponent = math.Frexp(largest)
	half := exponent / 2 // in two steps, since 2**-exponent may be infinite
	return m.Scale(From[T](math.Ldexp(1, -half))).Scale(From[T](math.Ldexp(1, half-exponent))), exponent
}
