package shape

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
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
