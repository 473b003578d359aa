package compose

import (
	"math"
	"math/bits"
	"reflect"
	"slices"
	"sync"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Scores say how an attention's scores follow from the products of queries and
// keys, and which keys a query sees.
type Scores struct {
	Scale   float64        // of the products
	Softcap float64        // limits scores: softcap*tanh(score/softcap); 0: no limit
	Mask    *Value         // is added, broadcast to [..., queries, keys]; nil: none
	Slopes  *tensor.Tensor // ALiBi: -slope*|distance| is added, slopes broadcast to the batch; nil: none

	// Query r stands at key r + Offset. It sees at most Before keys before its
	// place and After behind it; negative: all.
	Offset, Before, After int

	// Dropout is the probability with which a weight is dropped; the others are divided
	// by what it leaves. See Call.Drawn.
	Dropout float64

	// Coarse is the relative error of the exponentials in AttentionSums; 0: that of float32.
	Coarse float64

	Wrong WrongScores // what a kernel gets wrong
}

// WrongScores are mistakes of kernels about scores and weights.
type WrongScores struct {
	// Tile: keys are taken so many at a time, and what was added of earlier ones is not
	// rescaled where a larger score is found; with Sums neither are the sums of the
	// exponentials. 0: none.
	Tile int
	Sums bool
	// Scores, the exponentials below the largest score or the weights are rounded; nil: not.
	Scores, Exponentials, Weights func(float64) float64
	// Keys From to below To count Times in sums: a tile that is lost or taken twice.
	From, To int
	Times    float64
	Whole    bool // exponentials are not divided by their sum, below the largest score
	Unscaled bool // the same, and the largest score is not subtracted
	Padded   int  // keys of score 0 count in the sum of the exponentials
	Hidden   bool // keys that a query does not see count there too
	// Of the gradients: that of scores lacks the mean over the keys; those of queries lack the last keys; those of
	// values are made of the weights of the transposed matrix.
	NoMean     bool
	LostKeys   int
	Transposed bool
}

// sound reports whether the attention is computed without mistakes.
func (at *attention) sound() bool { return reflect.ValueOf(at.Wrong).IsZero() }

// Everything are the plain scores scale*q*k of a query that sees all keys.
func Everything(scale float64) Scores { return Scores{Scale: scale, Before: -1, After: -1} }

// Attention is softmax(scores) v for queries q [..., l, e], keys k [..., s, e] and
// values v [..., s, f], whose leading dimensions are broadcast. It holds the scores
// of a few queries at a time.
func (g *Graph) Attention(q, k, v *Value, s Scores) *Value {
	at := g.attention(q, k, v, s)
	g.attends = append(g.attends, at)
	at.draw()
	t, least := at.forward()
	y := g.value(t, at.bound, at.gradients, at.operands()...)
	y.least = least
	if at.undrawn() {
		g.drawing = append(g.drawing, drawing{at, y})
	}
	return y
}

// queryBlock is the number of queries whose scores are held at a time.
const queryBlock = 128

// An attention is a call with its operands in one batch shape.
type attention struct {
	Scores
	g             *Graph
	dt            tensor.DType
	batch         []int  // common leading dimensions
	l, s, e, f    int    // queries, keys, their length, that of values
	q, k, v, mask *Value // (batch, l, e), (batch, s, e), (batch, s, f), (batch, l, s) or nil
	slopes        []float64
	kept          *tensor.Tensor // what weights are multiplied by after the softmax, (batch, l, s); nil: 1

	// Roundings of a value of magnitude 1: stored in the dtype, and in sums over
	// keys and over queries. Those of 16 bits outweigh those of sums. Weights and gradients of scores are often
	// so small that they are stored as subnormal numbers of float16, which are off by no less than some floor.
	stored, keySum, querySum, floor float64
}

func (g *Graph) attention(q, k, v *Value, s Scores) *attention {
	for _, x := range []struct {
		name string
		v    *Value
	}{{"query", q}, {"key", k}, {"value", v}} {
		if x.v.Dim() < 2 {
			g.Refuse(x.name, "want at least 2 dimensions, got %d", x.v.Dim())
		}
		if !x.v.DType().IsFloat() || x.v.DType() != q.DType() {
			g.Refuse(x.name, "want a floating dtype, the same for query, key and value, got %s and %s", q.DType(),
				x.v.DType())
		}
	}
	tail := func(v *Value) (rows, cols int) { return v.Shape()[v.Dim()-2], v.Shape()[v.Dim()-1] }
	lead := func(v *Value) []int { return v.Shape()[:v.Dim()-2] }
	at := &attention{Scores: s, g: g, dt: q.DType(), keySum: 1, querySum: 1}
	at.l, at.e = tail(q)
	keys, size := tail(k)
	at.s, at.f = tail(v)
	if size != at.e {
		g.Refuse("key", "last dimension %d differs from the query's %d", size, at.e)
	}
	if keys != at.s {
		g.Refuse("value", "%d rows differ from the key's %d", at.s, keys)
	}
	var err error
	if at.batch, err = tensor.Broadcast(lead(q), lead(k), lead(v)); err != nil {
		g.Refuse("query", "%v", err)
	}
	at.q, at.k, at.v = at.expand(q, at.l, at.e), at.expand(k, at.s, at.e), at.expand(v, at.s, at.f)
	if s.Mask != nil {
		if !s.Mask.DType().IsFloat() {
			g.Refuse("attn_mask", "want bool or a floating dtype, got %s", s.Mask.DType())
		}
		if _, err := s.Mask.T.Expand(append(slices.Clone(at.batch), at.l, at.s)...); err != nil {
			g.Refuse("attn_mask", "%v", err)
		}
		at.mask = at.expand(s.Mask, at.l, at.s)
	}
	if s.Slopes != nil {
		t, err := s.Slopes.Expand(at.batch...)
		if err != nil {
			g.Refuse("alibi_slopes", "%v", err)
		}
		at.slopes = tensor.Data[float64](t)
	}
	if at.stored, at.floor = g.rounding(at.dt, 0.5), g.subnormal(at.dt); !at.dt.IsReduced() {
		at.keySum, at.querySum = g.of(growth(at.e+at.s)), g.of(growth(at.l))
	}
	return at
}

// expand is x broadcast to the batch.
func (at *attention) expand(x *Value, rows, cols int) *Value {
	shape := append(slices.Clone(at.batch), rows, cols)
	if slices.Equal(x.Shape(), shape) {
		return x
	}
	return at.g.Expand(x, shape...)
}

func (at *attention) operands() []*Value {
	if at.mask == nil {
		return []*Value{at.q, at.k, at.v}
	}
	return []*Value{at.q, at.k, at.v, at.mask}
}

// tensor is the tensor of the batch's matrices.
func (at *attention) tensor(dt tensor.DType, data []float64, rows, cols int) *tensor.Tensor {
	return tensor.New(dt, append(slices.Clone(at.batch), rows, cols), data)
}

// A queries is a block of n queries from r of batch item i, with the keys that they see, from the first of these
// on, their values, and of a gradient its rows.
type queries struct {
	i, r, n, first int
	q, k, v, g     kernel.Matrix[float64]
	room           *workspace
}

// A workspace holds the matrices that are made of a block of queries, for those of the next one: fresh memory costs
// a tenth of the time.
type workspace struct {
	held [][]float64
	used int
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// matrix is one of so many rows and columns with arbitrary elements, until the next block.
func (w *workspace) matrix(rows, cols int) kernel.Matrix[float64] {
	n := rows * cols
	if w.used == len(w.held) {
		w.held = append(w.held, nil)
	}
	own := &w.held[w.used]
	if w.used++; cap(*own) < n {
		*own = tensor.Make[float64](1 << bits.Len(uint(n-1)))
	}
	return kernel.Dense(rows, cols, (*own)[:n])
}

// scores is a matrix of arbitrary elements for all queries and keys of b.
func (b queries) scores() kernel.Matrix[float64] { return b.room.matrix(b.n, b.k.Rows) }

// matrixRows is rows r .. r+n of the matrix i of a batch; of nil it is empty.
func matrixRows(t *tensor.Tensor, i, rows, r, n, cols int) kernel.Matrix[float64] {
	if t == nil {
		return kernel.Matrix[float64]{}
	}
	m := tensor.Make[float64](n * cols)
	tensor.Load(t, (i*rows+r)*cols, m)
	return kernel.Dense(n, cols, m)
}

// A source is what blocks of queries are read from, values or bounds, one after the other. It keeps the keys and
// values of the batch item that was read last.
type source struct {
	at         *attention
	q, k, v, g *tensor.Tensor
	room       *workspace
	item       int
	tame       bool // its keys and values
	keys       kernel.Matrix[float64]
	values     kernel.Matrix[float64]
}

// source is that of the operands and a gradient up, nil for none, for one goroutine.
func (at *attention) source(up *tensor.Tensor) *source {
	return &source{at: at, q: at.q.T, k: at.k.T, v: at.v.T, g: up, room: workspaces.Get().(*workspace), item: -1}
}

// close ends the use of what was made of the last block.
func (s *source) close() {
	s.room.used = 0
	workspaces.Put(s.room)
	s.room = nil
}

// errorSource is that of the bounds of the operands and of up, to ask for what is like blocks of values.
func (at *attention) errorSource(up *Value) *source {
	s := &source{at: at, q: errorsOf(at.q), k: errorsOf(at.k), v: errorsOf(at.v), item: -1}
	if up != nil {
		s.g = errorsOf(up)
	}
	return s
}

// rows is a block of n queries. Keys that none of them sees are left out where that makes no difference.
func (s *source) rows(i, r, n int) queries {
	b := s.block(i, r, n)
	b.room, s.room.used = s.room, 0
	if s.tame && tame(b.q) && tame(b.g) {
		from, to := s.at.seen(r, n)
		b.first, b.k, b.v = from, part(b.k, from, to), part(b.v, from, to)
	}
	return b
}

// like is a block of the same queries and keys as b.
func (s *source) like(b queries) queries {
	e := s.block(b.i, b.r, b.n)
	e.first, e.k, e.v = b.first, part(e.k, b.first, b.first+b.k.Rows), part(e.v, b.first, b.first+b.k.Rows)
	return e
}

// block is a block with all keys.
func (s *source) block(i, r, n int) queries {
	at := s.at
	if s.item != i {
		s.item, s.keys, s.values = i, matrixRows(s.k, i, at.s, 0, at.s, at.e), matrixRows(s.v, i, at.s, 0, at.s, at.f)
		s.tame = tame(s.keys) && tame(s.values)
	}
	return queries{i: i, r: r, n: n, q: matrixRows(s.q, i, at.l, r, n, at.e), k: s.keys, v: s.values,
		g: matrixRows(s.g, i, at.l, r, n, at.f)}
}

// part is rows from .. to of m, which may be empty.
func part(m kernel.Matrix[float64], from, to int) kernel.Matrix[float64] {
	if m.Data == nil {
		return m
	}
	return kernel.Dense(to-from, m.Cols, m.Data[from*m.Cols:to*m.Cols])
}

// tame reports whether products with elements of m are finite, so that a weight of zero hides them.
func tame(m kernel.Matrix[float64]) bool { return vmath.Dot(m.Data, m.Data) < 1e200 }

// row is row j of m.
func row(m kernel.Matrix[float64], j int) []float64 { return m.Data[j*m.Cols : (j+1)*m.Cols] }

// zeros is a matrix of so many rows and columns.
func zeros(rows, cols int) kernel.Matrix[float64] {
	return kernel.Dense(rows, cols, tensor.Make[float64](rows*cols))
}

// scores are the scores of a block, and the derivatives of the limit on them, nil
// without one.
func (at *attention) scores(b queries) (w kernel.Matrix[float64], slope []float64) {
	w = b.scores()
	kernel.Gemm(b.q, b.k.T(), 0, w)
	var mask kernel.Matrix[float64]
	if at.mask != nil {
		mask = matrixRows(at.mask.T, b.i, at.l, b.r, b.n, at.s)
	}
	if at.Softcap != 0 {
		slope = make([]float64, len(w.Data))
	}
	vmath.Scale(w.Data, w.Data, at.Scale)
	for c := range slope {
		t := math.Tanh(w.Data[c] / at.Softcap)
		w.Data[c], slope[c] = at.Softcap*t, 1-t*t
	}
	if mask.Data != nil {
		vmath.Add(w.Data, w.Data, mask.Data)
	}
	round(w.Data, at.Wrong.Scores)
	for j := range b.n {
		r := row(w, j)
		all := 0.0
		if at.Wrong.Hidden {
			all = logSumExp(r)
		}
		if at.place(r, b.i, b.r+j, b.first); at.Wrong.Hidden {
			for c := range r {
				r[c] -= all
			}
		}
	}
	return w, slope
}

// round rounds elements, if there is a way to.
func round(v []float64, to func(float64) float64) {
	if to == nil {
		return
	}
	for i, x := range v {
		v[i] = to(x)
	}
}

// place adds what depends on the places of query r and the keys, from the first on, to its scores.
func (at *attention) place(scores []float64, i, r, first int) {
	if at.slopes != nil {
		for c := range scores {
			scores[c] -= at.slopes[i] * math.Abs(float64(r+at.Offset-first-c))
		}
	}
	from, to := at.sees(r)
	for c := range scores {
		if key := first + c; key < from || key >= to {
			scores[c] = math.Inf(-1)
		}
	}
}

// sees are the keys that query r sees by its place, none if to is not larger than from.
func (at *attention) sees(r int) (from, to int) {
	own, to := r+at.Offset, at.s
	if at.Before >= 0 {
		from = max(0, own-at.Before)
	}
	if at.After >= 0 {
		to = min(to, own+at.After+1)
	}
	return from, to
}

// seen are the keys that some of n queries from r see. They are all keys where a query sees none, since the NaN
// that it gives reaches all gradients, where a mask says more and where all keys are drawn for or counted.
func (at *attention) seen(r, n int) (from, to int) {
	if at.mask != nil || at.Dropout > 0 || !at.sound() {
		return 0, at.s
	}
	from, to = at.s, 0
	for j := range n {
		lo, hi := at.sees(r + j)
		if lo >= hi {
			return 0, at.s
		}
		from, to = min(from, lo), max(to, hi)
	}
	return from, to
}

// UnseeingGivesNaN lets queries that see no key give NaN. Without it they give 0, and no gradient
// passes. See Versions.
func (g *Graph) UnseeingGivesNaN() { g.nan = true }

// OtherVersion says that sound implementations differ in what the composition does next: own is what it does if nothing
// else is asked for, other what other implementations do. It reports whether to do that.
func (g *Graph) OtherVersion(own, other string) bool {
	g.own, g.other = own, other
	return g.version == other
}

// Versions are what sound implementations do otherwise: as the composition says, and with queries that see no key, if
// the call has some.
func (c *Call) Versions() (own string, others []opdef.Version[any]) {
	if other := c.graph.other; other != "" && c.graph.version == "" {
		return c.graph.own, []opdef.Version[any]{{
			Text: other, Plan: func() (any, error) { return c.again(&Graph{version: other}) },
		}}
	}
	if c.graph.nan || !slices.ContainsFunc(c.graph.attends, (*attention).isBlind) {
		return "", nil
	}
	return "queries that see no key give 0 (torch 2.5 and later)", []opdef.Version[any]{{
		Text: "queries that see no key give NaN (torch before 2.5)",
		Plan: func() (any, error) { return c.again(&Graph{nan: true}) },
	}}
}

// isBlind reports whether some query sees no key.
func (at *attention) isBlind() bool {
	mask := tensor.Full(tensor.Float64, []int{1, 1}, 0.0)
	if m := at.Mask; m != nil {
		rows, cols := 1, 1
		if d := m.Dim(); d > 0 {
			cols = m.Shape()[d-1]
		}
		if d := m.Dim(); d > 1 {
			rows = m.Shape()[d-2]
		}
		mask = m.T.Reshape(m.T.Numel()/max(1, rows*cols), rows, cols)
	}
	rows, cols := mask.Shape[mask.Dim()-2], mask.Shape[mask.Dim()-1]
	values := make([]float64, cols)
	for lo := 0; lo < mask.Numel(); lo += rows * cols {
		for r := range at.l {
			from, to := at.sees(r)
			if from >= to {
				return true
			}
			if at.Mask == nil {
				continue
			}
			tensor.Load(mask, lo+r%rows*cols, values)
			seen := values
			if cols > 1 {
				seen = values[from:to]
			}
			if !slices.ContainsFunc(seen, func(x float64) bool { return x != math.Inf(-1) }) {
				return true
			}
		}
	}
	return false
}

// weights replaces scores by the attention weights, their softmax.
func (at *attention) weights(w kernel.Matrix[float64]) {
	for j := range w.Rows {
		r := row(w, j)
		if !at.g.nan && !slices.ContainsFunc(r, func(x float64) bool { return x != math.Inf(-1) }) {
			clear(r)
			continue
		}
		if at.Wrong.Tile > 0 || at.Wrong.Exponentials != nil {
			at.Wrong.softmax(r)
			continue
		}
		if at.Wrong.Hidden || at.Wrong.Whole || at.Wrong.Unscaled {
			top := 0.0
			if at.Wrong.Whole {
				top = slices.Max(r)
			}
			for c, x := range r {
				r[c] = math.Exp(x - top)
			}
			continue
		}
		for c := at.Wrong.From; c < at.Wrong.To; c++ {
			r[c] += math.Log(at.Wrong.Times)
		}
		left := 1.0 // of the sum
		if n := at.Wrong.Padded; n > 0 {
			left = 1 / (1 + float64(n)*math.Exp(-logSumExp(r)))
		}
		kernel.Softmax(r, r)
		if left < 1 {
			for c := range r {
				r[c] *= left
			}
		}
		round(r, at.Wrong.Weights)
	}
}

// logSumExp is the logarithm of the sum of the exponentials of scores.
func logSumExp(r []float64) float64 {
	top, sum := slices.Max(r), 0.0
	for _, s := range r {
		sum += math.Exp(s - top)
	}
	return top + math.Log(sum)
}

// softmax replaces scores by weights as a kernel computes them that keeps a largest score by tile.
func (x *WrongScores) softmax(r []float64) {
	top, sum := slices.Max(r), 0.0
	seen := top
	if x.Tile > 0 {
		seen = math.Inf(-1)
	}
	for c, s := range r {
		if x.Tile > 0 && c%x.Tile == 0 {
			seen = max(seen, slices.Max(r[c:min(c+x.Tile, len(r))]))
		}
		if r[c] = 0; !math.IsInf(s, -1) {
			r[c] = math.Exp(s - seen)
		}
		if x.Sums {
			sum += r[c]
		} else {
			sum += math.Exp(s - top)
		}
	}
	round(r, x.Exponentials)
	for c := range r {
		r[c] /= sum
	}
}

// AttentionSums are the largest score of each query [..., l, 1] and the sum of the
// exponentials of what the others are below it, in a dtype. No gradient passes. A query
// that sees no key has -Inf and 0.
func (g *Graph) AttentionSums(q, k *Value, s Scores, in tensor.DType) (top, sum *Value) {
	at := g.attention(q, k, k, s)
	n := tensor.Numel(at.batch) * at.l
	of := func(f func(w, d kernel.Matrix[float64], j int) (top, sum float64), bounds bool) [2]*tensor.Tensor {
		out := [2][]float64{tensor.Make[float64](n), tensor.Make[float64](n)}
		at.blocks(func(b queries) {
			var w, d kernel.Matrix[float64]
			if bounds {
				w, d, _ = at.scoreErrors(b, at.errorSource(nil).like(b))
			} else {
				w, _ = at.scores(b)
			}
			for j := range b.n {
				out[0][b.i*at.l+b.r+j], out[1][b.i*at.l+b.r+j] = f(w, d, j)
			}
		})
		dt := in
		if bounds {
			dt = tensor.Float64
		}
		return [2]*tensor.Tensor{at.tensor(dt, out[0], at.l, 1), at.tensor(dt, out[1], at.l, 1)}
	}
	largest := func(row []float64) float64 {
		top := math.Inf(-1)
		for _, x := range row {
			top = max(top, x)
		}
		return top
	}
	values := of(func(w, _ kernel.Matrix[float64], j int) (float64, float64) {
		top, sum := largest(row(w, j)), 0.0
		for _, x := range row(w, j) {
			if x != math.Inf(-1) {
				sum += math.Exp(x - top)
			}
		}
		return top, sum
	}, false)
	rounds, coarse := g.rounding(in, 4), g.of(s.Coarse/g.unit())
	bounds := sync.OnceValue(func() [2]*tensor.Tensor {
		return of(func(w, d kernel.Matrix[float64], j int) (float64, float64) {
			top, et, es := largest(row(w, j)), 0.0, 0.0
			for c, x := range row(w, j) {
				if x != math.Inf(-1) {
					et = max(et, row(d, j)[c])
				}
			}
			for c, x := range row(w, j) {
				if x != math.Inf(-1) {
					es += g.of(math.Exp(x-top)) * (row(d, j)[c] + et + at.keySum + rounds + coarse)
				}
			}
			if et > 0 {
				et += times(rounds, g.of(top))
			}
			return et, es
		}, true)
	})
	return g.value(values[0], func(*tensor.Tensor) *tensor.Tensor { return bounds()[0] }, nil, at.q, at.k),
		g.value(values[1], func(*tensor.Tensor) *tensor.Tensor { return bounds()[1] }, nil, at.q, at.k)
}

// AttentionLogSums are the logarithms of the sums of the exponentials of the scores of each query [..., l, 1], in a
// dtype. No gradient passes. A query that sees no key has the value unseeing.
func (g *Graph) AttentionLogSums(q, k *Value, s Scores, in tensor.DType, unseeing float64) *Value {
	top, sum := g.AttentionSums(q, k, s, in)
	blind := opdef.Map(tensor.Bool, sum.T, func(x float64) int64 { return elements.Indicator(x == 0) })
	return g.Detach(g.MaskedFill(g.Add(g.Log(sum), top), blind, unseeing))
}

// blocks calls f for all blocks of queries, in parallel.
func (at *attention) blocks(f func(b queries)) {
	items, each := tensor.Numel(at.batch), (at.l+queryBlock-1)/queryBlock
	tensor.Parallel(items*each, 1, func(lo, hi int) {
		s := at.source(nil)
		defer s.close()
		for b := lo; b < hi; b++ {
			r := b % each * queryBlock
			f(s.rows(b/each, r, min(queryBlock, at.l-r)))
		}
	})
}

// out is the rows of data that belong to a block.
func (at *attention) out(data []float64, b queries, cols int) kernel.Matrix[float64] {
	return kernel.Dense(b.n, cols, data[(b.i*at.l+b.r)*cols:][:b.n*cols])
}

// largestHeld is the number of elements of the largest result that is kept once it is computed. Of a
// larger one blocks of queries are computed whenever they are asked for.
var largestHeld = 1 << 24

// byQueries is what f computes for n queries from r of batch item i, into a matrix of zeros;
// nothing is computed before an element is asked for.
func (at *attention) byQueries(dt tensor.DType, f func(i, r, n int, out kernel.Matrix[float64])) *tensor.Tensor {
	rows := queryBlock
	if at.l < queryBlock {
		rows = queryBlock / max(at.l, 1) * at.l
	}
	t := tensor.Lazy(dt, append(slices.Clone(at.batch), at.l, at.f), rows*at.f, func(lo int, dst []float64) {
		for len(dst) > 0 {
			i, r, from := lo/at.f/at.l, lo/at.f%at.l, lo%at.f
			n := min(queryBlock, at.l-r, (from+len(dst)+at.f-1)/at.f)
			part := dst[:min(len(dst), n*at.f-from)]
			out := part
			if clear(part); len(part) < n*at.f {
				out = tensor.Make[float64](n * at.f)
			}
			f(i, r, n, kernel.Dense(n, at.f, out))
			copy(part, out[from:])
			lo, dst = lo+len(part), dst[len(part):]
		}
	})
	if t.Numel() <= largestHeld {
		return tensor.Whole(t, nil)
	}
	return t
}

// forward is the result, and what is nowhere more than its bound, nil with mistakes. If the result is held they
// are computed together.
func (at *attention) forward() (t, least *tensor.Tensor) {
	shape := append(slices.Clone(at.batch), at.l, at.f)
	if n := tensor.Numel(shape); n <= largestHeld {
		both := sync.OnceValue(func() [2][]float64 {
			v := [2][]float64{tensor.Make[float64](n), tensor.Make[float64](n)}
			at.blocks(func(b queries) {
				out := at.out(v[0], b, at.f)
				w := at.average(b, out)
				if at.sound() {
					at.leastBound(b, w, out, at.out(v[1], b, at.f))
				}
			})
			return v
		})
		part := func(dt tensor.DType, k int) *tensor.Tensor {
			return tensor.Lazy(dt, shape, 1, func(lo int, dst []float64) { copy(dst, both()[k][lo:]) })
		}
		if !at.sound() {
			return part(at.dt, 0), nil
		}
		return part(at.dt, 0), part(tensor.Float64, 1)
	}
	t = at.byQueries(at.dt, func(i, r, n int, out kernel.Matrix[float64]) {
		s := at.source(nil)
		defer s.close()
		at.average(s.rows(i, r, n), out)
	})
	if at.sound() {
		least = at.byQueries(tensor.Float64, func(i, r, n int, out kernel.Matrix[float64]) {
			s := at.source(nil)
			defer s.close()
			b := s.rows(i, r, n)
			t := b.room.matrix(n, at.f)
			at.leastBound(b, at.average(b, t), t, out)
		})
	}
	return t, least
}

// average stores the results of a block in out and returns their weights.
func (at *attention) average(b queries, out kernel.Matrix[float64]) kernel.Matrix[float64] {
	w, _ := at.scores(b)
	at.weights(w)
	w = at.thinned(b, w)
	kernel.Gemm(w, b.v, 0, out)
	return w
}

// some are one in so many of n indices and, if the first few are alone in some sums, all of those: what is made of
// them is nowhere more than a bound. Errors in 16 bits are nearer to their bounds.
func (at *attention) some(n int, alone bool) (indices []int) {
	step, few := max(1, min(8, n/16)), 16
	if at.g.squared {
		step, few = max(1, min(3, n/96)), 64
	}
	if !alone {
		few = 0
	}
	for i := range n {
		if i < few || (i-few)%step == 0 {
			indices = append(indices, i)
		}
	}
	return indices
}

// someKeys are some of the keys of a block: where queries see none behind them, the first queries see the first
// keys alone.
func (at *attention) someKeys(b queries) []int {
	return at.some(b.k.Rows, at.After >= 0 && b.first == 0)
}

// someQueries are some of the queries of a block: the last keys are seen by the last queries alone.
func (at *attention) someQueries(b queries) []int {
	indices := at.some(b.n, at.After >= 0 && b.r+b.n == at.l)
	for j, i := range indices {
		indices[j] = b.n - 1 - i
	}
	return indices
}

// leastBound stores in out what is nowhere more than the bound of the results t of a block with
// weights w: what weightBounds gives weights of errors of their own, for some of the keys.
func (at *attention) leastBound(b queries, w, t, out kernel.Matrix[float64]) {
	keys := at.someKeys(b)
	kernel.Gemm(at.sizes(b.columns(w, keys), 2*at.keySum+at.stored), at.sizes(b.rows(b.v, keys), 1), 0, out)
	for c, y := range t.Data {
		out.Data[c] += at.stored * at.g.of(y)
	}
}

// columns are some columns of m.
func (b queries) columns(m kernel.Matrix[float64], some []int) kernel.Matrix[float64] {
	out := b.room.matrix(m.Rows, len(some))
	for j := range m.Rows {
		from, to := row(m, j), row(out, j)
		for c, i := range some {
			to[c] = from[i]
		}
	}
	return out
}

// rows are some rows of m.
func (b queries) rows(m kernel.Matrix[float64], some []int) kernel.Matrix[float64] {
	out := b.room.matrix(len(some), m.Cols)
	for j, i := range some {
		copy(row(out, j), row(m, i))
	}
	return out
}

// sizes replaces the elements of m by their magnitudes, times k.
func (at *attention) sizes(m kernel.Matrix[float64], k float64) kernel.Matrix[float64] {
	at.measure(m.Data, m.Data)
	if k != 1 {
		vmath.Scale(m.Data, m.Data, k)
	}
	return m
}

// magnitudes is m as it enters bounds.
func (at *attention) magnitudes(m kernel.Matrix[float64]) kernel.Matrix[float64] {
	data := make([]float64, len(m.Data))
	at.measure(data, m.Data)
	m.Data = data
	return m
}

// measure stores the magnitudes of x in dst, as they enter bounds.
func (at *attention) measure(dst, x []float64) {
	if at.g.squared {
		vmath.Mul(dst, x, x)
	} else {
		vmath.Abs(dst, x)
	}
}

// errorsOf are the bounds of a value, nil if it is exact.
func errorsOf(v *Value) *tensor.Tensor {
	if v.errors == nil {
		return nil
	}
	return v.errors()
}

// product adds |x| ey + ex |y| to d, given x, y and their errors.
func (at *attention) product(d, x, ex, y, ey kernel.Matrix[float64]) {
	if ex.Data != nil {
		kernel.Gemm(ex, at.magnitudes(y), 1, d)
	}
	if ey.Data != nil {
		kernel.Gemm(at.magnitudes(x), ey, 1, d)
	}
}

// scoreErrors are the scores of a block, their bounds, given those of its operands, and
// the derivatives of the limit on scores. Devices may store scores.
func (at *attention) scoreErrors(b, e queries) (w, d kernel.Matrix[float64], slope []float64) {
	w, slope = at.scores(b)
	d = b.scores()
	kernel.Gemm(at.magnitudes(b.q), at.magnitudes(b.k).T(), 0, d)
	for c := range d.Data {
		d.Data[c] *= at.keySum
	}
	at.product(d, b.q, e.q, b.k.T(), e.k.T())
	var mask kernel.Matrix[float64]
	if at.mask != nil && at.mask.errors != nil {
		mask = matrixRows(at.mask.errors(), b.i, at.l, b.r, b.n, at.s)
	}
	scale, own := at.g.of(at.Scale), at.stored
	if slope != nil {
		own += at.g.rounding(at.dt, 4)
	}
	for c, x := range w.Data {
		d.Data[c] = scale*d.Data[c] + times(own, at.g.of(x))
		if mask.Data != nil {
			d.Data[c] += mask.Data[c]
		}
	}
	return w, d, slope
}

// weightBounds are the weights of a block, their bounds and the derivatives of the limit
// on scores. Devices may store the weights.
func (at *attention) weightBounds(b, e queries) (w, d kernel.Matrix[float64], slope []float64) {
	w, d, slope = at.scoreErrors(b, e)
	at.weights(w)
	for j := range w.Rows { // the error of a score is one of an exponent
		ws, ds := row(w, j), row(d, j)
		mean := 0.0
		for c, x := range ws {
			if x > 0 {
				mean += at.g.of(x) * ds[c]
			}
		}
		for c, x := range ws {
			if x > 0 {
				ds[c] = at.g.of(x)*(2*at.keySum+at.stored+ds[c]+mean) + at.floor
			} else {
				ds[c] = x
			}
		}
	}
	return w, d, slope
}

// bound is that of the result t.
func (at *attention) bound(t *tensor.Tensor) *tensor.Tensor {
	part := func(i, r, n int, out kernel.Matrix[float64]) {
		s := at.source(nil)
		defer s.close()
		b := s.rows(i, r, n)
		e := at.errorSource(nil).like(b)
		w, d, _ := at.weightBounds(b, e)
		w, d = at.thinned(b, w), at.thinnedBound(b, d)
		kernel.Gemm(d, at.magnitudes(b.v), 0, out)
		if at.kept == nil {
			at.confine(b, w, d, out)
		}
		at.product(out, w, kernel.Matrix[float64]{}, b.v, e.v)
	}
	bounds := at.byQueries(tensor.Float64, part)
	if n := t.Numel(); n <= largestHeld { // few are asked for, if any: a query costs a fraction of its block
		whole := bounds
		bounds = tensor.Deferred(n/(queryBlock*max(at.f, 1)), tensor.Float64, t.Shape,
			func() []float64 { return tensor.Data[float64](whole) }, func(j int) float64 {
				out := make([]float64, at.f)
				part(j/at.f/at.l, j/at.f%at.l, 1, kernel.Dense(1, at.f, out))
				return out[j%at.f]
			})
	}
	return at.rounded(bounds, t)
}

// confine limits the bounds of a block to what weights can make of the values, whatever the scores are off by: the
// result lies between the smallest and the largest value, up to the rounding of weights. Scores near -1e9, which masks
// make that are added, are off by more than any weight.
func (at *attention) confine(b queries, w, d, out kernel.Matrix[float64]) {
	unit, rounding := at.g.unit(), 2*at.keySum+at.stored
	for j := range w.Rows {
		ws, ds := row(w, j), row(d, j)
		total := 0.0
		for _, x := range ds {
			total += x
		}
		if !(total > at.g.of(1/unit)) { // all weights together are off by less than they are
			continue
		}
		for f, bound := range row(out, j) {
			lo, hi, mean, size := math.Inf(1), math.Inf(-1), 0.0, 0.0
			for c, x := range ds {
				if v := b.v.Data[c*b.v.Cols+f]; x > 0 {
					lo, hi, mean = math.Min(lo, v), math.Max(hi, v), mean+ws[c]*v
					size += at.g.of(ws[c]) * at.g.of(v)
				}
			}
			if limit := at.g.of(math.Max(hi-mean, mean-lo)/unit) + rounding*size; limit < bound {
				row(out, j)[f] = limit
			}
		}
	}
}

// rounded is the bound e of t with the rounding of t itself.
func (at *attention) rounded(e, t *tensor.Tensor) *tensor.Tensor {
	return plus(e, scaled(at.g.magnitude(t), at.stored))
}

// scoreGrads are the weights of a block, the gradients of what becomes scores by
// mask and place, and those of the products: w*(h - sum(w*h)) with h = g v^T; means are those sums.
func (at *attention) scoreGrads(b queries) (w, placed, h kernel.Matrix[float64], means []float64) {
	w, slope := at.scores(b)
	means = make([]float64, b.n)
	at.weights(w)
	h = b.scores()
	kernel.Gemm(b.g, b.v.T(), 0, h)
	h = at.thinned(b, h)
	for j := range b.n {
		ws, d := row(w, j), row(h, j)
		dot := vmath.Dot(ws, d)
		if at.Wrong.NoMean {
			dot = 0
		}
		means[j] = dot
		vmath.Affine(d, d, -dot, 1)
		vmath.Mul(d, ws, d)
	}
	return w, h, at.throughLimit(h, slope, func(s float64) float64 { return s }), means
}

// throughLimit is h times the derivative of the limit on scores, as of sees it.
func (at *attention) throughLimit(h kernel.Matrix[float64], slope []float64,
	of func(float64) float64) kernel.Matrix[float64] {
	if slope == nil {
		return h
	}
	out := zeros(h.Rows, h.Cols)
	for c, s := range slope {
		out.Data[c] = h.Data[c] * of(s)
	}
	return out
}

// scoreBounds are the bounds of what scoreGrads returns, and that of each query's mean
// of gradients over the keys. Devices may store the results, with which that mean is
// computed.
func (at *attention) scoreBounds(b, e queries) (d, placed, h kernel.Matrix[float64], means []float64) {
	w, d, slope := at.weightBounds(b, e)
	h = b.scores()
	own, passed := b.scores(), b.scores()
	clear(passed.Data)
	kernel.Gemm(b.g, b.v.T(), 0, h)
	kernel.Gemm(at.magnitudes(b.g), at.magnitudes(b.v).T(), 0, own)
	for c := range own.Data {
		own.Data[c] *= at.keySum
	}
	at.product(passed, b.g, e.g, b.v.T(), e.v.T())
	h, own, passed = at.thinned(b, h), at.thinnedBound(b, own), at.thinnedBound(b, passed)
	of := at.g.of
	means = make([]float64, b.n)
	for j := range b.n {
		ws, ds, grad, sum, more := row(w, j), row(d, j), row(h, j), row(own, j), row(passed, j)
		mean, meanError := 0.0, 0.0
		for c, x := range ws {
			mean += x * grad[c]
			meanError += ds[c]*of(grad[c]) + of(x)*(sum[c]+more[c]) + at.stored*x*sum[c]
		}
		for _, x := range row(b.g, j) { // the mean may be computed of the result as it is stored
			meanError += at.floor * of(x)
		}
		means[j] = meanError
		for c, x := range ws {
			left := of(grad[c] - mean)
			sum[c] = ds[c]*left + of(x)*(sum[c]+more[c]+at.stored*of(grad[c])+meanError+(2+at.stored)*left)
			if x > 0 {
				sum[c] += at.floor
			}
		}
	}
	return d, own, at.throughLimit(own, slope, of), means
}

// gradients are those of query, key, value and mask.
func (at *attention) gradients(up *Value) []*Value {
	ts, least := at.grads(up.T)
	bounds := at.gradBounds(up, ts)
	out := make([]*Value, len(ts))
	for k, t := range ts {
		if t != nil {
			out[k] = at.g.value(t, func(t *tensor.Tensor) *tensor.Tensor { return bounds[k] }, nil)
			out[k].least = least[k]
		}
	}
	return out
}

// A gradient is those of all operands in the making.
type gradient struct{ q, k, v, mask []float64 }

func (d *gradient) parts() [4][]float64 { return [4][]float64{d.q, d.k, d.v, d.mask} }

func (at *attention) newGradient() *gradient {
	items := tensor.Numel(at.batch)
	d := &gradient{q: tensor.Make[float64](items * at.l * at.e), k: tensor.Make[float64](items * at.s * at.e),
		v: tensor.Make[float64](items * at.s * at.f)}
	if at.mask != nil && at.mask.needs {
		d.mask = tensor.Make[float64](items * at.l * at.s)
	}
	return d
}

// keys and values are the rows of those of a block.
func (at *attention) keys(d *gradient, b queries) kernel.Matrix[float64] {
	return kernel.Dense(b.k.Rows, at.e, d.k[(b.i*at.s+b.first)*at.e:][:b.k.Rows*at.e])
}

func (at *attention) values(d *gradient, b queries) kernel.Matrix[float64] {
	return kernel.Dense(b.k.Rows, at.f, d.v[(b.i*at.s+b.first)*at.f:][:b.k.Rows*at.f])
}

// tensors are the gradients as tensors, nil for a mask that wants none.
func (at *attention) tensors(dt tensor.DType, d *gradient) []*tensor.Tensor {
	out := []*tensor.Tensor{at.tensor(dt, d.q, at.l, at.e), at.tensor(dt, d.k, at.s, at.e),
		at.tensor(dt, d.v, at.s, at.f)}
	if at.mask == nil {
		return out
	}
	if d.mask == nil {
		return append(out, nil)
	}
	return append(out, at.tensor(dt, d.mask, at.l, at.s))
}

// item calls f for the blocks of queries of a batch item, with a gradient up, nil for none, one after the other:
// they add to the same keys.
func (at *attention) item(i int, up *tensor.Tensor, f func(b queries)) {
	s := at.source(up)
	defer s.close()
	for r := 0; r < at.l; r += queryBlock {
		f(s.rows(i, r, min(queryBlock, at.l-r)))
	}
}

// grads are the gradients, and what is nowhere more than their bounds; nil for the mask, and with mistakes.
func (at *attention) grads(up *tensor.Tensor) (ts, least []*tensor.Tensor) {
	d := at.newGradient()
	low := &gradient{q: tensor.Make[float64](len(d.q)), k: tensor.Make[float64](len(d.k)),
		v: tensor.Make[float64](len(d.v))}
	at.each(func(i int) {
		at.item(i, up, func(b queries) {
			w, placed, h, means := at.scoreGrads(b)
			if at.sound() {
				at.leastBounds(b, w, h, means, low)
			}
			if weights := at.thinned(b, w); at.Wrong.Transposed {
				kernel.Gemm(weights, b.g, 1, at.values(d, b))
			} else {
				kernel.Gemm(weights.T(), b.g, 1, at.values(d, b))
			}
			if d.mask != nil {
				copy(at.out(d.mask, b, at.s).Data, placed.Data)
			}
			vmath.Scale(h.Data, h.Data, at.Scale)
			kernel.Gemm(h.T(), b.q, 1, at.keys(d, b))
			if lost := at.Wrong.LostKeys; lost > 0 {
				for j := range b.n {
					clear(row(h, j)[at.s-lost:])
				}
			}
			kernel.Gemm(h, b.k, 0, at.out(d.q, b, at.e))
		})
	})
	ts, least = at.tensors(at.dt, d), at.tensors(tensor.Float64, low)
	for k, t := range ts {
		switch {
		case !at.sound():
			least[k] = nil
		case least[k] != nil:
			least[k] = at.rounded(least[k], t)
		}
	}
	return ts, least
}

// leastBounds adds to low what is nowhere more than what a block adds to the bounds of gradients, given
// its weights, the gradients of its products and the means of those: what addBounds adds for errors of their
// own, of some queries for keys and values, of some keys for queries.
func (at *attention) leastBounds(b queries, w, h kernel.Matrix[float64], means []float64, low *gradient) {
	scale, some := at.g.of(at.Scale), at.someQueries(b)
	kernel.Gemm(at.sizes(b.rows(at.thinned(b, w), some), 2*at.keySum+at.stored+at.querySum).T(),
		at.sizes(b.rows(b.g, some), 1), 1, at.values(low, b))
	ws, x := b.rows(w, some), b.rows(h, some)
	for j, i := range some {
		at.leastScores(row(x, j), row(ws, j), means[i], at.querySum)
	}
	kernel.Gemm(x.T(), at.sizes(b.rows(b.q, some), scale), 1, at.keys(low, b))
	some = at.someKeys(b)
	ws, x = b.columns(w, some), b.columns(h, some)
	for j := range b.n {
		at.leastScores(row(x, j), row(ws, j), means[j], 0)
	}
	// And those of the products of gradients and values, which are little beside roundings to 16 bits.
	if at.kept == nil && at.Softcap == 0 && !at.g.squared {
		sums := b.room.matrix(b.n, len(some))
		kernel.Gemm(at.magnitudes(b.g), at.sizes(b.rows(b.v, some), at.keySum).T(), 0, sums)
		for c, y := range sums.Data {
			x.Data[c] += at.g.of(ws.Data[c]) * y
		}
	}
	kernel.Gemm(x, at.sizes(b.rows(b.k, some), scale), 0, at.out(low.q, b, at.e))
}

// leastScores replaces gradients h of a query's products by what is nowhere more than the bounds that scoreBounds
// makes of them, more times their magnitudes added, given the weights w and the mean of the gradients.
func (at *attention) leastScores(h, w []float64, mean, more float64) {
	passed, sum := 2*at.keySum+at.stored, 0.0 // by an error of the weight, for each unit of it
	own := passed + 2 + at.stored + more
	if at.Softcap != 0 {
		for c, x := range h {
			h[c] = own * at.g.of(x)
		}
		return
	}
	for c, x := range h {
		whole := at.g.of(x + mean*w[c]) // the weight times its gradient
		h[c] = own*at.g.of(x) + at.stored*whole
		sum += whole
	}
	sum *= passed // of the error of the mean
	for c, x := range w {
		h[c] += sum * at.g.of(x)
	}
}

// gradBounds are the bounds of the gradients ts, of which those of a batch item are computed once one of them
// is asked for.
func (at *attention) gradBounds(up *Value, ts []*tensor.Tensor) []*tensor.Tensor {
	d, known := sync.OnceValue(at.newGradient), make([]func(), tensor.Numel(at.batch))
	for i := range known {
		known[i] = sync.OnceFunc(func() { at.addBounds(d(), i, up) })
	}
	out := make([]*tensor.Tensor, len(ts))
	for k, t := range ts {
		if t == nil {
			continue
		}
		each := max(1, t.Numel()/max(1, len(known)))
		out[k] = at.rounded(tensor.Lazy(tensor.Float64, t.Shape, 1, func(lo int, dst []float64) {
			for i := lo / each; i*each < lo+len(dst); i++ {
				known[i]()
			}
			copy(dst, d().parts()[k][lo:])
		}), t)
	}
	return out
}

// addBounds adds the bounds of the gradients of a batch item to d.
func (at *attention) addBounds(d *gradient, i int, up *Value) {
	none, scale, errors := kernel.Matrix[float64]{}, at.g.of(at.Scale), at.errorSource(up)
	at.item(i, up.T, func(b queries) {
		e := errors.like(b)
		w, _, h, _ := at.scoreGrads(b)
		dw, placed, dh, means := at.scoreBounds(b, e)
		weights, grads := at.magnitudes(w), at.magnitudes(h)
		for c := range weights.Data {
			dw.Data[c] += at.querySum * weights.Data[c]
		}
		kernel.Gemm(at.thinnedBound(b, dw).T(), at.magnitudes(b.g), 1, at.values(d, b))
		at.product(at.values(d, b), at.thinned(b, w).T(), none, b.g, e.g)
		if d.mask != nil {
			copy(at.out(d.mask, b, at.s).Data, placed.Data)
		}
		for c := range h.Data {
			h.Data[c] *= at.Scale
			dh.Data[c] *= scale
			grads.Data[c] *= scale
		}
		q := at.out(d.q, b, at.e)
		kernel.Gemm(dh, at.magnitudes(b.k), 0, q)
		at.product(q, h, none, b.k, e.k)
		// The error of a query's mean is one for all of its keys.
		toward := b.room.matrix(b.n, at.e)
		kernel.Gemm(w, b.k, 0, toward)
		for c, x := range toward.Data {
			q.Data[c] += scale * means[c/at.e] * at.g.of(x)
		}
		for c := range dh.Data {
			dh.Data[c] += at.querySum * grads.Data[c]
		}
		kernel.Gemm(dh.T(), at.magnitudes(b.q), 1, at.keys(d, b))
		at.product(at.keys(d, b), h.T(), none, b.q, e.q)
	})
}

// BoolMask is the mask that adds -Inf where keep is false.
func (g *Graph) BoolMask(keep *tensor.Tensor) *Value {
	return g.Const(opdef.Map(tensor.Float64, keep, func(keep int64) float64 {
		if keep != 0 {
			return 0
		}
		return math.Inf(-1)
	}))
}
