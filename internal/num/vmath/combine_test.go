package vmath

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCombine holds the blocks against the formulas, with numbers for each element and one for
// all, and the sums against Sum and Dot of what they add.
func TestCombine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	for _, n := range []int{0, 1, 3, 4, 15, 16, 33, 128, 129, 1000} {
		for _, each := range []int{0, 1, 2, 4, 8, 15} { // which numbers have an element for each
			x, y, k := random(n), random(n), [4][]float64{}
			for j := range k {
				k[j] = random(1)
				if each>>j&1 == 1 {
					k[j] = random(n)
				}
			}
			for name, f := range map[string]struct {
				block func(dst, x, a, y, m, b, c []float64)
				of    func(v float64) float64
			}{"Combine": {Combine, func(v float64) float64 { return v }}, "Magnitudes": {Magnitudes, math.Abs}} {
				got := make([]float64, n)
				f.block(got, x, k[0], y, k[1], k[2], k[3])
				for i := range got {
					p := math.FMA(f.of(x[i]), of(k[0], i), of(k[3], i))
					if want := math.FMA(f.of(y[i]-of(k[1], i)), of(k[2], i), p); got[i] != want {
						t.Fatalf("%s of %d, element %d: %v, want %v", name, n, i, got[i], want)
					}
				}
			}
		}
		x, y, mean := random(n), random(n), 0.375
		off, ax, ay, apart := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range x {
			off[i] = y[i] - mean
			ax[i], ay[i], apart[i] = math.Abs(x[i]), math.Abs(y[i]), math.Abs(off[i])
		}
		if s, d := Projections(x, y, mean); s != Sum(x) || d != Dot(x, off) {
			t.Errorf("Projections of %d are %v and %v, want %v and %v", n, s, d, Sum(x), Dot(x, off))
		}
		if s, d, w := ProjectionMagnitudes(x, y, mean); s != Sum(ax) || d != Dot(ax, apart) || w != Dot(ax, ay) {
			t.Errorf("ProjectionMagnitudes of %d are %v, %v and %v, want %v, %v and %v", n, s, d, w, Sum(ax),
				Dot(ax, apart), Dot(ax, ay))
		}
	}
}
