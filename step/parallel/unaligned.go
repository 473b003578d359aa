package parallel

import (
	"slices"

	"github.com/optool/optool/step"
)

// Ranks with other experts make other calls between the exchanges of rows: they have more experts, or read them by
// lines of their own. Then the rows of each rank are followed by themselves.

// rowsBack numbers the rows of an argument of an exchange, whose ranks made it by calls of their own from what an
// exchange gave them; nil if that is not known.
func (p *part) rowsBack(s *site, from int) *rows {
	var out *rows
	for _, r := range p.ranks {
		call := s.calls[r]
		if call == nil || from >= len(call.Inputs) {
			return nil
		}
		n, of := p.rowsMade(call.Inputs[from], r, 32)
		if n == nil || out != nil && n.via != out.via {
			return nil
		}
		if out == nil {
			out = &rows{of: map[int][]int{}, start: n.start, count: n.count, via: n.via, same: n.same}
		}
		out.of[r] = of
	}
	return out
}

// rowsMade are the numbers of the rows that a rank's argument was made of, one for each; n is nil if they are not
// known.
func (p *part) rowsMade(v *step.Value, rank, within int) (n *rows, of []int) {
	d, err := p.checker.load(v.Call)
	if err != nil || len(d.ins) != len(v.Call.Inputs) {
		return nil, nil
	}
	a := d.ins[slices.Index(v.Call.Inputs, v)]
	if known := p.known(rank, a); known != nil && known.rows != nil && !known.lost {
		return known.rows, known.rows.of[rank]
	}
	if v.From.Value == nil || within == 0 || !a.array.dtype.IsFloat() || isExchange(v.From.Value.Call.Op) {
		return nil, nil
	}
	made, err := p.checker.load(v.From.Value.Call)
	if err != nil || len(made.ins) != len(made.call.Inputs) {
		return nil, nil
	}
	count, width := a.array.rows()
	byRow := map[uint64]int{}
	alone := true // one argument has all rows
	for i, in := range made.ins {
		if !in.array.dtype.IsFloat() || in.name != "" {
			continue
		}
		m, rowsOf := p.rowsMade(made.call.Inputs[i], rank, within-1)
		if m == nil {
			continue
		}
		alone = alone && n == nil && (i == 0 || !mixing[method(made.call.Op)])
		n, of = m, rowsOf
		if _, w := in.array.rows(); w == width {
			for k := range min(len(rowsOf), len(in.array.x)/max(w, 1)) {
				if sum, ok := in.array.rowSum(k, w); ok {
					byRow[sum] = rowsOf[k]
				}
			}
		}
	}
	if n == nil {
		return nil, nil
	}
	var moved []int
	for k := range count {
		sum, ok := a.array.rowSum(k, width)
		at, has := byRow[sum]
		if !ok {
			at, has = -1, true
		}
		if !has {
			moved = nil
			break
		}
		moved = append(moved, at)
	}
	switch {
	case len(moved) == count:
		return n, moved
	case alone && len(of) == count && !reordering[method(made.call.Op)]:
		return n, of
	}
	return nil, nil
}

// Operators that make rows of several others, unless they are the first argument's, and that put them in another order.
var (
	mixing     = setOf("matmul", "mm", "bmm")
	reordering = setOf("cumsum", "sort", "roll", "flip")
)
