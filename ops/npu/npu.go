// Package npu declares operators of torch_npu, PyTorch's adapter for Ascend.
package npu

import (
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry {
	return []*opdef.Entry{swiglu, fastGELU, rmsNorm, addRMSNorm, rotaryMul, applyRotary, fusionAttention,
		promptAttention, increAttention, inferAttention, gatingTopK, initRouting, finalizeRouting, tokenPermute,
		tokenUnpermute, linear, quantMatmul, weightQuantMatmul, groupedMatmul, dynamicQuant, confusionTranspose,
		dtypeCast, formatCast, scatterNd, geglu, scaledMaskedSoftmax, layerNormEval, applyAdamW, gelu,
		softmaxCrossEntropy, groupNormSiLU, transpose, slice}
}

// names are those under which captures show functions of torch_npu's.
func names(of ...string) string {
	var all []string
	for _, n := range of {
		all = append(all, "torch_npu."+n, "torch.ops.npu."+n)
	}
	return strings.Join(all, " ")
}

var swiglu = compose.Declare(compose.Op[opdef.DimArgs]{
	Schema: "npu_swiglu(Tensor self, int dim=-1) -> Tensor", Names: names("npu_swiglu"),
	Doc: opdef.Doc{Summary: "Gated SiLU", Formula: "silu(a) * b, a and b the halves of self along dim"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *opdef.DimArgs {
		return &opdef.DimArgs{Self: g.Normal(dt, 3, 8), Dim: -1}
	}),
}, compose.Fused, func(g *compose.Graph, a *opdef.DimArgs) compose.Values {
	x := g.Chunk(g.Arg("self", a.Self), 2, a.Dim)
	return compose.Values{g.Mul(g.SiLU(x[0]), x[1])}
})

var fastGELU = compose.Declare(compose.Op[opdef.UnaryArgs]{
	Schema: "fast_gelu(Tensor self) -> Tensor", Names: names("fast_gelu", "npu_fast_gelu"),
	Doc: opdef.Doc{Summary: "Gaussian error linear unit, approximated", Formula: "self * sigmoid(1.702*self)"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *opdef.UnaryArgs {
		return &opdef.UnaryArgs{Self: g.Normal(dt, 3, 4)}
	}),
}, compose.Fused, func(g *compose.Graph, a *opdef.UnaryArgs) compose.Values {
	x := g.Arg("self", a.Self)
	return compose.Values{g.Mul(x, g.Sigmoid(g.Scale(x, 1.702)))}
})
