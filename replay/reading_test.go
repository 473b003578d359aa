package replay_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// record writes a call of op as op_tools does; grads are grad_inputs and
// grad_outputs, if any.
func record(t *testing.T, op string, args []value.Value, result value.Value, grads ...value.Value) string {
	t.Helper()
	return recordAs(t, "1/2026-11-20-21-05-57/", op, args, result, grads...)
}

// recordAs writes a call whose identifiers begin so: with the name of op, it is not by op_tools.
func recordAs(t *testing.T, identifier, op string, args []value.Value, result value.Value,
	grads ...value.Value) string {
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
			{Key: "identifier", Value: identifier + name},
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
	const f32, bf16, f16 = tensor.Float32, tensor.BFloat16, tensor.Float16
	x := func(dt tensor.DType) *tensor.Tensor { return needsGrad(stored(dt, []int{1, 2}, 1.00390625, 3)) }
	w := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1, 2}, 1, 1)) }
	b := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1}, 0)) }
	const linear = "torch.nn.functional.linear"
	row := func(factor float64) *tensor.Tensor {
		v := make([]float64, 1000)
		for i := range v {
			v[i] = float64(float32(1+float64(i)/1000)) * factor
		}
		return needsGrad(stored(f32, []int{1000}, v...))
	}
	number := float64(float32(0.3))
	near := []float64{0.6796875, 0.68359375, 0.6875, 0.69140625, 0.6953125, 0.69921875, 0.703125, 0.70703125}
	cell := func() []value.Value {
		return []value.Value{stored(f32, []int{1, 2}, 1.1, -0.7), stored(f32, []int{1, 1}, 0.3),
			stored(f32, []int{3, 2}, 0.9, 0.2, -0.4, 1.3, 0.7, -1.1), stored(f32, []int{3, 1}, 0.5, -0.3, 0.8)}
	}
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
		{"the product within", "torch.linalg.vecdot", []value.Value{x(f32), w()}, stored(bf16, []int{1}, 4), nil,
			verdict.Pass, "as under autocast: arguments cast to bfloat16", 1},
		{"the product within", "torch.inner", []value.Value{x(f32), w()}, stored(bf16, []int{1, 1}, 4), nil,
			verdict.Pass, "as under autocast: arguments cast to bfloat16", 1},
		{"a cell under autocast", "torch.gru_cell", cell(), stored(f32, []int{1, 1}, 0.8203125), nil, verdict.Warn,
			"as under autocast: products in bfloat16", 1},
		{"a wrong cell under autocast", "torch.gru_cell", cell(), stored(f32, []int{1, 1}, 0.87), nil, verdict.Fail, "",
			1},
		{"no op of autocast", "torch.abs", []value.Value{stored(f32, []int{1}, -1)}, stored(bf16, []int{1}, 1), nil,
			verdict.Fail, "dtype is bfloat16, want float32", 1},
		// 0.0316 is 0.031494140625 in bfloat16
		{"number rounded first", "torch.Tensor.remainder", []value.Value{stored(bf16, []int{2}, 0.125, 1), 0.0316},
			stored(bf16, []int{2}, 0.030517578125, 0.023681640625), nil,
			verdict.Warn, "numbers among the arguments were rounded to bfloat16 first", 1},
		// the difference to 0.6931 cancels, which is 0.69140625 in bfloat16
		{"number rounded before a difference", "torch.sub", []value.Value{stored(bf16, []int{8}, near...), math.Ln2},
			stored(bf16, []int{8}, -0.01171875, -0.0078125, -0.00390625, 0, 0.00390625, 0.0078125, 0.01171875,
				0.015625), nil, verdict.Warn, "numbers among the arguments were rounded to bfloat16 first", 1},
		// 2.7 is 2.69921875 in float16; the gradient is that of 2.7, as torch 2.15 gives it
		{"number rounded in the forward pass only", "torch.pow", []value.Value{needsGrad(stored(f16, []int{2},
			0.0458984375, 0.004150390625)), stored(f32, nil, 2.7)}, stored(f16, []int{2}, 0.000244379043579,
			3.57627868652e-07), []value.Value{value.NewTuple(stored(f16, []int{2}, 0.0143203735352, 0.000240683555603),
			nil), value.NewTuple(stored(f16, []int{2}, 1, 1))}, verdict.Warn,
			"tensors without dimensions were rounded to float16 first", 2},
		{"number as it is", "torch.Tensor.remainder", []value.Value{stored(bf16, []int{1}, 1), 0.0316},
			stored(bf16, []int{1}, 1-31*0.0316), nil, verdict.Pass, "", 1},
		{"number of float32", "torch.mul", []value.Value{row(1), 0.3}, row(number),
			[]value.Value{value.NewTuple(row(number), nil), value.NewTuple(row(1))}, verdict.Pass, "", 2},
		{"another number", "torch.mul", []value.Value{row(1), 0.3}, row(number),
			[]value.Value{value.NewTuple(row(1.00001*number), nil), value.NewTuple(row(1))}, verdict.Fail, "", 2},
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

// TestUnknownForms: arguments that fit no form of a known operator are an error only where torch itself refuses them,
// not where the call returned or belongs to a library whose signature changes.
func TestUnknownForms(t *testing.T) {
	x := stored(tensor.Float32, []int{1}, 2)
	for _, tc := range []struct {
		op       string
		returned bool
		want     verdict.Verdict
	}{
		{"torch.abs", false, verdict.Error}, {"torch.abs", true, verdict.Unsupported},
		{"torch.ops._C.silu_and_mul", false, verdict.Unsupported},
		{"flashinfer.silu_and_mul", true, verdict.Unsupported},
	} {
		call := map[capture.Kind]*capture.Record{capture.Input: {Args: []value.Value{x, x, x, "fast"}}}
		if tc.returned {
			call[capture.Output] = &capture.Record{Args: []value.Value{x}}
		}
		for k, r := range call {
			r.Name, r.Identifier, r.Kwargs = tc.op, tc.op+"/"+k.String(), &value.Dict{}
		}
		opt := options(t)
		opt.Registry = ops.Default()
		o := replay.Of(capture.Made(call), opt).Compare()
		if o.Verdict() != tc.want || !strings.Contains(o.Results[0].Reason, "argument") ||
			strings.Contains(o.Results[0].Reason, "; nearest: ") != (tc.want == verdict.Unsupported) {
			t.Errorf("%s, returned %t: got %+v, want %s", tc.op, tc.returned, o.Results, tc.want)
		}
	}
}

// TestMisnested: one tensor is not a sequence of one, either way round.
func TestMisnested(t *testing.T) {
	x := stored(tensor.Float32, []int{1}, 2)
	one, zero, rows := value.NewTuple(x), stored(tensor.Int64, []int{1}, 0), stored(tensor.Int64, []int{1, 1}, 0)
	asTuple := &value.Dict{Items: []value.Item{{Key: "as_tuple", Value: true}}}
	for _, tc := range []struct {
		op     string
		args   []value.Value
		kwargs *value.Dict
		result value.Value
		want   verdict.Verdict
	}{
		{"torch.abs", []value.Value{x}, nil, x, verdict.Pass},
		{"torch.abs", []value.Value{x}, nil, one, verdict.Fail},
		{"torch.abs", []value.Value{x}, nil, value.NewList(x), verdict.Fail},
		{"torch.abs", []value.Value{x}, nil, value.NewTuple(one), verdict.Fail},
		{"torch.split", []value.Value{x, int64(1)}, nil, one, verdict.Pass},
		{"torch.split", []value.Value{x, int64(1)}, nil, x, verdict.Fail},
		{"torch.split", []value.Value{x, int64(1)}, nil, value.NewTuple(one), verdict.Fail},
		{"torch.unbind", []value.Value{x}, nil, value.NewTuple(stored(tensor.Float32, []int{}, 2)), verdict.Pass},
		{"torch.nonzero", []value.Value{x}, nil, rows, verdict.Pass},
		{"torch.nonzero", []value.Value{x}, nil, value.NewTuple(rows), verdict.Fail},
		{"torch.nonzero", []value.Value{x}, asTuple, value.NewTuple(zero), verdict.Pass},
		{"torch.nonzero", []value.Value{x}, asTuple, zero, verdict.Fail},
		{"torch.where", []value.Value{x}, nil, value.NewTuple(zero), verdict.Pass},
		{"torch.unique", []value.Value{x}, nil, x, verdict.Pass},
		{"torch.unique", []value.Value{x}, nil, one, verdict.Fail},
		{"torch.atleast_1d", []value.Value{x}, nil, x, verdict.Pass},
		{"torch.atleast_1d", []value.Value{x}, nil, one, verdict.Fail},
		{"torch.atleast_1d", []value.Value{one}, nil, one, verdict.Pass},
		{"torch.atleast_1d", []value.Value{one}, nil, x, verdict.Fail},
	} {
		call := map[capture.Kind]*capture.Record{capture.Input: {Args: tc.args, Kwargs: tc.kwargs},
			capture.Output: {Args: []value.Value{tc.result}}}
		for k, r := range call {
			r.Name, r.Identifier = tc.op, tc.op+"/"+k.String()
			if r.Kwargs == nil {
				r.Kwargs = &value.Dict{}
			}
		}
		if o := replay.Of(capture.Made(call), options(t)).Compare(); o.Verdict() != tc.want {
			t.Errorf("%s of %s: recorded %s: got %s %+v, want %s", tc.op, value.Repr(value.NewTuple(tc.args...)),
				value.Repr(tc.result), o.Verdict(), o.Results, tc.want)
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

// TestNoneBesideTensor: attention without its weights returns a tensor and None, which is no
// tensor by itself; a tensor by itself is another nesting.
func TestNoneBesideTensor(t *testing.T) {
	of := func(shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = math.Sin(float64(3*i + len(v)))
		}
		return stored(tensor.Float32, shape, v...)
	}
	x := of(3, 2, 4)
	args := []value.Value{x, x, x, int64(4), int64(2), of(12, 4), of(12), nil, nil, false, 0.0, of(4, 4), of(4),
		true, nil, false}
	const op = "torch.nn.functional.multi_head_attention_forward"
	call, err := options(t).Registry.Bind(op, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	y := f.Outs[0].Rounded()
	for _, tc := range []struct {
		name   string
		result value.Value
		want   verdict.Verdict
	}{{"a tensor and None", value.NewTuple(y, nil), verdict.Pass}, {"a tensor", y, verdict.Fail}} {
		o := replay.Run(entries(t, record(t, op, args, tc.result))[0], options(t))
		if o.Verdict() != tc.want {
			t.Errorf("%s: got %s, want %s: %+v", tc.name, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestClampBeyondRange: -3 is 253 among uint8 in torch 1 and 0 in torch 2.
func TestClampBeyondRange(t *testing.T) {
	x := stored(tensor.Uint8, []int{3}, 1, 200, 255)
	for _, tc := range []struct {
		out  []float64
		want verdict.Verdict
	}{{[]float64{253, 253, 255}, verdict.Pass}, {[]float64{1, 200, 255}, verdict.Pass},
		{[]float64{3, 200, 255}, verdict.Fail}} {
		plain := record(t, "torch.clamp", []value.Value{x, int64(3)}, stored(tensor.Uint8, []int{3}, tc.out...))
		want := verdict.Fail
		if tc.out[0] == 3 {
			want = verdict.Pass
		}
		if o := replay.Run(entries(t, plain)[0], options(t)); o.Verdict() != want {
			t.Errorf("within range, %v: got %s, want %s: %+v", tc.out, o.Verdict(), want, o.Results)
		}
		dir := record(t, "torch.clamp", []value.Value{x, int64(-3)}, stored(tensor.Uint8, []int{3}, tc.out...))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != tc.want {
			t.Errorf("%v: got %s, want %s: %+v", tc.out, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestRoundedProducts: a product that is rounded to bfloat16 after each factor is off by many roundings.
func TestRoundedProducts(t *testing.T) {
	const n, bf16 = 320, tensor.BFloat16
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		x, exact, rounded := make([]float64, n), 1., 1.
		for i := range x {
			x[i] = bf16.Round(1 + 0.1*r.NormFloat64())
			exact *= x[i]
			rounded = bf16.Round(rounded * x[i])
		}
		for _, tc := range []struct {
			y    float64
			want []verdict.Verdict
		}{{exact, []verdict.Verdict{verdict.Pass}}, {rounded, []verdict.Verdict{verdict.Pass, verdict.Warn}},
			{2 * exact, []verdict.Verdict{verdict.Fail}}} {
			y := stored(bf16, nil, bf16.Round(tc.y))
			dir := record(t, "torch.prod", []value.Value{stored(bf16, []int{n}, x...)}, y)
			if o := replay.Run(entries(t, dir)[0], options(t)); !slices.Contains(tc.want, o.Verdict()) {
				t.Errorf("seed %d: got %s for %g, exact %g: %+v", seed, o.Verdict(), tc.y, exact, o.Results)
			}
		}
	}
}

// TestRoundedPositions: torch's CPU kernel rounds positions of grid_sample to the dtype at every step, some up and
// some down.
func TestRoundedPositions(t *testing.T) {
	const w, bf16 = 9, tensor.BFloat16
	round := bf16.Round
	const into = 4 // the pixel that positions cross into from both sides
	var up, down float64
	for i := range 4000 {
		x := round(-0.9 + 0.00045*float64(i))
		exact := math.RoundToEven(((x+1)*w - 1) / 2)
		steps := math.RoundToEven(round(round(round(round(x+1)*w)-1) / 2))
		switch {
		case steps == into && exact < into:
			up = x
		case steps == into && exact > into:
			down = x
		}
	}
	if up == 0 || down == 0 {
		t.Fatal("no positions are rounded to the pixel from both sides")
	}
	gradient := make([]float64, w)
	gradient[into] = 1 + 2
	image := needsGrad(stored(bf16, []int{1, 1, 1, w}, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	grid := stored(bf16, []int{1, 1, 2, 2}, up, 0, down, 0)
	y := stored(bf16, []int{1, 1, 1, 2}, into+1, into+1)
	for _, tc := range []struct {
		name string
		g    []float64
		want verdict.Verdict
	}{{"as torch", gradient, verdict.Pass},
		{"one pixel on", append(gradient[w-1:w:w], gradient[:w-1]...), verdict.Fail}} {
		(&judged{tc.name, "torch.nn.functional.grid_sample", []value.Value{image, grid, "nearest", "zeros", false}, y,
			[]value.Value{stored(bf16, []int{1, 1, 1, w}, tc.g...), nil}, stored(bf16, []int{1, 1, 1, 2}, 1, 2),
			tc.want}).run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestWidestOfArguments: autocast casts to the widest dtype among the arguments, or on the CPU to float32, not to
// another that was recorded.
func TestWidestOfArguments(t *testing.T) {
	image := stored(tensor.Float32, []int{1, 1, 1, 2}, 1, 3)
	grid := stored(tensor.Float32, []int{1, 1, 1, 2}, 0, 0)
	for dt, want := range map[tensor.DType]verdict.Verdict{tensor.Float32: verdict.Pass, tensor.Float64: verdict.Fail} {
		dir := record(t, "torch.nn.functional.grid_sample", []value.Value{image, grid, "bilinear", "zeros", false},
			stored(dt, []int{1, 1, 1, 1}, 2))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != want {
			t.Errorf("%s: got %s, want %s: %+v", dt, o.Verdict(), want, o.Results)
		}
	}
	image16 := stored(tensor.Float16, []int{1, 1, 1, 2}, 1, 3)
	grid16 := stored(tensor.Float16, []int{1, 1, 1, 2}, 0, 0)
	for got, want := range map[float64]verdict.Verdict{2: verdict.Pass, 2.002: verdict.Fail} {
		dir := record(t, "torch.nn.functional.grid_sample", []value.Value{image16, grid16, "bilinear", "zeros",
			false}, stored(tensor.Float32, []int{1, 1, 1, 1}, got))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != want {
			t.Errorf("float16 to float32 %v: got %s, want %s: %+v", got, o.Verdict(), want, o.Results)
		}
	}
}

// TestShapesOfGiants: a result of another shape than is known beforehand is told from 2^34 elements without
// computing one of them.
func TestShapesOfGiants(t *testing.T) {
	const n = 1 << 34
	wide := func(x *tensor.Tensor) *tensor.Tensor {
		g, err := x.Expand(n)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	x, at := wide(stored(tensor.Float32, []int{1}, 2)), wide(stored(tensor.Int64, []int{1}, 0))
	small := stored(tensor.Float32, []int{3}, 1, 2, 3)
	for op, args := range map[string][]value.Value{
		"torch.sort": {x}, "torch.argsort": {x}, "torch.gather": {small, int64(0), at}, "torch.take": {small, at},
		"torch.scatter_add": {small, int64(0), at, x},
	} {
		made := map[capture.Kind]*capture.Record{capture.Input: {Args: args},
			capture.Output: {Args: []value.Value{stored(tensor.Float32, []int{2}, 1, 2)}}}
		for k, r := range made {
			r.Name, r.Identifier, r.Kwargs = op, op+"/"+k.String(), &value.Dict{}
		}
		o := replay.Of(capture.Made(made), options(t)).Compare()
		if o.Verdict() != verdict.Fail || !strings.Contains(o.Results[0].Reason, "shape is [2]") {
			t.Errorf("%s: %+v", op, o.Results)
		}
	}
}

// TestTheSameMemoryTwice: a tensor that is given twice, as in a.mul_(a), changes in both places; one of the same
// values does not.
func TestTheSameMemoryTwice(t *testing.T) {
	const op = "torch.Tensor.mul_"
	a, other := stored(tensor.Float32, []int{3}, 1, 2, 3), stored(tensor.Float32, []int{3}, 1, 2, 3)
	square := stored(tensor.Float32, []int{3}, 1, 4, 9)
	for _, tc := range []struct {
		name   string
		factor *tensor.Tensor
		want   verdict.Verdict
	}{{"itself", a, verdict.Pass}, {"another", other, verdict.Fail}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := record(t, op, []value.Value{a, tc.factor}, square)
			write(t, filepath.Join(dir, "after.pth"), op, []value.Value{square, square})
			o := replay.Run(entries(t, dir)[0], options(t))
			if o.Verdict() != tc.want {
				t.Errorf("%s, want %s: %+v", o.Verdict(), tc.want, o.Results)
			}
		})
	}
}

// TestCellsKnownAutocast: float32 results of a recurrent cell that are precise to 16 bits only are right where the
// recording says that autocast was on, and wrong where it says that it was off.
func TestCellsKnownAutocast(t *testing.T) {
	const f32 = tensor.Float32
	args := []value.Value{stored(f32, []int{1, 2}, 1.1, -0.7), stored(f32, []int{1, 1}, 0.3),
		stored(f32, []int{3, 2}, 0.9, 0.2, -0.4, 1.3, 0.7, -1.1), stored(f32, []int{3, 1}, 0.5, -0.3, 0.8)}
	for _, tc := range []struct {
		autocast map[string]string
		want     verdict.Verdict
	}{{nil, verdict.Warn}, {map[string]string{"cpu": "bfloat16"}, verdict.Pass}, {map[string]string{}, verdict.Fail}} {
		e := entries(t, record(t, "torch.gru_cell", args, stored(f32, []int{1, 1}, 0.8203125)))[0]
		e.Autocast = tc.autocast
		if o := replay.Run(e, options(t)); o.Verdict() != tc.want {
			t.Errorf("autocast %v: got %s, want %s: %+v", tc.autocast, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestDroppedStatesUnderAutocast: states of the first of two layers with dropout, of sequences of two lengths, are
// judged as products in 16 bits where autocast was on (values of torch 2.15), and wrong ones are found.
func TestDroppedStatesUnderAutocast(t *testing.T) {
	const f32 = tensor.Float32
	params := value.NewList(
		stored(f32, []int{4, 2}, 0.9, 0.2, -0.4, 1.3, 0.7, -1.1, 0.6, 0.5),
		stored(f32, []int{4, 1}, 0.5, -0.3, 0.8, 0.4), stored(f32, []int{4}, 0.3, 0.2, 0.7, -0.6),
		stored(f32, []int{4}, 0.4, 1.2, -0.9, 0.1), stored(f32, []int{4, 1}, 0.5, -0.3, 0.8, 0.4),
		stored(f32, []int{4, 1}, 0.3, 0.2, 0.7, -0.6),
		stored(f32, []int{4}, 0.1, 0.2, -0.9, 0.1), stored(f32, []int{4}, 0, 0.3, 0.2, 0.1))
	zeros := func() *tensor.Tensor { return stored(f32, []int{2, 2, 1}, 0, 0, 0, 0) }
	args := []value.Value{stored(f32, []int{3, 2}, 1.1, -0.7, 0.4, 0.9, -0.3, 0.8),
		tensor.New(tensor.Int64, []int{2}, []int64{2, 1}), value.NewList(zeros(), zeros()), params, true, int64(2), 0.5,
		true, false}
	for _, tc := range []struct {
		autocast map[string]string
		first    float64 // state of the first layer
		want     verdict.Verdict
	}{
		{nil, 0.0579314195, verdict.Warn}, {map[string]string{"cpu": "bfloat16"}, 0.0579314195, verdict.Pass},
		{map[string]string{}, 0.0579314195, verdict.Fail}, {map[string]string{"cpu": "bfloat16"}, 0.08, verdict.Fail},
	} {
		e := entries(t, record(t, "torch.lstm", args, value.NewTuple(
			stored(f32, []int{3, 1}, -0.0874838829, -0.175394252, -0.224143177),
			stored(f32, []int{2, 2, 1}, tc.first, -0.278813273, -0.224143177, -0.175394252),
			stored(f32, []int{2, 2, 1}, 0.127441406, -0.5625, -0.421836853, -0.37109375))))[0]
		e.Autocast = tc.autocast
		if o := replay.Run(e, options(t)); o.Verdict() != tc.want {
			t.Errorf("autocast %v, state %g: got %s, want %s: %+v", tc.autocast, tc.first, o.Verdict(), tc.want,
				o.Results)
		}
	}
}

// TestGuessedAutocast: nobody recorded whether autocast was on. Values that are no nearer to products in 16 bits than
// to those in float32 are wrong, though the bounds of 16 bits would hold them.
func TestGuessedAutocast(t *testing.T) {
	opt := options(t)
	x := normal(rand.New(rand.NewPCG(4, 4)), []int{5, 40})
	call, err := opt.Registry.Bind("torch.cov", []value.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "input.pth"), "torch.corrcoef", []value.Value{x})
	write(t, filepath.Join(dir, "output.pth"), "torch.corrcoef", []value.Value{f.Outs[0].Rounded()})
	if o := replay.Run(entries(t, dir)[0], opt); o.Verdict() != verdict.Fail {
		t.Errorf("%s: %+v", o.Verdict(), o.Results)
	}
}
