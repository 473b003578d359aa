package parallel

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
)

// Rows tell of which row of a sharded value each row of an untyped one was made: experts get the rows of other ranks
// in an order that no dimension describes. A row is what lies along the last dimension; its number counts through the
// ranks, -1 is padding.
type rows struct {
	of    map[int][]int // by rank
	start map[int]int   // the first row of each rank
	count map[int]int
	via   *site // the last exchange
	// same are rows with the elements of another: they cannot be told apart.
	same map[int]int
}

// one is the number that stands for all rows with the elements of row k.
func (n *rows) one(k int) int {
	for {
		o, ok := n.same[k]
		if !ok {
			return k
		}
		k = o
	}
}

// natural reports whether each rank has its own rows in their order.
func (n *rows) natural() bool {
	for r, of := range n.of {
		if len(of) != n.count[r] {
			return false
		}
		for i, k := range of {
			if n.one(k) != n.one(n.start[r]+i) {
				return false
			}
		}
	}
	return true
}

func (a *array) rows() (n, width int) {
	if len(a.shape) < 2 {
		return len(a.x), 1
	}
	width = a.shape[len(a.shape)-1]
	return len(a.x) / max(width, 1), width
}

// rowSum identifies row i; ok is false for a row of zeros.
func (a *array) rowSum(i, width int) (sum uint64, ok bool) {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, v := range a.x[i*width : (i+1)*width] {
		ok = ok || v != 0
		bits := math.Float64bits(v)
		for b := range 8 {
			h.WriteByte(byte(bits >> (8 * b)))
		}
	}
	return h.Sum64(), ok
}

// rowsOf numbers the rows of an argument; nil if it is replicated or nothing is known of it.
func (p *part) rowsOf(values map[int]*array, n *info) *rows {
	switch {
	case n == nil:
		return nil
	case n.rows != nil:
		return n.rows
	case n.places == nil || !slices.ContainsFunc(n.places, func(q place) bool { return q.kind == sharded }):
		return nil
	}
	out := &rows{of: map[int][]int{}, start: map[int]int{}, count: map[int]int{}}
	at := 0
	for _, r := range p.ranks {
		c, _ := values[r].rows()
		out.start[r], out.count[r] = at, c
		for i := range c {
			out.of[r] = append(out.of[r], at+i)
		}
		at += c
	}
	return out
}

// moved lifts a call whose results have rows of its arguments in another order, and zeros.
func (p *part) moved(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if len(lead.outs) != 1 || !lead.outs[0].dtype.IsFloat() {
		return false
	}
	outs := p.column(sides, func(d *side) *array { return d.outs[0] })
	for i := range lead.ins {
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		from := p.rowsOf(values, s.in[i])
		if from == nil || !lead.ins[i].array.dtype.IsFloat() {
			continue
		}
		if to := p.follow(values, outs, from, s.seam); to != nil {
			if s.seam {
				to.via = s
			}
			s.out[0] = &info{rows: to, lost: s.in[i].lost}
			return true
		}
	}
	return false
}

// follow finds the rows of results among those of an argument, of the same rank or of all.
func (p *part) follow(values, outs map[int]*array, from *rows, all bool) *rows {
	to := &rows{of: map[int][]int{}, start: from.start, count: from.count, via: from.via,
		same: maps.Clone(from.same)}
	if to.same == nil {
		to.same = map[int]int{}
	}
	known := map[uint64]int{}
	met := false
	index := func(r int) {
		n, width := values[r].rows()
		for i := range n {
			if k, ok := values[r].rowSum(i, width); ok && i < len(from.of[r]) && from.of[r][i] >= 0 {
				if o, has := known[k]; !has {
					known[k] = from.of[r][i]
				} else if a, b := to.one(o), to.one(from.of[r][i]); a != b {
					to.same[b] = a
				}
			}
		}
	}
	if all {
		for _, r := range p.ranks {
			index(r)
		}
	}
	for _, r := range p.ranks {
		if !all {
			clear(known)
			index(r)
		}
		_, width := values[r].rows()
		n, w := outs[r].rows()
		if w != width {
			return nil
		}
		unknown := 0
		for i := range n {
			sum, ok := outs[r].rowSum(i, w)
			k, has := known[sum]
			switch {
			case !ok:
				k = -1
			case !has:
				k = -1 // made of padding, unless of nothing that is known
				unknown++
			default:
				met = true
			}
			to.of[r] = append(to.of[r], k)
		}
		if unknown > 0 && (from.via == nil || unknown == n && n > 0) {
			return nil
		}
	}
	if !met {
		return nil
	}
	return to
}

// liftRows follows rows through calls that work on each by itself, and checks them where they meet values of which
// the order is known. ok is false if the call is something else.
func (p *part) liftRows(s *site, sides map[int]*side) (ok bool) {
	lead := sides[p.ranks[0]]
	at := slices.IndexFunc(s.in, func(n *info) bool { return n != nil && n.rows != nil })
	if at < 0 || len(lead.outs) != 1 {
		return false
	}
	n := s.in[at]
	if placing[method(s.op)] && p.moved(s, sides) {
		return true
	}
	values := p.column(sides, func(d *side) *array { return d.ins[at].array })
	for i, m := range s.in {
		if i == at || m == nil || m.lost || n.lost {
			continue
		}
		other := p.rowsOf(p.column(sides, func(d *side) *array { return d.ins[i].array }), m)
		if other == nil || !lead.ins[i].array.dtype.IsFloat() || !fits(lead, at, i) {
			continue
		}
		if r, wrong := p.differ(n.rows, other); wrong {
			where := n.rows.via
			if where == nil {
				where = s
			}
			p.found(true, &violation{kind: "shard", site: where, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("the rows that rank %d gets back are those of other rows of the batch than the "+
					"ones that %s "+
					"combines them with: parts were in another order when they were sent", r, s.first(p.ranks))})
			p.lose(s)
			return true
		}
		if m.places != nil && slices.Equal(lead.outs[0].shape, lead.ins[at].array.shape) && n.rows.natural() {
			s.out[0] = &info{places: m.places}
			return true
		}
	}
	if p.moved(s, sides) {
		return true
	}
	outs := p.column(sides, func(d *side) *array { return d.outs[0] })
	for _, r := range p.ranks {
		a, _ := values[r].rows()
		if b, _ := outs[r].rows(); a != b || len(outs[r].shape) != len(values[r].shape) {
			return false
		}
	}
	s.out[0] = &info{rows: n.rows, lost: n.lost}
	return true
}

// placing are operators that write rows of one argument into another, in an order of their own.
var placing = setOf("index_copy", "index_add", "index_put", "scatter", "scatter_add", "scatter_reduce",
	"index_reduce", "masked_scatter", "slice_scatter", "select_scatter", "copy", "setitem")

// fits reports whether two arguments have as many rows, one perhaps a number for each.
func fits(d *side, i, k int) bool {
	a, _ := d.ins[i].array.rows()
	b, _ := d.ins[k].array.rows()
	return a == b && len(d.ins[i].array.shape) == len(d.ins[k].array.shape)
}

// differ finds a rank on which rows that belong together are others.
func (p *part) differ(a, b *rows) (rank int, wrong bool) {
	for _, r := range p.ranks {
		for i, k := range a.of[r] {
			if i < len(b.of[r]) && k >= 0 && b.of[r][i] >= 0 && a.one(k) != a.one(b.of[r][i]) {
				return r, true
			}
		}
	}
	return 0, false
}
