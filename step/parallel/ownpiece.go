package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// Ranks cut a value in pieces and go on with their own one each: so a DTensor goes from replicated to sharded. That
// needs the same value on all ranks: of a partial sum, or of what each computed by other parameters, the rest is lost.

// ownPieces finds such cuts of values that ranks do not have in common.
func (p *part) ownPieces() {
	for _, s := range p.sites {
		if len(p.broken) > 0 {
			return
		}
		if m := method(s.op); m != "chunk" && m != "split" && m != "tensor_split" || len(s.in) != 1 {
			continue
		}
		n := s.in[0]
		if n == nil || n.places == nil || n.guess || p.astray(n) {
			continue
		}
		for m, q := range n.places {
			if q.kind != replicated && p.takesOwn(m, s) {
				p.lostPieces(m, s, n)
				break
			}
		}
	}
}

// takesOwn reports whether each rank of the groups along a dimension of the mesh reads one result of a call only, that
// of its place in the group.
func (p *part) takesOwn(m int, s *site) bool {
	return !slices.ContainsFunc(p.dims[m].groups, func(g []int) bool {
		for k, r := range g {
			call := s.calls[r]
			if len(call.Outputs) != len(g) {
				return true
			}
			var read []*step.Value
			for _, c := range call.Process.Calls[call.Order+1:] {
				for _, v := range c.Inputs {
					if from := v.From.Value; from != nil && from.Call == call && !slices.Contains(read, from) {
						read = append(read, from)
					}
				}
			}
			if len(read) != 1 || read[0] != call.Outputs[k] {
				return true
			}
		}
		return false
	})
}

// lostPieces says what the ranks should have in common of a value of which each takes its own piece: the sum of their
// terms, or the parameter that they made it of.
func (p *part) lostPieces(m int, s *site, n *info) {
	ranks := rankList(p.dims[m].groups[0])
	if n.places[m].kind == partial {
		p.found(true, &violation{kind: "collective", site: s, ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("it is a partial sum over ranks %s, and each rank goes on with its own piece of its own terms: "+
				"a reduce_scatter is missing, or Partial() as its placement", ranks)})
		return
	}
	for range p.sites {
		t := n.made
		if t == nil || len(t.in) == 0 {
			return
		}
		sides := p.read(t)
		if sides == nil {
			return
		}
		for i, a := range sides[p.ranks[0]].ins {
			if a.name == "" || !a.tensor.RequiresGrad || a.copies > 0 ||
				p.equal(m, p.column(sides, func(d *side) *array { return d.ins[i].array }), 0) {
				continue
			}
			p.found(true, &violation{kind: "replica", site: t, ranks: p.ranks, target: fmt.Sprintf("input[%d]", i),
				reason: fmt.Sprintf("%s differs between ranks %s, and each goes on with its own piece of what it gives (%s): the "+
					"rest is lost, unless all have the same %s", a.name, ranks, s.first(p.ranks), a.name)})
			return
		}
		if n = t.in[0]; n == nil || n.places == nil {
			return
		}
	}
}
