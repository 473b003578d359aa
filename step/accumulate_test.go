package step

import "testing"

// TestAdds: a gradient that autograd added in place explains what a value has become.
func TestAdds(t *testing.T) {
	x, y := []float64{1, 2, 3}, []float64{0.5, 0, -1}
	for _, tc := range []struct {
		sum, y []float64
		want   bool
	}{
		{[]float64{1.5, 2, 2}, y, true},
		{[]float64{1.5, 2, 2.1}, y, false},
		{x, []float64{0, 0, 0}, false}, // nothing was added
		{[]float64{1.5, 2}, y, false},
	} {
		if got := adds(tc.sum, x, tc.y, 1e-7); got != tc.want {
			t.Errorf("%v: %t", tc.sum, got)
		}
	}
}
