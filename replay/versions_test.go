package replay_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestUnseeingQueries: a query that sees no key gives 0 or NaN, and gradients are of the same kind.
func TestUnseeingQueries(t *testing.T) {
	const f32, attention = tensor.Float32, "torch.nn.functional.scaled_dot_product_attention"
	nan, inf := math.NaN(), math.Inf(-1)
	keep := tensor.New(tensor.Bool, []int{3, 2}, []int64{1, 1, 0, 0, 1, 0}).Rounded()
	numbers := func(hidden float64) *tensor.Tensor {
		return stored(f32, []int{3, 2}, 0, 0, hidden, hidden, 0, hidden)
	}
	ones := func(dt tensor.DType) *tensor.Tensor { return stored(dt, []int{3, 2}, 1, 1, 1, 1, 1, 1) }
	zero, none := []float64{.5, .5, 0, 0, 1, 0}, []float64{.5, .5, nan, nan, 1, 0}
	right, wrong := []float64{1.5, 1.5, .5, .5}, []float64{nan, nan, nan, nan}
	const gives0, givesNaN = "queries that see no key give 0", "queries that see no key give NaN"
	for _, tc := range []struct {
		name      string
		mask      *tensor.Tensor
		dt        tensor.DType // of the result
		out, grad []float64
		want      verdict.Verdict
		reason    string
	}{
		{"bool, 0", keep, f32, zero, right, verdict.Pass, gives0},
		{"bool, NaN", keep, f32, none, wrong, verdict.Pass, givesNaN},
		{"-inf, 0", numbers(inf), f32, zero, right, verdict.Pass, gives0},
		{"-inf, NaN", numbers(inf), f32, none, wrong, verdict.Pass, givesNaN},
		{"the smallest number", numbers(-f32.Max()), f32, []float64{.5, .5, .5, .5, 1, 0}, []float64{2, 2, 1, 1},
			verdict.Pass, ""},
		{"autocast, 0", keep, tensor.BFloat16, zero, right, verdict.Pass, "as under autocast"},
		{"autocast, NaN", keep, tensor.BFloat16, none, wrong, verdict.Pass, "bfloat16; " + givesNaN},
		{"0 with gradients of NaN", keep, f32, zero, wrong, verdict.Fail, ""},
		{"the mean of all", keep, f32, []float64{.5, .5, .5, .5, 1, 0}, right, verdict.Fail, ""},
		{"NaN elsewhere", keep, f32, []float64{.5, .5, 0, 0, nan, 0}, right, verdict.Fail, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, k := stored(f32, []int{3, 2}, 0, 0, 0, 0, 0, 0), stored(f32, []int{2, 2}, 1, 2, 3, 4)
			v := needsGrad(stored(f32, []int{2, 2}, 1, 0, 0, 1))
			dir := record(t, attention, []value.Value{q, k, v, tc.mask}, stored(tc.dt, []int{3, 2}, tc.out...),
				value.NewTuple(nil, nil, stored(tc.dt, []int{2, 2}, tc.grad...)), value.NewTuple(ones(tc.dt)))
			o := replay.Run(entries(t, dir)[0], options(t))
			if o.Verdict() != tc.want || len(o.Results) != 2 {
				t.Fatalf("got %s, want %s: %+v", o.Verdict(), tc.want, o.Results)
			}
			reason := o.Results[0].Reason
			if tc.want == verdict.Pass && (!strings.Contains(reason, tc.reason) || tc.reason == "" && reason != "") {
				t.Errorf("reason %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestUnseeingQueriesWrong: where queries that see no key give NaN and one gradient is wrong, that one fails alone.
func TestUnseeingQueriesWrong(t *testing.T) {
	const f32 = tensor.Float32
	nan := math.NaN()
	numbers := func(v ...float64) *tensor.Tensor { return needsGrad(stored(f32, []int{2, 1, 2}, v...)) }
	keep := tensor.New(tensor.Bool, []int{2, 1, 1}, []int64{1, 0}).Rounded() // of two heads with one key
	dir := record(t, "torch.nn.functional.scaled_dot_product_attention", []value.Value{numbers(0, 0, 0, 0),
		numbers(1, 2, 3, 4), numbers(1, 2, 5, 6), keep}, stored(f32, []int{2, 1, 2}, 1, 2, nan, nan),
		value.NewTuple(numbers(0, 0, nan, nan), numbers(7, 7, nan, nan), numbers(1, 1, nan, nan)),
		value.NewTuple(stored(f32, []int{2, 1, 2}, 1, 1, 1, 1)))
	o := replay.Run(entries(t, dir)[0], options(t))
	var failing []string
	for _, r := range o.Results {
		if r.Verdict == verdict.Fail {
			failing = append(failing, r.Target)
		}
	}
	if !slices.Equal(failing, []string{"grad[1]"}) {
		t.Errorf("%v fail, want grad[1]: %+v", failing, o.Results)
	}
}

// TestMaskedSoftmax: all scores of a query of padding are the smallest number, as masks of transformers leave them,
// and its weights are equal. Rounding of the mean of gradients remains where that cancels the gradient of a weight.
func TestMaskedSoftmax(t *testing.T) {
	const f32 = tensor.Float32
	low, logs := -f32.Max(), math.Log(.25)
	for _, tc := range []struct {
		op   string
		out  float64
		grad []float64
		want verdict.Verdict
	}{
		{"softmax", .25, []float64{.125, -.125, 0x1p-26, 0x1p-26}, verdict.Pass},
		{"softmax", .25, []float64{.125, -.125, 0x1p-14, 0}, verdict.Fail},
		{"log_softmax", logs, []float64{.5, -.5, 0x1p-24, 0}, verdict.Pass},
		{"log_softmax", logs, []float64{.5, -.5, 0x1p-12, 0}, verdict.Fail},
	} {
		row := func(v ...float64) *tensor.Tensor { return stored(f32, []int{4}, v...) }
		(&judged{tc.op, "torch.nn.functional." + tc.op, []value.Value{needsGrad(row(low, low, low, low)), int64(0)},
			row(tc.out, tc.out, tc.out, tc.out), []value.Value{row(tc.grad...)}, row(1, 0, .5, .5), tc.want}).run(t,
			func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestOtherNodes records what the last node received in one version of torch or another, and gradients that belong
// to none that is known.
func TestOtherNodes(t *testing.T) {
	const f32, bf16, f64 = tensor.Float32, tensor.BFloat16, tensor.Float64
	upTo := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = float64(i + 1)
		}
		return stored(dt, shape, v...)
	}
	every := func(n, at int) value.Value {
		return value.NewTuple(value.Slice{}, value.Slice{Start: int64(at), Step: int64(n)},
			value.Slice{Start: int64(at), Step: int64(n)}, value.Slice{})
	}
	const attention, dropout = "torch.nn.functional.scaled_dot_product_attention", "torch.nn.functional.dropout"
	one := func(dt tensor.DType) *tensor.Tensor { return needsGrad(upTo(dt, 1, 2)) }
	signed, slope := stored(f32, []int{2, 1, 2}, -1, 2, -3, 4), stored(f32, []int{1}, .5)
	weight := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1, 2}, 1, 1)) }
	for _, tc := range []judged{
		{"a slice before a whole one", "torch.Tensor.__getitem__", []value.Value{needsGrad(upTo(f32, 1, 2, 2, 1)),
			every(2, 0)}, stored(f32, []int{1, 1, 1, 1}, 1), []value.Value{stored(f32, []int{1, 1, 2, 1}, 5, 0)},
			stored(f32, []int{1, 1, 1, 1}, 5), verdict.Pass},
		{"wrong there", "torch.Tensor.__getitem__", []value.Value{needsGrad(upTo(f32, 1, 2, 2, 1)),
			every(2, 0)}, stored(f32, []int{1, 1, 1, 1}, 1), []value.Value{stored(f32, []int{1, 1, 2, 1}, 0, 5)},
			stored(f32, []int{1, 1, 1, 1}, 5), verdict.Fail},
		{"a whole slice", "torch.Tensor.__getitem__", []value.Value{needsGrad(upTo(f32, 1, 2, 2, 1)),
			every(2, 0)}, stored(f32, []int{1, 1, 1, 1}, 1), []value.Value{stored(f32, []int{1, 1, 1, 1}, 5)},
			stored(f32, []int{1, 1, 1, 1}, 5), verdict.Mistrusted},
		{"of no slice", "torch.Tensor.__getitem__", []value.Value{needsGrad(upTo(f32, 1, 2, 2, 1)),
			every(2, 0)}, stored(f32, []int{1, 1, 1, 1}, 1), []value.Value{stored(f32, []int{3}, 5, 5, 5)},
			stored(f32, []int{1, 1, 1, 1}, 5), verdict.Skipped},
		{"a conversion", attention, []value.Value{one(bf16), one(bf16), one(bf16)}, upTo(bf16, 1, 2),
			[]value.Value{upTo(f32, 1, 2)}, upTo(bf16, 1, 2), verdict.Mistrusted},
		{"another value in another dtype", attention, []value.Value{one(bf16), one(bf16), one(bf16)},
			upTo(bf16, 1, 2), []value.Value{stored(f32, []int{1, 2}, 2, 1)}, upTo(bf16, 1, 2), verdict.Skipped},
		{"of value alone", attention, []value.Value{upTo(f64, 1, 2), upTo(f64, 1, 2), one(f64)}, upTo(f64, 1, 2),
			[]value.Value{nil, nil, upTo(f64, 1, 2)}, upTo(f64, 1, 2), verdict.Pass},
		{"of query alone", attention, []value.Value{one(f64), upTo(f64, 2, 2), stored(f64, []int{2, 2}, 1, 1, 1, 1)},
			stored(f64, []int{1, 2}, 1, 1), []value.Value{stored(f64, []int{1, 2}, 0, 0), nil, nil}, upTo(f64, 1, 2),
			verdict.Mistrusted},
		{"zeros", dropout, []value.Value{one(f32), 1.0, true}, stored(f32, []int{1, 2}, 0, 0),
			[]value.Value{stored(f32, []int{1, 2}, 0, 0), nil}, upTo(f32, 1, 2), verdict.Mistrusted},
		{"a view of a sample", "torch.nn.functional.dropout1d", []value.Value{one(f32), 1.0, true},
			stored(f32, []int{1, 2}, 0, 0), []value.Value{upTo(f32, 1, 1, 2)}, upTo(f32, 1, 2), verdict.Mistrusted},
		{"a sum", "torch.nn.functional.linear", []value.Value{needsGrad(upTo(f32, 1, 2, 3).Permute(0, 2, 1)), weight(),
			needsGrad(stored(f32, []int{1}, 0))}, stored(bf16, []int{1, 3, 1}, 5, 7, 9),
			[]value.Value{upTo(bf16, 1, 3, 1), stored(bf16, []int{1}, 6)}, upTo(bf16, 1, 3, 1), verdict.Mistrusted},
		{"a transposed gradient", "torch.stft", []value.Value{needsGrad(upTo(f32, 4)), int64(2), int64(2), nil, nil,
			false, "reflect", false, true, false}, stored(f32, []int{2, 2, 2}, 3, 0, 7, 0, -1, 0, -1, 0),
			[]value.Value{turned4(f32)}, upTo(f32, 2, 2, 2), verdict.Mistrusted},
		{"a slope seen as self", "torch.nn.functional.prelu", []value.Value{needsGrad(signed), needsGrad(slope)},
			stored(f32, []int{2, 1, 2}, -.5, 2, -1.5, 4), []value.Value{stored(f32, []int{2, 1, 2}, .5, 1, .5, 1),
				stored(f32, []int{1, 1, 1}, -4)}, stored(f32, []int{2, 1, 2}, 1, 1, 1, 1), verdict.Pass},
		{"a slope of its own", "torch.nn.functional.prelu", []value.Value{needsGrad(signed), needsGrad(slope)},
			stored(f32, []int{2, 1, 2}, -.5, 2, -1.5, 4), []value.Value{stored(f32, []int{2, 1, 2}, .5, 1, .5, 1),
				stored(f32, []int{1}, -4)}, stored(f32, []int{2, 1, 2}, 1, 1, 1, 1), verdict.Pass},
	} {
		tc.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// turned4 is what upTo gives in shape [2, 2, 2] before its first two dimensions were exchanged.
func turned4(dt tensor.DType) *tensor.Tensor {
	return stored(dt, []int{2, 2, 2}, 1, 2, 5, 6, 3, 4, 7, 8)
}

// TestDetachedArguments: a gradient that was recorded of an argument that does not require one any more is judged.
func TestDetachedArguments(t *testing.T) {
	const f32 = tensor.Float32
	x, w := stored(f32, []int{1, 2}, 3, 4), stored(f32, []int{2}, 1, 2)
	up := stored(f32, []int{1, 2}, 1, 0)
	silu := func(v float64) float64 { return v / (1 + math.Exp(-v)) }
	slope := func(v float64) float64 { s := 1 / (1 + math.Exp(-v)); return s + v*s*(1-s) }
	for _, tc := range []struct {
		name  string
		op    string
		args  []value.Value
		out   []float64
		shape []int
		grads []value.Value
		want  verdict.Verdict
	}{
		{"composed", "torch_npu.npu_swiglu", []value.Value{x}, []float64{silu(3) * 4}, []int{1, 1},
			[]value.Value{stored(f32, []int{1, 2}, slope(3)*4, silu(3))}, verdict.Pass},
		{"composed, wrong", "torch_npu.npu_swiglu", []value.Value{x}, []float64{silu(3) * 4}, []int{1, 1},
			[]value.Value{stored(f32, []int{1, 2}, slope(3)*4, 2*silu(3))}, verdict.Fail},
		{"product", "torch.mul", []value.Value{x, w}, []float64{3, 8}, []int{1, 2},
			[]value.Value{stored(f32, []int{1, 2}, 1, 0), stored(f32, []int{2}, 3, 0)}, verdict.Pass},
		{"product, one of them", "torch.mul", []value.Value{x, w}, []float64{3, 8}, []int{1, 2},
			[]value.Value{nil, stored(f32, []int{2}, 4, 0)}, verdict.Fail},
	} {
		u := up
		if len(tc.out) == 1 {
			u = stored(f32, []int{1, 1}, 1)
		}
		made := map[capture.Kind]*capture.Record{
			capture.Input:       {Args: tc.args},
			capture.Output:      {Args: []value.Value{stored(f32, tc.shape, tc.out...)}},
			capture.GradInputs:  {Args: tc.grads},
			capture.GradOutputs: {Args: []value.Value{u}},
		}
		for k, r := range made {
			r.Name, r.Identifier, r.Kwargs = tc.op, tc.op+"/"+k.String(), &value.Dict{}
		}
		o := replay.Of(capture.Made(made), options(t)).Compare()
		if o.Verdict() != tc.want || !slices.ContainsFunc(o.Results, func(r replay.Result) bool {
			return r.Phase == replay.Backward && r.Compared != nil
		}) {
			t.Errorf("%s: got %s, want %s: %+v", tc.name, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestScaleOfResult: float8 results of a scaled product may be multiplied or divided by scale_result, all of them.
func TestScaleOfResult(t *testing.T) {
	const f8 = tensor.Float8E4M3FN
	one, scale := stored(tensor.Float32, nil, 1), stored(tensor.Float32, nil, 16)
	x, y := stored(f8, []int{2, 2}, 1, 2, -1, 4), stored(f8, []int{2, 2}, 1, 0, 0, 1)
	for _, tc := range []struct {
		name   string
		out    []float64
		want   verdict.Verdict
		reason string
	}{
		{"multiplied", []float64{16, 32, -16, 64}, verdict.Pass, "results are multiplied by scale_result (CUDA)"},
		{"divided", []float64{.0625, .125, -.0625, .25}, verdict.Pass, "divided by scale_result (torch 2.15 on the CPU)"},
		{"not scaled", []float64{1, 2, -1, 4}, verdict.Fail, ""},
		{"one of each", []float64{16, 32, -.0625, .25}, verdict.Fail, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []value.Value{x, y, one, one, nil, scale}
			dir := record(t, "torch._scaled_mm", args, stored(f8, []int{2, 2}, tc.out...))
			o := replay.Run(entries(t, dir)[0], options(t))
			if o.Verdict() != tc.want || len(o.Results) != 1 {
				t.Fatalf("got %s, want %s: %+v", o.Verdict(), tc.want, o.Results)
			}
			if reason := o.Results[0].Reason; tc.want == verdict.Pass && !strings.Contains(reason, tc.reason) {
				t.Errorf("reason %q, want %q", reason, tc.reason)
			}
		})
	}
}
