package replay_test

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A judged is a recorded call and the verdict it is to get.
type judged struct {
	name      string
	op        string
	args      []value.Value
	result    value.Value
	gradients []value.Value
	up        *tensor.Tensor // gradient of the result; nil: no gradients are recorded
	want      verdict.Verdict
}

// run replays the call: want is the worst verdict of the results that count.
func (tc *judged) run(t *testing.T, counts func(replay.Result) bool) {
	t.Run(tc.name, func(t *testing.T) {
		var grads []value.Value
		if tc.up != nil {
			grads = []value.Value{value.NewTuple(tc.gradients...), value.NewTuple(tc.up)}
		}
		o := replay.Run(entries(t, record(t, tc.op, tc.args, tc.result, grads...))[0], options(t))
		worst := verdict.Skipped
		var reasons []string
		for _, r := range o.Results {
			if counts(r) {
				worst = verdict.Worse(worst, r.Verdict)
				reasons = append(reasons, r.Target+": "+r.Reason)
			}
		}
		if worst != tc.want {
			t.Errorf("got %s, want %s: %s", worst, tc.want, strings.Join(reasons, "; "))
		}
	})
}

// TestShownGradients: the result of a dropout shows its mask, and with it the gradient.
func TestShownGradients(t *testing.T) {
	const f32, dropout = tensor.Float32, "torch.nn.functional.dropout"
	x := func() *tensor.Tensor { return needsGrad(stored(f32, []int{4}, 1, -2, 0, 3)) }
	for _, tc := range []struct {
		name     string
		gradient *tensor.Tensor
		want     verdict.Verdict
	}{
		{"of the mask", stored(f32, []int{4}, 2, 0, 2, 2), verdict.Pass},
		{"a zero may be dropped", stored(f32, []int{4}, 2, 0, 0, 2), verdict.Pass},
		{"not scaled", stored(f32, []int{4}, 1, 0, 1, 1), verdict.Fail},
		{"of another mask", stored(f32, []int{4}, 2, 2, 2, 0), verdict.Fail},
		{"of none", stored(f32, []int{4}, 1, 1, 1, 1), verdict.Fail},
		{"another shape", stored(f32, []int{2, 2}, 2, 0, 2, 2), verdict.Fail},
		{"NaN where a number is due", stored(f32, []int{4}, 2, math.NaN(), 2, 2), verdict.Fail},
	} {
		dir := record(t, dropout, []value.Value{x(), 0.5, true}, stored(f32, []int{4}, 2, 0, 0, 6),
			value.NewTuple(tc.gradient), value.NewTuple(stored(f32, []int{4}, 1, 1, 1, 1)))
		o := replay.Run(entries(t, dir)[0], options(t))
		if len(o.Results) != 2 || o.Results[0].Verdict != verdict.Pass || o.Results[1].Verdict != tc.want {
			t.Errorf("%s: got %+v, want %s", tc.name, o.Results, tc.want)
		}
	}
}

// TestAllowed replays calls whose results depend on how torch computes them, recorded
// as sound kernels give them, and wrong ones that are like them.
func TestAllowed(t *testing.T) {
	const f16, bf16, f32 = tensor.Float16, tensor.BFloat16, tensor.Float32
	const hardswish, relu, norm, sample = "torch.nn.functional.hardswish", "torch.nn.functional.relu", "torch.norm",
		"torch.nn.functional.grid_sample"
	const group = "torch.nn.functional.group_norm"
	none := stored(f32, []int{2, 2, 0})
	ones := func(dt tensor.DType, shape ...int) *tensor.Tensor { return tensor.Full(dt, shape, 1.0).Rounded() }
	// A row that is nearly one-hot: softmax rounds to 1 in float16, and with it the gradient vanishes.
	hot := func() *tensor.Tensor { return needsGrad(stored(f16, []int{1, 2}, 0, 8.6)) }
	hotOut, hotUp := stored(f16, []int{1, 2}, 0.00018394, 1), stored(f16, []int{1, 2}, 1, 3)
	kink := func() *tensor.Tensor { return needsGrad(stored(bf16, []int{2}, 3, 2)) }
	zero := func() *tensor.Tensor { return needsGrad(stored(bf16, []int{2}, 0, 2)) }
	// A bias whose gradient is the sum of 512 ones, which bfloat16 adds up to 256.
	rows := func() *tensor.Tensor { return tensor.Full(bf16, []int{512, 2}, 1.0).Rounded() }
	layerNorm := func(bias float64) []value.Value {
		return []value.Value{stored(bf16, []int{2}, 0, 0), stored(bf16, []int{2}, bias, bias)}
	}
	image := func() *tensor.Tensor { return stored(f32, []int{1, 1, 1, 4}, 1, 2, 4, 8) }
	line := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1, 1, 1, 2}, -0.25, 0)) } // on pixel 1
	for _, tc := range []judged{
		{"below a kink", hardswish, []value.Value{kink()}, stored(bf16, []int{2}, 3, 1.6667),
			[]value.Value{stored(bf16, []int{2}, 1.5, 1.1667)}, ones(bf16, 2), verdict.Pass},
		{"above a kink", hardswish, []value.Value{kink()}, stored(bf16, []int{2}, 3, 1.6667),
			[]value.Value{stored(bf16, []int{2}, 1, 1.1667)}, ones(bf16, 2), verdict.Pass},
		{"between", hardswish, []value.Value{kink()}, stored(bf16, []int{2}, 3, 1.6667),
			[]value.Value{stored(bf16, []int{2}, 1.25, 1.1667)}, ones(bf16, 2), verdict.Fail},
		{"away from a kink", hardswish, []value.Value{kink()}, stored(bf16, []int{2}, 3, 1.6667),
			[]value.Value{stored(bf16, []int{2}, 1.5, 1)}, ones(bf16, 2), verdict.Fail},
		{"at zero", relu, []value.Value{zero()}, stored(bf16, []int{2}, 0, 2),
			[]value.Value{stored(bf16, []int{2}, 1, 1)}, ones(bf16, 2), verdict.Fail},
		{"NaN comes in where the slope is 0", relu, []value.Value{needsGrad(stored(f16, []int{2}, -1, 2))},
			stored(f16, []int{2}, 0, 2), []value.Value{stored(f16, []int{2}, 0, math.NaN())},
			stored(f16, []int{2}, math.NaN(), math.NaN()), verdict.Pass},
		{"the same, multiplied", relu, []value.Value{needsGrad(stored(f16, []int{2}, -1, 2))},
			stored(f16, []int{2}, 0, 2), []value.Value{stored(f16, []int{2}, math.NaN(), math.NaN())},
			stored(f16, []int{2}, math.NaN(), math.NaN()), verdict.Pass},
		{"NaN comes in and is lost", relu, []value.Value{needsGrad(stored(f16, []int{2}, -1, 2))},
			stored(f16, []int{2}, 0, 2), []value.Value{stored(f16, []int{2}, 0, 0)},
			stored(f16, []int{2}, math.NaN(), math.NaN()), verdict.Fail},
		{"infinity comes to the smaller", "torch.maximum",
			[]value.Value{needsGrad(stored(f32, []int{2}, 1, 2)), stored(f32, []int{2}, 3, 1)},
			stored(f32, []int{2}, 3, 2), []value.Value{stored(f32, []int{2}, 0, 1), nil},
			stored(f32, []int{2}, math.Inf(1), 1), verdict.Pass},
		{"a limit that the dtype does not have", "torch.nn.functional.threshold",
			[]value.Value{stored(bf16, []int{2}, 0.1001, 2), 0.1, 0.0}, stored(bf16, []int{2}, 0.1001, 2), nil, nil,
			verdict.Pass},
		{"the same, rounded", "torch.nn.functional.threshold",
			[]value.Value{stored(bf16, []int{2}, 0.1001, 2), 0.1, 0.0}, stored(bf16, []int{2}, 0, 2), nil, nil,
			verdict.Pass},
		{"from the rounded result", "torch.softmax", []value.Value{hot(), int64(1)}, hotOut,
			[]value.Value{stored(f16, []int{1, 2}, -0.00036788, -0.00018394)}, hotUp, verdict.Pass},
		{"squares underflow", norm, []value.Value{stored(f32, []int{2}, 3e-30, 4e-30)}, stored(f32, nil, 0), nil, nil,
			verdict.Mistrusted},
		{"squares overflow", norm, []value.Value{stored(f32, []int{2}, 3e30, 4e30)}, stored(f32, nil, math.Inf(1)), nil,
			nil, verdict.Pass},
		{"squares do not overflow", norm, []value.Value{stored(f32, []int{2}, 3e15, 4e15)},
			stored(f32, nil, math.Inf(1)), nil, nil, verdict.Fail},
		{"wrong where squares overflow", norm, []value.Value{stored(f32, []int{2}, 3e30, 4e30)}, stored(f32, nil, 4e30),
			nil, nil, verdict.Fail},
		{"added in bfloat16", "torch.nn.functional.layer_norm", append([]value.Value{rows(),
			value.NewTuple(int64(2))}, needsGrad(layerNorm(0)[0].(*tensor.Tensor)),
			needsGrad(layerNorm(0)[1].(*tensor.Tensor))), stored(bf16, []int{512, 2}, make([]float64, 1024)...),
			[]value.Value{nil, stored(bf16, []int{2}, 0, 0), stored(bf16, []int{2}, 256, 256)}, ones(bf16, 512, 2),
			verdict.Warn},
		{"before a grid line", sample, []value.Value{image(), line(), "bilinear", "zeros", false},
			stored(f32, []int{1, 1, 1, 1}, 2), []value.Value{nil, stored(f32, []int{1, 1, 1, 2}, 2, -1)},
			ones(f32, 1, 1, 1, 1), verdict.Pass},
		{"after a grid line", sample, []value.Value{image(), line(), "bilinear", "zeros", false},
			stored(f32, []int{1, 1, 1, 1}, 2), []value.Value{nil, stored(f32, []int{1, 1, 1, 2}, 4, -1)},
			ones(f32, 1, 1, 1, 1), verdict.Pass},
		{"on neither side", sample, []value.Value{image(), line(), "bilinear", "zeros", false},
			stored(f32, []int{1, 1, 1, 1}, 2), []value.Value{nil, stored(f32, []int{1, 1, 1, 2}, 3, -1)},
			ones(f32, 1, 1, 1, 1), verdict.Fail},
		{"another index of a tie", "torch.argmax", []value.Value{stored(f32, []int{3}, 1, 2, 2), int64(0)},
			tensor.New(tensor.Int64, nil, []int64{2}).Rounded(), nil, nil, verdict.Warn},
		{"the first index of a tie", "torch.argmax", []value.Value{stored(f32, []int{3}, 1, 2, 2), int64(0)},
			tensor.New(tensor.Int64, nil, []int64{1}).Rounded(), nil, nil, verdict.Pass},
		{"a negative threshold wraps", "torch.nn.functional.threshold",
			[]value.Value{stored(tensor.Uint8, []int{2}, 252, 254), int64(-3), int64(7)},
			stored(tensor.Uint8, []int{2}, 7, 254), nil, nil, verdict.Pass},
		{"a negative divisor wraps", "torch.remainder",
			[]value.Value{stored(tensor.Uint8, []int{2}, 252, 254), int64(-3)}, stored(tensor.Uint8, []int{2}, 252, 1),
			nil, nil, verdict.Pass},
		{"a weight of 0 is 256 in uint8", "torch.nn.functional.binary_cross_entropy_with_logits",
			[]value.Value{stored(f32, []int{1}, 1.5), stored(f32, []int{1}, 1), nil, nil, nil, "mean",
				stored(tensor.Uint8, []int{1}, 0)}, stored(f32, nil, 51.5618), nil, nil, verdict.Pass},
		{"the weight of no positions", group, []value.Value{none, int64(1),
			needsGrad(stored(f32, []int{2}, 1, 1))}, none,
			[]value.Value{nil, stored(f32, []int{2}, math.NaN(), math.NaN())}, none, verdict.Mistrusted},
		{"zeros of no positions", group, []value.Value{none, int64(1),
			needsGrad(stored(f32, []int{2}, 1, 1))}, none,
			[]value.Value{nil, stored(f32, []int{2}, 0, 0)}, none, verdict.Fail},
		{"a choice of two numbers", "torch.where", []value.Value{stored(tensor.Bool, []int{1}, 1), 0.1, 2.0},
			stored(f32, []int{1}, 0.1), nil, nil, verdict.Pass},
	} {
		tc.run(t, func(r replay.Result) bool { return !strings.HasSuffix(r.Reason, "zero on both sides") })
	}
}

// TestDroppedOverflow: where a gradient is infinite or NaN a dropped element gets NaN from torch, which multiplies by
// the mask, and 0 from kernels that select.
func TestDroppedOverflow(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	of := func(v ...float64) *tensor.Tensor { return stored(tensor.Float32, []int{4}, v...) }
	for name, tc := range map[string]struct {
		got  []float64
		want verdict.Verdict
	}{"multiplied": {[]float64{inf, nan, nan, 2}, verdict.Pass}, "selected": {[]float64{inf, 0, 0, 2}, verdict.Pass},
		"lost": {[]float64{0, 0, 0, 2}, verdict.Fail}} {
		c := judged{name, "torch.nn.functional.dropout", []value.Value{needsGrad(of(1, -2, 1, 3)), 0.5, true},
			of(2, 0, 0, 6), []value.Value{of(tc.got...)}, of(inf, inf, nan, 1), tc.want}
		c.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestEmbeddingInTurn: torch's CPU kernel adds the rows of a table's gradient one after the other in bfloat16, which is
// a warning. Rows that are left out are a failure.
func TestEmbeddingInTurn(t *testing.T) {
	const bf16, uses, rows, cols = tensor.BFloat16, 600, 4, 3
	indices, up := make([]int64, uses), make([]float64, uses*cols)
	inTurn, lost := make([]float64, rows*cols), make([]float64, rows*cols)
	for i := range indices {
		indices[i] = int64(i % 7 % rows)
		for k := range cols {
			x := bf16.Round(1 + float64(i*cols+k)/4096)
			up[i*cols+k] = x
			at := int(indices[i])*cols + k
			inTurn[at] = bf16.Round(inTurn[at] + x)
			if i%2 == 0 {
				lost[at] += x
			}
		}
	}
	table := needsGrad(stored(bf16, []int{rows, cols}, make([]float64, rows*cols)...))
	args := []value.Value{tensor.New(tensor.Int64, []int{uses}, indices).Rounded(), table}
	for name, tc := range map[string]struct {
		got  []float64
		want verdict.Verdict
	}{"in turn": {inTurn, verdict.Warn}, "half of the rows": {lost, verdict.Fail}} {
		c := judged{name, "torch.nn.functional.embedding", args,
			stored(bf16, []int{uses, cols}, make([]float64, uses*cols)...),
			[]value.Value{stored(bf16, []int{rows, cols}, tc.got...)}, stored(bf16, []int{uses, cols}, up...), tc.want}
		c.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}
