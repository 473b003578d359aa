package diopi

import "github.com/optool/optool/tensor"

// A Phase says what a C call belongs to.
type Phase string

const (
	Forward  Phase = "fwd"
	Backward Phase = "bwd"
	InPlace  Phase = "inp"
)

// A Plan is the C calls of one call of an operator and what they yield. Calls
// share tensors by identity: a *Tensor written by one call and read by the next
// is the same memory.
type Plan struct {
	Calls []*Call
	// what the forward calls yield, in the order of the function's results: *Tensor, *Alloc, *Out, or nil for None
	Outputs []Arg
	Grads   []Grad // what the backward calls yield
	InPlace Arg    // what the in-place calls yield; nil if there are none
}

// A Grad is the gradient of an argument.
type Grad struct {
	Name string // of the argument: "input", "weight"
	Arg  Arg
}

// A Call is one C call. Args holds every parameter but ctx by its C name.
type Call struct {
	Phase    Phase
	Function string
	Args     map[string]Arg
}

// An Arg is an argument of a Call:
//
//	*Tensor            tensor_in, _out, _inout
//	[]*Tensor          tensor_array_in, _out, _inout; an item may be nil, a null handle
//	*Alloc             tensor_ptr_out; in a later call also tensor_in
//	Scalar             scalar_ptr
//	[]int64            size, size_ptr
//	int64              int64, int32, cint, uint64, int64_ptr (a pointer to it)
//	float64            double, float, double_ptr
//	bool               bool, bool_ptr
//	string             string
//	Enum               enum:T
//	*Generator         generator
//	*Out               *_ptr_out and *_ptr_inout: a plain result
//	nil                a null handle or pointer
type Arg any

// A Tensor is a tensor of the device.
type Tensor struct {
	Role   string // for people: "input", "tensors[1]", "out0", "grad_outputs[0]", "saved:mask"
	DType  tensor.DType
	Shape  []int
	Stride []int // elements; nil is dense row-major
	// Value is what the tensor holds before the first call, of the same dtype and
	// shape. Nil: memory for the callee to fill, which the bridge poisons.
	Value *tensor.Tensor
	// CSR makes the tensor sparse: Value is ignored.
	CSR  *CSR
	Host bool // on diopi_host rather than on diopi_device
}

// CSR are the parts of a sparse matrix in compressed row form, indices int32.
type CSR struct{ CrowIndices, ColIndices, Values *Tensor }

// An Alloc is a tensor the callee makes through the runtime.
type Alloc struct{ Role string }

// A Scalar is a diopiScalar_t. DType <= 7 in diopiDtype_t uses Int, others Float.
type Scalar struct {
	DType tensor.DType
	Int   int64
	Float float64
}

// An Enum is an enumerator by its C name: "ReductionMean", "Contiguous", "diopi_dtype_float32".
type Enum string

// A Generator is a random number generator in a given state.
type Generator struct{ Seed, Offset uint64 }

// An Out is a plain result a callee stores through a pointer: a bool of
// diopiEqual, a double of diopiClipGradNorm. Value is what it holds before, for
// the pointers that are also read.
type Out struct {
	Role  string
	Value any // bool, int64 or float64; nil is zero
}
