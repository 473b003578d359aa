package masked

import (
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/linalg"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var maskedNorm = maskedEntry(opdef.Planned[*maskedNormArgs, *maskedCall]{
	Schema: "masked_norm(Tensor input, Scalar ord=2.0, int[1]? dim=None, *, bool keepdim=False, dtype? dtype=None, " +
		"Tensor? mask=None) -> Tensor",
	Names: maskedNames("norm"), Doc: maskedDoc("norm", "Vector norm of the elements a mask keeps", "",
		"0, or inf for ord=-inf"),
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 6}},
	Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
	Cases: func(g opdef.Gen) []*maskedNormArgs {
		x := g.Apart(tensor.Float64, []float64{0}, 3, 4)
		return []*maskedNormArgs{
			{Input: x, Ord: opdef.Int(2), Mask: someOf(g, 3, 4)}, {Input: x, Ord: opdef.Int(1), Dim: []int{1},
				Mask: someOf(g, 4)}, {Input: x, Ord: opdef.Float(3), Dim: []int{0, 1}, Keepdim: true},
			{Input: g.Normal(tensor.Float32, 2, 3), Ord: opdef.Float(math.Inf(1)), Mask: someOf(g, 2, 3)},
			{Input: g.Normal(tensor.BFloat16, 4), Ord: opdef.Int(2), Mask: someOf(g, 4)},
		}
	},
}, func(a *maskedNormArgs) (*maskedCall, error) {
	p := a.Ord.Float64()
	return newMasked(elements.MustFind(linalg.Table(), "linalg_vector_norm"), "x", a.Input, a.Mask, normNeutral(p),
		func(x *tensor.Tensor) any {
			return &linalg.VectorNormArgs{X: x, Ord: a.Ord, Dim: a.Dim, Keepdim: a.Keepdim, Dtype: a.Dtype}
		})
}, func(a *maskedNormArgs) int { return elements.TermsOver(a.Input.Shape, a.Dim) })

// normNeutral is the element that does not change a norm of order p.
func normNeutral(p float64) neutral {
	if math.IsInf(p, -1) {
		return highestNeutral
	}
	return zeroNeutral
}

var maskedNormalize = compose.Declare(compose.Op[maskedNormalizeArgs]{
	Schema: "masked_normalize(Tensor input, float ord, int dim, *, float eps=1e-12, dtype? dtype=None, Tensor? " +
		"mask=None) -> Tensor",
	Names: maskedNames("normalize"),
	Doc: opdef.Doc{Summary: "Kept elements scaled to norm 1 along a dimension",
		Formula: "where(mask, input, 0) / max(norm(kept, ord, dim), eps)",
		Notes:   "Masked elements get no gradient."},
	Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
	Exempt: map[string]string{"dtypes": "eps is rounded, to 0 in float16"},
	Cases: func(g opdef.Gen) []*maskedNormalizeArgs {
		x := g.Apart(tensor.Float64, []float64{0}, 3, 4)
		return []*maskedNormalizeArgs{
			{Input: x, Ord: 2, Dim: 1, Eps: 1e-12, Mask: maskOfRows(3, 4)}, {Input: x, Ord: 1, Dim: 0, Eps: 1e-12,
				Mask: maskOfRows(4)}, {Input: g.Distinct(tensor.Float64, 3, 4), Ord: math.Inf(-1), Dim: 1, Eps: 1e-12,
				Mask: maskOfRows(3, 4)},
			{Input: g.Normal(tensor.Float32, 5), Ord: 2, Dim: 0, Eps: 1e-12}, {Input: g.Normal(tensor.BFloat16, 2, 3),
				Ord: 2, Dim: 1, Eps: 1e-12}, {Input: g.Normal(tensor.Complex128, 4), Ord: 3, Dim: 0, Eps: 1e-12,
				Mask: maskOfRows(4)},
			{Input: g.Apart(tensor.Float64, []float64{0}), Ord: 2, Eps: 1e-12},
		}
	},
}, compose.Unfused, func(g *compose.Graph, a *maskedNormalizeArgs) compose.Values {
	x := g.Arg("input", a.Input)
	if x.DType().Kind() < tensor.KindFloat {
		g.Refuse("input", "want a floating or complex dtype, got %s", x.DType())
	}
	of := kept(g, x, a.Mask, normNeutral(a.Ord))
	dims, err := opdef.Dims("dim", []int{a.Dim}, x.Dim())
	g.Check(err)
	if a.Dtype != nil {
		of = g.To(of, *a.Dtype)
	}
	norm := g.Norm(of, a.Ord, true, dims...)
	eps := g.Full(norm.DType(), nil, norm.DType().Round(a.Eps)) // 0 in float16
	return compose.Values{g.Div(kept(g, x, a.Mask, zeroNeutral), g.Maximum(norm, eps))}
})
