// Package webpage writes a run as one HTML page that needs nothing else: no
// server, no network, no fonts. It is apart from package reports because
// html/template is large.
package webpage

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/verdict"
)

// MaxRows is how many results a page holds; of more, the worst are kept.
const MaxRows = 20000

// maxFindings is how many findings are shown above the table.
const maxFindings = 20

//go:embed page.html
var source string

// A table is a sheet as the page's script reads it.
type table struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// A finding is a result that somebody has to look at.
type finding struct {
	Verdict, Op, Capture, Target, Reason, Repro string
	Worst, Actual, Expected                     string
}

// A section is a further table of the page.
type section struct {
	Name string
	Data table
}

// Write writes the page, with a table for each of more. Everything that comes
// from captures is escaped, and the page's content security policy forbids it to
// load anything.
func Write(w io.Writer, rec *reports.Recording, more ...reports.Sheet) error {
	t, err := template.New("page").Parse(source)
	if err != nil {
		return err
	}
	results := rec.ResultSheet()
	data := struct {
		Title    string
		Line     string
		State    string
		Facts    [][]any
		ByOp     table
		Sections []section
		Findings []finding
		More     int // findings not shown
		Results  table
		Total    int
	}{
		Title: "optool", Line: rec.Line(), State: state(rec), Facts: slices.Collect(printable(rec.SummarySheet())),
		ByOp: collect(rec.OpSheet()), Results: table{Columns: results.Columns},
		Total: max(len(rec.Results), len(rec.Timings)),
	}
	if len(rec.Run.Command) > 1 {
		data.Title = strings.Join(append([]string{"optool"}, rec.Run.Command[1:]...), " ")
	}
	for _, m := range more {
		data.Sections = append(data.Sections, section{strings.ToUpper(m.Name[:1]) + m.Name[1:], collect(m)})
	}
	least := leastRank(rec)
	for row := range printable(results) {
		if len(data.Results.Rows) < MaxRows && (least < 0 || rankOf(results.Columns, row) >= least) {
			data.Results.Rows = append(data.Results.Rows, row)
		}
	}
	for _, r := range rec.Results {
		switch {
		case !r.Finding():
		case len(data.Findings) == maxFindings:
			data.More++
		default:
			data.Findings = append(data.Findings, newFinding(r))
		}
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := t.Execute(b, data); err != nil {
		return err
	}
	return b.Flush()
}

// leastRank is the verdict, by its place in verdict.All, from which on all
// results fit the page; -1 if all do.
func leastRank(rec *reports.Recording) int {
	verdicts := verdict.All()
	n := 0
	for i := len(verdicts) - 1; i >= 0; i-- {
		if n += rec.Summary.Results[verdicts[i]]; n > MaxRows {
			return min(i+1, len(verdicts)-1)
		}
	}
	return -1
}

func rankOf(columns []string, row []any) int {
	i := slices.Index(columns, "verdict")
	if i < 0 {
		return -1
	}
	return slices.Index(verdict.All(), verdict.Verdict(fmt.Sprint(row[i])))
}

// state is the class of the headline.
func state(rec *reports.Recording) string {
	s := rec.Summary
	switch {
	case s.Differs():
		return "fail"
	case s.Refused() || s.Interrupted || len(rec.Timings) == 0 && s.Compared() == 0:
		return "warn"
	}
	return "pass"
}

func newFinding(r *reports.Result) finding {
	f := finding{Verdict: string(r.Verdict), Op: r.Op, Capture: r.Capture,
		Target: strings.TrimSpace(r.Phase + " " + r.Target),
		Reason: r.Reason}
	if r.Repro != nil {
		f.Repro = *r.Repro
	}
	if r.Worst != nil {
		f.Worst = fmt.Sprint(r.Worst)
		f.Actual, f.Expected = strings.Trim(string(r.Actual), `"`), strings.Trim(string(r.Expected), `"`)
	}
	return f
}

func collect(s reports.Sheet) table {
	return table{Columns: s.Columns, Rows: slices.Collect(printable(s))}
}

// printable yields the rows of a sheet with nan and infinities as texts, since
// JSON does not hold them.
func printable(s reports.Sheet) func(yield func([]any) bool) {
	return func(yield func([]any) bool) {
		for row := range s.Rows {
			for i, v := range row {
				if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
					row[i] = strings.ToLower(strings.TrimPrefix(fmt.Sprint(f), "+"))
				}
			}
			if !yield(row) {
				return
			}
		}
	}
}
