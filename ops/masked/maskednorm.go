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
	Cases: opdef.Calls[maskedNormArgs](`
		f64[3, 4]{apart 0}, ord=2, mask=bool[3, 4]{= 1 0 0 1 1 0 1 1 1 1 0 0}
		f64[3, 4]{apart 0}, ord=1, dim=[1], mask=bool[4]{= 1 0 1 1}
		f64[3, 4]{apart 0}, ord=3.0, dim=[0, 1], keepdim=True; f32[2, 3], ord=inf, mask=bool[2, 3]{= 1 1 1 0 1 1}
		bf16[4], ord=2, mask=bool[4]{= 1 0 1 1}`),
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
	Cases: opdef.Calls[maskedNormalizeArgs](`
		f64[3, 4]{apart 0}, 2.0, 1, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}
		f64[3, 4]{apart 0}, 1.0, 0, mask=bool[4]{= 1 0 1 1}
		f64[3, 4]{distinct}, -inf, 1, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}; f32[5], 2.0, 0
		bf16[2, 3], 2.0, 1; c128[4], 3.0, 0, mask=bool[4]{= 1 0 1 1}; f64[]{apart 0}, 2.0, 0`),
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
