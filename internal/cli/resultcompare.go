package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
)

// mostQuiet is how many new, and how many gone values without a finding compareResults lists.
const mostQuiet = 10

// compareResults compares two runs of a comparison, value by value. It exits as report does for a new run that was cut
// off, else with 1 if anything got worse or is new and a finding, or is what --fail-on names.
func (a *app) compareResults(old, cur string, o *compareOptions) error {
	x, y, err := a.readRuns(old, cur, func(rec *reports.Recording) string {
		if rec.Summary.Total() == 0 {
			return "no results in it: want the file that --json made replay, compare, check or conformance write"
		}
		return ""
	})
	if err != nil {
		return err
	}
	j, err := a.openRecords(o.records, a.run("none"))
	if err != nil {
		return err
	}
	defer j.close()
	for i, rec := range []*reports.Recording{x, y} {
		if rec.Summary.Interrupted {
			a.warn("%s: the run did not end: calls that it did not reach are not compared", []string{old, cur}[i])
		}
	}
	listed, err := o.known.load()
	if err != nil {
		return err
	}
	before, now := slices.Collect(x.Results.All()), slices.Collect(y.Results.All())
	for _, r := range now {
		listed.Mark(r)
	}
	changes := reports.ResultChanges(before, now)
	if err := errors.Join(x.Results.Err(), y.Results.Err(), x.Close(), y.Close()); err != nil {
		return failed(err)
	}
	for i := range changes {
		if err := j.write(&changes[i]); err != nil {
			return failed(err)
		}
	}
	n := reports.CountChanges(changes, y.Summary.Total())
	others := reports.LookedAtOther(x, y, old, cur)
	fmt.Fprintf(j.text(), "%s\n", n)
	for _, line := range others {
		fmt.Fprintln(j.text(), a.style().Wrap(reports.OneLine(line), 2))
	}
	if len(changes) > 0 {
		fmt.Fprintln(j.text())
	}
	if err := a.listChanges(j.text(), changes, o.tables); err != nil {
		return failed(err)
	}
	for _, line := range listed.Told() {
		fmt.Fprintln(j.text(), a.style().Wrap(reports.OneLine(line), 2))
	}
	if len(changes) > 0 {
		fmt.Fprintln(j.text(), n)
	}
	if unlike := x.Run.JudgedOther(&y.Run); len(unlike) > 0 {
		a.warn("the runs did not judge the same: %s", strings.Join(unlike, ", "))
	}
	last := struct {
		Kind string `json:"kind"`
		reports.ChangeCount
		Unlike []string           `json:"unlike"`
		Known  *reports.KnownList `json:"known_failures,omitempty"`
	}{"summary", n, append([]string{}, others...), listed}
	if err := errors.Join(j.write(last), j.close()); err != nil {
		return failed(err)
	}
	switch {
	case y.Summary.Total() == n.Added:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no value is in both", old, cur)}
	case y.Summary.Interrupted:
		return exitWith(ExitInterrupted)
	case n.Worse+n.NewFindings > 0 || o.failOn.on(reports.Worse, n.FarWorse) || o.failOn.on(reports.Gone, n.Gone):
		return exitWith(ExitDiffers)
	}
	return nil
}

// listChanges lists what changed. Of new and of gone values without a finding it lists a few, and counts the others.
func (a *app) listChanges(w io.Writer, changes []reports.ResultChange, tables bool) error {
	quiet, left := map[reports.Change]int{}, map[reports.Change]int{}
	list := reports.NewListing(w, a.outputWidth(), "change", "op", "id", "value", "old", "new", "now")
	list.Names(1)
	list.Right(2)
	list.Wrap()
	for i := range changes {
		c := &changes[i]
		if (c.Change == reports.StaysBad || c.Change == reports.IsKnown) && a.quiet && !c.FarWorse() {
			continue
		}
		r := c.Result()
		if !r.Finding() && (c.Change == reports.Added || c.Change == reports.Gone) {
			if quiet[c.Change]++; !tables && (a.quiet || quiet[c.Change] > mostQuiet) {
				left[c.Change]++
				continue
			}
		}
		was, is := c.Verdicts()
		if err := list.Add(string(c.Change), r.Op, c.ID(), r.Target, string(was), string(is), c.Now()); err != nil {
			return err
		}
	}
	if err := list.Flush(); err != nil {
		return err
	}
	if n := left[reports.Added] + left[reports.Gone]; n > 0 && !a.quiet {
		fmt.Fprintf(w, "... and %d new and %d gone without a finding; --tables lists them\n",
			left[reports.Added], left[reports.Gone])
	}
	return nil
}
