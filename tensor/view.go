package tensor

import (
	"fmt"
	"slices"
)

// Reshape returns t with another shape of the same number of elements: a view
// when t is contiguous, else a copy in row-major order.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	if Numel(shape) != t.Numel() {
		panic(fmt.Sprintf("tensor: reshape %v to %v", t.Shape, shape))
	}
	shape = slices.Clone(shape)
	if t.IsContiguous() {
		if t.back.lazy != nil {
			u := *t
			u.Shape, u.Stride = shape, Contiguous(shape)
			return &u
		}
		return t.like(shape, Contiguous(shape), t.Offset)
	}
	return t.Dense().Reshape(shape...)
}

// Dense returns t as a contiguous tensor of the same values: t itself if it is
// contiguous, otherwise a copy in the compute type of its dtype.
func (t *Tensor) Dense() *Tensor {
	if t.IsContiguous() {
		return t
	}
	var u *Tensor
	switch {
	case t.DType.Kind() == KindComplex:
		u = New(t.DType, t.Shape, Data[complex128](t))
	case t.DType.Kind() == KindFloat:
		u = New(t.DType, t.Shape, Data[float64](t))
	default:
		u = New(t.DType, t.Shape, Data[int64](t))
	}
	u.Device, u.RequiresGrad = t.Device, t.RequiresGrad
	return u
}

// Expand returns a view of t broadcast to shape, or an error if t's shape is
// not broadcastable to it.
func (t *Tensor) Expand(shape ...int) (*Tensor, error) {
	lead := len(shape) - len(t.Shape)
	if lead < 0 {
		return nil, fmt.Errorf("shape %s cannot be expanded to %s: fewer dimensions", ShapeString(t.Shape),
			ShapeString(shape))
	}
	if slices.Equal(shape, t.Shape) {
		return t, nil
	}
	stride := make([]int, len(shape))
	for i, n := range t.Shape {
		switch {
		case n == shape[lead+i]:
			stride[lead+i] = t.Stride[i]
		case n != 1:
			return nil, fmt.Errorf("shape %s cannot be expanded to %s: dimension %d is %d", ShapeString(t.Shape),
				ShapeString(shape), i, n)
		}
	}
	return t.like(slices.Clone(shape), stride, t.Offset), nil
}

// Permute returns a view whose dimension i is t's dimension dims[i].
func (t *Tensor) Permute(dims ...int) *Tensor {
	shape, stride := make([]int, len(dims)), make([]int, len(dims))
	for i, d := range dims {
		shape[i], stride[i] = t.Shape[d], t.Stride[d]
	}
	return t.like(shape, stride, t.Offset)
}

// Transpose returns a view with dimensions a and b swapped.
func (t *Tensor) Transpose(a, b int) *Tensor {
	dims := make([]int, len(t.Shape))
	for i := range dims {
		dims[i] = i
	}
	dims[a], dims[b] = b, a
	return t.Permute(dims...)
}

// Slice returns the view of elements start, start+step, ... (n of them) of
// dimension dim. step may be 0 or negative only in internal use (flip).
func (t *Tensor) Slice(dim, start, n, step int) *Tensor {
	shape, stride := slices.Clone(t.Shape), slices.Clone(t.Stride)
	off := t.Offset
	if n > 0 {
		off += start * stride[dim]
	}
	shape[dim] = n
	stride[dim] *= step
	return t.like(shape, stride, off)
}

// Select returns the view of t at index i of dimension dim, which is removed.
func (t *Tensor) Select(dim, i int) *Tensor {
	u := t.Slice(dim, i, 1, 1)
	u.Shape = slices.Delete(u.Shape, dim, dim+1)
	u.Stride = slices.Delete(u.Stride, dim, dim+1)
	return u
}

// Unsqueeze returns a view with a dimension of size 1 inserted before dim.
func (t *Tensor) Unsqueeze(dim int) *Tensor {
	step := 1
	if dim < len(t.Shape) {
		step = t.Shape[dim] * t.Stride[dim]
	}
	return t.like(slices.Insert(slices.Clone(t.Shape), dim, 1), slices.Insert(slices.Clone(t.Stride), dim, step),
		t.Offset)
}

// Squeeze returns a view without dimension dim, which must have size 1.
func (t *Tensor) Squeeze(dim int) *Tensor { return t.Select(dim, 0) }

// Strided returns the view of t's backing with the given geometry
// (torch.as_strided), or an error if it reaches past it.
func (t *Tensor) Strided(shape, stride []int, offset int) (*Tensor, error) {
	b := t.solid()
	var have int
	switch {
	case b.stored != nil:
		return NewView(b.stored, View{DType: t.DType, Shape: shape, Stride: stride, Offset: offset})
	case b.f != nil:
		have = len(b.f)
	case b.i != nil:
		have = len(b.i)
	default:
		have = len(b.c)
	}
	// The same checks as for a file's view, on a storage of that many elements.
	u, err := NewView(&Storage{nbytes: int64(have) * int64(t.DType.Size())}, View{DType: t.DType, Shape: shape,
		Stride: stride, Offset: offset})
	if err != nil {
		return nil, err
	}
	u.back = b
	return u, nil
}

// Broadcast returns the shape that shapes broadcast to, or an error naming the
// dimension where they disagree.
// Source: https://pytorch.org/docs/stable/notes/broadcasting.html
func Broadcast(shapes ...[]int) ([]int, error) {
	n := 0
	for _, s := range shapes {
		n = max(n, len(s))
	}
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		lead := n - len(s)
		for i, d := range s {
			switch o := &out[lead+i]; {
			case *o == d || d == 1:
			case *o == 1:
				*o = d
			default:
				return nil, fmt.Errorf("shapes %s do not broadcast: sizes %d and %d at dimension %d", shapeList(shapes),
					*o, d, lead+i)
			}
		}
	}
	return out, nil
}

func shapeList(shapes [][]int) string {
	s := ""
	for i, sh := range shapes {
		if i > 0 {
			s += " and "
		}
		s += ShapeString(sh)
	}
	return s
}
