package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
)

// BenchmarkSpecial compares 16-bit tensors of which one has zeros, signs or NaN that
// the other has not.
func BenchmarkSpecial(b *testing.B) {
	changes := map[string]func(i int, x float64) float64{
		"negated": func(_ int, x float64) float64 { return -x },
		"zeros":   func(i int, x float64) float64 { return x * float64(min(1, i%3)) },
		"nan": func(i int, x float64) float64 {
			if i%7 == 0 {
				return math.NaN()
			}
			return x
		},
		"large": func(_ int, x float64) float64 { return x * 1000 },
	}
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for name, change := range changes {
			b.Run(dt.String()+"/"+name, func(b *testing.B) {
				r := rand.New(rand.NewPCG(7, 7))
				v, w := make([]float64, 8<<20), make([]float64, 8<<20)
				for i := range v {
					v[i] = r.NormFloat64()
					w[i] = change(i, v[i])
				}
				got, ref := tensor.New(dt, []int{len(v)}, v).Rounded(), tensor.New(dt, []int{len(w)}, w).Rounded()
				b.SetBytes(got.Bytes() + ref.Bytes())
				for b.Loop() {
					Check(got, ref, Model{ULPs: 1, Cast: true}, DefaultTolerance(dt), nil)
				}
			})
		}
	}
}

// BenchmarkDiffering compares stored tensors as optool compare does: a unit in the
// last place, after a cast.
func BenchmarkDiffering(b *testing.B) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16, tensor.Float64} {
		for _, rel := range []float64{0, 1e-7, 1e-4, 1e-1} {
			b.Run(fmt.Sprintf("%s/%g", dt, rel), func(b *testing.B) {
				r := rand.New(rand.NewPCG(7, 7))
				n := 16 << 20 / dt.Size()
				v, w := make([]float64, n), make([]float64, n)
				for i := range v {
					v[i] = r.NormFloat64()
					w[i] = v[i] * (1 + rel*r.NormFloat64())
				}
				got, ref := tensor.New(dt, []int{n}, v).Rounded(), tensor.New(dt, []int{n}, w).Rounded()
				b.SetBytes(got.Bytes() + ref.Bytes())
				for b.Loop() {
					Check(got, ref, Model{ULPs: 1, Cast: true}, DefaultTolerance(dt), nil)
				}
			})
		}
	}
}
