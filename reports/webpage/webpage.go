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

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/charts"
)

// MaxRows is how many results a page holds; of more, the worst are kept.
const MaxRows = 20000

// maxFindings is how many kinds of findings are shown above the table.
const maxFindings = 20

//go:embed page.html
var source string

// Style is the style sheet of pages: colours of verdicts and charts, in light, in dark and
// on paper.
//
//go:embed style.css
var Style string

// A table is a sheet as the page's script reads it.
type table struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// A finding is a call that somebody has to look at.
type finding struct {
	ID, Verdict, Title, Capture, More, Like, Repro string
	Values                                         []foundValue
	Causes                                         [][2]string // what they are called, and say
	Pictures                                       []picture
}

// A foundValue is what is wrong with a value of a call.
type foundValue struct{ Verdict, Target, What, Reason, Worst, Actual, Expected string }

// A picture is how the errors of a value are spread.
type picture struct {
	Target         string
	Numel          int
	Where          []string
	Histogram, Map template.HTML
}

// A key says what a colour of the timeline is.
type key struct{ Class, Name string }

// A section is a further table of the page.
type section struct {
	Name string
	Data table
}

// A page is what the template shows.
type page struct {
	Title    string
	Headline string
	Made     string         // the command and the date
	Line     string         // counts of captures by verdict
	Top      []reports.Fact // what a reader needs first
	Faults   string         // title of Wrong
	Wrong    [][]string     // operators with wrong calls: a FaultTable
	Programs [][]string     // by folder, the titles first
	Answer   string         // what the programs come to
	Told     []string       // what was not judged and why, and for what the run fails besides
	Words    []reports.Fact // that the page uses
	State    string
	Style    template.CSS
	Facts    [][]any
	Key      []key
	Findings []finding
	More     int    // kinds of findings not shown
	Reading  string // which calls only read other values
	ByOp     table
	ByOpNote string // how its times are summed
	Matrix   *reports.DTypeMatrix
	Sections []section
	Results  table
	Total    int

	Timeline, Margins, Quartiles, Roofline template.HTML
}

// Write writes the page, with a table for each of more. Everything that comes
// from captures is escaped, and the page's content security policy forbids it to
// load anything.
func Write(w io.Writer, rec *reports.Recording, more ...reports.Sheet) error {
	t, err := template.New("page").Parse(source)
	if err != nil {
		return err
	}
	data := page{
		Style: template.CSS(Style),
		Title: "optool: " + rec.Headline(), Headline: rec.Headline(), Line: rec.Line(), Top: rec.Top(),
		Words: rec.Glossary(),
		Made:  strings.Join(rec.Run.Command, " ") + ", " + rec.Run.Start.Format("2006-01-02 15:04:05 -0700"),
		Told:  rec.Told(), State: state(rec),
		Programs: rec.Summary.ProgramTable(), Answer: rec.Summary.ProgramsText(),
		Facts: slices.Collect(printable(rec.SummarySheet())),
		ByOp:  collect(rec.OpSheet()), Total: max(rec.Summary.Total(), len(rec.Timings)),
	}
	if len(rec.Timings) > 0 {
		data.ByOpNote = rec.SumsNote()
	}
	if faults := rec.Faults(); len(faults) > 0 {
		data.Faults, data.Wrong = reports.FaultsTitle(faults), reports.FaultTable(faults)
	}
	for _, m := range append(rec.ChangeSheets(), more...) {
		data.Sections = append(data.Sections, section{strings.ToUpper(m.Name[:1]) + m.Name[1:], collect(m)})
	}
	digest, dtypes := reports.NewDigest(rec.Summary.FailOn), reports.NewDTypeCount()
	timeline, margins := charts.NewTimeline(rec.LastOrder), charts.NewMargins()
	least := leastRank(rec)
	var kept []*reports.Result
	for f := range rec.Findings() {
		digest.Add(f)
		dtypes.Add(f, rec.Summary)
		for _, r := range f.Results {
			timeline.Add(r, rec.Summary.Shown(r))
			margins.Add(r)
			if len(kept) < MaxRows && slices.Index(verdict.All(), r.Verdict) >= least {
				kept = append(kept, r)
			}
		}
	}
	if err := rec.Results.Err(); err != nil {
		return err
	}
	if len(rec.Timings) > 0 {
		data.Results = collect(rec.ResultSheet())
		data.Results.Rows = data.Results.Rows[:min(len(data.Results.Rows), MaxRows)]
	} else {
		data.Results = collect(rec.SheetOf(slices.Values(kept)))
	}
	rec.Lead(digest)
	data.Reading = digest.ReadingText()
	places := map[string]string{} // of the findings of captures
	for f, like := range digest.Told() {
		if len(data.Findings) == maxFindings {
			data.More++
			continue
		}
		id := fmt.Sprintf("finding-%d", len(data.Findings)+1)
		places[f.Results[0].Capture] = "#" + id
		data.Findings = append(data.Findings, newFinding(f, id, like))
	}
	place := func(capture string) string { return places[capture] }
	data.Timeline, data.Margins = timeline.Draw(place), margins.Draw(place)
	data.Quartiles, data.Roofline = charts.Quartiles(rec.Timings), charts.Roofline(rec.Timings)
	for _, v := range timeline.Drawn() {
		data.Key = append(data.Key, key{"fill-" + string(v), string(v)})
	}
	if m := dtypes.Matrix(); len(m.Rows) > 0 {
		data.Matrix = m
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

// state is the class of the headline.
func state(rec *reports.Recording) string {
	s := rec.Summary
	switch {
	case s.Faulty():
		return "fail"
	case s.Interrupted || len(rec.Timings) == 0 && s.Doubtful() || len(rec.Timings) > 0 && rec.Doubtful():
		return "warn"
	}
	return "pass"
}

func newFinding(f *reports.Finding, id, like string) finding {
	first := f.Results[0]
	out := finding{ID: id, Verdict: string(f.Worst()), Title: first.Title(),
		Capture: reports.OneLine(first.Capture), More: f.More(), Like: like}
	if first.Repro != nil {
		out.Repro = reports.Command(*first.Repro)
	}
	for _, r := range f.Results {
		if r.Verdict == verdict.Pass && r.Reason == "" {
			continue
		}
		v := foundValue{Verdict: string(r.Verdict), Reason: reports.OneLine(r.Reason), What: r.What(),
			Target: reports.OneLine(strings.TrimSpace(r.Phase + " " + r.Target))}
		if r.Worst != nil && (r.Finding() || r.Verdict == verdict.Repaired) {
			v.Worst = reports.IndexText(r.Worst)
			v.Actual, v.Expected = strings.Trim(string(r.Actual), `"`), strings.Trim(string(r.Expected), `"`)
		}
		out.Values = append(out.Values, v)
	}
	for i := range f.Causes {
		out.Causes = append(out.Causes, [2]string{f.Causes[i].Label(),
			reports.OneLine(f.Causes[i].String())})
	}
	for _, note := range f.Notes() {
		out.Causes = append(out.Causes, [2]string{"note", reports.OneLine(note)})
	}
	for _, p := range f.Profiles {
		out.Pictures = append(out.Pictures, picture{Target: p.Phase + " " + p.Target, Numel: p.Numel, Where: p.Where,
			Histogram: charts.Errors(p), Map: charts.Map(p)})
	}
	return out
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
				switch v := v.(type) {
				case float64:
					if math.IsNaN(v) || math.IsInf(v, 0) {
						row[i] = strings.ToLower(strings.TrimPrefix(fmt.Sprint(v), "+"))
					}
				case string:
					row[i] = reports.Cell(v)
				}
			}
			if !yield(row) {
				return
			}
		}
	}
}
