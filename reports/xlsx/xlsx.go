// Package xlsx writes tables as a workbook of Office Open XML (ECMA-376), as
// spreadsheets read it: numbers as numbers, the header frozen and with filters.
// It is apart from package reports as the only user of a file format with parts.
package xlsx

import (
	"archive/zip"
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/optool/optool/reports"
)

// Limits of the format.
const (
	MaxRows = 1 << 20 // of a sheet, the header among them
	maxText = 32767   // UTF-16 units in a cell
)

// Write writes a workbook. A sheet with more rows than MaxRows is an error.
// Texts that do not fit a cell are cut.
func Write(w io.Writer, sheets ...reports.Sheet) error {
	z := zip.NewWriter(w)
	part := func(name string, write func(b *bufio.Writer) error) error {
		f, err := z.Create(name)
		if err != nil {
			return err
		}
		b := bufio.NewWriterSize(f, 1<<16)
		b.WriteString(xml.Header)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	}
	fixed := func(text string) func(*bufio.Writer) error {
		return func(b *bufio.Writer) error {
			_, err := b.WriteString(text)
			return err
		}
	}
	var types, book, rels strings.Builder
	for i, s := range sheets {
		n := i + 1
		fmt.Fprintf(&types,
			`<Override PartName="/xl/worksheets/sheet%d.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>`, n)
		fmt.Fprintf(&book, `<sheet name="%s" sheetId="%d" r:id="rId%d"/>`, escape(s.Name), n, n)
		fmt.Fprintf(&rels,
			`<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet%d.xml"/>`, n, n)
	}
	for _, p := range []struct{ name, text string }{
		{"[Content_Types].xml",
			`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>` + types.String() + `</Types>`},
		{"_rels/.rels",
			`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/workbook.xml",
			`<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>` + book.String() + `</sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels",
			`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + rels.String() +
				fmt.Sprintf(
					`<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>`, len(sheets)+1) + `</Relationships>`},
		{"xl/styles.xml", styles},
	} {
		if err := part(p.name, fixed(p.text)); err != nil {
			return err
		}
	}
	for i, s := range sheets {
		err := part(fmt.Sprintf("xl/worksheets/sheet%d.xml", i+1),
			func(b *bufio.Writer) error { return writeSheet(b, s) })
		if err != nil {
			return fmt.Errorf("sheet %q: %w", s.Name, err)
		}
	}
	return z.Close()
}

// styles has the normal style (0) and the bold one of headers (1).
const styles = `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="2"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/><xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/></cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>`

func writeSheet(b *bufio.Writer, s reports.Sheet) error {
	b.WriteString(
		`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><cols>`)
	for i, name := range s.Columns {
		fmt.Fprintf(b, `<col min="%d" max="%d" width="%d" customWidth="1"/>`, i+1, i+1, width(name))
	}
	b.WriteString(`</cols><sheetData>`)
	head := make([]any, len(s.Columns))
	for i, name := range s.Columns {
		head[i] = name
	}
	writeRow(b, 1, ` s="1"`, head)
	n := 1
	for row := range s.Rows {
		if n++; n > MaxRows {
			return fmt.Errorf("more than %d rows: write CSV instead", MaxRows-1)
		}
		writeRow(b, n, "", row)
	}
	_, err := fmt.Fprintf(b, `</sheetData><autoFilter ref="A1:%s%d"/></worksheet>`, column(len(s.Columns)-1), n)
	return err
}

// width of a column in characters, by its title.
func width(title string) int {
	switch {
	case strings.HasSuffix(title, "reason"), strings.HasSuffix(title, "repro"):
		return 60
	case strings.HasSuffix(title, "capture"), title == "op", title == "name", title == "value":
		return 36
	}
	return max(10, len(title)+4)
}

func writeRow(b *bufio.Writer, n int, style string, row []any) {
	fmt.Fprintf(b, `<row r="%d">`, n)
	for i, v := range row {
		ref := column(i) + strconv.Itoa(n)
		switch v := v.(type) {
		case nil:
			continue
		case bool:
			bit := 0
			if v {
				bit = 1
			}
			fmt.Fprintf(b, `<c r="%s"%s t="b"><v>%d</v></c>`, ref, style, bit)
		case int:
			fmt.Fprintf(b, `<c r="%s"%s><v>%d</v></c>`, ref, style, v)
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				writeText(b, ref, style, strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+"))
			} else {
				fmt.Fprintf(b, `<c r="%s"%s><v>%s</v></c>`, ref, style, strconv.FormatFloat(v, 'g', -1, 64))
			}
		default:
			writeText(b, ref, style, fmt.Sprint(v))
		}
	}
	b.WriteString(`</row>`)
}

func writeText(b *bufio.Writer, ref, style, s string) {
	fmt.Fprintf(b, `<c r="%s"%s t="inlineStr"><is><t xml:space="preserve">%s</t></is></c>`, ref, style, escape(cut(s)))
}

// cut shortens s to what a cell holds.
func cut(s string) string {
	units := 0
	for i, r := range s {
		if units++; r > 0xffff {
			units++
		}
		if units > maxText {
			return s[:i]
		}
	}
	return s
}

// escape makes s the text of an element or attribute; what XML cannot hold
// becomes U+FFFD.
func escape(s string) string {
	var b strings.Builder
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// column is the name of a column from 0: A, ..., Z, AA, ...
func column(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}
