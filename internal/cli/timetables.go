package cli

import (
	"fmt"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/contents"
	"github.com/optool/optool/tensor/value"
	"github.com/optool/optool/timing"
)

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
