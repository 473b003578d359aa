package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// attentionOps are averages of values by the softmax of scores.
var attentionOps = []*opdef.Entry{
	opdef.Op[attentionArgs]{
		Schema: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float " +
			"dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
		Names: "F.scaled_dot_product_attention _C._nn.scaled_dot_product_attention",
		Doc: opdef.Doc{Summary: "Attention", Formula: "softmax(query key^T * scale + mask) value",
			Notes: "query is (*, L, E), key (*, S, E), value (*, S, F); scale is 1/sqrt(E) by default. A bool mask " +
				"keeps where it is true; is_causal keeps keys up to the query's position. A query without any key " +
				"gives nan. enable_gqa repeats the heads, dimension -3, of key and value.",
			Source: "torch.nn.functional.scaled_dot_product_attention"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Accumulated,
			ULPs: 6, Coarse: true}},
		Autocast: opdef.AutocastLower,
		RandomIf: func(a *attentionArgs) string {
			if a.DropoutP > 0 {
				return "draws random numbers"
			}
			return ""
		},
		Terms: func(a *attentionArgs) int {
			return longestSum(a.Query.DType, width(a.Query.Shape)+max(1, a.Key.Numel()/max(1, width(a.Key.Shape))))
		},
		GradTerms: func(a *attentionArgs) int {
			return longestSum(a.Query.DType, max(1, a.Query.Numel()+a.Key.Numel()))
		},
		Products: func(a *attentionArgs) float64 { // query key^T costs E per pair, the weights' product with value F
			keys := float64(a.Key.Shape[a.Key.Dim()-2])
			return keys * (1 + float64(width(a.Query.Shape))/float64(max(1, width(a.Value.Shape))))
		},
		Kernel: func(a *attentionArgs) ([]*tensor.Tensor, error) {
			at, err := a.attention()
			if err != nil {
				return nil, err
			}
			return single(at.forward(false)), nil
		},
		Scale: func(a *attentionArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			at, err := a.attention()
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			return single(at.forward(true))
		},
		Grad: func(a *attentionArgs, g *opdef.Grad) (opdef.Grads, error) {
			at, err := a.attention()
			if err != nil {
				return nil, err
			}
			return at.grads(g.Out[0], false), nil
		},
		GradScale: func(a *attentionArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			at, err := a.attention()
			if err != nil {
				return nil, err
			}
			return at.grads(g.Out[0], true), nil
		},
		Cases: func(r *rand.Rand) []*attentionArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			n := func(shape ...int) *tensor.Tensor { return g.Normal(f64, shape...) }
			mask := g.Normal(f64, 4, 3)
			keep := tensor.New(tensor.Bool, []int{4, 3}, []int64{1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0}).Rounded()
			return []*attentionArgs{
				{Query: n(2, 4, 5), Key: n(2, 3, 5), Value: n(2, 3, 6)}, {Query: n(2, 2, 4, 5), Key: n(2, 2, 3, 5),
					Value: n(2, 2, 3, 5), IsCausal: true},
				{Query: n(2, 4, 5), Key: n(2, 3, 5), Value: n(2, 3, 6), AttnMask: mask, Scale: ptr(0.7)},
				{Query: n(4, 5), Key: n(3, 5), Value: n(3, 2), AttnMask: keep},
				{Query: n(1, 4, 3, 5), Key: n(1, 2, 3, 5), Value: n(1, 2, 3, 5), EnableGqa: true},
				{Query: g.Normal(f32, 2, 3, 4), Key: g.Normal(f32, 2, 3, 4), Value: g.Normal(f32, 2, 3, 4),
					IsCausal: true},
				{Query: g.Normal(tensor.BFloat16, 1, 2, 3, 4), Key: g.Normal(tensor.BFloat16, 1, 2, 3, 4),
					Value: g.Normal(tensor.BFloat16, 1, 2, 3, 4)},
				{Query: opdef.NonContiguous(n(2, 4, 5)), Key: n(1, 3, 5), Value: n(2, 3, 6)},
			}
		},
	}.Entry(),
	multiheadOp,
}

type attentionArgs struct {
	Query, Key, Value, AttnMask *tensor.Tensor
	DropoutP                    float64
	IsCausal                    bool
	Scale                       *float64
	EnableGqa                   bool
}

// queryBlock is the number of queries whose scores are held at a time.
const queryBlock = 128

// An attention is a call with its operands in one batch shape.
type attention struct {
	args       *attentionArgs
	batch      []int // common leading dimensions
	l, s, e, f int   // queries, keys, their length, that of values
	scale      float64
	q, k, v    *tensor.Tensor // (batch, l, e), (batch, s, e), (batch, s, f)
	mask       *tensor.Tensor // (batch, l, s), added to scores; or nil
}

func (a *attentionArgs) attention() (*attention, error) {
	for _, t := range []struct {
		name string
		t    *tensor.Tensor
	}{{"query", a.Query}, {"key", a.Key}, {"value", a.Value}} {
		if t.t.Dim() < 2 {
			return nil, opdef.Refuse(t.name, "want at least 2 dimensions, got %d", t.t.Dim())
		}
		if !t.t.DType.IsFloat() || t.t.DType != a.Query.DType {
			return nil, opdef.Refuse(t.name, "want a floating dtype, the same for query, key and value, got %s and %s",
				a.Query.DType, t.t.DType)
		}
	}
	tail := func(t *tensor.Tensor) (rows, cols int) { return t.Shape[t.Dim()-2], t.Shape[t.Dim()-1] }
	at := &attention{args: a}
	at.l, at.e = tail(a.Query)
	s, e := tail(a.Key)
	at.s, at.f = tail(a.Value)
	if e != at.e {
		return nil, opdef.Refuse("key", "last dimension %d differs from the query's %d", e, at.e)
	}
	if s != at.s {
		return nil, opdef.Refuse("value", "%d rows differ from the key's %d", at.s, s)
	}
	if a.IsCausal && a.AttnMask != nil {
		return nil, opdef.Refuse("attn_mask", "no mask may be given with is_causal")
	}
	at.scale = 1 / math.Sqrt(float64(at.e))
	if a.Scale != nil {
		at.scale = *a.Scale
	}
	at.k, at.v = a.Key, a.Value
	if a.EnableGqa {
		var err error
		if at.k, err = repeatHeads("key", a.Key, a.Query); err != nil {
			return nil, err
		}
		if at.v, err = repeatHeads("value", a.Value, a.Query); err != nil {
			return nil, err
		}
	}
	lead := func(t *tensor.Tensor) []int { return t.Shape[:t.Dim()-2] }
	var err error
	if at.batch, err = tensor.Broadcast(lead(a.Query), lead(at.k), lead(at.v)); err != nil {
		return nil, opdef.Refuse("query", "%v", err)
	}
	expand := func(t *tensor.Tensor, rows, cols int) *tensor.Tensor {
		u, e := t.Expand(append(slices.Clone(at.batch), rows, cols)...)
		if e != nil && err == nil {
			err = e
		}
		return u
	}
	at.q, at.k, at.v = expand(a.Query, at.l, at.e), expand(at.k, at.s, at.e), expand(at.v, at.s, at.f)
	if m := a.AttnMask; m != nil {
		switch {
		case m.DType == tensor.Bool:
			m = opdef.Map(tensor.Float64, m, func(keep int64) float64 {
				if keep != 0 {
					return 0
				}
				return math.Inf(-1)
			})
		case !m.DType.IsFloat():
			return nil, opdef.Refuse("attn_mask", "want bool or a floating dtype, got %s", m.DType)
		}
		if at.mask = expand(m, at.l, at.s); err != nil {
			return nil, opdef.Refuse("attn_mask", "%v", err)
		}
	}
	return at, err
}

// repeatHeads repeats the heads of t, dimension -3, as often as the query has
// more.
func repeatHeads(arg string, t, query *tensor.Tensor) (*tensor.Tensor, error) {
	d := t.Dim() - 3
	if d < 0 || query.Dim() < 3 {
		return nil, opdef.Refuse(arg, "want at least 3 dimensions with enable_gqa")
	}
	have, want := t.Shape[d], query.Shape[query.Dim()-3]
	if have == 0 || want%have != 0 {
		return nil, opdef.Refuse(arg, "%d heads do not divide the query's %d", have, want)
	}
	u := t.Unsqueeze(d + 1)
	shape := slices.Clone(u.Shape)
	shape[d+1] = want / have
	u, err := u.Expand(shape...)
	if err != nil {
		return nil, err
	}
	shape = slices.Delete(shape, d, d+1)
	shape[d] = want
	return u.Reshape(shape...), nil
}

// matrixRows is rows r .. r+n of the matrix i of a batch.
func matrixRows(t *tensor.Tensor, i, rows, r, n, cols int) kernel.Matrix[float64] {
	m := make([]float64, n*cols)
	tensor.Load(t, (i*rows+r)*cols, m)
	return kernel.Dense(n, cols, m)
}

// scores are the rows of scores of queries r .. r+n of batch item i, given the
// queries and keys.
func (at *attention) scores(i, r int, q, k kernel.Matrix[float64]) kernel.Matrix[float64] {
	n := q.Rows
	w := kernel.Dense(n, at.s, make([]float64, n*at.s))
	kernel.Gemm(q, k.T(), 0, w)
	var mask []float64
	if at.mask != nil {
		mask = matrixRows(at.mask, i, at.l, r, n, at.s).Data
	}
	for j := range n {
		row := w.Data[j*at.s : (j+1)*at.s]
		for c := range row {
			row[c] *= at.scale
			if mask != nil {
				row[c] += mask[j*at.s+c]
			}
			if at.args.IsCausal && c > r+j {
				row[c] = math.Inf(-1)
			}
		}
	}
	return w
}

// weights are the rows of attention weights, the softmax of the scores.
func (at *attention) weights(i, r int, q, k kernel.Matrix[float64]) kernel.Matrix[float64] {
	w := at.scores(i, r, q, k)
	softmaxRows(w)
	return w
}

// softmaxRows replaces each row by its softmax.
func softmaxRows(w kernel.Matrix[float64]) {
	for j := range w.Rows {
		row := w.Data[j*w.Cols : (j+1)*w.Cols]
		softmaxRun(row, row)
	}
}

// forward is the result, or with doubts what it can be known to.
func (at *attention) forward(doubts bool) *tensor.Tensor {
	items, blocks := tensor.Numel(at.batch), (at.l+queryBlock-1)/queryBlock
	out, u := make([]float64, items*at.l*at.f), doubtsOf(at.q.DType)
	tensor.Parallel(items*blocks, 1, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			i, r := b/blocks, b%blocks*queryBlock
			n := min(queryBlock, at.l-r)
			q, k, v := matrixRows(at.q, i, at.l, r, n, at.e), matrixRows(at.k, i, at.s, 0, at.s, at.e),
				matrixRows(at.v, i, at.s, 0, at.s, at.f)
			var w kernel.Matrix[float64]
			if doubts {
				_, w = at.weightDoubts(u, i, r, q, k)
				v = u.matrix(v)
			} else {
				w = at.weights(i, r, q, k)
			}
			kernel.Gemm(w, v, 0, kernel.Dense(n, at.f, out[(i*at.l+r)*at.f:(i*at.l+r+n)*at.f]))
		}
	})
	if doubts {
		u.magnitudes(out)
	}
	return tensor.New(at.q.DType, append(slices.Clone(at.batch), at.l, at.f), out)
}

// grads are the gradients of query, key, value and a floating mask, computed
// from the weights w again: of the values w^T g, of the scores w*(h - sum(w*h))
// with h = g value^T. With doubts they are what the gradients can be known to.
func (at *attention) grads(up *tensor.Tensor, doubts bool) opdef.Grads {
	items := tensor.Numel(at.batch)
	dq, dk, dv := make([]float64, items*at.l*at.e), make([]float64, items*at.s*at.e), make([]float64, items*at.s*at.f)
	var dm []float64
	u := doubtsOf(at.q.DType)
	withMask := at.mask != nil && at.args.AttnMask.DType.IsFloat()
	if withMask {
		dm = make([]float64, items*at.l*at.s)
	}
	tensor.Parallel(items, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k, v := matrixRows(at.k, i, at.s, 0, at.s, at.e), matrixRows(at.v, i, at.s, 0, at.s, at.f)
			dki, dvi := kernel.Dense(at.s, at.e, dk[i*at.s*at.e:(i+1)*at.s*at.e]),
				kernel.Dense(at.s, at.f, dv[i*at.s*at.f:(i+1)*at.s*at.f])
			for r := 0; r < at.l; r += queryBlock {
				n := min(queryBlock, at.l-r)
				q, g := matrixRows(at.q, i, at.l, r, n, at.e), matrixRows(up, i, at.l, r, n, at.f)
				factor, keys := at.scale, k
				var w, h kernel.Matrix[float64]
				if doubts {
					w, h = at.scoreDoubts(u, i, r, q, k, v, g)
					q, keys, g, factor = u.matrix(q), u.matrix(k), u.matrix(g), u.of(factor)
				} else {
					w, h = at.scoreGrads(i, r, q, k, v, g)
				}
				kernel.Gemm(w.T(), g, 1, dvi)
				if withMask {
					copy(dm[(i*at.l+r)*at.s:], h.Data)
				}
				for c := range h.Data {
					h.Data[c] *= factor
				}
				kernel.Gemm(h, keys, 0, kernel.Dense(n, at.e, dq[(i*at.l+r)*at.e:(i*at.l+r+n)*at.e]))
				kernel.Gemm(h.T(), q, 1, dki)
			}
		}
	})
	if doubts {
		for _, d := range [][]float64{dq, dk, dv, dm} {
			u.magnitudes(d)
		}
	}
	dt := at.q.DType
	shape := func(rows, cols int) []int { return append(slices.Clone(at.batch), rows, cols) }
	gr := opdef.Grads{}
	gr.Set("query", opdef.SumTo(tensor.New(dt, shape(at.l, at.e), dq), at.args.Query.Shape))
	gr.Set("key", at.heads(tensor.New(dt, shape(at.s, at.e), dk), at.args.Key))
	gr.Set("value", at.heads(tensor.New(dt, shape(at.s, at.f), dv), at.args.Value))
	if withMask {
		gr.Set("attn_mask", opdef.SumTo(tensor.New(dt, shape(at.l, at.s), dm), at.args.AttnMask.Shape))
	} else if at.args.AttnMask != nil {
		gr.Set("attn_mask", nil)
	}
	return gr
}

// scoreGrads are the weights of queries and the gradients of their scores, g
// being that of the results.
func (at *attention) scoreGrads(i, r int, q, k, v, g kernel.Matrix[float64]) (w, h kernel.Matrix[float64]) {
	w = at.weights(i, r, q, k)
	h = kernel.Dense(q.Rows, at.s, make([]float64, q.Rows*at.s))
	kernel.Gemm(g, v.T(), 0, h)
	for j := range q.Rows {
		row, d := w.Data[j*at.s:(j+1)*at.s], h.Data[j*at.s:(j+1)*at.s]
		dot := 0.0
		for c, x := range row {
			dot += x * d[c]
		}
		for c, x := range row {
			d[c] = x * (d[c] - dot)
		}
	}
	return w, h
}

// heads adds the gradients of repeated heads.
func (at *attention) heads(g, t *tensor.Tensor) *tensor.Tensor {
	if !at.args.EnableGqa {
		return opdef.SumTo(g, t.Shape)
	}
	d, own := g.Dim()-3, t.Shape[t.Dim()-3]
	shape := slices.Insert(slices.Clone(g.Shape), d, own)
	shape[d+1] /= own
	return opdef.SumTo(opdef.Sum(g.DType, g.Reshape(shape...), []int{d + 1}, false), t.Shape)
}
