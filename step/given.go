package step

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture"
)

// findGiven marks what is a gradient by the call that is given it, whatever is in it: the second list of a fused
// optimizer, what calls behind the loss made this of, and what a call divides by the loss scale in place.
func (p *Process) findGiven() {
	for _, s := range p.Steps {
		scale := s.LossScale()
		for _, c := range s.Tail {
			for _, v := range c.givenAsGradients() {
				v.asGradient, v.beforeTail().asGradient = true, true
			}
			if scale == 1 || !c.unscales() || !c.given(scale) {
				continue
			}
			for _, v := range c.Inputs {
				v.asGradient = v.asGradient || v.DType.IsFloat() && c.returns(v)
			}
		}
	}
}

// unscales reports whether a call divides in place, as gradients are divided by a loss scale.
func (c *Call) unscales() bool {
	return c.writes && (strings.Contains(c.Op, "unscale_") || strings.Contains(c.Op, "div") &&
		!strings.Contains(c.Op, "addcdiv"))
}

// givenAsGradients are the second list of a fused optimizer of torch, or of the function of another one, which has the
// gradients of the first: torch._fused_adamw_(params, grads, exp_avgs, ...), whatever is in it. They count as written
// there: with a grad_scale it divides them.
func (c *Call) givenAsGradients() (out []*Value) {
	if !c.isOptimizer() {
		return nil
	}
	first := 0 // the length of the first list
	for _, v := range c.Inputs {
		switch {
		case v.item < 0:
		case v.leaf == v.item:
			first++
		case v.leaf-v.item == first:
			out = append(out, v)
		}
	}
	return out
}

// beforeTail is the value that calls behind the loss made v of, one after the other, as those do that divide gradients
// by a loss scale or clip them.
func (v *Value) beforeTail() *Value {
	for range 16 {
		w := v.From.Value
		if w == nil || w.Call.phase()%2 == 0 || w.Kind == capture.GradInputs {
			return v
		}
		of := w
		if w.Kind != inputKind {
			i := slices.IndexFunc(w.Call.Inputs, func(x *Value) bool {
				return x.DType.IsFloat() && sameShape(x.Shape, v.Shape) && x.item == w.item
			})
			if i < 0 {
				return v
			}
			of = w.Call.Inputs[i]
		}
		v = of
	}
	return v
}

// leavesState reports whether a call leaves something in an argument that is no gradient: a parameter, or state.
func (c *Call) leavesState(v *Value) bool { return c.returns(v) && !v.asGradient }
