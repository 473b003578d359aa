package ops_test

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSegments holds segments and bins to results of torch.
func TestSegments(t *testing.T) {
	reg := ops.Default()
	x := tensor.New(tensor.Float32, []int{4}, []float64{1, 2, 3, 4})
	lengths := tensor.New(tensor.Int64, []int{3}, []int64{1, 0, 3})
	for _, c := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		want   []float64
	}{
		{"torch.segment_reduce", []value.Value{x, "sum"}, keywords("lengths", lengths), []float64{1, 0, 9}},
		{"torch.segment_reduce", []value.Value{x, "max"}, keywords("lengths", lengths, "initial", int64(2)),
			[]float64{2, 2, 4}},
		{"torch.segment_reduce", []value.Value{x, "mean"}, keywords("lengths", lengths, "initial", int64(3)),
			[]float64{4, 3, 4}},
		{"torch.histogram", []value.Value{x, int64(3)}, nil, []float64{1, 1, 2}},
		{"torch.histogram", []value.Value{x, tensor.New(tensor.Float32, []int{3}, []float64{1, 2, 3})}, nil,
			[]float64{1, 2}},
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
		if got := tensor.Data[float64](out.Outs[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if call, err := reg.Bind("torch.segment_reduce", []value.Value{x, "sum"},
		keywords("lengths", tensor.New(tensor.Int64, []int{2}, []int64{1, 2}))); err != nil {
		t.Error(err)
	} else if _, err = call.Forward(); err == nil {
		t.Error("segments of 3 of 4 elements were accepted")
	}
	call, err := reg.Bind("torch.broadcast_shapes", []value.Value{value.NewTuple(int64(5), int64(1)),
		value.NewTuple(int64(3))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	if size, ok := out.Value.(*value.Sequence); !ok || !slices.Equal(size.Items, []value.Value{int64(5), int64(3)}) {
		t.Errorf("broadcast_shapes: got %v", out.Value)
	}
}
