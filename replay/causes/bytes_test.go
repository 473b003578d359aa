package causes

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestBytes: 1 and -2 of bfloat16 are read as float16, and written so; a whole number of 64 bits is two of 32.
func TestBytes(t *testing.T) {
	brain := tensor.New(tensor.BFloat16, []int{2}, []float64{1, -2}).Rounded()
	long := tensor.New(tensor.Int64, []int{3}, []int64{5, -1, 9}).Rounded()
	for _, tc := range []struct {
		t    *tensor.Tensor
		all  []transformation
		text string
		want []float64
	}{
		{brain, asOtherDTypes(brain), "the bytes of %s are read as those of float16", []float64{1.875, -2}},
		{brain, writtenAsOtherDTypes(brain), "%s is written in the bytes of float16", []float64{0.0078125, -2}},
		{long, asOtherDTypes(long), "the bytes of %s are read as those of int32", []float64{5, 0, -1}},
	} {
		if len(tc.all) != 1 || tc.all[0].text != tc.text {
			t.Errorf("%+v, want %q", tc.all, tc.text)
			continue
		}
		same64(t, tc.text, elements(tc.all[0].of(tc.t)), tc.want)
	}
}
