package collective

import (
	"maps"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/pthformat"
)

// Steps gives the step of the program that a call belongs to. A recorder counts the steps of the optimizers of its own
// rank: where only some ranks update parameters, or one after another, the ranks count differently. Then the count of
// the rank with the most steps is that of all: what another rank does between two collectives belongs to the step that
// this rank made them in.
func Steps(ranks map[int][]*capture.Entry, read pthformat.ReadMode) func(*capture.Entry) int {
	recorded := func(e *capture.Entry) int { return e.Step }
	groups := grouped(ranks, wholeKey)
	if !countApart(groups) {
		return recorded
	}
	clock, most := -1, 0
	differ, unended := false, false
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		own := map[int]bool{}
		for _, e := range ranks[r] {
			own[e.Step] = true
		}
		differ = differ || most > 0 && len(own) != most
		unended = unended || cut(ranks[r])
		if len(own) > most {
			clock, most = r, len(own)
		}
	}
	// A rank that lacks a collective counts as the others do, or has no end.
	if (!differ || unended) && !alike(groups, ranks, read) {
		return recorded
	}
	steps := map[*capture.Entry]int{}
	counted := map[int]bool{clock: true}
	of := func(e *capture.Entry) int {
		if n, ok := steps[e]; ok {
			return n
		}
		return e.Step
	}
	for more := true; more; {
		more = false
		for _, r := range slices.Sorted(maps.Keys(ranks)) {
			if counted[r] {
				continue
			}
			if at := meetings(groups, r, counted, of); len(at) > 0 {
				between(ranks[r], at, steps)
				counted[r], more = true, true
			}
		}
	}
	return of
}

// countApart reports whether ranks make the same collective of a group, by its number, in steps of other numbers.
func countApart(groups map[string]map[int][]*capture.Entry) bool {
	for _, byRank := range groups {
		var first []*capture.Entry
		for _, list := range byRank {
			for i := range min(len(first), len(list)) {
				if first[i].Step != list[i].Step {
					return true
				}
			}
			if len(list) > len(first) {
				first = list
			}
		}
	}
	return false
}

// alike reports whether all ranks make the same collectives in one order, whatever the steps.
func alike(groups map[string]map[int][]*capture.Entry, ranks map[int][]*capture.Entry, read pthformat.ReadMode) bool {
	for _, byRank := range groups {
		if _, departs := departure(byRank, ranks, read); departs {
			return false
		}
	}
	return true
}

// meetings are the collectives that a rank makes with one whose steps are known, with these.
func meetings(groups map[string]map[int][]*capture.Entry, rank int, counted map[int]bool,
	of func(*capture.Entry) int) map[*capture.Entry]int {
	at := map[*capture.Entry]int{}
	for _, byRank := range groups {
		for _, r := range slices.Sorted(maps.Keys(byRank)) {
			if !counted[r] {
				continue
			}
			for i, e := range byRank[rank] {
				if i >= len(byRank[r]) || byRank[r][i].Op != e.Op {
					break
				}
				at[e] = of(byRank[r][i])
			}
			break
		}
	}
	return at
}

// between gives the calls of a rank the steps of the collectives at which it meets others: those behind one belong to
// its step, up to the next forward pass or the next such collective.
func between(calls []*capture.Entry, at, steps map[*capture.Entry]int) {
	next, known := make([]int, len(calls)), false
	for i, step := len(calls)-1, 0; i >= 0; i-- {
		if n, ok := at[calls[i]]; ok {
			step, known = n, true
		}
		if next[i] = step; !known {
			next[i] = -1
		}
	}
	step, passed := next[0], -1 // where the last backward pass ended
	for i, e := range calls {
		n, meets := at[e]
		if step >= 0 && meets {
			step = max(step, n)
		} else if e.BackwardOrder >= 0 && passed >= 0 && e.Order > passed {
			step = max(step, next[i])
		}
		passed = max(passed, e.BackwardOrder)
		if step >= 0 {
			steps[e] = step
		}
	}
}
