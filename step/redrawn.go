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
	// inside reports that the generator had gone on before the call, and that the results show the same numbers: the
	// call itself set it back.
	inside bool
	// follows is the redraw that is a finding behind which the program drew on up to this call; nil if none did.
	follows *redraw
	due     bool // and these are the numbers that the first call should have drawn
	found   *Finding
	// alike reports that both drew from one of torch's own, that the recording has what the functions of torch's
	// modules set, and that the results show the same numbers: the first one did draw.
	alike bool
}

// redraws are the calls of a step's forward pass that drew the random numbers of an earlier call: of this pass, or of
// an earlier step.
type redraws struct{ again, before []*redraw }

// A drawLine is a line of the program that draws for the nth time in a step.
type drawLine struct {
	site
	nth int
}

// draws goes through the calls of the forward passes that draw random numbers, in order.
type draws struct {
	first      map[uint64]*Call // by the state of the generator
	last, next map[*Call]*Call  // the draws of the generator before and after a call
	redraws    map[*Call]*redraw
	goesOn     map[[2]site]bool       // lines that drew new numbers one after the other
	fresh      map[drawLine]int       // steps in which the line drew new numbers
	repeats    map[drawLine][]*redraw // of an earlier step, though new numbers had been drawn just before
	here       map[string][]*Call     // by operator and shape, calls of this step whose results show the numbers
	before     map[string][]*Call     // and of the step before
}

// redrawn are the redraws of each step. What checkpointing runs again is behind the loss. Where torch itself put a
// state back (fork_rng), the draws repeat by design.
func (p *Process) redrawn() map[*Step]*redraws {
	all := map[*Step]*redraws{}
	d := draws{first: map[uint64]*Call{}, last: map[*Call]*Call{}, next: map[*Call]*Call{},
		redraws: map[*Call]*redraw{}, goesOn: map[[2]site]bool{}, fresh: map[drawLine]int{},
		repeats: map[drawLine][]*redraw{}}
	last := map[int]*Call{} // by generator
	for _, o := range p.Steps {
		all[o] = &redraws{}
		here := map[uint64]*Call{}
		nth := map[site]int{}
		d.here, d.before = map[string][]*Call{}, d.here
		for _, c := range o.Calls {
			if !c.drawsNumbers() {
				continue
			}
			line := drawLine{c.place(), nth[c.place()]}
			nth[c.place()]++
			if prev := last[c.Entry.DrawnFrom]; prev != nil {
				d.last[c], d.next[prev] = prev, c
			}
			last[c.Entry.DrawnFrom] = c
			r := d.redraw(c, here[c.generator], line)
			if here[c.generator] == nil {
				here[c.generator] = c
			}
			if r == nil {
				continue
			}
			if d.redraws[c] = r; r.first.Step == o {
				all[o].again = append(all[o].again, r)
			} else {
				all[o].before = append(all[o].before, r)
			}
		}
	}
	for line, rs := range d.repeats {
		if r := rs[0]; len(rs) == 1 && d.fresh[line] > 1 && r.set == nil {
			r.prev = d.last[r.call]
		}
	}
	for _, o := range p.Steps {
		for _, c := range o.Calls {
			if r := d.redraws[c]; r != nil {
				d.follow(r)
			}
		}
	}
	return all
}

// follow notes whether a call drew again what it did because the draw before had been set back: the program drew on.
func (d *draws) follow(r *redraw) {
	if prev := d.redraws[d.last[r.call]]; prev != nil && !r.inside && r.set == nil && d.next[prev.first] == r.first {
		if r.follows = prev.follows; prev.isFinding() {
			r.follows = prev
		}
		r.due = d.redraws[r.first] != nil
	}
}

// sameNumbers is an earlier call of the operator, of this step or the one before, whose result shows the same numbers
// although it began in another state of the generator, which nothing set since; nil if there is none.
func (d *draws) sameNumbers(c *Call) *Call {
	if c.drawn == nil || c.Entry.DrawnFrom == 0 && c.Entry.GeneratorSets == nil {
		return nil
	}
	v := c.Outputs[0]
	key := fmt.Sprint(c.Op, v.DType, v.Shape, c.device, c.Entry.DrawnFrom)
	defer func() { d.here[key] = append(d.here[key], c) }()
	for _, earlier := range [][]*Call{d.here[key], d.before[key]} {
		for _, a := range slices.Backward(earlier) {
			if a.generator != c.generator && c.drawn.same(a.drawn) && len(c.setsSince(a)) == 0 {
				return a
			}
		}
	}
	return nil
}

// redraw is what a call drew again, nil if it drew new numbers; here is the call of the step that began in the same
// state of the generator.
func (d *draws) redraw(c, here *Call, line drawLine) *redraw {
	prev := d.last[c]
	if prev != nil && (prev.Step != c.Step || d.first[prev.generator] != prev) {
		prev = nil
	}
	a := cmp.Or(here, d.first[c.generator])
	from := d.sameNumbers(c)
	if a == nil {
		d.first[c.generator] = c
		if from != nil {
			return &redraw{call: c, first: from, inside: true}
		}
		d.fresh[line]++
		if prev != nil {
			d.goesOn[[2]site{prev.place(), c.place()}] = true
		}
		return nil
	}
	r := &redraw{call: c, first: a}
	if sets := c.setsSince(a); len(sets) > 0 {
		last := sets[len(sets)-1]
		if byTorch(sets) {
			return nil
		}
		r.set = &last
	}
	if prev != nil && a.Step != c.Step && d.goesOn[[2]site{prev.place(), c.place()}] {
		if d.repeats[line] = append(d.repeats[line], r); a.place() != c.place() {
			r.prev = prev
		}
	}
	r.own = c.Entry.DrawnFrom > 0 && c.Entry.DrawnFrom == a.Entry.DrawnFrom
	r.alike = c.Entry.DrawnFrom == 0 && a.Entry.DrawnFrom == 0 && c.Entry.GeneratorSets != nil && c.showsDraw(a)
	return r
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
		if r.follows != nil {
			if r.follows.found != nil && !r.due {
				r.follows.found.Behind++
			}
			continue
		}
		if !r.isFinding() {
			continue
		}
		why, at := r.why()
		if f := by[at]; f != nil {
			f.Behind++
			continue
		}
		from := r.first.Outputs[0]
		by[at] = &Finding{Rule: verdict.Changed, Call: r.call, Target: r.call.Outputs[0].Target, From: from,
			Reason:  fmt.Sprintf("it drew the same random numbers as %s%s: %s", r.first, r.earlier(), why),
			redrawn: true, setBack: r.set != nil, setInside: r.inside}
		r.found = by[at]
		all = append(all, by[at])
	}
	return all
}

// why says how the generator came back to the state that it had before the first call, and where; "" if that is not
// known.
func (r *redraw) why() (why, at string) {
	switch {
	case r.inside:
		return "the generator had gone on before the call, so the call itself set it back or drew from elsewhere",
			r.call.String()
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
func (r *redraw) drewBefore() string {
	if r.set == nil {
		return drewBefore + setBack
	}
	why, _ := r.why()
	return drewBefore + why
}

// earlier says that the first call was one of an earlier step, if it was.
func (r *redraw) earlier() string {
	if r.first.Step == r.call.Step {
		return ""
	}
	return " in an earlier step"
}

func (r *redraw) between() string {
	from := cmp.Or(r.prev, r.first)
	return fmt.Sprintf("between %s and %s", cmp.Or(from.Entry.Location, from.String()),
		cmp.Or(r.call.Entry.Location, r.call.String()))
}

// isFinding reports whether it is known that the program did not mean to draw the numbers again.
func (r *redraw) isFinding() bool {
	why, _ := r.why()
	return r.follows == nil && why != "" && (r.inside || r.first.Step == r.call.Step || !r.mayBeMeant())
}

// mayBeMeant reports whether the program may draw the numbers of an earlier step on purpose: as one does that sets a
// seed in each step. It does not if it had gone on to new numbers in the pass, at a line behind which this one goes on
// to new numbers in another step, and if another line drew these, or if the line drew new numbers in all other steps.
func (r *redraw) mayBeMeant() bool {
	why, _ := r.why()
	return r.prev == nil || why == ""
}

// errRedrawn is why the effect of repeated random numbers is not known.
var errRedrawn = errors.New("which numbers it would have drawn is not known")
