package opdef

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Call is an op with its arguments bound.
type Call struct {
	Entry *Entry
	Name  string // the captured name
	args  any
	*prepared
	// written is the argument whose elements the results replace: self of an
	// in-place form; out are the tensors given as out=.
	written *tensor.Tensor
	out     []*tensor.Tensor
	// accepted are recorded results that Accept found right, nil for the rest.
	accepted []*tensor.Tensor
	given    bool     // they are those of From
	bound    *binding // nil for a call that was not made by Bind
	version  string   // the text of the version (Versioned) that the plan is of, "" for the declaration's own
}

// A binding is what a call was made from.
type binding struct {
	args   []value.Value
	kwargs *value.Dict
	fields any // the argument struct
}

// prepared is the plan of a call, made when it is first asked for.
type prepared struct {
	once    sync.Once
	plan    planned
	refusal error
}

// Plan checks the arguments, once: the error is the *RefusedError that Forward
// gives too.
func (c *Call) Plan() error {
	c.once.Do(func() {
		err := c.checkSizes()
		if err == nil {
			c.plan, err = c.Entry.op.planned(c.args)
		}
		if err == nil {
			c.plan, err = c.plan.as(c.version)
		}
		if err != nil {
			c.refusal = c.Entry.refused(err)
		}
	})
	return c.refusal
}

// checkSizes refuses tensors that are too large to compute with. Views compute nothing.
func (c *Call) checkSizes() error {
	if c.Entry.View {
		return nil
	}
	for _, a := range c.Tensors() {
		if err := tensor.CheckSize(a.Tensor.Shape); err != nil {
			return Refuse(a.Name, "%v", err)
		}
	}
	return nil
}

// sound is the plan of a call that Forward has run, or that is like one: its
// arguments cannot be refused.
func (c *Call) sound() planned {
	if err := c.Plan(); err != nil {
		panic(err)
	}
	return c.plan
}

// Bind converts the arguments of a call of e under one of its names.
func (e *Entry) Bind(name string, args []value.Value, kwargs *value.Dict) (*Call, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	c := &Call{Entry: e, Name: name, prepared: &prepared{}, bound: &binding{args: args, kwargs: kwargs}}
	kwargs, err := c.takeOut(args, kwargs)
	if err == nil {
		c.args, err = e.bind(args, kwargs)
	}
	if err != nil {
		return nil, e.refused(err)
	}
	c.bound.fields = c.args
	if self := c.first(); self != nil && self.Wrapped && isMethod(name) && !e.onlyMethods() {
		return nil, e.refused(Refuse(e.Schema.Params[0].Name, "want a tensor, got a number"))
	}
	if e.InPlace && IsInPlaceName(name) || c.inplaceFlag() {
		if c.written = c.first(); c.written == nil {
			return nil, e.refused(Refuse("", "an in-place form wants a tensor to write to"))
		}
	}
	return c, nil
}

// NewCall is a call of e, which must be sound, on a ready argument struct (a *A).
func (e *Entry) NewCall(args any) *Call {
	if err := e.Ready(); err != nil {
		panic(err)
	}
	return &Call{Entry: e, Name: e.Names[0], args: args, prepared: &prepared{}}
}

// onlyMethods reports whether all names of e are methods. Such methods with a
// number for self are functions of two operands that torch writes in Python
// (__rmod__); of other methods self is a tensor.
func (e *Entry) onlyMethods() bool {
	return !slices.ContainsFunc(e.Names, func(n string) bool { return !isMethod(n) })
}

func (e *Entry) refused(err error) error {
	var r *RefusedError
	if errors.As(err, &r) && r.Op == "" {
		named := *r
		named.Op = e.Op()
		return &named
	}
	return err
}

// takeOut removes out= from the keywords, unless the op declares a tensor of that name, and notes what
// the results are written to.
func (c *Call) takeOut(args []value.Value, kwargs *value.Dict) (*value.Dict, error) {
	if kwargs == nil {
		kwargs = &value.Dict{}
	}
	at := slices.IndexFunc(kwargs.Items, func(it value.Item) bool { return it.Key == value.Value("out") })
	param := slices.IndexFunc(c.Entry.Schema.Params, func(p Param) bool { return p.Name == "out" })
	switch {
	case param >= 0 && c.Entry.Schema.Params[param].Type.Base != "Out":
		return kwargs, nil
	case at >= 0:
		rest := slices.Delete(slices.Clone(kwargs.Items), at, at+1)
		return &value.Dict{Class: kwargs.Class, Items: rest}, c.writeTo(kwargs.Items[at].Value)
	case param >= 0 && param < len(args):
		return kwargs, c.writeTo(args[param])
	}
	return kwargs, nil
}

// writeTo notes the tensor, or the tensors, that results are written to.
func (c *Call) writeTo(v value.Value) error {
	switch v := v.(type) {
	case nil:
	case *tensor.Tensor:
		c.out = []*tensor.Tensor{v}
	case *value.Sequence:
		for _, it := range v.Items {
			t, ok := it.(*tensor.Tensor)
			if !ok {
				return Refuse("out", "want tensors, got %s", TypeName(it))
			}
			c.out = append(c.out, t)
		}
	default:
		return Refuse("out", "want a tensor, got %s", TypeName(v))
	}
	return nil
}

func (c *Call) inplaceFlag() bool {
	for i, p := range c.Entry.Schema.Params {
		if p.Name == "inplace" && c.Entry.setters[i].field != nil {
			b, ok := reflect.ValueOf(c.args).Elem().FieldByIndex(c.Entry.setters[i].field).Interface().(bool)
			return ok && b
		}
	}
	return false
}

// Random says why the values of the results cannot be compared, "" where they
// can or the call is refused.
func (c *Call) Random() string {
	if c.Plan() != nil {
		return ""
	}
	return c.plan.random()
}

// ExactOut reports that what results are written to must have their dtype.
func (c *Call) ExactOut() bool {
	plan := c.sound()
	strict, ok := plan.plan.(Strict)
	return plan.ExactOut || ok && strict.ExactOut()
}

// Args is the bound argument struct, a pointer to the op's argument type.
func (c *Call) Args() any { return c.args }

// An Arg is a tensor among the arguments of a call.
type Arg struct {
	Name   string // schema name
	Index  int    // position in a list argument, -1 for a plain one
	Tensor *tensor.Tensor
}

// String names the argument: "weight", "tensors[1]".
func (a Arg) String() string {
	if a.Index >= 0 {
		return fmt.Sprintf("%s[%d]", a.Name, a.Index)
	}
	return a.Name
}

// Tensors returns the tensor arguments in schema order, list items in order,
// absent ones left out. Python numbers are not included.
func (c *Call) Tensors() []Arg {
	return slices.DeleteFunc(c.tensors(), func(a Arg) bool { return a.Tensor == nil || a.Tensor.Wrapped })
}

// TensorArguments is the number of tensor arguments with absent ones and Python numbers that
// became tensors: an autograd node of torch gives each at most one gradient.
func (c *Call) TensorArguments() int { return len(c.tensors()) }

func (c *Call) tensors() []Arg {
	var out []Arg
	st := reflect.ValueOf(c.args).Elem()
	for i, p := range c.Entry.Schema.Params {
		if p.Type.Base != "Tensor" {
			continue
		}
		switch f := st.FieldByIndex(c.Entry.setters[i].field).Interface().(type) {
		case *tensor.Tensor:
			out = append(out, Arg{p.Name, -1, f})
		case []*tensor.Tensor:
			for k, t := range f {
				out = append(out, Arg{p.Name, k, t})
			}
		}
	}
	return out
}

// Map returns the call with every tensor argument (numbers that became 0-d
// tensors included) replaced by f of it; nil ones stay.
func (c *Call) Map(f func(Arg) *tensor.Tensor) *Call {
	p := reflect.New(c.Entry.op.argsType())
	p.Elem().Set(reflect.ValueOf(c.args).Elem())
	for i, prm := range c.Entry.Schema.Params {
		if prm.Type.Base != "Tensor" {
			continue
		}
		field := p.Elem().FieldByIndex(c.Entry.setters[i].field)
		switch v := field.Interface().(type) {
		case *tensor.Tensor:
			if v != nil {
				field.Set(reflect.ValueOf(f(Arg{prm.Name, -1, v})))
			}
		case []*tensor.Tensor:
			out := make([]*tensor.Tensor, len(v))
			for k, t := range v {
				if t != nil {
					out[k] = f(Arg{prm.Name, k, t})
				}
			}
			if v != nil {
				field.Set(reflect.ValueOf(out))
			}
		}
	}
	return c.with(p.Interface())
}

// with is the call with other arguments, which are planned anew.
func (c *Call) with(args any) *Call {
	d := *c
	d.args, d.prepared = args, &prepared{}
	return &d
}

// Without is the call without an argument, as if it were not given; nil if it has to be, if it is none, or if the call
// was bound.
func (c *Call) Without(name string) *Call {
	for i, p := range c.Entry.Schema.Params {
		if p.Name != name || p.Required || c.bound != nil || c.Entry.setters[i].field == nil {
			continue
		}
		to := reflect.New(c.Entry.op.argsType())
		to.Elem().Set(reflect.ValueOf(c.args).Elem())
		to.Elem().FieldByIndex(c.Entry.setters[i].field).Set(c.Entry.setters[i].def)
		return c.with(to.Interface())
	}
	return nil
}

// magnitudes is the call on the magnitudes of all its tensors and scalars.
func (c *Call) magnitudes() *Call {
	d := c.Map(func(a Arg) *tensor.Tensor { return Abs(a.Tensor) }).MapScalars(Scalar.Abs)
	d.written, d.out = nil, nil
	return d
}

// A Forward is the result of a call.
type Forward struct {
	// Value is the Python value torch returns: a tensor, a tuple of tensors, or
	// what the plan's Value gave.
	Value value.Value
	// Outs are the result tensors, nil for ops that return none.
	Outs []*tensor.Tensor
	// After are the new values of arguments changed but not returned.
	After map[string][]*tensor.Tensor
	// Written reports that Outs replace self (in-place) or out=.
	Written bool
}

// Sources are the tensors whose gradients a backward pass starts from: the results, or
// what became of self where there are none.
func (f *Forward) Sources() []*tensor.Tensor {
	if f.Outs == nil {
		return f.After["self"]
	}
	return f.Outs
}

// Forward runs the kernel. A refusal is a *RefusedError. Panics of kernels and
// of storage reads (*tensor.ReadError) are the caller's to recover.
func (c *Call) Forward() (*Forward, error) {
	e := c.Entry
	if err := c.Plan(); err != nil {
		return nil, err
	}
	if c.plan.Kernel == nil {
		v, err := c.plan.plan.(Valued).Value()
		if err != nil {
			return nil, e.refused(err)
		}
		f := &Forward{Value: v}
		if f.After, err = c.plan.after(nil); err != nil {
			return nil, e.refused(err)
		}
		return f, nil
	}
	outs, err := c.plan.kernel()
	if err != nil {
		return nil, e.refused(err)
	}
	for _, t := range outs {
		if err := tensor.CheckSize(t.Shape); err != nil && !e.View {
			return nil, e.refused(Refuse("", "the result: %v", err))
		}
	}
	for i, t := range outs { // error bounds and gradients are often functions of the result
		outs[i] = tensor.Memo(t)
	}
	f := &Forward{Outs: outs}
	targets := c.out
	if c.written != nil {
		targets = []*tensor.Tensor{c.written}
	}
	if targets != nil {
		f.Written = true
		if f.Outs, err = c.write(outs, targets); err != nil {
			return nil, e.refused(err)
		}
	}
	if f.After, err = c.plan.after(f.Outs); err != nil {
		return nil, e.refused(err)
	}
	absent := e.Schema.absent(len(f.Outs))
	if len(f.Outs) == 1 && absent == 0 {
		f.Value = f.Outs[0]
		return f, nil
	}
	t := value.NewTuple()
	for _, o := range f.Outs {
		t.Items = append(t.Items, o)
	}
	t.Items = append(t.Items, make([]value.Value, absent)...)
	f.Value = t
	return f, nil
}

// write gives results the dtype of the tensors they are written to, after
// torch's checks.
func (c *Call) write(outs, targets []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if len(targets) > len(outs) {
		return nil, Refuse("out", "want %d tensors, got %d", len(outs), len(targets))
	}
	res := slices.Clone(outs)
	for i, dst := range targets {
		o := outs[i]
		arg := "out"
		if c.written != nil {
			arg = c.Entry.Schema.Params[0].Name
			if !slices.Equal(o.Shape, dst.Shape) && !c.Entry.Resizes {
				return nil, Refuse(arg, "shape %s does not hold the result's shape %s", tensor.ShapeString(dst.Shape),
					tensor.ShapeString(o.Shape))
			}
		}
		if slices.Equal(o.Shape, dst.Shape) && !dst.IsWrittenOnce() { // an out= of another shape is resized first
			return nil, Refuse(arg, "several elements share one memory location: clone the tensor before writing to it")
		}
		if o.DType != dst.DType && c.ExactOut() {
			return nil, Refuse(arg, "want dtype %s, got %s", o.DType, dst.DType)
		}
		if !tensor.CanCast(o.DType, dst.DType) {
			return nil, Refuse(arg, "a result of dtype %s cannot be written to dtype %s", o.DType, dst.DType)
		}
		res[i] = Cast(o, dst.DType)
	}
	return res, nil
}

// Backward computes the gradients of the arguments that need one, as unrounded
// values in the argument's dtype. out are the gradients of the results, nil
// where none flowed.
func (c *Call) Backward(f *Forward, out []*tensor.Tensor, need map[string]bool) (Grads, error) {
	return c.backward(NewGrad(c.outs(f), out, need))
}

func (c *Call) backward(g *Grad) (Grads, error) {
	if !c.Entry.HasGrad {
		return nil, fmt.Errorf("op %s: no gradient: %s", c.Entry.Op(), c.Entry.NoGrad)
	}
	if err := c.Plan(); err != nil {
		return nil, err
	}
	for _, t := range g.Out {
		if t == nil {
			continue
		}
		if err := tensor.CheckSize(t.Shape); err != nil {
			return nil, c.Entry.refused(Refuse("", "gradient of the result: %v", err))
		}
	}
	for _, a := range c.Tensors() {
		if err := tensor.CheckSize(a.Tensor.Shape); err != nil && g.Need(a.Name) {
			return nil, c.Entry.refused(Refuse(a.Name, "gradient: %v", err))
		}
	}
	grads, err := c.plan.Grad(c.plan.p, g)
	if err != nil {
		return nil, c.Entry.refused(err)
	}
	byArg := map[string][]*tensor.Tensor{}
	for _, a := range c.tensors() {
		byArg[a.Name] = append(byArg[a.Name], a.Tensor)
	}
	for name, ts := range maps.All(grads) {
		args := byArg[name]
		if len(args) != len(ts) {
			return nil, fmt.Errorf("op %s: %d gradients for argument %q of %d tensors", c.Entry.Op(), len(ts),
				name, len(args))
		}
		for i, t := range ts {
			if t == nil {
				continue
			}
			if !slices.Equal(t.Shape, args[i].Shape) {
				return nil, fmt.Errorf("op %s: gradient of %q has shape %s, argument %s", c.Entry.Op(), name,
					tensor.ShapeString(t.Shape), tensor.ShapeString(args[i].Shape))
			}
			ts[i] = Cast(t, args[i].DType)
		}
	}
	return grads, nil
}

// Node computes what op_tools saved as grad_inputs for ops whose last autograd
// node is another's; ok is false where the gradients are the arguments' own.
func (c *Call) Node(f *Forward, out []*tensor.Tensor) (n Node, ok bool, err error) {
	return c.node(NewGrad(c.outs(f), out, nil))
}

func (c *Call) node(g *Grad) (n Node, ok bool, err error) {
	if err := c.Plan(); err != nil {
		return Node{}, false, err
	}
	if c.plan.Node == nil {
		return Node{}, false, nil
	}
	if n, err = c.plan.Node(c.plan.p, g); err != nil {
		return Node{}, false, c.Entry.refused(err)
	}
	return n, n.Skip != "" || n.Grads != nil || n.Else != nil, nil
}

// outs are the results a gradient starts from: those of f, save recorded ones
// that Accept found right, since gradients go where the recorded indices point.
func (c *Call) outs(f *Forward) []*tensor.Tensor {
	if len(c.accepted) != len(f.Outs) {
		return f.Outs
	}
	outs := slices.Clone(f.Outs)
	for i, t := range c.accepted {
		if t != nil {
			outs[i] = t
		}
	}
	return outs
}

// From is the call with gradients that start from the results recorded instead of the
// exact ones: autograd keeps results as they were rounded. Of nil the exact one is
// kept.
func (c *Call) From(recorded []*tensor.Tensor) *Call {
	d := *c
	d.accepted, d.given = recorded, true
	return &d
}

// ReadsResults reports whether gradients of the call read its results, and their bounds say how much of what they are
// off by follows from those.
func (c *Call) ReadsResults() bool {
	_, reads := c.sound().plan.(ReadsResults)
	return reads
}

// Accept asks the op about results that differ; ok is false if it has no rule.
// Gradients computed afterwards start from the recorded results it accepts.
func (c *Call) Accept(got, want []*tensor.Tensor) (as []Acceptance, ok bool) {
	choosy, _ := c.sound().plan.(Choosy)
	if choosy == nil {
		return nil, false
	}
	if as = choosy.Accept(got, want); as == nil {
		return nil, false
	}
	c.accepted = make([]*tensor.Tensor, len(got))
	for i, a := range as {
		if a.OK {
			c.accepted[i] = got[i]
		}
	}
	return as, true
}

// Drawn judges the recorded results of a call that draws random numbers.
func (c *Call) Drawn(got []*tensor.Tensor) Drawn {
	if judging, ok := c.sound().plan.(Judging); ok {
		return judging.Drawn(got)
	}
	return Drawn{}
}

// DrawnGrads judges the recorded gradients of a call that draws random numbers, whose
// recorded results are outs and have the gradients out.
func (c *Call) DrawnGrads(outs, out []*tensor.Tensor, got Grads) Drawn {
	if judging, ok := c.sound().plan.(GradJudging); ok {
		return judging.DrawnGrads(NewGrad(outs, out, nil), got)
	}
	return Drawn{}
}

// With is the call with another plan: one that says what was drawn, or has a mistake.
func (c *Call) With(plan func() (any, error)) (*Call, error) {
	p, err := c.plan.made(plan)
	if err != nil {
		return nil, err
	}
	d := *c
	d.prepared = &prepared{plan: p}
	d.once.Do(func() {})
	return &d, nil
}

// Bound is the error model of one result or gradient.
type Bound struct {
	Class Class
	ULPs  float64
	Terms int
	// Coarse: S counts the roundoff of the dtype itself; Shared: elements have a rounded
	// factor in common; Covers: S is at least the magnitude of the result. See Error.
	Coarse, Shared, Covers bool
	Operand                tensor.DType // see Error
	Factors                bool         // see Error
	// Scale computes S, of the result's shape; nil where the class needs none. Least computes, for a
	// fraction of the work, what is nowhere more than S; nil where there is nothing of the kind.
	// LeastShare is about what share of S that is; 0: not known.
	Scale, Least func() *tensor.Tensor
	LeastShare   float64
	// Else computes other results that are as right, and Chain the sums of the
	// magnitudes of partial sums, of the result's shape; nil, or of Chain a nil tensor, where
	// there are none. See Either and Chained.
	Else  func() []*tensor.Tensor
	Chain func() *tensor.Tensor
	Steps bool // see Traits
	// OtherDType is another dtype that is as right; Invalid: there is none.
	OtherDType tensor.DType
}

// Single reports whether elements are functions of one element of each argument.
func (b Bound) Single() bool { return b.Terms <= 1 && (b.Class == Elementwise || b.Class == Rounded) }

// Flops is how many floating-point operations the call takes: two per
// multiply-add of a product, none where values are moved, selected or compared,
// else one per element of the largest tensor.
func (c *Call) Flops(f *Forward) float64 {
	if costly, ok := c.sound().plan.(Costly); ok && len(f.Outs) > 0 {
		if n := costly.Products(); n > 0 {
			return 2 * n * float64(f.Outs[0].Numel())
		}
	}
	if c.sound().errorClass().Class == Exact {
		return 0
	}
	n := 0
	for _, a := range c.Tensors() {
		n = max(n, a.Tensor.Numel())
	}
	for _, t := range f.Outs {
		n = max(n, t.Numel())
	}
	return float64(n)
}

// OutBound is the error model of result i of f.
func (c *Call) OutBound(f *Forward, i int) Bound {
	plan := c.sound()
	b := plan.errorClass().bound()
	b.Terms = plan.terms()
	switch {
	case !f.Outs[i].DType.IsFloat() && !f.Outs[i].DType.IsComplex():
		b = Bound{Class: Exact}
	case plan.Scale != nil:
		b.Scale = func() *tensor.Tensor { return plan.Scale(plan.p, f.Outs)[i] }
		if l, ok := plan.plan.(Least); ok {
			if all := l.Least(f.Outs); all != nil {
				b.Least = func() *tensor.Tensor { return all[i] }
			}
		}
	case b.Class == Accumulated:
		b.Scale = func() *tensor.Tensor {
			return Abs(Must(c.magnitudes().sound().kernel())[i])
		}
		b.Least, b.LeastShare = c.someTerms(func(a *Axes) []int { return a.Out }, nil, nil,
			func(m *Call, _, _ []*tensor.Tensor) *tensor.Tensor { return Abs(Must(m.sound().kernel())[i]) })
	case b.Class == Normwise:
		b.Scale = func() *tensor.Tensor { return largest(f.Outs[i]) }
	}
	if either, ok := plan.plan.(Either); ok {
		b.Else = func() []*tensor.Tensor { return at(either.Else(f.Outs), i) }
	}
	if typed, ok := plan.plan.(Typed); ok {
		b.OtherDType = typed.OtherDType(i)
	}
	if chained, ok := plan.plan.(ChainedResults); ok {
		if dt, sums := chained.Chain(i); sums != nil {
			b.Operand, b.Chain = dt, sums
		}
	}
	if renewing, ok := plan.plan.(Renewing); ok && renewing.Renewed(i) {
		b.Shared = true
	}
	b.Steps = plan.Steps
	return b
}

// at is item i, nothing where there is none.
func at[T any](items []T, i int) (item T) {
	if i < len(items) {
		item = items[i]
	}
	return item
}

// OutError is the error class of the results. The call must have a plan.
func (c *Call) OutError() Error { return c.sound().errorClass() }

// GradError is the error class of the gradients of arguments. The call must have a plan.
func (c *Call) GradError() Error { return c.sound().errorClass().grad() }

// GradBound is the error model of the gradient of item i (0 for a plain
// argument) of an argument.
func (c *Call) GradBound(f *Forward, out []*tensor.Tensor, grads Grads, arg string, i int) Bound {
	plan := c.sound()
	b := plan.errorClass().grad().bound()
	t := grads[arg][i]
	b.Terms = max(plan.gradTerms(arg), spread(t, out))
	from := func() *Grad { return NewGrad(c.outs(f), out, map[string]bool{arg: true}) }
	reads, _ := plan.plan.(ReadsResults)
	switch {
	case reads != nil && c.given:
		b.Scale = func() *tensor.Tensor { return at(reads.ReadScale(from())[arg], i) }
	case plan.GradScale != nil:
		b.Scale = func() *tensor.Tensor {
			if s := at(Must(plan.GradScale(plan.p, from(), grads))[arg], i); s != nil {
				return s
			}
			return largest(t)
		}
		if l, ok := plan.plan.(GradLeast); ok {
			if all := Must(l.GradLeast(from())); all != nil {
				b.Least = func() *tensor.Tensor { return at(all[arg], i) }
			}
		}
	case b.Class == Accumulated:
		b.Scale = func() *tensor.Tensor {
			m, outs := c.gradMagnitudes(f)
			return Abs(Must(m.backward(NewGrad(outs, absAll(out), map[string]bool{arg: true})))[arg][i])
		}
		labels := func(a *Axes) []int { return a.Of(Arg{Name: arg, Index: i}) }
		b.Least, b.LeastShare = c.someTerms(labels, c.outs(f), out,
			func(m *Call, outs, out []*tensor.Tensor) *tensor.Tensor {
				return Abs(Must(m.backward(NewGrad(outs, out, map[string]bool{arg: true})))[arg][i])
			})
	case b.Class == Normwise:
		b.Scale = func() *tensor.Tensor { return largest(t) }
	}
	b.Steps = plan.Steps
	if either, ok := plan.plan.(GradEither); ok {
		b.Else = func() (ts []*tensor.Tensor) {
			for _, gr := range Must(either.GradElse(from())) {
				if t := at(gr[arg], i); t != nil {
					ts = append(ts, t)
				}
			}
			return ts
		}
	}
	if chained, ok := plan.plan.(Chained); ok {
		b.Chain = func() *tensor.Tensor { return at(Must(chained.GradChain(from()))[arg], i) }
	}
	return b
}

// gradMagnitudes are the call and the results of it whose gradients, of the magnitudes of those of results, are S: on
// magnitudes of all arguments, but of what is exact on the arguments themselves, which only say where elements go.
func (c *Call) gradMagnitudes(f *Forward) (*Call, []*tensor.Tensor) {
	if c.sound().errorClass().Class == Exact {
		return c, c.outs(f)
	}
	return c.magnitudes(), absAll(c.outs(f))
}

// spread is the number of elements of a result, whose gradients are out, for each of
// an argument with gradient t: the terms that broadcasting adds.
func spread(t *tensor.Tensor, out []*tensor.Tensor) int {
	n := 0
	for _, g := range out {
		if g != nil {
			n = max(n, g.Numel())
		}
	}
	return n / max(t.Numel(), 1)
}

// NodeBound is the error model of gradient i of the node that Node found for
// the results of f and their gradients out.
func (c *Call) NodeBound(f *Forward, out []*tensor.Tensor, node Node, i int) Bound {
	class := c.sound().errorClass().grad()
	b := class.bound()
	t := node.Grads[i]
	b.Terms = max(c.plan.gradTerms(""), spread(t, out))
	switch {
	case node.Scale != nil:
		b.Scale = func() *tensor.Tensor { return node.Scale()[i] }
	case b.Class == Accumulated && c.plan.GradScale == nil:
		b.Scale = func() *tensor.Tensor {
			m, outs := c.gradMagnitudes(f)
			n, _, err := m.node(NewGrad(outs, absAll(out), nil))
			return Abs(Must(n, err).Grads[i])
		}
		if i < len(node.Axes) {
			b.Least, b.LeastShare = c.someTerms(func(*Axes) []int { return node.Axes[i] }, c.outs(f), out,
				func(m *Call, outs, out []*tensor.Tensor) *tensor.Tensor {
					n, _, err := m.node(NewGrad(outs, out, nil))
					return Abs(Must(n, err).Grads[i])
				})
		}
	default:
		b.Scale = func() *tensor.Tensor { return largest(t) }
	}
	return b
}

// Must is the result of a computation that cannot fail, because its arguments were
// checked before: an error contradicts the declaration of the operator. The panic
// is its caller's to recover, like those of kernels.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Errorf("of checked arguments: %w", err))
	}
	return v
}

func absAll(ts []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			out[i] = Abs(t)
		}
	}
	return out
}

// largest is the tensor of t's shape filled with its largest finite magnitude.
func largest(t *tensor.Tensor) *tensor.Tensor {
	return tensor.Full(tensor.Float64, t.Shape, MaxAbs(t))
}
