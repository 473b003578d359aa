package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// unreducedShards finds parameters of FSDP that have gradients and were given to an optimizer that made a step, and
// that no call updates: FSDP2 gives the optimizer no gradient until a backward pass reduces it.
func (p *part) unreducedShards(tails map[int]*tail) {
	if len(p.broken) > 0 {
		return
	}
	stepped, reduced := map[int]map[string]bool{}, false
	for _, q := range p.checker.trace.Processes {
		if slices.Contains(p.ranks, q.Rank) {
			own, reduces, sharded := p.stepOf(q)
			if !sharded {
				return
			}
			stepped[q.Rank], reduced = own, reduced || reduces
		}
	}
	updated := func(n string) bool {
		return slices.ContainsFunc(p.ranks, func(r int) bool { return len(tails[r].updates[p.grads[n].names[r]]) > 0 })
	}
	var without []string
	others := false
	for _, n := range p.order {
		g := p.grads[n]
		switch {
		case slices.ContainsFunc(p.ranks, func(r int) bool { return !stepped[r][g.names[r]] || g.sum[r].zero() }):
		case updated(n):
			others = true
		default:
			without = append(without, n)
		}
	}
	if len(without) == 0 || reduced && !others { // the calls of its optimizer are not recorded
		return
	}
	g := p.grads[without[0]]
	p.found(true, &violation{kind: "replica", site: g.calls[0].site, ranks: p.ranks, backward: true,
		target: fmt.Sprintf("grad[%d]", g.calls[0].number),
		reason: fmt.Sprintf("%s has a gradient, the optimizer makes a step, and no call updates it: FSDP did not reduce "+
			"the gradient, as after set_requires_gradient_sync(False), so that the optimizer has none",
			without[0]+more(without))})
}

// stepOf says which parameters the optimizers of a process were given that made a step behind the calls of the part,
// and whether FSDP shares out parameters and something reduces gradients.
func (p *part) stepOf(q *step.Process) (names map[string]bool, reduces, sharded bool) {
	names = map[string]bool{}
	begin, end := math.MaxInt, -1
	for _, s := range p.sites {
		if c := s.calls[q.Rank]; c != nil {
			begin, end = min(begin, c.Entry.Order), max(end, c.Entry.BackwardOrder)
		}
	}
	until := math.MaxInt // where the next step begins
	for _, c := range q.Calls {
		if c.Entry.Order > end && c.Entry.BackwardOrder >= 0 {
			until = min(until, c.Entry.Order)
		}
		sharded = sharded || strings.HasPrefix(c.Op, "torch.ops.fsdp.")
		reduces = reduces || c.Entry.Order > begin && strings.HasPrefix(collective.Name(c.Op), "reduce_scatter")
	}
	if len(q.Calls) == 0 {
		return names, reduces, sharded
	}
	for _, u := range q.Calls[0].Entry.OptimizerSteps {
		for _, n := range u.Params {
			if u.Order > end && u.Order <= until {
				names[n] = true
			}
		}
	}
	return names, reduces, sharded
}
