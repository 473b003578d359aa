package step

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
)

// drewAgain is the gap of calls that drew the random numbers that an earlier call of the forward pass had drawn, and
// drewBefore that of calls that drew those of an earlier step.
const (
	drewAgain   = "call%s " + drewTheSame + " as an earlier call of the forward pass: " + setBack
	drewBefore  = "call%s " + drewTheSame + " as in an earlier step: "
	drewTheSame = "that drew the same random numbers"
	// setBack is how a generator comes back to an earlier state that no function of torch's modules set.
	setBack = "the program set the generator back, or it did not advance"
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
	// prev is the call of the pass that drew before, if that shows that the numbers of an earlier step are not meant;
	// else nil.
	prev *Call
	// alike reports that both drew from one of torch's own, that the recording has what the functions of torch's
	// modules set, and that the results show the same numbers: the first one did draw.
	alike bool
}

// redraws are the calls of a step's forward pass that drew the random numbers of an earlier call: of this pass, or of
// an earlier step.
type redraws struct{ again, before []redraw }

// redrawn are the redraws of each step. What checkpointing runs again is behind the loss. Where torch itself put a
// state back (fork_rng), the draws repeat by design.
func (p *Process) redrawn() map[*Step]*redraws {
	all := map[*Step]*redraws{}
	first := map[uint64]*Call{}
	goesOn := map[[2]site]bool{} // lines that drew new numbers one after the other
	for _, o := range p.Steps {
		found := &redraws{}
		all[o] = found
		here := map[uint64]*Call{}
		last := map[int]*Call{} // by generator
		for _, c := range o.Calls {
			if !c.drawsNumbers() {
				continue
			}
			prev := last[c.Entry.DrawnFrom]
			last[c.Entry.DrawnFrom] = c
			if prev != nil && first[prev.generator] != prev {
				prev = nil
			}
			a := cmp.Or(here[c.generator], first[c.generator])
			if here[c.generator] == nil {
				here[c.generator] = c
			}
			if a == nil {
				if first[c.generator] = c; prev != nil {
					goesOn[[2]site{prev.place(), c.place()}] = true
				}
				continue
			}
			r := redraw{call: c, first: a}
			if prev != nil && a.Step != o && a.place() != c.place() && goesOn[[2]site{prev.place(), c.place()}] {
				r.prev = prev
			}
			if sets := c.setsSince(a); len(sets) > 0 {
				last := sets[len(sets)-1]
				if byTorch(sets) {
					continue
				}
				r.set = &last
			}
			r.own = c.Entry.DrawnFrom > 0 && c.Entry.DrawnFrom == a.Entry.DrawnFrom
			r.alike = c.Entry.DrawnFrom == 0 && a.Entry.DrawnFrom == 0 && c.Entry.GeneratorSets != nil && c.showsDraw(a)
			if a.Step == o {
				found.again = append(found.again, r)
			} else {
				found.before = append(found.before, r)
			}
		}
	}
	return all
}

// drawsNumbers reports whether a call drew from a generator whose state is known, and not by calls that it made: these
// may have set the generator before they drew.
func (c *Call) drawsNumbers() bool {
	n := 0
	if len(c.Outputs) > 0 {
		n = c.Outputs[0].Numel()
	}
	if strings.HasSuffix(c.Op, "randperm") {
		n-- // one element has one order
	}
	return c.generator != 0 && n > 0 &&
		!slices.ContainsFunc(c.Process.Calls[c.Order+1:c.lastInner()+1], func(o *Call) bool { return o.generator != 0 })
}

// showsDraw reports whether the results of two calls show that they drew the same numbers: they are equal, or zero at
// the same places where their first arguments are not, as a mask leaves them.
func (c *Call) showsDraw(a *Call) bool {
	x, y := c.Outputs[0], a.Outputs[0]
	if c.Op != a.Op || !x.like(y) || x.content.plain || y.content.plain || x.Numel() <= few {
		return false
	}
	if x.content.sum == y.content.sum {
		return true
	}
	if len(c.Inputs) == 0 || len(a.Inputs) == 0 || !c.Inputs[0].like(x) || !a.Inputs[0].like(y) || !x.DType.IsFloat() {
		return false
	}
	kept, dropped := 0, 0
	zero := func(v *Value, i int) bool { return v.DType.Number(v.content.samples[i]) == 0 } // -0, too
	for i := range x.content.samples {
		switch {
		case zero(c.Inputs[0], i) || zero(a.Inputs[0], i):
		case zero(x, i) != zero(y, i):
			return false
		case zero(x, i):
			dropped++
		default:
			kept++
		}
	}
	const some = 4
	return kept >= some && dropped >= some
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

// findings are those about calls that drew the numbers of an earlier call since the program had set the generator back:
// the first one behind each setting, and how many others follow from that.
func (d *redraws) findings() (all []*Finding) {
	by := map[string]*Finding{}
	for _, r := range slices.Concat(d.again, d.before) {
		if r.first.Step != r.call.Step && r.mayBeMeant() {
			continue
		}
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
			Reason:  fmt.Sprintf("it drew the same random numbers as %s%s: %s", r.first, r.earlier(), why),
			redrawn: true, setBack: r.set != nil}
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
		return "the program's own generator was set back, or did not advance, " + r.between(),
			fmt.Sprint(r.call.Entry.DrawnFrom)
	case r.alike:
		return "the generator was set back, by its set_state() or manual_seed() say, or did not advance, " +
			r.between(), r.first.String()
	}
	return "", ""
}

// drewBefore is the gap of a call that drew the numbers of an earlier step.
func (r redraw) drewBefore() string {
	if r.set == nil {
		return drewBefore + setBack
	}
	why, _ := r.why()
	return drewBefore + why
}

// earlier says that the first call was one of an earlier step, if it was.
func (r redraw) earlier() string {
	if r.first.Step == r.call.Step {
		return ""
	}
	return " in an earlier step"
}

func (r redraw) between() string {
	from := cmp.Or(r.prev, r.first)
	return fmt.Sprintf("between %s and %s", cmp.Or(from.Entry.Location, from.String()),
		cmp.Or(r.call.Entry.Location, r.call.String()))
}

// mayBeMeant reports whether the program may draw the numbers of an earlier step on purpose: as one does that sets a
// seed in each step. It does not if it had gone on to new numbers in the pass, at a line behind which this one goes on
// to new numbers in another step, and if another line drew these.
func (r redraw) mayBeMeant() bool {
	why, _ := r.why()
	return r.prev == nil || why == ""
}

// errRedrawn is why the effect of repeated random numbers is not known.
var errRedrawn = errors.New("which numbers it would have drawn is not known")
