package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// repeats finds calls that checkpointing ran again, for the backward pass, with another result: random numbers that
// were drawn anew. Such a call has the operator, module, line and arguments of a call of the forward pass, whose
// gradients, or those of its readers, do not follow from the forward pass. A reentrant checkpoint runs the forward pass
// without gradients, and the call that was run again has them.
func (s *Step) repeats() (all []*Finding) {
	type place struct{ op, module, location string }
	of := func(c *Call) place { return place{c.Op, c.Entry.Module, c.Entry.Location} }
	drawn := map[place][]*Call{}
	for _, c := range s.Calls {
		if c.random != "" && (!c.HasBackward() || c.failsBackward()) {
			drawn[of(c)] = append(drawn[of(c)], c)
		}
	}
	for _, c := range s.Tail {
		for _, first := range drawn[of(c)] {
			if c.HasBackward() == first.HasBackward() || !slices.EqualFunc(c.Inputs, first.Inputs, (*Value).equals) ||
				len(c.Outputs) == 0 || len(c.Outputs) != len(first.Outputs) || c.Outputs[0].equals(first.Outputs[0]) {
				continue
			}
			all = append(all, &Finding{Rule: verdict.Changed, Call: c, Target: c.Outputs[0].Target,
				From: first.Outputs[0], Reason: fmt.Sprintf("checkpointing ran %s again and it drew other random numbers: the gradients belong to "+
					"another forward pass than the loss (preserve_rng_state)", first), repeats: true})
			break
		}
	}
	return all
}

// failsBackward reports whether gradients of a call, or of the calls that read its results, are wrong.
func (c *Call) failsBackward() bool {
	wrong := func(c *Call) bool { return c.byPass[replay.Backward] == verdict.Fail }
	return wrong(c) || slices.ContainsFunc(c.Readers(), wrong)
}
