package attention

import (
	"strings"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// kernelOps are the kernels among which scaled_dot_product_attention chooses. Compiled programs call them by name.
var kernelOps = []*opdef.Entry{
	attentionKernel[cpuFlashArgs]("_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "+
		"float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor)", `
		f64[1, 2, 4, 5], f64[1, 2, 3, 5], f64[1, 2, 3, 5]
		f32[1, 2, 3, 4], f32[1, 2, 3, 4], f32[1, 2, 3, 4], 0.0, True
		bf16[1, 4, 3, 4], bf16[1, 2, 5, 4], bf16[1, 2, 5, 4], attn_mask=bf16[3, 5], scale=0.7`),
	attentionKernel[flashArgs]("_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float "+
		"dropout_p=0., bool is_causal=False, ignored return_debug_mask=False, *, float? scale=None) -> (Tensor, "+
		"Tensor, int, int, int, int, int, int, int)", `
		f32[1, 2, 3, 4], f32[1, 2, 3, 4], f32[1, 2, 3, 4], 0.0, True
		bf16[1, 2, 3, 4], bf16[1, 2, 5, 4], bf16[1, 2, 5, 4], scale=0.7`),
	attentionKernel[biasedArgs]("_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, "+
		"Tensor? attn_bias, ignored compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? "+
		"scale=None) -> (Tensor, int, int, int)", `
		f32[1, 2, 3, 4], f32[1, 2, 3, 4], f32[1, 2, 3, 4], None, True, 0.0, True
		f32[1, 2, 3, 4], f32[1, 2, 5, 4], f32[1, 2, 5, 4], f32[1, 2, 3, 5], True, scale=0.7`),
	attentionKernel[biasedArgs]("_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? "+
		"attn_bias, ignored compute_log_sumexp, float dropout_p=0., bool is_causal=False, ignored "+
		"return_debug_mask=False, *, float? scale=None) -> (Tensor, int, int, int, int, int, int, int, int)", `
		bf16[1, 2, 3, 4], bf16[1, 2, 3, 4], bf16[1, 2, 3, 4], None, True, 0.0, True`),
	attentionKernel[biasedArgs]("_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor "+
		"value, Tensor? attn_bias=None, float dropout_p=0., bool is_causal=False, ignored return_debug_mask=False, *, "+
		"float? scale=None) -> (Tensor, int, int, int, int, int, int, int, int)", `
		bf16[1, 2, 3, 4], bf16[1, 2, 5, 4], bf16[1, 2, 5, 4], bf16[1, 2, 3, 5]`),
}

// attentionKernel declares a kernel. It returns the attention, and the logarithms of the sums of exponentials [..., L]
// where the schema has a second tensor. What else it returns is for its backward pass alone and is not compared: seeds,
// lengths, and sums that some kernels pad.
func attentionKernel[A any](schema, cases string) *opdef.Entry {
	name, _, _ := strings.Cut(schema, "(")
	sums := strings.Contains(schema, "-> (Tensor, Tensor")
	notes := "Fewer heads of key and value serve several of query each."
	if sums {
		notes += " The sums pass no gradient. They are float32, or float64 of float64."
	} else {
		notes += " Only the attention is compared."
	}
	var exempt map[string]string
	if sums {
		exempt = map[string]string{"dtypes": "sums are float32 at least", "gradients": "sums take no gradient"}
	}
	return compose.Declare(compose.Op[A]{
		Schema: schema, Exempt: exempt, Names: "torch.ops.aten." + name,
		Doc: opdef.Doc{Summary: "Attention by one of torch's kernels, and what its backward pass needs",
			Formula: "softmax(query key^T * scale + mask) value, log(sum(exp(query key^T * scale + mask)))",
			Notes:   notes,
			Source:  "aten/src/ATen/native/native_functions.yaml"},
		Error: opdef.Error{Class: opdef.Composed, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Composed,
			ULPs: 6, Coarse: true}},
		Cases: opdef.Calls[A](cases),
	}, compose.Fused, func(g *compose.Graph, a *A) compose.Values {
		at := any(a).(interface{ attention() *attentionArgs }).attention()
		if at.DropoutP != 0 {
			g.Unsupported("dropout_p", "the mask of dropout is not known")
		}
		if q, k := at.Query, at.Key; q.Dim() > 2 && k.Dim() == q.Dim() {
			at.EnableGqa = q.Shape[q.Dim()-3] != k.Shape[k.Dim()-3]
		}
		var x *attentionParts
		out := attentionWith(g, at, func(parts *attentionParts) { x = parts })
		if sums {
			in := tensor.Promote(at.Query.DType, tensor.Float32)
			if at.Query.DType.IsReduced() {
				x.Coarse = fastExponentials
			}
			lse := g.AttentionLogSums(x.q, x.k, x.Scores, in, unseeing)
			out = append(out, g.Squeeze(lse, lse.Dim()-1))
		}
		return out
	})
}

// fastExponentials is the relative error of the exponentials of torch's CPU kernel in 16 bits: up to 6.1e-5 was
// measured with torch 2.15.
const fastExponentials = 0x1p-13

// unseeing is the logarithm that torch's CPU kernel gives of the sum of a query that sees no key. The mask of other
// kernels that return sums, is_causal, hides no query's first key.
const unseeing = 0

type flashArgs struct {
	Query, Key, Value *tensor.Tensor
	DropoutP          float64
	IsCausal          bool
	Scale             *float64
}

func (a *flashArgs) attention() *attentionArgs {
	return &attentionArgs{Query: a.Query, Key: a.Key, Value: a.Value, DropoutP: a.DropoutP, IsCausal: a.IsCausal,
		Scale: a.Scale}
}

type cpuFlashArgs struct {
	flashArgs
	AttnMask *tensor.Tensor
}

func (a *cpuFlashArgs) attention() *attentionArgs {
	at := a.flashArgs.attention()
	at.AttnMask = a.AttnMask
	return at
}

type biasedArgs struct {
	flashArgs
	AttnBias *tensor.Tensor
}

func (a *biasedArgs) attention() *attentionArgs {
	at := a.flashArgs.attention()
	at.AttnMask, at.mask = a.AttnBias, "attn_bias"
	return at
}
