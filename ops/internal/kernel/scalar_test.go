package kernel

import (
	"math"
	"testing"
)

// TestBlocks holds functions of blocks against those of one number.
func TestBlocks(t *testing.T) {
	inf := math.Inf(1)
	xs := []float64{0, math.Copysign(0, -1), 1, -1, 0.3, -0.3, 2, 3.7, -5, 40, -40, 800, -800, 1e-9, -1e-9, 1e100,
		-1e100, 1e-100, 0x1p-1074, math.MaxFloat64, inf, -inf, math.NaN()}
	check := func(name string, got []float64, want func(x float64) float64, ulps float64) {
		t.Helper()
		for i, x := range xs {
			w := want(x)
			if got[i] == w && math.Signbit(got[i]) == math.Signbit(w) || got[i] != got[i] && w != w {
				continue
			}
			if !(math.Abs(got[i]-w) <= ulps*0x1p-52*math.Abs(w)) || math.IsInf(w, 0) {
				t.Errorf("%s(%v) = %v, want %v", name, x, got[i], w)
			}
		}
	}
	got := make([]float64, len(xs))
	SoftplusBlock(got, xs)
	check("softplus", got, Softplus, 4)
	for _, p := range []float64{0, 0.25, 0.5, 0.75, 1, 1.75, 2, 3, 4, -0.25, -0.5, -0.75, -1, -1.75, -3, 4.25, 7, 0.3,
		-0.3, inf, -inf, math.NaN()} {
		PowBlock(got, xs, p)
		check("pow", got, func(x float64) float64 { return math.Pow(x, p) }, 4)
	}
}
