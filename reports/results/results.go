// Package results makes records of package reports of what comparisons and
// replays gave.
package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// OfReplay is what replaying one capture gave: repro is the command that repeats
// it, saved the directory that a failing call was saved to, if any.
func OfReplay(e *capture.Entry, o *replay.Outcome, repro, saved string) *reports.Finding {
	found := &reports.Finding{}
	for _, c := range o.Casts {
		found.Casts = append(found.Casts, []string{o.Op, c.Target, c.Action, c.Config})
	}
	for _, in := range o.Inputs {
		found.Rows = append(found.Rows, inputRow(e, o.Op, in))
	}
	for i := range o.Results {
		r := ofResult(e, o.Op, &o.Results[i])
		r.Repro, r.Saved = &repro, saved
		found.Results = append(found.Results, r)
		if row, ok := r.CompareRow(); ok {
			found.Rows = append(found.Rows, row)
		}
	}
	MarkNotFinite(found.Results, o.NotFinite)
	return found
}

// Instead says that a device ran other functions than the one that was recorded in the place of torch's; "" if it did
// not.
func Instead(e *capture.Entry, ran []string) string {
	if e.Replaced == "" {
		return ""
	}
	return reports.InsteadText(e.Replaced, e.ReplacedAt, ran)
}

// MarkNotFinite has the result of the value that n is in, or the call's first one, say so; n may be nil.
func MarkNotFinite(found []*reports.Result, n *replay.NotFinite) {
	if n == nil || len(found) == 0 {
		return
	}
	at := max(0, slices.IndexFunc(found, func(r *reports.Result) bool {
		return r.Target == n.Target && r.Phase == string(n.Phase)
	}))
	text := n.String()
	if s := found[at].Source; s != nil && *s == "device" { // else a recorded value is what is judged
		text = "as it was recorded, not on the device, " + text
	}
	found[at].NotFinite = &reports.NotFinite{Phase: string(n.Phase), Text: text, Made: n.Made,
		Mask: n.Mask(), OfMask: n.OfMask, Due: n.Due()}
}

// OfCause is a record of a mistake that reproduces what a capture recorded.
func OfCause(e *capture.Entry, c causes.Cause) reports.Cause {
	out := reports.Cause{Capture: e.Rel, Op: e.Op, ForwardID: Known(e.ID), Targets: c.Targets, Text: c.Text,
		Exact: c.Exact, Pattern: c.Pattern}
	if c.Share < 1 {
		out.Share = reports.Num(c.Share)
	}
	return out
}

// OfProfile is a record of how the errors of a value are spread.
func OfProfile(e *capture.Entry, r *replay.Result, p *compare.Profile) *reports.Profile {
	out := &reports.Profile{Capture: e.Rel, Op: e.Op, ForwardID: Known(e.ID), Phase: string(r.Phase),
		Target: r.Target, Numel: p.Numel, Equal: p.Equal, Infinite: p.Infinite,
		Octaves: p.Octaves, OtherSign: p.OtherSign,
		Where: p.Concentrated(), MaxAbs: reports.Number(p.MaxAbs), MaxRel: reports.Number(p.MaxRel)}
	for _, d := range p.Worst {
		out.Worst = append(out.Worst, reports.Deviation{Index: Shape(d.Index), Got: reports.Number(d.Got),
			Want: reports.Number(d.Want), ULPs: reports.Number(d.ULPs)})
	}
	for _, row := range p.Map {
		cells := make([]reports.Number, len(row))
		for i, u := range row {
			cells[i] = reports.Number(u)
		}
		out.Map = append(out.Map, cells)
	}
	return out
}

func ofResult(e *capture.Entry, op string, r *replay.Result) *reports.Result {
	out := OfComparison(r.Compared, r.DType, r.Shape)
	Locate(out, e, op)
	out.Phase, out.Target, out.Label = string(r.Phase), r.Target, r.Label
	out.Argument, out.Parameter = r.Argument, r.Parameter
	out.Verdict, out.Reason, out.Unwritten = r.Verdict, r.Reason, r.Unwritten
	if out.File = r.File; out.File != "" && !strings.Contains(out.File, "/") { // beside the calls of a recording
		out.File = path.Join(path.Dir(e.Rel), out.File)
	}
	out.Default, out.Setting = r.Default, r.Setting
	out.Functions, out.Layout = r.Functions, r.Layout
	if s := r.Sampled; s != nil {
		out.Coverage = reports.Num(float64(s.Checked) / float64(max(*out.Numel, 1)))
		if !math.IsNaN(s.Projected) {
			out.Projected = reports.Num(s.Projected)
		}
	}
	if w := r.Witness; w != nil {
		out.RMSE, out.RecordedRMSE, out.Witness = reports.Num(w.Device), reports.Num(w.Recorded), w.Verdict
	}
	out.Device = r.Device
	out.Sides = r.Sides
	if out.Instead = Instead(e, r.Functions); out.Instead != "" && out.Reason == "" {
		out.Reason = out.Instead
	}
	if r.Source == "" && r.Compared != nil {
		out.RecordedOn, out.Python = RecordedOn(e, r.Place), e.Python
	}
	if x := r.Against; x != nil {
		out.RMSE, out.AgainstRMSE, out.ApartRMSE = reports.Num(x.RMSE), reports.Num(x.Other), reports.Num(x.Apart)
		out.Against = x.Verdict
	}
	if r.Compared != nil {
		source := cmp.Or(r.Source, "captured")
		out.Source, out.Reference = &source, &r.Reference
	}
	return out
}

// inputRow is op_tools' row of an argument, which has no verdict.
func inputRow(e *capture.Entry, op string, in replay.InputRow) reports.CompareRow {
	id := ""
	if e.ID >= 0 {
		id = strconv.Itoa(e.ID)
	}
	n := in.Numbers
	return reports.CompareRow{
		ForwardID: id, Name: op + " " + in.Label, Allclose: n.AllClose, Cosine: n.Cosine, MaxAbs: n.MaxAbs,
		MaxRelative: n.MaxRel, ATol: n.Atol, RTol: n.Rtol, ErrorInfo: n.Note,
	}
}

// RecordedOn says on what device a value was recorded and by which version of torch, as far as that is known. place is
// the device of its tensor, "" for the CPU. Files of op_tools may hold copies on the CPU.
func RecordedOn(e *capture.Entry, place string) string {
	switch {
	case e.Torch != "":
		return cmp.Or(place, "cpu") + " with torch " + e.Torch
	case place != "cpu":
		return place
	}
	return ""
}

// OfComparison is a record of what a comparison of tensors of this dtype and shape
// gave; c is nil where there was none, and the dtype Invalid for other values.
func OfComparison(c *compare.Result, dt tensor.DType, shape []int) *reports.Result {
	out := &reports.Result{}
	if dt != tensor.Invalid {
		name := dt.String()
		out.DType = &name
		out.Shape = slices.Clone(shape)
		if out.Shape == nil {
			out.Shape = []int{}
		}
	}
	if c == nil {
		return out
	}
	n := c.OpTools
	out.Allclose = &n.AllClose
	out.Cosine, out.MaxAbs, out.MaxRel = reports.Num(n.Cosine), reports.Num(n.MaxAbs), reports.Num(n.MaxRel)
	out.ATol, out.RTol = reports.Num(n.Atol), reports.Num(n.Rtol)
	if !math.IsNaN(c.MaxULP) { // null where it does not apply
		out.MaxULP = reports.Num(c.MaxULP)
		if !math.IsNaN(c.WorstULP) {
			out.WorstULP = reports.Num(c.WorstULP)
		}
	}
	if c.BoundRatio > 0 {
		out.BoundRatio = reports.Num(c.BoundRatio)
	}
	if c.RelativeError > 0 {
		out.RelativeError = reports.Num(c.RelativeError)
	}
	out.Mismatch, out.Numel, out.Rule, out.ErrorInfo = &c.Mismatched, &c.Numel, &c.Rule, n.Note
	out.Coverage = reports.Num(1)
	if d := c.Distribution; d != nil {
		f, sf := d.Factor()
		b, sb := d.Offset()
		away, up, su := d.Rounding()
		out.Errors = &reports.Errors{Factor: reports.Num(f), FactorError: reports.Num(sf), Offset: reports.Num(b),
			OffsetError: reports.Num(sb), Inexact: d.Inexact, Away: reports.Num(away), Up: reports.Num(up),
			ULPError: reports.Num(su), Beyond: d.Beyond}
	}
	if c.WorstIndex != nil {
		out.Worst = c.WorstIndex
		out.Actual, out.Expected = Value(c.Actual), Value(c.Expected)
	}
	return out
}

// Value is an element as JSON: a number, or a string for what JSON cannot hold.
func Value(v any) json.RawMessage {
	switch x := v.(type) {
	case float64:
		b, _ := reports.Number(x).MarshalJSON()
		return b
	case complex128:
		return fmt.Appendf(nil, "%q", strconv.FormatComplex(x, 'g', -1, 128))
	case nil:
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Appendf(nil, "%q", fmt.Sprint(v))
	}
	return b
}
