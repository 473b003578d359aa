package opdef

import (
	"math/rand/v2"
	"reflect"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// An operator is a declaration with its types erased.
type operator interface {
	// argsType is the type of the argument struct.
	argsType() reflect.Type
	// problem says what contradicts itself in the declaration, "" if nothing.
	problem() string
	// cases generates argument structs (pointers), nil for ops without.
	cases(r *rand.Rand) []any
	// plan checks an argument struct (a pointer).
	plan(args any) (planned, error)
}

// A planned is a call whose arguments were checked. Methods that return a
// function return nil where nothing was declared.
type planned interface {
	kernel() ([]*tensor.Tensor, error)
	value() func() (value.Value, error)
	after(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error)
	afterScale() map[string][]*tensor.Tensor
	afterElse() func() map[string][][]*tensor.Tensor
	grad(g *Grad) (Grads, error)
	node() func(g *Grad) (Node, error)
	scale() func(outs []*tensor.Tensor) []*tensor.Tensor
	gradScale() func(g *Grad, grads Grads) (Grads, error)
	others() func(outs []*tensor.Tensor) [][]*tensor.Tensor
	gradOthers() func(g *Grad) ([]Grads, error)
	gradChain() func(g *Grad) (Grads, error)
	terms() int     // at least 1
	gradTerms() int // at least 1
	products() float64
	errorClass() Error
	accept() func(got, want []*tensor.Tensor) []Acceptance
	random() string
	drawn() func(got []*tensor.Tensor) Drawn
	exactOut() bool
	mistakes() []Mistake[planned]
}

func (o *Planned[A, P]) argsType() reflect.Type { return reflect.TypeFor[A]() }

func (o *Planned[A, P]) problem() string {
	var isArgs bool
	if o.Plan == nil {
		_, isArgs = any((*A)(nil)).(P)
	}
	switch {
	case o.Plan == nil && !isArgs:
		return "want Plan"
	case (o.Kernel == nil) == (o.Value == nil):
		return "want one of Kernel and Value"
	case o.Kernel != nil && o.Cases == nil:
		return "no cases"
	case o.Kernel != nil && o.Grad == nil && o.NoGrad == "":
		return "want Grad, or NoGrad with the reason"
	}
	return ""
}

func (o *Planned[A, P]) cases(r *rand.Rand) []any {
	if o.Cases == nil {
		return nil
	}
	var out []any
	for _, c := range o.Cases(r) {
		out = append(out, c)
	}
	return out
}

func (o *Planned[A, P]) plan(args any) (planned, error) {
	if o.Plan == nil {
		return plannedCall[A, P]{o, args.(P)}, nil
	}
	p, err := o.Plan(args.(*A))
	if err != nil {
		return nil, err
	}
	return plannedCall[A, P]{o, p}, nil
}

// A plannedCall is an operator with the plan of one call.
type plannedCall[A, P any] struct {
	op *Planned[A, P]
	p  P
}

func (c plannedCall[A, P]) kernel() ([]*tensor.Tensor, error) { return c.op.Kernel(c.p) }

func (c plannedCall[A, P]) value() func() (value.Value, error) {
	if c.op.Value == nil {
		return nil
	}
	return func() (value.Value, error) { return c.op.Value(c.p) }
}

func (c plannedCall[A, P]) after(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if c.op.After == nil {
		return nil, nil
	}
	return c.op.After(c.p, outs)
}

func (c plannedCall[A, P]) afterScale() map[string][]*tensor.Tensor {
	if c.op.AfterScale == nil {
		return nil
	}
	return c.op.AfterScale(c.p)
}

func (c plannedCall[A, P]) afterElse() func() map[string][][]*tensor.Tensor {
	if c.op.AfterElse == nil {
		return nil
	}
	return func() map[string][][]*tensor.Tensor { return c.op.AfterElse(c.p) }
}

func (c plannedCall[A, P]) grad(g *Grad) (Grads, error) { return c.op.Grad(c.p, g) }

func (c plannedCall[A, P]) node() func(g *Grad) (Node, error) {
	if c.op.Node == nil {
		return nil
	}
	return func(g *Grad) (Node, error) { return c.op.Node(c.p, g) }
}

func (c plannedCall[A, P]) scale() func(outs []*tensor.Tensor) []*tensor.Tensor {
	if c.op.Scale == nil {
		return nil
	}
	return func(outs []*tensor.Tensor) []*tensor.Tensor { return c.op.Scale(c.p, outs) }
}

func (c plannedCall[A, P]) gradScale() func(g *Grad, grads Grads) (Grads, error) {
	if c.op.GradScale == nil {
		return nil
	}
	return func(g *Grad, grads Grads) (Grads, error) { return c.op.GradScale(c.p, g, grads) }
}

func (c plannedCall[A, P]) others() func(outs []*tensor.Tensor) [][]*tensor.Tensor {
	if c.op.Else == nil {
		return nil
	}
	return func(outs []*tensor.Tensor) [][]*tensor.Tensor { return c.op.Else(c.p, outs) }
}

func (c plannedCall[A, P]) gradOthers() func(g *Grad) ([]Grads, error) {
	if c.op.GradElse == nil {
		return nil
	}
	return func(g *Grad) ([]Grads, error) { return c.op.GradElse(c.p, g) }
}

func (c plannedCall[A, P]) gradChain() func(g *Grad) (Grads, error) {
	if c.op.GradChain == nil {
		return nil
	}
	return func(g *Grad) (Grads, error) { return c.op.GradChain(c.p, g) }
}

func (c plannedCall[A, P]) drawn() func(got []*tensor.Tensor) Drawn {
	if c.op.Drawn == nil {
		return nil
	}
	return func(got []*tensor.Tensor) Drawn { return c.op.Drawn(c.p, got) }
}

func (c plannedCall[A, P]) terms() int {
	if c.op.Terms == nil {
		return 1
	}
	return max(1, c.op.Terms(c.p))
}

func (c plannedCall[A, P]) gradTerms() int {
	if c.op.GradTerms == nil {
		return c.terms()
	}
	return max(1, c.op.GradTerms(c.p))
}

func (c plannedCall[A, P]) products() float64 {
	if c.op.Products == nil {
		return 0
	}
	return c.op.Products(c.p)
}

func (c plannedCall[A, P]) errorClass() Error {
	if c.op.ErrorOf == nil {
		return c.op.Error
	}
	return c.op.ErrorOf(c.p)
}

func (c plannedCall[A, P]) accept() func(got, want []*tensor.Tensor) []Acceptance {
	if c.op.Accept == nil {
		return nil
	}
	return func(got, want []*tensor.Tensor) []Acceptance { return c.op.Accept(c.p, got, want) }
}

func (c plannedCall[A, P]) random() string {
	if c.op.RandomIf == nil {
		return c.op.Random
	}
	return c.op.RandomIf(c.p)
}

func (c plannedCall[A, P]) exactOut() bool { return c.op.ExactOut != nil && c.op.ExactOut(c.p) }

func (c plannedCall[A, P]) mistakes() []Mistake[planned] {
	if c.op.Mistakes == nil {
		return nil
	}
	var out []Mistake[planned]
	for _, m := range c.op.Mistakes(c.p) {
		out = append(out, Mistake[planned]{m.Text, m.Rounds, func() (planned, error) {
			p, err := m.Plan()
			return plannedCall[A, P]{c.op, p}, err
		}})
	}
	return out
}
