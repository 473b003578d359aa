package gradients

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An origin is the call whose gradients an operator gives.
type origin struct {
	name   string        // of the operator that is called
	args   []value.Value // in the order of its schema
	kwargs *value.Dict
	up     *tensor.Tensor // the gradient of its first result
	of     []string       // the arguments whose gradients are the results; "": the result is left out
	left   []int          // the shape of a result that is left out, of zeros; nil: empty
}

// gradient is a checked call: the gradients of an origin.
type gradient struct {
	origin
	call    *opdef.Call
	forward *opdef.Forward
	grads   opdef.Grads
}

// out are the gradients of the origin's results.
func (d *gradient) out() []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(d.forward.Outs))
	out[0] = d.up
	return out
}

// A derived operator gives the gradients of another one.
type derived[A any] struct {
	schema, summary string // the schema may begin with the operator's library
	origin          func(a *A) (origin, error)
	cases           func(g opdef.Gen) []*A
}

// entry declares the operator; find is asked for the registry of the others when a call is bound.
func (d derived[A]) entry(find func() *opdef.Registry) *opdef.Entry {
	schema, library, source := d.schema, "aten", "aten/src/ATen/native/native_functions.yaml"
	if other, rest, ok := strings.Cut(schema, "::"); ok {
		schema, library, source = rest, other, other+"/csrc/ops"
	}
	name, _, _ := strings.Cut(schema, "(")
	bounds := func(p *gradient) []opdef.Bound {
		out := make([]opdef.Bound, len(p.of))
		for i, arg := range p.of {
			if ts := p.grads[arg]; len(ts) == 1 && ts[0] != nil {
				out[i] = p.call.GradBound(p.forward, p.out(), p.grads, arg, 0)
			}
		}
		return out
	}
	return opdef.Planned[*A, *gradient]{
		Schema: schema, Names: "torch.ops." + library + "." + name,
		Doc: opdef.Doc{Summary: d.summary, Source: source,
			Notes: "A gradient that output_mask leaves out is empty, or None."},
		Error:  opdef.Error{Class: opdef.Normwise, ULPs: 4},
		NoGrad: "a gradient itself", Trivial: true, Steps: true, Cases: d.cases,
		Plan: func(a *A) (*gradient, error) {
			o, err := d.origin(a)
			if err != nil {
				return nil, err
			}
			return o.gradient(find())
		},
		Kernel: func(p *gradient) ([]*tensor.Tensor, error) {
			out := make([]*tensor.Tensor, len(p.of))
			for i, arg := range p.of {
				if ts := p.grads[arg]; len(ts) == 1 && ts[0] != nil {
					out[i] = ts[0]
					continue
				}
				out[i] = tensor.Full(p.up.DType, append([]int{}, p.left...), 0.0)
				if p.left == nil {
					out[i] = tensor.New(p.up.DType, []int{0}, []float64{})
				}
			}
			return out, nil
		},
		ErrorOf: func(p *gradient) opdef.Error { return p.call.GradError() },
		Terms: func(p *gradient) int {
			n := 1
			for _, b := range bounds(p) {
				n = max(n, b.Terms)
			}
			return n
		},
		Scale: func(p *gradient, outs []*tensor.Tensor) []*tensor.Tensor {
			scales := make([]*tensor.Tensor, len(outs))
			for i, b := range bounds(p) {
				if scales[i] = opdef.Abs(outs[i]); b.Scale != nil {
					scales[i] = b.Scale()
				}
			}
			return scales
		},
		Else: func(p *gradient, outs []*tensor.Tensor) [][]*tensor.Tensor {
			others := make([][]*tensor.Tensor, len(outs))
			for i, b := range bounds(p) {
				if b.Else != nil {
					others[i] = b.Else()
				}
			}
			return others
		},
	}.Entry()
}

// gradient computes the gradients.
func (o origin) gradient(r *opdef.Registry) (*gradient, error) {
	if o.kwargs == nil {
		o.kwargs = &value.Dict{}
	}
	c, err := r.Bind(o.name, o.args, o.kwargs)
	if err != nil {
		return nil, err
	}
	need := map[string]bool{}
	for _, arg := range o.of {
		need[arg] = true
	}
	c = c.Map(func(a opdef.Arg) *tensor.Tensor {
		t := *a.Tensor
		t.RequiresGrad = need[a.Name]
		return &t
	})
	f, err := c.Forward()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(f.Outs[0].Shape, o.up.Shape) {
		return nil, opdef.Refuse("grad_output", "want shape %s, got %s", tensor.ShapeString(f.Outs[0].Shape),
			tensor.ShapeString(o.up.Shape))
	}
	if !o.up.DType.IsFloat() && !o.up.DType.IsComplex() {
		return nil, opdef.Refuse("grad_output", "want a floating dtype, got %s", o.up.DType)
	}
	d := &gradient{origin: o, call: c, forward: f}
	d.grads, err = c.Backward(f, d.out(), need)
	return d, err
}

// ints is a list as Python has it.
func ints(v []int) value.Value {
	l := value.NewList()
	for _, x := range v {
		l.Items = append(l.Items, int64(x))
	}
	return l
}

// zeros are what an operator was called with of which only the shape is known, since its gradient does not depend
// on the values.
func zeros(like *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	if err := tensor.CheckSize(shape); err != nil {
		return nil, opdef.Refuse("input_sizes", "%v", err)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return nil, opdef.Refuse("input_sizes", "negative size in %s", tensor.ShapeString(shape))
	}
	return tensor.Full(like.DType, shape, 0.0), nil
}

// reduction is the word for a number of at::Reduction.
func reduction(n int) (string, error) {
	if n < 0 || n > 2 {
		return "", opdef.Refuse("reduction", "want 0, 1 or 2, got %d", n)
	}
	return [...]string{"none", "mean", "sum"}[n], nil
}

// of says that the only result is the gradient of an argument.
func of(arg string) []string { return []string{arg} }

// normal are cases of two tensors of one shape.
func normal(g opdef.Gen, dt tensor.DType, shape ...int) (up, x *tensor.Tensor) {
	return elements.Detached(g.Normal(dt, shape...)), elements.Detached(g.Normal(dt, shape...))
}
