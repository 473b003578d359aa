package shape

import (
	"cmp"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A viewOp declares an op whose result shows elements of its tensor argument
// self: each element of the result is one element of self.
type viewOp[A any] struct {
	Schema string
	Names  string
	Doc    opdef.Doc

	Self func(a *A) *tensor.Tensor
	Arg  string // the name of that argument; "": self
	// View applies the op to any tensor of self's shape.
	View func(a *A, t *tensor.Tensor) (*tensor.Tensor, error)
	// Back is the gradient of self for the gradient g of the result. nil: g is
	// added where View shows elements of a contiguous tensor, so View must not
	// read elements.
	Back func(a *A, g *tensor.Tensor) *tensor.Tensor
	// Repeats says that an element of self can occur more than once.
	Repeats bool
	// Node and Uncast as in opdef.Op.
	Node   func(a *A, g *opdef.Grad) (opdef.Node, error)
	Uncast string

	Cases func(g opdef.Gen) []*A
	// Exempt as in opdef.Op.
	Exempt map[string]string
}

func (v viewOp[A]) Entry() *opdef.Entry {
	op := opdef.Op[A]{
		Schema: v.Schema, Names: v.Names, Doc: v.Doc, Node: v.Node, Exempt: v.Exempt,
		Traits: opdef.Traits{Uncast: v.Uncast},
		Error:  elements.ExactError,
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			t, err := v.View(a, v.Self(a))
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{t}, nil
		},
		Grad:  func(a *A, g *opdef.Grad) (opdef.Grads, error) { return v.grad(a, g.Out[0]) },
		Cases: v.Cases,
	}
	if v.Repeats {
		op.Error.Grad = &opdef.Error{Class: opdef.Accumulated, ULPs: 1}
		op.GradScale = func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads,
			error) {
			return v.grad(a, opdef.Abs(g.Out[0]))
		}
		op.GradTerms = func(a *A) int {
			t := opdef.Must(v.View(a, v.Self(a)))
			return max(1, t.Numel()/max(1, v.Self(a).Numel()))
		}
	}
	e := op.Entry()
	e.View = true
	return e
}

func (v viewOp[A]) grad(a *A, g *tensor.Tensor) (opdef.Grads, error) {
	arg := cmp.Or(v.Arg, "self")
	if v.Back != nil {
		return opdef.Grads{arg: {v.Back(a, g)}}, nil
	}
	shape := v.Self(a).Shape
	back, err := ViewBack(shape, g, func(t *tensor.Tensor) (*tensor.Tensor, error) { return v.View(a, t) })
	return opdef.Grads{arg: {back}}, err
}

// ViewBack is the gradient of a tensor of shape for the gradient g of a view
// of it.
func ViewBack(shape []int, g *tensor.Tensor, view func(*tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor,
	error) {
	p, err := runs.Probe(shape)
	if err != nil {
		return nil, err
	}
	if p, err = view(p); err != nil {
		return nil, err
	}
	return runs.ScatterAdd(shape, g, runs.OfView(p)), nil
}

// A partsOp declares an op that cuts its argument self into parts along one
// dimension.
type partsOp[A any] struct {
	Schema string
	Names  string
	Doc    opdef.Doc
	Uncast string // as in opdef.Op

	Self func(a *A) *tensor.Tensor
	// Cut gives the dimension and the sizes of the parts in order.
	Cut func(a *A) (dim int, sizes []int, err error)
	// Drop removes the dimension, whose parts have size 1 (unbind).
	Drop bool

	Cases func(g opdef.Gen) []*A
}

func (p partsOp[A]) Entry() *opdef.Entry {
	e := opdef.Op[A]{
		Schema: p.Schema, Names: p.Names, Doc: p.Doc,
		Traits: opdef.Traits{Uncast: p.Uncast},
		Error:  elements.ExactError,
		Kernel: p.kernel,
		Grad:   p.grad,
		Cases:  p.Cases,
	}.Entry()
	e.View = true
	return e
}

func (p partsOp[A]) kernel(a *A) ([]*tensor.Tensor, error) {
	dim, sizes, err := p.Cut(a)
	if err != nil {
		return nil, err
	}
	out, at := make([]*tensor.Tensor, len(sizes)), 0
	for i, n := range sizes {
		out[i] = p.Self(a).Slice(dim, at, n, 1)
		if p.Drop {
			out[i] = out[i].Squeeze(dim)
		}
		at += n
	}
	return out, nil
}

func (p partsOp[A]) grad(a *A, g *opdef.Grad) (opdef.Grads, error) {
	dim, sizes, err := p.Cut(a)
	if err != nil {
		return nil, err
	}
	self := p.Self(a)
	if len(sizes) == 0 {
		return opdef.Grads{"self": {elements.Zeros(self.DType, self.Shape)}}, nil
	}
	parts := make([]*tensor.Tensor, len(sizes))
	for i, n := range sizes {
		shape := slices.Clone(self.Shape)
		shape[dim] = n
		if g.Out[i] == nil {
			parts[i] = elements.Zeros(self.DType, shape)
		} else {
			parts[i] = g.Out[i].Reshape(shape...)
		}
	}
	return opdef.Grads{"self": {runs.Concat(self.DType, dim, parts...)}}, nil
}
