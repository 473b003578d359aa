package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Coverage counts calls by operator and dtype, and those of them that a device can run.
type Coverage struct{ ops map[string]*CoverageRow }

// A CoverageRow is an operator.
type CoverageRow struct {
	Op string `json:"op"`
	CoverageCount
	Functions []string        `json:"functions"` // of the device that its calls took
	DTypes    []*CoverageCell `json:"dtypes"`    // by name
}

// A CoverageCell is an operator with one dtype.
type CoverageCell struct {
	DType string `json:"dtype"`
	CoverageCount
}

// A CoverageCount is how many calls there are, and how many of them can run.
type CoverageCount struct {
	Calls    int    `json:"calls"`
	Runnable int    `json:"runnable"`
	Reason   string `json:"reason"` // of the first call that cannot run
}

// NewCoverage returns a Coverage without calls.
func NewCoverage() *Coverage { return &Coverage{map[string]*CoverageRow{}} }

// Add counts a call with a dtype that took these functions, or that cannot run because of err.
func (c *Coverage) Add(op, dtype string, functions []string, err error) {
	row := c.ops[op]
	if row == nil {
		row = &CoverageRow{Op: op, Functions: []string{}}
		c.ops[op] = row
	}
	i, ok := slices.BinarySearchFunc(row.DTypes, dtype,
		func(x *CoverageCell, name string) int { return cmp.Compare(x.DType, name) })
	if !ok {
		row.DTypes = slices.Insert(row.DTypes, i, &CoverageCell{DType: dtype})
	}
	row.add(err)
	row.DTypes[i].add(err)
	if err != nil {
		return
	}
	for _, f := range functions {
		if !slices.Contains(row.Functions, f) {
			row.Functions = append(row.Functions, f)
		}
	}
}

func (n *CoverageCount) add(err error) {
	n.Calls++
	if err == nil {
		n.Runnable++
	} else {
		n.Reason = cmp.Or(n.Reason, err.Error())
	}
}

// Class is pass, missing or warn for calls of which all, none or some can run, the classes
// of the style sheet of pages; "" for none.
func (n CoverageCount) Class() string {
	switch {
	case n.Calls == 0:
		return ""
	case n.Runnable == n.Calls:
		return "pass"
	case n.Runnable == 0:
		return "missing"
	}
	return "warn"
}

// String is "yes" or "no", or how many of the calls can run; "" for none.
func (n CoverageCount) String() string {
	switch n.Class() {
	case "pass":
		return "yes"
	case "missing":
		return "no"
	case "warn":
		return fmt.Sprintf("%d/%d", n.Runnable, n.Calls)
	}
	return ""
}

// Rows are the operators, those with most calls first.
func (c *Coverage) Rows() []*CoverageRow {
	return slices.SortedFunc(maps.Values(c.ops), func(x, y *CoverageRow) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Op, y.Op))
	})
}

// Cell counts the calls of an operator with a dtype.
func (r *CoverageRow) Cell(dtype string) CoverageCount {
	for _, c := range r.DTypes {
		if c.DType == dtype {
			return c.CoverageCount
		}
	}
	return CoverageCount{}
}

// Total counts all calls.
func (c *Coverage) Total() (n CoverageCount) {
	for _, r := range c.ops {
		n.Calls += r.Calls
		n.Runnable += r.Runnable
	}
	return n
}

// DTypes counts the operators with calls of each dtype, and those of which all can run.
// Floating dtypes come first, then by name.
func (c *Coverage) DTypes() []CoverageCell {
	counts := map[string]*CoverageCell{}
	for _, r := range c.ops {
		for _, cell := range r.DTypes {
			n := counts[cell.DType]
			if n == nil {
				n = &CoverageCell{DType: cell.DType}
				counts[cell.DType] = n
			}
			n.Calls++
			if cell.Runnable == cell.Calls {
				n.Runnable++
			}
		}
	}
	rank := func(dtype string) int {
		return slices.IndexFunc([]string{"float", "bfloat", "complex", ""},
			func(prefix string) bool { return strings.HasPrefix(dtype, prefix) })
	}
	list := []CoverageCell{}
	for _, n := range counts {
		list = append(list, *n)
	}
	slices.SortFunc(list, func(a, b CoverageCell) int {
		return cmp.Or(cmp.Compare(rank(a.DType), rank(b.DType)), cmp.Compare(a.DType, b.DType))
	})
	return list
}

// Write prints a row for each operator, or for those alone of which calls cannot run, with a
// column for each dtype. width limits the lines; zero is no limit.
func (c *Coverage) Write(w io.Writer, width int, lacking bool) error {
	dtypes := c.DTypes()
	head := []string{"op", "calls", "can run"}
	for _, d := range dtypes {
		head = append(head, d.DType)
	}
	l := NewListing(w, width, append(head, "why not")...)
	l.Names(0)
	l.Wrap()
	l.Right(1)
	l.Right(2)
	for _, r := range c.Rows() {
		if lacking && r.Runnable == r.Calls {
			continue
		}
		cells := []string{r.Op, strconv.Itoa(r.Calls), strconv.Itoa(r.Runnable)}
		for _, d := range dtypes {
			cells = append(cells, r.Cell(d.DType).String())
		}
		if err := l.Add(append(cells, r.Reason)...); err != nil {
			return err
		}
	}
	return l.Flush()
}

// WriteDTypes prints, for each dtype, how many operators can run.
func (c *Coverage) WriteDTypes(w io.Writer, width int) error {
	l := NewListing(w, width, "dtype", "operators that run", "of")
	l.Right(1)
	l.Right(2)
	for _, d := range c.DTypes() {
		if err := l.Add(d.DType, strconv.Itoa(d.Runnable), strconv.Itoa(d.Calls)); err != nil {
			return err
		}
	}
	return l.Flush()
}

// Sheet has a row for each operator and dtype.
func (c *Coverage) Sheet() Sheet {
	return Sheet{Name: "coverage", Columns: []string{"op", "dtype", "calls", "runnable", "functions", "reason"},
		Rows: func(yield func([]any) bool) {
			for _, r := range c.Rows() {
				for _, d := range r.DTypes {
					if !yield([]any{r.Op, d.DType, d.Calls, d.Runnable, strings.Join(r.Functions, " "),
						textCell(d.Reason)}) {
						return
					}
				}
			}
		}}
}
