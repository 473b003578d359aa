package parallel

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
)

// TestAverages: ranks that add up an updated parameter, or what they made of it, train by themselves until then. The
// gradient of a call that reads the updated parameter is none of that.
func TestAverages(t *testing.T) {
	call := func(op string, backward int, ins ...*step.Value) *step.Call {
		c := &step.Call{Op: op, Entry: &capture.Entry{BackwardOrder: backward}}
		for _, v := range ins {
			v.Call = c
			c.Inputs = append(c.Inputs, v)
		}
		return c
	}
	parameter := func() *step.Value { return &step.Value{Address: 64, Parameter: true, RequiresGrad: true} }
	for _, tc := range []struct {
		name string
		from capture.Kind // of the value of a product with the parameter; Input for the parameter itself
		want bool
	}{
		{"the parameter", capture.Input, true},
		{"a product", capture.Output, true},
		{"a gradient", capture.GradInputs, false},
	} {
		forward, update := call("torch.Tensor.mul", 5, parameter()), call("torch.Tensor.add_", -1, parameter())
		given := parameter()
		if tc.from != capture.Input {
			product := call("torch.Tensor.mul", 6, parameter())
			given = &step.Value{Address: 128}
			given.From.Value = &step.Value{Call: product, Kind: tc.from}
		}
		q := &step.Process{Calls: []*step.Call{forward, update, call("torch.distributed.all_reduce", -1, given)}}
		if got := averages(q); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
