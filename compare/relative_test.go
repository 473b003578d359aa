package compare

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestRelativeError gives errors of known size.
func TestRelativeError(t *testing.T) {
	ref := []float64{1, -8, 0.5, 0}
	for _, tc := range []struct {
		name string
		dt   tensor.DType
		got  []float64
		ref  []float64
		want float64
	}{
		{"an eighth of the largest", tensor.Float32, []float64{1, -8, 1.5, 0}, ref, 0.125},
		{"the largest error", tensor.BFloat16, []float64{1, -4, 1.5, 0}, ref, 0.5},
		{"not where all pass", tensor.Float32, ref, ref, 0},
		{"infinite on one side", tensor.Float32, []float64{math.Inf(1), -8, 0.5, 0}, ref, 0},
		{"NaN on one side", tensor.Float32, []float64{math.NaN(), -8, 1.5, 0}, ref, 0},
		{"infinite on both sides", tensor.Float32, []float64{math.Inf(1), 2}, []float64{math.Inf(1), 4}, 0.5},
		{"NaN on both sides", tensor.Float32, []float64{math.NaN(), 2}, []float64{math.NaN(), 4}, 0.5},
		{"reference zero", tensor.Float32, []float64{1, 0}, []float64{0, 0}, 0},
		{"integers", tensor.Int64, []float64{1, 2}, []float64{1, 4}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shape := []int{len(tc.got)}
			got := tensor.New(tensor.Float64, shape, tc.got)
			if tc.dt == tensor.Int64 {
				got = tensor.New(tc.dt, shape, []int64{1, 2})
			}
			if tc.dt.IsFloat() {
				got = tensor.New(tc.dt, shape, tc.got).Rounded()
			}
			r := Check(got, tensor.New(tensor.Float64, shape, tc.ref), Model{ULPs: 1}, DefaultTolerance(tc.dt), nil)
			if r.RelativeError != tc.want {
				t.Errorf("got %g, want %g: %s %s", r.RelativeError, tc.want, r.Verdict, r.Reason)
			}
		})
	}
}
