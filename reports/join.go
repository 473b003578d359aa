package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A PartRecord is the journal of a part of a run, with its calls.
type PartRecord struct {
	*Journal
	Done    []*Done
	Results [][]*Result // of each
}

// Join makes one recording of the parts of a run: calls in the order of the whole run,
// counts added up, the longest time and the largest memory of a part. Where parts are missing
// (complete is false), or were interrupted, the run counts as interrupted. Two parts with the
// same call are an error.
func Join(parts []*PartRecord, complete bool) (*Recording, error) {
	type call struct {
		done    *Done
		results []*Result
	}
	var calls []call
	rec := &Recording{Summary: NewSummary()}
	total := lastLine{Interrupted: !complete}
	for i, p := range parts {
		for k, d := range p.Done {
			calls = append(calls, call{d, p.Results[k]})
		}
		if i == 0 {
			rec.Run = p.Run
			rec.Run.Settings = nil
		}
		if p.Run.Start.Before(rec.Run.Start) {
			rec.Run.Start = p.Run.Start
		}
		last, err := p.last()
		if err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
		total.add(&last)
		rec.Causes = append(rec.Causes, p.Causes...)
		rec.Profiles = append(rec.Profiles, p.Profiles...)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.done.Index, b.done.Index) })
	for i, c := range calls {
		if i > 0 && c.done.Index == calls[i-1].done.Index {
			return nil, fmt.Errorf("two parts have call %d, one as %s, one as %s: they were not made of the same captures",
				c.done.Index, calls[i-1].done.Capture, c.done.Capture)
		}
		rec.Results = append(rec.Results, c.results...)
	}
	rec.Run.Settings = total.Settings
	for _, r := range rec.Results {
		rec.Summary.Add(r)
	}
	rec.keepShown()
	return rec, rec.end(&total)
}

// add adds the counts of another part.
func (l *lastLine) add(m *lastLine) {
	l.Interrupted = l.Interrupted || m.Interrupted
	l.Elapsed, l.PeakRSS = max(l.Elapsed, m.Elapsed), max(l.PeakRSS, m.PeakRSS)
	l.Refused += m.Refused
	if l.FailOn == nil {
		l.FailOn = m.FailOn
	}
	l.Budget = l.Budget.join(m.Budget)
	for _, x := range m.Settings {
		if s := l.Settings.Find(x.Name); s != nil {
			s.Hidden, s.Changed, s.Excused = s.Hidden+x.Hidden, s.Changed+x.Changed, s.Excused+x.Excused
		} else {
			l.Settings = append(l.Settings, x)
		}
	}
}

// keepShown drops the causes and profiles of findings that are not printed with all they say,
// which each part has of its own.
func (rec *Recording) keepShown() {
	if len(rec.Causes) == 0 && len(rec.Profiles) == 0 {
		return
	}
	d, shown := NewDigest(), map[string]bool{}
	for f := range rec.Findings() {
		d.Add(f)
	}
	for _, k := range d.sorted()[:min(len(d.kinds), shownKinds)] {
		shown[k.first.Results[0].Capture] = true
	}
	at := map[string]int{}
	for i, r := range rec.Results {
		at[r.Capture] = i
	}
	rec.Causes = slices.DeleteFunc(rec.Causes, func(c *Cause) bool { return !shown[c.Capture] })
	slices.SortStableFunc(rec.Causes, func(a, b *Cause) int { return cmp.Compare(at[a.Capture], at[b.Capture]) })
	rec.Profiles = slices.DeleteFunc(rec.Profiles, func(p *Profile) bool { return !shown[p.Capture] })
	slices.SortStableFunc(rec.Profiles, func(a, b *Profile) int { return cmp.Compare(at[a.Capture], at[b.Capture]) })
}

// end gives the recording the last line that its parts have together.
func (rec *Recording) end(total *lastLine) (err error) {
	s := rec.Summary
	s.endCapture() // what it says of settings is in total
	s.Settings, s.FailOn, s.NotRead = total.Settings, total.FailOn, total.Refused
	s.Interrupted, s.PeakRSS = total.Interrupted, total.PeakRSS
	s.Budget = total.Budget
	s.exclude()
	s.Elapsed = time.Duration(total.Elapsed * float64(time.Second))
	if total.Interrupted {
		return nil
	}
	rec.Last, err = json.Marshal(struct {
		Kind string `json:"kind"`
		*lastLine
	}{"summary", total})
	return err
}
