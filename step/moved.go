package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// A Moved says what a fault did to a loss.
type Moved struct {
	// Step is that whose loss the fault moved: its own, or the next one if the fault shows behind the loss; nil if none
	// was recorded.
	Step *Step
	Loss float64 // what it would have been without the fault; NaN if that is not known
	// Update, of a fault behind the loss, is how far the parameters would have gone elsewhere, relative to how far they
	// went; NaN if that is not known.
	Update float64
	// NotFinite is the first reading of a parameter that the update left infinite or NaN, so that Update is not known;
	// nil if there is none.
	NotFinite *Value
	// Rounding is how far the rounding of the calls moves the loss that would round anew without the fault: those that
	// read what the fault made, or all calls of a step behind the update. Loss has their recorded errors; a run without
	// the fault has others. It is the standard deviation of the difference.
	Rounding float64
	Why      string // why it is not known; "" if it is, and where nothing is to be known
	// Averaged are calls that drew random numbers which are not known: what the fault does passes
	// through them on average, forward or backward. Bridged are those of unknown operators: it passes to first order.
	Averaged, Bridged []*Call
	// Calls is how many calls of the operator Op are wrong in the same way as the first fault: the run is without the
	// errors of all. Kept is how many other faults there are up to the loss, whose errors the run keeps as recorded.
	Op          string
	Calls, Kept int
}

// Without is what the first fault did to the loss of its step, or to that of the next step if it shows in the backward
// pass or in the update. The fault is the kernel: of the calls up to that loss, all that it made wrong alike are
// repaired. Their errors would be others if some of them were not, and nobody knows which.
func (t *Trace) Without(ctx context.Context, opt Options) Moved {
	first := t.FirstFault()
	if first == nil {
		return Moved{Loss: math.NaN(), Update: math.NaN()}
	}
	all := t.faultsUpTo(first.moves())
	var same faults
	calls := map[*Call]bool{}
	for _, f := range all {
		if f == first || f.isLike(first) {
			same, calls[f.Call] = append(same, f), true
		}
	}
	if len(same) == 0 {
		same, all, calls = faults{first}, faults{first}, map[*Call]bool{first.Call: true}
	}
	m := same.without(ctx, opt)
	m.Op, m.Calls, m.Kept = first.Call.Op, len(calls), len(all)-len(same)
	return m
}

// moves is the step whose loss a fault moves first, nil if that was not recorded.
func (f *Finding) moves() *Step {
	s := f.shownIn()
	if s == nil || !f.IsBehind() {
		return s
	}
	steps := f.Call.Process.Steps
	if n := f.Call.Process.updateBehind(s); n+1 < len(steps) {
		return steps[n+1]
	}
	return nil
}

// shownIn is the step in whose forward or backward pass, or update, a finding shows: the generator of a GAN runs before
// the loss of the discriminator, and its gradients come with the next loss.
func (f *Finding) shownIn() *Step {
	if f.InBackward() && f.Call.Step != nil {
		return f.Call.differentiatedIn()
	}
	return f.Call.Step
}

// updateBehind is the number of the first step from s on behind which parameters are updated; that of all steps if
// there is none.
func (p *Process) updateBehind(s *Step) int {
	all := p.updaters()
	n := s.Number
	for n < len(all) && !all[n].updates && !all[n].step.updatesCompiled() {
		n++
	}
	return n
}

// updatesCompiled reports whether a call behind a loss that torch.compile made, whose calls have no gradients, writes a
// parameter.
func (s *Step) updatesCompiled() bool {
	return !s.root.HasBackward() && slices.ContainsFunc(s.Tail, (*Call).updatesParameter)
}

// isLike reports whether two wrong results, or two wrong gradients, are from one kernel: calls of one operator, for
// which no different causes were found.
func (f *Finding) isLike(g *Finding) bool {
	if f.Rule != verdict.Wrong || g.Rule != verdict.Wrong || f.Call.Op != g.Call.Op {
		return false
	}
	a, b := f.causesFound(), g.causesFound()
	return len(a) == 0 || len(b) == 0 ||
		slices.ContainsFunc(a, func(text string) bool { return slices.Contains(b, text) })
}

// causesFound are the causes that reproduce the value, without the numbers in them: those of two calls may differ.
func (f *Finding) causesFound() (texts []string) {
	for _, k := range f.Causes {
		if !k.Pattern {
			texts = append(texts, numeral().ReplaceAllString(k.Text, "#"))
		}
	}
	return texts
}

// numeral matches the numbers in a text.
var numeral = lazyregexp.New(`[-+]?[0-9][0-9.]*(e[-+]?[0-9]+)?`)

// faultsUpTo are the faults up to a loss, of the process of the first one: those that may move it. There are none if
// the loss was not recorded.
func (t *Trace) faultsUpTo(last *Step) (all faults) {
	first := t.FirstFault()
	if first == nil || !first.IsFault() || last == nil {
		return nil
	}
	for _, f := range t.Findings {
		s := f.shownIn()
		if f.IsFault() && f.Call.Process == first.Call.Process && s != nil &&
			(s.Number < last.Number || s == last && !f.IsBehind()) {
			all = append(all, f)
		}
	}
	return all
}

// Together is what all faults up to a loss did to it that the first one moved, and how many these are: faults of other
// processes do not count.
func (t *Trace) Together(ctx context.Context, m Moved, opt Options) (together Moved, n int) {
	all := t.faultsUpTo(m.Step)
	if len(all) < 2 || m.Kept == 0 {
		return m, len(all)
	}
	return all.without(ctx, opt), len(all)
}

// IsFault reports whether a finding is a mistake that can be repaired.
func (f *Finding) IsFault() bool { return f.Rule == verdict.Wrong || f.Rule == verdict.Changed }

// IsBehind reports whether a finding shows behind the loss of its step, which it does not move: in the backward pass or
// in the update.
func (f *Finding) IsBehind() bool { return f.InBackward() || f.Call.phase()%2 != 0 }

// faults are findings of one process in order of time.
type faults []*Finding

// without is what the faults did to the loss that the first of them moved.
func (fs faults) without(ctx context.Context, opt Options) (m Moved) {
	first := fs[0]
	s, p := first.shownIn(), first.Call.Process
	m = Moved{Step: s, Loss: math.NaN(), Update: math.NaN()}
	if s == nil || !first.IsFault() {
		return m
	}
	if slices.ContainsFunc(fs, func(f *Finding) bool { return f.redrawn }) {
		m.Why = errRedrawn.Error()
		return m
	}
	var passed []*Call
	defer func() { m.Averaged, m.Bridged = byKind(passed) }()
	w := WhatIf{averaged: &passed}
	anew := map[*Call]bool{}
	for _, f := range fs {
		for c := f.Call; c != nil && f.Rule == verdict.Wrong && !f.backward; c = c.outer {
			anew[c] = true // and the calls that made it, which are what their calls are
		}
		for _, c := range f.unseen {
			anew[c] = true
		}
		if f.Rule == verdict.Changed && !f.IsBehind() {
			w.Repair = append(w.Repair, f.Call.Value(f.Target))
		}
	}
	w.Choose = func(c *Call) (Choice, tensor.DType) {
		if anew[c] {
			return InDType, tensor.Invalid
		}
		return AsRecorded, tensor.Invalid
	}
	if !first.IsBehind() {
		losses, broken, err := p.losses(ctx, w, s.Calls, opt)
		if m.Why = why(broken, err); m.Why == "" {
			m.set(losses[s.Number])
			m.Rounding = fs.rounding(anew)
		}
		return m
	}
	m.Step = nil
	m.Why = cmp.Or(why(nil, fs.moveNext(ctx, &m, w, opt)), m.Why)
	return m
}

// why says why a loss cannot be told, "" if it can.
func why(broken []Break, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case len(broken) > 0:
		return fmt.Sprintf("%s cannot be run again: %s", broken[0].Call, broken[0].Reason)
	}
	return ""
}

// moveNext finds what faults behind the loss did to the update and the loss after it.
func (fs faults) moveNext(ctx context.Context, m *Moved, w WhatIf, opt Options) error {
	s, p := fs[0].shownIn(), fs[0].Call.Process
	all, n := p.updaters(), p.updateBehind(s)
	switch {
	case s.skipped():
		return fmt.Errorf("the update of step %d was skipped for it: without the fault it would have had calls that were "+
			"not made", s.Recorded())
	case n == len(all) && s.Number+1 < len(p.Steps):
		return fmt.Errorf("no recorded call behind %s is known to update a parameter that a recorded forward pass read",
			s.Loss)
	case n+1 >= len(p.Steps):
		return errors.New("no loss behind the update was recorded; record the next step, too" + p.oneMore())
	}
	m.Step = p.Steps[n+1]
	var err error
	w.Carries = true
	if w.With, err = fs.repaired(ctx, all[n], w.averaged, opt); err != nil {
		return err
	}
	var broken []Break
	x := p.imagined(ctx, w, &broken, opt)
	loss := x.lossOf(m.Step, m.Step.Given())
	x.loss = func(of *Step, l float64) {
		if of == m.Step {
			loss = l
		}
	}
	parameters := m.Step.carriedParameters()
	for _, v := range parameters {
		x.keep = append(x.keep, v.From.origin())
	}
	err = x.run(p.Calls[s.Calls[len(s.Calls)-1].Order+1 : m.Step.root.Order+1])
	if text := why(broken, err); text != "" {
		return errors.New(text)
	}
	m.Update, m.NotFinite = x.update(parameters)
	if loss == m.Step.Captured && x.escaped != nil {
		return fmt.Errorf("%s gives the program a number that would be another one, and later calls were recorded with "+
			"what the program made of it", x.escaped)
	}
	m.set(loss)
	if m.Rounding = m.Step.rounding(m.Step.Calls); m.Rounding == 0 { // its loss is NaN: nobody knows what moves it
		m.Rounding = s.rounding(s.Calls)
	}
	return nil
}

// set sets the loss without the faults, or says why it is not known.
func (m *Moved) set(loss float64) {
	if m.Loss = loss; loss != loss {
		m.Why = "the run without it gives NaN"
	}
}

// oneMore is the argument of the recorder by which it records the step behind those that it recorded, "" if the
// recording does not number them.
func (p *Process) oneMore() string {
	steps := p.recordedSteps()
	if len(steps) == 0 {
		return ""
	}
	return stepsArgument(append(steps, steps[len(steps)-1]+1))
}

// oneBefore is the one by which it records the step before those, "" if there is none.
func (p *Process) oneBefore() string {
	steps := p.recordedSteps()
	if len(steps) == 0 || steps[0] == 0 {
		return ""
	}
	return stepsArgument(slices.Insert(steps, 0, steps[0]-1))
}

// recordedSteps are the numbers of the steps that were recorded, of those with numbers.
func (p *Process) recordedSteps() (steps []int) {
	last := -1
	for _, c := range p.Calls {
		if n := c.Entry.Step; n > last {
			steps, last = append(steps, n), n
		}
	}
	return steps
}

func stepsArgument(steps []int) string {
	var numbers []string
	for _, n := range steps {
		numbers = append(numbers, strconv.Itoa(n))
	}
	return fmt.Sprintf(": steps=[%s]", strings.Join(numbers, ", "))
}

// rounding is how far the losses of two runs are apart in which calls of the step round independently of each other.
// The effect of a call is one draw, which may be small by chance: what its elements' errors do one by one is another
// measure. The loss itself is a sum in its dtype, of which a unit in the last place is lost. What a wrong call does to
// the loss is no rounding. It is 0 if nothing is known of the calls.
func (s *Step) rounding(calls []*Call) float64 {
	square := 0.0
	for _, c := range calls {
		if c.counts() && c.Verdict != verdict.Fail {
			square += max(c.Effect*c.Effect, c.rounds*c.rounds)
		}
	}
	if square == 0 {
		return 0
	}
	if ulp := s.root.DType().ULP(s.Captured); ulp-ulp == 0 {
		square += ulp * ulp / 2
	}
	return math.Sqrt(2 * square)
}

// rounding is how far the rounding of the calls moves the loss of the step that read what the faults made: without the
// faults they would round anew.
func (fs faults) rounding(wrong map[*Call]bool) float64 {
	reached := map[*Call]bool{}
	for _, f := range fs {
		maps.Copy(reached, f.reached())
	}
	s := fs[0].Call.Step
	return s.rounding(slices.DeleteFunc(slices.Clone(s.Calls), func(c *Call) bool { return wrong[c] || !reached[c] }))
}

// A Share is what faults did to the loss of a step behind the first one.
type Share struct {
	Moved      // by the faults in the forward pass of the step itself; Loss is NaN and Why "" if there are none
	Faults int // how many these are
	// Before says why it cannot be told what the faults before the step did to it through the weights.
	Before string
}

// Shares are what faults did to the losses of up to n steps behind the first fault, other than the one that m is about.
func (t *Trace) Shares(ctx context.Context, m Moved, n int, opt Options) map[*Step]Share {
	first := t.FirstFault()
	if first == nil || !first.IsFault() || first.Call.Step == nil || m.Step == nil {
		return nil
	}
	shares := map[*Step]Share{}
	began := first.shownIn()
	updated := first.Call.Process.updateBehind(began)
	if updated == len(first.Call.Process.Steps) { // no update is known
		updated = began.Number
	}
	for _, s := range first.Call.Process.Steps[began.Number+1:] {
		if s == m.Step {
			continue
		}
		if len(shares) == n {
			break
		}
		share := Share{Moved: Moved{Step: s, Loss: math.NaN(), Update: math.NaN()}}
		var own faults
		for _, f := range t.Findings {
			if f.IsFault() && f.Call.Step == s && !f.IsBehind() {
				own = append(own, f)
			}
		}
		if share.Faults = len(own); len(own) > 0 {
			share.Moved = own.without(ctx, opt)
		}
		switch {
		case s.Number <= updated: // with the weights that the faulty step had: a micro batch
		case !slices.ContainsFunc(began.Calls, (*Call).HasBackward):
		case first.IsBehind():
			share.Before = "only " + m.Step.LossName() + " was computed anew"
		default:
			share.Before = fmt.Sprintf("the gradients that follow from %s were not computed anew", first.Call)
		}
		shares[s] = share
	}
	return shares
}

// RoundsBy is how far a run without the fault may be from Loss, since it rounds anew: two standard deviations.
func (m Moved) RoundsBy() float64 { return 2 * m.Rounding }

// Rounds reports whether the fault moves the loss by no more than rounding does, so that nobody can tell in which
// direction.
func (m Moved) Rounds() bool { return math.Abs(m.Step.Captured-m.Loss) < m.Rounding }

// carriedParameters are the first readings of parameters that the update behind the step before wrote.
func (s *Step) carriedParameters() (out []*Value) {
	for _, c := range s.Calls {
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil && v.RequiresGrad && v.From.first == nil && v.carried(w) &&
				!slices.ContainsFunc(out, func(u *Value) bool { return u.From.origin() == w }) {
				out = append(out, v)
			}
		}
	}
	return out
}

// update is how far the parameters would have gone elsewhere in the rerun, relative to how far they went from the step
// before; NaN if none went anywhere, or if the fault reaches none. It gives the first parameter that is not finite, if
// there is one, and NaN then.
func (x *rerun) update(parameters []*Value) (apart float64, infinite *Value) {
	moved, went, reached := 0.0, 0.0, false
	for _, v := range parameters {
		now := x.values[v.From.origin()]
		before := v.readBefore()
		if before == nil {
			continue
		}
		err := v.with(x.opt, func(t *tensor.Tensor) {
			if !t.AllFinite() {
				infinite = cmp.Or(infinite, v)
			}
			if now != nil && comparable(now, t) { // else the fault does not reach it
				moved, reached = moved+distance(t, now, nil).square, true
			}
			_ = before.with(x.opt, func(b *tensor.Tensor) { went += distance(t, b, nil).square })
		})
		if err != nil || infinite != nil {
			return math.NaN(), infinite
		}
	}
	if went == 0 || !reached {
		return math.NaN(), nil
	}
	return math.Sqrt(moved / went), nil
}

// readBefore is how an earlier step read the parameter at an address last; nil if none did.
func (v *Value) readBefore() *Value {
	for _, s := range slices.Backward(v.Call.Process.Steps[:v.Call.Step.Number]) {
		for _, c := range s.Calls {
			for _, u := range c.Inputs {
				if u.Address == v.Address && u.like(v) {
					return u
				}
			}
		}
	}
	return nil
}

// repaired are the inputs behind the loss as they would be without the faults. averaged is told of calls through which
// the faults pass on average.
func (fs faults) repaired(ctx context.Context, u *updater, averaged *[]*Call, opt Options) (map[*Value]*tensor.Tensor,
	error) {
	with := map[*Value]*tensor.Tensor{}
	var inBackward faults
	for _, f := range fs {
		switch {
		case f.repeats:
			return nil, errors.New("the gradients belong to another forward pass")
		case len(f.spoilt) > 0:
			inBackward = append(inBackward, f.spoilt...)
			continue
		case len(f.within) > 0: // the calls behind it in the backward pass were recorded, and are computed anew
			asMade, err := f.within.repaired(ctx, u, averaged, opt)
			if err != nil {
				return nil, err
			}
			maps.Copy(with, asMade)
			continue
		case len(f.spoils) > 0 || f.reruns():
			return nil, errRerun
		case f.InBackward():
			inBackward = append(inBackward, f)
			continue
		case !f.IsBehind() && f.Call.Step.Number <= u.step.Number:
			return nil, fmt.Errorf("the gradients that follow from %s were not computed anew", f.Call)
		case f.Rule == verdict.Wrong || !f.IsBehind(): // it is computed anew, or read as it was made
			continue
		}
		v := f.Call.Value(f.Target)
		for _, v := range append([]*Value{v}, v.alike...) {
			right := v.right
			if right == nil {
				right = v.From.Value.left
			}
			t, err := right(opt)
			if err == nil && t == nil {
				err = errors.New("no call gives it")
			}
			if err != nil {
				return nil, fmt.Errorf("what %s should be is not known: %w", v.Target, err)
			}
			with[v] = t
		}
	}
	if len(inBackward) == 0 {
		return with, nil
	}
	return with, inBackward.repairGradients(ctx, u, with, averaged, opt)
}

// left is what a call left in a value.
func (v *Value) left(opt Options) (t *tensor.Tensor, err error) {
	if v.after == nil {
		return v.Recorded(opt)
	}
	err = opt.within(v.Call, "", func(opt Options) error {
		t, err = opt.files.leftIn(v, opt)
		if t != nil {
			t = solid(t)
		}
		return err
	})
	return t, err
}

// repairGradients sets the gradients that an update reads, with what the faults did to them taken away: the difference
// passes through the calls of the backward pass.
func (fs faults) repairGradients(ctx context.Context, u *updater, with map[*Value]*tensor.Tensor, averaged *[]*Call,
	opt Options) error {
	b := newBackwards()
	for _, f := range fs {
		if err := opt.within(f.Call, "", func(opt Options) error { return b.begin(f, opt) }); err != nil {
			return err
		}
	}
	// A generator runs before the loss of the discriminator, which is no loss of its own.
	if err := b.pass(ctx, fs[0].Call.Process.Steps[:u.step.Number+1], opt); err != nil {
		return err
	}
	*averaged = append(*averaged, b.averaged...)
	found := map[uint64]bool{}
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			if v.From.first != nil || !v.isGradient() {
				continue
			}
			at := u.gradientOf(v)
			d := b.parameters[at]
			if d == nil {
				continue
			}
			if g := v.From.Value; b.isPart(g, u.parameters[at]) { // the others are added to it
				found[at] = true
				if d = b.given[g]; d == nil {
					continue
				}
			}
			t, err := with[v], error(nil)
			if t == nil {
				t, err = v.Recorded(opt)
			}
			if err != nil {
				return err
			}
			if !d.AllFinite() {
				return fmt.Errorf("%s of %s: what it should be follows from a recorded gradient that is not finite",
					v.Target, c)
			}
			if comparable(t, d) {
				with[v], found[at] = plus(t, d, 1), true
			}
		}
	}
	for at := range b.parameters {
		if !found[at] {
			return u.unread(at)
		}
	}
	return nil
}

// pass is the backward pass of steps, from the last call to the first.
func (b *backwards) pass(ctx context.Context, steps []*Step, opt Options) error {
	return cmp.Or(b.walk(ctx, steps, opt), b.left())
}

// walk takes differences through the calls of steps, from the last call to the first.
func (b *backwards) walk(ctx context.Context, steps []*Step, opt Options) error {
	for _, s := range slices.Backward(steps) {
		for _, c := range slices.Backward(slices.Concat(s.Calls, s.Tail)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !slices.ContainsFunc(c.Outputs, func(o *Value) bool { return b.of[o] != nil }) {
				continue
			}
			if err := opt.within(c, "", func(opt Options) error { return b.through(c, opt) }); err != nil {
				return fmt.Errorf("the gradients of %s: %w", c, err)
			}
		}
	}
	return nil
}

// left says that differences are left which no call took on.
func (b *backwards) left() error {
	left := slices.SortedFunc(maps.Keys(b.of), func(x, y *Value) int {
		return cmp.Or(x.Call.Order-y.Call.Order, cmp.Compare(x.Target, y.Target))
	})
	if len(left) > 0 {
		return fmt.Errorf("no recorded call took the gradient of %s of %s on", left[0].Target, left[0].Call)
	}
	return nil
}

// unread says why it is not known which gradient an update read for the parameter at an address, and what to do.
func (u *updater) unread(at uint64) error {
	name := "a parameter"
	if readings := u.parameters[at]; len(readings) > 0 {
		name = fmt.Sprintf("%s of %s", readings[0].Target, readings[0].Call)
	}
	written := false
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			if written = written || v.Address == at && c.returns(v); v.Address == at || u.parameter(v) != at {
				continue
			}
			switch {
			case v.From.Role == "collective":
				return fmt.Errorf("%s of %s is the gradient of %s that a collective changed, with what other ranks gave",
					v.Target, c, name)
			case v.From.How == IsOutside && v.From.Value == nil:
				return fmt.Errorf("%s of %s, with which %s is updated, is not the sum of the gradients that "+
					"the recorded calls gave; if a function of another package changed it, name that in wrap= of the "+
					"recorder", v.Target, c, name)
			}
		}
	}
	if !written {
		return fmt.Errorf("no recorded call updates %s; name the function that does in wrap= of the recorder", name)
	}
	return fmt.Errorf("no recorded call behind the loss reads a value that is known to be the gradient of %s", name)
}

// backwards passes differences of gradients through the calls of a backward pass.
type backwards struct {
	of         map[*Value]*tensor.Tensor // by result
	parameters map[uint64]*tensor.Tensor // by address
	given      map[*Value]*tensor.Tensor // by recorded gradient of a parameter, of which others may be parts
	averaged   []*Call                   // calls that drew random numbers which are not known
	doubted    bool                      // gradients that are no derivatives, perhaps on purpose, are corrected, too
	// passed, if not nil, is told of each call through which differences pass, as the reference runs it, with those of
	// its results.
	passed func(c *Call, rec *capture.Call, f *opdef.Forward, d []*tensor.Tensor)
}

func newBackwards() *backwards {
	return &backwards{of: map[*Value]*tensor.Tensor{}, parameters: map[uint64]*tensor.Tensor{},
		given: map[*Value]*tensor.Tensor{}}
}

// isPart reports whether a recorded gradient is that of one of several readings of a parameter, which are added up.
func (b *backwards) isPart(g *Value, readings []*Value) bool {
	own, others := false, false
	for _, r := range readings {
		h := r.Call.gradientOf(r)
		own = own || h == g && g != nil
		others = others || h != g && (h == nil || !h.content.zero())
	}
	return own && others
}

// begin takes what the fault added to the gradients that it is about.
func (b *backwards) begin(f *Finding, opt Options) error {
	c := f.Call
	if f.Rule == verdict.Changed {
		g := c.Value(f.Target)
		out := c.result(g)
		var readings []*Value
		for _, n := range out.names(c) {
			for _, r := range n.readers {
				if r.Kind == inputKind && r.Call.HasBackward() && r.Call.passes(r) == nil {
					readings = append(readings, r)
				}
			}
		}
		want, _, err := newPulls(readings...).gradient(readings, opt)
		if err != nil || want == nil {
			return cmp.Or(err, errors.New("what the gradient should be is not known"))
		}
		return g.with(opt, func(t *tensor.Tensor) { b.of[out] = plus(want, t, -1) })
	}
	wanted := map[int]bool{}
	for k := range c.Inputs {
		wanted[k] = true
	}
	want, err := c.pull(wanted, opt)
	if errors.Is(err, opdef.ErrUnknownOp) {
		given, failed := c.recordedGiven(opt)
		if failed != nil {
			return failed
		}
		if want, failed = c.derivative(c.madeCalls(), given, opt); failed != nil || want != nil {
			err = failed
		}
	}
	if err != nil {
		return err
	}
	begun := false
	for k, v := range c.Inputs {
		g := c.gradientOf(v)
		if g == nil || want[k] == nil || !c.failsAt(g.Target) && !(b.doubted && c.doubts(g.Target)) {
			continue
		}
		begun = true
		var d *tensor.Tensor
		err := g.with(opt, func(t *tensor.Tensor) { d = plus(want[k], t, -1) })
		if err == nil {
			err = b.add(v, d)
		}
		if err != nil {
			return err
		}
	}
	if !begun {
		return errors.New("what the gradient should be is not known")
	}
	return nil
}

// failsAt reports whether a gradient of a call is wrong, by itself or since memory was overwritten.
func (c *Call) failsAt(target string) bool {
	return slices.Contains(c.spoilt, target) || slices.ContainsFunc(c.Results, func(r Result) bool {
		return r.Phase == replay.Backward && r.Target == target && r.Verdict == verdict.Fail
	})
}

// add adds a difference to what the gradient of an input is passed on to. Where that is not known, nobody knows what
// the difference does.
func (b *backwards) add(v *Value, d *tensor.Tensor) error {
	read := v
	v = v.differentiated()
	switch w := v.From.Value; {
	case v.isParameter():
		if g := read.Call.gradientOf(read); g != nil {
			b.given[g] = d
		}
		if had := b.parameters[v.Address]; had != nil {
			d = plus(had, d, 1)
		}
		b.parameters[v.Address] = d
	case w != nil && w.Kind == outputKind && v.RequiresGrad && w.Call.HasBackward() && w.Numel() == d.Numel():
		d = d.Dense().Reshape(w.Shape...)
		if had := b.of[w]; had != nil {
			d = plus(had, d, 1)
		}
		b.of[w] = d
	case v.RequiresGrad && w.RequiresGrad && slices.ContainsFunc(tensor.Data[float64](d), func(x float64) bool {
		return x != 0
	}):
		return fmt.Errorf("no recorded call took the gradient of %s of %s on", read.Target, read.Call)
	}
	return nil
}

// through passes the differences at the results of a call to its inputs.
func (b *backwards) through(c *Call, opt Options) error {
	if c.notRun != nil {
		return c.notRun
	}
	rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read})
	//lint:ignore SA5001 Load always returns a Call
	defer rec.Close()
	if err != nil {
		return err
	}
	bound, err := opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if errors.Is(err, opdef.ErrUnknownOp) && (c.ownRight || c.failing(replay.Backward) != nil || b.doubted) {
		return b.throughMade(c, opt)
	}
	if err != nil {
		return err
	}
	if !bound.Entry.HasGrad {
		return errors.New("the reference does not differentiate the call")
	}
	drew, known := drawn(rec, bound)
	run, f, err := forwardAs(rec, drew)
	if err != nil {
		return err
	}
	if f == nil {
		return errors.New(bound.Random())
	}
	if !known {
		b.averaged = append(b.averaged, c)
	}
	out, wanted := make([]*tensor.Tensor, len(f.Outs)), map[int]bool{}
	for i, o := range c.Outputs {
		d := b.of[o]
		switch {
		case d == nil:
		case i >= len(out) || !sameShape(d.Shape, f.Outs[i].Shape):
			return fmt.Errorf("the reference gives no result like %s", o.Target)
		default:
			out[i] = d
		}
	}
	for k, v := range c.Inputs {
		wanted[k] = v.RequiresGrad
	}
	grads, err := vjp(rec, bound, run, f, out, wanted)
	if err != nil {
		return err
	}
	for k, v := range c.Inputs {
		d := grads[k]
		switch {
		case d == nil && wanted[k] && c.gradientOf(v) != nil:
			return fmt.Errorf("the reference does not give that of %s", v.Target)
		case d == nil:
			continue
		case bound.Random() != "":
			d = undropped(rec, d)
		}
		if err := b.add(v, d); err != nil {
			return err
		}
	}
	if b.passed != nil {
		b.passed(c, rec, f, out)
	}
	for _, o := range c.Outputs {
		delete(b.of, o)
	}
	return nil
}

// throughMade passes the differences through the calls that a function of the program made.
func (b *backwards) throughMade(c *Call, opt Options) error {
	given := map[*Value]*tensor.Tensor{}
	for _, o := range c.Outputs {
		if b.of[o] != nil {
			given[o] = b.of[o]
		}
	}
	grads, err := c.derivative(c.madeCalls(), given, opt)
	if err != nil {
		return err
	}
	for k, v := range c.Inputs {
		switch d := grads[k]; {
		case d == nil && v.RequiresGrad && c.gradientOf(v) != nil:
			return fmt.Errorf("the calls that it made do not give that of %s", v.Target)
		case d == nil:
		default:
			if err := b.add(v, d); err != nil {
				return err
			}
		}
	}
	for o := range given {
		delete(b.of, o)
	}
	return nil
}

// undropped is the gradient of what a dropout was given, without the elements that the recorded gradients say were
// dropped: of a 0 its result does not tell.
func undropped(rec *capture.Call, d *tensor.Tensor) *tensor.Tensor {
	said := passes(rec, d)
	if !slices.Contains(said, droppedElement) {
		return d
	}
	x := slices.Clone(tensor.Data[float64](d))
	for i, s := range said {
		if s == droppedElement {
			x[i] = 0
		}
	}
	return tensor.New(d.DType, d.Shape, x)
}

// plus is t plus so many times d.
func plus(t, d *tensor.Tensor, times float64) *tensor.Tensor {
	return solid(opdef.Zip(t.DType, t, d, func(x, y float64) float64 { return x + times*y }))
}
