package compare

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

func TestRMSE(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tc := range []struct {
		a, b []float64
		want float64
	}{
		{nil, nil, 0},
		{[]float64{1, 2}, []float64{1, 2}, 0},
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 3, 8}, 2},
		{[]float64{inf, nan, -inf, 5}, []float64{inf, nan, -inf, 3}, 1},
		{[]float64{inf}, []float64{1}, inf},
		{[]float64{nan}, []float64{1}, nan},
	} {
		shape := []int{len(tc.a)}
		got := RMSE(tensor.New(tensor.Float32, shape, tc.a).Rounded(), tensor.New(tensor.Float64, shape, tc.b))
		if got != tc.want && !(got != got && tc.want != tc.want) {
			t.Errorf("RMSE(%v, %v) = %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
	x := tensor.New(tensor.Complex128, []int{1}, []complex128{3 + 4i})
	y := tensor.New(tensor.Complex128, []int{1}, []complex128{0})
	if got := RMSE(x, y); got != 5 {
		t.Errorf("RMSE of complex numbers %v, want 5", got)
	}
}
