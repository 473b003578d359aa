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

// TestRunWithGaps: zeros at the end of a value are a run, though some elements that are due there are so small that
// they are not wrong.
func TestRunWithGaps(t *testing.T) {
	want := elements(rows(41, 12, 72))
	got := append([]float64(nil), want...)
	for i := 800; i < len(want); i++ {
		if got[i] = 0; i%7 == 0 || i%5 == 0 {
			want[i] = 1e-6
		}
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{12, 72}, v).Rounded() }
	if p := placeOf(of(got), of(want), nil); p == nil || p.indices != nil || p.to != 864 {
		t.Errorf("%+v", p)
	}
}

// TestEvidenceAtPlace: errors that rows have in common say nothing against zeros in a tail, which does not change them.
func TestEvidenceAtPlace(t *testing.T) {
	due := elements(rows(42, 8, 70))
	got, made := append([]float64(nil), due...), append([]float64(nil), due...)
	for i := range due {
		if got[i] += float64(i/70+2) * 1e-5; i%70 >= 64 {
			got[i], made[i] = 0, 0
		}
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{8, 70}, v).Rounded() }
	if bits := Evidence(of(got), of(due), of(made)); bits < 50 {
		t.Errorf("%v bits", bits)
	}
}
