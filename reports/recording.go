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
	"slices"
	"time"

	"github.com/optool/optool/timing"
	"github.com/optool/optool/verdict"
)

// A Recording is what the JSON lines of a run say: those of a comparison, an
// overflow check or a measurement, finished or not.
type Recording struct {
	Run      Run
	Results  []*Result
	Causes   []*Cause // of findings
	Profiles []*Profile
	Timings  []*Timing
	Last     json.RawMessage // the last line, kind "summary"; nil if the run did not end
	Summary  *Summary        // of Results, with the times of Last
	Exit     *int            // exit code of the run, nil if it did not end

	calls []orderedCall // that were finished, as far as it is said
}

// maxLine is the longest line of JSON that is read, in bytes.
const maxLine = 64 << 20

// ReadRecording reads JSON lines. Lines of unknown kinds are passed over; a
// last line that was cut off counts as not written. Anything else that does not
// read is an error with the number of the line.
func ReadRecording(r io.Reader) (*Recording, error) {
	rec := &Recording{Summary: NewSummary()}
	in := bufio.NewReaderSize(r, 1<<16)
	var open openSeries
	for n := 1; ; n++ {
		line, err := readLine(in)
		cut := errors.Is(err, io.EOF)
		if err != nil && !cut {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			err := rec.line(n, line, &open)
			if err != nil && !(cut && n > 1) {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		} else if n == 1 {
			return nil, errors.New("line 1: want the line of kind \"run\" that --json FILE begins with, found nothing")
		}
		if cut {
			break
		}
	}
	rec.add(open.end(string(timing.StopCanceled)))
	rec.order()
	return rec, rec.summarize()
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

func (rec *Recording) line(n int, line []byte, open *openSeries) error {
	var head struct {
		Kind   string `json:"kind"`
		Schema int    `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("no JSON object: %w", err)
	}
	if n == 1 && head.Kind != "run" {
		return fmt.Errorf("want the line of kind \"run\" that --json FILE begins with, found kind %q", head.Kind)
	}
	switch head.Kind {
	case "run":
		if head.Schema != 1 {
			return fmt.Errorf("schema: want 1, found %d", head.Schema)
		}
		return json.Unmarshal(line, &rec.Run)
	case "result":
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if r.Verdict.Rank() < 0 {
			return fmt.Errorf("verdict: unknown %q", r.Verdict)
		}
		rec.Results = append(rec.Results, &r)
	case "done":
		return rec.done(line)
	case "cause":
		var c Cause
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		rec.Causes = append(rec.Causes, &c)
	case "profile":
		var p Profile
		if err := json.Unmarshal(line, &p); err != nil {
			return err
		}
		rec.Profiles = append(rec.Profiles, &p)
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
	case "summary":
		rec.Last = bytes.Clone(line)
	}
	return nil
}

// An orderedCall is a call and where its results end among all.
type orderedCall struct{ index, end int }

// done notes that the results of a call are whole.
func (rec *Recording) done(line []byte) error {
	var d Done
	if err := json.Unmarshal(line, &d); err != nil {
		return err
	}
	rec.calls = append(rec.calls, orderedCall{d.Index, len(rec.Results)})
	return nil
}

// order puts calls that were finished in another order than that of the run, as those of a run
// with a budget are, in order.
func (rec *Recording) order() {
	byIndex := func(a, b orderedCall) int { return cmp.Compare(a.index, b.index) }
	if slices.IsSortedFunc(rec.calls, byIndex) {
		return
	}
	of := map[int][]*Result{} // by end
	begin := 0
	for _, c := range rec.calls {
		of[c.end] = append(of[c.end], rec.Results[begin:c.end]...)
		begin = c.end
	}
	rest := rec.Results[begin:]
	slices.SortStableFunc(rec.calls, byIndex)
	rec.Results = nil
	for _, c := range rec.calls {
		rec.Results = append(rec.Results, of[c.end]...)
		delete(of, c.end)
	}
	rec.Results = append(rec.Results, rest...)
}

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
	FailOn      []verdict.Verdict `json:"fail_on,omitempty"`
	Budget      *Budget           `json:"budget,omitempty"`
}

func (rec *Recording) summarize() error {
	rec.Summary.Settings = rec.Run.Settings // counted from the results of a run that did not end
	for _, r := range rec.Results {
		rec.Summary.Add(r)
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
	s.Budget = last.Budget
	s.Elapsed = time.Duration(last.Elapsed * float64(time.Second))
	rec.Exit = last.Exit
	if last.Settings != nil {
		s.endCapture()
		s.Settings = last.Settings
	}
	return nil
}

// Findings yields the results capture by capture.
func (rec *Recording) Findings() iter.Seq[*Finding] {
	return func(yield func(*Finding) bool) {
		for from := 0; from < len(rec.Results); {
			to := from + 1
			for to < len(rec.Results) && rec.Results[to].Capture == rec.Results[from].Capture &&
				rec.Results[to].Op == rec.Results[from].Op {
				to++
			}
			f := NewFinding(rec.Results[from:to])
			for _, c := range rec.Causes {
				if c.Capture == rec.Results[from].Capture && c.Op == rec.Results[from].Op {
					f.Causes = append(f.Causes, *c)
				}
			}
			for _, p := range rec.Profiles {
				if p.Capture == rec.Results[from].Capture && p.Op == rec.Results[from].Op {
					f.Profiles = append(f.Profiles, p)
				}
			}
			if !yield(f) {
				return
			}
			from = to
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
	for _, r := range rec.Results {
		if v, ok := worst[r.Capture]; !ok || r.Verdict.Rank() > v.Rank() {
			worst[r.Capture] = r.Verdict
		}
	}
	return worst
}

// Line is the run in one line.
func (rec *Recording) Line() string {
	if len(rec.Timings) > 0 {
		return fmt.Sprintf("%d series measured", len(rec.Timings))
	}
	return rec.Summary.Line()
}
