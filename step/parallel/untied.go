package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// A given is a gradient that a rank gives an exchange with ranks of other stages.
type given struct {
	part *part
	rank int
	name string
	call *step.Call
}

// untied finds parameters of two stages of which one exchange adds up the gradients, and that are updated with the sum:
// they are one parameter, as a table that is the head of the last stage, too. They must begin a step with the same
// elements.
func untied(parts []*part) []*violation {
	var all []given
	for _, p := range parts {
		if p.checker.apart {
			return nil
		}
		all = append(all, p.givesOut()...)
	}
	for i, g := range all {
		for _, h := range all[i+1:] {
			if g.part == h.part || !slices.Contains(g.part.checker.exchange(g.call), h.call.Entry) {
				continue
			}
			if v := g.apart(h); v != nil {
				return []*violation{v}
			}
		}
	}
	return nil
}

// givesOut are the gradients that the ranks of a part give to exchanges with others that add them up.
func (p *part) givesOut() (out []given) {
	adds := func(call *step.Call, r int) bool {
		return collective.Name(call.Op) == "all_reduce" && slices.Contains(call.Entry.Group, r) &&
			slices.ContainsFunc(call.Entry.Group, func(o int) bool { return !slices.Contains(p.ranks, o) }) &&
			slices.ContainsFunc(call.Inputs, func(v *step.Value) bool { return numel(v.Shape) > 1 })
	}
	for _, r := range p.ranks {
		if !slices.ContainsFunc(p.tailCalls(r), func(c *step.Call) bool { return adds(c, r) }) {
			continue
		}
		for _, e := range p.tailOf(r).exchanges {
			for _, n := range p.order {
				own := p.grads[n].sum[r]
				if adds(e.call, r) && !own.zero() && nearly(e.x, own.x, own.tolerance()*own.largest()) {
					out = append(out, given{p, r, n, e.call})
				}
			}
		}
	}
	return out
}

// apart says that two parameters that are one begin the step with different elements; nil if they do not.
func (g given) apart(h given) *violation {
	a, b := g.part.grads[g.name], h.part.grads[h.name]
	x, y := a.value[g.rank], b.value[h.rank]
	if a.read == nil || b.read == nil || !slices.Equal(x.shape, y.shape) || x.constant() || y.constant() ||
		x.near(y, 64*x.dtype.Eps()) {
		return nil
	}
	if k, ok := a.read.ratio(b.read, a.read.loose()); !ok || k <= 0 { // each clips by a norm of its own, say
		return nil
	}
	if len(g.call.Entry.Group) == 2 {
		sum := a.sum[g.rank].plus(b.sum[h.rank])
		if k, ok := a.read.ratio(sum, sum.loose()); !ok || k <= 0 {
			return nil
		}
	}
	call, at := g.firstRead(a.names[g.rank])
	if call == nil {
		return nil
	}
	return &violation{kind: "replica", call: call, ranks: []int{g.rank, h.rank}, target: fmt.Sprintf("input[%d]", at),
		reason: fmt.Sprintf("%s of rank %d and %s of rank %d begin the step with different elements. %s adds up their "+
			"gradients, and both are updated with the sum, so they are one parameter that stages share: a broadcast is "+
			"missing that makes them the same", a.names[g.rank], g.rank, b.names[h.rank], h.rank, g.call)}
}

// firstRead is the first call of a rank with a backward pass that reads a parameter, and the number of the argument.
func (g given) firstRead(name string) (*step.Call, int) {
	for _, t := range g.part.checker.trained[g.rank] {
		if t.name != name {
			continue
		}
		d, err := g.part.checker.load(t.call)
		if err != nil {
			return nil, 0
		}
		return t.call, slices.IndexFunc(d.ins, func(a argument) bool { return a.name == name })
	}
	return nil, 0
}
