package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// A Finding is one thing that is wrong with a step.
type Finding struct {
	Rule   verdict.Rule
	Call   *Call
	Target string
	From   *Value // of Changed: what wrote the value last, or read it before
	Peer   *Call  // of two runs: the other run's call
	Side   Side   // of two runs: whose call it is
	// WrongIn says of two runs in which of them, this one first, the pass that the finding is about is wrong by itself;
	// "" if nobody can tell.
	WrongIn reports.WrongIn
	Reason  string
	// Causes are mistakes that reproduce the value, of Wrong, the likeliest first.
	Causes []reports.Cause
	// Parallel, of what the ranks do together, says what kind of mistake it is; Ranks are those that it is about.
	Parallel string
	Ranks    []int
	Backward bool // it shows in the backward pass; of Parallel
	// Behind counts the calls that merely read what this made wrong.
	Behind int

	backward bool
	repeats  bool // it is about a call that was run again for the backward pass
	redrawn  bool // it is about a call that drew the random numbers of another one
	setBack  bool // and the recording has what set the generator back
	told     bool // the reason names what the program did or left out
	seeds    bool // of two runs: they drew different random numbers
	// setInside reports that the generator had gone on before the call.
	setInside bool
	// unseen, of Changed, are calls that computed with the changed value though the recorder
	// had copied it before it changed.
	unseen []*Call
	// spoils, of Changed, are calls whose gradients follow from the changed value, and spoilt the findings about these.
	spoils []*Call
	spoilt []*Finding
	// betweenPasses, of Changed, says that the value changed between the forward and the backward pass of its call;
	// later is what a later call reads there, nil if none does.
	betweenPasses bool
	later         *Value
	// within, of a wrong gradient, are the findings that say where in the backward pass of the call it was changed.
	within faults
}

// A Side is one of two runs that are compared.
type Side string

// The sides.
const (
	This  Side = "this"    // the run that was given first
	Other Side = "against" // the run that it is compared with
)

// before orders findings by the time at which they show.
// Different random numbers come behind what has a cause of its own.
func (f *Finding) before(g *Finding) bool {
	if f.seeds != g.seeds {
		return g.seeds
	}
	a, b := f.Call, g.Call
	if a.Process != b.Process {
		return cmp.Or(a.Process.Rank-b.Process.Rank, a.Process.PID-b.Process.PID) < 0
	}
	return passedBefore(f.time(), g.time())
}

// ofGradient reports whether the value is the gradient of a parameter, which an update reads: the backward passes gave
// it.
func (f *Finding) ofGradient() bool {
	v := f.Call.Value(f.Target)
	return v != nil && v.reason != "" && v.Address != 0 && f.From.Address != 0 && v.Address != f.From.Address
}

// passedBefore reports whether the time of a pass, as Call.time gives it, is before another one.
func passedBefore(a, b [2]float64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// time is when a finding shows. What the forward pass read and an update finds changed,
// the backward pass may have read too.
func (f *Finding) time() [2]float64 {
	if f.Rule == verdict.Changed && !f.backward && f.From != nil && !f.From.made() && f.Call.phase()%2 == 1 &&
		!f.ofGradient() {
		return [2]float64{f.Call.Step.end() + 0.25, float64(f.Call.Order)}
	}
	if f.repeats || len(f.spoils) > 0 {
		return [2]float64{f.Call.Step.end() + 0.25, float64(f.Call.Order)}
	}
	if len(f.unseen) > 0 {
		return [2]float64{float64(f.unseen[0].Order) - 0.5, 0}
	}
	return f.Call.time(f.backward)
}

// time is when a pass of a call ran: the backward pass runs behind the loss, the
// last call first.
func (c *Call) time(backward bool) [2]float64 {
	if !backward || c.Step == nil {
		return [2]float64{float64(c.Order), 0}
	}
	return [2]float64{c.differentiatedIn().end() + 0.5, float64(-c.Order)}
}

// differentiatedIn is the step whose backward pass reached the call: a later one than its own where the loss of that
// does not depend on it.
func (c *Call) differentiatedIn() *Step {
	s := c.Step
	for _, later := range c.Process.Steps[s.Number:] {
		if at := later.root.Entry.BackwardOrder; at >= 0 && at <= c.Entry.BackwardOrder {
			s = later
		}
	}
	return s
}

// end is the time of the last call of the forward pass.
func (s *Step) end() float64 { return float64(s.Calls[len(s.Calls)-1].Order) }

// Analyze runs the step in float64, measures effects and draws the findings.
func (t *Trace) Analyze(ctx context.Context, opt Options) error {
	for _, p := range t.Processes {
		if err := p.compareMemory(ctx, opt); err != nil {
			return err
		}
		p.findUnkept()
		p.findReread()
		p.findSaved(opt)
		p.findReceived(opt)
		p.findRecomputed(opt)
		p.findRefilled(opt)
		p.findOwnGradients(opt)
		p.findNodeHooks(opt)
		// One asks for gradients, the other for arguments: they do not meet.
		both, sub := errgroup.WithContext(ctx)
		if p.large() {
			both.SetLimit(1)
		}
		both.Go(func() error { return p.Bridge(sub, opt) })
		both.Go(func() error { return p.Exact(sub, opt) })
		if err := both.Wait(); err != nil {
			return err
		}
		for _, s := range p.Steps {
			s.untell()
		}
		p.BridgeParameters(ctx, opt)
		p.checkUpdates(opt)
		if err := p.Effects(ctx, opt); err != nil {
			return err
		}
	}
	t.checkExchanges(opt)
	for _, p := range t.Processes {
		t.Findings = append(t.Findings, p.findings(opt)...)
	}
	t.dropOverflows()
	if len(t.Findings) == 0 {
		for _, p := range t.Processes {
			reads := p.lastReads()
			for _, s := range p.Steps {
				t.Findings = append(t.Findings, s.drift(reads)...)
			}
		}
	}
	t.explain(opt)
	if f := t.nonFinite(); f != nil {
		_ = opt.within(f.Call, "", func(opt Options) error {
			if way := f.toNorm(opt); way != "" {
				f.Reason += "; " + way
			}
			return nil
		})
		t.Findings = slices.Insert(t.Findings, 0, f)
	}
	return nil
}

// dropOverflows takes back that gradients are wrong that overflowed in a step whose update was skipped for it.
func (t *Trace) dropOverflows() {
	skipped := t.Skipped()
	t.Findings = slices.DeleteFunc(t.Findings, func(f *Finding) bool {
		return f.Rule == verdict.Wrong && f.Call.overflowed() && slices.Contains(skipped, f.Call.Step)
	})
}

// findings are what is wrong in a process, in order of time, causes before
// consequences.
func (p *Process) findings(opt Options) []*Finding {
	var all []*Finding
	exchanged := p.exchanged()
	reread := map[*Value]bool{}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			reread[v.From.first] = true
		}
	}
	for _, c := range p.Calls {
		all = append(all, changed(c.changed(reread, exchanged), opt)...)
		for _, r := range c.Results {
			if r.Verdict == verdict.Fail && !c.vacant {
				all = append(all, &Finding{Rule: verdict.Wrong, Call: c, Target: r.Target, Reason: r.Reason,
					backward: r.Phase == replay.Backward})
			}
		}
	}
	all = append(all, p.refilled...)
	redrawn := p.redrawn()
	for _, s := range p.Steps {
		all = append(all, s.repeats(opt)...)
		all = append(all, redrawn[s].findings()...)
	}
	for _, f := range all {
		if f.Rule == verdict.Changed && !f.backward && !f.repeats && !f.redrawn {
			f.findUnseen(all, opt)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].before(all[j]) })
	return unexplained(all)
}

// changed are the inputs of a call, and the gradients of its results, that are not what was left there.
func (c *Call) changed(reread map[*Value]bool, exchanged map[uint64]bool) (all []*Value) {
	for _, v := range c.Inputs {
		if v.From.How == IsChanged && v.From.first == nil && (reread[v] || !c.unreadView()) && !v.refilled() {
			all = append(all, v)
		}
	}
	for _, v := range c.GradOutputs {
		if v.From.How == IsChanged && !exchanged[v.From.Value.Address] {
			all = append(all, v)
		}
	}
	return all
}

// refilled reports whether a call only writes an argument, whatever it held.
func (v *Value) refilled() bool {
	if v.isOut() || v.Call.Op == "torch.distributed.Reducer.finalize_backward" { // a note of what the ranks made
		return true
	}
	name := v.Call.Op[strings.LastIndexByte(v.Call.Op, '.')+1:]
	list := strings.HasPrefix(name, "_foreach_")
	name = strings.TrimPrefix(name, "_foreach_")
	return slices.Contains([]string{"copy_", "fill_", "zero_", "normal_", "uniform_"}, name) &&
		(v.Target == "input[0]" || list && v.Call.returns(v))
}

// drawsAnyway reports whether a call draws its numbers whatever its argument holds, of which it takes only the shape.
func (c *Call) drawsAnyway() bool {
	return strings.HasSuffix(c.Op, "_like") || len(c.Inputs) == 1 && c.Inputs[0].refilled()
}

// isOut reports whether an argument is memory for a result (out=).
func (v *Value) isOut() bool {
	return v.Target == "input.out" || strings.HasPrefix(v.Target, "input.out[")
}

// returns reports whether a result lies where an argument does.
func (c *Call) returns(v *Value) bool {
	return v.after != nil || slices.ContainsFunc(c.Outputs, func(o *Value) bool { return o.Address == v.Address })
}

// unreadView reports whether the results of a call are views of its arguments and no call read them, but those that
// write them (out=) and other such views: nothing was computed with what it saw. FSDP makes views of memory that it
// will fill.
func (c *Call) unreadView() bool {
	return len(c.Outputs) > 0 && !c.writes && !slices.ContainsFunc(c.Outputs, func(o *Value) bool {
		return o.Address == 0 || !c.within(o) || slices.ContainsFunc(o.readers, func(v *Value) bool {
			return !v.isOut() && (v.Call.Order <= c.Order || !v.Call.unreadView())
		})
	})
}

// unexplained leaves out findings that another one explains: the gradients of a call
// that was wrong before, and of calls whose saved arguments or results were
// overwritten; and the results of a call that made a wrong call.
func unexplained(all []*Finding) []*Finding {
	faulty := map[*Call]*Finding{}
	inner := map[*Call]*Finding{} // the first wrong call that a call made
	for _, f := range all {
		for o := f.Call.outer; o != nil && f.Rule == verdict.Wrong && !f.backward; o = o.outer {
			inner[o] = cmp.Or(inner[o], f)
		}
	}
	var out []*Finding
	for _, f := range all {
		if in := inner[f.Call]; in != nil && f.Rule == verdict.Wrong && !f.backward {
			in.Behind++
			continue
		}
		cause := faulty[f.Call]
		if cause == nil && f.backward && f.From != nil {
			cause = faulty[f.From.Call] // which gave the gradient
		}
		if cause != nil && (f.backward || f.Rule == verdict.Wrong) {
			cause.Behind++
			if slices.Contains(cause.spoils, f.Call) && f.Rule == verdict.Wrong && !cause.hasSpoilt(f.Call) {
				cause.spoilt = append(cause.spoilt, f) // all wrong gradients of a call are repaired with the first
			}
			continue
		}
		if g := f.shownBy(out); g != nil {
			g.Reason += fmt.Sprintf("; %s gave the right one, and its memory was written before %s read it at %s",
				f.From.Call, f.Call, cmp.Or(f.Call.Entry.Location, "a line that is not known"))
			g.within = append(g.within, f)
			continue
		}
		out = append(out, f)
		faulty[f.Call] = f
		for _, c := range f.spoils {
			faulty[c] = f
		}
		if f.Rule == verdict.Changed && f.From != nil && !f.redrawn {
			faulty[f.From.Call] = f
			faulty[f.From.whole().Call] = f // of a view, such as detach() makes
			for _, r := range f.From.readers {
				faulty[r.Call] = f
			}
		}
	}
	return out
}

// shownBy is the finding among others about a wrong gradient that a changed value is: a call within the backward pass
// of the call that the gradient belongs to gave the right one, and what the next call read there is the gradient.
func (f *Finding) shownBy(others []*Finding) *Finding {
	v := f.Call.Value(f.Target)
	if f.Rule != verdict.Changed || f.backward || f.From == nil || v == nil || v.content.sum == f.From.content.sum {
		return nil
	}
	for _, g := range others {
		w := g.Call.Value(g.Target)
		if g.Rule == verdict.Wrong && g.backward && w != nil && w.equals(v) && g.Call.Process == f.Call.Process &&
			slices.Contains(g.Call.nodeHooks(), f.From.Call) {
			return g
		}
	}
	return nil
}

// Drawn says how the random numbers came about that a finding is about.
type Drawn int

// The ways.
const (
	NotDrawn   Drawn = iota // the finding is about no random numbers
	DrawnAnew               // a checkpoint ran the call again, and it drew other numbers
	DrawnAgain              // it drew those of an earlier call, and nothing recorded set the generator back
	SetBack                 // it drew those of an earlier call, behind what set the generator back
	SetInside               // it drew those of an earlier call, though the generator had gone on before it
)

// Drawn says whether a finding is about random numbers.
func (f *Finding) Drawn() Drawn {
	switch {
	case f.repeats:
		return DrawnAnew
	case f.redrawn && f.setInside:
		return SetInside
	case f.redrawn && f.setBack:
		return SetBack
	case f.redrawn:
		return DrawnAgain
	}
	return NotDrawn
}

// BetweenPasses reports whether a value changed between the forward and the backward pass of its call, and gives the
// later call that found what the backward pass read; nil if there is none.
func (f *Finding) BetweenPasses() (changed bool, found *Call) {
	if f.later != nil {
		found = f.later.Call
	}
	return f.betweenPasses, found
}

// MayBeLeft reports whether the value is a gradient that may hold what was there before the recorded steps began, and
// gives the argument of the recorder by which it records the step before, too; "" if steps have no numbers.
func (f *Finding) MayBeLeft() (may bool, record string) {
	if v := f.Call.Value(f.Target); f.Rule != verdict.Changed || v == nil || !v.leftover {
		return false, ""
	}
	return true, f.Call.Process.oneBefore()
}

// Told reports whether the reason names what the program did or left out, so that nothing else is to be looked for.
func (f *Finding) Told() bool { return f.told }

// Parameter is the name of the parameter that the value of a finding is, or whose gradient or state it is in an update;
// "" if it was not recorded, or in the forward pass, where the module tells.
func (f *Finding) Parameter() string {
	v := f.Call.Value(f.Target)
	if v == nil || f.Call.phase()%2 != 1 {
		return ""
	}
	for _, w := range []*Value{v, f.From} {
		if w == nil {
			continue
		}
		if name := w.parameterName(); name != "" {
			return name
		}
	}
	return ""
}

// parameterName is the name of the parameter that a value is, or at whose place in a list it stands, there or where
// another call of the update reads it.
func (v *Value) parameterName() string {
	if v.named != "" {
		return v.named
	}
	readings := []*Value{v}
	if v.Call.Step != nil && v.Address != 0 {
		readings = append(readings, v.Call.Step.tailAt[v.Address]...)
	}
	for _, r := range readings {
		if r.item < 0 || !sameShape(r.Shape, v.Shape) {
			continue
		}
		for _, w := range r.Call.Inputs {
			if w.item == r.item && w.named != "" && sameShape(w.Shape, r.Shape) {
				return w.named
			}
		}
	}
	if g := v.From.Value; g != nil && g.Kind == capture.GradInputs && g.leaf < len(g.Call.Inputs) {
		return g.Call.Inputs[g.leaf].named
	}
	return ""
}

// hasSpoilt reports whether a finding about a call is among those that this one explains.
func (f *Finding) hasSpoilt(c *Call) bool {
	return slices.ContainsFunc(f.spoilt, func(g *Finding) bool { return g.Call == c })
}

// changed are the findings about values of a call of which a part was overwritten.
func changed(vs []*Value, opt Options) []*Finding {
	var all []*Finding
	by := map[*Value]*Finding{}
	for _, v := range vs {
		f := &Finding{Rule: verdict.Changed, Call: v.Call, Target: v.Target, From: v.From.Value,
			Reason: v.reason, backward: v.Kind == capture.GradOutputs, spoils: v.spoils, told: v.told}
		all = append(all, f)
		if f.Reason == "" {
			f.Reason = fmt.Sprintf("it is not what %s of %s left: no recorded call wrote there in between",
				f.From.Target, f.From.Call)
			by[v] = f
		}
	}
	for _, f := range all {
		if v := f.Call.Value(f.Target); by[v] == nil && !f.told {
			_ = opt.within(f.Call, "", func(opt Options) error {
				f.Reason += v.moves(f.From, opt)
				return nil
			})
		}
	}
	if len(by) == 0 {
		return all
	}
	// What cannot be read leaves the finding as it is.
	_ = opt.within(vs[0].Call, "", func(opt Options) error {
		return each(vs, func(v *Value) error {
			f := by[v]
			if f == nil {
				return nil
			}
			d, err := difference(v, f.From, opt)
			otherwise := err == nil && v.From.part && d.some.beyondChance() < leastShare/2
			if errors.Is(err, errEqual) || otherwise || v.accumulates(f.From, opt) {
				// Samples proposed it, the whole content does not confirm it, or autograd added a gradient.
				v.From = Link{How: IsOutside, Role: v.role()}
				all = slices.DeleteFunc(all, func(g *Finding) bool { return g == f })
				return nil
			}
			if err != nil {
				f.Reason += " (" + err.Error() + ")"
				return nil
			}
			reason := fmt.Sprintf("%s since %s of %s, and no recorded call wrote there", d.text(v.Shape),
				f.From.Target, f.From.Call)
			if w := v.elsewhere(f.From, d, opt); w != nil {
				reason += fmt.Sprintf("; they are those of %s of %s", w.Target, w.Call)
			}
			f.Reason = reason
			return nil
		})
	})
	return all
}

// errEqual is why two values are no finding: nothing differs.
var errEqual = errors.New("nothing differs")

// difference compares an input with what its producer left.
func difference(v, w *Value, opt Options) (d differences, err error) {
	now, done, err := v.load(opt)
	if err != nil {
		return d, err
	}
	defer done()
	was, closeWas, err := w.leftThen(now, opt)
	if err != nil {
		return d, err
	}
	defer closeWas()
	if d = bitwise(now, was); d.n == 0 {
		return d, errEqual
	}
	return d, nil
}

// leftThen is what a call left in a value, as it was recorded, until release is called. Where that was not recorded, it
// is what the reference left, with the elements of now in place of those that are theirs up to rounding.
func (w *Value) leftThen(now *tensor.Tensor, opt Options) (t *tensor.Tensor, release func(), err error) {
	if w.after == nil {
		return w.load(opt)
	}
	rec, err := w.Call.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input, capture.After)})
	if err == nil {
		after := recordedAfter(rec)
		if len(after) == len(w.Call.Inputs) && after[w.leaf] != nil {
			return after[w.leaf], func() { rec.Close() }, nil
		}
	}
	rec.Close()
	left, err := w.left(opt)
	if err != nil {
		return nil, nil, err
	}
	if left == nil || left.Numel() != now.Numel() || !now.DType.IsFloat() {
		return nil, nil, fmt.Errorf("what %s of %s left is not known", w.Target, w.Call)
	}
	return nearly(left, now), func() {}, nil
}

// nearly is what the reference left, with the elements of now in place of those that are theirs up to rounding.
func nearly(left, now *tensor.Tensor) *tensor.Tensor {
	x, y := tensor.Data[float64](now), slices.Clone(tensor.Data[float64](left))
	const roundings = 512 // as outliers allows
	eps := now.DType.Eps()
	for i := range y {
		if math.Abs(x[i]-y[i]) <= roundings*eps*math.Abs(y[i])+2*now.DType.ULP(0) {
			y[i] = x[i]
		}
	}
	return solid(opdef.Map(now.DType, tensor.New(tensor.Float64, now.Shape, y), now.DType.Round))
}

// accumulates reports whether a value is w with a gradient of its shape added: autograd adds up the gradients of a
// value that several calls read, and those of several backward passes, in place and without a call. Samples propose the
// gradient, and its elements confirm it.
func (v *Value) accumulates(w *Value, opt Options) bool {
	if !v.DType.IsFloat() || w.Numel() != v.Numel() {
		return false
	}
	elements := func(x *Value) []float64 {
		t, done, err := x.load(opt)
		if err != nil {
			return nil
		}
		defer done()
		return slices.Clone(tensor.Data[float64](t)) // its file is closed then
	}
	if all, ok := w.others(); ok {
		terms := [][]float64{elements(w)}
		for _, g := range all {
			terms = append(terms, elements(g))
		}
		if adds(v, elements(v), terms...) {
			return true
		}
	}
	var now, before []float64
	for _, c := range v.Call.Process.Calls {
		for _, g := range c.Grads {
			turned := g.turned(v)
			if g == w || !turned && (!sameShape(g.Shape, v.Shape) || !adds(v, v.content.numbers(v.DType),
				w.content.numbers(w.DType), g.content.numbers(g.DType))) {
				continue
			}
			if now == nil {
				now, before = elements(v), elements(w)
			}
			more := elements(g)
			if turned {
				more = transposed(more, v.Shape)
			}
			if adds(v, now, before, more) && slices.ContainsFunc(more, func(x float64) bool { return x != 0 }) {
				return true
			}
		}
	}
	return false
}

// turned reports whether a gradient may be that of a matrix of the shape of v, which its call read turned round.
func (g *Value) turned(v *Value) bool {
	return len(g.Shape) == 2 && len(v.Shape) == 2 && g.Shape[0] == v.Shape[1] && g.Shape[1] == v.Shape[0] &&
		g.Shape[0] != g.Shape[1] && g.DType == v.DType
}

// transposed are the elements of a matrix of a shape, of which x are those turned round.
func transposed(x []float64, shape []int) []float64 {
	if len(x) != shape[0]*shape[1] {
		return nil
	}
	out := make([]float64, len(x))
	for i := range shape[0] {
		for j := range shape[1] {
			out[i*shape[1]+j] = x[j*shape[0]+i]
		}
	}
	return out
}

// others are the gradients that the other readers of a value gave it, where w is one; ok is false where there are none.
func (w *Value) others() (out []*Value, ok bool) {
	if w.Kind != capture.GradInputs {
		return nil, false
	}
	var readers []*Value
	if read := w.argument(); read.From.Value != nil {
		readers = read.From.Value.readers
	} else { // what made it is not known: those that read the same there
		for _, c := range w.Call.Process.Calls {
			for _, r := range c.Inputs {
				if r.Address != 0 && r.Address == read.Address && r.like(read) && r.content.sum == read.content.sum {
					readers = append(readers, r)
				}
			}
		}
	}
	for _, r := range readers {
		if g := r.Call.gradientOf(r); g != nil && g != w && sameShape(g.Shape, w.Shape) {
			out = append(out, g)
		}
	}
	return out, len(out) > 0
}

// adds reports whether elements of v are those of terms added up.
func adds(v *Value, now []float64, terms ...[]float64) bool {
	var all addition
	for _, t := range terms {
		if t == nil || !all.addElements(t) {
			return false
		}
	}
	_, ok := all.near(now, v.DType)
	return ok
}

// elsewhere is another recorded value of the same shape that has all elements of v that differ from w: what was written
// there in w's place. nil if there is none, or the elements are equal to each other, as those of many values are.
func (v *Value) elsewhere(w *Value, d differences, opt Options) *Value {
	const near = 200 // calls before that are looked at
	elements := func(x *Value) []float64 {
		t, done, err := x.load(opt)
		if err != nil {
			return nil
		}
		defer done()
		out := make([]float64, len(d.at))
		for i, k := range d.at {
			out[i] = tensor.At[float64](t, k)
		}
		return out
	}
	if !v.DType.IsFloat() {
		return nil
	}
	want := elements(v)
	if !slices.ContainsFunc(want, func(x float64) bool { return x != want[0] }) {
		return nil
	}
	all := v.Floats(opt)
	hasAll := func(o *Value) bool {
		x := o.Floats(opt)
		return len(x) == len(all) && d.all(func(i int) bool { return x[i] == all[i] })
	}
	calls := v.Call.Process.Calls
	for i := v.Call.Order - 1; i >= max(0, v.Call.Order-near); i-- {
		for _, o := range calls[i].Outputs {
			if o != w && o.like(v) && slices.Equal(elements(o), want) && hasAll(o) {
				return o
			}
		}
	}
	return nil
}

// index is the place of element i of a shape: [1, 0, 3].
func index(i int, shape []int) string { return tensor.ShapeString(tensor.Unravel(i, shape)) }

// amplified is how much more than its own relative error a call's rounding may
// move the loss, relative to the loss. A healthy call's moves it by less: roundings
// of many elements cancel.
const amplified = 32

// A call whose effect on the loss is many times that of any other is worth a finding with less amplification: in sound
// steps one call may dominate the others too, but moves the loss by no more than its own rounding.
const (
	dominates = 16 // times the next
	alone     = 4  // amplification
)

// drift finds where precision is lost in a step in which nothing is wrong: a
// rounding that what follows amplifies, or a loss in a dtype that cannot hold it. reads are those of Process.lastReads.
func (s *Step) drift(reads map[contentKey]int) []*Finding {
	top := s.Largest(2)
	if len(top) == 0 || math.IsNaN(s.Exact) || s.Captured-s.Captured != 0 || s.differentiated(reads) {
		return nil
	}
	c, share := top[0], ""
	if off := s.Captured - s.Exact; off != 0 {
		share = fmt.Sprintf(" of %+.3g in all", off)
	}
	f := &Finding{Rule: verdict.Drift, Call: c, Target: "output[0]"}
	// A loss near zero has a large relative error by nature: what it is made of is larger.
	const small, usual = 0.1, 1
	rounded := math.Abs(c.Effect) / max(c.LocalError, unitRoundoff(c))
	factor := rounded / max(math.Abs(s.Exact), small)
	switch loss := s.Loss.DType(); {
	case loss.Size() <= 2:
		f.Reason = fmt.Sprintf("the loss is computed in %s, which cannot hold it: this call's rounding moves it by "+
			"%+.3g%s", loss, c.Effect, share)
	case factor > amplified:
		f.Reason = fmt.Sprintf("the rounding of this call, %.2g of its result, moves the loss by %+.3g%s: what "+
			"follows "+
			"amplifies it %.0f times", c.LocalError, c.Effect, share, factor)
	case rounded/max(math.Abs(s.Exact), usual) > alone && len(top) > 1 &&
		math.Abs(c.Effect) > dominates*math.Abs(top[1].Effect):
		f.Reason = fmt.Sprintf("the rounding of this call, %.2g of its result, moves the loss by %+.3g%s, %.0f "+
			"times as much "+
			"as that of any other call", c.LocalError, c.Effect, share, math.Abs(c.Effect/top[1].Effect))
	default:
		return nil
	}
	return []*Finding{f}
}

// differentiated reports whether a later loss is computed from the gradients of the step (create_graph): then its own
// loss is an inner value of the program.
func (s *Step) differentiated(reads map[contentKey]int) bool {
	return slices.ContainsFunc(s.Calls, func(c *Call) bool {
		return slices.ContainsFunc(c.Grads, func(g *Value) bool {
			return g.tellsApart() && reads[g.key()] > s.Loss.Order
		})
	})
}

// lastReads are the places of the last calls with a backward pass that read a value with a gradient, by its content.
func (p *Process) lastReads() map[contentKey]int {
	reads := map[contentKey]int{}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if c.HasBackward() && v.RequiresGrad && !v.Parameter {
				reads[v.key()] = c.Order
			}
		}
	}
	return reads
}

// unitRoundoff is the unit roundoff of a call's dtype, or of float32 if that is larger:
// losses are made in it.
func unitRoundoff(c *Call) float64 { return max(c.DType().Eps(), tensor.Float32.Eps()) / 2 }

func sortBy[T any](s []T, key func(T) float64) {
	slices.SortStableFunc(s, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
