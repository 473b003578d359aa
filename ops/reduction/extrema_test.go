package reduction

import (
	"math"
	"testing"
)

// TestExtremeIndex finds the first of equal extremes and the first NaN of rows longer than a block.
func TestExtremeIndex(t *testing.T) {
	for _, n := range []int{1, 15, 1023, 1024, 1025, 5000} {
		for _, first := range []int{0, n / 3, n / 2, n - 1} {
			v := make([]float64, n)
			for i := range v {
				v[i] = -float64(i % 7)
			}
			for _, x := range []float64{3, math.Inf(1), math.NaN()} {
				for i := first; i < n; i += 1000 {
					v[i] = x
				}
				if got := extremeIndex(v, false); got != first {
					t.Errorf("%v first at %d of %d: %d", x, first, n, got)
				}
			}
			if got := extremeIndex(v, true); got != first {
				t.Errorf("least, NaN first at %d of %d: %d", first, n, got)
			}
		}
	}
}
