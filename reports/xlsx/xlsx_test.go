package xlsx

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"github.com/optool/optool/reports"
)

func workbook(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	err := Write(&b,
		reports.Sheet{Name: "a<&\"", Columns: []string{"x"}, Rows: slices.Values([][]any{{1}})},
		reports.Sheet{Name: "results", Columns: []string{"op", "n", "diff", "ok", "reason"},
			Rows: slices.Values([][]any{
				{"=1+1 <&>\x00\xff", math.MaxInt64, -1.5e-9, true, " two\nlines "},
				{nil, nil, math.Inf(-1), false, nil},
				{strings.Repeat("é", 40000), nil, math.NaN(), nil, "12"},
			})})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRead reads a workbook back with the library that wrote it.
func TestRead(t *testing.T) {
	f, err := excelize.OpenReader(bytes.NewReader(workbook(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := f.GetSheetList(), []string{"a<&\"", "results"}; !slices.Equal(got, want) {
		t.Errorf("sheets: got %q, want %q", got, want)
	}
	rows, err := f.GetRows("results", excelize.Options{RawCellValue: true})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"op", "n", "diff", "ok", "reason"},
		{`=1+1 <&>\x00` + "\uFFFD", "9223372036854775807", "-0.0000000015", "1", " two\nlines "},
		{"", "", "-inf", "0"},
		{strings.Repeat("é", excelize.TotalCellChars-3) + "...", "", "nan", "", "12"},
	}
	if !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("rows: got %.200q, want %.200q", rows, want)
	}
	types := map[string]excelize.CellType{"A2": excelize.CellTypeInlineString, "B2": excelize.CellTypeUnset,
		"C2": excelize.CellTypeUnset, "D2": excelize.CellTypeBool, "C3": excelize.CellTypeInlineString,
		"E4": excelize.CellTypeInlineString}
	for ref, want := range types {
		if got, err := f.GetCellType("results", ref); err != nil || got != want {
			t.Errorf("%s: type %v, %v, want %v", ref, got, err, want)
		}
	}
	panes, err := f.GetPanes("results")
	if err != nil || !panes.Freeze || panes.YSplit != 1 || panes.XSplit != 0 || panes.TopLeftCell != "A2" {
		t.Errorf("panes: %+v, %v", panes, err)
	}
	for column, want := range map[string]float64{"A": 36, "B": 10, "E": 60} {
		if got, err := f.GetColWidth("results", column); err != nil || got != want {
			t.Errorf("column %s: width %v, %v, want %v", column, got, err, want)
		}
	}
	style, err := f.GetCellStyle("results", "A1")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.GetStyle(style); err != nil || s.Font == nil || !s.Font.Bold {
		t.Errorf("the header is not bold: %+v, %v", s, err)
	}
}

type sheetXML struct {
	Widths []struct {
		Min int `xml:"min,attr"`
	} `xml:"cols>col"`
	Pane struct {
		Split int    `xml:"ySplit,attr"`
		State string `xml:"state,attr"`
	} `xml:"sheetViews>sheetView>pane"`
	Rows []struct {
		Cells []struct {
			Ref   string `xml:"r,attr"`
			Type  string `xml:"t,attr"`
			Value string `xml:"v"`
			Text  string `xml:"is>t"`
		} `xml:"c"`
	} `xml:"sheetData>row"`
	Filter struct {
		Ref string `xml:"ref,attr"`
	} `xml:"autoFilter"`
}

// TestXML reads the parts of a workbook without the library: each is XML, and
// the sheet says what other programs go by.
func TestXML(t *testing.T) {
	data := workbook(t)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if parts[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(parts[f.Name], new(struct{})); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	var s sheetXML
	if err := xml.Unmarshal(parts["xl/worksheets/sheet2.xml"], &s); err != nil {
		t.Fatal(err)
	}
	if s.Pane.Split != 1 || s.Pane.State != "frozen" || s.Filter.Ref != "$A$1:$E$4" || len(s.Rows) != 4 {
		t.Fatalf("pane %+v, filter %q, %d rows", s.Pane, s.Filter.Ref, len(s.Rows))
	}
	for i, w := range s.Widths { // other programs refuse columns that do not ascend
		if w.Min != i+1 {
			t.Errorf("width %d is of column %d", i+1, w.Min)
		}
	}
	c := s.Rows[1].Cells
	if c[0].Text != `=1+1 <&>\x00`+"\uFFFD" || c[0].Type != "inlineStr" ||
		c[1].Value != "9223372036854775807" || c[1].Type == "inlineStr" || c[2].Value != "-0.0000000015" ||
		c[3].Type != "b" || c[3].Value != "1" || c[4].Text != " two\nlines " {
		t.Errorf("first row: %+v", c)
	}
	if c := s.Rows[2].Cells; len(c) != 2 || c[0].Ref != "C3" || c[0].Text != "-inf" {
		t.Errorf("second row: %+v", c)
	}
}

func TestErrors(t *testing.T) {
	none := slices.Values([][]any(nil))
	if err := Write(io.Discard, reports.Sheet{Name: "a/b", Rows: none}); err == nil ||
		!strings.HasPrefix(err.Error(), `sheet "a/b": `) {
		t.Errorf("a name that spreadsheets refuse: got %v", err)
	}
	if err := Write(full{}, reports.Sheet{Name: "s", Columns: []string{"x"}, Rows: none}); err != errFull {
		t.Errorf("a full disk: got %v", err)
	}
}

type full struct{}

var errFull = fmt.Errorf("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestMemory writes 40,000 rows of 30 columns, some 80 MB as XML: what lives
// on the way does not grow with them.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	columns := make([]string, 30)
	for i := range columns {
		columns[i] = fmt.Sprint("column ", i)
	}
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	rows := func(yield func([]any) bool) {
		for i := range 40_000 {
			row := make([]any, len(columns))
			for k := range row {
				row[k] = float64(i*k) / 7
			}
			row[0], row[1] = fmt.Sprintf("torch.nn.functional.linear/%d/device", i), "not explained by rounding"
			if i%4_000 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc-min(m.HeapAlloc, before.HeapAlloc))
			}
			if !yield(row) {
				return
			}
		}
	}
	n := new(counter)
	if err := Write(n, reports.Sheet{Name: "results", Columns: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	if most > 64<<20 || *n < 2<<20 {
		t.Errorf("%d MiB are held for %d MiB of workbook, want at most 64", most>>20, *n>>20)
	}
}

// A counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// TestReport has what people see of a workbook: colours of verdicts, formats of numbers,
// charts, and one page's width.
func TestReport(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b,
		reports.Sheet{Name: "summary", Columns: []string{"name", "value"}, Rows: slices.Values([][]any{
			{"command", "optool"}, {"calls: pass", 5}, {"calls: fail", 2}})},
		reports.Sheet{Name: "by op", Columns: []string{"op", "captures", "pass", "fail", "worst_verdict"},
			Rows: slices.Values([][]any{{"torch.add", 3, 1, 2, "fail"}, {"torch.mul", 4, 4, 0, "pass"}})},
		reports.Sheet{Name: "results", Columns: []string{"op", "verdict", "max_abs_diff", "share_of_peak", "self_ns",
			"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"},
			Rows: slices.Values([][]any{{"torch.add", "fail", 1e-9, 0.25, 1234567}})})
	if err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for ref, want := range map[string]string{"A2": "torch.add", "B2": "fail", "D2": "25.0%", "E1": "self"} {
		if got, err := f.GetCellValue("results", ref); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", ref, got, err, want)
		}
	}
	id, _ := f.GetCellStyle("results", "E2")
	if s, err := f.GetStyle(id); err != nil || s.CustomNumFmt == nil || *s.CustomNumFmt != duration {
		t.Errorf("a time in ns: %+v, %v, want the format %s", s, err, duration)
	}
	for sheet, want := range map[string][]string{"by op": {"D2:D3", "E2:E3"}, "results": {"B2:B2", "D2:D2"}} {
		rules, err := f.GetConditionalFormats(sheet)
		if err != nil {
			t.Fatal(err)
		}
		for _, area := range want {
			if len(rules[area]) == 0 && len(rules[strings.TrimSuffix(area, ":"+area[:2])]) == 0 {
				t.Errorf("%s: no colours of %s in %v", sheet, area, rules)
			}
		}
	}
	layout, err := f.GetPageLayout("results")
	if err != nil || layout.FitToWidth == nil || *layout.FitToWidth != 1 || *layout.Orientation != "landscape" {
		t.Errorf("layout %+v, %v", layout, err)
	}
	props, err := f.GetSheetProps("results")
	if err != nil || props.FitToPage == nil || !*props.FitToPage {
		t.Errorf("the sheet does not fit a page: %+v, %v", props, err)
	}
	// The charts of the summary are on its page: none is cut in two.
	layout, err = f.GetPageLayout("summary")
	if err != nil || layout.FitToHeight == nil || *layout.FitToHeight != 1 {
		t.Errorf("layout of the summary %+v, %v", layout, err)
	}
	names := map[string]string{}
	for _, n := range f.GetDefinedName() {
		names[n.Scope+" "+n.Name] = n.RefersTo
	}
	if got := strings.ReplaceAll(names["results _xlnm.Print_Area"], "'", ""); got != "results!$A$1:$O$2" {
		t.Errorf("names %v", names)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	charts := 0
	for _, part := range z.File {
		if !strings.HasPrefix(part.Name, "xl/charts/chart") {
			continue
		}
		charts++
		r, err := part.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("summary&#39;!$B$3:$B$4")) && !bytes.Contains(text, []byte("by op&#39;!$D$2:$D$3")) {
			t.Errorf("%s draws neither captures nor ops: %s", part.Name, text)
		}
	}
	if charts != 2 {
		t.Errorf("%d charts, want 2", charts)
	}
}

// TestHeights: the rows of a summary are high enough for their wrapped texts, the first with its larger letters.
func TestHeights(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("wordy ", 30)) // 179 characters: 3 lines of 60, 5 of the first row
	var b bytes.Buffer
	if err := Write(&b, reports.Sheet{Name: "summary", Columns: []string{"name", "value"},
		Rows: slices.Values([][]any{{"first", text}, {"second", text}, {"third", "short"},
			{"what became of the first fault", "short"}})}); err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for row, want := range map[int]float64{2: 5 * lineHeight * 13. / 11, 3: 3 * lineHeight, 4: 15, 5: 15} {
		if got, err := f.GetRowHeight("summary", row); err != nil || math.Abs(got-want) > 0.5 {
			t.Errorf("row %d: %.1f points, %v, want %.1f", row, got, err, want)
		}
	}
	for text, want := range map[string]int{"": 0, "a": 1, "a b\nc": 2, "abcd": 2, "ab cd": 2, "é é": 1} {
		if got := linesOf(text, 3); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
	}
}

// TestSplit: rows that do not fit a sheet go on in further ones, each with its header.
func TestSplit(t *testing.T) {
	was := maxRows
	defer func() { maxRows = was }()
	maxRows = 4
	for n, want := range map[int][]string{0: {"results"}, 3: {"results"}, 4: {"results", "results 2"},
		7: {"results", "results 2", "results 3"}} {
		var b bytes.Buffer
		err := Write(&b, reports.Sheet{Name: "results", Columns: []string{"n"}, Rows: func(yield func([]any) bool) {
			for i := 0; i < n && yield([]any{i}); i++ {
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := excelize.OpenReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range f.GetSheetList() {
			rows, err := f.GetRows(name)
			if err != nil || rows[0][0] != "n" {
				t.Fatalf("%d rows, sheet %s: %v, %v", n, name, rows, err)
			}
			for _, row := range rows[1:] {
				got = append(got, row[0])
			}
		}
		list := f.GetSheetList()
		if !slices.Equal(list, want) || len(got) != n || n > 0 && got[n-1] != fmt.Sprint(n-1) {
			t.Errorf("%d rows: %q in sheets %q, want sheets %q", n, got, list, want)
		}
	}
}
