package compose

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestVariations: a step is another function, has another operand, fewer bits or other dimensions, in results and in
// gradients.
func TestVariations(t *testing.T) {
	type args struct{ X, Y *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 4, 9, 0.3}).Rounded()
	y := tensor.New(tensor.Float32, []int{2, 2}, []float64{2, 4, 8, 3}).Rounded()
	x.RequiresGrad = true
	c, err := Plan(&args{x, y}, func(g *Graph, a *args) Values {
		v := g.Tanh(g.Arg("x", a.X))
		return Values{g.Mul(g.Arg("y", a.Y), g.Mean(v, true, 1))}
	})
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Full(tensor.Float32, []int{2, 2}, 1.0).Rounded()
	results, gradients := map[string][]float64{}, map[string][]float64{}
	for _, m := range c.Variations() {
		plan, err := m.Plan()
		if err != nil {
			t.Fatal(m.Text, err)
		}
		wrong := plan.(*Call)
		results[m.Text] = values(wrong.outs[0].T)
		grads := wrong.arguments(wrong.backward([]*tensor.Tensor{one}), func(v *Value) *tensor.Tensor { return v.T })
		gradients[m.Text] = values(grads["x"][0])
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	mean := func(f func(x float64) float64, a, b float64) float64 { return (f(a) + f(b)) / 2 }
	top, low := mean(math.Tanh, 1, 4), mean(math.Tanh, 9, 0.3)
	for text, want := range map[string][]float64{
		"the sigmoid of x is taken, not the tanh": {2 * mean(sigmoid, 1, 4), 4 * mean(sigmoid, 1, 4),
			8 * mean(sigmoid, 9, 0.3), 3 * mean(sigmoid, 9, 0.3)},
		"the tanh of x is left out": {5, 10, 37.2, 13.95},
		"in the product of y and the mean of the tanh of x, the square of y is taken": {4 * top, 16 * top, 64 * low,
			9 * low},
		"the mean of the tanh of x runs over dimension 0, too": {top + low, 2 * (top + low), 4 * (top + low),
			1.5 * (top + low)},
		"the mean of the tanh of x is that of the index before along dimension 0": {2 * low, 4 * low, 8 * top, 3 * top},
		"the mean of the tanh of x is that of the first 1 of 2 indices of dimension 1": {2 * math.Tanh(1),
			4 * math.Tanh(1), 8 * math.Tanh(9), 3 * math.Tanh(9)},
		"the mean of the tanh of x is that of the first 1 of 2 indices of dimension 1, divided by the number of all": {
			math.Tanh(1), 2 * math.Tanh(1), 4 * math.Tanh(9), 1.5 * math.Tanh(9)},
		"the exponential in the tanh of x is that to base 2": {
			2 * mean(math.Tanh, math.Ln2, 4*math.Ln2), 4 * mean(math.Tanh, math.Ln2, 4*math.Ln2),
			8 * mean(math.Tanh, 9*math.Ln2, 0.3*math.Ln2), 3 * mean(math.Tanh, 9*math.Ln2, 0.3*math.Ln2)},
		"the sum of the tanh of x is taken, not the mean": {4 * top, 8 * top,
			16 * low, 6 * low},
	} {
		if !near64(results[text], want) {
			t.Errorf("%s: got %v, want %v", text, results[text], want)
		}
	}
	text := "in the gradient, the derivative of the tanh is left out"
	want := []float64{3, 3, 5.5, 5.5}
	if !near64(gradients[text], want) || !near64(results[text], values(c.outs[0].T)) {
		t.Errorf("%s: got %v, want %v", text, gradients[text], want)
	}
	bits := results["the tanh is rounded to bfloat16"]
	if want := 2 * mean(func(x float64) float64 { return tensor.BFloat16.Round(math.Tanh(x)) }, 1, 4); len(bits) == 0 ||
		math.Abs(bits[0]-want) > 1e-6 {
		t.Errorf("rounded: got %v, want %v", bits, want)
	}
}

// TestTails: in a tail that fills no tile, the terms of a sum are others.
func TestTails(t *testing.T) {
	type args struct{ X *tensor.Tensor }
	v := []float64{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11}
	x := tensor.New(tensor.Float32, []int{1, 11}, v).Rounded()
	c, err := Plan(&args{x}, func(g *Graph, a *args) Values {
		return Values{g.Sum(g.Square(g.Arg("x", a.X)), false, 1)}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, m := range c.Variations() {
		plan, err := m.Plan()
		if err != nil {
			t.Fatal(m.Text, err)
		}
		got[m.Text] = values(plan.(*Call).outs[0].T)
	}
	for text, want := range map[string]float64{
		"in the last 3 of 11 indices of dimension 1, the magnitude of x is taken, not the square": 204 + 30,
		"in the last 3 of 11 indices of dimension 1, the square of x is left out":                 204 + 10,
		"the sum of the square of x is that of the first 8 of 11 indices of dimension 1":          204,
		"the sum of the square of x is that of the last 3 of 11 indices of dimension 1":           302,
	} {
		if !near64(got[text], []float64{want}) {
			t.Errorf("%s: got %v, want %v", text, got[text], want)
		}
	}
}

func near64(got, want []float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= 1e-5*max(1, math.Abs(w))) {
			return false
		}
	}
	return true
}

// TestWithGradient: a value has the gradient that is given for it.
func TestWithGradient(t *testing.T) {
	type args struct{ X *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, 4}).Rounded()
	x.RequiresGrad = true
	c, err := Plan(&args{x}, func(g *Graph, a *args) Values {
		v := g.Arg("x", a.X)
		return Values{g.WithGradient(g.Square(v), []*Value{v}, func(up *Value) []*Value {
			return []*Value{g.Scale(up, 7)}
		})}
	})
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Full(tensor.Float32, []int{2}, 1.0).Rounded()
	grads := c.arguments(c.backward([]*tensor.Tensor{one}), func(v *Value) *tensor.Tensor { return v.T })
	if got := values(grads["x"][0]); !near64(got, []float64{7, 7}) || !near64(values(c.outs[0].T), []float64{1, 16}) {
		t.Errorf("got %v of %v", got, values(c.outs[0].T))
	}
}
