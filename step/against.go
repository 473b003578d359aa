package step

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An attribute is an argument of a call that is no tensor, in a form that can be
// compared.
type attribute struct{ name, text string }

// attributes are the arguments of a bound call that are no tensors. Dtypes are left
// out: runs in two precisions differ in them by nature.
func attributes(b *opdef.Call) []attribute {
	if b == nil {
		return nil
	}
	var out []attribute
	for _, a := range b.Arguments() {
		v := a.Python()
		if _, isDType := v.(tensor.DType); isDType || len(tensorsIn(v)) > 0 {
			continue
		}
		out = append(out, attribute{a.Name, value.Repr(v)})
	}
	return out
}

// differing are the attributes in which two calls of one operator differ: "eps=1e-05
// instead of 0.001", and their names.
func differing(a, b *Call) (text, names string) {
	was := map[string]string{}
	for _, x := range a.attributes {
		was[x.name] = x.text
	}
	var texts, named []string
	for _, x := range b.attributes {
		if w, ok := was[x.name]; ok && w != x.text {
			texts = append(texts, fmt.Sprintf("%s=%s instead of %s", x.name, x.text, w))
			named = append(named, x.name)
		}
	}
	return strings.Join(texts, ", "), strings.Join(named, ", ")
}

// Runs is what a comparison of two runs counted.
type Runs struct {
	Paired   int // calls that both runs made
	Compared int // of these, those with values on both sides
	// Retyped are the paired calls whose results have another dtype in the other run.
	Retyped []*Call
	// Steps are the numbers of the steps of this run and of the other one.
	Steps pairs.Steps
	// Losses are the steps that both runs made, the other run's first.
	Losses [][2]*Step
	// Apart is the first value, in order of time, that is not the same in both runs, nil if there is none, and By its
	// relative distance.
	Apart *Value
	By    float64
	// Unjudged are the paired calls that were not compared in both runs with what they should give, or are wrong.
	Unjudged int
	// Faulty counts the passes of paired calls that are wrong by themselves in one run or in both.
	Faulty reports.Faulty
	// Other is the first finding of the other run by itself, nil if it has none.
	Other *Finding
}

// Rounding reports whether every compared call is within rounding of its exact result in both runs.
func (r *Runs) Rounding() bool { return r.Unjudged == 0 && r.Compared == r.Paired && r.Other == nil }

// differ takes note of the values of a pair that are not the same, if no value is known that differs earlier in time.
func (r *Runs) differ(p *pair) {
	if !p.a.sound() || !p.b.sound() {
		r.Unjudged++
	}
	sides := [...]struct {
		backward bool
		a, b     []*Value
	}{{false, p.a.Inputs, p.b.Inputs}, {false, p.a.Outputs, p.b.Outputs}, {true, p.a.GradOutputs, p.b.GradOutputs},
		{true, p.a.Grads, p.b.Grads}}
	_ = p.opt.within(p.b, "", func(opt Options) error {
		for _, vs := range sides {
			if first := r.Apart; first != nil && (first.Call.Process != p.b.Process ||
				!passedBefore(p.b.time(vs.backward), first.Call.time(first.inBackward()))) {
				continue
			}
			if d, at, err := apart(vs.a, vs.b, opt); err != nil {
				return err
			} else if d > 0 {
				r.Apart, r.By = at, d
			}
		}
		return nil
	})
}

// inBackward reports whether the backward pass of its call reads or gives the value.
func (v *Value) inBackward() bool {
	return v.Kind == capture.GradInputs || v.Kind == capture.GradOutputs
}

// Parted is the first finding about values that differ between the runs though what they follow from does not; nil if
// there is none.
func (t *Trace) Parted() *Finding {
	for _, f := range t.Findings {
		if f.fault() && f.Peer != nil {
			return f
		}
	}
	return nil
}

// sound reports whether the results of a call were compared with what they should be, and none is wrong.
func (c *Call) sound() bool {
	fine := func(v verdict.Verdict) bool {
		return v == verdict.Pass || v == verdict.Warn || v == verdict.Mistrusted
	}
	return fine(c.Verdict) && !slices.ContainsFunc(c.Results, func(r Result) bool { return !fine(r.Verdict) })
}

// LossesApart is the first step whose losses differ by more than rounding, nil if there is none, or no other run.
func (r *Runs) LossesApart() *[2]*Step {
	if r == nil {
		return nil
	}
	for i, l := range r.Losses {
		x, y := l[0].Captured, l[1].Captured
		unit := max(coarsest(l[0].Loss), coarsest(l[1].Loss), tensor.Float32.Eps())
		if math.Abs(x-y) > 8*unit*max(math.Abs(x), math.Abs(y)) {
			return &r.Losses[i]
		}
	}
	return nil
}

// Against compares a trace with that of another run, a: calls are aligned by
// sequence, process by process, and the findings of both comparisons merged. What
// is wrong with t by itself must have been found before.
func (t *Trace) Against(ctx context.Context, a *Trace, opt Options) error {
	t.Runs = &Runs{Other: a.First()}
	for i, of := range [2]*Trace{t, a} {
		for _, c := range of.Calls() {
			t.Runs.Steps.Add(i, c.Entry.Step)
		}
	}
	var all []*Finding
	for i, p := range t.Processes {
		if i >= len(a.Processes) {
			for _, c := range p.Calls {
				all = append(all,
					&Finding{Rule: verdict.Inserted, Call: c, Reason: "the other run has no such process"})
			}
			continue
		}
		fs, err := t.Runs.against(ctx, a.Processes[i], p, opt)
		if err != nil {
			return err
		}
		all = append(all, fs...)
	}
	for i := len(t.Processes); i < len(a.Processes); i++ {
		for _, c := range a.Processes[i].Calls {
			all = append(all, &Finding{Rule: verdict.Missing, Call: c, Reason: "this run has no such process"})
		}
	}
	t.merge(all)
	t.became(a)
	for _, f := range t.Findings {
		if f.Side = This; f.Rule == verdict.Missing {
			f.Side = Other
		}
	}
	return nil
}

// merge adds findings of a comparison to a trace's own, in order of time, those
// about missing and inserted calls last.
func (t *Trace) merge(fs []*Finding) {
	type pass struct {
		call     *Call
		backward bool
	}
	own := map[pass]*Finding{}
	var faults, others []*Finding
	for _, f := range t.Findings {
		if f.Rule == verdict.Drift || f.Rule == verdict.NonFinite {
			others = append(others, f)
			continue
		}
		own[pass{f.Call, f.backward}] = f
		faults = append(faults, f)
	}
	var rest []*Finding
	for _, f := range fs {
		switch same := own[pass{f.Call, f.backward}]; {
		case f.Rule != verdict.Diverged:
			rest = append(rest, f)
		case same != nil:
			same.Peer = f.Peer
		default:
			faults = append(faults, f)
		}
	}
	sort.SliceStable(faults, func(i, j int) bool { return faults[i].before(faults[j]) })
	t.Findings = append(append(faults, others...), rest...)
}

// against compares two processes.
func (r *Runs) against(ctx context.Context, a, b *Process, opt Options) ([]*Finding, error) {
	al := align(a.Calls, b.Calls)
	alone := map[*Call]bool{}
	for _, i := range al.Missing {
		alone[a.Calls[i]] = true
	}
	for _, j := range al.Inserted {
		alone[b.Calls[j]] = true
	}
	for i := range min(len(a.Steps), len(b.Steps)) {
		r.Losses = append(r.Losses, [2]*Step{a.Steps[i], b.Steps[i]})
	}
	w := walk{runs: r, argued: map[string]*argued{}, other: map[*Call]bool{}, backward: map[*Step]passed{},
		drawn: map[*Call]bool{}}
	for _, at := range al.Pairs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.add(&pair{a: a.Calls[at[0]], b: b.Calls[at[1]], alone: alone, opt: opt})
	}
	w.end(b)
	out := w.out
	for _, i := range al.Missing {
		out = append(out, &Finding{Rule: verdict.Missing, Call: a.Calls[i], Reason: "only in the other run"})
	}
	for _, j := range al.Inserted {
		out = append(out, &Finding{Rule: verdict.Inserted, Call: b.Calls[j], Reason: "not in the other run"})
	}
	return out, nil
}

// An argued finding is that calls of an operator were given other arguments.
type argued struct {
	first  *Finding
	others int // calls
}

// A walk goes over the pairs of two processes in order.
type walk struct {
	runs   *Runs
	out    []*Finding
	parted bool    // something differed before
	noise  float64 // how far values are apart that agree
	given  int     // calls that were given different leaves
	// argued are the findings about other arguments, by operator and by names of these: one for all its calls.
	argued map[string]*argued
	other  map[*Call]bool // calls that were given other arguments
	// backward are the pairs up to each loss, until something differs.
	backward map[*Step]passed
	// drawn are the calls whose results follow from random numbers that differ, and from nothing else; draws is the
	// phase of the first of them.
	drawn map[*Call]bool
	draws int
	// gradients is the step in whose backward pass the runs part first, nil if they do not: what is behind it follows.
	gradients *Step
}

// add compares the next pair.
func (w *walk) add(p *pair) {
	p.parted, p.b.Peer = w.parted, p.a
	w.runs.Paired++
	if x, y := p.a.DType(), p.b.DType(); x != y && x != tensor.Invalid && y != tensor.Invalid {
		w.runs.Retyped = append(w.runs.Retyped, p.b)
	}
	// What an update of other gradients writes cannot be told from what follows from other causes.
	w.parted = w.parted || len(w.drawn) > 0 && p.b.phase() != w.draws ||
		w.gradients != nil && p.b.phase() > 2*w.gradients.Number
	f, state := p.forward()
	w.runs.differ(p)
	if state != incomparable {
		w.runs.Compared++
	}
	if w.follows(p, f, state) {
		w.tell(p, f)
		w.keep(p)
		return
	}
	if state == inherited && !w.parted {
		f = p.replaced(w.noise)
	}
	// Behind a difference, a leaf that is no parameter may be a result that was not recorded.
	if state == otherLeaf && w.parted && !f.Call.Value(f.Target).Parameter {
		f = nil
	} else if state == otherLeaf {
		if w.given++; w.given > 1 {
			f = nil
		}
	}
	w.tell(p, f)
	w.parted = w.parted || state > agreeing
	w.keep(p)
	f = p.backward()
	if f != nil && w.gradients == nil && p.b.Step != nil {
		w.gradients = p.b.differentiatedIn()
	}
	w.tell(p, f)
}

// follows reports whether the results of a pair differ because random numbers do, and keeps that. Only the first
// different ones are a finding.
func (w *walk) follows(p *pair, f *Finding, s state) bool {
	switch {
	case f != nil && f.seeds:
		if len(w.drawn) == 0 {
			w.draws = p.b.phase()
		}
		w.drawn[p.b] = true
		return true
	case f == nil && s == inherited || s == otherLeaf:
		drawn := func(v *Value) bool { return v.From.Value != nil && w.drawn[v.From.Value.Call] }
		if slices.ContainsFunc(p.b.Inputs, drawn) {
			w.drawn[p.b] = true
			return f == nil
		}
	}
	return false
}

// tell adds what was found in a pair, nil if nothing was. Of calls whose results differ by their arguments alone, it
// adds the first of each operator.
func (w *walk) tell(p *pair, f *Finding) {
	switch {
	case f == nil || f.seeds && len(w.drawn) > 1:
		return
	case p.arguments != "":
		if p.b.outer != nil && w.other[p.b.outer] {
			return // it was given these by the call that made it
		}
		w.other[p.b] = true
		key := p.b.Op + " " + p.arguments
		if known := w.argued[key]; known != nil {
			if known.first.Call != p.b {
				known.others++
			}
			return
		}
		w.argued[key] = &argued{first: f}
	}
	w.out = append(w.out, f)
}

// keep keeps what later pairs are compared with.
func (w *walk) keep(p *pair) {
	if !w.parted && len(w.drawn) == 0 {
		w.noise = max(w.noise, p.in, p.results)
		if s := p.b.Step; s != nil && len(p.a.GradOutputs) > 0 && len(p.b.GradOutputs) > 0 &&
			p.a.Entry.ByOther() == p.b.Entry.ByOther() {
			w.backward[s] = append(w.backward[s], p)
		}
	} else if p.b.Step != nil && p.b.phase()%2 == 0 {
		delete(w.backward, p.b.Step)
	}
}

// end looks at what needs all pairs.
func (w *walk) end(p *Process) {
	if w.given > 1 {
		for _, f := range w.out {
			if strings.HasSuffix(f.Reason, givenOther) {
				f.Reason += fmt.Sprintf(", as %d calls were", w.given)
				break
			}
		}
	}
	for _, x := range w.argued {
		if x.others > 0 {
			x.first.Reason += ", as in " + reports.Count(x.others, "other call") + " of this operator"
		}
	}
	for _, s := range p.Steps {
		if f := w.backward[s].replacedBackward(); f != nil {
			w.out = append(w.out, f)
			return // what follows may have inherited it
		}
	}
}

const givenOther = "the runs were given different ones"

// A pair is a call of another run and the same call of this one.
type pair struct {
	a, b   *Call
	parted bool           // something before it differed
	alone  map[*Call]bool // the calls that only one of the runs made
	opt    Options

	// forward sets how far the inputs and the results are apart, and the input that is apart most.
	in, results float64
	at          *Value

	// arguments are the names of those by which the results or the gradients compared last differ, if they do.
	arguments string
}

// A state is how far two calls agree.
type state uint8

const (
	incomparable state = iota // values of one are not known
	agreeing
	inherited // the arguments differ already
	otherLeaf // an argument that no recorded call made differs
	parting   // the arguments agree, the results do not
)

// forward compares what a call read and gave in both runs.
//
// A call diverges if its inputs agree, as far as the rounding of the runs so far
// allows, and its results do not. Two calls that are both right by themselves can
// only do that if their other arguments differ.
func (p *pair) forward() (f *Finding, s state) {
	a, b := p.a, p.b
	// What cannot be read tells nothing.
	_ = p.opt.within(b, "the two runs' results were not compared", func(opt Options) error {
		in, at, err := apart(a.Inputs, b.Inputs, opt)
		if err != nil {
			return err
		}
		p.in, p.at = in, at
		if !p.near(in) {
			s = inherited
			if at.From.How == IsLeaf && at.peerOf(a).From.How == IsLeaf && b.phase()%2 != 1 {
				s = otherLeaf
				f = &Finding{Rule: verdict.Diverged, Call: b, Target: at.Target, Peer: a,
					Reason: fmt.Sprintf("this %s differs%s: %s", at.From.Role, by(in), givenOther)}
			}
			return nil
		}
		a.spreadUnwritten()
		b.spreadUnwritten()
		out, at, err := apart(a.Outputs, b.Outputs, opt)
		if err != nil {
			return err
		}
		p.results = out
		s = agreeing
		if what, names := differing(a, b); what != "" && len(a.Outputs)+len(b.Outputs) == 0 {
			p.arguments = names // what it wrote in place is compared where calls read it
			f, s = &Finding{Rule: verdict.Diverged, Call: b, Target: "input." + names, Peer: a, Reason: what}, parting
			return nil
		}
		wrong := [2]bool{a.fails(false), b.fails(false)}
		if why := p.reason(in, out, 8, wrong, a.judged() && b.judged()); why != "" {
			f, s = p.diverged(at, in, out, "inputs", why), parting
			f.seeds = why == pairs.OtherNumbers
		}
		return nil
	})
	return f, s
}

// backward compares the backward passes, which read the call's arguments too.
func (p *pair) backward() (f *Finding) {
	a, b := p.a, p.b
	if len(a.Grads) == 0 || len(b.Grads) == 0 || a.Entry.ByOther() != b.Entry.ByOther() {
		return nil // recorders differ in whose gradients they save
	}
	_ = p.opt.within(b, "the two runs' gradients were not compared", func(opt Options) error {
		in := 0.0
		for _, vs := range [][2][]*Value{{a.Inputs, b.Inputs}, {a.Outputs, b.Outputs}, {a.GradOutputs, b.GradOutputs}} {
			d, _, err := apart(vs[0], vs[1], opt)
			if err != nil {
				return err
			}
			in = max(in, d)
		}
		if !p.near(in) {
			return nil
		}
		out, at, err := apart(a.Grads, b.Grads, opt)
		if err != nil {
			return err
		}
		wrong := [2]bool{a.fails(true), b.fails(true)}
		// Gradients cancel: what the inputs differ by grows more than in the forward pass.
		if why := p.reason(in, out, 64, wrong, a.judged() && b.judged()); why != "" {
			f = p.diverged(at, in, out, "gradients that arrive and the arguments", why)
			f.backward = true
		}
		return nil
	})
	return f
}

// near reports whether inputs that are so far apart agree: they differ by rounding
// alone. Behind a difference, statistics that are nearly equal say nothing.
func (p *pair) near(in float64) bool {
	if in > 0 && p.parted && slices.ContainsFunc(p.b.Inputs, func(v *Value) bool { return v.summary != nil }) {
		return false
	}
	return in <= 8*max(coarsest(p.a), coarsest(p.b), tensor.Float32.Eps())
}

// reason says why the results of two calls, given inputs that are in apart, are out
// apart; "" if rounding is enough. grow is how much more than the inputs' the
// results' distance may be where nothing is known of either call.
func (p *pair) reason(in, out, grow float64, wrong [2]bool, judged bool) string {
	resolution := max(p.a.DType().Eps(), p.b.DType().Eps())
	what, names := differing(p.a, p.b)
	p.arguments = ""
	switch {
	case out == 0:
		return ""
	case wrong[1] && !wrong[0]:
		return "it is wrong by itself"
	case wrong[0] && !wrong[1]:
		return "the other run's is wrong by itself"
	case what != "" && out > 4*max(in, resolution):
		p.arguments = names
		return what
	case p.b.random != "" && out > 8*max(in, resolution):
		if p.a.generator != 0 && p.a.generator == p.b.generator {
			return pairs.SameState
		}
		return pairs.OtherNumbers
	case out > max(in, resolution) && p.b.readsUnwritten() && p.a.readsUnwritten():
		return "it reads memory that nothing wrote"
	case in == 0 && out > 64*resolution, !judged && out > grow*max(in, resolution):
		return "the arguments agree"
	}
	return ""
}

func (p *pair) diverged(at *Value, in, out float64, inputs, why string) *Finding {
	return &Finding{Rule: verdict.Diverged, Call: p.b, Target: at.Target, Peer: p.a,
		Reason: fmt.Sprintf("the results differ%s, the %s%s: %s", by(out), inputs, by(in), why)}
}

// by says how large a relative distance is.
func by(d float64) string {
	if math.IsInf(d, 1) {
		return ", by how much was not recorded"
	}
	return fmt.Sprintf(" by %.2g", d)
}

// fails reports whether a result of the forward or the backward pass failed.
func (c *Call) fails(backward bool) bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool {
		return r.Verdict == verdict.Fail && (r.Phase == replay.Backward) == backward
	})
}

// judged reports whether replay decided about the call's results.
func (c *Call) judged() bool {
	return c.Verdict == verdict.Pass || c.Verdict == verdict.Warn || c.Verdict == verdict.Fail
}

// peerOf is the value of a that has v's target, or v if there is none.
func (v *Value) peerOf(a *Call) *Value {
	if w := a.Value(v.Target); w != nil {
		return w
	}
	return v
}

// coarsest is the largest eps of the floating dtypes that a process computed with
// up to a call.
func coarsest(c *Call) float64 {
	return c.Process.coarse[c.Order]
}

// coarseness fills p.coarse.
func (p *Process) coarseness() {
	p.coarse = make([]float64, len(p.Calls))
	eps := 0.0
	for i, c := range p.Calls {
		for _, v := range append(append([]*Value(nil), c.Inputs...), c.Outputs...) {
			if v.DType.IsFloat() {
				eps = max(eps, v.DType.Eps())
			}
		}
		p.coarse[i] = eps
	}
}

// apart is the largest relative distance of the values with the same target in two
// calls, and the value of the second where it is; infinite where shapes differ.
func apart(as, bs []*Value, opt Options) (worst float64, at *Value, err error) {
	for _, b := range bs {
		for _, a := range as {
			if a.Target != b.Target {
				continue
			}
			d, err := a.apart(b, opt)
			if err != nil {
				return 0, nil, err
			}
			if d <= worst {
				continue
			}
			switch vacant, err := a.differsInUnwritten(b, opt); {
			case err != nil:
				return 0, nil, err
			case !vacant:
				worst, at = d, b
			}
		}
	}
	return worst, at, nil
}

// apart is the relative distance of two values.
func (v *Value) apart(w *Value, opt Options) (float64, error) {
	switch {
	case v.equals(w):
		return 0, nil
	case v.summary != nil || w.summary != nil:
		return v.apartBySummary(w, opt)
	}
	x, closeX, err := v.load(opt)
	if err != nil {
		return 0, err
	}
	defer closeX()
	y, closeY, err := w.load(opt)
	if err != nil {
		return 0, err
	}
	defer closeY()
	switch {
	case comparable(x, y):
		return distance(y, x, nil).relative(), nil
	case !sameShape(x.Shape, y.Shape) || x.DType.IsFloat() || y.DType.IsFloat() || x.DType.IsComplex() ||
		y.DType.IsComplex():
		return 1, nil
	}
	m, n := tensor.Data[int64](x), tensor.Data[int64](y)
	differ := 0
	for i := range m {
		if m[i] != n[i] {
			differ++
		}
	}
	return float64(differ) / float64(max(1, len(m))), nil
}
