package fused

import (
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Turned turns each pair (a, b) of elements of rows by a right angle, to (-b, a): of
// one place in both halves (mode half), of one place in both quarters of a half
// (quarter), or neighbours (interleave).
func Turned(g *compose.Graph, x *compose.Value, mode string) *compose.Value {
	parts := map[string]int{"half": 2, "quarter": 4, "interleave": 2}[mode]
	if parts == 0 {
		g.Refuse("rotary_mode", "want half, quarter or interleave, got %q", mode)
	}
	if x.Dim() == 0 || x.Shape()[x.Dim()-1]%parts != 0 {
		g.Refuse("", "the last dimension of shape %s is not a multiple of %d", tensor.ShapeString(x.Shape()), parts)
	}
	if mode == "interleave" {
		n := x.Shape()[x.Dim()-1] / 2
		a, b := g.Slice(x, -1, 0, n, 2), g.Slice(x, -1, min(1, n), n, 2)
		return g.Reshape(g.Stack(-1, g.Neg(b), a), x.Shape()...)
	}
	p := g.Chunk(x, parts, -1)
	for i := 0; i < parts; i += 2 {
		p[i], p[i+1] = g.Neg(p[i+1]), p[i]
	}
	return g.Cat(-1, p...)
}

// Rotate is x*cos + Turned(x)*sin, with cos and sin broadcast to x, which have one
// number for each element.
func Rotate(g *compose.Graph, x, cos, sin *compose.Value, mode string) *compose.Value {
	return g.Add(g.Mul(x, cos), g.Mul(Turned(g, x, mode), sin))
}

// RotatePart is x with the first elements of its rows, as many as cos and sin have,
// rotated.
func RotatePart(g *compose.Graph, name string, x, cos, sin *compose.Value, mode string) *compose.Value {
	if x.Dim() == 0 || cos.Dim() == 0 {
		g.Refuse(name, "want rows, got %s and %s", x.T.Meta(), cos.T.Meta())
	}
	size, n := x.Shape()[x.Dim()-1], cos.Shape()[cos.Dim()-1]
	if n > size {
		g.Refuse("cos", "rows of %d elements do not have %d to rotate", size, n)
	}
	y := Rotate(g, g.Narrow(x, -1, 0, n), cos, sin, mode)
	if n == size {
		return y
	}
	return g.Cat(-1, y, g.Narrow(x, -1, n, size-n))
}

// RotatedPairs turns pairs of elements of rows, neighbours if interleaved, else of one
// place in both halves, by angles of which cos and sin are given for each pair.
func RotatedPairs(g *compose.Graph, x, cos, sin *compose.Value, interleaved bool) *compose.Value {
	n := x.Dim() - 1
	var halves []*compose.Value
	if interleaved {
		shape := append(append([]int{}, x.Shape()[:n]...), x.Shape()[n]/2, 2)
		for _, p := range g.Chunk(g.Reshape(x, shape...), 2, -1) {
			halves = append(halves, g.Squeeze(p, -1))
		}
	} else {
		halves = g.Chunk(x, 2, -1)
	}
	y := []*compose.Value{g.Sub(g.Mul(halves[0], cos), g.Mul(halves[1], sin)),
		g.Add(g.Mul(halves[1], cos), g.Mul(halves[0], sin))}
	if y[0].Dim() != n+1 {
		g.Refuse("cos", "shape %s does not fit %s", tensor.ShapeString(cos.Shape()), x.T.Meta())
	}
	if !interleaved {
		return g.Cat(-1, y...)
	}
	shape := append([]int{}, y[0].Shape()...)
	shape[n] *= 2
	return g.Reshape(g.Stack(n+1, y...), shape...)
}

// RotatedBy is RotatedPairs, backwards with conj, computed in at least float32 and in x's dtype.
func RotatedBy(g *compose.Graph, name string, x, cos, sin *compose.Value, conj, interleaved bool) *compose.Value {
	if !x.DType().IsFloat() || x.Dim() == 0 || x.Shape()[x.Dim()-1]%2 != 0 {
		g.Refuse(name, "want floating rows of an even length, got %s", x.T.Meta())
	}
	dt := x.DType()
	if dt.IsReduced() {
		x, cos, sin = g.To(x, tensor.Float32), g.To(cos, tensor.Float32), g.To(sin, tensor.Float32)
	}
	if conj {
		sin = g.Neg(sin)
	}
	return g.To(RotatedPairs(g, x, cos, sin, interleaved), dt)
}

// RotateAt is x [..., heads, size] with the first elements of each head turned in pairs by
// the row positions[i] of cos and sin [rows, pairs], i counting rows of heads. It is
// computed in at least float32 and has x's dtype.
func RotateAt(g *compose.Graph, name string, x, cos, sin *compose.Value, positions []int,
	interleaved bool) *compose.Value {
	CheckRank(g, "cos", cos, 2)
	CheckRank(g, "sin", sin, 2)
	n := x.Dim() - 2
	if n < 0 || !x.DType().IsFloat() || len(positions) != tensor.Numel(x.Shape()[:n]) {
		g.Refuse(name, "want floating heads at %d positions, got %s", len(positions), x.T.Meta())
	}
	size, turned := x.Shape()[n+1], 2*cos.Shape()[1]
	if turned > size || sin.Shape()[1] != cos.Shape()[1] {
		g.Refuse("cos", "heads of %d elements do not have the pairs of %s and %s", size, cos.T.Meta(), sin.T.Meta())
	}
	for _, p := range positions {
		if p < 0 || p >= cos.Shape()[0] || p >= sin.Shape()[0] {
			g.Refuse("positions", "position %d is not among %d", p, min(cos.Shape()[0], sin.Shape()[0]))
		}
	}
	shape := append(append([]int{}, x.Shape()[:n]...), 1, cos.Shape()[1])
	at := func(c *compose.Value) *compose.Value {
		return g.Reshape(g.AtLeast(g.IndexSelect(c, 0, positions), tensor.Float32), shape...)
	}
	wide := g.AtLeast(x, tensor.Float32)
	y := RotatedPairs(g, g.Narrow(wide, -1, 0, turned), at(cos), at(sin), interleaved)
	if turned < size {
		y = g.Cat(-1, y, g.Narrow(wide, -1, turned, size-turned))
	}
	return g.To(y, x.DType())
}

// RotatedHeads is t with its heads of size elements rotated by RotateAt: t has the rows of positions first, in any
// shape; the cosines of a position are the first half of its row of cache, the sines the other.
func RotatedHeads(g *compose.Graph, name string, t *tensor.Tensor, size int, cache *compose.Value, positions []int,
	interleaved bool) *compose.Value {
	return RotatedParts(g, name, t, size, 0, cache, positions, interleaved, false)
}

// RotatedParts is RotatedHeads that begins at element offset of each head, back where it is inverse.
func RotatedParts(g *compose.Graph, name string, t *tensor.Tensor, size, offset int, cache *compose.Value,
	positions []int, interleaved, inverse bool) *compose.Value {
	CheckRank(g, "cos_sin_cache", cache, 2)
	if cache.Shape()[1]%2 != 0 {
		g.Refuse("cos_sin_cache", "want rows of an even length, got %s", cache.T.Meta())
	}
	rows := len(positions)
	if size < 1 || rows == 0 || t.Numel()%(rows*size) != 0 || offset < 0 || offset > size {
		g.Refuse(name, "want heads of %d at %d positions, turned from %d, got %s", size, rows, offset, t.Meta())
	}
	parts := g.Chunk(cache, 2, -1)
	if inverse {
		parts[1] = g.Neg(parts[1])
	}
	heads := g.Reshape(g.Arg(name, t), rows, t.Numel()/(rows*size), size)
	turned := RotateAt(g, name, g.Narrow(heads, -1, offset, size-offset), parts[0], parts[1], positions, interleaved)
	if offset > 0 {
		turned = g.Cat(-1, g.Narrow(heads, -1, 0, offset), turned)
	}
	return g.Reshape(turned, t.Shape...)
}
