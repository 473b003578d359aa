package opdef

import (
	"reflect"
	"unsafe"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// opaque stands for every argument struct and every plan.
type opaque struct{}

// A declaration is a Planned with its types erased. All pointers are represented alike, and so are functions of
// them: one type of code, and one description of it in the binary, serves all operators.
type declaration = Planned[*opaque, *opaque]

// pointer is the pointer in p, an argument struct or a plan.
func pointer(p any) *opaque { return (*opaque)(reflect.ValueOf(p).UnsafePointer()) }

// A planned is a call whose arguments were checked: an operator with the plan of one
// call. Methods that return a function return nil where nothing was declared.
type planned struct {
	*declaration
	p *opaque
}

// An operator is a declaration with the types of what it takes.
type operator struct {
	declaration *declaration
	args, plan  reflect.Type // the types of the pointers
	// other is set where the arguments are another struct than the declaration's.
	other *otherArgs
}

// An otherArgs is a struct of arguments (all are pointers) that says the same as another one.
type otherArgs struct {
	args reflect.Type
	to   func(args any) (any, error) // the other ones
	from func(args any) any          // of the other ones, nil where there are none
	of   *operator                   // which takes the other ones
}

// argsType is the type of the argument struct.
func (o *operator) argsType() reflect.Type {
	if o.other != nil {
		return o.other.args
	}
	return o.args.Elem()
}

// contradiction says what contradicts itself in the declaration, "" if nothing.
func (o *operator) contradiction() string {
	d := o.declaration
	switch {
	case d.Plan == nil && o.args != o.plan:
		return "want Plan"
	case (d.Kernel == nil) == (d.Value == nil):
		return "want one of Kernel and Value"
	case d.Kernel != nil && d.Cases == nil:
		return "no cases"
	case d.Kernel != nil && d.Grad == nil && d.NoGrad == "":
		return "want Grad, or NoGrad with the reason"
	}
	return ""
}

// cases generates argument structs (pointers), nil for ops without.
func (o *operator) cases(g Gen) []any {
	var out []any
	switch {
	case o.other != nil:
		for _, c := range o.other.of.cases(g) {
			if a := o.other.from(c); a != nil {
				out = append(out, a)
			}
		}
	case o.declaration.Cases != nil:
		for _, c := range o.declaration.Cases(g) {
			out = append(out, reflect.NewAt(o.args.Elem(), unsafe.Pointer(c)).Interface())
		}
	}
	return out
}

// planned checks an argument struct (a pointer) and makes the plan of it.
func (o *operator) planned(args any) (planned, error) {
	if o.other != nil {
		a, err := o.other.to(args)
		if err != nil {
			return planned{}, err
		}
		return o.other.of.planned(a)
	}
	c := planned{o.declaration, pointer(args)}
	if c.Plan == nil {
		return c, nil
	}
	var err error
	c.p, err = c.Plan(c.p)
	return c, err
}

func (c planned) kernel() ([]*tensor.Tensor, error) { return c.Kernel(c.p) }

func (c planned) value() func() (value.Value, error) {
	if c.Value == nil {
		return nil
	}
	return func() (value.Value, error) { return c.Value(c.p) }
}

func (c planned) after(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if c.After == nil {
		return nil, nil
	}
	return c.After(c.p, outs)
}

func (c planned) afterScale() map[string][]*tensor.Tensor {
	if c.AfterScale == nil {
		return nil
	}
	return c.AfterScale(c.p)
}

func (c planned) afterElse() func() map[string][][]*tensor.Tensor {
	return bind(c.AfterElse, c.p)
}

func (c planned) grad(g *Grad) (Grads, error) { return c.Grad(c.p, g) }

func (c planned) node() func(g *Grad) (Node, error) { return bindWith2(c.Node, c.p) }

func (c planned) scale() func(outs []*tensor.Tensor) []*tensor.Tensor {
	return bindWith(c.Scale, c.p)
}

func (c planned) gradScale() func(g *Grad, grads Grads) (Grads, error) {
	if c.GradScale == nil {
		return nil
	}
	return func(g *Grad, grads Grads) (Grads, error) { return c.GradScale(c.p, g, grads) }
}

func (c planned) least() func(outs []*tensor.Tensor) []*tensor.Tensor {
	return bindWith(c.Least, c.p)
}

func (c planned) gradLeast() func(g *Grad) (Grads, error) {
	return bindWith2(c.GradLeast, c.p)
}

func (c planned) others() func(outs []*tensor.Tensor) [][]*tensor.Tensor {
	return bindWith(c.Else, c.p)
}

// otherDType is Planned.OtherDType of result i.
func (c planned) otherDType(i int) tensor.DType {
	if c.OtherDType == nil {
		return tensor.Invalid
	}
	return c.OtherDType(c.p, i)
}

func (c planned) gradOthers() func(g *Grad) ([]Grads, error) {
	return bindWith2(c.GradElse, c.p)
}

func (c planned) gradChain() func(g *Grad) (Grads, error) {
	return bindWith2(c.GradChain, c.p)
}

func (c planned) drawnGrads(g *Grad, got Grads) Drawn {
	if c.DrawnGrads == nil {
		return Drawn{}
	}
	return c.DrawnGrads(c.p, g, got)
}

func (c planned) drawn() func(got []*tensor.Tensor) Drawn { return bindWith(c.Drawn, c.p) }

// terms is at least 1.
func (c planned) terms() int {
	if c.Terms == nil {
		return 1
	}
	return max(1, c.Terms(c.p))
}

// gradTerms is at least 1, of the gradient of an argument or of any ("").
func (c planned) gradTerms(arg string) int {
	if c.GradTermsOf != nil && arg != "" {
		return max(1, c.GradTermsOf(c.p, arg))
	}
	if c.GradTerms == nil {
		return c.terms()
	}
	return max(1, c.GradTerms(c.p))
}

func (c planned) products() float64 {
	if c.Products == nil {
		return 0
	}
	return c.Products(c.p)
}

func (c planned) axes() *Axes {
	if c.Axes == nil {
		return nil
	}
	return c.Axes(c.p)
}

func (c planned) errorClass() Error {
	if c.ErrorOf == nil {
		return c.Error
	}
	return c.ErrorOf(c.p)
}

func (c planned) accept() func(got, want []*tensor.Tensor) []Acceptance {
	if c.Accept == nil {
		return nil
	}
	return func(got, want []*tensor.Tensor) []Acceptance { return c.Accept(c.p, got, want) }
}

func (c planned) random() string {
	if c.RandomIf == nil {
		return c.Random
	}
	return c.RandomIf(c.p)
}

func (c planned) exactOut() bool { return c.ExactOut != nil && c.ExactOut(c.p) }

func (c planned) mistakes() []Mistake[planned] {
	if c.Mistakes == nil {
		return nil
	}
	var out []Mistake[planned]
	for _, m := range c.Mistakes(c.p) {
		out = append(out, Mistake[planned]{m.Text, m.Rounds, m.Gradients, func() (planned, error) {
			p, err := m.Plan()
			return planned{c.declaration, p}, err
		}})
	}
	return out
}

func (c planned) versions() (own string, others []Version[*opaque]) {
	if c.Versions == nil {
		return "", nil
	}
	return c.Versions(c.p)
}

// as is the plan of a version, the plan itself where the call has none of that text.
func (c planned) as(version string) (planned, error) {
	if version == "" {
		return c, nil
	}
	_, others := c.versions()
	for _, v := range others {
		if v.Text == version {
			p, err := v.Plan()
			return planned{c.declaration, p}, err
		}
	}
	return c, nil
}

// bind is f of one plan, nil if f is.
func bind[R any](f func(*opaque) R, p *opaque) func() R {
	if f == nil {
		return nil
	}
	return func() R { return f(p) }
}

func bindWith[X, R any](f func(*opaque, X) R, p *opaque) func(X) R {
	if f == nil {
		return nil
	}
	return func(x X) R { return f(p, x) }
}

func bindWith2[X, R any](f func(*opaque, X) (R, error), p *opaque) func(X) (R, error) {
	if f == nil {
		return nil
	}
	return func(x X) (R, error) { return f(p, x) }
}
