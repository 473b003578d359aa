package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// reduces is the number of ranks over which an exchange added up partial sums; 0 if it did not.
func (p *part) reduces(from, to []place) int {
	n := 1
	for m, q := range from {
		if q.kind == partial && q.factor == 1 && to[m].kind == replicated && to[m].factor == 1 {
			n *= p.dims[m].size
		}
	}
	if n == 1 {
		return 0
	}
	return n
}

// averages reports whether a call of the forward pass divides what the ranks added up by their number: the terms were
// no means, or the factor of the sum would say so.
func (p *part) averages(s *site, lead *side) bool {
	if len(s.in) != 1 || s.in[0] == nil || s.in[0].reduced == 0 || !multiplies(s.op) || len(lead.rec.Args) != 2 ||
		len(lead.outs) != 1 || len(lead.outs[0].x) == 1 {
		return false
	}
	call := lead.call
	for o := call.Outer(); o != nil; o = o.Outer() {
		call = o
	}
	k, ok := numberOf(lead.rec.Args[1])
	n := float64(s.in[0].reduced)
	return ok && call.HasBackward() && (k == n && method(s.op) != "mul" || k*n == 1 && method(s.op) == "mul")
}

// ownDivisor finds a value that the ranks added up, so that all have the same, and that each divides by a count of its
// own, or multiplies with one.
func (p *part) ownDivisor(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if len(lead.ins) != 2 || !multiplies(s.op) || len(lead.ins[0].array.x) < 2 || len(lead.ins[1].array.x) != 1 ||
		p.same(sides, 1) || !lead.call.HasBackward() || p.total(s.in[0]) == 0 ||
		slices.ContainsFunc(p.ranks, func(r int) bool { return !isCount(sides[r].ins[1].array.x[0]) }) {
		return false
	}
	var numbers []string
	for _, r := range p.ranks {
		numbers = append(numbers, fmt.Sprintf("%g", sides[r].ins[1].array.x[0]))
	}
	p.found(!s.in[0].astray(), &violation{kind: "scale", site: s, ranks: p.ranks, target: "output[0]",
		reason: fmt.Sprintf("input[0] was added up over ranks %s, and each of them takes it with another count (%s): "+
			"that of all is the same on all ranks", rankList(p.ranks), strings.Join(numbers, ", "))})
	p.lose(s)
	return true
}

// total is the number of ranks over which an exchange added up a value, or one that it is a part of; 0 if none did.
func (p *part) total(n *info) int {
	for range 4 {
		if !n.sound() || n.isPartial() {
			return 0
		}
		if n.reduced > 1 {
			return n.reduced
		}
		if n.made == nil || len(n.made.in) != 1 || !cutting[method(n.made.op)] && !reshaping[method(n.made.op)] {
			return 0
		}
		n = n.made.in[0]
	}
	return 0
}

// statistics finds a sum over the terms of all ranks that is divided by the number of those of one rank, where a call
// reads the quotient that is right for the mean only: it adds it to something else, or takes its root.
func (p *part) statistics() {
	for _, s := range p.sites {
		if !multiplies(s.op) || len(s.in) == 0 || len(s.out) != 1 || !s.out[0].sound() {
			continue
		}
		over := p.total(s.in[0])
		sides := p.read(s)
		if over == 0 || sides == nil {
			continue
		}
		lead := sides[p.ranks[0]]
		n, ok := lead.operand()
		if strings.HasSuffix(method(s.op), "mul") {
			n = 1 / n
		}
		own := s.in[0].summed(p.ranks, 12)
		if !ok || own < 2 || math.Abs(n/float64(own)-1) > 1e-6 || !lead.call.HasBackward() || len(lead.outs[0].x) < 2 ||
			!p.takesMean(s.out[0], 8) {
			continue
		}
		p.found(true, &violation{kind: "scale", site: s, ranks: p.ranks, target: "output[0]", reason: fmt.Sprintf(
			"input[0] is a sum over ranks %s of %d terms of each, and is divided by %d: the mean of all %d terms needs their "+
				"number", rankList(p.ranks), own, own, own*over)})
		return
	}
}

// summed is the number of terms that a rank gave an exchange of each element that this added up: 0 if they are not the
// terms of a sum that it made of its part of a value, or several such values were joined that differ in that.
func (n *info) summed(ranks []int, within int) int {
	if !n.sound() || n.made == nil || len(n.made.in) == 0 || within == 0 {
		return 0
	}
	in, m := n.made.in, method(n.made.op)
	switch {
	case m == "sum":
		if c := n.made.first(ranks); in[0].sound() && !in[0].isPartial() && !in[0].everywhereWhole() {
			return numel(c.Inputs[0].Shape) / max(1, numel(c.Outputs[0].Shape))
		}
	case cutting[m], reshaping[m], silent[m], n.made.seam:
		return in[0].summed(ranks, within-1)
	case m == "cat" || m == "stack":
		k := in[0].summed(ranks, within-1)
		if !slices.ContainsFunc(in[1:], func(o *info) bool { return o.summed(ranks, within-1) != k }) {
			return k
		}
	}
	return 0
}

// everywhereWhole reports whether all ranks have the same of a value.
func (n *info) everywhereWhole() bool {
	return !slices.ContainsFunc(n.places, func(q place) bool { return q.kind != replicated })
}

// takesMean reports whether a call takes the root of a value, or adds it to another value: a factor of it can then not
// be meant for all that is made of it.
func (p *part) takesMean(n *info, within int) bool {
	return within > 0 && n != nil && slices.ContainsFunc(p.sites, func(s *site) bool {
		if !slices.Contains(s.in, n) || len(s.out) != 1 {
			return false
		}
		switch m := method(s.op); {
		case m == "sqrt" || m == "rsqrt":
			return true
		case m == "add" || m == "sub":
			return len(s.in) == 2 || p.takesMean(s.out[0], within-1)
		default:
			return (cutting[m] || reshaping[m] || silent[m]) && p.takesMean(s.out[0], within-1)
		}
	})
}

// unsummed finds an argument of which each rank has another part of a partial sum, next to arguments that are whole or
// parts of a whole.
func (p *part) unsummed(s *site, sides map[int]*side) bool {
	at := slices.IndexFunc(s.in, func(n *info) bool { return n != nil && n.pieces })
	if at < 0 || len(s.in) < 2 {
		return false
	}
	for i, n := range s.in {
		if i == at || n == nil && sides != nil && sides[p.ranks[0]].ins[i].name != "" && p.same(sides, i) {
			continue // a parameter that all have
		}
		if n == nil || n.places == nil || n.lost {
			return false
		}
	}
	p.found(true, &violation{kind: "collective", site: s, ranks: p.ranks, target: fmt.Sprintf("input[%d]", at),
		reason: fmt.Sprintf("ranks %s each read their own part of the result of %s, which is a partial sum: it lacks "+
			"a reduce_scatter", rankList(p.ranks), s.in[at].made.first(p.ranks))})
	return true
}

// unreduced reports whether a call adds a partial sum to a whole value, and no exchange reads the result: then the sum
// lacks one, and else the whole value counts once for each rank.
func (p *part) unreduced(s *site, sides map[int]*side) bool {
	if m := method(s.op); m != "add" && m != "sub" || len(s.in) != 2 {
		return false
	}
	is := func(k kind, dim int) func(*info) bool {
		return func(n *info) bool { return n != nil && n.places != nil && n.places[dim].kind == k }
	}
	mixes, in := false, p.assumed(s, sides)
	for m := range p.dims {
		mixes = mixes || slices.ContainsFunc(in, is(partial, m)) && slices.ContainsFunc(in, is(replicated, m))
	}
	if !mixes {
		return false
	}
	return !p.exchanged(s)
}

// assumed is what is known of the arguments of a call, and that those are whole which are the same on all ranks.
func (p *part) assumed(s *site, sides map[int]*side) []*info {
	in := slices.Clone(s.in)
	for i, n := range in {
		if n == nil && p.same(sides, i) {
			in[i] = &info{places: p.everywhere(whole)}
		}
	}
	return in
}

// overcounted finds the exchange that added up values which all ranks had in whole, where a call adds its result to
// other values.
func (p *part) overcounted(s *site, sides map[int]*side, known bool) bool {
	in := p.assumed(s, sides)
	for m, d := range p.dims {
		least := 0.0
		for _, n := range in {
			if n == nil || n.places == nil {
				return false
			}
			if f := n.places[m].factor; least == 0 || f < least {
				least = f
			}
		}
		for _, n := range in {
			if n.places[m].kind != replicated || n.places[m].factor == least {
				continue
			}
			if t := p.grew(n, m); t != nil {
				p.found(known, &violation{kind: "scale", site: t, ranks: p.ranks, target: "output[0]",
					reason: fmt.Sprintf("its argument is the same on ranks %s, and it adds up all of them: %s adds "+
						"the %g-fold result to other values", rankList(d.groups[0]), s.first(p.ranks),
						n.places[m].factor)})
				return true
			}
		}
	}
	return false
}

// grew is the exchange that gave a value its factor along a dimension; nil if there is none.
func (p *part) grew(n *info, m int) *site {
	for range p.sites {
		t := n.made
		if t == nil || len(t.in) == 0 {
			return nil
		}
		next := slices.IndexFunc(t.in, func(i *info) bool {
			return i != nil && i.places != nil && i.places[m].factor == n.places[m].factor
		})
		switch {
		case t.seam && next < 0:
			return t
		case next < 0:
			return nil
		}
		n = t.in[next]
	}
	return nil
}
