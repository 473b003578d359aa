package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
	"github.com/optool/optool/verdict"
)

// compareTimes compares two files of JSON lines that time wrote: series by
// series, then op by op over the medians.
func (a *app) compareTimes(old, cur string, threshold float64, jsonPath string) error {
	x, err := a.readTimes(old)
	if err != nil {
		return err
	}
	y, err := a.readTimes(cur)
	if err != nil {
		return err
	}
	j, err := a.openJSON(jsonPath, "none")
	if err != nil {
		return err
	}
	defer j.close()
	head := []string{"op", "capture", "phase", "cache", "old", "new", "change", "p", "verdict", "accuracy"}
	width, named := a.outputWidth(), 2 // columns that name the call
	if width > 0 && width < timeWidth {
		head, named = head[2:], 0
	}
	l := reports.NewListing(j.text(), width, head...)
	for i := range 4 {
		l.Right(named + 2 + i)
	}
	now := map[reports.TimingKey]*reports.Timing{}
	for _, t := range y.Timings {
		now[t.Key()] = t
	}
	oldVerdicts, newVerdicts := x.Verdicts(), y.Verdicts()
	last := ""
	counts := map[timing.Verdict]int{}
	var totals opTotals
	slower := 0
	for _, t := range x.Timings {
		k := t.Key()
		if now[k] == nil {
			continue
		}
		c := timing.Compare(t.Series.Samples, now[k].Series.Samples)
		counts[c.Verdict]++
		totals.add(k, c)
		if c.Verdict == timing.Slower && c.Ratio-1 > threshold {
			slower++
		}
		accuracy := accuracyChange(oldVerdicts[k.Capture], newVerdicts[k.Capture])
		p := "-"
		if !math.IsNaN(c.P) {
			p = fmt.Sprintf("%.2g", c.P)
		}
		if line := k.Op + "  " + k.Capture; named == 0 && line != last {
			last = line
			l.Line(line)
		}
		cells := []string{k.Op, k.Capture, k.Phase, k.Cache, timing.Format(c.Old.Median), timing.Format(c.New.Median),
			percent(c.Ratio), p, string(c.Verdict), accuracy}
		if err := l.Add(cells[2-named:]...); err != nil {
			return failed(err)
		}
		if err := j.write(newTimeChange(k, c, accuracy)); err != nil {
			return failed(err)
		}
	}
	if err := l.Flush(); err != nil {
		return failed(err)
	}
	compared := len(totals.series)
	if err := totals.print(a, j); err != nil {
		return failed(err)
	}
	fmt.Fprintf(j.text(), "%d compared: %d same, %d faster, %d slower, %d ambiguous; %d only in %s, %d only in %s\n",
		compared,
		counts[timing.Same], counts[timing.Faster], counts[timing.Slower], counts[timing.Ambiguous],
		len(x.Timings)-compared, old, len(y.Timings)-compared, cur)
	unlike := x.Run.Unlike(&y.Run)
	for _, d := range unlike {
		fmt.Fprintf(j.text(), "the runs differ in more than what was measured: %s\n", d)
	}
	same := x.Run.LibrarySHA256 != "" && x.Run.LibrarySHA256 == y.Run.LibrarySHA256
	if same {
		fmt.Fprintln(j.text(), "both measured the same device library")
	}
	if err := j.write(map[string]any{
		"kind": "summary", "unlike": append([]string{}, unlike...), "same_library": same, "compared": compared,
		"same": counts[timing.Same], "faster": counts[timing.Faster],
		"slower": counts[timing.Slower], "ambiguous": counts[timing.Ambiguous], "beyond_threshold": slower,
	}); err != nil {
		return failed(err)
	}
	switch {
	case compared == 0:
		return &exitError{ExitFailed, fmt.Errorf("%s, %s: no call was measured in both", old, cur)}
	case slower > 0:
		return exitWith(ExitDiffers)
	}
	return nil
}

func (a *app) readTimes(path string) (*reports.Recording, error) {
	rec, err := a.readRecording(path)
	if err != nil {
		return nil, &exitError{ExitFailed, fmt.Errorf("%s: %w", path, err)}
	}
	if len(rec.Timings) == 0 {
		return nil, &exitError{ExitFailed, fmt.Errorf("%s: no timings in it: want the file of optool time --json",
			path)}
	}
	return rec, nil
}

// accuracyChange says how the worst verdict of a capture changed, where both
// runs have one.
func accuracyChange(old, cur verdict.Verdict) string {
	switch {
	case old == "" || cur == "":
		return ""
	case old == cur:
		return string(cur)
	}
	return string(old) + " -> " + string(cur)
}

func percent(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(ratio-1))
}

// A timeChange is the JSON line of one comparison.
type timeChange struct {
	Kind     string         `json:"kind"`
	Capture  string         `json:"capture"`
	Op       string         `json:"op"`
	Phase    string         `json:"phase"`
	Cache    string         `json:"cache"`
	Verdict  string         `json:"verdict"`
	Old      int64          `json:"old_median_ns"`
	New      int64          `json:"new_median_ns"`
	Ratio    reports.Number `json:"ratio"`
	Gap      reports.Number `json:"gap"`      // between the intervals, over the old median
	P        reports.Number `json:"p"`        // of the Mann-Whitney U test
	OldCalm  int            `json:"old_calm"` // samples that did not wait for a processor
	NewCalm  int            `json:"new_calm"`
	Accuracy string         `json:"accuracy"`
}

func newTimeChange(k reports.TimingKey, c timing.Change, accuracy string) timeChange {
	return timeChange{
		Kind: "timing_change", Capture: k.Capture, Op: k.Op, Phase: k.Phase, Cache: k.Cache, Verdict: string(c.Verdict),
		Old: int64(c.Old.Median), New: int64(c.New.Median), Ratio: reports.Number(c.Ratio), Gap: reports.Number(c.Gap),
		P: reports.Number(c.P), OldCalm: c.OldCalm, NewCalm: c.NewCalm, Accuracy: accuracy,
	}
}

// opTotals sums the medians of an op, in order of appearance.
type opTotals struct {
	series []reports.TimingKey
	order  []string
	byOp   map[string]*opTotal
}

type opTotal struct {
	old, cur time.Duration
	verdicts map[timing.Verdict]int
}

func (o *opTotals) add(k reports.TimingKey, c timing.Change) {
	if o.byOp == nil {
		o.byOp = map[string]*opTotal{}
	}
	o.series = append(o.series, k)
	name := k.Op + " " + k.Phase + " " + k.Cache
	t := o.byOp[name]
	if t == nil {
		t = &opTotal{verdicts: map[timing.Verdict]int{}}
		o.byOp[name] = t
		o.order = append(o.order, name)
	}
	t.old += c.Old.Median
	t.cur += c.New.Median
	t.verdicts[c.Verdict]++
}

// print prints the ops that were measured in more than one capture.
func (o *opTotals) print(a *app, j *jsonOutput) error {
	l := reports.NewListing(j.text(), a.outputWidth(), "op", "captures", "old", "new", "change", "same", "faster",
		"slower", "ambiguous")
	for i := 1; i < 9; i++ {
		l.Right(i)
	}
	rows := 0
	for _, name := range o.order {
		t := o.byOp[name]
		n := 0
		for _, v := range t.verdicts {
			n += v
		}
		if n < 2 {
			continue
		}
		rows++
		ratio := 0.0
		if t.old > 0 {
			ratio = float64(t.cur) / float64(t.old)
		}
		if err := l.Add(name, strconv.Itoa(n), timing.Format(t.old), timing.Format(t.cur), percent(ratio),
			strconv.Itoa(t.verdicts[timing.Same]),
			strconv.Itoa(t.verdicts[timing.Faster]), strconv.Itoa(t.verdicts[timing.Slower]),
			strconv.Itoa(t.verdicts[timing.Ambiguous])); err != nil {
			return err
		}
	}
	if rows > 0 {
		fmt.Fprintln(j.text())
	}
	return l.Flush()
}
