package step

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestAdds: a gradient that autograd added in place explains what a value has become.
func TestAdds(t *testing.T) {
	x, y := []float64{1, 2, 3}, []float64{0.5, 0, -1}
	for _, tc := range []struct {
		now, y []float64
		want   bool
	}{
		{[]float64{1.5, 2, 2}, y, true},
		{[]float64{1.5, 2, 2.1}, y, false},
		{[]float64{1.5, 2}, y, false},
		{[]float64{1.5, 2, 2}, nil, false}, // it cannot be read
	} {
		if got := adds(&Value{DType: tensor.Float32}, tc.now, x, tc.y); got != tc.want {
			t.Errorf("%v: %t", tc.now, got)
		}
	}
}
