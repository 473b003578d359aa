package creation

import (
	"math"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// convertOps change dtype, device or layout, not values.
var convertOps = []*opdef.Entry{
	opdef.Op[toDTypeArgs]{
		Schema: "to.dtype(Tensor self, dtype dtype, bool non_blocking=False, bool copy=False, *, MemoryFormat? " +
			"memory_format=None) -> Tensor",
		Names: "Tensor.to",
		Doc: opdef.Doc{Summary: "The tensor in another dtype", Formula: "self",
			Notes: "Floats to integers are truncated."},
		Error:  elements.ExactError,
		Kernel: func(a *toDTypeArgs) ([]*tensor.Tensor, error) { return elements.Result(opdef.Cast(a.Self, a.Dtype)) },
		Grad:   func(a *toDTypeArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node:   func(a *toDTypeArgs, _ *opdef.Grad) (opdef.Node, error) { return unchanged(a.Self, a.Dtype, a.Copy) },
		Cases: opdef.Calls[toDTypeArgs](`
			f64[3, 4], f64; f64[3, 4], f16; f64[3, 4], bf16; f32[5], f64; f32[5], f16; f32[5], bf16
			for T in f64 f16 bf16: bf16[2, 3], T
			f32[], f64; f32[], f16; f32[], bf16; f32[0, 3], f64; f32[0, 3], f16; f32[0, 3], bf16
			f64[3, 4]{gaps}, f64; f64[3, 4]{gaps}, f16; f64[3, 4]{gaps}, bf16
			for T in f64 f16 bf16: i32[6]{-4..4}, T
			for T in f64 f16 bf16: bool[4]{0..1}, T`),
		Exempt: FixedDType,
	}.Entry(),
	opdef.Op[toOtherArgs]{
		Schema: "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, *, MemoryFormat? " +
			"memory_format=None) -> Tensor",
		Names: "Tensor.to",
		Doc:   opdef.Doc{Summary: "The tensor in the dtype of another one", Formula: "self"},
		Error: elements.ExactError,
		Kernel: func(a *toOtherArgs) ([]*tensor.Tensor, error) {
			return elements.Result(opdef.Cast(a.Self, a.Other.DType))
		},
		Grad: func(a *toOtherArgs, g *opdef.Grad) (opdef.Grads, error) { return passOnBut(g, "other") },
		Node: func(a *toOtherArgs, _ *opdef.Grad) (opdef.Node, error) {
			return unchanged(a.Self, a.Other.DType, a.Copy)
		},
		Cases: opdef.Calls[toOtherArgs](`
			f64[3, 4], f64[]{= 0}; f32[5], f64[]{= 0}; bf16[2, 3], f64[]{= 0}; f32[], f64[]{= 0}
			f32[0, 3], f64[]{= 0}; f64[3, 4]{gaps}, f64[]{= 0}; i32[6]{-4..4}, f64[]{= 0}
			bool[4]{0..1}, f64[]{= 0}`),
	}.Entry(),
	opdef.Op[toDeviceArgs]{
		Schema: "to.device(Tensor self, any device=None, dtype? dtype=None, bool non_blocking=False, bool " +
			"copy=False, *, MemoryFormat? memory_format=None) -> Tensor",
		Names: "Tensor.to",
		Doc:   opdef.Doc{Summary: "The tensor on another device", Formula: "self"},
		Error: elements.ExactError,
		Kernel: func(a *toDeviceArgs) ([]*tensor.Tensor, error) {
			switch a.Device.(type) {
			case nil, string, int64, value.Device:
				return elements.Result(opdef.Cast(a.Self, elements.OrElse(a.Dtype, a.Self.DType)))
			}
			return nil, opdef.Refuse("device", "want a device, got %s", opdef.TypeName(a.Device))
		},
		Grad: func(a *toDeviceArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node: func(a *toDeviceArgs, _ *opdef.Grad) (opdef.Node, error) {
			return unchanged(a.Self, elements.OrElse(a.Dtype, a.Self.DType), a.Copy)
		},
		Cases: func(g opdef.Gen) []*toDeviceArgs {
			var cs []*toDeviceArgs
			for _, x := range conversionCases(g) {
				cs = append(cs, &toDeviceArgs{Self: x, Device: value.Device{Type: "npu", Index: 0}})
			}
			return cs
		},
	}.Entry(),
	opdef.Op[toCopyArgs]{
		Schema: "_to_copy(Tensor self, *, dtype? dtype=None, Layout? layout=None, Device? device=None, ignored " +
			"pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
		Names: "torch.ops.aten._to_copy",
		Doc:   opdef.Doc{Summary: "A copy of the tensor in another dtype", Formula: "self", Source: "torch.Tensor.to"},
		Error: elements.ExactError,
		Kernel: func(a *toCopyArgs) ([]*tensor.Tensor, error) {
			return elements.Result(opdef.Cast(a.Self, elements.OrElse(a.Dtype, a.Self.DType)))
		},
		Grad: func(a *toCopyArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Cases: opdef.Calls[toCopyArgs](`
			f64[3, 4], dtype=f64; f64[3, 4], dtype=bf16; f32[5], dtype=f64; f32[5], dtype=bf16
			bf16[2, 3], dtype=f64; bf16[2, 3], dtype=bf16; f32[], dtype=f64; f32[], dtype=bf16
			f32[0, 3], dtype=f64; f32[0, 3], dtype=bf16; f64[3, 4]{gaps}, dtype=f64; f64[3, 4]{gaps}, dtype=bf16
			i32[6]{-4..4}, dtype=f64; i32[6]{-4..4}, dtype=bf16; bool[4]{0..1}, dtype=f64
			bool[4]{0..1}, dtype=bf16`),
		Exempt: FixedDType,
	}.Entry(),
	cast("float", tensor.Float32).WithUncast("float"), cast("double", tensor.Float64).WithUncast("double"),
	cast("half", tensor.Float16).WithUncast("half"),
	cast("bfloat16", tensor.BFloat16).WithUncast("bfloat16"),
	cast("int", tensor.Int32).WithUncast("int"), cast("long", tensor.Int64).WithUncast("long"),
	cast("short", tensor.Int16).WithUncast("short"), cast("char", tensor.Int8),
	cast("byte", tensor.Uint8),
	cast("bool", tensor.Bool).WithUncast("bool"), cast("cfloat", tensor.Complex64), cast("cdouble", tensor.Complex128),
	cast("chalf", tensor.Complex32),
	opdef.Op[toOtherOnlyArgs]{
		Schema: "type_as(Tensor self, Tensor other) -> Tensor", Names: "Tensor.type_as",
		Doc:   opdef.Doc{Summary: "The tensor in the dtype of another one", Formula: "self"},
		Error: elements.ExactError,
		Kernel: func(a *toOtherOnlyArgs) ([]*tensor.Tensor, error) {
			return elements.Result(opdef.Cast(a.Self, a.Other.DType))
		},
		Grad: func(a *toOtherOnlyArgs, g *opdef.Grad) (opdef.Grads, error) { return passOnBut(g, "other") },
		Node: func(a *toOtherOnlyArgs, _ *opdef.Grad) (opdef.Node, error) {
			return unchanged(a.Self, a.Other.DType, false)
		},
		Cases: opdef.Calls[toOtherOnlyArgs](`
			f64[3, 4], f64[]{= 0}; f32[5], f64[]{= 0}; bf16[2, 3], f64[]{= 0}; f32[], f64[]{= 0}
			f32[0, 3], f64[]{= 0}; f64[3, 4]{gaps}, f64[]{= 0}; i32[6]{-4..4}, f64[]{= 0}
			bool[4]{0..1}, f64[]{= 0}`),
	}.Entry(),
	opdef.Op[typeArgs]{
		Schema: "type(Tensor self, any dtype, bool non_blocking=False) -> Tensor", Names: "Tensor.type",
		Doc: opdef.Doc{Summary: "The tensor in another dtype, given as dtype or by the name of its tensor class",
			Formula: "self"},
		Error: elements.ExactError,
		Kernel: func(a *typeArgs) ([]*tensor.Tensor, error) {
			dt, err := dtypeOf(a.Dtype)
			if err != nil {
				return nil, err
			}
			return elements.Result(opdef.Cast(a.Self, dt))
		},
		Grad: func(a *typeArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node: func(a *typeArgs, _ *opdef.Grad) (opdef.Node, error) {
			dt, err := dtypeOf(a.Dtype)
			if err != nil {
				return opdef.Node{}, err
			}
			return unchanged(a.Self, dt, false)
		},
		Cases:  opdef.Calls[typeArgs](`f64[3], 'torch.DoubleTensor'; f32[2, 2], f64`),
		Exempt: FixedDType,
	}.Entry(),
	onto("cpu", "Tensor.cpu", "(Tensor self, MemoryFormat? memory_format=None) -> Tensor"),
	onto("cuda", "Tensor.cuda Tensor.npu Tensor.mlu Tensor.xpu Tensor.musa Tensor.gcu Tensor.hpu",
		"(Tensor self, Device? device=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "contiguous(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", Names: "Tensor.contiguous",
		Doc:    opdef.Doc{Summary: "The tensor with its elements adjacent in memory", Formula: "self"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return elements.Result(a.Self) },
		Grad:   func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node: func(a *opdef.UnaryArgs, _ *opdef.Grad) (opdef.Node, error) {
			if a.Self.IsContiguous() {
				return opdef.Node{Skip: elements.GradOfOtherOp}, nil
			}
			return opdef.Node{}, nil
		},
		Cases: sameCases,
	}.Entry(),
	same("clone", "clone Tensor.clone", "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", "A copy",
		false),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "numpy(Tensor self, *, ignored force=False) -> Tensor", Names: "Tensor.numpy",
		Doc:    opdef.Doc{Summary: "The elements as an array of numpy", Formula: "self"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "an array has none"},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return elements.Result(a.Self) },
		Cases:  opdef.Calls[opdef.UnaryArgs](`f32[2, 3]{fixed}; i64[4]{-3..3}`),
	}.Entry().AsMoving(),
	same("alias", "alias Tensor.alias alias_copy", "(Tensor self) -> Tensor", "The tensor itself", false),
	same("resolve_neg", "resolve_neg Tensor.resolve_neg", "(Tensor self) -> Tensor", "The tensor itself", false),
	same("__deepcopy__", "Tensor.__deepcopy__", "(Tensor self, ignored memo=None) -> Tensor", "A copy", false),
	same("detach", "detach Tensor.detach Tensor.detach_ detach_copy Tensor.data.__get__", "(Tensor self) -> Tensor",
		"The tensor without its history", true).WithUncast("detach"),
	opdef.Planned[*setDataArgs, *dataSet]{
		Schema: "__set_data__(Tensor self, Tensor value) -> None", Names: "Tensor.data.__set__",
		Doc: opdef.Doc{Summary: "Gives the tensor the memory of another, and its shape", Formula: "self = value",
			Notes: "Written as x.data = value, which returns nothing.", Source: "torch.Tensor.data"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "autograd does not see it"},
		Plan:   func(a *setDataArgs) (*dataSet, error) { return &dataSet{a.Value}, nil },
		Cases:  opdef.Calls[setDataArgs](`f32[3], f32[2, 4]; f64[2], f64[2]`),
	}.Entry(),
	opdef.Op[CopyArgs]{
		Schema: "copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", Names: "Tensor.copy_",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Copies another tensor into the tensor",
			Formula: "src, expanded to the shape of self and converted to its dtype"},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: func(a *CopyArgs) ([]*tensor.Tensor, error) {
			t, err := a.Src.Expand(a.Self.Shape...)
			if err != nil {
				return nil, opdef.Refuse("src", "%v", err)
			}
			return elements.Result(opdef.Cast(t, a.Self.DType))
		},
		Grad: func(a *CopyArgs, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}, "src": {opdef.SumTo(g.Out[0], a.Src.Shape)}}, nil
		},
		Cases: opdef.Calls[CopyArgs](`
			f64[3, 4], f64[3, 4]; f64[3, 4], f64[4], non_blocking=True; f32[5], f64[5]; i32[4]{0..1}, f32[4]
			bool[4]{0..1}, i64[4]{0..2}; f32[0, 2], f32[2]`),
	}.Entry(),
}

func (a *toDTypeArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return outOfRange(a.Self, got, want)
}

func (a *toOtherArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return outOfRange(a.Self, got, want)
}

func (a *toCopyArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return outOfRange(a.Self, got, want)
}

func (a *toOtherOnlyArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return outOfRange(a.Self, got, want)
}

type setDataArgs struct{ Self, Value *tensor.Tensor }

// A dataSet is what self becomes.
type dataSet struct{ to *tensor.Tensor }

// Value is None.
func (*dataSet) Value() (value.Value, error) { return nil, nil }

// After is the new self.
func (d *dataSet) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return map[string][]*tensor.Tensor{"self": {d.to}}, nil
}

// FixedDType exempts an operator whose argument says the dtype of the result.
var FixedDType = map[string]string{"dtypes": "the dtype of the result does not follow that of the argument"}

type toDTypeArgs struct {
	Self        *tensor.Tensor
	Dtype       tensor.DType
	NonBlocking bool
	Copy        bool
}

type toOtherArgs struct {
	Self, Other *tensor.Tensor
	NonBlocking bool
	Copy        bool
}

type toOtherOnlyArgs struct{ Self, Other *tensor.Tensor }

type toDeviceArgs struct {
	Self        *tensor.Tensor
	Device      value.Value
	Dtype       *tensor.DType
	NonBlocking bool
	Copy        bool
}

type toCopyArgs struct {
	Self        *tensor.Tensor
	Dtype       *tensor.DType
	NonBlocking bool
}

type typeArgs struct {
	Self        *tensor.Tensor
	Dtype       value.Value
	NonBlocking bool
}

type deviceArgs struct {
	Self        *tensor.Tensor
	NonBlocking bool
}

// CopyArgs are the arguments of copy_.
type CopyArgs struct {
	Self, Src   *tensor.Tensor
	NonBlocking bool
}

// outOfRange accepts any integer where a floating number has none in the
// target dtype: C leaves that conversion undefined, and devices differ.
func outOfRange(x *tensor.Tensor, got, want []*tensor.Tensor) []opdef.Acceptance {
	dt := want[0].DType
	if x.DType.Kind() < tensor.KindFloat || !dt.IsIntegral() {
		return []opdef.Acceptance{{}}
	}
	src, g, w := tensor.Data[float64](x), tensor.Data[int64](got[0].Rounded()), tensor.Data[int64](want[0].Rounded())
	for i, v := range src {
		if v = math.Trunc(v); g[i] != w[i] && v >= dt.Min() && v <= dt.Max() {
			return []opdef.Acceptance{{}}
		}
	}
	return []opdef.Acceptance{{OK: true, Rule: "conversion out of range"}}
}

func passOnBut(g *opdef.Grad, other string) (opdef.Grads, error) {
	return opdef.Grads{"self": {g.Out[0]}, other: {nil}}, nil
}

// unchanged is the node of a conversion: one that changes nothing returns its
// argument, whose last node is that of the op that made it.
func unchanged(x *tensor.Tensor, dt tensor.DType, copied bool) (opdef.Node, error) {
	if x.DType == dt && !copied {
		return opdef.Node{Skip: elements.GradOfOtherOp}, nil
	}
	return opdef.Node{}, nil
}

func conversionCases(g opdef.Gen) []*tensor.Tensor {
	return []*tensor.Tensor{
		g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float32, 5), g.Normal(tensor.BFloat16, 2, 3),
		g.Normal(tensor.Float32), g.Normal(tensor.Float32, 0, 3),
		opdef.NonContiguous(g.Normal(tensor.Float64, 3, 4)), g.Int(tensor.Int32, -4, 4, 6), g.Int(tensor.Bool, 0, 1, 4),
	}
}

var sameCases = opdef.Calls[opdef.UnaryArgs](`
	f64[3, 4]; f32[5]; bf16[2, 3]; f32[]; f32[0, 3]; f64[3, 4]{gaps}; i32[6]{-4..4}; bool[4]{0..1}; c64[3]`)

// cast declares the method named after a dtype.
func cast(name string, dt tensor.DType) *opdef.Entry {
	return opdef.Planned[*opdef.UnaryArgs, *casting]{
		Schema: name + "(Tensor self, MemoryFormat? memory_format=None) -> Tensor", Names: "Tensor." + name,
		Doc:    opdef.Doc{Summary: "The tensor as " + dt.String(), Formula: "self"},
		Error:  elements.ExactError,
		Plan:   func(a *opdef.UnaryArgs) (*casting, error) { return (*casting)(a), nil },
		Kernel: func(a *casting) ([]*tensor.Tensor, error) { return elements.Result(opdef.Cast(a.Self, dt)) },
		Grad:   func(a *casting, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node:   func(a *casting, _ *opdef.Grad) (opdef.Node, error) { return unchanged(a.Self, dt, false) },
		Cases:  sameCases, Exempt: FixedDType,
	}.Entry()
}

// A casting is a call of a method named after a dtype.
type casting opdef.UnaryArgs

// Accept takes what is out of the range of integers.
func (a *casting) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return outOfRange(a.Self, got, want)
}

// onto declares a method that moves the tensor to a device.
func onto(name, names, params string) *opdef.Entry {
	op := opdef.Op[deviceArgs]{
		Schema: name + params, Names: names,
		Doc:    opdef.Doc{Summary: "The tensor on another device", Formula: "self"},
		Error:  elements.ExactError,
		Kernel: func(a *deviceArgs) ([]*tensor.Tensor, error) { return elements.Result(a.Self) },
		Grad:   func(a *deviceArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Node: func(a *deviceArgs, _ *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Skip: elements.GradOfOtherOp}, nil
		},
		Cases: opdef.Calls[deviceArgs](`
			f64[3, 4]; f32[5]; bf16[2, 3]; f32[]; f32[0, 3]; f64[3, 4]{gaps}; i32[6]{-4..4}; bool[4]{0..1}`),
	}
	if !strings.Contains(params, "non_blocking") {
		return same(name, names, params, "The tensor in host memory", false)
	}
	return op.Entry()
}

// same declares an op that returns its argument's values.
func same(name, names, params, summary string, detached bool) *opdef.Entry {
	op := opdef.Op[opdef.UnaryArgs]{
		Schema: name + params, Names: names,
		Doc:    opdef.Doc{Summary: summary, Formula: "self"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return elements.Result(a.Self) },
		Cases:  sameCases,
	}
	if detached {
		op.NoGrad = "the result is detached"
	} else {
		op.Grad = func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) }
	}
	e := op.Entry()
	e.View = true
	return e
}

// dtypeOf reads a dtype, or the name of a tensor class such as
// torch.cuda.FloatTensor.
func dtypeOf(v value.Value) (tensor.DType, error) {
	switch v := v.(type) {
	case tensor.DType:
		if !v.Computable() {
			return v, opdef.Refuse("dtype", "dtype %s has no values to compute with", v)
		}
		return v, nil
	case string:
		class := strings.TrimSuffix(v[strings.LastIndexByte(v, '.')+1:], "Tensor")
		if dt, ok := TensorClasses[class]; ok && strings.HasPrefix(v, "torch.") {
			return dt, nil
		}
	}
	return tensor.Invalid, opdef.Refuse("dtype", "want a dtype or the name of a tensor class, got %s",
		opdef.TypeName(v))
}

// TensorClasses are the dtypes of torch's tensor classes (torch.FloatTensor).
var TensorClasses = map[string]tensor.DType{
	"Float": tensor.Float32, "Double": tensor.Float64, "Half": tensor.Float16, "BFloat16": tensor.BFloat16,
	"Long": tensor.Int64, "Int": tensor.Int32,
	"Short": tensor.Int16, "Char": tensor.Int8, "Byte": tensor.Uint8, "Bool": tensor.Bool,
	"ComplexFloat": tensor.Complex64, "ComplexDouble": tensor.Complex128,
}
