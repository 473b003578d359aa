package compose

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// view is what show makes of x: elements of x in other places. back is the
// gradient of x, given that of the view.
func (g *Graph) view(x *Value, show func(t *tensor.Tensor) *tensor.Tensor, back func(up *Value) *Value) *Value {
	v := g.value(show(x.T), func(t *tensor.Tensor) *tensor.Tensor { return show(x.bound()) },
		func(up *Value) []*Value { return []*Value{back(up)} }, x)
	v.weak, v.show = elements.ReshapedOnly, show
	return v
}

// shown is what v shows of t, a tensor in place of the value from; nil where v is more than views
// of that, or repeats elements.
func (v *Value) shown(from *Value, t *tensor.Tensor) *tensor.Tensor {
	if v == from {
		return t
	}
	if v.show == nil || v.T.Numel() > v.in[0].T.Numel() {
		return nil
	}
	if t = v.in[0].shown(from, t); t == nil {
		return nil
	}
	return v.show(t)
}

// places are the elements of the value from by those of v, which shows them all in another order; nil
// where it does not.
func (v *Value) places(from *Value) []float64 {
	n := from.T.Numel()
	if v == from || v.T.Numel() != n {
		return nil
	}
	at := tensor.Make[float64](n)
	for i := range at {
		at[i] = float64(i)
	}
	if t := v.shown(from, tensor.New(tensor.Float64, from.Shape(), at)); t != nil {
		return tensor.Data[float64](t)
	}
	return nil
}

// selection is a view that leaves elements out. show sees tensors of x's shape and
// must not read them.
func (g *Graph) selection(x *Value, show func(t *tensor.Tensor) *tensor.Tensor) *Value {
	return g.view(x, show, func(up *Value) *Value { return g.unview(up, x.Shape(), show) })
}

// unview is the gradient of a tensor of shape of which show shows elements.
func (g *Graph) unview(up *Value, shape []int, show func(t *tensor.Tensor) *tensor.Tensor) *Value {
	probe, err := runs.Probe(shape)
	g.Check(err)
	times := 1
	if n := tensor.Numel(shape); n > 0 {
		times = max(1, (up.T.Numel()+n-1)/n)
	}
	return g.scatter(up, shape, runs.OfView(show(probe)), times)
}

// scatter is the tensor of shape with x's elements added at the runs r, at most
// terms at each (1: nothing is added).
func (g *Graph) scatter(x *Value, shape []int, r runs.Runs, terms int) *Value {
	t := runs.ScatterAdd(shape, x.T, r)
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		e := runs.ScatterAdd(shape, x.bound(), r)
		if terms < 2 {
			return e
		}
		return plus(e, g.summing(t, runs.ScatterAdd(shape, opdef.Abs(x.T), r), terms))
	}, func(up *Value) []*Value {
		return []*Value{g.pick(up, x.Shape(), r, func() int { return terms })}
	}, x)
}

// pick is the tensor of shape made of the runs r of x, of which an element is
// taken up to terms times.
func (g *Graph) pick(x *Value, shape []int, r runs.Runs, terms func() int) *Value {
	return g.value(runs.Pick(x.T, shape, r),
		func(*tensor.Tensor) *tensor.Tensor { return runs.Pick(x.bound(), shape, r) },
		func(up *Value) []*Value { return []*Value{g.scatter(up, x.Shape(), r, terms())} }, x)
}

// at is the tensor of shape made of the elements of x at the given places.
func (g *Graph) at(x *Value, shape []int, places []int64) *Value {
	return g.pick(x, shape, runs.AtStarts(1, places), func() int { return mostUsed(places, x.T.Numel()) })
}

// Take is the tensor of shape made of the elements of x, laid out in a row, at the
// given places.
func (g *Graph) Take(x *Value, shape []int, places []int64) *Value {
	g.checkPlaces(x, places, tensor.Numel(shape))
	return g.at(x, shape, places)
}

// Put is x with the elements of src in the given places of all its elements, which
// differ.
func (g *Graph) Put(x *Value, places []int64, src *Value) *Value {
	g.checkPlaces(x, places, src.T.Numel())
	put := func(x, src *tensor.Tensor) *tensor.Tensor {
		return runs.Put(x, src, runs.AtStarts(1, places), runs.Assign, true)
	}
	t := put(x.T, opdef.Cast(src.T, x.DType()))
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor { return put(x.bound(), src.bound()) },
		func(up *Value) []*Value {
			return []*Value{g.Put(up, places, g.Full(x.DType(), src.Shape(), 0)), g.at(up, src.Shape(), places)}
		}, x, src)
}

func (g *Graph) checkPlaces(x *Value, places []int64, n int) {
	if len(places) != n {
		g.Refuse("", "%d places for %d elements", len(places), n)
	}
	for _, p := range places {
		if p < 0 || int(p) >= x.T.Numel() {
			g.Refuse("", "place %d is outside of %s", p, x.T.Meta())
		}
	}
}

// mostUsed is how often the place used most occurs among n.
func mostUsed(places []int64, n int) int {
	count, most := tensor.Make[int](n), 1
	for _, p := range places {
		count[p]++
		most = max(most, count[p])
	}
	return most
}

// dim resolves a dimension of x, or refuses it.
func (g *Graph) dim(name string, d int, x *Value) int {
	d, err := opdef.Dim(name, d, x.Dim())
	g.Check(err)
	return d
}

// Axis resolves the dimension argument name, which may be negative, of a value
// that must have dimensions.
func (g *Graph) Axis(name string, d int, x *Value) int {
	if x.Dim() == 0 {
		g.Refuse(name, "want at least one dimension")
	}
	return g.dim(name, d, x)
}

// Reshape is x with another shape; one size may be -1.
func (g *Graph) Reshape(x *Value, shape ...int) *Value {
	shape = slices.Clone(shape)
	if at := slices.Index(shape, -1); at >= 0 {
		rest := 1
		for d, n := range shape {
			if d != at {
				rest *= n
			}
		}
		shape[at] = 0
		if rest > 0 {
			shape[at] = x.T.Numel() / rest
		}
	}
	if slices.Equal(shape, x.Shape()) {
		return x
	}
	if tensor.Numel(shape) != x.T.Numel() {
		g.Refuse("shape", "%s does not hold the elements of %s", tensor.ShapeString(shape), x.T.Meta())
	}
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(shape...) },
		func(up *Value) *Value { return g.Reshape(up, x.Shape()...) })
}

// Alias is all of x, as a view: where torch ends in a squeeze that drops nothing.
func (g *Graph) Alias(x *Value) *Value {
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t }, g.Alias)
}

// Permute is x with its dimensions in another order.
func (g *Graph) Permute(x *Value, dims ...int) *Value {
	dims, err := opdef.Dims("dims", dims, x.Dim())
	g.Check(err)
	back := make([]int, len(dims))
	for i, d := range dims {
		back[d] = i
	}
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Permute(dims...) },
		func(up *Value) *Value { return g.Permute(up, back...) })
}

// Transpose swaps two dimensions.
func (g *Graph) Transpose(x *Value, a, b int) *Value {
	a, b = g.Axis("dim0", a, x), g.Axis("dim1", b, x)
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Transpose(a, b) },
		func(up *Value) *Value { return g.Transpose(up, a, b) })
}

// H is the conjugate transpose of the last two dimensions.
func (g *Graph) H(x *Value) *Value { return g.Conj(g.Transpose(x, -1, -2)) }

// Unsqueeze inserts a dimension of size 1.
func (g *Graph) Unsqueeze(x *Value, dim int) *Value {
	if dim < 0 {
		dim += x.Dim() + 1
	}
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Unsqueeze(dim) },
		func(up *Value) *Value { return g.Reshape(up, x.Shape()...) })
}

// Squeeze drops a dimension of size 1.
func (g *Graph) Squeeze(x *Value, dim int) *Value {
	dim = g.Axis("dim", dim, x)
	if x.Shape()[dim] != 1 {
		return x
	}
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Squeeze(dim) },
		func(up *Value) *Value { return g.Reshape(up, x.Shape()...) })
}

// Expand broadcasts x to shape.
func (g *Graph) Expand(x *Value, shape ...int) *Value {
	_, err := x.T.Expand(shape...)
	g.Check(err)
	return g.view(x, func(t *tensor.Tensor) *tensor.Tensor { return opdef.Must(t.Expand(shape...)) },
		func(up *Value) *Value { return g.sumTo(up, x.Shape()) })
}

// Narrow is the n elements from start along dim.
func (g *Graph) Narrow(x *Value, dim, start, n int) *Value { return g.Slice(x, dim, start, n, 1) }

// Slice is n elements from start along dim, each step apart.
func (g *Graph) Slice(x *Value, dim, start, n, step int) *Value {
	dim = g.Axis("dim", dim, x)
	if start < 0 || n < 0 || step < 1 || n > 0 && start+(n-1)*step >= x.Shape()[dim] {
		g.Refuse("", "%d elements from %d do not fit dimension %d of %s", n, start, dim, x.T.Meta())
	}
	return g.selection(x, func(t *tensor.Tensor) *tensor.Tensor { return t.Slice(dim, start, n, step) })
}

// Select is x at an index of dim, which is dropped.
func (g *Graph) Select(x *Value, dim, index int) *Value {
	return g.Squeeze(g.Narrow(x, dim, index, 1), dim)
}

// Chunk cuts x along dim into n equal parts.
func (g *Graph) Chunk(x *Value, n, dim int) []*Value {
	dim = g.Axis("dim", dim, x)
	size := x.Shape()[dim]
	if size%n != 0 {
		g.Refuse("dim", "size %d of dimension %d is not a multiple of %d", size, dim, n)
	}
	sizes := tensor.Make[int](n)
	for i := range sizes {
		sizes[i] = size / n
	}
	return g.Split(x, sizes, dim)
}

// Split cuts x along dim into parts of the given sizes, one after the other. Their
// gradients are joined at once, so that many parts cost no more than few.
func (g *Graph) Split(x *Value, sizes []int, dim int) []*Value {
	dim = g.Axis("dim", dim, x)
	whole := g.add(&Value{T: x.T, errors: x.errors, in: []*Value{x},
		show: func(t *tensor.Tensor) *tensor.Tensor { return t }})
	parts, at := make([]*Value, len(sizes)), 0
	for i, n := range sizes {
		parts[i] = g.Narrow(whole, dim, at, n)
		parts[i].part = true
		at += n
	}
	whole.joined = func(grads map[int]*Value) *Value {
		ups, some := make([]*Value, 0, len(parts)+1), false
		zeros := func(n int) *Value {
			shape := slices.Clone(x.Shape())
			shape[dim] = n
			return g.Full(x.DType(), shape, 0)
		}
		for _, p := range parts {
			up := grads[p.position]
			if some = some || up != nil; up == nil {
				up = zeros(p.Shape()[dim])
			}
			ups = append(ups, up)
		}
		if !some {
			return nil
		}
		return g.Cat(dim, append(ups, zeros(x.Shape()[dim]-at))...)
	}
	return slices.Clone(parts)
}

// Cat joins values along dim.
func (g *Graph) Cat(dim int, xs ...*Value) *Value {
	ts := make([]*tensor.Tensor, len(xs))
	for i, x := range xs {
		ts[i] = x.T
	}
	dt, _, err := opdef.Common(ts...)
	g.Check(err)
	dim = g.Axis("dim", dim, xs[0])
	shape, sizes := xs[0].Shape(), make([]int, len(xs))
	for i, x := range xs {
		if x.Dim() != len(shape) {
			g.Refuse("tensors", "item %d of shape %s does not fit %s", i, tensor.ShapeString(x.Shape()),
				tensor.ShapeString(xs[0].Shape()))
		}
		sizes[i] = x.Shape()[dim]
		for d, n := range x.Shape() {
			if d != dim && n != shape[d] {
				g.Refuse("tensors", "item %d of shape %s does not fit %s", i, tensor.ShapeString(x.Shape()),
					tensor.ShapeString(xs[0].Shape()))
			}
		}
	}
	return g.value(runs.Concat(dt, dim, ts...), func(t *tensor.Tensor) *tensor.Tensor {
		es := make([]*tensor.Tensor, len(xs))
		for i, x := range xs {
			es[i] = x.bound()
		}
		return runs.Concat(tensor.Float64, dim, es...)
	}, func(up *Value) []*Value { return g.Split(up, sizes, dim) }, xs...)
}

// Stack joins values along a new dimension.
func (g *Graph) Stack(dim int, xs ...*Value) *Value {
	ups := make([]*Value, len(xs))
	for i, x := range xs {
		ups[i] = g.Unsqueeze(x, dim)
	}
	return g.Cat(dim, ups...)
}

// IndexSelect is the slices of x at the given indices along dim.
func (g *Graph) IndexSelect(x *Value, dim int, indices []int) *Value {
	dim = g.Axis("dim", dim, x)
	size, inner := x.Shape()[dim], tensor.Numel(x.Shape()[dim+1:])
	shape := slices.Clone(x.Shape())
	shape[dim] = len(indices)
	places := tensor.Make[int64](tensor.Numel(shape))[:0]
	for o := range tensor.Numel(x.Shape()[:dim]) {
		for _, k := range indices {
			if k < -size || k >= size {
				g.Refuse("index", "%d is out of range for size %d", k, size)
			}
			if k < 0 {
				k += size
			}
			for j := range inner {
				places = append(places, int64((o*size+k)*inner+j))
			}
		}
	}
	return g.at(x, shape, places)
}

// Gather is x at indices along dim, as torch.gather: index has x's dimensions.
func (g *Graph) Gather(x *Value, dim int, index *tensor.Tensor) *Value {
	dim = g.Axis("dim", dim, x)
	size, inner := x.Shape()[dim], tensor.Numel(x.Shape()[dim+1:])
	for d, n := range index.Shape {
		if len(index.Shape) != x.Dim() || d != dim && n > x.Shape()[d] {
			g.Refuse("index", "shape %s does not fit %s", tensor.ShapeString(index.Shape), x.T.Meta())
		}
	}
	if x.Dim() == 0 {
		inner = 1
	}
	stride := tensor.Contiguous(x.Shape())
	places, at := tensor.Make[int64](index.Numel()), make([]int, index.Dim())
	for i, k := range tensor.Data[int64](index) {
		if k < 0 || k >= int64(max(size, 1)) {
			g.Refuse("index", "%d is out of range for size %d", k, size)
		}
		p := int(k) * inner
		for d, j := range at {
			if d != dim {
				p += j * stride[d]
			}
		}
		places[i] = int64(p)
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < index.Shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return g.at(x, index.Shape, places)
}

// Flip reverses the order of elements along dim.
func (g *Graph) Flip(x *Value, dim int) *Value {
	dim = g.Axis("dim", dim, x)
	n := x.Shape()[dim]
	order := tensor.Make[int](n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return g.IndexSelect(x, dim, order)
}

// Roll moves elements on by shift places along dim, the last to the front.
func (g *Graph) Roll(x *Value, dim, shift int) *Value {
	dim = g.Axis("dim", dim, x)
	n := x.Shape()[dim]
	order := tensor.Make[int](n)
	for i := range order {
		order[i] = ((i-shift)%n + n) % n
	}
	return g.IndexSelect(x, dim, order)
}

// again has the first n elements along dim in place of the others, again and again.
func (g *Graph) again(x *Value, dim, n int) *Value {
	order := tensor.Make[int](x.Shape()[dim])
	for i := range order {
		order[i] = i % n
	}
	return g.IndexSelect(x, dim, order)
}

// RepeatInterleave repeats each slice of x along dim n times.
func (g *Graph) RepeatInterleave(x *Value, n, dim int) *Value {
	dim = g.Axis("dim", dim, x)
	s := x.Shape()
	wide := slices.Insert(slices.Clone(s), dim+1, n)
	out := slices.Clone(s)
	out[dim] *= n
	return g.Reshape(g.Expand(g.Unsqueeze(x, dim+1), wide...), out...)
}

// Diagonal is the diagonal of a matrix x [n, m], offset columns right of the
// main one.
func (g *Graph) Diagonal(x *Value, offset int) *Value {
	if x.Dim() != 2 {
		g.Refuse("", "want a matrix, got shape %s", tensor.ShapeString(x.Shape()))
	}
	n, m := x.Shape()[0], x.Shape()[1]
	var places []int64
	for i := max(0, -offset); i < n && i+offset < m; i++ {
		places = append(places, int64(i*m+i+offset))
	}
	return g.at(x, []int{len(places)}, places)
}
