package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// A Summary counts results and keeps the worst of each op. Its memory grows
// with the number of ops, of which the first maxOps are told apart, not of results,
// provided that the results of a capture are added one after the other.
type Summary struct {
	Captures    map[verdict.Verdict]int // captures by their worst verdict
	Results     map[verdict.Verdict]int // results by verdict
	Interrupted bool
	Elapsed     time.Duration // 0 if not measured
	PeakRSS     int64         // largest resident set in bytes, 0 if not measured
	// Witness counts results of a device that are better, the same or worse than
	// the recorded ones; nil without a device.
	Witness map[string]int
	Against *Contest // of two devices; nil without
	Exit    int      // exit code of the run
	NotRead int      // files and directories that gave no result, and files of values that could not be read
	// Missing says which parts of the run are not there, or did not end; a sentence each.
	Missing []string
	// Unread are files that gave no result, or only some of their calls.
	Unread []UnreadFile
	// Settings are what the run was told about what to check.
	Settings Settings
	// FailOn are verdicts of captures that are no differences, but not wanted either.
	FailOn []verdict.Verdict
	// First is where two recordings part; nil where none were compared.
	First *Place
	// Same are the calls that gave the same in two recordings; nil where none were compared.
	Same *Same
	// NoCause are the findings whose cause was sought and not found; nil where none was sought.
	NoCause []Place
	// FirstWrong is the first wrong call of one recording, nil without one. The digest tells it to people.
	FirstWrong *Place
	// Precision is what another precision of one of two recordings explains; nil where they have one precision.
	Precision *Precision
	// Budget is what a run that was given a time looked at; nil if it was not.
	Budget *Budget
	// Generated is what data was made; nil of a run that compared.
	Generated *Generated
	// Known is the list of known failures, nil without one.
	Known *KnownList
	// Unjudged are the values that were not judged.
	Unjudged Unjudged
	judged   int // values
	// Undecided says that most of what was compared could not be decided, which is no success.
	Undecided bool
	// Facts are what a command says first in reports, besides what results say.
	Facts []Fact

	steps        stepSet           // of the program
	programs     programCount      // calls by program
	program      *ProgramSummary   // of the capture being added
	damaged      unreadFiles       // of results that could not be read
	between      []*Result         // the first mostBetween findings between calls
	betweens     int               // and how many there are
	lacking      []*Result         // the first mostBetween results for what an earlier run had
	lacks        int               // and how many there are
	unexplained  int               // causes and profiles that are left out of reports
	recordedOn   []string          // the first mostPlaces different ones of results
	wrapped      []Wrapper         // the first maxOps different ones of results
	instead      []string          // recorded functions that the device did not run, the first maxOps
	unwritten    map[string]int    // calls into whose files torch saved nothing, by op
	notSaved     int               // results of those
	projected    int               // results of which not all elements were compared, but their projections
	partial      int               // and those of which these were not either
	changed      map[string]bool   // settings that changed the capture being added: whether they excused it
	pools        map[poolKey]*pool // errors of values that passed
	readers      map[string]bool   // ops of which no call does worse than to read values that differ already
	ops          map[string]*OpSummary
	capture, op  string // being added
	worst        verdict.Verdict
	addedCapture bool
	unsaved      bool // it has a file into which torch saved nothing
	reads        bool // it only reads other values
	inside       bool // a recorded call made it
	reading      int  // calls whose verdict only tells that they were given other values
	apart        int  // results of such calls that differ
}

// A Fact is a line at the top of reports, with its name.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// A Precision says how many calls of two recordings differ by no more than a lower precision of one of them explains.
type Precision struct {
	Fine      string `json:"fine"`      // dtype: float32
	Coarse    string `json:"coarse"`    // dtype: bfloat16
	From      string `json:"from"`      // the first call with a value of both dtypes
	Calls     int    `json:"calls"`     // of both recordings
	Explained int    `json:"explained"` // those without a difference that it does not explain
	Same      int    `json:"same"`      // those of them without any difference
}

// NewSummary returns an empty summary.
func NewSummary() *Summary {
	return &Summary{Captures: map[verdict.Verdict]int{}, Results: map[verdict.Verdict]int{},
		unwritten: map[string]int{}, changed: map[string]bool{},
		pools: map[poolKey]*pool{}, ops: map[string]*OpSummary{}}
}

// Add counts one result.
func (s *Summary) Add(r *Result) {
	if r.ofNoCall() {
		s.addOfNoCall(r)
		return
	}
	if !s.addedCapture || r.Capture != s.capture || r.Op != s.op {
		s.endCapture()
		s.capture, s.op, s.worst, s.addedCapture = r.Capture, r.Op, r.Verdict, true
		s.program = s.programs.of(r)
		s.reads, s.inside = r.Inherits, r.Within != nil
	}
	s.Results[r.Verdict]++
	s.apart += btoi(r.Inherits && r.Verdict.Differs())
	s.steps.add(r)
	s.addErrors(r)
	if r.Generated != nil {
		if s.Generated == nil {
			s.Generated = &Generated{}
		}
		s.Generated.add(r)
	}
	if !s.Unjudged.Add(r) {
		s.judged++
	}
	s.damaged.add(r)
	switch {
	case r.Projected != nil:
		s.projected++
	case r.Coverage != nil && *r.Coverage < 1:
		s.partial++
	}
	if r.Unwritten {
		s.notSaved++
		s.unsaved = true
	}
	if r.Default != "" {
		s.changed[r.Setting] = s.changed[r.Setting] || r.Default == verdict.Fail && r.Verdict != verdict.Fail
	}
	alone := r.Verdict == verdict.Skipped && strings.HasPrefix(r.Reason, verdict.OnlyIn) // compared with nothing
	if on := r.RecordedOn; on != "" && !alone && len(s.recordedOn) < mostPlaces && !slices.Contains(s.recordedOn, on) {
		s.recordedOn = append(s.recordedOn, on)
	}
	s.addWrapped(r)
	s.addInstead(r)
	s.contest(r)
	if r.Witness != "" && r.Layout == "" && r.Device == "" {
		if s.Witness == nil {
			s.Witness = map[string]int{}
		}
		s.Witness[r.Witness]++
	}
	if r.Verdict.Rank() > s.worst.Rank() {
		s.worst = r.Verdict
	}
	s.opOf(r.Op).add(r)
	s.program.look(r)
}

// These stand in the place of an operator in results that are about no call.
const (
	OpBetween = "between calls"
	OpMissing = "missing"       // what is gone since an earlier run
	OpUnseen  = "not looked at" // what a run did not reach that an earlier run looked at
)

// ofNoCall reports whether r is about no call.
func (r *Result) ofNoCall() bool { return r.Between != "" || r.Lacks != "" }

// mostBetween is how many of these a table of what is wrong lists.
const mostBetween = 20

// addOfNoCall counts a result that is about no call.
func (s *Summary) addOfNoCall(r *Result) {
	s.Results[r.Verdict]++
	list, n := &s.between, &s.betweens
	if r.Lacks != "" {
		list, n = &s.lacking, &s.lacks
	} else {
		s.programs.addBetween(r)
	}
	if *n++; len(*list) < mostBetween {
		keep := *r
		*list = append(*list, &keep)
	}
}

// add counts the elements of a result of the op, and keeps the worst.
func (o *OpSummary) add(r *Result) {
	if r.Coverage != nil && r.Numel != nil {
		o.elements += int64(*r.Numel)
		o.checked += int64(float64(*r.Numel) * float64(*r.Coverage))
	}
	if o.Worst == nil || worse(r, o.Worst) {
		keep := *r
		o.Worst = &keep
	}
}

// worse orders results by verdict, then by the size of their errors if it is known, else by how many elements differ.
func worse(a, b *Result) bool {
	if d := cmp.Compare(a.Verdict.Rank(), b.Verdict.Rank()); d != 0 {
		return d > 0
	}
	if a.RelativeError != nil && b.RelativeError != nil {
		return *a.RelativeError > *b.RelativeError
	}
	return a.Mismatch != nil && (b.Mismatch == nil || *a.Mismatch > *b.Mismatch)
}

// mostPlaces is how many devices that recorded values are named.
const mostPlaces = 4

// maxOps is how many ops are told apart. A recording has a few hundred, but a file of values has one for each.
const maxOps = 2048

// otherOps is the name that further ones are counted under.
const otherOps = "(other ops)"

// opOf is what is known of an op, or of all that are not told apart.
func (s *Summary) opOf(op string) *OpSummary {
	o := s.ops[op]
	if o == nil && len(s.ops) >= maxOps {
		op = otherOps
		o = s.ops[op]
	}
	if o == nil {
		o = &OpSummary{Op: op, Counts: map[verdict.Verdict]int{}}
		s.ops[op] = o
	}
	return o
}

func (s *Summary) endCapture() {
	if s.addedCapture {
		s.Captures[s.worst]++
		s.program.counts[s.worst]++
		o := s.opOf(s.op)
		o.Counts[s.worst]++
		if s.inside {
			o.inside++
		}
		if s.reads && s.worst.Differs() {
			o.reading++
			s.reading++
			s.program.reading++
		}
		if s.unsaved {
			s.unwritten[s.opOf(s.op).Op]++
		}
		for name, excused := range s.changed {
			s.Settings.Change(name, excused)
		}
		clear(s.changed)
		s.addedCapture, s.unsaved = false, false
	}
}

// Ops returns the summaries by op: the worst first, then by name.
func (s *Summary) Ops() []*OpSummary {
	s.endCapture()
	wrong := func(o *OpSummary) int {
		return btoi(!o.differs()) + btoi(!o.differs() || s.reading > 0 && o.onlyReads())
	}
	return slices.SortedFunc(maps.Values(s.ops), func(a, b *OpSummary) int {
		return cmp.Or(cmp.Compare(wrong(a), wrong(b)),
			cmp.Compare(b.Worst.Verdict.Rank(), a.Worst.Verdict.Rank()), cmp.Compare(a.Op, b.Op))
	})
}

// Reading is how many captures that differ were only given other values, where others are or were wrong by themselves.
func (s *Summary) Reading() int {
	s.endCapture()
	if s.reading < s.differing()+s.Captures[verdict.Repaired] {
		return s.reading
	}
	return 0
}

// differing is how many captures differ.
func (s *Summary) differing() (n int) {
	for v, k := range s.Captures {
		if v.Differs() {
			n += k
		}
	}
	return n
}

// ReadsOtherValues is what reports show in place of the verdict of such captures, and the heading of a column for them.
const ReadsOtherValues verdict.Verdict = "reads other values"

// Shown is the verdict that reports show of a result: its own or, where others are or were wrong, ReadsOtherValues.
func (s *Summary) Shown(r *Result) verdict.Verdict {
	if r.Inherits && r.Verdict.Differs() && s.Reading() > 0 {
		return ReadsOtherValues
	}
	return r.Verdict
}

// columns are the headings of columns with the captures by verdict, and of one for those that only read other values.
func (s *Summary) columns() []string {
	columns := columnsOf(s.used())
	if s.Reading() > 0 {
		columns = append(columns, string(ReadsOtherValues))
	}
	return columns
}

// counts are the captures of an op for these columns.
func (s *Summary) counts(o *OpSummary) (counts []int) {
	apart := s.Reading() > 0
	for _, v := range s.used() {
		n := o.Counts[v]
		if apart && v == verdict.Fail {
			n -= o.reading
		}
		counts = append(counts, n)
	}
	if apart {
		counts = append(counts, o.reading)
	}
	return counts
}

// differs reports whether some capture of the operator is wrong, or its device failed.
func (o *OpSummary) differs() bool {
	for v, n := range o.Counts {
		if n > 0 && v.Differs() {
			return true
		}
	}
	return false
}

// Compared is the number of results that compared something: those that were judged and the mistrusted ones, which are
// compared and not judged. Reports for people have Judged, which adds up with NotJudged.
func (s *Summary) Compared() int {
	return s.Results[verdict.Pass] + s.Results[verdict.Warn] + s.Results[verdict.Fail] + s.Results[verdict.Mistrusted] +
		s.Results[verdict.Repaired] + s.Results[verdict.Known] + s.Results[verdict.StillWrong]
}

// Judged is the number of values that were judged: that passed or did not, and not only in a way that proves little.
// All reports print it. What is about no call, such as a value that changed between two, is not in it.
func (s *Summary) Judged() int { return s.judged }

// NotJudged are the values that were not judged: those of Unjudged and, as one value each, the calls that
// a run with a budget did not look at.
func (s *Summary) NotJudged() *Unjudged {
	if s.Left() == 0 {
		return &s.Unjudged
	}
	all, why := s.Unjudged.clone(), "not looked at within the budget"
	if s.Interrupted {
		why = "not looked at, since the run was interrupted"
	}
	for _, o := range s.Budget.Ops {
		if n := o.Left(); n > 0 {
			all.Count(why, o.Op, n)
		}
	}
	return all
}

// Calls is the number of captures.
func (s *Summary) Calls() int {
	s.endCapture()
	n := 0
	for _, k := range s.Captures {
		n += k
	}
	return n
}

// Total is the number of results.
func (s *Summary) Total() int {
	n := 0
	for _, k := range s.Results {
		n += k
	}
	return n
}

// Counts are the numbers of a run's last line: compared, and one per verdict, of
// results and of captures. What is repaired differs and is in the counts of failures, too.
func (s *Summary) Counts() map[string]any {
	s.endCapture()
	m := map[string]any{"compared": s.Compared()}
	for _, v := range verdict.All() {
		m[v.Key()] = s.Results[v]
		m["captures_"+v.Key()] = s.Captures[v]
	}
	m["fail"] = s.Results[verdict.Fail] + s.Results[verdict.Repaired]
	m["captures_fail"] = s.Captures[verdict.Fail] + s.Captures[verdict.Repaired]
	return m
}

// Differs reports whether any result is a difference or a device's failure, or the
// results of an operator are wrong all together. What is still wrong counts, too, and so does what is repaired.
func (s *Summary) Differs() bool {
	return s.wrongResults()+s.Results[verdict.Repaired] > 0 || s.together(verdict.Fail)
}

// Wrong reports whether a result is wrong or differs without a reason: neither what is repaired does, nor what only
// reads values that differ because of others.
func (s *Summary) Wrong() bool {
	n := s.wrongResults()
	if s.Reading() > 0 {
		n -= s.apart
	}
	return n > 0 || s.together(verdict.Fail)
}

// wrongResults is how many results are a difference or a device's failure, or still wrong.
func (s *Summary) wrongResults() (n int) {
	for v, k := range s.Results {
		if v.Differs() || v == verdict.StillWrong {
			n += k
		}
	}
	return n
}

// Unwanted reports whether any capture's worst verdict, or that on all calls of an
// operator, is in FailOn, or whether a line of the known failures is not to be there any more.
func (s *Summary) Unwanted() bool {
	s.endCapture()
	unwanted := func(v verdict.Verdict) bool { return s.Captures[v] > 0 || s.together(v) }
	return s.Known.failsRun(s.hidesNone()) || slices.ContainsFunc(s.FailOn, unwanted)
}

// together reports whether the calls of an operator have this verdict all together.
func (s *Summary) together(v verdict.Verdict) bool {
	return slices.ContainsFunc(s.Systematic(), func(f Systematic) bool { return f.Verdict == v })
}

// Faulty reports whether a report shows a run as failed. A failure that an older run had, too, leaves the exit code at
// 0: then the run is doubtful.
func (s *Summary) Faulty() bool {
	return s.Unwanted() || s.Wrong() && (s.Exit != 0 || s.wrongResults() > s.Results[verdict.StillWrong])
}

// Doubtful reports whether a run in which nothing new is wrong is no plain success either: some input was refused, it
// did not look at all calls or judged none, or failures are known or as old as the run
// before.
func (s *Summary) Doubtful() bool {
	return s.Refused() || s.NotRead > 0 || s.Interrupted || s.Left() > 0 || s.lacks > 0 || s.Judged() == 0 ||
		s.Undecided || s.Results[verdict.Known]+s.Results[verdict.StillWrong] > 0
}

// Refused reports whether any input was unreadable or could not be run. Files into
// which torch saved nothing do not count where anything was compared.
func (s *Summary) Refused() bool {
	refused := s.Results[verdict.Invalid] + s.Results[verdict.Error]
	if s.Compared() > 0 {
		refused -= s.notSaved
	}
	return refused > 0
}

// inTables are the verdicts in the order of tables.
var inTables = []verdict.Verdict{verdict.Pass, verdict.Warn, verdict.Repaired, verdict.Known, verdict.StillWrong,
	verdict.Fail, verdict.Mistrusted, verdict.Unsupported, verdict.Skipped, verdict.Invalid, verdict.Error,
	verdict.Timeout, verdict.Crash}

// used lists the verdicts that captures have, in the order of tables.
func (s *Summary) used() (used []verdict.Verdict) {
	for _, v := range inTables {
		if s.having(v) > 0 {
			used = append(used, v)
		}
	}
	return used
}

// having is how many captures have a verdict. Those that only read other values are counted apart.
func (s *Summary) having(v verdict.Verdict) int {
	s.endCapture()
	if v == verdict.Fail {
		return s.Captures[v] - s.Reading()
	}
	return s.Captures[v]
}

// columnsOf are the headings of columns for verdicts.
func columnsOf(vs []verdict.Verdict) []string {
	columns := make([]string, len(vs))
	for i, v := range vs {
		columns[i] = string(v)
	}
	return columns
}

// Write prints the counts of the ops that did not plainly pass, of all ops if the style
// wants tables, and one line in total.
func (s *Summary) Write(w io.Writer, st Style) error {
	if line := s.unsupported(); line != "" {
		fmt.Fprintf(w, "%s\n\n", st.Paint(verdict.Unsupported, line))
	}
	if !st.Quiet {
		if err := s.writeOps(w, st); err != nil {
			return err
		}
	}
	if err := s.Settings.Write(w, st.Width); err != nil {
		return err
	}
	if text := s.witnessText(); text != "" {
		fmt.Fprintf(w, "%s: %s\n", witnessName, text)
	}
	if err := s.Against.write(w, st); err != nil {
		return err
	}
	for _, line := range s.notes() {
		fmt.Fprintln(w, st.Wrap(line, 2))
	}
	if odd := s.odd(); odd != nil && odd.Worst.Repro != nil {
		fmt.Fprintf(w, "  again    %s\n", Command(*odd.Worst.Repro))
	}
	if s.Budget != nil {
		s.endCapture()
		if err := s.Budget.write(w, st, s.Captures); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, st.Wrap(s.paintedLine(st), 2))
	return err
}

// witnessName names what witnessText says.
const witnessName = "the device's results against the recorded ones"

// witnessText counts results of a device that are better than the recorded ones, the same and worse; "" without any.
func (s *Summary) witnessText() string {
	if len(s.Witness) == 0 {
		return ""
	}
	return fmt.Sprintf("%d better, %d same, %d worse", s.Witness["better"], s.Witness["same"], s.Witness["worse"])
}

// unsupported says how many captures no reference could judge, if the run succeeds without them; "" otherwise.
func (s *Summary) unsupported() string {
	all, n := s.Calls(), s.Captures[verdict.Unsupported]
	for v, k := range s.Captures {
		if v.Differs() && k > 0 {
			return ""
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s not judged: operator, argument or dtype not supported", n, Count(all, "capture"))
}

func (s *Summary) writeOps(w io.Writer, st Style) error {
	ops, columns := s.Ops(), s.columns()
	l := NewListing(w, st.Width, append(append([]string{"op"}, columns...), "worst")...)
	l.Names(0)
	l.Wrap()
	for i := range columns {
		l.Right(i + 1)
	}
	shown, passed, captures := 0, 0, 0
	readers, reading := 0, 0
	for _, o := range ops {
		if s.readers[o.Op] && !st.Tables {
			readers++
			for _, n := range o.Counts {
				reading += n
			}
			continue
		}
		if o.passed() && !st.Tables {
			passed++
			captures += o.Counts[verdict.Pass]
			continue
		}
		shown++
		row := []string{opName(o.Op)}
		for _, k := range s.counts(o) {
			n := ""
			if k > 0 {
				n = strconv.Itoa(k)
			}
			row = append(row, n)
		}
		note := ""
		if o.Worst.Verdict != verdict.Pass {
			note = strings.TrimSpace(o.Worst.Target + " " + o.Worst.gist())
		}
		if err := l.Add(append(row, note)...); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	if passed > 0 {
		other := ""
		if shown > 0 {
			other = "other "
		}
		fmt.Fprintf(w, "%s of %s passed\n", Count(captures, "capture"), Count(passed, other+"op"))
	}
	if readers > 0 {
		fmt.Fprintf(w, "%s of %s passed or only read other values\n", Count(reading, "capture"), Count(readers, "op"))
	}
	if len(ops) > 0 {
		fmt.Fprintln(w)
	}
	return nil
}

// gist is the reason without the element it points to, which a finding has.
func (r *Result) gist() string {
	s, _, _ := strings.Cut(r.Reason, ": at [")
	s, _, _ = strings.Cut(s, "; ")
	return s
}

// pattern is what the reason says of the errors as a whole: "all scaled by 2"; "" if nothing.
func (r *Result) pattern() string {
	_, at, is := strings.Cut(r.Reason, ": at [")
	if !is {
		return ""
	}
	_, pattern, _ := strings.Cut(at, "; ")
	return pattern
}

// notes are lines about what the calls of an operator say together, and about what was
// not judged.
func (s *Summary) notes() []string { return append(s.aside(), s.Told()...) }

// aside are notes without Told.
func (s *Summary) aside() []string {
	var lines []string
	for _, f := range s.Systematic() {
		lines = append(lines, f.String())
	}
	for _, line := range []string{s.inParts(), s.notWritten(), s.leftOut(), s.lookAt(), s.refusedText()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Told are lines about what was not judged and why, and for which captures the run fails besides
// those that differ; none if there is nothing of the kind.
func (s *Summary) Told() []string { return s.told(s.NotJudged().String()) }

// told is Told with this line about what was not judged.
func (s *Summary) told(unjudged string) []string {
	lines := append(append(slices.Clone(s.Missing), s.unreadLines()...), s.notRunLines()...)
	for _, line := range []string{unjudged, s.onlyRepaired(), s.failedOn()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, s.ToldKnown()...)
}

// onlyRepaired says why the exit code is 1 although nothing is wrong; "" if that is not so.
func (s *Summary) onlyRepaired() string {
	if s.Results[verdict.Repaired] == 0 || s.Wrong() || s.Unwanted() || s.Interrupted {
		return ""
	}
	return "exit code 1: the recordings differ, but only because faults of the old one are repaired"
}

// ToldKnown are lines about what became of the list of known failures.
func (s *Summary) ToldKnown() []string {
	return s.Known.Told(s.hidesNone())
}

// hidesNone reports whether no setting leaves a call out.
func (s *Summary) hidesNone() bool {
	return !slices.ContainsFunc(s.Settings, func(x *Setting) bool { return x.Hidden > 0 })
}

// Unneeded are the lines of the known failures that --fail-on stale fails a run for.
func (s *Summary) Unneeded() []*KnownLine { return s.Known.Unneeded(s.hidesNone()) }

// unended says why the run is not whole: which parts are missing, else that it was interrupted. It says nothing of a
// run that ended.
func (s *Summary) unended() []string {
	switch {
	case len(s.Missing) > 0:
		return s.Missing
	case s.Interrupted:
		return []string{"interrupted: calls that are not listed here were not judged"}
	}
	return nil
}

// LookedAtPart says of the list of known failures whether the run looked at all calls. A part of one does not, nor does
// a run that could not read everything.
func (s *Summary) LookedAtPart(part bool) {
	if s.Known != nil {
		s.Known.Partial = part || s.Interrupted || s.Left() > 0 || s.NotRead > 0 || len(s.Unread) > 0 ||
			len(s.damaged.files) > 0
	}
}

// refusedText says why a run in which nothing differs does not exit with 0: inputs that could not be read or run. It is
// "" if that is not so.
func (s *Summary) refusedText() string {
	if s.Differs() || s.Unwanted() || !s.Refused() && len(s.Unread) == 0 || s.Total() == 0 || s.Interrupted {
		return ""
	}
	hint := ""
	if s.Refused() || slices.ContainsFunc(s.Unread, func(f UnreadFile) bool { return !f.Absent }) {
		hint = `; --where 'not (path contains "FOLDER")' leaves those of a folder out`
	}
	return "exit code 3: " + s.Refusal() + hint
}

// Refusal counts the inputs that could not be read or run; "" if there are none.
func (s *Summary) Refusal() string {
	var parts []string
	for _, p := range []struct {
		v    verdict.Verdict
		what string
	}{{verdict.Invalid, "could not be read"}, {verdict.Error, "could not be run"}} {
		if n := s.Captures[p.v]; n > 0 {
			parts = append(parts, Count(n, "capture")+" "+p.what)
		}
	}
	return strings.Join(append(parts, s.unreadParts()...), ", ")
}

// failedOn says how many captures have a verdict of FailOn; "" if none has.
func (s *Summary) failedOn() string {
	s.endCapture()
	total, parts := 0, []string{}
	for _, v := range s.FailOn {
		if n := s.Captures[v]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("--fail-on %s fails the run: %s (%s)", verdict.List(s.FailOn), Count(total, "capture"),
		strings.Join(parts, ", "))
}

// usual is how many calls of an operator pass, at least, for each whose results are a warning,
// where these are out of the ordinary.
const usual = 4

// odd is, where nothing is wrong but results are a warning, the operator of which the fewest
// calls are: its worst is one to look at. nil if there is none.
func (s *Summary) odd() *OpSummary {
	var odd *OpSummary
	share := func(o *OpSummary) float64 { return float64(o.Counts[verdict.Warn]) / float64(o.Counts[verdict.Pass]) }
	if s.betweens > 0 {
		return nil
	}
	for _, o := range s.Ops() {
		switch w := o.Worst; {
		case w.Verdict.Differs():
			return nil
		case w.Verdict != verdict.Warn || w.Phase != "forward" || o.Counts[verdict.Pass] < usual*o.Counts[verdict.Warn]:
		case odd == nil || share(o) < share(odd):
			odd = o
		}
	}
	return odd
}

func (s *Summary) lookAt() string {
	odd := s.odd()
	if odd == nil {
		return ""
	}
	return fmt.Sprintf("to look at first: %s: %s is a warning, %s", OneLine(odd.Worst.Title()), odd.Worst.target(),
		Plural(odd.Counts[verdict.Pass], "1 other call of the operator passes", "%d other calls of the operator pass"))
}

// inParts says how many values were not compared element by element; "" if all were.
func (s *Summary) inParts() string {
	var parts []string
	if s.projected > 0 {
		parts = append(parts, fmt.Sprintf("%s of large calls compared in part, and all of each by random projections",
			Count(s.projected, "value")))
	}
	if s.partial > 0 {
		parts = append(parts, fmt.Sprintf("%s of large calls compared in part alone", Count(s.partial, "value")))
	}
	return strings.Join(parts, "; ")
}

// notWritten says of how many calls torch saved nothing into a file, and of which
// ops; "" if there are none.
func (s *Summary) notWritten() string {
	s.endCapture()
	n, ops := tally(s.unwritten)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("torch saved nothing of %s, for it cannot pickle an argument such as a memory format: %s",
		Count(n, "call"), strings.Join(ops, ", "))
}

// leftOut says how many causes and profiles of findings are not shown; "" if all are.
func (s *Summary) leftOut() string {
	if s.unexplained == 0 {
		return ""
	}
	return fmt.Sprintf("%s and profiles of findings are left out: the first %s are shown",
		Count(s.unexplained, "cause"), Bytes(maxExplanations))
}

// tally is the sum of counts, and each with its name, the largest first.
func tally(counts map[string]int) (total int, parts []string) {
	for _, name := range byCount(counts) {
		total += counts[name]
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], opName(name)))
	}
	return total, parts
}

// byCount are the names of counts, the largest first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// Line is the summary in one line.
func (s *Summary) Line() string { return s.paintedLine(Style{}) }

func (s *Summary) paintedLine(st Style) string {
	var parts []string
	for _, v := range inTables {
		if n := s.having(v); n > 0 {
			parts = append(parts, st.Paint(v, fmt.Sprintf("%d %s", n, v)))
		}
		if n := s.Reading(); n > 0 && v == verdict.Fail {
			parts = append(parts, fmt.Sprintf("%d read other values", n))
		}
	}
	end := ""
	if n := s.Left(); n > 0 {
		end += fmt.Sprintf(", %d not looked at", n)
	}
	if s.Elapsed > 0 {
		end += fmt.Sprintf(", %.2f s", s.Elapsed.Seconds())
	}
	if s.PeakRSS > 0 {
		end += ", peak " + Bytes(s.PeakRSS)
	}
	if s.Interrupted {
		end += " (interrupted)"
	}
	return fmt.Sprintf("%s: %s%s", Count(s.Calls(), "capture"),
		cmp.Or(strings.Join(parts, ", "), "nothing compared"), end)
}

// Count is a number of things, as people write it: "1 capture", "2 captures".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Plural is what is said of n things: one of 1, many of others, in which %d stands for n.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return strings.Replace(many, "%d", strconv.Itoa(n), 1)
}

// NothingSaved says into how many files torch saved nothing.
func NothingSaved(files int) string { return "torch saved nothing into " + Count(files, "file") }
