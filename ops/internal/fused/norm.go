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
	n := x.Dim() - weight.Dim()
	if !x.DType().IsFloat() || weight.Dim() == 0 || n < 0 || !slices.Equal(x.Shape()[n:], weight.Shape()) {
		g.Refuse("", "the last dimensions of %s are not those of the weight %s", x.T.Meta(), weight.T.Meta())
	}
	dims := make([]int, weight.Dim())
	for i := range dims {
		dims[i] = n + i
	}
	x, weight = g.AtLeast(x, tensor.Float32), g.AtLeast(weight, tensor.Float32)
	rstd = g.Rsqrt(g.Shift(g.Mean(g.Square(x), true, dims...), eps))
	if more != 0 {
		weight = g.Shift(weight, more)
	}
	return g.Mul(g.Mul(x, rstd), weight), rstd
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
