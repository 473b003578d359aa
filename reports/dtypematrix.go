package reports

import (
	"cmp"
	"maps"
	"slices"

	"github.com/optool/optool/compare/verdict"
)

// A DTypeMatrix counts the calls of each op by dtype and verdict: what a device can do,
// and what it lacks.
type DTypeMatrix struct {
	DTypes []string
	Rows   []DTypeRow
}

// A DTypeRow is an op, with a cell for each of the matrix's dtypes.
type DTypeRow struct {
	Op    string
	Cells []DTypeCell
}

// A DTypeCell counts the calls of one op with one dtype: each counts by its worst result.
type DTypeCell struct {
	Pass, Warn, Fail, Missing int // Missing: not implemented
	Repaired, Reads           int // of two recordings; Reads: reads other values
	Other                     int // nothing was compared, or the input was refused
}

// Worst is the class of a cell: fail, missing, warn, pass, other, or "" for no calls.
func (c DTypeCell) Worst() string {
	switch {
	case c.Fail > 0:
		return "fail"
	case c.Missing > 0:
		return "missing"
	case c.Warn > 0:
		return "warn"
	case c.Pass+c.Repaired > 0:
		return "pass"
	case c.Other+c.Reads > 0:
		return "other"
	}
	return ""
}

// unknownDType is the column of calls of which no dtype is known.
const unknownDType = "not known"

// A DTypeCount counts calls by op, as a Summary tells them apart, and dtype: the dtype of a call is that of its first
// result that has one, or of the first argument of a case.
type DTypeCount struct {
	cells  map[string]map[string]*DTypeCell
	dtypes map[string]bool
}

// NewDTypeCount returns a count of no calls.
func NewDTypeCount() *DTypeCount {
	return &DTypeCount{cells: map[string]map[string]*DTypeCell{}, dtypes: map[string]bool{}}
}

// Add counts a call. Its worst verdict is shown as s shows it.
func (c *DTypeCount) Add(f *Finding, s *Summary) {
	op, dt := f.Results[0].Op, f.dtype()
	if c.cells[op] == nil && len(c.cells) >= maxOps {
		op = otherOps
	}
	if c.cells[op] == nil {
		c.cells[op] = map[string]*DTypeCell{}
	}
	if c.cells[op][dt] == nil {
		c.cells[op][dt] = &DTypeCell{}
	}
	v := f.Worst()
	for _, r := range f.Results {
		if r.Verdict == v {
			v = s.Shown(r)
			break
		}
	}
	c.cells[op][dt].add(v)
	c.dtypes[dt] = true
}

// Matrix is what was counted. Ops that failed come first, then those that are missing, then by
// name.
func (c *DTypeCount) Matrix() *DTypeMatrix {
	m := &DTypeMatrix{DTypes: slices.Sorted(maps.Keys(c.dtypes))}
	if i := slices.Index(m.DTypes, unknownDType); i >= 0 {
		m.DTypes = append(slices.Delete(m.DTypes, i, i+1), unknownDType)
	}
	for op, cells := range c.cells {
		row := DTypeRow{Op: Name(op)}
		for _, dt := range m.DTypes {
			cell := DTypeCell{}
			if c := cells[dt]; c != nil {
				cell = *c
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	rank := func(r DTypeRow) int {
		fail, missing := 0, 0
		for _, c := range r.Cells {
			fail, missing = max(fail, min(c.Fail, 1)), max(missing, min(c.Missing, 1))
		}
		return -2*fail - missing
	}
	slices.SortFunc(m.Rows, func(a, b DTypeRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Op, b.Op))
	})
	return m
}

func (c *DTypeCell) add(v verdict.Verdict) {
	switch {
	case v == verdict.Pass:
		c.Pass++
	case v == verdict.Warn:
		c.Warn++
	case v == verdict.Repaired:
		c.Repaired++
	case v == ReadsOtherValues:
		c.Reads++
	case v.Differs():
		c.Fail++
	case v == verdict.Unsupported:
		c.Missing++
	default:
		c.Other++
	}
}

func (f *Finding) dtype() string {
	for _, r := range f.Results {
		if r.DType != nil {
			return *r.DType
		}
	}
	if in := f.Results[0].Inputs; len(in) > 0 {
		return in[0]
	}
	return unknownDType
}
