package parallel

import (
	"fmt"
	"slices"
)

// Ranks share out samples by taking parts of one order of them: each its stride of a permutation, say. That works if
// all have the same order. If each has drawn its own, some samples are taken by several ranks and others by none.

// sampled finds ranks that take the parts of different orders of the same numbers or rows.
func (p *part) sampled() {
	for _, s := range p.sites {
		if len(p.broken) > 0 {
			return
		}
		if !cutting[method(s.op)] || len(s.first(p.ranks).Inputs) != 1 {
			continue
		}
		sides := p.read(s)
		if sides == nil || len(sides[p.ranks[0]].ins) != 1 || len(sides[p.ranks[0]].outs) != 1 ||
			p.same(sides, 0) {
			continue
		}
		for _, d := range p.dims {
			for _, g := range d.groups {
				p.ordersOf(s, sides, g)
			}
		}
	}
}

// ordersOf checks what the ranks of a group take of the orders that they have.
func (p *part) ordersOf(s *site, sides map[int]*side, group []int) {
	const few = 8 // in an order
	var orders [][]uint64
	taken, places := map[uint64]int{}, map[int]bool{}
	for _, r := range group {
		all, own := sides[r].ins[0].array, sides[r].outs[0]
		row := 1
		if len(all.shape) > 1 {
			row = len(all.x) / max(all.shape[0], 1)
		}
		order, at := all.rowSums(row), map[uint64]int{}
		for i, v := range order {
			at[v] = i
		}
		part := own.rowSums(row)
		if len(order) < few || len(at) < len(order) || len(part) < 2 {
			return // or some are there twice
		}
		for _, v := range part {
			i, there := at[v]
			if !there || places[i] {
				return
			}
			places[i] = true
			taken[v]++
		}
		orders = append(orders, order)
	}
	same := slices.Sorted(slices.Values(orders[0]))
	if slices.ContainsFunc(orders, func(o []uint64) bool {
		return !slices.Equal(slices.Sorted(slices.Values(o)), same)
	}) {
		return
	}
	again := 0
	for _, n := range taken {
		if n > 1 {
			again++
		}
	}
	if again == 0 {
		return
	}
	why := ""
	if from := s.calls[group[0]].Inputs[0].From.Value; from != nil && from.Call.Draws() {
		why = fmt.Sprintf(", which %s drew with a random state of each rank's own", from.Call)
	}
	text := fmt.Sprintf("each of %s takes other places of an order of %d samples, and has them in an order of its own%s: "+
		"%d of them are taken by several ranks, and %d of those in the order by none", ranksText(group), len(same), why,
		again, len(same)-len(taken))
	p.found(true, &violation{kind: "shard", site: s, ranks: group, target: "input[0]", reason: text})
}

// rowSums identify the rows of an array, of a number of elements each; nil if it has no whole number of them.
func (a *array) rowSums(size int) (out []uint64) {
	if size < 1 || len(a.x)%size != 0 {
		return nil
	}
	for at := 0; at < len(a.x); at += size {
		out = append(out, (&array{x: a.x[at : at+size]}).sum())
	}
	return out
}
