package adapted_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/adapted"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A reference computes with the reference, in the dtypes that it is given.
type reference struct {
	off  float64        // added to each element of a result
	seen []tensor.DType // of the arguments of the last call
	runs int
}

func (d *reference) Run(c *replay.DeviceCall) *replay.DeviceRun {
	d.runs++
	d.seen = nil
	run := &replay.DeviceRun{Functions: []string{c.Call.Name}, Grads: map[string][]*tensor.Tensor{}}
	for _, a := range c.Call.Tensors() {
		d.seen = append(d.seen, a.Tensor.DType)
	}
	f, err := c.Call.Forward()
	if err != nil {
		run.Forward = replay.DeviceStatus{Verdict: verdict.Error, Reason: err.Error()}
		return run
	}
	for _, t := range f.Outs {
		if t = t.Rounded(); d.off != 0 {
			x := slices.Clone(tensor.Data[float64](t))
			for i := range x {
				x[i] += d.off
			}
			t = tensor.New(t.DType, t.Shape, x).Rounded()
		}
		run.Outputs = append(run.Outputs, t)
	}
	if c.GradOutputs == nil {
		return run
	}
	need := map[string]bool{}
	for _, name := range c.Need {
		need[name] = true
	}
	grads, err := c.Call.Backward(f, c.GradOutputs, need)
	if err != nil {
		run.Backward = replay.DeviceStatus{Verdict: verdict.Error, Reason: err.Error()}
	}
	for name, ts := range grads {
		for _, t := range ts {
			if t != nil {
				t = t.Rounded()
			}
			run.Grads[name] = append(run.Grads[name], t)
		}
	}
	return run
}

// run replays a call on a device; up is the gradient of its result, nil for none.
func run(t *testing.T, d replay.Device, op string, up *tensor.Tensor, args ...value.Value) *replay.Outcome {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	records := map[capture.Kind]*capture.Record{capture.Input: {Name: op, Args: args,
		Kwargs: &value.Dict{}, Identifier: "1/x"}}
	if up != nil {
		records[capture.GradOutputs] = &capture.Record{Name: op, Args: []value.Value{up},
			Kwargs: &value.Dict{}, Identifier: "1/x"}
	}
	c := replay.Of(capture.Made(records), replay.Options{Registry: ops.Default(), Tolerances: tol, Device: d})
	return c.Compare()
}

func numbers(dt tensor.DType) *tensor.Tensor {
	t := tensor.New(dt, []int{3}, []float64{0.1, -2.3, 3.7}).Rounded()
	t.RequiresGrad = true
	return t
}

func casts(t *testing.T, config string) func(string) *adapted.Casts {
	t.Helper()
	c, err := adapted.ParseCasts(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(string) *adapted.Casts { return c }
}

// TestCasts: arguments go to the device in another dtype, results and gradients come back,
// and are judged as computed in it.
func TestCasts(t *testing.T) {
	const config = "torch.float64->torch.float32, torch.int64->torch.int32"
	on := &reference{}
	d := adapted.New(on, adapted.Options{Casts: casts(t, config)})
	x, y := numbers(tensor.Float64), numbers(tensor.Float64)
	o := run(t, d, "torch.mul", numbers(tensor.Float64), x, y)
	want := []replay.CastRow{
		{Target: "input[0]", Action: "torch.float64 -> torch.float32", Config: config},
		{Target: "input[1]", Action: "torch.float64 -> torch.float32", Config: config},
		{Target: "output[0]", Action: "torch.float32 -> torch.float64", Config: config},
	}
	if !slices.Equal(o.Casts, want) {
		t.Errorf("casts %v, want %v", o.Casts, want)
	}
	if !slices.Equal(on.seen, []tensor.DType{tensor.Float32, tensor.Float32}) {
		t.Errorf("the device was given %v", on.seen)
	}
	if len(o.Results) != 3 {
		t.Fatalf("results %+v, want the product and two gradients", o.Results)
	}
	for _, r := range o.Results {
		if r.DType != tensor.Float64 || r.Verdict != verdict.Pass {
			t.Errorf("%s of dtype %v: %s %s", r.Target, r.DType, r.Verdict, r.Reason)
		}
	}
	if o := run(t, on, "torch.mul", nil, x, y); o.Verdict() != verdict.Pass || len(o.Casts) != 0 {
		t.Errorf("without casts: %s, %v", o.Verdict(), o.Casts)
	}
	// What is wrong in float32 is wrong, also where the results are float64.
	wrong := adapted.New(&reference{off: 1e-3}, adapted.Options{Casts: casts(t, config)})
	if o := run(t, wrong, "torch.mul", nil, x, y); o.Verdict() != verdict.Fail {
		t.Errorf("a wrong device: %s", o.Verdict())
	}
	// Left alone: views, calls that are told a dtype, results of a dtype that no argument had.
	for op, args := range map[string][]value.Value{
		"torch.Tensor.transpose": {x.Reshape(1, 3), int64(0), int64(1)}, "torch.Tensor.to": {x, tensor.Float32},
		"torch.argmax": {numbers(tensor.Float32)},
	} {
		if o := run(t, d, op, nil, args...); len(o.Casts) != 0 {
			t.Errorf("%s: casts %v, want none", op, o.Casts)
		}
	}
}

// TestFallback: what falls back never reaches the device.
func TestFallback(t *testing.T) {
	on := &reference{}
	d := adapted.New(on, adapted.Options{Fallback: func(op string) bool { return op == "torch.mul" }})
	x := numbers(tensor.Float32)
	o := run(t, d, "torch.mul", nil, x, x)
	if o.Verdict() != verdict.Skipped || o.Results[0].Reason != verdict.FallsBack || on.runs != 0 {
		t.Errorf("%+v, run %d times", o.Results, on.runs)
	}
	if o := run(t, d, "torch.add", nil, x, x); o.Verdict() != verdict.Pass || on.runs != 1 {
		t.Errorf("%+v, run %d times", o.Results, on.runs)
	}
}

// TestParseCasts: what is no cast is told.
func TestParseCasts(t *testing.T) {
	for text, want := range map[string]string{
		"float64":                      "want \"torch.bfloat16->torch.float32\"",
		"torch.float65->torch.float32": `unknown dtype "torch.float65"`, "torch.int8->": `unknown dtype ""`,
	} {
		if _, err := adapted.ParseCasts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseCasts(%q): %v, want %q", text, err, want)
		}
	}
	if c, err := adapted.ParseCasts(" , "); c != nil || err != nil {
		t.Errorf("no casts: %v, %v", c, err)
	}
}
