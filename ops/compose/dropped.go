package compose

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/draws"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A drawing is an attention that drops weights at random, with its result.
type drawing struct {
	at *attention
	y  *Value
}

// Random says that the call draws random numbers, "" if not.
func (c *Call) Random() string {
	if len(c.graph.drawing) > 0 || c.graph.draws {
		return elements.DrawsRandomNumbers
	}
	return ""
}

// Draws says that the call draws random numbers of which nothing else is known.
func (g *Graph) Draws() { g.draws = true }

// draw settles what becomes of the weights, where that is known.
func (at *attention) draw() {
	switch {
	case at.Dropout < 0 || at.Dropout > 1 || at.Dropout != at.Dropout:
		at.g.Refuse("dropout_p", "want a probability from 0 to 1, got %v", at.Dropout)
	case at.Dropout == 1:
		at.kept = tensor.Full(tensor.Float64, append(slices.Clone(at.batch), at.l, at.s), 0.0)
	case at.Dropout > 0 && len(at.g.drawn) > 0:
		at.kept, at.g.drawn = at.g.drawn[0], at.g.drawn[1:]
	}
}

func (at *attention) undrawn() bool { return at.Dropout > 0 && at.kept == nil }

// thinned are values of the weights of a block, or of what flows into them, after the
// dropout. Of one that is not known they are those to be expected.
func (at *attention) thinned(b queries, w kernel.Matrix[float64]) kernel.Matrix[float64] {
	return at.times(b, w, func(kept float64) float64 { return kept })
}

// thinnedBound is thinned for bounds.
func (at *attention) thinnedBound(b queries, d kernel.Matrix[float64]) kernel.Matrix[float64] {
	return at.times(b, d, at.g.of)
}

func (at *attention) times(b queries, w kernel.Matrix[float64], of func(float64) float64) kernel.Matrix[float64] {
	if at.kept == nil {
		return w
	}
	kept := matrixRows(at.kept, b.i, at.l, b.r, b.n, at.s)
	for c, x := range kept.Data {
		kept.Data[c] = w.Data[c] * of(x)
	}
	return kept
}

// rowsOf is a recorded tensor as the matrices of a batch.
func rowsOf(t *tensor.Tensor, i, rows, cols int) kernel.Matrix[float64] {
	return matrixRows(t, i, rows, 0, rows, cols)
}

// slack is how far rounding moves elements of got, whose expected value is t with the
// bound b, whatever was dropped.
func (at *attention) slack(t, b, got *tensor.Tensor, ulps float64) *tensor.Tensor {
	more, unit := 2/(1-at.Dropout), at.g.unit()
	return opdef.ZipN(tensor.Float64, t.Shape, func(dst []float64, v [][]float64) {
		for j := range dst {
			dst[j] = ulps*got.DType.ULP(math.Max(math.Abs(v[0][j]), math.Abs(v[2][j]))) +
				more*at.g.plain(v[1][j])*unit
		}
	}, t, b, got)
}

// sums is the judge of rows, of elements altogether.
func (at *attention) sums(elements int, named string) *draws.Sums {
	return &draws.Sums{P: at.Dropout, Elements: elements, Named: named}
}

// each calls f for all items of the batch, in parallel.
func (at *attention) each(f func(i int)) {
	tensor.Parallel(tensor.Numel(at.batch), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// Drawn judges the recorded results of an attention with dropout, which drops weights
// after the softmax. Where they show what was dropped it gives the call with that.
func (c *Call) Drawn(got []*tensor.Tensor) opdef.Drawn {
	if c.graph.judge != nil {
		return c.graph.judge(got)
	}
	at, y, own := c.dropped()
	if at == nil || !slices.Equal(got[0].Shape, c.outs[0].Shape()) {
		return opdef.Drawn{}
	}
	t, out := y.T, own(got[0])
	slack := at.slack(t, at.bound(t), out, 2)
	items := tensor.Numel(at.batch)
	var kept []float64
	if items*at.l*at.s <= mostKept {
		kept = tensor.Make[float64](items * at.l * at.s)
	}
	judges, shown := make([]*draws.Sums, items), make([]bool, items)
	at.each(func(i int) {
		s := at.sums(t.Numel(), "query")
		shown[i] = true
		at.item(i, out, func(b queries) {
			w, _ := at.scores(b)
			at.weights(w)
			mask := kernel.Matrix[float64]{}
			if kept != nil {
				mask = at.out(kept, b, at.s)
			}
			shown[i] = s.Add(b.r, b.g, w, b.v, matrixRows(slack, i, at.l, b.r, b.n, at.f), mask) && shown[i]
		})
		judges[i] = s
	})
	d := draws.Together(judges)
	if d.Wrong == "" && kept != nil && !slices.Contains(shown, false) {
		mask := tensor.New(tensor.Float64, append(slices.Clone(at.batch), at.l, at.s), kept)
		d.Plan = func() (any, error) { return c.again(&Graph{drawn: []*tensor.Tensor{mask}, nan: c.graph.nan}) }
	}
	return d
}

// mostKept is the number of weights of a call whose masks are kept, mostWeights that of a
// head whose gradients are judged.
const (
	mostKept    = 1 << 25
	mostWeights = 1 << 23
)

// dropped is the attention that the first result shows, if the call has no other that draws random
// numbers, with its own result y, and a function that gives recorded elements y's order. at is nil if
// there is none.
func (c *Call) dropped() (at *attention, y *Value, own func(t *tensor.Tensor) *tensor.Tensor) {
	if len(c.graph.drawing) != 1 || len(c.outs) == 0 {
		return nil, nil, nil
	}
	at, y = c.graph.drawing[0].at, c.graph.drawing[0].y
	if y == c.outs[0] {
		return at, y, func(t *tensor.Tensor) *tensor.Tensor { return t }
	}
	places := c.outs[0].places(y)
	if places == nil {
		return nil, nil, nil
	}
	return at, y, func(t *tensor.Tensor) *tensor.Tensor {
		to := tensor.Make[float64](len(places))
		for i, x := range tensor.Data[float64](t) {
			to[int(places[i])] = x
		}
		return tensor.New(t.DType, y.Shape(), to)
	}
}

// DrawnGrads judges the recorded gradients of a call whose results do not show what was
// dropped. With weights P, their gradients H = g v^T and the mask m of which 1 is expected,
//
//	dv = (m P)^T g    dq = scale ((m P H) - D P) k    dk = scale ((m P H) - D P)^T q
//
// where D, the sums of m P H, are those of g times the result: all three, D's part apart,
// are sums of terms that are dropped too. Whatever the mask is, sum(dv v) = sum(D) and
// sum(dq q) = sum(dk k).
func (c *Call) DrawnGrads(g *opdef.Grad, got opdef.Grads) opdef.Drawn {
	at, y, own := c.dropped()
	if at == nil || c.graph.judge != nil || len(g.Out) == 0 || g.Out[0] == nil || at.l*at.s > mostWeights {
		return opdef.Drawn{}
	}
	if !elements.Finite(y.T) || !elements.Finite(g.Outs[0]) || !elements.Finite(g.Out[0]) {
		return opdef.Drawn{}
	}
	up, out := c.graph.Const(own(g.Out[0])), own(g.Outs[0])
	ts, _ := at.grads(up.T)
	bounds := at.gradBounds(up, ts)
	var recorded, slack [3]*tensor.Tensor
	for k, v := range []*Value{at.q, at.k, at.v} {
		for _, a := range c.graph.args {
			r := got[a.name]
			if a.leaf == nil || len(r) <= a.index || r[a.index] == nil {
				continue
			}
			if shown := v.shown(a.leaf, r[a.index]); shown != nil {
				recorded[k] = shown
				slack[k] = at.slack(ts[k], bounds[k], recorded[k], 3)
			}
		}
	}
	outSlack := at.slack(y.T, at.bound(y.T), out, 2)
	items := tensor.Numel(at.batch)
	judges := make([][]*draws.Sums, items)
	at.each(func(i int) { judges[i] = at.judgeGradients(i, up.T, out, outSlack, recorded, slack) })
	var d opdef.Drawn
	for k := range 3 {
		if recorded[k] == nil {
			continue
		}
		var one []*draws.Sums
		for _, js := range judges {
			one = append(one, js[k])
		}
		switch of := draws.Together(one); {
		case of.Wrong != "":
			return opdef.Drawn{Wrong: "gradient of " + []string{"query", "key", "value"}[k] + ": " + of.Wrong}
		case d.Checked != "":
			d.Checked += "; " + of.Checked
		default:
			d.Checked = of.Checked
		}
	}
	return d
}

// judgeGradients are the judges of the gradients of query, key and value of a batch item.
func (at *attention) judgeGradients(i int, up, out, outSlack *tensor.Tensor, got,
	slack [3]*tensor.Tensor) []*draws.Sums {
	items := tensor.Numel(at.batch)
	js := []*draws.Sums{at.sums(items*at.l*at.e, "query"), at.sums(items*at.s*at.e, "key"),
		at.sums(items*at.s*at.f, "value")}
	p, h, placed := zeros(at.l, at.s), zeros(at.l, at.s), zeros(at.l, at.s)
	q, k, v := rowsOf(at.q.T, i, at.l, at.e), rowsOf(at.k.T, i, at.s, at.e), rowsOf(at.v.T, i, at.s, at.f)
	g, y, around := rowsOf(up, i, at.l, at.f), rowsOf(out, i, at.l, at.f), rowsOf(outSlack, i, at.l, at.f)
	kernel.Gemm(g, v.T(), 0, h)
	sum, sumSlack := 0.0, 0.0
	at.item(i, nil, func(b queries) {
		w, slope := at.scores(b)
		at.weights(w)
		copy(p.Data[b.r*at.s:], w.Data)
		for j := range b.n {
			d, r := 0.0, b.r+j
			for c, x := range row(g, r) {
				d += x * row(y, r)[c]
				sumSlack += math.Abs(x) * row(around, r)[c]
			}
			sum += d
			for c, x := range row(w, j) {
				if slope != nil {
					x *= slope[j*at.s+c]
				}
				placed.Data[r*at.s+c] = at.Scale * d * x
				h.Data[r*at.s+c] *= at.Scale * x
			}
		}
	})
	var products, slacks [3]float64
	judge := func(n int, rows, cols int, weights, vectors, base, own kernel.Matrix[float64]) {
		if got[n] == nil {
			return
		}
		x, e := rowsOf(got[n], i, rows, cols), rowsOf(slack[n], i, rows, cols)
		for c, y := range own.Data {
			products[n] += x.Data[c] * y
			slacks[n] += e.Data[c] * math.Abs(y)
		}
		if base.Data != nil {
			kernel.Gemm(base, vectors, 1, x)
		}
		js[n].Add(0, x, dense(weights), vectors, e, kernel.Matrix[float64]{})
	}
	judge(0, at.l, at.e, h, k, placed, q)
	judge(1, at.s, at.e, h.T(), q, placed.T(), k)
	judge(2, at.s, at.f, p.T(), g, kernel.Matrix[float64]{}, v)
	if got[0] != nil && got[1] != nil && !(math.Abs(products[0]-products[1]) <= slacks[0]+slacks[1]) {
		js[0].Fail("the products with query add up to %.6g, those of the gradient of key with key to %.6g: no mask "+
			"gives both", products[0], products[1])
	}
	if got[2] != nil && !(math.Abs(products[2]-sum) <= slacks[2]+sumSlack) {
		js[2].Fail("the products with value add up to %.6g, those of the incoming gradient with the result to %.6g: "+
			"another mask than that of the result", products[2], sum)
	}
	return js
}

// dense is m with its rows one after the other.
func dense(m kernel.Matrix[float64]) kernel.Matrix[float64] {
	if !m.Trans {
		return m
	}
	d := kernel.Dense(m.Rows, m.Cols, make([]float64, m.Rows*m.Cols))
	for i := range m.Rows {
		for j := range m.Cols {
			d.Data[i*m.Cols+j] = m.Data[j*m.Rows+i]
		}
	}
	return d
}

// DrawnProjected judges results of which row (q, b) of got [queries, batch, width] is the
// sum over heads of the values of an attention [batch, heads, queries, size] with
// dropout, the only one of the call, times matrix [width, heads*size] transposed, and
// bias (nil: none). The call's first result has as many elements, in the same order. mean,
// if not nil, are weights after the dropout [batch, queries, keys], their mean over the heads.
func (c *Call) DrawnProjected(got, matrix, bias, mean *tensor.Tensor) opdef.Drawn {
	if len(c.graph.drawing) != 1 {
		return opdef.Drawn{}
	}
	at := c.graph.drawing[0].at
	if len(at.batch) != 2 || at.l*at.s*at.batch[1] > mostWeights {
		return opdef.Drawn{}
	}
	batch, heads, width := at.batch[0], at.batch[1], matrix.Shape[0]
	want := c.outs[0]
	slack := tensor.Data[float64](at.slack(want.T, want.bound(), got.Reshape(want.Shape()...), 2))
	all, m := tensor.Data[float64](got), kernel.Dense(width, heads*at.f, tensor.Data[float64](matrix))
	shift := make([]float64, width)
	if bias != nil {
		copy(shift, tensor.Data[float64](bias))
	}
	rows, averages := make([]*draws.Sums, batch), make([]*draws.Sums, batch)
	for b := range batch {
		rows[b], averages[b] = at.sums(got.Numel(), "query"), at.sums(batch*at.l*at.s, "weight")
		y, around, w := kernel.Dense(at.l, width, make([]float64, at.l*width)), make([]float64, at.l*width),
			kernel.Dense(at.l, heads*at.s, tensor.Make[float64](at.l*heads*at.s))
		vectors := kernel.Dense(heads*at.s, width, tensor.Make[float64](heads*at.s*width))
		for h := range heads {
			i := b*heads + h
			part := kernel.Dense(at.f, width, make([]float64, at.f*width))
			for j := range part.Data {
				part.Data[j] = m.Data[j%width*m.Cols+h*at.f+j/width]
			}
			kernel.Gemm(rowsOf(at.v.T, i, at.s, at.f), part, 0, kernel.Dense(at.s, width,
				vectors.Data[h*at.s*width:][:at.s*width]))
			at.item(i, nil, func(b queries) {
				p, _ := at.scores(b)
				at.weights(p)
				for q := range b.n {
					copy(w.Data[(b.r+q)*w.Cols+h*at.s:], row(p, q))
				}
			})
		}
		for j := range y.Data {
			from := (j/width*batch+b)*width + j%width
			y.Data[j], around[j] = all[from]-shift[j%width], slack[from]
		}
		rows[b].Add(0, y, w, vectors, kernel.Dense(at.l, width, around), kernel.Matrix[float64]{})
		if mean != nil {
			at.judgeMeans(averages[b], mean, b, heads, w)
		}
	}
	d := draws.Together(rows)
	if mean == nil || d.Wrong != "" {
		return d
	}
	switch of := draws.Together(averages); {
	case of.Wrong != "":
		d.Wrong = "weights: " + of.Wrong
	default:
		d.Checked += "; " + of.Checked
	}
	return d
}

// judgeMeans judges weights after the dropout, means over the heads, of batch item b; w has
// those before it [queries, heads*keys].
func (at *attention) judgeMeans(s *draws.Sums, mean *tensor.Tensor, b, heads int, w kernel.Matrix[float64]) {
	got := rowsOf(mean, b, at.l*at.s, 1)
	terms := kernel.Dense(len(got.Data), heads, tensor.Make[float64](len(got.Data)*heads))
	around := make([]float64, len(got.Data))
	for j := range got.Data {
		for h := range heads {
			x := w.Data[j/at.s*w.Cols+h*at.s+j%at.s] / float64(heads)
			terms.Data[j*heads+h] = x
			around[j] += x * 8 * at.dt.Eps() / (1 - at.Dropout)
		}
	}
	ones := make([]float64, heads)
	for h := range ones {
		ones[h] = 1
	}
	s.Add(0, got, terms, kernel.Dense(heads, 1, ones), kernel.Dense(len(got.Data), 1, around), kernel.Matrix[float64]{})
}
