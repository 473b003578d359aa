package ops_test

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestNonFiniteGradients holds gradients of arguments that are not finite to those of torch 2.15 and 1.13. The
// incoming gradient is 2, 3, 4, 2, ...
func TestNonFiniteGradients(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		name   string
		second value.Value
		x      []float64
		want   []float64
	}{
		{"torch.linalg.vector_norm", 0.5, []float64{1, nan, 2, 0},
			[]float64{nan, nan, nan, nan}},
		{"torch.linalg.vector_norm", 0.5, []float64{0, inf, -2, -inf},
			[]float64{nan, nan, -inf, nan}},
		{"torch.linalg.vector_norm", 1.0, []float64{1, nan, 2, 0},
			[]float64{2, 0, 2, 0}},
		{"torch.linalg.vector_norm", 1.0, []float64{0, inf, -2, -inf},
			[]float64{0, 2, -2, -2}},
		{"torch.linalg.vector_norm", 1.5, []float64{1, nan, 2, 0},
			[]float64{nan, nan, nan, nan}},
		{"torch.linalg.vector_norm", 1.5, []float64{0, inf, -2, -inf},
			[]float64{0, nan, 0, nan}},
		{"torch.linalg.vector_norm", 3.0, []float64{1, nan, 2, 0},
			[]float64{nan, nan, nan, nan}},
		{"torch.linalg.vector_norm", 3.0, []float64{0, inf, -2, -inf},
			[]float64{0, nan, 0, nan}},
		{"torch.linalg.vector_norm", -1.0, []float64{1, nan, 2, 0},
			[]float64{nan, nan, nan, nan}},
		{"torch.linalg.vector_norm", -1.0, []float64{0, inf, -2, -inf},
			[]float64{0, 0, 0, 0}},
		{"torch.linalg.vector_norm", inf, []float64{1, nan, 2, 0},
			[]float64{0, 0, 0, 0}},
		{"torch.linalg.vector_norm", inf, []float64{0, inf, -2, -inf},
			[]float64{0, 1, 0, -1}},
		{"torch.linalg.vector_norm", -inf, []float64{1, nan, 2, 0},
			[]float64{0, 0, 0, 0}},
		{"torch.linalg.vector_norm", -inf, []float64{0, inf, -2, -inf},
			[]float64{0, 0, 0, 0}},
		{"torch.cumprod", int64(0), []float64{1, nan, 2, 3},
			[]float64{nan, nan, nan, nan}},
		{"torch.cumprod", int64(0), []float64{0, 1, nan, 0},
			[]float64{nan, 0, 0, 0}},
		{"torch.cumprod", int64(0), []float64{inf, 1, 2, -1},
			[]float64{nan, nan, nan, inf}},
		{"torch.cumprod", int64(0), []float64{2, 0, -inf, 3},
			[]float64{2, -inf, 0, 0}},
		{"torch.cumprod", int64(0), []float64{1, 0, 3, 0, inf},
			[]float64{2, 15, 0, 0, 0}},
		{"torch.logcumsumexp", int64(0), []float64{1, nan, 2, 3},
			[]float64{nan, nan, nan, nan}},
		{"torch.logcumsumexp", int64(0), []float64{inf, 1, 2, -1},
			[]float64{nan, 0, 0, 0}},
		{"torch.logcumsumexp", int64(0), []float64{1, -inf, inf, 2},
			[]float64{5.000000000000001, 0, nan, 0}},
		{"torch.logcumsumexp", int64(0), []float64{-inf, -inf, 0, 1},
			[]float64{nan, nan, 4.5378828427399895, 1.4621171572600098}},
	} {
		c := bound(t, tc.name, []value.Value{floats([]int{len(tc.x)}, tc.x...), tc.second}, nil)
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		up := make([]float64, f.Outs[0].Numel())
		for i := range up {
			up[i] = float64(i%3 + 2)
		}
		g, err := c.Backward(f, []*tensor.Tensor{tensor.New(tensor.Float64, f.Outs[0].Shape, up)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		arg := "self"
		if g[arg] == nil {
			arg = "x"
		}
		if got := tensor.Data[float64](g[arg][0]); !closeTo(got, tc.want, 1e-13) {
			t.Errorf("%s(%v, %v): gradient %v, want %v", tc.name, tc.x, tc.second, got, tc.want)
		}
	}
}
