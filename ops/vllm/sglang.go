package vllm

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

type (
	sglSoftmaxArgs struct {
		TopkWeights, TopkIndices, GatingOutput *tensor.Tensor
		Renormalize                            bool
		MoeSoftcapping                         float64
		CorrectionBias                         *tensor.Tensor
	}
	sglSigmoidArgs struct {
		TopkWeights, TopkIndices, GatingOutput *tensor.Tensor
		Renormalize                            bool
		CorrectionBias                         *tensor.Tensor
	}
	sglEarlierArgs struct {
		TopkWeights, TopkIndices, TokenExpertIndices, GatingOutput *tensor.Tensor
	}
)

// sgl declares a kernel of SGLang that chooses experts.
func sgl[A any](name, overload, schema string, outs []string, doc opdef.Doc, cases func(g opdef.Gen) []*A,
	of func(g *compose.Graph, a *A) compose.Values) *opdef.Entry {
	doc.Source = "torch.ops.sgl_kernel." + name
	return compose.DeclareInPlace(compose.Op[A]{Schema: "sgl_" + name + overload + "(" + schema + ") -> ()",
		Names: "torch.ops.sgl_kernel." + name + " sgl_kernel." + name + " sgl_kernel.moe." + name, Doc: doc,
		Cases: cases}, outs, of)
}

var (
	sglTopkSoftmax = sgl("topk_softmax", "", "Tensor topk_weights, Tensor topk_indices, Tensor gating_output, "+
		"bool renormalize=False, float moe_softcapping=0.0, Tensor? correction_bias=None", topkWritten[:2],
		opdef.Doc{Summary: "The experts of rows and their weights, into tensors of k a row",
			Formula: "topk_weights, topk_indices = the k largest of softmax(moe_softcapping * " +
				"tanh(gating_output/moe_softcapping) + correction_bias, -1) and their places",
			Notes: "Without moe_softcapping gating_output is taken as it is. The bias counts for the weights too, other " +
				"than in vLLM. With renormalize the weights of a row are divided by their sum."},
		topkCases(func(a topkArgs) *sglSoftmaxArgs {
			s := &sglSoftmaxArgs{a.TopkWeights, a.TopkIndices, a.GatingOutput, a.Renormalize, 0, a.Bias}
			if a.Bias != nil {
				s.MoeSoftcapping = 3
			}
			return s
		}),
		func(g *compose.Graph, a *sglSoftmaxArgs) compose.Values {
			t := topkArgs{TopkWeights: a.TopkWeights, TopkIndices: a.TopkIndices, GatingOutput: a.GatingOutput,
				Renormalize: a.Renormalize, RoutedScalingFactor: 1}
			return t.choose(g, func(g *compose.Graph, x *compose.Value) *compose.Value {
				if a.MoeSoftcapping != 0 {
					x = g.Scale(g.Tanh(g.Scale(x, 1/a.MoeSoftcapping)), a.MoeSoftcapping)
				}
				if bias := g.Arg("correction_bias", a.CorrectionBias); bias != nil {
					x = g.Add(x, bias)
				}
				return g.Softmax(x, -1)
			}, "correction_bias")
		})
	sglTopkSoftmaxEarlier = sgl("topk_softmax", ".earlier", "Tensor topk_weights, Tensor topk_indices, "+
		"Tensor token_expert_indices, Tensor gating_output", topkWritten, topkDoc("softmax(gating_output, -1)", ""),
		topkCases(func(a topkArgs) *sglEarlierArgs {
			return &sglEarlierArgs{a.TopkWeights, a.TopkIndices, a.TokenExpertIndices, a.GatingOutput}
		}),
		func(g *compose.Graph, a *sglEarlierArgs) compose.Values {
			t := topkArgs{TopkWeights: a.TopkWeights, TopkIndices: a.TopkIndices,
				TokenExpertIndices: a.TokenExpertIndices, GatingOutput: a.GatingOutput, RoutedScalingFactor: 1}
			return t.choose(g, softmaxed, "")
		})
	sglTopkSigmoid = sgl("topk_sigmoid", "", "Tensor topk_weights, Tensor topk_indices, Tensor gating_output, "+
		"bool renormalize=False, Tensor? correction_bias=None", topkWritten[:2],
		topkDoc("sigmoid(gating_output)", ""),
		topkCases(func(a topkArgs) *sglSigmoidArgs {
			return &sglSigmoidArgs{a.TopkWeights, a.TopkIndices, a.GatingOutput, a.Renormalize, a.Bias}
		}),
		func(g *compose.Graph, a *sglSigmoidArgs) compose.Values {
			t := topkArgs{TopkWeights: a.TopkWeights, TopkIndices: a.TopkIndices, GatingOutput: a.GatingOutput,
				Renormalize: a.Renormalize, Bias: a.CorrectionBias, RoutedScalingFactor: 1}
			return t.choose(g, (*compose.Graph).Sigmoid, "correction_bias")
		})
)
