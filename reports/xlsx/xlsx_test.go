package xlsx

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
)

type sheetXML struct {
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

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b,
		reports.Sheet{Name: "a<&\"", Columns: []string{"x"}, Rows: slices.Values([][]any{{1}})},
		reports.Sheet{Name: "results", Columns: []string{"op", "n", "diff", "ok"}, Rows: slices.Values([][]any{
			{"=1+1 <&>\x00\xff", 3, -1.5e-9, true},
			{nil, nil, math.Inf(-1), nil},
			{strings.Repeat("é", 40000), nil, math.NaN(), nil},
		})})
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
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
	if !bytes.Contains(parts["xl/workbook.xml"], []byte(`name="a&lt;&amp;&#34;"`)) {
		t.Errorf("workbook: %s", parts["xl/workbook.xml"])
	}
	var s sheetXML
	if err := xml.Unmarshal(parts["xl/worksheets/sheet2.xml"], &s); err != nil {
		t.Fatal(err)
	}
	if s.Pane.Split != 1 || s.Pane.State != "frozen" || s.Filter.Ref != "A1:D4" || len(s.Rows) != 4 {
		t.Fatalf("pane %+v, filter %q, %d rows", s.Pane, s.Filter.Ref, len(s.Rows))
	}
	c := s.Rows[1].Cells
	if c[0].Text != "=1+1 <&>\uFFFD\uFFFD" || c[0].Type != "inlineStr" || c[1].Value != "3" || c[1].Type != "" ||
		c[2].Value != "-1.5e-09" || c[3].Type != "b" || c[3].Value != "1" {
		t.Errorf("first row: %+v", c)
	}
	if c := s.Rows[2].Cells; len(c) != 1 || c[0].Ref != "C3" || c[0].Text != "-inf" {
		t.Errorf("second row: %+v", c)
	}
	if c := s.Rows[3].Cells; len([]rune(c[0].Text)) != maxText || c[1].Text != "nan" {
		t.Errorf("third row: %d characters, %q", len([]rune(c[0].Text)), c[1].Text)
	}
}

func TestTooManyRows(t *testing.T) {
	err := Write(io.Discard, reports.Sheet{Name: "s", Columns: []string{"x"}, Rows: func(yield func([]any) bool) {
		for yield([]any{nil}) {
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "more than 1048575 rows") {
		t.Errorf("got %v", err)
	}
}

func TestColumn(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 51: "AZ", 52: "BA", 701: "ZZ", 702: "AAA"} {
		if got := column(i); got != want {
			t.Errorf("column %d: got %s, want %s", i, got, want)
		}
	}
}
