package browse

import (
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports/charts"
	"github.com/optool/optool/tensor"
)

// A field is a field of a result, in each run.
type field struct {
	Name    string
	Values  []string
	Differs bool
}

// A resultPage is the data of a page of one result, of two runs if there are.
type resultPage struct {
	Number, ID int
	Title      string
	Names      []string    // of the runs
	Causes     [][2]string // of a finding: what they are called, and say
	Fields     []field
	Slice      string // as asked for
	Value      *slice // nil if it cannot be opened
	Why        string // it cannot
	Back       string
}

func (s *Server) result(r *http.Request) (any, error) {
	n, err := number(r, "run", 1, len(s.runs))
	if err != nil {
		return nil, err
	}
	id, err := number(r, "id", 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	p := &resultPage{Number: n, ID: id, Slice: r.FormValue("slice")}
	row, err := s.row(r, n-1, id)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, bad("run %d has no result %d", n, id)
	}
	p.Title = strings.TrimSpace(text(row["op"]) + " " + text(row["phase"]) + " " + text(row["target"]))
	for _, c := range s.runs[n-1].causes {
		if c.Capture == text(row["capture"]) && slices.Contains(c.Targets, text(row["target"])) {
			p.Causes = append(p.Causes, [2]string{c.Label(), c.String()})
		}
	}
	both, names := []map[string]any{row}, []string{s.runs[n-1].Name}
	if other, ok := row[columnOther].(int64); ok {
		peer, err := s.row(r, 2-n, int(other))
		if err != nil {
			return nil, err
		}
		both, names = append(both, peer), append(names, s.runs[2-n].Name)
	}
	p.Names = names
	for _, c := range s.runs[n-1].columns {
		switch c {
		case columnRank, columnOther, columnWas:
			continue
		}
		f := field{Name: c}
		for _, x := range both {
			f.Values = append(f.Values, text(x[c]))
		}
		f.Differs = len(both) == 2 && f.Values[0] != f.Values[1]
		if slices.ContainsFunc(f.Values, func(v string) bool { return v != "" }) {
			p.Fields = append(p.Fields, f)
		}
	}
	p.Value, err = s.slice(text(row["capture"]), text(row["phase"]), text(row["target"]), p.Slice)
	if err != nil {
		p.Why = err.Error()
	}
	return p, nil
}

// row is a result by the names of its columns, nil if there is none.
func (s *Server) row(r *http.Request, run, id int) (map[string]any, error) {
	columns := s.runs[run].columns
	rows, err := s.db.QueryContext(r.Context(), fmt.Sprintf("SELECT rowid, * FROM %s WHERE rowid = ?", table(run)), id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	_, cells, err := scanRow(rows, len(columns))
	row := map[string]any{}
	for i, c := range columns {
		row[c] = cells[i]
	}
	return row, err
}

// A slice is a part of a tensor. Distances are those of the screen: in units of the dtype that the value is precise to.
type slice struct {
	DType, Shape, Slice string
	Map                 template.HTML
	Note                string
	Worst               *cell // the worst element of the value as the screen names it; nil if it is not in the slice
	Rows                [][]cell
	Off, Numel          int

	value *Value
}

type cell struct {
	Index, Got, Want, Distance string
	Shade                      string
}

const (
	mapCells  = 64 // rows and columns of the map
	tableRows = 16
	tableCols = 8
	// mostElements is how many elements of a slice are looked at.
	mostElements = 1 << 24
)

// slice opens a value and takes the part of it that is asked for. The value stays open
// for the next request.
func (s *Server) slice(capture, phase, target, asked string) (out *slice, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if r := recover(); r != nil { // a storage that cannot be read any more, or more memory than there is
			s.release()
			out, err = nil, bad("%v", r)
		}
	}()
	if s.open == nil {
		return nil, bad("no captures are given: optool view RUN PATH opens the tensors under PATH")
	}
	if key := capture + "\n" + phase + "\n" + target; s.value == nil || s.opened != key {
		s.release()
		v, err := s.open(capture, phase, target)
		if err != nil {
			return nil, err
		}
		s.value, s.opened = v, key
	}
	got, want := s.value.Got, s.value.Want
	if !slices.Equal(got.Shape, want.Shape) {
		return nil, bad("shape is %s, want %s: there are no errors of elements", tensor.ShapeString(got.Shape),
			tensor.ShapeString(want.Shape))
	}
	if !got.DType.IsFloat() {
		return nil, bad("errors of dtype %s have no size", got.DType)
	}
	out = &slice{DType: got.DType.String(), Shape: tensor.ShapeString(got.Shape), value: s.value}
	if grid := out.grid(); grid != got.DType {
		out.DType += ", precise to " + grid.String()
	}
	ranges, err := parseSlice(asked, got.Shape)
	if err != nil {
		return nil, err
	}
	var parts []string
	for d, x := range ranges {
		got, want = got.Slice(d, x.from, x.to-x.from, 1), want.Slice(d, x.from, x.to-x.from, 1)
		parts = append(parts, x.text)
	}
	out.Slice = strings.Join(parts, ", ")
	if out.Numel = got.Numel(); out.Numel > mostElements {
		return nil, bad("the slice has %d elements, at most %d are looked at: ask for a part, as in 0, :, 100:200",
			out.Numel, mostElements)
	}
	out.fill(got, want, ranges)
	return out, nil
}

// grid is the dtype in whose units distances are counted.
func (out *slice) grid() tensor.DType {
	if r := out.value.Compared; r != nil && r.Grid.IsFloat() {
		return r.Grid
	}
	return out.value.Got.DType
}

// wrong reports whether an element that differs is off by more than it may be, as far as that is known.
func (out *slice) wrong(index []int, x, exact float64) bool {
	switch r := out.value.Compared; {
	case r == nil:
		return true
	case r.Verdict == verdict.Pass:
		return false
	case r.Limit == nil || math.IsInf(x, 0) || x != x:
		return true
	default:
		return !(math.Abs(x-exact) <= r.Limit(index).Allowed)
	}
}

// fill computes the map, and the table of the first elements. A cell of the map is the largest distance of those of its
// elements that are off by more than they may be or, of a value that passed, of all.
func (out *slice) fill(got, want *tensor.Tensor, ranges []interval) {
	// Rows and columns are the last two dimensions of which more than one index is taken.
	row, col := -1, -1
	for d, x := range ranges {
		if x.to-x.from > 1 {
			row, col = col, d
		}
	}
	extent := func(d int) int {
		if d < 0 {
			return 1
		}
		return ranges[d].to - ranges[d].from
	}
	rows, cols := extent(row), extent(col)
	cells := make([][]float64, min(rows, mapCells))
	for i := range cells {
		cells[i] = make([]float64, min(cols, mapCells))
	}
	stride := tensor.Contiguous(got.Shape)
	at := func(i, d int) int {
		if d < 0 {
			return 0
		}
		return i / stride[d] % got.Shape[d]
	}
	out.Rows = make([][]cell, min(rows, tableRows))
	passed := out.value.Compared != nil && out.value.Compared.Verdict == verdict.Pass
	worst := -1
	if r := out.value.Compared; r != nil && r.WorstIndex != nil {
		worst = out.place(r.WorstIndex, ranges, got.Shape)
	}
	const block = 1 << 14
	g, w := make([]float64, min(block, out.Numel)), make([]float64, min(block, out.Numel))
	for lo := 0; lo < out.Numel; lo += block {
		k := min(block, out.Numel-lo)
		tensor.Load(got, lo, g[:k])
		tensor.Load(want, lo, w[:k])
		for i := range k {
			rounded, ulps := compare.Distance(out.grid(), g[i], w[i])
			if ulps > 0 {
				out.Off++
			}
			index := func() []int {
				full := make([]int, len(ranges))
				for d, x := range ranges {
					full[d] = x.from + at(lo+i, d)
				}
				return full
			}
			element := func() cell {
				shade := ""
				if ulps > 0 {
					shade = "warn"
					if out.wrong(index(), g[i], w[i]) {
						shade = "fail"
					}
				}
				return cell{tensor.ShapeString(index()), short(g[i]), short(rounded), fmt.Sprintf("%.4g", ulps), shade}
			}
			r, c := at(lo+i, row), at(lo+i, col)
			p := &cells[r*len(cells)/rows][c*len(cells[0])/cols]
			if ulps > *p && (passed || out.wrong(index(), g[i], w[i])) {
				*p = ulps
			}
			if lo+i == worst && ulps > 0 {
				is := element()
				out.Worst = &is
			}
			// Of dimensions laid over each other the first.
			if r < tableRows && c < tableCols && len(out.Rows[r]) == c {
				out.Rows[r] = append(out.Rows[r], element())
			}
		}
	}
	out.Map = charts.ErrorMap(cells, "ulp")
	if rows > mapCells || cols > mapCells {
		out.Note = fmt.Sprintf("%d x %d elements, the largest error of each cell", rows, cols)
	}
	which := "elements that are off by more than they may be"
	if passed {
		which = "no element is off by more than it may be"
	}
	out.Note = strings.TrimPrefix(out.Note+"; "+which, "; ")
}

// place is the flat place of an element in the slice, -1 if it is not there.
func (out *slice) place(index []int, ranges []interval, shape []int) int {
	in := make([]int, len(index))
	for d, x := range ranges {
		if in[d] = index[d] - x.from; in[d] < 0 || index[d] >= x.to {
			return -1
		}
	}
	return tensor.Ravel(in, shape)
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }

// An interval is the indices of a dimension, from from to before to.
type interval struct {
	from, to int
	text     string
}

// parseSlice reads what is asked for as Python writes it: "0, :, 16:32, -1". Dimensions
// that are not named are taken whole.
func parseSlice(asked string, shape []int) ([]interval, error) {
	all := make([]interval, len(shape))
	for d, n := range shape {
		all[d] = interval{0, n, ":"}
	}
	asked = strings.Trim(strings.TrimSpace(asked), "[]")
	if asked == "" {
		return all, nil
	}
	parts := strings.Split(asked, ",")
	if len(parts) > len(shape) {
		return nil, bad("slice %.60q: want at most %d dimensions", asked, len(shape))
	}
	for d, part := range parts {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, ":")
		x := interval{0, shape[d], part}
		var err error
		if from = strings.TrimSpace(from); from != "" || !isRange {
			x.from, err = index(from, shape[d])
		}
		if to = strings.TrimSpace(to); err == nil && to != "" {
			x.to, err = index(to, shape[d])
		}
		if !isRange {
			x.to = x.from + 1
		}
		if err != nil || x.from >= x.to || x.to > shape[d] {
			return nil, bad("slice %.60q: dimension %d: want an index below %d or a range, got %.20q", asked, d,
				shape[d], part)
		}
		all[d] = x
	}
	return all, nil
}

// index is an index of a dimension of n; negative ones count from the end.
func index(s string, n int) (int, error) {
	i, err := strconv.Atoi(s)
	if i < 0 {
		i += n
	}
	if err == nil && (i < 0 || i > n) {
		err = strconv.ErrRange
	}
	return i, err
}
