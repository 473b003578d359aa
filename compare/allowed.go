package compare

import (
	"math"

	"github.com/optool/optool/tensor"
)

// Allowed is how far each element of a value may be from the reference before Check calls it wrong: float64, in the
// shape of the reference. Parts of complex numbers may each be off so far. It is infinite where any value may be right,
// as near the largest value of the dtype. Where Check allows several results, it covers what is between them.
//
// Strict bounds do not count the accumulator of a low precision that a warning is about: those that a value fails by
// whose errors are none of such an accumulator, as a common factor is.
//
// The nearest value of the dtype is always within it. What Check finds of elements together, and signs of zeros, are
// not in it. It is nil for values that cannot be compared element by element. It panics with a *tensor.ReadError if a
// storage cannot be read.
func Allowed(ref *tensor.Tensor, m Model, override *Tolerance, strict bool) *tensor.Tensor {
	if !ref.DType.Computable() || tensor.CheckSize(ref.Shape) != nil {
		return nil
	}
	c := newChecker(ref, ref, m, Tolerance{}, override)
	c.begin()
	c.setBound(Tolerance{})
	if strict {
		c.bound.lowest = ""
	}
	out := make([]float64, c.n)
	if c.dt.IsComplex() {
		c.complexAllowed(out)
	} else {
		c.realAllowed(out)
	}
	return tensor.New(tensor.Float64, ref.Shape, out)
}

// margins are what the bounds of elements count: S of each, and the sum of the magnitudes of its partial sums.
func (c *checker) margins() (scale, partial []float64) {
	scale, partial = make([]float64, c.n), c.partials()
	if s := c.scale(whole); s != nil {
		for i, x := range tensor.Data[float64](s) {
			if x = math.Abs(x); x <= math.MaxFloat64 {
				scale[i] = x
			}
		}
	}
	if partial == nil {
		partial = make([]float64, c.n)
	}
	return scale, partial
}

// margin is what an element of exact value r and magnitude size may be off by: by no more than a warning is about.
func (c *checker) margin(r, size, scale, partial float64) float64 {
	b := &c.bound
	switch {
	case c.override != nil:
		return c.orULPs(c.override.of(size), size)
	case b.ulps == 0 && b.sum == 0:
		return 0
	}
	return b.most(r, b.ulps*b.ulp(size), scale, partial)
}

func (c *checker) realAllowed(out []float64) {
	exact := tensor.Data[float64](c.ref)
	scale, partial := c.margins()
	others := [][]float64{exact}
	if c.override == nil && c.model.Else != nil {
		for _, t := range c.model.Else() {
			others = append(others, tensor.Data[float64](t))
		}
	}
	for i, r := range exact {
		if math.IsNaN(r) || math.IsInf(r, 0) {
			continue
		}
		for _, other := range others {
			out[i] = math.Max(out[i], c.reach(r, other[i], scale[i], partial[i]))
		}
	}
}

// reach is how far from an exact value an element may be that is right if it is near another value.
func (c *checker) reach(exact, other, scale, partial float64) float64 {
	if math.IsNaN(other) || math.IsInf(other, 0) {
		return math.Inf(1)
	}
	margin := c.margin(other, math.Abs(other), scale, partial)
	if !c.dt.IsFloat() {
		return math.Abs(other-exact) + margin
	}
	nearest := c.dt.Round(other)
	if math.IsNaN(nearest) || c.override == nil && c.bound.overflow-math.Abs(other) <= margin {
		return math.Inf(1)
	}
	return math.Max(math.Abs(nearest-exact), math.Abs(other-exact)+margin)
}

func (c *checker) complexAllowed(out []float64) {
	scale, partial := c.margins()
	part := c.dt.Real()
	for i, r := range tensor.Data[complex128](c.ref) {
		margin := c.margin(modulus(r), modulus(r), scale[i], partial[i])
		for _, x := range []float64{real(r), imag(r)} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				continue
			}
			if c.override == nil && c.bound.overflow-math.Abs(x) <= margin {
				margin = math.Inf(1)
			}
			out[i] = math.Max(out[i], math.Max(margin, math.Abs(part.Round(x)-x)))
		}
	}
}

// Beyond is how many elements are further from the reference than they may be, as Allowed says.
func Beyond(got, ref, allowed *tensor.Tensor) (n int) {
	const block = 1 << 12
	x, y, a := make([]complex128, block), make([]complex128, block), make([]float64, block)
	for lo := 0; lo < got.Numel(); lo += block {
		k := min(block, got.Numel()-lo)
		tensor.Load(got, lo, x[:k])
		tensor.Load(ref, lo, y[:k])
		tensor.Load(allowed, lo, a[:k])
		for i := range k {
			far := func(v, w float64) bool {
				return !same(v, w) && !math.IsInf(a[i], 1) && !(math.Abs(v-w) <= a[i])
			}
			n += count(far(real(x[i]), real(y[i])) || far(imag(x[i]), imag(y[i])))
		}
	}
	return n
}
