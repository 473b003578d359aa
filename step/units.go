package step

import (
	"math"
	"slices"
	"strings"
)

// A units value says what a program does to a loss in its own units before the backward pass begins.
type units struct {
	process *Process
	losses  int  // whose gradients the next update adds up
	single  bool // an update follows each loss, and no other process adds gradients
}

// units are those of the losses that begin backward passes.
func (p *Process) units(roots []*Call) []units {
	out := make([]units, len(roots))
	whole, several := 0, false // losses between two updates
	from := 0
	for i, r := range roots {
		next := len(p.Calls)
		if i+1 < len(roots) {
			next = roots[i+1].Order
		}
		updates := slices.ContainsFunc(p.Calls[r.Order+1:next], (*Call).updatesParameter)
		if !updates && i+1 < len(roots) {
			continue
		}
		for k := from; k <= i; k++ {
			out[k].losses = i + 1 - from
		}
		if from > 0 && updates {
			whole++
		}
		several = several || i > from
		from = i + 1
	}
	single := whole > 0 && !several && !slices.ContainsFunc(p.Calls, func(c *Call) bool { return c.collective() != "" })
	for i := range out {
		out[i].process, out[i].single = p, single
	}
	return out
}

// updatesParameter reports whether a call writes a parameter in place, as optimizers do.
func (c *Call) updatesParameter() bool {
	return c.writes && !c.HasBackward() && slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		return (v.RequiresGrad || v.Parameter) && c.returns(v) && !c.turns(v)
	})
}

// loss is the loss in its own units behind a root: the number that was only multiplied by a loss scale, or only divided
// by numbers of batches or of ranks whose gradients are added. It also gives the product of these numbers, and the
// readings on the way that found another number than was made.
func (u units) loss(r *Call) (loss *Call, batches int, changed []*Value) {
	batches = 1
	for {
		v, factor, quotient := r.multiplies()
		n := math.Round(1 / factor)
		switch {
		case v == nil:
			return r, batches, changed
		case !quotient && u.isLossScale(factor):
		case n > 1 && math.Abs(1/factor-n) < 1e-5*n && u.divides(v.From.Value.Call, int(n), quotient):
			batches *= int(n)
		default:
			return r, batches, changed
		}
		if r = v.From.Value.Call; v.From.How == IsChanged {
			changed = append(changed, v)
		}
	}
}

// Given is the number that the loss's call gave.
func (s *Step) Given() float64 { return s.Loss.scalar().number() }

// read is the loss as the program read it: some readings found another number than the loss's call gave.
func (s *Step) read() float64 {
	x := s.Given()
	for _, v := range slices.Backward(s.changed) {
		if w := v.From.Value; w.Call == s.Loss {
			x = v.number()
		} else {
			x *= v.number() / w.number()
		}
	}
	return x
}

// isLossScale reports whether a factor is a loss scale: a power of two that is large, or by which the gradients are
// divided. Small ones are weights of a loss, such as the square of a temperature.
func (u units) isLossScale(factor float64) bool {
	const large = 128
	if frac, _ := math.Frexp(factor); frac != 0.5 || factor <= 1 {
		return false
	}
	return factor >= large || slices.ContainsFunc(u.process.Calls, func(c *Call) bool {
		return c.unscales() && c.given(factor)
	})
}

// divides reports whether n, by which the number of a call is divided, counts batches or ranks: as many losses are
// added up, or the number is a mean, so that nothing else is to be divided by.
func (u units) divides(of *Call, n int, quotient bool) bool {
	return n == u.losses || quotient && !u.single && u.isMean(of)
}

// isMean reports whether a call is a mean, a mean times a number, or a loss that was divided by the number of losses.
func (u units) isMean(c *Call) bool {
	if c.isMean() {
		return true
	}
	v, factor, _ := c.multiplies()
	return v != nil && (u.isMean(v.From.Value.Call) || math.Abs(1/factor-float64(u.losses)) < 1e-5)
}

// multiplies is the input that is the one number of another call, which this one multiplies by a factor, or divides
// (quotient); nil if it does something else.
func (c *Call) multiplies() (of *Value, factor float64, quotient bool) {
	name := strings.Trim(c.Op[strings.LastIndexByte(c.Op, '.')+1:], "_")
	if !c.HasBackward() {
		return nil, 0, false
	}
	quotient = slices.Contains([]string{"div", "truediv", "itruediv", "divide", "true_divide"}, name)
	if !quotient && !slices.Contains([]string{"mul", "rmul", "imul", "multiply"}, name) {
		return nil, 0, false
	}
	for _, v := range c.Inputs {
		w := v.From.Value
		if w == nil || w.Call.scalar() == nil || !w.Call.HasBackward() && !w.Call.isCompiled() {
			continue
		}
		if of != nil {
			return nil, 0, false // a product of two results is no scaled loss
		}
		of = v
	}
	if of == nil {
		return nil, 0, false
	}
	factor = c.scalar().number() / of.number()
	if made := of.From.Value.Call; made.HasBackward() {
		factor = made.GradOutputs[0].number() / c.GradOutputs[0].number()
	}
	return of, factor, quotient
}

// isMean reports whether a call is a mean over its elements by itself, as losses are unless they are told to add up:
// whoever divides it divides by a number of batches.
func (c *Call) isMean() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	sums := slices.ContainsFunc(c.attributes, func(a attribute) bool {
		return a.name == "reduction" && (strings.Contains(a.text, "sum") || a.text == "2")
	})
	return (name == "mean" || name == "kl_div" || strings.HasSuffix(name, "_loss") ||
		strings.HasSuffix(name, "cross_entropy")) && !sums
}
