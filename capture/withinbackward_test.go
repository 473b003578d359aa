package capture

import (
	"maps"
	"slices"
	"testing"
)

// TestWithinBackward: a call belongs to the backward pass that began last of those that have given no gradient yet. One
// begins when the last gradient has arrived, and each later one does the same.
func TestWithinBackward(t *testing.T) {
	call := func(id, order int, parts ...int) *hookCall {
		c := &hookCall{id: id, order: order, backward: -1}
		for i := 0; i < len(parts); i += 2 {
			c.parted = append(c.parted, backwardPart{c, parts[i], parts[i+1]})
		}
		return c
	}
	calls := []*hookCall{
		call(1, 0, 6, 9),          // a function of the program
		call(2, 1, 7, 9, 12, 13),  // another one inside, which two backward passes reached
		call(3, 2, 5, 5),          // gave its gradient at once
		call(4, 3),                // has no gradients
		call(5, 7),                // made in the backward pass
		call(6, 8),                //
		call(7, 9),                // behind it
		call(8, 10, 12, 0),        // gave no gradient
		call(9, 12), call(10, 13), // made in the second pass, and behind it
	}
	want := map[*hookCall]int{calls[4]: 2, calls[5]: 2, calls[8]: 2}
	if got := withinBackward(calls); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNestedPass: a backward pass that asks for gradients within a function's own is none through the function, unless
// it alone gives the gradient of an argument, as where a checkpoint runs again what reads a parameter.
func TestNestedPass(t *testing.T) {
	c := &hookCall{backward: -1, passes: nil}
	position := 0
	for _, e := range []struct {
		event string
		pass  int64
		i     int
	}{
		{"grad_output", 4, 0}, {"grad_output", 4, 1},
		{"grad_input", 5, 0}, // autograd.grad
		{"grad_input", 6, 1}, // a checkpoint
		{"grad_input", 4, 0},
		{"grad_output", 7, 0}, {"grad_input", 8, 0}, {"grad_input", 7, 0}, // retain_graph
	} {
		position++ // a call between
		c.add(&hookEvent{Event: e.event, Pass: &e.pass, I: e.i}, span{}, &position)
	}
	if !slices.Equal(c.passes, []int64{6, 7}) || len(c.later) != 2 {
		t.Errorf("later passes %v at %v, want 6 and 7", c.passes, c.later)
	}
	if len(c.parted) != 2 || c.parted[0].from != 3 || c.parted[0].upTo != 6 || c.parted[1].upTo != 9 {
		t.Errorf("parts: %+v", c.parted)
	}
}
