package step

import "testing"

// TestLossScale: a third of a loss scale, as of a loss that is divided by the number of microbatches, is rounded.
func TestLossScale(t *testing.T) {
	for _, tc := range []struct {
		scale   float64
		batches int
		want    float64
	}{{1365.3333740234375, 3, 4096}, {1024, 1, 1024}, {1000, 1, 1}, {0.5, 1, 1}} {
		if got := (&Step{Scale: tc.scale, batches: tc.batches}).LossScale(); got != tc.want {
			t.Errorf("%g of %d: %g, want %g", tc.scale, tc.batches, got, tc.want)
		}
	}
}

// TestPacks: a call that writes a buffer with room for all that it reads packs it; one that writes less does not.
func TestPacks(t *testing.T) {
	for room, want := range map[int]bool{7: true, 8: true, 6: false} {
		a, b := &Value{Shape: []int{4}}, &Value{Shape: []int{3}}
		buffer := &Value{Shape: []int{room}}
		buffer.after = &fingerprint{}
		c := &Call{Inputs: []*Value{a, b, buffer}}
		if got := c.packs(a); got != want {
			t.Errorf("a buffer of %d: %t", room, got)
		}
	}
}
