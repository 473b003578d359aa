// Package llm has operators of language models that torch itself lacks: the
// attention functions of flash-attn and of DIOPI, rotary embedding, what engines do
// at inference with caches of keys and values and with penalties, and FlashInfer's
// functions.
//
// Attentions differ in the order of dimensions, in how sequences are told apart
// and in which keys a query sees; all are compositions around one kernel,
// compose.Graph.Attention. What only DIOPI has is named diopi.<function of its test
// kit>.
package llm

import (
	"slices"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(flashAttn.table(), deepLink.table(), []*opdef.Entry{flashWithKVCache,
		customizedAttention, scaledMaskedSoftmax, rotaryEmb, rotaryEmbV2, promptAttention, pagedAttention,
		contextAttention, tokenAttention, tokenSoftmaxReduceV, copyKV, applyPenalty, applyPenaltyV2, infRMSNorm,
		infGemmaRMSNorm, infFusedAddRMSNorm, infGemmaFusedAddRMSNorm, infSiluAndMul, infGeluAndMul,
		infGeluTanhAndMul, infSoftmax, infMergeState, infMergeStateInPlace, infMergeStates, infPrefill,
		infDecode}, infRopes, infCachedRopes)
}

// flashOptions are what the functions of flash-attn have in common.
type flashOptions struct {
	DropoutP                       float64
	SoftmaxScale                   *float64
	Causal                         bool
	WindowSize                     []int
	Softcap                        float64
	AlibiSlopes                    *tensor.Tensor
	Deterministic, ReturnAttnProbs bool
}

type (
	flashArgs struct {
		Q, K, V *tensor.Tensor
		flashOptions
	}
	flashKVArgs struct {
		Q, Kv *tensor.Tensor
		flashOptions
	}
	flashQKVArgs struct {
		Qkv *tensor.Tensor
		flashOptions
	}
)

// A flashLib is a library that has the functions of flash-attn.
type flashLib struct {
	prefix  string // of operators
	options string // the schema of flashOptions
	modules []string
	source  string
}

var (
	flashAttn = &flashLib{"", flashSchema, []string{"flash_attn.", "flash_attn.flash_attn_interface."},
		"flash_attn.flash_attn_interface"}
	// deepLink takes the limit of scores by keyword alone: its functions have none.
	deepLink = &flashLib{"deeplink_ext_", "float dropout_p=0.0, float? softmax_scale=None, bool causal=False, " +
		"int[2] window_size=[-1, -1], Tensor? alibi_slopes=None, bool deterministic=False, " +
		"bool return_attn_probs=False, *, float softcap=0.0",
		[]string{"deeplink_ext.internevo_ops.", "deeplink_ext.internevo_ops.flash_attention.",
			"deeplink_ext.easyllm_ops.", "deeplink_ext.easyllm_ops.flash_attention."},
		"deeplink_ext.internevo_ops.flash_attention"}
)

// deepLinkPaged is the schema of its options with pages.
var deepLinkPaged = strings.Replace(deepLink.options, ", *", ", Tensor? block_table=None, *", 1)

// names are those of a function of the library.
func (l *flashLib) names(name string) string {
	return strings.Join(l.modules, name+" ") + name
}

// schema is that of a function with these arguments before the options.
func (l *flashLib) schema(name, before string) string {
	return l.prefix + name + "(" + before + ", " + l.options + ") -> Tensor|Tensor[]"
}

// doc documents a function of the library.
func (l *flashLib) doc(summary, notes string) opdef.Doc {
	d := flashDoc(summary, notes)
	d.Source = l.source
	return d
}

// table lists the functions of the library.
func (l *flashLib) table() []*opdef.Entry {
	return append([]*opdef.Entry{flashFunc(l), flashKVPacked(l), flashQKVPacked(l)}, flashVarlen(l)...)
}

const flashSchema = "float dropout_p=0.0, float? softmax_scale=None, bool causal=False, int[2] window_size=[-1, -1], " +
	"float softcap=0.0, Tensor? alibi_slopes=None, bool deterministic=False, bool return_attn_probs=False"

// sumsAreFloat32 is why results do not all follow the dtype of the arguments, and pass gradients.
var sumsAreFloat32 = map[string]string{"dtypes": "logarithms of sums are float32 whatever the dtype",
	"gradients": "logarithms of sums pass no gradient"}

// flashDoc documents a function of flash-attn.
func flashDoc(summary, notes string) opdef.Doc {
	return opdef.Doc{Summary: summary,
		Formula: "softmax(softcap*tanh(scale * q k^T / softcap) - alibi_slopes*|distance|) v of each head",
		Notes: notes + " scale is 1/sqrt(size) by default, softcap 0 no limit. Fewer heads of k and v serve several " +
			"of q each. The last query stands at the last key: causal hides the keys behind a query's place, " +
			"window_size those further away. A query that sees no key gives 0. With return_attn_probs also the " +
			"logarithms of the sums of exponentials, float32, are returned, (batch, heads, length) or, of packed " +
			"sequences, (heads, rows), and an empty tensor."}
}

// scores are those of attention over keys for the last of them.
func (o *flashOptions) scores(g *compose.Graph, size, queries, keys int) compose.Scores {
	if len(o.WindowSize) != 2 {
		g.Refuse("window_size", "want two sizes, got %v", o.WindowSize)
	}
	s := compose.Scores{Scale: fused.ScaleOf(o.SoftmaxScale, size), Softcap: o.Softcap, Offset: keys - queries,
		Before: o.WindowSize[0], After: o.WindowSize[1], Dropout: o.DropoutP}
	if o.Causal {
		s.After = 0
	}
	return s
}

func (o *flashOptions) attend(g *compose.Graph, q, k, v *compose.Value) compose.Values {
	fused.CheckHeads(g, 4, q, k, v)
	s := o.scores(g, q.Shape()[3], q.Shape()[1], k.Shape()[1])
	out := fused.Attend(g, q, k, v, o.AlibiSlopes, s)
	return o.results(g, out, func() *compose.Value { return fused.LogSums(g, q, k, o.AlibiSlopes, s) })
}

// results are the attention, and with return_attn_probs the logarithms of the sums and what is
// left of the probabilities without dropout: nothing.
func (o *flashOptions) results(g *compose.Graph, out *compose.Value, sums func() *compose.Value) compose.Values {
	if !o.ReturnAttnProbs {
		return compose.Values{out}
	}
	return compose.Values{out, sums(), g.Full(out.DType(), []int{0}, 0)}
}

// flashCases are options with heads to attend to: queries and keys, of which there
// may be more, and their heads.
func flashCases(g opdef.Gen, f func(dt tensor.DType, l, s, heads, few int, o flashOptions)) {
	all := []int{-1, -1}
	half, slopes := 0.5, g.Uniform(tensor.Float32, 0.1, 1, 4)
	slopes.RequiresGrad = false
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16} {
		f(dt, 3, 3, 2, 2, flashOptions{WindowSize: all})
		f(dt, 3, 5, 4, 2, flashOptions{WindowSize: all, Causal: true, SoftmaxScale: &half})
	}
	f(tensor.Float64, 5, 3, 4, 1, flashOptions{WindowSize: all, Causal: true})
	f(tensor.Float64, 4, 6, 4, 4, flashOptions{WindowSize: []int{2, 1}, Softcap: 1.5})
	f(tensor.Float64, 4, 5, 4, 2, flashOptions{WindowSize: []int{2, -1}, AlibiSlopes: slopes})
	f(tensor.Float32, 5, 3, 4, 2, flashOptions{WindowSize: all, Causal: true, ReturnAttnProbs: true})
}

func flashFunc(l *flashLib) *opdef.Entry {
	return compose.Declare(compose.Op[flashArgs]{
		Schema: l.schema("flash_attn_func", "Tensor q, Tensor k, Tensor v"),
		Names:  l.names("flash_attn_func"),
		Doc: l.doc("Attention in blocks",
			"q is (batch, length, heads, size), k and v likewise."),
		Exempt: sumsAreFloat32,
		Cases: func(g opdef.Gen) (cs []*flashArgs) {
			flashCases(g, func(dt tensor.DType, l, s, heads, few int, o flashOptions) {
				cs = append(cs, &flashArgs{g.Normal(dt, 2, l, heads, 4), g.Normal(dt, 2, s, few, 4),
					g.Normal(dt, 2, s, few, 4), o})
			})
			return cs
		},
	}, compose.Fused, func(g *compose.Graph, a *flashArgs) compose.Values {
		return a.attend(g, g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V))
	})
}

// unpack is the parts of x along dim, which is dropped.
func unpack(g *compose.Graph, name string, x *compose.Value, n, dim, rank int) []*compose.Value {
	if x.Dim() != rank || x.Shape()[dim] != n {
		g.Refuse(name, "want rank %d and %d along dimension %d, got %s", rank, n, dim, x.T.Meta())
	}
	parts := g.Chunk(x, n, dim)
	for i, p := range parts {
		parts[i] = g.Squeeze(p, dim)
	}
	return parts
}

func flashKVPacked(l *flashLib) *opdef.Entry {
	return compose.Declare(compose.Op[flashKVArgs]{
		Schema: l.schema("flash_attn_kvpacked_func", "Tensor q, Tensor kv"),
		Names:  l.names("flash_attn_kvpacked_func"),
		Doc: l.doc("Attention in blocks, keys and values in one tensor",
			"q is (batch, length, heads, size), kv (batch, length, 2, heads, size)."),
		Exempt: sumsAreFloat32,
		Cases: func(g opdef.Gen) (cs []*flashKVArgs) {
			flashCases(g, func(dt tensor.DType, l, s, heads, few int, o flashOptions) {
				cs = append(cs, &flashKVArgs{g.Normal(dt, 2, l, heads, 4), g.Normal(dt, 2, s, 2, few, 4), o})
			})
			return cs
		},
	}, compose.Fused, func(g *compose.Graph, a *flashKVArgs) compose.Values {
		q, kv := g.Arg("q", a.Q), unpack(g, "kv", g.Arg("kv", a.Kv), 2, 2, 5)
		return a.attend(g, q, kv[0], kv[1])
	})
}

func flashQKVPacked(l *flashLib) *opdef.Entry {
	return compose.Declare(compose.Op[flashQKVArgs]{
		Schema: l.schema("flash_attn_qkvpacked_func", "Tensor qkv"),
		Names:  l.names("flash_attn_qkvpacked_func"),
		Doc: l.doc("Attention in blocks, queries, keys and values in one tensor",
			"qkv is (batch, length, 3, heads, size)."),
		Exempt: sumsAreFloat32,
		Cases: func(g opdef.Gen) (cs []*flashQKVArgs) {
			flashCases(g, func(dt tensor.DType, l, _, heads, _ int, o flashOptions) {
				cs = append(cs, &flashQKVArgs{g.Normal(dt, 2, l, 3, heads, 4), o})
			})
			return cs
		},
	}, compose.Fused, func(g *compose.Graph, a *flashQKVArgs) compose.Values {
		qkv := unpack(g, "qkv", g.Arg("qkv", a.Qkv), 3, 2, 5)
		return a.attend(g, qkv[0], qkv[1], qkv[2])
	})
}

type customizedArgs struct {
	Q, K, V, AlibiSlopes            *tensor.Tensor
	PDropout                        float64
	SoftmaxScale                    *float64
	IsCausal                        bool
	WindowSizeLeft, WindowSizeRight int
	HeadNum                         int
	InputLayout                     string
}

var customizedAttention = compose.Declare(compose.Op[customizedArgs]{
	Schema: "customized_flash_attention(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes, float p_dropout, " +
		"float? softmax_scale, bool is_causal, int window_size_left, int window_size_right, int head_num, " +
		"str input_layout) -> Tensor",
	Names: "diopi.customized_flash_attention",
	Doc: opdef.Doc{Summary: "Attention of tensors in a layout that is named",
		Formula: "as flash_attn_func",
		Notes: "input_layout is SBH, BSH, BSND or BNSD: S positions, B batches, N heads, D sizes, H heads times " +
			"sizes.", Source: "diopiCustomizedFlashAttention"},
	Cases: func(g opdef.Gen) (cs []*customizedArgs) {
		half := 0.5
		for _, c := range []struct {
			layout string
			shape  []int
		}{{"SBH", []int{3, 2, 8}}, {"BSH", []int{2, 3, 8}}, {"BSND", []int{2, 3, 2, 4}}, {"BNSD", []int{2, 2, 3, 4}}} {
			for i, dt := range []tensor.DType{tensor.Float64, tensor.Float16} {
				cs = append(cs, &customizedArgs{g.Normal(dt, c.shape...), g.Normal(dt, c.shape...),
					g.Normal(dt, c.shape...), nil, 0, []*float64{nil, &half}[i], i == 0, -1, -1, 2, c.layout})
			}
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *customizedArgs) compose.Values {
	layout := fused.LayoutOf(g, "input_layout", a.InputLayout)
	open := func(name string, t *tensor.Tensor) *compose.Value {
		return layout.Open(g, name, g.Arg(name, t), a.HeadNum)
	}
	o := flashOptions{DropoutP: a.PDropout, SoftmaxScale: a.SoftmaxScale, Causal: a.IsCausal,
		AlibiSlopes: a.AlibiSlopes, WindowSize: []int{a.WindowSizeLeft, a.WindowSizeRight}}
	return compose.Values{layout.Close(g, o.attend(g, open("q", a.Q), open("k", a.K), open("v", a.V))[0])}
})

type maskedSoftmaxArgs struct {
	Input, Mask   *tensor.Tensor
	Scale         float64
	FixedTriuMask bool
}

var scaledMaskedSoftmax = compose.Declare(compose.Op[maskedSoftmaxArgs]{
	Schema: "scaled_masked_softmax(Tensor input, Tensor mask, float scale, bool fixed_triu_mask) -> Tensor",
	Names:  "diopi.scaled_masked_softmax",
	Doc: opdef.Doc{Summary: "Softmax of scaled scores, some of which are hidden",
		Formula: "softmax(where(mask, -10000, scale*input), -1)",
		Notes:   "With fixed_triu_mask the scores behind the diagonal are hidden, whatever mask holds.",
		Source:  "diopiScaledMaskedSoftmax"},
	Cases: func(g opdef.Gen) (cs []*maskedSoftmaxArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16} {
			mask := tensor.New(tensor.Bool, []int{1, 1, 3, 4}, []int64{0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0}).Rounded()
			cs = append(cs, &maskedSoftmaxArgs{g.Normal(dt, 2, 2, 3, 4), mask, 0.5, false},
				&maskedSoftmaxArgs{g.Normal(dt, 1, 1, 3, 4), mask, 2, true})
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *maskedSoftmaxArgs) compose.Values {
	return compose.Values{fused.MaskedSoftmax(g, g.Arg("input", a.Input), a.Mask, a.Scale, a.FixedTriuMask)}
})
