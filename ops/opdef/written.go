package opdef

import "github.com/optool/optool/tensor"

// Written returns the tensors whose elements the results replace: self of an
// in-place form, the tensors given as out=. Result i replaces tensor i.
func (c *Call) Written() []*tensor.Tensor {
	if c.written != nil {
		return []*tensor.Tensor{c.written}
	}
	return c.out
}

// AfterBound is the error model of t, the value after the call (Forward.After)
// of item i (0 for a plain one) of an argument: that of a result, with the scale
// AfterScale gives or else the largest magnitude.
func (c *Call) AfterBound(arg string, i int, t *tensor.Tensor) Bound {
	class := c.sound().errorClass()
	b := class.bound()
	exact := class.Class == Exact || !t.DType.IsFloat() && !t.DType.IsComplex()
	if exact {
		b = Bound{Class: Exact}
	}
	if either, ok := c.plan.plan.(MutatingEither); ok {
		b.Else = func() []*tensor.Tensor { return at(either.AfterElse()[arg], i) }
	}
	if exact {
		return b
	}
	b.Covers = false // nothing is known of the scales of written arguments
	b.Scale = func() *tensor.Tensor {
		if bounded, ok := c.plan.plan.(MutatingBounded); ok {
			if s := at(bounded.AfterScale()[arg], i); s != nil {
				return s
			}
		}
		return largest(t)
	}
	b.Terms = c.plan.terms()
	return b
}
