package step

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Misled says which effects on a loss the recorded gradients would tell wrong, since these follow from a wrong one.
type Misled struct {
	// First is the call with the wrong gradient, the first in the backward pass, and Target says which one it is.
	First  *Call
	Target string
	// Doubted reports that it is not the derivative of the calls that a function made, perhaps on purpose.
	Doubted bool
	// Corrected counts the calls whose effects were measured with the right gradients; of Unknown ones the right
	// gradients are not known, and Why says why: these have no effect.
	Corrected, Unknown int
	Why                string
}

// correctEffects measures the effects of calls anew whose recorded gradients follow from a wrong one. What the wrong
// gradients should be minus what they are passes through the rest of the backward pass.
func (s *Step) correctEffects(ctx context.Context, opt Options) error {
	misled := map[*Call]bool{}
	origins := slices.DeleteFunc(s.wrongGradients(), func(f *Finding) bool {
		n := 0
		for c := range f.reached() {
			if c != f.Call || f.Rule == verdict.Changed {
				misled[c], n = true, n+1
			}
		}
		return n == 0
	})
	if len(origins) == 0 {
		return nil
	}
	measured := map[*Call]bool{}
	b := newBackwards()
	b.doubted = true
	b.passed = func(c *Call, rec *capture.Call, f *opdef.Forward, d []*tensor.Tensor) {
		measured[c] = c.measured && c.correct(rec, f, d)
	}
	err := b.passOn(ctx, s, origins, opt)
	if err == nil {
		if err = b.left(); err != nil {
			clear(measured) // nobody knows whose gradients lack a part
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // calls without recorded gradients do not pass them on, and the others lie behind these
		for _, f := range origins {
			for _, c := range coneOf([]*Call{f.Call}) {
				misled[c] = misled[c] || c != f.Call && c.phase()%2 == 0
			}
		}
	}
	first := origins[0]
	s.Misled = Misled{First: first.Call, Target: first.Target, Doubted: first.Call.doubts(first.Target)}
	for c := range misled {
		switch {
		case !c.measured:
		case measured[c]:
			s.Misled.Corrected++
		default:
			c.misled = true
			s.Misled.Unknown++
		}
	}
	if s.Misled.Unknown > 0 {
		s.Misled.Why = cmp.Or(err, errors.New("no recorded call passes it on")).Error()
	}
	return nil
}

// wrongGradients are findings about gradients that a step's calls gave or found, the first of the backward pass first.
func (s *Step) wrongGradients() (all []*Finding) {
	if s.skipped() {
		return nil
	}
	for _, c := range slices.Backward(s.Calls) {
		for _, g := range c.GradOutputs {
			if g.From.How == IsChanged {
				all = append(all, &Finding{Rule: verdict.Changed, Call: c, Target: g.Target, backward: true})
			}
		}
		i := slices.IndexFunc(c.Grads, func(g *Value) bool { return c.failsAt(g.Target) || c.doubts(g.Target) })
		if i >= 0 && !c.vacant {
			all = append(all, &Finding{Rule: verdict.Wrong, Call: c, Target: c.Grads[i].Target, backward: true})
		}
	}
	return all
}

// passOn passes what wrong gradients should be minus what they are through the rest of the backward pass.
func (b *backwards) passOn(ctx context.Context, s *Step, wrong []*Finding, opt Options) error {
	for _, f := range wrong {
		if err := opt.within(f.Call, "", func(opt Options) error { return b.begin(f, opt) }); err != nil {
			return err
		}
	}
	return b.walk(ctx, s.root.Process.Steps[:s.Number+1], opt)
}

// correct adds to the effect of a call what its error does by d, by result: what the gradients of the results should be
// minus the recorded ones. It reports whether it could.
func (c *Call) correct(rec *capture.Call, f *opdef.Forward, d []*tensor.Tensor) bool {
	got, want, given := rec.Outputs(), f.Outs, recordedGrads(rec, f)
	if c.random != "" {
		kept, err := c.keepMask(rec, rec.Args)
		if err != nil || kept == nil {
			return false
		}
		want = []*tensor.Tensor{kept}
	}
	effect, spread, known := 0.0, 0.0, false
	for i := range min(len(got), len(want), len(d)) {
		right := given[i]
		switch {
		case !comparable(got[i], want[i]):
			continue
		case right != nil && d[i] != nil:
			right = plus(right, d[i], 1)
		case d[i] != nil:
			right = d[i]
		}
		effect, spread = effect+distance(got[i], want[i], d[i]).dot, spread+distance(got[i], want[i], right).spread()
		known = true
	}
	if known {
		c.effect, c.spread = c.effect+effect, spread
	}
	return known
}
