package fused

import (
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Store is cache, a store of rows as its first dimensions, with row slots[i] replaced by
// row i of x; -1 leaves a row out, and the last of equal slots counts. Pages with heads
// before rows are told by their sizes.
func Store(g *compose.Graph, name string, cache, x *compose.Value, slots []int) *compose.Value {
	if x.Dim() < 2 || x.Shape()[0] < len(slots) || cache.DType() != x.DType() {
		g.Refuse(name, "%d rows of %s do not fit in %s", len(slots), x.T.Meta(), cache.T.Meta())
	}
	width, shape := tensor.Numel(x.Shape()[1:]), cache.Shape()
	heads, size := 1, width // a row is heads runs of size
	total, at := 0, func(slot, h int) int { return slot * width }
	switch {
	case len(shape) == 4 && x.Dim() == 3 && shape[2] == x.Shape()[1] && shape[3] == x.Shape()[2],
		len(shape) == 3 && shape[2] == width, len(shape) == x.Dim() && tensor.Numel(shape[1:]) == width:
		total = cache.T.Numel() / max(width, 1)
	case len(shape) == 4 && x.Dim() == 3 && shape[1] == x.Shape()[1] && shape[3] == x.Shape()[2]:
		heads, size, total = shape[1], shape[3], shape[0]*shape[2]
		at = func(slot, h int) int { return ((slot/shape[2]*heads+h)*shape[2] + slot%shape[2]) * size }
	default:
		g.Refuse(name, "%s does not hold rows of %s", cache.T.Meta(), x.T.Meta())
	}
	last := map[int]int{} // slot to row
	for i, s := range slots {
		if s < -1 || s >= total {
			g.Refuse("slots", "row %d is not among %d", s, total)
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
		for h := range heads {
			places = append(places, span(at(s, h), size)...)
		}
	}
	if rows == nil {
		return cache
	}
	return g.Put(cache, places, g.IndexSelect(x, 0, rows))
}
