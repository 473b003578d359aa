package capture

import (
	"maps"
	"testing"
)

// TestWithinBackward: a call belongs to the backward pass that began last of those that have given no gradient yet.
func TestWithinBackward(t *testing.T) {
	calls := []*hookCall{
		{id: 1, order: 0, backward: 5, gradient: 9},   // a function of the program
		{id: 2, order: 1, backward: 6, gradient: 9},   // another one inside
		{id: 3, order: 2, backward: 4, gradient: 5},   // gave its gradient at once
		{id: 4, order: 3, backward: -1},               // has no gradients
		{id: 5, order: 7, backward: -1},               // made in the backward pass
		{id: 6, order: 8, backward: -1},               //
		{id: 7, order: 9, backward: -1},               // behind it
		{id: 8, order: 10, backward: 11, gradient: 0}, // gave no gradient
		{id: 9, order: 12, backward: -1},
	}
	want := map[*hookCall]int{calls[4]: 2, calls[5]: 2}
	if got := withinBackward(calls); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
