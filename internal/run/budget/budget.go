// Package budget decides which calls of a run that has no time for all of them are looked at
// first: those that tell most.
package budget

import (
	"cmp"
	"slices"
	"sync"

	"github.com/optool/optool/internal/run/shard"
)

// A Call is one recorded call.
type Call struct {
	Name string // within the run
	Op   string
	// Kind is what calls that do the same work have in common: operator, dtypes and shapes.
	Kind string
	Cost shard.Cost
	Done bool // it was looked at before
}

// An Agenda hands out calls. First comes the first call of each kind, the cheapest first, so
// that as many kinds as possible are seen at all. Then all kinds in turn have another call
// looked at, the dearest first: those of kinds that are rare come to their end soon, and
// those of each kind are taken in an order that has nothing to do with theirs, so that they
// stand for the others. When a call of an operator fails, a few more of that operator come
// before all else. Its methods may be called from several goroutines.
type Agenda struct {
	calls []Call
	order []int

	mu       sync.Mutex
	at       int            // in order
	taken    []bool         // by index of the call
	ahead    []int          // calls that come before all else
	failures map[string]int // calls that failed, by operator
}

// suspects is how many calls of an operator that failed come before all else.
const suspects = 8

// New is the agenda of calls, which are in order of execution.
func New(calls []Call) *Agenda {
	a := &Agenda{calls: calls, order: make([]int, len(calls)), taken: make([]bool, len(calls)),
		failures: map[string]int{}}
	kinds, hashes := map[string][]int{}, make([]uint64, len(calls))
	for i, c := range calls {
		a.order[i], a.taken[i], hashes[i] = i, c.Done, shard.Hash(c.Name)
		kinds[c.Kind] = append(kinds[c.Kind], i)
	}
	round := make([]int, len(calls)) // how many of its kind come before
	for _, of := range kinds {
		slices.SortFunc(of[1:], func(i, j int) int {
			return cmp.Or(cmp.Compare(hashes[i], hashes[j]), cmp.Compare(i, j))
		})
		for n, i := range of {
			round[i] = n
		}
	}
	slices.SortFunc(a.order, func(i, j int) int {
		cost := cmp.Compare(calls[j].Cost, calls[i].Cost)
		if round[i] == 0 {
			cost = -cost
		}
		return cmp.Or(cmp.Compare(round[i], round[j]), cost, cmp.Compare(i, j))
	})
	return a
}

// Next is the index of the call to be looked at next; ok is false when there is none left.
func (a *Agenda) Next() (i int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.ahead) > 0 {
		i, a.ahead = a.ahead[0], a.ahead[1:]
		if a.take(i) {
			return i, true
		}
	}
	for ; a.at < len(a.order); a.at++ {
		if i = a.order[a.at]; a.take(i) {
			return i, true
		}
	}
	return 0, false
}

func (a *Agenda) take(i int) bool {
	was := a.taken[i]
	a.taken[i] = true
	return !was
}

// Failed notes that a call of an operator failed.
func (a *Agenda) Failed(op string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures[op]++; a.failures[op] > 1 {
		return
	}
	n := 0
	for _, i := range a.order[a.at:] {
		if a.calls[i].Op == op && !a.taken[i] && n < suspects {
			a.ahead = append(a.ahead, i)
			n++
		}
	}
}
