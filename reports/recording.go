package reports

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/timing"
)

// A Recording is what the JSON lines of a run say: those of a comparison, an
// overflow check or a measurement, finished or not.
//
// A report of it shows Results or, of a measurement, Timings; with results also Causes, and what calls say
// only together, which is in none of them: Summary.Systematic. Findings has results and causes by capture,
// and ResultSheet rows of results or timings. Results are read while they are looked at: Results.Err says
// afterwards whether all were.
type Recording struct {
	Run     Run
	Results *Results
	Explanations
	Timings []*Timing
	Changes []TimingChange // of Timings against another device
	// Measured is what share of the recorded calls Timings are of; nil if the run did not end.
	Measured *Measured
	Last     json.RawMessage // the last line, kind "summary"; nil if the run did not end
	Summary  *Summary        // of Results, with the times of Last
	Exit     *int            // exit code of the run, nil if it did not end
	// LastOrder is the largest Order of the results; Overflow says that they are of an overflow check.
	LastOrder int
	Overflow  bool
	// First is the first wrong call with its causes, nil if none is wrong; NotFinite is a line that says which call
	// made the first value that is infinite or NaN, "" if none did. Apart is one that says which arguments the two
	// sides of a pair hold with different values, "" if there are none.
	First            *Finding
	NotFinite, Apart string

	wrong []string            // operators with wrong calls, in the order of the first of them
	in    map[string][]string // the folders of an operator's wrong calls, if there are any
	among map[string]int      // how many calls it has in the folders of its wrong calls
	on    map[string][]string // the devices that recorded them, if the run has several
	calls []recordedCall      // that were finished, as far as it is said
	marks marks               // of the operators, for Timeline
	start time.Time           // of the last recorded process, if paths say it
	files []io.Closer
}

// Explanations are what a run says of its findings besides their results. A run explains a few of them
// only. Those after the first maxExplanations bytes, of a file that a run did not write so, are left out.
type Explanations struct {
	Causes   []*Cause
	Profiles []*Profile
	LeftOut  int

	size int // bytes of the lines
}

const maxExplanations = 4 << 20

// explain takes a line of kind "cause" or "profile", and passes over others.
func (x *Explanations) explain(kind string, line []byte) error {
	if kind != "cause" && kind != "profile" {
		return nil
	}
	if x.size += len(line); x.size > maxExplanations {
		x.LeftOut++
		return nil
	}
	if kind == "cause" {
		x.Causes = append(x.Causes, &Cause{})
		return json.Unmarshal(line, x.Causes[len(x.Causes)-1])
	}
	x.Profiles = append(x.Profiles, &Profile{})
	return json.Unmarshal(line, x.Profiles[len(x.Profiles)-1])
}

// join adds those of another part of the run.
func (x *Explanations) join(y *Explanations) {
	x.Causes = append(x.Causes, y.Causes...)
	x.Profiles = append(x.Profiles, y.Profiles...)
	x.LeftOut += y.LeftOut
}

// maxLine is the longest line of JSON that is read, in bytes.
const maxLine = 64 << 20

// ReadRecording reads JSON lines. Lines of unknown kinds are passed over; a
// last line that was cut off counts as not written. Anything else that does not
// read is an error with the number of the line. Results are read from r again whenever they
// are looked at.
func ReadRecording(r io.ReaderAt) (*Recording, error) {
	rec := &Recording{Summary: NewSummary(), Results: &Results{}}
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, math.MaxInt64), 1<<16)
	var open openSeries
	var at, begin int64 // of the line, and of the call that it belongs to
	for n := 1; ; n++ {
		line, err := readLine(in)
		cut := errors.Is(err, io.EOF)
		if err != nil && !cut {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		end := at + int64(len(line))
		if len(bytes.TrimSpace(line)) > 0 {
			kind, err := rec.line(n, line, &open)
			if err == nil && cut && kind == "result" {
				_, err = decodeResult(line)
			}
			switch {
			case err != nil && cut && n > 1:
				end = at
			case err != nil:
				return nil, fmt.Errorf("line %d: %w", n, err)
			case kind == "done":
				last := &rec.calls[len(rec.calls)-1]
				last.from, last.to, begin = begin, end, end
			}
		} else if n == 1 {
			return nil, errors.New("line 1: want the line of kind \"run\" that --json FILE begins with, found nothing")
		}
		if at = end; cut {
			break
		}
	}
	rec.add(open.end(string(timing.StopCanceled)))
	if !slices.IsSortedFunc(rec.calls, byIndex) { // as those of a run with a budget are
		slices.SortStableFunc(rec.calls, byIndex)
		for _, c := range rec.calls {
			rec.Results.add(r, c.from, c.to)
		}
	} else {
		begin = 0
	}
	rec.Results.add(r, begin, at)
	rec.calls = nil
	return rec, rec.summarize()
}

// Own has Close close a file.
func (rec *Recording) Own(f io.Closer) { rec.files = append(rec.files, f) }

// Close closes the files that the recording owns.
func (rec *Recording) Close() error {
	var errs []error
	for _, f := range rec.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// readLine returns a line without its end; io.EOF comes with what follows the
// last one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("longer than %s", Bytes(maxLine))
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return line, err
	}
}

// line takes what a line says, but for results, and returns its kind.
func (rec *Recording) line(n int, line []byte, open *openSeries) (kind string, err error) {
	kind, schema, err := kindOf(line)
	if err != nil {
		return "", fmt.Errorf("no JSON object: %w", err)
	}
	if n == 1 && kind != "run" {
		return "", fmt.Errorf("want the line of kind \"run\" that --json FILE begins with, found kind %q", kind)
	}
	if n > 1 && kind == "run" {
		return "", errors.New("another run begins, and its end would be taken for that of both: want one run a file")
	}
	if kind == "run" && schema != 1 {
		return "", fmt.Errorf("schema: want 1, found %d", schema)
	}
	return kind, rec.take(kind, line, open)
}

func (rec *Recording) take(kind string, line []byte, open *openSeries) error {
	switch kind {
	case "run":
		return json.Unmarshal(line, &rec.Run)
	case "done":
		var d Done
		if err := json.Unmarshal(line, &d); err != nil {
			return err
		}
		rec.calls = append(rec.calls, recordedCall{index: d.Index})
	case "cause", "profile":
		return rec.explain(kind, line)
	case "timing":
		var s timingSample
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
		rec.add(open.sample(s))
	case "timing_summary":
		var s timingSummary
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
		rec.add(open.summary(s))
	case "timing_change":
		var c TimingChange
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		rec.Changes = append(rec.Changes, c)
	case "summary":
		rec.Last = bytes.Clone(line)
	}
	return nil
}

// A recordedCall is where the lines of a call stand in a file, and its place among all.
type recordedCall struct {
	index    int
	from, to int64
}

func byIndex(a, b recordedCall) int { return cmp.Compare(a.index, b.index) }

func (rec *Recording) add(t *Timing) {
	if t != nil {
		rec.Timings = append(rec.Timings, t)
	}
}

// A lastLine is what is read of the line of kind "summary".
type lastLine struct {
	Interrupted bool              `json:"interrupted"`
	Elapsed     float64           `json:"elapsed_s"`
	PeakRSS     int64             `json:"peak_rss_bytes"`
	Exit        *int              `json:"exit_code,omitempty"`
	Settings    Settings          `json:"settings,omitempty"`
	Refused     int               `json:"refused"`
	Missing     []string          `json:"missing,omitempty"`
	Unread      []UnreadFile      `json:"unread,omitempty"`
	FailOn      []verdict.Verdict `json:"fail_on,omitempty"`
	Budget      *Budget           `json:"budget,omitempty"`
	Known       *KnownList        `json:"known_failures,omitempty"`
	Undecided   bool              `json:"undecided,omitempty"`
	Facts       []Fact            `json:"facts,omitempty"`
	First       *Place            `json:"first,omitempty"`
	Same        *Same             `json:"same_results,omitempty"`
	NoCause     []Place           `json:"no_cause"`
}

func (rec *Recording) summarize() error {
	rec.Summary.Settings = rec.Run.Settings // counted from the results of a run that did not end
	digest, err := rec.count()
	if err != nil {
		return err
	}
	if rec.Last == nil {
		rec.Summary.Interrupted = true
		return nil
	}
	var last lastLine
	if err := json.Unmarshal(rec.Last, &last); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	s := rec.Summary
	s.Interrupted, s.PeakRSS, s.NotRead, s.FailOn = last.Interrupted, last.PeakRSS, last.Refused, last.FailOn
	s.Unread, s.Missing, s.Undecided = last.Unread, last.Missing, last.Undecided
	s.Budget, s.Known, s.Facts, s.First, s.Same = last.Budget, last.Known, last.Facts, last.First, last.Same
	s.NoCause = last.NoCause
	if s.First != nil && s.First.Verdict != "" { // the first wrong call, which the results tell
		s.First = nil
	}
	if s.First != nil {
		rec.Lead(digest)
		rec.First = digest.First()
	}
	if len(rec.Timings) > 0 {
		rec.Measured = &Measured{}
		if err := json.Unmarshal(rec.Last, rec.Measured); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
	}
	s.Elapsed = time.Duration(last.Elapsed * float64(time.Second))
	rec.Exit = last.Exit
	if last.Settings != nil {
		s.endCapture()
		s.Settings = last.Settings
	}
	return nil
}

// Count adds the results to the summary, and finds what is wrong first.
func (rec *Recording) Count() error {
	_, err := rec.count()
	return err
}

// count is Count. It returns a digest of the findings.
func (rec *Recording) count() (*Digest, error) {
	rec.Summary.unexplained = rec.LeftOut
	digest := NewDigest(nil)
	rec.in, rec.on = map[string][]string{}, map[string][]string{}
	rec.marks = marks{}
	devices := map[string]bool{}
	calls, failing := map[[2]string]int{}, map[[2]string]bool{} // by operator and folder
	for f := range rec.Findings() {
		digest.Add(f)
		first, fails := f.Results[0], f.fails()
		place := first.place()
		at := [2]string{first.Op, place.Folder}
		if at := place.Time(); at.After(rec.start) {
			rec.start = at
		}
		calls[at]++
		failing[at] = failing[at] || fails
		if in := place.Folder; fails && in != "" && !slices.Contains(rec.in[first.Op], in) {
			rec.in[first.Op] = append(rec.in[first.Op], in)
		}
		for _, r := range f.Results {
			if on, _, _ := strings.Cut(r.RecordedOn, " with "); on != "" {
				devices[on] = true
				if fails && !slices.Contains(rec.on[r.Op], on) {
					rec.on[r.Op] = append(rec.on[r.Op], on)
				}
			}
			rec.Summary.Add(r)
			rec.marks.add(r)
			if r.Order != nil {
				rec.LastOrder = max(rec.LastOrder, *r.Order)
			}
			rec.Overflow = rec.Overflow || r.Stats != nil
		}
	}
	rec.among = map[string]int{}
	for at, n := range calls {
		if failing[at] {
			rec.among[at[0]] += n
		}
	}
	if len(devices) < 2 {
		rec.on = nil
	}
	rec.First, rec.NotFinite, rec.Apart = digest.First(), digest.NotFinite(), digest.sides.text()
	for f := range digest.Kinds() {
		if op := f.Results[0].Op; f.Wrong() && !slices.Contains(rec.wrong, op) {
			rec.wrong = append(rec.wrong, op)
		}
	}
	return digest, rec.Results.Err()
}

// Lead has a digest of the run's findings begin with those of the place where two recordings part.
func (rec *Recording) Lead(d *Digest) {
	if first := rec.Summary.First; first != nil {
		d.Lead(first.Capture)
	}
}

// Headline is the result of the run in a sentence: the first fact of its command, or counts of calls. Inputs that could
// not be read go before it if the exit code is 3 for them.
func (rec *Recording) Headline() string {
	text, s := rec.sentence(), rec.Summary
	if len(s.Facts) > 0 {
		text = s.Facts[0].Name + ": " + s.Facts[0].Text
	}
	exit := s.Exit
	if rec.Exit != nil {
		exit = *rec.Exit
	}
	if exit == exitRefused && s.refusedText() != "" {
		text = fmt.Sprintf("exit code %d: %s. %s", exit, s.Refusal(), text)
	}
	return text
}

// exitRefused is the exit code of a run that could not read or run all inputs.
const exitRefused = 3

// Top are lines for the top of reports, below Headline: further facts, counts of calls, and Headlines.
func (rec *Recording) Top() (top []Fact) {
	if facts := rec.Summary.Facts; len(facts) > 0 {
		top = append(append(top, facts[1:]...), Fact{"calls", rec.sentence()})
	}
	for _, h := range rec.Headlines() {
		top = append(top, Fact{h[0], h[1]})
	}
	return top
}

// Headlines are Leads after lines about whose values were judged or measured, and before LookedAt.
func (rec *Recording) Headlines() [][2]string {
	lines := [][2]string{rec.subject()}
	if text := rec.Summary.witnessText(); text != "" {
		lines = append(lines, [2]string{witnessName, text})
	}
	if len(rec.Timings) > 0 {
		lines = append(lines, rec.timingLeads()...)
	}
	for _, f := range rec.Summary.Systematic() {
		lines = append(lines, [2]string{"warning", f.String()})
	}
	lines = append(lines, rec.Leads()...)
	for _, f := range rec.LookedAt() {
		lines = append(lines, [2]string{f.Name, f.Text})
	}
	return lines
}

// subject is whose values the run judged or measured: those of a device, or recorded ones.
func (rec *Recording) subject() [2]string {
	name, recorded := "judged", "recorded values, of a device that is not known; no device ran the calls again"
	if on := rec.Summary.recordedOn; len(on) > 0 {
		sep := ", "
		if strings.Contains(strings.Join(on, ""), sep) { // one of them is compared with another
			sep = ", and on "
		}
		recorded = "values recorded on " + strings.Join(on, sep) + "; no device ran the calls again"
	}
	if len(rec.Timings) > 0 {
		name, recorded = "measured", "the float64 reference on this CPU; no device ran the calls"
	}
	if device := rec.Run.Device; device != "" && device != "none" {
		return [2]string{name, "device " + device}
	}
	return [2]string{name, recorded}
}

// Leads are lines about what a reader needs first, each with its name: which call made the first value that is not
// finite, what the two sides of a pair hold differently, and which call is the first wrong one and why.
func (rec *Recording) Leads() (leads [][2]string) {
	if rec.NotFinite != "" {
		leads = append(leads, [2]string{"first value that is not finite",
			strings.TrimPrefix(rec.NotFinite, notFiniteHead)})
	}
	if rec.Apart != "" {
		leads = append(leads, [2]string{"changed between the two sides of a pair",
			strings.TrimPrefix(rec.Apart, apartHead)})
	}
	if rec.First == nil || rec.Overflow {
		return leads
	}
	r := rec.First.bad()
	name := "first wrong call"
	if rec.Summary.First != nil || rec.First.Inherits { // of two recordings, of which either may be right
		name = "first call that differs"
	}
	leads = append(leads, [2]string{name, r.Title() + ": " + strings.TrimSpace(r.target()+" "+
		string(r.Verdict)+r.What()+": "+r.Reason)})
	for _, note := range rec.First.Notes() { // whose function it is
		leads = append(leads, [2]string{"note", note})
	}
	for _, c := range rec.First.Causes[:min(len(rec.First.Causes), shownCauses)] {
		leads = append(leads, [2]string{c.Label(), c.String()})
	}
	if path := r.below(r.Capture); rec.lookedAt() && rec.First.Wrong() && path != "" {
		leads = append(leads, [2]string{SendName, SendText("optool bundle"+r.ownOps()+" "+path, r)})
	}
	return leads
}

// SendName is the name of the line that says how to pass on a wrong call.
const SendName = "pass it on"

// SendText says what the command does that packs a wrong call, and whose function it is if it is the program's own.
func SendText(command string, r *Result) string {
	text := command + " packs this call with its data into a zip, for whoever repairs "
	if r.Replaced == "" || r.Instead != "" {
		return text + "the operator"
	}
	text += "this function: it is not torch's but the program's own " + Name(r.Replaced)
	if r.ReplacedAt != "" {
		text += ", at " + OneLine(r.ReplacedAt)
	}
	return text
}

// maxResults is how many results of one capture are looked at together: a file of values has one for each.
const maxResults = 4096

// Findings yields the results capture by capture, those of a capture that has more than maxResults in parts.
func (rec *Recording) Findings() iter.Seq[*Finding] {
	type call struct{ capture, op string }
	causes, profiles := map[call][]Cause{}, map[call][]*Profile{}
	for _, c := range rec.Causes {
		causes[call{c.Capture, c.Op}] = append(causes[call{c.Capture, c.Op}], *c)
	}
	for _, p := range rec.Profiles {
		profiles[call{p.Capture, p.Op}] = append(profiles[call{p.Capture, p.Op}], p)
	}
	return func(yield func(*Finding) bool) {
		var results []*Result
		finding := func() *Finding {
			of := call{results[0].Capture, results[0].Op}
			f := NewFinding(results)
			f.Causes, f.Profiles, results = causes[of], profiles[of], nil
			return f
		}
		for r := range rec.Results.All() {
			if n := len(results); n > 0 && (r.Capture != results[0].Capture || r.Op != results[0].Op ||
				n == maxResults) && !yield(finding()) {
				return
			}
			results = append(results, r)
		}
		if len(results) > 0 {
			yield(finding())
		}
	}
}

// An openSeries collects the samples that stand before their summary.
type openSeries struct{ t *Timing }

// sample adds a sample and returns the series before it, if that had no summary.
func (o *openSeries) sample(s timingSample) *Timing {
	var before *Timing
	if o.t == nil || !o.t.is(s.timingHead) || s.Run == 1 {
		before = o.end(string(timing.StopCanceled))
		o.t = newTiming(s.timingHead)
	}
	o.t.Series.Samples = append(o.t.Series.Samples, s.sample())
	return before
}

// summary ends a series; one without samples is left out.
func (o *openSeries) summary(s timingSummary) *Timing {
	if o.t == nil || !o.t.is(s.timingHead) {
		return o.end(string(timing.StopCanceled))
	}
	t := o.t
	t.Bytes, t.Flops, t.Calls, t.Shapes = s.Bytes, s.Flops, s.Calls, s.Inputs
	t.Peak = Peak{Bandwidth: s.PeakBandwidth, Flops: s.PeakFlops, Busy: s.PeakBusy}
	t.Series.Warmup = s.Warmup
	if s.MemoryPeak != nil && s.MemoryKept != nil {
		t.Memory = &timing.Memory{Peak: *s.MemoryPeak, Kept: *s.MemoryKept, Requests: s.MemoryRequests}
	}
	return o.end(s.Stop)
}

func (o *openSeries) end(stop string) *Timing {
	t := o.t
	if t != nil {
		t.Series.Stop = timing.StopReason(stop)
	}
	o.t = nil
	return t
}

func newTiming(h timingHead) *Timing {
	return &Timing{
		Capture: h.Capture, Op: h.Op, ForwardID: h.ForwardID, Phase: h.Phase, Calls: 1,
		Series: &timing.Series{Cache: timing.Cache(h.Cache), Clock: timing.Clock(h.Clock)},
	}
}

func (t *Timing) is(h timingHead) bool {
	return t.Capture == h.Capture && t.Op == h.Op && t.Phase == h.Phase && string(t.Series.Cache) == h.Cache
}

// Verdicts are the worst of the results of each capture.
func (rec *Recording) Verdicts() map[string]verdict.Verdict {
	worst := map[string]verdict.Verdict{}
	for r := range rec.Results.All() {
		if v, ok := worst[r.Capture]; !ok || r.Verdict.Rank() > v.Rank() {
			worst[r.Capture] = r.Verdict
		}
	}
	return worst
}

// Line is the run in one line.
func (rec *Recording) Line() string {
	switch {
	case rec.Measured != nil && rec.Measured.Distinct > 0:
		return rec.Measured.String()
	case len(rec.Timings) > 0:
		return fmt.Sprintf("%d series measured", len(rec.Timings))
	}
	return rec.Summary.Line()
}
