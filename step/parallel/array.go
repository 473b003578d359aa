package parallel

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// An array holds the elements of a tensor in row-major order. Whole numbers are exact up to 2^53.
type array struct {
	dtype tensor.DType
	shape []int
	x     []float64
}

// newArray copies the elements of t; nil where they are no real numbers.
func newArray(t *tensor.Tensor) *array {
	if t == nil || t.DType.IsComplex() || !t.DType.Computable() {
		return nil
	}
	x := make([]float64, t.Numel())
	if t.DType.IsFloat() {
		copy(x, tensor.Data[float64](t))
	} else {
		for i, v := range tensor.Data[int64](t) {
			x[i] = float64(v)
		}
	}
	return &array{t.DType, slices.Clone(t.Shape), x}
}

// tensor is the array as the argument of an operator.
func (a *array) tensor() *tensor.Tensor {
	if a.dtype.IsFloat() {
		return tensor.New(a.dtype, a.shape, a.x)
	}
	n := make([]int64, len(a.x))
	for i, v := range a.x {
		n[i] = int64(v)
	}
	return tensor.New(a.dtype, a.shape, n)
}

var seed = maphash.MakeSeed()

// sum identifies the elements, whatever their shape.
func (a *array) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var b [8]byte
	for _, v := range a.x {
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
		h.Write(b[:])
	}
	return h.Sum64()
}

// largest is the largest finite magnitude.
func (a *array) largest() (m float64) {
	for _, v := range a.x {
		if v = math.Abs(v); v > m && v-v == 0 {
			m = v
		}
	}
	return m
}

// constant reports whether all elements are the same number.
func (a *array) constant() bool {
	return !slices.ContainsFunc(a.x, func(v float64) bool { return v != a.x[0] })
}

// repeats reports whether an array is the same all along a dimension.
func (a *array) repeats(dim int) bool {
	n, inner := a.shape[dim], 1
	for _, s := range a.shape[dim+1:] {
		inner *= s
	}
	for i, v := range a.x {
		if i/inner%n > 0 && v != a.x[i-inner] {
			return false
		}
	}
	return true
}

// zero reports whether all elements are zero.
func (a *array) zero() bool { return !slices.ContainsFunc(a.x, func(v float64) bool { return v != 0 }) }

// rounding is what the dtype may change of values that ranks exchange, relative to their largest element.
func (a *array) rounding(ranks int) float64 {
	if !a.dtype.IsFloat() {
		return 0
	}
	return 16 * a.dtype.Eps() * float64(ranks)
}

// near reports whether two arrays agree within tolerance of their largest element.
func (a *array) near(b *array, tolerance float64) bool {
	return slices.Equal(a.shape, b.shape) && nearly(a.x, b.x, tolerance*max(a.largest(), b.largest()))
}

func nearly(x, y []float64, bound float64) bool {
	return len(x) == len(y) && apart(x, y) <= max(bound, 0)
}

// apart is the largest difference of elements; two NaNs and two equal infinities agree.
func apart(x, y []float64) (d float64) {
	for i, v := range x {
		switch w := y[i]; {
		case v == w || v != v && w != w:
		case !(math.Abs(v-w) <= math.MaxFloat64):
			return math.Inf(1)
		default:
			d = max(d, math.Abs(v-w))
		}
	}
	return d
}

// map1 is the array with f of each element.
func (a *array) map1(f func(float64) float64) *array {
	x := make([]float64, len(a.x))
	for i, v := range a.x {
		x[i] = f(v)
	}
	return &array{a.dtype, a.shape, x}
}

// zip is the array with f of each element and that of b, which has its shape.
func (a *array) zip(b *array, f func(x, y float64) float64) *array {
	x := make([]float64, len(a.x))
	for i, v := range a.x {
		x[i] = f(v, b.x[i])
	}
	return &array{a.dtype, a.shape, x}
}

func (a *array) plus(b *array) *array { return a.zip(b, func(x, y float64) float64 { return x + y }) }

func (a *array) times(k float64) *array {
	if k == 1 {
		return a
	}
	return a.map1(func(v float64) float64 { return k * v })
}

// zeros has the shape of an array, and no element of it: memory that was not written yet can hold NaN.
func (a *array) zeros() *array { return &array{a.dtype, a.shape, make([]float64, len(a.x))} }

// concat joins arrays along a dimension; nil where their other dimensions differ. A dimension that holds outer parts of
// each is joined part by part.
func concat(dim, outer int, as []*array) *array {
	first := as[0]
	if dim >= len(first.shape) {
		return nil
	}
	if outer > 1 {
		split := make([]*array, len(as))
		for i, a := range as {
			if dim >= len(a.shape) || a.shape[dim]%outer != 0 {
				return nil
			}
			split[i] = a.reshaped(slices.Insert(slices.Clone(a.shape), dim+1, a.shape[dim]/outer))
			split[i].shape[dim] = outer
		}
		a := concat(dim+1, 0, split)
		if a == nil {
			return nil
		}
		shape := slices.Delete(slices.Clone(a.shape), dim, dim+1)
		shape[dim] *= outer
		return a.reshaped(shape)
	}
	before, inner, n := 1, 1, 0
	for d, s := range first.shape {
		switch {
		case d < dim:
			before *= s
		case d > dim:
			inner *= s
		}
	}
	for _, a := range as {
		if len(a.shape) != len(first.shape) {
			return nil
		}
		for d, s := range a.shape {
			if d != dim && s != first.shape[d] {
				return nil
			}
		}
		n += a.shape[dim]
	}
	shape := slices.Clone(first.shape)
	shape[dim] = n
	x := make([]float64, 0, before*n*inner)
	for o := range before {
		for _, a := range as {
			m := a.shape[dim] * inner
			x = append(x, a.x[o*m:(o+1)*m]...)
		}
	}
	return &array{first.dtype, shape, x}
}

// reshaped is the array in another shape of as many elements.
// narrow are n places of an array from one on, along a dimension.
func (a *array) narrow(dim, from, n int) *array {
	inner := numel(a.shape[dim+1:])
	shape := slices.Clone(a.shape)
	shape[dim] = n
	out := &array{a.dtype, shape, nil}
	for at := 0; at < len(a.x); at += a.shape[dim] * inner {
		out.x = append(out.x, a.x[at+from*inner:at+(from+n)*inner]...)
	}
	return out
}

func (a *array) reshaped(shape []int) *array { return &array{a.dtype, shape, a.x} }

// ratio is the factor by which a is b, and whether there is one.
func (a *array) ratio(b *array, tolerance float64) (float64, bool) {
	if !slices.Equal(a.shape, b.shape) {
		return 0, false
	}
	up, down := 0.0, 0.0
	for i, v := range a.x {
		up += v * b.x[i]
		down += b.x[i] * b.x[i]
	}
	if down == 0 || up-up != 0 {
		return 0, false
	}
	k := up / down
	return k, k != 0 && a.near(b.times(k), tolerance)
}

// arraysOf are the elements of tensors, computed; nil where one has none.
func arraysOf(ts []*tensor.Tensor) []*array {
	out := make([]*array, len(ts))
	for i, t := range ts {
		if out[i] = newArray(t); out[i] == nil {
			return nil
		}
	}
	return out
}

// results are the n tensors that a call returns, of which its recorded form may leave out the last.
func results(f *opdef.Forward, n int) []*array {
	outs := tensorsIn(f.Value)
	if len(outs) != n {
		outs = f.Outs
	}
	if len(outs) < n {
		return nil
	}
	return arraysOf(outs[:n])
}
