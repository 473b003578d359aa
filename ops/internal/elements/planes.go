package elements

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Planes is a tensor seen as rows of planes, one for each sample and channel,
// of up to three dimensions (unused leading ones have size 1).
type Planes struct {
	Tensor *tensor.Tensor
	Dims   int    // spatial ones
	Size   [3]int // of a plane
	Rows   int    // how many planes
}

// PlanesOf checks that the argument has nd spatial dimensions after channels
// and, if there is one, the batch; only the batch may be empty.
func PlanesOf(arg string, t *tensor.Tensor, nd int) (Planes, error) {
	p := Planes{Tensor: t, Dims: nd, Size: [3]int{1, 1, 1}, Rows: 1}
	if t.Dim() != nd+1 && t.Dim() != nd+2 {
		return p, opdef.Refuse(arg, "want %d or %d dimensions, got shape %s", nd+1, nd+2, tensor.ShapeString(t.Shape))
	}
	lead := t.Dim() - nd
	for d, n := range t.Shape {
		if n == 0 && (d > 0 || lead == 1) {
			return p, opdef.Refuse(arg, "want no empty dimension but the batch, got shape %s",
				tensor.ShapeString(t.Shape))
		}
		if d < lead {
			p.Rows *= n
		}
	}
	copy(p.Size[3-nd:], t.Shape[lead:])
	return p, nil
}

// Shape is the shape with other spatial sizes.
func (p Planes) Shape(size [3]int) []int {
	return append(slices.Clone(p.Tensor.Shape[:p.Tensor.Dim()-p.Dims]), size[3-p.Dims:]...)
}

// Volume is the number of elements of a plane.
func (p Planes) Volume() int { return p.Size[0] * p.Size[1] * p.Size[2] }

// GatherPlanes picks element at[i] of the plane for each output i; -1 means an empty window.
func GatherPlanes(p Planes, shape []int, at []int64) *tensor.Tensor {
	if p.Tensor.DType.IsFloat() {
		return gatherPlanesAs[float64](p, shape, at)
	}
	return gatherPlanesAs[int64](p, shape, at)
}

func gatherPlanesAs[T float64 | int64](p Planes, shape []int, at []int64) *tensor.Tensor {
	m, n := len(at)/max(p.Rows, 1), p.Volume()
	return opdef.Rows(p.Tensor.DType, shape, m, func(row int, dst []T) {
		x := opdef.Scratch[T](n)
		tensor.Load(p.Tensor, row*n, *x)
		for i, k := range at[row*m : (row+1)*m] {
			if k < 0 {
				dst[i] = lowest[T]()
				continue
			}
			dst[i] = (*x)[k]
		}
		opdef.Release(x)
	})
}

// lowest is the maximum of no elements.
func lowest[T float64 | int64]() T {
	var v T
	switch p := any(&v).(type) {
	case *float64:
		*p = math.Inf(-1)
	case *int64:
		*p = math.MinInt64
	}
	return v
}

// ScatterPlanes adds element i of each plane of g to element at[i] of a plane
// of p's size.
func ScatterPlanes(p Planes, g *tensor.Tensor, at []int64) *tensor.Tensor {
	m := len(at) / max(p.Rows, 1)
	return opdef.Rows(g.DType, p.Tensor.Shape, p.Volume(), func(row int, dst []float64) {
		clear(dst)
		s := opdef.Scratch[float64](m)
		tensor.Load(g, row*m, *s)
		for i, k := range at[row*m : (row+1)*m] {
			if k >= 0 {
				dst[k] += (*s)[i]
			}
		}
		opdef.Release(s)
	})
}

// Resample applies a separable map to every plane, then finish to the result.
func Resample(dt tensor.DType, p Planes, shape []int, m *kernel.Axes, finish func(dst []float64)) *tensor.Tensor {
	return resample(dt, p.Tensor, shape, m, nil, finish)
}

// ResampleGrad applies the transpose of a separable map to every plane of g,
// after start.
func ResampleGrad(p Planes, g *tensor.Tensor, m *kernel.Axes, start func(src []float64)) *tensor.Tensor {
	return resample(g.DType, g, p.Tensor.Shape, m.Transposed(), start, nil)
}

func resample(dt tensor.DType, t *tensor.Tensor, shape []int, m *kernel.Axes,
	start, finish func(v []float64)) *tensor.Tensor {
	n := m[0].In * m[1].In * m[2].In
	return opdef.Rows(dt, shape, m[0].Out*m[1].Out*m[2].Out, func(row int, dst []float64) {
		x, a, b := opdef.Scratch[float64](n), opdef.Scratch[float64](m.Scratch()), opdef.Scratch[float64](m.Scratch())
		tensor.Load(t, row*n, *x)
		if start != nil {
			start(*x)
		}
		m.Apply(*x, dst, [2][]float64{*a, *b})
		if finish != nil {
			finish(dst)
		}
		opdef.Release(x)
		opdef.Release(a)
		opdef.Release(b)
	})
}
