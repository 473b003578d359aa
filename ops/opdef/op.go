package opdef

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/optool/optool/tensor"
)

// A Planned declares one operator overload: everything that optool knows about it
// stands here and nowhere else. A points to the struct its arguments arrive in: one
// exported field per schema argument, in Go case (negative_slope:
// NegativeSlope); it is checked against the schema when the registry is built.
// P points to what Plan makes of the arguments, once per call: checked, dimensions
// resolved, dtypes promoted. Kernel, gradient and bounds take the plan, so that
// none of them meets arguments that another has refused. Both are pointers, so that
// the compiler makes one copy of the methods for all operators, not one for each.
//
// Field types by schema type:
//
//	Tensor, Tensor|Scalar  *tensor.Tensor    Tensor?   *tensor.Tensor (nil)
//	Tensor[], Tensor?[]    []*tensor.Tensor  Scalar    Scalar,  Scalar? *Scalar
//	int    int,  int?   *int                 int[], int[n]  []int, int[]? []int (nil)
//	float  float64, float? *float64          float[]? []float64 (nil)
//	bool   bool, bool? *bool                 bool[] []bool
//	str    string, str? *string              dtype? *tensor.DType
//	any    value.Value
//
// Device, Layout, MemoryFormat, Generator and ignored arguments need no field.
type Planned[A, P any] struct {
	// Schema is the op's identity, in the notation of type Schema.
	Schema string

	// Names lists the public names captures use, separated by spaces. A name is
	// written in full, whatever package it begins with: "torch_npu.npu_swiglu",
	// "torchvision.ops.nms torch.ops.torchvision.nms". Of torch's own, "torch." is
	// left out before a function and before Tensor, F (nn.functional), nn,
	// functional, fft, linalg, special, masked and _C: "relu Tensor.relu F.relu".
	// Empty means torch.<name> and torch.Tensor.<name>.
	Names string

	Doc Doc

	// Traits are the facts that hold for all calls.
	Traits

	// Error is the error class: how far a sound implementation may be from the
	// reference. Bounds refine it; a plan that is Classed gives that of its call.
	Error Error
	Bounds[P]

	// Plan checks the arguments and prepares what the other functions take. An
	// argument torch refuses gives an error made by Refuse. nil: the plan is the
	// argument struct itself (see Op). What few operators can do are methods of
	// the plan: see abilities.go.
	Plan func(a A) (P, error)

	// Kernel computes the results from the arguments: tensors whose elements
	// are unrounded compute values and whose DType is the dtype torch gives.
	// Most are lazy. An argument torch refuses gives an error made by Refuse.
	// nil: the plan is Valued.
	Kernel func(p P) ([]*tensor.Tensor, error)

	// Grad computes the gradients of the differentiable arguments. NoGrad says
	// why there are none. One of the two is set unless no result is floating.
	Grad func(p P, g *Grad) (Grads, error)

	// Node computes what op_tools saved as grad_inputs when that is not one
	// gradient per argument requiring it: what the last autograd node of the
	// result received for its own inputs. nil: the gradients of Grad.
	Node func(p P, g *Grad) (Node, error)

	// Cases generates arguments for the checks of package opcheck, small and of
	// every kind of call the op has; the same ones for the same state of g.
	Cases func(g Gen) []A

	// Exempt names checks of package opcheck that do not hold for the op, with
	// the reason: {"strides": "addresses memory by its strides"}.
	Exempt map[string]string
}

// Traits are facts about an operator that hold for all of its calls.
type Traits struct {
	// InPlace adds the in-place names: each name of Names with "_" appended
	// (__add__ becomes __iadd__). The result is then written to self: its dtype
	// and shape are self's.
	InPlace bool

	// Resizes: the in-place form gives self the shape of the result (addbmm_).
	Resizes bool

	// NoGrad says why there are no gradients.
	NoGrad string

	// Composite: torch computes it with several operators of its own, so that
	// what op_tools saved as grad_inputs are in general not the gradients of the
	// arguments. Where Node gives nothing they are not compared.
	Composite bool

	// LastTakes is how many gradients the last of these operators gives, 0 if that depends on the call. Another number
	// of gradients are those of the arguments.
	LastTakes int

	// LastView: the last of these operators is a view, so that its gradient is the incoming one. Other gradients are
	// those of the arguments.
	LastView bool

	// LastTimes names the argument by which the last of these operators multiplies, if it is given. The first gradient
	// of that operator is the incoming one times it.
	LastTimes string

	// Copied names the argument that some versions of torch make a new tensor of, to
	// which no gradient flows.
	Copied string

	// Lookup names the tensor argument that values are picked from: no more of it
	// is read than the results hold.
	Lookup string

	// Like names the argument, a tensor, whose shape the results have, so that it is known before
	// anything is computed. Only operators need say so that compute all elements as they are called.
	Like string

	// Random says why values cannot be compared: "draws random numbers",
	// Uninitialised. Only shape and dtype are then checked.
	Random string

	// Autocast is what torch.autocast does to the arguments.
	Autocast Autocast

	// Uncast lists methods of torch.Tensor among the names, separated by spaces,
	// that op_tools' dtype casts leave alone: views and conversions.
	Uncast string

	// Trivial marks ops whose results are zeros, empty or NaN by nature (zeros,
	// eq), which otherwise make a comparison mistrusted.
	Trivial bool

	// Moves says that an op of class Exact moves values, so that a zero keeps its sign.
	// Those that select one of several equal values may give either zero. MovesOnCPU says
	// it of torch's CPU kernel alone: CUDA's maximum of -0 and 0 is 0.
	Moves, MovesOnCPU bool

	// Signed says that IEEE 754 fixes the sign of a zero among the results: products, quotients,
	// square roots, rounding.
	Signed bool

	// ExactOut: results are written only to tensors (out=, self) of their own dtype. Strict plans say it of a call.
	ExactOut bool

	// Steps: others that are as right (Either, GradEither) are values of kernels that round numbers which elements
	// share on the way, such as a mean that is kept in 16 bits. Where these differ from the reference, an error says
	// nothing about a common factor, nor does it stand alone.
	Steps bool

	// TakenFor names operators that kernels are known to compute in place of this one: of the
	// same arguments, or of those that are required.
	TakenFor []string
}

// Bounds refine the error class of results and gradients.
type Bounds[P any] struct {
	// Scale gives, for each result, S: the sum of the magnitudes of the terms
	// added to make each element (or the largest intermediate), as a tensor of
	// the result's shape. It replaces the class's own rule. GradScale does the
	// same for gradients.
	Scale     func(p P, outs []*tensor.Tensor) []*tensor.Tensor
	GradScale func(p P, g *Grad, grads Grads) (Grads, error)

	// Terms is the number of terms added to make one element; nil: 1. GradTerms
	// likewise for gradients; nil: Terms. Where results have more elements than the
	// argument, by broadcasting, as many are added at least.
	Terms     func(p P) int
	GradTerms func(p P) int
}

// Uninitialised is why results of which nothing is said cannot be compared.
const Uninitialised = "uninitialised memory"

// An Op is a declaration whose functions take the argument struct itself.
type Op[A any] = Planned[*A, *A]

// Doc is what a reader of optool ops sees.
type Doc struct {
	Summary string // one line, no full stop
	Formula string // result in terms of the argument names
	Notes   string // shapes, deviations from PyTorch (ties, subgradients)
	// Source is where it is documented: a page of PyTorch's documentation, an ATen file. Empty: under
	// the first of its names.
	Source string
}

// Grad is what a backward pass starts from.
type Grad struct {
	Outs []*tensor.Tensor // the forward results
	Out  []*tensor.Tensor // gradient of each result; nil where none flowed
	need map[string]bool
}

// NewGrad returns the start of a backward pass of results outs with gradients
// out. need tells the arguments whose gradients are wanted; nil means all.
func NewGrad(outs, out []*tensor.Tensor, need map[string]bool) *Grad {
	return &Grad{Outs: outs, Out: out, need: need}
}

// Need reports whether the gradient of the named argument is wanted; computing
// it anyway is allowed.
func (g *Grad) Need(arg string) bool { return g.need == nil || g.need[arg] }

// Grads are gradients by argument name; a list argument has one per item (nil:
// no gradient). Their DType is set to the argument's by the caller.
type Grads map[string][]*tensor.Tensor

// Set stores the gradient of a plain tensor argument.
func (g Grads) Set(arg string, t *tensor.Tensor) { g[arg] = []*tensor.Tensor{t} }

// Node is what the last autograd node of a result received.
type Node struct {
	// Grads are the gradients in the order of the node's inputs, nil for None.
	Grads []*tensor.Tensor
	// Skip says that nothing can be compared, and why: "gradients belong to
	// another op".
	Skip string
	// Weak says why a comparison proves little: "the incoming gradient
	// reshaped". Its results are mistrusted instead of pass.
	Weak string
	// Else are what other versions of torch record for the same call, told apart by
	// shapes, dtypes and values.
	Else []Node
	// Axes labels the dimensions of Grads, as Axes of the declaration does those of arguments;
	// nil if they cannot be cut.
	Axes [][]int
	// Scale, if set, computes the magnitudes S of Grads; otherwise they are
	// the node's gradients on the magnitudes of all arguments (Accumulated ops
	// without GradScale) or the largest magnitude of each.
	Scale func() []*tensor.Tensor
}

// Drawn is what a look at random numbers gave.
type Drawn struct {
	Checked string // what was looked at; empty if nothing was
	Wrong   string // one sentence that says what no sound generator gives; empty if nothing
	// Shown: the results show what was drawn, so that gradients, computed from them
	// (Grad.Outs), are determined.
	Shown bool
	// Plan, if set, is the plan of the call with what was drawn, which determines all of
	// its results.
	Plan func() (any, error)
}

// Acceptance is the decision on one result of Accept.
type Acceptance struct {
	OK     bool
	Rule   string // the rule that decided: "ties"
	Reason string // one sentence when not OK; empty leaves the plain comparison's
	Doubt  string // when OK: what is right, but not as torch documents it, a warning
}

// Class is the error class of an op.
type Class uint8

// Error classes. u is the unit roundoff a sound device accumulates in.
const (
	// Exact: values are moved, selected or compared; results must be equal.
	Exact Class = iota
	// Rounded: computed as if exactly and rounded once (add, mul, sqrt): 1 ulp.
	Rounded
	// Elementwise: a function of one element of each argument (exp, tanh): a
	// few ulp, Error.ULPs or 4.
	Elementwise
	// Accumulated: terms are added. Of what is multilinear in its arguments
	// (matmul, conv, sum) S is the op itself on their magnitudes.
	Accumulated
	// Normwise: errors scale with the largest element of the result (solve,
	// fft, and gradients without a finer rule).
	Normwise
	// Composed: S follows the errors of each step of a composition (package
	// compose).
	Composed
)

var classNames = [...]string{"exact", "rounded", "elementwise", "accumulated", "normwise", "composed"}

func (c Class) String() string { return classNames[c] }

// ClassNames lists the names of all classes.
func ClassNames() []string { return slices.Clone(classNames[:]) }

// ParseClass is the class of that name.
func ParseClass(name string) (Class, bool) {
	i := slices.Index(classNames[:], name)
	return Class(max(i, 0)), i >= 0
}

// Error is the declared error bound: an element passes when
// |out-ref| <= ULPs*ulp(ref) + c*u*S with c growing slowly with the number of
// terms.
type Error struct {
	Class Class
	ULPs  float64 // k; 0: the class's default (1, 4, 2, 2)
	// Coarse: torch rounds intermediate results to the dtype and the declared
	// scale counts that, so that nothing further is explained by accumulating in
	// it.
	Coarse bool
	// Shared: torch rounds numbers that all elements share to the dtype (the logarithm of
	// a number, what delta of huber_loss is multiplied by): a common factor of so much is
	// sound.
	Shared bool
	// Covers: no declared scale is smaller than the magnitude of the exact result,
	// which spares its computation where that is enough. Of class Accumulated it
	// never is.
	Covers bool
	// Operand, if set, is a dtype of 16 bits that intermediate results of wider results may
	// have been rounded to: what that explains is a warning.
	Operand tensor.DType
	// Factors: the terms are multiplied, not added, so that each rounding of a partial product
	// is one of the result.
	Factors bool
	// Grad is the class of the gradients; nil: Exact, Accumulated and Composed stay
	// as they are, all others are Normwise with 4 ulp.
	Grad *Error
}

func (e Error) ulps() float64 {
	if e.ULPs != 0 {
		return e.ULPs
	}
	return [...]float64{0, 1, 4, 2, 2, 2}[e.Class]
}

// String is the bound in words, the class first.
func (e Error) String() string {
	switch e.Class {
	case Exact:
		return "exact: equal"
	case Rounded, Elementwise:
		return fmt.Sprintf("%s: within %g ulp of the exact result", e.Class, e.ulps())
	}
	return fmt.Sprintf("%s: within %g ulp of the exact result + c(n)*u*S", e.Class, e.ulps())
}

// OfGradients is the error of an operator's gradients.
func (e Error) OfGradients() Error { return e.grad() }

func (e Error) covers() bool { return e.Covers || e.Class == Accumulated }

// bound is the error model of a result of one term, without its S.
func (e Error) bound() Bound {
	return Bound{Class: e.Class, ULPs: e.ulps(), Terms: 1, Coarse: e.Coarse, Shared: e.Shared, Covers: e.covers(),
		Operand: e.Operand, Factors: e.Factors}
}

func (e Error) grad() Error {
	switch {
	case e.Grad != nil:
		return *e.Grad
	case e.Class == Exact || e.Class == Accumulated || e.Class == Composed:
		return Error{Class: e.Class, ULPs: e.ULPs, Coarse: e.Coarse, Covers: e.Covers}
	}
	return Error{Class: Normwise, ULPs: 4}
}

// Facts are what a declaration says of an operator as such, whatever its
// arguments are.
type Facts struct {
	Names []string // full public names, in-place ones included
	Doc   Doc
	Traits
	Error     Error
	HasGrad   bool
	HasAccept bool // results that differ may be right nevertheless, see Choosy
	Inner     bool // op_tools records what Node gives
	Exempt    map[string]string
	View      bool // the result is an argument seen otherwise
}

// An Entry is a declared op with its argument and plan types erased.
type Entry struct {
	Facts
	Schema *Schema // nil before Ready

	// Of an operator that a file declares: where ("mylib.star:3:3"), and whether it takes
	// the place of those that are known by its names.
	Place    string
	Replaces bool

	op      *operator
	setters []setter // per schema parameter
	schema  string   // as declared
	once    sync.Once
	problem error
}

// Entry erases the types. A declaration that contradicts itself is reported by
// Ready.
func (o Planned[A, P]) Entry() *Entry {
	return entry(*(*declaration)(unsafe.Pointer(&o.Schema)), reflect.TypeFor[A](), reflect.TypeFor[P]())
}

func entry(o declaration, args, plan reflect.Type) *Entry {
	e := &Entry{op: &operator{declaration: &o, args: args, plan: plan}, schema: o.Schema, Facts: Facts{
		Doc: o.Doc, Traits: o.Traits, Error: o.Error, HasGrad: o.Grad != nil, Inner: o.Node != nil,
		HasAccept: o.Kernel != nil && plan.Implements(reflect.TypeFor[Choosy]()), Exempt: o.Exempt,
	}}
	e.Names = expandNames(e.Op(), o.Names, o.InPlace)
	if e.Doc.Source == "" && len(e.Names) > 0 {
		e.Doc.Source = e.Names[0]
	}
	return e
}

// Ready parses the declaration, once, and reports what contradicts itself in
// it. It is not done at once because a process uses few of all ops.
func (e *Entry) Ready() error {
	e.once.Do(func() { e.problem = e.init() })
	return e.problem
}

func (e *Entry) init() error {
	var err error
	if e.Schema, err = ParseSchema(e.schema); err != nil {
		return err
	}
	wrap := func(format string, args ...any) error {
		return fmt.Errorf("op %s: %s", e.Schema.Name, fmt.Sprintf(format, args...))
	}
	if len(e.Names) == 0 {
		return wrap("no names")
	}
	for _, n := range e.Names {
		if err := checkName(n); err != nil {
			return wrap("%v", err)
		}
	}
	for _, m := range strings.Fields(e.Uncast) {
		if !slices.Contains(e.Names, "torch.Tensor."+m) {
			return wrap("Uncast: it has no method %s", m)
		}
	}
	if e.op.args.Kind() != reflect.Pointer || e.op.plan.Kind() != reflect.Pointer {
		return wrap("want pointers to arguments and plan")
	}
	if e.setters, err = makeSetters(e.Schema, e.op.argsType()); err != nil {
		return wrap("%v", err)
	}
	if problem := e.op.contradiction(); problem != "" {
		return wrap("%s", problem)
	}
	switch {
	case e.Doc.Summary == "":
		return wrap("want a summary")
	case e.Doc.Summary[len(e.Doc.Summary)-1] == '.':
		return wrap("summary ends in a full stop")
	case e.Lookup != "" && !slices.ContainsFunc(e.Schema.Params, func(p Param) bool {
		return p.Name == e.Lookup && p.Type.Base == "Tensor"
	}):
		return wrap("Lookup: it has no tensor %s", e.Lookup)
	}
	return nil
}

// Op is the schema's name without the overload.
func (e *Entry) Op() string {
	name, _, _ := strings.Cut(e.schema, "(")
	return name
}
