package fused

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Store is cache, a store of rows as its first dimensions, with row slots[i] replaced by
// row i of x; -1 leaves a row out, and the last of equal slots counts.
func Store(g *compose.Graph, name string, cache, x *compose.Value, slots []int) *compose.Value {
	if x.Dim() < 2 || x.Shape()[0] < len(slots) || cache.DType() != x.DType() {
		g.Refuse(name, "%d rows of %s do not fit in %s", len(slots), x.T.Meta(), cache.T.Meta())
	}
	p, ok := pagesOf(cache, x)
	if !ok {
		g.Refuse(name, "%s does not hold rows of %s", cache.T.Meta(), x.T.Meta())
	}
	last := map[int]int{} // slot to row
	for i, s := range slots {
		if s < -1 || s >= p.slots {
			g.Refuse("slots", "row %d is not among %d", s, p.slots)
		}
		last[s] = i
	}
	var rows []int
	var places []int64
	for i, s := range slots {
		if s < 0 || last[s] != i {
			continue
		}
		rows = append(rows, i)
		for h := range p.heads {
			places = append(places, span(p.at(s, h), p.size)...)
		}
	}
	if rows == nil {
		return cache
	}
	return g.Put(cache, places, g.IndexSelect(x, 0, rows))
}

// pages are where the rows of a store lie: each in a slot, as heads runs of size elements that begin at at.
type pages struct {
	slots, heads, size int
	at                 func(slot, head int) int
}

// pagesOf finds the rows of x in a store. Pages with heads before rows are told by their sizes.
func pagesOf(cache, x *compose.Value) (p pages, ok bool) {
	width, shape, row := tensor.Numel(x.Shape()[1:]), cache.Shape(), x.Shape()[1:]
	switch {
	case len(shape) == 4 && len(row) == 2 && slices.Equal(shape[2:], row),
		len(shape) == 3 && shape[2] == width, len(shape) == x.Dim() && tensor.Numel(shape[1:]) == width:
		return pages{cache.T.Numel() / max(width, 1), 1, width, func(slot, _ int) int { return slot * width }}, true
	case len(shape) == 4 && len(row) == 2 && shape[1] == row[0] && shape[3] == row[1]:
		heads, rows, size := shape[1], shape[2], shape[3]
		return pages{shape[0] * rows, heads, size, func(slot, h int) int {
			return ((slot/rows*heads+h)*rows + slot%rows) * size
		}}, true
	}
	return pages{}, false
}
