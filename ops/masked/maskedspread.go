package masked

import (
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// kept is x, with a number in place of the elements that the mask leaves out.
func kept(g *compose.Graph, x *compose.Value, mask *tensor.Tensor, with neutral) *compose.Value {
	if mask == nil {
		return x
	}
	_, wide, err := masked("mask", x.T, mask, with)
	g.Check(err)
	fill, err := with(x.DType())
	g.Check(err)
	return g.Where(wide, x, g.Full(x.DType(), nil, fill.Float64()))
}

// maskedSpread follows torch's own composition (torch/masked/_ops.py, _std_var).
func maskedSpread(name, summary string, root bool) *opdef.Entry {
	type A = maskedSpreadArgs
	return compose.Declare(compose.Op[A]{
		Schema: "masked_" + name +
			"(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, " +
			"dtype? dtype=None, Tensor? mask=None) -> Tensor",
		Names: maskedNames(name),
		Doc: opdef.Doc{Summary: summary,
			Formula: "sum(|x - mean|^2) / (n - correction) over the kept elements; unbiased=True is a correction of 1, False of 0",
			Notes: "The correction is 1 if neither is given, as in torch 2; torch 1 took 0. nan where the mask keeps none. The result of complex input is complex. Masked elements get no " +
				"gradient."},
		Cases: opdef.Calls[A](`
			f64[3, 5], dim=[1], mask=bool[3, 5]{= 1 0 1 1 1 1 0 1 1 1 1 0 1 1 1}
			f64[4, 3], unbiased=False, mask=bool[4, 3]{= 1 0 1 1 0 1 1 0 1 1 0 1}; f32[3, 5], dim=[-1], keepdim=True, correction=2
			bf16[6], dim=[0], unbiased=True; c128[5], unbiased=True, mask=bool[5]{= 1 0 1 1 1}`),
	}, compose.Unfused, func(g *compose.Graph, a *A) compose.Values {
		dt := a.Input.DType
		switch {
		case a.Dtype != nil:
			dt = *a.Dtype
		case dt.Kind() < tensor.KindFloat:
			dt = tensor.Float32
		}
		sums := dt // what squares are added in
		if dt.Kind() < tensor.KindFloat {
			sums = tensor.Float32
		}
		dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
		g.Check(err)
		_, wide, err := masked("mask", a.Input, a.Mask, zeroNeutral)
		g.Check(err)
		n := opdef.Sum(tensor.Float64, maskOnes(wide, a.Input.Shape), dims, true)
		x, correction := g.Arg("input", a.Input), a.correction()
		sum := func(x *compose.Value, dt tensor.DType, keepdim bool) *compose.Value {
			return g.Sum(kept(g, g.To(x, dt), a.Mask, zeroNeutral), keepdim, dims...)
		}
		d := g.Sub(x, g.Div(sum(x, dt, true), g.Const(opdef.Cast(n, tensor.Int64))))
		total := sum(g.Mul(d, g.Conj(d)), sums, a.Keepdim)
		free := opdef.Map(sums.Real(), n, func(n float64) float64 { return math.Max(n-correction, 0) })
		y := g.To(g.Div(total, g.Const(free.Reshape(total.Shape()...))), dt)
		if root {
			y = g.Sqrt(y)
		}
		return compose.Values{y}
	})
}
