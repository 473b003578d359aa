package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/contents"
	"github.com/optool/optool/tensor/value"
	"github.com/optool/optool/timing"
)

// A timeTable prints series as they are known: one per line, or in few columns
// below a line for each call.
type timeTable struct {
	w        io.Writer
	list     *reports.Listing
	width    int
	narrow   bool
	peak     bool
	accuracy bool
	last     string          // the line of the call, in few columns
	marks    map[string]bool // doubts that were printed as a mark
}

// timeWidth is the width from which a series fits into one line with its call.
const timeWidth = 180

// doubtMarks stand for doubts where there is no room for them.
var doubtMarks = []struct{ mark, kind, text string }{
	{"!", "invalid", "invalid: faster than the peak"},
	{"w", "disturbed", "disturbed: its threads waited for a processor, more than 2 % of the time"},
	{"?", "few", "few: less than five runs say little of how the time varies"},
	{"~", "noisy", "noisy: the middle half spans more than a tenth of the median"},
}

// newTimeTable prints to w in lines of at most width columns, 0 for no limit.
func newTimeTable(w io.Writer, width int, peak, accuracy bool) *timeTable {
	t := &timeTable{w: w, width: width, narrow: width > 0 && width < timeWidth, peak: peak, accuracy: accuracy,
		marks: map[string]bool{}}
	head := []string{"op", "id", "phase", "cache", "n", "median", "q1", "q3", "GB/s", "GFLOP/s", "memory"}
	numbers := 4
	if t.narrow {
		head, numbers = head[2:], 2
		if !t.wideEnough() {
			head = head[:len(head)-2]
		}
	}
	if t.peak {
		head = append(head, "% of peak")
	}
	to := len(head)
	switch {
	case !t.narrow:
		head = append(head, "stopped by", "calls", "inputs", "doubt")
		if accuracy {
			head = append(head, "accuracy")
		}
	case t.wideEnough():
		head = append(head, "stopped by", "")
	default:
		head = append(head, "")
	}
	t.list = reports.NewListing(w, width, head...)
	for i := numbers; i < to; i++ {
		t.list.Right(i)
	}
	return t
}

// wideEnough reports whether few columns leave room for some more.
func (t *timeTable) wideEnough() bool { return t.width >= 110 }

// add prints a series; worst is the verdict on the results of the call.
func (t *timeTable) add(x *reports.Timing, worst verdict.Verdict) error {
	m := x.Series.Summary()
	bandwidth, flops := x.Rates()
	id := "-"
	if x.ForwardID != nil {
		id = strconv.Itoa(*x.ForwardID)
	}
	cells := []string{
		x.Phase, string(x.Series.Cache), strconv.Itoa(m.N), timing.Format(m.Median), timing.Format(m.Q1),
		timing.Format(m.Q3),
		fmt.Sprintf("%.3g", bandwidth/1e9),
	}
	if !t.narrow || t.wideEnough() {
		cells = append(cells, fmt.Sprintf("%.3g", flops/1e9), x.MemoryText())
	}
	if t.peak {
		cells = append(cells, fmt.Sprintf("%.1f", 100*x.Share()))
	}
	if !t.narrow {
		cells = append(append([]string{x.Op, id}, cells...), string(x.Series.Stop), strconv.Itoa(x.Calls),
			x.Shapes, x.Doubt())
		if t.accuracy {
			cells = append(cells, string(worst))
		}
		return t.list.Add(cells...)
	}
	t.call(x, id, worst)
	if t.wideEnough() {
		cells = append(cells, string(x.Series.Stop))
	}
	return t.list.Add(append(cells, t.mark(x.Doubt()))...)
}

// call prints the line of a call, and a second one where its inputs do not fit.
func (t *timeTable) call(x *reports.Timing, id string, worst verdict.Verdict) {
	if key := x.Op + " " + x.Capture; key != t.last {
		t.last = key
		line := x.Op + "  " + id
		if x.Calls > 1 {
			line += fmt.Sprintf("  %d calls", x.Calls)
		}
		if t.accuracy {
			line += "  " + cmp.Or(string(worst), "-")
		}
		if full := line + "  " + x.Shapes; utf8.RuneCountInString(full) <= t.width {
			t.list.Line(full)
		} else {
			t.list.Line(line)
			t.list.Line("  " + x.Shapes)
		}
	}
}

// mark is the mark that stands for a doubt.
func (t *timeTable) mark(doubt string) string {
	kind, _, _ := strings.Cut(doubt, ":")
	for _, d := range doubtMarks {
		if d.kind == kind {
			t.marks[kind] = true
			return d.mark
		}
	}
	return ""
}

// legend explains the marks that were printed.
func (t *timeTable) legend() error {
	for _, d := range doubtMarks {
		if t.marks[d.kind] {
			if _, err := fmt.Fprintf(t.w, "%s  %s\n", d.mark, d.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// opToolsTables prints what op_tools prints of a call: its arguments and
// results with the times of the forward pass, its gradients with those of the
// backward pass; the runs stand in one table.
func (t *timer) opToolsTables(k *timed.Task) error {
	c, _ := k.Entry.Load(capture.LoadOptions{Read: t.o.read})
	defer c.Close()
	var p page
	for _, kind := range []capture.Kind{capture.Input, capture.Output} {
		p.add(k.Entry, c, capture.Device, kind)
	}
	for _, g := range []struct {
		name string
		kind capture.Kind
	}{{" grad_outputs", capture.GradOutputs}, {" grad_inputs", capture.GradInputs}} {
		p.backward = append(p.backward, contents.Rows(k.Op+g.name, gradTuple(c, g.kind), nil, nil)...)
	}
	rows, err := t.timeRows(k)
	if err != nil {
		return err
	}
	w, width := t.json.text(), t.tableWidth()
	forward, backward := make([]reports.TimeRow, 0, len(rows)), make([]reports.TimeRow, 0, len(rows))
	for i, r := range rows {
		r.ForwardID = t.csv.ids[k.Op] + i + 1
		f, b := r, r
		f.Backward, b.Forward = -1, -1
		if f.Forward >= 0 {
			forward = append(forward, f)
		}
		if b.Backward >= 0 {
			backward = append(backward, b)
		}
	}
	fmt.Fprintf(w, "\n%s    forward_id: %s\n", k.Op, k.Entry.Number(c.Identifier))
	if err := reports.WriteArgs(w, width, contents.Plain(p.forward)); err != nil {
		return err
	}
	if err := reports.WriteTimes(w, width, forward); err != nil {
		return err
	}
	if len(backward) == 0 {
		return nil
	}
	if err := reports.WriteArgs(w, width, contents.Plain(p.backward)); err != nil {
		return err
	}
	return reports.WriteTimes(w, width, backward)
}

// timeRows are the runs of a task as op_tools' file has them: forward and
// backward of the same number in one row, hot if there are hot ones. Where the
// number of runs was left to optool, which takes thousands, the medians stand for
// them in one row.
func (t *timer) timeRows(k *timed.Task) ([]reports.TimeRow, error) {
	cache := t.measuring.Caches[len(t.measuring.Caches)-1]
	var forward, backward []timing.Sample
	for _, r := range k.Series {
		runs := r.Series.Samples
		if t.o.runTimes == 0 {
			runs = timing.Samples(r.Series.Summary().Median)
		}
		switch {
		case r.Series.Cache != cache:
		case r.Phase == "forward":
			forward = runs
		default:
			backward = runs
		}
	}
	c, _ := k.Entry.Load(capture.LoadOptions{Read: t.o.read})
	defer c.Close()
	text := func(kind capture.Kind) string {
		if !c.Has(kind) {
			return "-"
		}
		var kwargs *value.Dict
		if kind == capture.Input {
			kwargs = c.Kwargs
		}
		args := c.Values(kind)
		if kind == capture.GradInputs || kind == capture.GradOutputs {
			args = gradTuple(c, kind)
		}
		return contents.Describe(args, kwargs, c.Addresses(kind))
	}
	row := reports.TimeRow{Name: k.Op, Input: text(capture.Input), Output: text(capture.Output), GradInputs: "-",
		GradOutputs: "-"}
	if len(backward) > 0 {
		row.GradInputs, row.GradOutputs = text(capture.GradInputs), text(capture.GradOutputs)
	}
	rows := make([]reports.TimeRow, max(len(forward), len(backward)))
	at := func(samples []timing.Sample, i int) time.Duration {
		if i < len(samples) {
			return samples[i].Elapsed
		}
		return -1
	}
	for i := range rows {
		rows[i] = row
		rows[i].Forward, rows[i].Backward = at(forward, i), at(backward, i)
	}
	return rows, nil
}

// gradTuple is the gradients of a call as op_tools' timer has them: one tuple.
func gradTuple(c *capture.Call, k capture.Kind) []value.Value {
	return []value.Value{value.NewTuple(c.Values(k)...)}
}
