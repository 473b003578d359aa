package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// A write is what a call behind the backward pass left in a parameter.
type write struct {
	call  *step.Call
	value *array
	// source is the rank whose value an exchange without a wait leaves there once it has ended; -1 of any other call.
	source int
}

// noteWrites notes what a call left in parameters, by where these lie: an exchange of p.data has no name.
func (t *tail) noteWrites(c *step.Call, d *side) {
	for i, a := range d.ins {
		name := t.at[a.address]
		if name == "" || a.address == 0 {
			continue
		}
		w := write{c, d.after[i], d.source()}
		switch {
		case w.source >= 0:
			w.value = a.array
		case w.value == nil && i < len(d.outs) && d.returns(i):
			w.value = d.outs[i]
		case w.value == nil && isExchange(c.Op):
			w.value = a.array // as it was
		}
		if w.value != nil && slices.Equal(w.value.shape, t.shape[name]) {
			t.writes[name] = append(t.writes[name], w)
		}
	}
}

// noteCovered notes what a call left in parameters that lie in a buffer which it wrote.
func (t *tail) noteCovered(c *step.Call, d *side) {
	for i, a := range d.ins {
		after := d.after[i]
		if after == nil && i < len(d.outs) && d.returns(i) {
			after = d.outs[i]
		}
		if a.name != "" || a.address == 0 || after == nil || len(after.shape) != 1 || len(after.x) != len(a.array.x) {
			continue
		}
		size := uint64(after.dtype.Size())
		for address, name := range t.at {
			n := numel(t.shape[name])
			from := (address - a.address) / size
			if address < a.address || (address-a.address)%size != 0 || from+uint64(n) > uint64(len(after.x)) ||
				address == a.address && slices.Equal(t.shape[name], after.shape) {
				continue
			}
			value := &array{after.dtype, t.shape[name], after.x[from : from+uint64(n)]}
			t.updates[name] = append(t.updates[name], update{call: c, result: value})
			t.writes[name] = append(t.writes[name], write{c, value, -1})
		}
	}
}

// source is the rank that a broadcast without a wait passes on the value of; -1 of any other call.
func (d *side) source() int {
	if async, _ := d.rec.Kwargs.Get("async_op"); collective.Name(d.call.Op) != "broadcast" || async != true {
		return -1
	}
	src, ok := d.rec.Kwargs.Get("src")
	if !ok && len(d.rec.Args) > 1 {
		src = d.rec.Args[1]
	}
	if n, ok := src.(int64); ok {
		return int(n)
	}
	return -1
}

// updated is the last write of a parameter that is no exchange.
func (t *tail) updated(name string) (last *write) {
	for i, w := range t.writes[name] {
		if !isExchange(w.call.Op) {
			last = &t.writes[name][i]
		}
	}
	return last
}

// passedOn checks parameters that one rank updates and passes on: after the step all ranks must have what it made of
// them.
func (p *part) passedOn(tails map[int]*tail) {
	for _, name := range p.order {
		g := p.grads[name]
		var owner int
		var made *write
		owners := 0
		for _, r := range p.ranks {
			if u := tails[r].updated(g.names[r]); u != nil && !u.value.near(g.value[r], 0) {
				owner, made = r, u
				owners++
			}
		}
		if owners != 1 || len(p.broken) > 0 || slices.ContainsFunc(p.ranks, func(r int) bool {
			return !p.ended(r) || !g.value[r].near(g.value[p.ranks[0]], 0)
		}) {
			continue
		}
		for _, r := range p.ranks {
			ws := tails[r].writes[g.names[r]]
			passed := tails[owner].writes[g.names[owner]]
			early := passed[len(passed)-1].call == made.call
			if len(ws) == 0 || !ws[len(ws)-1].lacks(made, owner, early) {
				continue
			}
			last := ws[len(ws)-1]
			why := fmt.Sprintf("it is passed on from another rank than rank %d, which updates it: the update is lost",
				owner)
			if early {
				why = fmt.Sprintf("it is passed on before rank %d updates it", owner)
			}
			p.found(true, &violation{kind: "collective", call: last.call, site: g.calls[0].site, ranks: p.ranks,
				target: "input[0]", reason: fmt.Sprintf("after the step rank %d has not in %s what rank %d made of it: %s",
					r, name, owner, why)})
			return
		}
	}
}

// lacks reports whether an exchange left something else in a parameter than what its owner made of it, or the owner
// passed it on too early.
func (w write) lacks(made *write, owner int, early bool) bool {
	switch {
	case !isExchange(w.call.Op):
		return false
	case w.source >= 0:
		return early || w.source != owner
	}
	return !w.value.near(made.value, 4*made.value.dtype.Eps())
}
