package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
)

// onLineOf reports whether a call that was perhaps run again is made where another one is: by the same line of the same
// module, or of none, since only what checkpointing was given is run again, not the module around it.
func (c *Call) onLineOf(first *Call) bool {
	return c.Op == first.Op && c.Entry.Location == first.Entry.Location &&
		(c.Entry.Module == first.Entry.Module || c.Entry.Module == "")
}

// mayRepeat reports whether a call is perhaps another one that was run again: on its line, or in its module. Where no
// line of the program lies inside (nn.Sequential), the recorder has the line of the checkpoint of the first one, and
// that of backward() of the second.
func (c *Call) mayRepeat(first *Call) bool {
	return c.onLineOf(first) ||
		c.Op == first.Op && c.Entry.Module == first.Entry.Module && c.Entry.Module != ""
}

// repeats finds calls that checkpointing ran again, for the backward pass, with another result: random numbers that
// were drawn anew. Such a call is made within the backward pass of the step, and has the operator, module, line and
// arguments of a call of the forward pass. If a call of the forward pass drew the same numbers there, checkpointing ran
// that one again, as it should.
func (s *Step) repeats(opt Options) (all []*Finding) {
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
		if !c.inBackward() {
			continue
		}
		var firsts []*Call
		for _, first := range drawn[key(c)] {
			if c.mayRepeat(first) && slices.EqualFunc(c.Inputs, first.Inputs, (*Value).equals) &&
				(len(c.Outputs) == 0 || slices.EqualFunc(c.Outputs, first.Outputs, (*Value).like)) {
				firsts = append(firsts, first)
			}
		}
		if slices.ContainsFunc(firsts, c.drewAgain) {
			continue
		}
		slices.SortStableFunc(firsts, func(a, b *Call) int { return c.shares(b) - c.shares(a) })
		for _, first := range firsts {
			spoils := c.explains(first, opt)
			if len(spoils) == 0 && !c.isReentrant(first) {
				continue
			}
			from := first.Outputs[0]
			all = append(all, &Finding{Rule: verdict.Changed, Call: c, Target: from.Target, From: from,
				repeats: true, spoils: spoils,
				Reason: fmt.Sprintf("checkpointing ran %s again and it drew other random numbers: the gradients belong to "+
					"another forward pass than the loss (preserve_rng_state)", first)})
			break
		}
	}
	return all
}

// drewAgain reports whether a call drew the numbers that a call of the forward pass had drawn. A checkpoint stops once
// all is there that it needs, so that the last result need not be recorded: then the state of the generator tells.
func (c *Call) drewAgain(first *Call) bool {
	if len(c.Outputs) == 0 {
		return c.generator == first.generator
	}
	return c.Outputs[0].equals(first.Outputs[0])
}

// runAgain are the pairs of calls that read the results of a call within the backward pass, and those of the call of
// the forward pass that it perhaps repeats, directly or through others: while each goes on.
func (c *Call) runAgain(first *Call, each func(now, then *Call) (goOn bool)) {
	pairs := [][2]*Call{{c, first}}
	seen := map[[2]*Call]bool{}
	for ; len(pairs) > 0; pairs = pairs[1:] {
		pair := pairs[0]
		if seen[pair] || !each(pair[0], pair[1]) {
			continue
		}
		seen[pair] = true
		for _, r := range pair[0].Readers() {
			for _, q := range pair[1].Readers() {
				if q.Order < c.Order && c.Order < r.Order && r.inBackward() && r.mayRepeat(q) {
					pairs = append(pairs, [2]*Call{r, q})
				}
			}
		}
	}
}

// shares is 1 if a call that reads the results has an argument besides that the call of the forward pass has, too: of
// several calls on one line, that one is run again. Else it is 0.
func (c *Call) shares(first *Call) (n int) {
	c.runAgain(first, func(now, then *Call) bool {
		if now != c && slices.ContainsFunc(now.Inputs, func(v *Value) bool {
			u := then.Value(v.Target)
			return v.telling() && u != nil && u.equals(v)
		}) {
			n = 1
		}
		return n == 0
	})
	return n
}

// isReentrant reports whether a call within the backward pass, or the first of those that it leads to, has gradients
// which the call of the forward pass has not: a reentrant checkpoint runs the forward pass without gradients, and what
// is run again has them.
func (c *Call) isReentrant(first *Call) (found bool) {
	c.runAgain(first, func(now, then *Call) bool {
		found = found || now.HasBackward() && !then.HasBackward()
		return !found && !now.HasBackward() && !then.HasBackward()
	})
	return found
}

// explains are the calls of the forward pass whose wrong gradients are right with what was run again. A checkpoint that
// is not reentrant computes them with that. A gradient that is wrong for another reason proves nothing. A checkpoint
// may stop at the call, so that it has no result. Then it must have begun in another state of the generator, and the
// gradients of the first one must be wrong.
func (c *Call) explains(first *Call, opt Options) (all []*Call) {
	if len(c.Outputs) == 0 {
		if c.generator != 0 && first.generator != 0 && first.byPass.backward == verdict.Fail {
			all = append(all, first)
		}
		return all
	}
	c.runAgain(first, func(now, then *Call) bool {
		if then.failing(replay.Backward) != nil && then.failing(replay.Forward) == nil &&
			then.differentiates(then.unlike(now), opt) {
			all = append(all, then)
		}
		return true
	})
	return all
}

// unlike are the arguments and results of a call that another one of its operator has otherwise, by its own.
func (c *Call) unlike(o *Call) map[*Value]*Value {
	all := map[*Value]*Value{}
	for _, v := range slices.Concat(o.Inputs, o.Outputs) {
		if u := c.Value(v.Target); u != nil && u.like(v) && !u.equals(v) {
			all[u] = v
		}
	}
	return all
}
