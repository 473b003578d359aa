package cli

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// A changedRun is a run compared with an earlier one, for the reports of compare --results.
type changedRun struct {
	old         string // the name of the earlier one
	failOn      *failing
	rec         *reports.Recording // the new run
	before, now []*reports.Result
	changes     []reports.ResultChange
	count       reports.ChangeCount
	repaired    int            // calls that failed in the last run between and pass now
	history     bool           // more than two runs show since when values fail
	unseen      string         // why the new run did not look at all calls; "" if it did
	others      []string       // what only one run looked at
	sides       newAndOld      // which run is the new one
	facts       []reports.Fact // that the reports begin with: the counts, changed operators, others
	known       []string       // what became of known failures
	fails       []string       // why the exit code is 1
	refused     string         // why it is 3: what could not be read
	then        string         // what to do if that is meant
	of          map[*reports.Result]*reports.ResultChange
}

// judge is the result of the new run as a report shows it. A failure that the old run had, too, is still wrong,
// unless it got far worse or the list of known failures no longer covers it. A value that got worse fails. So does
// one that is not judged any more.
func (c *changedRun) judge(r *reports.Result) *reports.Result {
	change := c.of[r]
	farWorse := change != nil && change.FarWorse()
	if change == nil || r.Verdict == verdict.Known && !farWorse {
		return r
	}
	is := *r
	is.Reason = change.Now()
	switch as := ""; {
	case farWorse && r.Verdict == verdict.Known:
		is.Default, is.Setting, is.Verdict = r.Default, "--fail-on", cmp.Or(r.Default, verdict.Fail)
	case farWorse:
	case change.Change == reports.StaysBad && r.Verdict.Differs() && !change.Overdue():
		is.Default, is.Setting, is.Verdict = r.Verdict, "--results", verdict.StillWrong
		is.Reason = "as in " + c.old + ": " + is.Reason
	case change.Regressed() && !r.Verdict.Finding():
		if was, _ := change.Verdicts(); was != "" {
			as = string(was) + " in " + c.old + ", now " + string(r.Verdict) + ": "
		}
		is.Default, is.Setting, is.Verdict, is.Reason = r.Verdict, "--results", verdict.Fail, as+is.Reason
	}
	if change.Change == reports.Added && slices.Contains(c.failOn.verdicts, r.Verdict) {
		is.Default, is.Setting, is.Verdict, is.Reason = r.Verdict, "--fail-on", verdict.Fail, "new and "+
			string(r.Verdict)+": "+is.Reason
	}
	if since := change.SinceText(); since != "" && (c.history || change.Regressed()) {
		is.Reason += "; " + since
	}
	return &is
}

// results are the results of the new run. Values that are gone are failures if they fail the run. The last ones tell
// what the run did not look at.
func (c *changedRun) results() (all []*reports.Result) {
	c.of = map[*reports.Result]*reports.ResultChange{}
	for i := range c.changes {
		c.of[c.changes[i].New] = &c.changes[i]
	}
	for _, r := range c.now {
		all = append(all, c.judge(r))
	}
	fails := slices.Contains(c.failOn.changes, reports.Gone)
	for _, r := range reports.LackingResults(c.changes, c.before, c.old, c.unseen) {
		if fails || r.Op == reports.OpUnseen {
			all = append(all, r)
		}
	}
	return all
}

// write writes the reports of the new run, with a table of the changes. They are made as those of any run.
func (c *changedRun) write(a *app, files reportFiles, exit int) error {
	rec := c.rec
	if !files.any() {
		return nil
	}
	run := a.run(rec.Run.Device, append(rec.Summary.Settings.Uncounted(), &reports.Setting{Kind: byFlag,
		Name: "--results", Value: c.old, Effect: reports.Tolerates})...)
	s := reports.NewSummary()
	s.Settings, s.Known, s.Exit = run.Settings, rec.Summary.Known, exit
	s.Facts = slices.Concat(c.facts[:1], c.sides.facts(), c.facts[1:])
	if len(c.fails) > 0 {
		s.Facts = append(s.Facts, reports.Fact{Name: "exit code 1", Text: strings.Join(c.fails, "; ")})
	}
	if c.then != "" {
		s.Facts = append(s.Facts, reports.Fact{Name: "next", Text: c.then})
	}
	s.Interrupted, s.NotRead, s.Elapsed = rec.Summary.Interrupted, rec.Summary.NotRead, rec.Summary.Elapsed
	s.Budget, s.Unread = rec.Summary.Budget, rec.Summary.Unread
	shown, _, err := reread(func(w io.Writer) error {
		return rewrite(w, &run, s, slices.Values(c.results()), &rec.Explanations, func(lines *reports.JSONLines) error {
			return lines.Summary(s)
		})
	})
	if err != nil {
		return err
	}
	defer shown.Close()
	own := []reports.Sheet{reports.ChangeSheet(c.changes), shown.OpSheet()}
	return writeReports(a.Out, shown, own, files, a.tellPages(files))
}
