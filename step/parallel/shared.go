package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// Ranks that share out the data of a program have each their own. Where some of them read the same, and others do not,
// some data count twice.

// readTwice finds ranks of a group that read the same data and have the same losses, where another has its own. Data
// of which each rank has its own, as what it samples for the same question, say that it is meant so.
func (p *part) readTwice() {
	const few = 3 // ranks of a group
	if len(p.broken) > 0 || len(p.losses()) == 0 {
		return
	}
	for _, d := range p.dims {
		for _, g := range d.groups {
			if len(g) < few {
				continue
			}
			first, number, classes := p.sharedData(g)
			if first == nil || slices.ContainsFunc(p.losses(), func(s *site) bool {
				sides := p.read(s)
				return sides == nil || len(sides[g[0]].outs) == 0 || !slices.Equal(classes,
					classesOf(g, func(r int) *array { return sides[r].outs[0] }))
			}) {
				continue
			}
			for k := range g {
				var same []int
				for i, r := range g {
					if classes[i] == k {
						same = append(same, r)
					}
				}
				if len(same) < 2 {
					continue
				}
				p.found(true, &violation{kind: "shard", site: first, ranks: same,
					target: fmt.Sprintf("input[%d]", number), reason: fmt.Sprintf("%s read the same data, of all that the step reads, and the others of %s have their "+
						"own: what is the same counts twice, and another part of the data is missing", ranksText(same),
						ranksText(g))})
				return
			}
		}
	}
}

// readAlike finds ranks that all read the same data, have the same losses, and only add up the gradients of parameters
// that they have in whole: what they compute is the same, so that all but one could do without.
func (p *part) readAlike() {
	if len(p.broken) > 0 || len(p.losses()) == 0 {
		return
	}
	for m, d := range p.dims {
		if !p.sharesLoss(m) || !p.onlyGradients(m) {
			continue
		}
		for _, s := range p.sites {
			sides := p.read(s)
			if sides == nil || isExchange(s.op) || !s.first(p.ranks).HasBackward() {
				continue
			}
			number := slices.IndexFunc(sides[p.ranks[0]].ins, func(a argument) bool {
				return a.name == "" && !a.tensor.Parameter && !a.tensor.RequiresGrad && !a.array.constant()
			})
			if number < 0 {
				continue
			}
			g := d.groups[0]
			p.found(true, &violation{kind: "shard", site: s, ranks: g, target: fmt.Sprintf("input[%d]", number),
				reason: fmt.Sprintf("%s read the same data, have the same losses, and add up the gradients of all parameters: "+
					"what each computes is the same, and its own part of the data is missing", ranksText(g))})
			return
		}
	}
}

// onlyGradients reports whether the ranks along a dimension of the mesh have nothing in parts but gradients, and add
// these up: no value of the forward pass, and no parameter that they do not gather first.
func (p *part) onlyGradients(m int) bool {
	along := func(c *step.Call) bool {
		return slices.ContainsFunc(p.dims[m].groups, func(g []int) bool { return slices.Equal(c.Entry.Group, g) })
	}
	for _, s := range p.sites {
		call := s.first(p.ranks)
		sides := p.read(s)
		if sides == nil || !call.HasBackward() {
			continue
		}
		lead := sides[p.ranks[0]]
		if lead.rec.Placed != "" || slices.ContainsFunc(append(p.checker.inside[call], call), func(c *step.Call) bool {
			return isExchange(c.Op) && (along(c) || len(c.Entry.Group) == 0) &&
				!slices.ContainsFunc(lead.ins, func(a argument) bool { return a.name != "" })
		}) || slices.ContainsFunc(s.out, func(n *info) bool {
			return n != nil && n.places != nil && n.places[m].kind != replicated
		}) {
			return false
		}
	}
	return slices.ContainsFunc(slices.Concat(p.sites, p.tail), func(s *site) bool {
		call := s.first(p.ranks)
		reduces := strings.Contains(collective.Name(s.op), "reduce") && len(call.Inputs) > 0 && along(call)
		return wrapped(call) || reduces && call.Inputs[0].Numel() > 1
	})
}

// isData reports whether an argument of a call is data that no call made.
func (p *part) isData(sides map[int]*side, group []int, i int) bool {
	const few = 8 // elements
	a := sides[group[0]].ins[i]
	return a.name == "" && !a.tensor.Parameter && !a.tensor.RequiresGrad && len(a.array.x) >= few &&
		!slices.ContainsFunc(group, func(r int) bool {
			ins := sides[r].call.Inputs
			return i >= len(ins) || ins[i].From.Value != nil || sides[r].ins[i].array.constant()
		})
}

// sharedData is the first call that reads data in which the ranks of a group differ, the number of the argument, and
// which ranks have the same of it: the same ranks of all such data; nil if all ranks have their own of some.
func (p *part) sharedData(group []int) (first *site, number int, classes []int) {
	for _, s := range p.sites {
		sides := p.read(s)
		if sides == nil || isExchange(s.op) || !s.first(p.ranks).HasBackward() {
			continue
		}
		for i := range sides[group[0]].ins {
			if !p.isData(sides, group, i) {
				continue
			}
			own := classesOf(group, func(r int) *array { return sides[r].ins[i].array })
			switch {
			case !slices.ContainsFunc(own, func(k int) bool { return k != 0 }): // all have it
			case first == nil:
				first, number, classes = s, i, own
			case !slices.Equal(own, classes):
				return nil, 0, nil
			}
		}
	}
	if first != nil && len(slices.Compact(slices.Sorted(slices.Values(classes)))) == len(group) {
		return nil, 0, nil
	}
	return first, number, classes
}

// classesOf says of each rank of a group which is the first of it, by its place, that has the same elements.
func classesOf(group []int, of func(int) *array) []int {
	out := make([]int, len(group))
	for i, r := range group {
		out[i] = slices.IndexFunc(group, func(q int) bool { return slices.Equal(of(q).x, of(r).x) })
	}
	return out
}
