package reports

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A column of a prettytable: cells that were formatted already.
type column struct {
	name  string
	left  bool // cells are flush left; centred otherwise
	cells []string
	wide  int // the width of its widest cell, 0 before it is known
}

// writeTable renders columns as prettytable does: cells centred, with the odd
// space after texts of odd length and before those of even length.
// A table wider than width (0 for no limit) is made narrower.
func writeTable(w io.Writer, width int, cols []column) error {
	cols, hidden := narrow(width, cols)
	b := bufio.NewWriter(w)
	rule, rows := "+", 0
	for i := range cols {
		rule += strings.Repeat("-", cols[i].width()+2) + "+"
		rows = len(cols[i].cells)
	}
	row := func(left bool, cell func(c *column) string) {
		for i := range cols {
			c := &cols[i]
			before, text, after := centre(cell(c), c.width())
			if left && c.left {
				before, after = 0, before+after
			}
			fmt.Fprintf(b, "| %*s%s%*s ", before, "", text, after, "")
		}
		b.WriteString("|\n")
	}
	fmt.Fprintln(b, rule)
	row(false, func(c *column) string { return c.name })
	fmt.Fprintln(b, rule)
	for r := range rows {
		row(true, func(c *column) string { return c.cells[r] })
	}
	fmt.Fprintln(b, rule)
	if len(hidden) > 0 {
		fmt.Fprintf(b, "(no room for %s)\n", strings.Join(hidden, ", "))
	}
	return b.Flush()
}

// leftOut are the columns a reader misses least, in the order they make room.
var leftOut = []string{"data_ptr", "layout", "rtol", "atol", "cosine_similarity", "stride", "norm", "std",
	"requires_grad", "inf", "nan", "numel", "mean", "device"}

// narrow makes a table fit into width: names lose what all of them begin with
// (the op, which stands above the table), then columns that are empty go, then
// those of leftOut, whose names are returned.
func narrow(width int, cols []column) (kept []column, hidden []string) {
	fits := func() bool {
		sum := 1
		for i := range cols {
			sum += cols[i].width() + 3
		}
		return width <= 0 || sum <= width
	}
	if fits() {
		return cols, nil
	}
	cols = slices.Clone(cols)
	cols[0].cells, cols[0].wide = shortNames(cols[0].cells), 0
	if !fits() {
		cols = slices.DeleteFunc(cols, func(c column) bool {
			return !slices.ContainsFunc(c.cells, func(s string) bool { return s != "" })
		})
	}
	for _, name := range leftOut {
		if fits() {
			break
		}
		if i := slices.IndexFunc(cols, func(c column) bool { return c.name == name }); i >= 0 {
			cols = slices.Delete(cols, i, i+1)
			hidden = append(hidden, name)
		}
	}
	return cols, hidden
}

// shortNames takes from row names the op they all begin with.
func shortNames(names []string) []string {
	op, _, _ := strings.Cut(names[0], " ")
	short := make([]string, len(names))
	for i, n := range names {
		rest, ok := strings.CutPrefix(n, op+" ")
		if !ok {
			return names
		}
		short[i] = strings.TrimSpace(rest)
	}
	return short
}

// width is the width of the column's widest cell.
func (c *column) width() int {
	if c.wide == 0 {
		c.wide = text.StringWidthWithoutEscSequences(c.name)
		for _, cell := range c.cells {
			c.wide = max(c.wide, text.StringWidthWithoutEscSequences(cell))
		}
	}
	return c.wide
}

// centre says how many spaces stand on both sides of a cell that has this width.
func centre(s string, width int) (before int, cell string, after int) {
	n := text.StringWidthWithoutEscSequences(s)
	excess := width - n
	before = excess / 2
	if excess%2 == 1 && n%2 == 0 {
		before++
	}
	return before, s, excess - before
}

// argColumns are the columns of an argument table, in op_tools' order.
var argColumns = []struct {
	name string
	cell func(*TensorInfo) string
}{
	{"device", func(t *TensorInfo) string { return t.Device }},
	{"dtype", func(t *TensorInfo) string { return t.DType }},
	{"numel", func(t *TensorInfo) string { return strconv.Itoa(t.Numel) }},
	{"shape", func(t *TensorInfo) string { return pyTuple(t.Shape) }},
	{"stride", func(t *TensorInfo) string { return pyTuple(t.Stride) }},
	{"requires_grad", func(t *TensorInfo) string { return pyBool(t.RequiresGrad) }},
	{"layout", func(t *TensorInfo) string { return t.Layout }},
	{"data_ptr", func(t *TensorInfo) string { return t.DataPtr }},
}

// WriteArgs prints the table of a call's arguments, results or gradients.
// Columns come in order of first appearance: a first row that is no tensor
// puts value before device. A table wider than width is made narrower; 0 sets
// no limit.
func WriteArgs(w io.Writer, width int, rows []ArgRow) error {
	if len(rows) == 0 {
		return nil
	}
	name, val := column{name: "name"}, column{name: "value"}
	var tensors []column
	anyTensor := slices.ContainsFunc(rows, func(r ArgRow) bool { return r.Tensor != nil })
	anyValue := slices.ContainsFunc(rows, func(r ArgRow) bool { return r.Tensor == nil })
	if anyTensor {
		for _, c := range argColumns {
			tensors = append(tensors, column{name: c.name})
		}
	}
	for _, r := range rows {
		name.cells = append(name.cells, OneLine(r.Name))
		val.cells = append(val.cells, OneLine(r.Value))
		for i := range tensors {
			cell := ""
			if r.Tensor != nil {
				cell = argColumns[i].cell(r.Tensor)
			}
			tensors[i].cells = append(tensors[i].cells, cell)
		}
	}
	cols := []column{name}
	if anyValue && rows[0].Tensor == nil {
		cols = append(append(cols, val), tensors...)
	} else {
		cols = append(cols, tensors...)
		if anyValue {
			cols = append(cols, val)
		}
	}
	return writeTable(w, width, cols)
}

// WriteCompare prints op_tools' comparison table, followed by optool's verdict
// where rows have one, in the width of WriteArgs.
func WriteCompare(w io.Writer, width int, rows []CompareRow) error {
	if len(rows) == 0 {
		return nil
	}
	cols := make([]column, len(compareColumns))
	for i, c := range compareColumns {
		cols[i].name = c.name
		for _, r := range rows {
			cols[i].cells = append(cols[i].cells, c.cell(r))
		}
	}
	if slices.ContainsFunc(rows, func(r CompareRow) bool { return r.Verdict != "" }) {
		verdict := column{name: "verdict"}
		for _, r := range rows {
			verdict.cells = append(verdict.cells, string(r.Verdict))
		}
		cols = append(cols, verdict)
	}
	return writeTable(w, width, cols)
}

var compareColumns = []struct {
	name string
	cell func(CompareRow) string
}{
	{"name", func(r CompareRow) string { return fmt.Sprintf("%-30s", OneLine(r.Name)) }},
	{"allclose", func(r CompareRow) string { return pyBool(r.Allclose) }},
	{"cosine_similarity", func(r CompareRow) string { return fixed9(r.Cosine, 0) }},
	{"max_abs_diff", func(r CompareRow) string { return fixed9(r.MaxAbs, 10) }},
	{"max_relative_diff", func(r CompareRow) string { return fixed9(r.MaxRelative, 10) }},
	{"atol", func(r CompareRow) string { return fixed9(r.ATol, 10) }},
	{"rtol", func(r CompareRow) string { return fixed9(r.RTol, 10) }},
	{"error_info", func(r CompareRow) string { return OneLine(r.ErrorInfo) }},
}

// WriteOverflow prints the table of the overflow check: op_tools' columns,
// then the counts, in the width of WriteArgs.
func WriteOverflow(w io.Writer, width int, rows []OverflowRow) error {
	if len(rows) == 0 {
		return nil
	}
	cols := []column{{name: "name"}, {name: "inf_or_nan"}}
	stats := []struct {
		name string
		cell func(OverflowRow) string
	}{
		{"min", func(r OverflowRow) string { return number(r.Min, -1) }},
		{"max", func(r OverflowRow) string { return number(r.Max, -1) }},
		{"mean", func(r OverflowRow) string { return number(r.Mean, 6) }},
		{"std", func(r OverflowRow) string { return number(r.Std, 6) }},
		{"norm", func(r OverflowRow) string { return number(r.Norm, 6) }},
		{"nan", func(r OverflowRow) string { return strconv.Itoa(r.NaN) }},
		{"inf", func(r OverflowRow) string { return strconv.Itoa(r.Inf) }},
	}
	if slices.ContainsFunc(rows, func(r OverflowRow) bool { return r.Tensor }) {
		for _, s := range stats {
			cols = append(cols, column{name: s.name})
		}
	}
	for _, r := range rows {
		cols[0].cells = append(cols[0].cells, OneLine(r.Name))
		cols[1].cells = append(cols[1].cells, pyBool(r.Overflow))
		for i := range cols[2:] {
			cell := ""
			if r.Tensor {
				cell = stats[i].cell(r)
			}
			cols[i+2].cells = append(cols[i+2].cells, cell)
		}
	}
	return writeTable(w, width, cols)
}

// WriteCasts prints op_tools' table of dtype conversions: rows of name, target,
// action and config.
func WriteCasts(w io.Writer, width int, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	cols := []column{{name: "name"}, {name: "target"}, {name: "action"}, {name: "config"}}
	for _, r := range rows {
		for i := range cols {
			cols[i].cells = append(cols[i].cells, OneLine(r[i]))
		}
	}
	return writeTable(w, width, cols)
}

// WriteTimes prints op_tools' table of elapsed times, in the width of
// WriteArgs: one column per direction that a row has a time for.
func WriteTimes(w io.Writer, width int, rows []TimeRow) error {
	if len(rows) == 0 {
		return nil
	}
	cols := []column{{name: "name"}, {name: "forward_id"}}
	for _, c := range []struct {
		name string
		time func(TimeRow) time.Duration
	}{
		{"forward_elasped", func(r TimeRow) time.Duration { return r.Forward }},
		{"backward_elasped", func(r TimeRow) time.Duration { return r.Backward }},
	} {
		if !slices.ContainsFunc(rows, func(r TimeRow) bool { return c.time(r) >= 0 }) {
			continue
		}
		col := column{name: c.name}
		for _, r := range rows {
			col.cells = append(col.cells, milliseconds(c.time(r)))
		}
		cols = append(cols, col)
	}
	unit := column{name: "unit"}
	for _, r := range rows {
		cols[0].cells = append(cols[0].cells, OneLine(r.Name))
		cols[1].cells = append(cols[1].cells, strconv.Itoa(r.ForwardID))
		unit.cells = append(unit.cells, "ms")
	}
	return writeTable(w, width, append(cols, unit))
}
