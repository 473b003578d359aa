package fused

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Into is y as it is written to the argument out, of its shape, in its dtype.
func Into(g *compose.Graph, name string, out *tensor.Tensor, y *compose.Value) *compose.Value {
	g.Arg(name, out)
	if !slices.Equal(out.Shape, y.Shape()) || out.DType.Kind() != y.DType().Kind() {
		g.Refuse(name, "want shape %s for a result of dtype %s, got %s", tensor.ShapeString(y.Shape()), y.DType(),
			out.Meta())
	}
	return g.To(y, out.DType)
}
