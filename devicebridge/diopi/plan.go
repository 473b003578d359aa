package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

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

// Without is the plan without the calls of a phase after the forward one.
func (p *Plan) Without(phase Phase) *Plan {
	rest := *p
	rest.Calls = slices.DeleteFunc(slices.Clone(p.Calls), func(c *Call) bool { return c.Phase == phase })
	switch phase {
	case Backward:
		rest.Grads = nil
	case InPlace:
		rest.InPlace = nil
	}
	return &rest
}

// A Grad is the gradient of an argument.
type Grad struct {
	Name string // of the argument: "input", "weight"
	Arg  Arg
	Sum  []int // the shape that it is summed to, as DIOPI's kit does; nil: it has its shape
}

// A Call is one C call. Args holds every parameter but ctx by its C name.
type Call struct {
	Phase    Phase
	Function string
	Args     map[string]Arg
}

// An Arg is an argument of a Call; nil is a null handle or pointer. Of which type it
// must be follows from the form of the parameter's kind:
//
//	FormTensor                      *Tensor, or *Alloc of an earlier call
//	FormTensors                     Tensors
//	FormAllocAddress                *Alloc
//	FormScalar                      Scalar
//	FormSize, FormSizePointer       Size
//	FormInteger                     Integer, Bool or Enum
//	FormIntegerPointer              Integer
//	FormReal, FormRealPointer       Real
//	FormBoolPointer                 Bool
//	FormText                        Text
//	FormGenerator, FormGenerators   *Generator, Generators
//	FormOut                         *Out
type Arg interface{ isArg() }

// Plain values as arguments, and lists; an item of Tensors may be nil, a null handle.
type (
	Integer    int64
	Real       float64
	Bool       bool
	Text       string
	Size       []int64
	Tensors    []*Tensor
	Generators []*Generator
)

func (Integer) isArg()    {}
func (Real) isArg()       {}
func (Bool) isArg()       {}
func (Text) isArg()       {}
func (Size) isArg()       {}
func (Tensors) isArg()    {}
func (Generators) isArg() {}
func (*Tensor) isArg()    {}
func (*Alloc) isArg()     {}
func (*Generator) isArg() {}
func (*Out) isArg()       {}
func (Scalar) isArg()     {}
func (Enum) isArg()       {}

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
	// Optional memory need not be filled: nothing reads what is not.
	Optional bool
}

// CSR are the parts of a sparse matrix in compressed row form, indices int32.
type CSR struct{ CrowIndices, ColIndices, Values *Tensor }

// An Alloc is a tensor the callee makes through the runtime.
type Alloc struct{ Role string }

// A Scalar is a diopiScalar_t.
type Scalar struct {
	DType tensor.DType
	Int   int64   // the number, of an integral dtype
	Float float64 // of others
}

// UsesInt reports whether the callee reads Int: the integers of diopiDtype_t, but not bool.
func (s Scalar) UsesInt() bool { return s.DType.IsIntegral() }

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
