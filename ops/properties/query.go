package properties

import (
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// queryOps return something else than tensors.
var queryOps = []*opdef.Entry{
	query("item", "Tensor.item torch.ops.aten._local_scalar_dense", "The single element as a Python number", item),
	query("tolist", "Tensor.tolist", "The elements as nested lists", toList),
	query("is_complex", "is_complex Tensor.is_complex", "Whether the dtype is complex",
		func(t *tensor.Tensor) (value.Value, error) { return t.DType.IsComplex(), nil }),
	query("is_floating_point", "is_floating_point Tensor.is_floating_point", "Whether the dtype is floating",
		func(t *tensor.Tensor) (value.Value, error) { return t.DType.IsFloat(), nil }),
	query("is_signed", "is_signed Tensor.is_signed", "Whether the dtype holds negative numbers",
		func(t *tensor.Tensor) (value.Value, error) { return !t.DType.IsUnsigned(), nil }),
	query("is_nonzero", "is_nonzero Tensor.is_nonzero Tensor.__bool__ Tensor.__nonzero__",
		"Whether the single element is not zero", func(t *tensor.Tensor) (value.Value, error) {
			s, err := onlyElement(t)
			return s.Complex128() != 0, err
		}),
	query("is_contiguous", "Tensor.is_contiguous", "Whether the elements are adjacent in row-major order",
		func(t *tensor.Tensor) (value.Value, error) { return t.IsContiguous(), nil }),
	query("__complex__", "Tensor.__complex__", "The single element as a complex number",
		func(t *tensor.Tensor) (value.Value, error) {
			s, err := onlyElement(t)
			return s.Complex128(), err
		}),
	opdef.Query[containsArgs]{
		Schema: "__contains__(Tensor self, Tensor|Scalar element) -> any", Names: "Tensor.__contains__",
		Doc: opdef.Doc{Summary: "Whether any element equals another", Formula: "any(self == element)",
			Notes: "Both are broadcast."},
		Value: func(a *containsArgs) (value.Value, error) {
			f, err := elements.MustFind(pointwise.Table(), "eq").NewCall(&opdef.BinaryArgs{Self: a.Self,
				Other: a.Element}).Forward()
			if err != nil {
				return nil, err
			}
			return slices.Contains(tensor.Data[int64](f.Outs[0]), 1), nil
		},
	}.Entry(),
	opdef.Query[shallowCopyArgs]{
		Schema: "_has_compatible_shallow_copy_type(Tensor input, Tensor from) -> any",
		Names:  "_has_compatible_shallow_copy_type",
		Doc: opdef.Doc{Summary: "Whether a tensor can take over another's data, which modules ask when they are " +
			"converted", Notes: "True for all dense tensors."},
		Value: func(*shallowCopyArgs) (value.Value, error) { return true, nil },
	}.Entry(),
	query("numel", "numel Tensor.numel Tensor.nelement", "Number of elements", func(t *tensor.Tensor) (value.Value,
		error) {
		return int64(t.Numel()), nil
	}),
	query("dim", "Tensor.dim Tensor.ndimension", "Number of dimensions", func(t *tensor.Tensor) (value.Value,
		error) {
		return int64(t.Dim()), nil
	}),
	query("element_size", "Tensor.element_size", "Bytes of one element", func(t *tensor.Tensor) (value.Value,
		error) {
		return int64(t.DType.Size()), nil
	}),
	query("storage_offset", "Tensor.storage_offset", "Position of the first element in the storage",
		func(t *tensor.Tensor) (value.Value, error) { return int64(t.Offset), nil }),
	query("get_device", "get_device Tensor.get_device", "Number of the device, -1 in host memory",
		func(t *tensor.Tensor) (value.Value, error) {
			_, index, ok := strings.Cut(t.Device, ":")
			if !ok {
				return int64(-1), nil
			}
			n, err := strconv.ParseInt(index, 10, 64)
			if err != nil {
				return nil, opdef.Refuse("self", "device %q has no number", t.Device)
			}
			return n, nil
		}),
	query("__len__", "Tensor.__len__", "Size of the first dimension", func(t *tensor.Tensor) (value.Value, error) {
		if t.Dim() == 0 {
			return nil, opdef.Refuse("self", "a 0-d tensor has no length")
		}
		return int64(t.Shape[0]), nil
	}),
	query("__float__", "Tensor.__float__", "The single element as a float",
		func(t *tensor.Tensor) (value.Value, error) {
			s, err := onlyElement(t)
			return s.Float64(), err
		}),
	query("__int__", "Tensor.__int__ Tensor.__long__ Tensor.__index__", "The single element as an int",
		func(t *tensor.Tensor) (value.Value, error) {
			s, err := onlyElement(t)
			return s.Int64(), err
		}),
	opdef.Query[sizeOfArgs]{
		Schema: "size(Tensor self, int? dim=None) -> any", Names: "Tensor.size",
		Doc: opdef.Doc{Summary: "The shape, or the size of one dimension"},
		Value: func(a *sizeOfArgs) (value.Value, error) {
			v, err := sizes(a.Self.Shape, a.Dim)
			if s, ok := v.(*value.Sequence); ok {
				s.Class = "torch.Size"
			}
			return v, err
		},
	}.Entry(),
	opdef.Query[sizeOfArgs]{
		Schema: "stride(Tensor self, int? dim=None) -> any", Names: "Tensor.stride",
		Doc:   opdef.Doc{Summary: "The strides in elements, or that of one dimension"},
		Value: func(a *sizeOfArgs) (value.Value, error) { return sizes(a.Self.Stride, a.Dim) },
	}.Entry(),
	opdef.Query[resultTypeArgs]{
		Schema: "result_type(Tensor|Scalar tensor1, Tensor|Scalar tensor2) -> any", Names: "result_type",
		Doc: opdef.Doc{Summary: "The dtype of an arithmetic operation on both"},
		Value: func(a *resultTypeArgs) (value.Value, error) {
			dt := tensor.ResultType(a.Tensor1, a.Tensor2)
			if dt == tensor.Invalid {
				return nil, opdef.Refuse("tensor2", "%s and %s have no common dtype", a.Tensor1.DType, a.Tensor2.DType)
			}
			return dt, nil
		},
	}.Entry(),
	opdef.Query[promoteArgs]{
		Schema: "promote_types(dtype type1, dtype type2) -> any", Names: "promote_types",
		Doc: opdef.Doc{Summary: "The smallest dtype both convert to"},
		Value: func(a *promoteArgs) (value.Value, error) {
			dt := tensor.Promote(a.Type1, a.Type2)
			if dt == tensor.Invalid {
				return nil, opdef.Refuse("type2", "%s and %s have no common dtype", a.Type1, a.Type2)
			}
			return dt, nil
		},
	}.Entry(),
	opdef.Query[canCastArgs]{
		Schema: "can_cast(dtype from, dtype to) -> any", Names: "can_cast",
		Doc:   opdef.Doc{Summary: "Whether a result may be written to a tensor of another dtype"},
		Value: func(a *canCastArgs) (value.Value, error) { return tensor.CanCast(a.From, a.To), nil },
	}.Entry(),
	opdef.Query[opdef.BinaryArgs]{
		Schema: "is_same_size(Tensor self, Tensor other) -> any", Names: "is_same_size Tensor.is_same_size",
		Doc:   opdef.Doc{Summary: "Whether two tensors have the same shape", Source: "torch.Tensor.is_same_size"},
		Value: func(a *opdef.BinaryArgs) (value.Value, error) { return slices.Equal(a.Self.Shape, a.Other.Shape), nil },
	}.Entry(),
	opdef.Query[isTensorArgs]{
		Schema: "is_tensor(any obj) -> any", Names: "is_tensor",
		Doc: opdef.Doc{Summary: "Whether the object is a tensor"},
		Value: func(a *isTensorArgs) (value.Value, error) {
			_, ok := a.Obj.(*tensor.Tensor)
			return ok, nil
		},
	}.Entry(),
	opdef.Query[typeNameArgs]{
		Schema: "type.name(Tensor self) -> any", Names: "Tensor.type",
		Doc: opdef.Doc{Summary: "Name of the tensor class"},
		Value: func(a *typeNameArgs) (value.Value, error) {
			device, _, _ := strings.Cut(a.Self.Device, ":")
			if device == "" || device == "cpu" {
				device = "torch"
			} else {
				device = "torch." + device
			}
			for class, dt := range creation.TensorClasses {
				if dt == a.Self.DType {
					return device + "." + class + "Tensor", nil
				}
			}
			return nil, opdef.Refuse("self", "dtype %s has no tensor class", a.Self.DType)
		},
	}.Entry(),
	silent("synchronize",
		"torch.cuda.synchronize torch.npu.synchronize torch.mlu.synchronize torch.xpu.synchronize "+
			"torch.musa.synchronize "+
			"torch.gcu.synchronize",
		"(ignored device=None) -> any", "Waits for the device"),
	opdef.Query[backwardArgs]{
		Schema: "backward(Tensor self, ignored gradient=None, ignored retain_graph=None, ignored " +
			"create_graph=False, ignored inputs=None) -> any", Names: "Tensor.backward",
		Doc: opdef.Doc{Summary: "Runs the recorded graph backwards",
			Notes: "Returns None; the gradients are those of the graph's other calls."},
		Value: func(*backwardArgs) (value.Value, error) { return nil, nil },
	}.Entry(),
}

type sizeOfArgs struct {
	Self *tensor.Tensor
	Dim  *int
}

type containsArgs struct{ Self, Element *tensor.Tensor }

type shallowCopyArgs struct{ Input, From *tensor.Tensor }

type resultTypeArgs struct{ Tensor1, Tensor2 *tensor.Tensor }

type promoteArgs struct{ Type1, Type2 tensor.DType }

type canCastArgs struct{ From, To tensor.DType }

type isTensorArgs struct{ Obj value.Value }

type typeNameArgs struct{ Self *tensor.Tensor }

type backwardArgs struct{ Self *tensor.Tensor }

// query declares a property of one tensor.
func query(name, names, summary string, f func(*tensor.Tensor) (value.Value, error)) *opdef.Entry {
	return opdef.Query[opdef.UnaryArgs]{
		Schema: name + "(Tensor self) -> any", Names: names,
		Doc:   opdef.Doc{Summary: summary, Source: "torch.Tensor." + name},
		Value: func(a *opdef.UnaryArgs) (value.Value, error) { return f(a.Self) },
	}.Entry()
}

// silent declares a function without tensors that returns None.
func silent(name, names, params, summary string) *opdef.Entry {
	return opdef.Query[struct{}]{
		Schema: name + params, Names: names,
		Doc:   opdef.Doc{Summary: summary, Notes: "Returns None."},
		Value: func(*struct{}) (value.Value, error) { return nil, nil },
	}.Entry()
}

// onlyElement is the element of a one-element tensor.
func onlyElement(t *tensor.Tensor) (opdef.Scalar, error) {
	if n := t.Numel(); n != 1 {
		return opdef.Scalar{}, opdef.Refuse("self", "want a single element, got %d", n)
	}
	return opdef.ScalarAt(t, 0), nil
}

func item(t *tensor.Tensor) (value.Value, error) {
	s, err := onlyElement(t)
	if err != nil {
		return nil, err
	}
	return s.Python(), nil
}

func toList(t *tensor.Tensor) (value.Value, error) {
	if t.Dim() == 0 {
		return item(t)
	}
	list := value.NewList()
	for i := range t.Shape[0] {
		v, err := toList(t.Select(0, i))
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	return list, nil
}

// sizes is a tuple of all numbers, or the one of a dimension.
func sizes(ns []int, dim *int) (value.Value, error) {
	if dim != nil {
		if len(ns) == 0 {
			return nil, opdef.Refuse("dim", "a 0-d tensor has no dimension %d", *dim)
		}
		d, err := opdef.Dim("dim", *dim, len(ns))
		if err != nil {
			return nil, err
		}
		return int64(ns[d]), nil
	}
	t := value.NewTuple()
	for _, n := range ns {
		t.Items = append(t.Items, int64(n))
	}
	return t, nil
}

var shapeQueryOps = []*opdef.Entry{
	opdef.Query[shapesArgs]{
		Schema: "broadcast_shapes(any[]... shapes) -> any", Names: "broadcast_shapes functional.broadcast_shapes",
		Doc: opdef.Doc{Summary: "The shape that tensors of the given shapes are broadcast to"},
		Value: func(a *shapesArgs) (value.Value, error) {
			seq, _ := a.Shapes.(*value.Sequence)
			var shapes [][]int
			for _, it := range seq.Items {
				s, err := elements.IntList("shapes", it)
				if err != nil {
					return nil, err
				}
				shapes = append(shapes, s)
			}
			shape, err := tensor.Broadcast(shapes...)
			if err != nil {
				return nil, opdef.Refuse("shapes", "%v", err)
			}
			size := value.NewTuple()
			for _, n := range shape {
				size.Items = append(size.Items, int64(n))
			}
			size.Class = "torch.Size"
			return size, nil
		},
	}.Entry(),
}

type shapesArgs struct{ Shapes value.Value }
