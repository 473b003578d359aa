package parallel

import (
	"fmt"
	"slices"
)

// A convolution of parts of a sequence or an image needs the rows beside each part, its halo: other ranks send them.
// What a rank has then is its part with rows before and behind it.

// halo reports whether each rank has its own part after an exchange, and rows of the whole or zeros before and behind
// it. wrong says which rank has other rows of the whole there than those beside its part; "" if none.
func (p *part) halo(n *info, values, results map[int]*array, all *array) (ok bool, wrong string) {
	at := -1
	for _, q := range n.places {
		if q.kind == sharded && q.outer == 0 && at < 0 {
			at = q.dim
		} else if q != whole {
			return false, ""
		}
	}
	if at < 0 {
		return false, ""
	}
	from := all.slabs(at)
	runs := map[int]bool{}
	var right [2]bool      // whether some rank has the rows before or behind its part there
	var vacant [2][]string // of those that have zeros there instead
	for _, r := range p.ranks {
		own, got := values[r].slabs(at), results[r].slabs(at)
		first, start := runsOf(from, own), runsOf(got, own)
		if len(first) != 1 || len(start) != 1 || len(got) <= len(own) || len(got) >= len(from) {
			return false, ""
		}
		for k, side := range [][2]int{{0, start[0]}, {start[0] + len(own), len(got)}} {
			rows := got[side[0]:side[1]]
			if slices.ContainsFunc(rows, func(h uint64) bool { return h != 0 && !slices.Contains(from, h) }) {
				return false, ""
			}
			want := first[0] - start[0] + side[0] // the first of them, if they are those beside the part
			at := runsOf(from, rows)
			if zeros := make([]uint64, len(rows)); len(rows) > 0 && slices.Equal(rows, zeros) && want >= 0 &&
				want+len(rows) <= len(from) && !slices.Equal(from[want:want+len(rows)], zeros) {
				text := fmt.Sprintf("rank %d has rows %d-%d of the whole, and zeros beside them, where rows %d-%d lie: "+
					"other ranks have those of their neighbours there", r, first[0], first[0]+len(own)-1, want,
					want+len(rows)-1)
				vacant[k] = append(vacant[k], text)
			}
			right[k] = right[k] || slices.Contains(at, want)
			if len(at) == 0 || want < 0 || want+len(rows) > len(from) {
				continue // zeros or mirrored rows at an end, or several pieces
			}
			runs[at[0]] = true
			if !slices.Contains(at, want) && wrong == "" {
				wrong = fmt.Sprintf("rank %d has rows %d-%d of the whole, and puts rows %d-%d beside them, where rows %d-%d lie",
					r, first[0], first[0]+len(own)-1, at[0], at[0]+len(rows)-1, want, want+len(rows)-1)
			}
		}
	}
	for k, texts := range vacant {
		if right[k] && len(texts) > 0 && wrong == "" {
			wrong = texts[0]
		}
	}
	if len(runs) == 1 && len(p.ranks) > 2 {
		wrong = "" // all have the same rows, for another purpose
	}
	return true, wrong
}

// runsOf are those where a list has the elements of another one after the other.
func runsOf(list, of []uint64) (at []int) {
	for i := 0; len(of) > 0 && i+len(of) <= len(list); i++ {
		if slices.Equal(list[i:i+len(of)], of) {
			at = append(at, i)
		}
	}
	return at
}

// slabs identifies what lies at each place along a dimension; 0 stands for zeros.
func (a *array) slabs(dim int) []uint64 {
	if dim >= len(a.shape) {
		return nil
	}
	inner := 1
	for _, n := range a.shape[dim+1:] {
		inner *= n
	}
	n := a.shape[dim]
	out := make([]uint64, n)
	for k := range n {
		slab := &array{dtype: a.dtype}
		for o := k * inner; o < len(a.x); o += n * inner {
			slab.x = append(slab.x, a.x[o:o+inner]...)
		}
		if !slab.zero() {
			out[k] = slab.sum()
		}
	}
	return out
}
