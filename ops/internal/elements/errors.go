package elements

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// EpsOverFloat32 is how much coarser than float32 a dtype is: the factor of the
// rounding error of intermediate results that torch keeps in it.
func EpsOverFloat32(dt tensor.DType) float64 {
	if dt.IsFloat() {
		return math.Max(1, dt.Eps()/tensor.Float32.Eps())
	}
	return 1
}

// Coarseness is how much coarser than dt the coarsest of tensors is, 1 at least. Numbers
// and nil do not count.
func Coarseness(dt tensor.DType, ts ...*tensor.Tensor) float64 {
	c := 1.0
	for _, t := range ts {
		if t == nil || t.Wrapped {
			continue
		}
		if own, dt := t.DType.Real(), dt.Real(); own.IsFloat() && dt.IsFloat() {
			c = math.Max(c, own.Eps()/dt.Eps())
		}
	}
	return c
}

// ErrorTerms is the number of terms that errors grow with. It is n, or 1 where intermediate
// roundings to a 16-bit dtype outweigh those of sums; each of these is counted.
func ErrorTerms(dt tensor.DType, n int) int {
	if dt.IsReduced() {
		return 1
	}
	return n
}

// HalfPrecisionFactor is how much larger a bound on errors relative to the
// largest element is where every step rounds to 16 bits: twice half a unit in
// the last place.
func HalfPrecisionFactor(dt tensor.DType) float64 {
	if !dt.IsReduced() {
		return 1
	}
	return 1 + dt.Eps()/(8*math.Ldexp(1, -24))
}

// ElementwiseError is the error class of functions such as exp: a few ulp, of
// gradients too.
var ElementwiseError = opdef.Error{Class: opdef.Elementwise}

// ExactError is the error class of functions whose result and gradient are
// exact.
var ExactError = opdef.Error{Class: opdef.Exact}

// RoundedError is the error class of functions rounded once.
var RoundedError = opdef.Error{Class: opdef.Rounded}

// MovedError is the error class of functions that move elements, each perhaps to several places: their gradients add
// up what came from there.
var MovedError = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 1}}
