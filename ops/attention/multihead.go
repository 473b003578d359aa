package attention

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

var multiheadOp = opdef.Op[multiheadArgs]{
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
			"forbid where they are true. Without need_weights the weights are None.",
		Source: "torch.nn.functional.multi_head_attention_forward"},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Normwise,
		ULPs: 6, Coarse: true}},
	Autocast: opdef.AutocastLower,
	RandomIf: func(a *multiheadArgs) string {
		if a.Training && a.DropoutP > 0 {
			return "draws random numbers"
		}
		return ""
	},
	Terms: func(a *multiheadArgs) int {
		return elements.ErrorTerms(a.Query.DType, 2*elements.LastDim(a.Query.Shape)+a.Key.Shape[0])
	},
	GradTerms: func(a *multiheadArgs) int {
		return elements.ErrorTerms(a.Query.DType, max(1, a.Query.Numel()+a.Key.Numel()))
	},
	Kernel: func(a *multiheadArgs) ([]*tensor.Tensor, error) {
		m, err := a.heads()
		if err != nil {
			return nil, err
		}
		return m.results(), nil
	},
	Grad: func(a *multiheadArgs, g *opdef.Grad) (opdef.Grads, error) {
		m, err := a.heads()
		if err != nil {
			return nil, err
		}
		return m.grads(g), nil
	},
	Scale: func(a *multiheadArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		m, err := a.heads()
		if err != nil {
			return outs
		}
		return m.resultErrors()
	},
	GradScale: func(a *multiheadArgs, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
		m, err := a.heads()
		if err != nil {
			return nil, err
		}
		s, k := opdef.Grads{}, m.growth()
		for name, ts := range gr {
			if ts[0] != nil {
				s.Set(name, tensor.Full(tensor.Float64, ts[0].Shape, k*opdef.MaxAbs(ts[0])))
			}
		}
		return s, nil
	},
	Cases: multiheadCases,
}.Entry()

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

// A headInput is one of q, k and v: rows of (positions, batch, E).
type headInput struct {
	x      *tensor.Tensor // the argument
	in     []float64
	weight []float64
	bias   []float64
	y      []float64
	given  bool // y is static_k or static_v, not a projection
}

// A multihead is a call that has run.
type multihead struct {
	a          *multiheadArgs
	l, s, n, e int // queries, keys given, batch, embedding
	keys       int // keys with those of bias_k and add_zero_attn
	head       int // length of a head
	scale      float64
	q, k, v    headInput
	weights    []float64 // (n, heads, l, keys)
	joined     []float64 // (l, n, e), heads side by side
}

func (a *multiheadArgs) heads() (*multihead, error) {
	m := &multihead{a: a, e: elements.LastDim(a.Query.Shape), n: 1}
	dt, dims := a.Query.DType, a.Query.Dim()
	switch {
	case dims != 2 && dims != 3:
		return nil, opdef.Refuse("query", "want 2 or 3 dimensions, got %s", a.Query.Meta())
	case !dt.IsFloat():
		return nil, opdef.Refuse("query", "want a floating dtype, got %s", dt)
	case a.Key.Dim() != dims || a.Value.Dim() != dims:
		return nil, opdef.Refuse("key", "want %d dimensions as query, got %s and %s", dims, a.Key.Meta(),
			a.Value.Meta())
	case m.e != a.EmbedDimToCheck:
		return nil, opdef.Refuse("embed_dim_to_check", "want %d, the last dimension of query, got %d", m.e,
			a.EmbedDimToCheck)
	case a.NumHeads <= 0 || m.e%a.NumHeads != 0:
		return nil, opdef.Refuse("num_heads", "%d heads do not divide %d", a.NumHeads, m.e)
	case !slices.Equal(a.Key.Shape[:dims-1], a.Value.Shape[:dims-1]):
		return nil, opdef.Refuse("value", "shape %s does not go with key %s", tensor.ShapeString(a.Value.Shape),
			tensor.ShapeString(a.Key.Shape))
	case (a.BiasK == nil) != (a.BiasV == nil):
		return nil, opdef.Refuse("bias_v", "want both bias_k and bias_v or none")
	case a.IsCausal && a.AttnMask == nil:
		return nil, opdef.Refuse("attn_mask", "needed where is_causal is set")
	}
	m.l, m.s, m.head = a.Query.Shape[0], a.Key.Shape[0], m.e/a.NumHeads
	if dims == 3 {
		m.n = a.Query.Shape[1]
		if a.Key.Shape[1] != m.n {
			return nil, opdef.Refuse("key", "batch %d differs from the query's %d", a.Key.Shape[1], m.n)
		}
	}
	m.scale = 1 / math.Sqrt(float64(m.head))
	for i, p := range []struct {
		to      *headInput
		name    string
		x, own  *tensor.Tensor
		ownName string
	}{{&m.q, "query", a.Query, a.QProjWeight, "q_proj_weight"}, {&m.k, "key", a.Key, a.KProjWeight, "k_proj_weight"},
		{&m.v, "value", a.Value, a.VProjWeight, "v_proj_weight"}} {
		if err := m.project(p.to, i, p.name, p.x, p.own, p.ownName); err != nil {
			return nil, err
		}
	}
	if err := m.fits("out_proj_weight", a.OutProjWeight, m.e, m.e); err != nil {
		return nil, err
	}
	if a.OutProjBias != nil {
		if err := m.fits("out_proj_bias", a.OutProjBias, m.e); err != nil {
			return nil, err
		}
	}
	if err := m.moreKeys(); err != nil {
		return nil, err
	}
	return m, m.attend()
}

func (m *multihead) fits(name string, t *tensor.Tensor, shape ...int) error {
	if t == nil || !slices.Equal(t.Shape, shape) || t.DType != m.a.Query.DType {
		got := "None"
		if t != nil {
			got = t.Meta()
		}
		return opdef.Refuse(name, "want %s%s, got %s", m.a.Query.DType, tensor.ShapeString(shape), got)
	}
	return nil
}

// project computes input i of q, k, v.
func (m *multihead) project(p *headInput, i int, name string, x, own *tensor.Tensor, ownName string) error {
	if x.DType != m.a.Query.DType {
		return opdef.Refuse(name, "want dtype %s as query, got %s", m.a.Query.DType, x.DType)
	}
	in := elements.LastDim(x.Shape)
	if m.a.UseSeparateProjWeight {
		if err := m.fits(ownName, own, m.e, in); err != nil {
			return err
		}
		p.weight = tensor.Data[float64](own)
	} else {
		if in != m.e {
			return opdef.Refuse(name, "last dimension is %d, want %d", in, m.e)
		}
		if err := m.fits("in_proj_weight", m.a.InProjWeight, 3*m.e, m.e); err != nil {
			return err
		}
		p.weight = tensor.Data[float64](m.a.InProjWeight)[i*m.e*m.e : (i+1)*m.e*m.e]
	}
	if b := m.a.InProjBias; b != nil {
		if err := m.fits("in_proj_bias", b, 3*m.e); err != nil {
			return err
		}
		p.bias = tensor.Data[float64](b)[i*m.e : (i+1)*m.e]
	}
	p.x, p.in = x, tensor.Data[float64](x)
	rows := x.Shape[0] * m.n
	p.y = make([]float64, rows*m.e)
	kernel.Gemm(kernel.Dense(rows, in, p.in), kernel.Dense(m.e, in, p.weight).T(), 0, kernel.Dense(rows, m.e, p.y))
	for at := range p.y {
		if p.bias != nil {
			p.y[at] += p.bias[at%m.e]
		}
	}
	return nil
}

// moreKeys puts static keys and values in place and appends the further ones.
func (m *multihead) moreKeys() error {
	a := m.a
	for _, st := range []struct {
		name string
		t    *tensor.Tensor
		p    *headInput
	}{{"static_k", a.StaticK, &m.k}, {"static_v", a.StaticV, &m.v}} {
		if st.t == nil {
			continue
		}
		if err := m.fits(st.name, st.t, m.n*a.NumHeads, m.s, m.head); err != nil {
			return err
		}
		st.p.given = true
		st.p.y = tensor.Data[float64](st.t.Reshape(m.n, a.NumHeads, m.s, m.head).Permute(2, 0, 1, 3))
	}
	m.keys = m.s
	if a.BiasK != nil {
		if a.StaticK != nil || a.StaticV != nil {
			return opdef.Refuse("bias_k", "cannot be added to static keys and values")
		}
		for _, b := range []struct {
			name string
			t    *tensor.Tensor
			p    *headInput
		}{{"bias_k", a.BiasK, &m.k}, {"bias_v", a.BiasV, &m.v}} {
			if err := m.fits(b.name, b.t, 1, 1, m.e); err != nil {
				return err
			}
			b.p.y = slices.Concat(b.p.y, slices.Repeat(tensor.Data[float64](b.t), m.n))
		}
		m.keys++
	}
	if a.AddZeroAttn {
		zero := make([]float64, m.n*m.e)
		m.k.y, m.v.y = slices.Concat(m.k.y, zero), slices.Concat(m.v.y, zero)
		m.keys++
	}
	return nil
}

// part is head h of batch b of rows positions.
func (m *multihead) part(y []float64, rows, b, h int) kernel.Matrix[float64] {
	at := b*m.e + h*m.head
	return kernel.Matrix[float64]{Rows: rows, Cols: m.head, Data: y[min(at, len(y)):], Stride: m.n * m.e}
}

// block is the scores of a head.
func (m *multihead) block(w []float64, b, h int) []float64 {
	size := m.l * m.keys
	return w[(b*m.a.NumHeads+h)*size:][:size]
}

// attend computes the weights and the heads.
func (m *multihead) attend() error {
	bias, err := m.mask()
	if err != nil {
		return err
	}
	heads := m.a.NumHeads
	m.weights, m.joined = make([]float64, m.n*heads*m.l*m.keys), make([]float64, m.l*m.n*m.e)
	if m.l == 0 {
		return nil
	}
	tensor.Parallel(m.n*heads, 1, func(from, to int) {
		for i := from; i < to; i++ {
			b, h := i/heads, i%heads
			w := m.block(m.weights, b, h)
			kernel.Gemm(m.part(m.q.y, m.l, b, h), m.part(m.k.y, m.keys, b, h).T(), 0, kernel.Dense(m.l, m.keys, w))
			for r := range m.l {
				row := w[r*m.keys : (r+1)*m.keys]
				for c := range row {
					row[c] = row[c]*m.scale + bias(b, h, r, c)
				}
				softmaxRow(row)
			}
			kernel.Gemm(kernel.Dense(m.l, m.keys, w), m.part(m.v.y, m.keys, b, h), 0, m.part(m.joined, m.l, b, h))
		}
	})
	return nil
}

func softmaxRow(row []float64) {
	if len(row) == 0 {
		return
	}
	top, sum := slices.Max(row), 0.0
	for i, x := range row {
		row[i] = math.Exp(x - top)
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
	}
}

// mask gives what is added to a score of a given key; further keys are free.
func (m *multihead) mask() (func(b, h, r, c int) float64, error) {
	a, heads := m.a, m.a.NumHeads
	var attn, pad []float64
	perHead := false
	if t := a.AttnMask; t != nil {
		switch {
		case slices.Equal(t.Shape, []int{m.l, m.s}):
		case slices.Equal(t.Shape, []int{m.n * heads, m.l, m.s}):
			perHead = true
		default:
			return nil, opdef.Refuse("attn_mask", "want shape %s or %s, got %s", tensor.ShapeString([]int{m.l, m.s}),
				tensor.ShapeString([]int{m.n * heads, m.l, m.s}), t.Meta())
		}
		var err error
		if attn, err = addedMask("attn_mask", t); err != nil {
			return nil, err
		}
	}
	if t := a.KeyPaddingMask; t != nil {
		want := []int{m.n, m.s}
		if a.Query.Dim() == 2 {
			want = want[1:]
		}
		if !slices.Equal(t.Shape, want) {
			return nil, opdef.Refuse("key_padding_mask", "want shape %s, got %s", tensor.ShapeString(want), t.Meta())
		}
		var err error
		if pad, err = addedMask("key_padding_mask", t); err != nil {
			return nil, err
		}
	}
	return func(b, h, r, c int) float64 {
		if c >= m.s {
			return 0
		}
		v := 0.0
		if attn != nil {
			at := r*m.s + c
			if perHead {
				at += (b*heads + h) * m.l * m.s
			}
			v = attn[at]
		}
		if pad != nil {
			v += pad[b*m.s+c]
		}
		return v
	}, nil
}

// addedMask is a mask as numbers that are added to scores.
func addedMask(name string, t *tensor.Tensor) ([]float64, error) {
	switch {
	case t.DType.IsFloat():
		return tensor.Data[float64](t), nil
	case t.DType != tensor.Bool && t.DType != tensor.Uint8:
		return nil, opdef.Refuse(name, "want bool or a floating dtype, got %s", t.DType)
	}
	v := make([]float64, t.Numel())
	for i, forbid := range tensor.Data[int64](t) {
		if forbid != 0 {
			v[i] = math.Inf(-1)
		}
	}
	return v, nil
}

func (m *multihead) results() []*tensor.Tensor {
	a := m.a
	y := make([]float64, m.l*m.n*m.e)
	kernel.Gemm(kernel.Dense(m.l*m.n, m.e, m.joined), kernel.Dense(m.e, m.e, tensor.Data[float64](a.OutProjWeight)).T(),
		0, kernel.Dense(m.l*m.n, m.e, y))
	if a.OutProjBias != nil {
		b := tensor.Data[float64](a.OutProjBias)
		for i := range y {
			y[i] += b[i%m.e]
		}
	}
	return m.shaped(y, m.weights)
}

// shaped are the results made of y (l, n, e) and the weights of the heads.
func (m *multihead) shaped(y, weights []float64) []*tensor.Tensor {
	a, dt := m.a, m.a.Query.DType
	outs := elements.Single(tensor.New(dt, a.Query.Shape, y))
	if !a.NeedWeights {
		return outs
	}
	w := tensor.New(dt, []int{m.n, a.NumHeads, m.l, m.keys}, weights)
	if a.AverageAttnWeights {
		mean := make([]float64, m.n*m.l*m.keys)
		for i := range mean {
			for h := range a.NumHeads {
				mean[i] += weights[(i/(m.l*m.keys)*a.NumHeads+h)*m.l*m.keys+i%(m.l*m.keys)]
			}
			mean[i] /= float64(a.NumHeads)
		}
		w = tensor.New(dt, []int{m.n, m.l, m.keys}, mean)
	}
	if a.Query.Dim() == 2 {
		w = w.Squeeze(0)
	}
	return append(outs, w)
}

func (m *multihead) grads(g *opdef.Grad) opdef.Grads {
	a, dt, heads := m.a, m.a.Query.DType, m.a.NumHeads
	rows := m.l * m.n
	dy := make([]float64, rows*m.e)
	if g.Out[0] != nil {
		dy = tensor.Data[float64](g.Out[0])
	}
	var dweights []float64
	if len(g.Out) > 1 && g.Out[1] != nil {
		dweights = tensor.Data[float64](g.Out[1])
	}
	gr := opdef.Grads{}
	dense := kernel.Dense[float64]
	wo := make([]float64, m.e*m.e)
	kernel.Gemm(dense(rows, m.e, dy).T(), dense(rows, m.e, m.joined), 0, dense(m.e, m.e, wo))
	gr.Set("out_proj_weight", tensor.New(dt, a.OutProjWeight.Shape, wo))
	gr.Set("out_proj_bias", ifGiven(a.OutProjBias, columnSums(dy, m.e)))
	dj := make([]float64, rows*m.e)
	kernel.Gemm(dense(rows, m.e, dy), dense(m.e, m.e, tensor.Data[float64](a.OutProjWeight)), 0, dense(rows, m.e, dj))
	dq, dk, dv := make([]float64, len(m.q.y)), make([]float64, len(m.k.y)), make([]float64, len(m.v.y))
	ds := make([]float64, len(m.weights))
	if m.l > 0 {
		tensor.Parallel(m.n*heads, 1, func(from, to int) {
			for i := from; i < to; i++ {
				b, h := i/heads, i%heads
				w, d := m.block(m.weights, b, h), m.block(ds, b, h)
				up := m.part(dj, m.l, b, h)
				kernel.Gemm(up, m.part(m.v.y, m.keys, b, h).T(), 0, dense(m.l, m.keys, d))
				kernel.Gemm(dense(m.l, m.keys, w).T(), up, 0, m.part(dv, m.keys, b, h))
				for j := range d {
					switch {
					case dweights != nil && a.AverageAttnWeights:
						d[j] += dweights[b*m.l*m.keys+j] / float64(heads)
					case dweights != nil:
						d[j] += dweights[i*m.l*m.keys+j]
					}
				}
				for r := range m.l {
					wr, dr := w[r*m.keys:(r+1)*m.keys], d[r*m.keys:(r+1)*m.keys]
					dot := 0.0
					for c := range wr {
						dot += wr[c] * dr[c]
					}
					for c := range wr {
						dr[c] = wr[c] * (dr[c] - dot)
					}
				}
				kernel.Gemm(dense(m.l, m.keys, d), m.part(m.k.y, m.keys, b, h), 0, m.part(dq, m.l, b, h))
				kernel.Gemm(dense(m.l, m.keys, d).T(), m.part(m.q.y, m.l, b, h), 0, m.part(dk, m.keys, b, h))
			}
		})
	}
	for i := range dq {
		dq[i] *= m.scale
	}
	for i := range dk {
		dk[i] *= m.scale
	}
	given := m.s * m.n * m.e
	if a.BiasK != nil {
		gr.Set("bias_k", tensor.New(dt, a.BiasK.Shape, columnSums(dk[given:given+m.n*m.e], m.e)))
		gr.Set("bias_v", tensor.New(dt, a.BiasV.Shape, columnSums(dv[given:given+m.n*m.e], m.e)))
	}
	m.maskGrads(gr, ds)
	inWeight, inBias := []float64{}, []float64{}
	for _, p := range []struct {
		p                    *headInput
		d                    []float64
		name, weight, static string
		fixed                *tensor.Tensor
	}{{&m.q, dq, "query", "q_proj_weight", "", nil}, {&m.k, dk[:given], "key", "k_proj_weight", "static_k", a.StaticK},
		{&m.v, dv[:given], "value", "v_proj_weight", "static_v", a.StaticV}} {
		if p.fixed != nil {
			t := tensor.New(dt, []int{m.s, m.n, heads, m.head}, slices.Clone(p.d)).Permute(1, 2, 0, 3)
			gr.Set(p.static, t.Reshape(p.fixed.Shape...))
			clear(p.d) // its projection was not used
		}
		in, r := elements.LastDim(p.p.x.Shape), len(p.d)/max(m.e, 1)
		dx, dw := make([]float64, r*in), make([]float64, m.e*in)
		kernel.Gemm(dense(r, m.e, p.d), dense(m.e, in, p.p.weight), 0, dense(r, in, dx))
		kernel.Gemm(dense(r, m.e, p.d).T(), dense(r, in, p.p.in), 0, dense(m.e, in, dw))
		gr.Set(p.name, tensor.New(dt, p.p.x.Shape, dx))
		if a.UseSeparateProjWeight {
			gr.Set(p.weight, tensor.New(dt, []int{m.e, in}, dw))
		}
		inWeight, inBias = append(inWeight, dw...), append(inBias, columnSums(p.d, m.e)...)
	}
	if !a.UseSeparateProjWeight {
		gr.Set("in_proj_weight", tensor.New(dt, a.InProjWeight.Shape, inWeight))
	}
	gr.Set("in_proj_bias", ifGiven(a.InProjBias, inBias))
	return gr
}

// maskGrads are the gradients of floating masks.
func (m *multihead) maskGrads(gr opdef.Grads, ds []float64) {
	a, heads := m.a, m.a.NumHeads
	attn, pad := a.AttnMask != nil && a.AttnMask.DType.IsFloat(), a.KeyPaddingMask != nil &&
		a.KeyPaddingMask.DType.IsFloat()
	if !attn && !pad {
		return
	}
	t := tensor.New(tensor.Float64, []int{m.n * heads, m.l, m.keys}, ds).Slice(2, 0, m.s, 1)
	if attn {
		gr.Set("attn_mask", opdef.SumTo(t, a.AttnMask.Shape))
	}
	if pad {
		p := opdef.SumTo(t.Reshape(m.n, heads, m.l, m.s), []int{m.n, 1, 1, m.s})
		gr.Set("key_padding_mask", p.Reshape(a.KeyPaddingMask.Shape...))
	}
}

// growth is how much larger errors of the result are than those of a sum: an
// error of a score is one of the exponent of a weight.
func (m *multihead) growth() float64 {
	longest := func(y []float64) float64 {
		s := 0.0
		for at := 0; at+m.head <= len(y) && m.head > 0; at += m.head {
			n := 0.0
			for _, x := range y[at : at+m.head] {
				n += x * x
			}
			s = math.Max(s, n)
		}
		return math.Sqrt(s)
	}
	k := 1 + m.scale*longest(m.q.y)*longest(m.k.y)
	return k * elements.HalfPrecisionFactor(m.a.Query.DType)
}

// ifGiven is v with the dtype and shape of t, nil without t.
func ifGiven(t *tensor.Tensor, v []float64) *tensor.Tensor {
	if t == nil {
		return nil
	}
	return tensor.New(t.DType, t.Shape, v)
}

// columnSums adds the rows of a matrix.
func columnSums(v []float64, width int) []float64 {
	s := make([]float64, width)
	for i, x := range v {
		s[i%width] += x
	}
	return s
}

func multiheadCases(r *rand.Rand) []*multiheadArgs {
	g := opdef.Gen{R: r}
	call := func(dt tensor.DType, l, s, n int) *multiheadArgs {
		draw := func(shape ...int) *tensor.Tensor { return g.Uniform(dt, -0.7, 0.7, shape...) }
		return &multiheadArgs{
			Query: draw(l, n, 4), Key: draw(s, n, 4), Value: draw(s, n, 4), EmbedDimToCheck: 4, NumHeads: 2,
			InProjWeight: draw(12, 4), InProjBias: draw(12),
			OutProjWeight: draw(4, 4), OutProjBias: draw(4), NeedWeights: true, AverageAttnWeights: true,
		}
	}
	f64 := tensor.Float64
	plain := call(f64, 3, 2, 2)
	extended := call(f64, 2, 3, 2)
	extended.BiasK, extended.BiasV, extended.AddZeroAttn, extended.AverageAttnWeights = g.Normal(f64, 1, 1, 4),
		g.Normal(f64, 1, 1, 4), true, false
	extended.AttnMask, extended.KeyPaddingMask = g.Normal(f64, 4, 2, 3), tensor.New(tensor.Bool, []int{2, 3},
		[]int64{0, 1, 0, 0, 0, 1}).Rounded()
	separate := call(f64, 2, 3, 1)
	separate.Query, separate.Key, separate.Value = g.Normal(f64, 2, 4), g.Normal(f64, 3, 5), g.Normal(f64, 3, 6)
	separate.InProjWeight, separate.UseSeparateProjWeight, separate.NeedWeights = nil, true, false
	separate.QProjWeight, separate.KProjWeight, separate.VProjWeight = g.Normal(f64, 4, 4), g.Normal(f64, 4, 5),
		g.Normal(f64, 4, 6)
	separate.AttnMask, separate.KeyPaddingMask = tensor.New(tensor.Bool, []int{2, 3},
		[]int64{0, 1, 0, 0, 0, 1}).Rounded(), g.Normal(f64, 3)
	static := call(f64, 2, 2, 1)
	static.StaticK, static.StaticV, static.InProjBias, static.OutProjBias = g.Normal(f64, 2, 2, 2),
		g.Normal(f64, 2, 2, 2), nil, nil
	return []*multiheadArgs{plain, extended, separate, static, call(tensor.Float32, 2, 2, 1),
		call(tensor.BFloat16, 2, 3, 1)}
}
