package compose

import (
	"testing"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/tensor"
)

// Functions that devices approximate have an error of their own: each of them alone
// has a scale, and where terms cancel one of the size of the terms.
func TestApproximated(t *testing.T) {
	for name, c := range map[string]struct {
		f     func(g *Graph, x *Value) *Value
		x     float64
		least float64
	}{
		"exp":        {(*Graph).Exp, 1, 1},
		"expm1":      {(*Graph).Expm1, 1, 1},
		"log":        {(*Graph).Log, 9, 1},
		"log1p":      {(*Graph).Log1p, 9, 1},
		"sin":        {(*Graph).Sin, 1, 0.5},
		"cos":        {(*Graph).Cos, 1, 0.5},
		"tanh":       {(*Graph).Tanh, 1, 0.5},
		"sigmoid":    {(*Graph).Sigmoid, 1, 0.5},
		"silu":       {(*Graph).SiLU, 1, 0.5},
		"softplus":   {(*Graph).Softplus, 1, 1},
		"gelu":       {func(g *Graph, x *Value) *Value { return g.GELU(x, false) }, -3, 1},
		"gelu, tanh": {func(g *Graph, x *Value) *Value { return g.GELU(x, true) }, -3, 1},
		"pow":        {func(g *Graph, x *Value) *Value { return g.Pow(x, 2.5) }, 2, 4},
	} {
		x := tensor.New(tensor.Float32, []int{1}, []float64{c.x})
		x.RequiresGrad = true
		_, scales := Evaluate(func(g *Graph) *Value { return c.f(g, g.Arg("x", x)) },
			tensor.Full(tensor.Float32, []int{1}, 1.0), false)
		if s := tensor.Data[float64](scales[""])[0]; s < c.least {
			t.Errorf("%s of %v has the scale %v, want %v at least", name, c.x, s, c.least)
		}
	}
}

// TestStored8: a value that is only rounded to 8 bits is off by half a unit in the last place at most, so that the
// next number of a coarse dtype is told from it.
func TestStored8(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float8E4M3FN, tensor.Float8E5M2} {
		x := tensor.New(tensor.Float32, []int{1}, []float64{3})
		x.RequiresGrad = true
		_, scales := Evaluate(func(g *Graph) *Value { return g.To(g.Arg("x", x), dt) },
			tensor.Full(tensor.Float32, []int{1}, 1.0), false)
		bound := tensor.Data[float64](scales[""])[0] * unitTerms * roundoff.U32
		if want := 3 * dt.Eps() / 2; bound > 1.01*want || bound < 0.99*want {
			t.Errorf("%s: bound %v, want %v", dt, bound, want)
		}
	}
}
