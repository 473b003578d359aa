// Package xlsx writes tables as a workbook, as spreadsheets read it: numbers as
// numbers, the header frozen and with filters. It is apart from package reports
// because of what the library behind it brings along.
package xlsx

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"

	"github.com/optool/optool/reports"
)

// MaxRows is the most rows of a sheet, the header among them.
const MaxRows = excelize.TotalRows

// Write writes a workbook with one sheet or more. A sheet with more rows than
// MaxRows is an error. Texts that do not fit a cell are cut.
//
// Rows are streamed: what does not fit a buffer of 16 MiB waits in a temporary
// file, so that memory does not grow with their number.
func Write(w io.Writer, sheets ...reports.Sheet) (err error) {
	f := excelize.NewFile()
	defer func() {
		if e := f.Close(); err == nil { // removes temporary files
			err = e
		}
	}()
	header, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true}})
	if err != nil {
		return err
	}
	for i, s := range sheets {
		if i == 0 {
			err = f.SetSheetName(f.GetSheetName(0), s.Name) // a new workbook has a sheet
		} else {
			_, err = f.NewSheet(s.Name)
		}
		if err == nil {
			err = writeSheet(f, s, header)
		}
		if err != nil {
			return fmt.Errorf("sheet %q: %w", s.Name, err)
		}
	}
	// The archive goes to w at once; excelize would collect it in the buffer that it passes.
	f.SetZipWriter(func(io.Writer) excelize.ZipWriter { return zip.NewWriter(w) })
	return f.Write(io.Discard)
}

func writeSheet(f *excelize.File, s reports.Sheet, header int) error {
	sw, err := f.NewStreamWriter(s.Name)
	if err != nil {
		return err
	}
	err = sw.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"})
	if err != nil {
		return err
	}
	titles := make([]any, len(s.Columns))
	for i, title := range s.Columns {
		titles[i] = excelize.Cell{StyleID: header, Value: title}
		if err := sw.SetColWidth(i+1, i+1, width(title)); err != nil {
			return err
		}
	}
	if err := sw.SetRow("A1", titles); err != nil {
		return err
	}
	n := 1
	var cells []any
	for row := range s.Rows {
		if n++; n > MaxRows {
			return fmt.Errorf("more than %d rows: write CSV instead", MaxRows-1)
		}
		cells = cells[:0]
		for _, v := range row {
			cells = append(cells, cell(v))
		}
		if err := sw.SetRow("A"+strconv.Itoa(n), cells); err != nil {
			return err
		}
	}
	last, err := excelize.CoordinatesToCellName(max(len(s.Columns), 1), n)
	if err != nil {
		return err
	}
	if err := f.AutoFilter(s.Name, "A1:"+last, nil); err != nil {
		return err
	}
	return sw.Flush()
}

// cell is v as a spreadsheet holds it: it has no infinities and no NaN.
func cell(v any) any {
	if x, ok := v.(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(x, 'g', -1, 64)), "+")
	}
	return v
}

// width of a column in characters, by its title.
func width(title string) float64 {
	switch {
	case strings.HasSuffix(title, "reason"), strings.HasSuffix(title, "repro"):
		return 60
	case strings.HasSuffix(title, "capture"), title == "op", title == "name", title == "value":
		return 36
	}
	return math.Max(10, float64(len(title)+4))
}
