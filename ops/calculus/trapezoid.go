package calculus

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type trapezoidArgs struct {
	Y, X *tensor.Tensor
	Dim  int
}

type trapezoidDxArgs struct {
	Y   *tensor.Tensor
	Dx  opdef.Scalar
	Dim int
}

// neighbourSums are the sums of neighbouring samples of y along dim.
func neighbourSums(g *compose.Graph, y *compose.Value, dim int) *compose.Value {
	n := max(0, y.Shape()[dim]-1)
	return g.Add(g.Narrow(y, dim, 0, n), g.Narrow(y, dim, min(1, y.Shape()[dim]), n))
}

// samples checks y and resolves dim.
func samples(g *compose.Graph, y *compose.Value, dim int) int {
	if y.Dim() == 0 {
		g.Refuse("y", "want at least one dimension")
	}
	if y.DType() == tensor.Bool {
		g.Refuse("y", "not defined for bool")
	}
	return g.Axis("dim", dim, y)
}

// widths are the distances of the points x, whose dimensions are aligned with
// those of y as torch does: one dimension is that of the samples, missing ones
// lead.
func widths(g *compose.Graph, y, x *compose.Value, dim int) *compose.Value {
	if x.DType() == tensor.Bool {
		g.Refuse("x", "not defined for bool")
	}
	shape := make([]int, y.Dim())
	for d := range shape {
		shape[d] = 1
	}
	switch {
	case x.Dim() == 1:
		if x.Shape()[0] != y.Shape()[dim] {
			g.Refuse("x", "want one point for each of %d samples, got %d", y.Shape()[dim], x.Shape()[0])
		}
		shape[dim] = x.Shape()[0]
		x = g.Reshape(x, shape...)
	case x.Dim() < y.Dim():
		copy(shape[y.Dim()-x.Dim():], x.Shape())
		x = g.Reshape(x, shape...)
	}
	n := x.Shape()[dim]
	if n == 0 {
		return x
	}
	return g.Sub(g.Narrow(x, dim, 1, n-1), g.Narrow(x, dim, 0, n-1))
}

// trapezoid follows torch's own compositions (ATen, native/Integration.cpp), which
// differ with the form of the widths and between whole and running integrals.
func trapezoid(g *compose.Graph, a *trapezoidArgs, cumulative bool) compose.Values {
	y, x := g.Arg("y", a.Y), g.Arg("x", a.X)
	dim := samples(g, y, a.Dim)
	if y.Shape()[dim] == 0 && !cumulative {
		return compose.Values{g.Full(y.DType(), slices.Delete(slices.Clone(y.Shape()), dim, dim+1), 0)}
	}
	areas := g.Mul(neighbourSums(g, y, dim), widths(g, y, x, dim))
	if cumulative {
		return compose.Values{g.Scale(g.Cumsum(areas, dim), 0.5)}
	}
	return compose.Values{g.Scale(g.Sum(areas, false, dim), 0.5)}
}

func trapezoidEqual(g *compose.Graph, a *trapezoidDxArgs, cumulative bool) compose.Values {
	y, dx := g.Arg("y", a.Y), a.Dx.Float64()
	dim := samples(g, y, a.Dim)
	n := y.Shape()[dim]
	switch {
	case cumulative:
		return compose.Values{g.Cumsum(g.Scale(neighbourSums(g, y, dim), dx/2), dim)}
	case n == 0:
		return compose.Values{g.Full(y.DType(), slices.Delete(slices.Clone(y.Shape()), dim, dim+1), 0)}
	}
	ends := g.Add(g.Select(y, dim, 0), g.Select(y, dim, n-1))
	return compose.Values{g.Scale(g.Sub(g.Sum(y, false, dim), g.Scale(ends, 0.5)), dx)}
}

func trapezoidDoc(name string, cumulative bool, widths string) opdef.Doc {
	d := opdef.Doc{Summary: "Integral along a dimension by the trapezoidal rule",
		Formula: "sum((y[i] + y[i+1]) / 2 * " + widths + ")"}
	if cumulative {
		d.Summary = "Running integral along a dimension by the trapezoidal rule"
		d.Formula = "cumsum((y[i] + y[i+1]) / 2 * " + widths + ")"
	}
	return d
}

func trapezoidX(name, names string, cumulative bool) *opdef.Entry {
	return compose.Declare(compose.Op[trapezoidArgs]{
		Schema: name + ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", Names: names,
		Doc: trapezoidDoc(name, cumulative, "(x[i+1] - x[i])"),
		Cases: opdef.Calls[trapezoidArgs](`
			f64[3, 4], f64[4]; f64[3, 4], f64[3, 4], dim=0; f32[2, 5], f32[1, 5], dim=1; c128[3], c128[3], dim=0
			i64[5]{-4..4}, i64[5]{-4..4}, dim=0; f64[2, 3], f64[2, 2, 3], dim=0`),
	}, compose.Unfused, func(g *compose.Graph, a *trapezoidArgs) compose.Values { return trapezoid(g, a, cumulative) })
}

func trapezoidDx(name, names string, cumulative bool) *opdef.Entry {
	return compose.Declare(compose.Op[trapezoidDxArgs]{
		Schema: name + ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", Names: names,
		Doc: trapezoidDoc(name, cumulative, "dx"),
		Cases: opdef.Calls[trapezoidDxArgs](`
			f64[3, 4]; f64[3, 4], dx=0.5, dim=0; f32[5], dx=2, dim=0; c128[3], dim=0`),
	}, compose.Unfused, func(g *compose.Graph, a *trapezoidDxArgs) compose.Values {
		return trapezoidEqual(g, a, cumulative)
	})
}
