package causes

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestZeroTimes: NaN where an operand is not finite is that of 0 times it; without NaN nothing is tried.
func TestZeroTimes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	x := tensor.New(tensor.Float32, []int{6}, []float64{1, inf, -3, nan, -inf, 2}).Rounded()
	c, outs := searched(t, "torch.nan_to_num", x)
	fails := wrong("output[0]", outs[0])
	fails[0].Got = tensor.New(tensor.Float32, []int{6}, []float64{1, nan, -3, nan, nan, 2}).Rounded()
	got := made(t, c.zeroTimes(fails),
		"0 times self is added, which is NaN where that is not finite", "output[0]", outs[0])
	if len(got) != 6 || got[0] != 1 || !math.IsNaN(got[1]) || !math.IsNaN(got[3]) ||
		!math.IsNaN(got[4]) || got[5] != 2 {
		t.Error(got)
	}
	fails[0].Got = tensor.New(tensor.Float32, []int{6}, []float64{1, 5, -3, 4, 3, 2}).Rounded()
	for m := range c.zeroTimes(fails) {
		t.Errorf("without NaN: %s", m.Text)
	}
}
