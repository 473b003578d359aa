package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// staleLabels finds a loss of a pipeline that compares a microbatch with the labels of another one: they continue the
// tokens that the first stage looked up for that.
func (c *checker) staleLabels(parts []*part) []*violation {
	for _, p := range parts {
		for _, r := range p.ranks {
			labels, calls := p.labelsOf(r)
			if len(labels) < 2 {
				continue
			}
			tokens := c.tokensFor(r, parts, len(labels))
			for i, l := range labels[:min(len(labels), len(tokens))] {
				other := slices.IndexFunc(tokens, func(a *array) bool { return l.continues(a) })
				if other < 0 || l.continues(tokens[i]) {
					continue
				}
				return []*violation{{kind: "shard", call: calls[i], ranks: []int{r}, target: "input[1]",
					reason: fmt.Sprintf("its labels continue the tokens of microbatch %d, and it is the loss of microbatch %d",
						other+1, i+1)}}
			}
		}
	}
	return nil
}

// labelsOf are the labels of the losses of a rank, in order.
func (p *part) labelsOf(rank int) (labels []*array, calls []*step.Call) {
	for _, s := range p.sites {
		call := s.calls[rank]
		if call == nil || !isLoss(s.op) || call.Entry.BackwardOrder < 0 {
			continue
		}
		if d, err := p.checker.load(call); err == nil && len(d.ins) > 1 && !d.ins[1].array.dtype.IsFloat() {
			labels, calls = append(labels, d.ins[1].array), append(calls, call)
		}
	}
	return labels, calls
}

// tokensFor are n lots of tokens that the first stage of a pipeline looks up in one table for a rank of another stage,
// in order; nil if it does not.
func (c *checker) tokensFor(rank int, parts []*part, n int) []*array {
	byRank := c.byRank()
	first := rank
	for range byRank { // as many stages there can be
		from := slices.DeleteFunc(c.receivers(byRank[first]), func(r int) bool { return r >= 0 || byRank[-1-r] == nil })
		if len(from) == 0 {
			break
		}
		first = -1 - from[0]
	}
	for _, p := range parts {
		if first == rank || !slices.Contains(p.ranks, first) || slices.Contains(p.ranks, rank) {
			continue
		}
		tables := map[string][]*array{}
		var names []string
		for _, s := range p.sites {
			call := s.calls[first]
			if call == nil || method(s.op) != "embedding" || call.Entry.BackwardOrder < 0 {
				continue
			}
			if d, err := p.checker.load(call); err == nil && len(d.ins) > 1 && len(d.ins[0].array.shape) > 1 {
				name := d.ins[1].name
				tables[name], names = append(tables[name], d.ins[0].array), append(names, name)
			}
		}
		for _, name := range names {
			if all := tables[name]; len(all) == n && !all[0].near(all[n-1], 0) {
				return all
			}
		}
	}
	return nil
}
