package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// What ranks hand each other behind the backward pass: parts of sums, and updates that another rank computed.

// addedParts finds an exchange that adds up what a reduce_scatter gave the same ranks: each has other elements.
func (p *part) addedParts(tails map[int]*tail) {
	for _, s := range p.tail {
		call := s.first(p.ranks)
		if collective.Name(s.op) != "all_reduce" || len(call.Entry.Group) < 2 {
			continue
		}
		r := p.ranks[slices.IndexFunc(p.ranks, func(r int) bool { return s.calls[r] == call })]
		d, err := p.checker.load(call)
		if err != nil || len(d.ins) == 0 || len(d.ins[0].array.x) < 2 {
			continue
		}
		var parts *step.Call // the last that gave the rank this part
		for _, o := range p.tail {
			c := o.calls[r]
			if c == nil || c.Order >= call.Order || !strings.HasPrefix(collective.Name(c.Op), "reduce_scatter") ||
				!slices.Equal(c.Entry.Group, call.Entry.Group) {
				continue
			}
			if e, err := p.checker.load(c); err == nil && slices.ContainsFunc(e.after, func(a *array) bool {
				return a != nil && !a.constant() && slices.Equal(a.x, d.ins[0].array.x)
			}) {
				parts = c
			}
		}
		if parts == nil {
			continue
		}
		p.found(true, &violation{kind: "collective", call: call, site: p.grads[p.order[0]].calls[0].site,
			ranks: p.ranks, target: "input[0]", reason: fmt.Sprintf("it adds up what %s gave each of ranks %s: these are parts of one sum, "+
				"with other elements each, so that another group is meant", parts, rankList(call.Entry.Group))})
		return
	}
}

// swappedUpdates finds a parameter that is updated with what another rank made of the gradient of another parameter.
func (p *part) swappedUpdates(tails map[int]*tail, factors []float64) {
	if len(p.broken) > 0 {
		return
	}
	wants := map[string]map[int]*array{}
	for _, n := range p.order {
		wants[n], _, _ = p.wanted(n, p.grads[n], factors)
	}
	for _, s := range p.tail {
		if !strings.HasPrefix(collective.Name(s.op), "all_gather") || len(p.owners(s)) < len(p.ranks) {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		for _, q := range p.ranks { // that made an update
			given := sides[q].ins[s.sends(sides[q])].array
			if given.constant() {
				continue
			}
			of := ""
			for _, r := range p.ranks {
				for _, n := range p.order {
					if !slices.ContainsFunc(tails[r].updates[p.grads[n].names[r]], func(u update) bool {
						return u.gradient != nil && u.call.Order > s.calls[r].Order &&
							slices.Equal(u.gradient.shape, given.shape) && slices.Equal(u.gradient.x, given.x)
					}) {
						continue
					}
					if of == "" {
						of = p.madeOf(s.calls[q], s.sends(sides[q]), wants, q)
					}
					if of == "" || of == n || !slices.Equal(p.grads[of].value[q].shape, p.grads[n].value[q].shape) {
						continue
					}
					p.found(true, &violation{kind: "collective", call: s.calls[r], site: p.grads[n].calls[0].site,
						ranks: p.ranks, target: "output[0]", reason: fmt.Sprintf("rank %d updates %s with what rank %d made of "+
							"the gradient of %s: what the ranks gather is taken in another order", r, n, q, of)})
					return
				}
			}
		}
	}
}

// madeOf is the parameter of whose gradient alone an argument of a call was made behind the backward pass; "" if that
// is not known.
func (p *part) madeOf(call *step.Call, i int, wants map[string]map[int]*array, rank int) string {
	names := map[string]bool{}
	seen := map[*step.Value]bool{}
	var walk func(v *step.Value, x *array)
	walk = func(v *step.Value, x *array) {
		if seen[v] {
			return
		}
		seen[v] = true
		if x != nil {
			for _, n := range p.order {
				if k, ok := x.ratio(wants[n][rank], x.tolerance()); ok && k > 0 && len(x.x) > 4 {
					names[n] = true
					return
				}
			}
		}
		if v.From.Value == nil || !p.checker.behind[v.From.Value.Call] {
			return
		}
		d, err := p.checker.load(v.From.Value.Call)
		if err != nil || len(d.call.Inputs) != len(d.ins) {
			return
		}
		for j, in := range d.call.Inputs {
			walk(in, d.ins[j].array)
		}
	}
	if i < len(call.Inputs) {
		walk(call.Inputs[i], nil)
	}
	if len(names) != 1 {
		return ""
	}
	for n := range names {
		return n
	}
	return ""
}
