package parallel

import (
	"fmt"
	"slices"
)

// strangers finds a loss of which a rank compares its results with labels that continue the tokens of another rank. A
// language model's labels are its tokens, one place on; nothing tells where labels are something else.
func (p *part) strangers() {
	tokens := map[int][]*array{} // that each rank looks up
	for _, s := range p.sites {
		looks := method(s.op) == "embedding"
		if !looks && !isLoss(s.op) || len(p.broken) > 0 {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		for i, a := range sides[p.ranks[0]].ins {
			switch {
			case a.array.dtype.IsFloat():
			case looks:
				for _, r := range p.ranks {
					tokens[r] = append(tokens[r], sides[r].ins[i].array)
				}
			case i > 0:
				labels := p.column(sides, func(d *side) *array { return d.ins[i].array })
				p.countLabels(s, sides, i)
				p.compareLabels(s, labels, tokens, i)
				p.shiftedInside(s, labels, tokens, i)
			}
		}
	}
}

// countLabels finds labels that count the rows of each rank from 0 on, of scores against rows that all ranks joined:
// they name the rows of the first rank on every rank.
func (p *part) countLabels(s *site, sides map[int]*side, i int) {
	lead := sides[p.ranks[0]]
	scores, labels := lead.ins[0].array, lead.ins[i].array
	n := len(labels.x)
	if len(p.dims) != 1 || n < 2 || len(scores.shape) != 2 || scores.shape[0] != n ||
		scores.shape[1] != n*len(p.ranks) || !p.same(sides, i) || p.same(sides, 0) || labels.x[0] != 0 ||
		!counts(labels.x) || len(p.broken) > 0 || !p.joinsRows(s, n) {
		return
	}
	p.found(true, &violation{kind: "shard", site: s, ranks: p.ranks, target: fmt.Sprintf("input[%d]", i),
		reason: fmt.Sprintf("the labels of all ranks are 0 to %d, and each rank compares its own %d rows with those "+
			"that ranks %s joined: they name the rows of rank %d on every rank, and lack the number of the rank's first row",
			n-1, n, rankList(p.ranks), p.ranks[0])})
}

// joinsRows reports whether an exchange before a call joined n rows of each rank.
func (p *part) joinsRows(s *site, n int) bool {
	return slices.ContainsFunc(p.sites[:slices.Index(p.sites, s)], func(t *site) bool {
		if call := t.first(p.ranks); !isExchange(t.op) && len(p.checker.inside[call]) == 0 {
			return false
		}
		sides := p.read(t)
		if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
			return false
		}
		from := t.sends(sides[p.ranks[0]])
		x := p.column(sides, func(d *side) *array { return d.ins[from].array })
		first := x[p.ranks[0]]
		return len(first.shape) > 0 && first.shape[0] == n && slices.ContainsFunc(p.joined(sides, x),
			func(j joint) bool { return j.at.kind == sharded && j.at.dim == 0 })
	})
}

// compareLabels compares the labels of a loss with the tokens that the ranks look up.
func (p *part) compareLabels(s *site, labels map[int]*array, tokens map[int][]*array, i int) {
	for _, r := range p.ranks {
		from := func(q int) bool {
			return slices.ContainsFunc(tokens[q], func(a *array) bool { return labels[r].continues(a) })
		}
		if from(r) {
			continue
		}
		at := slices.IndexFunc(p.ranks, func(q int) bool { return q != r && from(q) })
		if at < 0 {
			continue
		}
		p.found(true, &violation{kind: "shard", site: s, call: s.calls[r], ranks: []int{r, p.ranks[at]},
			target: fmt.Sprintf("input[%d]", i), reason: fmt.Sprintf("the labels of rank %d continue the tokens of rank %d, "+
				"and not those that rank %d looks up: data and labels are of different shards", r, p.ranks[at], r)})
		return
	}
}

// continues reports whether labels are tokens, or the next ones in each row; negative labels do not count.
func (a *array) continues(tokens *array) bool {
	const few = 12 // equal ones that are no chance
	if len(tokens.shape) == 0 {
		return false
	}
	long := tokens.shape[len(tokens.shape)-1]
	for _, width := range []int{long, long - 1} {
		if width < 1 || len(a.x)*long != len(tokens.x)*width {
			continue
		}
		for ahead := range 2 {
			same, other := 0, false
			seen := map[float64]bool{}
			for i, v := range a.x {
				t := i%width + ahead
				if v < 0 || t >= long {
					continue
				}
				same, other = same+1, other || v != tokens.x[i/width*long+t]
				seen[v] = true
			}
			if !other && same >= few && len(seen) > 3 {
				return true
			}
		}
	}
	return false
}
