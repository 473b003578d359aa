package opdef

import (
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
	cases(g Gen) []any
	// plan checks an argument struct (a pointer) and makes the plan of it.
	plan(args any) (any, error)
	// functions are what the declaration says of a plan.
	functions() *functions
}

// functions are what a declaration says of a plan, with the plan's type erased: one type
// of code for all operators. Those that were not declared are nil.
type functions struct {
	kernel     func(p any) ([]*tensor.Tensor, error)
	value      func(p any) (value.Value, error)
	after      func(p any, outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error)
	afterScale func(p any) map[string][]*tensor.Tensor
	afterElse  func(p any) map[string][][]*tensor.Tensor
	grad       func(p any, g *Grad) (Grads, error)
	node       func(p any, g *Grad) (Node, error)
	scale      func(p any, outs []*tensor.Tensor) []*tensor.Tensor
	gradScale  func(p any, g *Grad, grads Grads) (Grads, error)
	least      func(p any, outs []*tensor.Tensor) []*tensor.Tensor
	gradLeast  func(p any, g *Grad) (Grads, error)
	others     func(p any, outs []*tensor.Tensor) [][]*tensor.Tensor
	gradOthers func(p any, g *Grad) ([]Grads, error)
	gradChain  func(p any, g *Grad) (Grads, error)
	terms      func(p any) int
	gradTerms  func(p any) int
	termsOf    func(p any, arg string) int
	products   func(p any) float64
	accept     func(p any, got, want []*tensor.Tensor) []Acceptance
	drawn      func(p any, got []*tensor.Tensor) Drawn
	drawnGrads func(p any, g *Grad, got Grads) Drawn
	exactOut   func(p any) bool
	mistakes   func(p any) []Mistake[any]
	versions   func(p any) (string, []Version[any])
	errorOf    func(p any) Error
	randomIf   func(p any) string
	axes       func(p any) *Axes

	err    Error
	random string
}

// functions erases the type of the plan.
func (o *Planned[A, P]) functions() *functions {
	return &functions{
		kernel: erased2(o.Kernel), value: erased2(o.Value), after: erasedWith2(o.After),
		afterScale: erased(o.AfterScale), afterElse: erased(o.AfterElse), grad: erasedWith2(o.Grad),
		node: erasedWith2(o.Node), scale: erasedWith(o.Scale), gradScale: erasedGradScale(o.GradScale),
		least: erasedWith(o.Least), gradLeast: erasedWith2(o.GradLeast),
		others: erasedWith(o.Else), gradOthers: erasedWith2(o.GradElse), gradChain: erasedWith2(o.GradChain),
		terms: erased(o.Terms), gradTerms: erased(o.GradTerms), termsOf: erasedWith(o.GradTermsOf),
		products: erased(o.Products),
		accept:   erasedAccept(o.Accept), drawn: erasedWith(o.Drawn), drawnGrads: erasedDrawnGrads(o.DrawnGrads),
		exactOut: erased(o.ExactOut),
		mistakes: erasedMistakes(o.Mistakes), versions: erasedVersions(o.Versions), errorOf: erased(o.ErrorOf),
		randomIf: erased(o.RandomIf),
		axes:     erased(o.Axes),
		err:      o.Error, random: o.Random,
	}
}

func erased[P, R any](f func(P) R) func(any) R {
	if f == nil {
		return nil
	}
	return func(p any) R { return f(p.(P)) }
}

func erased2[P, R any](f func(P) (R, error)) func(any) (R, error) {
	if f == nil {
		return nil
	}
	return func(p any) (R, error) { return f(p.(P)) }
}

func erasedWith[P, X, R any](f func(P, X) R) func(any, X) R {
	if f == nil {
		return nil
	}
	return func(p any, x X) R { return f(p.(P), x) }
}

func erasedWith2[P, X, R any](f func(P, X) (R, error)) func(any, X) (R, error) {
	if f == nil {
		return nil
	}
	return func(p any, x X) (R, error) { return f(p.(P), x) }
}

func erasedGradScale[P any](f func(P, *Grad, Grads) (Grads, error)) func(any, *Grad, Grads) (Grads, error) {
	if f == nil {
		return nil
	}
	return func(p any, g *Grad, grads Grads) (Grads, error) { return f(p.(P), g, grads) }
}

func erasedAccept[P any](f func(p P, got, want []*tensor.Tensor) []Acceptance) func(p any, got,
	want []*tensor.Tensor) []Acceptance {
	if f == nil {
		return nil
	}
	return func(p any, got, want []*tensor.Tensor) []Acceptance { return f(p.(P), got, want) }
}

func erasedDrawnGrads[P any](f func(P, *Grad, Grads) Drawn) func(any, *Grad, Grads) Drawn {
	if f == nil {
		return nil
	}
	return func(p any, g *Grad, got Grads) Drawn { return f(p.(P), g, got) }
}

func erasedMistakes[P any](f func(P) []Mistake[P]) func(any) []Mistake[any] {
	if f == nil {
		return nil
	}
	return func(p any) []Mistake[any] {
		var out []Mistake[any]
		for _, m := range f(p.(P)) {
			out = append(out, Mistake[any]{m.Text, m.Rounds, func() (any, error) { return m.Plan() }})
		}
		return out
	}
}

func erasedVersions[P any](f func(P) (string, []Version[P])) func(any) (string, []Version[any]) {
	if f == nil {
		return nil
	}
	return func(p any) (string, []Version[any]) {
		own, others := f(p.(P))
		var out []Version[any]
		for _, v := range others {
			out = append(out, Version[any]{v.Text, func() (any, error) { return v.Plan() }})
		}
		return own, out
	}
}

// A planned is a call whose arguments were checked: an operator with the plan of one
// call. Methods that return a function return nil where nothing was declared.
type planned struct {
	*functions
	p any
}

func (o *Planned[A, P]) argsType() reflect.Type { return reflect.TypeFor[A]().Elem() }

func (o *Planned[A, P]) problem() string {
	a, p := reflect.TypeFor[A](), reflect.TypeFor[P]()
	switch {
	case a.Kind() != reflect.Pointer || p.Kind() != reflect.Pointer:
		return "want pointers to arguments and plan"
	case o.Plan == nil && a != p:
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

func (o *Planned[A, P]) cases(g Gen) []any {
	if o.Cases == nil {
		return nil
	}
	var out []any
	for _, c := range o.Cases(g) {
		out = append(out, c)
	}
	return out
}

func (o *Planned[A, P]) plan(args any) (any, error) {
	if o.Plan == nil {
		return args, nil
	}
	return o.Plan(args.(A))
}

func (c planned) kernel() ([]*tensor.Tensor, error) { return c.functions.kernel(c.p) }

func (c planned) value() func() (value.Value, error) {
	if c.functions.value == nil {
		return nil
	}
	return func() (value.Value, error) { return c.functions.value(c.p) }
}

func (c planned) after(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if c.functions.after == nil {
		return nil, nil
	}
	return c.functions.after(c.p, outs)
}

func (c planned) afterScale() map[string][]*tensor.Tensor {
	if c.functions.afterScale == nil {
		return nil
	}
	return c.functions.afterScale(c.p)
}

func (c planned) afterElse() func() map[string][][]*tensor.Tensor {
	return bind(c.functions.afterElse, c.p)
}

func (c planned) grad(g *Grad) (Grads, error) { return c.functions.grad(c.p, g) }

func (c planned) node() func(g *Grad) (Node, error) { return bindWith2(c.functions.node, c.p) }

func (c planned) scale() func(outs []*tensor.Tensor) []*tensor.Tensor {
	return bindWith(c.functions.scale, c.p)
}

func (c planned) gradScale() func(g *Grad, grads Grads) (Grads, error) {
	if c.functions.gradScale == nil {
		return nil
	}
	return func(g *Grad, grads Grads) (Grads, error) { return c.functions.gradScale(c.p, g, grads) }
}

func (c planned) least() func(outs []*tensor.Tensor) []*tensor.Tensor {
	return bindWith(c.functions.least, c.p)
}

func (c planned) gradLeast() func(g *Grad) (Grads, error) {
	return bindWith2(c.functions.gradLeast, c.p)
}

func (c planned) others() func(outs []*tensor.Tensor) [][]*tensor.Tensor {
	return bindWith(c.functions.others, c.p)
}

func (c planned) gradOthers() func(g *Grad) ([]Grads, error) {
	return bindWith2(c.functions.gradOthers, c.p)
}

func (c planned) gradChain() func(g *Grad) (Grads, error) {
	return bindWith2(c.functions.gradChain, c.p)
}

func (c planned) drawnGrads(g *Grad, got Grads) Drawn {
	if c.functions.drawnGrads == nil {
		return Drawn{}
	}
	return c.functions.drawnGrads(c.p, g, got)
}

func (c planned) drawn() func(got []*tensor.Tensor) Drawn { return bindWith(c.functions.drawn, c.p) }

// terms is at least 1.
func (c planned) terms() int {
	if c.functions.terms == nil {
		return 1
	}
	return max(1, c.functions.terms(c.p))
}

// gradTerms is at least 1, of the gradient of an argument or of any ("").
func (c planned) gradTerms(arg string) int {
	if c.functions.termsOf != nil && arg != "" {
		return max(1, c.functions.termsOf(c.p, arg))
	}
	if c.functions.gradTerms == nil {
		return c.terms()
	}
	return max(1, c.functions.gradTerms(c.p))
}

func (c planned) products() float64 {
	if c.functions.products == nil {
		return 0
	}
	return c.functions.products(c.p)
}

func (c planned) axes() *Axes {
	if c.functions.axes == nil {
		return nil
	}
	return c.functions.axes(c.p)
}

func (c planned) errorClass() Error {
	if c.functions.errorOf == nil {
		return c.functions.err
	}
	return c.functions.errorOf(c.p)
}

func (c planned) accept() func(got, want []*tensor.Tensor) []Acceptance {
	if c.functions.accept == nil {
		return nil
	}
	return func(got, want []*tensor.Tensor) []Acceptance { return c.functions.accept(c.p, got, want) }
}

func (c planned) random() string {
	if c.functions.randomIf == nil {
		return c.functions.random
	}
	return c.functions.randomIf(c.p)
}

func (c planned) exactOut() bool { return c.functions.exactOut != nil && c.functions.exactOut(c.p) }

func (c planned) mistakes() []Mistake[planned] {
	if c.functions.mistakes == nil {
		return nil
	}
	var out []Mistake[planned]
	for _, m := range c.functions.mistakes(c.p) {
		out = append(out, Mistake[planned]{m.Text, m.Rounds, func() (planned, error) {
			p, err := m.Plan()
			return planned{c.functions, p}, err
		}})
	}
	return out
}

func (c planned) versions() (own string, others []Version[any]) {
	if c.functions.versions == nil {
		return "", nil
	}
	return c.functions.versions(c.p)
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
			return planned{c.functions, p}, err
		}
	}
	return c, nil
}

// bind is f of one plan, nil if f is.
func bind[R any](f func(any) R, p any) func() R {
	if f == nil {
		return nil
	}
	return func() R { return f(p) }
}

func bindWith[X, R any](f func(any, X) R, p any) func(X) R {
	if f == nil {
		return nil
	}
	return func(x X) R { return f(p, x) }
}

func bindWith2[X, R any](f func(any, X) (R, error), p any) func(X) (R, error) {
	if f == nil {
		return nil
	}
	return func(x X) (R, error) { return f(p, x) }
}
