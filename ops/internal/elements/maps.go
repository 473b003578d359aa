package elements

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// ScaledByConj is sign*conj(k)*t: the gradient of t scaled by k.
func ScaledByConj(t *tensor.Tensor, sign float64, k opdef.Scalar) *tensor.Tensor {
	if t.DType.IsComplex() {
		c := complex(sign, 0) * cmplx.Conj(k.Complex128())
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return c * x })
	}
	f := sign * k.Float64()
	if f == 1 {
		return t
	}
	return opdef.MapBlock(t.DType, t, func(dst, x []float64) { vmath.Scale(dst, x, f) })
}

// Indicator is 1 if b holds, else 0, as an element.
func Indicator(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// IsFinite reports whether x is neither infinite nor NaN.
func IsFinite(x float64) bool { return x-x == 0 }

// Where is the lazy tensor of yes where cond is not zero, else no, broadcast.
func Where(dt tensor.DType, cond, yes, no *tensor.Tensor) (*tensor.Tensor, error) {
	ts, shape, err := opdef.BroadcastAll(cond, yes, no)
	if err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		return whereIn[complex128](dt, shape, ts), nil
	case tensor.KindFloat:
		return whereIn[float64](dt, shape, ts), nil
	}
	return whereIn[int64](dt, shape, ts), nil
}

func whereIn[T tensor.Elem](dt tensor.DType, shape []int, ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []T, src [][]T) {
		for i, c := range src[0] {
			if c != 0 {
				dst[i] = src[1][i]
			} else {
				dst[i] = src[2][i]
			}
		}
	}, ts...)
}

// Real holds the real parts of a complex tensor.
func Real(t *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(t.DType.Real(), t, func(x complex128) float64 { return real(x) })
}

// Imag holds the imaginary parts of a complex tensor.
func Imag(t *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(t.DType.Real(), t, func(x complex128) float64 { return imag(x) })
}

// Conj is t with its elements conjugated; t itself if it is real.
func Conj(t *tensor.Tensor) *tensor.Tensor {
	if !t.DType.IsComplex() {
		return t
	}
	return opdef.Map(t.DType, t, cmplx.Conj)
}

// Add is a + b with dtype dt; the shapes are equal.
func Add(dt tensor.DType, a, b *tensor.Tensor) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return opdef.Zip(dt, a, b, func(x, y complex128) complex128 { return x + y })
	case tensor.KindFloat:
		return opdef.ZipBlock(dt, a, b, vmath.Add)
	}
	return opdef.Zip(dt, a, b, func(x, y int64) int64 { return x + y })
}

// Zeros is a tensor of zeros that takes no memory.
func Zeros(dt tensor.DType, shape []int) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return tensor.Full(dt, shape, complex128(0))
	case tensor.KindFloat:
		return tensor.Full(dt, shape, 0.0)
	}
	return tensor.Full(dt, shape, int64(0))
}

// Filled is a tensor of shape filled with the number v as dtype dt stores it.
func Filled(dt tensor.DType, shape []int, v opdef.Scalar) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return tensor.Full(dt, shape, v.Complex128())
	case tensor.KindFloat:
		return tensor.Full(dt, shape, v.Float64())
	case tensor.KindBool:
		return tensor.Full(dt, shape, tensor.WrapInt(dt, int64(BoolInt(v.Complex128() != 0))))
	}
	return tensor.Full(dt, shape, tensor.WrapInt(dt, v.Int64()))
}

// BoolInt is 1 if b holds, else 0.
func BoolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AbsIfComplex holds the magnitudes of a complex tensor, zeros for a real one.
func AbsIfComplex(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		return opdef.Abs(t)
	}
	return tensor.Full(tensor.Float64, t.Shape, 0.0)
}

// MapN is the lazy tensor of a function of the elements of broadcast tensors,
// computed in c if dt is complex, else in f.
func MapN(dt tensor.DType, c func(v []complex128) complex128, f func(v []float64) float64,
	ts ...*tensor.Tensor) (*tensor.Tensor, error) {
	ts, shape, err := opdef.BroadcastAll(ts...)
	if err != nil {
		return nil, err
	}
	if dt.IsComplex() {
		return ZipEach(dt, shape, c, ts), nil
	}
	return ZipEach(dt, shape, f, ts), nil
}

// ZipEach applies f to the elements of ts, all of the given shape.
func ZipEach[S, T tensor.Elem](dt tensor.DType, shape []int, f func(v []S) T, ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []T, src [][]S) {
		v := make([]S, len(src))
		for i := range dst {
			for k := range src {
				v[k] = src[k][i]
			}
			dst[i] = f(v)
		}
	}, ts...)
}

// MapMagnitudes applies f to the magnitudes of broadcast tensors.
func MapMagnitudes(f func(v []float64) float64, ts ...*tensor.Tensor) *tensor.Tensor {
	abs := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		abs[i] = opdef.Abs(t)
	}
	return opdef.Must(MapN(tensor.Float64, nil, f, abs...))
}

// Converted is t in dtype dt as torch converts an argument before it computes:
// with the rounding or wrapping that goes with a narrower dtype.
func Converted(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if t.DType == dt {
		return t
	}
	u := opdef.Cast(t, dt)
	switch {
	case dt.IsFloat() && (t.DType.Size() > dt.Size() || !t.DType.IsFloat()):
		return opdef.MapBlock(dt, u, func(dst, src []float64) {
			copy(dst, src)
			tensor.RoundBlock(dt, dst)
		})
	case dt.IsComplex() && t.DType.Size() > dt.Size():
		p := dt.Real()
		return opdef.Map(dt, u, func(z complex128) complex128 { return complex(p.Round(real(z)), p.Round(imag(z))) })
	case dt.Kind() <= tensor.KindInt && dt != tensor.Bool && t.DType != tensor.Bool:
		return opdef.Map(dt, u, func(x int64) int64 { return tensor.WrapInt(dt, x) })
	}
	return u
}

// Scaled is k*t, t itself if k is 1.
func Scaled(t *tensor.Tensor, k float64) *tensor.Tensor {
	if k == 1 {
		return t
	}
	if t.DType.IsComplex() {
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return complex(k*real(x), k*imag(x)) })
	}
	return opdef.MapBlock(t.DType, t, func(dst, x []float64) { vmath.Scale(dst, x, k) })
}

// Finite reports whether all elements of t are finite.
func Finite(t *tensor.Tensor) bool {
	return !slices.ContainsFunc(tensor.Data[float64](t), func(x float64) bool { return x-x != 0 })
}

// Undefined are what implementations make of the elements of t in rows, of so many elements, that arguments which are
// not finite take part in: NaN, zeros and infinities, as t has it elsewhere. There are none where no row is hit.
func Undefined(t *tensor.Tensor, width int, hit func(row int) bool) []*tensor.Tensor {
	if t.Numel() == 0 || width == 0 {
		return nil
	}
	rows := tensor.Make[bool](t.Numel() / width)
	any := false
	for i := range rows {
		rows[i] = hit(i)
		any = any || rows[i]
	}
	if !any || !t.DType.IsFloat() {
		return nil
	}
	var out []*tensor.Tensor
	own := tensor.Data[float64](t)
	for _, x := range []float64{math.NaN(), 0, math.Inf(1), math.Inf(-1)} {
		v := slices.Clone(own)
		for i := range v {
			if rows[i/width] {
				v[i] = x
			}
		}
		out = append(out, tensor.New(t.DType, t.Shape, v))
	}
	return out
}
