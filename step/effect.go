package step

import (
	"context"
	"math"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Effects sets the first-order effect of each call's error on the loss: the sum of
// gradient times error over its results, in units of the loss. Calls that no
// gradient was recorded for get those that their readers' vector-Jacobian products
// give. Recorded gradients that follow from a wrong one are corrected first.
func (p *Process) Effects(ctx context.Context, opt Options) error {
	for _, s := range p.Steps {
		if err := s.correctEffects(ctx, opt); err != nil {
			return err
		}
	}
	for _, s := range p.Steps {
		if s.Scale == 0 || s.Scale-s.Scale != 0 {
			continue
		}
		for _, c := range s.Calls {
			if c.measured && !c.vacant && c.differentiatedIn() == s { // else the gradient is that of another loss
				c.Effect, c.rounds = c.effect/s.Scale, math.Sqrt(c.spread)/math.Abs(s.Scale)
			}
		}
		if err := s.pullBack(ctx, opt); err != nil {
			return err
		}
		for _, c := range s.Calls {
			if c.misled {
				c.Effect, c.rounds = math.NaN(), 0
			}
			if c.counts() {
				s.Predicted += c.Effect
			}
		}
	}
	return nil
}

// counts reports whether the effect of a call is known, and no part of that of a call which made it.
func (c *Call) counts() bool {
	for o := c.outer; o != nil; o = o.outer {
		if o.judged() && o.Effect-o.Effect == 0 {
			return false
		}
	}
	return c.Effect-c.Effect == 0
}

// carrying are the calls without recorded gradients whose results have errors, of
// their own or from what they read, and reach a call that has gradients.
func (s *Step) carrying() map[*Call]bool {
	inexact := map[*Call]bool{}
	for _, c := range s.Calls {
		if c.measured || c.HasBackward() || c.random != "" || !c.DType().IsFloat() {
			continue
		}
		if c.LocalError > 0 {
			inexact[c] = true
		}
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil && inexact[w.Call] {
				inexact[c] = true
			}
		}
	}
	reaching := map[*Call]bool{}
	for i := len(s.Calls) - 1; i >= 0; i-- {
		c := s.Calls[i]
		for _, o := range c.Outputs {
			for _, r := range o.readers {
				if inexact[c] && r.Kind == inputKind && r.Call.Step == s &&
					(r.Call.HasBackward() || reaching[r.Call]) {
					reaching[c] = true
				}
			}
		}
	}
	return reaching
}

// pullBack finds the gradients of results for which none was recorded.
func (s *Step) pullBack(ctx context.Context, opt Options) error {
	carrying := s.carrying()
	if len(carrying) == 0 {
		return nil
	}
	grads := map[*Value]*tensor.Tensor{}
	for i := len(s.Calls) - 1; i >= 0; i-- {
		c := s.Calls[i]
		wanted := map[int]*Value{} // number of an input: the result it is
		for k, v := range c.Inputs {
			w := v.From.origin()
			if w != nil && carrying[w.Call] && v.like(w) && v.From.rows == nil && v.DType.IsFloat() {
				wanted[k] = w
			}
		}
		if len(wanted) == 0 && !carrying[c] || !carrying[c] && !c.HasBackward() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// A call that the reference does not differentiate has no effect to tell.
		_ = opt.within(c, "", func(opt Options) error { return s.pullBackCall(c, carrying[c], wanted, grads, opt) })
		for _, o := range c.Outputs {
			delete(grads, o)
		}
	}
	return nil
}

func (s *Step) pullBackCall(c *Call, carries bool, wanted map[int]*Value, grads map[*Value]*tensor.Tensor,
	opt Options) error {
	if c.notRun != nil {
		return c.notRun
	}
	rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read})
	if err != nil {
		rec.Close()
		return err
	}
	defer rec.Close()
	bound, err := opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if err != nil {
		return err
	}
	run, _ := drawn(rec, bound)
	f, err := run.Forward()
	if err != nil {
		return err
	}
	out := make([]*tensor.Tensor, len(f.Outs))
	effect, spread, known := 0.0, 0.0, false
	if carries {
		recorded := rec.Outputs()
		for i, o := range c.Outputs {
			g := grads[o]
			if g == nil || i >= len(f.Outs) || i >= len(recorded) || !comparable(recorded[i], f.Outs[i]) {
				continue
			}
			out[i] = g
			d := distance(recorded[i], f.Outs[i], g)
			effect, spread, known = effect+d.dot/s.Scale, spread+d.spread(), true
		}
	} else {
		out = recordedGrads(rec, f)
	}
	var gs map[int]*tensor.Tensor
	if len(wanted) > 0 && bound.Entry.HasGrad {
		numbers := map[int]bool{}
		for k := range wanted {
			numbers[k] = true
		}
		gs, err = vjp(rec, bound, run, f, out, numbers)
	}
	if known { // now that nothing can stop it, to be run once more
		c.Effect, c.rounds = effect, math.Sqrt(spread)/math.Abs(s.Scale)
	}
	if err != nil {
		return err
	}
	for k, t := range gs {
		w := wanted[k]
		if had := grads[w]; had != nil {
			t = solid(opdef.Zip(t.DType, had, t, func(x, y float64) float64 { return x + y }))
		}
		grads[w] = t
	}
	return nil
}

// largeError is the relative error of a call from which on an effect that was found by the gradient may be another one.
const largeError = 0.01

// EffectUnreliable reports whether Effect may have another size and another sign: the effects of the step do not add up
// to what the loss is off by, to a tenth, and the error of the call is large.
func (c *Call) EffectUnreliable() bool {
	return c.Step != nil && c.counts() && c.Effect != 0 && c.LocalError >= largeError && !c.Step.addsUp()
}

// addsUp reports whether the effects of the calls explain what the loss is off by, to a tenth; also where that is not
// known, or no more than rounding.
func (s *Step) addsUp() bool {
	const tenth, small = 0.1, 1e-5
	off := s.Given() - s.Exact
	rest := math.Abs(off - s.Predicted)
	return !(rest > tenth*max(math.Abs(off), math.Abs(s.Predicted)) && rest > small*math.Abs(s.Exact))
}

// A Sum is the effect of several calls on the loss.
type Sum struct {
	Name   string
	Calls  int
	Effect float64
	// Unreliable is that of one of the calls.
	Unreliable bool
}

// Sums adds the effects of a step's calls by a name, the largest first.
func (s *Step) Sums(name func(*Call) string) []Sum {
	byName := map[string]*Sum{}
	var order []string
	for _, c := range s.Calls {
		if !c.counts() {
			continue
		}
		n := name(c)
		if byName[n] == nil {
			byName[n] = &Sum{Name: n}
			order = append(order, n)
		}
		byName[n].Calls++
		byName[n].Effect += c.Effect
		byName[n].Unreliable = byName[n].Unreliable || c.EffectUnreliable()
	}
	out := make([]Sum, 0, len(order))
	for _, n := range order {
		out = append(out, *byName[n])
	}
	sortBy(out, func(s Sum) float64 { return -math.Abs(s.Effect) })
	return out
}

// Largest are the n calls of a step with the largest effects.
func (s *Step) Largest(n int) []*Call {
	var cs []*Call
	for _, c := range s.Calls {
		if c.counts() && c.Effect != 0 {
			cs = append(cs, c)
		}
	}
	sortBy(cs, func(c *Call) float64 { return -math.Abs(c.Effect) })
	return cs[:min(n, len(cs))]
}
