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
