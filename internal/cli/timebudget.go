package cli

import (
	"cmp"
	"slices"
	"time"
)

// A budget shares the time of --budget among what is to be measured. A nil one
// is without end.
type budget struct {
	end    time.Time
	equals int // the first visits, which share the time that is left equally; the others get what is left
}

// newBudget orders tasks for a budget: the heaviest of each op and dtype, then
// all others, by the bytes of their calls. What comes first shares the time, so
// that each op and dtype is covered; with rounds over all tasks that is
// everything, in each round.
func newBudget(end time.Time, tasks []*task, rounds int) (*budget, []*task) {
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, func(a, b *task) int { return cmp.Compare(b.bytes, a.bytes) })
	var first, rest []*task
	seen := map[string]bool{}
	for _, k := range sorted {
		if kind := k.op + " " + k.dtype; !seen[kind] {
			seen[kind] = true
			first = append(first, k)
		} else {
			rest = append(rest, k)
		}
	}
	b := &budget{end: end, equals: len(first)}
	if rounds > 0 {
		b.equals = rounds * len(tasks)
	}
	return b, append(first, rest...)
}

// allow returns how long visit i (from 0) may take, 0 for no limit, and false if
// the time is spent.
func (b *budget) allow(i int) (time.Duration, bool) {
	if b == nil {
		return 0, true
	}
	left := time.Until(b.end)
	return left / time.Duration(max(1, b.equals-i)), left > 0
}
