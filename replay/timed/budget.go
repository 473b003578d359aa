package timed

import (
	"cmp"
	"slices"
	"time"
)

// A Budget shares time among what is to be measured. A nil one is without end.
type Budget struct {
	end    time.Time
	equals int // the first visits, which share the time that is left equally; the others get what is left
}

// NewBudget orders tasks for the time until end: the heaviest of each op and dtype, then
// all others, by the bytes of their calls. What comes first shares the time, so
// that each op and dtype is covered; with rounds over all tasks that is
// everything, in each round.
func NewBudget(end time.Time, tasks []*Task, rounds int) (*Budget, []*Task) {
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, func(a, b *Task) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var first, rest []*Task
	seen := map[string]bool{}
	for _, k := range sorted {
		if kind := k.Op + " " + k.DType; !seen[kind] {
			seen[kind] = true
			first = append(first, k)
		} else {
			rest = append(rest, k)
		}
	}
	b := &Budget{end: end, equals: len(first)}
	if rounds > 0 {
		b.equals = rounds * len(tasks)
	}
	return b, append(first, rest...)
}

// allow returns how long visit i (from 0) may take, 0 for no limit, and false if
// the time is spent.
func (b *Budget) allow(i int) (time.Duration, bool) {
	if b == nil {
		return 0, true
	}
	left := time.Until(b.end)
	return left / time.Duration(max(1, b.equals-i)), left > 0
}
