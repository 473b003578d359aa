package vision_test

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCubicCoefficient: a step at the edge of an image overshoots by what the coefficient of bicubic weights says.
func TestCubicCoefficient(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{1, 1, 1, 8}, []float64{0, 0, 0, 0, 1, 1, 1, 1}).Rounded()
	c, err := ops.Default().Bind("torch.nn.functional.interpolate",
		[]value.Value{x, value.NewList(int64(1), int64(16)), nil, "bicubic", false}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Forward(); err != nil {
		t.Fatal(err)
	}
	of := func(c *opdef.Call) float64 {
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Max(tensor.Data[float64](f.Outs[0])) - 1
	}
	i := slices.IndexFunc(c.Mistakes(), func(m opdef.Mistake[*opdef.Call]) bool {
		return m.Text == "the coefficient of cubic weights is -0.5, not -0.75"
	})
	if i < 0 {
		t.Fatal("the coefficient is no mistake")
	}
	wrong, err := c.Mistakes()[i].Plan()
	if err != nil {
		t.Fatal(err)
	}
	if due, made := of(c), of(wrong); due/made < 1.49 || due/made > 1.51 {
		t.Errorf("overshoots by %g, with the mistake by %g: want 1.5 times", due, made)
	}
}
