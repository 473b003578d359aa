package linalg

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type crossArgs struct {
	Self, Other *tensor.Tensor
	Dim         *int
}

// crossDim is the dimension given, or the first of size 3.
func crossDim(x *tensor.Tensor, dim *int) (int, error) {
	if dim != nil {
		return *dim, nil
	}
	d := slices.Index(x.Shape, 3)
	if d < 0 {
		return 0, opdef.Refuse("self", "shape %s has no dimension of size 3", tensor.ShapeString(x.Shape))
	}
	return d, nil
}

func crossOp(name, param, names string, which func(a *crossArgs) (int, error)) *opdef.Entry {
	return compose.Declare(compose.Op[crossArgs]{
		Schema: name + "(Tensor self, Tensor other, " + param + ") -> Tensor", Names: names,
		Doc: opdef.Doc{Summary: "Cross product of vectors of three elements",
			Formula: "out[i] = self[i+1]*other[i+2] - self[i+2]*other[i+1], indices modulo 3",
			Source:  "torch.linalg.cross"},
		Cases: func(g opdef.Gen) []*crossArgs {
			f64 := tensor.Float64
			return []*crossArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 4, 3), new(-1)}, {g.Normal(f64, 1, 3), g.Normal(f64, 5, 3), new(1)},
				{g.Normal(tensor.Float32, 3, 2), g.Normal(tensor.Float32, 3, 2), new(0)},
				{g.Normal(tensor.BFloat16, 2, 3), g.Normal(tensor.BFloat16, 2, 3), new(1)},
				{g.Normal(tensor.Complex128, 2, 3), g.Normal(tensor.Complex128, 2, 3), new(1)},
				{g.Int(tensor.Int64, -4, 4, 3), g.Int(tensor.Int64, -4, 4, 3), new(-1)},
			}
		},
	}, compose.Fused, func(g *compose.Graph, a *crossArgs) compose.Values {
		x, y := g.Arg("self", a.Self), g.Arg("other", a.Other)
		if x.Dim() != y.Dim() {
			g.Refuse("other", "want %d dimensions, got shape %s", x.Dim(), tensor.ShapeString(y.Shape()))
		}
		d, err := which(a)
		g.Check(err)
		d = g.Axis("dim", d, x)
		for _, v := range []*compose.Value{x, y} {
			if v.Shape()[d] != 3 {
				g.Refuse("dim", "want 3 elements along dimension %d, got shape %s", d, tensor.ShapeString(v.Shape()))
			}
		}
		if x.DType() == tensor.Bool {
			g.Refuse("self", "not defined for bool")
		}
		next := func(v *compose.Value, k int) *compose.Value { return g.Roll(v, d, -k) }
		return compose.Values{g.Sub(g.Mul(next(x, 1), next(y, 2)), g.Mul(next(x, 2), next(y, 1)))}
	})
}

var crossOps = []*opdef.Entry{
	crossOp("cross", "int? dim=None", "cross Tensor.cross",
		func(a *crossArgs) (int, error) { return crossDim(a.Self, a.Dim) }),
	crossOp("linalg_cross", "int? dim=-1", "linalg.cross", func(a *crossArgs) (int, error) {
		if a.Dim == nil {
			return -1, nil
		}
		return *a.Dim, nil
	}),
}
