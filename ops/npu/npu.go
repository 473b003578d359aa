// Package npu declares operators of torch_npu, PyTorch's adapter for Ascend.
package npu

import (
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry { return []*opdef.Entry{swiglu, fastGELU, rmsNorm, rotaryMul} }

var swiglu = compose.Declare(compose.Op[opdef.DimArgs]{
	Schema: "npu_swiglu(Tensor self, int dim=-1) -> Tensor", Names: "torch_npu.npu_swiglu",
	Doc: opdef.Doc{Summary: "Gated SiLU", Formula: "silu(a) * b, a and b the halves of self along dim",
		Source: "torch_npu.npu_swiglu"},
	Cases: func(r *rand.Rand) []*opdef.DimArgs {
		return opdef.PerDType(r, func(g opdef.Gen, dt tensor.DType) *opdef.DimArgs {
			return &opdef.DimArgs{Self: g.Normal(dt, 3, 8), Dim: -1}
		})
	},
}, compose.Fused, func(g *compose.Graph, a *opdef.DimArgs) compose.Values {
	x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
	return compose.Values{g.Mul(g.SiLU(x[0]), x[1])}
})

var fastGELU = compose.Declare(compose.Op[opdef.UnaryArgs]{
	Schema: "fast_gelu(Tensor self) -> Tensor", Names: "torch_npu.fast_gelu torch_npu.npu_fast_gelu",
	Doc: opdef.Doc{Summary: "Gaussian error linear unit, approximated", Formula: "self * sigmoid(1.702*self)",
		Source: "torch_npu.fast_gelu"},
	Cases: func(r *rand.Rand) []*opdef.UnaryArgs {
		return opdef.PerDType(r, func(g opdef.Gen, dt tensor.DType) *opdef.UnaryArgs {
			return &opdef.UnaryArgs{Self: g.Normal(dt, 3, 4)}
		})
	},
}, compose.Fused, func(g *compose.Graph, a *opdef.UnaryArgs) compose.Values {
	x := g.Arg("self", a.Self)
	return compose.Values{g.Mul(x, g.Sigmoid(g.Scale(x, 1.702)))}
})

type rmsNormArgs struct {
	Self, Gamma *tensor.Tensor
	Epsilon     float64
}

var rmsNorm = compose.Declare(compose.Op[rmsNormArgs]{
	Schema: "npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-6) -> (Tensor, Tensor)",
	Names:  "torch_npu.npu_rms_norm",
	Doc: opdef.Doc{Summary: "Scaling by the root mean square over the dimensions of gamma",
		Formula: "self * rstd * gamma, rstd = 1/sqrt(mean(self^2) + epsilon)",
		Notes:   "The second result is rstd in float32, with dimensions of size 1 where the mean was taken.",
		Source:  "torch_npu.npu_rms_norm"},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: func(r *rand.Rand) []*rmsNormArgs {
		return append(opdef.PerDType(r, func(g opdef.Gen, dt tensor.DType) *rmsNormArgs {
			return &rmsNormArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-6}
		}), &rmsNormArgs{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3, 4), opdef.Gen{R: r}.Normal(tensor.Float32, 3, 4),
			1e-3})
	},
}, compose.Fused, func(g *compose.Graph, a *rmsNormArgs) compose.Values {
	x, gamma := g.Arg("self", a.Self), g.Arg("gamma", a.Gamma)
	if gamma.Dim() == 0 || gamma.Dim() > x.Dim() {
		g.Refuse("gamma", "want 1 to %d dimensions, got %d", x.Dim(), gamma.Dim())
	}
	dims := make([]int, gamma.Dim())
	for i := range dims {
		dims[i] = x.Dim() - gamma.Dim() + i
	}
	wide := g.AtLeast(x, tensor.Float32)
	rstd := g.Rsqrt(g.Shift(g.Mean(g.Square(wide), true, dims...), a.Epsilon))
	return compose.Values{g.To(g.Mul(g.Mul(wide, rstd), gamma), x.DType()), rstd}
})

type rotaryMulArgs struct {
	Self, R1, R2 *tensor.Tensor
	RotaryMode   string
}

var rotaryMul = compose.Declare(compose.Op[rotaryMulArgs]{
	Schema: "npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor",
	Names:  "torch_npu.npu_rotary_mul",
	Doc: opdef.Doc{Summary: "Rotary position embedding",
		Formula: "self*r1 + rotated(self)*r2",
		Notes: "rotated is (-b, a) of the halves (a, b) of the last dimension in mode half, of neighbours in mode " +
			"interleave. r1 and r2 are broadcast.", Source: "torch_npu.npu_rotary_mul"},
	Cases: func(r *rand.Rand) []*rotaryMulArgs {
		mode := "interleave"
		return opdef.PerDType(r, func(g opdef.Gen, dt tensor.DType) *rotaryMulArgs {
			mode = map[string]string{"half": "interleave", "interleave": "half"}[mode]
			return &rotaryMulArgs{g.Normal(dt, 2, 3, 1, 4), g.Normal(dt, 1, 3, 1, 4), g.Normal(dt, 1, 3, 1, 4), mode}
		})
	},
}, compose.Fused, func(g *compose.Graph, a *rotaryMulArgs) compose.Values {
	x := g.Arg("self", a.Self)
	return compose.Values{g.Add(g.Mul(x, g.Arg("r1", a.R1)), g.Mul(rotated(g, x, a.RotaryMode), g.Arg("r2", a.R2)))}
})

// rotated turns each pair of elements (a, b) of the last dimension by a right
// angle.
func rotated(g *compose.Graph, x *compose.Value, mode string) *compose.Value {
	switch {
	case x.Dim() == 0 || x.Shape()[x.Dim()-1]%2 != 0:
		g.Refuse("self", "want an even last dimension, got shape %s", tensor.ShapeString(x.Shape()))
	case mode == "half":
		h := g.Chunk(x, 2, -1)
		return g.Cat(-1, g.Neg(h[1]), h[0])
	case mode != "interleave":
		g.Refuse("rotary_mode", "want half or interleave, got %q", mode)
	}
	n := x.Shape()[x.Dim()-1] / 2
	a, b := g.Slice(x, -1, 0, n, 2), g.Slice(x, -1, min(1, n), n, 2)
	return g.Reshape(g.Stack(-1, g.Neg(b), a), x.Shape()...)
}
