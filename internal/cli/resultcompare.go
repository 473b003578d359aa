package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
)

// mostQuiet is how many new, and how many gone values without a finding compareResults lists.
const mostQuiet = 10

// noResults says that a file has no results to show or compare, and what to do; "" if it has.
func noResults(rec *reports.Recording) string {
	switch {
	case rec.Summary.Total() > 0:
		return ""
	case slices.Contains(rec.Run.Command, "step"):
		return "step wrote it, which has findings and no results: run `optool replay --json FILE PATH` on the recording; " +
			"`optool step --against PATH2 PATH` compares two recordings as steps"
	}
	return "no results in it: want the file that --json made replay, compare, check or conformance write"
}

// compareResults compares two runs of a comparison, value by value. It exits as report does for a new run that was cut
// off, else with 1 if anything got worse or is new and a finding, or is what --fail-on names.
func (a *app) compareResults(old, cur string, o *compareOptions) error {
	x, y, err := a.readRuns(old, cur, func(rec *reports.Recording) string {
		return noResults(rec)
	})
	if err != nil {
		return err
	}
	files := o.records.files
	if err := cmp.Or(files.check(), failed(files.writable())); err != nil {
		return err
	}
	j, err := a.openRecords(outputs{json: o.records.json}, a.run("none"))
	if err != nil {
		return err
	}
	defer j.close()
	if files.stdout() {
		j.out = io.Discard
	}
	a.warnOfLess([]*reports.Recording{x, y}, []string{old, cur})
	listed, err := o.known.load(o.failOn.stale)
	if err != nil {
		return err
	}
	before, now := slices.Collect(x.Results.All()), slices.Collect(y.Results.All())
	for _, r := range now {
		listed.Mark(r)
	}
	if listed != nil {
		y.Summary.Known = listed
		y.Summary.LookedAtPart(y.Run.Shard != "")
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
	others := append(reports.LookedAtOther(x, y, old, cur), reports.OnlyFolders(before, now, old, cur)...)
	var told []string
	if listed != nil {
		told = y.Summary.ToldKnown()
	}
	if err := a.printResultChanges(j.text(), changes, n, others, told, o.tables); err != nil {
		return failed(err)
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
	exit := ExitOK
	switch {
	case y.Summary.Total() == n.Added:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no value is in both", old, cur)}
	case y.Summary.Interrupted:
		exit = ExitInterrupted
	case n.Worse+n.NewFindings > 0 || o.failOn.on(reports.Worse, n.FarWorse) || o.failOn.on(reports.Gone, n.Gone),
		o.failOn.stale && len(listed.Stale()) > 0:
		exit = ExitDiffers
	}
	run := &changedRun{old: old, failOn: &o.failOn, changes: changes, before: before, unseen: unseen(y),
		facts: changeFacts(changes, n, others, old)}
	return a.unwritten(exit, run.write(a, files, y, now, exit))
}

// changeFacts are the first lines of the reports: the counts, which operators changed, and what only one run looked at.
func changeFacts(changes []reports.ResultChange, n reports.ChangeCount, others []string, old string) []reports.Fact {
	facts := []reports.Fact{{Name: "values compared with " + old, Text: n.String()}}
	facts = append(facts, reports.ChangedOps(changes)...)
	for _, line := range others {
		facts = append(facts, reports.Fact{Name: "difference of the runs", Text: line})
	}
	return facts
}

// unseen says why a run did not look at all calls; "" if it did.
func unseen(rec *reports.Recording) string {
	switch n := rec.Summary.Left(); {
	case n > 0:
		return "the time of --budget ended before " + reports.Count(n, "call")
	case rec.Summary.Interrupted:
		return "the run did not end"
	case rec.Run.Shard != "":
		return "this is part " + rec.Run.Shard + " of a run"
	}
	return ""
}

// warnOfLess warns of runs that did not look at all calls.
func (a *app) warnOfLess(runs []*reports.Recording, names []string) {
	for i, rec := range runs {
		if rec.Summary.Interrupted {
			a.warn("%s: the run did not end: calls that it did not reach are not compared", names[i])
		}
		if n := rec.Summary.Left(); n > 0 {
			a.warn("%s: %s not looked at within the budget: they are gone or new in the comparison",
				names[i], reports.Count(n, "call"))
		}
	}
}

// printResultChanges prints the counts, what only one run looked at, what changed, and what became of known failures.
func (a *app) printResultChanges(w io.Writer, changes []reports.ResultChange, n reports.ChangeCount, others,
	known []string, tables bool) error {
	tell := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintln(w, a.style().Wrap(reports.OneLine(line), 2))
		}
	}
	fmt.Fprintln(w, n)
	for _, f := range reports.ChangedOps(changes) {
		tell([]string{f.Name + ": " + f.Text})
	}
	tell(others)
	if len(changes) == 0 {
		tell(known)
		return nil
	}
	fmt.Fprintln(w)
	if err := a.listChanges(w, changes, tables); err != nil {
		return err
	}
	tell(known)
	_, err := fmt.Fprintln(w, n)
	return err
}

// listChanges lists what changed, with the folders if there are any. Of new and of gone values without a finding it
// lists a few, and counts the others.
func (a *app) listChanges(w io.Writer, changes []reports.ResultChange, tables bool) error {
	quiet, left := map[reports.Change]int{}, map[reports.Change]int{}
	columns := []string{"change", "op", "id", "value", "old", "new", "now"}
	folders := slices.ContainsFunc(changes, func(c reports.ResultChange) bool { return c.Folder() != "" })
	if folders {
		columns = slices.Insert(columns, 3, "folder")
	}
	list := reports.NewListing(w, a.outputWidth(), columns...)
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
		row := []string{string(c.Change), r.Op, c.ID(), r.Target, string(was), string(is), c.Now()}
		if folders {
			row = slices.Insert(row, 3, c.Folder())
		}
		if err := list.Add(row...); err != nil {
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
