package attention

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var multiheadOp = compose.Declare(compose.Op[multiheadArgs]{
	Schema: "multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int embed_dim_to_check, int " +
		"num_heads, Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? bias_k, Tensor? bias_v, " +
		"bool add_zero_attn, float dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias, bool training=True, " +
		"Tensor? key_padding_mask=None, bool need_weights=True, Tensor? attn_mask=None, " +
		"bool use_separate_proj_weight=False, Tensor? q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? " +
		"v_proj_weight=None, Tensor? static_k=None, Tensor? static_v=None, " +
		"bool average_attn_weights=True, bool is_causal=False) -> (Tensor, Tensor?)",
	Names: "F.multi_head_attention_forward",
	Doc: opdef.Doc{Summary: "Attention in several heads between projections",
		Formula: "concat_h(softmax(q_h k_h^T / sqrt(E/heads) + mask) v_h) out_proj_weight^T + out_proj_bias; the " +
			"weights, averaged over the heads",
		Notes: "query is (L, N, E) or (L, E), key and value are (S, N, *) or (S, *); q, k and v are their " +
			"projections. bias_k, bias_v and, if add_zero_attn, zeros are further keys and values. Bool masks " +
			"forbid where they are true. Without need_weights the weights are None."},
	Traits: opdef.Traits{Autocast: opdef.AutocastLower},
	Cases:  multiheadCases,
}, compose.Unfused, multiHeadAttention)

type multiheadArgs struct {
	Query, Key, Value                                       *tensor.Tensor
	EmbedDimToCheck, NumHeads                               int
	InProjWeight, InProjBias, BiasK, BiasV                  *tensor.Tensor
	AddZeroAttn                                             bool
	DropoutP                                                float64
	OutProjWeight, OutProjBias                              *tensor.Tensor
	Training                                                bool
	KeyPaddingMask                                          *tensor.Tensor
	NeedWeights                                             bool
	AttnMask                                                *tensor.Tensor
	UseSeparateProjWeight                                   bool
	QProjWeight, KProjWeight, VProjWeight, StaticK, StaticV *tensor.Tensor
	AverageAttnWeights, IsCausal                            bool
}

// A multihead is a call in the making.
type multihead struct {
	*compose.Graph
	a          *multiheadArgs
	dt         tensor.DType
	l, s, n, e int // queries, keys given, batch, embedding
	head       int // length of a head
}

// multiHeadAttention follows torch's own composition (torch/nn/functional.py). The
// weights it returns it computes; without them it is scaled dot-product attention.
func multiHeadAttention(g *compose.Graph, a *multiheadArgs) compose.Values {
	m := newMultihead(g, a)
	if a.Training && a.DropoutP > 0 {
		m.Draws()
	}
	m.Judge(a.drawn)
	q, k, v := m.projections()
	mask, causal := m.masks()
	k, v, mask = m.furtherKeys(k, v, mask)
	if !a.NeedWeights {
		scores := compose.Everything(1 / math.Sqrt(float64(m.head)))
		if a.Training {
			scores.Dropout = a.DropoutP
		}
		if causal {
			scores.After = 0
		}
		if mask != nil {
			scores.Mask = m.split(mask)
		}
		y := m.Attention(m.split(q), m.split(k), m.split(v), scores)
		return compose.Values{m.output(m.Permute(y, 2, 0, 1, 3))}
	}
	w := m.Matmul(m.Scale(q, math.Sqrt(1/float64(m.head))), m.Transpose(k, -2, -1))
	if mask != nil {
		w = m.Add(mask, w)
	}
	w = m.Softmax(w, -1)
	y := m.output(m.Transpose(m.Matmul(w, v), 0, 1))
	w = m.split(w)
	if a.AverageAttnWeights {
		w = m.Mean(w, false, 1)
	}
	if a.Query.Dim() == 2 {
		w = m.Squeeze(w, 0)
	}
	return compose.Values{y, w}
}

// drawn judges a call with dropout by the form of it that computes no weights.
func (a *multiheadArgs) drawn(got []*tensor.Tensor) opdef.Drawn {
	plain := *a
	plain.NeedWeights = false
	c := opdef.Must(compose.Plan(&plain, multiHeadAttention))
	if len(got) == 0 || !slices.Equal(got[0].Shape, a.Query.Shape) {
		return opdef.Drawn{}
	}
	var mean *tensor.Tensor
	if a.NeedWeights && a.AverageAttnWeights && len(got) == 2 {
		mean = got[1]
	}
	return c.DrawnProjected(got[0], a.OutProjWeight, a.OutProjBias, mean)
}

// newMultihead checks the arguments that sizes follow from.
func newMultihead(g *compose.Graph, a *multiheadArgs) *multihead {
	m := &multihead{Graph: g, a: a, dt: a.Query.DType, e: elements.LastDim(a.Query.Shape), n: 1}
	dims := a.Query.Dim()
	switch {
	case dims != 2 && dims != 3:
		g.Refuse("query", "want 2 or 3 dimensions, got %s", a.Query.Meta())
	case !m.dt.IsFloat():
		g.Refuse("query", "want a floating dtype, got %s", m.dt)
	case a.Key.Dim() != dims || a.Value.Dim() != dims:
		g.Refuse("key", "want %d dimensions as query, got %s and %s", dims, a.Key.Meta(), a.Value.Meta())
	case m.e != a.EmbedDimToCheck:
		g.Refuse("embed_dim_to_check", "want %d, the last dimension of query, got %d", m.e, a.EmbedDimToCheck)
	case a.NumHeads <= 0 || m.e%a.NumHeads != 0:
		g.Refuse("num_heads", "%d heads do not divide %d", a.NumHeads, m.e)
	case !slices.Equal(a.Key.Shape[:dims-1], a.Value.Shape[:dims-1]):
		g.Refuse("value", "shape %s does not go with key %s", tensor.ShapeString(a.Value.Shape),
			tensor.ShapeString(a.Key.Shape))
	case (a.BiasK == nil) != (a.BiasV == nil):
		g.Refuse("bias_v", "want both bias_k and bias_v or none")
	case a.BiasK != nil && (a.StaticK != nil || a.StaticV != nil):
		g.Refuse("bias_k", "cannot be added to static keys and values")
	case a.IsCausal && a.AttnMask == nil:
		g.Refuse("attn_mask", "needed where is_causal is set")
	}
	m.l, m.s, m.head = a.Query.Shape[0], a.Key.Shape[0], m.e/a.NumHeads
	if dims == 3 {
		m.n = a.Query.Shape[1]
		if a.Key.Shape[1] != m.n {
			g.Refuse("key", "batch %d differs from the query's %d", a.Key.Shape[1], m.n)
		}
	}
	return m
}

// arg is a tensor argument of the query's dtype and of the given shape.
func (m *multihead) arg(name string, t *tensor.Tensor, shape ...int) *compose.Value {
	switch {
	case t == nil:
		m.Refuse(name, "want %s%s, got None", m.dt, tensor.ShapeString(shape))
	case !slices.Equal(t.Shape, shape) || t.DType != m.dt:
		m.Refuse(name, "want %s%s, got %s", m.dt, tensor.ShapeString(shape), t.Meta())
	}
	return m.Arg(name, t)
}

// projections are q, k and v of all heads, (n*heads, positions, head).
func (m *multihead) projections() (q, k, v *compose.Value) {
	a := m.a
	weights, biases := make([]*compose.Value, 3), make([]*compose.Value, 3)
	if a.UseSeparateProjWeight {
		for i, w := range []struct {
			name string
			w, x *tensor.Tensor
		}{{"q_proj_weight", a.QProjWeight, a.Query}, {"k_proj_weight", a.KProjWeight, a.Key},
			{"v_proj_weight", a.VProjWeight, a.Value}} {
			weights[i] = m.arg(w.name, w.w, m.e, elements.LastDim(w.x.Shape))
		}
	} else {
		weights = m.Chunk(m.arg("in_proj_weight", a.InProjWeight, 3*m.e, m.e), 3, 0)
	}
	if a.InProjBias != nil {
		biases = m.Chunk(m.arg("in_proj_bias", a.InProjBias, 3*m.e), 3, 0)
	}
	project := func(i int, name string, x *tensor.Tensor) *compose.Value {
		if x.DType != m.dt || elements.LastDim(x.Shape) != weights[i].Shape()[1] {
			m.Refuse(name, "want %s as query with last dimension %d, got %s", m.dt, weights[i].Shape()[1], x.Meta())
		}
		rows := m.Reshape(m.Arg(name, x), x.Shape[0], m.n, weights[i].Shape()[1])
		return m.Linear(rows, weights[i], biases[i])
	}
	q, k, v = project(0, "query", a.Query), project(1, "key", a.Key), project(2, "value", a.Value)
	if a.BiasK != nil {
		k, v = m.appendBias(k, "bias_k", a.BiasK), m.appendBias(v, "bias_v", a.BiasV)
	}
	k, v = m.keys(k, "static_k", a.StaticK), m.keys(v, "static_v", a.StaticV)
	return m.heads(q), k, v
}

// appendBias is x with a further position, the same throughout the batch.
func (m *multihead) appendBias(x *compose.Value, name string, bias *tensor.Tensor) *compose.Value {
	return m.Cat(0, x, m.Expand(m.arg(name, bias, 1, 1, m.e), 1, m.n, m.e))
}

// heads cuts rows (positions, n, e) into heads.
func (m *multihead) heads(x *compose.Value) *compose.Value {
	return m.Transpose(m.Reshape(x, x.Shape()[0], m.n*m.a.NumHeads, m.head), 0, 1)
}

// keys are the heads of x, or those given.
func (m *multihead) keys(x *compose.Value, name string, given *tensor.Tensor) *compose.Value {
	if given == nil {
		return m.heads(x)
	}
	return m.arg(name, given, m.n*m.a.NumHeads, m.s, m.head)
}

// split is x (n*heads or 1, rows, columns) with batch and heads apart.
func (m *multihead) split(x *compose.Value) *compose.Value {
	s := x.Shape()
	if s[0] == 1 {
		return m.Unsqueeze(x, 0)
	}
	return m.Reshape(x, m.n, m.a.NumHeads, s[1], s[2])
}

// masks is what is added to scores, (n*heads or 1, l or 1, s), nil if nothing is,
// and whether the mask is left out for that of causality.
func (m *multihead) masks() (mask *compose.Value, causal bool) {
	a, items := m.a, m.n*m.a.NumHeads
	if causal = a.IsCausal && a.KeyPaddingMask == nil && !a.NeedWeights; a.AttnMask != nil && !causal {
		one, each := []int{m.l, m.s}, []int{items, m.l, m.s}
		if s := a.AttnMask.Shape; !slices.Equal(s, one) && !slices.Equal(s, each) {
			m.Refuse("attn_mask", "want shape %s or %s, got %s", tensor.ShapeString(one), tensor.ShapeString(each),
				a.AttnMask.Meta())
		}
		if mask = m.added("attn_mask", a.AttnMask); mask.Dim() == 2 {
			mask = m.Unsqueeze(mask, 0)
		}
	}
	if a.KeyPaddingMask == nil {
		return mask, causal
	}
	want := append(slices.Clone(a.Query.Shape[1:a.Query.Dim()-1]), m.s) // without batch where query has none
	if !slices.Equal(a.KeyPaddingMask.Shape, want) {
		m.Refuse("key_padding_mask", "want shape %s, got %s", tensor.ShapeString(want), a.KeyPaddingMask.Meta())
	}
	pad := m.Reshape(m.added("key_padding_mask", a.KeyPaddingMask), m.n, 1, 1, m.s)
	pad = m.Reshape(m.Expand(pad, m.n, a.NumHeads, 1, m.s), items, 1, m.s)
	if mask != nil {
		pad = m.Add(mask, pad)
	}
	return pad, causal
}

// added is a mask as numbers that are added to scores.
func (m *multihead) added(name string, t *tensor.Tensor) *compose.Value {
	switch {
	case t.DType.IsFloat():
		return m.To(m.Arg(name, t), m.dt)
	case t.DType != tensor.Bool && t.DType != tensor.Uint8:
		m.Refuse(name, "want bool or a floating dtype, got %s", t.DType)
	}
	m.Arg(name, t)
	return m.MaskedFill(m.Full(m.dt, t.Shape, 0), t, math.Inf(-1))
}

// furtherKeys appends zeros to keys and values if asked to. The mask leaves all
// further keys free.
func (m *multihead) furtherKeys(k, v, mask *compose.Value) (keys, values, free *compose.Value) {
	if m.a.AddZeroAttn {
		zero := m.Full(m.dt, []int{m.n * m.a.NumHeads, 1, m.head}, 0)
		k, v = m.Cat(1, k, zero), m.Cat(1, v, zero)
	}
	if mask == nil || k.Shape()[1] == m.s {
		return k, v, mask
	}
	s := slices.Clone(mask.Shape())
	s[2] = k.Shape()[1] - m.s
	return k, v, m.Cat(2, mask, m.Full(m.dt, s, 0))
}

// output projects the joined heads x (l, n, ...) and gives them the query's shape.
func (m *multihead) output(x *compose.Value) *compose.Value {
	weight, bias := m.arg("out_proj_weight", m.a.OutProjWeight, m.e, m.e), (*compose.Value)(nil)
	if m.a.OutProjBias != nil {
		bias = m.arg("out_proj_bias", m.a.OutProjBias, m.e)
	}
	y := m.Reshape(m.Linear(m.Reshape(x, m.l*m.n, m.e), weight, bias), m.l, m.n, m.e)
	if m.a.Query.Dim() == 2 {
		return m.Squeeze(y, 1)
	}
	return y
}

var multiheadCases = opdef.Calls[multiheadArgs](`
	f64[3, 2, 4]{-0.7..0.7}, f64[2, 2, 4]{-0.7..0.7}, f64[2, 2, 4]{-0.7..0.7}, 4, 2, f64[12, 4]{-0.7..0.7},
	f64[12]{-0.7..0.7}, None, None, False, 0.0, f64[4, 4]{-0.7..0.7}, f64[4]{-0.7..0.7}, training=False
	f64[2, 2, 4]{-0.7..0.7}, f64[3, 2, 4]{-0.7..0.7}, f64[3, 2, 4]{-0.7..0.7}, 4, 2, f64[12, 4]{-0.7..0.7},
	f64[12]{-0.7..0.7}, f64[1, 1, 4], f64[1, 1, 4], True, 0.0, f64[4, 4]{-0.7..0.7}, f64[4]{-0.7..0.7},
	training=False, key_padding_mask=bool[2, 3]{= 0 1 0 0 0 1}, attn_mask=f64[4, 2, 3], average_attn_weights=False
	f64[2, 4], f64[3, 5], f64[3, 6], 4, 2, None, f64[12]{-0.7..0.7}, None, None, False, 0.0, f64[4, 4]{-0.7..0.7},
	f64[4]{-0.7..0.7}, training=False, key_padding_mask=f64[3], need_weights=False, attn_mask=bool[2,
	3]{= 0 1 0 0 0 1}, use_separate_proj_weight=True, q_proj_weight=f64[4, 4], k_proj_weight=f64[4, 5],
	v_proj_weight=f64[4, 6]
	f64[2, 1, 4]{-0.7..0.7}, f64[2, 1, 4]{-0.7..0.7}, f64[2, 1, 4]{-0.7..0.7}, 4, 2, f64[12, 4]{-0.7..0.7}, None,
	None, None, False, 0.0, f64[4, 4]{-0.7..0.7}, None, training=False, static_k=f64[2, 2, 2], static_v=f64[2, 2,
	2]
	f32[2, 1, 4]{-0.7..0.7}, f32[2, 1, 4]{-0.7..0.7}, f32[2, 1, 4]{-0.7..0.7}, 4, 2, f32[12, 4]{-0.7..0.7},
	f32[12]{-0.7..0.7}, None, None, False, 0.0, f32[4, 4]{-0.7..0.7}, f32[4]{-0.7..0.7}, training=False
	bf16[2, 1, 4]{-0.7..0.7}, bf16[3, 1, 4]{-0.7..0.7}, bf16[3, 1, 4]{-0.7..0.7}, 4, 2, bf16[12, 4]{-0.7..0.7},
	bf16[12]{-0.7..0.7}, None, None, False, 0.0, bf16[4, 4]{-0.7..0.7}, bf16[4]{-0.7..0.7}, training=False`)
