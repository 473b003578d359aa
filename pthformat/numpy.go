package pthformat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// arrayTypes are numpy's type codes.
//
// Source: numpy.dtype.str, https://numpy.org/doc/stable/reference/arrays.interface.html
var arrayTypes = map[string]tensor.DType{
	"b1": tensor.Bool, "i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u1": tensor.Uint8, "u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64, "c8": tensor.Complex64, "c16": tensor.Complex128,
}

// arrayType is a numpy.dtype. In a pickle BUILD brings all but its code.
type arrayType struct {
	code   string // "f4", "M8", "V16"
	class  string // of elements that are of no class of numpy's own: "numpy.record"
	order  string // "<", ">", "|" or "="
	unit   string // of datetime64 and timedelta64: "ns", "10ms"
	fields []arrayField
	sub    *arrayType // of elements that are arrays themselves
	shape  []int      // of those
	bytes  int        // of an element with fields
}

// An arrayField is a field of a structured type.
type arrayField struct {
	name   string
	of     *arrayType
	offset int
}

// PySetState takes (version, byte order, sub-array, names, fields, size, alignment, flags) and,
// for times, (metadata, (unit, count, ...)).
func (t *arrayType) PySetState(state any) error {
	items, ok := elements(state)
	if !ok || len(items) < 2 {
		return malformed("numpy.dtype: the state is %s", kindOf(state))
	}
	if t.order, ok = items[1].(string); !ok {
		return malformed("numpy.dtype: the byte order is %s", kindOf(items[1]))
	}
	if len(items) < 6 {
		return nil
	}
	if sub, ok := elements(items[2]); ok && len(sub) == 2 {
		of, ok := sub[0].(*arrayType)
		shape, err := dims(sub[1], "shape of a numpy.dtype")
		if !ok || err != nil {
			return malformed("numpy.dtype: a sub-array of %s", kindOf(sub[0]))
		}
		t.sub, t.shape = of, shape
	}
	if t.bytes, ok = items[5].(int); !ok {
		return malformed("numpy.dtype: the size is %s", kindOf(items[5]))
	}
	if names, ok := elements(items[3]); ok {
		if err := t.setFields(names, items[4]); err != nil {
			return err
		}
	}
	if len(items) == 9 && strings.Contains("Mm", t.code[:1]) {
		t.unit = timeUnit(items[8])
	}
	return t.check()
}

// setFields reads the fields of a structured type: their names in order, and a dict of (type, offset) by name.
func (t *arrayType) setFields(names []any, of any) error {
	fields, ok := of.(*types.Dict)
	if !ok || len(*fields) > len(names)*2 {
		return malformed("numpy.dtype: the fields are %s", kindOf(of))
	}
	for _, name := range names {
		f := arrayField{}
		for _, e := range *fields {
			if e.Key != name {
				continue
			}
			if at, ok := elements(e.Value); ok && len(at) >= 2 {
				f.of, _ = at[0].(*arrayType)
				f.offset, _ = at[1].(int)
			}
		}
		if f.name, ok = name.(string); !ok || f.of == nil {
			return malformed("numpy.dtype: field %v has no type", name)
		}
		t.fields = append(t.fields, f)
	}
	return nil
}

// check refuses a type that contains itself, and one of more parts than numpy has a use for.
func (t *arrayType) check() error {
	left := 1000
	var finite func(t *arrayType, depth int) bool
	finite = func(t *arrayType, depth int) bool {
		if left--; left < 0 || depth == 0 {
			return false
		}
		ok := t.sub == nil || finite(t.sub, depth-1)
		for _, f := range t.fields {
			ok = ok && finite(f.of, depth-1)
		}
		return ok
	}
	if !finite(t, 32) {
		return malformed("numpy.dtype: too many parts, or one that contains itself")
	}
	return nil
}

// timeUnit is the unit of a time: the last item of (metadata, (unit, count, ...)).
func timeUnit(v any) string {
	if items, ok := elements(v); ok && len(items) == 2 {
		if of, ok := elements(items[1]); ok && len(of) >= 2 {
			unit := ""
			if b, ok := bytesOf(of[0]); ok {
				unit = string(b)
			} else if s, ok := of[0].(string); ok {
				unit = s
			}
			if n, ok := of[1].(int); ok && n != 1 {
				return fmt.Sprintf("%d%s", n, unit)
			}
			return unit
		}
	}
	return "?"
}

// arrayCodes are numpy's type codes: a letter and what follows it.
var arrayCodes = lazyregexp.New(`^([a-zA-Z])(\d*)$`)

// size is the number of bytes of an element, -1 if the type has none.
func (t *arrayType) size() int {
	if t.sub != nil {
		n := t.sub.size()
		for _, d := range t.shape {
			if d < 0 || n < 0 || n > 0 && d > maxElement/n {
				return -1
			}
			n *= d
		}
		return n
	}
	if t.fields != nil {
		return t.bytes
	}
	if dt, ok := arrayTypes[t.code]; ok {
		return dt.Size()
	}
	m := arrayCodes().FindStringSubmatch(t.code)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[2])
	switch {
	case err != nil || n > maxElement:
		return -1
	case m[1] == "U":
		return 4 * n
	}
	return n
}

// maxElement bounds the size of an element in bytes.
const maxElement = 1 << 30

// decode returns the bytes of elements of t in little-endian order.
func (t *arrayType) decode(b []byte) []byte {
	size := arrayTypes[t.code].Real().Size()
	switch t.code[0] {
	case 'M', 'm':
		size = 8
	case 'U':
		size = 4
	}
	if t.order != ">" || size < 2 {
		return b
	}
	b = slices.Clone(b)
	swapBytes(b, size)
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

// buildArrayType: code or, of elements of another class, that class, then align, copy.
func buildArrayType(_ *unpickler, name string, args []any) (any, error) {
	if len(args) > 0 {
		if code, ok := args[0].(string); ok && arrayCodes().MatchString(code) {
			return &arrayType{code: code}, nil
		}
		if c, ok := args[0].(*class); ok {
			return &arrayType{code: "V0", class: c.name}, nil
		}
		return &object{global: name, args: args}, nil
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
	dt, number := arrayTypes[t.code]
	if !number && ok { // a time, a text or a record
		return &array{kind: t, shape: &types.Tuple{}, data: args[1]}, nil
	}
	if !number {
		return &object{global: name, reason: "numpy scalar of another type", args: args}, nil
	}
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

// A masked is a numpy.ma.MaskedArray.
type masked struct{ object }

func buildMasked(_ *unpickler, _ string, _ []any) (any, error) {
	return &masked{object{global: "numpy.ma.MaskedArray"}}, nil
}

// PySetState takes (version, shape, type, is Fortran order, data, mask, fill value).
func (m *masked) PySetState(state any) error {
	items, ok := elements(state)
	if !ok || len(items) != 7 {
		return malformed("numpy.ma.MaskedArray: the state is %s", kindOf(state))
	}
	fortran, ok := items[3].(bool)
	t, plain := items[2].(*arrayType)
	if !ok || !plain || t.fields != nil {
		m.lacking = true
		return nil
	}
	m.part("data", &array{kind: t, shape: items[1], fortran: fortran, data: items[4]})
	m.part("mask", &array{kind: &arrayType{code: "b1"}, shape: items[1], fortran: fortran, data: items[5]})
	m.part("fill_value", items[6])
	return nil
}

// elements gives the array as a tensor whose Device is "numpy", or as an object of the parts
// that its type has. items are those of an array of objects.
func (a *array) elements() (v value.Value, items []any, err error) {
	shape, err := dims(a.shape, "shape of a numpy.ndarray")
	if err != nil {
		return nil, nil, err
	}
	t, ok := a.kind.(*arrayType)
	if !ok {
		return &value.Opaque{Global: "numpy.ndarray", Reason: "array of another type"}, nil, nil
	}
	if list, ok := elements(a.data); ok {
		return nil, list, nil
	}
	b, ok := bytesOf(a.data)
	if !ok {
		return nil, nil, malformed("numpy.ndarray: the data is %s", kindOf(a.data))
	}
	v, err = t.array(shape, a.fortran, int64(len(b)), func() ([]byte, error) { return b, nil })
	if err != nil {
		return nil, nil, malformed("numpy.ndarray: %s", err)
	}
	return v, nil, nil
}

// value is the array where it holds no objects.
func (a *array) value() (value.Value, error) {
	v, items, err := a.elements()
	if err == nil && items != nil {
		return &value.Opaque{Global: "numpy.ndarray", Reason: "array of objects"}, nil
	}
	return v, err
}

// array is what elements of a type mean that lie one behind the other in size bytes.
func (t *arrayType) array(shape []int, fortran bool, size int64, load func() ([]byte, error)) (value.Value, error) {
	element := t.size()
	if element <= 0 {
		return t.unknown(), nil
	}
	wide := make([]int64, len(shape))
	for i, n := range shape {
		wide[i] = int64(n)
	}
	_, n, err := sized(wide, 1)
	if err != nil {
		return nil, err
	}
	if element > 0 && n > math.MaxInt64/int64(element) {
		return nil, malformed("shape %v has too many elements", shape)
	}
	if want := n * int64(element); want != size {
		return nil, malformed("%s%s has %d bytes, there are %d", t, tensor.ShapeString(shape), want, size)
	}
	stride := tensor.Contiguous(shape)
	if fortran {
		step := 1
		for i, d := range shape {
			stride[i] = step
			step *= max(d, 1)
		}
	}
	return t.view(layoutOf{int(n), shape, stride, load})
}

// unknown is an array whose elements cannot be read.
func (t *arrayType) unknown() value.Value {
	return &value.Opaque{Global: "numpy.ndarray", Reason: "elements of numpy type " + t.String()}
}

// A layoutOf says where elements of a type are: one behind the other in memory, n of them, as
// an array of a shape with strides in elements.
type layoutOf struct {
	n      int
	shape  []int
	stride []int
	load   func() ([]byte, error)
}

// within is the layout of arrays of a shape that are the elements of l.
func (l layoutOf) within(shape []int) layoutOf {
	inner := tensor.Contiguous(shape)
	each := 1
	for _, d := range shape {
		each *= d
	}
	out := layoutOf{n: l.n * each, shape: slices.Concat(l.shape, shape), load: l.load}
	for _, s := range l.stride {
		out.stride = append(out.stride, s*each)
	}
	out.stride = append(out.stride, inner...)
	return out
}

// gather is the layout of a field of size bytes at an offset of each element of step bytes.
func (l layoutOf) gather(step, offset, size int) layoutOf {
	load := l.load
	l.load = func() ([]byte, error) {
		b, err := load()
		if err != nil {
			return nil, err
		}
		out := make([]byte, 0, l.n*size)
		for i := range l.n {
			out = append(out, b[i*step+offset:][:size]...)
		}
		return out, nil
	}
	return l
}

// view makes the value of elements of a type.
func (t *arrayType) view(l layoutOf) (value.Value, error) {
	switch {
	case len(l.shape) > maxDim:
		return nil, malformed("%d dimensions, the limit is %d", len(l.shape), maxDim)
	case t.sub != nil:
		return t.sub.view(l.within(t.shape))
	case t.fields != nil:
		return t.structured(l)
	case t.class != "":
		return t.unknown(), nil
	}
	p := t.plain()
	if p.inner != nil {
		l = l.within(p.inner)
	}
	s := tensor.OpenStorage(int64(l.n*p.dtype.Size()), func() ([]byte, error) {
		b, err := l.load()
		if err != nil {
			return nil, err
		}
		return p.decode(b), nil
	})
	v, err := tensor.NewView(s, tensor.View{DType: p.dtype, Shape: l.shape, Stride: l.stride})
	if err != nil {
		return nil, err
	}
	v.Device = "numpy"
	if p.part == "" {
		return v, nil
	}
	what := t.String()
	if p.time != "" {
		what, v.Layout = p.time, p.time
	}
	return &value.Opaque{Global: "numpy.ndarray", Reason: "array of " + what, Whole: true,
		Parts: []value.Part{{Name: p.part, Value: v}}}, nil
}

// structured makes the value of elements that have fields: an object with a part for each.
func (t *arrayType) structured(l layoutOf) (value.Value, error) {
	o := &value.Opaque{Global: "numpy.ndarray", Reason: "structured array", Whole: true}
	all := 0
	for _, f := range t.fields {
		if all += max(f.of.size(), 0); all > t.bytes {
			return &value.Opaque{Global: "numpy.ndarray", Reason: "structured array of fields that overlap"}, nil
		}
	}
	for _, f := range t.fields {
		size := f.of.size()
		if size < 0 || f.offset < 0 || size > t.bytes || f.offset > t.bytes-size {
			return nil, malformed("field %q reaches past its element of %d bytes", f.name, t.bytes)
		}
		v, err := f.of.view(l.gather(t.bytes, f.offset, size))
		if err != nil {
			return nil, err
		}
		o.Parts = append(o.Parts, value.Part{Name: "[" + value.StringRepr(f.name) + "]", Value: v})
	}
	return o, nil
}

// A plainType is how elements without fields are held in a tensor.
type plainType struct {
	dtype  tensor.DType
	decode func([]byte) []byte
	part   string // the name of the part of an object that holds them; "": they are plain numbers
	inner  []int  // dimensions inside an element
	time   string // the type of times: "datetime64[ns]"
}

// plain tells how elements of a type without fields are held.
func (t *arrayType) plain() plainType {
	p := plainType{decode: t.decode}
	letter, size := t.code[0], t.size()
	if dt, ok := arrayTypes[t.code]; ok {
		p.dtype = dt
		return p
	}
	switch {
	case (letter == 'M' || letter == 'm') && size == 8:
		p.dtype, p.part = tensor.Int64, "ticks"
		p.time = map[byte]string{'M': "datetime64", 'm': "timedelta64"}[letter] + "[" + t.unit + "]"
	case t.order != ">" && (t.code == "f16" || t.code == "c32"): // extended precision of x86
		p.dtype, p.part, p.decode = tensor.Float64, "values", extended
		if letter == 'c' {
			p.dtype = tensor.Complex128
		}
	case letter == 'U':
		p.dtype, p.part, p.inner = tensor.Uint32, "chars", []int{size / 4}
	case letter == 'S':
		p.dtype, p.part, p.inner = tensor.Uint8, "bytes", []int{size}
	default:
		p.dtype, p.part, p.inner = tensor.Bits8, "bytes", []int{size}
	}
	return p
}

// IsTime reports whether a tensor holds the ticks of a datetime64 or timedelta64, of which the
// Layout is the type. NotATime stands for no time.
func IsTime(t *tensor.Tensor) bool {
	return strings.HasPrefix(t.Layout, "datetime64") || strings.HasPrefix(t.Layout, "timedelta64")
}

// NotATime is numpy's NaT.
const NotATime = math.MinInt64

// String is numpy's str of a type.
func (t *arrayType) String() string {
	if t.class != "" {
		return t.class
	}
	if t.unit != "" {
		return t.order + t.code + "[" + t.unit + "]"
	}
	return t.order + t.code
}

// extended converts x86's extended precision, which numpy keeps in 16 bytes, to float64.
func extended(b []byte) []byte {
	out := make([]byte, 0, len(b)/2)
	for ; len(b) >= 16; b = b[16:] {
		mantissa, e := le.Uint64(b), le.Uint16(b[8:])
		x := math.Ldexp(float64(mantissa), int(e&0x7fff)-16383-63)
		switch {
		case e&0x7fff == 0x7fff && mantissa<<1 == 0:
			x = math.Inf(1)
		case e&0x7fff == 0x7fff:
			x = math.NaN()
		case math.IsInf(x, 1):
			x = math.MaxFloat64 // finite there
		}
		if e&0x8000 != 0 {
			x = -x
		}
		out = le.AppendUint64(out, math.Float64bits(x))
	}
	return out
}
