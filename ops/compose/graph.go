package compose

import (
	"errors"
	"slices"
	"sync"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Graph is one call in the making: the values that were computed and how each
// came about.
type Graph struct {
	nodes   []*Value // in order of computation
	args    []argument
	updates []update
	squared bool        // errors are kept squared: some value has 16 bits or fewer
	double  bool        // some result is float64 or complex128
	result  value.Value // of an operator that gives no tensor
	accept  func(got, want []*tensor.Tensor) []opdef.Acceptance
	attends []*attention
	nan     bool      // queries that see no key give NaN, not 0
	own     string    // what the composition does where sound implementations differ, see OtherVersion
	other   string    // and what others do
	version string    // the one of others that this graph is of
	drawing []drawing // what draws random numbers
	drawn   []*tensor.Tensor
	draws   bool // random numbers of which nothing else is known
	normed  bool // a norm is among the nodes

	// What a composition says of its call besides, nothing where they are not set.
	axes     func() *opdef.Axes
	products float64
	mistakes func() []opdef.Mistake[any]
	judge    func(got []*tensor.Tensor) opdef.Drawn
	works    works

	steps   []step // of the results, in order
	planned bool   // the results are known: what follows are gradients
	omit    []omission
	lack    lack
	numbers []opdef.Number
	instead *otherNumber // nil: none
	formed  []formed
	others  []otherForm

	marks        [2][]mark  // of the composition, and of its derivation
	variant      *variation // nil: none
	muted        bool       // within a step that is done in another way
	deriving     bool
	explicit     bool // some gradient is given, not derived
	lastComposed int  // the position of the last value before the derivation

	seeds   []*Value // the gradients that the derivation starts from
	results Values

	// store, if set, replaces every value computed: tests round it, as devices do.
	store func(*tensor.Tensor) *tensor.Tensor
}

// A Value is a tensor of a composition.
type Value struct {
	// T holds the unrounded elements; its DType is the one torch would give.
	T *tensor.Tensor

	// errors computes the bound of the error of each element, squared where the
	// graph says so, as a float64 tensor of T's shape; nil: exact. Of integers it is
	// that of what was rounded to them: see Quantize.
	errors func() *tensor.Tensor

	// least is nowhere more than errors, for a fraction of the work; nil: nothing of the kind is known.
	least *tensor.Tensor

	// chain gives the sums of the magnitudes of the partial sums in dtype partial, of T's shape; nil: see Sum.
	chain   func() *tensor.Tensor
	partial tensor.DType

	in       []*Value
	vjp      func(g *Value) []*Value // gradients of in; nil where none is wanted or none flows
	weak     string                  // why gradients that the last primitive received prove little; "" if they do
	position int                     // among the nodes of the graph
	needs    bool                    // a gradient, some argument behind it asking for one

	show func(t *tensor.Tensor) *tensor.Tensor // of a view: what it shows of in[0]

	from    []*Value // what it is computed of, if in does not say it: the incoming gradient, the result, operands
	operand int      // whose gradient it is

	what string // "sum": what it is of in, for its description; empty if that is not said
	is   *Value // the value that it stands for within a step, nil: none

	among *Value // of whose rows these are places: see Places

	// What is cut into parts gets its gradient, given those by position, all at
	// once, and the parts give none.
	joined func(grads map[int]*Value) *Value
	part   bool

	normal int  // the length of the rows that it normalises, over which its gradient sums
	fixed  bool // a step that is left out: it has the gradient of its operand
	cut    int  // 1 + the operand that gets no gradient by mistake, 0: none
}

// Values are the results of a composition, in the order of the schema.
type Values []*Value

// An argument is a leaf that gradients are computed of.
type argument struct {
	name  string
	index int
	leaf  *Value
}

// An update is the new value of an argument that the call changes.
type update struct {
	name string
	v    *Value
}

// Shape is the shape of v.
func (v *Value) Shape() []int { return v.T.Shape }

// Dim is the number of dimensions of v.
func (v *Value) Dim() int { return v.T.Dim() }

// DType is the dtype torch gives v.
func (v *Value) DType() tensor.DType { return v.T.DType }

// Refuse ends the composition: torch refuses the argument.
func (g *Graph) Refuse(arg, format string, args ...any) { panic(opdef.Refuse(arg, format, args...)) }

// Unsupported ends the composition: the function takes the argument, the reference does not compute
// with it.
func (g *Graph) Unsupported(arg, format string, args ...any) {
	panic(opdef.Unsupported(arg, format, args...))
}

// Check ends the composition on an error that is not nil: torch refuses the call.
func (g *Graph) Check(err error) {
	var refused *opdef.RefusedError
	if err != nil && !errors.As(err, &refused) {
		g.Refuse("", "%v", err)
	}
	if err != nil {
		panic(err)
	}
}

// Arg is the tensor argument of that name, nil if t is.
func (g *Graph) Arg(name string, t *tensor.Tensor) *Value { return g.argument(name, 0, t) }

// Args are the items of the list argument of that name.
func (g *Graph) Args(name string, ts []*tensor.Tensor) []*Value {
	out := make([]*Value, len(ts))
	for i, t := range ts {
		out[i] = g.argument(name, i, t)
	}
	return out
}

func (g *Graph) argument(name string, index int, t *tensor.Tensor) *Value {
	if t == nil {
		g.args = append(g.args, argument{name, index, nil})
		return nil
	}
	v := g.Const(t)
	v.needs = t.RequiresGrad
	g.args = append(g.args, argument{name, index, v})
	return v
}

// Derived is t, computed of the elements of the values from, without error or gradient.
func (g *Graph) Derived(t *tensor.Tensor, from ...*Value) *Value {
	ts := make([]*tensor.Tensor, len(from))
	for k, x := range from {
		ts[k] = x.T
	}
	return g.Const(g.works.keep(t, ts...))
}

// Const is a tensor without error or gradient.
func (g *Graph) Const(t *tensor.Tensor) *Value { return g.add(&Value{T: t}) }

// Wanted is a constant that kernels give a gradient too, as an argument.
func (g *Graph) Wanted(t *tensor.Tensor) *Value {
	v := g.Const(t)
	v.needs = true
	return v
}

// Number is a Python number.
func (g *Graph) Number(x float64) *Value { return g.Const(tensor.Wrap(g.number("number", x))) }

// Scalar is a Scalar argument: a Python number of its own type.
func (g *Graph) Scalar(s opdef.Scalar) *Value { return g.Const(tensor.Wrap(s.Python())) }

// Full is a tensor of equal elements.
func (g *Graph) Full(dt tensor.DType, shape []int, x float64) *Value {
	return g.Const(tensor.Full(dt, shape, x))
}

// add takes v up as the newest value.
func (g *Graph) add(v *Value) *Value {
	if len(g.nodes) == mostNodes {
		g.Refuse("", "the composition takes more than %d steps", mostNodes)
	}
	v.position = len(g.nodes)
	for _, x := range v.in {
		v.needs = v.needs || x != nil && x.needs
	}
	if v.T.DType.Real().IsReduced() && !v.T.Wrapped {
		g.squared = true
	}
	g.nodes = append(g.nodes, v)
	return v
}

// value is the value t computed from in. errors computes its bound, given t as it is
// kept, from that and from in and their bounds; nil: it is exact.
func (g *Graph) value(t *tensor.Tensor, errors func(t *tensor.Tensor) *tensor.Tensor,
	vjp func(g *Value) []*Value, in ...*Value) *Value {
	return g.computed(t, in, errors, vjp, in...)
}

// computed is value, of a t that is computed from other values than get gradients.
func (g *Graph) computed(t *tensor.Tensor, from []*Value, errors func(t *tensor.Tensor) *tensor.Tensor,
	vjp func(g *Value) []*Value, in ...*Value) *Value {
	if g.store != nil {
		t = g.store(t)
	}
	var read []*tensor.Tensor
	for _, x := range from {
		if x != nil {
			read = append(read, x.T)
		}
	}
	v := &Value{T: g.works.keep(t, read...), in: in, from: from, vjp: vjp}
	if errors != nil && t.DType != tensor.Bool {
		v.errors = sync.OnceValue(func() *tensor.Tensor {
			read := append(slices.Clone(read), v.T)
			for _, x := range from {
				if x != nil && x.errors != nil {
					read = append(read, x.errors())
				}
			}
			return g.works.keep(errors(v.T), read...)
		})
	}
	return g.add(v)
}

// withGradients is v with the gradients of its operands as compositions.
func (v *Value) withGradients(vjp func(up *Value) []*Value) *Value {
	if !v.fixed {
		v.vjp = vjp
	}
	return v
}

// Detach is x without its gradient, as torch.Tensor.detach.
func (g *Graph) Detach(x *Value) *Value { return g.add(&Value{T: x.T, errors: x.errors}) }

// Overwrite is x with the elements of y, as torch's in-place functions leave it
// under no_grad: the gradient passes as if nothing had been written.
func (g *Graph) Overwrite(x, y *Value) *Value {
	return g.add(&Value{T: y.T, errors: y.errors, in: []*Value{x},
		vjp: func(up *Value) []*Value { return []*Value{up} }})
}

// Update says that v is the new value of the tensor argument of that name, which
// the call changes without returning it; of a list, that of its next item.
func (g *Graph) Update(name string, v *Value) { g.updates = append(g.updates, update{name, v}) }

// Accept lets accept decide on results that differ: see opdef.Choosy.
func (g *Graph) Accept(accept func(got, want []*tensor.Tensor) []opdef.Acceptance) { g.accept = accept }

// Cut says how the call can be cut into parts.
func (g *Graph) Cut(axes func() *opdef.Axes) { g.axes = axes }

// Cost says how many multiply-adds make one element of the first result.
func (g *Graph) Cost(products float64) { g.products = products }

// Mistaken says what kernels get wrong, besides what they may leave out of any composition.
func (g *Graph) Mistaken(mistakes func() []opdef.Mistake[any]) { g.mistakes = mistakes }

// Judge looks at the recorded results in place of Call.Drawn; nothing is said of gradients then.
func (g *Graph) Judge(judge func(got []*tensor.Tensor) opdef.Drawn) { g.judge = judge }

// AsOne is what compose makes of the values in, as one primitive: op_tools records
// the gradients of in, if it is the last.
func (g *Graph) AsOne(compose func(in []*Value) *Value, in ...*Value) *Value {
	inner := make([]*Value, len(in))
	for k, x := range in {
		inner[k] = g.Detach(x)
		inner[k].needs, inner[k].is = x.needs, x
	}
	out := compose(inner)
	return g.add(&Value{T: out.T, errors: out.errors, in: in, vjp: func(up *Value) []*Value {
		grads, parts := g.gradients(Values{out}, []*Value{up}), make([]*Value, len(in))
		for k, x := range inner {
			parts[k] = grads[x.position]
		}
		return parts
	}})
}

// gradients carries the gradients up of the values outs (nil: none flows) back to
// all values they depend on. It returns them by position; what it computes is
// part of the graph too.
func (g *Graph) gradients(outs Values, up []*Value) map[int]*Value {
	grads := map[int]*Value{}
	add := func(v, d *Value) {
		if v == nil || d == nil || !v.needs {
			return
		}
		d = g.like(d, v)
		if old := grads[v.position]; old != nil {
			d = g.Add(old, d)
		}
		grads[v.position] = d
	}
	last := 0
	for i, o := range outs {
		add(o, up[i])
		last = max(last, o.position)
	}
	for i := last; i >= 0; i-- {
		v, d := g.nodes[i], grads[i]
		if v.joined != nil && v.needs {
			add(v.in[0], v.joined(grads))
		}
		if d == nil || v.vjp == nil || v.part {
			continue
		}
		for k, part := range v.vjp(d) {
			if k+1 != v.cut {
				add(v.in[k], part)
			}
		}
	}
	return grads
}

// like is the gradient d of v summed over what was broadcast, in v's dtype.
func (g *Graph) like(d, v *Value) *Value {
	if !slices.Equal(d.Shape(), v.Shape()) {
		d = g.sumTo(d, v.Shape())
	}
	return g.To(d, v.DType())
}
