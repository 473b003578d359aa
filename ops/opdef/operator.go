package opdef

import (
	"cmp"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/optool/optool/tensor"
)

// opaque stands for every argument struct and every plan.
type opaque struct{}

// A declaration is a Planned with its types erased. All pointers are represented alike, and so are functions of
// them: one type of code, and one description of it in the binary, serves all operators.
type declaration = Planned[*opaque, *opaque]

// pointer is the pointer in p, an argument struct or a plan.
func pointer(p any) *opaque { return (*opaque)(reflect.ValueOf(p).UnsafePointer()) }

// casesOf gives cases their type back.
func casesOf[A any](erased func(g Gen) []*opaque) func(g Gen) []*A {
	return *(*func(g Gen) []*A)(unsafe.Pointer(&erased))
}

// A planned is a call whose arguments were checked: a declaration with the plan of one call, without its type and
// with it.
type planned struct {
	*declaration
	p    *opaque
	plan any
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
	case d.Kernel == nil && !o.plan.Implements(reflect.TypeFor[Valued]()):
		return "want Kernel, or a plan with a Value"
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
		g.declared = o
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
	p := pointer(args)
	if o.declaration.Plan != nil {
		var err error
		if p, err = o.declaration.Plan(p); err != nil {
			return planned{}, err
		}
	}
	return planned{o.declaration, p, reflect.NewAt(o.plan.Elem(), unsafe.Pointer(p)).Interface()}, nil
}

// on is the declaration with another plan, of the same type.
func (c planned) on(p any) planned {
	if reflect.TypeOf(p) != reflect.TypeOf(c.plan) {
		panic(fmt.Errorf("op %s: a plan is %T, want %T", c.Schema, p, c.plan))
	}
	return planned{c.declaration, pointer(p), p}
}

func (c planned) kernel() ([]*tensor.Tensor, error) { return c.Kernel(c.p) }

func (c planned) after(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if m, ok := c.plan.(Mutating); ok {
		return m.After(outs)
	}
	return nil, nil
}

// terms is at least 1.
func (c planned) terms() int {
	if c.Terms == nil {
		return 1
	}
	return max(1, c.Terms(c.p))
}

// gradTerms is at least 1, of the gradient of an argument or of any ("").
func (c planned) gradTerms(arg string) int {
	if counted, ok := c.plan.(Counted); ok && arg != "" {
		return max(1, counted.GradTermsOf(arg))
	}
	if c.GradTerms == nil {
		return c.terms()
	}
	return max(1, c.GradTerms(c.p))
}

func (c planned) errorClass() Error {
	if classed, ok := c.plan.(Classed); ok {
		return classed.ErrorOf()
	}
	return c.Error
}

func (c planned) random() string {
	if drawing, ok := c.plan.(Drawing); ok {
		return cmp.Or(drawing.Random(), c.Random)
	}
	return c.Random
}

func (c planned) mistakes() []Mistake[planned] {
	mistaken, ok := c.plan.(Mistaken)
	if !ok {
		return nil
	}
	var out []Mistake[planned]
	for _, m := range mistaken.Mistakes() {
		plan := func() (planned, error) { return c.made(m.Plan) }
		out = append(out, planAs(m, plan))
	}
	return out
}

func (c planned) versions() (own string, others []Version[any]) {
	if versioned, ok := c.plan.(Versioned); ok {
		return versioned.Versions()
	}
	return "", nil
}

// as is the plan of a version, the plan itself where the call has none of that text.
func (c planned) as(version string) (planned, error) {
	if version == "" {
		return c, nil
	}
	_, others := c.versions()
	for _, v := range others {
		if v.Text == version {
			return c.made(v.Plan)
		}
	}
	return c, nil
}

// made is the declaration with the plan that make gives.
func (c planned) made(make func() (any, error)) (planned, error) {
	p, err := make()
	if err != nil {
		return planned{}, err
	}
	return c.on(p), nil
}
