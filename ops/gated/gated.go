// Package gated declares activations with learned slopes and gates, compositions.
package gated

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry { return gatedOps }

var gatedOps = []*opdef.Entry{
	compose.Declare(compose.Op[preluArgs]{
		Schema: "prelu(Tensor self, Tensor weight) -> Tensor", Names: "prelu Tensor.prelu F.prelu",
		Doc: opdef.Doc{Summary: "Leaky rectifier with a slope for each channel",
			Formula: "self if self > 0, else weight*self",
			Notes: "weight has one element or one for each channel, dimension 1 of self (N, C, ...). The gradient " +
				"at 0 is weight.", Source: "torch.nn.functional.prelu"},
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Cases: opdef.Calls[preluArgs](`
			f64[2, 3, 4]{apart 0}, f64[3]; f64[5]{apart 0}, f64[1]; f64[]{apart 0}, f64[1]
			f32[2, 3]{apart 0}, f32[3]; bf16[2, 3]{apart 0}, bf16[1]; f32[0, 3], f32[3]`),
	}, compose.Unfused, prelu), // since 2.0 torch brings weight to the dimensions of self first
	compose.Declare(compose.Op[gluArgs]{
		Schema: "glu(Tensor self, int dim=-1) -> Tensor", Names: "F.glu _C._nn.glu",
		Doc:   opdef.Doc{Summary: "Gated linear unit", Formula: "a * sigmoid(b), a and b the halves of self along dim"},
		Cases: opdef.Calls[gluArgs](`f64[3, 4]; f64[2, 4, 3], dim=1; f32[6], dim=0; bf16[2, 4]; f32[0, 4]`),
	}, compose.Fused, glu),
}

type preluArgs struct{ Self, Weight *tensor.Tensor }

type gluArgs struct {
	Self *tensor.Tensor
	Dim  int
}

// prelu gives every channel, dimension 1 of self, its slope.
func prelu(g *compose.Graph, a *preluArgs) compose.Values {
	x, w := g.Arg("self", a.Self), g.Arg("weight", a.Weight)
	channels, shape := 1, slices.Repeat([]int{1}, x.Dim())
	if x.Dim() > 1 {
		channels = x.Shape()[1]
	}
	switch n := a.Weight.Numel(); {
	case !x.DType().IsFloat():
		g.Refuse("self", "not defined for dtype %s", x.DType())
	case w.DType() != x.DType():
		g.Refuse("weight", "want dtype %s, got %s", x.DType(), w.DType())
	case n != 1 && x.Dim() == 0:
		g.Refuse("weight", "want one element for a 0-d tensor, got %d", n)
	case n != 1 && w.Dim() > 1:
		g.Refuse("weight", "want at most 1 dim, got shape %s", tensor.ShapeString(w.Shape()))
	case n != 1 && n != channels:
		g.Refuse("weight", "want 1 or %d elements, got %d", channels, n)
	case n != 1:
		shape[1] = n
	}
	return compose.Values{g.Binary("", opdef.Binary{
		Error: elements.RoundedError,
		F:     func(x, w float64) float64 { return x * elements.IfElse(x > 0, 1, w) },
		DF: func(x, w, _ float64) (dx, dw float64) {
			return elements.IfElse(x > 0, 1, w), elements.IfElse(x > 0, 0, x)
		},
	}, x, g.Reshape(w, shape...))}
}

// glu multiplies the first half along dim by the sigmoid of the second, which torch
// rounds to the dtype before it computes gradients (glu_backward_cpu_out,
// ATen/native/GatedLinearUnit.cpp).
func glu(g *compose.Graph, a *gluArgs) compose.Values {
	x := g.Arg("self", a.Self)
	switch {
	case !x.DType().IsFloat():
		g.Refuse("self", "not defined for dtype %s", x.DType())
	case x.Dim() == 0:
		g.Refuse("self", "a 0-d tensor has no halves")
	}
	halves := g.Chunk(x, 2, a.Dim)
	return compose.Values{g.Mul(halves[0], g.Sigmoid(halves[1]))}
}
