package diopi

import (
	"math"
	"strings"
)

// A Kind says what a C parameter is, as abi.json has it: "tensor_in", "int64_ptr",
// "enum:diopiReduction_t". The table kinds says how each is passed.
type Kind string

// The kinds of parameters.
const (
	KindContext     Kind = "ctx"
	KindTensorIn    Kind = "tensor_in"
	KindTensorOut   Kind = "tensor_out"
	KindTensorInOut Kind = "tensor_inout"
	KindArrayIn     Kind = "tensor_array_in"
	KindArrayOut    Kind = "tensor_array_out"
	KindArrayInOut  Kind = "tensor_array_inout"
	KindTensorPtr   Kind = "tensor_ptr_out" // the callee makes the tensor and stores its handle
	KindScalar      Kind = "scalar_ptr"
	KindSize        Kind = "size"
	KindSizePtr     Kind = "size_ptr"
	KindInt64       Kind = "int64"
	KindInt32       Kind = "int32"
	KindInt         Kind = "cint"
	KindUint64      Kind = "uint64"
	KindDouble      Kind = "double"
	KindFloat       Kind = "float"
	KindBool        Kind = "bool"
	KindEnum        Kind = "enum" // followed by the C type: "enum:diopiReduction_t"
	KindInt64Ptr    Kind = "int64_ptr"
	KindDoublePtr   Kind = "double_ptr"
	KindBoolPtr     Kind = "bool_ptr"
	KindBoolOut     Kind = "bool_ptr_out" // a pointer through which the callee returns a plain result
	KindInt64Out    Kind = "int64_ptr_out"
	KindInt64InOut  Kind = "int64_ptr_inout"
	KindDoubleOut   Kind = "double_ptr_out"
	KindGenerator   Kind = "generator"
	KindGenerators  Kind = "generator_array"
	KindString      Kind = "string"
	KindPointer     Kind = "void_ptr_mut" // for what the interface does not describe
)

// A Form is what the callee finds in the place of a parameter, and so how its
// argument is told to the worker: one for each Go type of arguments and each way C
// takes it. forms.inc, written by go generate, is the same list in C++.
//
// A new form, beside its name here, is
//
//   - a conversion of the kit's values in convert.go, which the kinds of the form name,
//   - an encoder in ../request.go, and its case in ../native/worker/decode.cc; what C takes by
//     address lies in a member of Plan (../native/worker/plan.h), as ints_ and doubles_ do,
//   - a case of program.arg in reports/bundle/program.go, which writes the call as C,
//   - a case of fits in recipe_test.go.
//
// A new type of arguments also joins the table at Arg in plan.go beside this file; a test of package
// bundle names one that program.arg does not know. What C takes by value in none of the ways of Slot
// (../native/worker/functions.h) needs a member there and a case of take in functions.cc. A C type that
// DIOPI's header has, and types of ../internal/abigen have not, is declared there.
type Form uint8

// The forms, in the order of formNames.
const (
	FormNull           Form = iota // a null handle or pointer, a size of nothing
	FormContext                    // the context's handle
	FormTensor                     // a tensor's handle
	FormAlloc                      // the handle of a tensor that an earlier call made
	FormAllocAddress               // where the callee stores the handle of a tensor it makes
	FormTensors                    // an array of handles
	FormScalar                     // a pointer to a diopiScalar_t
	FormSize                       // a diopiSize_t
	FormSizePointer                // a pointer to one
	FormInteger                    // an integer, a bool, an enumerator
	FormReal                       // a float or double
	FormIntegerPointer             // a pointer to an int64_t
	FormRealPointer                // a pointer to a double
	FormBoolPointer                // a pointer to a bool
	FormText                       // a string that ends in 0
	FormGenerator                  // a generator's handle
	FormGenerators                 // an array of handles
	FormOut                        // a pointer to 8 bytes for a plain result
	numForms
)

var formNames = [numForms]string{"null", "context", "tensor", "alloc", "allocAddress", "tensors", "scalar", "size",
	"sizePointer", "integer", "real", "integerPointer", "realPointer", "boolPointer", "text", "generator", "generators",
	"out"}

// Forms are the names of the forms, in order.
func Forms() []string { return formNames[:] }

// A Passing is how parameters of a kind are passed.
type Passing struct {
	Form     Form // of an argument that is not nil
	Nullable bool // nil is an argument
	Writes   bool // the callee may write the tensors
	// Read is the plain result in the 8 bytes that the callee stored, nil of other kinds.
	Read func(bits uint64) any

	result bool       // planning makes what the callee writes here, no argument fills it
	from   conversion // of the values of the kit's arguments
}

// kinds says how each kind of parameter is passed. A kind that C takes in a form of
// the list above is a line here.
var kinds = map[Kind]Passing{
	KindContext:     {Form: FormContext, result: true},
	KindTensorIn:    {Form: FormTensor, Nullable: true, from: toTensor},
	KindTensorOut:   {Form: FormTensor, Nullable: true, Writes: true, result: true, from: toTensor},
	KindTensorInOut: {Form: FormTensor, Nullable: true, Writes: true, from: toTensor},
	KindArrayIn:     {Form: FormTensors, Nullable: true, from: toTensors},
	KindArrayOut:    {Form: FormTensors, Nullable: true, Writes: true, result: true, from: toTensors},
	KindArrayInOut:  {Form: FormTensors, Nullable: true, Writes: true, from: toTensors},
	KindTensorPtr:   {Form: FormAllocAddress, Nullable: true, result: true, from: toTensor},
	KindScalar:      {Form: FormScalar, Nullable: true, from: optional(toScalar)},
	KindSize:        {Form: FormSize, Nullable: true, from: toSize},
	KindSizePtr:     {Form: FormSizePointer, Nullable: true, from: optional(toSize)},
	KindInt64:       {Form: FormInteger, from: toInteger},
	KindInt32:       {Form: FormInteger, from: toInteger},
	KindInt:         {Form: FormInteger, from: toInteger},
	KindUint64:      {Form: FormInteger, from: toInteger},
	KindDouble:      {Form: FormReal, from: toReal},
	KindFloat:       {Form: FormReal, from: toReal},
	KindBool:        {Form: FormInteger, from: toBool},
	KindEnum:        {Form: FormInteger, from: toEnum},
	KindInt64Ptr:    {Form: FormIntegerPointer, Nullable: true, from: optional(toInteger)},
	KindDoublePtr:   {Form: FormRealPointer, Nullable: true, from: optional(toReal)},
	KindBoolPtr:     {Form: FormBoolPointer, Nullable: true, from: optional(toBool)},
	KindBoolOut:     {Form: FormOut, Nullable: true, Read: readBool, result: true},
	KindInt64Out:    {Form: FormOut, Nullable: true, Read: readInteger, result: true},
	KindInt64InOut:  {Form: FormOut, Nullable: true, Read: readInteger},
	KindDoubleOut:   {Form: FormOut, Nullable: true, Read: readReal, result: true},
	KindGenerator:   {Form: FormGenerator, Nullable: true, result: true, from: optional(toGenerator)},
	KindGenerators:  {Form: FormGenerators, Nullable: true},
	KindString:      {Form: FormText, Nullable: true, from: toText},
	KindPointer:     {Form: FormNull, Nullable: true},
}

func readBool(bits uint64) any    { return bits&0xFF != 0 }
func readInteger(bits uint64) any { return int64(bits) }
func readReal(bits uint64) any    { return math.Float64frombits(bits) }

// split takes the C type of an enumeration off its kind.
func (k Kind) split() (kind Kind, ctype string) {
	name, ctype, _ := strings.Cut(string(k), ":")
	return Kind(name), ctype
}

// Passing is how parameters of the kind are passed; no operator has one of another
// kind, save those of the runtime.
func (k Kind) Passing() (Passing, bool) {
	kind, _ := k.split()
	p, ok := kinds[kind]
	return p, ok
}

// Enum is the C type of an enumeration, "" for other kinds.
func (k Kind) Enum() string {
	_, ctype := k.split()
	return ctype
}

// IsTensor says that tensors are passed, or arrays of them.
func (k Kind) IsTensor() bool {
	switch p, _ := k.Passing(); p.Form {
	case FormTensor, FormTensors, FormAllocAddress:
		return true
	}
	return false
}
