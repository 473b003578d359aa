package opdef

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/tensor"
)

// Map returns the lazy tensor f(x) for every element x of t, with dtype dt.
// S must be the compute type to read t in.
func Map[S, T tensor.Elem](dt tensor.DType, t *tensor.Tensor, f func(S) T) *tensor.Tensor {
	return MapBlock(dt, t, func(dst []T, src []S) {
		for i, x := range src {
			dst[i] = f(x)
		}
	})
}

// MapBlock is Map for functions of whole blocks; dst and src have the same
// length and do not overlap.
func MapBlock[S, T tensor.Elem](dt tensor.DType, t *tensor.Tensor, f func(dst []T, src []S)) *tensor.Tensor {
	return tensor.LazyOf(dt, t.Shape, func(lo int, dst []T) {
		src := Scratch[S](len(dst))
		tensor.Load(t, lo, *src)
		f(dst, *src)
		Release(src)
	}, t)
}

// Zip returns the lazy tensor f(x, y) over the elements of a and b, which must
// have the same shape (see BroadcastAll).
func Zip[S, T tensor.Elem](dt tensor.DType, a, b *tensor.Tensor, f func(x, y S) T) *tensor.Tensor {
	return ZipN(dt, a.Shape, func(dst []T, src [][]S) {
		x, y := src[0], src[1][:len(src[0])]
		for i := range x {
			dst[i] = f(x[i], y[i])
		}
	}, a, b)
}

// ZipBlock is Zip for functions of whole blocks; dst does not overlap x and y.
func ZipBlock[S, T tensor.Elem](dt tensor.DType, a, b *tensor.Tensor, f func(dst []T, x, y []S)) *tensor.Tensor {
	return ZipN(dt, a.Shape, func(dst []T, src [][]S) { f(dst, src[0], src[1]) }, a, b)
}

// ZipN is Zip for any number of operands of equal shape, in blocks: src[k]
// holds the block of operand k.
func ZipN[S, T tensor.Elem](
	dt tensor.DType, shape []int, f func(dst []T, src [][]S), ts ...*tensor.Tensor,
) *tensor.Tensor {
	return ZipAt(dt, shape, func(_ int, dst []T, src [][]S) { f(dst, src) }, ts...)
}

// ZipAt is ZipN for functions that also depend on where in the tensor the block
// begins, at element lo.
func ZipAt[S, T tensor.Elem](
	dt tensor.DType, shape []int, f func(lo int, dst []T, src [][]S), ts ...*tensor.Tensor,
) *tensor.Tensor {
	return tensor.LazyOf(dt, shape, func(lo int, dst []T) {
		blocks := sourcesOf[S]()
		for _, t := range ts {
			b := Scratch[S](len(dst))
			tensor.Load(t, lo, *b)
			blocks.held, blocks.src = append(blocks.held, b), append(blocks.src, *b)
		}
		f(lo, dst, blocks.src)
		blocks.release()
	}, ts...)
}

// BroadcastAll expands ts to their common shape.
func BroadcastAll(ts ...*tensor.Tensor) ([]*tensor.Tensor, []int, error) {
	shapes := make([][]int, len(ts))
	for i, t := range ts {
		shapes[i] = t.Shape
	}
	shape, err := tensor.Broadcast(shapes...)
	if err != nil {
		return nil, nil, Refuse("", "%v", err)
	}
	out := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if out[i], err = t.Expand(shape...); err != nil {
			return nil, nil, Refuse("", "%v", err)
		}
	}
	return out, shape, nil
}

// Cast returns t with dtype dt: values converted as torch does (complex to
// real drops the imaginary part, float to int truncates, anything to bool
// tests for zero). Rounding to dt is left to whoever stores the result.
func Cast(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	switch {
	case t.DType == dt:
		return t
	case dt == tensor.Bool && t.DType.IsComplex():
		return Map(dt, t, func(x complex128) int64 { return truth(x != 0) })
	case dt == tensor.Bool && t.DType.IsFloat():
		return Map(dt, t, func(x float64) int64 { return truth(x != 0) })
	case dt == tensor.Bool:
		return Map(dt, t, func(x int64) int64 { return truth(x != 0) })
	case dt.IsComplex():
		return load[complex128](t, dt)
	case dt.IsFloat() && dt != tensor.Float64 && t.DType == tensor.Int64:
		return Map(dt, t, tensor.IntToFloat) // rounded once, to dt
	case dt.IsFloat():
		return load[float64](t, dt)
	}
	return load[int64](t, dt)
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func load[T tensor.Elem](t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if t.Dim() == 0 { // keeps what a wrapped or single number is readable at no cost
		return tensor.Scalar(dt, tensor.At[T](t, 0))
	}
	return tensor.LazyOf(dt, t.Shape, func(lo int, dst []T) { tensor.Load(t, lo, dst) }, t)
}

// Abs returns the magnitudes of t: of its own dtype, or the dtype of its parts
// if t is complex.
func Abs(t *tensor.Tensor) *tensor.Tensor {
	var u *tensor.Tensor
	switch {
	case t.DType.IsComplex():
		u = Map(t.DType.Real(), t, cmplx.Abs)
	case t.DType.IsFloat():
		u = MapBlock(t.DType, t, vmath.Abs)
	case t.DType.IsUnsigned():
		return t
	default:
		u = Map(t.DType, t, func(x int64) int64 {
			if x < 0 {
				return -x
			}
			return x
		})
	}
	if t.Wrapped { // stays a Python number for type promotion
		s := ScalarAt(t, 0).Abs().Tensor()
		return s
	}
	return u
}

// MaxAbs is the largest finite magnitude of t's elements, 0 if there is none.
func MaxAbs(t *tensor.Tensor) float64 {
	n, step := t.Numel(), t.Block()
	blocks := (n + step - 1) / step
	best := tensor.Make[float64](blocks)
	tensor.Parallel(blocks, 1, func(a, b int) {
		buf := make([]complex128, 0)
		for k := a; k < b; k++ {
			lo, hi := k*step, min((k+1)*step, n)
			if t.DType.IsComplex() {
				buf = slices.Grow(buf[:0], hi-lo)[:hi-lo]
				tensor.Load(t, lo, buf)
				for _, x := range buf {
					if m := cmplx.Abs(x); m > best[k] && !math.IsInf(m, 0) {
						best[k] = m
					}
				}
				continue
			}
			s := Scratch[float64](hi - lo)
			tensor.Load(t, lo, *s)
			for _, x := range *s {
				if m := math.Abs(x); m > best[k] && !math.IsInf(m, 0) {
					best[k] = m
				}
			}
			Release(s)
		}
	})
	m := 0.0
	for _, x := range best {
		m = max(m, x)
	}
	return m
}

// ReduceView returns t with the dimensions dims moved to the end, the shape of
// the result of reducing over them (dims dropped, or of size 1 if keepdim), and
// the number of elements reduced into each result. Rows of the view, n long,
// are what is reduced.
func ReduceView(t *tensor.Tensor, dims []int, keepdim bool) (view *tensor.Tensor, shape []int, n int) {
	reduced := make([]bool, t.Dim())
	for _, d := range dims {
		reduced[d] = true
	}
	order, last := make([]int, 0, t.Dim()), make([]int, 0, len(dims))
	n = 1
	for d := range t.Shape {
		if !reduced[d] {
			order = append(order, d)
			shape = append(shape, t.Shape[d])
			continue
		}
		last = append(last, d)
		n *= t.Shape[d]
		if keepdim {
			shape = append(shape, 1)
		}
	}
	if len(last) == 0 || last[0] == len(order) { // already last: keep a lazy tensor lazy
		return t, shape, n
	}
	return t.Permute(append(order, last...)...), shape, n
}

// Sum adds t over dims in the compute type of dt (float64, int64 or
// complex128), pairwise within runs and runs one after the other (PairwiseSum,
// FoldDims), so that the rounding error of n terms is below (256 + n/128) 2^-53
// of the sum of their magnitudes. The result has dtype dt.
func Sum(dt tensor.DType, t *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindFloat:
		return sumDims[float64](dt, t, dims, keepdim)
	case tensor.KindComplex:
		return sumDims[complex128](dt, t, dims, keepdim)
	}
	return sumDims[int64](dt, t, dims, keepdim)
}

// PairwiseSum adds v in a fixed order: runs of 128 with several accumulators,
// then pairwise.
func PairwiseSum[T tensor.Elem](v []T) T {
	if f, ok := any(v).([]float64); ok {
		return any(vmath.Sum(f)).(T)
	}
	if len(v) <= 128 {
		var s0, s1, s2, s3 T
		for len(v) >= 4 {
			s0 += v[0]
			s1 += v[1]
			s2 += v[2]
			s3 += v[3]
			v = v[4:]
		}
		for _, x := range v {
			s0 += x
		}
		return s0 + s1 + (s2 + s3)
	}
	h := (len(v)/2 + 127) / 128 * 128
	return PairwiseSum(v[:h]) + PairwiseSum(v[h:])
}

// SumTo adds t over the dimensions in which shape was broadcast to t's shape:
// the gradient of an expanded operand.
func SumTo(t *tensor.Tensor, shape []int) *tensor.Tensor {
	if slices.Equal(t.Shape, shape) {
		return t
	}
	lead := t.Dim() - len(shape)
	var dims []int
	for d, n := range t.Shape {
		if d < lead || shape[d-lead] == 1 && n != 1 {
			dims = append(dims, d)
		}
	}
	return Sum(t.DType, t, dims, false).Reshape(shape...)
}

// Dim resolves a dimension argument that may be negative against rank n (a 0-d
// tensor counts as 1-d), or refuses it.
func Dim(arg string, d, n int) (int, error) {
	n = max(n, 1)
	if d < -n || d >= n {
		return 0, Refuse(arg, "dimension %d is out of range [%d, %d]", d, -n, n-1)
	}
	if d < 0 {
		d += n
	}
	return d, nil
}

// Dims resolves a list of dimensions; nil or empty means all n. Repeated ones
// are refused.
func Dims(arg string, dims []int, n int) ([]int, error) {
	if len(dims) == 0 {
		all := tensor.Make[int](n)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	out := make([]int, 0, len(dims))
	for _, d := range dims {
		r, err := Dim(arg, d, n)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, r) {
			return nil, Refuse(arg, "dimension %d appears twice", d)
		}
		out = append(out, r)
	}
	if n == 0 {
		return nil, nil
	}
	return out, nil
}

// Rows returns the lazy tensor of shape whose rows of n elements are computed
// one by one: fill(row, dst) stores all n elements of a row. It is called from
// several goroutines at once and must not keep dst.
func Rows[T tensor.Elem](dt tensor.DType, shape []int, n int, fill func(row int, dst []T)) *tensor.Tensor {
	return tensor.Lazy(dt, shape, n, func(lo int, dst []T) {
		for len(dst) > 0 {
			row, col := lo/n, lo%n
			if col == 0 && len(dst) >= n {
				fill(row, dst[:n])
				lo, dst = lo+n, dst[n:]
				continue
			}
			whole := Scratch[T](n)
			fill(row, *whole)
			k := copy(dst, (*whole)[col:])
			Release(whole)
			lo, dst = lo+k, dst[k:]
		}
	})
}
