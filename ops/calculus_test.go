package ops_test

import (
	"math"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCalculus holds differences, integrals and derivatives to results of torch.
func TestCalculus(t *testing.T) {
	reg := ops.Default()
	f := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, []int{len(v)}, v) }
	x := f(1, 4, 9, 16)
	for _, c := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		want   []float64
	}{
		{"torch.diff", []value.Value{x}, nil, []float64{3, 5, 7}},
		{"torch.diff", []value.Value{x, int64(2)}, nil, []float64{2, 2}},
		{"torch.diff", []value.Value{x}, keywords("prepend", f(0)), []float64{1, 3, 5, 7}},
		{"torch.trapz", []value.Value{x}, keywords("dx", int64(2)), []float64{43}},
		{"torch.trapezoid", []value.Value{x, f(0, 1, 3, 4)}, nil, []float64{28}},
		{"torch.cumulative_trapezoid", []value.Value{x}, nil, []float64{2.5, 9, 21.5}},
		{"torch.gradient", []value.Value{x}, nil, []float64{3, 4, 6, 7}},
		{"torch.gradient", []value.Value{x}, keywords("spacing", value.NewTuple(f(1, 2, 3, 4)), "edge_order", int64(2)),
			[]float64{2, 4, 6, 8}},
		{"torch.cross", []value.Value{f(1, 2, 3), f(4, 5, 7)}, nil, []float64{-1, 5, -3}},
		{"torch.native_layer_norm", []value.Value{f(1, 3), value.NewTuple(int64(2)), nil, nil, 0.0}, nil,
			[]float64{-1, 1}},
	} {
		call, err := reg.Bind(c.name, c.args, c.kwargs)
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
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			continue
		}
		for i, w := range c.want {
			if math.Abs(got[i]-w) > 1e-12 {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}
