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
		"it is not divided by y: the square root of x stays": {{1, 2, 3}, {0.5, 0.25, 1. / 6}},
		"y is taken in place of the square root of x / y":    {{2, 4, 8}, {0, 0, 0}},
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

// TestDescriptions: a step that is left out is told by what it joins: arguments, parts of them, means.
func TestDescriptions(t *testing.T) {
	type args struct{ X, Y *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 4, 9, 2}).Rounded()
	c, err := Plan(&args{x, x}, func(g *Graph, a *args) Values {
		x, y := g.Arg("x", a.X), g.Arg("y", a.Y)
		cut := g.Sub(g.Narrow(y, 0, 0, 1), g.Scale(x, 3))
		return Values{g.Add(g.Mul(cut, g.Mean(g.Square(x), true, 1)), g.Mul(g.Add(g.Add(x, y), g.Add(x, y)), y))}
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, m := range c.omissions() {
		texts[m.Text] = true
	}
	for _, want := range []string{"(3 * x) is not subtracted: a part of y stays",
		"the factor y is left out: (x + y) + (x + y) stays",
		"the sum of the square of x is not divided by the number of its terms: no mean is taken",
		"the term y is left out: x stays", "the term y is left out: x stays, the second time"} {
		if !texts[want] {
			t.Errorf("%q is not among %v", want, texts)
		}
	}
}

// TestOtherForms: a number that keeps a value from 0 is joined with it in other ways, and other numbers stand in
// place of those of a composition.
func TestOtherForms(t *testing.T) {
	type args struct{ X *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2}, []float64{0.0625, 4}).Rounded()
	plan := func(of func(g *Graph, x *Value) *Value) *Call {
		c, err := Plan(&args{x}, func(g *Graph, a *args) Values { return Values{of(g, g.Arg("x", a.X))} })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	check := func(text string, plan any, err error, want []float64) {
		for i, w := range want {
			if err != nil || math.Abs(values(plan.(*Call).outs[0].T)[i]-w) > 1e-6 {
				t.Errorf("%s: got %v, want %v, %v", text, values(plan.(*Call).outs[0].T), want, err)
			}
		}
	}
	sum := plan(func(g *Graph, x *Value) *Value { return g.Scale(g.Shift(x, 0.1), 2) })
	limit := plan(func(g *Graph, x *Value) *Value { return g.Clamp(x, 0.1, math.Inf(1)) })
	root := func(x float64) []float64 { return []float64{math.Sqrt(0.00390625 + x), math.Sqrt(16 + x)} }
	twice := func(v []float64) []float64 { return []float64{2 * v[0], 2 * v[1]} }
	wants := map[string][]float64{
		"the larger of 0.1 and a value is taken, not their sum": {0.2, 8},
		"0.1 is added outside of the root":                      {0.245, 8.82},
		"0.1 is added under the root":                           twice(root(0.1)),
		"the square of 0.1 is added under the root":             twice(root(0.01)),
		"0.1 is added, not taken for a lower limit":             {0.1625, 4.1},
	}
	const under = "added under the root, not taken for a lower limit"
	wants["0.1 is "+under], wants["the square of 0.1 is "+under] = root(0.1), root(0.01)
	tried := 0
	for _, m := range append(sum.otherForms(), limit.otherForms()...) {
		p, err := m.Plan()
		if tried++; wants[m.Text] == nil {
			t.Error(m.Text)
		}
		check(m.Text, p, err, wants[m.Text])
	}
	if tried != len(wants) {
		t.Error(tried)
	}
	for _, k := range sum.Constants() {
		p, err := k.Plan(3)
		others := map[string][]float64{"the added number": {6.125, 14}, "the factor": {0.4875, 12.3}}
		check(k.Name, p, err, others[k.Name])
	}
	both := plan(func(g *Graph, x *Value) *Value { return g.Add(g.Shift(x, 0.1), g.Shift(g.Neg(x), 0.1)) })
	for _, m := range both.otherForms() {
		if m.Text == "the larger of 0.1 and a value is taken, not their sum, twice" {
			p, err := m.Plan()
			check(m.Text, p, err, []float64{0.2, 4.1})
			tried++
		}
	}
	if tried != len(wants)+1 {
		t.Error("two steps have another form at once")
	}
	if n := len(sum.Constants()); n != 2 {
		t.Error(n)
	}
}

// TestTwoFactors: two factors are left out at once, and the magnitude is taken for the square.
func TestTwoFactors(t *testing.T) {
	type args struct{ X *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2}, []float64{-3, 4}).Rounded()
	c, err := Plan(&args{x}, func(g *Graph, a *args) Values {
		return Values{g.Over(g.Square(g.Scale(g.Arg("x", a.X), 2)), 5)}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{"": values(c.outs[0].T)}
	for _, m := range c.Mistakes() {
		p, err := m.Plan()
		if err != nil {
			t.Fatal(m.Text, err)
		}
		got[m.Text] = values(p.(*Call).outs[0].T)
	}
	for text, want := range map[string][]float64{"": {7.2, 12.8}, "the division by 5 is left out": {36, 64},
		"the factor 2 and the division by 5 are left out": {9, 16},
		"the magnitude is taken, not the square":          {1.2, 1.6}} {
		if v := got[text]; len(v) != 2 || math.Abs(v[0]-want[0]) > 1e-6 || math.Abs(v[1]-want[1]) > 1e-6 {
			t.Errorf("%s: got %v, want %v", text, v, want)
		}
	}
}

func values(t *tensor.Tensor) []float64 {
	v := make([]float64, t.Numel())
	tensor.Load(t, 0, v)
	return v
}
