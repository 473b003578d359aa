package parallel

import "slices"

// An exchange that gives every rank a part of every other, such as an all_to_all, moves pieces in an order that no
// dimension describes. Local calls before it cut a value into these pieces, and others behind it put them together:
// then the ranks have the value that they had, cut along another dimension, as with the heads of a sequence. The
// elements say so.

// A sent is an argument of a call of which pieces were sent to all ranks.
type sent struct {
	site   *site
	number int
	shape  []int // of the whole
}

// noteSent notes an argument that an exchange deals out, and those from which calls that only move elements made it.
func (p *part) noteSent(s *site, from, within int) {
	sides := p.read(s)
	if sides == nil || within == 0 {
		return
	}
	for i, n := range s.in {
		if from >= 0 && i != from || !n.sound() || n.guess {
			continue
		}
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		if all := p.join(values, n.places); all != nil && all.dtype.IsFloat() && !all.constant() {
			p.sent = append(p.sent, sent{s, i, all.shape})
		}
		if t := n.made; t != nil && !t.seam {
			if m := method(t.op); moving[m] || cutting[m] || reshaping[m] {
				p.noteSent(t, -1, within-1)
			}
		}
	}
}

// recast finds out whether arguments of which no places are known are values that an exchange dealt out.
func (p *part) recast(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	for i, a := range lead.ins {
		n := s.in[i]
		known := n != nil && n.places != nil && !n.guess
		if len(p.sent) == 0 || !a.array.dtype.IsFloat() || a.name != "" || known || n.astray() {
			continue
		}
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		if slices.ContainsFunc(p.ranks, func(r int) bool { return values[r].constant() }) {
			continue
		}
		if n := p.dealtOut(values); n != nil {
			s.in[i] = n
			p.know(sides, input(i), n)
		}
	}
}

// dealtOut says how values lie that are a value which an exchange dealt out, cut along another dimension; nil if they
// are something else.
func (p *part) dealtOut(values map[int]*array) *info {
	total, first := 0, values[p.ranks[0]]
	for _, r := range p.ranks {
		total += len(values[r].x)
	}
	for _, o := range slices.Backward(p.sent) {
		if len(o.shape) != len(first.shape) || numel(o.shape)%len(first.x) != 0 || numel(o.shape) > total {
			continue
		}
		sides := p.read(o.site)
		in := o.site.in[o.number]
		if sides == nil {
			continue
		}
		all := p.join(p.column(sides, func(d *side) *array { return d.ins[o.number].array }), in.places)
		if all == nil {
			continue
		}
		if ps, ok := p.match(values, all, p.outcomes(len(all.shape), [][]place{in.places}), false, 0); ok {
			in.moves(ps)
			return &info{places: ps, firm: in.firm, data: in.data, ragged: in.ragged}
		}
	}
	return nil
}
