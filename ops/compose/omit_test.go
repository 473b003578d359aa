package compose

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestOmissions: each step of a composition is left out, in results and in gradients.
func TestOmissions(t *testing.T) {
	type args struct{ X, Y *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{3}, []float64{1, 4, 9}).Rounded()
	y := tensor.New(tensor.Float32, []int{3}, []float64{2, 4, 8}).Rounded()
	x.RequiresGrad = true
	c, err := Plan(&args{x, y}, func(g *Graph, a *args) Values {
		return Values{g.Div(g.Sqrt(g.Arg("x", a.X)), g.Arg("y", a.Y))}
	})
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Full(tensor.Float32, []int{3}, 1.0).Rounded()
	got := map[string][2][]float64{}
	for _, m := range c.omissions() {
		plan, err := m.Plan()
		if err != nil {
			t.Fatal(m.Text, err)
		}
		wrong := plan.(*Call)
		grad := wrong.arguments(wrong.backward([]*tensor.Tensor{one}), func(v *Value) *tensor.Tensor { return v.T })["x"][0]
		got[m.Text] = [2][]float64{values(wrong.outs[0].T), values(grad)}
	}
	const lacks = "the gradient lacks what flows through "
	for text, want := range map[string][2][]float64{
		"the square root is left out":                        {{0.5, 1, 9. / 8}, {0.5, 0.25, 0.125}},
		"the division is left out: its first operand stays":  {{1, 2, 3}, {0.5, 0.25, 1. / 6}},
		"the division is left out: its second operand stays": {{2, 4, 8}, {0, 0, 0}},
		lacks + "the square root":                            {{0.5, 0.5, 0.375}, {0, 0, 0}},
		lacks + "the division to its first operand":          {{0.5, 0.5, 0.375}, {0, 0, 0}},
	} {
		for k, part := range want {
			for i, w := range part {
				if len(got[text][k]) != 3 || math.Abs(got[text][k][i]-w) > 1e-6 {
					t.Errorf("%s: got %v, want %v", text, got[text], want)
				}
			}
		}
	}
	if len(got) != 6 {
		t.Errorf("%d omissions, want 6", len(got))
	}
}

func values(t *tensor.Tensor) []float64 {
	v := make([]float64, t.Numel())
	tensor.Load(t, 0, v)
	return v
}
