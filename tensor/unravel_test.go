package tensor

import (
	"slices"
	"testing"
)

// TestUnravel: the indices of all elements come in row-major order.
func TestUnravel(t *testing.T) {
	want := []int{0, 0, 0}
	shape := []int{2, 3, 4}
	for i := range Numel(shape) {
		if got := Unravel(i, shape); !slices.Equal(got, want) {
			t.Fatalf("element %d is at %v, want %v", i, got, want)
		}
		for d := len(shape) - 1; d >= 0; d-- {
			if want[d]++; want[d] < shape[d] {
				break
			}
			want[d] = 0
		}
	}
	if got := Unravel(0, nil); len(got) != 0 {
		t.Errorf("a scalar is at %v", got)
	}
}
