package pthformat

import (
	"fmt"
	"slices"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// builders makes the values of the classes in the closed list. A name is
// listed as canonical gives it. Each builder checks the number and the types
// of its arguments: they come from the file.
//
// Source: torch/_utils.py, torch/_tensor.py, torch/serialization.py (1.13 and
// 2.5), numpy/core/src/multiarray, torch_npu/utils/storage.py.
var builders = map[string]builder{
	"torch._utils._rebuild_tensor":                      buildTensor,
	"torch._utils._rebuild_tensor_v2":                   buildTensorV2,
	"torch._utils._rebuild_tensor_v3":                   buildTensorV3,
	"torch._utils._rebuild_parameter":                   buildParameter,
	"torch._utils._rebuild_parameter_with_state":        buildParameter,
	"torch.tensor._rebuild_from_type":                   buildFromType, // torch 1.7
	"torch._tensor._rebuild_from_type":                  buildFromType,
	"torch._tensor._rebuild_from_type_v2":               buildFromType,
	"torch._utils._rebuild_device_tensor_from_numpy":    buildFromNumpy,
	"torch._utils._rebuild_xla_tensor":                  buildFromNumpy,
	"torch_npu.utils.storage._rebuild_npu_tensor":       buildNPUTensor,
	"torch._utils._rebuild_sparse_tensor":               buildSparse,
	"torch._utils._rebuild_sparse_csr_tensor":           buildSparse, // torch 1.8 and 1.9
	"torch._utils._rebuild_qtensor":                     buildQuantized,
	"torch._utils._rebuild_meta_tensor_no_storage":      buildMeta,
	"torch._utils._rebuild_nested_tensor":               buildNested,
	"torch.nested._internal.nested_tensor._rebuild_njt": buildJagged,
	"torch._utils._rebuild_wrapper_subclass":            buildWrapper,
	"torch.Size":                                        buildSize,
	"torch.device":                                      buildDevice,
	"torch.serialization._get_layout":                   buildLayout,
	"collections.OrderedDict":                           buildMapping,
	"collections.defaultdict":                           buildMapping,
	"collections.Counter":                               buildMapping,
	"builtins.dict":                                     buildMapping,
	"builtins.list":                                     buildSequence(value.List),
	"builtins.tuple":                                    buildSequence(value.Tuple),
	"builtins.set":                                      buildSequence(value.Set),
	"builtins.frozenset":                                buildSequence(value.FrozenSet),
	"builtins.slice":                                    buildSlice,
	"builtins.complex":                                  buildComplex,
	"builtins.bytes":                                    buildBytes,
	"builtins.bytearray":                                buildBytes,
	"_codecs.encode":                                    buildBytes,
	"builtins.getattr":                                  buildGetattr,
	"copyreg._reconstructor":                            buildReconstructed,
	"numpy.dtype":                                       buildArrayType,
	"numpy.core.multiarray.scalar":                      buildArrayScalar,
	"numpy.core.multiarray._reconstruct":                buildArray,
	"numpy.ma.core._mareconstruct":                      buildMasked,
	"numpy.core.numeric._frombuffer":                    buildArrayFromBuffer,
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
func buildTensorV3(_ *unpickler, name string, args []any) (any, error) {
	if err := arity(args, 7, 8); err != nil {
		return nil, err
	}
	var dt tensor.DType
	switch d := args[6].(type) {
	case tensor.DType:
		dt = d
	case *class: // a dtype that came after this package
		return uninterpreted(name, d, args)
	default:
		return nil, malformedTensor("the dtype is %s", kindOf(d))
	}
	t, err := geometry(args, dt)
	if err != nil {
		return nil, err
	}
	return finish(t, args[4], args[7:])
}

// uninterpreted is a tensor of an unknown dtype: the bytes of its storage, and where in them
// it lies.
func uninterpreted(name string, dtype *class, args []any) (any, error) {
	s, ok := args[0].(*storage)
	if !ok {
		return nil, malformedTensor("the storage is %s", kindOf(args[0]))
	}
	o := &object{global: name, reason: "tensor of dtype " + dtype.name}
	n := int(s.bytes())
	b, err := tensor.NewView(s.data, tensor.View{DType: tensor.Bits8, Shape: []int{n}, Stride: []int{1}})
	if err != nil {
		return nil, err
	}
	for i, what := range []any{dtype, args[2], args[3], args[1], b} {
		o.part([]string{"dtype", "shape", "stride", "storage_offset", "bytes"}[i], what)
	}
	return o, nil
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
		if len(args) == 4 {
			p.Attrs = args[3]
		}
		return &p, nil
	case *object:
		if len(args) == 4 && args[3] != nil {
			return &object{global: "torch.nn.parameter.Parameter", reason: t.reason, base: t, state: args[3]}, nil
		}
		return t, nil
	}
	return nil, malformedTensor("the data is %s", kindOf(args[0]))
}

// buildFromType: constructor, type, its arguments, state. A tensor of a
// subclass of unknown meaning is an object.
func buildFromType(_ *unpickler, name string, args []any) (any, error) {
	if err := arity(args, 4, 4); err != nil {
		return nil, err
	}
	build, ok1 := args[0].(*class)
	kind, ok2 := args[1].(*class)
	inner, ok3 := args[2].(*types.Tuple)
	if !ok1 || !ok2 || !ok3 {
		return nil, malformedTensor("constructor, type and arguments are %s, %s, %s", kindOf(args[0]), kindOf(args[1]),
			kindOf(args[2]))
	}
	if build.name == name {
		return nil, malformedTensor("the constructor is %s itself", name)
	}
	t, err := build.Call(*inner...)
	if err != nil {
		return nil, err
	}
	x, isTensor := t.(*tensor.Tensor)
	switch kind.name {
	case "torch.Tensor", "torch.nn.parameter.Parameter":
		if isTensor {
			x.Attrs = args[3]
			x.Parameter = x.Parameter || kind.name != "torch.Tensor"
			return x, nil
		}
		if o, ok := t.(*object); ok {
			return &object{global: o.global, reason: o.reason, base: o, state: args[3]}, nil
		}
	}
	o := &object{global: kind.name, reason: "tensor subclass", state: args[3]}
	if isTensor {
		o.part("(0)", x)
	} else {
		o.base = t
	}
	return o, nil
}

// buildSparse: layout, then a tuple of the parts. Coordinates are indices, values, size and,
// in torch 2, whether each place occurs once; compressed layouts are the compressed and the
// plain indices, values and size.
func buildSparse(_ *unpickler, name string, args []any) (any, error) {
	if len(args) == 2 {
		if parts, ok := elements(args[1]); ok {
			layout, _ := args[0].(value.Layout)
			var names []string
			switch layout {
			case "torch.sparse_coo":
				names = []string{"indices", "values", "shape", "is_coalesced"}
			case "torch.sparse_csr", "torch.sparse_bsr":
				names = []string{"crow_indices", "col_indices", "values", "shape"}
			case "torch.sparse_csc", "torch.sparse_bsc":
				names = []string{"ccol_indices", "row_indices", "values", "shape"}
			}
			o := &object{global: name, reason: "sparse tensor"}
			o.part("layout", args[0])
			for i, x := range parts {
				if i < len(names) {
					o.part(names[i], x)
				} else {
					o.part(fmt.Sprintf("(%d)", i), x)
				}
			}
			return o, nil
		}
	}
	return &object{global: name, reason: "sparse tensor", args: args}, nil
}

// buildQuantized: storage, offset, size, stride, parameters of the quantizer, requires_grad,
// hooks. The parameters are the scheme, scale and zero point, or the scheme, a tensor of each
// and the axis.
func buildQuantized(_ *unpickler, name string, args []any) (any, error) {
	if err := arity(args, 7, 7); err != nil {
		return nil, err
	}
	s, ok := args[0].(*storage)
	if !ok {
		return nil, malformedTensor("the storage is %s", kindOf(args[0]))
	}
	o := &object{global: name, reason: "quantized tensor"}
	o.part("dtype", s.dtype)
	switch s.dtype {
	case tensor.QInt8, tensor.QUint8, tensor.QInt32:
		t, err := geometry(args, map[tensor.DType]tensor.DType{tensor.QInt8: tensor.Int8, tensor.QUint8: tensor.Uint8,
			tensor.QInt32: tensor.Int32}[s.dtype])
		if err != nil {
			return nil, err
		}
		o.part("int_repr", t)
	case tensor.QUint4x2, tensor.QUint2x4: // several elements in a byte
		t, err := tensor.NewView(s.data, tensor.View{DType: tensor.Uint8, Shape: []int{int(s.bytes())},
			Stride: []int{1}})
		if err != nil {
			return nil, err
		}
		o.part("shape", args[2])
		o.part("int_repr", t)
	default:
		return nil, malformedTensor("a quantized tensor over a %s", s.class)
	}
	params, ok := elements(args[4])
	if !ok || len(params) > 4 {
		o.part("quantizer", args[4])
		return o, nil
	}
	for i, x := range params {
		o.part([]string{"qscheme", "scale", "zero_point", "axis"}[i], x)
	}
	return o, nil
}

// buildNested: buffer, sizes, strides, offsets.
func buildNested(_ *unpickler, name string, args []any) (any, error) {
	if len(args) != 4 {
		return &object{global: name, reason: "nested tensor", args: args}, nil
	}
	return &object{global: name, reason: "nested tensor", args: args,
		named: []string{"values", "sizes", "strides", "offsets"}}, nil
}

// buildJagged: a dict of values, offsets, lengths and what goes with them.
func buildJagged(_ *unpickler, name string, args []any) (any, error) {
	o := &object{global: name, reason: "nested tensor"}
	d, ok := (*types.Dict)(nil), len(args) == 1
	if ok {
		d, ok = args[0].(*types.Dict)
	}
	if !ok {
		o.args = args
		return o, nil
	}
	for _, e := range *d {
		if key, ok := e.Key.(string); ok {
			o.part(key, e.Value)
		} else {
			o.part("["+kindOf(e.Key)+"]", e.Value)
		}
	}
	return o, nil
}

// buildMeta: dtype, size, stride, requires_grad. A tensor of the meta device has no values.
func buildMeta(_ *unpickler, name string, args []any) (any, error) {
	o := &object{global: name, reason: "meta tensor: it has no values", lacking: true, args: args}
	if len(args) >= 2 {
		o.args, o.named = args[:2], []string{"dtype", "shape"}
	}
	return o, nil
}

// buildWrapper: type, dtype, size, stride, offset, layout, device, requires_grad. What the tensor
// holds is in the state of the subclass.
func buildWrapper(_ *unpickler, name string, args []any) (any, error) {
	o := &object{global: name, reason: "tensor subclass"}
	if len(args) < 6 {
		o.args = args
		return o, nil
	}
	o.part("dtype", args[1])
	o.part("shape", args[2])
	o.part("layout", args[5])
	return o, nil
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
		return nil, malformedTensor("array, dtype, device and requires_grad are %s, %s, %s, %s", kindOf(args[0]),
			kindOf(args[1]), kindOf(args[2]), kindOf(args[3]))
	}
	if t.DType != dt {
		return nil, malformedTensor("an array of %s for a tensor of %s", t.DType, dt)
	}
	u := *t
	u.Device, u.RequiresGrad = device, rg
	return &u, nil
}
