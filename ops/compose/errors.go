package compose

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// unitTerms is c(1), the factor of u for a sum of one term.
var unitTerms = roundoff.Growth(1)

// unit is what bounds are multiples of: c(1)*u.
func (g *Graph) unit() float64 {
	if g.double {
		return unitTerms * roundoff.U64
	}
	return unitTerms * roundoff.U32
}

// growth is c(n)/c(1), how much larger than that of one term the error of a sum
// of n terms may be, relative to the sum of their magnitudes.
func growth(n int) float64 { return roundoff.Growth(n) / unitTerms }

// of is how a magnitude enters bounds.
func (g *Graph) of(x float64) float64 {
	if g.squared {
		return x * x
	}
	return math.Abs(x)
}

// plain is the magnitude of which b is the bound.
func (g *Graph) plain(b float64) float64 {
	if g.squared {
		return math.Sqrt(b)
	}
	return b
}

// rounding is the bound of the rounding of a value of magnitude 1 to dt by an
// operator that is exact to ulps units in the last place: 0.5 if it rounds once,
// 0 if it never does.
func (g *Graph) rounding(dt tensor.DType, ulps float64) float64 {
	if dt = dt.Real(); !dt.IsFloat() || ulps == 0 {
		return 0
	}
	// Of 16 bits: computed in float32, then rounded. Nothing is computed in 8 bits: values are only rounded to them.
	if dt.IsReduced() && dt.Size() > 1 {
		return g.of(max(2, ulps) * dt.Eps() / g.unit())
	}
	return g.of(ulps * dt.Eps() / g.unit())
}

// digits is the magnitude m, as it enters bounds, of which the rounding of a number to dt is a part: at least that of
// the smallest number that has all its digits there. 0 is exact.
func (g *Graph) digits(dt tensor.DType, m float64) float64 {
	if dt = dt.Real(); m == 0 || !dt.IsReduced() {
		return m
	}
	return max(m, g.of(dt.ULP(0)/dt.Eps()))
}

// subnormal is the bound of the rounding of a number to dt that is too small to have all its digits there.
func (g *Graph) subnormal(dt tensor.DType) float64 {
	if !dt.IsReduced() {
		return 0
	}
	return g.of(2 * dt.ULP(0) / g.unit())
}

// bound is the error of v, of its shape, as it enters bounds; a tensor of zeros
// if it has none.
func (v *Value) bound() *tensor.Tensor {
	if v.errors == nil {
		return tensor.Full(tensor.Float64, v.T.Shape, 0.0)
	}
	return v.errors()
}

// passed is the bound of a value that has the errors of v.
func (v *Value) passed(*tensor.Tensor) *tensor.Tensor { return v.bound() }

// magnitude is |t| as it enters bounds.
func (g *Graph) magnitude(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		return opdef.Map(tensor.Float64, t, func(z complex128) float64 { return g.of(cmplx.Abs(z)) })
	}
	return opdef.Map(tensor.Float64, t, func(x float64) float64 { return g.of(x) })
}

// scaled is k*t of a bound.
func scaled(t *tensor.Tensor, k float64) *tensor.Tensor {
	return opdef.Map(tensor.Float64, t, func(x float64) float64 { return times(k, x) })
}

// times is a*b, 0 if either is: an error that is not there stays so at a pole.
func times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// plus is a+b, elementwise.
func plus(a, b *tensor.Tensor) *tensor.Tensor {
	return opdef.Zip(tensor.Float64, a, b, func(x, y float64) float64 { return x + y })
}

// scale is S of a result: its bound as a magnitude.
func (g *Graph) scale(v *Value) *tensor.Tensor {
	if v.errors == nil {
		return tensor.Full(tensor.Float64, v.T.Shape, 0.0)
	}
	return g.sizes(v.errors())
}

// least is what is nowhere more than S of a result, nil if nothing of the kind is known.
func (g *Graph) least(v *Value) *tensor.Tensor {
	if v.least == nil {
		return nil
	}
	return g.sizes(v.least)
}

// sizes are bounds as magnitudes.
func (g *Graph) sizes(bounds *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(tensor.Float64, bounds, func(b float64) float64 {
		if s := g.plain(b); s == s {
			return s
		}
		return 0 // of NaN, which only NaN equals
	})
}

// A number is an element of a floating or complex tensor.
type number interface{ float64 | complex128 }

// numbers are what bounds ask of them.
type numbers[T number] struct {
	abs, real  func(x T) float64
	directions []T
	along      func(direction T, h float64) T
}

var (
	reals = numbers[float64]{math.Abs, func(x float64) float64 { return x }, []float64{1, -1},
		func(x, h float64) float64 { return x * h }}
	complexes = numbers[complex128]{cmplx.Abs, func(z complex128) float64 { return real(z) },
		[]complex128{1, -1, 1i, -1i}, func(z complex128, h float64) complex128 { return complex(real(z)*h, imag(z)*h) }}
)

// through is what an error of bound b at x does to f(x) = y: the largest deviation at
// the ends of the interval, of complex numbers along both axes. An interval narrower
// than float64 resolves is widened, and what it gives narrowed again.
func through[T number](g *Graph, num numbers[T], f func(T) T, x, y T, b float64) float64 {
	size := num.abs(x)
	if b == 0 || math.IsInf(size, 0) || size != size {
		return 0
	}
	d := g.plain(b) * g.unit()
	h := max(d, 0x1p-26*size)
	far := 0.0
	for _, direction := range num.directions {
		if dev := num.abs(f(x+num.along(direction, h)) - y); dev > far { // NaN, beyond the domain, is no deviation
			far = dev
		}
	}
	return g.of(far / h * d / g.unit())
}
