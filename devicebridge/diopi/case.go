package diopi

import (
	"fmt"
	"strings"
	"sync"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Case is one call of a function of DIOPI's test kit and what is wanted of it.
// Function names and keywords are the kit's (diopi_test, diopi_functions.py);
// most are PyTorch's.
type Case struct {
	Function string
	// Args are the keyword arguments: tensors, lists of tensors, numbers, strings,
	// lists of numbers, slices, dtypes, None; a *Tensor is memory to be filled. What
	// is absent has the kit's default.
	Args *value.Dict
	// RequiresGrad names the arguments whose gradients are wanted; the backward
	// calls are planned if it names any.
	RequiresGrad []string
	// SavedArgs are the keywords of the backward function that are results of the
	// forward one: {"output": 0}.
	SavedArgs map[string]int
	// RequiresBackward are the results that receive a gradient; empty is all.
	RequiresBackward []int
	// GradOutputs are the gradients of those results. Nil is ones, shaped like the
	// results; results whose shape only the callee knows need Outputs or GradOutputs.
	GradOutputs []*tensor.Tensor
	InPlace     bool // plan the in-place calls as well
	OnlyInPlace bool // plan nothing else
	// Outputs are the dtypes and shapes of the results where they are known. Nil
	// leaves them to the kit's own rules, which differ from PyTorch's in places:
	// the product of integers goes to float32.
	Outputs []Meta
	// Sparse names the arguments (matrices) that are passed in compressed row form.
	Sparse []string
	// ChannelsLast lays the results of convolution, pooling and the like out with
	// channels last, as the kit's nhwc mode does.
	ChannelsLast bool
	// DenseResults lays results out without gaps also where an argument has some, as
	// PyTorch does; the kit copies an argument's strides.
	DenseResults bool
	// FourBytes makes indices int32, and scalars int32 or float32, as the kit's
	// four_bytes mode does.
	FourBytes bool
	// Generator is the state random functions start from; nil is seed 0.
	Generator *Generator
}

// A Meta is the dtype and shape of a result.
type Meta struct {
	DType tensor.DType
	Shape []int
}

// A Recipe says which C calls carry out a function of the kit. Recipes are
// declared once, in the tables of the recipes_*.go files.
type Recipe struct {
	Function string // of the kit: "conv2d"
	sig      string // parameters with defaults, as Python writes them

	// C functions without the prefix "diopi", of which the arguments choose one:
	// the one that accepts them all (tensor or number) and leaves fewest unused.
	fwd, bwd, inp string
	also          string // C functions called besides: casts, copies, recomputed indices

	bind  bindings // forward and in-place: how C parameters are filled that are not named like an argument
	gbind bindings // backward: the same

	outs    []out  // the tensors written by the forward call, in the order of its parameters
	returns string // arguments that the forward call writes and the function returns, instead of outs

	prepare  func(*build) // normalises arguments: an int for a size, None for a default
	forward  func(*build) // in place of the call of fwd
	backward func(*build) // in place of the call of bwd
	inplace  func(*build) // in place of the call of inp

	once struct {
		sync.Once
		params []param
		err    error
	}
}

// Find returns the recipe of a function of the kit, or of one of PyTorch's that
// the kit lacks: getitem, setitem, unbind, outer, select_scatter, slice_scatter.
func Find(function string) (*Recipe, bool) {
	r, ok := recipes().byName[function]
	return r, ok
}

// Recipes are those of the kit's functions, by name.
func Recipes() []*Recipe { return recipes().all }

// Functions are the names of the C functions the recipe may call, forward ones first.
func (r *Recipe) Functions() []string {
	var names []string
	seen := map[string]bool{}
	for _, list := range []string{r.fwd, r.inp, r.bwd, r.also} {
		for _, f := range fields(list) {
			if !seen[f] {
				seen[f] = true
				names = append(names, prefix+f)
			}
		}
	}
	return names
}

// Params are the names of the function's parameters, in order.
func (r *Recipe) Params() []string {
	params, _ := r.parameters()
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	return names
}

// Required reports whether a parameter has no default, Defaulted whether its
// default is other than None.
func (r *Recipe) Required(name string) bool {
	p, ok := r.param(name)
	return ok && !p.optional && !p.rest
}

func (r *Recipe) Defaulted(name string) bool {
	p, ok := r.param(name)
	return ok && p.optional && p.value != nil
}

func (r *Recipe) param(name string) (param, bool) {
	params, _ := r.parameters()
	for _, p := range params {
		if p.name == name {
			return p, true
		}
	}
	return param{}, false
}

// TakesNumber reports whether a parameter can be a number: one of the C
// functions takes a scalar there.
func (r *Recipe) TakesNumber(name string) bool {
	for _, list := range []string{r.fwd, r.also} {
		for _, c := range fields(list) {
			f, ok := Lookup(prefix + c)
			if !ok {
				continue
			}
			for _, p := range f.Params {
				keyword := p.Name
				if s, ok := r.bind[p.Name].(string); ok {
					keyword = s
				}
				if keyword == name && !strings.HasPrefix(string(p.Kind), "tensor") {
					return true
				}
			}
		}
	}
	return false
}

// HasBackward and HasInPlace say whether the interface has calls for the
// gradient and for the in-place form.
func (r *Recipe) HasBackward() bool { return r.bwd != "" || r.backward != nil }
func (r *Recipe) HasInPlace() bool  { return r.inp != "" || r.inplace != nil }

// Plan says which C calls carry out c: forward, then backward if gradients are
// wanted, then in place if that is. It fails if the arguments do not fit the
// function.
func (r *Recipe) Plan(c *Case) (*Plan, error) {
	b, err := newBuild(r, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Function, err)
	}
	if err := b.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Function, err)
	}
	if c.DenseResults {
		b.plan.closeGaps()
	}
	return b.plan, nil
}
