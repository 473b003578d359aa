package replay_test

import (
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A doubling is a device whose gradient of one argument is twice what it should be.
type doubling struct{ of string }

func (d doubling) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{Functions: []string{"mul"}, Grads: map[string][]*tensor.Tensor{}}
	for _, t := range c.Forward.Outs {
		run.Outputs = append(run.Outputs, t.Rounded())
	}
	need := map[string]bool{"input": true, "weight": true}
	grads, err := c.Call.Backward(c.Forward, c.GradOutputs, need)
	if err != nil {
		panic(err)
	}
	for name, ts := range grads {
		for _, t := range ts {
			v := slices.Clone(tensor.Data[float64](t))
			for i := range v {
				if name == d.of {
					v[i] *= 2
				}
			}
			run.Grads[name] = append(run.Grads[name], tensor.New(t.DType, t.Shape, v).Rounded())
		}
	}
	return run
}

// TestDeviceGradientCauses: causes of a device's gradients are found. They have the device's numbers of gradients, also
// where arguments before them require none, and where op_tools recorded those of another node.
func TestDeviceGradientCauses(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	matrix := func(rows, cols, start int, grad bool) *tensor.Tensor {
		v := make([]float64, rows*cols)
		for i := range v {
			v[i] = float64((i*i+start)*37%101)/53 - 1
		}
		x := tensor.New(tensor.Float32, []int{rows, cols}, v).Rounded()
		x.RequiresGrad = grad
		return x
	}
	for _, c := range []struct {
		name, identifier string
		inputGrad        bool
		target           string
	}{
		{"all", "torch.nn.functional.linear/0", true, "grad[1]"},
		{"weight only", "torch.nn.functional.linear/0", false, "grad[0]"},
		{"op_tools", "1/2026/input", true, "grad[1]"},
	} {
		rec := func(vs ...value.Value) *capture.Record {
			return &capture.Record{Name: "torch.nn.functional.linear", Args: vs, Kwargs: &value.Dict{},
				Identifier: c.identifier}
		}
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
			capture.Input:       rec(matrix(6, 5, 1, c.inputGrad), matrix(4, 5, 2, true)),
			capture.GradOutputs: rec(matrix(6, 4, 3, false)),
		}), replay.Options{Registry: ops.Default(), Tolerances: tol, Device: doubling{"weight"}})
		o := call.Compare()
		fails := 0
		for i := range o.Results {
			r := &o.Results[i]
			if r.Verdict != verdict.Fail {
				continue
			}
			fails++
			if r.Target != c.target || call.Profile(r) == nil {
				t.Errorf("%s: %s fails, want %s; its errors are %v", c.name, r.Target, c.target, call.Profile(r))
			}
		}
		found := call.Causes(o, &causes.Allowance{})
		if fails != 1 || len(found) != 1 || !slices.Equal(found[0].Targets, []string{c.target}) || found[0].Pattern {
			t.Errorf("%s: %d values fail, causes %+v, want one of %s", c.name, fails, found, c.target)
		}
	}
}
