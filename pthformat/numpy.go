package pthformat

import (
	"math"
	"math/bits"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// arrayTypes are numpy's type codes.
//
// Source: numpy.dtype.str, https://numpy.org/doc/stable/reference/arrays.interface.html
var arrayTypes = map[string]tensor.DType{
	"b1": tensor.Bool, "i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u1": tensor.Uint8, "u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64, "c8": tensor.Complex64, "c16": tensor.Complex128,
}

// arrayType is a numpy.dtype. BUILD brings its byte order.
type arrayType struct {
	code  string // "f4"
	order string // "<", ">", "|" or "="
}

// PySetState takes (version, byte order, ...).
func (t *arrayType) PySetState(state any) error {
	items, ok := elements(state)
	if !ok || len(items) < 2 {
		return malformed("numpy.dtype: the state is %s", kindOf(state))
	}
	if t.order, ok = items[1].(string); !ok {
		return malformed("numpy.dtype: the byte order is %s", kindOf(items[1]))
	}
	return nil
}

// decode returns the bytes of elements of t in little-endian order.
func (t *arrayType) decode(b []byte) []byte {
	if t.order != ">" {
		return b
	}
	b = slices.Clone(b)
	swapBytes(b, arrayTypes[t.code].Real().Size())
	return b
}

// swapBytes reverses each group of size bytes in place.
func swapBytes(b []byte, size int) {
	if size < 2 {
		return
	}
	for p := 0; p+size <= len(b); p += size {
		slices.Reverse(b[p : p+size])
	}
}

// buildArrayType: code, align, copy.
func buildArrayType(_ *unpickler, name string, args []any) (any, error) {
	if len(args) > 0 {
		if code, ok := args[0].(string); ok {
			if _, known := arrayTypes[code]; known {
				return &arrayType{code: code}, nil
			}
			return &object{global: name, args: args}, nil
		}
	}
	return nil, malformed("want a type code")
}

// buildArrayScalar: type, bytes. A numpy scalar becomes the Python number of
// the same value.
func buildArrayScalar(_ *unpickler, name string, args []any) (any, error) {
	if len(args) != 2 {
		return nil, malformed("%d arguments, want 2", len(args))
	}
	t, ok := args[0].(*arrayType)
	if !ok {
		return &object{global: name, reason: "numpy scalar of another type", args: args}, nil
	}
	b, ok := bytesOf(args[1])
	dt := arrayTypes[t.code]
	if !ok || len(b) != dt.Size() {
		return nil, malformed("want %d bytes for a scalar of %s", dt.Size(), dt)
	}
	v, err := tensor.NewView(tensor.NewStorage(t.decode(b)), tensor.View{DType: dt})
	if err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindBool:
		return tensor.At[int64](v, 0) != 0, nil
	case tensor.KindInt:
		i := tensor.At[int64](v, 0)
		if dt == tensor.Uint64 && i < 0 {
			return &object{global: name, reason: "numpy scalar beyond int64", args: args}, nil
		}
		return int(i), nil
	case tensor.KindComplex:
		return tensor.At[complex128](v, 0), nil
	}
	return tensor.At[float64](v, 0), nil
}

// array is a numpy.ndarray. Protocols before 5 make it empty and bring its
// content with BUILD.
type array struct {
	kind    any // *arrayType, or what stands for another type
	shape   any
	fortran bool
	data    any // bytes, or a list of objects
}

// buildArray: class, shape, type of an array that BUILD will fill.
func buildArray(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) != 3 {
		return nil, malformed("%d arguments, want 3", len(args))
	}
	return &array{}, nil
}

// PySetState takes (version, shape, type, is Fortran order, data), the version
// left out by old numpy.
func (a *array) PySetState(state any) error {
	items, ok := elements(state)
	if ok && len(items) == 5 {
		items = items[1:]
	}
	if !ok || len(items) != 4 {
		return malformed("numpy.ndarray: the state is %s", kindOf(state))
	}
	switch f := items[2].(type) {
	case bool:
		a.fortran = f
	case int:
		a.fortran = f != 0
	default:
		return malformed("numpy.ndarray: the order is %s", kindOf(f))
	}
	a.shape, a.kind, a.data = items[0], items[1], items[3]
	return nil
}

// buildArrayFromBuffer: bytes, type, shape, order.
func buildArrayFromBuffer(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) != 4 {
		return nil, malformed("%d arguments, want 4", len(args))
	}
	order, ok := args[3].(string)
	if !ok || order != "C" && order != "F" {
		return nil, malformed("order %v, want C or F", args[3])
	}
	return &array{kind: args[1], shape: args[2], fortran: order == "F", data: args[0]}, nil
}

// value is the array as a tensor whose Device is "numpy"; an array of objects
// or of a type without a dtype is opaque.
func (a *array) value() (value.Value, error) {
	t, ok := a.kind.(*arrayType)
	if !ok {
		return &value.Opaque{Global: "numpy.ndarray", Reason: "array of another type"}, nil
	}
	b, ok := bytesOf(a.data)
	if !ok {
		return nil, malformed("numpy.ndarray: the data is %s", kindOf(a.data))
	}
	shape, err := dims(a.shape, "shape of a numpy.ndarray")
	if err != nil {
		return nil, err
	}
	dt := arrayTypes[t.code]
	want := uint64(dt.Size())
	for _, n := range shape {
		if n < 0 {
			return nil, malformed("numpy.ndarray: negative dimension %d", n)
		}
		hi, lo := bits.Mul64(want, uint64(n))
		if want = lo; hi != 0 || lo > math.MaxInt64 {
			want = math.MaxUint64
			break
		}
	}
	if want != uint64(len(b)) {
		return nil, malformed("numpy.ndarray: shape %v of %s needs %d bytes, has %d", shape, dt, want, len(b))
	}
	stride := tensor.Contiguous(shape)
	if a.fortran {
		n := 1
		for i, d := range shape {
			stride[i] = n
			n *= max(d, 1)
		}
	}
	v, err := tensor.NewView(tensor.NewStorage(t.decode(b)), tensor.View{DType: dt, Shape: shape, Stride: stride})
	if err != nil {
		return nil, err
	}
	v.Device = "numpy"
	return v, nil
}
