package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
)

// firstWrong is the first of wrongCalls, nil if there is none.
func (o *selection) firstWrong(ctx context.Context, a *app, command string, lim *limits, opt replay.Options,
	paths []string) (*capture.Entry, error) {
	all, err := o.wrongCalls(ctx, a, command, lim, opt, paths)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// wrongCalls are the calls below the paths that fail, in the order in which the program
// ran, or the only call. There are none, with the error to exit with, if none fails.
func (o *selection) wrongCalls(ctx context.Context, a *app, command string, lim *limits, opt replay.Options,
	paths []string) ([]*capture.Entry, error) {
	bar := a.newProgress(command, "capture")
	bar.index(ctx, paths)
	var t tally
	var wrong []judged
	counted, digest := reports.NewSummary(), reports.NewDigest(nil)
	var last *capture.Entry
	err := ordered(ctx, a.jobs, scan(ctx, paths, capture.Options{}), func(f found) judged {
		return o.judge(ctx, bar, command, lim, opt, f)
	}, func(j judged) error {
		t.walked++
		bar.add(j.found != nil && j.found.Bad(), j.bytes)
		switch {
		case j.err != nil:
			t.refused++
			bar.warn(a, j.err)
		case j.entry != nil:
			t.captures++
			last = j.entry
			for _, r := range j.found.Results {
				counted.Add(r)
			}
			if j.found.Wrong() {
				wrong = append(wrong, j)
			} else {
				digest.Add(j.found)
			}
		}
		return nil
	})
	bar.end()
	switch {
	case err != nil:
		return nil, failed(err)
	case len(wrong) == 0 && t.captures == 1 && t.refused == 0:
		return []*capture.Entry{last}, nil
	case len(wrong) > 0:
		return inOrder(wrong), nil
	}
	if err := o.found(t, paths); err != nil {
		return nil, err
	}
	return nil, a.noneWrong(t, counted, digest, last != nil && !last.IsPair())
}

// inTree is the path of a call in its tree, after a space; "" for a call that is all of it.
func inTree(e *capture.Entry) string {
	if e.Rel == "." {
		return ""
	}
	return " " + reports.OneLine(e.Rel)
}

// A judged is a call that was run again; entry is nil for one that is not selected.
type judged struct {
	entry *capture.Entry
	found *reports.Finding
	bytes int64
	err   error
}

// judge runs a call again, if it is selected.
func (o *selection) judge(ctx context.Context, bar *progress, command string, lim *limits, opt replay.Options,
	f found) judged {
	if f.err != nil {
		return judged{err: f.err}
	}
	bytes := f.entry.Bytes()
	if ok, err := o.filter.Match(f.entry, o.read); err != nil || !ok {
		return judged{bytes: bytes, err: err}
	}
	bar.begin(f.entry.Op)
	outcome, err := within(ctx, lim, bytes, func() (*replay.Outcome, error) {
		return replay.Run(f.entry, opt), nil
	})
	if err != nil {
		outcome = replay.NotDone(f.entry.Op, err)
	}
	again := strings.Join(o.command(command, quotePath(pathOf(f.entry))), " ")
	return judged{entry: f.entry, found: results.OfReplay(f.entry, outcome, again, ""), bytes: bytes}
}

// inOrder are calls in the order in which the program made them.
func inOrder(wrong []judged) (calls []*capture.Entry) {
	slices.SortStableFunc(wrong, func(x, y judged) int {
		switch {
		case reports.Earlier(x.found, y.found):
			return -1
		case reports.Earlier(y.found, x.found):
			return 1
		}
		return 0
	})
	for _, j := range wrong {
		calls = append(calls, j.entry)
	}
	return calls
}

// noneWrong prints that none of the calls failed, what their errors say all together, and what was not judged. It
// returns the error to exit with. step says that the calls may be those of a step.
func (a *app) noneWrong(t tally, counted *reports.Summary, digest *reports.Digest, step bool) error {
	if t.captures == 0 {
		return exitWith(ExitFailed)
	}
	if err := digest.Write(a.Out, a.style()); err != nil {
		return failed(err)
	}
	together := counted.Systematic()
	for _, f := range together {
		fmt.Fprintln(a.Out, a.style().Wrap(f.String(), 2))
	}
	for _, line := range counted.Told() {
		fmt.Fprintln(a.Out, a.style().Wrap(line, 2))
	}
	line := fmt.Sprintf("none of %s failed", reports.Count(t.captures, "capture"))
	if len(together) > 0 {
		line += " by itself"
	}
	if counted.Judged() < counted.Total() {
		line += fmt.Sprintf(", as far as they were judged: %d of %d values", counted.Judged(), counted.Total())
	}
	if t.captures > 1 && step {
		line += "; each was judged by what it read: optool step finds values that changed between calls"
	}
	fmt.Fprintln(a.Out, line)
	return exitWith(comparisonExit(counted, t.refused))
}
