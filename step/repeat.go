package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
)

// onLineOf reports whether a call that was perhaps run again is made where another one is: by the same line of the same
// module, or of none, since only what checkpointing was given is run again, not the module around it.
func (c *Call) onLineOf(first *Call) bool {
	return c.Op == first.Op && c.Entry.Location == first.Entry.Location &&
		(c.Entry.Module == first.Entry.Module || c.Entry.Module == "")
}

// inModuleOf reports whether a call that was perhaps run again is made in the module of another one that has no
// gradients though it has, or wrong ones: where no line of the program lies inside (nn.Sequential), the recorder has
// the line of the checkpoint of the first one, and that of backward() of the second.
func (c *Call) inModuleOf(first *Call) bool {
	return c.Op == first.Op && c.Entry.Module == first.Entry.Module && c.Entry.Module != "" &&
		(c.HasBackward() && !first.HasBackward() || first.failsBackward())
}

// repeats finds calls that checkpointing ran again, for the backward pass, with another result: random numbers that
// were drawn anew. Such a call has the operator, module, line and arguments of a call of the forward pass.
func (s *Step) repeats() (all []*Finding) {
	type draw struct {
		op string
		of uint64 // what the first argument holds
	}
	key := func(c *Call) draw {
		k := draw{op: c.Op}
		if len(c.Inputs) > 0 {
			k.of = c.Inputs[0].content.sum
		}
		return k
	}
	drawn := map[draw][]*Call{}
	for _, c := range s.Calls {
		if c.random != "" && c.random != opdef.Uninitialised && len(c.Outputs) > 0 {
			drawn[key(c)] = append(drawn[key(c)], c)
		}
	}
	for _, c := range s.Tail {
		for _, first := range drawn[key(c)] {
			if !c.onLineOf(first) && !c.inModuleOf(first) ||
				!slices.EqualFunc(c.Inputs, first.Inputs, (*Value).equals) || !c.repeats(first) {
				continue
			}
			from := first.Outputs[0]
			all = append(all, &Finding{Rule: verdict.Changed, Call: c, Target: from.Target, From: from, repeats: true,
				Reason: fmt.Sprintf("checkpointing ran %s again and it drew other random numbers: the gradients belong to "+
					"another forward pass than the loss (preserve_rng_state)", first)})
			break
		}
	}
	return all
}

// repeats reports whether a call behind the loss is one of the forward pass that was run again, with another result. A
// reentrant checkpoint runs the forward pass without gradients, and what is run again has them. Another one computes
// gradients of the forward pass with what was run again, so that they do not follow from it; it stops once all is there
// that it needs, so that the last result need not be recorded.
func (c *Call) repeats(first *Call) bool {
	if len(c.Outputs) == 0 {
		return first.failsBackward()
	}
	return slices.EqualFunc(c.Outputs, first.Outputs, (*Value).like) && !c.Outputs[0].equals(first.Outputs[0]) &&
		(c.gainsBackward(first) || first.failsBackward())
}

// gainsBackward reports whether a call, or the first of those that it leads to, has gradients which the call of the
// forward pass on the same line has not; or the other way round, if it ran within the backward pass, not behind it as
// an evaluation does.
func (c *Call) gainsBackward(first *Call) bool {
	end := c.Step.backwardEnd()
	behind := end >= 0 && c.Entry.Order > end
	pairs := [][2]*Call{{c, first}}
	seen := map[[2]*Call]bool{}
	for len(pairs) > 0 {
		pair := pairs[0]
		pairs = pairs[1:]
		if now, then := pair[0].HasBackward(), pair[1].HasBackward(); now != then {
			return now || !behind
		} else if now || seen[pair] {
			continue
		}
		seen[pair] = true
		for _, r := range pair[0].Readers() {
			for _, q := range pair[1].Readers() {
				if q.Order < c.Order && c.Order < r.Order && r.onLineOf(q) {
					pairs = append(pairs, [2]*Call{r, q})
				}
			}
		}
	}
	return false
}

// failsBackward reports whether gradients of a call, or of the first calls with gradients that its results lead to, are
// wrong.
func (c *Call) failsBackward() bool {
	wrong := func(c *Call) bool { return c.byPass.backward == verdict.Fail }
	seen := map[*Call]bool{}
	for todo := []*Call{c}; len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] || todo[0].Step != c.Step {
			continue
		}
		seen[todo[0]] = true
		readers := todo[0].Readers()
		if wrong(todo[0]) || todo[0] == c && slices.ContainsFunc(readers, wrong) {
			return true
		}
		if !todo[0].HasBackward() {
			todo = append(todo, readers...)
		}
	}
	return false
}
