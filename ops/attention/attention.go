package attention

import (
	"cmp"
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// attentionOps are averages of values by the softmax of scores.
var attentionOps = []*opdef.Entry{
	compose.Declare(compose.Op[attentionArgs]{
		Schema: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float " +
			"dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
		Names: "F.scaled_dot_product_attention _C._nn.scaled_dot_product_attention",
		Doc: opdef.Doc{Summary: "Attention", Formula: "softmax(query key^T * scale + mask) value",
			Notes: "query is (*, L, E), key (*, S, E), value (*, S, F); scale is 1/sqrt(E) by default. A bool mask " +
				"keeps where it is true; is_causal keeps keys up to the query's position. A query that sees no " +
				"key gives 0, or NaN as torch did before 2.5. enable_gqa repeats the heads, dimension -3, of key and value."},
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Error: opdef.Error{Class: opdef.Composed, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Composed,
			ULPs: 6, Coarse: true}},
		// Without a fused kernel the last step is a product seen in another shape.
		Node: func(_ *compose.Call, g *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Else: []opdef.Node{{Grads: g.Out[:1], Weak: "the incoming gradient"}}}, nil
		},
		Cases: opdef.Calls[attentionArgs](`
			f64[2, 4, 5], f64[2, 3, 5], f64[2, 3, 6]
			f64[2, 2, 4, 5], f64[2, 2, 3, 5], f64[2, 2, 3, 5], is_causal=True
			f64[2, 4, 5], f64[2, 3, 5], f64[2, 3, 6], attn_mask=f64[4, 3], scale=0.7
			f64[4, 5], f64[3, 5], f64[3, 2], attn_mask=bool[4, 3]{= 1 0 1 1 1 1 0 0 1 1 0 0}
			f64[1, 4, 3, 5], f64[1, 2, 3, 5], f64[1, 2, 3, 5], enable_gqa=True
			f32[2, 3, 4], f32[2, 3, 4], f32[2, 3, 4], is_causal=True
			bf16[1, 2, 3, 4], bf16[1, 2, 3, 4], bf16[1, 2, 3, 4]
			for T in f32 bf16: T[1, 3, 8], T[1, 133, 8], T[1, 133, 8], attn_mask=T[3, 133]{tails fixed}
			f32[1, 3, 8], f32[1, 1030, 8], f32[1, 1030, 8], attn_mask=f32[3, 1030]{tails fixed}`),
	}, compose.Fused, scaledDotProductAttention),
	multiheadOp,
	compose.Declare(compose.Op[safeSoftmaxArgs]{
		Schema: "_safe_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor", Names: "_safe_softmax",
		Doc: opdef.Doc{Summary: "Softmax that is 0 where all elements are -inf", Formula: "exp(self) / sum(exp(self))",
			Source: "ATen/native/transformers/attention.cpp"},
		Cases: opdef.Calls[safeSoftmaxArgs](`
			f64[3, 4], -1; f32[2, 5], 0; bf16[2, 3], 1
			for T in f32 bf16: T[3, 133]{tails}, 1
			f32[3, 1030]{tails}, 1`),
	}, compose.Fused, safeSoftmax),
}

type safeSoftmaxArgs struct {
	Self  *tensor.Tensor
	Dim   int
	Dtype *tensor.DType
}

func safeSoftmax(g *compose.Graph, a *safeSoftmaxArgs) compose.Values {
	x := g.Arg("self", a.Self)
	g.Check(elements.WantFloat("self", a.Self))
	if a.Dtype != nil {
		x = g.To(x, *a.Dtype)
	}
	dim := g.Axis("dim", a.Dim, x)
	unseeing := opdef.Map(tensor.Bool, g.Amax(x, true, dim).T, func(largest float64) int64 {
		return elements.Indicator(math.IsInf(largest, -1))
	})
	// What is hidden takes no gradient, not even NaN.
	return compose.Values{g.MaskedFill(g.Softmax(g.MaskedFill(x, unseeing, 0), dim), unseeing, 0)}
}

type attentionArgs struct {
	Query, Key, Value, AttnMask *tensor.Tensor
	DropoutP                    float64
	IsCausal                    bool
	Scale                       *float64
	EnableGqa                   bool

	mask string // the name of attn_mask, if it has another
}

// products is what an element costs: query key^T costs E per pair, the weights' product with value F.
func (a *attentionArgs) products() float64 {
	keys := float64(a.Key.Shape[a.Key.Dim()-2])
	return keys * (1 + float64(elements.LastDim(a.Query.Shape))/float64(max(1, elements.LastDim(a.Value.Shape))))
}

// axes cut an attention into its batches and heads, and, where the position of a query does not
// matter, its queries: of each all keys.
func (a *attentionArgs) axes() *opdef.Axes {
	queries := 0
	if m := a.AttnMask; a.IsCausal || m != nil && !m.DType.IsFloat() {
		if m != nil && tensor.Numel(m.Shape[:max(0, m.Dim()-2)]) > 1 {
			return nil // only floating masks can be cut
		}
		queries = opdef.Uncut
	}
	labels := func(t *tensor.Tensor, rows int) []int {
		l := make([]int, t.Dim())
		for d := range l {
			l[d] = t.Dim() - d
		}
		if n := t.Dim() - 3; a.EnableGqa && n >= 0 {
			l[n] = opdef.Uncut
		}
		return append(l[:t.Dim()-2], rows, opdef.Uncut)
	}
	x := &opdef.Axes{Args: map[string][][]int{"query": {labels(a.Query, queries)}, "key": {labels(a.Key, opdef.Uncut)},
		"value": {labels(a.Value, opdef.Uncut)}}}
	longest := a.Query
	for _, t := range []*tensor.Tensor{a.Key, a.Value, a.AttnMask} {
		if t != nil && t.Dim() > longest.Dim() {
			longest = t
		}
	}
	x.Out = labels(longest, queries)
	if m := a.AttnMask; m != nil && m.DType.IsFloat() && m.Dim() >= 2 {
		x.Args[cmp.Or(a.mask, "attn_mask")] = [][]int{labels(m, queries)}
	}
	return x
}

func scaledDotProductAttention(g *compose.Graph, a *attentionArgs) compose.Values {
	return attentionWith(g, a, nil)
}

// attentionWith is the attention with other scores, queries, keys and values, if with is
// not nil.
func attentionWith(g *compose.Graph, a *attentionArgs, with func(x *attentionParts)) compose.Values {
	q, k, v := g.Arg("query", a.Query), g.Arg("key", a.Key), g.Arg("value", a.Value)
	s := compose.Everything(1 / math.Sqrt(float64(elements.LastDim(a.Query.Shape))))
	if a.Scale != nil {
		s.Scale = *a.Scale
	}
	if a.AttnMask != nil {
		if a.IsCausal {
			g.Refuse("attn_mask", "no mask may be given with is_causal")
		}
		if s.Mask = g.Arg(cmp.Or(a.mask, "attn_mask"), a.AttnMask); a.AttnMask.DType == tensor.Bool {
			s.Mask = g.BoolMask(a.AttnMask)
		}
	}
	s.Dropout = a.DropoutP
	if a.IsCausal {
		s.After = 0
	}
	if a.EnableGqa {
		k, v = repeatHeads(g, "key", k, q), repeatHeads(g, "value", v, q)
	}
	x := &attentionParts{g, q, k, v, s}
	if with != nil {
		with(x)
	}
	y := g.Attention(x.q, x.k, x.v, x.Scores)
	g.Cut(a.axes)
	g.Cost(a.products())
	g.Mistaken(func() []opdef.Mistake[any] { return attentionMistakes(a) })
	return compose.Values{y}
}

// attentionParts are what an attention is made of, the heads of keys and values as many
// as those of queries.
type attentionParts struct {
	g       *compose.Graph
	q, k, v *compose.Value
	compose.Scores
}

// repeatHeads repeats the heads of x, dimension -3, as often as the query has
// more.
func repeatHeads(g *compose.Graph, arg string, x, query *compose.Value) *compose.Value {
	d := x.Dim() - 3
	if d < 0 || query.Dim() < 3 {
		g.Refuse(arg, "want at least 3 dimensions with enable_gqa")
	}
	have, want := x.Shape()[d], query.Shape()[query.Dim()-3]
	if have == 0 || want%have != 0 {
		g.Refuse(arg, "%d heads do not divide the query's %d", have, want)
	}
	return g.RepeatInterleave(x, want/have, d)
}
