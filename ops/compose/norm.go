package compose

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Norm is the vector norm of order p over dims (none: all), as one primitive.
// Where it is 0 it passes no gradient on. 16-bit norms are computed in float32.
func (g *Graph) Norm(x *Value, p float64, keepdim bool, dims ...int) *Value {
	dims, err := opdef.Dims("dim", dims, x.Dim())
	g.Check(err)
	dt := x.DType().Real()
	if !dt.IsFloat() {
		g.Refuse("", "want a floating or complex dtype, got %s", dt)
	}
	if n := x.Shape(); p < 0 || math.IsInf(p, 1) {
		for _, d := range dims {
			if n[d] == 0 {
				g.Refuse("dim", "a norm of order %v of no elements is not defined", p)
			}
		}
	}
	g.normed = true
	return g.AsOne(func(in []*Value) *Value {
		wide := tensor.Float32
		if x.DType().IsComplex() {
			wide = wide.Complex()
		}
		return g.To(g.norm(g.AtLeast(in[0], wide), p, keepdim, dims), dt)
	}, x)
}

func (g *Graph) norm(x *Value, p float64, keepdim bool, dims []int) *Value {
	square := func(x *Value) *Value {
		if x.DType().IsComplex() {
			return g.Add(g.Square(g.Real(x)), g.Square(g.Imag(x)))
		}
		return g.Square(x)
	}
	sum := func(x *Value) *Value { return g.sum(x, x.DType(), dims, keepdim) }
	if p == 2 {
		return g.powerOf(sum(square(x)), 0.5)
	}
	size := x
	if x.DType().IsComplex() {
		size = g.powerOf(square(x), 0.5)
	}
	size = g.Abs(size)
	switch {
	case math.IsInf(p, 1):
		return g.Amax(size, keepdim, dims...)
	case math.IsInf(p, -1):
		return g.Amin(size, keepdim, dims...)
	case p == 0:
		return sum(g.Derived(opdef.Map(size.DType(), size.T, func(x float64) float64 {
			if x != 0 {
				return 1
			}
			return 0
		}), size))
	case p == 1:
		return sum(size)
	}
	return g.powerOf(sum(g.powerOf(size, p)), 1/p)
}

// powerOf is x^k, which at 0 passes no gradient on.
func (g *Graph) powerOf(x *Value, k float64) *Value {
	power := func(x *Value) *Value { return g.Pow(x, k) }
	if k == 0.5 {
		power = g.Sqrt
	}
	none := g.Derived(opdef.Map(tensor.Bool, x.T, func(x float64) int64 {
		if x == 0 {
			return 1
		}
		return 0
	}), x).T
	dt := x.DType()
	return g.Where(none, g.Full(dt, nil, math.Pow(0, k)), power(g.Where(none, g.Full(dt, nil, 1), x)))
}
