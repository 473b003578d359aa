package statistics

import (
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// covarianceOps are covariances and correlations.
var covarianceOps = []*opdef.Entry{
	compose.Declare(compose.Op[covArgs]{
		Schema: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastInner},
		Doc: opdef.Doc{Summary: "Covariance matrix of variables in rows",
			Formula: "(self - mean) W (self - mean)^H / n, with W the product of the weights",
			Notes: "n is the sum of the weights less correction, for aweights less " +
				"correction*sum(w*aweights)/sum(w). Of complex variables the second is conjugated."},
		Cases: opdef.Calls[covArgs](`
			f64[3, 5]; f64[2, 5], correction=0, fweights=i64[5]{1..4}, aweights=f64[5]{0.5..2}
			f64[2, 5], aweights=f64[5]{0.5..2}; f32[6]; i32[2, 5]{-4..4}; c128[3, 5], aweights=f64[5]{0.5..2}
			c64[4], correction=0`),
	}, compose.Unfused, func(g *compose.Graph, a *covArgs) compose.Values {
		return compose.Values{covariance(g, g.Arg("self", a.Self), a.Correction, g.Arg("fweights", a.Fweights),
			g.Arg("aweights", a.Aweights))}
	}),
	compose.Declare(compose.Op[opdef.UnaryArgs]{
		Schema: "corrcoef(Tensor self) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastInner},
		Doc: opdef.Doc{Summary: "Correlation matrix of variables in rows",
			Formula: "cov(self) divided by the standard deviations of both variables",
			Notes:   "Real and imaginary parts are limited to [-1, 1]; beyond them no gradient passes."},
		Cases: opdef.Calls[opdef.UnaryArgs](`f64[3, 6]; f32[2, 5]; c128[3, 5]`),
	}, compose.Unfused, func(g *compose.Graph, a *opdef.UnaryArgs) compose.Values {
		c := covariance(g, g.Arg("self", a.Self), 1, nil, nil)
		if c.Dim() == 0 {
			return compose.Values{g.Div(c, c)}
		}
		std := g.Sqrt(g.Real(g.Diagonal(c, 0)))
		c = g.Div(g.Div(c, g.Unsqueeze(std, 1)), g.Unsqueeze(std, 0))
		if c.DType().IsComplex() {
			return compose.Values{g.Complex(g.Clamp(g.Real(c), -1, 1), g.Clamp(g.Imag(c), -1, 1))}
		}
		return compose.Values{g.Clamp(c, -1, 1)}
	}),
}

type covArgs struct {
	Self               *tensor.Tensor
	Correction         int
	Fweights, Aweights *tensor.Tensor
}

// covariance follows torch's own composition (ATen, native/Correlation.cpp).
func covariance(g *compose.Graph, x *compose.Value, correction int, fweights, aweights *compose.Value) *compose.Value {
	switch {
	case x.Dim() > 2:
		g.Refuse("self", "want at most 2 dimensions, got %d", x.Dim())
	case x.DType() == tensor.Bool:
		g.Refuse("self", "not defined for dtype %s", x.DType())
	case x.Dim() < 2:
		x = g.Reshape(x, 1, -1)
	}
	n := x.Shape()[1]
	checkWeights(g, "fweights", fweights, n, false)
	checkWeights(g, "aweights", aweights, n, true)
	w := fweights
	switch {
	case w == nil:
		w = aweights
	case aweights != nil:
		w = g.Mul(fweights, aweights)
	}
	weighted, total := x, g.Number(float64(n))
	if w != nil {
		weighted, total = g.Mul(x, w), g.Sum(w, false)
	}
	mean := g.Div(g.Sum(weighted, true, 1), total)
	divisor := g.Shift(total, -float64(correction))
	if aweights != nil && correction != 0 {
		divisor = g.Sub(total, g.Scale(g.Div(g.Sum(g.Mul(w, aweights), false), total), float64(correction)))
	}
	if divisor.T.Item() <= 0 {
		divisor = g.Scale(divisor, 0)
	}
	x = g.Sub(x, mean)
	weighted = x
	if w != nil {
		weighted = g.Mul(x, w)
	}
	c := g.Div(g.Matmul(x, g.H(weighted)), divisor)
	if c.Shape()[0] == 1 {
		return g.Reshape(c)
	}
	return g.Alias(c)
}

// checkWeights refuses weights that are not one number per observation, none
// negative.
func checkWeights(g *compose.Graph, name string, w *compose.Value, n int, floating bool) {
	if w == nil {
		return
	}
	switch {
	case w.Dim() > 1 || w.T.Numel() != n:
		g.Refuse(name, "want %d weights, one per observation, got shape %s", n, tensor.ShapeString(w.Shape()))
	case w.DType().IsFloat() != floating:
		g.Refuse(name, "dtype %s does not fit", w.DType())
	}
	for _, k := range tensor.Data[float64](w.T) {
		if k < 0 {
			g.Refuse(name, "has a negative weight")
		}
	}
}
