package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// attentionMistakes are what kernels of attention get wrong: the scale, where the causal
// mask begins, which keys are seen, which head of keys belongs to a head of queries, sums by
// tiles, precision.
func attentionMistakes(a *attentionArgs) []opdef.Mistake[any] {
	m := &mistakes{a: a, queries: a.Query.Shape[a.Query.Dim()-2], keys: a.Key.Shape[a.Key.Dim()-2]}
	m.causal()
	m.scaled()
	m.lastKeys()
	m.tiles()
	m.weights()
	m.grouped()
	return m.all
}

// mistakes are those of one call, in the order in which they are tried.
type mistakes struct {
	a             *attentionArgs
	queries, keys int
	all           []opdef.Mistake[any]
}

func (m *mistakes) add(with func(x *attentionParts), format string, args ...any) {
	m.all = append(m.all, compose.Mistake(fmt.Sprintf(format, args...), m.a,
		func(g *compose.Graph, a *attentionArgs) compose.Values { return attentionWith(g, a, with) }))
}

// rounded adds one of rounding on the way, gradients one that only gradients show.
func (m *mistakes) rounded(with func(x *attentionParts), format string, args ...any) {
	m.add(with, format, args...)
	m.all[len(m.all)-1].Rounds = true
}

func (m *mistakes) gradients(with func(x *attentionParts), format string, args ...any) {
	m.add(with, format, args...)
	m.all[len(m.all)-1].Gradients = true
}

// causal adds wrong causal masks.
func (m *mistakes) causal() {
	if m.a.IsCausal {
		if m.queries != m.keys {
			m.add(func(x *attentionParts) { x.Offset = m.keys - m.queries },
				"the causal mask is aligned to the last key: query i sees the keys up to i %s, not up to i",
				strings.Replace(fmt.Sprintf("%+d", m.keys-m.queries), "+", "+ ", 1))
		}
		m.add(func(x *attentionParts) { x.After = 1 }, "the causal mask lets each query see one key too many")
		m.add(func(x *attentionParts) { x.Offset, x.After = -1, 0 }, "the causal mask hides each query's own key")
		m.add(func(x *attentionParts) { x.Offset, x.After = -1, 0; x.g.UnseeingGivesNaN() },
			"the causal mask hides each query's own key, and a query without keys gives NaN")
	}
}

// scaled adds wrong scales.
func (m *mistakes) scaled() {
	e := elements.LastDim(m.a.Query.Shape)
	scale := 1 / math.Sqrt(float64(e))
	if m.a.Scale != nil {
		scale = *m.a.Scale
	}
	m.add(func(x *attentionParts) { x.Scale = scale * scale }, "the scores are scaled twice, by %.4g", scale*scale)
	for _, s := range scales(m.a, e) {
		if math.Abs(s.x-scale) > 1e-6*scale && math.Abs(s.x-scale*scale) > 1e-6*scale {
			m.add(func(x *attentionParts) { x.Scale = s.x }, "scale is %s, not %.4g", s.text, scale)
		}
	}
}

// lastKeys adds rows of keys that end too early.
func (m *mistakes) lastKeys() {
	var tried []int
	for _, tile := range []int{1, 8, 16, 32, 64, 128} {
		if last := (m.keys - 1) / tile * tile; last > 0 && !slices.Contains(tried, last) {
			tried = append(tried, last)
			m.add(func(x *attentionParts) {
				x.k, x.v = x.g.Narrow(x.k, -2, 0, last), x.g.Narrow(x.v, -2, 0, last)
				if x.Mask != nil && elements.LastDim(x.Mask.Shape()) == m.keys {
					x.Mask = x.g.Narrow(x.Mask, -1, 0, last)
				}
			}, "the last %d of %d keys are left out", m.keys-last, m.keys)
		}
	}
}

// tiles adds sums over tiles of keys that are put together wrongly.
func (m *mistakes) tiles() {
	for _, tile := range []int{8, 16, 32, 64, 128} {
		if tile >= m.keys {
			break
		}
		m.rounded(func(x *attentionParts) { x.Wrong.Tile = tile },
			"what tiles of %d keys add is not rescaled where the largest score grows", tile)
		m.rounded(func(x *attentionParts) { x.Wrong.Tile, x.Wrong.Sums = tile, true },
			"what tiles of %d keys add and their sums are not rescaled where the largest score grows", tile)
	}
	for _, tile := range []int{8, 16, 32, 64, 128} {
		for from := 0; from < m.keys && tile < m.keys && m.keys <= mostTiles*tile; from += tile {
			to := min(from+tile, m.keys)
			m.add(func(x *attentionParts) { x.Wrong.From, x.Wrong.To, x.Wrong.Times = from, to, 2 },
				"keys %d to %d are counted twice", from, to-1)
			if to < m.keys {
				m.add(func(x *attentionParts) { x.Wrong.From, x.Wrong.To, x.Wrong.Times = from, to, 0 },
					"keys %d to %d are left out", from, to-1)
			}
		}
		if more := (tile - m.keys%tile) % tile; more > 0 {
			m.add(func(x *attentionParts) { x.Wrong.Padded = more },
				"%d keys that pad them to %d count with a score of 0", more, m.keys+more)
		}
		if m.a.IsCausal && tile < m.keys {
			m.add(func(x *attentionParts) { x.Before = tile - 1 }, "each query sees the last %d keys alone", tile)
		}
	}
}

// weights adds wrong weights and wrong gradients of them.
func (m *mistakes) weights() {
	if m.a.IsCausal || m.a.AttnMask != nil {
		m.add(func(x *attentionParts) { x.Wrong.Hidden = true },
			"keys that a query does not see count in the sum of its weights")
	}
	m.add(func(x *attentionParts) { x.Wrong.Whole = true },
		"the exponentials below the largest score are not divided by their sum")
	m.add(func(x *attentionParts) { x.Wrong.Unscaled = true }, "the exponentials are not divided by their sum")
	m.gradients(func(x *attentionParts) { x.Wrong.NoMean = true },
		"the gradient of the scores lacks its mean over the keys")
	if m.queries == m.keys && m.keys <= 128 {
		m.gradients(func(x *attentionParts) { x.Wrong.Transposed = true },
			"value's gradient is made of the transposed weights")
	}
	for _, tile := range []int{8, 16, 32, 64, 128} {
		if lost := cmp.Or(m.keys%tile, tile); lost < m.keys {
			m.gradients(func(x *attentionParts) { x.Wrong.LostKeys = lost },
				"query's gradient lacks the last %d of %d keys", lost, m.keys)
		}
	}
	for _, g := range opdef.CoarserGrids(m.a.Query.DType) {
		m.rounded(func(x *attentionParts) { x.Wrong.Weights = g.Round }, "the weights are rounded to %s", g.Name)
		m.rounded(func(x *attentionParts) { x.Wrong.Exponentials = g.Round },
			"the exponentials of the scores are rounded to %s", g.Name)
		m.rounded(func(x *attentionParts) { x.Wrong.Scores = g.Round }, "the scores are rounded to %s", g.Name)
	}
}

// grouped adds heads of keys that other heads of queries read.
func (m *mistakes) grouped() {
	if !m.a.EnableGqa || m.a.Query.Dim() <= 2 || m.a.Key.Dim() <= 2 {
		return
	}
	heads, own := m.a.Query.Shape[m.a.Query.Dim()-3], m.a.Key.Shape[m.a.Key.Dim()-3]
	if own <= 1 || own >= heads {
		return
	}
	order := make([]int, heads) // of the repeated heads, which lie in groups
	for h := range order {
		order[h] = h % own * (heads / own)
	}
	m.add(func(x *attentionParts) { x.k, x.v = reordered(x, x.k, order), reordered(x, x.v, order) },
		"head h of the queries reads head h mod %d of the keys and values, not h / %d", own, heads/own)
	first := make([]int64, heads) // of those of the queries that share a head
	for h := 0; h < heads; h += heads / own {
		first[h] = 1
	}
	alone := tensor.New(tensor.Bool, []int{heads, 1, 1}, first).Rounded()
	through := func(x *attentionParts, v *compose.Value) *compose.Value { return x.g.Where(alone, v, x.g.Detach(v)) }
	const one = "the gradient of %s is that through the first of the %d heads that share it"
	m.gradients(func(x *attentionParts) { x.k = through(x, x.k) }, one, "key", heads/own)
	m.gradients(func(x *attentionParts) { x.v = through(x, x.v) }, one, "value", heads/own)
	m.gradients(func(x *attentionParts) { x.k, x.v = through(x, x.k), through(x, x.v) },
		"the gradients of key and value are those through the first of the %d heads that share them", heads/own)
}

// mostTiles is in how many tiles keys are taken of which each may be lost.
const mostTiles = 8

// reordered is v with its heads in another order.
func reordered(x *attentionParts, v *compose.Value, order []int) *compose.Value {
	return x.g.IndexSelect(v, v.Dim()-3, order)
}

// A scaleText is what scores may be multiplied by.
type scaleText struct {
	x    float64
	text string
}

// scales are what scores are multiplied by in kernels: powers of lengths that a kernel
// knows.
func scales(a *attentionArgs, e int) []scaleText {
	out := []scaleText{{1, "1"}}
	lengths := []int{e, elements.LastDim(a.Value.Shape)}
	if d := a.Query.Dim(); d > 2 {
		lengths = append(lengths, e*a.Query.Shape[d-3], a.Query.Shape[d-2])
	}
	for i, n := range lengths {
		if n > 1 && !slices.Contains(lengths[:i], n) {
			out = append(out, scaleText{1 / math.Sqrt(float64(n)), fmt.Sprintf("1/sqrt(%d)", n)},
				scaleText{1 / float64(n), fmt.Sprintf("1/%d", n)})
		}
	}
	return append(out, scaleText{math.Ln2 / math.Sqrt(float64(e)), "ln 2 of what is due"},
		scaleText{math.Log2E / math.Sqrt(float64(e)), "log2(e) times what is due"})
}
