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
	n := changeCounts{of: map[reports.Change]int{}}
	for i := range changes {
		n.add(&changes[i])
		if err := j.write(&changes[i]); err != nil {
			return failed(err)
		}
	}
	n.same = y.Summary.Total() - n.of[reports.Worse] - n.of[reports.Better] - n.of[reports.Added] -
		n.of[reports.StaysBad]
	if err := a.listChanges(j.text(), changes, tables); err != nil {
		return failed(err)
	}
	fmt.Fprintln(j.text(), n)
	if others := x.Run.JudgedOther(&y.Run); len(others) > 0 {
		a.warn("the runs did not judge the same: %s", strings.Join(others, ", "))
	}
	if err := errors.Join(j.write(n.record()), j.close()); err != nil {
		return failed(err)
	}
	switch {
	case y.Summary.Total() == n.of[reports.Added]:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no value is in both", old, cur)}
	case y.Summary.Interrupted:
		return exitWith(ExitInterrupted)
	case n.of[reports.Worse]+n.newFindings > 0:
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
		if c.Change == reports.StaysBad && a.quiet {
			continue
		}
		r, reason := c.Result(), ""
		if !r.Finding() && (c.Change == reports.Added || c.Change == reports.Gone) {
			if quiet[c.Change]++; !tables && (a.quiet || quiet[c.Change] > mostQuiet) {
				left[c.Change]++
				continue
			}
		}
		if c.New != nil {
			reason = c.New.Reason
		}
		was, is := c.Verdicts()
		if err := list.Add(string(c.Change), r.Op, c.ID(), r.Target, string(was), string(is), reason); err != nil {
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

// changeCounts counts the changes between two runs.
type changeCounts struct {
	of          map[reports.Change]int
	newFindings int
	same        int
}

func (n *changeCounts) add(c *reports.ResultChange) {
	n.of[c.Change]++
	if c.Change == reports.Added && c.Regressed() {
		n.newFindings++
	}
}

func (n changeCounts) String() string {
	found := ""
	if n.newFindings > 0 {
		found = " (" + reports.Count(n.newFindings, "finding") + ")"
	}
	return fmt.Sprintf("%d worse, %d better, %d new%s, %d gone, %d findings in both, %d as good as before",
		n.of[reports.Worse], n.of[reports.Better], n.of[reports.Added], found, n.of[reports.Gone],
		n.of[reports.StaysBad], n.same)
}

// record is the last line of JSON.
func (n changeCounts) record() map[string]any {
	return map[string]any{
		"kind": "summary", "worse": n.of[reports.Worse], "better": n.of[reports.Better],
		"new": n.of[reports.Added], "new_findings": n.newFindings, "gone": n.of[reports.Gone],
		"still": n.of[reports.StaysBad], "same": n.same,
	}
}
