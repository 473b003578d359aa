package compose

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// Roundoffs of the accumulators that package compare assumes.
const (
	u32 = 0x1p-24
	u64 = 0x1p-53
	// unitTerms is c(1) of package compare, the factor of u for a sum of one term.
	unitTerms = 8
)

// unit is what bounds are multiples of: c(1)*u.
func (g *Graph) unit() float64 {
	if g.double {
		return unitTerms * u64
	}
	return unitTerms * u32
}

// growth is c(n)/c(1), how much larger than that of one term the error of a sum
// of n terms may be, relative to the sum of their magnitudes.
func growth(n int) float64 { return (4 + 4*math.Sqrt(float64(min(max(n, 1), 1<<20)))) / unitTerms }

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
// operator that is exact to ulps units in the last place: 0.5 if it rounds once.
func (g *Graph) rounding(dt tensor.DType, ulps float64) float64 {
	if dt = dt.Real(); !dt.IsFloat() {
		return 0
	}
	if dt.Size() <= 2 { // computed in float32, then rounded
		return g.of(max(2, ulps) * dt.Eps() / g.unit())
	}
	return g.of(ulps * dt.Eps() / g.unit())
}

// bound is the error of v, of its shape, as it enters bounds; a tensor of zeros
// if it has none.
func (v *Value) bound() *tensor.Tensor {
	if v.errors == nil {
		return tensor.Full(tensor.Float64, v.T.Shape, 0.0)
	}
	return v.errors()
}

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
	return opdef.Map(tensor.Float64, v.errors(), func(b float64) float64 {
		if s := g.plain(b); s == s {
			return s
		}
		return 0 // of NaN, which only NaN equals
	})
}

// through is what an error of bound b at x does to f(x) = y: the larger
// deviation at the ends of the interval. An interval narrower than float64
// resolves is widened, and what it gives narrowed again.
func (g *Graph) through(f func(float64) float64, x, y, b float64) float64 {
	if b == 0 || math.IsInf(x, 0) || x != x {
		return 0
	}
	d := g.plain(b) * g.unit()
	h := max(d, 0x1p-26*math.Abs(x))
	far := 0.0
	for _, z := range [2]float64{f(x + h), f(x - h)} {
		if dev := math.Abs(z - y); dev > far { // NaN, beyond the domain, is no deviation
			far = dev
		}
	}
	return g.of(far / h * d / g.unit())
}

// throughComplex is through for functions of complex numbers: the larger
// deviation along both axes.
func (g *Graph) throughComplex(f func(complex128) complex128, x, y complex128, b float64) float64 {
	if b == 0 || cmplx.IsInf(x) || cmplx.IsNaN(x) {
		return 0
	}
	d := g.plain(b) * g.unit()
	h := max(d, 0x1p-26*cmplx.Abs(x))
	far := 0.0
	for _, step := range [4]complex128{complex(h, 0), complex(-h, 0), complex(0, h), complex(0, -h)} {
		if dev := cmplx.Abs(f(x+step) - y); dev > far {
			far = dev
		}
	}
	return g.of(far / h * d / g.unit())
}
