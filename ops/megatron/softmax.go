package megatron

import (
	"math"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// Where the functions of the libraries are.
const (
	apexSoftmax     = "apex.transformer.functional.fused_softmax."
	megatronSoftmax = "megatron.core.fusions.fused_softmax."
	engineSoftmax   = "transformer_engine.pytorch.attention.dot_product_attention.softmax."
	// hiddenScore is what masked scores become.
	hiddenScore = -1e4
)

// softmaxNames are those of a softmax: of the functions of three libraries, of the class if there
// is one, and of their kernels.
func softmaxNames(name, class string) string {
	out := name + "_cuda.forward transformer_engine_torch." + name + "_forward torch.ops.te_softmax." + name + "_fwd " +
		engineSoftmax + name + "_forward"
	if class != "" {
		for _, module := range []string{apexSoftmax, megatronSoftmax, engineSoftmax} {
			out += " " + module + class + ".apply"
		}
	}
	return out
}

type (
	scaledArgs struct {
		Inputs *tensor.Tensor
		Scale  float64
	}
	maskedArgs struct {
		Inputs, Mask *tensor.Tensor
		Scale        float64
	}
	backArgs struct {
		OutputGrads, SoftmaxResults *tensor.Tensor
		Scale                       float64
	}
)

// weighed is the softmax of scale*x along rows, but 0 where hidden (nil: nowhere), in x's dtype.
func weighed(g *compose.Graph, x *compose.Value, scale float64, hidden *tensor.Tensor) *compose.Value {
	s := g.Scale(g.AtLeast(x, tensor.Float32), scale)
	if hidden != nil {
		s = g.MaskedFill(s, hidden, math.Inf(-1))
	}
	return g.To(g.Softmax(s, -1), x.DType())
}

// triangular is the softmax of scores of queries that see the keys up to their place, the last
// key standing at the last of them if aligned, else the first at the first.
func triangular(g *compose.Graph, t *tensor.Tensor, scale float64, aligned bool) compose.Values {
	x := g.Arg("inputs", t)
	if x.Dim() < 2 || !x.DType().IsFloat() {
		g.Refuse("inputs", "want floating scores of queries and keys, got %s", t.Meta())
	}
	n, m := x.Shape()[x.Dim()-2], x.Shape()[x.Dim()-1]
	switch {
	case aligned && m < n:
		g.Refuse("inputs", "want as many keys as queries at least, got %s", t.Meta())
	case aligned:
		return compose.Values{weighed(g, x, scale, fused.Behind(n, m, m-n))}
	}
	return compose.Values{weighed(g, x, scale, fused.Behind(n, m, 0))}
}

// hiddenBy is the softmax of scale*inputs with scores hidden by mask, 0 in rows all hidden.
func hiddenBy(g *compose.Graph, inputs, mask *tensor.Tensor, scale float64) compose.Values {
	x := g.Arg("inputs", inputs)
	if x.Dim() == 0 || !x.DType().IsFloat() || mask.Dim() > x.Dim() {
		g.Refuse("inputs", "want floating scores of the rank of mask at least, got %s and %s", inputs.Meta(),
			mask.Meta())
	}
	hidden := opdef.Cast(mask, tensor.Bool)
	s := g.MaskedFill(g.Scale(g.AtLeast(x, tensor.Float32), scale), hidden, hiddenScore)
	if s.Dim() != x.Dim() || s.T.Numel() != x.T.Numel() {
		g.Refuse("mask", "%s is not broadcast to %s", mask.Meta(), inputs.Meta())
	}
	y := g.Softmax(s, -1)
	all := g.Amin(g.Const(opdef.Cast(hidden, tensor.Float32)), true, -1)
	y = g.MaskedFill(y, opdef.Cast(all.T, tensor.Bool), 0)
	return compose.Values{g.To(y, x.DType())}
}

// someHidden hides scores, all of those of one row.
func someHidden() *tensor.Tensor {
	return tensor.New(tensor.Bool, []int{2, 1, 3, 4}, []int64{0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1,
		1, 1, 0, 0, 1, 1}).Rounded()
}

func softmaxes() []*opdef.Entry {
	cases := func(rank int) func(g opdef.Gen) []*scaledArgs {
		return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *scaledArgs {
			return &scaledArgs{g.Normal(dt, []int{2, 2, 3, 4}[4-rank:]...), 0.5}
		})
	}
	masked := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *maskedArgs {
		return &maskedArgs{g.Normal(dt, 2, 2, 3, 4), someHidden(), 0.5}
	})
	doc := func(summary, formula, notes string) opdef.Doc {
		return opdef.Doc{Summary: summary, Formula: formula, Notes: notes, Source: "apex, csrc/megatron"}
	}
	const upper = "Queries see the keys up to their own place; the rest is 0."
	return []*opdef.Entry{
		compose.Declare(compose.Op[scaledArgs]{
			Schema: "scaled_softmax(Tensor inputs, float scale) -> Tensor",
			Names:  softmaxNames("scaled_softmax", "ScaledSoftmax"),
			Doc:    doc("Softmax of scaled scores", "softmax(scale*inputs, -1)", ""), Cases: cases(4),
		}, compose.Fused, func(g *compose.Graph, a *scaledArgs) compose.Values {
			x := g.Arg("inputs", a.Inputs)
			if x.Dim() == 0 || !x.DType().IsFloat() {
				g.Refuse("inputs", "want floating rows, got %s", a.Inputs.Meta())
			}
			return compose.Values{weighed(g, x, a.Scale, nil)}
		}),
		compose.Declare(compose.Op[maskedArgs]{
			Schema: "scaled_masked_softmax.megatron(Tensor inputs, Tensor mask, float scale) -> Tensor",
			Names: softmaxNames("scaled_masked_softmax", "ScaledMaskedSoftmax") + " " +
				"generic_scaled_masked_softmax_cuda.forward " +
				apexSoftmax + "scaled_masked_softmax " + apexSoftmax + "generic_scaled_masked_softmax " + apexSoftmax +
				"GenericScaledMaskedSoftmax.apply",
			Doc: doc("Softmax of scaled scores, some of which are hidden",
				"softmax(where(mask, -10000, scale*inputs), -1), 0 where all scores are hidden", "mask is broadcast."),
			Cases: masked,
		}, compose.Fused, func(g *compose.Graph, a *maskedArgs) compose.Values {
			return hiddenBy(g, a.Inputs, a.Mask, a.Scale)
		}),
		compose.Declare(compose.Op[scaledArgs]{
			Schema: "scaled_upper_triang_masked_softmax(Tensor inputs, float scale) -> Tensor",
			Names:  softmaxNames("scaled_upper_triang_masked_softmax", "ScaledUpperTriangMaskedSoftmax"),
			Doc:    doc("Causal softmax of scaled scores", "softmax(scale*inputs, -1) of the keys seen", upper),
			Cases:  cases(3),
		}, compose.Fused, func(g *compose.Graph, a *scaledArgs) compose.Values {
			return triangular(g, a.Inputs, a.Scale, false)
		}),
		compose.Declare(compose.Op[maskedArgs]{
			Schema: "scaled_upper_triang_masked_softmax.unused(Tensor inputs, Tensor? mask, float scale) -> Tensor",
			Names:  apexSoftmax + "scaled_upper_triang_masked_softmax",
			Doc: doc("Causal softmax of scaled scores", "softmax(scale*inputs, -1) of the keys seen",
				upper+" mask is not read."),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *maskedArgs {
				return &maskedArgs{g.Normal(dt, 2, 3, 4), nil, 0.5}
			}),
		}, compose.Fused, func(g *compose.Graph, a *maskedArgs) compose.Values {
			return triangular(g, a.Inputs, a.Scale, false)
		}),
		compose.Declare(compose.Op[scaledArgs]{
			Schema: "scaled_aligned_causal_masked_softmax(Tensor inputs, float scale) -> Tensor",
			Names:  softmaxNames("scaled_aligned_causal_masked_softmax", "ScaledAlignedCausalMaskedSoftmax"),
			Doc: doc("Causal softmax of scaled scores, the last query at the last key",
				"softmax(scale*inputs, -1) of the keys seen", "The last query sees all keys; what is hidden is 0."),
			Cases: cases(4),
		}, compose.Fused, func(g *compose.Graph, a *scaledArgs) compose.Values {
			return triangular(g, a.Inputs, a.Scale, true)
		}),
		compose.Declare(compose.Op[backArgs]{
			Schema: "scaled_softmax_backward(Tensor output_grads, Tensor softmax_results, float scale) -> Tensor",
			Names:  softmaxBackNames(),
			Doc: doc("Gradient of the scaled softmaxes",
				"scale * softmax_results * (output_grads - sum(output_grads*softmax_results, -1))", ""),
			NoGrad: "it is a gradient",
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *backArgs {
				return &backArgs{g.Normal(dt, 2, 3, 4), g.Uniform(dt, 0, 0.5, 2, 3, 4), 0.5}
			}),
		}, compose.Fused, func(g *compose.Graph, a *backArgs) compose.Values {
			up, y := g.Arg("output_grads", a.OutputGrads), g.Arg("softmax_results", a.SoftmaxResults)
			fused.CheckSame(g, "softmax_results", up, y)
			if y.Dim() == 0 || !y.DType().IsFloat() {
				g.Refuse("softmax_results", "want floating rows, got %s", a.SoftmaxResults.Meta())
			}
			wide := g.AtLeast(y, tensor.Float32)
			terms := g.Mul(g.AtLeast(up, tensor.Float32), wide)
			back := g.Scale(g.Sub(terms, g.Mul(wide, g.Sum(terms, true, -1))), a.Scale)
			return compose.Values{g.To(back, y.DType())}
		}),
	}
}

// softmaxBackNames are those of the gradients' kernels.
func softmaxBackNames() (out string) {
	for _, name := range []string{"scaled_softmax", "scaled_masked_softmax", "scaled_upper_triang_masked_softmax",
		"scaled_aligned_causal_masked_softmax"} {
		out += name + "_cuda.backward transformer_engine_torch." + name + "_backward torch.ops.te_softmax." + name +
			"_bwd " + engineSoftmax + name + "_backward "
	}
	return out + "generic_scaled_masked_softmax_cuda.backward"
}
