package fused

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// CheckRows refuses a weight that is not one number for each element of a row of x.
func CheckRows(g *compose.Graph, x, weight *compose.Value) {
	n := x.Dim() - 1
	if n < 0 || !x.DType().IsFloat() {
		g.Refuse("input", "want floating rows, got %s", x.T.Meta())
	}
	if weight.Dim() != 1 || weight.Shape()[0] != x.Shape()[n] {
		g.Refuse("weight", "want %d numbers, one for each element of a row, got %s", x.Shape()[n], weight.T.Meta())
	}
}

// RMSNorm is x, in at least float32, over its root mean square along the last
// dimensions, those of weight, times weight and one more, in that dtype; and the
// reciprocal of the root, with dimensions of size 1 where the mean was taken.
func RMSNorm(g *compose.Graph, x, weight *compose.Value, eps, more float64) (y, rstd *compose.Value) {
	y, rstd = Normed(g, x, weight.Shape(), eps)
	if weight = g.AtLeast(weight, tensor.Float32); more != 0 {
		weight = g.Shift(weight, more)
	}
	return g.Mul(y, weight), rstd
}

// Normed is x, in at least float32, over its root mean square along the last dimensions, those
// of shape; and the reciprocal of the root.
func Normed(g *compose.Graph, x *compose.Value, shape []int, eps float64) (y, rstd *compose.Value) {
	dims := lastDims(g, x, shape)
	x = g.AtLeast(x, tensor.Float32)
	rstd = g.Rsqrt(g.Shift(g.Mean(g.Square(x), true, dims...), eps))
	return g.Mul(x, rstd), rstd
}

// Centred is x, in at least float32, less its mean along the last dimensions, those of shape,
// over its standard deviation; the mean, and the reciprocal of the deviation.
func Centred(g *compose.Graph, x *compose.Value, shape []int, eps float64) (y, mean, rstd *compose.Value) {
	dims := lastDims(g, x, shape)
	x = g.AtLeast(x, tensor.Float32)
	mean = g.Mean(x, true, dims...)
	x = g.Sub(x, mean)
	rstd = g.Rsqrt(g.Shift(g.Mean(g.Square(x), true, dims...), eps))
	return g.Mul(x, rstd), mean, rstd
}

// lastDims are the last dimensions of x, those of shape.
func lastDims(g *compose.Graph, x *compose.Value, shape []int) []int {
	n := x.Dim() - len(shape)
	if !x.DType().IsFloat() || len(shape) == 0 || n < 0 || !slices.Equal(x.Shape()[n:], shape) {
		g.Refuse("", "the last dimensions of %s are not %v", x.T.Meta(), shape)
	}
	dims := make([]int, len(shape))
	for i := range dims {
		dims[i] = n + i
	}
	return dims
}

// Affine is y times weight plus bias, of the shape that was normalized; either may be nil.
func Affine(g *compose.Graph, y, weight, bias *compose.Value, shape []int) *compose.Value {
	for _, p := range []struct {
		name string
		v    *compose.Value
		with func(x, y *compose.Value) *compose.Value
	}{{"weight", weight, g.Mul}, {"bias", bias, g.Add}} {
		if p.v == nil {
			continue
		}
		if !slices.Equal(p.v.Shape(), shape) {
			g.Refuse(p.name, "want the shape %v, got %s", shape, p.v.T.Meta())
		}
		y = p.with(y, g.AtLeast(p.v, tensor.Float32))
	}
	return y
}

// Sum is x + residual of one shape and dtype, in at least float32.
func Sum(g *compose.Graph, name string, x, residual *compose.Value) *compose.Value {
	CheckSame(g, name, x, residual)
	return g.Add(g.AtLeast(x, tensor.Float32), g.AtLeast(residual, tensor.Float32))
}

// CheckSame refuses y, the argument name, if it has not the shape and dtype of x.
func CheckSame(g *compose.Graph, name string, x, y *compose.Value) {
	if !slices.Equal(x.Shape(), y.Shape()) || x.DType() != y.DType() {
		g.Refuse(name, "want %s, got %s", x.T.Meta(), y.T.Meta())
	}
}
