package reports

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// WriteCSV writes a sheet as CSV with lines that end in LF. A text that a
// spreadsheet would take for a formula gets an apostrophe in front.
func WriteCSV(w io.Writer, s Sheet) error {
	b := bufio.NewWriterSize(w, 1<<16)
	c := csv.NewWriter(b)
	if err := c.Write(s.Columns); err != nil {
		return err
	}
	fields := make([]string, len(s.Columns))
	for row := range s.Rows {
		for i, v := range row {
			fields[i] = csvField(v)
		}
		if err := c.Write(fields); err != nil {
			return err
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return err
	}
	return b.Flush()
}

func csvField(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case float64:
		return number(v, -1)
	case string:
		return textField(v)
	}
	return ""
}

// textField is a text as a cell of a CSV file, which is no formula.
func textField(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		s = "'" + s
	}
	return Cell(s)
}
