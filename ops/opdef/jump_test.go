package opdef

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// A value on the other side is found where the function jumps within rounding of the argument, and
// nowhere else.
func TestBeyondJumps(t *testing.T) {
	step := func(at float64) func(dst, src []float64) {
		return func(dst, src []float64) {
			for i, x := range src {
				dst[i] = 1
				if x > at {
					dst[i] = 3 + 1e-3*(x-at)
				}
			}
		}
	}
	smooth := func(dst, src []float64) {
		for i, x := range src {
			dst[i] = math.Sin(x) * math.Exp(x)
		}
	}
	const dt = tensor.Float32
	ulp := dt.ULP(3)
	far := make([]float64, 3*jumpPiece)
	for i := range far {
		far[i] = 4 + float64(i)*ulp
	}
	for _, c := range []struct {
		name         string
		f            func(dst, src []float64)
		x            []float64
		below, above []float64 // nil: as f says
	}{
		{"a step", step(3), []float64{3 - 3*ulp, 3 - ulp, 3, 3 + ulp, 3 + 3*ulp, math.NaN(), math.Inf(1)},
			[]float64{1, 1, 1, 1, 3 + 3e-3*ulp, 1, math.Inf(1)},
			[]float64{1, 3, 3, 3 + 1e-3*ulp, 3 + 3e-3*ulp, 1, math.Inf(1)}},
		{"a step at 0", step(0), []float64{-ulp, 0, ulp / 4}, nil, nil},
		{"a smooth function", smooth, []float64{-2, -0.785398163, 1e-30, 0.5, 3.14159265, 20}, nil, nil},
		{"far from the step", step(3), far, nil, nil},
		{"nothing", smooth, nil, nil, nil},
	} {
		plain := make([]float64, len(c.x))
		c.f(plain, c.x)
		for side, want := range [][]float64{c.below, c.above} {
			if want == nil {
				want = plain
			}
			got := make([]float64, len(c.x))
			beyondJumps(dt, c.f)[side](got, c.x)
			for i := range got {
				if got[i] != want[i] && math.Abs(got[i]-want[i]) > 1e-9 {
					t.Errorf("%s: at %v, side %d: got %v, want %v", c.name, c.x[i], side, got[i], want[i])
				}
			}
		}
	}
}
