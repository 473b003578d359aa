package ops

import (
	"slices"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

func TestFillDiagonal(t *testing.T) {
	for _, c := range []struct {
		wrap bool
		want []float64 // of a matrix [5, 2] of zeros
	}{{false, []float64{1, 0, 0, 1, 0, 0, 0, 0, 0, 0}}, {true, []float64{1, 0, 0, 1, 0, 0, 1, 0, 0, 1}}} {
		a := &fillDiagonalArgs{tensor.Full(tensor.Float32, []int{5, 2}, 0.0), opdef.Int(1), c.wrap}
		got, err := a.filled(a.Self, a.FillValue)
		if err != nil {
			t.Fatal(err)
		}
		if v := tensor.Data[float64](got[0]); !slices.Equal(v, c.want) {
			t.Errorf("fill_diagonal_(zeros(5, 2), 1, wrap=%v) = %v, want %v", c.wrap, v, c.want)
		}
	}
	cube := &fillDiagonalArgs{Self: tensor.Full(tensor.Float32, []int{2, 2, 3}, 0.0)}
	if _, err := cube.filled(cube.Self, opdef.Int(1)); err == nil {
		t.Error("fill_diagonal_ of shape [2, 2, 3]: want a refusal")
	}
}

func TestNonzeroStatic(t *testing.T) {
	x := tensor.New(tensor.Int64, []int{4}, []int64{0, 3, 0, 7})
	for size, want := range map[int][]int64{1: {1}, 3: {1, 3, -1}} {
		c, err := Default().Bind("torch.nonzero_static", []value.Value{x},
			&value.Dict{Items: []value.Item{{Key: "size", Value: int64(size)}}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[int64](f.Outs[0]); !slices.Equal(got, want) {
			t.Errorf("nonzero_static([0 3 0 7], size=%d) = %v, want %v", size, got, want)
		}
	}
}
