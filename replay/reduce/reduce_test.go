package reduce

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func TestLaw(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(n int) bool
		want  string
	}{
		{"always", func(int) bool { return true }, ""},
		{"tail", func(n int) bool { return n%16 != 0 }, "not a multiple of 16"},
		{"odd", func(n int) bool { return n%2 == 1 }, "odd"},
		{"even", func(n int) bool { return n%2 == 0 }, "even"},
		{"threads", func(n int) bool { return n%32 == 0 }, "a multiple of 32"},
		{"wide", func(n int) bool { return n > 128 }, "at least 129"},
		{"narrow", func(n int) bool { return n < 5 }, "at most 4"},
		{"second tile", func(n int) bool { return n > 32 && n%32 != 0 }, "at least 33 and not a multiple of 32"},
		{"one", func(n int) bool { return n == 64 }, "64"},
		{"no rule", func(n int) bool { return n*n%7 == 2 }, ""},
	} {
		var fail, pass []int
		for _, n := range probes(64, 100) {
			if c.fails(n) {
				fail = append(fail, n)
			} else {
				pass = append(pass, n)
			}
		}
		if got := lawOf(fail, pass); got != c.want {
			t.Errorf("%s: lawOf(%v, %v) = %q, want %q", c.name, fail, pass, got, c.want)
		}
	}
}

// TestLikeStrides wants small tensors that lie in memory as large ones do.
func TestLikeStrides(t *testing.T) {
	base := tensor.New(tensor.Float32, []int{8, 6, 4}, make([]float64, 192)).Rounded()
	expanded, err := base.Slice(0, 0, 1, 1).Expand(8, 6, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		t     *tensor.Tensor
		shape []int
		want  []int
	}{
		{"contiguous", base, []int{2, 3, 2}, []int{6, 2, 1}},
		{"transposed", base.Transpose(0, 2), []int{2, 3, 5}, []int{1, 2, 6}},
		{"every second", base.Slice(2, 0, 2, 2), []int{2, 2, 2}, []int{8, 4, 2}},
		{"columns left out", base.Slice(2, 0, 3, 1), []int{2, 2, 2}, []int{6, 3, 1}},
		{"expanded", expanded, []int{3, 2, 2}, []int{0, 2, 1}},
	} {
		if got := likeStrides(c.t, c.shape); !slices.Equal(got, c.want) {
			t.Errorf("%s: likeStrides(%v of %v, %v) = %v, want %v", c.name, c.t.Stride, c.t.Shape, c.shape, got, c.want)
		}
	}
}

func random(seed uint64, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, tensor.Numel(shape))
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return tensor.New(tensor.Float32, shape, v).Rounded()
}

// TestRecorded plants a wrong element in the recorded result, or gradient, of sound calls
// and wants what is left of the arguments: all that the element follows from.
func TestRecorded(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
	ints := func(ns ...int64) *value.Sequence {
		s := value.NewTuple()
		for _, n := range ns {
			s.Items = append(s.Items, n)
		}
		return s
	}
	idx := tensor.New(tensor.Int64, []int{4, 5}, []int64{9, 3, 1, 0, 2, 8, 7, 6, 5, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	const fn = "torch.nn.functional."
	for _, c := range []struct {
		op   string
		args []value.Value
		at   int // the wrong element
		want string
	}{
		{"torch.mm", []value.Value{random(1, 6, 7), random(2, 7, 5)}, 23, "self float32[1, 7], mat2 float32[7, 1]"},
		{"torch.mm", []value.Value{random(1, 6, 6), random(2, 6, 6)}, 23, "self float32[1, 6], mat2 float32[6, 1]"},
		{"torch.add", []value.Value{random(1, 6, 7), random(2, 7)}, 40, "self float32[1, 1], other float32[1]"},
		{"torch.softmax", []value.Value{random(1, 3, 4, 9), int64(-1)}, 50, "self float32[1, 1, 9]"},
		{fn + "layer_norm", []value.Value{random(1, 4, 3, 8), ints(8), random(2, 8), random(3, 8)}, 50,
			"input float32[1, 1, 8], weight float32[8], bias float32[8]"},
		{fn + "linear", []value.Value{random(1, 4, 3, 8), random(2, 10, 8), random(3, 10)}, 50,
			"input float32[1, 1, 8], weight float32[1, 8], bias float32[1]"},
		{fn + "embedding", []value.Value{idx, random(1, 10, 6)}, 50, "input int64[1, 1], weight float32[6, 1]"},
		{fn + "conv2d", []value.Value{random(1, 3, 4, 5, 5), random(2, 6, 4, 3, 3)}, 50,
			"input float32[1, 4, 3, 3], weight float32[1, 4, 3, 3]"},
		{fn + "scaled_dot_product_attention", []value.Value{random(1, 2, 3, 5, 4), random(2, 2, 3, 7, 4),
			random(3, 2, 3, 7, 4)}, 50,
			"query float32[1, 1, 1, 4], key float32[1, 1, 7, 4], value float32[1, 1, 7, 1]"},
	} {
		in := &capture.Record{Name: c.op, Args: c.args, Kwargs: &value.Dict{}, Identifier: "1/x/input"}
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: in}), opt)
		if err := call.Start(); err != nil {
			t.Errorf("%s: %v", c.op, err)
			continue
		}
		out := call.Outs()[0]
		v := make([]float64, out.Numel())
		tensor.Load(out, 0, v)
		sound := made(in, tensor.New(out.DType, out.Shape, v).Rounded())
		if _, err := Of(t.Context(), sound, opt, time.Now().Add(time.Minute)); !errors.Is(err, ErrSound) {
			t.Errorf("%s as it should be: %v", c.op, err)
		}
		v[c.at] += 3
		wrong := made(in, tensor.New(out.DType, out.Shape, v).Rounded())
		r, err := Of(t.Context(), wrong, opt, time.Now().Add(time.Minute))
		if err != nil {
			t.Errorf("%s: %v", c.op, err)
			continue
		}
		if got := strings.Join(r.Is, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.op, got, c.want)
		}
		dir := t.TempDir()
		if err := r.Call.Write(dir); err != nil {
			t.Errorf("%s: %v", c.op, err)
		}
		for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			if o := replay.Run(e, opt); o.Verdict() != verdict.Fail || len(o.Results) != 1 {
				t.Errorf("%s: the written call: %+v", c.op, o.Results)
			}
		}
	}
}

// TestRecordedArgument plants a wrong element in what a call wrote into its argument.
func TestRecordedArgument(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
	x, y := random(1, 6, 7), random(2, 7)
	v, w := make([]float64, 42), make([]float64, 7)
	tensor.Load(x, 0, v)
	tensor.Load(y, 0, w)
	for i := range v {
		v[i] += w[i%7]
	}
	out := tensor.New(tensor.Float32, x.Shape, slices.Clone(v)).Rounded()
	v[40] += 3
	rec := func(name string, vs ...value.Value) *capture.Record {
		return &capture.Record{Name: "torch.Tensor.add_", Args: vs, Kwargs: &value.Dict{}, Identifier: "1/x/" + name}
	}
	call := capture.Made(map[capture.Kind]*capture.Record{capture.Input: rec("input", x, y),
		capture.Output: rec("output", out),
		capture.After:  rec("after", tensor.New(tensor.Float32, x.Shape, v).Rounded(), nil)})
	full := replay.Of(call, opt)
	for _, res := range full.Compare().Results {
		if p := full.Profile(&res); res.Verdict == verdict.Fail && (p == nil || p.Numel != 42) {
			t.Errorf("%s has the profile %+v", res.Target, p)
		}
	}
	r, err := Of(t.Context(), call, opt, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(r.Is, ", ")
	if want := "self float32[1, 1], other float32[1]"; got != want || r.Phase != replay.Input {
		t.Errorf("got %s in the %s pass, want %s", got, r.Phase, want)
	}
	if after := r.Call.Record(capture.After).Args; len(after) != 2 || after[1] != nil {
		t.Errorf("after the call: %v, want None for what the recorder did not see", after)
	}
}

func made(in *capture.Record, output value.Value) *capture.Call {
	return capture.Made(map[capture.Kind]*capture.Record{capture.Input: in,
		capture.Output: {Name: in.Name, Args: []value.Value{output}, Identifier: "1/x/output"}})
}

// TestRecordedGradient plants a wrong element in a recorded gradient: the other gradient
// and what it follows from are of no use.
func TestRecordedGradient(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
	x, y, g := random(1, 6, 7), random(2, 6, 7), random(3, 6, 7)
	x.RequiresGrad, y.RequiresGrad = true, true
	product := func(a, b *tensor.Tensor, more float64) *tensor.Tensor {
		v, w := make([]float64, a.Numel()), make([]float64, a.Numel())
		tensor.Load(a, 0, v)
		tensor.Load(b, 0, w)
		for i := range v {
			v[i] *= w[i]
		}
		v[30] += more
		return tensor.New(tensor.Float32, a.Shape, v).Rounded()
	}
	rec := func(name string, vs ...value.Value) *capture.Record {
		return &capture.Record{Name: "torch.mul", Args: vs, Kwargs: &value.Dict{}, Identifier: "1/x/" + name}
	}
	call := capture.Made(map[capture.Kind]*capture.Record{
		capture.Input: rec("input", x, y), capture.Output: rec("output", product(x, y, 0)),
		capture.GradOutputs: rec("grad_outputs", g),
		capture.GradInputs:  rec("grad_inputs", product(g, y, 0), product(g, x, 1)),
	})
	r, err := Of(t.Context(), call, opt, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(r.Is, ", ")
	if want := "self float32[1, 1], other float32[1, 1]"; got != want || r.Phase != replay.Backward {
		t.Errorf("got %s in the %s pass, want %s", got, r.Phase, want)
	}
}

// TestRecordedGradientBesideSum plants a wrong element in the gradient of the input of layer_norm. The gradient of
// weight is right, but it is a sum over the rows: the call is cut to one row without it.
func TestRecordedGradientBesideSum(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
	const op = "torch.nn.functional.layer_norm"
	x, w, g := random(1, 4, 3, 8), random(2, 8), random(3, 4, 3, 8)
	x.RequiresGrad, w.RequiresGrad = true, true
	rec := func(name string, vs ...value.Value) *capture.Record {
		return &capture.Record{Name: op, Args: vs, Kwargs: &value.Dict{}, Identifier: "1/x/" + name}
	}
	records := map[capture.Kind]*capture.Record{
		capture.Input:       rec("input", x, value.NewTuple(int64(8)), w),
		capture.GradOutputs: rec("grad_outputs", g),
		capture.GradInputs:  rec("grad_inputs", x, w),
	}
	call := replay.Of(capture.Made(records), opt)
	call.Compare()
	var grads []value.Value
	for i, v := range call.Values().GradInputs {
		due := v.(*tensor.Tensor)
		e := make([]float64, due.Numel())
		tensor.Load(due, 0, e)
		if i == 0 {
			e[50]++
		}
		grads = append(grads, tensor.New(tensor.Float32, due.Shape, e).Rounded())
	}
	records[capture.GradInputs] = rec("grad_inputs", grads...)
	r, err := Of(t.Context(), capture.Made(records), opt, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(r.Is, ", ")
	if want := "input float32[1, 1, 8], weight float32[8]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if o := replay.Of(r.Call, opt).Compare(); o.Verdict() != verdict.Fail {
		t.Errorf("the smaller call: %+v", o.Results)
	}
}

// TestSameKind: causes of calls of other sizes are compared without their numbers.
func TestSameKind(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"the last 4 of the 100 terms of each sum are left out", "the last of the 17 terms of each sum is left out",
			true},
		{"the last 172 of dimension 1 are zero, as if not written", "the last of dimension 1 is zero, as if not written", true},
		{"eps is 0.01, not 1e-05", "eps is 0.5, not 1e-05", true},
		{"eps is 0.01, not 1e-05", "momentum is 0.01, not 0.1", false},
		{"products and their sums are kept in float16", "products and their sums are kept in bfloat16", false},
		{"bias is multiplied by 2", "bias is left out", false},
	} {
		if got := sameKind(c.a, c.b); got != c.want {
			t.Errorf("sameKind(%q, %q) is %t", c.a, c.b, got)
		}
	}
}
