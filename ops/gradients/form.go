package gradients

import (
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A form declares an operator of the dispatcher by a call of another operator. It gives the results of that call, or
// the gradients of its arguments. Values, bounds and others that are as right are those of the call.
type form struct {
	schema string // of ATen, or of the library that it begins with: torchvision::NAME(...)
	// call is the other operator with its arguments: names of arguments of the schema, words in quotes, numbers,
	// None, True and False. NAME=... is a keyword. zeros(NAME) is a tensor of that shape: only the shape of an
	// argument is known where no gradient depends on its values.
	call string
	// of are the arguments of the call whose gradients are the results, separated by spaces. Empty: the operator
	// gives the results of the call. The first argument of the schema is the gradient of the first result of the
	// call.
	of string
	// origin makes the call where arguments must be converted; nil: call says it.
	origin func(a args) (origin, error)
	// rows are the arguments of the cases; nil where they would have to hold what the call computed.
	rows func(g opdef.Gen) [][]value.Value
}

// An origin is the call that a form is declared by.
type origin struct {
	name   string // of the operator that is called
	args   []value.Value
	kwargs *value.Dict
	of     []string // see form; "": the result is left out
	left   []int    // the shape of a result that is left out, of zeros; nil: it is empty
}

// result is a call that was bound and run.
type result struct {
	origin
	given   *opdef.Arguments
	up      *tensor.Tensor // the gradient of the first result of the call; nil: results are asked for
	call    *opdef.Call
	forward *opdef.Forward
	grads   opdef.Grads
}

// args are the arguments of an operator that a form declares.
type args struct{ *opdef.Arguments }

func (a args) any(name string) value.Value {
	v, ok := a.Named(name)
	if !ok {
		panic(opdef.Refuse(name, "no such argument"))
	}
	return v
}

func (a args) tensor(name string) *tensor.Tensor { t, _ := a.any(name).(*tensor.Tensor); return t }
func (a args) int(name string) int64             { n, _ := a.any(name).(int64); return n }
func (a args) bool(name string) bool             { b, _ := a.any(name).(bool); return b }

// ints are the numbers of a list.
func (a args) ints(name string) []int {
	var out []int
	if l, ok := a.any(name).(*value.Sequence); ok {
		for _, v := range l.Items {
			n, _ := v.(int64)
			out = append(out, int(n))
		}
	}
	return out
}

// up is the gradient that the operator is given.
func (a args) up() *tensor.Tensor { return a.tensor(a.Schema().Params[0].Name) }

// read makes the call that a form spells.
func (a args) read(call, of string) (o origin, err error) {
	name, list, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
	o = origin{name: name, kwargs: &value.Dict{}, of: strings.Fields(of)}
	for _, word := range strings.Split(list, ", ") {
		key, rest, keyword := strings.Cut(word, "=")
		if !keyword {
			rest = word
		}
		v, err := a.word(rest)
		switch {
		case err != nil:
			return o, err
		case keyword:
			o.kwargs.Items = append(o.kwargs.Items, value.Item{Key: key, Value: v})
		default:
			o.args = append(o.args, v)
		}
	}
	return o, nil
}

// word is the value of an argument of a call that a form spells.
func (a args) word(s string) (value.Value, error) {
	if shape, ok := strings.CutPrefix(s, "zeros("); ok {
		name := strings.TrimSuffix(shape, ")")
		return zeros(name, a.up(), a.ints(name))
	}
	switch s {
	case "None":
		return nil, nil
	case "True", "False":
		return s == "True", nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if text, err := strconv.Unquote(s); err == nil {
		return text, nil
	}
	return a.any(s), nil
}

// entry declares the operator; find is asked for the registry of the others when a call is bound.
func (f form) entry(find func() *opdef.Registry) *opdef.Entry {
	schema, library, source := f.schema, "aten", "aten/src/ATen/native/native_functions.yaml"
	if of, rest, ok := strings.Cut(schema, "::"); ok {
		schema, library, source = rest, of, of+"/csrc/ops"
	}
	name, _, _ := strings.Cut(schema, "(")
	name, _, _ = strings.Cut(name, ".") // of an overload
	other, _, _ := strings.Cut(f.call, "(")
	doc := opdef.Doc{Summary: "What " + other + " gives", Source: source}
	op := opdef.Planned[*opdef.Arguments, *result]{
		Schema: schema, Names: "torch.ops." + library + "." + name, Error: opdef.Error{Class: opdef.Normwise, ULPs: 4},
		Traits: opdef.Traits{Trivial: true, Steps: true},
		Plan:   func(a *opdef.Arguments) (*result, error) { return f.run(args{a}, find()) },
		Kernel: (*result).results,
		Bounds: opdef.Bounds[*result]{Terms: (*result).terms, Scale: (*result).scales},
	}
	if f.of != "" {
		doc.Summary = "Gradient of " + f.of + " of " + other
		doc.Notes = "A gradient that output_mask leaves out is empty, or None."
		op.NoGrad = "a gradient itself"
	} else if !strings.Contains(schema, "(Tensor") {
		op.NoGrad = "made from numbers"
	} else {
		op.Grad = func(r *result, g *opdef.Grad) (opdef.Grads, error) { return r.backward(g, false) }
		op.GradScale = func(r *result, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return r.backward(g, true)
		}
	}
	op.Doc = doc
	var e *opdef.Entry
	op.Cases = func(g opdef.Gen) (out []*opdef.Arguments) {
		if f.rows == nil {
			return nil
		}
		for _, row := range f.rows(g) {
			out = append(out, opdef.Must(e.Arguments(row, &value.Dict{})))
		}
		return out
	}
	e = op.Entry()
	return opdef.Must(opdef.AtRunTime(e))
}

// Accept decides as the call does, nothing on gradients.
func (r *result) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if r.up != nil {
		return nil
	}
	as, _ := r.call.Accept(got, want)
	return as
}

// run binds and runs the call.
func (f form) run(a args, find *opdef.Registry) (*result, error) {
	make := f.origin
	if make == nil {
		make = func(a args) (origin, error) { return a.read(f.call, f.of) }
	}
	o, err := make(a)
	if err != nil {
		return nil, err
	}
	if o.kwargs == nil {
		o.kwargs = &value.Dict{}
	}
	r := &result{origin: o, given: a.Arguments}
	if len(o.of) > 0 {
		r.up = a.up()
	}
	if r.call, err = find.Bind(o.name, o.args, o.kwargs); err != nil {
		return nil, err
	}
	if r.up == nil {
		r.forward, err = r.call.Forward()
		return r, err
	}
	return r, r.differentiate(a)
}

// Versions are those of the call.
func (r *result) Versions() (own string, others []opdef.Version[any]) {
	own, versions := r.call.Versions()
	for _, v := range versions {
		others = append(others, opdef.Version[any]{Text: v.Text, Plan: func() (any, error) {
			again := *r
			var err error
			switch again.call, err = v.Plan(); {
			case err != nil:
			case r.up == nil:
				again.forward, err = again.call.Forward()
			default:
				err = again.differentiate(args{r.given})
			}
			return &again, err
		}})
	}
	return own, others
}

// differentiate computes the gradients of the arguments that are asked for.
func (r *result) differentiate(a args) (err error) {
	for i, p := range a.Schema().Params {
		wanted, masked := a.At(i).([]bool)
		if !masked {
			continue
		}
		if len(wanted) != len(r.of) {
			return opdef.Refuse(p.Name, "want %d values, got %d", len(r.of), len(wanted))
		}
		r.of = slices.Clone(r.of)
		for i := range r.of {
			if !wanted[i] {
				r.of[i] = ""
			}
		}
	}
	need := map[string]bool{}
	for _, arg := range r.of {
		need[arg] = true
	}
	r.call = r.call.Map(func(a opdef.Arg) *tensor.Tensor {
		t := *a.Tensor
		t.RequiresGrad = need[a.Name]
		return &t
	})
	if r.forward, err = r.call.Forward(); err != nil {
		return err
	}
	if !slices.Equal(r.forward.Outs[0].Shape, r.up.Shape) {
		return opdef.Refuse("grad_output", "want shape %s, got %s", tensor.ShapeString(r.forward.Outs[0].Shape),
			tensor.ShapeString(r.up.Shape))
	}
	if !r.up.DType.IsFloat() && !r.up.DType.IsComplex() {
		return opdef.Refuse("grad_output", "want a floating dtype, got %s", r.up.DType)
	}
	r.grads, err = r.call.Backward(r.forward, r.seeds(), need)
	return err
}

// seeds are the gradients of the call's results.
func (r *result) seeds() []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(r.forward.Outs))
	out[0] = r.up
	return out
}

// grad is the gradient of the argument that result i is the gradient of; nil where there is none.
func (r *result) grad(i int) *tensor.Tensor {
	if ts := r.grads[r.of[i]]; len(ts) == 1 {
		return ts[0]
	}
	return nil
}

func (r *result) results() ([]*tensor.Tensor, error) {
	if r.up == nil {
		return slices.Clone(r.forward.Outs), nil
	}
	out := make([]*tensor.Tensor, len(r.of))
	for i := range r.of {
		switch out[i] = r.grad(i); {
		case out[i] == nil && r.left != nil:
			out[i] = tensor.Full(r.up.DType, r.left, 0.0)
		case out[i] == nil:
			out[i] = tensor.New(r.up.DType, []int{0}, []float64{})
		}
	}
	return out, nil
}

func (r *result) ErrorOf() opdef.Error {
	if r.up == nil {
		return r.call.OutError()
	}
	return r.call.GradError()
}

// bound is the error model of a result.
func (r *result) bound(i int) opdef.Bound {
	switch {
	case r.up == nil:
		return r.call.OutBound(r.forward, i)
	case r.grad(i) == nil:
		return opdef.Bound{}
	}
	return r.call.GradBound(r.forward, r.seeds(), r.grads, r.of[i], 0)
}

func (r *result) terms() int {
	n := 1
	for i := range max(len(r.of), len(r.forward.Outs)) {
		if i < len(r.of) || r.up == nil {
			n = max(n, r.bound(i).Terms)
		}
	}
	return n
}

func (r *result) scales(outs []*tensor.Tensor) []*tensor.Tensor {
	scales := make([]*tensor.Tensor, len(outs))
	for i := range outs {
		if b := r.bound(i); b.Scale != nil {
			scales[i] = b.Scale()
		} else {
			scales[i] = opdef.Abs(outs[i])
		}
	}
	return scales
}

func (r *result) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	others := make([][]*tensor.Tensor, len(outs))
	for i := range outs {
		if b := r.bound(i); b.Else != nil {
			others[i] = b.Else()
		}
	}
	return others
}

// backward are the gradients of the operator's arguments, or their scales: those of the tensors that the call has of
// them.
func (r *result) backward(g *opdef.Grad, scales bool) (opdef.Grads, error) {
	c := r.call.From(g.Outs)
	need := map[string]bool{}
	for _, t := range c.Tensors() {
		need[t.Name] = true
	}
	grads, err := c.Backward(r.forward, g.Out, need)
	if err != nil {
		return nil, err
	}
	gr := opdef.Grads{}
	for _, t := range c.Tensors() {
		ts := grads[t.Name]
		for i, p := range r.given.Schema().Params {
			if mine, ok := r.given.At(i).(*tensor.Tensor); !ok || mine != t.Tensor || len(ts) != 1 || ts[0] == nil {
				continue
			}
			d := ts[0]
			if b := c.GradBound(r.forward, g.Out, grads, t.Name, 0); scales && b.Scale != nil {
				d = b.Scale()
			} else if scales {
				d = opdef.Abs(d)
			}
			gr.Set(p.Name, d)
		}
	}
	return gr, nil
}

// zeros are what an operator was called with of which only the shape is known, since its gradient does not depend
// on the values.
func zeros(name string, like *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	if err := tensor.CheckSize(shape); err != nil {
		return nil, opdef.Refuse(name, "%v", err)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return nil, opdef.Refuse(name, "negative size in %s", tensor.ShapeString(shape))
	}
	return tensor.Full(like.DType, shape, 0.0), nil
}

// row are arguments of a case, Go's numbers and lists as Python's.
func row(vs ...any) []value.Value {
	out := make([]value.Value, len(vs))
	for i, v := range vs {
		switch v := v.(type) {
		case int:
			out[i] = int64(v)
		case []int:
			out[i] = list(v, func(n int) value.Value { return int64(n) })
		case []bool:
			out[i] = list(v, func(b bool) value.Value { return b })
		case []*tensor.Tensor:
			out[i] = list(v, func(t *tensor.Tensor) value.Value { return t })
		default:
			out[i] = v
		}
	}
	return out
}

// list is a list as Python has it.
func list[T any](vs []T, of func(T) value.Value) value.Value {
	l := value.NewList()
	for _, v := range vs {
		l.Items = append(l.Items, of(v))
	}
	return l
}
