package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"os"

	"github.com/optool/optool/reports"
)

// rewrite writes results as a run of their own, with what another run says of its findings. It adds the results to s.
func rewrite(w io.Writer, run *reports.Run, s *reports.Summary, results iter.Seq[*reports.Result],
	of *reports.Explanations, last func(*reports.JSONLines) error) error {
	lines := reports.NewJSONLines(w)
	err := lines.Run(*run)
	for r := range results {
		s.Add(r)
		err = cmp.Or(err, lines.Result(r))
	}
	for _, x := range of.Causes {
		err = cmp.Or(err, lines.Cause(x))
	}
	for _, x := range of.Profiles {
		err = cmp.Or(err, lines.Profile(x))
	}
	return cmp.Or(err, last(lines))
}

// reread is a recording of what write writes, in a file without a name that the recording owns.
func reread(write func(io.Writer) error) (*reports.Recording, *os.File, error) {
	f, err := os.CreateTemp("", "optool-*.jsonl")
	if err != nil {
		return nil, nil, err
	}
	err = cmp.Or(os.Remove(f.Name()), write(f))
	rec, e := reports.ReadRecording(f)
	if err = cmp.Or(err, e); err != nil {
		return nil, nil, cmp.Or(err, f.Close())
	}
	rec.Own(f)
	return rec, f, nil
}

// rewritten is a finished run as it would be with a list of known failures, nil for the list that it had.
func (a *app) rewritten(rec *reports.Recording, list *reports.KnownList, file knownFile) (*reports.Recording, *os.File,
	error) {
	return reread(func(w io.Writer) error {
		old, s := rec.Summary, reports.NewSummary()
		s.FailOn, s.Budget, s.NotRead, s.Facts = old.FailOn, old.Budget, old.NotRead, old.Facts
		s.Unread, s.Missing, s.First, s.Same = old.Unread, old.Missing, old.First, old.Same
		s.NoCause = old.NoCause
		s.Interrupted, s.Elapsed, s.PeakRSS, s.Known = old.Interrupted, old.Elapsed, old.PeakRSS, old.Known
		if list != nil {
			s.Known, s.Settings, list.OfTwo = list, file.settings(), old.Same != nil
		}
		results := func(yield func(*reports.Result) bool) {
			for r := range rec.Results.All() {
				if list != nil {
					r.Unmark()
					list.Mark(r)
				}
				if !yield(r) {
					return
				}
			}
		}
		run := rec.Run
		return rewrite(w, &run, s, results, &rec.Explanations, func(lines *reports.JSONLines) error {
			s.Calls() // counts what the list did
			for _, x := range old.Settings {
				if list == nil || x.Name != reports.KnownSetting {
					s.Settings = append(s.Settings, x)
				}
			}
			s.LookedAtPart(run.Shard != "")
			s.Exit = comparisonExit(s, s.NotRead)
			if rec.Exit != nil && list == nil {
				s.Exit = *rec.Exit
			}
			return cmp.Or(rec.Results.Err(), writeSummary(lines, s, rec.Last, list != nil))
		})
	})
}

// writeSummary writes the last line of a run, with what only the line has that the run had before. If the run is judged
// anew, another call may be the first wrong one.
func writeSummary(lines *reports.JSONLines, s *reports.Summary, before json.RawMessage, anew bool) error {
	var now bytes.Buffer
	if err := reports.NewJSONLines(&now).Summary(s); err != nil {
		return err
	}
	all, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if before != nil {
		if err := json.Unmarshal(before, &all); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(now.Bytes(), &is); err != nil {
		return err
	}
	if string(is["first"]) == "null" && all["first"] != nil && !anew {
		delete(is, "first")
	}
	maps.Copy(all, is)
	return lines.Write(all)
}
