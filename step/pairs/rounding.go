package pairs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// A Judgement says which values of a recorded call are right by themselves, as results of its own arguments, and why
// others are wrong.
type Judgement struct {
	Right map[ValueName]bool
	Wrong map[ValueName]string
	// Extent says how wrong values are that were judged.
	Extent map[ValueName]reports.Extent
	// Of are the argument and the parameter that gradients are of.
	Of map[ValueName][2]string
}

// A ValueName is the phase and the target of a value of a call.
type ValueName [2]string

// A Rounding tells what differs between two recordings of one precision by rounding from what is wrong. How far results
// may be apart whose inputs differ does not follow from the sizes of the differences: terms cancel. So each call is
// judged by itself, in both recordings. Values that differ before the first of a process that is wrong in one of them
// pass. Behind it, each recording's call is judged by its own inputs. So is each call whose results are the same: both
// recordings may be wrong.
type Rounding struct {
	Judge func(e *capture.Entry) Judgement
	Jobs  int // how many calls are judged at a time

	Unit     tensor.DType // the coarsest dtype of values that differ; Invalid if none do
	Excused  int          // calls that differ by rounding
	Unjudged []string     // calls that differ no more than their inputs explain, but could not be judged
	Alone    int          // calls that Besides judged
	NotAlone []string     // those of them that could not be judged

	judged  map[*capture.Entry]Judgement
	states  map[*reports.Result]standing
	wrong   map[reports.Place][2]bool // in which recordings values are wrong
	excused map[*compared]bool
	other   map[*reports.Result]bool   // values that differ because of what was wrong before, not by rounding
	why     map[*reports.Result]string // what is wrong with a value by the inputs of its own recording
	later   map[*reports.Result]bool   // values of passes that came when something was wrong already
}

// A standing is what a value that differs shows.
type standing uint8

const (
	undecided standing = iota
	isNear             // it is no further apart than the inputs of its call
	isRight            // it is right by itself in both recordings
	isWrong            // it is wrong by itself in one of them, or in both and further apart than the inputs explain
)

const (
	// mostGrown is how many times as far apart as all results before it an input may be that no recorded call gave as
	// it is: it may be a part of one, or a sum.
	mostGrown = 8
	// mostApart bounds how far results of equal inputs may be apart if nobody can judge them.
	mostApart = 0.125
)

// Looked is a pair and what comparing it gave.
type Looked struct {
	Pair    Pair
	Results []*reports.Result
	Apart   map[*reports.Result]*Difference
}

// Differs reports whether a value of a pair is not the same on both sides.
func (l *Looked) Differs() bool {
	return slices.ContainsFunc(l.Results, func(r *reports.Result) bool { return differs(r, l.Apart[r]) })
}

func differs(r *reports.Result, d *Difference) bool {
	return r.Verdict.Differs() || d != nil && d.Relative > 0
}

// A progress is how far a process got.
type progress struct {
	stopped bool
	// made is how far results are apart, back the same of gradients.
	made, back float64
	linked     map[[2]uint64]bool // the values that calls gave
}

// begin makes room for what is known of values, once.
func (x *Rounding) begin() {
	if x.states != nil {
		return
	}
	x.judged, x.states = map[*capture.Entry]Judgement{}, map[*reports.Result]standing{}
	x.wrong, x.excused = map[reports.Place][2]bool{}, map[*compared]bool{}
	x.other, x.why = map[*reports.Result]bool{}, map[*reports.Result]string{}
	x.later = map[*reports.Result]bool{}
}

// Explain judges pairs of two recordings, and lets values pass that differ by rounding.
func (x *Rounding) Explain(all []Looked) {
	x.begin()
	x.judgeSame(all)
	processes := map[[3]int][]*compared{}
	for _, l := range all {
		if l.Pair.B == nil {
			continue
		}
		key := processOf(l.Pair.A)
		c := newCompared(l.Pair, l.Results, l.Apart, len(processes[key]))
		processes[key] = append(processes[key], c)
		for r, d := range l.Apart {
			if d != nil && differs(r, d) && d.DTypes[0].IsFloat() &&
				(x.Unit == tensor.Invalid || d.DTypes[0].Eps() > x.Unit.Eps()) {
				x.Unit = d.DTypes[0]
			}
		}
	}
	runs := map[[2]int]*progress{}
	inOrder := func(a, b [3]int) int { return slices.Compare(a[:], b[:]) }
	for _, key := range slices.SortedFunc(maps.Keys(processes), inOrder) {
		run := [2]int{key[1], key[2]}
		if runs[run] == nil {
			runs[run] = &progress{linked: map[[2]uint64]bool{}}
		}
		for _, e := range inTime(processes[key]) {
			x.pass(e, runs[run])
		}
		for _, c := range processes[key] {
			x.follows(c)
		}
	}
	x.Excused = len(x.excused)
}

// pass looks at the forward or the backward pass of a pair.
func (x *Rounding) pass(e event, p *progress) {
	c := e.c
	p.made, p.back = max(p.made, c.unit), max(p.back, c.unit)
	var inputs, results []*reports.Result
	in := 0.0
	for i, r := range c.results {
		d, backward := c.apart[r], r.Phase == "backward"
		switch arrives := backward && strings.HasPrefix(r.Target, "grad_output"); {
		case e.backward && arrives, !e.backward && i < c.given:
			inputs = append(inputs, r)
			further(&in, nil, r, d)
		case e.backward && !backward:
			further(&in, nil, r, d)
		case e.backward == backward && !arrives:
			results = append(results, r)
		}
	}
	if p.stopped {
		for _, r := range slices.Concat(inputs, results) {
			x.later[r] = true
		}
	} else if !p.explains(c, inputs, e.backward) {
		p.stopped = true
	}
	x.standings(c, results, in, p)
	behind := p.stopped
	stop, unjudged := false, false
	for _, r := range results {
		d, s := c.apart[r], x.states[r]
		switch {
		case !differs(r, d) && s != isWrong:
			continue
		case s == isWrong:
			x.blame(c, r)
			stop = true
		case s == undecided && r.Verdict.Differs():
			stop = true
		case s == isNear && r.Verdict.Differs():
			unjudged = true
		}
		p.give(d, e, s)
	}
	switch {
	case p.stopped || stop:
		p.stopped = true
		for _, r := range results {
			if in == 0 && x.states[r] == isRight {
				x.excuse(c, r)
			}
		}
		if p.stopped && !stop {
			return
		}
	case unjudged:
		x.Unjudged = append(x.Unjudged, name(c.pair.A))
	default:
		for _, r := range results {
			x.excuse(c, r)
		}
	}
	counted := x.excused[c]
	for _, r := range inputs {
		if behind {
			x.reads(c, r)
		} else { // what the first wrong call reads differs by rounding, too
			x.excuse(c, r)
		}
	}
	if behind {
		x.ownFaults(results)
	}
	if stop && !counted {
		delete(x.excused, c)
	}
}

// give takes note of a value that a call gave.
func (p *progress) give(d *Difference, e event, s standing) {
	if d == nil || !(d.Relative > 0) {
		return
	}
	p.linked[d.Sums] = true
	// An update of a gradient that is near zero says nothing of other values.
	if s == isRight && e.c.passed || s == isNear {
		if e.backward {
			p.back = max(p.back, d.Relative)
		} else {
			p.made = max(p.made, d.Relative)
		}
	}
}

// explains reports whether no input of a pair is further apart than the results before it explain. Else another value
// was read, or something wrote that was not compared, such as an optimizer.
func (p *progress) explains(c *compared, inputs []*reports.Result, backward bool) bool {
	most := p.made
	if backward {
		most = max(most, p.back)
	}
	for _, r := range inputs {
		d := c.apart[r]
		if r.Verdict.Differs() && (d == nil || !(d.Relative <= mostGrown*most) &&
			!(d.Sums != [2]uint64{} && p.linked[d.Sums])) {
			return false
		}
	}
	return true
}

// standings finds what the results of a pass show, whose inputs are in apart.
func (x *Rounding) standings(c *compared, results []*reports.Result, in float64, p *progress) {
	limit := growth * max(in, c.unit)
	asks := func(r *reports.Result) bool {
		d := c.apart[r]
		// Behind the first wrong call, inputs may be so far apart that they would explain anything.
		return r.Verdict.Differs() || r.Setting == "" && d != nil && d.Relative > 0 &&
			(p.stopped || d.Relative > max(in, c.unit))
	}
	var a, b Judgement
	same := func(r *reports.Result) bool { return isSame(r, c.apart[r]) }
	if x.Judge != nil && (slices.ContainsFunc(results, asks) || slices.ContainsFunc(results, same)) {
		a, b = x.judge(c.pair)
	}
	for _, r := range results {
		d, at := c.apart[r], ValueName{r.Phase, r.Target}
		near := d.near(limit)
		whyA, wrongA := a.Wrong[at]
		whyB, wrongB := b.Wrong[at]
		if differs(r, d) {
			r.WrongIn = reports.InWhich(wrongA, wrongB)
		}
		switch {
		case isSame(r, d):
			x.bySelf(r, a, b)
		case !differs(r, d):
		case (wrongA != wrongB || wrongA && !near) && (r.Setting == "" || r.Verdict.Differs()):
			x.states[r], x.why[r] = isWrong, whyA
			if !wrongA {
				r.Reason = ofRepaired(r.Reason)
				x.why[r] = inOld + whyB
			}
			x.wrong[reports.Place{Capture: r.Capture, Target: r.Target}] = [2]bool{wrongA, wrongB}
			switch {
			case !r.Verdict.Differs():
				r.Reason = x.why[r]
			case says(r): // no random number explains it
				r.Reason = x.why[r] + "; between the recordings: " + ofNumbers(r.Reason)
			}
		case says(r):
			x.states[r] = isWrong
		case a.Right[at] && b.Right[at] && !(d != nil && d.Unlike):
			x.states[r] = isRight
		case near:
			x.states[r] = isNear
			if r.WrongIn == reports.WrongInBoth {
				x.still(r, whyA)
			}
		case in == 0 && r.Verdict == verdict.Pass && r.Setting == "" && d != nil && d.Relative > mostOfEqual(r, c):
			r.Verdict = verdict.Fail
			r.Reason = fmt.Sprintf("the arguments are the same bit for bit; the root mean square of the differences is "+
				"%.2g of the values", d.Relative)
		}
	}
}

// inOld begins what is wrong with a value of the old recording.
const inOld = "in the old recording: "

var gotWant = lazyregexp.New(` got (.+?) want (.+?)( \(|;|$)`)

// ofRepaired says of a value that only the second recording has wrong which recording holds which element: the one that
// is compared is the right one.
func ofRepaired(reason string) string {
	return gotWant().ReplaceAllString(reason, " the old recording has $2, which is wrong, the new one $1$3")
}

// Tell says of the values of a pair that was judged what replay says of them in the new recording: how wrong they are,
// and what gradients are of.
func (x *Rounding) Tell(l *Looked) {
	j := x.judged[l.Pair.A]
	for _, r := range l.Results {
		at := ValueName{r.Phase, r.Target}
		if e, judged := j.Extent[at]; judged {
			r.BySelf(e)
		}
		of, known := j.Of[at]
		if !known {
			continue
		}
		if of[0] == r.Argument {
			of[1] = cmp.Or(of[1], r.Parameter)
		}
		r.Argument, r.Parameter = of[0], of[1]
	}
}

// still keeps that a value is wrong in both recordings, and no further apart than its inputs: it is no difference.
func (x *Rounding) still(r *reports.Result, why string) {
	r.Verdict, r.Reason = verdict.StillWrong, "wrong in both recordings: "+why
}

// mostOfEqual is how far apart a result of equal arguments may be that nobody can judge.
func mostOfEqual(r *reports.Result, c *compared) float64 {
	if r.Phase == "backward" {
		return min(ReplacedBackward*c.unit, mostApart)
	}
	return min(ReplacedForward*c.unit, mostApart)
}

// judge judges both calls of a pair, at the same time.
func (x *Rounding) judge(p Pair) (a, b Judgement) {
	calls, out := [2]*capture.Entry{p.A, p.B}, [2]Judgement{}
	var wait sync.WaitGroup
	for i, e := range calls {
		if j, known := x.judged[e]; known {
			out[i] = j
			continue
		}
		wait.Go(func() { out[i] = x.Judge(e) })
	}
	wait.Wait()
	for i, e := range calls {
		x.judged[e] = out[i]
	}
	return out[0], out[1]
}

// blame makes a value fail that is wrong by itself, though an absolute tolerance may allow it.
func (x *Rounding) blame(c *compared, r *reports.Result) {
	if r.Verdict.Differs() {
		return
	}
	r.Verdict = verdict.Fail
	if d := c.apart[r]; d != nil {
		r.Reason += fmt.Sprintf("; op_tools' tolerance allows the difference, whose root mean square is %.2g of the values",
			d.Relative)
	}
}

// excuse lets a value pass.
func (x *Rounding) excuse(c *compared, r *reports.Result) {
	if !r.Verdict.Differs() {
		return
	}
	r.Verdict, r.Mismatch = verdict.Pass, new(int)
	if c.unlike() { // rounding makes no other shapes
		r.Reason = "right in both recordings, each by its own inputs, which have other shapes"
		x.other[r] = true
		return
	}
	r.Reason = "the recordings differ here by rounding"
	if d := c.apart[r]; x.states[r] == isRight && d != nil && d.Relative > mostApart {
		r.Reason = "right in both recordings, each by its own inputs"
	}
	if d := c.apart[r]; d != nil && d.Relative < math.Inf(1) {
		r.Reason += fmt.Sprintf(": the root mean square of the differences is %.2g of the values", d.Relative)
	}
	x.excused[c] = true
}

// reads lets an input pass of a call that is wrong by itself, behind one that is wrong. Its values differ because of
// that one, not by rounding.
func (x *Rounding) reads(c *compared, r *reports.Result) {
	if !r.Verdict.Differs() {
		return
	}
	r.Verdict, r.Mismatch = verdict.Pass, new(int)
	r.Reason = "other values, because of what differs before; each recording's call is judged by its own"
	if d := c.apart[r]; d != nil && d.Relative < math.Inf(1) {
		r.Reason += fmt.Sprintf(". The root mean square of the differences is %.2g of the values", d.Relative)
	}
	x.other[r] = true
}

// follows lets values pass of a call that is wrong by itself in another value: inputs that came when something was
// wrong already, and what is right by the inputs of its own recording.
func (x *Rounding) follows(c *compared) {
	wrong := slices.ContainsFunc(c.results, func(r *reports.Result) bool {
		return x.states[r] == isWrong || r.Verdict == verdict.StillWrong
	})
	for i, r := range c.results {
		input := i < c.given || strings.HasPrefix(r.Target, "grad_output")
		if wrong && x.later[r] && (input || x.states[r] == isRight) {
			x.reads(c, r)
		}
	}
	x.besideRepaired(c)
}

// besideRepaired is about the values of a call that only the old recording has wrong, in other values: they may differ
// because of that. What is right by itself in the new recording passes, and what nobody can judge is not judged.
func (x *Rounding) besideRepaired(c *compared) {
	var in reports.WrongIn
	for _, r := range c.results {
		in = reports.WorseIn(in, r.WrongIn)
	}
	if in != reports.WrongInSecond {
		return
	}
	for i, r := range c.results {
		switch {
		case i < c.given || !result(r) || r.WrongIn != "" || !r.Verdict.Differs():
		case x.judged[c.pair.A].Right[ValueName{r.Phase, r.Target}]:
			r.Verdict, r.Reason = verdict.Pass, "right in the new recording; the old one has the call wrong"
		default:
			r.Verdict, r.Reason = verdict.Skipped, "nobody can judge it by itself, and the old recording has the call "+
				"wrong"
		}
	}
}

// ownFaults says of values behind the first wrong call what is wrong with them by their own inputs: how far the
// recordings are apart there tells more of the calls before.
func (x *Rounding) ownFaults(results []*reports.Result) {
	for _, r := range results {
		if why := x.why[r]; why != "" && r.Verdict.Differs() && !strings.HasPrefix(r.Reason, why) {
			sep := ": "
			if strings.HasPrefix(why, inOld) {
				sep = ", "
			}
			r.Reason = "by its own inputs" + sep + why + "; between the recordings: " + r.Reason
		}
	}
}

// readsOther reports whether the forward pass of a call, or its backward pass, was given values that differ because of
// what was wrong before.
func (x *Rounding) readsOther(c *compared, backward bool) bool {
	return x != nil && slices.ContainsFunc(c.results, func(r *reports.Result) bool {
		return x.other[r] && (backward || r.Phase == "input")
	})
}

// WrongIn are the recordings, of 0 and 1, in which a value is wrong by itself.
func (x *Rounding) WrongIn(at reports.Place) (in []int) {
	for i, wrong := range x.wrong[at] {
		if wrong {
			in = append(in, i)
		}
	}
	return in
}
