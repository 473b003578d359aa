package fused

import (
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// IntsOf are integers that are given as a tensor or as a list; nil of None.
func IntsOf(g *compose.Graph, name string, v value.Value) []int {
	switch v := v.(type) {
	case nil:
		return nil
	case *tensor.Tensor:
		return Ints(g, name, v.Reshape(v.Numel()))
	case *value.Sequence:
		out := make([]int, len(v.Items))
		for i, item := range v.Items {
			switch n := item.(type) {
			case int64:
				out[i] = int(n)
			case *tensor.Tensor:
				if n.Numel() != 1 || n.DType.Kind() != tensor.KindInt {
					g.Refuse(name, "want integers, got %s", n.Meta())
				}
				out[i] = int(tensor.Data[int64](n)[0])
			default:
				g.Refuse(name, "want integers, got %s", value.Repr(item))
			}
		}
		return out
	}
	g.Refuse(name, "want integers, got %s", value.Repr(v))
	return nil
}

// Lengths are those of sequences that make up total rows, from lengths or, where these do
// not add up to total, from the rows at which they end.
func Lengths(g *compose.Graph, name string, of []int, total int) []int {
	sum, last, rising := 0, 0, true
	for _, n := range of {
		if n < 0 || n > total {
			g.Refuse(name, "%d rows are not among %d", n, total)
		}
		sum, rising, last = sum+n, rising && n >= last, n
	}
	switch {
	case sum == total:
		return of
	case !rising || last != total:
		g.Refuse(name, "neither lengths nor ends of sequences of %d rows are %v", total, of)
	}
	out := make([]int, len(of))
	for i, end := range of {
		if out[i] = end; i > 0 {
			out[i] -= of[i-1]
		}
	}
	return out
}

// Pages are a store of the keys or values of sequences.
type Pages struct {
	rows  *compose.Value // [places, heads, size]
	table []int64
	width int // pages of a sequence
	size  int // rows of a page
}

// NewPages is a store of pages x in the order [pages, rows, heads, size], the last two also
// in one dimension, or [pages, heads, rows, size] where the sizes say so; row i of table
// has the pages of sequence i.
func NewPages(g *compose.Graph, name string, x *compose.Value, table *tensor.Tensor, size, heads int) *Pages {
	shape := x.Shape()
	switch {
	case size < 1 || heads < 1:
		g.Refuse("block_size", "want pages of at least one row of one head, got %d of %d", size, heads)
	case table.Dim() != 2 || table.DType.Kind() != tensor.KindInt:
		g.Refuse("block_table", "want a row of pages for each sequence, got %s", table.Meta())
	}
	p := &Pages{table: tensor.Data[int64](table), width: table.Shape[1], size: size}
	switch {
	case len(shape) == 3 && shape[1] == size && shape[2]%heads == 0:
		p.rows = g.Reshape(x, shape[0]*size, heads, shape[2]/heads)
	case len(shape) == 4 && shape[1] == size && shape[2] == heads:
		p.rows = g.Reshape(x, shape[0]*size, heads, shape[3])
	case len(shape) == 4 && shape[2] == size && shape[1] == heads:
		p.rows = g.Reshape(g.Permute(x, 0, 2, 1, 3), shape[0]*size, heads, shape[3])
	default:
		g.Refuse(name, "%s does not hold pages of %d rows of %d heads", x.T.Meta(), size, heads)
	}
	return p
}

// Of are the first n rows [n, heads, size] of sequence i.
func (p *Pages) Of(g *compose.Graph, i, n int) *compose.Value {
	return g.IndexSelect(p.rows, 0, p.Rows(g, i, n))
}

// Rows are the places in the store of the first n rows of sequence i.
func (p *Pages) Rows(g *compose.Graph, i, n int) []int {
	if n < 0 || n > p.width*p.size {
		g.Refuse("block_table", "%d rows of sequence %d are not in %d pages of %d", n, i, p.width, p.size)
	}
	rows, pages := tensor.Make[int](n), p.rows.Shape()[0]/p.size
	for j := range rows {
		page := p.table[i*p.width+j/p.size]
		if page < 0 || page >= int64(pages) {
			g.Refuse("block_table", "page %d is not among %d", page, pages)
		}
		rows[j] = int(page)*p.size + j%p.size
	}
	return rows
}

// Sequences is the number of sequences.
func (p *Pages) Sequences() int {
	if p.width == 0 {
		return 0
	}
	return len(p.table) / p.width
}

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
			places = append(places, Span(at(s, h), size)...)
		}
	}
	if rows == nil {
		return cache
	}
	return g.Put(cache, places, g.IndexSelect(x, 0, rows))
}
