package replay_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestZerosOfLists: zeros in a list pass if another item of the list passes, since the kernel ran; a list of zeros
// only is mistrusted. An argument that the call leaves alone passes whatever it holds.
func TestZerosOfLists(t *testing.T) {
	const f32 = tensor.Float32
	list := func(v ...float64) value.Value {
		items := make([]value.Value, len(v))
		for i, x := range v {
			items[i] = stored(f32, []int{2}, x, x)
		}
		return value.NewList(items...)
	}
	for _, tc := range []struct {
		name          string
		before, after value.Value
		want          []verdict.Verdict // of the returned list, then of the arguments after the call
	}{
		{"one item is not zero", list(0, 3), list(0, 6), []verdict.Verdict{verdict.Pass, verdict.Pass, verdict.Pass,
			verdict.Pass, verdict.Pass}},
		{"all items are zero", list(0, 0), list(0, 0), []verdict.Verdict{verdict.Mistrusted, verdict.Mistrusted,
			verdict.Mistrusted, verdict.Mistrusted, verdict.Pass}},
		{"the other item is wrong", list(0, 3), list(0, 5), []verdict.Verdict{verdict.Mistrusted, verdict.Fail,
			verdict.Mistrusted, verdict.Fail, verdict.Pass}},
	} {
		const op = "torch._foreach_mul_"
		two := stored(f32, nil, 2)
		dir := record(t, op, []value.Value{tc.before, two}, tc.after)
		write(t, filepath.Join(dir, "after.pth"), op, []value.Value{tc.after, two})
		var got []verdict.Verdict
		for _, r := range replay.Run(entries(t, dir)[0], options(t)).Results {
			got = append(got, r.Verdict)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	const op = "torch.add"
	zero, one := stored(f32, []int{2}, 0, 0), stored(f32, []int{2}, 1, 1)
	for changed, want := range map[*tensor.Tensor]verdict.Verdict{zero: verdict.Pass, one: verdict.Fail} {
		dir := record(t, op, []value.Value{zero, one}, one)
		write(t, filepath.Join(dir, "after.pth"), op, []value.Value{changed, one})
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != want {
			t.Errorf("an argument of zeros is %v afterwards: %s, want %s", changed, o.Verdict(), want)
		}
	}
	o := replay.Run(entries(t, record(t, "torch.arange", []value.Value{int64(1)},
		tensor.New(tensor.Int64, []int{1}, []int64{0})))[0], options(t))
	if o.Verdict() != verdict.Pass {
		t.Errorf("arange(1): %s, want pass: %+v", o.Verdict(), o.Results)
	}
}

// TestAutocastWithoutResult: a call under autocast that did not return, as the last one that checkpointing computes
// again, is skipped, not refused for the dtypes of its arguments.
func TestAutocastWithoutResult(t *testing.T) {
	args := []value.Value{stored(tensor.BFloat16, []int{1, 2}, 1, 2), stored(tensor.Float32, []int{1, 2}, 3, 4)}
	for _, tc := range []struct {
		autocast map[string]string
		want     verdict.Verdict
	}{{map[string]string{"cpu": "bfloat16"}, verdict.Skipped}, {map[string]string{"cuda": "bfloat16"}, verdict.Error},
		{map[string]string{}, verdict.Error}, {nil, verdict.Error}} {
		e := recordCall(t, "torch.nn.functional.linear", args, nil)
		e.Autocast = tc.autocast
		if o := replay.Run(e, options(t)); o.Verdict() != tc.want {
			t.Errorf("autocast %v: got %s, want %s: %+v", tc.autocast, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestProductsUnderAutocast: tensordot, bilinear and einsum have no rule of their own under autocast on the CPU; the
// products that make them are computed in 16 bits.
func TestProductsUnderAutocast(t *testing.T) {
	const f32, bf16 = tensor.Float32, tensor.BFloat16
	x, w := stored(f32, []int{1, 2}, 1.001, 2), stored(f32, []int{2, 1}, 1, 3)
	square := stored(f32, []int{2, 2}, 1.5, 0.5, 0, 1.25)
	pairs := stored(f32, []int{2, 6}, -0.34375, -0.703125, 0.875, 0.078125, -0.03125, -0.234375,
		-0.28125, 0.78125, 0.03125, -0.875, -0.625, 0.53125)
	three := []value.Value{"ab,bc,c->ac", stored(f32, []int{1, 1}, 1.001), stored(bf16, []int{1, 1}, 3),
		stored(f32, []int{1}, 1)}
	for _, tc := range []struct {
		name, op string
		args     []value.Value
		result   *tensor.Tensor
		want     verdict.Verdict
		reason   string
	}{
		{"in 16 bits", "torch.tensordot", []value.Value{x, w, int64(1)}, stored(bf16, []int{1, 1}, 7), verdict.Pass,
			"as under autocast: arguments cast to bfloat16"},
		{"wrong in 16 bits", "torch.tensordot", []value.Value{x, w, int64(1)}, stored(bf16, []int{1, 1}, 7.25),
			verdict.Fail, "as under autocast: arguments cast to bfloat16"},
		{"in float32", "torch.tensordot", []value.Value{x, w, int64(1)}, stored(f32, []int{1, 1}, 7.001), verdict.Pass,
			""},
		{"added in float32", "torch.nn.functional.bilinear", []value.Value{stored(f32, []int{1, 1}, 1.001),
			stored(f32, []int{1, 1}, 3), stored(f32, []int{1, 1, 1}, 1), nil}, stored(f32, []int{1, 1}, 3),
			verdict.Warn, "as under autocast: products in "},
		{"wrong", "torch.nn.functional.bilinear", []value.Value{stored(f32, []int{1, 1}, 1.001),
			stored(f32, []int{1, 1}, 3), stored(f32, []int{1, 1, 1}, 1), nil}, stored(f32, []int{1, 1}, 3.2),
			verdict.Fail, ""},
		{"of three operands", "torch.einsum", three, stored(f32, []int{1, 1}, 3), verdict.Warn,
			"as under autocast: products in "},
		{"wrong of three operands", "torch.einsum", three, stored(f32, []int{1, 1}, 3.2), verdict.Fail, ""},
		{"of two operands in fewer bits", "torch.einsum", []value.Value{"ab,bc->ac", stored(f32, []int{1, 1}, 1.001),
			stored(f32, []int{1, 1}, 3)}, stored(f32, []int{1, 1}, 3), verdict.Fail, ""},
		{"what is written", "torch.index_copy", []value.Value{x, int64(1), tensor.New(tensor.Int64, []int{1},
			[]int64{1}), stored(bf16, []int{1, 1}, 3)}, stored(f32, []int{1, 2}, 1.001, 3), verdict.Pass,
			"as under autocast: arguments cast to float32"},
		{"pooled back", "torch.nn.functional.max_unpool1d", []value.Value{stored(bf16, []int{1, 1, 1}, 3),
			tensor.New(tensor.Int64, []int{1, 1, 1}, []int64{1}), int64(2)}, stored(f32, []int{1, 1, 2}, 0, 3),
			verdict.Pass, "as under autocast: arguments cast to float32"},
		{"inside", "torch.linalg.matrix_power", []value.Value{square, int64(2)},
			stored(bf16, []int{2, 2}, 2.25, 1.375, 0, 1.5625), verdict.Pass, "as under autocast: products in bfloat16"},
		{"wrong inside", "torch.linalg.matrix_power", []value.Value{square, int64(2)},
			stored(bf16, []int{2, 2}, 2.5, 1.375, 0, 1.5625), verdict.Fail, ""},
		{"after the mean", "torch.cov", []value.Value{stored(f32, []int{1, 2}, 1000.5, 1002.5)}, stored(bf16, nil, 2),
			verdict.Pass, "as under autocast: products in bfloat16"},
		{"the products rounded", "torch.cov", []value.Value{pairs}, stored(bf16, []int{2, 2}, 0.283203125,
			-0.1259765625, -0.1259765625, 0.41796875), verdict.Warn, "accumulated in bfloat16"},
		{"a trace", "torch.trace", []value.Value{stored(bf16, []int{1, 1}, 3)}, stored(f32, nil, 3), verdict.Pass,
			"as under autocast: arguments cast to float32"},
		{"a transform", "torch.fft.fft", []value.Value{stored(tensor.Float16, []int{1}, 3)},
			tensor.New(tensor.Complex64, []int{1}, []complex128{3}), verdict.Pass,
			"as under autocast: arguments cast to float32"},
		{"steps of a quantized tensor", "torch.fake_quantize_per_tensor_affine", []value.Value{
			stored(bf16, []int{2}, 0.7, -3), 0.5, int64(0), int64(-4), int64(3)}, stored(f32, []int{2}, 0.5, -2),
			verdict.Pass, "as under autocast: arguments cast to float32"},
		{"an affine grid", "torch.nn.functional.affine_grid", []value.Value{stored(f32, []int{1, 2, 3}, 1, 0, 0.3,
			0, 1, 1.001), value.NewList(int64(1), int64(1), int64(1), int64(1)), false},
			stored(bf16, []int{1, 1, 1, 2}, 0.30078125, 1), verdict.Pass,
			"as under autocast: arguments cast to bfloat16"},
		{"in float32 of 16 bits", "torch.linalg.svdvals", []value.Value{stored(bf16, []int{2, 2}, 3, 0, 0, 2)},
			stored(f32, []int{2}, 3, 2), verdict.Pass, "as under autocast: arguments cast to float32"},
	} {
		o := replay.Run(entries(t, record(t, tc.op, tc.args, tc.result))[0], options(t))
		if o.Verdict() != tc.want || !strings.Contains(o.Results[0].Reason, tc.reason) {
			t.Errorf("%s %s: got %s %+v, want %s %q", tc.op, tc.name, o.Verdict(), o.Results, tc.want, tc.reason)
		}
	}
}

// TestLogOfDeterminant: an error of the determinant by a factor is one of its logarithm by a number, also where the
// determinant is nearly 1 and the logarithm nearly 0.
func TestLogOfDeterminant(t *testing.T) {
	const f32 = tensor.Float32
	a := stored(f32, []int{2, 2}, 1.25, 0.5, 0.75, 1.104)
	m := tensor.Data[float64](a)
	exact := math.Log(m[0]*m[3] - m[1]*m[2])
	for name, result := range map[string]func(v float64) value.Value{
		"torch.linalg.slogdet": func(v float64) value.Value {
			return value.NewTuple(stored(f32, nil, 1), stored(f32, nil, v))
		},
		"torch.logdet": func(v float64) value.Value { return stored(f32, nil, v) },
	} {
		for off, want := range map[float64]verdict.Verdict{3e-7: verdict.Pass, 1e-3: verdict.Fail} {
			o := replay.Run(entries(t, record(t, name, []value.Value{a}, result(exact+off)))[0], options(t))
			if o.Verdict() != want {
				t.Errorf("%s off by %g: got %s, want %s: %+v", name, off, o.Verdict(), want, o.Results)
			}
		}
	}
	if math.Abs(exact) > 0.01 {
		t.Errorf("the logarithm is %g, want one of nearly 0", exact)
	}
}

// TestGradientsStepByStep: torch composes some gradients of operators that round each step to float16, where squares
// overflow and cubes lose bits.
func TestGradientsStepByStep(t *testing.T) {
	const f16 = tensor.Float16
	h := f16.Round
	for _, tc := range []struct {
		op          string
		x           float64
		y, steps, d float64 // the result, the gradient in steps and the exact one
	}{
		{"torch.rsqrt", 30000, h(1 / math.Sqrt(30000)), h(-0.5 * h(math.Pow(h(1/math.Sqrt(30000)), 3))),
			-0.5 / math.Pow(30000, 1.5)},
		{"torch.atan", 400, h(math.Atan(400)), 0, 1. / 160001},
		{"torch.asinh", 400, h(math.Asinh(400)), 0, 1 / math.Sqrt(160001)},
		{"torch.reciprocal", 0x1p-12, 4096, math.Inf(-1), -0x1p24},
	} {
		one := func(v float64) *tensor.Tensor { return stored(f16, []int{1}, v) }
		up := one(1)
		if tc.op == "torch.reciprocal" { // the square overflows, the gradient would not
			up, tc.d = one(0x1p-10), -0x1p14
		}
		for v, want := range map[float64]verdict.Verdict{tc.steps: verdict.Pass, tc.d: verdict.Pass,
			1.1*tc.d + 1e-5: verdict.Fail} {
			r := gradientOf(t, tc.op, []value.Value{needsGrad(one(tc.x))}, one(tc.y), up, one(v))
			if r.Verdict != want && !(want == verdict.Pass && r.Verdict == verdict.Mistrusted) {
				t.Errorf("%s: the gradient %g is %s, want %s: %s", tc.op, v, r.Verdict, want, r.Reason)
			}
		}
	}
}

// TestMaskedRowStaysAmongValues: where a mask adds -1e9 to all scores of a query, rounding decides the weights; the
// result is an average of the values all the same.
func TestMaskedRowStaysAmongValues(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		q, k := stored(dt, []int{1, 2}, 1, 2), stored(dt, []int{3, 2}, 1, 0, 0, 1, 1, 1)
		v, mask := stored(dt, []int{3, 1}, 1, 2, 4), tensor.Full(dt, []int{1, 3}, dt.Round(-1e9)).Rounded()
		for result, want := range map[float64]verdict.Verdict{2.328125: verdict.Pass, 3.3: verdict.Pass,
			5.5: verdict.Fail,
			0.5: verdict.Fail, -2: verdict.Fail} {
			o := replay.Run(entries(t, record(t, "torch.nn.functional.scaled_dot_product_attention",
				[]value.Value{q, k, v, mask}, stored(dt, []int{1, 1}, result)))[0], options(t))
			if o.Verdict() != want {
				t.Errorf("%s: the result %g among values of 1 to 4 is %s, want %s: %+v", dt, result, o.Verdict(), want,
					o.Results)
			}
		}
	}
}

// TestMomentumNearOne: torch's CPU kernels round the momentum to the dtype of the statistics.
func TestMomentumNearOne(t *testing.T) {
	const op = "torch.nn.functional.batch_norm"
	for _, tc := range []struct {
		dt       tensor.DType
		variance float64
		want     verdict.Verdict
	}{
		{tensor.Float32, 9.99999046e-5, verdict.Pass}, {tensor.Float32, 1.002e-4, verdict.Fail},
		{tensor.BFloat16, 1.0001e-4, verdict.Pass}, {tensor.BFloat16, 1.1726e-4, verdict.Pass}, // 0.99 is 0.98828
		{tensor.BFloat16, 1.09e-4, verdict.Fail},
	} {
		x, mean := stored(tc.dt, []int{2, 1}, 0, 0), stored(tc.dt, []int{1}, 0)
		args := func(variance float64) []value.Value {
			return []value.Value{x, mean, stored(tc.dt, []int{1}, variance), nil, nil, true, 0.99, 1e-3}
		}
		dir := record(t, op, args(0.01), x)
		write(t, filepath.Join(dir, "after.pth"), op, args(tc.variance))
		for _, r := range replay.Run(entries(t, dir)[0], options(t)).Results {
			if r.Target == "input[2]" && r.Verdict != tc.want {
				t.Errorf("%s, a variance of %g: got %s, want %s: %s", tc.dt, tc.variance, r.Verdict, tc.want, r.Reason)
			}
		}
	}
}

// TestPaddingMeetsInfinity: oneDNN leaves zeros of the padding out, other kernels multiply them by infinity.
func TestPaddingMeetsInfinity(t *testing.T) {
	const f32 = tensor.Float32
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		name             string
		result, gradient []float64
		want             verdict.Verdict
	}{
		{"left out", []float64{2, inf}, []float64{1, inf, inf}, verdict.Pass},
		{"multiplied", []float64{nan, inf}, []float64{nan, inf, inf}, verdict.Pass},
		{"another number", []float64{3, inf}, []float64{1, inf, inf}, verdict.Fail},
		{"another gradient", []float64{2, inf}, []float64{2, inf, inf}, verdict.Fail},
		{"NaN for infinity", []float64{2, nan}, []float64{1, inf, inf}, verdict.Fail},
	} {
		x, w := stored(f32, []int{1, 1, 2}, 1, 1), needsGrad(stored(f32, []int{1, 1, 3}, inf, 1, 1))
		dir := record(t, "torch.nn.functional.conv1d", []value.Value{x, w, nil, int64(1), int64(1)},
			stored(f32, []int{1, 1, 2}, tc.result...), value.NewTuple(nil, stored(f32, []int{1, 1, 3}, tc.gradient...)),
			value.NewTuple(stored(f32, []int{1, 1, 2}, inf, 1)))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != tc.want {
			t.Errorf("%s: got %s, want %s: %+v", tc.name, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestFewStatistics: a variance of many elements that is added in float32 scales all results alike; those of many rows
// are not all off to one side.
func TestFewStatistics(t *testing.T) {
	const f32, n = tensor.Float32, 2048
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 2*n) // 2048 rows of 2 channels, or the other way around
	for i := range x {
		x[i] = float64(float32(r.NormFloat64()))
	}
	for _, tc := range []struct {
		op          string
		rows, width int // the statistics are of columns, or of rows
		factor      float64
		want        verdict.Verdict
	}{
		{"torch.nn.functional.batch_norm", n, 2, 1 + 12*0x1p-23, verdict.Pass},
		{"torch.nn.functional.batch_norm", n, 2, 1 + 80*0x1p-23, verdict.Fail},
		{"torch.nn.functional.layer_norm", 128, 32, 1 + 12*0x1p-23, verdict.Fail},
	} {
		groups, each := tc.width, tc.rows
		at := func(group, i int) int { return i*tc.width + group }
		args := []value.Value{stored(f32, []int{tc.rows, tc.width}, x...), nil, nil, nil, nil, true}
		if tc.op == "torch.nn.functional.layer_norm" {
			groups, each = tc.rows, tc.width
			at = func(group, i int) int { return group*tc.width + i }
			args = []value.Value{args[0], value.NewTuple(int64(tc.width))}
		}
		y := make([]float64, len(x))
		for g := range groups {
			var sum, squares float64
			for i := range each {
				sum, squares = sum+x[at(g, i)], squares+x[at(g, i)]*x[at(g, i)]
			}
			mean := sum / float64(each)
			for i := range each {
				y[at(g, i)] = tc.factor * (x[at(g, i)] - mean) / math.Sqrt(squares/float64(each)-mean*mean+1e-5)
			}
		}
		dir := record(t, tc.op, args, stored(f32, []int{tc.rows, tc.width}, y...))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != tc.want {
			t.Errorf("%s times %g: got %s, want %s: %+v", tc.op, tc.factor, o.Verdict(), tc.want, o.Results)
		}
	}
}
