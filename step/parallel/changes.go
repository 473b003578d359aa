package parallel

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/capture/collective"
)

// changes checks what ranks that train by themselves add up: what the update of each changed of a parameter. The sum is
// divided by the number of ranks, if by a whole number at all.
func (p *part) changes(tails map[int]*tail) {
	if len(p.broken) > 0 || !p.averaged() {
		return
	}
	for _, s := range p.tail {
		if collective.Name(s.op) == "all_reduce" {
			p.givenChanges(s, tails)
		} else if multiplies(s.op) {
			p.dividedChanges(s, tails)
		}
		if len(p.broken) > 0 {
			return
		}
	}
}

// change is what the update of a rank changed of a parameter; nil if it is not known.
func (p *part) change(name string, rank int, tails map[int]*tail) *array {
	g := p.grads[name]
	for _, u := range tails[rank].updates[g.names[rank]] {
		if u.gradient != nil && u.result != nil && slices.Equal(u.result.shape, g.value[rank].shape) {
			return u.result.plus(g.value[rank].times(-1))
		}
	}
	return nil
}

// isChange reports whether an array is a change, or its opposite.
func isChange(a, change *array) bool {
	tolerance := 4 * a.dtype.Eps()
	return !change.zero() && (a.near(change, tolerance) || a.near(change.times(-1), tolerance))
}

// givenChanges finds an exchange to which some ranks give what their updates changed, and others something else.
func (p *part) givenChanges(s *site, tails map[int]*tail) {
	sides := p.read(s)
	if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
		return
	}
	for _, name := range p.order {
		var with, without []int
		for _, r := range p.ranks {
			a, c := sides[r].ins[0].array, p.change(name, r, tails)
			switch {
			case c == nil || !slices.Equal(a.shape, c.shape) || c.zero():
			case isChange(a, c):
				with = append(with, r)
			default:
				without = append(without, r)
			}
		}
		if len(with)+len(without) < len(p.ranks) || len(with) == 0 || len(without) == 0 || len(without) > len(with) {
			continue
		}
		p.found(true, &violation{kind: "collective", site: s, call: s.calls[without[0]], ranks: without, target: "input[0]",
			reason: fmt.Sprintf("it adds up what the updates of %s changed of %s, and something else of %s, though the "+
				"updates there changed it, too", ranksText(with), name, ranksText(without))})
		return
	}
}

// dividedChanges finds a sum of all ranks' changes that is divided by another whole number than that of the ranks.
func (p *part) dividedChanges(s *site, tails map[int]*tail) {
	call := s.calls[p.ranks[0]]
	if call == nil {
		return
	}
	d, err := p.checker.load(call)
	if err != nil || len(d.ins) == 0 {
		return
	}
	n, ok := d.operand()
	if m := method(s.op); ok && (m == "mul" || m == "multiply") {
		n = 1 / n
	}
	if !ok || n < 1.5 || math.Abs(n-math.Round(n)) > 1e-6 || math.Round(n) == float64(len(p.ranks)) {
		return
	}
	for _, name := range p.order {
		var all *array
		for _, r := range p.ranks {
			c := p.change(name, r, tails)
			if c == nil || !slices.Equal(c.shape, d.ins[0].array.shape) {
				all = nil
				break
			}
			if all == nil {
				all = c
			} else {
				all = all.plus(c)
			}
		}
		if all == nil || len(all.x) < 4 || !isChange(d.ins[0].array, all) {
			continue
		}
		p.found(true, &violation{kind: "scale", site: s, ranks: p.ranks, target: "output[0]",
			reason: fmt.Sprintf("it divides what the updates of %s changed of %s, added up, by %g: there are %d ranks",
				ranksText(p.ranks), name, n, len(p.ranks))})
		return
	}
}
