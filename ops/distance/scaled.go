package distance

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// scaledOps are cosines of angles and norms of differences, which follow torch's
// own compositions (ATen, native/Distance.cpp).
var scaledOps = []*opdef.Entry{
	compose.Declare(compose.Op[cosineArgs]{
		Schema: "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
		Names:  "F.cosine_similarity cosine_similarity",
		Doc: opdef.Doc{Summary: "Cosine of the angle between vectors",
			Formula: "sum(x1*x2) / (max(|x1|, eps) * max(|x2|, eps))", Notes: "The limit eps passes the gradient on."},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Cases: opdef.Calls[cosineArgs](`
			f64[3, 4], f64[3, 4]; f64[3, 4], f64[4], dim=-1; f64[2, 3, 4], f64[2, 1, 4], dim=0
			f32[5], f32[5], dim=0; bf16[2, 3], bf16[2, 3]`),
	}, compose.Unfused, cosineSimilarity),
	compose.Declare(compose.Op[pairwiseArgs]{
		Schema: "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
		Names:  "F.pairwise_distance pairwise_distance",
		Doc: opdef.Doc{Summary: "Norm of the difference of vectors",
			Formula: "norm(x1 - x2 + eps, p) over the last dimension"},
		Cases: func(g opdef.Gen) []*pairwiseArgs {
			f64 := tensor.Float64
			return []*pairwiseArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), 2, 1e-6, false},
				{elements.DistinctOperand(g, f64, 3, 4), elements.DistinctOperand(g, f64, 3, 4), 1, 1e-6, true},
				{g.Normal(f64, 3, 4), g.Normal(f64, 4), 3, 1e-6, false},
				{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), 2, 1e-6, false},
				{g.Normal(tensor.BFloat16, 2, 3), g.Normal(tensor.BFloat16, 2, 3), 2, 1e-6, false},
				{g.Normal(tensor.Complex128, 3, 4), g.Normal(tensor.Complex128, 3, 4), 3, 1e-6, false},
				{g.Int(tensor.Int64, -4, 4, 3, 2), g.Int(tensor.Int64, 5, 9, 3, 2), 2, 1e-6, false},
			}
		},
	}, compose.Unfused, func(g *compose.Graph, a *pairwiseArgs) compose.Values {
		d := g.Shift(difference(g, g.Arg("x1", a.X1), g.Arg("x2", a.X2)), a.Eps)
		if d.Dim() == 0 {
			g.Refuse("x1", "want vectors, got a 0-d tensor")
		}
		return compose.Values{g.Norm(d, a.P, a.Keepdim, -1)}
	}),
	compose.Declare(compose.Op[distArgs]{
		Schema: "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Norm of a difference", Formula: "norm(self - other, p)"},
		Node: func(c *compose.Call, _ *opdef.Grad) (opdef.Node, error) {
			if a := c.Args().(*distArgs); !slices.Equal(a.Self.Shape, a.Other.Shape) {
				return opdef.Node{Skip: elements.GradOfOtherOp}, nil
			}
			return opdef.Node{}, nil
		},
		Cases: func(g opdef.Gen) []*distArgs {
			f64 := tensor.Float64
			return []*distArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), opdef.Int(2)},
				{elements.DistinctOperand(g, f64, 3, 4), elements.DistinctOperand(g, f64, 4), opdef.Int(1)},
				{g.Normal(f64, 3), g.Normal(f64, 3),
					opdef.Float(3)},
				{g.Normal(tensor.Float32, 2, 3), g.Normal(tensor.Float32, 2, 3), opdef.Float(2)},
				{g.Distinct(f64, 5), tensor.Full(f64, []int{5}, 0.0), opdef.Float(math.Inf(1))},
				{g.Normal(tensor.Complex128, 3, 4), g.Normal(tensor.Complex128, 4), opdef.Float(2)},
			}
		},
	}, compose.Fused, func(g *compose.Graph, a *distArgs) compose.Values {
		d := difference(g, g.Arg("self", a.Self), g.Arg("other", a.Other))
		return compose.Values{g.Norm(d, a.P.Float64(), false)}
	}),
}

type cosineArgs struct {
	X1, X2 *tensor.Tensor
	Dim    int
	Eps    float64
}

type pairwiseArgs struct {
	X1, X2  *tensor.Tensor
	P, Eps  float64
	Keepdim bool
}

type distArgs struct {
	Self, Other *tensor.Tensor
	P           opdef.Scalar
}

// cosineSimilarity is the sum of products of vectors divided by their norms,
// which eps limits behind autograd's back.
func cosineSimilarity(g *compose.Graph, a *cosineArgs) compose.Values {
	x, y := g.Arg("x1", a.X1), g.Arg("x2", a.X2)
	dt, _, err := opdef.Common(a.X1, a.X2)
	g.Check(err)
	if !dt.IsFloat() {
		g.Refuse("x1", "want a floating dtype, got %s", dt)
	}
	shape, err := tensor.Broadcast(x.Shape(), y.Shape())
	g.Check(err)
	dim, err := opdef.Dim("dim", a.Dim, len(shape))
	g.Check(err)
	unit := func(x *compose.Value) *compose.Value {
		if !x.DType().IsFloat() {
			x = g.To(x, dt)
		}
		x = g.Expand(x, shape...)
		norm := g.Norm(x, 2, true, dim)
		return g.Div(x, g.Overwrite(norm, g.Clamp(norm, norm.DType().Round(a.Eps), math.Inf(1))))
	}
	return compose.Values{g.Sum(g.Mul(unit(x), unit(y)), false, dim)}
}

// difference is x - y of numbers.
func difference(g *compose.Graph, x, y *compose.Value) *compose.Value {
	if x.DType() == tensor.Bool || y.DType() == tensor.Bool {
		g.Refuse("", "a difference is not defined for dtype bool")
	}
	return g.Sub(x, y)
}
