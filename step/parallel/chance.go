package parallel

import (
	"fmt"
	"math"
	"slices"
)

// chance finds a parameter that a call adds to a partial sum on every rank, and that holds one number yet, such as a
// bias of zeros. Zeros fit by chance: with other numbers, which an update gives it, it counts once for each rank.
func (p *part) chance(s *site, sides map[int]*side, lists [][][]place, chosen [][]place) (found bool) {
	lead := sides[p.ranks[0]]
	if lead.rec.Placed != "" || slices.ContainsFunc(s.in, func(n *info) bool {
		return n != nil && (n.guess || n.ragged || n.lost)
	}) {
		return false
	}
	for i, a := range lead.ins {
		if a.name == "" || !a.tensor.RequiresGrad || !a.array.dtype.IsFloat() || !a.array.constant() ||
			len(p.addedTo(s, chosen[i])) == 0 || p.fitsAny(s, sides, lists[i], chosen, i) {
			continue
		}
		m := p.addedTo(s, chosen[i])[0]
		p.found(true, &violation{kind: "shard", site: s, ranks: p.ranks, target: p.target(lead, []string{a.name}),
			reason: fmt.Sprintf("%s is the same on all ranks, and each of ranks %s adds it to its part of a sum: once it "+
				"holds other numbers than %g, it counts %d times", a.name, rankList(p.dims[m].groups[0]), a.array.x[0],
				p.dims[m].size)})
		return true
	}
	return false
}

// addsBias finds a bias that is the same on all ranks, in what an exchange adds up: each rank added it to what it made
// with weights of its own. So it counts once for each rank, wherever the other argument lies.
func (p *part) addsBias(s *site, sides map[int]*side, from int, results []passed) (found bool) {
	first := p.ranks[0]
	if call := s.calls[first]; from >= len(call.Inputs) || call.Inputs[from].From.Value == nil {
		return false
	}
	made := s.calls[first].Inputs[from].From.Value.Call
	at := slices.IndexFunc(p.sites, func(t *site) bool { return t.calls[first] == made })
	if at < 0 || !slices.Contains([]string{"linear", "addmm"}, method(p.sites[at].op)) {
		return false
	}
	t := p.sites[at]
	reads := p.read(t)
	if reads == nil || len(p.broken) > 0 || len(results) != 1 || results[0].values == nil {
		return false
	}
	learned := func(i int) bool { a := reads[first].ins[i]; return a.name != "" && a.tensor.RequiresGrad }
	given := p.column(sides, func(d *side) *array { return d.ins[from].array })
	for m, d := range p.dims {
		of := func(i int) map[int]*array { return p.column(reads, func(d *side) *array { return d.ins[i].array }) }
		own, bias := false, -1
		for i, a := range reads[first].ins {
			switch values := of(i); {
			case !learned(i):
			case len(a.array.shape) == 1 && p.equal(m, values, 0) && !a.array.constant():
				bias = i
			case len(a.array.shape) > 1 && !p.equal(m, values, 0) && !p.alike(m, values):
				own = true
			}
		}
		if bias < 0 || !own || !p.isSum(m, given, results[0].values) {
			continue
		}
		p.found(true, &violation{kind: "shard", site: t, ranks: p.ranks,
			target: p.target(reads[first], []string{reads[first].ins[bias].name}),
			reason: fmt.Sprintf("%s is the same on all ranks, each of ranks %s adds it to what it makes with weights of its "+
				"own, and %s adds that up: it counts %d times", reads[first].ins[bias].name, rankList(d.groups[0]),
				s.first(p.ranks), d.size)})
		results[0].keep(&info{lost: true})
		return true
	}
	return false
}

// isSum reports whether values are those of all ranks along a dimension of the mesh, added up.
func (p *part) isSum(m int, given, values map[int]*array) bool {
	sums := p.summed(m, given)
	return !slices.ContainsFunc(p.ranks, func(r int) bool {
		return !values[r].near(sums[r], values[r].rounding(p.dims[m].size))
	})
}

// addedTo are the dimensions of the mesh along which an argument at places is replicated and the result is a sum.
func (p *part) addedTo(s *site, at []place) (out []int) {
	for m := range p.dims {
		if len(s.out) == 1 && s.out[0].isPartial() && s.out[0].places[m].kind == partial && at[m].kind == replicated {
			out = append(out, m)
		}
	}
	return out
}

// fitsAny reports whether a call fits with other numbers in argument i, at one of the places where that can lie.
func (p *part) fitsAny(s *site, sides map[int]*side, list [][]place, chosen [][]place, i int) bool {
	size := 1.0
	for _, r := range p.ranks {
		size = max(size, sides[r].outs[0].largest())
	}
	return slices.ContainsFunc(list, func(at []place) bool {
		in := slices.Clone(chosen)
		in[i] = at
		mended := map[int]*side{}
		for _, r := range p.ranks {
			d, k := *sides[r], p.partOf(r, at)
			d.ins = slices.Clone(d.ins)
			x := make([]float64, len(d.ins[i].array.x))
			for e := range x {
				x[e] = size * (1 + math.Sin(float64(1+e+k*len(x))))
			}
			d.ins[i].array = &array{d.ins[i].array.dtype, d.ins[i].array.shape, x}
			mended[r] = &d
		}
		again := p.rerun(mended)
		if again.err != nil {
			return true
		}
		outs, _ := p.try(s, mended, again, in)
		return outs != nil
	})
}

// partOf is the number of the part that a rank has of a value at places: 0 for all ranks if it is replicated.
func (p *part) partOf(rank int, at []place) (k int) {
	for m, q := range at {
		if q.kind == sharded {
			k = k*p.dims[m].size + slices.Index(p.dims[m].of(rank), rank)
		}
	}
	return k
}
