package replay_test

import (
	"math"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMixedDTypes: torch rounds each step of a gradient to the dtype of its operands. The values are torch's.
func TestMixedDTypes(t *testing.T) {
	const f32, f16, bf16 = tensor.Float32, tensor.Float16, tensor.BFloat16
	one := func(dt tensor.DType, v float64) *tensor.Tensor { return needsGrad(stored(dt, []int{1}, v)) }
	number := func(dt tensor.DType, v float64) *tensor.Tensor { return stored(dt, nil, v) }
	whole := func(dt tensor.DType, v int64) *tensor.Tensor { return tensor.New(dt, []int{1}, []int64{v}).Rounded() }
	for _, tc := range []struct {
		name, op string
		x, y     *tensor.Tensor
		out      *tensor.Tensor
		dx, dy   value.Value // nil: none
	}{
		{"squares in two dtypes", "torch.atan2", one(f32, 0.3), one(bf16, 0.7), one(f32, 0.405296266078949),
			one(f32, 1.2091325521469116), one(bf16, -0.51953125)},
		{"negative uint8", "torch.atan2", whole(tensor.Uint8, 3), one(f32, 2), one(f32, 0.9827937483787537), nil,
			one(f32, 19.461538314819336)},
		{"negative uint8", "torch.special.zeta", whole(tensor.Uint8, 3), one(f32, 2), one(f32, 0.2020568996667862), nil,
			one(f32, 20.827777862548828)},
		{"a logarithm in bfloat16", "torch.pow", one(bf16, 1.3), one(f32, 2.7), one(f32, 2.0175528526306152),
			one(bf16, 4.1875), one(f32, 0.524478018283844)},
		{"a power that overflows", "torch.logaddexp", one(f16, 0), one(f16, 11.5), one(f16, 11.5),
			one(f16, 0), one(f16, 1)},
		{"a quotient that overflows", "torch.true_divide", whole(tensor.Int64, 300), one(f16, 0.0042),
			one(f16, math.Inf(1)), nil, one(f16, math.Inf(-1))},
		{"a number of the other 16 bits", "torch.fmod", one(bf16, 10), number(f16, 0.3), one(bf16, 0.07421875),
			one(bf16, 1), nil},
		{"a quotient at a whole number", "torch.fmod", one(bf16, 2.984375), one(bf16, 0.271484375),
			one(bf16, 0.26953125), one(bf16, 1), one(bf16, -10)},
		{"torch 2.15", "torch.ldexp", one(bf16, 1.5), whole(tensor.Int64, 2), one(bf16, 6), one(bf16, 4), nil},
		{"torch before it", "torch.ldexp", one(bf16, 1.5), whole(tensor.Int64, 2), one(f32, 6), one(bf16, 4), nil},
	} {
		for _, wrong := range []bool{false, true} {
			out, want := tc.out, verdict.Pass
			if wrong {
				want = verdict.Fail
				if out = one(out.DType, tensor.At[float64](out, 0)*1.05+1); math.IsInf(tensor.At[float64](out, 0), 0) {
					continue
				}
			}
			up := one(tc.out.DType, 1)
			o := replay.Run(entries(t, record(t, tc.op, []value.Value{tc.x, tc.y}, out,
				value.NewTuple(tc.dx, tc.dy), value.NewTuple(up)))[0], options(t))
			if o.Verdict() != want {
				t.Errorf("%s, %s, wrong %v: got %s, want %s: %+v", tc.op, tc.name, wrong, o.Verdict(), want, o.Results)
			}
		}
	}
}
