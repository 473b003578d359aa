package reports

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/optool/optool/compare/verdict"
)

// A Digest collects the findings of a run, and prints first what a reader needs first:
// the first wrong call, then the others in order of execution, those of one kind
// together. Two findings are of one kind if the same values of the same op are wrong in
// the same words. Its memory grows with the number of kinds, of which the first
// maxKinds are kept, not with the number of findings.
type Digest struct {
	// Order is how kinds are ordered; OrderExecution if empty.
	Order Order
	// Next is what a reader who wants to know more does next; "" for nothing.
	Next string
	// Sound is what is said where no call is wrong, of what was not looked at; "" for nothing.
	Sound string
	// ExplainIn is the time that Explain may take; 0 if its work ends it.
	ExplainIn time.Duration

	failOn     []verdict.Verdict
	replaced   map[callKey]*Finding // wrong calls of functions in the place of torch's
	kinds      map[string]*kind
	first      *Finding // the first wrong call
	recordings bool     // two recordings are compared
	notFinite  firstNotFinite
	sides      apartSides
	rest       int     // findings of kinds that are not kept
	noCause    []Place // of findings for which no cause was found, although it was sought; nil if none was sought
	warned     *Digest // calls with warnings that are no findings; nil if there are none
}

// An Order is an order of findings.
type Order string

// The orders of findings.
const (
	OrderExecution Order = "order" // per process, of the first of each kind
	OrderWorst     Order = "worst" // what is worst first: nan where a number is due, then by error
	OrderOp        Order = "op"    // by name
)

// Orders lists the orders.
func Orders() []Order { return []Order{OrderExecution, OrderWorst, OrderOp} }

const (
	maxKinds   = 1000
	shownKinds = 8 // with all they say; what follows are lines
	shownLines = 30
	shownWarns = 3 // kinds of warnings, where nothing is wrong
	shownIDs   = 6

	shownReading = 5 // operators whose calls read other values
)

// A kind is findings that are alike.
type kind struct {
	first     *Finding
	only      bool // they are findings only because their verdict makes the run fail
	findings  int
	ids       []int           // the least ones besides the first's
	processes map[string]bool // of the findings but the first
	same      []*kind         // kinds behind it with the same cause, set where kinds are told
}

// NewDigest returns a digest without findings. Captures whose worst verdict is in failOn are
// findings too: they make the run fail.
func NewDigest(failOn []verdict.Verdict) *Digest {
	return &Digest{kinds: map[string]*kind{}, failOn: failOn}
}

// Add adds what was said of a capture; what is no finding is passed over.
func (d *Digest) Add(f *Finding) {
	d.notFinite.add(f)
	d.sides.add(f)
	only := !f.Bad()
	if only && !slices.Contains(d.failOn, f.Worst()) {
		d.warn(f)
		return
	}
	f.FailsRun = only
	f = f.brief()
	if f.Wrong() && f.Results[0].Lacks == "" && (d.first == nil || Earlier(f, d.first)) {
		d.first = f
	}
	if d.inside(f) {
		return
	}
	key := f.kind()
	k := d.kinds[key]
	if k == nil {
		if len(d.kinds) == maxKinds {
			d.rest++
			return
		}
		k = &kind{first: f, only: only, processes: map[string]bool{}}
		d.kinds[key] = k
	} else {
		other := f
		if Earlier(f, k.first) {
			other, k.first = k.first, f
		}
		k.note(other)
	}
	k.findings++
}

// A callKey names a call of a process.
type callKey struct {
	folder        string
	rank, pid, id int
}

// inside puts a wrong call with the wrong call of a function in the place of torch's that made it, and reports whether
// it did. The call that made it comes first.
func (d *Digest) inside(f *Finding) bool {
	r := f.Results[0]
	key := callKey{path.Dir(r.Capture), known(r.Rank), known(r.PID), known(r.Within)}
	outer := d.replaced[key]
	if key.id = known(r.ForwardID); r.Replaced != "" && key.id >= 0 && len(d.replaced) < maxKinds {
		if d.replaced == nil {
			d.replaced = map[callKey]*Finding{}
		}
		d.replaced[key] = f
	}
	if outer == nil || r.Within == nil {
		return false
	}
	if len(outer.Inside) < shownIDs {
		outer.Inside = append(outer.Inside, r.shortName())
	} else {
		outer.InsideMore++
	}
	if key.id >= 0 && d.replaced[key] == nil && len(d.replaced) < maxKinds {
		d.replaced[key] = outer // of what it made in turn
	}
	return true
}

// shortName is the operator with the number of the call.
func (r *Result) shortName() string {
	if r.ForwardID == nil {
		return opName(r.Op)
	}
	return fmt.Sprintf("%s/%d", opName(r.Op), *r.ForwardID)
}

// warn takes note of a call whose worst verdict is a warning.
func (d *Digest) warn(f *Finding) {
	if f.Worst() != verdict.Warn {
		return
	}
	if d.warned == nil {
		d.warned = NewDigest([]verdict.Verdict{verdict.Warn})
	}
	warned := *f
	d.warned.Add(&warned)
}

// keptResults is how many results of a finding a digest keeps, and of worse verdicts than those the first of each.
const keptResults = 64

// brief is a finding with at most so many results: the first, and those that tell why it is a finding.
func (f *Finding) brief() *Finding {
	if len(f.Results) <= keptResults {
		return f
	}
	b := *f
	b.Rows, b.Results = nil, f.Results[:1:1]
	worst := f.Results[0].Verdict
	for _, r := range f.Results[1:] {
		switch {
		case !f.tells(r):
		case len(b.Results) >= keptResults && r.Verdict.Rank() <= worst.Rank():
			b.more++
		default:
			b.Results = append(b.Results, r)
			worst = verdict.Worse(worst, r.Verdict)
		}
	}
	return &b
}

// note keeps the id of a finding that is not the first of its kind.
func (k *kind) note(f *Finding) {
	if p := f.Results[0].process(); p != "" && len(k.processes) <= shownIDs {
		k.processes[p] = true
	}
	id := f.Results[0].ForwardID
	if id == nil {
		return
	}
	at, _ := slices.BinarySearch(k.ids, *id)
	k.ids = slices.Insert(k.ids, at, *id)
	k.ids = k.ids[:min(len(k.ids), shownIDs+1)]
}

// tells reports whether r is why f is a finding: because it is one itself or, where none is, because
// it has the worst verdict, which makes the run fail.
func (f *Finding) tells(r *Result) bool {
	if f.Bad() {
		return r.listed()
	}
	return r.Verdict == f.Worst()
}

// bad is the first result of f that is why f is a finding.
func (f *Finding) bad() *Result { return f.Results[slices.IndexFunc(f.Results, f.tells)] }

// Repaired reports whether the call was wrong in the second of two recordings, and only there.
func (f *Finding) Repaired() bool { return f.Worst() == verdict.Repaired }

// Wrong reports whether the call itself gave a wrong result or none; other findings are
// of what was recorded.
func (f *Finding) Wrong() bool {
	return slices.ContainsFunc(f.Results, func(r *Result) bool { return r.Verdict.Differs() })
}

// fails reports whether a result of the call fails, as known or not.
func (f *Finding) fails() bool {
	return slices.ContainsFunc(f.Results, func(r *Result) bool { return r.Verdict.Wrong() })
}

// kind names what f says apart from numbers, places and files.
func (f *Finding) kind() string {
	var b strings.Builder
	fmt.Fprint(&b, f.Results[0].Op, f.Results[0].Lacks, f.Inherits)
	for _, r := range f.Results {
		if !f.tells(r) {
			continue
		}
		r.writeKind(&b)
	}
	return b.String()
}

// writeKind writes how a value is wrong, without what differs from call to call.
func (r *Result) writeKind(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s %s %s", r.Phase, r.Target, r.Verdict)
	for _, word := range strings.Fields(r.Reason) {
		if !strings.ContainsFunc(word, func(c rune) bool { return unicode.IsDigit(c) || c == '/' || c == '"' }) {
			b.WriteString(" " + word)
		}
	}
}

// Earlier orders what went wrong by the time it did, taking processes to run side by side: by the recorded places of
// the passes or, where those of backward passes are not known, forward passes in the order of calls, then backward
// passes in the reverse order.
func Earlier(a, b *Finding) bool {
	x, y := a.Results[0], b.Results[0]
	if p, q := a.moment(), b.moment(); p != nil && q != nil {
		return cmp.Or(cmp.Compare(*p, *q), compareProcess(x, y), cmp.Compare(x.Capture, y.Capture)) < 0
	}
	order := compareKnown(x.Order, y.Order)
	if a.backward() && b.backward() && x.Order != nil && y.Order != nil {
		order = -order
	}
	return cmp.Or(cmp.Compare(btoi(a.backward()), btoi(b.backward())), order, compareProcess(x, y),
		cmp.Compare(x.Capture, y.Capture)) < 0
}

// moment is the place of the first wrong pass among all that its process recorded, nil if it is not known.
func (f *Finding) moment() *int {
	if f.backward() {
		return f.Results[0].BackwardOrder
	}
	return f.Results[0].Order
}

// backward reports whether gradients alone are wrong.
func (f *Finding) backward() bool {
	return !slices.ContainsFunc(f.Results, func(r *Result) bool { return f.tells(r) && r.Phase != "backward" })
}

// compareExecution orders findings by process, in it by the position of the call.
func compareExecution(a, b *Finding) int {
	x, y := a.Results[0], b.Results[0]
	return cmp.Or(compareProcess(x, y), compareKnown(x.Order, y.Order), cmp.Compare(x.Capture, y.Capture))
}

func compareProcess(x, y *Result) int {
	return cmp.Or(compareKnown(x.Rank, y.Rank), compareKnown(x.PID, y.PID))
}

// compareKnown orders numbers; what is not known comes last.
func compareKnown(a, b *int) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(btoi(a == nil), btoi(b == nil))
	}
	return cmp.Compare(*a, *b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// severity orders results of equal verdict: elements that are not finite on one side alone go before all others. Then
// come the error in percent that all screens show, and the distance of the worst element.
func (r *Result) severity() []float64 {
	if r.Mismatch == nil || *r.Mismatch == 0 {
		return []float64{-1}
	}
	if r.MaxULP == nil {
		return []float64{math.Inf(1)}
	}
	relative := -1.0
	if r.RelativeError != nil {
		relative = float64(*r.RelativeError)
	}
	return []float64{0, relative, float64(*cmp.Or(r.WorstULP, r.MaxULP))}
}

// class orders findings by what they ask of the reader: a wrong result, also one that was wrong, or a device that
// failed, an error, then what could not be read.
func (f *Finding) class() int {
	switch worst := f.Worst(); {
	case f.Wrong() || f.Repaired():
		return 0
	case worst == verdict.Invalid:
		return 2
	}
	return 1
}

func compareWorst(a, b *Finding) int {
	severity := func(f *Finding) (most []float64) {
		for _, r := range f.Results {
			if x := r.severity(); r.listed() && slices.Compare(x, most) > 0 {
				most = x
			}
		}
		return most
	}
	return cmp.Or(cmp.Compare(b.Worst().Rank(), a.Worst().Rank()), slices.Compare(severity(b), severity(a)))
}

// Kinds yields the first finding of each kind, in the order in which they are printed.
func (d *Digest) Kinds() iter.Seq[*Finding] {
	return func(yield func(*Finding) bool) {
		for _, k := range d.sorted() {
			if !yield(k.first) {
				return
			}
		}
	}
}

// Told yields the first finding of each kind, and what is said of those that are like it. Kinds with the same cause are
// told as one, and those of two recordings that ReadingText is about are left out.
func (d *Digest) Told() iter.Seq2[*Finding, string] {
	return func(yield func(*Finding, string) bool) {
		kinds, _ := d.told()
		for _, k := range kinds {
			if !yield(k.first, k.like()) {
				return
			}
		}
	}
}

// NotFinite is a line that says which call made the first value that is infinite or NaN of finite ones; "" if none did.
func (d *Digest) NotFinite() string { return d.notFinite.text() }

// First is the first wrong call, nil if none is wrong.
func (d *Digest) First() *Finding { return d.first }

// FirstWrong is the place of the first wrong call, nil if none is wrong.
func (d *Digest) FirstWrong() *Place {
	if d.first == nil || d.recordings || d.first.Inherits {
		return nil
	}
	r := d.first.bad()
	return &Place{Capture: r.Capture, Target: r.Target, Op: r.Op, Verdict: r.Verdict}
}

// Lead makes the findings of a capture the first wrong call, if they are the first of their kind: where two recordings
// part is known only from all of them. Otherwise no call is named as the first wrong one.
func (d *Digest) Lead(capture string) {
	d.first, d.recordings = nil, true
	for _, k := range d.kinds {
		if (k.first.Wrong() || k.first.Repaired()) && k.first.Results[0].Capture == capture {
			d.first = k.first
		}
	}
}

// noun is what the first finding is called: of two recordings it may be right in both, and a call that only reads other
// values is no wrong one.
func (d *Digest) noun() string {
	if d.recordings || d.first.Inherits {
		return "call that differs"
	}
	return "wrong call"
}

func (d *Digest) sorted() []*kind {
	return slices.SortedFunc(maps.Values(d.kinds), func(a, b *kind) int {
		x, y := a.first, b.first
		by := 0
		switch d.Order {
		case OrderWorst:
			by = compareWorst(x, y)
		case OrderOp:
			by = cmp.Compare(x.Results[0].Op, y.Results[0].Op)
		default: // the first wrong call leads, whichever process made it
			by = cmp.Compare(btoi(y == d.first), btoi(x == d.first))
		}
		if d.Order != OrderOp { // what is wrong stands before what could not be judged
			by = cmp.Or(cmp.Compare(x.class(), y.class()), by)
		}
		return cmp.Or(cmp.Compare(btoi(a.only), btoi(b.only)), by, compareExecution(x, y))
	})
}

// told are the kinds that are printed. Behind the call at which two recordings part, those whose calls only read values
// that differ already are none: they are reading.
func (d *Digest) told() (kinds, reading []*kind) {
	for _, k := range d.sorted() {
		if k.first.Inherits && d.recordings && d.leads() && d.first != nil && k.first != d.first {
			reading = append(reading, k)
		} else {
			kinds = append(kinds, k)
		}
	}
	return bySameCause(kinds), reading
}

// bySameCause puts kinds whose likeliest cause is that of one before with it: one damage in several operators is one
// finding.
func bySameCause(kinds []*kind) (out []*kind) {
	leads := map[string]*kind{}
	for _, k := range kinds {
		k.same = nil
		cause := k.first.cause()
		if lead := leads[cause]; cause != "" && lead != nil {
			lead.same = append(lead.same, k)
			continue
		}
		leads[cause] = k
		out = append(out, k)
	}
	return out
}

// cause is the likeliest mistake that reproduces a value of the call, "" if none was found.
func (f *Finding) cause() string {
	for i := range f.Causes {
		if c := &f.Causes[i]; !c.Pattern {
			return c.Text
		}
	}
	return ""
}

// unsought reports whether the causes were not looked for, since others took the time.
func (f *Finding) unsought() bool {
	return slices.ContainsFunc(f.Causes, func(c Cause) bool { return c.Unfinished && strings.HasPrefix(c.Text, "not sought") })
}

// Readers tells a summary which ops have no other findings than calls that only read values that differ already: its
// table leaves them out.
func (d *Digest) Readers(s *Summary) {
	kinds, reading := d.told()
	if d.rest > 0 {
		return
	}
	s.readers = map[string]bool{}
	for _, k := range reading {
		s.readers[k.first.Results[0].Op] = true
	}
	for _, k := range kinds {
		delete(s.readers, k.first.Results[0].Op)
	}
}

// ReadingText says which calls only read values that differ already; "" if there are none.
func (d *Digest) ReadingText() string {
	_, reading := d.told()
	if len(reading) == 0 {
		return ""
	}
	calls, ops := 0, map[string]int{}
	for _, k := range reading {
		calls += k.findings
		ops[k.first.Results[0].Op] += k.findings
	}
	names := slices.SortedFunc(maps.Keys(ops), func(a, b string) int {
		return cmp.Or(cmp.Compare(ops[b], ops[a]), cmp.Compare(a, b))
	})
	for i, op := range names {
		names[i] = fmt.Sprintf("%s %d", op, ops[op])
	}
	if more := len(names) - shownReading; more > 0 {
		names = append(names[:shownReading], Count(more, "other op"))
	}
	differ := Count(calls, "call") + " differ, and so do values they were"
	if calls == 1 {
		differ = "1 call differs, and so do values it was"
	}
	return OneLine(fmt.Sprintf("%s given: %s", differ, strings.Join(names, ", ")))
}

// leads reports whether the first wrong call is printed first.
func (d *Digest) leads() bool { return d.Order != OrderWorst && d.Order != OrderOp }

// explainedOne is how long causes of a finding are looked for at most, which a search within its work never takes.
const explainedOne = time.Minute

// Explain looks for the causes and the profiles of the findings that are printed with all
// they say, the first first, and hands each to write.
func (d *Digest) Explain(cause func(*Cause) error, profile func(*Profile) error) error {
	start := time.Now()
	kinds, _ := d.told()
	shown := 0
	for i, k := range kinds {
		if shown < shownKinds {
			shown = len(bySameCause(kinds[:i]))
		}
		f := k.first
		if f.Explain == nil {
			continue
		}
		if d.noCause == nil {
			d.noCause = []Place{}
		}
		until := time.Now().Add(explainedOne)
		if end := start.Add(d.ExplainIn); d.ExplainIn > 0 && until.After(end) {
			until = end
		}
		turn := Turn{Findings: min(len(kinds)-i, shownKinds-shown)}
		if shown >= shownKinds {
			turn = Turn{Findings: len(kinds) - i, Further: true}
		}
		found := f.Explain(until, turn)
		f.Causes, f.Profiles = Searched(found, f.Results[0]), found.Profiles
		if found.Sought && !found.Short && f.cause() == "" {
			r := f.bad()
			d.noCause = append(d.noCause, Place{Capture: r.Capture, Target: r.Target, Op: r.Op})
		}
		for i := range f.Causes {
			if c := &f.Causes[i]; c.Unfinished {
				c.Targets = f.wrongTargets()
			}
			if err := cause(&f.Causes[i]); err != nil {
				return err
			}
		}
		for _, p := range f.Profiles {
			if err := profile(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// NoCause are the findings that Explain looked for a cause of and found none; nil if it looked for none.
func (d *Digest) NoCause() []Place { return d.noCause }

// wrongTargets are the values that make f a finding.
func (f *Finding) wrongTargets() (targets []string) {
	for _, r := range f.Results {
		if f.tells(r) && !slices.Contains(targets, r.Target) {
			targets = append(targets, r.Target)
		}
	}
	return targets
}

// writeCauses prints the causes of findings that were printed before they were looked for.
func writeCauses(w io.Writer, st Style, kinds []*kind) error {
	for _, k := range kinds {
		if len(k.first.Causes) == 0 {
			continue
		}
		fmt.Fprintln(w, st.Bold(st.Wrap(OneLine(k.first.Results[0].Title()), 2)))
		k.first.writeCauses(w, st)
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// Write prints the findings, of which the style that wants tables has printed all but the causes before.
func (d *Digest) Write(w io.Writer, st Style) error {
	kinds, _ := d.told()
	for _, line := range []string{d.NotFinite(), d.sides.text()} {
		if line != "" {
			fmt.Fprintf(w, "%s\n\n", st.Paint(verdict.Fail, st.Wrap(OneLine(line), 2)))
		}
	}
	if st.Tables {
		return writeCauses(w, st, kinds[:min(len(kinds), shownKinds)])
	}
	if len(kinds) == 0 {
		return d.writeWarned(w, st)
	}
	if d.first != nil && d.leads() {
		fmt.Fprintf(w, "%s\n\n", st.Paint(verdict.Fail, "First "+d.noun()+":"))
	}
	for i, k := range kinds[:min(len(kinds), shownKinds)] {
		if k.only && (i == 0 || !kinds[i-1].only) {
			fmt.Fprintf(w, "These fail the run, as --fail-on %s says:\n\n", verdict.List(d.failOn))
		} else if i == 1 && d.first != nil && d.leads() {
			fmt.Fprint(w, "Also, in order of the calls:\n\n")
		}
		if err := k.first.write(w, st, k.like(), i > 0); err != nil {
			return err
		}
	}
	if err := d.writeLines(w, st, kinds[min(len(kinds), shownKinds):]); err != nil {
		return err
	}
	if text := d.ReadingText(); text != "" {
		fmt.Fprintf(w, "%s\n\n", st.Wrap(strings.ToUpper(string(ReadsOtherValues))+": "+text+
			". --tables prints each.", 2))
	}
	if d.Next == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "Next: %s\n\n", d.Next)
	return err
}

// writeWarned prints the first calls with warnings, where there are no findings: a reader may want to look at them.
func (d *Digest) writeWarned(w io.Writer, st Style) error {
	if d.warned == nil || st.Quiet {
		return nil
	}
	fmt.Fprint(w, "Warnings, in order of the calls:\n\n")
	kinds := d.warned.sorted()
	for _, k := range kinds[:min(len(kinds), shownWarns)] {
		if err := k.first.write(w, st, k.like(), true); err != nil {
			return err
		}
	}
	more := d.warned.rest
	for _, k := range kinds[min(len(kinds), shownWarns):] {
		more += k.findings
	}
	if more == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "and %s with other warnings: --tables prints all\n\n", Count(more, "call"))
	return err
}

// WriteLast says what was not looked at, if nothing is wrong. Otherwise it repeats in one line which call is the first
// wrong one, if there are others:
// what was said of it may be out of sight.
func (d *Digest) WriteLast(w io.Writer, st Style) error {
	if d.first == nil && d.Sound != "" && !st.Quiet {
		_, err := fmt.Fprintln(w, d.Sound) // whole: the command is there to be copied
		return err
	}
	if d.first == nil || len(d.kinds) == 1 && !st.Tables {
		return nil
	}
	r := d.first.bad()
	line := fmt.Sprintf("first %s: %s: %s", d.noun(), r.Title(), r.target())
	_, err := fmt.Fprintln(w, st.Paint(verdict.Fail, st.Wrap(OneLine(line), 2)))
	return err
}

// WriteAnnotations prints the first kinds of findings as workflow commands of GitHub
// Actions, which show them beside the source:
// https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions.
func (d *Digest) WriteAnnotations(w io.Writer) error {
	kinds, _ := d.told()
	for _, k := range kinds[:min(len(kinds), shownKinds)] {
		r := k.first.bad()
		texts := []string{r.target() + " " + string(r.Verdict) + ": " + r.Reason}
		for _, c := range k.first.Causes[:min(len(k.first.Causes), shownCauses)] {
			texts = append(texts, c.Label()+": "+c.String())
		}
		if err := annotate(w, k.first.Results[0], texts...); err != nil {
			return err
		}
	}
	return nil
}

// annotate prints one annotation at the line of a result's call, with a line for each text.
func annotate(w io.Writer, r *Result, texts ...string) error {
	property := strings.NewReplacer("%", "%25", ":", "%3A", ",", "%2C")
	at := ""
	if file, line, ok := strings.Cut(r.Location, ":"); ok {
		at = fmt.Sprintf("file=%s,line=%s,", property.Replace(OneLine(file)), property.Replace(OneLine(line)))
	}
	for i, text := range texts {
		texts[i] = strings.ReplaceAll(OneLine(text), "%", "%25")
	}
	_, err := fmt.Fprintf(w, "::error %stitle=%s::%s\n", at, property.Replace(OneLine(r.Title())),
		strings.Join(texts, "%0A"))
	return err
}

// like says how many findings are like the first of a kind, and which, and what has the same cause.
func (k *kind) like() string {
	text, same := k.more(), k.sameText()
	if text != "" && same != "" {
		text += "; "
	}
	return text + same
}

// sameText says what has the same cause; "" if nothing has.
func (k *kind) sameText() string {
	calls := 0
	var names []string
	for _, other := range k.same {
		name := other.first.Results[0].shortName()
		if n := other.findings - 1; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		names, calls = append(names, name), calls+other.findings
	}
	if len(names) > shownIDs {
		names = append(names[:shownIDs], Count(len(k.same)-shownIDs, "other kind"))
	}
	if calls == 0 {
		return ""
	}
	return "the same cause in " + Count(calls, "call") + ": " + strings.Join(names, ", ")
}

// more says how many findings are like the first of a kind, and which.
func (k *kind) more() string {
	if k.findings < 2 {
		return ""
	}
	s := fmt.Sprintf("%d more", k.findings-1)
	var ids []string
	for _, id := range k.ids[:min(len(k.ids), shownIDs)] {
		ids = append(ids, strconv.Itoa(id))
	}
	if len(ids) > 0 {
		if len(ids) < k.findings-1 {
			ids = append(ids, "...")
		}
		s += ": " + strings.TrimPrefix(Count(len(ids), "id"), strconv.Itoa(len(ids))+" ") + " " + strings.Join(ids, ", ")
	}
	switch n := len(k.processes); {
	case n > shownIDs:
		s += ", in many processes"
	case n > 1 || n == 1 && !k.processes[k.first.Results[0].process()]:
		s += ", in " + strings.Join(slices.Sorted(maps.Keys(k.processes)), ", ")
	}
	return s
}

// writeLines prints a line for each further kind.
func (d *Digest) writeLines(w io.Writer, st Style, kinds []*kind) error {
	if len(kinds) == 0 && d.rest == 0 {
		return nil
	}
	l := NewListing(w, st.Width, "also", "id", "more", "what")
	l.Names(0)
	l.Right(1)
	l.Right(2)
	l.Wrap()
	captures, unsought := d.rest, 0
	for i, k := range kinds {
		if i >= shownLines {
			unsought += btoi(k.first.unsought())
			captures += k.findings
			continue
		}
		r := k.first.bad()
		id, more := "", ""
		if r.ForwardID != nil {
			id = strconv.Itoa(*r.ForwardID)
		}
		if k.findings > 1 {
			more = "+" + strconv.Itoa(k.findings-1)
		}
		what := strings.TrimSpace(r.Target + " " + string(r.Verdict) + ": " + r.Reason)
		switch cause := k.first.cause(); {
		case cause != "":
			what += "; cause: " + cause
			if same := k.sameText(); same != "" {
				what += "; " + same
			}
		case k.first.unsought():
			unsought++
		}
		if err := l.Add(r.Op, id, more, what); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	full := "--tables prints each call in full, with its path; --json FILE writes all"
	if captures > 0 {
		full = "and findings of other kinds in " + Count(captures, "capture") + "; " + full
	}
	if unsought > 0 {
		full += fmt.Sprintf("; causes of %s not sought, to save time: optool explain seeks them", Count(unsought, "line"))
	}
	_, err := fmt.Fprintf(w, "%s\n\n", st.Wrap(full, 2))
	return err
}
