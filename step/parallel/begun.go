package parallel

import (
	"fmt"
	"slices"
	"strings"
)

// Replicas that begin a step with different parameters were moved apart before: by what they began to train with, or by
// something that earlier steps did. These steps ran the lines of this one, and did the same. So the first finding is
// what can have moved them apart, where this step shows it.

// begins reports whether the first finding is about parameters that replicas begin the step with.
func (p *part) begins() bool { return len(p.broken) > 0 && p.broken[0].begun }

// astray reports whether nothing can be said of a value, since it follows from something that is wrong. What follows
// from parameters that replicas begin with still lies in a known way.
func (p *part) astray(n *info) bool { return n.astray() && !(p.begins() && n.places != nil) }

// causes puts what moves replicas apart before what they began with.
func (p *part) causes() {
	if !p.begins() {
		if len(p.broken) > 0 {
			p.neverAlike()
		}
		return
	}
	begun := p.broken
	at := slices.IndexFunc(begun, func(v *violation) bool { return v.cause })
	if at < 0 {
		p.broken, p.apartFrom = nil, true
		p.parameters()
		p.apartFrom = false
		if len(p.broken) == 0 {
			p.broken = begun
			return
		}
		begun = append(p.broken, begun...)
	} else {
		begun = slices.Concat(begun[at:at+1], begun[:at], begun[at+1:])
	}
	p.broken = begun
	of := begun[slices.IndexFunc(begun, func(v *violation) bool { return v.begun })]
	begun[0].reason += fmt.Sprintf(". So did earlier steps: replicas have different parameters when %s reads them",
		of.site.first(p.ranks))
}

// sumsSurely reports whether it is known without their elements along which dimensions of the mesh the gradients of a
// parameter add up: replicas that differ have others, too. The parameter must be known to be replicated along
// some, and the gradients add up where all calls that give them have parts of the results.
func (p *part) sumsSurely(name string, g *gradient) bool {
	places := p.shards[name]
	if !slices.ContainsFunc(places, func(q place) bool { return q.kind == replicated }) ||
		slices.ContainsFunc(places, func(q place) bool { return q.kind == partial }) {
		return false
	}
	for m, k := range p.gradientKinds(g.sum, places) {
		if k == partial && places[m].kind == replicated && slices.ContainsFunc(g.calls, func(c contribution) bool {
			return !slices.ContainsFunc(c.site.out, func(n *info) bool {
				return n != nil && n.sharedOut(m, []kind{sharded, partial})
			})
		}) {
			return false
		}
	}
	return true
}

// alignedSides are the sides of a call with one value on all ranks along dimensions of the mesh where an argument is
// replicated that follows from something wrong: so the places of what follows stay known.
func (p *part) alignedSides(s *site, sides map[int]*side) map[int]*side {
	if sides[p.ranks[0]].rec.Placed != "" || !p.begins() || !slices.ContainsFunc(s.in, func(n *info) bool {
		return n.astray() && n.places != nil
	}) {
		return sides
	}
	out := map[int]*side{}
	for _, r := range p.ranks {
		d := *sides[r]
		d.ins, d.recorded = slices.Clone(d.ins), d.ins
		out[r] = &d
	}
	for i, n := range s.in {
		if n.astray() && n.places != nil {
			for r, a := range p.aligned(p.column(sides, func(d *side) *array { return d.ins[i].array }), n.places) {
				out[r].ins[i].array = a
			}
		}
	}
	return out
}

// aligned are values of the ranks with those of the first of each group along dimensions where they are replicated.
func (p *part) aligned(values map[int]*array, places []place) map[int]*array {
	for m, q := range places {
		if q.kind != replicated {
			continue
		}
		next := map[int]*array{}
		for _, g := range p.dims[m].groups {
			for _, r := range g {
				next[r] = values[g[0]]
			}
		}
		values = next
	}
	return values
}

// dropsApart reports whether ranks that have the same of argument i, or nearly the same, drop other elements of it.
func (p *part) dropsApart(m int, sides map[int]*side, i int) bool {
	if !p.begins() {
		return false
	}
	of := func(r int) (in, out *array) {
		d := sides[r]
		if d.recorded != nil {
			return d.recorded[i].array, d.outs[0]
		}
		return d.ins[i].array, d.outs[0]
	}
	for _, g := range p.dims[m].groups {
		x, y := of(g[0])
		for _, r := range g[1:] {
			in, out := of(r)
			if len(in.x) != len(x.x) || len(out.x) != len(y.x) || len(x.x) != len(y.x) {
				return false
			}
			for k := range x.x {
				if x.x[k] != 0 && in.x[k] != 0 && (y.x[k] == 0) != (out.x[k] == 0) {
					return true
				}
			}
		}
	}
	return false
}

// meetsDropped looks at what a call adds to a value that lies in a known way: it must lie so, too. If each rank dropped
// elements of it, ranks that have the same must have dropped the same.
func (p *part) meetsDropped(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if !p.begins() || method(s.op) != "add" || len(s.in) != 2 || len(lead.call.Inputs) != 2 {
		return
	}
	for i, n := range s.in {
		from := lead.call.Inputs[1-i].From.Value
		if n == nil || n.places == nil || from == nil || s.in[1-i] != nil && s.in[1-i].places != nil ||
			!slices.Equal(lead.ins[0].array.shape, lead.ins[1].array.shape) {
			continue
		}
		at := slices.IndexFunc(p.sites, func(t *site) bool { return t.calls[p.ranks[0]] == from.Call })
		if at < 0 || !strings.Contains(from.Call.Op, "dropout") {
			continue
		}
		made := p.read(p.sites[at])
		for m, q := range n.places {
			if made != nil && q.kind == replicated && p.dropsApart(m, made, 0) {
				p.found(true, p.dropsOther(p.sites[at], m))
				return
			}
		}
	}
}

// neverAlike puts first that each replica began with parameters of its own, which look like parts of a whole: the
// ranks add up the gradients of all parameters, have none of these alike, and pass no values on in the forward pass.
func (p *part) neverAlike() {
	for _, n := range p.order {
		g := p.grads[n]
		if !g.value[p.ranks[0]].constant() && p.replicates(g.value) ||
			slices.ContainsFunc(p.ranks, func(r int) bool { return len(g.sum[r].x) != len(g.sum[p.ranks[0]].x) }) {
			return
		}
	}
	if slices.ContainsFunc(p.sites, func(s *site) bool { return s.seam && s.first(p.ranks).HasBackward() }) {
		return
	}
	t := p.tailOf(p.ranks[0])
	for _, s := range p.sites {
		sides := p.read(s)
		if sides == nil {
			continue
		}
		for i, a := range sides[p.ranks[0]].ins {
			if a.name == "" || p.grads[a.name] == nil || a.array.constant() {
				continue
			}
			adds := t.took(p.grads[a.name].sum[p.ranks[0]])
			if adds == nil || len(adds.Entry.Group) < len(p.ranks) {
				return
			}
			p.broken = slices.Insert(p.broken, 0, &violation{kind: "replica", site: s, ranks: p.ranks,
				target: sides[p.ranks[0]].call.Inputs[i].Target,
				reason: fmt.Sprintf("%s differs between ranks %s, as all parameters do, though the ranks add up their "+
					"gradients by %s: each began with its own, which lacks a broadcast", a.name, rankList(p.ranks),
					adds)})
			return
		}
	}
}
