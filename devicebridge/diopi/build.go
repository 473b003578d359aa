package diopi

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const prefix = "diopi"

// bindings fill the C parameters that are not named like an argument. A string
// names the argument, the saved value or the tensor an earlier call wrote;
// "" is null; a func(*build) any computes; a grad makes the gradient of an
// argument; anything else is a constant.
type bindings map[string]any

// An out makes what a forward call writes through one parameter: a *Tensor, a
// Tensors, or nil for a null handle.
type out struct {
	rule func(b *build) any
	aux  bool // kept for the backward calls, not a result of the function
}

// A grad is the gradient of an argument, shaped like it unless rule says otherwise.
type grad struct {
	of   string
	rule func(b *build) any
	sum  bool // it has the shape to which the argument is broadcast
}

// A build is a plan being made. Rules and bindings report what is wrong with
// the arguments through fail.
type build struct {
	c       *Case
	r       *Recipe
	plan    *Plan
	phase   Phase
	args    map[string]any // by keyword: *Tensor, Tensors, Size or a value.Value
	written map[string]Arg // by C parameter: what forward calls wrote
	grads   []*Tensor
	gen     *Generator
	added   map[string][]int // by argument: where unsqueeze added dimensions, in order
}

// planError carries what fail reports to run.
type planError struct{ error }

// fail ends the planning.
func (b *build) fail(format string, a ...any) {
	panic(planError{fmt.Errorf(format, a...)})
}

// newBuild turns the arguments of c into tensors of the device and values.
func newBuild(r *Recipe, c *Case) (*build, error) {
	params, err := r.parameters()
	if err != nil {
		return nil, err
	}
	b := &build{c: c, r: r, plan: &Plan{}, args: map[string]any{}, written: map[string]Arg{}}
	b.gen = cmp.Or(c.Generator, &Generator{})
	if c.Args != nil {
		for _, it := range c.Args.Items {
			name, ok := it.Key.(string)
			if !ok || !slices.ContainsFunc(params, func(p param) bool { return p.name == name || p.rest }) {
				return nil, fmt.Errorf("no argument is named %s", value.Str(it.Key))
			}
			if b.args[name], err = b.argument(name, it.Value); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range params {
		if _, ok := b.args[p.name]; !ok && !p.rest {
			if !p.optional {
				return nil, fmt.Errorf("argument %s is missing", p.name)
			}
			b.args[p.name] = p.value
		}
	}
	return b, nil
}

// argument is what the value of a keyword becomes on the device.
func (b *build) argument(name string, v value.Value) (any, error) {
	switch v := v.(type) {
	case *Tensor:
		t := *v
		t.Role = name
		return &t, nil
	case *tensor.Tensor:
		return b.given(name, v, slices.Contains(b.c.Sparse, name))
	case *value.Sequence:
		if name == "index" || !slices.ContainsFunc(v.Items, isTensor) { // an index may mix tensors and numbers
			return v, nil
		}
		list := make(Tensors, len(v.Items))
		for i, it := range v.Items {
			switch it := it.(type) {
			case nil:
			case *tensor.Tensor:
				t, err := b.given(fmt.Sprintf("%s[%d]", name, i), it, false)
				if err != nil {
					return nil, err
				}
				list[i] = t
			default:
				return nil, fmt.Errorf("%s mixes tensors and other values", name)
			}
		}
		return list, nil
	}
	return v, nil
}

func isTensor(v value.Value) bool { _, ok := v.(*tensor.Tensor); return ok }

// given is the tensor of the device that holds an argument.
func (b *build) given(role string, t *tensor.Tensor, sparse bool) (*Tensor, error) {
	d := &Tensor{Role: role, DType: t.DType, Shape: t.Shape, Stride: t.Stride, Value: t}
	if sparse {
		if len(t.Shape) != 2 || !t.DType.IsFloat() {
			return nil, fmt.Errorf("%s must be a floating-point matrix to be sparse, got %s", role, t.Meta())
		}
		d.CSR = compress(role, t)
	}
	return d, nil
}

// run plans the calls that are wanted.
func (b *build) run() (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case planError:
			err = e.error
		default:
			panic(e)
		}
	}()
	if b.r.prepare != nil {
		b.r.prepare(b)
	}
	if b.c.OnlyInPlace {
		return b.runInPlace()
	}
	b.phase = Forward
	if b.r.forward != nil {
		b.r.forward(b)
	} else {
		b.callForward(b.r.fwd)
	}
	if len(b.c.RequiresGrad) > 0 {
		if !b.r.HasBackward() {
			return errors.New("there is no backward function")
		}
		b.phase = Backward
		b.cotangents()
		if b.r.backward != nil {
			b.r.backward(b)
		} else {
			b.callBackward()
		}
	}
	if b.c.InPlace {
		return b.runInPlace()
	}
	return nil
}

func (b *build) runInPlace() error {
	if !b.r.HasInPlace() {
		return errors.New("there is no in-place function")
	}
	b.phase = InPlace
	if b.r.inplace != nil {
		b.r.inplace(b)
	} else {
		b.callInPlace()
	}
	return nil
}

// callForward plans the one forward call; its outs are the results.
func (b *build) callForward(candidates string) {
	f := b.choose(candidates, b.r.bind)
	outs := b.r.outs
	set := map[string]Arg{}
	for _, p := range f.Params {
		if _, bound := b.r.bind[p.Name]; bound {
			continue
		}
		switch {
		case p.Kind == KindTensorPtr:
			a := &Alloc{Role: fmt.Sprintf("out%d", len(b.plan.Outputs))}
			set[p.Name] = a
			b.written[p.Name] = a
			b.plan.Outputs = append(b.plan.Outputs, a)
		case returnsPlain(p.Kind):
			o := &Out{Role: p.Name}
			set[p.Name] = o
			b.plan.Outputs = append(b.plan.Outputs, o)
		case p.Kind == KindTensorOut || p.Kind == KindArrayOut:
			if len(outs) == 0 {
				b.fail("no rule for %s of %s", p.Name, f.Name)
			}
			set[p.Name] = b.make(outs[0])
			b.written[p.Name] = set[p.Name]
			outs = outs[1:]
		}
	}
	b.invoke(f, b.r.bind, set)
	for _, name := range fields(b.r.returns) {
		b.returnArgument(name)
	}
}

// returnArgument makes an argument the next results.
func (b *build) returnArgument(name string) {
	switch v := b.args[name].(type) {
	case *Tensor:
		b.plan.Outputs = append(b.plan.Outputs, v)
	case Tensors:
		for _, t := range v {
			b.plan.Outputs = append(b.plan.Outputs, t)
		}
	case nil:
		b.plan.Outputs = append(b.plan.Outputs, nil)
	default:
		b.fail("%s must be a tensor, got %s", name, describe(v))
	}
}

// make makes what o says, and keeps it as a result unless it is auxiliary.
func (b *build) make(o out) Arg {
	switch v := o.rule(b).(type) {
	case *Tensor:
		if v == nil {
			return nil
		}
		if !o.aux {
			b.result(v)
		}
		return v
	case Tensors:
		for _, t := range v {
			b.result(t)
		}
		return v
	}
	return nil
}

// result makes t the next result of the function, of the dtype and shape that
// are known of it.
func (b *build) result(t *Tensor) {
	i := len(b.plan.Outputs)
	if i < len(b.c.Outputs) {
		m := b.c.Outputs[i]
		if !slices.Equal(t.Shape, m.Shape) {
			t.Shape, t.Stride = m.Shape, nil
		}
		t.DType = m.DType
	}
	t.Role = fmt.Sprintf("out%d", i)
	b.plan.Outputs = append(b.plan.Outputs, t)
}

// callBackward plans the one backward call; its outputs are gradients.
func (b *build) callBackward() {
	f := b.choose(b.r.bwd, b.r.gbind)
	set := map[string]Arg{}
	for _, p := range f.Params {
		if p.Kind != KindTensorOut {
			continue
		}
		g, ok := b.r.gbind[p.Name].(grad)
		if !ok {
			g.of = strings.TrimPrefix(p.Name, "grad_")
		}
		set[p.Name] = b.gradient(g)
	}
	b.invoke(f, b.r.gbind, set)
}

// gradient is memory for the gradient of an argument, one of the plan's
// gradients if it is wanted; nil if the argument is None.
func (b *build) gradient(g grad) Arg {
	t, _ := b.args[g.of].(*Tensor)
	if t == nil {
		return nil
	}
	d := rawLike(t)
	if g.rule != nil {
		d = g.rule(b).(*Tensor)
	}
	d.Role = "grad_" + g.of
	if slices.Contains(b.c.RequiresGrad, g.of) {
		var sum []int
		if g.sum {
			sum = t.Shape
		}
		b.plan.Grads = append(b.plan.Grads, Grad{Name: g.of, Arg: d, Sum: sum})
	}
	return d
}

// cotangents sets the gradients of the results.
func (b *build) cotangents() {
	which := b.c.RequiresBackward
	if len(which) == 0 {
		for i := range b.plan.Outputs {
			which = append(which, i)
		}
	}
	given := b.c.GradOutputs
	for n, i := range which {
		role := fmt.Sprintf("grad_outputs[%d]", n)
		if n < len(given) {
			if given[n] == nil {
				b.grads = append(b.grads, nil)
				continue
			}
			t, _ := b.given(role, given[n], false)
			b.grads = append(b.grads, t)
			continue
		}
		var t *Tensor
		if i < len(b.plan.Outputs) {
			t, _ = b.plan.Outputs[i].(*Tensor)
		}
		if t == nil && i < len(b.c.Outputs) {
			t = newTensor(b.c.Outputs[i].DType, b.c.Outputs[i].Shape)
		}
		if t == nil {
			b.fail("the shape of result %d is not known before the call: its gradient must be given", i)
		}
		b.grads = append(b.grads, &Tensor{Role: role, DType: t.DType, Shape: t.Shape, Stride: t.Stride,
			Value: ones(Meta{t.DType, t.Shape})})
	}
}

// ones takes the memory of one element.
func ones(m Meta) *tensor.Tensor {
	switch m.DType.Kind() {
	case tensor.KindFloat:
		return tensor.Full(m.DType, m.Shape, 1.0)
	case tensor.KindComplex:
		return tensor.Full(m.DType, m.Shape, complex(1, 0))
	}
	return tensor.Full(m.DType, m.Shape, int64(1))
}

// callInPlace plans the in-place call; its result is the first tensor it writes.
func (b *build) callInPlace() {
	f := b.choose(b.r.inp, b.r.bind)
	call := b.invoke(f, b.r.bind, nil)
	for _, p := range f.Params {
		if p.Kind == KindTensorInOut {
			b.plan.InPlace = call.Args[p.Name]
			return
		}
	}
}

// lookup finds what fills a parameter, and the keyword it comes from if it
// comes from one.
func (b *build) lookup(name string, bind bindings) (v any, keyword string) {
	if x, ok := bind[name]; ok {
		switch x := x.(type) {
		case string:
			if x == "" {
				return nil, ""
			}
			name = x
		case func(*build) any:
			return x(b), ""
		default:
			return x, ""
		}
	}
	if b.phase == Backward {
		switch name {
		case "grad_output", "grad_out", "grad":
			return b.cotangent(0), ""
		}
		if i, ok := b.c.SavedArgs[name]; ok {
			if i < 0 || i >= len(b.plan.Outputs) {
				b.fail("saved argument %s is result %d of %d", name, i, len(b.plan.Outputs))
			}
			return b.plan.Outputs[i], ""
		}
	}
	if v, ok := b.args[name]; ok {
		return v, name
	}
	return b.written[name], ""
}

// cotangent is the gradient of the i-th result that has one, nil if there is none.
func (b *build) cotangent(i int) Arg {
	if i < len(b.grads) && b.grads[i] != nil {
		return b.grads[i]
	}
	return nil
}

// choose picks the C function for the arguments: of those that accept them all,
// the one that leaves fewest unused, the first if several do.
func (b *build) choose(candidates string, bind bindings) *Function {
	names := fields(candidates)
	if len(names) == 1 {
		return b.function(names[0])
	}
	var best *Function
	least := math.MaxInt
	for _, name := range names {
		f := b.function(name)
		used, fits := map[string]bool{}, true
		for _, p := range f.Params {
			if supplied(p.Kind) {
				continue
			}
			v, keyword := b.lookup(p.Name, bind)
			used[keyword] = true
			fits = fits && accepts(p.Kind, v)
		}
		unused := 0
		for k, v := range b.args {
			if v != nil && !used[k] {
				unused++
			}
		}
		if fits && unused < least {
			best, least = f, unused
		}
	}
	if best == nil {
		b.fail("none of %s takes these arguments", prefix+strings.Join(names, ", "+prefix))
	}
	return best
}

// function looks a declared C function up.
func (b *build) function(name string) *Function {
	f, ok := Lookup(prefix + name)
	if !ok {
		b.fail("%s%s is not a function of the interface", prefix, name)
	}
	return f
}

// supplied says that no argument fills parameters of this kind.
func supplied(k Kind) bool {
	p, _ := k.Passing()
	return p.result
}

// returnsPlain says that the callee returns a plain result through a pointer.
func returnsPlain(k Kind) bool {
	p, _ := k.Passing()
	return p.result && p.Form == FormOut
}

// call plans a call of a C function besides the main one; set fills parameters
// by their C name, the others come from bind and the arguments.
func (b *build) call(name string, bind bindings, set map[string]Arg) {
	b.invoke(b.function(name), bind, set)
}

// invoke appends a call of f.
func (b *build) invoke(f *Function, bind bindings, set map[string]Arg) *Call {
	if !slices.Contains(b.r.Functions(), f.Name) {
		b.fail("the recipe does not declare %s", f.Name)
	}
	c := &Call{Phase: b.phase, Function: f.Name, Args: map[string]Arg{}}
	lengths := map[string]int{} // of arrays, by the parameters that pass them
	for _, p := range f.Params {
		if p.Count != "" {
			lengths[p.Count] = 0
		}
	}
	for _, p := range f.Params {
		if _, isLength := lengths[p.Name]; isLength || p.Kind == KindContext {
			continue
		}
		a, ok := set[p.Name]
		if !ok {
			if _, bound := bind[p.Name]; !bound && p.Kind == KindGenerator {
				a = b.gen
			} else {
				v, _ := b.lookup(p.Name, bind)
				a = b.convert(f, p, v)
			}
		}
		if list, ok := a.(Tensors); ok && p.Count != "" {
			lengths[p.Count] = len(list)
		}
		c.Args[p.Name] = a
	}
	for name, n := range lengths {
		c.Args[name] = Integer(n)
	}
	c.describe()
	b.plan.Calls = append(b.plan.Calls, c)
	return c
}
