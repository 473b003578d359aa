package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
)

// mostQuiet is how many new, and how many gone values without a finding compareResults lists.
const mostQuiet = 10

// compareResults compares two runs of a comparison, value by value. It exits as report does for a new run that was cut
// off, else with 1 if anything got worse or is new and a finding.
func (a *app) compareResults(old, cur string, records outputs, tables bool) error {
	x, y, err := a.readRuns(old, cur, func(rec *reports.Recording) string {
		if rec.Summary.Total() == 0 {
			return "no results in it: want the file that --json made replay, compare, check or conformance write"
		}
		return ""
	})
	if err != nil {
		return err
	}
	j, err := a.openRecords(records, a.run("none"))
	if err != nil {
		return err
	}
	defer j.close()
	for i, rec := range []*reports.Recording{x, y} {
		if rec.Summary.Interrupted {
			a.warn("%s: the run did not end: calls that it did not reach are not compared", []string{old, cur}[i])
		}
	}
	changes := reports.ResultChanges(slices.Collect(x.Results.All()), slices.Collect(y.Results.All()))
	if err := errors.Join(x.Results.Err(), y.Results.Err(), x.Close(), y.Close()); err != nil {
		return failed(err)
	}
	counts, newFindings := map[reports.Change]int{}, 0
	quiet, left := map[reports.Change]int{}, map[reports.Change]int{}
	list := reports.NewListing(j.text(), a.outputWidth(), "change", "op", "id", "value", "old", "new", "now")
	list.Names(1)
	list.Right(2)
	list.Wrap()
	for i := range changes {
		c := &changes[i]
		counts[c.Change]++
		if c.Change == reports.Added && c.Regressed() {
			newFindings++
		}
		if err := j.write(c); err != nil {
			return failed(err)
		}
		if c.Change == reports.StaysBad && a.quiet {
			continue
		}
		if !c.Result().Finding() && (c.Change == reports.Added || c.Change == reports.Gone) {
			if quiet[c.Change]++; !tables && (a.quiet || quiet[c.Change] > mostQuiet) {
				left[c.Change]++
				continue
			}
		}
		r, reason := c.Result(), ""
		if c.New != nil {
			reason = c.New.Reason
		}
		was, is := c.Verdicts()
		if err := list.Add(string(c.Change), r.Op, c.ID(), r.Target, string(was), string(is), reason); err != nil {
			return failed(err)
		}
	}
	if err := list.Flush(); err != nil {
		return failed(err)
	}
	if n := left[reports.Added] + left[reports.Gone]; n > 0 && !a.quiet {
		fmt.Fprintf(j.text(), "... and %d new and %d gone without a finding; --tables lists them\n",
			left[reports.Added], left[reports.Gone])
	}
	same := y.Summary.Total() - counts[reports.Worse] - counts[reports.Better] - counts[reports.Added] -
		counts[reports.StaysBad]
	found := ""
	if newFindings > 0 {
		found = " (" + reports.Count(newFindings, "finding") + ")"
	}
	fmt.Fprintf(j.text(), "%d worse, %d better, %d new%s, %d gone, %d findings in both, %d as good as before\n",
		counts[reports.Worse], counts[reports.Better], counts[reports.Added], found, counts[reports.Gone],
		counts[reports.StaysBad], same)
	if others := x.Run.JudgedOther(&y.Run); len(others) > 0 {
		a.warn("the runs did not judge the same: %s", strings.Join(others, ", "))
	}
	err = j.write(map[string]any{
		"kind": "summary", "worse": counts[reports.Worse], "better": counts[reports.Better],
		"new": counts[reports.Added], "new_findings": newFindings, "gone": counts[reports.Gone],
		"still": counts[reports.StaysBad], "same": same,
	})
	if err := errors.Join(err, j.close()); err != nil {
		return failed(err)
	}
	switch {
	case y.Summary.Total() == counts[reports.Added]:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no value is in both", old, cur)}
	case y.Summary.Interrupted:
		return exitWith(ExitInterrupted)
	case counts[reports.Worse]+newFindings > 0:
		return exitWith(ExitDiffers)
	}
	return nil
}
