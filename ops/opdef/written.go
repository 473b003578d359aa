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
// Op.AfterScale gives or else the largest magnitude.
func (c *Call) AfterBound(arg string, i int, t *tensor.Tensor) Bound {
	class := c.sound().errorClass()
	b := class.bound()
	exact := class.Class == Exact || !t.DType.IsFloat() && !t.DType.IsComplex()
	if exact {
		b = Bound{Class: Exact}
	}
	if others := c.plan.afterElse(); others != nil {
		b.Else = func() []*tensor.Tensor {
			if ts := others()[arg]; i < len(ts) {
				return ts[i]
			}
			return nil
		}
	}
	if exact {
		return b
	}
	b.Covers = false // nothing is known of the scales of written arguments
	b.Scale = func() *tensor.Tensor {
		if s := c.plan.afterScale()[arg]; i < len(s) && s[i] != nil {
			return s[i]
		}
		return largest(t)
	}
	b.Terms = c.plan.terms()
	return b
}
