package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCauseOfCancellation: variances of float32 numbers far from 0, each the difference of two large numbers. Noise of
// the same size is none.
func TestCauseOfCancellation(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 5))
	const rows, n = 12, 40
	x := opdef.Map(tensor.Float32, normal(r, []int{rows, n}), func(v float64) float64 { return 100 + v/2 }).Rounded()
	v := make([]float64, x.Numel())
	tensor.Load(x, 0, v)
	means, squares := make([]float32, rows), make([]float32, rows)
	for i, z := range v {
		means[i/n] += float32(z)
		squares[i/n] += float32(z) * float32(z)
	}
	moments, sums, noise := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	due := resultsOf(t, opt, "torch.var", x, int64(1))[0]
	for i := range rows {
		mean := means[i] / n
		moments[i] = float64(float32(squares[i]/n) - float32(mean*mean))
		sums[i] = float64((squares[i] - float32(n*mean)*mean) / (n - 1))
		noise[i] = tensor.At[float64](due, i) * (1 + 0.01*r.NormFloat64())
	}
	size := value.NewList(int64(n))
	norm := make([]float64, x.Numel())
	for i, z := range v {
		norm[i] = float64(float32(z)-means[i/n]/n) / math.Sqrt(moments[i/n]+1e-5)
	}
	const mean = "the variance is the mean of squares less the square of the mean, which cancels in float32"
	for _, tc := range []struct {
		op   string
		args []value.Value
		gave []float64
		want string
	}{
		{"torch.var", []value.Value{x, int64(1), false}, moments, mean},
		{"torch.var", []value.Value{x, int64(1)}, sums,
			"the variance is made of the sum of squares less n times the square of the mean, which cancels in float32"},
		{"torch.nn.functional.layer_norm", []value.Value{x, size}, norm, mean},
		{"torch.var", []value.Value{x, int64(1)}, noise, ""},
	} {
		shape := []int{rows}
		if len(tc.gave) > rows {
			shape = x.Shape
		}
		gave := tensor.New(tensor.Float32, shape, tc.gave).Rounded()
		causes := explain(entries(t, record(t, tc.op, tc.args, gave))[0], opt)
		if tc.want == "" && len(causes) == 0 || len(causes) == 1 && says(causes[0], tc.want) {
			continue
		}
		t.Errorf("%s: causes %+v, want %q", tc.op, causes, tc.want)
	}
}
