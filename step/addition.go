package step

import (
	"math"

	"github.com/optool/optool/tensor"
)

// An addition is what values add up to, element by element: whole tensors, or the places of their samples.
type addition struct {
	sums  []float64
	sizes []float64 // the sums of the magnitudes of the parts, which may cancel
	n     float64   // how many parts
}

// add adds the samples of a value; false if it has another number of them.
func (a *addition) add(v *Value) bool { return a.addElements(v.content.numbers(v.DType)) }

// addElements adds the elements of a part; false if it has another number of them.
func (a *addition) addElements(part []float64) bool {
	if a.sums == nil {
		a.sums, a.sizes = make([]float64, len(part)), make([]float64, len(part))
	}
	if len(part) != len(a.sums) {
		return false
	}
	a.n++
	for i, x := range part {
		a.sums[i] += x
		a.sizes[i] += math.Abs(x)
	}
	return true
}

// sumOf adds up the samples of values; false if these cannot be added, or if there are none.
func sumOf(parts []*Value) (a addition, ok bool) {
	for _, g := range parts {
		if !a.add(g) {
			return a, false
		}
	}
	return a, len(parts) > 0
}

// is reports whether the samples of v are the sum, and whether they tell: zero would be the sum of some parts.
func (a *addition) is(v *Value) bool {
	telling, ok := a.near(v.content.numbers(v.DType), v.DType)
	return ok && telling >= min(few+1, len(a.sums))
}

// near reports whether elements are the sum up to its rounding in a dtype, and how many of them are further than that
// from zero.
func (a *addition) near(elements []float64, dt tensor.DType) (telling int, ok bool) {
	if len(elements) != len(a.sums) {
		return 0, false
	}
	for i, x := range elements {
		may := a.n * (dt.Eps()*a.sizes[i] + dt.ULP(0)/2)
		if !(math.Abs(x-a.sums[i]) <= may) {
			return 0, false
		}
		if math.Abs(x) > may {
			telling++
		}
	}
	return telling, true
}

// exceeds reports whether the sum is more than one of its parts: what the others add is beyond rounding in some places.
func (a *addition) exceeds(part []float64, dt tensor.DType) bool {
	for i, x := range part {
		if math.Abs(a.sums[i]-x) > a.n*(dt.Eps()*a.sizes[i]+dt.ULP(0)/2) {
			return true
		}
	}
	return false
}

// scaled is k times a sum, as far as rounding to a dtype leaves it.
func (a *addition) scaled(k float64, dt tensor.DType) addition {
	out := addition{make([]float64, len(a.sums)), make([]float64, len(a.sums)), 1}
	most := 0.0
	for _, x := range a.sums {
		most = max(most, math.Abs(x))
	}
	for i, x := range a.sums {
		out.sums[i] = k * x
		out.sizes[i] = math.Abs(k) * (4*a.sizes[i] + most*dt.SmallestNormal())
	}
	return out
}
