package normalization

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// scalingOps divide by norms. normalize and local_response_norm follow torch's
// own compositions (torch/nn/functional.py).
var scalingOps = []*opdef.Entry{
	compose.Declare(compose.Op[normalizeArgs]{
		Schema: "normalize(Tensor input, float p=2.0, int[1] dim=1, float eps=1e-12) -> Tensor",
		Names:  "F.normalize",
		Doc:    opdef.Doc{Summary: "Vectors scaled to norm 1", Formula: "input / max(norm(input, p, dim), eps)"},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Cases: opdef.Calls[normalizeArgs](`
			f64[3, 4]; f64[2, 3, 4]{apart 0}, p=3.0, dim=[0]; f64[3, 4]{apart 0}, p=1.0, dim=[-1]
			f64[3, 4], eps=100.0; f32[5], dim=[0]; bf16[2, 3]; f32[0, 3]; c128[3, 4]; c128[3, 2], p=3.0, dim=[0]
			f32[3, 133]{rows}; bf16[3, 133]{rows}; f32[3, 1030]{rows}`),
	}, compose.Unfused, func(g *compose.Graph, a *normalizeArgs) compose.Values {
		x := g.Arg("input", a.Input)
		norm := g.Norm(x, a.P, true, a.Dim...)
		norm = g.Clamp(norm, norm.DType().Round(a.Eps), math.Inf(1)) // 0 in float16
		return compose.Values{g.Div(x, g.Expand(norm, x.Shape()...))}
	}),
	compose.Declare(compose.Op[rmsNormArgs]{
		Schema: "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
		Names:  "torch.ops.aten._fused_rms_norm",
		Doc: opdef.Doc{Summary: "Scaling by the root mean square over the last dimensions, with 1/sqrt(mean + eps)",
			Formula: "input / sqrt(mean(input^2) + eps) * weight, 1 / sqrt(mean(input^2) + eps)",
			Notes: "The second result is float32 at least and takes no gradient. eps is by default the machine epsilon of " +
				"the dtype, of float32 for 16 bits.",
			Source: "aten/src/ATen/native/layer_norm.cpp"},
		Exempt: map[string]string{"dtypes": "the statistics are float32 at least", "gradients": "the statistics take no gradient"},
		Error:  opdef.Error{Class: opdef.Composed, ULPs: 4},
		Cases: opdef.Calls[rmsNormArgs](`
			f64[3, 4], [4], f64[4], 1e-06; f64[2, 3, 4], [3, 4], None, 0.001; f32[2, 33], [33], f32[33], None
			bf16[3, 133]{rows}, [133], bf16[133], 1e-05`),
	}, compose.Fused, fusedRMSNorm),
	compose.Declare(compose.Op[renormArgs]{
		Schema: "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Slices scaled down to a largest norm",
			Formula: "slice * maxnorm/(norm + 1e-7) where the norm of order p exceeds maxnorm"},
		Cases: opdef.Calls[renormArgs](`
			f64[3, 4], 2, 0, 0.5; f64[2, 3, 4]{apart 0}, 1.0, -1, 1; f64[3, 4], 3.0, 1, 100.0
			f32[2, 5], 2.0, 0, 1.0; c128[2, 5], 2.0, 0, 1.0`),
	}, compose.Fused, renorm),
	compose.Declare(compose.Op[lrnArgs]{
		Schema: "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> " +
			"Tensor",
		Names:  "F.local_response_norm",
		Traits: opdef.Traits{Autocast: opdef.AutocastInner}, // the square is of 16 bits, the rest of float32
		Doc: opdef.Doc{Summary: "Elements divided by a power of the mean square of neighbouring channels",
			Formula: "input / (k + alpha*mean(input^2))^beta, the mean over size channels from size/2 before, with " +
				"zeros outside"},
		Cases: opdef.Calls[lrnArgs](`
			f64[2, 5, 3], 3, alpha=0.5; f64[1, 4, 2, 2], 2, alpha=1.0, beta=0.5, k=2.0; f32[2, 6, 3], 5`),
	}, compose.Unfused, localResponseNorm),
}

func fusedRMSNorm(g *compose.Graph, a *rmsNormArgs) compose.Values {
	n, err := a.norm()
	g.Check(err)
	x := g.AtLeast(g.Arg("input", a.Input), tensor.Float32)
	rstd := g.Rsqrt(g.Shift(g.Mean(g.Square(x), true, n.dims...), n.eps))
	y := g.Mul(x, rstd)
	if a.Weight != nil {
		y = g.Mul(y, g.Arg("weight", a.Weight))
	}
	return compose.Values{g.To(y, a.Input.DType), g.Detach(rstd)}
}

type normalizeArgs struct {
	Input *tensor.Tensor
	P     float64
	Dim   []int
	Eps   float64
}

type renormArgs struct {
	Self    *tensor.Tensor
	P       opdef.Scalar
	Dim     int
	Maxnorm opdef.Scalar
}

type lrnArgs struct {
	Input          *tensor.Tensor
	Size           int
	Alpha, Beta, K float64
}

func renorm(g *compose.Graph, a *renormArgs) compose.Values {
	g.Mistaken(func() []opdef.Mistake[any] {
		return []opdef.Mistake[any]{compose.Mistake("slices whose norm is below maxnorm are scaled, too", a,
			func(g *compose.Graph, a *renormArgs) compose.Values { return renormOver(g, a, 0) })}
	})
	return renormOver(g, a, a.Maxnorm.Float64())
}

// renormOver scales the slices whose norm is over a limit to maxnorm.
func renormOver(g *compose.Graph, a *renormArgs, limit float64) compose.Values {
	x, one := g.Arg("self", a.Self), g.Number(1)
	switch {
	case x.Dim() < 2:
		g.Refuse("self", "want at least 2 dimensions, got %d", x.Dim())
	case a.P.Kind() == tensor.KindComplex || a.P.Float64() <= 0:
		g.Refuse("p", "want a positive number, got %v", a.P)
	case a.Maxnorm.Kind() == tensor.KindComplex || a.Maxnorm.Float64() < 0:
		g.Refuse("maxnorm", "want a number from 0, got %v", a.Maxnorm)
	}
	dim := g.Axis("dim", a.Dim, x)
	norm := func(x *compose.Value) *compose.Value {
		return g.Norm(x, a.P.Float64(), true, slices.Delete(elements.AllDims(x.Dim()), dim, dim+1)...)
	}
	over := opdef.Map(tensor.Bool, norm(x).T, func(n float64) int64 {
		if n > limit {
			return 1
		}
		return 0
	})
	// Slices that stay as they are take no gradient of their norm, not even NaN.
	scaled := norm(g.Where(over, x, g.Full(x.DType(), nil, 1)))
	return compose.Values{g.Mul(x, g.Where(over, g.Div(g.Number(a.Maxnorm.Float64()), g.Shift(scaled, 1e-7)), one))}
}

func localResponseNorm(g *compose.Graph, a *lrnArgs) compose.Values {
	x := g.Arg("input", a.Input)
	if x.Dim() < 3 {
		g.Refuse("input", "want at least 3 dimensions, got %d", x.Dim())
	}
	if a.Size < 1 {
		g.Refuse("size", "want a positive number, got %d", a.Size)
	}
	g.Check(elements.WantFloat("input", a.Input))
	channels := x.Shape()[1]
	window := compose.NewSparseMatrix(channels, channels)
	for i := range channels {
		for j := max(0, i-a.Size/2); j < min(channels, i-a.Size/2+a.Size); j++ {
			window.Add(i, j, 1/float64(a.Size), 1)
		}
	}
	mean := g.Transpose(g.SparseMatmul(window, g.Transpose(g.Square(x), 1, -1)), 1, -1)
	return compose.Values{g.Div(x, g.Pow(g.Shift(g.Scale(mean, a.Alpha), a.K), a.Beta))}
}
