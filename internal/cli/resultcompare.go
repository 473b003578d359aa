package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// mostQuiet is how many new, and how many gone values without a finding compareResults lists.
const mostQuiet = 10

// noResults says that a file has no results to show or compare, and what to do; "" if it has.
func noResults(rec *reports.Recording) string {
	switch {
	case rec.Summary.Total() > 0:
		return ""
	case len(rec.Summary.Unread) > 0:
		return "no results in it: " + rec.Summary.Unread[0].String()
	case rec.Summary.Left() > 0:
		return "no results in it: the time of --budget ended before the first call"
	case slices.Contains(rec.Run.Command, "step"):
		return "step wrote it, which has findings and no results: run `optool replay --json FILE PATH` on the recording; " +
			"`optool step --against PATH2 PATH` compares two recordings as steps"
	}
	return "no results in it: want the file that --json made replay, compare, check or conformance write"
}

// compareResults compares the last of several runs with the first, value by value. Those between tell since when a
// value fails. It exits as report does for a new run that was cut off. Otherwise it exits with 1 if a value got
// worse, is new and a finding, is a finding that got far worse or that the list of known failures no longer covers,
// or is what --fail-on names.
func (a *app) compareResults(paths []string, o *compareOptions) error {
	runs, paths, err := a.readNights(paths)
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
	listed, err := o.known.load(o.failOn.stale)
	if err != nil {
		return err
	}
	c, err := a.changesOf(runs, paths, o, listed)
	if err != nil {
		return failed(err)
	}
	for i := range c.changes {
		if err := j.write(&c.changes[i]); err != nil {
			return failed(err)
		}
	}
	if err := a.printResultChanges(j.text(), c, o.tables); err != nil {
		return failed(err)
	}
	old, now, name := runs[0], c.rec, paths[len(paths)-1]
	exit := c.exit(listed, name)
	if err := a.tellExit(j.text(), c); err != nil {
		return failed(err)
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		if err := reports.AnnotateChanges(a.Err, c.changes); err != nil {
			return failed(err)
		}
	}
	if unlike := old.Run.JudgedOther(&now.Run); len(unlike) > 0 {
		a.warn("the runs did not judge the same: %s", strings.Join(unlike, ", "))
	}
	last := struct {
		Kind string `json:"kind"`
		reports.ChangeCount
		// Repaired counts calls that failed in the last of the runs between and pass now.
		Repaired int                `json:"repaired_since_last"`
		Unlike   []string           `json:"unlike"`
		Known    *reports.KnownList `json:"known_failures,omitempty"`
		Exit     int                `json:"exit_code"`
	}{"summary", c.count, c.repaired, append([]string{}, c.others...), listed, exit}
	if err := errors.Join(j.write(last), j.close()); err != nil {
		return failed(err)
	}
	if now.Summary.Total() == c.count.Added {
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no value is in both", c.old, name)}
	}
	return a.unwritten(exit, c.write(a, files, exit))
}

// exit is the exit code of the comparison with the new run of this name. It notes why it is 1 or 3.
func (c *changedRun) exit(listed *reports.KnownList, name string) int {
	n := c.count
	switch {
	case c.rec.Summary.Total() == n.Added:
		return ExitFailed
	case c.rec.Summary.Interrupted:
		return ExitInterrupted
	}
	less, warned := reports.CountWord(c.changes, reports.Less), reports.CountWord(c.changes, reports.Warned)
	why := func(n int, text string) {
		if n > 0 {
			c.fails = append(c.fails, reports.Count(n, "value")+" "+text)
		}
	}
	worse := "got worse"
	if calls := c.worseCalls(); calls < n.Worse-less-warned {
		worse += " in " + reports.Count(calls, "call")
	}
	why(n.Worse-less-warned, worse)
	why(less, "passed and cannot be judged any more, or prove little")
	why(warned, string(reports.Warned))
	why(n.NewFindings, "new and wrong")
	for _, v := range c.failOn.verdicts {
		why(c.newly(v), fmt.Sprintf("new and %s (--fail-on %s)", v, v))
	}
	why(n.FarWorse, "at least ten times as wrong")
	if n := c.overdue(); n > 0 { // there is a list
		why(n, "wrong and past the last day of "+listed.File+", or far worse than it says")
	}
	meant := len(c.fails) == 0
	if c.failOn.on(reports.Gone, n.Gone) {
		why(n.Gone, "gone (--fail-on gone): "+reports.GoneOps(c.changes))
	}
	if s := len(c.rec.Summary.Unneeded()); c.failOn.stale && s > 0 {
		meant = false
		c.fails = append(c.fails, fmt.Sprintf("%s of %s no longer needed (--fail-on stale)", reports.Count(s, "line"),
			listed.File))
	}
	switch {
	case len(c.fails) > 0 && meant && regular(c.old) && regular(name):
		c.then = fmt.Sprintf("if that is meant, compare the next runs with this one: cp %s %s", quotePath(name),
			quotePath(c.old))
		return ExitDiffers
	case len(c.fails) > 0:
		return ExitDiffers
	case n.Unread > 0 || c.rec.Summary.Refused() || c.rec.Summary.NotRead > 0 || len(c.rec.Summary.Unread) > 0:
		if c.refused = c.rec.Summary.Refusal(); n.Unread > 0 {
			c.refused = strings.TrimPrefix(c.refused+", "+reports.Count(n.Unread, "value")+" could not be read", ", ")
		}
		return ExitFailed
	}
	return ExitOK
}

// overdue counts the values that were wrong before, too, and that the list of known failures no longer covers.
func (c *changedRun) overdue() (n int) {
	for i := range c.changes {
		if change := &c.changes[i]; change.Overdue() && !change.FarWorse() {
			n++
		}
	}
	return n
}

// worseCalls counts the calls with a value that got worse, not only a warning or no longer judged.
func (c *changedRun) worseCalls() int {
	calls := map[string]bool{}
	for i := range c.changes {
		if change := &c.changes[i]; change.Word() == reports.Worse {
			calls[change.New.Capture] = true
		}
	}
	return len(calls)
}

// newly counts the values of a verdict that only the new run has.
func (c *changedRun) newly(v verdict.Verdict) (n int) {
	for i := range c.changes {
		if change := &c.changes[i]; change.Change == reports.Added && change.New.Verdict == v {
			n++
		}
	}
	return n
}

// regular reports whether a file, which cp can copy, has this name.
func regular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// tellExit prints why the exit code is 1, or 3 for what could not be read, if it is.
func (a *app) tellExit(w io.Writer, c *changedRun) (err error) {
	if c.refused != "" {
		_, err = fmt.Fprintln(w, a.style().Wrap(fmt.Sprintf("exit code %d: %s", ExitFailed, c.refused), 2))
		return err
	}
	if len(c.fails) == 0 {
		return nil
	}
	_, err = fmt.Fprintln(w, a.style().Wrap("exit code 1: "+strings.Join(c.fails, "; "), 2))
	if err == nil && c.then != "" {
		_, err = fmt.Fprintln(w, c.then)
	}
	return err
}

// readNights reads the first and the last of several runs, and those between that have results.
func (a *app) readNights(paths []string) (runs []*reports.Recording, read []string, err error) {
	for i, path := range paths {
		nothing := false // to judge was found in that night, which it said
		rec, err := a.readRuns(func(rec *reports.Recording) string {
			nothing = len(rec.Summary.Unread) > 0
			return noResults(rec)
		}, path)
		if err != nil && i > 0 && i < len(paths)-1 {
			if !nothing {
				a.warn("%v", err)
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		runs, read = append(runs, rec[0]), append(read, path)
	}
	return runs, read, nil
}

// changesOf says what changed between the first and the last of several runs.
func (a *app) changesOf(runs []*reports.Recording, paths []string, o *compareOptions, listed *reports.KnownList) (
	c *changedRun, err error) {
	n := len(runs) - 1
	c = &changedRun{old: paths[0], failOn: &o.failOn, rec: runs[n], unseen: unseen(runs[n]), history: n > 1}
	night := func(i int) *reports.Night {
		return runs[i].Night(paths[i], unseen(runs[i]) != "")
	}
	for _, i := range []int{0, n} {
		a.warnOfLess(runs[i], paths[i], i == n)
	}
	before, now := slices.Collect(runs[0].Results.All()), slices.Collect(runs[n].Results.All())
	for _, r := range now {
		listed.Mark(r)
	}
	c.before, c.now, c.changes = before, now, reports.ResultChanges(before, now)
	if listed != nil {
		reports.CountFarWorse(c.changes)
		c.rec.Summary.Known = listed
		c.rec.Summary.LookedAtPart(c.rec.Run.Shard != "")
		c.known = c.rec.Summary.ToldKnown()
	}
	reports.NotLookedAt(c.changes, c.rec)
	var between []*reports.Night
	for i := range runs[1:n] {
		between = append(between, night(1+i))
	}
	first, last := night(0), night(n)
	first.Results, last.Results = slices.Values(before), slices.Values(now) // as in changes
	reports.History(c.changes, first, last, between)
	var again []reports.Fact // what is right again
	past := reports.Past(first, last, between)
	if len(between) > 0 && len(past) > 0 && past[0] != first {
		again, c.repaired = reports.RepairedSince(past[0], now, c.changes)
	}
	for i, rec := range runs {
		if err := errors.Join(rec.Results.Err(), rec.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", paths[i], err)
		}
	}
	c.count = reports.CountChanges(c.changes, c.rec.Summary.Total())
	c.others = reports.LookedAtOther(runs[0], c.rec, c.changes, paths[0], paths[n])
	c.others = append(c.others, reports.OnlyFolders(before, now, c.changes, paths[0], paths[n])...)
	c.sides = newAndOld{now: dated{paths[n], last.Recorded, last.Start},
		old: dated{paths[0], first.Recorded, first.Start}}
	if n == 1 {
		c.sides.swapped = strings.Join(o.command("compare", "--results", quotePath(paths[1]), quotePath(paths[0])), " ")
	}
	c.facts = []reports.Fact{{Name: "compared with " + c.old + ", judged on " + first.Judged(),
		Text: reports.CountCalls(c.changes, c.rec.Summary.Calls())}}
	c.facts = append(c.facts, reports.ChangedOps(c.changes)...)
	if c.repaired > 0 {
		c.facts[0].Text += "; " + reports.Count(c.repaired, "call") + " " + again[0].Name
	}
	c.facts = append(c.facts, again...)
	if len(between) > 0 && len(past) > 0 {
		c.facts = append(c.facts, reports.Timeline(past, last, now)...)
	}
	c.facts = append(c.facts, c.rec.Summary.UnreadFacts()...)
	for _, line := range c.others {
		c.facts = append(c.facts, reports.Fact{Name: "difference of the runs", Text: line})
	}
	return c, nil
}

// printResultChanges prints the counts, what only one run looked at, what changed, and what became of known failures.
func (a *app) printResultChanges(w io.Writer, c *changedRun, tables bool) error {
	tell := func(lines ...string) {
		for _, line := range lines {
			fmt.Fprintln(w, a.style().Wrap(reports.OneLine(line), 2))
		}
	}
	c.sides.tell(a, w)
	for i, f := range c.facts {
		if text := f.Name + ": " + f.Text; i < len(c.facts)-len(c.others) {
			tell(text)
		}
	}
	tell(c.others...)
	if len(c.changes) > 0 {
		fmt.Fprintln(w)
		if err := a.listChanges(w, c, tables); err != nil {
			return err
		}
	}
	tell(c.known...)
	_, err := fmt.Fprintln(w, "values:", c.count)
	return err
}

// listChanges lists what changed, with the folders if there are any. Of new and of gone values without a finding it
// lists a few, and counts the others.
func (a *app) listChanges(w io.Writer, of *changedRun, tables bool) error {
	changes := of.changes
	quiet, left := map[reports.Change]int{}, map[reports.Change]int{}
	columns := []string{"change", "op", "id", "value", "old", "new", "now"}
	folders := slices.ContainsFunc(changes, func(c reports.ResultChange) bool { return c.Folder() != "" })
	if folders {
		columns = slices.Insert(columns, 3, "folder")
	}
	if of.history {
		columns = slices.Insert(columns, len(columns)-1, "since", "last right")
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
		word := c.Word()
		if most, ok := listed(c); ok {
			judged := word == reports.Less || word == reports.Warned // in both runs, or before
			if quiet[word]++; !tables && (a.quiet && !judged || quiet[word] > most) {
				left[word]++
				continue
			}
		}
		was, is := c.Verdicts()
		row := []string{string(word), r.Op, c.ID(), r.Target, string(was), string(is), c.Now()}
		if folders {
			row = slices.Insert(row, 3, c.Folder())
		}
		if of.history {
			row = slices.Insert(row, len(row)-1, c.Since.Date(), c.LastRight.Date())
		}
		if err := list.Add(row...); err != nil {
			return err
		}
	}
	if err := list.Flush(); err != nil {
		return err
	}
	if a.quiet {
		return nil
	}
	var parts []string
	for _, word := range []reports.Change{reports.Added, reports.Gone} {
		if n := left[word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "... and %s without a finding; --tables lists %s\n", strings.Join(parts, " and "),
			reports.Plural(left[reports.Added]+left[reports.Gone], "it", "them"))
	}
	for _, word := range []reports.Change{reports.Warned, reports.Less, reports.Unread,
		reports.Unneeded, reports.Unseen} {
		more := ""
		if word == reports.Less || word == reports.Warned {
			more = "more "
		}
		if n := left[word]; n > 0 {
			fmt.Fprintf(w, "%s %s; --tables lists them\n", reports.Count(n, more+"value"), word)
		}
	}
	return nil
}

// listed is how many of such changes are listed, if not all are.
func listed(c *reports.ResultChange) (most int, bounded bool) {
	switch word := c.Word(); {
	case word == reports.Unseen || word == reports.Unread || word == reports.Unneeded:
		return 0, true
	case word == reports.Less, word == reports.Warned,
		!c.Result().Finding() && (word == reports.Added || word == reports.Gone):
		return mostQuiet, true
	}
	return 0, false
}
