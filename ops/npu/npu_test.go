package npu

import (
	"math"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// TestValues compares forward results with the formulas torch_npu documents,
// written out.
func TestValues(t *testing.T) {
	vector := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, []int{len(v)}, v) }
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rms := math.Sqrt((1+4+9+16)/4. + 1e-6)
	for _, tc := range []struct {
		name string
		e    *opdef.Entry
		args any
		want []float64
	}{
		{"swiglu", swiglu, &opdef.DimArgs{Self: vector(1, -2, 3, 0.5), Dim: 0},
			[]float64{1 * sigmoid(1) * 3, -2 * sigmoid(-2) * 0.5}},
		{"fast_gelu", fastGELU, &opdef.UnaryArgs{Self: vector(1, -2)}, []float64{sigmoid(1.702), -2 * sigmoid(-3.404)}},
		{"npu_rms_norm", rmsNorm, &rmsNormArgs{vector(1, 2, 3, 4), vector(1, 1, 2, 1), 1e-6},
			[]float64{1 / rms, 2 / rms, 6 / rms, 4 / rms}},
		{"npu_rotary_mul half", rotaryMul, &rotaryMulArgs{vector(1, 2, 3, 4), vector(1, 1, 1, 1),
			vector(5, 6, 7, 8), "half", nil},
			[]float64{1 - 3*5, 2 - 4*6, 3 + 1*7, 4 + 2*8}},
		{"npu_rotary_mul interleave", rotaryMul,
			&rotaryMulArgs{vector(1, 2, 3, 4), vector(1, 1, 1, 1), vector(5, 6, 7, 8), "interleave", nil},
			[]float64{1 - 2*5, 2 + 1*6, 3 - 4*7, 4 + 3*8}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := tc.e.NewCall(tc.args).Forward()
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range tensor.Data[float64](f.Outs[0]) {
				if math.Abs(x-tc.want[i]) > 1e-12 {
					t.Errorf("element %d is %v, want %v", i, x, tc.want[i])
				}
			}
		})
	}
}
