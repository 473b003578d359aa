package vec

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkFloat32 compares blocks that stay in the cache.
func BenchmarkFloat32(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	x, y := make([]float32, 8192), make([]float32, 8192)
	for i := range x {
		v := r.NormFloat64()
		x[i], y[i] = float32(v), float32(v*(1+1e-7*r.NormFloat64()))
	}
	b.SetBytes(int64(8 * len(x)))
	for b.Loop() {
		Float32(x, y, Rule{Atol: 1e-5, Rtol: 1e-5, Eps: 1e-6})
	}
}

// BenchmarkNear32 tallies a block that stays in the cache.
func BenchmarkNear32(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	x, y := make([]float32, 8192), make([]float32, 8192)
	for i := range x {
		v := r.NormFloat64()
		x[i], y[i] = float32(v), float32(v*(1+1e-7*r.NormFloat64()))
	}
	reach := Reach{ULPs: 1, Mant: 23, Low: 1023 - 126, High: 1023 + 127, Final: true}
	within, beyond := 1.0, 20.0
	b.SetBytes(int64(8 * len(x)))
	for b.Loop() {
		reach.Near32(x, y, &within, &beyond, func(lo, hi int) {})
	}
}

// BenchmarkNear tallies a block of float32 against exact values, all of them near and one in a hundred further off.
func BenchmarkNear(b *testing.B) {
	for _, c := range []struct {
		name   string
		far    int
		covers bool
	}{{"near", 1 << 20, false}, {"covered", 1 << 20, true}, {"some", 100, true}} {
		b.Run(c.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(7, 7))
			x, y := make([]float64, 8192), make([]float64, 8192)
			for i := range x {
				y[i] = r.NormFloat64()
				x[i] = float64(float32(y[i] * (1 + 1e-7*r.Float64())))
				if i%c.far == c.far/2 {
					x[i] *= 1 + 1e-6
				}
			}
			reach := Reach{ULPs: 3, Mant: 23, Low: 1023 - 126, High: 1023 + 127, Gradual: true, Factor: 0x1p-22,
				Covers: c.covers}
			within, beyond := 1.0, 20.0
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				reach.Near(x, y, nil, &within, &beyond, func(lo, hi int) {})
			}
		})
	}
}

// BenchmarkErrors sums up the errors of a block that stays in the cache.
func BenchmarkErrors(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	x, y, z := make([]float64, 8192), make([]float64, 8192), make([]float64, 8192)
	for i := range x {
		y[i] = r.NormFloat64()
		z[i] = float64(float32(y[i]))
		x[i] = float64(float32(y[i] * (1 + 1e-7*r.NormFloat64())))
	}
	b.SetBytes(int64(8 * len(x)))
	for b.Loop() {
		(Precision{Least: 0x1p-125, Top: 0x1p127, Mant: 23}).Errors(x, y, z)
	}
}
