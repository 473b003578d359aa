package opdef

import (
	"math"
)

// A Number is a number in a formula that no argument says: "alpha" of selu.
type Number struct {
	Name  string
	Value float64
}

// A Formula is a function of X, an element or several, with the numbers that it is made of. Kernels may have others.
type Formula[X any] struct {
	Numbers []Number
	Of      func(k []float64) func(x X) float64
}

// Sound is the function with the numbers that are due.
func (f Formula[X]) Sound() func(x X) float64 { return f.Of(f.values()) }

// With is the function with another number i.
func (f Formula[X]) With(i int, x float64) func(x X) float64 {
	k := f.values()
	k[i] = x
	return f.Of(k)
}

func (f Formula[X]) values() []float64 {
	k := make([]float64, len(f.Numbers))
	for i, n := range f.Numbers {
		k[i] = n.Value
	}
	return k
}

// Slope is the derivative of f at x by a difference quotient. It is exact to about 1e-10, except beside a kink.
func Slope(f func(x float64) float64, x float64) float64 {
	h := slopeStep * max(1, math.Abs(x))
	return (f(x+h) - f(x-h)) / (2 * h)
}

const slopeStep = 1e-5

// A Constant is a number in the rule of an operator, with calls that have another one.
type Constant[P any] struct {
	Number
	// Gradients: only the rule of gradients has it.
	Gradients bool
	// Step: the name says no more than which step has it, "the second factor".
	Step bool
	Plan func(x float64) (P, error)
}

// ConstantsOf are the numbers of a formula, with what of makes of the formula with another one.
func ConstantsOf[X, P any](f Formula[X], gradients bool, of func(f func(x X) float64) P) []Constant[any] {
	out := make([]Constant[any], len(f.Numbers))
	for i, n := range f.Numbers {
		plan := func(x float64) (any, error) { return of(f.With(i, x)), nil }
		out[i] = Constant[any]{Number: n, Gradients: gradients, Plan: plan}
	}
	return out
}

// Constants are the numbers in the operator's rule. The call must have run.
func (c *Call) Constants() []Constant[*Call] {
	var out []Constant[*Call]
	for _, k := range c.sound().constants() {
		out = append(out, Constant[*Call]{k.Number, k.Gradients, k.Step, func(x float64) (*Call, error) {
			plan, err := k.Plan(x)
			return c.planned(plan, err)
		}})
	}
	return out
}

// planned is the call with another plan, of its version.
func (c *Call) planned(plan planned, err error) (*Call, error) {
	if err == nil {
		plan, err = plan.as(c.version)
	}
	if err != nil {
		return nil, err
	}
	d := *c
	d.prepared = &prepared{plan: plan}
	d.once.Do(func() {})
	return &d, nil
}

func (c planned) constants() []Constant[planned] {
	numbered, ok := c.plan.(Numbered)
	if !ok {
		return nil
	}
	var out []Constant[planned]
	for _, k := range numbered.Constants() {
		out = append(out, Constant[planned]{k.Number, k.Gradients, k.Step, func(x float64) (planned, error) {
			return c.made(func() (any, error) { return k.Plan(x) })
		}})
	}
	return out
}
