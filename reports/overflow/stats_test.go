package overflow

import (
	"errors"
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

func TestStats(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	long := make([]float64, 100_000)
	for i := range long {
		long[i] = 1e6 + float64(i%2)
	}
	for _, tc := range []struct {
		name string
		t    *tensor.Tensor
		want stats
	}{
		{"plain", tensor.New(tensor.Float64, []int{2, 2}, []float64{1, 2, 3, 4}), stats{4, 0, 0, 1, 4, 2.5,
			math.Sqrt(5.0 / 3), math.Sqrt(30)}},
		{"special", tensor.New(tensor.Float32, []int{5}, []float64{nan, inf, -inf, 3, 1}), stats{5, 1, 2, 1, 3, 2,
			math.Sqrt2, math.Sqrt(10)}},
		{"one", tensor.Scalar(tensor.Float32, 3.0), stats{1, 0, 0, 3, 3, 3, nan, 3}},
		{"empty", tensor.New(tensor.Float32, []int{0}, []float64{}), stats{0, 0, 0, nan, nan, nan, nan, 0}},
		{"only inf", tensor.New(tensor.Float32, []int{2}, []float64{inf, inf}), stats{2, 0, 2, nan, nan,
			nan, nan, 0}},
		{"integers", tensor.New(tensor.Int64, []int{3}, []int64{-1, 0, 1}), stats{3, 0, 0, -1, 1, 0, 1,
			math.Sqrt2}},
		{"complex", tensor.New(tensor.Complex64, []int{3}, []complex128{3 + 4i, complex(nan, 0), complex(0, inf)}),
			stats{3, 1, 1, nan, nan, nan, nan, 5}},
		{"large mean", tensor.New(tensor.Float64, []int{len(long)}, long), stats{len(long), 0, 0, 1e6, 1e6 + 1,
			1e6 + 0.5, 0.5 * math.Sqrt(1e5/(1e5-1)), math.Sqrt(5e4*1e12 + 5e4*(1e6+1)*(1e6+1))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := statsOf(tc.t)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b float64) bool {
				return a == b || a != a && b != b || math.Abs(a-b) <= 1e-12*math.Abs(b)
			}
			if got.numel != tc.want.numel || got.nan != tc.want.nan || got.inf != tc.want.inf ||
				!near(got.min, tc.want.min) || !near(got.max, tc.want.max) || !near(got.mean, tc.want.mean) ||
				!near(got.std, tc.want.std) || !near(got.norm, tc.want.norm) {
				t.Errorf("statsOf = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestStatsUnreadable(t *testing.T) {
	s := tensor.OpenStorage(8, func() ([]byte, error) { return nil, errors.New("gone") })
	x, err := tensor.NewView(s, tensor.View{DType: tensor.Float32, Shape: []int{2}, Stride: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := statsOf(x); err == nil || err.Error() != "gone" {
		t.Errorf("statsOf an unreadable tensor: error %v, want gone", err)
	}
}
