package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Elem is the set of compute types. Bool and integer dtypes compute in int64
// (bool as 0 and 1, uint64 as its two's complement bits), floating dtypes in
// float64, complex dtypes in complex128.
type Elem interface {
	float64 | int64 | complex128
}

// A Tensor is an n-dimensional array: a dtype, a shape, strides and an offset
// in elements over a backing. The backing is one of
//
//   - stored bytes in the dtype's own encoding (tensors read from files);
//   - a slice of a compute type (results of kernels, not yet rounded to DType);
//   - a function that computes any block of elements on demand (Lazy), so that
//     a result larger than memory can still be walked once.
//
// Tensors are immutable: no operation here changes elements.
type Tensor struct {
	DType  DType
	Shape  []int
	Stride []int // in elements
	Offset int   // in elements

	RequiresGrad bool
	Parameter    bool   // was a torch.nn.Parameter
	Device       string // "cpu", "npu:0"; "" means cpu
	Layout       string // "torch.strided" when empty
	// Attrs is what Python code attached to the tensor, a []value.Part; nil for nothing.
	Attrs any

	// Wrapped marks a Python number that became a 0-d tensor; type promotion
	// gives it the lowest priority in its category.
	Wrapped bool

	back backing
}

type backing struct {
	stored *Storage
	f      []float64
	i      []int64
	c      []complex128
	lazy   *lazy
}

// View describes a strided view of a storage; see NewView.
type View struct {
	DType  DType
	Shape  []int
	Stride []int
	Offset int
}

// Errors of NewView, for callers that classify.
var (
	ErrRank     = errors.New("shape and stride differ in length")
	ErrNegative = errors.New("negative")
	ErrOverflow = errors.New("element count overflows")
	ErrExtent   = errors.New("tensor reaches past its storage")
)

// NewView returns the tensor that v describes over s, after checking every
// number of v against the storage without overflow. No byte is read.
func NewView(s *Storage, v View) (*Tensor, error) {
	if len(v.Shape) != len(v.Stride) {
		return nil, fmt.Errorf("%w: shape %v, stride %v", ErrRank, v.Shape, v.Stride)
	}
	if v.Offset < 0 {
		return nil, fmt.Errorf("%w storage offset %d", ErrNegative, v.Offset)
	}
	numel, last, empty, overflow := uint64(1), uint64(v.Offset), false, false
	for k, n := range v.Shape {
		if n < 0 {
			return nil, fmt.Errorf("%w dimension %d in shape %v", ErrNegative, n, v.Shape)
		}
		if v.Stride[k] < 0 {
			return nil, fmt.Errorf("%w stride %d in %v", ErrNegative, v.Stride[k], v.Stride)
		}
		if n == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(numel, uint64(n))
		numel, overflow = lo, overflow || hi != 0 || lo > math.MaxInt64
		hi, lo = bits.Mul64(uint64(n-1), uint64(v.Stride[k]))
		sum, carry := bits.Add64(last, lo, 0)
		if hi != 0 || carry != 0 || sum > math.MaxInt64 {
			sum = math.MaxInt64
		}
		last = sum
	}
	if overflow && !empty {
		return nil, fmt.Errorf("%w: shape %v", ErrOverflow, v.Shape)
	}
	size := uint64(v.DType.Size())
	if have := uint64(s.Len()) / size; !empty && last >= have {
		return nil, fmt.Errorf("%w: shape %v, stride %v, offset %d reach element %d of %d", ErrExtent, v.Shape,
			v.Stride, v.Offset, last, have)
	}
	return &Tensor{DType: v.DType, Shape: v.Shape, Stride: v.Stride, Offset: v.Offset, back: backing{stored: s}}, nil
}

// New returns a contiguous tensor of shape whose elements are data, in
// row-major order; data is kept, not copied. The elements are values of the
// dtype's compute type that have not been rounded to dt. len(data) must be the
// number of elements of shape.
func New[T Elem](dt DType, shape []int, data []T) *Tensor {
	if n := Numel(shape); n != len(data) {
		panic(fmt.Sprintf("tensor.New: %d elements for shape %v", len(data), shape))
	}
	t := &Tensor{DType: dt, Shape: slices.Clone(shape), Stride: Contiguous(shape)}
	switch d := any(data).(type) {
	case []float64:
		t.back.f = nonNil(d)
	case []int64:
		t.back.i = nonNil(d)
	case []complex128:
		t.back.c = nonNil(d)
	}
	return t
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Scalar returns a 0-d tensor.
func Scalar[T Elem](dt DType, v T) *Tensor { return New(dt, nil, []T{v}) }

// Full returns a tensor of shape in which every element is v; it takes the
// memory of one element.
func Full[T Elem](dt DType, shape []int, v T) *Tensor {
	t := Scalar(dt, v)
	t.Shape = slices.Clone(shape)
	t.Stride = make([]int, len(shape))
	return t
}

// FromNumber returns a bool, int, int64, float64 or complex128 as a 0-d tensor of
// dtype bool, int64, float64 or complex128; false for anything else.
func FromNumber(v any) (*Tensor, bool) {
	switch v := v.(type) {
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return Scalar(Bool, n), true
	case int64:
		return Scalar(Int64, v), true
	case int:
		return Scalar(Int64, int64(v)), true
	case float64:
		return Scalar(Float64, v), true
	case complex128:
		return Scalar(Complex128, v), true
	}
	return nil, false
}

// Wrap returns the 0-d tensor a Python number stands for in an expression
// (FromNumber), marked as wrapped. The default dtype torch shows for a float is
// float32; promotion knows (ResultType).
func Wrap(v any) *Tensor {
	t, ok := FromNumber(v)
	if !ok {
		panic(fmt.Sprintf("tensor.Wrap: %T is not a Python number", v))
	}
	t.Wrapped = true
	return t
}

// OnCPU reports whether t lay on the CPU.
func (t *Tensor) OnCPU() bool { return t.Device == "" || t.Device == "cpu" }

// Numel is the product of the dimensions. It panics with a *SizeError when that
// overflows int; shapes of tensors never do.
func Numel(shape []int) int {
	n, ok := count(shape)
	if !ok {
		panic(&SizeError{slices.Clone(shape)})
	}
	return n
}

// count is the product of the dimensions; ok is false if a dimension is negative or
// the product overflows int.
func count(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d == 0 {
			return 0, true
		}
	}
	for _, d := range shape {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt64 || d < 0 {
			return 0, false
		}
		n = int(lo)
	}
	return n, true
}

// Contiguous returns the row-major strides of shape as torch computes them:
// a dimension of size 0 counts as 1.
func Contiguous(shape []int) []int {
	st := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= max(shape[i], 1)
	}
	return st
}

// Numel is the number of elements.
func (t *Tensor) Numel() int { return Numel(t.Shape) }

// Dim is the number of dimensions.
func (t *Tensor) Dim() int { return len(t.Shape) }

// Bytes is the number of bytes the elements take in t's dtype, contiguous; math.MaxInt64
// for more than that.
func (t *Tensor) Bytes() int64 {
	n, size := int64(t.Numel()), int64(t.DType.Size())
	if n > 0 && size > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * size
}

// IsContiguous is torch's rule: row-major, where dimensions of size 1 may have
// any stride and an empty tensor always is.
func (t *Tensor) IsContiguous() bool {
	n := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] == 0 {
			return true
		}
	}
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] == 1 {
			continue
		}
		if t.Stride[i] != n {
			return false
		}
		n *= t.Shape[i]
	}
	return true
}

// Storage returns the bytes the tensor views, nil for computed tensors.
func (t *Tensor) Storage() *Storage { return t.back.stored }

// A Memory names elements in memory: it is equal for tensors for which SameMemory holds.
type Memory struct {
	of       any // *Storage, or *Tensor of a tensor that is not stored
	dtype    DType
	offset   int
	geometry string
}

// Memory names the elements that t views, as a key of maps.
func (t *Tensor) Memory() Memory {
	if t.back.stored == nil {
		return Memory{of: t}
	}
	return Memory{t.back.stored, t.DType, t.Offset, fmt.Sprint(t.Shape, t.Stride)}
}

// SameMemory reports whether t and u view the same elements of one storage.
func (t *Tensor) SameMemory(u *Tensor) bool {
	return t == u || t.back.stored != nil && t.back.stored == u.back.stored && t.DType == u.DType &&
		t.Offset == u.Offset && slices.Equal(t.Shape, u.Shape) && slices.Equal(t.Stride, u.Stride)
}

// IsLazy reports whether the elements are computed on demand.
func (t *Tensor) IsLazy() bool { return t.back.lazy != nil }

// like returns a tensor with t's backing and dtype and another geometry.
func (t *Tensor) like(shape, stride []int, offset int) *Tensor {
	return &Tensor{DType: t.DType, Shape: shape, Stride: stride, Offset: offset, Device: t.Device, back: t.solid()}
}

// solid is t's backing with a lazy one replaced by its computed elements, so
// that it can be indexed at random.
func (t *Tensor) solid() backing {
	if t.back.lazy == nil {
		return t.back
	}
	return t.back.lazy.materialize()
}

// WithDType returns t with the logical dtype dt and the same unrounded
// elements. t must be computed, not stored, and dt of the same compute type.
func (t *Tensor) WithDType(dt DType) *Tensor {
	u := *t
	u.DType = dt
	if t.back.stored != nil && dt != t.DType {
		panic("tensor: WithDType of a stored tensor")
	}
	return &u
}

// Meta describes shape and dtype for messages: "float32[2, 3]".
func (t *Tensor) Meta() string { return t.DType.String() + ShapeString(t.Shape) }

// Unravel is the index of element i of a row-major array of shape.
func Unravel(i int, shape []int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = i % shape[d]
		i /= shape[d]
	}
	return index
}

// Ravel is the place in row-major order of the element at an index, -1 if a tensor of that shape has none there.
func Ravel(index, shape []int) int {
	if len(index) != len(shape) {
		return -1
	}
	i := 0
	for d, n := range shape {
		if index[d] < 0 || index[d] >= n {
			return -1
		}
		i = i*n + index[d]
	}
	return i
}

// ShapeString formats a shape as torch does: [2, 3].
func ShapeString(shape []int) string {
	b := []byte{'['}
	for i, n := range shape {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Append(b, n)
	}
	return string(append(b, ']'))
}

// IsWrittenOnce reports whether no two elements of t share a location: whether
// writing through t would be well defined.
func (t *Tensor) IsWrittenOnce() bool {
	if t.Numel() == 0 {
		return true
	}
	for i, n := range t.Shape {
		if n > 1 && t.Stride[i] == 0 {
			return false
		}
	}
	return true
}
