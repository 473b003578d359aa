package compose

import (
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestWritten: formulas have brackets where they need them, and subtract what is added with the other sign.
func TestWritten(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{stepWritten(additionStep+"-1", "exp(x)"), "exp(x) - 1"},
		{stepWritten(additionStep+"2", "x * y"), "x * y + 2"},
		{stepWritten(factorStep+"3", "x + y"), "(x + y) * 3"},
		{stepWritten("square", "-x"), "(-x)^2"},
		{stepWritten("square", "x^3"), "(x^3)^2"},
		{stepWritten("logarithm", "x + y"), "log(x + y)"},
		{joinedWritten("division", "x - 1", "x * y"), "(x - 1) / (x * y)"},
		{joinedWritten("subtraction", "x", "y + z"), "x - (y + z)"},
		{joinedWritten("maximum", "x", "y"), "max(x, y)"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

// TestChanged: a step that is done otherwise is told by what is computed and what is due. What is around a step is left
// out of long formulas, and a step without a name is said to be made of the arguments that are.
func TestChanged(t *testing.T) {
	type args struct{ X, Y *tensor.Tensor }
	x := tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 4, 9, 0.3}).Rounded()
	c, err := Plan(&args{x, x}, func(g *Graph, a *args) Values {
		hidden := g.Tanh(g.Arg("x", a.X))
		hidden.what = ""
		return Values{g.Mul(g.Arg("y", a.Y), g.Exp(g.Sqrt(g.Neg(hidden))))}
	})
	if err != nil {
		t.Fatal(err)
	}
	formulas := map[string]string{}
	for _, m := range c.Variations() {
		formulas[m.Text] = m.Formula
		if len(m.Formula) > 2*mostWritten {
			t.Errorf("%s: %q is long", m.Text, m.Formula)
		}
	}
	found := false
	for _, formula := range formulas {
		found = found || strings.HasSuffix(formula, ", where x is made of x")
	}
	if !found {
		t.Errorf("no step is made of an argument: %q", formulas)
	}
}
