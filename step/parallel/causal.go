package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// A causal mask shows each query the keys up to its own position. So it says which position the mask takes each query
// and each key to have. In self-attention a query and a key that were made of the same row have the same position.
// Ranks that share out a sequence have some of the queries each, and join the keys of all: which row of which rank each
// key was made of is seen by its elements, before and after the exchange that joined them.

// A row is a row of a sequence of which the ranks have parts.
type row struct{ rank, at int }

// maskedOrder finds joined keys that lie in another order than the one in which a causal mask takes them.
func (p *part) maskedOrder() {
	for _, s := range p.flat() {
		if len(p.broken) > 0 {
			return
		}
		if m := method(s.op); m != "masked_fill" && m != "where" && m != "scaled_dot_product_attention" && m != "add" {
			continue
		}
		var keys map[int]*step.Value
		var seen map[int]*grid
		for _, d := range p.dims {
			for _, g := range d.groups {
				if keys == nil {
					if keys, seen = p.masks(s); keys == nil {
						break
					}
				}
				p.ordered(s, g, keys, seen)
			}
		}
	}
}

// A grid says which keys each query of a rank sees: by row, then by column.
type grid struct {
	rows, columns int
	sees          []bool
}

// masks are the keys of scores that a call masks, and the mask, of each rank; nil if it masks none.
func (p *part) masks(s *site) (keys map[int]*step.Value, seen map[int]*grid) {
	keys, seen = map[int]*step.Value{}, map[int]*grid{}
	attention := method(s.op) == "scaled_dot_product_attention"
	for _, r := range p.ranks {
		call := s.calls[r]
		if call == nil {
			return nil, nil
		}
		if attention && len(call.Inputs) == 4 {
			keys[r] = call.Inputs[1]
		}
		for _, v := range call.Inputs {
			if attention || !v.DType.IsFloat() {
				continue
			}
			if c := back(v, forming); c != nil && products[method(c.Op)] && len(c.Inputs) == 2 {
				keys[r] = c.Inputs[1]
			}
		}
		if keys[r] == nil {
			return nil, nil
		}
	}
	sides := p.read(s)
	if sides == nil {
		return nil, nil
	}
	for _, r := range p.ranks {
		d := sides[r]
		for _, a := range d.ins {
			if g := gridOfMask(a.array, method(s.op), d); g != nil {
				seen[r] = g
			}
		}
		if seen[r] == nil {
			return nil, nil
		}
	}
	return keys, seen
}

// gridOfMask reads a mask of scores: booleans, or numbers of which those that hide are far below zero. nil if it is
// none, or another for each head.
func gridOfMask(a *array, m string, d *side) *grid {
	n := len(a.shape)
	if n < 2 || a.shape[n-2] < 2 || a.shape[n-1] < 2 {
		return nil
	}
	g := &grid{rows: a.shape[n-2], columns: a.shape[n-1]}
	size := g.rows * g.columns
	for i := size; i < len(a.x); i++ {
		if a.x[i] != a.x[i-size] {
			return nil
		}
	}
	hides := m == "masked_fill"
	if m == "where" && len(d.ins) > 1 {
		hides = d.ins[1].array.constant()
	}
	for _, v := range a.x[:size] {
		switch {
		case !a.dtype.IsFloat() && (v == 0 || v == 1):
			g.sees = append(g.sees, (v == 1) != hides)
		case a.dtype.IsFloat() && (v == 0 || v < -1e3):
			g.sees = append(g.sees, v == 0)
		default:
			return nil
		}
	}
	return g
}

// ordered checks the order of the keys that the ranks of a group joined.
func (p *part) ordered(s *site, group []int, keys map[int]*step.Value, seen map[int]*grid) {
	queries, of := positionsOf(group, seen)
	if queries == nil {
		return
	}
	for _, r := range group {
		rows, joined := p.joinedFrom(keys[r], group, products[method(keys[r].Call.Op)])
		if len(rows) != len(of) {
			continue
		}
		for j, are := range rows {
			k := are[0]
			if at, known := queries[k]; len(are) > 1 || !known || at == of[j] {
				continue
			}
			p.found(true, &violation{kind: "shard", call: s.calls[r], site: s, ranks: group, target: "output[0]",
				reason: fmt.Sprintf("the causal mask of %s takes key %d of the %d that %s joined for that of position %d, "+
					"and it was made of the row of rank %d that the mask has at position %d: keys are joined in another order "+
					"than that of their positions", ranksText(group), j, len(of), joined, of[j], k.rank, queries[k])})
			return
		}
	}
}

// positionsOf are the positions that a causal mask takes queries and keys to have, where the ranks of a group have some
// of the queries each; nil if it is none.
func positionsOf(group []int, seen map[int]*grid) (queries map[row]int, keys []int) {
	n := seen[group[0]].columns
	queries, keys = map[row]int{}, make([]int, n)
	for j := range keys {
		keys[j] = n
	}
	for _, r := range group {
		g := seen[r]
		if g.columns != n || g.rows == n {
			return nil, nil
		}
		for i := range g.rows {
			at := -1
			for j := range n {
				if g.sees[i*n+j] {
					at++
					keys[j]--
				}
			}
			queries[row{r, i}] = at
		}
	}
	if len(queries) != n {
		return nil, nil
	}
	for _, r := range group {
		g := seen[r]
		for i := range g.rows {
			for j := range n {
				if g.sees[i*n+j] != (keys[j] <= queries[row{r, i}]) {
					return nil, nil
				}
			}
		}
	}
	taken := map[int]bool{}
	for _, at := range keys {
		taken[at] = true
	}
	if len(taken) < n {
		return nil, nil // not one key more for each query
	}
	return queries, keys
}

// valuesOrder finds joined values that lie in another order than the keys whose scores they are weighed by.
func (p *part) valuesOrder() {
	for _, s := range p.flat() {
		if len(p.broken) > 0 || len(p.dims) == 0 {
			return
		}
		for _, r := range p.owners(s) {
			keys, values := attends(s.calls[r])
			if keys == nil {
				break
			}
			group := p.groupOf(r)
			a, _ := p.joinedFrom(keys, group, products[method(keys.Call.Op)])
			b, joined := p.joinedFrom(values, group, false)
			if len(a) != len(b) {
				continue
			}
			for j := range a {
				if slices.ContainsFunc(a[j], func(r row) bool { return slices.Contains(b[j], r) }) {
					continue
				}
				p.found(true, &violation{kind: "shard", call: s.calls[r], site: s, ranks: group, target: "output[0]",
					reason: fmt.Sprintf("value %d of the %d that %s joined was made of row %d of rank %d, and the key "+
						"whose score weighs it of row %d of rank %d: keys and values are joined in different orders",
						j, len(b), joined, b[j][0].at, b[j][0].rank, a[j][0].at, a[j][0].rank)})
				return
			}
		}
	}
}

// groupOf is the largest group of a rank along one dimension of the mesh.
func (p *part) groupOf(rank int) (group []int) {
	for _, d := range p.dims {
		for _, g := range d.groups {
			if slices.Contains(g, rank) && len(g) > len(group) {
				group = g
			}
		}
	}
	return group
}

// joinedFrom says of which rows of the ranks each of some keys or values can be made, and by which call they were
// joined. It is nil if an operator that computes lies between, or if the elements do not tell. Turned keys lie along
// the last dimension.
func (p *part) joinedFrom(v *step.Value, group []int, turned bool) (rows [][]row, joined *step.Call) {
	if joined = p.checker.joins(v); joined == nil {
		return nil, nil
	}
	after := p.checker.argument(v)
	if after == nil || len(after.shape) < 2 {
		return nil, nil
	}
	dim := len(after.shape) - 2
	if turned {
		dim++
	}
	n := after.shape[dim]
	vectors := after.vectors(dim, n)
	parts := map[int]*array{}
	for _, s := range p.flat() {
		if !slices.ContainsFunc(group, func(r int) bool { return s.calls[r] == joined }) {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			return nil, nil
		}
		for _, r := range group {
			parts[r] = sides[r].ins[s.sends(sides[r])].array
		}
	}
	if len(parts) < len(group) || len(vectors) == 0 {
		return nil, nil
	}
	width := len(after.x) / max(len(vectors)*n, 1)
	for dim := range len(parts[group[0]].shape) {
		if rows := matchRows(vectors, parts, group, dim, width); rows != nil {
			return rows, joined
		}
	}
	return nil, nil
}

// matchRows finds vectors of keys among those of the parts along a dimension: the rows that each can be, of which there
// are several where rows are equal; nil unless all are found.
func matchRows(vectors [][]uint64, parts map[int]*array, group []int, dim, width int) (rows [][]row) {
	made := map[uint64][]row{}
	total := 0
	for _, r := range group {
		a := parts[r]
		k := len(a.shape)
		if dim >= k-1 || width == 0 || a.shape[k-1]%width != 0 {
			return nil
		}
		total += a.shape[dim]
		a = &array{a.dtype, append(slices.Clone(a.shape[:k-1]), a.shape[k-1]/width, width), a.x}
		for _, column := range a.vectors(dim, a.shape[dim]) {
			for i, h := range column {
				if o := (row{r, i}); !slices.Contains(made[h], o) {
					made[h] = append(made[h], o)
				}
			}
		}
	}
	if total != len(vectors[0]) {
		return nil
	}
	for j := range vectors[0] {
		at := slices.Clone(made[vectors[0][j]])
		for _, column := range vectors[1:] {
			at = slices.DeleteFunc(at, func(o row) bool { return !slices.Contains(made[column[j]], o) })
		}
		if len(at) == 0 {
			return nil
		}
		rows = append(rows, at)
	}
	return rows
}

// vectors identifies what lies along the last dimension, or along the one before where the elements are counted along
// the last, by all other dimensions, then by the place along one dimension of n. It is nil if that has another size.
func (a *array) vectors(dim, n int) [][]uint64 {
	last := len(a.shape) - 1
	if a.shape[dim] != n || n == 0 {
		return nil
	}
	along := last // of a vector
	if dim == last {
		along = last - 1
	}
	stride := func(k int) (s int) {
		s = 1
		for _, m := range a.shape[k+1:] {
			s *= m
		}
		return s
	}
	width := a.shape[along]
	var starts []int
	for i := range a.x {
		if i/stride(dim)%n == 0 && i/stride(along)%width == 0 {
			starts = append(starts, i)
		}
	}
	out := make([][]uint64, len(starts))
	v := &array{x: make([]float64, width)}
	for l, start := range starts {
		for j := range n {
			for k := range width {
				v.x[k] = a.x[start+j*stride(dim)+k*stride(along)]
			}
			out[l] = append(out[l], v.sum())
		}
	}
	return out
}

// joins is the exchange that a value was made by, if all calls since then only move elements; nil if there is none.
func (c *checker) joins(v *step.Value) *step.Call {
	for range 24 {
		if v.From.Value == nil {
			return nil
		}
		made := v.From.Value.Call
		m := method(made.Op)
		switch {
		case isExchange(made.Op), slices.ContainsFunc(c.inside[made], func(c *step.Call) bool {
			return isExchange(c.Op)
		}):
			return made
		case !moving[m] && !reshaping[m] && !cutting[m] && !forming[m] && !turning[m] && !picking[m],
			len(made.Inputs) == 0:
			return nil
		}
		v = made.Inputs[0]
	}
	return nil
}

// picking are operators that give rows of their argument in another order, or several times.
var picking = setOf("index_select", "repeat_interleave", "repeat", "flip", "roll")

// turning are operators that exchange dimensions of their argument.
var turning = setOf("mT", "T", "mH", "H", "adjoint", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "t")

// argument is an argument of a call as it was recorded; nil if it was not.
func (c *checker) argument(v *step.Value) *array {
	d, err := c.load(v.Call)
	if err != nil || len(d.ins) != len(v.Call.Inputs) {
		return nil
	}
	return d.ins[slices.Index(v.Call.Inputs, v)].array
}
