package pairs

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// A Divergence looks for the place where two recordings part. In order of execution that is the first of
//   - a call whose inputs agree and whose result is further apart than they explain,
//   - an argument that is no tensor and differs,
//   - a value that differs first, though every call before it agrees: calls that only one recording has made it, or
//     the runs were given different values.
//
// What follows may have inherited its difference. Each process and step has its own.
type Divergence struct {
	processes map[[3]int]*process // by step, rank and process of the first recording
	other     map[[3]int][3]int   // the process of the first recording by that of the second
	unpaired  []Pair
	differs   bool // some value fails

	// Noise reports whether a gradient of a call is within its rounding error of zero; nil if nobody can tell.
	Noise func(e *capture.Entry, target string) bool
	// Notes say which values differ first although no call is wrong, once Findings has been called.
	Notes    []string
	findings []reports.FindingRecord // once they are known
	known    bool
	partner  map[*capture.Entry]*capture.Entry // of calls of the first recording

	// Rounding says which values are right or wrong by themselves; nil if nobody can tell.
	Rounding *Rounding
}

// A process is what is known of one process and step, its calls in the order in which they came.
type process struct{ calls []*compared }

// compared is what the values of one pair say.
type compared struct {
	pair     Pair
	results  []*reports.Result
	apart    map[*reports.Result]*Difference
	given    int             // results that come before those of the call: its arguments
	at       int             // position of the call in the first recording
	plain    *reports.Result // the first argument that is no tensor and differs
	number   float64         // how far it is apart, if it is a number; else infinite
	input    *reports.Result // the input that fails and is furthest apart
	inputs   []entering      // all inputs that fail
	entry    float64         // how far it is apart
	arrived  *reports.Result // the gradient that arrives and is furthest apart
	result   *reports.Result // the first result that fails and that the inputs do not explain
	gradient *reports.Result // the same of gradients
	// in and back are how far inputs and the arriving gradients are apart; infinite if one fails by an unknown distance
	in, back float64
	out, off float64 // how far results and gradients are apart
	unit     float64 // the unit roundoff of the values
	passed   bool    // gradients were compared
	scalar   bool    // the result is one number
}

// An entering value is an input that fails, and how far it is apart.
type entering struct {
	r     *reports.Result
	apart float64
}

// gradientGrowth is growth for gradients: they cancel.
const gradientGrowth = 64

// Add looks at the results of a pair, and at how far apart its values are. It reports whether the call was given values
// that differ, and these explain what it gave.
func (d *Divergence) Add(p Pair, rs []*reports.Result, apart map[*reports.Result]*Difference) (inherits bool) {
	if p.B == nil {
		d.unpaired = append(d.unpaired, p)
		return false
	}
	if d.processes == nil {
		d.processes, d.other = map[[3]int]*process{}, map[[3]int][3]int{}
		d.partner = map[*capture.Entry]*capture.Entry{}
	}
	key := processOf(p.A)
	d.partner[p.A] = p.B
	d.other[processOf(p.B)] = key
	of := d.processes[key]
	if of == nil {
		of = &process{}
		d.processes[key] = of
	}
	c := newCompared(p, rs, apart, len(of.calls))
	c.look(d.Rounding)
	for _, r := range rs {
		d.differs = d.differs || r.Verdict == verdict.Fail
	}
	of.calls = append(of.calls, c)
	return c.plain == nil && c.result == nil && c.gradient == nil && max(c.in, c.back) > 0
}

// unlike reports whether a value of the pair has another shape on the other side.
func (c *compared) unlike() bool {
	return slices.ContainsFunc(c.results, func(r *reports.Result) bool {
		return c.apart[r] != nil && c.apart[r].Unlike
	})
}

// newCompared is a pair, the nth of its process, before its values were looked at.
func newCompared(p Pair, rs []*reports.Result, apart map[*reports.Result]*Difference, nth int) *compared {
	c := &compared{pair: p, results: rs, apart: apart, at: p.A.Position(), given: len(rs),
		unit: tensor.Float32.Eps() / 2}
	if c.at < 0 { // the order in which pairs come
		c.at = nth
	}
	if i := slices.IndexFunc(rs, func(r *reports.Result) bool { return r.Phase != "input" }); i >= 0 {
		c.given = i
	}
	for i, r := range rs {
		if d := apart[r]; d != nil && d.DTypes[0] != tensor.Invalid {
			c.unit = max(c.unit, d.DTypes[0].Eps()/2, d.DTypes[1].Eps()/2)
		}
		c.passed = c.passed || r.Phase == "backward" && !strings.HasPrefix(r.Target, "grad_output")
		if r.Phase == "forward" && i == c.given {
			c.scalar = r.DType != nil && r.Numel != nil && *r.Numel == 1
		}
	}
	return c
}

func processOf(e *capture.Entry) [3]int { return [3]int{e.Step, e.Rank, e.PID} }

// look takes the values of a pair. Values behind results under the phase "input" are arguments after the call.
func (c *compared) look(x *Rounding) {
	for i, r := range c.results {
		d := c.apart[r]
		switch {
		case i < c.given && r.DType == nil:
			if r.Verdict == verdict.Fail && c.plain == nil {
				if c.plain, c.number = r, math.Inf(1); d != nil {
					c.number = d.Relative
				}
			}
		case i < c.given:
			if further(&c.in, nil, r, d); r.Verdict == verdict.Fail {
				further(&c.entry, &c.input, r, d)
				in := entering{r: r}
				further(&in.apart, nil, r, d)
				c.inputs = append(c.inputs, in)
			}
		case r.Phase == "backward" && strings.HasPrefix(r.Target, "grad_output"):
			further(&c.back, &c.arrived, r, d)
		}
	}
	for _, r := range c.results {
		switch d := c.apart[r]; {
		case r.Phase == "forward":
			further(&c.out, nil, r, d)
			if c.result == nil && x.blames(r, d, growth*c.in, c.unit, c.input != nil) {
				c.result = r
			}
		case r.Phase == "backward" && !strings.HasPrefix(r.Target, "grad_output"):
			further(&c.off, nil, r, d)
			if c.gradient == nil && x.blames(r, d, gradientGrowth*max(c.in, c.out, c.back), c.unit,
				c.input != nil || c.arrived != nil && c.arrived.Verdict == verdict.Fail) {
				c.gradient = r
			}
		}
	}
}

// blames reports whether a value that fails shows a wrong call: it is wrong by itself, or nobody can tell and it is
// further apart than a limit. given says that what the call was given fails.
func (x *Rounding) blames(r *reports.Result, d *Difference, limit, unit float64, given bool) bool {
	if x != nil {
		switch x.states[r] {
		case isRight:
			return false
		case isWrong:
			return true
		}
	}
	return beyond(r, d, limit, unit, given)
}

// further takes the larger distance of two. One that is not known counts if the value fails, as infinite.
func further(most *float64, at **reports.Result, r *reports.Result, d *Difference) {
	x := 0.0
	switch {
	case d != nil && d.Unlike: // the program may be another one there
	case d != nil && d.Relative == d.Relative:
		x = d.Relative
	case r.Verdict == verdict.Fail:
		x = math.Inf(1)
	}
	if x > *most || at != nil && *at == nil {
		if *most = max(*most, x); at != nil {
			*at = r
		}
	}
}

// beyond reports whether a value fails and is further apart than a limit, as a whole or in one element. Arguments that
// agree explain nothing, those that fail at least the rounding of the dtype.
func beyond(r *reports.Result, d *Difference, limit, unit float64, given bool) bool {
	agree := limit <= growth*unit
	switch {
	case r.Verdict != verdict.Fail:
		return false
	case agree && !given:
		return true
	case d == nil || d.Relative != d.Relative: // such as integers: what is further apart than rounding may change any
		return agree
	}
	limit = max(limit, growth*unit)
	return d.Relative > limit || d.Largest > standOut*limit
}

// Findings are the places where processes part, in order of execution, then what
// only one recording has.
func (d *Divergence) Findings() []reports.FindingRecord {
	if !d.known {
		d.findings, d.known = d.find(), true
	}
	return d.findings
}

func (d *Divergence) find() []reports.FindingRecord {
	var found []*candidate
	for key, p := range d.processes {
		if d.differs {
			found = append(found, d.first(key, p)...)
		}
	}
	slices.SortFunc(found, func(a, b *candidate) int {
		return cmp.Or(rank(a.drawn)-rank(b.drawn), a.key[0]-b.key[0],
			slices.Compare(a.at[:], b.at[:]), slices.Compare(a.key[:], b.key[:]))
	})
	var out []reports.FindingRecord
	seen := map[[2]int]bool{} // processes that have parted: what a later step was given is a consequence
	for _, c := range found {
		if process := [2]int{c.key[1], c.key[2]}; !seen[process] || !c.given {
			seen[process] = true
			out = append(out, c.FindingRecord)
		}
	}
	for _, p := range d.unpaired {
		f := record(p, verdict.Missing, "", p.only)
		if p.inserted {
			f.Rule = verdict.Inserted
		}
		out = append(out, f)
	}
	return out
}

// Alone counts the calls that only the new recording has, and those that only the old one has.
func (d *Divergence) Alone() (n [2]int) {
	for _, p := range d.unpaired {
		if p.inserted {
			n[1]++
		} else {
			n[0]++
		}
	}
	return n
}

// First is where the recordings part first; nil if they do not.
func (d *Divergence) First() *reports.Place {
	if fs := d.Findings(); len(fs) > 0 && fs[0].Rule == verdict.Diverged {
		return &reports.Place{Capture: fs[0].Capture, Target: fs[0].Target}
	}
	return nil
}

// Steps reports whether both recordings hold gradients, as those of training steps do.
func (d *Divergence) Steps() bool {
	for _, p := range d.processes {
		if slices.ContainsFunc(p.calls, func(c *compared) bool { return c.passed }) {
			return true
		}
	}
	return false
}

// A candidate is a place where a process may part.
type candidate struct {
	key   [3]int
	at    [3]int // when: the position of a call or of its backward pass, in parts
	given bool   // the runs were given different values
	drawn bool   // the runs drew different random numbers
	reports.FindingRecord
}

func record(p Pair, rule verdict.Rule, target, reason string) reports.FindingRecord {
	f := reports.FindingRecord{Kind: "finding", Rule: rule, Capture: p.A.Rel, Target: target, Op: p.A.Op,
		Module: p.A.Module, Location: p.A.Location, Reason: reason}
	if p.B != nil {
		f.Peer, f.From = p.B.Rel, &reports.Place{Capture: p.B.Rel, Target: target}
	}
	return f
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// first is where one process parts, and where it drew other random numbers first. These hide no difference that has a
// cause of its own, and values that the runs were given may follow from them.
func (d *Divergence) first(key [3]int, p *process) (out []*candidate) {
	slices.SortStableFunc(p.calls, func(a, b *compared) int { return a.at - b.at })
	w := walk{of: d, key: key, calls: p.calls, alone: map[bool][]Pair{}, last: -1}
	for _, u := range d.unpaired {
		of := processOf(u.A)
		if u.inserted {
			of = d.other[of]
		}
		if of == key {
			w.alone[u.inserted] = append(w.alone[u.inserted], u)
		}
	}
	w.run()
	var own, drawn []*candidate
	for _, c := range w.found {
		if c.drawn {
			drawn = append(drawn, c)
		} else {
			own = append(own, c)
		}
	}
	other := earliest(drawn)
	best := w.best(own)
	if best != nil && (other == nil || !best.given || slices.Compare(best.at[:], other.at[:]) < 0) {
		out = append(out, best)
	}
	if other != nil {
		out = append(out, other)
	}
	return out
}

func earliest(all []*candidate) (best *candidate) {
	for _, c := range all {
		if best == nil || slices.Compare(c.at[:], best.at[:]) < 0 {
			best = c
		}
	}
	return best
}

// best is where the process parts, of the places found.
func (w *walk) best(all []*candidate) *candidate {
	best := earliest(all)
	if best != w.given {
		return best
	}
	// Other values that the runs were given do not hide another argument, nor a result that does not follow from equal
	// inputs.
	for _, c := range all {
		if c != w.given && c.at[1] == 0 && (w.last < 0 || c.at[0] <= w.last) {
			return c
		}
	}
	return best
}

// A walk goes over the pairs of one process in order of execution.
type walk struct {
	of    *Divergence
	key   [3]int
	calls []*compared
	alone map[bool][]Pair // calls of the first recording only, and of the second only (true)
	last  int             // position of the last call whose gradients were compared
	found []*candidate
	// parted says that values differ by more than rounding; noise is how far those are apart that agree.
	parted bool
	noise  float64
	given  *candidate // that the runs were given different values
	// drawn are the values that differ as the runs drew different random numbers: see differing.
	drawn map[string]bool

	// Of a backward pass: whether nothing had parted before it, whether it began, and how far gradients are apart that
	// agree.
	agreed, began bool
	arrives       float64
	faulty        bool // a gradient differs though what arrives agrees
}

func (w *walk) add(c *compared, at [3]int, r *reports.Result, reason string) *candidate {
	f := &candidate{key: w.key, at: at, FindingRecord: record(c.pair, verdict.Diverged, r.Target, reason)}
	w.found = append(w.found, f)
	return f
}

// An event is the forward or the backward pass of a pair.
type event struct {
	c        *compared
	i        int    // its place among the calls of the process
	at       [3]int // when
	backward bool
	begins   bool // it is the first of a backward pass through several calls
}

// inTime are the passes of the calls of one process in order of execution. Where the order of backward passes was not
// recorded, they come after the call that gave the loss, the last call first: the next step reads what they led to.
func inTime(calls []*compared) (out []event) {
	slices.SortStableFunc(calls, func(a, b *compared) int { return a.at - b.at })
	loss := math.MinInt
	next := -1 // the call with gradients that comes next, as calls are looked at from the last one
	for i, c := range slices.Backward(calls) {
		out = append(out, event{c: c, i: i, at: [3]int{c.at, 0, 0}})
		if !c.passed {
			continue
		}
		begins := next < 0 || c.scalar && !calls[next].scalar && next > i+1
		if begins {
			loss = c.at
		}
		e := event{c: c, i: i, at: [3]int{loss, 1, -c.at}, backward: true, begins: begins}
		if b := c.pair.A.BackwardOrder; b >= 0 {
			e.at, e.begins = [3]int{b, 0, 0}, next < 0
		}
		out, next = append(out, e), i
	}
	slices.SortStableFunc(out, func(a, b event) int { return slices.Compare(a.at[:], b.at[:]) })
	return out
}

// run goes over the passes of all calls.
func (w *walk) run() {
	all := inTime(w.calls)
	for _, e := range all {
		if e.backward {
			w.last = max(w.last, e.c.at)
		}
	}
	for _, e := range all {
		if e.backward {
			w.backward(e)
		} else {
			w.forward(e)
		}
	}
}

// became says of a wrong call what became of the fault between the recordings, if somebody can tell, and why it is
// named: for a reason or, if it reads others, because it is wrong although what it reads differs already.
func became(r *reports.Result, reason string, others bool) string {
	const other = "its inputs differ because of what differs before, and "
	switch {
	case others && r.WrongIn == reports.WrongInSecond:
		reason = other + "it was wrong: "
	case others && r.WrongIn == "":
		reason = other + "so does the result: "
	case others:
		reason = other + "it is wrong: "
	}
	if word := r.WrongIn.Word(); word != "" {
		reason = word + ": " + reason
	}
	return reason + r.Reason
}

// forward looks at arguments and results.
func (w *walk) forward(e event) {
	c, at := e.c, e.at
	switch {
	case w.follows(c):
		return // what is wrong by itself is known
	case c.plain != nil && (!w.parted || c.number < math.Inf(1)) && c.number > growth*max(w.noise, c.unit):
		w.add(c, at, c.plain, "this argument differs: "+c.plain.Reason)
	case c.result != nil && c.input == nil && w.names(c):
		reason, others := "inputs agree, the result does not: ", false
		switch {
		case strings.HasPrefix(c.result.Reason, readsUnwritten):
			reason = ""
		case strings.HasPrefix(c.result.Reason, OtherNumbers):
			w.add(c, at, c.result, c.result.Reason).drawn = true
			w.draw(c)
			return
		case !c.pair.A.Has(capture.Device, capture.Input):
			reason = "the first value that differs: "
		default:
			others = w.of.Rounding.readsOther(c, false)
		}
		w.add(c, at, c.result, became(c.result, reason, others))
	case c.input != nil && !w.parted && c.entry > growth*max(w.noise, c.unit):
		w.entered(e.i, at)
	}
	w.parted = w.parted || c.input != nil || c.plain != nil || c.result != nil
	if most := max(c.in, c.out); most < math.Inf(1) {
		w.noise = max(w.noise, most)
	}
}

// draw takes note of the results of a call that differ as random numbers do.
func (w *walk) draw(c *compared) {
	if w.drawn == nil {
		w.drawn = map[string]bool{}
	}
	for _, r := range c.results[c.given:] {
		if r.Verdict == verdict.Fail {
			w.drawn[c.differing(r)] = true
		}
	}
}

// differing names a difference: the same for the same two values, whoever reads them.
func (c *compared) differing(r *reports.Result) string {
	if d := c.apart[r]; d != nil && d.Sums != [2]uint64{} {
		return fmt.Sprint(d.Sums)
	}
	return fmt.Sprint(r.Shape, r.Reason[strings.LastIndex(r.Reason, ": ")+1:])
}

// follows reports whether what a call was given differs as random numbers do, and it is not wrong by itself. Its
// results follow from them then.
func (w *walk) follows(c *compared) bool {
	if len(w.drawn) == 0 || w.of.Rounding != nil && c.result != nil && w.of.Rounding.states[c.result] == isWrong {
		return false
	}
	for _, r := range c.results[:c.given] {
		if r.Verdict == verdict.Fail && w.drawn[c.differing(r)] {
			w.draw(c)
			return true
		}
	}
	return false
}

// entered says that an input of the i-th call differs first, and which calls before it only one recording has.
func (w *walk) entered(i int, at [3]int) {
	c := w.calls[i]
	sure := c.entry > ReplacedForward*max(w.noise, c.unit)
	for k := i; sure && k > max(0, i-nearby); k-- {
		if names, made := w.between(w.calls[k-1], w.calls[k], c.input.Shape); made {
			w.add(c, at, c.input, fmt.Sprintf("the results of %s agree, this input differs%s; between them: %s",
				name(w.calls[k-1].pair.A), by(c.entry), names))
			return
		}
	}
	w.written(c, at)
}

// written says what wrote the inputs of a call that differ first. It looks for one that two different calls wrote, then
// for one whose gradient is no rounding noise. If there is neither, nothing is wrong.
func (w *walk) written(c *compared, at [3]int) {
	var best *entering
	var from origin
	rank := func(o origin) int {
		switch different := !o.same && o.by != [2]*capture.Entry{}; {
		case different && o.noise == "":
			return 3
		case different:
			return 2
		case o.noise == "":
			return 1
		}
		return 0
	}
	for i, in := range c.inputs {
		if in.apart <= growth*max(w.noise, c.unit) {
			continue
		}
		o := w.of.origins(c.pair, in.r)
		if best == nil || rank(o) > rank(from) || rank(o) == rank(from) && in.apart > best.apart {
			best, from = &c.inputs[i], o
		}
	}
	reason := fmt.Sprintf("this input differs%s, and no call of this step before it does: %s", by(best.apart), from)
	if rank(from) == 0 {
		w.of.Notes = append(w.of.Notes, fmt.Sprintf("%s: %s: %s. That is no finding: the last gradient of this input, "+
			"%s, is within its rounding error of zero. An optimizer such as Adam makes whole updates of such a gradient, "+
			"so values from here on may differ though no call is wrong.",
			name(c.pair.A), best.r.Target, reason, from.noise))
		return
	}
	w.given = w.add(c, at, best.r, reason)
	w.given.given = rank(from) < 2
}

// backward looks at gradients.
func (w *walk) backward(e event) {
	c := e.c
	if e.begins {
		// What an update of other gradients writes cannot be told from what follows from other causes.
		w.parted = w.parted || len(w.drawn) > 0
		w.agreed, w.began, w.arrives = !w.parted, false, 0
	}
	if w.faulty {
		return
	}
	arrives := c.arrived != nil && c.arrived.Verdict == verdict.Fail
	if c.gradient != nil && !arrives && c.input == nil && c.plain == nil && c.result == nil {
		reason := "what arrives agrees, the gradient does not: "
		if c.back > growth*max(w.arrives, c.unit) { // op_tools' tolerance passes gradients that are small
			reason = fmt.Sprintf("what arrives differs%s, the gradient%s, which that does not explain: ", by(c.back),
				by(c.off))
		}
		w.add(c, e.at, c.gradient, became(c.gradient, reason, w.of.Rounding.readsOther(c, true)))
		w.parted, w.faulty = true, true
		return
	}
	if c.arrived != nil && c.back > ReplacedBackward*max(w.arrives, c.unit) {
		if w.began && w.agreed { // runs may scale their loss in other ways
			w.arrived(e.i, e.at)
		}
		w.agreed = false
	}
	w.began = true
	if most := max(c.back, c.off); most < math.Inf(1) {
		w.arrives = max(w.arrives, most)
	}
}

// arrived says that a gradient that arrives at the i-th call differs first, and which calls after it only one
// recording has.
func (w *walk) arrived(i int, at [3]int) {
	c := w.calls[i]
	names := "no recorded call"
	for k := i; k < min(len(w.calls)-1, i+nearby); k++ {
		if s, _ := w.between(w.calls[k], w.calls[k+1], nil); s != "" {
			names = s
			break
		}
	}
	w.add(c, at, c.arrived, fmt.Sprintf("the gradient that arrives differs%s, those of the calls after it agree; "+
		"between them: %s", by(c.back), names))
}

// nearby is how far from a value that differs calls of one recording may be to have made it.
const nearby = 4

// between names the calls between two that only one recording has, "" if there are none. made says that one of them
// gave a result of a shape.
func (w *walk) between(from, to *compared, shape []int) (names string, made bool) {
	var parts []string
	for _, second := range []bool{false, true} {
		lo, hi, which := from.pair.A, to.pair.A, recordings[0]
		if second {
			lo, hi, which = from.pair.B, to.pair.B, recordings[1]
		}
		var ops []string
		at := ""
		for _, u := range w.alone[second] {
			if x := u.A.Position(); x > lo.Position() && x < hi.Position() {
				if len(ops) == 0 && u.A.Location != "" {
					at = " (" + path.Base(u.A.Location) + ")"
				}
				ops = append(ops, u.A.Op)
				made = made || gives(u.A, shape)
			}
		}
		if len(ops) > 0 {
			parts = append(parts, Operators(ops)+" only in the "+which+at)
		}
	}
	return strings.Join(parts, ", "), made
}

// gives reports whether a call has a result of a shape.
func gives(e *capture.Entry, shape []int) bool {
	rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
	defer rec.Close()
	return slices.ContainsFunc(rec.Outputs(), func(t *tensor.Tensor) bool { return slices.Equal(t.Shape, shape) })
}

// names reports whether a result that its inputs do not explain shows a wrong call. Updates divide small elements by
// small elements: one of them may change its sign though its arguments differ only by rounding.
func (w *walk) names(c *compared) bool {
	if x := w.of.Rounding; x != nil && x.states[c.result] == isWrong {
		return true
	}
	return w.last < 0 || c.at <= w.last || c.in == 0 || c.out > ReplacedBackward*max(c.in, c.unit)
}

// name is a call as step prints it.
func name(e *capture.Entry) string {
	if e.ID < 0 {
		return e.Op
	}
	return fmt.Sprintf("%s/%d", e.Op, e.ID)
}

// by says how large a relative distance is.
func by(d float64) string {
	if math.IsInf(d, 1) {
		return ""
	}
	return fmt.Sprintf(" by %.2g", d)
}
