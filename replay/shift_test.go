package replay

import (
	"math/rand/v2"
	"testing"
)

// TestShiftOf: the shift is that which counting element by element finds, also of many elements.
func TestShiftOf(t *testing.T) {
	counted := func(x, y []float64) int {
		n := len(x)
		for k := 1; 2*k <= n; k++ {
			for _, by := range []int{k, -k} {
				off, zeros := 0, 0
				for i := max(0, by); i < min(n, n+by); i++ {
					zeros += cmpInt(x[i] == 0)
					off += cmpInt((x[i] == 0) != (y[i-by] == 0))
				}
				if 100*off <= n && zeros >= 16 && zeros <= n-k-16 {
					return by
				}
			}
		}
		return 0
	}
	r := rand.New(rand.NewPCG(1, 2))
	mask := func(n int, p float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(cmpInt(r.Float64() > p))
		}
		return x
	}
	moved := func(x []float64, by int, spoilt float64) []float64 {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[(i+len(x)-by)%len(x)]
			if r.Float64() < spoilt {
				y[i] = 1 - y[i]
			}
		}
		return y
	}
	for _, n := range []int{1, 17, 100, 333, 1024} {
		for _, p := range []float64{0.02, 0.1, 0.5} {
			y := mask(n, p)
			for _, by := range []int{0, 1, -1, 7, -40, n / 2} {
				for _, spoilt := range []float64{0, 0.005, 0.02} {
					x := moved(y, by, spoilt)
					if got, want := shiftOf(x, y), counted(x, y); got != want {
						t.Errorf("n %d, p %g, shifted by %d, %g spoilt: %d, want %d", n, p, by, spoilt, got, want)
					}
				}
			}
			if x := mask(n, p); shiftOf(x, y) != counted(x, y) {
				t.Errorf("%d elements, p %g: another mask is shifted by %d", n, p, shiftOf(x, y))
			}
		}
	}
	const many = 1 << 20
	y := mask(many, 0.1)
	if got := shiftOf(mask(many, 0.1), y); got != 0 {
		t.Errorf("another mask is shifted by %d", got)
	}
	if got := shiftOf(moved(y, -300001, 0), y); got != -300001 {
		t.Errorf("shifted by %d, want -300001", got)
	}
}
