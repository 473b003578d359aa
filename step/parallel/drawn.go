package parallel

import (
	"errors"
	"fmt"
	"slices"
)

// Numbers that ranks draw lie nowhere by themselves: where they meet a value, they must be the same on ranks that have
// the same of it, and others on ranks that have other parts of it.

// draws notes a call without tensors that draws numbers.
func (p *part) draws(s *site, sides map[int]*side) {
	if len(s.out) == 1 && errors.Is(p.local(sides).err, errRandom) {
		s.out[0] = &info{drawn: true}
	}
}

// random checks a call that draws numbers: replicated values stay equal, parts are dropped apart.
func (p *part) random(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if len(lead.outs) != 1 || len(lead.ins) == 0 || !slices.Equal(lead.outs[0].shape, lead.ins[0].array.shape) {
		return
	}
	if s.in[0] == nil || s.in[0].places == nil {
		if lead.ins[0].array.constant() { // a probability
			s.out[0] = &info{drawn: true}
		}
		return
	}
	p.drops(s, sides, 0)
}

// meetsDrawn lifts a call that reads drawn numbers: they stay drawn, or are checked where a value has their shape.
// ok is false if it is something else: they are data of the ranks then.
func (p *part) meetsDrawn(s *site, sides map[int]*side) (ok bool) {
	lead := sides[p.ranks[0]]
	is := func(n *info) bool { return n != nil && n.drawn }
	if !slices.ContainsFunc(s.in, is) {
		return false
	}
	other := -1
	alike := len(lead.outs) == 1
	for i, a := range lead.ins {
		switch {
		case is(s.in[i]):
			alike = alike && slices.Equal(a.array.shape, lead.outs[0].shape)
		case len(a.array.x) == 1:
		case other < 0 && s.in[i].sound() && a.name == "" && slices.Equal(a.array.shape, lead.outs[0].shape) &&
			!a.array.constant():
			other = i
		default:
			alike = false
		}
	}
	switch {
	case !alike:
		for i, n := range s.in {
			if is(n) {
				s.in[i] = nil
			}
		}
		return false
	case other < 0:
		s.out[0] = &info{drawn: true}
	default:
		p.drops(s, sides, other)
	}
	return true
}

// drops checks the result of a call that meets argument i with drawn numbers, and zeroes elements of it.
func (p *part) drops(s *site, sides map[int]*side, i int) {
	n := s.in[i]
	outs := p.column(sides, func(d *side) *array { return d.outs[0] })
	kept := map[int]*array{}
	dropped := 0
	for _, r := range p.ranks {
		in := sides[r].ins[i].array
		kept[r] = outs[r].zip(in, func(y, x float64) float64 {
			if y == 0 && x != 0 {
				dropped++
				return 0
			}
			return 1
		})
	}
	for m, q := range n.places {
		same := p.equal(m, kept, 0)
		switch {
		case q.kind == replicated && (!n.lost && !p.equal(m, outs, 0) || n.lost && p.dropsApart(m, sides, i)):
			p.found(!n.lost || p.begins(), p.dropsOther(s, m))
			n.lost = true
		case q.kind == sharded && same && dropped > 8*len(p.ranks):
			p.found(!n.lost, &violation{kind: "replica", site: s, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("ranks %s hold different parts of its argument, and all drop the same elements: "+
					"they draw "+
					"with the same random state", rankList(p.dims[m].groups[0]))})
		}
	}
	s.out[0] = &info{places: n.places, lost: n.lost}
}

// dropsOther is about a call that drops other elements of a value that the ranks along a dimension of the mesh have
// alike.
func (p *part) dropsOther(s *site, m int) *violation {
	is := "is"
	if p.begins() {
		is = "should be"
	}
	return &violation{kind: "replica", site: s, ranks: p.ranks, target: "output[0]", cause: true,
		reason: fmt.Sprintf("its argument %s the same on ranks %s, and each drops other elements: the replicas go on "+
			"with different values", is, rankList(p.dims[m].groups[0]))}
}
