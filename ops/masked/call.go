package masked

import (
	"errors"
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A neutral is the number, for a dtype, that takes the place of masked elements.
type neutral func(dt tensor.DType) (opdef.Scalar, error)

func zeroNeutral(tensor.DType) (opdef.Scalar, error) { return opdef.Int(0), nil }

func oneNeutral(tensor.DType) (opdef.Scalar, error) { return opdef.Int(1), nil }

func nanNeutral(tensor.DType) (opdef.Scalar, error) { return opdef.Float(math.NaN()), nil }

func lowestNeutral(dt tensor.DType) (opdef.Scalar, error) { return extremeNeutral(dt, false) }

func highestNeutral(dt tensor.DType) (opdef.Scalar, error) { return extremeNeutral(dt, true) }

// extremeNeutral is the largest number of dt, or the least one.
func extremeNeutral(dt tensor.DType, largest bool) (opdef.Scalar, error) {
	switch {
	case dt.IsFloat() && largest:
		return opdef.Float(math.Inf(1)), nil
	case dt.IsFloat():
		return opdef.Float(math.Inf(-1)), nil
	case !dt.IsIntegral():
		return opdef.Scalar{}, opdef.Refuse("mask", "elements of dtype %s have no neutral value to mask them with", dt)
	}
	lo, hi := dt.IntRange()
	if largest {
		return opdef.Int(hi), nil
	}
	return opdef.Int(lo), nil
}

// A maskedInput is an argument of which a mask takes elements out.
type maskedInput struct {
	arg, base string         // names in the masked and in the plain op
	mask      *tensor.Tensor // of the argument's shape, nil to keep all
}

// A maskedCall is a call of the plain op that a masked one comes to.
type maskedCall struct {
	call    *opdef.Call // not embedded: its methods are no abilities of the masked op
	inputs  []maskedInput
	dtype   tensor.DType                        // of the result; Invalid: the plain op's
	divisor *tensor.Tensor                      // of the result, nil if it is not divided
	shape   []int                               // of the result; nil: the plain op's
	back    func(*tensor.Tensor) *tensor.Tensor // the gradient in the input's layout; nil: as it is
	terms   func() int                          // as in opdef.Op; nil: 1
	steps   int                                 // how many times torch calls the plain op; 0: once
}

// newMasked is the call of base on x, masked elements replaced.
func newMasked(base *opdef.Entry, name string, x, mask *tensor.Tensor, with neutral,
	args func(x *tensor.Tensor) any) (*maskedCall, error) {
	filled, wide, err := masked("mask", x, mask, with)
	if err != nil {
		return nil, err
	}
	return &maskedCall{call: base.NewCall(args(filled)), inputs: []maskedInput{{"input", name, wide}}}, nil
}

// masked is x with other elements where the mask is false, and the mask
// expanded to x's shape. Without a mask it is x.
func masked(arg string, x, mask *tensor.Tensor, with neutral) (filled, wide *tensor.Tensor, err error) {
	if mask == nil {
		return x, nil, nil
	}
	wide, err = mask.Expand(x.Shape...)
	if mask.Dim() > x.Dim() || err != nil {
		return nil, nil, opdef.Refuse(arg, "shape %s cannot be broadcast to %s", tensor.ShapeString(mask.Shape),
			tensor.ShapeString(x.Shape))
	}
	v, err := with(x.DType)
	if err != nil {
		return nil, nil, err
	}
	wide = opdef.Cast(wide, tensor.Bool)
	filled, err = elements.Where(x.DType, wide, x, opdef.Cast(v.Tensor(), x.DType))
	return filled, wide, err
}

// as sets the dtype of the result: dt, or that of x.
func (c *maskedCall) as(dt *tensor.DType, x *tensor.Tensor) *maskedCall {
	switch {
	case c == nil:
	case dt != nil:
		c.dtype = *dt
	default:
		c.dtype = x.DType
	}
	return c
}

// run is the result of the plain op, and of the masked one.
func (c *maskedCall) run() (*opdef.Forward, *tensor.Tensor, error) {
	f, err := c.call.Forward()
	if err != nil {
		return nil, nil, c.renamed(err)
	}
	y := f.Outs[0]
	if c.shape != nil {
		y = y.Reshape(c.shape...)
	}
	if c.divisor != nil {
		if !y.DType.IsFloat() && !y.DType.IsComplex() {
			y = y.Rounded() // a sum of small integers wraps around before it is divided
		}
		y = c.divided(y)
	}
	if c.dtype != tensor.Invalid {
		y = opdef.Cast(y, c.dtype)
	}
	return f, y, nil
}

func (c *maskedCall) results() ([]*tensor.Tensor, error) {
	_, y, err := c.run()
	return elements.Single(y), err
}

// divided is t divided by the divisor.
func (c *maskedCall) divided(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		return opdef.Zip(t.DType, t, c.divisor, func(x, n complex128) complex128 {
			return complex(real(x)/real(n), imag(x)/real(n))
		})
	}
	dt := t.DType
	if !dt.IsFloat() {
		dt = tensor.DefaultDType
	}
	return opdef.Zip(dt, t, c.divisor, func(x, n float64) float64 { return x / n })
}

// renamed is a refusal of the plain op under the masked op's names.
func (c *maskedCall) renamed(err error) error {
	var r *opdef.RefusedError
	if !errors.As(err, &r) {
		return err
	}
	arg := r.Arg
	for _, in := range c.inputs {
		if arg == in.base {
			arg = in.arg
		}
	}
	named := *r
	named.Op, named.Arg = "", arg
	return &named
}

// plain is the call of the plain op, the gradients of its results and of its inputs.
func (c *maskedCall) plain(g *opdef.Grad) (f *opdef.Forward, out []*tensor.Tensor, plain opdef.Grads, err error) {
	if f, _, err = c.run(); err != nil {
		return nil, nil, nil, err
	}
	up := g.Out[0]
	if c.divisor != nil {
		up = c.divided(up)
	}
	out = make([]*tensor.Tensor, len(f.Outs))
	out[0] = opdef.Cast(up.Reshape(f.Outs[0].Shape...), f.Outs[0].DType)
	plain, err = c.call.Backward(f, out, nil)
	return f, out, plain, err
}

// node is what the last step received: the division of a mean, else the plain op, whose
// gradients know nothing of the mask.
func (c *maskedCall) node(g *opdef.Grad) (opdef.Node, error) {
	switch {
	case c.divisor != nil:
		return opdef.Node{Grads: []*tensor.Tensor{c.divided(g.Out[0]), nil}}, nil
	case c.steps > 1:
		return opdef.Node{Skip: "gradients belong to another op"}, nil
	}
	f, out, plain, err := c.plain(g)
	if err != nil {
		return opdef.Node{}, c.renamed(err)
	}
	if n, ok, err := c.call.Node(f, out); ok || err != nil {
		return n, err
	}
	of := func(bounds bool) (all []*tensor.Tensor) {
		for _, in := range c.inputs {
			all = append(all, c.unmasked(f, out, plain, in, bounds))
		}
		return all
	}
	return opdef.Node{Grads: of(false), Scale: func() []*tensor.Tensor { return of(true) }}, nil
}

// unmasked is the gradient of an input of the plain op or, if bounds is set, the sum of
// the magnitudes behind it.
func (c *maskedCall) unmasked(f *opdef.Forward, out []*tensor.Tensor, plain opdef.Grads, in maskedInput,
	bounds bool) *tensor.Tensor {
	t := plain[in.base][0]
	if bounds {
		t = scaleOf(c.call.GradBound(f, out, plain, in.base, 0), t)
	}
	if c.back != nil {
		t = c.back(t)
	}
	return t
}

// grads are the gradients of the inputs or, if bounds is set, the sums of the
// magnitudes behind them.
func (c *maskedCall) grads(g *opdef.Grad, bounds bool) (opdef.Grads, error) {
	f, out, plain, err := c.plain(g)
	if err != nil {
		return nil, c.renamed(err)
	}
	gr := opdef.Grads{}
	for _, in := range c.inputs {
		t := c.unmasked(f, out, plain, in, bounds)
		if in.mask != nil {
			if t, err = elements.Where(t.DType, in.mask, t, tensor.Scalar(t.DType, 0.0)); err != nil {
				return nil, err
			}
		}
		gr.Set(in.arg, t)
	}
	return gr, nil
}

// scaleOf is S of a bound on t, the magnitudes where it has none.
func scaleOf(b opdef.Bound, t *tensor.Tensor) *tensor.Tensor {
	if b.Scale == nil {
		return opdef.Abs(t)
	}
	return b.Scale()
}

// maskedEntry completes the declaration of an op that call takes to a plain one,
// whose error model it has; terms as in opdef.Op, nil: 1.
func maskedEntry[A any](o opdef.Planned[*A, *maskedCall], call func(a *A) (*maskedCall, error),
	terms func(a *A) int) *opdef.Entry {
	o.Plan = func(a *A) (*maskedCall, error) {
		c, err := call(a)
		if err == nil && terms != nil {
			c.terms = func() int { return terms(a) }
		}
		return c, err
	}
	o.Terms = func(c *maskedCall) int {
		if c.terms == nil {
			return 1
		}
		return c.terms()
	}
	o.Kernel = (*maskedCall).results
	if o.NoGrad == "" {
		o.Grad = func(c *maskedCall, g *opdef.Grad) (opdef.Grads, error) { return c.grads(g, false) }
		o.Node = (*maskedCall).node
	}
	if o.Error.Class == opdef.Exact {
		return o.Entry()
	}
	o.Scale = func(c *maskedCall, outs []*tensor.Tensor) []*tensor.Tensor {
		f, _, err := c.run()
		opdef.Must(f, err)
		s := scaleOf(c.call.OutBound(f, 0), f.Outs[0]).Reshape(outs[0].Shape...)
		if c.divisor != nil {
			s = c.divided(s)
		}
		return elements.Single(s)
	}
	o.GradScale = func(c *maskedCall, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) { return c.grads(g, true) }
	return o.Entry()
}

// maskedDoc documents the masked form of torch.<name>.
func maskedDoc(name, summary, notes, neutral string) opdef.Doc {
	if notes != "" {
		notes += " "
	}
	return opdef.Doc{Summary: summary, Formula: name + "(where(mask, input, " + neutral + "))",
		Notes: notes + "Masked elements get no gradient."}
}

func maskedNames(name string) string { return "masked." + name + " _masked." + name }
