package parallel

import (
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// What ranks compute of data of their own is their own business, as it is in data parallelism: the program need not
// mean what all ranks have together. That a value is sharded is then only assumed, because the ranks' elements differ.
// It is firm where parameters are shared out, or where an exchange moves the parts. A call that only reads values that
// are assumed makes no finding: each rank has its result for its own.

// A source is data that no recorded call made and in which ranks differ. moved are the dimensions of the mesh, as bits,
// along which ranks exchanged parts of it, or of what they made of it. The call is the first that reads it, as argument
// number; nil if that is not known.
type source struct {
	moved  uint
	site   *site
	number int
}

// firmAlong reports whether something else than its elements says how a value lies along a dimension of the mesh.
func (n *info) firmAlong(m int) bool {
	return n.firm>>m&1 == 1 || slices.ContainsFunc(n.data, func(d *source) bool { return d.moved>>m&1 == 1 })
}

// restsOn notes what says how the result of a call lies: what says so of its arguments.
func (n *info) restsOn(in []*info) {
	for _, a := range in {
		if a == nil {
			continue
		}
		n.firm |= a.firm
		for _, d := range a.data {
			if !slices.Contains(n.data, d) {
				n.data = append(n.data, d)
			}
		}
		n.ofOwn = n.ofOwn || a.own || a.ofOwn
		n.own = n.own || a.own && n.places == nil && n.rows == nil && n.pending == nil && n.source == nil
	}
}

// assume notes what says that an argument lies at its places which no recorded call made.
func (n *info) assume(a argument, declared bool) {
	for m, q := range n.places {
		if q.kind == sharded && (declared || a.name != "" && a.tensor.RequiresGrad) {
			n.firm |= 1 << m
		}
	}
	if n.firm == 0 && slices.ContainsFunc(n.places, func(q place) bool { return q.kind == sharded }) {
		n.data = []*source{{}}
	}
}

// moves notes that an exchange moved the parts of a value, which lie at other places behind it.
func (n *info) moves(to []place) {
	for m, q := range n.places {
		if q.kind == sharded && to[m] != q {
			n.firm |= 1 << m
			for _, d := range n.data {
				d.moved |= 1 << m
			}
		}
	}
}

// dealt are the dimensions of the mesh, as bits, along which an exchange deals out a sum: the ranks have parts of it.
func dealt(from, to []place) (firm uint) {
	for m, q := range from {
		if q.kind == partial && to[m].kind == sharded {
			firm |= 1 << m
		}
	}
	return firm
}

// ownBusiness reports whether nothing says that the ranks mean a whole by a call whose results make none: along all
// dimensions of the mesh, or along those of replicas, each of which makes a whole by itself.
func (p *part) ownBusiness(s *site, sides map[int]*side, local *localRun) bool {
	lead := sides[p.ranks[0]]
	if lead.rec.Placed != "" {
		return false // DTensor says how they lie
	}
	var firm, own, whole uint
	for i, a := range lead.ins {
		n := s.in[i]
		for m := range p.dims {
			switch {
			case n == nil || n.places == nil:
				if p.equal(m, p.column(sides, func(d *side) *array { return d.ins[i].array }), 0) {
					continue
				}
				if a.name != "" && a.tensor.RequiresGrad {
					firm |= 1 << m
				} else {
					own |= 1 << m
				}
			case n.places[m].kind == replicated:
				if n.firmAlong(m) {
					whole |= 1 << m
				}
			case n.firmAlong(m):
				firm |= 1 << m
			default:
				own |= 1 << m
			}
		}
	}
	firm |= whole & own
	if own &^= firm; own == 0 || p.countsOwn(s, sides) {
		return false
	}
	return firm == 0 || p.fitsApart(s, sides, local, own)
}

// countsOwn reports whether a call counts what a rank has of its own, as if it were all: it takes the mean of unequal
// parts, or divides by another count on each rank.
func (p *part) countsOwn(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if len(lead.outs) == 1 && len(lead.outs[0].x) == 1 && p.unequal(s, sides) != nil {
		return true
	}
	if !multiplies(s.op) {
		return false
	}
	for i, a := range lead.ins {
		if len(a.array.x) == 1 && !p.same(sides, i) && !slices.ContainsFunc(p.ranks, func(r int) bool {
			return !isCount(sides[r].ins[i].array.x[0])
		}) {
			return true
		}
	}
	return false
}

// isCount reports whether a number, or its inverse, is a whole one.
func isCount(x float64) bool {
	return x >= 1 && x == math.Trunc(x) || x > 0 && x < 1 && math.Abs(1/x-math.Round(1/x)) < 1e-9/x
}

// fitsApart reports whether the results of a call make a whole in each replica along some dimensions of the mesh.
func (p *part) fitsApart(s *site, sides map[int]*side, local *localRun, along uint) bool {
	var replicas [][]int
	left := slices.Clone(p.ranks)
	for len(left) > 0 {
		replica := []int{left[0]}
		for m, d := range p.dims {
			if along>>m&1 == 1 {
				continue
			}
			for _, r := range slices.Clone(replica) {
				for _, q := range d.of(r) {
					if !slices.Contains(replica, q) {
						replica = append(replica, q)
					}
				}
			}
		}
		slices.Sort(replica)
		replicas = append(replicas, replica)
		left = slices.DeleteFunc(left, func(r int) bool { return slices.Contains(replica, r) })
	}
	return !slices.ContainsFunc(replicas, func(ranks []int) bool { return !p.fitsIn(ranks, s, sides, local, along) })
}

// fitsIn reports whether the results of a call make a whole on some ranks, which are a replica along some dimensions.
func (p *part) fitsIn(ranks []int, s *site, sides map[int]*side, local *localRun, along uint) bool {
	one := *p
	one.mesh = &mesh{ranks: ranks}
	for m, d := range p.dims {
		if along>>m&1 == 0 {
			d.groups = slices.DeleteFunc(slices.Clone(d.groups), func(g []int) bool {
				return !slices.Contains(ranks, g[0])
			})
			one.dims = append(one.dims, d)
		}
	}
	t := &site{op: s.op, calls: s.calls}
	lists := make([][][]place, len(s.in))
	for _, n := range s.in {
		if n != nil && n.places != nil {
			o := *n
			o.places, o.also = nil, nil
			for m, q := range n.places {
				if along>>m&1 == 0 {
					o.places = append(o.places, q)
				}
			}
			n = &o
		}
		t.in = append(t.in, n)
	}
	for i := range lists {
		if lists[i] = one.candidates(i, t, sides); len(lists[i]) == 0 {
			return false
		}
	}
	return combinations(lists, func(in [][]place) bool {
		outs, _ := one.try(t, sides, local, in)
		return outs != nil
	})
}

// leave notes that each rank has the results of a call for its own.
func (p *part) leave(s *site) {
	p.own = append(p.own, s)
	for j := range s.out {
		s.out[j] = &info{own: true}
	}
}

// ownTables reports whether a call looks up rows in a table that is another on each rank, where the ranks deal out what
// they look up: the tables of a program are shared out, and have their names on each rank.
func (p *part) ownTables(s *site, sides map[int]*side) bool {
	if !strings.HasPrefix(method(s.op), "embedding") {
		return false
	}
	for i, a := range sides[p.ranks[0]].ins {
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		for m := range p.dims {
			if a.tensor.RequiresGrad && !p.equal(m, values, 0) && p.alike(m, values) {
				return false
			}
		}
	}
	deals := func(c *step.Call) bool { return strings.HasPrefix(collective.Name(c.Op), "all_to_all") }
	return slices.ContainsFunc(p.sites, func(t *site) bool {
		call := t.first(p.ranks)
		return call.HasBackward() && (deals(call) || slices.ContainsFunc(p.checker.inside[call], deals))
	})
}

// assumed reports whether only the elements of a value say that it is shared out.
func (n *info) assumed() bool {
	some := false
	for m, q := range n.places {
		if q.kind != replicated && n.firmAlong(m) {
			return false
		}
		some = some || q.kind == sharded
	}
	return some
}

// explains reports whether an exchange keeps the whole of a value at its places.
func (p *part) explains(n *info, values map[int]*array, results []passed) bool {
	all := p.join(values, n.places)
	return all != nil && !slices.ContainsFunc(results, func(r passed) bool {
		return r.values != nil && p.passedPlaces(n, r.values, all, all.rounding(len(p.ranks))) == nil
	})
}

// addsUp reports whether an exchange is an all_reduce, or a function around one.
func (p *part) addsUp(s *site) bool {
	is := func(c *step.Call) bool { return collective.Name(c.Op) == "all_reduce" }
	call := s.first(p.ranks)
	return is(call) || slices.ContainsFunc(p.checker.inside[call], is)
}

// meet finds where a value lies that each rank had for its own, or that was made of such, by what an exchange made of
// it: it is whole, or its parts are moved or added up.
func (p *part) meet(s *site, sides map[int]*side, from int, n *info, results []passed) {
	values := p.column(sides, func(d *side) *array { return d.ins[from].array })
	one := &site{op: s.op, calls: s.calls, in: make([]*info, len(s.in))}
	var cands [][]place
	if n.own || n.ofOwn {
		cands = p.candidates(from, one, sides)
	}
	if p.addsUp(s) {
		cands = append(cands, p.everywhere(sum(1)), p.everywhere(sum(float64(len(p.ranks)))))
	}
	for _, places := range cands {
		all := p.join(values, places)
		if all == nil {
			continue
		}
		known := &info{places: places, data: n.data}
		for _, r := range results {
			if r.values == nil {
				continue
			}
			if ps := p.passedPlaces(known, r.values, all, all.rounding(len(p.ranks))); ps != nil &&
				!slices.Equal(ps, places) {
				n.places, n.own = places, false
				return
			}
		}
	}
}

// rearranged reports whether all ranks have the elements of a whole value that pieces of the ranks' parts make, and no
// whole parts in another order of the ranks: the program lays them out in a way of its own.
func (p *part) rearranged(parts, results map[int]*array, all *array) bool {
	if !p.replicates(results) {
		return false
	}
	got := results[p.ranks[0]]
	sorted := func(a *array) []float64 { return slices.Sorted(slices.Values(a.x)) }
	if len(got.x) != len(all.x) || !slices.Equal(sorted(got), sorted(all)) {
		return false
	}
	var first []*array
	for _, r := range p.ranks {
		first = append(first, parts[r])
	}
	for k := range first[0].shape { // parts in another order begin with another rank's, or go on with another one
		for _, a := range first {
			for _, b := range first {
				if pair := concat(k, 0, []*array{a, b}); a != b && pair != nil && got.has(pair, k) {
					return false
				}
			}
		}
	}
	return true
}

// has reports whether an array begins with the elements of another along a dimension.
func (a *array) has(b *array, dim int) bool {
	if len(a.shape) != len(b.shape) || a.shape[dim] < b.shape[dim] {
		return false
	}
	outer, inner := 1, 1
	for d, n := range a.shape {
		switch {
		case d < dim:
			outer *= n
		case d > dim:
			inner *= n
		}
		if d != dim && n != b.shape[d] {
			return false
		}
	}
	for o := range outer {
		n := b.shape[dim] * inner
		at := o * a.shape[dim] * inner
		if !slices.Equal(a.x[at:at+n], b.x[o*n:(o+1)*n]) {
			return false
		}
	}
	return true
}
