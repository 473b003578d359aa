package replay_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// record writes a call of op as op_tools does; grads are grad_inputs and
// grad_outputs, if any.
func record(t *testing.T, op string, args []value.Value, result value.Value, grads ...value.Value) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), op)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	files := map[string]value.Value{"input": value.NewTuple(args...), "output": value.NewTuple(result)}
	for i, g := range grads {
		files[[]string{"grad_inputs", "grad_outputs"}[i]] = g
	}
	for name, args := range files {
		root := &value.Dict{Items: []value.Item{
			{Key: "name", Value: op}, {Key: "args", Value: args}, {Key: "kwargs", Value: &value.Dict{}},
			{Key: "identifier", Value: "1/2026-11-20-21-05-57/" + name},
		}}
		if err := pthformat.WriteFile(filepath.Join(dir, name+".pth"), root); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func stored(dt tensor.DType, shape []int, v ...float64) *tensor.Tensor {
	return tensor.New(dt, shape, v).Rounded()
}

func needsGrad(x *tensor.Tensor) *tensor.Tensor {
	x.RequiresGrad = true
	return x
}

// TestReadings replays calls whose results are right only with what torch does
// to arguments before it computes.
func TestReadings(t *testing.T) {
	const f32, bf16 = tensor.Float32, tensor.BFloat16
	x := func(dt tensor.DType) *tensor.Tensor { return needsGrad(stored(dt, []int{1, 2}, 1.00390625, 3)) }
	w := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1, 2}, 1, 1)) }
	b := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1}, 0)) }
	const linear = "torch.nn.functional.linear"
	for _, tc := range []struct {
		name    string
		op      string
		args    []value.Value
		result  value.Value
		grads   []value.Value
		want    verdict.Verdict
		reason  string
		results int
	}{
		{"float32 under autocast", linear, []value.Value{x(f32), w(), b()}, stored(bf16, []int{1, 1}, 4), []value.Value{
			value.NewTuple(stored(bf16, []int{1}, 2), stored(bf16, []int{1, 2}, 2, 2), stored(bf16, []int{2, 1}, 2, 6)),
			value.NewTuple(stored(bf16, []int{1, 1}, 2)),
		}, verdict.Pass, "as under autocast: arguments cast to bfloat16", 4},
		{"dtypes mixed under autocast", linear, []value.Value{x(bf16), w(), b()}, stored(bf16, []int{1, 1}, 4), nil,
			verdict.Pass, "as under autocast: arguments cast to bfloat16", 1},
		{"wrong under autocast", linear, []value.Value{x(f32), w(), b()}, stored(bf16, []int{1, 1}, 4.5), nil,
			verdict.Fail, "got 4.5 want 4 (16 ulp); as under autocast: arguments cast to bfloat16", 1},
		{"wrong with mixed dtypes", linear, []value.Value{x(bf16), w(), b()}, stored(bf16, []int{1, 1}, 4.5), nil,
			verdict.Fail, "", 1},
		{"float32 under autocast", "torch.exp", []value.Value{stored(bf16, []int{1}, 1)},
			stored(f32, []int{1}, 2.7182817), nil, verdict.Pass, "as under autocast: arguments cast to float32", 1},
		{"no op of autocast", "torch.abs", []value.Value{stored(f32, []int{1}, -1)}, stored(bf16, []int{1}, 1), nil,
			verdict.Fail, "dtype is bfloat16, want float32", 1},
		// 0.0316 is 0.031494140625 in bfloat16
		{"number rounded first", "torch.Tensor.remainder", []value.Value{stored(bf16, []int{2}, 0.125, 1), 0.0316},
			stored(bf16, []int{2}, 0.030517578125, 0.023681640625), nil,
			verdict.Warn, "numbers among the arguments were rounded to bfloat16 first", 1},
		{"number as it is", "torch.Tensor.remainder", []value.Value{stored(bf16, []int{1}, 1), 0.0316},
			stored(bf16, []int{1}, 1-31*0.0316), nil, verdict.Pass, "", 1},
		{"wrong with either number", "torch.Tensor.remainder", []value.Value{stored(bf16, []int{1}, 1), 0.0316},
			stored(bf16, []int{1}, 0.03), nil, verdict.Fail, "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := replay.Run(entries(t, record(t, tc.op, tc.args, tc.result, tc.grads...))[0], options(t))
			if o.Verdict() != tc.want || len(o.Results) != tc.results || tc.reason != "" &&
				o.Results[0].Reason != tc.reason {
				t.Errorf("got %s %+v, want %s %q and %d results", o.Verdict(), o.Results, tc.want, tc.reason,
					tc.results)
			}
		})
	}
}

// TestHiddenResults replays a gradient of a node with results that the op does
// not return, as group_norm's.
func TestHiddenResults(t *testing.T) {
	x := needsGrad(stored(tensor.Float32, []int{2}, -1, 2))
	dir := record(t, "torch.relu", []value.Value{x}, stored(tensor.Float32, []int{2}, 0, 2),
		value.NewTuple(stored(tensor.Float32, []int{2}, 0, 5)), value.NewTuple(stored(tensor.Float32, []int{2}, 3, 5),
			nil, nil))
	o := replay.Run(entries(t, dir)[0], options(t))
	if len(o.Results) != 2 || o.Results[1].Verdict != verdict.Pass || o.Results[1].Phase != replay.Backward {
		t.Errorf("got %+v, want a gradient that passes", o.Results)
	}
}

// TestReturnedList replays an op that changes a list in place, which returns
// nothing in torch 1 and the list in torch 2.
func TestReturnedList(t *testing.T) {
	x := func(v ...float64) *tensor.Tensor { return stored(tensor.Float32, []int{1}, v...) }
	for _, tc := range []struct {
		name   string
		result value.Value
		want   []verdict.Verdict
	}{
		{"nothing", nil, []verdict.Verdict{verdict.Skipped}},
		{"the list", value.NewList(x(4), x(5)), []verdict.Verdict{verdict.Pass, verdict.Pass}},
		{"a wrong list", value.NewList(x(4), x(2)), []verdict.Verdict{verdict.Pass, verdict.Fail}},
		{"a shorter list", value.NewList(x(4)), []verdict.Verdict{verdict.Fail}},
	} {
		args := []value.Value{value.NewList(x(1), x(2)), 3.0}
		o := replay.Run(entries(t, record(t, "torch._foreach_add_", args, tc.result))[0], options(t))
		var got []verdict.Verdict
		for _, r := range o.Results {
			got = append(got, r.Verdict)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestBomb replays a call whose arguments stand for 2^40 values.
func TestBomb(t *testing.T) {
	bomb := value.NewList()
	for range 40 {
		bomb = value.NewList(bomb, bomb)
	}
	o := replay.Run(entries(t, record(t, "torch.relu", []value.Value{bomb}, nil))[0], options(t))
	if o.Verdict() != verdict.Invalid {
		t.Errorf("got %+v, want an invalid call", o.Results)
	}
}

// TestResultOfAnotherOp replays a call whose output.pth names another op.
func TestResultOfAnotherOp(t *testing.T) {
	x := stored(tensor.Float32, []int{1}, 1)
	dir := record(t, "torch.abs", []value.Value{x}, x)
	other := record(t, "torch.exp", []value.Value{x}, x)
	if err := os.Rename(filepath.Join(other, "output.pth"), filepath.Join(dir, "output.pth")); err != nil {
		t.Fatal(err)
	}
	o := replay.Run(entries(t, dir)[0], options(t))
	if len(o.Results) != 1 || o.Results[0].Verdict != verdict.Fail ||
		o.Results[0].Reason != "output.pth is of torch.exp, not of torch.abs" {
		t.Errorf("got %+v", o.Results)
	}
}

// TestUnknownOps: one that neither takes nor gives a value is not missed.
func TestUnknownOps(t *testing.T) {
	x := stored(tensor.Float32, []int{1}, 2)
	for _, tc := range []struct {
		name   string
		args   []value.Value
		result value.Value
		want   verdict.Verdict
	}{
		{"of a mode", []value.Value{true}, nil, verdict.Skipped},
		{"of a tensor", []value.Value{x}, nil, verdict.Unsupported},
		{"of a list", []value.Value{value.NewList(x)}, nil, verdict.Unsupported},
		{"of an object", []value.Value{&value.Opaque{Global: "some.Tensor"}}, nil, verdict.Unsupported},
		{"with a result", []value.Value{true}, x, verdict.Unsupported},
		{"with a number", []value.Value{true}, int64(1), verdict.Unsupported},
	} {
		call := map[capture.Kind]*capture.Record{capture.Input: {Args: tc.args},
			capture.Output: {Args: []value.Value{tc.result}}}
		for k, r := range call {
			r.Name, r.Identifier, r.Kwargs = "torch._C.no_such_op", "torch._C.no_such_op/"+k.String(), &value.Dict{}
		}
		if o := replay.Of(capture.Made(call), options(t)).Compare(); o.Verdict() != tc.want {
			t.Errorf("%s: got %s, want %s: %+v", tc.name, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestMisnested: one tensor is not a sequence of one, either way round.
func TestMisnested(t *testing.T) {
	x := stored(tensor.Float32, []int{1}, 2)
	one, zero := value.NewTuple(x), stored(tensor.Int64, []int{1}, 0)
	for _, tc := range []struct {
		op     string
		args   []value.Value
		result value.Value
		want   verdict.Verdict
	}{
		{"torch.abs", nil, x, verdict.Pass},
		{"torch.abs", nil, one, verdict.Fail},
		{"torch.abs", nil, value.NewList(x), verdict.Fail},
		{"torch.split", []value.Value{int64(1)}, one, verdict.Pass},
		{"torch.split", []value.Value{int64(1)}, x, verdict.Fail},
		{"torch.unbind", nil, value.NewTuple(stored(tensor.Float32, []int{}, 2)), verdict.Pass},
		{"torch.nonzero", nil, stored(tensor.Int64, []int{1, 1}, 0), verdict.Pass},
		{"torch.where", nil, value.NewTuple(zero), verdict.Pass},
	} {
		o := replay.Run(entries(t, record(t, tc.op, append([]value.Value{x}, tc.args...), tc.result))[0], options(t))
		if o.Verdict() != tc.want {
			t.Errorf("%s: recorded %s: got %s %+v, want %s", tc.op, value.Repr(tc.result), o.Verdict(), o.Results,
				tc.want)
		}
	}
}

// TestRMSNormEps: without eps torch takes the machine epsilon of float32 for 16 bits, and took
// that of 16 bits before 2.7. Both are right, and nothing else is.
func TestRMSNormEps(t *testing.T) {
	const rows, width = 16, 24
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		r := rand.New(rand.NewPCG(1, 7))
		x := make([]float64, rows*width)
		for i := range x {
			x[i] = dt.Round(0.05 * r.NormFloat64())
		}
		for eps, right := range map[float64]bool{tensor.Float32.Eps(): true, dt.Eps(): true, 1e-4: false} {
			y := make([]float64, len(x))
			for row := 0; row < len(x); row += width {
				squares := 0.0
				for _, v := range x[row : row+width] {
					squares += v * v
				}
				for i := row; i < row+width; i++ {
					y[i] = x[i] / math.Sqrt(squares/width+eps)
				}
			}
			shape := []int{rows, width}
			dir := record(t, "torch.nn.functional.rms_norm",
				[]value.Value{stored(dt, shape, x...), value.NewList(int64(width))}, stored(dt, shape, y...))
			o := replay.Run(entries(t, dir)[0], options(t))
			if (o.Verdict() == verdict.Pass) != right {
				t.Errorf("%v, eps %g: %s: %s", dt, eps, o.Verdict(), o.Results[0].Reason)
			}
		}
	}
}
