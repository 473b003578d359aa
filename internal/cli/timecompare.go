package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// compareTimes compares two files of JSON lines that time wrote: series by
// series, then op by op.
func (a *app) compareTimes(old, cur string, resolution, threshold float64, records outputs) error {
	x, y, err := a.readRuns(old, cur, func(rec *reports.Recording) string {
		if len(rec.Timings) == 0 {
			return "no timings in it: want the file of optool time --json"
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
	changes := reports.TimingChanges(x, y, resolution)
	if err := a.printChanges(j, changes); err != nil {
		return failed(err)
	}
	counts, slower := map[timing.Verdict]int{}, 0
	for _, c := range changes {
		counts[c.Verdict]++
		if c.Verdict == timing.Slower && c.Ratio-1 > threshold {
			slower++
		}
	}
	fmt.Fprintf(j.text(), "%d compared: %d same, %d faster, %d slower, %d ambiguous; %d only in %s, %d only in %s\n",
		len(changes), counts[timing.Same], counts[timing.Faster], counts[timing.Slower], counts[timing.Ambiguous],
		len(x.Timings)-len(changes), old, len(y.Timings)-len(changes), cur)
	unlike := x.Run.Unlike(&y.Run)
	for _, d := range unlike {
		fmt.Fprintf(j.text(), "the runs differ in more than what was measured: %s\n", d)
	}
	same := x.Run.LibrarySHA256 != "" && x.Run.LibrarySHA256 == y.Run.LibrarySHA256
	if same {
		fmt.Fprintln(j.text(), "both measured the same device library")
	}
	if err := j.write(map[string]any{
		"kind": "summary", "unlike": append([]string{}, unlike...), "same_library": same, "compared": len(changes),
		"same": counts[timing.Same], "faster": counts[timing.Faster],
		"slower": counts[timing.Slower], "ambiguous": counts[timing.Ambiguous], "beyond_threshold": slower,
	}); err != nil {
		return failed(err)
	}
	switch {
	case len(changes) == 0:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no call was measured in both", old, cur)}
	case slower > 0:
		return exitWith(ExitDiffers)
	}
	return nil
}

// printChanges prints a table of all changes and one of the ops, and writes the JSON
// lines.
func (a *app) printChanges(j *jsonOutput, changes []reports.TimingChange) error {
	head := []string{"op", "capture", "phase", "cache", "old", "new", "change", "within", "verdict", "accuracy"}
	named := true
	width := a.outputWidth()
	if width > 0 && width < timeWidth {
		head, named = head[2:], false
	}
	l := reports.NewListing(j.text(), width, head...)
	for i := range 4 {
		l.Right(len(head) - 6 + i)
	}
	last := ""
	for i := range changes {
		c := &changes[i]
		cells := append([]string{c.Phase, c.Cache}, c.Cells()...)
		if named {
			cells = append([]string{c.Op, c.Capture}, cells...)
		} else if line := c.Op + "  " + c.Capture; line != last {
			last = line
			l.Line(line)
		}
		if err := errors.Join(l.Add(cells...), j.write(c)); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	ops := reports.ByOp(changes)
	if len(ops) > 0 {
		fmt.Fprintln(j.text())
	}
	l = reports.NewListing(j.text(), width, "op", "captures", "old", "new", "change", "same", "faster", "slower",
		"ambiguous")
	for i := 1; i < 9; i++ {
		l.Right(i)
	}
	for _, o := range ops {
		cells := []string{o.Name, strconv.Itoa(o.Captures), timing.Format(o.Old), timing.Format(o.New), o.Change()}
		for _, v := range []timing.Verdict{timing.Same, timing.Faster, timing.Slower, timing.Ambiguous} {
			cells = append(cells, strconv.Itoa(o.Verdicts[v]))
		}
		if err := l.Add(cells...); err != nil {
			return err
		}
	}
	return l.Flush()
}

// readRuns reads two files of JSON lines; missing says what a run lacks, "" for nothing.
func (a *app) readRuns(old, cur string, missing func(*reports.Recording) string) (x, y *reports.Recording, err error) {
	var recs [2]*reports.Recording
	for i, path := range []string{old, cur} {
		if recs[i], err = a.readRecording(path); err != nil {
			return nil, nil, failed(err)
		}
		if what := missing(recs[i]); what != "" {
			return nil, nil, &exitError{ExitFailed, fmt.Errorf("%s: %s", path, what)}
		}
	}
	return recs[0], recs[1], nil
}
