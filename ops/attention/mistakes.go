package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// attentionMistakes are what kernels of attention get wrong: the scale, where the causal
// mask begins, which keys are seen, which head of keys belongs to a head of queries, sums by
// tiles, precision.
func attentionMistakes(a *attentionArgs) []opdef.Mistake[any] {
	queries, keys := a.Query.Shape[a.Query.Dim()-2], a.Key.Shape[a.Key.Dim()-2]
	e := elements.LastDim(a.Query.Shape)
	var out []opdef.Mistake[any]
	add := func(with func(x *attentionParts), format string, args ...any) {
		out = append(out, compose.Mistake(fmt.Sprintf(format, args...), a,
			func(g *compose.Graph, a *attentionArgs) compose.Values { return attentionWith(g, a, with) }))
	}
	rounded := func(with func(x *attentionParts), format string, args ...any) {
		add(with, format, args...)
		out[len(out)-1].Rounds = true
	}
	gradients := func(with func(x *attentionParts), format string, args ...any) {
		add(with, format, args...)
		out[len(out)-1].Gradients = true
	}
	if a.IsCausal {
		if queries != keys {
			add(func(x *attentionParts) { x.Offset = keys - queries },
				"the causal mask begins at the last key, not at the first")
		}
		add(func(x *attentionParts) { x.After = 1 }, "the causal mask lets each query see one key too many")
		add(func(x *attentionParts) { x.Offset, x.After = -1, 0 }, "the causal mask hides each query's own key")
		add(func(x *attentionParts) { x.Offset, x.After = -1, 0; x.g.UnseeingGivesNaN() },
			"the causal mask hides each query's own key, and a query without keys gives NaN")
	}
	scale := 1 / math.Sqrt(float64(e))
	if a.Scale != nil {
		scale = *a.Scale
	}
	add(func(x *attentionParts) { x.Scale = scale * scale }, "the scores are scaled twice, by %.4g", scale*scale)
	for _, s := range scales(a, e) {
		if math.Abs(s.x-scale) > 1e-6*scale && math.Abs(s.x-scale*scale) > 1e-6*scale {
			add(func(x *attentionParts) { x.Scale = s.x }, "scale is %s, not %.4g", s.text, scale)
		}
	}
	var tried []int
	for _, tile := range []int{1, 8, 16, 32, 64, 128} {
		if last := (keys - 1) / tile * tile; last > 0 && !slices.Contains(tried, last) {
			tried = append(tried, last)
			add(func(x *attentionParts) {
				x.k, x.v = x.g.Narrow(x.k, -2, 0, last), x.g.Narrow(x.v, -2, 0, last)
				if x.Mask != nil && elements.LastDim(x.Mask.Shape()) == keys {
					x.Mask = x.g.Narrow(x.Mask, -1, 0, last)
				}
			}, "the last %d of %d keys are left out", keys-last, keys)
		}
	}
	for _, tile := range []int{8, 16, 32, 64, 128} {
		if tile >= keys {
			break
		}
		rounded(func(x *attentionParts) { x.Wrong.Tile = tile },
			"what tiles of %d keys add is not rescaled where the largest score grows", tile)
		rounded(func(x *attentionParts) { x.Wrong.Tile, x.Wrong.Sums = tile, true },
			"what tiles of %d keys add and their sums are not rescaled where the largest score grows", tile)
	}
	for _, tile := range []int{8, 16, 32, 64, 128} {
		for from := 0; from < keys && tile < keys && keys <= mostTiles*tile; from += tile {
			to := min(from+tile, keys)
			add(func(x *attentionParts) { x.Wrong.From, x.Wrong.To, x.Wrong.Times = from, to, 2 },
				"keys %d to %d are counted twice", from, to-1)
			if to < keys {
				add(func(x *attentionParts) { x.Wrong.From, x.Wrong.To, x.Wrong.Times = from, to, 0 },
					"keys %d to %d are left out", from, to-1)
			}
		}
		if more := (tile - keys%tile) % tile; more > 0 {
			add(func(x *attentionParts) { x.Wrong.Padded = more },
				"%d keys that pad them to %d count with a score of 0", more, keys+more)
		}
		if a.IsCausal && tile < keys {
			add(func(x *attentionParts) { x.Before = tile - 1 }, "each query sees the last %d keys alone", tile)
		}
	}
	if a.IsCausal || a.AttnMask != nil {
		add(func(x *attentionParts) { x.Wrong.Hidden = true },
			"keys that a query does not see count in the sum of its weights")
	}
	add(func(x *attentionParts) { x.Wrong.Whole = true },
		"the exponentials below the largest score are not divided by their sum")
	add(func(x *attentionParts) { x.Wrong.Unscaled = true }, "the exponentials are not divided by their sum")
	gradients(func(x *attentionParts) { x.Wrong.NoMean = true }, "the gradient of the scores lacks its mean over the keys")
	if queries == keys && keys <= 128 {
		gradients(func(x *attentionParts) { x.Wrong.Transposed = true }, "value's gradient is made of the transposed weights")
	}
	for _, tile := range []int{8, 16, 32, 64, 128} {
		if lost := cmp.Or(keys%tile, tile); lost < keys {
			gradients(func(x *attentionParts) { x.Wrong.LostKeys = lost },
				"query's gradient lacks the last %d of %d keys", lost, keys)
		}
	}
	for _, g := range opdef.CoarserGrids(a.Query.DType) {
		rounded(func(x *attentionParts) { x.Wrong.Weights = g.Round }, "the weights are rounded to %s", g.Name)
		rounded(func(x *attentionParts) { x.Wrong.Exponentials = g.Round },
			"the exponentials of the scores are rounded to %s", g.Name)
		rounded(func(x *attentionParts) { x.Wrong.Scores = g.Round }, "the scores are rounded to %s", g.Name)
	}
	if a.EnableGqa && a.Query.Dim() > 2 && a.Key.Dim() > 2 {
		heads, own := a.Query.Shape[a.Query.Dim()-3], a.Key.Shape[a.Key.Dim()-3]
		if own > 1 && own < heads {
			order := make([]int, heads) // of the repeated heads, which lie in groups
			for h := range order {
				order[h] = h % own * (heads / own)
			}
			add(func(x *attentionParts) { x.k, x.v = reordered(x, x.k, order), reordered(x, x.v, order) },
				"head h of the queries reads head h mod %d of the keys, not h / %d", own, heads/own)
			first := make([]int64, heads) // of those of the queries that share a head
			for h := 0; h < heads; h += heads / own {
				first[h] = 1
			}
			alone := tensor.New(tensor.Bool, []int{heads, 1, 1}, first).Rounded()
			add(func(x *attentionParts) {
				x.k, x.v = x.g.Where(alone, x.k, x.g.Detach(x.k)), x.g.Where(alone, x.v, x.g.Detach(x.v))
			}, "the gradients of key and value are those through the first of the %d heads that share them", heads/own)
		}
	}
	return out
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
