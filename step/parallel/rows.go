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
	// back is whether each rank had its own rows in their order since then: what puts them in another is no exchange.
	back bool
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
	return n.ordered() && !slices.ContainsFunc(slices.Collect(maps.Values(n.of)), func(of []int) bool {
		return slices.Contains(of, -1)
	})
}

// ordered reports whether each rank has its own rows in their order, perhaps without some.
func (n *rows) ordered() bool {
	for r, of := range n.of {
		if len(of) != n.count[r] {
			return false
		}
		for i, k := range of {
			if k >= 0 && n.one(k) != n.one(n.start[r]+i) {
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
	if len(lead.outs) == 0 || slices.ContainsFunc(lead.outs, func(a *array) bool { return !a.dtype.IsFloat() }) {
		return false
	}
	var from []numbered
	lost := false
	for i := range lead.ins {
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		n := p.rowsOf(values, s.in[i])
		if n != nil && lead.ins[i].array.dtype.IsFloat() && (len(from) == 0 || maps.Equal(n.count, from[0].count)) {
			from, lost = append(from, numbered{n, values}), lost || s.in[i].lost
		}
	}
	if len(from) == 0 {
		return false
	}
	results, any := make([]*rows, len(lead.outs)), false
	for j := range results {
		to, met := p.follow(from, p.column(sides, func(d *side) *array { return d.outs[j] }), s.seam)
		if to == nil {
			return false
		}
		results[j], any = to, any || met
	}
	if !any {
		return false
	}
	for j, to := range results {
		if s.seam {
			to.via, to.back = s, false
		}
		to.back = to.back || to.ordered()
		s.out[j] = &info{rows: to, lost: lost}
	}
	return true
}

// A numbered is an argument whose rows have numbers.
type numbered struct {
	*rows
	values map[int]*array
}

// follow finds the rows of a result among those of the arguments, of the same rank or of all; nil if it has others. met
// reports whether there are any.
func (p *part) follow(from []numbered, outs map[int]*array, all bool) (to *rows, met bool) {
	to = &rows{of: map[int][]int{}, start: from[0].start, count: from[0].count, same: map[int]int{}}
	_, w := outs[p.ranks[0]].rows()
	from = slices.DeleteFunc(slices.Clone(from), func(n numbered) bool {
		_, width := n.values[p.ranks[0]].rows()
		return width != w
	})
	if len(from) == 0 {
		return nil, false
	}
	for _, n := range from {
		maps.Copy(to.same, n.same)
		if to.via == nil {
			to.via = n.via
		}
		to.back = to.back || n.back
	}
	known := map[uint64]int{}
	if all {
		for _, r := range p.ranks {
			to.index(known, from, r, w)
		}
	}
	for _, r := range p.ranks {
		if !all {
			clear(known)
			to.index(known, from, r, w)
		}
		n, width := outs[r].rows()
		if width != w {
			return nil, false
		}
		unknown := 0
		for i := range n {
			k := -1
			if sum, ok := outs[r].rowSum(i, w); ok {
				if at, has := known[sum]; has {
					k, met = at, true
				} else {
					unknown++ // made of padding, unless of nothing that is known
				}
			}
			to.of[r] = append(to.of[r], k)
		}
		if unknown > 0 && (to.via == nil || unknown == n) {
			return nil, false
		}
	}
	return to, met
}

// index notes by their elements which rows of a rank the arguments have, and which cannot be told apart.
func (n *rows) index(known map[uint64]int, from []numbered, rank, width int) {
	for _, source := range from {
		a, of := source.values[rank], source.of[rank]
		count, _ := a.rows()
		for i := range min(count, len(of)) {
			k, ok := a.rowSum(i, width)
			if !ok || of[i] < 0 {
				continue
			}
			if o, has := known[k]; !has {
				known[k] = of[i]
			} else if a, b := n.one(o), n.one(of[i]); a != b {
				n.same[b] = a
			}
		}
	}
}

// liftRows follows rows through calls that work on each by itself, and checks them where they meet values of which
// the order is known. ok is false if the call is something else.
func (p *part) liftRows(s *site, sides map[int]*side) (ok bool) {
	lead := sides[p.ranks[0]]
	at := slices.IndexFunc(s.in, func(n *info) bool { return n != nil && n.rows != nil })
	if at < 0 {
		return false
	}
	if len(lead.outs) != 1 {
		return p.moved(s, sides)
	}
	if placing[method(s.op)] && p.moved(s, sides) || p.rowsMeet(s, sides, at) || p.moved(s, sides) {
		return true
	}
	values := p.column(sides, func(d *side) *array { return d.ins[at].array })
	outs := p.column(sides, func(d *side) *array { return d.outs[0] })
	for _, r := range p.ranks {
		a, _ := values[r].rows()
		if b, _ := outs[r].rows(); a != b || len(outs[r].shape) != len(values[r].shape) {
			return false
		}
	}
	if !p.byRows(sides, at) {
		return false
	}
	s.out[0] = &info{rows: s.in[at].rows, lost: s.in[at].lost}
	return true
}

// rowsMeet checks the rows of argument at against those of arguments of which the order is known. ok is false if this
// says nothing of the result.
func (p *part) rowsMeet(s *site, sides map[int]*side, at int) (ok bool) {
	lead, n := sides[p.ranks[0]], s.in[at]
	if n.lost || n.guess || !pairs(lead, at) {
		return false
	}
	for i, m := range s.in {
		if i == at || m == nil || m.lost || m.guess || !lead.ins[i].array.dtype.IsFloat() || !fits(lead, at, i) {
			continue
		}
		other := p.rowsOf(p.column(sides, func(d *side) *array { return d.ins[i].array }), m)
		if other == nil || !p.byRows(sides, at, i) {
			continue
		}
		if v := p.displaced(s, n.rows, other); v != nil {
			p.found(true, v)
			p.lose(s)
			return true
		}
		if m.places != nil && slices.Equal(lead.outs[0].shape, lead.ins[at].array.shape) && n.rows.natural() {
			s.out[0] = &info{places: m.places}
			return true
		}
	}
	return false
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

// pairs reports whether the rows of an argument are those of the result, one for one: a call that joins arguments has
// more.
func pairs(d *side, at int) bool {
	a, _ := d.ins[at].array.rows()
	b, _ := d.outs[0].rows()
	return a == b
}

// displaced says that rows which an exchange gave back are combined with those of others; nil if they are not, or if
// the program can mean it. Without an exchange each rank has an order of its own, and so once they were in order.
func (p *part) displaced(s *site, back, other *rows) *violation {
	r, wrong := p.differ(back, other)
	if !wrong || back.via == nil || back.back {
		return nil
	}
	reason := fmt.Sprintf("the rows that rank %d gets back are those of other rows of the batch than the ones that %s "+
		"combines them with", r, s.first(p.ranks))
	if other.ordered() && p.permuted(back, other) {
		reason += ": parts were in another order when they were sent"
	}
	return &violation{kind: "shard", site: back.via, ranks: p.ranks, target: "output[0]", reason: reason}
}

// byRows reports whether a call makes each row of its result of the same row of some arguments, as attention does not:
// other numbers in a row change no other one.
func (p *part) byRows(sides map[int]*side, args ...int) bool {
	for _, r := range p.ranks {
		d := sides[r]
		n, width := d.outs[0].rows()
		if n < 2 {
			continue
		}
		before, err := p.checker.runOn(d, d.arrays())
		if err != nil || len(before) != 1 {
			return false
		}
		for _, k := range []int{0, n - 1} {
			ins := d.arrays()
			for _, i := range args {
				ins[i] = ins[i].otherRow(k)
			}
			after, err := p.checker.runOn(d, ins)
			if err != nil || len(after) != 1 || len(after[0].x) != len(before[0].x) {
				return false
			}
			for e, v := range before[0].x {
				if e/width != k && after[0].x[e] != v && (v == v || after[0].x[e] == after[0].x[e]) {
					return false
				}
			}
		}
		return true
	}
	return true
}

// otherRow is an array with other numbers in row k, if they are no whole ones.
func (a *array) otherRow(k int) *array {
	if !a.dtype.IsFloat() {
		return a
	}
	_, width := a.rows()
	x := slices.Clone(a.x)
	for i := k * width; i < min((k+1)*width, len(x)); i++ {
		x[i] = 0.75*x[i] + math.Sin(float64(1+i))
	}
	return &array{a.dtype, a.shape, x}
}

// A match is what differ compares: row i of a rank is row k of a, and belongs to row due.
type match struct{ rank, i, k, due int }

// matches are the rows that belong together. Where b has several rows for each of a, such as the weights of a token's
// experts, those of one may follow each other, or be as far apart as there are rows of a: follow says which.
func (p *part) matches(a, b *rows, follow bool) (out []match) {
	many := 0
	for _, r := range p.ranks {
		n := a.count[r]
		if n == 0 || b.count[r]%n != 0 || many != 0 && b.count[r]/n != many {
			return nil
		}
		many = b.count[r] / n
	}
	twins := map[int]bool{} // rows of b that cannot be told apart
	for k, o := range b.same {
		twins[k], twins[o] = true, true
	}
	for _, r := range p.ranks {
		for i, k := range a.of[r] {
			if i < len(b.of[r]) && k >= 0 && b.of[r][i] >= 0 && !twins[b.of[r][i]] {
				out = append(out, match{r, i, a.one(k), a.one(p.owner(a, b, b.of[r][i], many, follow))})
			}
		}
	}
	return out
}

// differ finds a rank on which rows that belong together are others.
func (p *part) differ(a, b *rows) (rank int, wrong bool) {
	for _, follow := range []bool{true, false} {
		wrong = false
		for _, m := range p.matches(a, b, follow) {
			if m.k != m.due {
				rank, wrong = m.rank, true
			}
		}
		if !wrong {
			return 0, false
		}
	}
	return rank, true
}

// permuted reports whether the rows that the ranks have are, nearly all, the ones that they should have, in another
// order: so parts can only have changed places.
func (p *part) permuted(a, b *rows) bool {
	return slices.ContainsFunc([]bool{true, false}, func(follow bool) bool {
		all, left := p.matches(a, b, follow), map[int]int{}
		for _, m := range all {
			left[m.due]++
		}
		lacks := 0
		for _, m := range all {
			if left[m.k]--; left[m.k] < 0 {
				lacks++
			}
		}
		const few = 16 // one in so many can be a row that was dropped
		return len(all) > 0 && few*lacks <= len(all)
	})
}

// owner is the row of a that row k of b belongs to, of which there are many for each.
func (p *part) owner(a, b *rows, k, many int, follow bool) int {
	for _, r := range p.ranks {
		if at := k - b.start[r]; at >= 0 && at < b.count[r] {
			if follow {
				return a.start[r] + at/many
			}
			return a.start[r] + at%a.count[r]
		}
	}
	return k
}
