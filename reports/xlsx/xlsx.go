// Package xlsx writes tables as a workbook, as spreadsheets read it: numbers as
// numbers, the header frozen and with filters, verdicts in colours, and charts. It is apart from package reports
// because of what the library behind it brings along.
package xlsx

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// heapGrowth is by how many percent the heap may grow before its garbage is collected.
const heapGrowth = 40

// maxRows is the most rows of a sheet, the header among them.
var maxRows = excelize.TotalRows

// Write writes a workbook with one sheet or more. What is more than the 1,048,576 rows that a
// sheet may have goes on in further ones: "results 2". Texts that do not fit a cell are cut. Verdicts have colours,
// numbers the formats of what they are by the titles of their columns, and a sheet
// prints on the width of one page. Beside a sheet "summary" stand charts of it and of
// the sheet "by op".
//
// Rows are streamed: what does not fit a buffer of 16 MiB waits in a temporary
// file, so that memory does not grow with their number.
func Write(w io.Writer, sheets ...reports.Sheet) (err error) {
	// excelize keeps a buffer of up to 32 MiB for each sheet: the heap may grow by a part of that only.
	defer debug.SetGCPercent(debug.SetGCPercent(heapGrowth))
	f := excelize.NewFile()
	defer func() {
		if e := f.Close(); err == nil { // removes temporary files
			err = e
		}
	}()
	b, err := newBook(f)
	if err != nil {
		return err
	}
	for i, s := range sheets {
		if i == 0 {
			err = f.SetSheetName(f.GetSheetName(0), s.Name) // a new workbook has a sheet
		} else {
			_, err = f.NewSheet(s.Name)
		}
		if err != nil {
			return fmt.Errorf("sheet %q: %w", s.Name, err)
		}
	}
	// Charts refer to other sheets: the first sheet, beside which they stand, ends last.
	for i := len(sheets) - 1; i >= 0; i-- {
		if err := b.sheet(sheets[i]); err != nil {
			return fmt.Errorf("sheet %q: %w", sheets[i].Name, err)
		}
	}
	// The archive goes to w at once; excelize would collect it in the buffer that it passes.
	f.SetZipWriter(func(io.Writer) excelize.ZipWriter { return onePage{zip.NewWriter(w)} })
	return f.Write(io.Discard)
}

// onePage has every sheet print on the width of one page: the switch for that stands in
// a part of a sheet that excelize's stream leaves out.
type onePage struct{ *zip.Writer }

func (z onePage) Create(name string) (io.Writer, error) {
	w, err := z.Writer.Create(name)
	if err != nil || !strings.HasPrefix(name, "xl/worksheets/sheet") {
		return w, err
	}
	return &fitToPage{w: w}, nil
}

// fitToPage puts the switch behind the first tag of a sheet.
type fitToPage struct {
	w    io.Writer
	head []byte // what was written so far, until the tag ends
	done bool
}

func (f *fitToPage) Write(b []byte) (int, error) {
	if f.done {
		return f.w.Write(b)
	}
	f.head = append(f.head, b...)
	_, tag, _ := bytes.Cut(f.head, []byte("<worksheet"))
	end := bytes.IndexByte(tag, '>')
	if end < 0 {
		return len(b), nil
	}
	f.done = true
	at := len(f.head) - len(tag) + end + 1
	_, err := f.w.Write(slices.Concat(f.head[:at],
		[]byte(`<sheetPr><pageSetUpPr fitToPage="1"></pageSetUpPr></sheetPr>`), f.head[at:]))
	return len(b), err
}

// A book is a workbook and its styles.
type book struct {
	f       *excelize.File
	header  int
	wrapped int               // style of texts on the summary
	result  int               // and of the first of them
	formats map[string]int    // styles of cells, by number format
	colours map[string]int    // conditional styles, by colour
	written map[string]extent // sheets that are written, by name
}

// An extent is where things are on a sheet.
type extent struct {
	columns []string
	rows    int            // with the header
	at      map[string]int // row of each text of the first column, on the summary
	order   []string       // of at
	heights []float64      // of the rows below the titles, in points
}

// Colours of verdicts, for a cell and for a chart.
const (
	green, yellow, red, violet, blue, grey = "C6EFCE", "FFEB9C", "FFC7CE", "DDD6FE", "CFE2F9", "E5E7EB"
	orange, teal, brown                    = "FBD5B5", "BFE6EC", "E3D3C3"
)

var colours = map[verdict.Verdict]string{
	verdict.Pass: green, verdict.Warn: yellow, verdict.Fail: red, verdict.Crash: red, verdict.Timeout: red,
	verdict.Invalid: violet, verdict.Error: orange, verdict.Unsupported: teal, verdict.Mistrusted: blue,
	verdict.Skipped: grey, verdict.Known: brown, verdict.StillWrong: red, verdict.Repaired: green,
}

// inks are the colours of verdicts in charts.
var inks = map[string]string{green: "4CAF7A", yellow: "F0B429", red: "E5484D", violet: "8E7CE0", blue: "5B9BD5",
	grey: "B8BEC6", orange: "F08A4B", teal: "66C2D4", brown: "A98467"}

// Number formats.
const (
	percent  = "0.0%"
	fine     = "[>=0.1]0%;[<0.0001]0.0E+00%;0.00%"
	thousand = "#,##0"
	measure  = "[=0]0;[<0.001]0.00E+00;#,##0.0000"
	cosine   = "0.000000"
	large    = "[=0]0;[<100000]#,##0.##;0.00E+00"
	duration = `[<1000]0" ns";[<1000000]0.00," us";#,##0.00,," ms"` // of nanoseconds
)

// formatOf is the number format of a column by its title, "" for any.
func formatOf(title string) string {
	switch title {
	case "share", "share_of_peak", "success rate":
		return percent
	case "relative_error":
		return fine
	case "cosine_similarity":
		return cosine
	case "max_abs_diff", "max_relative_diff", "atol", "rtol", "rmse", "recorded_rmse", "noise":
		return measure
	case "max_ulp", "worst_ulp", "bound_ratio", "bytes_per_s", "flops_per_s":
		return large
	case "numel", "mismatched", "bytes", "flops", "captures", "cases", "calls":
		return thousand
	}
	if strings.HasSuffix(title, "_ns") {
		return duration
	}
	return ""
}

// titleOf is the title of a column on its sheet: times have their unit in the cells.
func titleOf(title string) string {
	if formatOf(title) == duration {
		return strings.TrimSuffix(title, "_ns")
	}
	return title
}

func newBook(f *excelize.File) (*book, error) {
	b := &book{f: f, formats: map[string]int{}, colours: map[string]int{}, written: map[string]extent{}}
	var err error
	b.header, err = f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true, Family: "Calibri", Size: 11},
		Fill:   excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"F0F1F3"}},
		Border: []excelize.Border{{Type: "bottom", Color: "B8BEC6", Style: 1}}})
	if err != nil {
		return nil, err
	}
	b.wrapped, err = f.NewStyle(&excelize.Style{Alignment: &excelize.Alignment{WrapText: true, Vertical: "top",
		Horizontal: "left"}})
	if err != nil {
		return nil, err
	}
	b.result, err = f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true, Family: "Calibri", Size: resultSize},
		Alignment: &excelize.Alignment{WrapText: true, Vertical: "top", Horizontal: "left"}})
	if err != nil {
		return nil, err
	}
	for _, format := range []string{percent, fine, measure, cosine, large, thousand, duration} {
		if b.formats[format], err = f.NewStyle(&excelize.Style{CustomNumFmt: &format}); err != nil {
			return nil, err
		}
	}
	for _, colour := range []string{green, yellow, red, violet, blue, grey, orange, teal, brown} {
		b.colours[colour], err = f.NewConditionalStyle(&excelize.Style{
			Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{colour}}})
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// sheet writes a sheet, and further ones with the rows that do not fit it.
func (b *book) sheet(s reports.Sheet) error {
	next, stop := iter.Pull(s.Rows)
	defer stop()
	row, ok := next()
	for part := 1; part == 1 || ok; part++ {
		some := s
		if part > 1 {
			some.Name = fmt.Sprintf("%s %d", s.Name, part)
			if _, err := b.f.NewSheet(some.Name); err != nil {
				return err
			}
		}
		n := 1
		some.Rows = func(yield func([]any) bool) {
			for ; ok && n < maxRows; n++ {
				if !yield(row) {
					return
				}
				row, ok = next()
			}
		}
		if err := b.part(some); err != nil {
			return err
		}
	}
	return nil
}

// part writes a sheet whose rows fit it.
func (b *book) part(s reports.Sheet) error {
	sw, err := b.f.NewStreamWriter(s.Name)
	if err != nil {
		return err
	}
	err = sw.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"})
	if err != nil {
		return err
	}
	titles, styles := make([]any, len(s.Columns)), make([]int, len(s.Columns))
	for i, title := range s.Columns {
		titles[i], styles[i] = excelize.Cell{StyleID: b.header, Value: titleOf(title)}, b.formats[formatOf(title)]
	}
	for i, title := range slices.Backward(s.Columns) { // excelize writes the last one first: columns have to ascend
		if err := sw.SetColWidth(i+1, i+1, width(title)); err != nil {
			return err
		}
	}
	if err := sw.SetRow("A1", titles); err != nil {
		return err
	}
	x := extent{columns: s.Columns, rows: 1, at: map[string]int{}}
	var cells []any
	for row := range s.Rows {
		x.rows++
		cells = cells[:0]
		for i, v := range row {
			cells = append(cells, cell(v, styles[i]))
		}
		height := 0.0
		if s.Name == summary {
			for i, v := range cells {
				style, wide, high := b.wrapped, width(s.Columns[i]), float64(lineHeight)
				if x.rows == 2 {
					const larger = float64(resultSize) / textSize
					style, wide, high = b.result, wide/larger/boldness, high*larger
				}
				cells[i] = excelize.Cell{StyleID: style, Value: v}
				if text, ok := v.(string); ok {
					height = max(height, float64(linesOf(text, int(wide)))*high)
				}
			}
			name := fmt.Sprint(row[0])
			x.at[name], x.order = x.rows, append(x.order, name)
		}
		var opts []excelize.RowOpts
		x.heights = append(x.heights, min(max(height, lineHeight), excelize.MaxRowHeight))
		if height > lineHeight { // not every program makes such a row higher by itself
			opts = append(opts, excelize.RowOpts{Height: min(height, excelize.MaxRowHeight)})
		}
		if err := sw.SetRow("A"+strconv.Itoa(x.rows), cells, opts...); err != nil {
			return err
		}
	}
	if err := b.layout(s, x); err != nil {
		return err
	}
	b.written[s.Name] = x
	if s.Name == summary {
		if err := b.charts(x); err != nil {
			return err
		}
	}
	return sw.Flush()
}

// layout sets what holds for a whole sheet: filters, colours, and how it prints.
func (b *book) layout(s reports.Sheet, x extent) error {
	last, err := excelize.CoordinatesToCellName(max(len(s.Columns), 1), x.rows)
	if err != nil {
		return err
	}
	if err := b.f.AutoFilter(s.Name, "A1:"+last, nil); err != nil {
		return err
	}
	for i, title := range s.Columns {
		if err := b.colour(s.Name, title, column(i), x.rows); err != nil {
			return err
		}
	}
	one, high, landscape, a4 := 1, 0, "landscape", 9
	if s.Name == summary && x.rows <= summaryRows {
		high = 1 // a chart is not cut in two
	}
	if err := b.f.SetPageLayout(s.Name, &excelize.PageLayoutOptions{Size: &a4, Orientation: &landscape,
		FitToWidth: &one, FitToHeight: &high}); err != nil {
		return err
	}
	if err := b.f.SetHeaderFooter(s.Name, &excelize.HeaderFooterOptions{OddFooter: "&L&A&R&P / &N"}); err != nil {
		return err
	}
	if len(s.Columns) > printedColumns {
		if err := b.f.SetDefinedName(&excelize.DefinedName{Name: "_xlnm.Print_Area", Scope: s.Name,
			RefersTo: reference(s.Name, fmt.Sprintf("$A$1:$%s$%d", column(printedColumns-1), x.rows))}); err != nil {
			return err
		}
	}
	return b.f.SetDefinedName(&excelize.DefinedName{Name: "_xlnm.Print_Titles", Scope: s.Name,
		RefersTo: reference(s.Name, "$1:$1")})
}

// summaryRows is how many rows of a summary are printed on one page, with its charts.
const summaryRows = 60

// printedColumns is how many columns are printed, from the first: of more, none can be
// read on the width of a page.
const printedColumns = 15

// colour gives a column the colours of verdicts: those that stand in it, or of the one
// whose counts it has.
func (b *book) colour(sheet, title, letter string, rows int) error {
	area := fmt.Sprintf("%s2:%[1]s%d", letter, max(rows, 2))
	var rules []excelize.ConditionalFormatOptions
	rule := func(criteria, value, colour string) {
		style := b.colours[colour]
		rules = append(rules, excelize.ConditionalFormatOptions{Type: "cell", Criteria: criteria, Value: value,
			Format: &style})
	}
	switch v := verdict.Verdict(title); {
	case strings.HasSuffix(title, "verdict"):
		for _, v := range verdict.All() {
			rule("==", `"`+string(v)+`"`, colours[v])
		}
	case colours[v] != "" && v != verdict.Pass:
		rule(">", "0", colours[v])
	case title == "failed":
		rule(">", "0", red)
	case title == "success rate":
		rule("<", "1", yellow)
	case title == "bound_ratio":
		rule(">", "1", red)
		rule(">=", "0.8", yellow)
	case formatOf(title) == percent:
		rules = []excelize.ConditionalFormatOptions{{Type: "data_bar", Criteria: "=", MinType: "num", MinValue: "0",
			MaxType: "num", MaxValue: "1", BarColor: "#8EB4E3", BarSolid: true}}
	}
	if rules == nil {
		return nil
	}
	return b.f.SetConditionalFormat(sheet, area, rules)
}

// Names of sheets that charts are made of.
const (
	summary = "summary"
	byOp    = "by op"
)

// shownOps is how many ops a chart has: the worst, or those that take longest, are first
// on their sheet.
const shownOps = 20

// charts draws the captures by verdict, and the ops by verdict or time.
func (b *book) charts(x extent) error {
	var points []excelize.ChartDataPoint
	first, last := 0, 0
	for _, name := range x.order {
		if v, ok := strings.CutPrefix(name, reports.CountOf); ok {
			if first == 0 {
				first = x.at[name]
			}
			points = append(points, excelize.ChartDataPoint{Index: len(points),
				Fill: solid(inks[colours[verdict.Verdict(v)]])})
			last = x.at[name]
		}
	}
	if first > 0 {
		err := b.chart("D2", doughnutHeight, "calls by verdict", &excelize.Chart{Type: excelize.Doughnut, HoleSize: 55,
			Legend: excelize.ChartLegend{Position: "right"}, Series: []excelize.ChartSeries{{
				Name:       reference(summary, "$B$1"),
				Categories: reference(summary, fmt.Sprintf("$A$%d:$A$%d", first, last)),
				Values:     reference(summary, fmt.Sprintf("$B$%d:$B$%d", first, last)), DataPoint: points}}})
		if err != nil {
			return err
		}
	}
	ops, ok := b.written[byOp]
	end := min(ops.rows, shownOps+1)
	if !ok || end < 2 {
		return nil
	}
	var series []excelize.ChartSeries
	what, names, legend := "calls by op", 0, "bottom"
	var axis excelize.ChartNumFmt
	for i, title := range ops.columns {
		fill := solid("8EB4E3")
		if v := verdict.Verdict(title); colours[v] != "" {
			fill = solid(inks[colours[v]])
		} else if title == "self_ns" { // the only series; an op has a row for each phase
			what, names, legend, axis.CustomNumFmt = "self time by op and phase", slices.Index(ops.columns, "label"), "none", duration
		} else {
			continue
		}
		series = append(series, excelize.ChartSeries{Name: reference(byOp, "$"+column(i)+"$1"), Fill: fill,
			Categories: reference(byOp, fmt.Sprintf("$%s$2:$%[1]s$%d", column(names), end)),
			Values:     reference(byOp, fmt.Sprintf("$%s$2:$%[1]s$%d", column(i), end))})
	}
	if series == nil {
		return nil
	}
	sameColour := false
	at := "D2"
	if first > 0 {
		at = fmt.Sprintf("D%d", x.below(doughnutHeight))
	}
	return b.chart(at, 120+uint(22*end), what, &excelize.Chart{Type: excelize.BarStacked, Series: series,
		Legend: excelize.ChartLegend{Position: legend}, VaryColors: &sameColour,
		XAxis: excelize.ChartAxis{ReverseOrder: true, Font: excelize.Font{Color: "404040", Size: 8}},
		YAxis: excelize.ChartAxis{NumFmt: axis, Font: excelize.Font{Color: "404040", Size: 8}}})
}

// doughnutHeight is the height of the first chart in pixels.
const doughnutHeight = 300

// below is the row below a chart of that height in pixels that begins in the second row, with a line between.
func (x *extent) below(pixels int) int {
	const points = 0.75 // of a pixel
	row, left := 2, points*float64(pixels)
	for ; left > 0; row++ {
		high := float64(lineHeight)
		if i := row - 2; i < len(x.heights) {
			high = x.heights[i]
		}
		left -= high
	}
	return row + 1
}

func (b *book) chart(at string, height uint, title string, c *excelize.Chart) error {
	c.Title = []excelize.RichTextRun{{Text: title}}
	c.Dimension = excelize.ChartDimension{Width: 720, Height: height}
	c.Format.Positioning = "oneCell" // rows of texts that are wrapped are higher than others
	return b.f.AddChart(summary, at, c)
}

func solid(colour string) excelize.Fill {
	return excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{colour}}
}

// reference names cells of a sheet.
func reference(sheet, cells string) string {
	return "'" + strings.ReplaceAll(sheet, "'", "''") + "'!" + cells
}

// column is the letters of column i, from 0.
func column(i int) string {
	name, _ := excelize.ColumnNumberToName(i + 1) // SetColWidth has refused more columns than there can be
	return name
}

// cell is v as a spreadsheet holds it, with a style if it is a number: it has no
// infinities and no NaN.
func cell(v any, style int) any {
	switch x := v.(type) {
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(x, 'g', -1, 64)), "+")
		}
	case int:
	case string:
		return reports.Cell(x)
	default:
		return v
	}
	if style == 0 {
		return v
	}
	return excelize.Cell{StyleID: style, Value: v}
}

// Sizes of texts in points: that of a line, and of the characters of most cells and of the first row of a summary. Bold
// ones are wider, by the factor of boldness.
const (
	lineHeight           = 15
	textSize, resultSize = 11, 13
	boldness             = 1.15
)

// linesOf counts the lines that a text takes whose words are wrapped at so many characters.
func linesOf(text string, wide int) (n int) {
	for line := range strings.Lines(text) {
		n++
		at := 0
		for word := range strings.FieldsSeq(line) {
			long := utf8.RuneCountInString(word)
			switch {
			case at == 0:
			case at+1+long <= wide:
				at++
			default:
				n, at = n+1, 0
			}
			at += long
			for ; at > wide; at -= wide { // a word that no line can hold is cut
				n++
			}
		}
	}
	return n
}

// width of a column in characters, by its title.
func width(title string) float64 {
	switch {
	case strings.HasSuffix(title, "reason"), strings.HasSuffix(title, "repro"), title == "value":
		return 60
	case strings.HasSuffix(title, "capture"), title == "op", title == "cause", title == "doubt":
		return 36
	case title == "name":
		return 34
	case title == "module", title == "inputs":
		return 24
	}
	return math.Max(10, float64(len(title)+4))
}
