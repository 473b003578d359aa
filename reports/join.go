package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// A PartRecord is the journal of a part of a run.
type PartRecord struct {
	*Journal
	file  *namedFile
	calls []recordedCall
}

// A namedFile is one whose name stands before what is wrong with it.
type namedFile struct{ *os.File }

// ReadPart reads the journal of a part of a run, which Join keeps open.
func ReadPart(f *os.File) (p *PartRecord, err error) {
	p = &PartRecord{file: &namedFile{f}}
	p.Journal, err = ReadJournal(f, func(c *JournalCall) error {
		p.calls = append(p.calls, recordedCall{c.Index, c.from, c.to})
		return nil
	})
	return p, err
}

// Join makes one recording of the parts of a run: calls in the order of the whole run,
// counts added up, the longest time and the largest memory of a part. Where parts are missing
// (complete is false), or were interrupted, the run counts as interrupted. Two parts with the
// same call are an error. Close the recording after use.
func Join(parts []*PartRecord, complete bool) (*Recording, error) {
	type call struct {
		recordedCall
		part *PartRecord
	}
	var calls []call
	rec := &Recording{Summary: NewSummary(), Results: &Results{}}
	total := lastLine{Interrupted: !complete}
	for i, p := range parts {
		rec.Own(p.file)
		for _, c := range p.calls {
			calls = append(calls, call{c, p})
		}
		if i == 0 {
			rec.Run = p.Run
			rec.Run.Settings = nil
			if len(parts) > 1 {
				rec.Run.Shard = ""
			}
		}
		if p.Run.Start.Before(rec.Run.Start) {
			rec.Run.Start = p.Run.Start
		}
		last, err := p.last()
		if err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
		total.add(&last)
		rec.join(&p.Explanations)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return byIndex(a.recordedCall, b.recordedCall) })
	for i, c := range calls {
		if i > 0 && c.index == calls[i-1].index {
			return nil, fmt.Errorf("two parts have call %d, one as %s, one as %s: they were not made of the same captures",
				c.index, calls[i-1].part.capture(calls[i-1].recordedCall), c.part.capture(c.recordedCall))
		}
		rec.Results.add(c.part.file, c.from, c.to)
	}
	rec.Run.Settings = total.Settings
	if err := rec.Count(); err != nil {
		return nil, err
	}
	if err := rec.keepShown(&total); err != nil {
		return nil, err
	}
	return rec, rec.end(&total)
}

// capture is the name of a call.
func (p *PartRecord) capture(c recordedCall) string {
	of := &Results{}
	of.add(p.file, c.from, c.to)
	for r := range of.All() {
		return r.Capture
	}
	return "nothing"
}

// add adds the counts of another part.
func (l *lastLine) add(m *lastLine) {
	l.Interrupted = l.Interrupted || m.Interrupted
	l.Elapsed, l.PeakRSS = max(l.Elapsed, m.Elapsed), max(l.PeakRSS, m.PeakRSS)
	l.Refused += m.Refused
	l.NoCause = append(l.NoCause, m.NoCause...)
	l.Unread = joinUnread(l.Unread, m.Unread)
	if l.FailOn == nil {
		l.FailOn = m.FailOn
	}
	l.Budget, l.Known = l.Budget.join(m.Budget), l.Known.join(m.Known)
	for _, x := range m.Settings {
		if s := l.Settings.Find(x.Name); s != nil {
			s.Hidden, s.Changed, s.Excused = s.Hidden+x.Hidden, s.Changed+x.Changed, s.Excused+x.Excused
		} else {
			l.Settings = append(l.Settings, x)
		}
	}
}

// keepShown drops the causes and profiles of findings that are not the first of their kind, which each part has of its
// own, and the places of such findings that have no cause.
func (rec *Recording) keepShown(total *lastLine) error {
	if len(rec.Causes) == 0 && len(rec.Profiles) == 0 && len(total.NoCause) == 0 {
		return nil
	}
	at := map[string]int{} // of captures that have any, which of the findings
	for _, c := range rec.Causes {
		at[c.Capture] = 0
	}
	for _, p := range rec.Profiles {
		at[p.Capture] = 0
	}
	for _, p := range total.NoCause {
		at[p.Capture] = 0
	}
	d, shown, n := NewDigest(nil), map[string]bool{}, 0
	for f := range rec.Findings() {
		d.Add(f)
		if _, ok := at[f.Results[0].Capture]; ok {
			at[f.Results[0].Capture] = n
		}
		n++
	}
	for _, k := range d.sorted() {
		shown[k.first.Results[0].Capture] = true
	}
	rec.Causes = slices.DeleteFunc(rec.Causes, func(c *Cause) bool { return !shown[c.Capture] })
	slices.SortStableFunc(rec.Causes, func(a, b *Cause) int { return cmp.Compare(at[a.Capture], at[b.Capture]) })
	rec.Profiles = slices.DeleteFunc(rec.Profiles, func(p *Profile) bool { return !shown[p.Capture] })
	slices.SortStableFunc(rec.Profiles, func(a, b *Profile) int { return cmp.Compare(at[a.Capture], at[b.Capture]) })
	total.NoCause = slices.DeleteFunc(total.NoCause, func(p Place) bool { return !shown[p.Capture] })
	slices.SortStableFunc(total.NoCause, func(a, b Place) int { return cmp.Compare(at[a.Capture], at[b.Capture]) })
	return rec.Results.Err()
}

// end gives the recording the last line that its parts have together.
func (rec *Recording) end(total *lastLine) (err error) {
	s := rec.Summary
	s.endCapture() // what it says of settings is in total
	s.Settings, s.FailOn, s.NotRead = total.Settings, total.FailOn, total.Refused
	s.Interrupted, s.PeakRSS, s.Unread = total.Interrupted, total.PeakRSS, total.Unread
	s.Budget, s.Known, s.NoCause = total.Budget, total.Known, total.NoCause
	s.LookedAtPart(false)
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
