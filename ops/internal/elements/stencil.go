package elements

import (
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A StencilTap is one term of an element of a linear map: a coefficient times
// element At.
type StencilTap struct {
	At   int
	Coef complex128
}

// A Stencil is a linear map of runs of In elements: element j of the result is
// the sum of Taps[j].
type Stencil struct {
	In   int
	Taps [][]StencilTap
}

// Transposed is the map's transpose, conjugated: the gradient.
func (s Stencil) Transposed() Stencil {
	t := Stencil{len(s.Taps), tensor.Make[[]StencilTap](s.In)}
	for j, taps := range s.Taps {
		for _, p := range taps {
			t.Taps[p.At] = append(t.Taps[p.At], StencilTap{j, cmplx.Conj(p.Coef)})
		}
	}
	return t
}

// Magnitudes is the map with the magnitudes of its coefficients.
func (s Stencil) Magnitudes() Stencil {
	t := Stencil{s.In, make([][]StencilTap, len(s.Taps))}
	for j, taps := range s.Taps {
		for _, p := range taps {
			t.Taps[j] = append(t.Taps[j], StencilTap{p.At, complex(cmplx.Abs(p.Coef), 0)})
		}
	}
	return t
}

// Along applies the map to the runs of x along dim.
func (s Stencil) Along(dt tensor.DType, x *tensor.Tensor, dim int) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return stencilAlong(s, dt, x, dim, func(c complex128) complex128 { return c })
	case tensor.KindFloat:
		return stencilAlong(s, dt, x, dim, func(c complex128) float64 { return real(c) })
	}
	return stencilAlong(s, dt, x, dim, func(c complex128) int64 { return int64(real(c)) })
}

func stencilAlong[T tensor.Elem](s Stencil, dt tensor.DType, x *tensor.Tensor, dim int,
	coefficient func(complex128) T) *tensor.Tensor {
	last := x.Dim() - 1
	v := x.Transpose(dim, last)
	n := len(s.Taps)
	shape := append(slices.Clone(v.Shape[:last]), n)
	if tensor.Numel(shape) == 0 {
		return tensor.New(dt, shape, []T{}).Transpose(dim, last)
	}
	type term struct {
		at int
		c  T
	}
	taps := tensor.Make[[]term](n)
	for j, ps := range s.Taps {
		for _, p := range ps {
			taps[j] = append(taps[j], term{p.At, coefficient(p.Coef)})
		}
	}
	return opdef.Rows(dt, shape, n, func(row int, dst []T) {
		src := opdef.Scratch[T](s.In)
		tensor.Load(v, row*s.In, *src)
		for j, ps := range taps {
			var sum T
			for _, p := range ps {
				sum += p.c * (*src)[p.at]
			}
			dst[j] = sum
		}
		opdef.Release(src)
	}).Transpose(dim, last)
}
