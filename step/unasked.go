package step

import (
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// findUnasked takes back that gradients of parameters are missing where the backward pass gave none of any parameter,
// or none of these in any step: the program may have asked for those of other tensors (autograd.grad, inputs= of
// backward).
func (p *Process) findUnasked() {
	known := p.namesParameters()
	gives := func(c *Call) bool {
		return c.HasBackward() && slices.ContainsFunc(c.Inputs, func(v *Value) bool {
			return v.isParameter() && (!known || v.isKnown()) && c.gradientOf(v) != nil
		})
	}
	given := map[use]bool{}
	for _, c := range p.Calls {
		if of, ok := c.use(); ok && gives(c) {
			given[of] = true
		}
	}
	for _, s := range p.Steps {
		of := slices.Concat(s.Calls, s.Tail)
		some := slices.ContainsFunc(of, gives)
		for _, c := range of {
			if with, ok := c.use(); !some || !gives(c) && !(ok && given[with]) {
				c.dropMissing()
			}
		}
	}
}

// namesParameters reports whether the recording says which values are parameters of the model.
func (p *Process) namesParameters() bool {
	return slices.ContainsFunc(p.Calls, func(c *Call) bool { return slices.ContainsFunc(c.Inputs, (*Value).isKnown) })
}

// isKnown reports whether the recording says that a value is a parameter of the model.
func (v *Value) isKnown() bool { return v.RequiresGrad && (v.Parameter || v.named != "") }

// dropMissing takes back the verdict of gradients that were not recorded.
func (c *Call) dropMissing() {
	if c.byPass.backward != verdict.Fail {
		return
	}
	c.skipWrongGradients(c.lacksGradient, "no gradient was recorded: the backward pass gave none of a parameter")
}

// skipWrongGradients takes back that some gradients of a call are wrong.
func (c *Call) skipWrongGradients(some func(target string) bool, why string) {
	worst := verdict.Skipped
	skipped := map[string]bool{}
	for i := range c.Results {
		r := &c.Results[i]
		if r.Phase != replay.Backward {
			continue
		}
		if r.Verdict == verdict.Fail && some(r.Target) {
			r.Verdict, r.Reason = verdict.Skipped, why
			skipped[r.Target] = true
		}
		worst = verdict.Worse(worst, r.Verdict)
	}
	for _, x := range c.Checks {
		if x.Phase == replay.Backward && !skipped[x.Target] {
			worst = verdict.Worse(worst, x.Verdict)
		}
	}
	c.byPass.backward = worst
	c.Verdict = verdict.Worse(c.ForwardVerdict(), worst)
}

// lacksGradient reports whether the recording has None in place of a gradient.
func (c *Call) lacksGradient(target string) bool {
	return strings.HasPrefix(target, "grad") &&
		!slices.ContainsFunc(c.Grads, func(g *Value) bool { return g.Target == target })
}
