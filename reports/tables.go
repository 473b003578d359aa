package reports

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/timing"
)

// A Sheet is a table for a file: every row has a cell for each column. Cells are
// nil, bool, int, float64 or string.
type Sheet struct {
	Name    string
	Columns []string
	Rows    iter.Seq[[]any]
	Indexed []string // columns that a database keeps an index of
}

// Cells of a result, under the names they have in JSON lines.
var resultColumns = []struct {
	name string
	cell func(*Result) any
}{
	{"capture", func(r *Result) any { return r.Capture }},
	{"op", func(r *Result) any { return r.Op }},
	{"forward_id", func(r *Result) any { return cell(r.ForwardID) }},
	{"phase", func(r *Result) any { return r.Phase }},
	{"target", func(r *Result) any { return r.Target }},
	{"verdict", func(r *Result) any { return string(r.Verdict) }},
	{"reason", func(r *Result) any { return r.Reason }},
	{"allclose", func(r *Result) any { return cell(r.Allclose) }},
	{"cosine_similarity", func(r *Result) any { return numberCell(r.Cosine) }},
	{"max_abs_diff", func(r *Result) any { return numberCell(r.MaxAbs) }},
	{"max_relative_diff", func(r *Result) any { return numberCell(r.MaxRel) }},
	{"max_ulp", func(r *Result) any { return numberCell(r.MaxULP) }},
	{"mismatched", func(r *Result) any { return cell(r.Mismatch) }},
	{"numel", func(r *Result) any { return cell(r.Numel) }},
	{"atol", func(r *Result) any { return numberCell(r.ATol) }},
	{"rtol", func(r *Result) any { return numberCell(r.RTol) }},
	{"rule", func(r *Result) any { return cell(r.Rule) }},
	{"worst_index", func(r *Result) any { return indexCell(r.Worst) }},
	{"actual", func(r *Result) any { return valueCell(r.Actual) }},
	{"expected", func(r *Result) any { return valueCell(r.Expected) }},
	{"dtype", func(r *Result) any { return cell(r.DType) }},
	{"shape", func(r *Result) any { return indexCell(r.Shape) }},
	{"source", func(r *Result) any { return cell(r.Source) }},
	{"reference", func(r *Result) any { return cell(r.Reference) }},
	{"repro", func(r *Result) any { return cell(r.Repro) }},
	{"label", func(r *Result) any { return textCell(r.Label) }},
	{"error_info", func(r *Result) any { return textCell(r.ErrorInfo) }},
	{"saved", func(r *Result) any { return textCell(r.Saved) }},
	{"functions", func(r *Result) any { return textCell(strings.Join(r.Functions, " ")) }},
	{"layout", func(r *Result) any { return textCell(r.Layout) }},
	{"rmse", func(r *Result) any { return numberCell(r.RMSE) }},
	{"recorded_rmse", func(r *Result) any { return numberCell(r.RecordedRMSE) }},
	{"witness", func(r *Result) any { return textCell(r.Witness) }},
	{"order", func(r *Result) any { return cell(r.Order) }},
	{"pid", func(r *Result) any { return cell(r.PID) }},
	{"rank", func(r *Result) any { return cell(r.Rank) }},
	{"module", func(r *Result) any { return textCell(r.Module) }},
	{"location", func(r *Result) any { return textCell(r.Location) }},
	{"unwritten", func(r *Result) any { return r.Unwritten }},
	{"default_verdict", func(r *Result) any { return textCell(string(r.Default)) }},
	{"setting", func(r *Result) any { return textCell(r.Setting) }},
	{"bound_ratio", func(r *Result) any { return numberCell(r.BoundRatio) }},
	{"coverage", func(r *Result) any { return numberCell(r.Coverage) }},
	{"projected", func(r *Result) any { return numberCell(r.Projected) }},
	{"device", func(r *Result) any { return textCell(r.Device) }},
	{"against_rmse", func(r *Result) any { return numberCell(r.AgainstRMSE) }},
	{"apart_rmse", func(r *Result) any { return numberCell(r.ApartRMSE) }},
	{"against", func(r *Result) any { return textCell(r.Against) }},
	{"occurrence", func(r *Result) any { return cell(r.Occurrence) }},
	{"relative_error", func(r *Result) any { return numberCell(r.RelativeError) }},
	{"worst_ulp", func(r *Result) any { return numberCell(cmp.Or(r.WorstULP, r.MaxULP)) }},
}

// Cells of the statistics of an overflow check.
var statsColumns = []struct {
	name string
	cell func(*Stats) any
}{
	{"nan", func(s *Stats) any { return s.NaN }},
	{"inf", func(s *Stats) any { return s.Inf }},
	{"min", func(s *Stats) any { return numberCell(s.Min) }},
	{"max", func(s *Stats) any { return numberCell(s.Max) }},
	{"mean", func(s *Stats) any { return numberCell(s.Mean) }},
	{"std", func(s *Stats) any { return numberCell(s.Std) }},
	{"norm", func(s *Stats) any { return numberCell(s.Norm) }},
}

// cell is what a pointer points to, nil for none.
func cell[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func numberCell(n *Number) any {
	if n == nil {
		return nil
	}
	return float64(*n)
}

func textCell(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// indexCell is a shape or an index as IndexText writes it, nothing if there is none.
func indexCell(v []int) any {
	if v == nil {
		return nil
	}
	return IndexText(v)
}

// IndexText writes a shape or an index: [2, 3].
func IndexText(v []int) string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// valueCell is a JSON value: a number where it is one, nan and infinities
// among them.
func valueCell(raw json.RawMessage) any {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var n Number
	if n.UnmarshalJSON(raw) == nil {
		return float64(n)
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		switch v := v.(type) {
		case bool, string:
			return v
		}
	}
	return string(raw)
}

// ResultSheet has a row for each result, or for each series that was measured.
func (rec *Recording) ResultSheet() Sheet {
	if len(rec.Timings) > 0 {
		return rec.timingSheet()
	}
	return rec.SheetOf(rec.Results.All())
}

// What cells of causes say where none is known.
const (
	NoneFound = "none of the mistakes that optool tried reproduces it"
	notSought = "not sought"
)

// causeOf finds the first cause of a result. A result without one that is wrong in the same words as one of another
// call of the operator has that of the other call, with its name, and otherwise the pattern of its own errors. What
// is wrong and has neither says whether a cause was sought.
func (rec *Recording) causeOf() func(r *Result) *Cause {
	type call struct{ capture, op string }
	type lead struct {
		cause *Cause
		of    *Result
	}
	own, like := map[call][]*Cause{}, map[string]lead{}
	for _, c := range rec.Causes {
		own[call{c.Capture, c.Op}] = append(own[call{c.Capture, c.Op}], c)
	}
	of := func(r *Result) *Cause {
		for _, c := range own[call{r.Capture, r.Op}] {
			if slices.Contains(c.Targets, r.Target) {
				return c
			}
		}
		return nil
	}
	kind := func(r *Result) string {
		var b strings.Builder
		b.WriteString(r.Op)
		r.writeKind(&b)
		return b.String()
	}
	none := map[string]bool{}
	for _, p := range rec.Summary.NoCause {
		none[p.Capture] = true
	}
	noneLike := map[string]*Result{}
	if len(own)+len(none) > 0 {
		for r := range rec.Results.All() {
			k := ""
			if c := of(r); c != nil {
				if k = kind(r); like[k].of == nil {
					like[k] = lead{c, r}
				}
			} else if none[r.Capture] && r.listed() {
				if k = kind(r); noneLike[k] == nil {
					noneLike[k] = r
				}
			}
		}
	}
	name := func(r, other *Result) string {
		// Calls of another process, or in another folder, have numbers of their own.
		if other.process() != r.process() || other.place().Folder != r.place().Folder {
			return OneLine(other.Capture)
		}
		return other.shortName()
	}
	// missing is what is said where no cause is known.
	missing := func(r *Result) *Cause {
		if rec.Summary.NoCause == nil || !r.Verdict.Wrong() && r.Verdict != verdict.Repaired ||
			rec.Summary.Shown(r) == ReadsOtherValues {
			return nil
		}
		c := &Cause{Capture: r.Capture, Op: r.Op, ForwardID: r.ForwardID, Targets: []string{r.Target}, Text: notSought,
			Pattern: true, Unfinished: true}
		if other := noneLike[kind(r)]; none[r.Capture] || len(own[call{r.Capture, r.Op}]) > 0 { // of other values
			c.Text = NoneFound
		} else if other != nil {
			c.Text, c.like = NoneFound, name(r, other)
		}
		return c
	}
	return func(r *Result) *Cause {
		c := of(r)
		if c == nil && r.Finding() {
			if other := like[kind(r)]; other.of != nil {
				found := *other.cause
				found.like = name(r, other.of)
				c = &found
			}
		}
		if c == nil || c.Unfinished {
			if pattern := r.pattern(); pattern != "" && r.Finding() {
				return &Cause{Capture: r.Capture, Op: r.Op, ForwardID: r.ForwardID, Targets: []string{r.Target},
					Text: pattern, Pattern: true, seen: true}
			}
		}
		if c == nil {
			return missing(r)
		}
		return c
	}
}

// SheetOf has a row for each of some results, with its cause, and statistics if they are of an overflow check.
func (rec *Recording) SheetOf(results iter.Seq[*Result]) Sheet {
	overflow := rec.Overflow
	s := Sheet{Name: "results"}
	for _, c := range resultColumns {
		s.Columns = append(s.Columns, c.name)
	}
	s.Columns = append(s.Columns, "cause")
	if overflow {
		for _, c := range statsColumns {
			s.Columns = append(s.Columns, c.name)
		}
	}
	s.Rows = func(yield func([]any) bool) {
		causeOf := rec.causeOf()
		for r := range results {
			row := make([]any, 0, len(s.Columns))
			for _, c := range resultColumns {
				if c.name == "verdict" {
					row = append(row, string(rec.Summary.Shown(r)))
				} else {
					row = append(row, c.cell(r))
				}
			}
			if c := causeOf(r); c != nil {
				row = append(row, c.String())
			} else {
				row = append(row, nil)
			}
			if overflow {
				for _, c := range statsColumns {
					if r.Stats == nil {
						row = append(row, nil)
					} else {
						row = append(row, c.cell(r.Stats))
					}
				}
			}
			if !yield(row) {
				return
			}
		}
	}
	return s
}

func (rec *Recording) timingSheet() Sheet {
	return Sheet{
		Name: "results",
		Columns: []string{
			"capture", "op", "forward_id", "phase", "cache", "clock", "n", "median_ns", "q1_ns", "q3_ns",
			"min_ns", "max_ns",
			"noise", "bytes", "flops", "bytes_per_s", "flops_per_s", "share_of_peak", "stop_reason", "warmup_runs",
			"calls", "inputs", "doubt", "memory_peak_bytes", "memory_kept_bytes", "memory_requests",
		},
		Rows: func(yield func([]any) bool) {
			for _, t := range rec.Timings {
				m, s := t.Series.Summary(), t.Series
				bandwidth, flops := t.Rates()
				var memory [3]any
				if m := t.Memory; m != nil {
					memory = [3]any{int(m.Peak), int(m.Kept), m.Requests}
				}
				if !yield([]any{
					t.Capture, t.Op, cell(t.ForwardID), t.Phase, string(s.Cache), string(s.Clock), m.N,
					int(m.Median), int(m.Q1), int(m.Q3), int(m.Min), int(m.Max), m.Noise, t.Bytes, t.Flops,
					bandwidth, flops,
					t.Share(), string(s.Stop), s.Warmup, t.Calls, t.Shapes, t.Doubt(), memory[0], memory[1], memory[2],
				}) {
					return
				}
			}
		},
	}
}

// OpSheet has a row for each op: captures by verdict and the worst result, or
// the times.
func (rec *Recording) OpSheet() Sheet {
	if len(rec.Timings) > 0 {
		cache := timing.Cache(rec.averaged())
		return Sheet{
			Name: "by op", Columns: []string{"op", "phase", "self_ns", "share", "avg_ns", "calls", "recorded", "memory_peak_bytes",
				"label"},
			Rows: func(yield func([]any) bool) {
				for _, a := range Averages(rec.Timings, cache, false, "self", rec.recorded()) {
					var known any
					if a.Recorded > 0 {
						known = a.Recorded
					}
					if !yield([]any{a.Op, a.Phase, int(a.Self), a.Share, int(a.Mean()), a.Calls, known, cell(a.Memory),
						a.Op + " " + a.Phase}) {
						return
					}
				}
			},
		}
	}
	s := rec.Summary
	ops := s.Ops()
	return Sheet{
		Name: "by op", Columns: append(append([]string{"op", "captures"}, s.columns()...), "worst_verdict",
			"worst_capture",
			"worst_target", "worst_reason", "worst_index", "actual", "expected", "repro"),
		Rows: func(yield func([]any) bool) {
			for _, o := range ops {
				total := 0
				for _, n := range o.Counts {
					total += n
				}
				row := []any{opName(o.Op), total}
				for _, n := range s.counts(o) {
					row = append(row, n)
				}
				w := o.Worst
				row = append(row, string(w.Verdict), w.Capture, w.Target, w.Reason, indexCell(w.Worst),
					valueCell(w.Actual),
					valueCell(w.Expected), cell(w.Repro))
				if !yield(row) {
					return
				}
			}
		},
	}
}

// SummarySheet has a row for each thing to know of the run.
func (rec *Recording) SummarySheet() Sheet {
	s := rec.Summary
	rows := [][]any{{"result", rec.Line()}}
	for _, lead := range rec.Leads() {
		rows = append(rows, []any{lead[0], lead[1]})
	}
	rows = append(rows, [][]any{
		{"command", strings.Join(rec.Run.Command, " ")}, {"version", rec.Run.Version}, {"host", rec.Run.Host},
		{"device", rec.Run.Device},
		{"start", rec.Run.Start.Format("2006-01-02 15:04:05 -0700")}, {"interrupted", s.Interrupted},
	}...)
	if rec.Run.Config != "" {
		rows = append(rows, []any{"flags from a file", rec.Run.Config})
	}
	if s.Elapsed > 0 {
		rows = append(rows, []any{"elapsed_s", s.Elapsed.Seconds()})
	}
	if s.PeakRSS > 0 {
		rows = append(rows, []any{"peak_rss_bytes", int(s.PeakRSS)})
	}
	if len(rec.Timings) > 0 {
		rows = append(rows, []any{"series", len(rec.Timings)})
	} else {
		rows = append(rows, []any{"results", s.Total()}, []any{"compared", s.Compared()}, []any{"judged", s.Judged()},
			[]any{"not_judged", s.NotJudged().NotJudged})
		for _, v := range verdict.All() {
			if s.Captures[v] > 0 {
				rows = append(rows, []any{"captures_" + v.Key(), s.Captures[v]})
			}
		}
		for _, v := range verdict.All() {
			if s.Results[v] > 0 {
				rows = append(rows, []any{"results_" + v.Key(), s.Results[v]})
			}
		}
	}
	for _, line := range s.notes() {
		rows = append(rows, []any{"note", line})
	}
	for _, x := range s.Settings {
		rows = append(rows, []any{x.Kind + " " + x.Name, x.Value + ": " + x.String()})
	}
	return Sheet{Name: "summary", Columns: []string{"name", "value"}, Rows: slices.Values(rows)}
}
