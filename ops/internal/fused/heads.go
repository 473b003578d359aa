package fused

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Ints are the elements of a tensor of integers in one dimension.
func Ints(g *compose.Graph, name string, t *tensor.Tensor) []int {
	if t.DType.Kind() != tensor.KindInt || t.Dim() > 1 {
		g.Refuse(name, "want integers in one dimension, got %s", t.Meta())
	}
	out := tensor.Make[int](t.Numel())
	for i, n := range tensor.Data[int64](t) {
		out[i] = int(n)
	}
	return out
}

// Integers is a tensor of them, of dtype int32.
func Integers(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int32, []int{len(v)}, v).Rounded() }

// span are n places from lo.
func span(lo, n int) []int64 {
	out := tensor.Make[int64](n)
	for i := range out {
		out[i] = int64(lo + i)
	}
	return out
}

// CheckHeads refuses tensors that are not [..., length, heads, size] of equal rank.
func CheckHeads(g *compose.Graph, rank int, q, k, v *compose.Value) {
	for _, x := range []*compose.Value{q, k, v} {
		if x.Dim() != rank {
			g.Refuse("", "want q, k and v of rank %d, got %s, %s and %s", rank, q.T.Meta(), k.T.Meta(), v.T.Meta())
		}
	}
	heads := func(x *compose.Value) int { return x.Shape()[rank-2] }
	if heads(k) != heads(v) || heads(k) == 0 || heads(q)%heads(k) != 0 {
		g.Refuse("k", "%d and %d heads of k and v do not divide %d of q", heads(k), heads(v), heads(q))
	}
}

// Attend is the attention of q [batch, length, heads, size] with slopes per head, or
// per batch item and head (nil: none). Fewer heads of k and v serve several of q each.
func Attend(g *compose.Graph, q, k, v *compose.Value, slopes *tensor.Tensor, s compose.Scores) *compose.Value {
	CheckHeads(g, 4, q, k, v)
	few := k.Shape()[2]
	s.Slopes = slopesOf(g, q, slopes, few)
	out := g.Attention(grouped(g, q, few), grouped(g, k, few), grouped(g, v, few), s)
	out = g.Reshape(out, q.Shape()[0], q.Shape()[2], q.Shape()[1], v.Shape()[3])
	return g.Permute(out, 0, 2, 1, 3)
}

// LogSums are the logarithms of the sums of the exponentials of Attend's scores, [batch,
// heads, length] in float32, +Inf of a query that sees no key. No gradient passes.
func LogSums(g *compose.Graph, q, k *compose.Value, slopes *tensor.Tensor, s compose.Scores) *compose.Value {
	CheckHeads(g, 4, q, k, k)
	few := k.Shape()[2]
	s.Slopes = slopesOf(g, q, slopes, few)
	lse := g.AttentionLogSums(grouped(g, q, few), grouped(g, k, few), s, tensor.Float32, math.Inf(1))
	return g.Reshape(lse, q.Shape()[0], q.Shape()[2], q.Shape()[1])
}

// grouped is x [batch, length, heads, size] as [batch, few, heads/few, length, size].
func grouped(g *compose.Graph, x *compose.Value, few int) *compose.Value {
	x = g.Permute(x, 0, 2, 1, 3)
	return g.Reshape(x, x.Shape()[0], few, x.Shape()[1]/few, x.Shape()[2], x.Shape()[3])
}

// slopesOf are the slopes of the heads of q, grouped (nil: none).
func slopesOf(g *compose.Graph, q *compose.Value, slopes *tensor.Tensor, few int) *tensor.Tensor {
	if slopes == nil {
		return nil
	}
	batch, heads := q.Shape()[0], q.Shape()[2]
	if n := slopes.Dim(); n < 1 || n > 2 || slopes.Shape[n-1] != heads || n == 2 && slopes.Shape[0] != batch ||
		!slopes.DType.IsFloat() {
		g.Refuse("alibi_slopes", "want one number per head, got %s", slopes.Meta())
	}
	return slopes.Reshape(append(slices.Clone(slopes.Shape[:slopes.Dim()-1]), few, heads/few)...)
}
