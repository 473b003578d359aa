package ops_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMasked holds functions of torch.masked to results of torch.
func TestMasked(t *testing.T) {
	reg := ops.Default()
	x := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, -2, 3, 4, 0.5, -6})
	mask := tensor.New(tensor.Bool, []int{2, 3}, []int64{1, 0, 1, 0, 0, 0})
	some := tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1})
	nan := math.NaN()
	f := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, v) }
	for _, c := range []struct {
		name string
		args []value.Value
		mask *tensor.Tensor
		want []float64
	}{
		{"sum", []value.Value{x, int64(1)}, mask, []float64{4, 0}},
		{"prod", []value.Value{x, int64(1)}, mask, []float64{3, 1}},
		{"mean", []value.Value{x, int64(1)}, mask, []float64{2, nan}},
		{"amax", []value.Value{x, int64(1)}, mask, []float64{3, math.Inf(-1)}},
		{"amin", []value.Value{x, int64(1)}, mask, []float64{1, math.Inf(1)}},
		{"argmax", []value.Value{x, int64(1)}, some, []float64{2, 0}},
		{"median", []value.Value{x, int64(1)}, mask, []float64{1, nan}},
		{"norm", []value.Value{x, math.Inf(-1), int64(1)}, mask, []float64{1, math.Inf(1)}},
		{"var", []value.Value{x, int64(1), true}, some, []float64{2, 50}},
		{"std", []value.Value{x, int64(1), false}, some, []float64{1, 5}},
		{"cumsum", []value.Value{f(1, 2, 3), int64(0)}, some, []float64{1, 1, 4}},
		{"softmax", []value.Value{f(0, 2, 0), int64(0)}, some, []float64{0.5, 0, 0.5}},
		{"normalize", []value.Value{f(3, 2, 4), 2.0, int64(0)}, some, []float64{0.6, 0, 0.8}},
	} {
		kwargs := keywords("mask", c.mask)
		call, err := reg.Bind("torch.masked."+c.name, c.args, kwargs)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		out, err := call.Forward()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := tensor.Data[float64](out.Outs[0])
		for i, w := range c.want {
			if g := got[i]; math.Abs(g-w) > 1e-12 || (g != g) != (w != w) {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// TestMaskedNodes: what op_tools records of gradients is what the last step of torch's composition received.
func TestMaskedNodes(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{3}, []float64{3, 2, 4}).Rounded()
	x.RequiresGrad = true
	mask := tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1})
	for _, c := range []struct {
		name string
		args []value.Value
		want [][]float64 // nil: none
	}{
		{"sum", []value.Value{x, int64(0)}, [][]float64{{1, 1, 1}}}, // of the filled input: the mask is a step before
		{"prod", []value.Value{x, int64(0)}, [][]float64{{4, 12, 3}}},
		{"mean", []value.Value{x, int64(0)}, [][]float64{{.5}, nil}}, // of total / count
		{"amax", []value.Value{x, int64(0)}, [][]float64{{0, 0, 1}}},
		{"cumsum", []value.Value{x, int64(0)}, [][]float64{{3, 2, 1}}},
		{"var", []value.Value{x, int64(0), true}, [][]float64{{1}, nil}},                  // of total / count
		{"std", []value.Value{x, int64(0), false}, [][]float64{{1}}},                      // 1 / (2*sqrt(0.25))
		{"normalize", []value.Value{x, 2.0, int64(0)}, [][]float64{{.2, .2, .2}, {-.28}}}, // of input / norm
	} {
		call, err := ops.Default().Bind("torch.masked."+c.name, c.args, keywords("mask", mask))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		f, err := call.Forward()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		node, _, err := call.Node(f, []*tensor.Tensor{tensor.Full(tensor.Float32, f.Outs[0].Shape, 1.0)})
		if err != nil || len(node.Grads) != len(c.want) {
			t.Errorf("%s: got %d gradients, error %v, want %d", c.name, len(node.Grads), err, len(c.want))
			continue
		}
		for k, w := range c.want {
			var got []float64
			if node.Grads[k] != nil {
				got = tensor.Data[float64](node.Grads[k])
			}
			if !slices.EqualFunc(got, w, func(x, y float64) bool { return math.Abs(x-y) < 1e-6 }) {
				t.Errorf("%s: gradient %d: got %v, want %v", c.name, k, got, w)
			}
		}
	}
}

// TestMaskedRefused: torch takes no mask of more dimensions than the input, and
// knows no neutral element among bool.
func TestMaskedRefused(t *testing.T) {
	reg := ops.Default()
	one := tensor.New(tensor.Bool, []int{2}, []int64{1, 0})
	for name, args := range map[string][2]*tensor.Tensor{
		"torch.masked.sum": {tensor.New(tensor.Float32, []int{2}, []float64{1, 2}),
			tensor.New(tensor.Bool, []int{1, 2}, []int64{1, 0})},
		"torch.masked.amax": {one, one},
	} {
		call, err := reg.Bind(name, []value.Value{args[0]}, keywords("mask", args[1]))
		if err == nil {
			_, err = call.Forward()
		}
		var r *opdef.RefusedError
		if !errors.As(err, &r) || r.Arg != "mask" {
			t.Errorf("%s: got %v, want a refusal of mask", name, err)
		}
	}
}
