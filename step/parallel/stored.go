package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// What a program keeps from step to step beside its parameters, such as a queue of older keys, is alike on all ranks if
// they begin with the same. What they write there must then be the same, too.

// A stored is an argument without a gradient that no recorded call made, and that a call of a step reads: its place
// among the calls of one operator and line, and where it lies on each rank.
type stored struct {
	key     string
	site    *site
	number  int
	address map[int]uint64
}

// storeds are the values of a step that all ranks have alike, if alike, or of which some have others. Calls that write
// them by themselves, as batch normalizations do their statistics, do not count.
func (p *part) storeds(alike bool) (out []stored) {
	seen := map[string]int{}
	for _, s := range p.sites {
		line := s.op + "|" + s.first(p.ranks).Entry.Location
		k := fmt.Sprint(line, "|", seen[line])
		seen[line]++
		lead := s.calls[p.ranks[0]]
		if lead == nil || len(s.in) != len(lead.Inputs) || len(p.owners(s)) < len(p.ranks) {
			continue
		}
		var sides map[int]*side
		for i, v := range lead.Inputs {
			if v.RequiresGrad || v.Parameter || !v.DType.IsFloat() || v.Address == 0 || p.madeInStep(v) {
				continue
			}
			if sides == nil {
				if sides = p.read(s); sides == nil {
					break
				}
			}
			a := sides[p.ranks[0]].ins[i].array
			if a.constant() || len(a.x) < 4 || sides[p.ranks[0]].after[i] != nil || p.same(sides, i) != alike {
				continue
			}
			o := stored{fmt.Sprint(k, "|", i), s, i, map[int]uint64{}}
			for _, r := range p.ranks {
				o.address[r] = sides[r].ins[i].address
			}
			out = append(out, o)
		}
	}
	return out
}

// madeInStep reports whether a call of the step that reads a value made it.
func (p *part) madeInStep(v *step.Value) bool {
	from := v.From.Value
	return from != nil && p.checker.numbers[from.Call] == p.checker.numbers[v.Call]
}

// storedApart finds what all ranks have alike in one step and not in the next, because each wrote what it has itself.
func (p *part) storedApart(before []stored) {
	if len(p.broken) > 0 || len(before) == 0 || p.movedApart() {
		return
	}
	for _, now := range p.storeds(false) {
		at := slices.IndexFunc(before, func(o stored) bool { return o.key == now.key })
		if at < 0 || !p.reachesGradients(now.site) {
			continue
		}
		var wrote *step.Call
		if slices.ContainsFunc(p.ranks, func(r int) bool {
			if before[at].address[r] != now.address[r] {
				return true
			}
			call := writer(before[at].site.calls[r], now.site.calls[r], now.address[r])
			if wrote == nil {
				wrote = call
			}
			return call == nil
		}) {
			continue
		}
		p.found(true, &violation{kind: "replica", call: wrote, site: now.site, ranks: p.ranks, target: "input[0]",
			reason: fmt.Sprintf("ranks %s have the same there in the step before, and not when %s reads it in the next: "+
				"each writes what it has itself, which lacks an all_gather or another exchange", rankList(p.ranks),
				now.site.first(p.ranks))})
		return
	}
}

// writer is the last call between two of a process that writes in place where a value lies; nil if none was recorded.
func writer(from, to *step.Call, address uint64) (last *step.Call) {
	if from.Process != to.Process {
		return nil
	}
	for _, c := range from.Process.Calls[from.Order:to.Order] {
		if len(c.Inputs) > 0 && c.Inputs[0].Address == address &&
			(strings.HasSuffix(c.Op, "_") || method(c.Op) == "setitem") {
			last = c
		}
	}
	return last
}

// reachesGradients reports whether a call that the backward pass reaches reads what a call made, or makes it itself.
func (p *part) reachesGradients(s *site) bool {
	call := s.first(p.ranks)
	return call.HasBackward() || slices.ContainsFunc(call.Process.Calls[call.Order:], func(c *step.Call) bool {
		return c.HasBackward() && c.Step == call.Step && slices.ContainsFunc(c.Inputs, func(v *step.Value) bool {
			return madeOf(v, call, map[*step.Call]bool{})
		})
	})
}
