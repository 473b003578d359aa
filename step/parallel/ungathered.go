package parallel

import (
	"fmt"

	"github.com/optool/optool/step"
)

// An ungathered is a buffer of parameters of which each rank updates its part, and no call behind that gives the others
// what it made. The next step may begin by gathering the parts.
type ungathered struct {
	update *step.Call
	names  []string
	before map[string]*array // as the step read them
	after  map[string]*array // as the ranks' updates left them together
}

// notGathered is the buffer whose parts updates left as some results.
func (p *part) notGathered(b bucket, update *step.Call, results []float64) ungathered {
	u := ungathered{update, b.names, map[string]*array{}, map[string]*array{}}
	for _, n := range b.names {
		a := p.grads[n].value[p.ranks[0]]
		u.before[n] = a
		u.after[n] = &array{a.dtype, a.shape, results[b.at[n] : b.at[n]+len(a.x)]}
	}
	return u
}

// neverGathered finds parameters that a step reads as the one before did, though ranks updated their parts since then.
func (p *part) neverGathered(before []ungathered) {
	for _, u := range before {
		old, moved := 0, 0
		var first *gradient
		for _, n := range u.names {
			g := p.grads[n]
			if g == nil || len(p.broken) > 0 {
				continue
			}
			if u.before[n].near(u.after[n], 2*u.before[n].dtype.Eps()) {
				continue // the update changes nothing of it
			}
			moved++
			same := true
			for _, r := range p.ranks {
				same = same && g.value[r].near(u.before[n], 0)
			}
			if same {
				old++
				if first == nil || g.calls[0].site.first(p.ranks).Order < first.calls[0].site.first(p.ranks).Order {
					first = g
				}
			}
		}
		if moved == 0 || old < moved {
			continue
		}
		name := first.names[p.ranks[0]]
		p.found(true, &violation{kind: "collective", site: first.calls[0].site, ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("it reads %s as it was in the step before, though %s updated it since then, each rank its "+
				"part: no call gathers the parts for this step", name, u.update)})
		return
	}
}
