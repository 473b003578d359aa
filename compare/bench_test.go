package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// benchPair is a device and a host tensor that differ by 1e-7 of their values
// before rounding, 64 MiB each.
func benchPair(dt tensor.DType) (got, host, ref *tensor.Tensor) {
	r := rand.New(rand.NewPCG(7, 7))
	n := 64 << 20 / dt.Size()
	v, w := make([]float64, n), make([]float64, n)
	for i := range v {
		v[i] = dt.Round(r.NormFloat64())
		w[i] = v[i] * (1 + 1e-7*r.NormFloat64())
	}
	got, ref = tensor.New(dt, []int{n}, v).Rounded(), tensor.New(dt, []int{n}, w)
	return got, ref.Rounded(), ref
}

func BenchmarkOpTools(b *testing.B) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16, tensor.Float64} {
		b.Run(dt.String(), func(b *testing.B) {
			got, host, _ := benchPair(dt)
			b.SetBytes(got.Bytes() + host.Bytes())
			for b.Loop() {
				if OpToolsTensors(got, host, DefaultTolerance(dt)).MaxAbs < 0 {
					b.Fatal("negative")
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		for name, kind := range map[string]int{"stored": 0, "computed": 1} {
			b.Run(dt.String()+"/"+name, func(b *testing.B) {
				got, host, ref := benchPair(dt)
				refs := []*tensor.Tensor{host, ref}
				b.SetBytes(got.Bytes() + host.Bytes())
				for b.Loop() {
					if res := Check(got, refs[kind], Model{ULPs: 16}, DefaultTolerance(dt),
						nil); res.Verdict != verdict.Pass {
						b.Fatal(res.Reason)
					}
				}
			})
		}
	}
}
