package step

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
)

// drewAgain is the gap of calls that drew the random numbers that an earlier call of the forward pass had drawn, and
// drewBefore that of calls that drew those of an earlier step.
const (
	drewAgain = "call%s that drew the same random numbers as an earlier call of the forward pass: the program set " +
		"the generator back, or it did not advance"
	drewBefore = "call%s that drew the same random numbers as in an earlier step: "
)

// readGenerator is the hash of the state of the generator that the call drew from; 0 if it drew nothing, or if the
// state was not recorded. The state of a call that cannot be read is not known.
func (c *Call) readGenerator() uint64 {
	if c.random == "" || c.random == opdef.Uninitialised {
		return 0
	}
	state, err := c.Entry.Generator()
	if err != nil || len(state) == 0 {
		return 0
	}
	return maphash.Bytes(seed, state)
}

// A redraw is a call of the forward pass that began to draw where an earlier one had begun.
type redraw struct {
	call, first *Call
	// set is how the generator came to be in its earlier state: the last setting by the program between the calls; nil
	// if none was recorded.
	set *capture.GeneratorSet
	// own reports that both drew from one generator of the program's own, whose settings are not recorded.
	own bool
}

// redrawn are the calls of a step's forward pass that drew the random numbers of an earlier call, of this pass or of an
// earlier step. Calls that others make draw with these. What checkpointing runs again is behind the loss. Where torch
// itself put a state back (fork_rng), the draws repeat by design.
func (s *Step) redrawn() (again, before []redraw) {
	first := map[uint64]*Call{}
	for _, o := range s.root.Process.Steps[:s.Number+1] {
		for _, c := range o.Calls {
			if !c.drawsNumbers() {
				continue
			}
			a := first[c.generator]
			if a == nil {
				first[c.generator] = c
				continue
			}
			r := redraw{call: c, first: a}
			if sets := c.setsSince(a); len(sets) > 0 {
				last := sets[len(sets)-1]
				if byTorch(sets) {
					continue
				}
				r.set = &last
			}
			r.own = c.Entry.DrawnFrom > 0 && c.Entry.DrawnFrom == a.Entry.DrawnFrom
			switch {
			case o != s:
			case a.Step == s:
				again = append(again, r)
			case r.set != nil:
				before = append(before, r)
			}
		}
	}
	return again, before
}

// drawsNumbers reports whether a call drew from a generator whose state is known, and none that made it did.
func (c *Call) drawsNumbers() bool {
	return c.generator != 0 && !c.drawsWithin() && len(c.Outputs) > 0 && c.Outputs[0].Numel() > 0
}

// setsSince are the recorded settings of torch's own generators between two calls.
func (c *Call) setsSince(a *Call) (sets []capture.GeneratorSet) {
	for _, set := range c.Entry.GeneratorSets {
		if a.Entry.Order < set.Order && set.Order <= c.Entry.Order && c.Entry.DrawnFrom == 0 {
			sets = append(sets, set)
		}
	}
	return sets
}

// byTorch reports whether torch itself set a generator among these: it puts back what it had saved.
func byTorch(sets []capture.GeneratorSet) bool {
	for _, set := range sets {
		if set.By != "" {
			return true
		}
	}
	return false
}

// findRedrawn are the findings about calls that drew the numbers of an earlier call since the program had set the
// generator back: the first one behind each setting, and how many others follow from that.
func (s *Step) findRedrawn() (all []*Finding) {
	again, _ := s.redrawn()
	by := map[string]*Finding{}
	for _, r := range again {
		why, at := r.why()
		if why == "" {
			continue
		}
		if f := by[at]; f != nil {
			f.Behind++
			continue
		}
		from := r.first.Outputs[0]
		by[at] = &Finding{Rule: verdict.Changed, Call: r.call, Target: r.call.Outputs[0].Target, From: from,
			Reason: fmt.Sprintf("it drew the same random numbers as %s: %s", r.first, why), redrawn: true}
		all = append(all, by[at])
	}
	return all
}

// why says how the generator came back to the state that it had before the first call, and where; "" if that is not
// known.
func (r redraw) why() (why, at string) {
	switch {
	case r.set != nil:
		at = cmp.Or(r.set.Location, "a line that is not known")
		return fmt.Sprintf("%s set the generator back at %s", r.set.Name, at), at
	case r.own:
		at = fmt.Sprint(r.call.Entry.DrawnFrom)
		return fmt.Sprintf("the program's own generator was set back, or did not advance, between %s and %s",
			cmp.Or(r.first.Entry.Location, r.first.String()), cmp.Or(r.call.Entry.Location, r.call.String())), at
	}
	return "", ""
}

// errRedrawn is why the effect of repeated random numbers is not known.
var errRedrawn = errors.New("which numbers it would have drawn is not known")

// drawsWithin reports whether a call that made this one began to draw at the same place.
func (c *Call) drawsWithin() bool {
	for o := c.outer; o != nil; o = o.outer {
		if o.generator == c.generator {
			return true
		}
	}
	return false
}
