package pthformat

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// builders makes the values of the classes in the closed list. A name is
// listed as canonical gives it. Each builder checks the number and the types
// of its arguments: they come from the file.
//
// Source: torch/_utils.py, torch/_tensor.py, torch/serialization.py (1.13 and
// 2.5), numpy/core/src/multiarray, torch_npu/utils/storage.py.
var builders = map[string]builder{
	"torch._utils._rebuild_tensor":                   buildTensor,
	"torch._utils._rebuild_tensor_v2":                buildTensorV2,
	"torch._utils._rebuild_tensor_v3":                buildTensorV3,
	"torch._utils._rebuild_parameter":                buildParameter,
	"torch._utils._rebuild_parameter_with_state":     buildParameter,
	"torch._tensor._rebuild_from_type_v2":            buildFromType,
	"torch._utils._rebuild_device_tensor_from_numpy": buildFromNumpy,
	"torch._utils._rebuild_xla_tensor":               buildFromNumpy,
	"torch_npu.utils.storage._rebuild_npu_tensor":    buildNPUTensor,
	"torch._utils._rebuild_sparse_tensor":            opaque("sparse tensor"),
	"torch._utils._rebuild_sparse_csr_tensor":        opaque("sparse tensor"),
	"torch._utils._rebuild_qtensor":                  opaque("quantized tensor"),
	"torch._utils._rebuild_meta_tensor_no_storage":   opaque("meta tensor: it has no values"),
	"torch._utils._rebuild_nested_tensor":            opaque("nested tensor"),
	"torch._utils._rebuild_mkldnn_tensor":            opaque("tensor in the layout of mkldnn"),
	"torch._utils._rebuild_wrapper_subclass":         opaque("tensor subclass without values"),
	"torch.Size":                                     buildSize,
	"torch.device":                                   buildDevice,
	"torch.serialization._get_layout":                buildLayout,
	"collections.OrderedDict":                        buildMapping,
	"collections.defaultdict":                        buildMapping,
	"collections.Counter":                            buildMapping,
	"builtins.dict":                                  buildMapping,
	"builtins.list":                                  buildSequence(value.List),
	"builtins.tuple":                                 buildSequence(value.Tuple),
	"builtins.set":                                   buildSequence(value.Set),
	"builtins.frozenset":                             buildSequence(value.FrozenSet),
	"builtins.slice":                                 buildSlice,
	"builtins.complex":                               buildComplex,
	"builtins.bytes":                                 buildBytes,
	"builtins.bytearray":                             buildBytes,
	"_codecs.encode":                                 buildBytes,
	"copyreg._reconstructor":                         buildReconstructed,
	"numpy.dtype":                                    buildArrayType,
	"numpy.core.multiarray.scalar":                   buildArrayScalar,
	"numpy.core.multiarray._reconstruct":             buildArray,
	"numpy.core.numeric._frombuffer":                 buildArrayFromBuffer,
}

// opaque builds an object that is shown with its reason.
func opaque(reason string) builder {
	return func(_ *unpickler, name string, args []any) (any, error) {
		return &object{global: name, reason: reason, args: args}, nil
	}
}

// A storage is what a persistent id stands for.
type storage struct {
	class string // torch.FloatStorage
	dtype tensor.DType
	count int64 // elements; bytes if untyped
	data  *tensor.Storage
	swap  bool  // the file is big-endian: bytes must be swapped by element
	at    int64 // offset in a legacy file
}

// bytes is the declared size.
func (s *storage) bytes() int64 {
	if s.dtype == untyped {
		return s.count
	}
	return s.count * int64(s.dtype.Size())
}

// opaque shows a storage that stands by itself: its class and its elements.
func (s *storage) opaque() value.Value {
	dt := s.dtype
	if dt == untyped {
		dt = tensor.Uint8
	}
	op := &value.Opaque{Global: s.class, Reason: "storage"}
	if t, err := tensor.NewView(s.data, tensor.View{DType: dt, Shape: []int{int(s.count)}, Stride: []int{1}}); err == nil {
		t.Device = s.data.Location
		op.Args = value.NewTuple(t)
	}
	return op
}

// A storageID is a persistent id: ('storage', class, key, location, elements)
// and, in legacy files, None or (view key, offset, elements).
type storageID struct {
	class          storageClass
	key, location  string
	count          int64
	view           string // "" if none
	viewAt, viewed int64
}

func parseID(id any) (r storageID, err error) {
	bad := malformed("unexpected persistent id")
	t, ok := id.(*types.Tuple)
	if !ok || len(*t) < 5 || len(*t) > 6 {
		return r, bad
	}
	a := *t
	if kind, ok := a[0].(string); !ok || kind != "storage" {
		return r, bad
	}
	var ok1, ok2, ok3 bool
	r.class, ok1 = a[1].(storageClass)
	r.location, ok2 = a[3].(string)
	count, ok3 := a[4].(int)
	switch key := a[2].(type) {
	case string:
		r.key = key
	case int:
		r.key = fmt.Sprint(key)
	default:
		return r, bad
	}
	if !ok1 || !ok2 || !ok3 {
		return r, bad
	}
	r.count = int64(count)
	if r.count < 0 {
		return r, malformed("storage %s: negative storage size %d", r.key, r.count)
	}
	if size := max(r.class.dtype.Size(), 1); r.count > math.MaxInt64/int64(size) {
		return r, malformed("storage %s: storage size of %d elements overflows", r.key, r.count)
	}
	if len(a) == 6 && a[5] != nil {
		v, ok := a[5].(*types.Tuple)
		if !ok || len(*v) != 3 {
			return r, bad
		}
		key, ok1 := (*v)[0].(string)
		at, ok2 := (*v)[1].(int)
		n, ok3 := (*v)[2].(int)
		if !ok1 || !ok2 || !ok3 || key == "" {
			return r, bad
		}
		r.view, r.viewAt, r.viewed = key, int64(at), int64(n)
		if r.viewAt < 0 || r.viewed < 0 || r.viewAt > r.count || r.viewed > r.count-r.viewAt {
			return r, malformed("storage %s: view of %d elements at %d lies outside its %d", r.key, n, at, r.count)
		}
	}
	return r, nil
}

// A storageTable keeps the storages of a file, so that tensors share them.
type storageTable struct {
	byKey map[string]*storage
	order []string
	views map[[2]string]*storage
	// open makes the storage of an id seen for the first time.
	open func(id storageID) (*storage, error)
}

// resolve answers a persistent id.
func (st *storageTable) resolve(raw any) (any, error) {
	id, err := parseID(raw)
	if err != nil {
		return nil, err
	}
	s, ok := st.byKey[id.key]
	switch {
	case ok && (s.dtype != id.class.dtype || s.count != id.count):
		return nil, malformed("storage %s declared with two types or sizes: %s of %d and %s of %d elements", id.key, s.class, s.count, id.class.name, id.count)
	case !ok:
		if s, err = st.open(id); err != nil {
			return nil, err
		}
		if st.byKey == nil {
			st.byKey = map[string]*storage{}
		}
		st.byKey[id.key] = s
		st.order = append(st.order, id.key)
	}
	if id.view == "" {
		return s, nil
	}
	key := [2]string{id.key, id.view}
	v, ok := st.views[key]
	if !ok {
		if st.views == nil {
			st.views = map[[2]string]*storage{}
		}
		v = s.part(id.viewAt, id.viewed)
		st.views[key] = v
	}
	return v, nil
}

// part is the storage of count elements of s from element at on.
func (s *storage) part(at, count int64) *storage {
	v := *s
	v.count = count
	size := int64(max(s.dtype.Size(), 1))
	whole := s.data
	v.data = tensor.OpenStorage(count*size, func() ([]byte, error) {
		b, err := whole.Load()
		if err != nil {
			return nil, err
		}
		return b[at*size : (at+count)*size], nil
	})
	v.data.Key, v.data.Location = whole.Key, whole.Location
	return &v
}

// malformedTensor says that the arguments of a tensor constructor are not
// what torch writes.
func malformedTensor(format string, args ...any) *FormatError {
	return malformed("malformed tensor: %s", fmt.Sprintf(format, args...))
}

// geometry is the part of a tensor that all constructors share.
func geometry(args []any, dt tensor.DType) (*tensor.Tensor, error) {
	s, ok := args[0].(*storage)
	if !ok {
		return nil, malformedTensor("the storage is %s", kindOf(args[0]))
	}
	offset, ok := args[1].(int)
	if !ok {
		return nil, malformedTensor("the storage offset is %s", kindOf(args[1]))
	}
	shape, err := dims(args[2], "size")
	if err != nil {
		return nil, err
	}
	stride, err := dims(args[3], "stride")
	if err != nil {
		return nil, err
	}
	switch {
	case dt == tensor.Invalid && s.dtype == untyped:
		return nil, malformedTensor("the storage has no element type")
	case dt == tensor.Invalid:
		dt = s.dtype
	case s.swap && dt.Size() > 1 && s.dtype != dt:
		return nil, malformed("a big-endian storage without element type cannot be read")
	}
	t, err := tensor.NewView(s.data, tensor.View{DType: dt, Shape: shape, Stride: stride, Offset: offset})
	if err != nil {
		return nil, &FormatError{Offset: -1, Msg: "storage " + s.data.Key, Err: err}
	}
	t.Device = s.data.Location
	return t, nil
}

// maxDim is the number of dimensions torch's own loops support.
//
// Source: c10/core/TensorImpl.h and ATen/native/TensorIterator, 64.
const maxDim = 64

func dims(v any, what string) ([]int, error) {
	items, ok := elements(v)
	if !ok {
		return nil, malformedTensor("the %s is %s", what, kindOf(v))
	}
	if len(items) > maxDim {
		return nil, malformedTensor("%d dimensions, the limit is %d", len(items), maxDim)
	}
	out := make([]int, len(items))
	for i, it := range items {
		n, ok := it.(int)
		if !ok {
			return nil, malformedTensor("the %s holds %s", what, kindOf(it))
		}
		out[i] = n
	}
	return out, nil
}

// elements returns the items of a tuple or list.
func elements(v any) ([]any, bool) {
	switch v := v.(type) {
	case *types.Tuple:
		return *v, true
	case *types.List:
		return *v, true
	case *sequence:
		return v.items, v.kind == value.Tuple || v.kind == value.List
	}
	return nil, false
}

func arity(args []any, lo, hi int) error {
	if len(args) < lo || len(args) > hi {
		return malformedTensor("%d arguments, want %d to %d", len(args), lo, hi)
	}
	return nil
}

// buildTensor: storage, offset, size, stride.
func buildTensor(_ *unpickler, _ string, args []any) (any, error) {
	if err := arity(args, 4, 4); err != nil {
		return nil, err
	}
	return asNode(geometry(args, tensor.Invalid))
}

// asNode avoids a nil *Tensor in a non-nil interface.
func asNode(t *tensor.Tensor, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// buildTensorV2: storage, offset, size, stride, requires_grad, hooks, and
// since torch 2 optionally a dict of flags.
func buildTensorV2(_ *unpickler, _ string, args []any) (any, error) {
	if err := arity(args, 6, 7); err != nil {
		return nil, err
	}
	t, err := geometry(args, tensor.Invalid)
	if err != nil {
		return nil, err
	}
	return finish(t, args[4], args[6:])
}

// buildTensorV3: as v2, with a dtype before the flags and an untyped storage.
func buildTensorV3(_ *unpickler, _ string, args []any) (any, error) {
	if err := arity(args, 7, 8); err != nil {
		return nil, err
	}
	dt, ok := args[6].(tensor.DType)
	if !ok {
		return nil, malformedTensor("the dtype is %s", kindOf(args[6]))
	}
	t, err := geometry(args, dt)
	if err != nil {
		return nil, err
	}
	return finish(t, args[4], args[7:])
}

// buildNPUTensor: as v2, then the number of the NPU's memory format, or a
// bool. The storage was copied to the host in the standard format.
func buildNPUTensor(_ *unpickler, _ string, args []any) (any, error) {
	if err := arity(args, 6, 7); err != nil {
		return nil, err
	}
	t, err := geometry(args, tensor.Invalid)
	if err != nil {
		return nil, err
	}
	return finish(t, args[4], nil)
}

// finish sets requires_grad and applies the flags: "conj" and "neg" say that
// the stored values are to be read conjugated or negated.
func finish(t *tensor.Tensor, requiresGrad any, flags []any) (any, error) {
	rg, ok := requiresGrad.(bool)
	if !ok {
		return nil, malformedTensor("requires_grad is %s", kindOf(requiresGrad))
	}
	t.RequiresGrad = rg
	if len(flags) == 0 || flags[0] == nil {
		return t, nil
	}
	d, ok := flags[0].(*types.Dict)
	if !ok {
		return nil, malformedTensor("the metadata is %s", kindOf(flags[0]))
	}
	var conj, neg bool
	for _, e := range *d {
		on, ok := e.Value.(bool)
		switch {
		case ok && !on:
		case ok && e.Key == "conj":
			conj = true
		case ok && e.Key == "neg":
			neg = true
		default:
			return nil, malformedTensor("unknown metadata %v", e.Key)
		}
	}
	if conj && !t.DType.IsComplex() {
		return nil, malformedTensor("conjugate of a tensor of dtype %s", t.DType)
	}
	if !conj && !neg {
		return t, nil
	}
	return flipped(t, conj, neg)
}

// flipped returns t with its values conjugated or negated. The storage is
// copied when it is first read.
func flipped(t *tensor.Tensor, conj, neg bool) (any, error) {
	from, dt := t.Storage(), t.DType
	if k := dt.Kind(); k == tensor.KindBool || k == tensor.KindOpaque {
		return nil, malformedTensor("negative of a tensor of dtype %s", dt)
	}
	s := tensor.OpenStorage(from.Len(), func() ([]byte, error) {
		b, err := from.Load()
		if err != nil {
			return nil, err
		}
		b = slices.Clone(b)
		flip(b, dt, conj, neg)
		return b, nil
	})
	s.Key, s.Location = from.Key, from.Location
	u, err := tensor.NewView(s, tensor.View{DType: dt, Shape: t.Shape, Stride: t.Stride, Offset: t.Offset})
	if err != nil {
		return nil, err
	}
	u.Device, u.RequiresGrad = t.Device, t.RequiresGrad
	return u, nil
}

// flip conjugates or negates the little-endian elements of b in place.
func flip(b []byte, dt tensor.DType, conj, neg bool) {
	size := dt.Real().Size()
	imag := false
	for p := 0; p+size <= len(b); p += size {
		e := b[p : p+size]
		if dt.IsIntegral() {
			carry := true // two's complement: invert, add one
			for i := range e {
				e[i] = ^e[i]
				if carry {
					e[i]++
					carry = e[i] == 0
				}
			}
			continue
		}
		if neg != (conj && imag) {
			e[size-1] ^= 0x80
		}
		imag = dt.IsComplex() && !imag
	}
}

// buildParameter: data, requires_grad, hooks, and in torch 2 a state.
func buildParameter(_ *unpickler, name string, args []any) (any, error) {
	if err := arity(args, 3, 4); err != nil {
		return nil, err
	}
	rg, ok := args[1].(bool)
	if !ok {
		return nil, malformedTensor("requires_grad is %s", kindOf(args[1]))
	}
	switch t := args[0].(type) {
	case *tensor.Tensor:
		p := *t
		p.Parameter, p.RequiresGrad = true, rg
		return &p, nil
	case *object:
		return t, nil
	}
	return nil, malformedTensor("the data is %s", kindOf(args[0]))
}

// buildFromType: constructor, type, its arguments, state. A tensor of a
// subclass of unknown meaning is opaque.
func buildFromType(_ *unpickler, name string, args []any) (any, error) {
	if err := arity(args, 4, 4); err != nil {
		return nil, err
	}
	build, ok1 := args[0].(*class)
	kind, ok2 := args[1].(*class)
	inner, ok3 := args[2].(*types.Tuple)
	if !ok1 || !ok2 || !ok3 {
		return nil, malformedTensor("constructor, type and arguments are %s, %s, %s", kindOf(args[0]), kindOf(args[1]), kindOf(args[2]))
	}
	if build.name == name {
		return nil, malformedTensor("the constructor is %s itself", name)
	}
	t, err := build.Call(*inner...)
	if err != nil {
		return nil, err
	}
	switch kind.name {
	case "torch.Tensor":
		return t, nil
	case "torch.nn.parameter.Parameter":
		if t, ok := t.(*tensor.Tensor); ok {
			t.Parameter = true
		}
		return t, nil
	}
	return &object{global: kind.name, reason: "tensor subclass", args: []any{t}, state: args[3]}, nil
}

// buildFromNumpy: array, dtype, device, requires_grad.
func buildFromNumpy(_ *unpickler, _ string, args []any) (any, error) {
	if err := arity(args, 4, 4); err != nil {
		return nil, err
	}
	dt, ok1 := args[1].(tensor.DType)
	device, ok2 := args[2].(string)
	if d, ok := args[2].(value.Device); ok {
		device, ok2 = deviceName(d), true
	}
	rg, ok3 := args[3].(bool)
	var t *tensor.Tensor
	switch a := args[0].(type) {
	case *tensor.Tensor:
		t = a
	case *array:
		v, err := a.value()
		if err != nil {
			return nil, err
		}
		t, _ = v.(*tensor.Tensor)
	}
	if !ok1 || !ok2 || !ok3 || t == nil {
		return nil, malformedTensor("array, dtype, device and requires_grad are %s, %s, %s, %s", kindOf(args[0]), kindOf(args[1]), kindOf(args[2]), kindOf(args[3]))
	}
	if t.DType != dt {
		return nil, malformedTensor("an array of %s for a tensor of %s", t.DType, dt)
	}
	u := *t
	u.Device, u.RequiresGrad = device, rg
	return &u, nil
}

func deviceName(d value.Device) string {
	if d.Index < 0 {
		return d.Type
	}
	return fmt.Sprintf("%s:%d", d.Type, d.Index)
}

func buildSize(_ *unpickler, _ string, args []any) (any, error) {
	var items []any
	if len(args) > 0 {
		var ok bool
		if items, ok = elements(args[0]); !ok || len(args) > 1 {
			return nil, malformed("want one tuple")
		}
	}
	for _, it := range items {
		if _, ok := it.(int); !ok {
			return nil, malformed("a size holds %s", kindOf(it))
		}
	}
	return &sequence{value.Tuple, "torch.Size", items}, nil
}

// buildDevice: type, or type and index, or "type:index".
func buildDevice(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 1 || len(args) == 2 {
		if kind, ok := args[0].(string); ok {
			if len(args) == 1 {
				return parseDevice(kind), nil
			}
			if i, ok := args[1].(int); ok && i >= -1 {
				return value.Device{Type: kind, Index: i}, nil
			}
			if args[1] == nil {
				return value.Device{Type: kind, Index: -1}, nil
			}
		}
	}
	return nil, malformed("want a device type and an index")
}

func parseDevice(s string) value.Device {
	for i := range s {
		if s[i] != ':' {
			continue
		}
		n := 0
		if _, err := fmt.Sscanf(s[i+1:], "%d", &n); err == nil && fmt.Sprint(n) == s[i+1:] && n >= 0 {
			return value.Device{Type: s[:i], Index: n}
		}
	}
	return value.Device{Type: s, Index: -1}
}

func buildLayout(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 1 {
		if s, ok := args[0].(string); ok {
			return value.Layout(s), nil
		}
	}
	return nil, malformed("want the name of a layout")
}

// buildReturnType: a named result is made of the tuple of its values and a
// dict of the values that have no position.
func buildReturnType(_ *unpickler, name string, args []any) (any, error) {
	if len(args) == 1 || len(args) == 2 {
		if items, ok := elements(args[0]); ok {
			return &sequence{value.Tuple, name, items}, nil
		}
	}
	return nil, malformed("want a tuple of values")
}

// buildMapping: nothing, a dict, or a list of pairs; defaultdict's factory is
// not kept.
func buildMapping(_ *unpickler, name string, args []any) (any, error) {
	m := &mapping{class: name}
	if name == "builtins.dict" || name == "__builtin__.dict" {
		m.class = ""
	}
	if name == "collections.defaultdict" && len(args) > 0 {
		args = args[1:]
	}
	if len(args) == 0 {
		return m, nil
	}
	if d, ok := args[0].(*types.Dict); ok && len(args) == 1 {
		for _, e := range *d {
			m.Set(e.Key, e.Value)
		}
		return m, nil
	}
	items, ok := elements(args[0])
	if !ok || len(args) > 1 {
		return nil, malformed("want a dict or a list of pairs")
	}
	for _, it := range items {
		pair, ok := elements(it)
		if !ok || len(pair) != 2 {
			return nil, malformed("want a list of pairs")
		}
		m.Set(pair[0], pair[1])
	}
	return m, nil
}

func buildSequence(kind value.SequenceKind) builder {
	return func(_ *unpickler, _ string, args []any) (any, error) {
		s := &sequence{kind: kind}
		if len(args) == 0 {
			return s, nil
		}
		items, ok := elements(args[0])
		if !ok || len(args) > 1 {
			return nil, malformed("want one list or tuple")
		}
		s.items = slices.Clone(items)
		return s, nil
	}
}

func buildSlice(_ *unpickler, _ string, args []any) (any, error) {
	switch len(args) {
	case 1:
		return &slice{[3]any{nil, args[0], nil}}, nil
	case 2:
		return &slice{[3]any{args[0], args[1], nil}}, nil
	case 3:
		return &slice{[3]any(args)}, nil
	}
	return nil, malformed("%d arguments, want 1 to 3", len(args))
}

func buildComplex(_ *unpickler, _ string, args []any) (any, error) {
	var parts [2]float64
	if len(args) > 2 {
		return nil, malformed("%d arguments, want at most 2", len(args))
	}
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			parts[i] = a
		case int:
			parts[i] = float64(a)
		default:
			return nil, malformed("a part is %s", kindOf(a))
		}
	}
	return complex(parts[0], parts[1]), nil
}

// buildBytes: nothing, bytes, or a string whose characters stand for bytes
// (protocols before 3 have no bytes; "latin1" or "latin-1").
func buildBytes(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 0 {
		return value.Bytes{}, nil
	}
	if len(args) == 2 {
		if enc, ok := args[1].(string); !ok || enc != "latin1" && enc != "latin-1" {
			return nil, malformed("encoding %v, want latin1", args[1])
		}
	}
	if len(args) <= 2 {
		if b, ok := bytesOf(args[0]); ok {
			return value.Bytes(b), nil
		}
		if s, ok := args[0].(string); ok && len(args) == 2 {
			b := make([]byte, 0, utf8.RuneCountInString(s))
			for _, r := range s {
				if r > 0xff {
					return nil, malformed("character %U is not a byte", r)
				}
				b = append(b, byte(r))
			}
			return value.Bytes(b), nil
		}
	}
	return nil, malformed("want bytes or a string with its encoding")
}

// bytesOf returns the content of any of the types that stand for bytes.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case value.Bytes:
		return v, true
	case *types.ByteArray:
		return *v, true
	}
	return nil, false
}

// buildReconstructed: class, base, state of the base. The object is opaque.
func buildReconstructed(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) > 0 {
		if c, ok := args[0].(*class); ok {
			return &object{global: c.name, args: args[min(len(args), 2):]}, nil
		}
	}
	return nil, malformed("want a class")
}

// kindOf names the type of what the machine made, for messages.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int, *big.Int:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []byte, value.Bytes, *types.ByteArray:
		return "bytes"
	case *types.Tuple:
		return "a tuple"
	case *types.List:
		return "a list"
	case *types.Dict, *types.OrderedDict, *mapping:
		return "a dict"
	case *tensor.Tensor:
		return "a tensor"
	case *class:
		return "the class " + v.name
	case *object:
		return "a " + v.global
	}
	return fmt.Sprintf("a %T", v)
}
