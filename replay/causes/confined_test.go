package causes

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestPlaceOfAllowed: elements that are off by no more than they may be are not at the place of the errors.
func TestPlaceOfAllowed(t *testing.T) {
	want := tensor.Full(tensor.BFloat16, []int{8, 16}, 1.0)
	v := elements(want)
	for i := range v {
		if v[i] *= 1.0625; i%16 >= 12 { // 8 units
			v[i] = 0.5
		}
	}
	got := tensor.New(tensor.BFloat16, want.Shape, v)
	if p := placeOf(got, want, nil); p != nil {
		t.Errorf("all elements are off by more than rounding: got %s", p)
	}
	p := placeOf(got, want, func(int) float64 { return 0.1 })
	if p == nil || p.String() != "at indices 12 to 15 of dimension 1" {
		t.Errorf("got %v", p)
	}
}
