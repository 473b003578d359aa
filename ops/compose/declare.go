package compose

import (
	"errors"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An Op is the declaration of a composed operator: schema, names, documentation
// and cases. Declare fills in the rest; the abilities of package opdef are methods of Call.
type Op[A any] = opdef.Planned[*A, *Call]

// A Call is a composed call, its results known.
type Call struct {
	args  any
	graph *Graph
	outs  Values
	again func(g *Graph) (*Call, error) // the same call, on a new graph

	// The gradients of one backward pass, kept because values, bounds and Node ask
	// for the same.
	up    []*tensor.Tensor
	grads map[int]*Value
	seeds []*Value
}

// Args is the argument struct, a pointer to the operator's argument type.
func (c *Call) Args() any { return c.args }

// Torch says how torch runs a composed operator.
type Torch uint8

const (
	// Fused: as one operator with a gradient of its own; op_tools records the
	// gradients of its arguments.
	Fused Torch = iota
	// Unfused: as the primitives it is composed of; op_tools records what the
	// last of them received.
	Unfused
)

// Declare completes a declaration: results, gradients, bounds and what op_tools
// records of gradients follow from the composition, which is called once per
// call.
func Declare[A any](op Op[A], torch Torch, compose func(g *Graph, a *A) Values) *opdef.Entry {
	op.Plan = planOf(compose)
	op.Kernel, op.Scale = (*Call).results, (*Call).scales
	if op.Error == (opdef.Error{}) {
		op.Error = opdef.Error{Class: opdef.Composed, Coarse: true}
	}
	if op.NoGrad != "" {
		return op.Entry()
	}
	op.Grad, op.GradScale = (*Call).gradients, (*Call).gradientScales
	if torch == Unfused && op.Node == nil {
		op.Node = (*Call).node
	}
	return op.Entry()
}

// DeclareInPlace completes the declaration of an operator that returns None: the
// results of the composition are the new values of the named arguments. Where there are
// lists among them the composition calls Update itself, and returns nothing.
func DeclareInPlace[A any](op Op[A], names []string, compose func(g *Graph, a *A) Values) *opdef.Entry {
	op.Plan = planOf(func(g *Graph, a *A) Values {
		for i, v := range compose(g, a) {
			g.Update(names[i], v)
		}
		return nil
	})
	op.NoGrad = "it returns nothing"
	op.Error = opdef.Error{Class: opdef.Composed, Coarse: true}
	return op.Entry()
}

func (c *Call) results() ([]*tensor.Tensor, error) {
	return each(c, func(v *Value) *tensor.Tensor { return v.T }), nil
}

func (c *Call) scales([]*tensor.Tensor) []*tensor.Tensor { return each(c, c.graph.scale) }

// Least is below the errors of the results.
func (c *Call) Least([]*tensor.Tensor) []*tensor.Tensor { return each(c, c.graph.least) }

// Else are results on the other side of jumps within rounding.
func (c *Call) Else([]*tensor.Tensor) [][]*tensor.Tensor { return each(c, c.graph.neighbours) }

// each is what of makes of every result.
func each[T any](c *Call, of func(*Value) T) []T {
	out := make([]T, len(c.outs))
	for i, v := range c.outs {
		out[i] = of(v)
	}
	return out
}

// Accept decides on results that are places of equal elements, or as the composition says.
func (c *Call) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if c.graph.accept == nil {
		return c.acceptPlaces(got, want)
	}
	return c.graph.accept(got, want)
}

// Chain gives the sums of the magnitudes of the partial sums of result i, and their dtype; see Graph.Rows.
func (c *Call) Chain(i int) (tensor.DType, func() *tensor.Tensor) {
	return c.outs[i].partial, c.outs[i].chain
}

func (c *Call) gradients(g *opdef.Grad) (opdef.Grads, error) {
	return c.arguments(c.backward(g.Out), func(v *Value) *tensor.Tensor { return v.T }), nil
}

// GradElse are what implementations make of gradients of norms where an argument is not finite: some multiply by
// the sign of NaN, or 0 by infinity, others select.
func (c *Call) GradElse(g *opdef.Grad) (out []opdef.Grads, _ error) {
	finite := func(a argument) bool { return a.leaf == nil || !a.leaf.DType().IsFloat() || elements.Finite(a.leaf.T) }
	if !c.graph.normed || !slices.ContainsFunc(c.graph.args, func(a argument) bool { return !finite(a) }) {
		return nil, nil
	}
	gr, err := c.gradients(g)
	if err != nil {
		return nil, err
	}
	wild := func(t *tensor.Tensor, i int) bool { return !elements.IsFinite(tensor.At[float64](t, i)) }
	for _, a := range c.graph.args {
		ts := gr[a.name]
		if len(ts) <= a.index || ts[a.index] == nil || a.leaf == nil || !a.leaf.DType().IsFloat() {
			continue
		}
		d, x := ts[a.index], a.leaf.T
		hit := func(i int) bool { return wild(x, i) || wild(d, i) || tensor.At[float64](d, i) == 0 }
		for _, t := range elements.Undefined(d, 1, hit) {
			other := opdef.Grads{a.name: make([]*tensor.Tensor, len(ts))}
			other[a.name][a.index] = t
			out = append(out, other)
		}
	}
	return out, nil
}

func (c *Call) gradientScales(g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
	return c.arguments(c.backward(g.Out), c.graph.scale), nil
}

// GradLeast is below the errors of the gradients.
func (c *Call) GradLeast(g *opdef.Grad) (opdef.Grads, error) {
	return c.arguments(c.backward(g.Out), c.graph.least), nil
}

// Mistakes are those that the composition knows, and those that any composition may have.
func (c *Call) Mistakes() []opdef.Mistake[any] {
	if c.graph.mistakes == nil {
		return slices.Concat(c.otherForms(), c.omissions(), c.shortSums())
	}
	return slices.Concat(c.graph.mistakes(), c.otherForms(), c.omissions(), c.shortSums())
}

// Axes says how the call can be cut, nil if it cannot.
func (c *Call) Axes() *opdef.Axes {
	if c.graph.axes == nil {
		return nil
	}
	return c.graph.axes()
}

// Products is what one element of the first result costs, 0 where the composition does not say.
func (c *Call) Products() float64 { return c.graph.products }

// Value is the Python value of the call, nil (None) of one that works in place.
func (c *Call) Value() (value.Value, error) { return c.graph.result, nil }

// DeclareValue completes the declaration of an operator that returns a Python value and no tensor.
func DeclareValue[A any](op Op[A], of func(g *Graph, a *A) value.Value) *opdef.Entry {
	op.Plan = planOf(func(g *Graph, a *A) Values {
		g.result = of(g, a)
		return nil
	})
	if op.NoGrad == "" {
		op.NoGrad = "it returns no tensor"
	}
	return op.Entry()
}

// After are the new values of arguments.
func (c *Call) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return updates(c, func(v *Value) *tensor.Tensor { return v.T }), nil
}

// AfterScale are the errors of the new values of arguments.
func (c *Call) AfterScale() map[string][]*tensor.Tensor { return updates(c, c.graph.scale) }

// AfterElse are new values of arguments on the other side of jumps within rounding.
func (c *Call) AfterElse() map[string][][]*tensor.Tensor { return updates(c, c.graph.neighbours) }

// updates are what of makes of the new values of arguments.
func updates[T any](c *Call, of func(*Value) T) map[string][]T {
	out := map[string][]T{}
	for _, u := range c.graph.updates {
		out[u.name] = append(out[u.name], of(u.v))
	}
	return out
}

// planOf is the plan of a composed operator: the composition of one call.
func planOf[A any](compose func(g *Graph, a *A) Values) func(a *A) (*Call, error) {
	return func(a *A) (*Call, error) {
		return planOn(&Graph{}, a, func(g *Graph) Values { return compose(g, a) })
	}
}

// Plan is the plan of a call of other arguments than were bound.
func Plan[A any](a *A, compose func(g *Graph, a *A) Values) (*Call, error) { return planOf(compose)(a) }

// planOn is the composition of one call on a graph that is empty yet.
func planOn(g *Graph, args any, compose func(g *Graph) Values) (c *Call, err error) {
	defer func() {
		if r := recover(); r != nil {
			var refused *opdef.RefusedError
			if e, ok := r.(error); !ok || !errors.As(e, &refused) {
				panic(r)
			}
			err = refused
		}
	}()
	c = &Call{args: args, graph: g, outs: compose(g)}
	g.planned, g.results = true, c.outs
	c.again = func(g *Graph) (*Call, error) { return planOn(g, args, compose) }
	for _, o := range c.outs {
		g.double = g.double || o.DType().Real() == tensor.Float64
	}
	for _, u := range g.updates {
		g.double = g.double || u.v.DType().Real() == tensor.Float64
	}
	return c, nil
}

// Mistake is one of a composed operator: the composition of a kernel that has it.
func Mistake[A any](text string, a *A, compose func(g *Graph, a *A) Values) opdef.Mistake[any] {
	return opdef.Mistake[any]{Text: text, Plan: func() (any, error) { return planOf(compose)(a) }}
}

// MistakeIn is Mistake of a kernel that keeps each step in a dtype: what is beyond it is infinite, and what is small
// beside what it is added to is lost.
func MistakeIn[A any](dt tensor.DType, text string, a *A, compose func(g *Graph, a *A) Values) opdef.Mistake[any] {
	return opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
		g := &Graph{store: func(t *tensor.Tensor) *tensor.Tensor {
			if !t.DType.IsFloat() {
				return t
			}
			return opdef.Map(t.DType, t, dt.Round)
		}}
		return planOn(g, a, func(g *Graph) Values { return compose(g, a) })
	}}
}

// backward carries the gradients up of the results back.
func (c *Call) backward(up []*tensor.Tensor) map[int]*Value {
	if c.grads != nil && slices.Equal(c.up, up) {
		return c.grads
	}
	c.up, c.seeds = slices.Clone(up), make([]*Value, len(up))
	for i, t := range up {
		if t != nil {
			c.seeds[i] = c.graph.Const(t)
		}
	}
	c.graph.lastComposed = len(c.graph.nodes) - 1 - len(c.seeds)
	c.graph.deriving, c.graph.marks[1], c.graph.seeds = true, nil, c.seeds
	defer func() { c.graph.deriving = false }()
	c.grads = c.graph.gradients(c.outs, c.seeds)
	return c.grads
}

// arguments are what of makes of the gradients of the arguments, zeros where
// nothing flowed.
func (c *Call) arguments(grads map[int]*Value, of func(*Value) *tensor.Tensor) opdef.Grads {
	out := opdef.Grads{}
	for _, a := range c.graph.args {
		for len(out[a.name]) <= a.index {
			out[a.name] = append(out[a.name], nil)
		}
		if a.leaf == nil || !a.leaf.needs {
			continue
		}
		if v := grads[a.leaf.position]; v != nil {
			out[a.name][a.index] = of(v)
		} else {
			out[a.name][a.index] = tensor.Full(a.leaf.DType(), a.leaf.Shape(), 0.0)
		}
	}
	return out
}

// node is what the last primitive of the first result that a gradient flows into
// received for its operands.
func (c *Call) node(g *opdef.Grad) (opdef.Node, error) {
	c.backward(g.Out)
	for i, v := range c.outs {
		if c.seeds[i] == nil {
			continue
		}
		if v.vjp == nil || !v.needs {
			return opdef.Node{Skip: elements.GradOfOtherOp}, nil
		}
		n := opdef.Node{}
		var scales []*Value
		parts := v.vjp(c.seeds[i])
		for k, x := range v.in {
			if k >= len(parts) || parts[k] == nil || x == nil || !x.needs {
				n.Grads, scales = append(n.Grads, nil), append(scales, nil)
				continue
			}
			part := c.graph.like(parts[k], x)
			n.Grads, scales = append(n.Grads, part.T), append(scales, part)
		}
		n.Weak = v.weak
		n.Scale = func() []*tensor.Tensor {
			out := make([]*tensor.Tensor, len(scales))
			for k, s := range scales {
				if s != nil {
					out[k] = c.graph.scale(s)
				}
			}
			return out
		}
		return n, nil
	}
	return opdef.Node{}, nil
}
