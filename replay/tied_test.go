package replay_test

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestTiedGradients are gradients at a kink that torch gives in one way before version 2.15, in
// another since: each is right, a third is not.
func TestTiedGradients(t *testing.T) {
	const f32 = tensor.Float32
	vec := func(v ...float64) *tensor.Tensor { return stored(f32, []int{len(v)}, v...) }
	x := func() *tensor.Tensor { return needsGrad(vec(0, -1, 1)) }
	bound := func() *tensor.Tensor { return needsGrad(vec(0, 0, 0)) }
	up := func() *tensor.Tensor { return vec(4, 8, 2) }
	low, high := vec(0, -1, 0), vec(0, 0, 1)
	list := func(ts ...*tensor.Tensor) []value.Value {
		var vs []value.Value
		for _, t := range ts {
			vs = append(vs, t)
		}
		return vs
	}
	for _, tc := range []judged{
		{"clamp, all", "torch.clamp", []value.Value{x(), nil, 0.0}, low, list(vec(4, 8, 0)), up(), verdict.Pass},
		{"clamp, none", "torch.clamp", []value.Value{x(), nil, 0.0}, low, list(vec(0, 8, 0)), up(), verdict.Pass},
		{"clamp, half", "torch.clamp", []value.Value{x(), nil, 0.0}, low, list(vec(2, 8, 0)), up(), verdict.Fail},
		{"clamp, beside the bound", "torch.clamp", []value.Value{x(), nil, 0.0}, low, list(vec(4, 0, 0)), up(),
			verdict.Fail},
		{"clamp_min, all", "torch.clamp_min", []value.Value{x(), 0.0}, high, list(vec(4, 0, 2)), up(), verdict.Pass},
		{"clamp_min, none", "torch.clamp_min", []value.Value{x(), 0.0}, high, list(vec(0, 0, 2)), up(), verdict.Pass},
		{"clamp_max, none", "torch.clamp_max", []value.Value{x(), 0.0}, low, list(vec(0, 8, 0)), up(), verdict.Pass},
		{"tensors, all", "torch.clamp", []value.Value{x(), bound()}, high, list(vec(4, 0, 2), vec(0, 8, 0)), up(),
			verdict.Pass},
		{"tensors, half", "torch.clamp", []value.Value{x(), bound()}, high, list(vec(2, 0, 2), vec(2, 8, 0)), up(),
			verdict.Pass},
		{"tensors, none", "torch.clamp", []value.Value{x(), bound()}, high, list(vec(0, 0, 2), vec(0, 8, 0)), up(),
			verdict.Fail},
		{"fmax, all", "torch.fmax", []value.Value{x(), bound()}, high, list(vec(4, 0, 2), vec(0, 8, 0)), up(),
			verdict.Pass},
		{"fmax, half", "torch.fmax", []value.Value{x(), bound()}, high, list(vec(2, 0, 2), vec(2, 8, 0)), up(),
			verdict.Pass},
		{"fmin, half", "torch.fmin", []value.Value{x(), bound()}, low, list(vec(2, 8, 0), vec(2, 0, 2)), up(),
			verdict.Pass},
		{"fmin, a quarter", "torch.fmin", []value.Value{x(), bound()}, low, list(vec(1, 8, 0), vec(3, 0, 2)), up(),
			verdict.Fail},
	} {
		tc.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}
