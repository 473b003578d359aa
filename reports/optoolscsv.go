package reports

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A CSV writes op_tools' CSV files: lines end in CR LF, fields are quoted as
// Python's csv module does, and the header is repeated at each flush of a full
// buffer, as op_tools appends blocks with one header each.
type CSV struct {
	w      io.Writer
	header []string
	block  int // rows between headers
	rows   int
	bytes  int64
	err    error
}

// Continue goes on with a file that has so much.
func (c *CSV) Continue(from FilePos) { c.rows, c.bytes = from.Rows, from.Bytes }

// Written is how many bytes and rows the file has.
func (c *CSV) Written() (bytes int64, rows int) { return c.bytes, c.rows }

// Rows between two headers, unless OP_TOOLS_MAX_CACHE_SIZE says otherwise.
const (
	CompareBlock = 100
	TimeBlock    = 5000
)

// Columns of op_tools' files, then optool's own.
var (
	compareHeader = []string{"forward_id", "name", "allclose", "cosine_similarity", "max_abs_diff", "max_relative_diff",
		"atol", "rtol", "error_info", "verdict", "reason"}
	timeHeader = []string{"name", "forward_id", "forward_elasped", "backward_elasped", "unit", "input", "output",
		"grad_inputs", "grad_outputs"}
)

// NewCompareCSV writes op_autocompare_info files; block is the number of rows
// per header, CompareBlock if zero.
func NewCompareCSV(w io.Writer, block int) *CSV {
	if block <= 0 {
		block = CompareBlock
	}
	return &CSV{w: w, header: compareHeader, block: block}
}

// NewTimeCSV writes op_elasped_info files; block is the number of rows per
// header, TimeBlock if zero.
func NewTimeCSV(w io.Writer, block int) *CSV {
	if block <= 0 {
		block = TimeBlock
	}
	return &CSV{w: w, header: timeHeader, block: block}
}

// Compare writes one row of a comparison.
func (c *CSV) Compare(r CompareRow) error {
	fields := []string{r.ForwardID}
	for i, col := range compareColumns {
		cell := col.cell(r)
		if i == 0 { // the name; others are numbers, which may be negative
			cell = textField(cell)
		}
		fields = append(fields, cell)
	}
	return c.write(append(fields, string(r.Verdict), textField(r.Reason)))
}

// A TimeRow is one run of a timed call; times are negative where there is
// none. The last four fields are Python dict texts of the arguments.
type TimeRow struct {
	Name                                   string
	ForwardID                              int
	Forward, Backward                      time.Duration
	Input, Output, GradInputs, GradOutputs string
}

// Time writes one timed run.
func (c *CSV) Time(r TimeRow) error {
	return c.write([]string{
		textField(r.Name), fmt.Sprint(r.ForwardID), milliseconds(r.Forward), milliseconds(r.Backward), "ms",
		Cell(r.Input), Cell(r.Output), Cell(r.GradInputs), Cell(r.GradOutputs),
	})
}

// milliseconds is a time as op_tools writes it, "-" for none.
func milliseconds(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.8f", float64(d)/float64(time.Millisecond))
}

func (c *CSV) write(fields []string) error {
	if c.err != nil {
		return c.err
	}
	var b strings.Builder
	if c.rows%c.block == 0 {
		writeFields(&b, c.header)
	}
	c.rows++
	writeFields(&b, fields)
	n, err := io.WriteString(c.w, b.String())
	c.bytes, c.err = c.bytes+int64(n), err
	return c.err
}

// writeFields writes one line as Python's csv.writer does by default
// (QUOTE_MINIMAL). encoding/csv quotes fields that begin with a space, which
// op_tools' error_info does.
func writeFields(b *strings.Builder, fields []string) {
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.ContainsAny(f, ",\"\r\n") {
			b.WriteByte('"')
			b.WriteString(strings.ReplaceAll(f, `"`, `""`))
			b.WriteByte('"')
		} else {
			b.WriteString(f)
		}
	}
	b.WriteString("\r\n")
}

// Names of op_tools' CSV files below op_tools_results.
const (
	autocompareFile = "op_autocompare_result/op_autocompare_info_pid%d_%s.csv"
	timeFile        = "op_time_measure_result/op_elasped_info_pid%d_%s.csv"
)

// TimeLayout is the form of times in op_tools' paths.
const TimeLayout = "2006-01-02-15-04-05"

// CreateCompareCSV creates op_tools' comparison file under dir.
func CreateCompareCSV(dir string, now time.Time) (*os.File, error) {
	return createCSV(dir, autocompareFile, now)
}

// CreateTimeCSV creates op_tools' timing file under dir.
func CreateTimeCSV(dir string, now time.Time) (*os.File, error) { return createCSV(dir, timeFile, now) }

func createCSV(dir, name string, now time.Time) (*os.File, error) {
	path := filepath.Join(dir, "op_tools_results", fmt.Sprintf(name, os.Getpid(), now.Format(TimeLayout)))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return os.Create(path)
}
