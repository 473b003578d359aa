package reports

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// WorkbookSheets are the tables of a workbook: a summary for those who read nothing else, the results in order of
// execution with the columns that one looks at, own, all columns, and the run.
func (rec *Recording) WorkbookSheets(own []Sheet) []Sheet {
	details, run := rec.ResultSheet(), rec.SummarySheet()
	if len(rec.Timings) == 0 {
		details = rec.SheetOf(rec.inOrder())
	}
	details.Name, run.Name = "details", "run"
	return append(append([]Sheet{rec.overview(), rec.brief(details)}, own...), details, run)
}

// briefColumns are the columns of results and of measurements that one looks at.
var (
	briefColumns = []string{"order", "rank", "op", "forward_id", "phase", "target", "verdict", "reason", "cause", "dtype",
		"shape", "relative_error", "bound_ratio", "module", "capture"}
	briefOverflow = []string{"order", "rank", "op", "forward_id", "phase", "target", "verdict", "reason", "nan", "inf",
		"min", "max", "dtype", "shape", "capture"}
	briefTimings = []string{"op", "forward_id", "phase", "cache", "n", "median_ns", "q1_ns", "q3_ns", "share_of_peak",
		"bytes_per_s", "flops_per_s", "calls", "inputs", "doubt", "capture"}
)

// brief is a sheet of results with some of its columns.
func (rec *Recording) brief(all Sheet) Sheet {
	columns := briefColumns
	switch {
	case len(rec.Timings) > 0:
		columns = briefTimings
	case rec.Overflow:
		columns = briefOverflow
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.Index(all.Columns, name)
	}
	return Sheet{Name: "results", Columns: columns, Rows: func(yield func([]any) bool) {
		for row := range all.Rows {
			some := make([]any, len(at))
			for i, k := range at {
				if some[i] = row[k]; columns[i] == "relative_error" || columns[i] == "bound_ratio" {
					some[i] = rounded(row[k])
				}
			}
			if !yield(some) {
				return
			}
		}
	}}
}

// rounded is a number with the three digits that say how large an error is; details has all.
func rounded(cell any) any {
	if x, is := cell.(float64); is {
		if y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64); err == nil {
			return y
		}
	}
	return cell
}

// mostSorted is how many results are sorted, in memory; more stay in the order in which they came.
const mostSorted = 20_000

// inOrder are the results of each process in the order in which its calls ran.
func (rec *Recording) inOrder() iter.Seq[*Result] {
	if rec.Summary.Total() > mostSorted {
		return rec.Results.All()
	}
	return func(yield func(*Result) bool) {
		for _, r := range slices.SortedStableFunc(rec.Results.All(), func(a, b *Result) int {
			return cmp.Or(compareProcess(a, b), compareKnown(a.Order, b.Order))
		}) {
			if !yield(r) {
				return
			}
		}
	}
}

// CountOf begins the names of the rows of a summary that count calls, which end with the verdict.
const CountOf = "calls: "

// overview is the result of the run in words and in counts.
func (rec *Recording) overview() Sheet {
	s := rec.Summary
	var rows [][]any
	for _, f := range s.Facts {
		rows = append(rows, []any{f.Name, f.Text})
	}
	rows = append(rows, []any{"result", rec.sentence()})
	rows = append(rows, s.programRows()...)
	for _, f := range rec.Faults() {
		text := "calls: " + f.Calls + f.where() + ". Worst: " + f.Worst
		if f.Between {
			text = f.Calls + ". " + f.Worst
		}
		switch pattern, is := strings.CutPrefix(f.Cause, patternHead); {
		case is:
			text += ". Pattern: " + pattern
		case f.Cause != "":
			text += ". Cause: " + f.Cause
		}
		name := "what is wrong: "
		if f.Known {
			name = "known failure: "
		}
		rows = append(rows, []any{name + f.Op, text})
	}
	for _, lead := range rec.Headlines() {
		rows = append(rows, []any{lead[0], lead[1]})
	}
	if f := rec.First; f != nil && !rec.Overflow && f.Results[0].Repro != nil {
		rows = append(rows, []any{"repeat it with", *f.Results[0].Repro})
	}
	if len(rec.Timings) == 0 {
		for _, v := range s.used() {
			rows = append(rows, []any{CountOf + string(v), s.having(v)})
		}
		if n := s.Reading(); n > 0 {
			rows = append(rows, []any{"calls that only read other values", n})
		}
		rows = append(rows, []any{"values judged", s.Judged()}, []any{"values not judged", s.NotJudged().NotJudged})
	}
	for _, line := range rec.Told() {
		rows = append(rows, []any{"note", line})
	}
	rows = append(rows, []any{"command", strings.Join(rec.Run.Command, " ")},
		[]any{"date", rec.Run.Start.Format("2006-01-02 15:04:05 -0700")})
	for _, w := range rec.Glossary() {
		rows = append(rows, []any{"word: " + w.Name, w.Text})
	}
	return Sheet{Name: "summary", Columns: []string{"name", "value"}, Rows: slices.Values(rows)}
}

// programRows say what became of each program; none if there is only one.
func (s *Summary) programRows() (rows [][]any) {
	for i, p := range s.Programs() {
		if i == 0 {
			rows = append(rows, []any{"programs", s.ProgramsText()})
		}
		text := fmt.Sprintf("%s: %d of %s fail", p.Verdict, p.Failing, Count(p.Calls, "call"))
		if p.NotJudged > 0 {
			text += fmt.Sprintf(", %d not judged", p.NotJudged)
		}
		if w := p.worstText(); w != "" {
			text += ". Worst: " + w
		}
		rows = append(rows, []any{"program " + OneLine(p.Program), text})
	}
	return rows
}

// sentence is the result of the run for people who do not know its verdicts.
func (rec *Recording) sentence() string {
	s := rec.Summary
	if len(rec.Timings) > 0 {
		return rec.Line()
	}
	s.endCapture()
	total, wrong, passed, warn := 0, 0, s.Captures[verdict.Pass], s.Captures[verdict.Warn]
	listed, still := s.Captures[verdict.Known], s.Captures[verdict.StillWrong]
	for v, n := range s.Captures {
		total += n
		if v.Differs() || v == verdict.StillWrong {
			wrong += n
		}
	}
	reading := s.Reading()
	wrong -= reading
	repaired := s.Captures[verdict.Repaired]
	text := fmt.Sprintf("%d of %s fail", wrong, Count(total, "call"))
	if still > 0 {
		text += fmt.Sprintf(", %d of them %s", still, verdict.StillWrong)
	}
	if repaired > 0 {
		text += fmt.Sprintf(", %d repaired", repaired)
	}
	text += fmt.Sprintf(", %d pass", passed)
	if total == 0 {
		text = "no call was judged"
	}
	if warn > 0 {
		text += fmt.Sprintf(", %d with a warning", warn)
	}
	if reading > 0 {
		text += fmt.Sprintf(", %d only read other values", reading)
	}
	if listed > 0 {
		text += fmt.Sprintf(", %d fail as known", listed)
	}
	if rest := total - wrong - repaired - reading - passed - warn - listed; rest > 0 {
		text += fmt.Sprintf(", %d not judged", rest)
	}
	if n := s.betweens; n > 0 {
		text += fmt.Sprintf(". %s, where no operator is at fault", Count(n, "fault")+" between calls")
	}
	for _, part := range s.unreadParts() {
		text += ". " + part
	}
	text += s.lacksText() + rec.allClear()
	switch n := len(s.Missing); {
	case n > 0:
		text += ". The run is not whole: " + s.Missing[0]
		if n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
	case s.Interrupted:
		text += ". The run was interrupted"
	}
	return text + "."
}

// lacksText names what an earlier run had, as further sentences; "" if nothing is missing.
func (s *Summary) lacksText() (text string) {
	var names, unseen []string
	for _, r := range s.lacking {
		if r.Verdict.Differs() {
			names = append(names, r.Lacks)
		} else {
			unseen = append(unseen, r.Lacks)
		}
	}
	if n := len(names); n > shownFolders {
		names = append(names[:shownFolders], fmt.Sprintf("%d more", s.lacks-len(unseen)-shownFolders))
	}
	if len(names) > 0 {
		text = ". Missing: " + strings.Join(names, ", ")
	}
	if len(unseen) > 0 {
		text += ". Not looked at: " + strings.Join(unseen, ", ")
	}
	return text
}

// allClear says that nothing is wrong, as a further sentence; "" where something is, or nothing was judged.
func (rec *Recording) allClear() string {
	s := rec.Summary
	if rec.Overflow || s.Differs() || s.Unwanted() || s.Results[verdict.Known] > 0 || s.Judged() == 0 {
		return ""
	}
	if s.NotJudged().NotJudged > 0 || s.lacks > 0 || s.Refused() || s.NotRead > 0 || s.Interrupted {
		return ". Nothing wrong was found in what was judged"
	}
	return ". Nothing wrong was found"
}
