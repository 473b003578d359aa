package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// compareTimes compares two files of JSON lines that time wrote: series by
// series, then op by op.
func (a *app) compareTimes(old, cur string, o *compareOptions) error {
	resolution, threshold, records := o.resolution/100, o.threshold/100, o.records
	runs, err := a.readRuns(func(rec *reports.Recording) string {
		if len(rec.Timings) == 0 {
			return "no timings in it: want the file of optool time --json"
		}
		return ""
	}, old, cur)
	if err != nil {
		return err
	}
	x, y := runs[0], runs[1]
	a.warnOfLess(x, old, false)
	a.warnOfLess(y, cur, true)
	files := records.files
	if err := cmp.Or(files.check(), failed(files.writable())); err != nil {
		return err
	}
	j, err := a.openRecords(outputs{json: records.json}, a.run("none"))
	if err != nil {
		return err
	}
	defer j.close()
	if files.stdout() {
		j.out = io.Discard
	}
	changes := reports.TimingChanges(x, y, resolution)
	for i := range changes {
		if err := j.write(&changes[i]); err != nil {
			return failed(err)
		}
	}
	if err := a.printChanges(j.text(), changes, reports.OldAndNew); err != nil {
		return failed(err)
	}
	counts := countChanges(changes, threshold)
	fmt.Fprintf(j.text(), "%s; %d only in %s, %d only in %s\n", counts, len(x.Timings)-len(changes), old,
		len(y.Timings)-len(changes), cur)
	printDoubts(j.text(), changes)
	unlike := x.Run.Unlike(&y.Run)
	for _, d := range unlike {
		fmt.Fprintf(j.text(), "the runs differ in more than what was measured: %s\n", d)
	}
	counts.SameLibrary = x.Run.LibrarySHA256 != "" && x.Run.LibrarySHA256 == y.Run.LibrarySHA256
	if counts.SameLibrary {
		fmt.Fprintln(j.text(), sameLibrary)
	}
	if err := j.write(struct {
		Kind string `json:"kind"`
		ChangeCounts
		Unlike []string `json:"unlike"`
	}{"summary", counts, append([]string{}, unlike...)}); err != nil {
		return failed(err)
	}
	exit := 0
	gone := reports.GoneTimings(x, y)
	fails := o.failOn.times(counts.Ambiguous, len(gone))
	switch {
	case len(changes) == 0:
		exit = ExitFailed
		a.warn("%s, %s: %s", old, cur, nothingInBoth)
	case y.Summary.Interrupted:
		exit = ExitInterrupted
	case counts.Beyond > 0:
		exit = ExitDiffers
	case len(fails) > 0:
		exit = ExitDiffers
		fmt.Fprintf(j.text(), "exit code 1: %s\n", strings.Join(fails, "; "))
	}
	facts := []reports.Fact{{Name: "times", Text: counts.String() + "; compared with " + old}}
	if counts.undecided() {
		facts[0].Name = "times undecided"
	}
	if exit == ExitInterrupted {
		facts = append(facts, reports.Fact{Name: "interrupted", Text: cur + ": " + unseen(y)})
	}
	if len(fails) > 0 {
		facts = append(facts, reports.Fact{Name: "fails", Text: strings.Join(fails, "; ")})
	}
	if n, m := len(x.Timings)-len(changes), len(y.Timings)-len(changes); n+m > 0 {
		facts = append(facts, reports.Fact{Name: "not compared",
			Text: fmt.Sprintf("%d only in %s, %d only in %s", n, old, m, cur)})
	}
	for _, d := range unlike {
		facts = append(facts, reports.Fact{Name: "runs differ", Text: d})
	}
	if counts.SameLibrary {
		facts = append(facts, reports.Fact{Name: "library", Text: sameLibrary})
	}
	return a.unwritten(exit, a.writeTimes(cur, y, changes, gone, o, facts, exit))
}

const nothingInBoth = "no call was measured in both"

// writeTimes writes reports of a comparison of times. A series that got slower by more than the threshold is a failure.
func (a *app) writeTimes(name string, now *reports.Recording, changes []reports.TimingChange, gone []*reports.Timing,
	o *compareOptions, facts []reports.Fact, exit int) error {
	files, threshold := o.records.files, o.threshold/100
	if !files.any() {
		return nil
	}
	device := now.Run.Device
	if device == "" || device == "none" {
		device = "none: the float64 reference on this CPU"
	}
	run, s := a.run(device), reports.NewSummary()
	s.Exit, s.Facts, s.Elapsed, s.Interrupted = exit, facts, now.Summary.Elapsed, now.Summary.Interrupted
	counts := countChanges(changes, threshold)
	s.Undecided = counts.undecided()
	if o.failOn.times(counts.Ambiguous, 0) != nil {
		s.FailOn = []verdict.Verdict{verdict.Skipped}
	}
	if len(changes) == 0 {
		s.Unread = []reports.UnreadFile{{File: name, Reason: nothingInBoth, Absent: true}}
	}
	results := func(yield func(*reports.Result) bool) {
		if o.failOn.on(reports.Gone, len(gone)) {
			for _, t := range gone {
				if !yield(&reports.Result{Capture: t.Capture, Op: t.Op, ForwardID: t.ForwardID, Phase: t.Phase,
					Target: t.Key().Cache + " cache", Verdict: verdict.Fail,
					Reason: "gone: only the old run measured it"}) {
					return
				}
			}
		}
		measured := map[string]int{} // calls of each operator
		for i := range changes {
			c := &changes[i]
			if i == 0 || c.Op != changes[i-1].Op || c.Capture != changes[i-1].Capture {
				measured[c.Op]++
			}
			r := c.Result(threshold)
			r.Occurrence = new(int)
			*r.Occurrence = measured[c.Op]
			if !yield(r) {
				return
			}
		}
	}
	shown, _, err := reread(func(w io.Writer) error {
		return rewrite(w, &run, s, results, &reports.Explanations{}, func(lines *reports.JSONLines) error {
			return lines.Summary(s)
		})
	})
	if err != nil {
		return err
	}
	defer shown.Close()
	own := []reports.Sheet{reports.TimingChangeSheet(changes, reports.OldAndNew)}
	return writeReports(a.Out, shown, own, files, a.tellPages(files))
}

const sameLibrary = "both measured the same device library"

// ChangeCounts are how many series changed how.
type ChangeCounts struct {
	Compared    int  `json:"compared"`
	Same        int  `json:"same"`
	Faster      int  `json:"faster"`
	Slower      int  `json:"slower"`
	Ambiguous   int  `json:"ambiguous"`
	Beyond      int  `json:"beyond_threshold"` // slower by more than is no reason for exit code 1
	SameLibrary bool `json:"same_library"`
}

// undecided reports whether most changes are ambiguous.
func (n *ChangeCounts) undecided() bool { return 2*n.Ambiguous > n.Compared }

// times says why so many ambiguous times and times that only the old run has fail the run; nil if they do not.
func (v *failing) times(unsure, gone int) (why []string) {
	if unsure > 0 && (v.unsure || slices.Contains(v.verdicts, verdict.Skipped)) {
		why = append(why, fmt.Sprintf("%d ambiguous (--fail-on %s)", unsure, ambiguous))
	}
	if v.on(reports.Gone, gone) {
		why = append(why, fmt.Sprintf("%d gone (--fail-on %s)", gone, reports.Gone))
	}
	return why
}

// countChanges counts; threshold is the share of the time up to which a slower one is let pass.
func countChanges(changes []reports.TimingChange, threshold float64) ChangeCounts {
	n := ChangeCounts{Compared: len(changes)}
	for _, c := range changes {
		switch c.Verdict {
		case timing.Same:
			n.Same++
		case timing.Faster:
			n.Faster++
		case timing.Slower:
			n.Slower++
			if c.Ratio-1 > threshold {
				n.Beyond++
			}
		case timing.Ambiguous:
			n.Ambiguous++
		}
	}
	return n
}

func (n ChangeCounts) String() string {
	return reports.ChangesText(n.Compared, n.Same, n.Faster, n.Slower, n.Ambiguous)
}

// printDoubts says why changes are ambiguous, and what helps.
func printDoubts(w io.Writer, changes []reports.TimingChange) {
	counts := map[string]int{}
	for i := range changes {
		if doubt := changes[i].Doubt(); doubt != "" {
			counts[doubt]++
		}
	}
	for _, doubt := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "ambiguous: %d with %s\n", counts[doubt], doubt)
	}
	if len(counts) > 0 {
		fmt.Fprintln(w, "measure longer (a larger --max-time, no --run_times), on a machine that does nothing else")
	}
}

// printChanges prints a table of all changes and one of the ops; names are those of the two sides. With --quiet it
// prints what got slower.
func (a *app) printChanges(w io.Writer, changes []reports.TimingChange, names [2]string) error {
	if a.quiet {
		changes = slices.DeleteFunc(slices.Clone(changes),
			func(c reports.TimingChange) bool { return c.Verdict != timing.Slower })
		if len(changes) == 0 {
			return nil
		}
	}
	head := []string{"op", "capture", "phase", "cache", names[0], names[1], "change", "within", "verdict", "accuracy"}
	named := true
	width := a.outputWidth()
	if width > 0 && width < timeWidth {
		head, named = head[2:], false
	}
	l := reports.NewListing(w, width, head...)
	for i := range 4 {
		l.Right(len(head) - 6 + i)
	}
	marks := timeTable{w: w, marks: map[string]bool{}}
	last := ""
	for i := range changes {
		c := &changes[i]
		cells := append([]string{c.Phase, c.Cache}, c.Cells()...)
		for side, doubt := range c.Doubts {
			if mark := marks.mark(doubt); mark != "" && mark != "?" { // few runs are few in all lines
				cells[2+side] += " " + mark
			}
		}
		if named {
			cells = append([]string{c.Op, c.Capture}, cells...)
		} else if line := c.Op + "  " + c.Capture; line != last {
			last = line
			l.Line(line)
		}
		if err := l.Add(cells...); err != nil {
			return err
		}
	}
	delete(marks.marks, "few")
	if err := cmp.Or(l.Flush(), marks.legend()); err != nil {
		return err
	}
	for _, line := range columnsOfChanges(changes, names) {
		fmt.Fprintln(w, a.style().Wrap(line, 2))
	}
	ops := reports.ByOp(changes)
	if a.quiet {
		return nil
	}
	if len(ops) > 0 {
		fmt.Fprintln(w)
	}
	head = []string{"op", "captures", names[0], names[1], "change", "same", "faster", "slower", "ambiguous"}
	if !named {
		head = head[1:]
	}
	l = reports.NewListing(w, width, head...)
	for i := range 8 {
		l.Right(len(head) - 8 + i)
	}
	for _, o := range ops {
		cells := []string{strconv.Itoa(o.Captures), timing.Format(o.Old), timing.Format(o.New), o.Change()}
		for _, v := range []timing.Verdict{timing.Same, timing.Faster, timing.Slower, timing.Ambiguous} {
			cells = append(cells, strconv.Itoa(o.Verdicts[v]))
		}
		if named {
			cells = append([]string{o.Name}, cells...)
		} else {
			l.Line(o.Name)
		}
		if err := l.Add(cells...); err != nil {
			return err
		}
	}
	return l.Flush()
}

// columnsOfChanges say what the times and the column "within" of a table of changes are.
func columnsOfChanges(changes []reports.TimingChange, names [2]string) (lines []string) {
	inTurn := func(c reports.TimingChange) bool { return c.Interval != nil }
	if slices.ContainsFunc(changes, inTurn) {
		lines = append(lines, fmt.Sprintf("%s, %s: the median of the rounds; change: how much longer %s takes; within: the "+
			"lowest and the highest change that the rounds allow", names[0], names[1], names[1]))
	}
	if slices.ContainsFunc(changes, func(c reports.TimingChange) bool { return !inTurn(c) }) {
		lines = append(lines, fmt.Sprintf("%s, %s: the time of the fastest round, as one run of 20 reaches it (5 %% "+
			"quantile); change: how much longer %s takes; within: how far the four fastest rounds of a side are apart",
			names[0], names[1], names[1]))
	}
	return lines
}

// readRuns reads files of JSON lines; missing says what a run lacks, "" for nothing.
func (a *app) readRuns(missing func(*reports.Recording) string, paths ...string) ([]*reports.Recording, error) {
	var recs []*reports.Recording
	for _, path := range paths {
		rec, err := a.readRecording(path)
		if err != nil {
			return nil, failed(err)
		}
		if what := missing(rec); what != "" {
			return nil, &exitError{ExitFailed, fmt.Errorf("%s: %s", path, what)}
		}
		recs = append(recs, rec)
	}
	return recs, nil
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

// warnOfLess warns of a run that did not look at all calls; now says that it is the new one.
func (a *app) warnOfLess(rec *reports.Recording, name string, now bool) {
	why := unseen(rec)
	if why == "" {
		return
	}
	if !now {
		why += "; what it did not look at is new in the comparison"
	}
	a.warn("%s: %s", name, why)
}
