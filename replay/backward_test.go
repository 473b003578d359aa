package replay_test

import (
	"strings"
	"testing"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// TestGradientShapes records calls with gradients that their operator cannot give.
func TestGradientShapes(t *testing.T) {
	const f32, bf16 = tensor.Float32, tensor.BFloat16
	x := func() *tensor.Tensor { return needsGrad(stored(f32, []int{2, 3}, 1, -2, 3, 4, -5, 6)) }
	y := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 0, 3, 4, 0, 6) }
	up := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 2, 3, 4, 5, 6) }
	right := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 1, 0, 3, 4, 0, 6) }
	const relu, add, cat = "torch.nn.functional.relu", "torch.add", "torch.cat"
	frozen := stored(f32, []int{2, 3}, 1, 1, 1, 1, 1, 1)
	sum := func() *tensor.Tensor { return stored(f32, []int{2, 3}, 2, -1, 4, 5, -4, 7) }
	pair := func() value.Value { return value.NewList(frozen, needsGrad(stored(f32, []int{1, 3}, 7, 8, 9))) }
	joined := stored(f32, []int{3, 3}, 1, 1, 1, 1, 1, 1, 7, 8, 9)
	joinedUp := stored(f32, []int{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	index := value.NewTuple(value.Ellipsis{}, int64(1), value.Slice{})
	picked, cube := stored(f32, []int{2, 2}, 3, 4, 7, 8), stored(f32, []int{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	for _, tc := range []struct {
		name      string
		op        string
		args      []value.Value
		result    value.Value
		gradients []value.Value
		up        *tensor.Tensor
		want      verdict.Verdict
	}{
		{"right", relu, []value.Value{x()}, y(), []value.Value{right()}, up(), verdict.Pass},
		{"flat", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{6}, 1, 0, 3, 4, 0, 6)}, up(),
			verdict.Fail},
		{"transposed", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{3, 2}, 1, 4, 0, 0, 3, 6)}, up(),
			verdict.Fail},
		{"scalar", relu, []value.Value{x()}, y(), []value.Value{stored(f32, nil, 14)}, up(), verdict.Fail},
		{"empty", relu, []value.Value{x()}, y(), []value.Value{stored(f32, []int{0})}, up(), verdict.Fail},
		{"twice", relu, []value.Value{x()}, y(), []value.Value{right(), right()}, up(), verdict.Fail},
		{"None", relu, []value.Value{x()}, y(), []value.Value{nil}, up(), verdict.Fail},
		{"missing", relu, []value.Value{x()}, y(), []value.Value{}, up(), verdict.Fail},
		{"narrow", relu, []value.Value{x()}, y(), []value.Value{stored(bf16, []int{2, 3}, 1, 0, 3, 4, 0, 6)}, up(),
			verdict.Fail},
		{"wide", relu, []value.Value{x()}, y(), []value.Value{stored(tensor.Float64, []int{2, 3}, 1, 0, 3, 4, 0, 6)},
			up(), verdict.Fail},
		{"of a number", add, []value.Value{x(), 1.0}, sum(), []value.Value{up(), nil}, up(), verdict.Pass},
		{"swapped with None", add, []value.Value{x(), frozen}, sum(), []value.Value{nil, up()}, up(), verdict.Fail},
		{"operand without gradient", cat, []value.Value{pair()}, joined,
			[]value.Value{up(), stored(f32, []int{1, 3}, 7, 8, 9)}, joinedUp, verdict.Pass},
		{"wrong of an operand without", cat, []value.Value{pair()}, joined,
			[]value.Value{right(), stored(f32, []int{1, 3}, 7, 8, 9)}, joinedUp, verdict.Fail},
		{"whole slice skipped", "torch.Tensor.__getitem__", []value.Value{needsGrad(cube), index}, picked,
			[]value.Value{stored(f32, []int{2, 2, 2}, 0, 0, 1, 2, 0, 0, 3, 4)}, stored(f32, []int{2, 2}, 1, 2, 3, 4),
			verdict.Pass},
		{"linear's rows, turned", "torch.nn.functional.linear",
			[]value.Value{needsGrad(stored(f32, []int{1, 2, 1}, 1, 2)), needsGrad(stored(f32, []int{1, 1}, 1))},
			stored(f32, []int{1, 2, 1}, 1, 2), []value.Value{stored(f32, []int{2, 1}, 2, 1)},
			stored(f32, []int{1, 2, 1}, 1, 2), verdict.Fail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := record(t, tc.op, tc.args, tc.result, value.NewTuple(tc.gradients...), value.NewTuple(tc.up))
			o := replay.Run(entries(t, dir)[0], options(t))
			backward := verdict.Skipped
			var reasons []string
			for _, r := range o.Results {
				if r.Phase == replay.Backward {
					backward = verdict.Worse(backward, r.Verdict)
					reasons = append(reasons, r.Reason)
				}
			}
			if backward != tc.want {
				t.Errorf("got %s, want %s: %s", backward, tc.want, strings.Join(reasons, "; "))
			}
		})
	}
}
