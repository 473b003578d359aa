package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/timing"
)

// collect finds the calls to measure.
func (t *timer) collect(ctx context.Context, paths []string) ([]*timed.Task, error) {
	tasks := timed.Tasks{Each: t.o.each}
	for f := range scan(ctx, paths, capture.Options{}) {
		t.tally.walked++
		if f.err != nil {
			t.refuse(f.err)
			continue
		}
		name, err := t.o.hides(f.entry)
		if err != nil {
			t.refuse(err)
		}
		t.settings.Hide(name)
		if err != nil || name != "" {
			continue
		}
		t.tally.captures++
		if err := tasks.Add(f.entry, t.measuring.Replay); err != nil {
			if err := t.leave(f.entry, f.entry.Op, err); err != nil {
				return nil, failed(err)
			}
		}
	}
	if ctx.Err() != nil {
		return nil, failed(ctx.Err())
	}
	for _, k := range tasks.List {
		var err error
		if k.Peak, err = t.peaks.Of(k.DType); err != nil {
			return nil, failed(err)
		}
	}
	return tasks.List, t.o.found(t.tally, paths)
}

func (t *timer) refuse(err error) {
	t.tally.refused++
	t.warn("%v", err)
}

// measureAll measures the tasks and reports each.
func (t *timer) measureAll(ctx context.Context, tasks []*timed.Task) error {
	bar := t.newProgress("time", "call")
	defer bar.end()
	bar.expect(len(tasks), 0)
	for k, err := range t.measuring.Run(ctx, tasks) {
		bar.add(false, 0)
		if k != nil {
			if err := bar.print(func() error { return t.report(k) }); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// against prints and writes how the device compares with the other, unless there is none.
func (t *timer) against(w io.Writer) error {
	if t.o.against == "" {
		return nil
	}
	for i := range t.changes {
		if err := t.json.write(&t.changes[i]); err != nil {
			return err
		}
	}
	if err := t.printChanges(w, t.changes, t.rivals()); err != nil {
		return err
	}
	n := countChanges(t.changes, t.o.threshold/100)
	t.compared = &n
	fmt.Fprintf(w, "%s against %s: %s\n", t.o.device, t.o.against, n)
	printDoubts(w, t.changes)
	if text := reports.Doubted(t.rival); text != "" {
		fmt.Fprintln(w, t.style().Wrap(fmt.Sprintf("warning: of %s, %s", t.rivals()[0], text), 2))
	}
	other, _ := devicebridge.Digest(t.o.against)
	if n.SameLibrary = other != "" && other == t.digest; n.SameLibrary {
		fmt.Fprintln(w, sameLibrary)
	}
	if t.o.sameFunctions() {
		fmt.Fprintln(w, "both ran the same functions on the same device: what differs is noise")
	}
	measured := func(op string) bool {
		return slices.ContainsFunc(t.changes, func(c reports.TimingChange) bool { return c.Op == op })
	}
	for _, text := range t.o.ranInstead(t.rivals(), measured) {
		fmt.Fprintln(w, t.style().Wrap(text, 2))
	}
	return nil
}

// rivals name the other device and the one that is measured.
func (t *timer) rivals() [2]string {
	run := reports.Run{Device: t.o.device, Against: t.o.against}
	return run.Rivals()
}

// insteads say of which functions of the program, recorded in the place of torch's, the devices ran torch's own or
// theirs.
func (t *timer) insteads() (texts []string) {
	if t.o.none() {
		return nil
	}
	for _, e := range t.replaced {
		ran := []string{"the library's own function"}
		if isTorch(t.o.device) || isTorch(t.o.against) {
			ran = []string{cmp.Or(t.o.torch.maps[e.Op], e.Op)}
		}
		text := reports.Name(e.Op) + " was " + results.Instead(e, ran)
		if results.Instead(e, ran) != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// An accuracy compares the results of what is measured with the reference.
type accuracy struct {
	o       replayOptions
	opt     replay.Options
	saver   *failureSaver
	csv     *lazyCSV
	summary *reports.Summary
	// verdicts are the worst of the results of each call.
	verdicts map[*timed.Task]verdict.Verdict
}

func (t *timer) newAccuracy(start time.Time) (*accuracy, error) {
	tol, err := t.o.tolerances.load(t.measuring.Replay.Registry)
	if err != nil {
		return nil, err
	}
	c := &accuracy{
		o: replayOptions{searches: &searches{}, selection: t.o.selection, deviceFlags: t.o.deviceFlags,
			forwardOnly: t.o.forwardOnly, tolerances: t.o.tolerances},
		opt: t.measuring.Replay, saver: &failureSaver{dir: t.o.out, now: start, pid: os.Getpid()},
		csv:     &lazyCSV{dir: t.o.out, block: t.o.csvBlock},
		summary: reports.NewSummary(), verdicts: map[*timed.Task]verdict.Verdict{},
	}
	c.opt.Tolerances = tol
	c.summary.Settings = t.o.tolerances.settings(tol)
	if t.measuring.Device != nil {
		c.opt.Device = t.measuring.Device
	}
	return c, nil
}

// look replays a task, and prints and writes what is found.
func (c *accuracy) look(ctx context.Context, t *timer, k *timed.Task) error {
	r := c.o.replayWithin(ctx, t.limits, found{entry: k.Entry}, c.opt, c.saver, func() error { return nil })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.err != nil || r.unsaved != nil:
		t.refuse(errors.Join(r.err, r.unsaved))
	}
	if r.found == nil {
		return nil
	}
	c.verdicts[k] = r.found.Worst()
	for _, res := range r.found.Results {
		c.summary.Add(res)
		if err := t.json.result(res); err != nil {
			return err
		}
	}
	if err := c.csv.rows(r.found.Rows); err != nil || !r.found.Bad() {
		return err
	}
	return r.found.Write(t.json.text(), t.style())
}

// leave tells that a call cannot be measured: what is not supported is listed in
// the end, anything else is a warning at once.
func (t *timer) leave(e *capture.Entry, op string, err error) error {
	v := verdict.Error
	var failed *replay.CallError
	switch {
	case errors.Is(err, opdef.ErrUnknownOp):
		v = verdict.Unsupported
	case errors.Is(err, pthformat.ErrNothingSaved):
		t.left.add(op, pthformat.ErrNothingSaved.Error())
		return t.unmeasured(e, op, "", verdict.Invalid, err)
	case errors.As(err, &failed):
		v = failed.Verdict
	}
	switch v {
	case verdict.Unsupported:
		t.left.add(op, err.Error())
	case verdict.Error:
		t.tally.refused++
		t.warn("%s: %v", e.Rel, err)
	default:
		t.left.failed = true
		t.warn("%s: %v", e.Rel, err)
	}
	return t.unmeasured(e, op, "", v, err)
}

// forwardOnly tells that the device has no backward pass for a call.
func (t *timer) forwardOnly(k *timed.Task) error {
	t.left.forward++
	return t.unmeasured(k.Entry, k.Op, "backward", verdict.Unsupported, k.NoBackward)
}

// unmeasured writes the JSON line of a phase that was not measured, of the whole
// call if phase is empty.
func (t *timer) unmeasured(e *capture.Entry, op, phase string, v verdict.Verdict, err error) error {
	return t.json.write(struct {
		Kind      string          `json:"kind"`
		Capture   string          `json:"capture"`
		Op        string          `json:"op"`
		ForwardID *int            `json:"forward_id"`
		Phase     string          `json:"phase"`
		Verdict   verdict.Verdict `json:"verdict"`
		Reason    string          `json:"reason"`
	}{"unmeasured", e.Rel, op, results.Known(e.ID), phase, v, err.Error()})
}

// report prints and writes what was measured of a task.
func (t *timer) report(k *timed.Task) error {
	if k.NoBackward != nil {
		if err := t.forwardOnly(k); err != nil {
			return err
		}
	}
	if k.Err != nil {
		if err := t.leave(k.Entry, k.Op, k.Err); err != nil {
			return err
		}
	}
	if len(k.Series) == 0 {
		return nil
	}
	if k.Entry.Replaced != "" {
		t.replaced = append(t.replaced, k.Entry)
	}
	if t.o.sync {
		if err := t.opToolsTables(k); err != nil {
			return err
		}
	}
	if err := t.csv.add(t, k); err != nil {
		return err
	}
	if t.table == nil {
		w := t.json.text()
		if t.quiet { // no call is a finding by its time
			w = io.Discard
		}
		t.table = newTimeTable(w, t.outputWidth(), t.peaks.Known(), t.check != nil)
	}
	worst := verdict.Verdict("")
	if t.check != nil {
		worst = t.check.verdicts[k]
	}
	for i, r := range k.Series {
		t.done = append(t.done, r)
		if t.json.lines != nil {
			if err := t.json.lines.Timing(r); err != nil {
				return err
			}
		}
		if k.Against != nil {
			other := *r
			other.Series = k.Against[i]
			t.rival = append(t.rival, &other)
			t.changes = append(t.changes, reports.TimingChange{TimingKey: r.Key(), Accuracy: string(worst),
				Change: timing.ComparePair(k.Against[i].Samples, r.Series.Samples, t.measuring.Resolution),
				Doubts: [2]string{other.Doubt(), r.Doubt()}})
		} else if err := t.table.add(r, worst); err != nil {
			return err
		}
		if t.o.histogram {
			if err := t.table.list.Flush(); err != nil {
				return err
			}
			if err := reports.Histogram(t.json.text(), t.outputWidth(), r.Series); err != nil {
				return err
			}
		}
	}
	return t.table.list.Flush()
}
