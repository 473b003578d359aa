package calculus

import (
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
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

// A trapezoid is an integral of y along dim, each panel being as wide as its
// points x are apart or dx.
type trapezoid struct {
	y, x       *tensor.Tensor // x: y's dimensions, nil for dx
	dx         complex128
	dim        int
	cumulative bool
	dt         tensor.DType
}

func newTrapezoid(y *tensor.Tensor, dim int, cumulative bool) (*trapezoid, error) {
	if y.Dim() == 0 {
		return nil, opdef.Refuse("y", "want at least one dimension")
	}
	d, err := opdef.Dim("dim", dim, y.Dim())
	if err != nil {
		return nil, err
	}
	if y.DType == tensor.Bool {
		return nil, opdef.Refuse("y", "not defined for bool")
	}
	return &trapezoid{y: y, dx: 1, dim: d, cumulative: cumulative, dt: y.DType}, nil
}

func (t *trapezoid) over(x *tensor.Tensor) error {
	if x.DType == tensor.Bool {
		return opdef.Refuse("x", "not defined for bool")
	}
	y := t.y
	var err error
	if t.dt, err = elements.PromoteWith("x", y.DType, x); err != nil {
		return err
	}
	switch {
	case x.Dim() == 1:
		if x.Shape[0] != y.Shape[t.dim] {
			return opdef.Refuse("x", "want one point for each of %d samples, got %d", y.Shape[t.dim], x.Shape[0])
		}
		shape := make([]int, y.Dim())
		for d := range shape {
			shape[d] = 1
		}
		shape[t.dim] = x.Shape[0]
		x = x.Reshape(shape...)
	case x.Dim() < y.Dim():
		shape := make([]int, y.Dim())
		for d := range shape {
			shape[d] = 1
		}
		copy(shape[y.Dim()-x.Dim():], x.Shape)
		x = x.Reshape(shape...)
	}
	t.x = x
	if x.Dim() > y.Dim() {
		shape := slices.Clone(y.Shape)
		for range x.Dim() - y.Dim() {
			shape = append([]int{1}, shape...)
		}
		t.y, t.dim = y.Reshape(shape...), t.dim+x.Dim()-y.Dim()
	}
	return nil
}

// result is the dtype of the integral.
func (t *trapezoid) result() tensor.DType {
	if t.dt.Kind() < tensor.KindFloat {
		return tensor.DefaultDType
	}
	return t.dt
}

// operands are the mean heights and the widths of the panels; with bounds the
// magnitudes behind them.
func (t *trapezoid) operands(bounds bool) (heights, widths *tensor.Tensor) {
	dt, y := t.result(), t.y
	mean := neighbours(y.Shape[t.dim], 0.5)
	if bounds {
		dt, y = tensor.Float64, opdef.Abs(y)
	}
	heights = mean.Along(dt, y, t.dim)
	if t.x == nil {
		if bounds {
			return heights, tensor.Scalar(dt, cmplx.Abs(t.dx))
		}
		return heights, tensor.Scalar(dt, t.dx)
	}
	apart := differences(t.x.Shape[t.dim], 1)
	if bounds {
		return heights, apart.Magnitudes().Along(dt, opdef.Abs(t.x), t.dim)
	}
	return heights, apart.Along(dt, t.x, t.dim)
}

func (t *trapezoid) forward(bounds bool) (*tensor.Tensor, error) {
	if t.y.Shape[t.dim] == 0 && !t.cumulative {
		return opdef.Sum(t.y.DType, t.y, []int{t.dim}, false), nil
	}
	h, w := t.operands(bounds)
	dt := h.DType
	p, err := product2(dt, h, w)
	if err != nil {
		return nil, opdef.Refuse("x", "widths of shape %s do not fit panels of shape %s", tensor.ShapeString(w.Shape),
			tensor.ShapeString(h.Shape))
	}
	switch {
	case !t.cumulative:
		return opdef.Sum(dt, p, []int{t.dim}, false), nil
	case dt.IsComplex():
		return opdef.AlongDim(dt, p, t.dim, reduction.RunningSum[complex128]), nil
	}
	return opdef.AlongDim(dt, p, t.dim, reduction.RunningSum[float64]), nil
}

// product2 is x*y, broadcast.
func product2(dt tensor.DType, x, y *tensor.Tensor) (*tensor.Tensor, error) {
	return elements.MapN(dt, func(v []complex128) complex128 { return v[0] * v[1] },
		func(v []float64) float64 { return v[0] * v[1] }, x, y)
}

// grads are the gradients of y and x, of their shapes in the call; with bounds
// the magnitudes behind them.
func (t *trapezoid) grads(up *tensor.Tensor, bounds bool) (gy, gx *tensor.Tensor, err error) {
	h, w := t.operands(bounds)
	dt := h.DType
	ts, shape, err := opdef.BroadcastAll(h, w)
	if err != nil {
		return nil, nil, err
	}
	if bounds {
		up = opdef.Abs(up)
	}
	switch {
	case !t.cumulative:
		up = opdef.Unreduce(up, shape, []int{t.dim})
	case dt.IsComplex():
		up = opdef.AlongDim(dt, up, t.dim, reduction.SuffixSum[complex128])
	default:
		up = opdef.AlongDim(dt, up, t.dim, reduction.SuffixSum[float64])
	}
	through := func(other, like *tensor.Tensor, s elements.Stencil, x *tensor.Tensor) *tensor.Tensor {
		p, _ := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[1]) },
			func(v []float64) float64 { return v[0] * v[1] }, up, other)
		s = s.Transposed()
		if bounds {
			s = s.Magnitudes()
		}
		return s.Along(dt, opdef.SumTo(p, like.Shape), t.dim)
	}
	gy = through(ts[1], h, neighbours(t.y.Shape[t.dim], 0.5), t.y)
	if t.x != nil {
		gx = through(ts[0], w, differences(t.x.Shape[t.dim], 1), t.x)
	}
	return gy, gx, nil
}

func trapezoidDoc(name string, cumulative bool, widths string) opdef.Doc {
	d := opdef.Doc{Summary: "Integral along a dimension by the trapezoidal rule",
		Formula: "sum((y[i] + y[i+1]) / 2 * " + widths + ")", Source: "torch." + name}
	if cumulative {
		d.Summary, d.Formula = "Running integral along a dimension by the trapezoidal rule",
			"cumsum((y[i] + y[i+1]) / 2 * "+widths+")"
	}
	return d
}

// trapezoidEntry completes the declaration of an integral.
func trapezoidEntry[A any](o opdef.Op[A], call func(*A) (*trapezoid, error), set func(gr opdef.Grads, a *A, gy,
	gx *tensor.Tensor)) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 2, Coarse: true, Grad: &opdef.Error{Class: opdef.Accumulated,
		ULPs: 3, Coarse: true}}
	o.Terms = func(a *A) int {
		t, err := call(a)
		if err != nil {
			return 1
		}
		return 2 * t.y.Shape[t.dim]
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		t, err := call(a)
		if err != nil {
			return nil, err
		}
		y, err := t.forward(false)
		return elements.Single(y), err
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		t, err := call(a)
		if err != nil {
			return elements.Single(opdef.Abs(outs[0]))
		}
		s, err := t.forward(true)
		if err != nil {
			return elements.Single(opdef.Abs(outs[0]))
		}
		return elements.Single(elements.Scaled(s, elements.EpsOverFloat32(t.dt)))
	}
	grads := func(a *A, g *opdef.Grad, bounds bool) (opdef.Grads, error) {
		t, err := call(a)
		if err != nil {
			return nil, err
		}
		gy, gx, err := t.grads(g.Out[0], bounds)
		if err != nil {
			return nil, err
		}
		if bounds {
			gy = elements.Scaled(gy, elements.EpsOverFloat32(t.dt))
			if gx != nil {
				gx = elements.Scaled(gx, elements.EpsOverFloat32(t.dt))
			}
		}
		gr := opdef.Grads{}
		set(gr, a, gy, gx)
		return gr, nil
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) { return grads(a, g, false) }
	o.GradScale = func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) { return grads(a, g, true) }
	return o.Entry()
}

func trapezoidX(name, names string, cumulative bool) *opdef.Entry {
	return trapezoidEntry(opdef.Op[trapezoidArgs]{
		Schema: name + ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", Names: names,
		Doc: trapezoidDoc(name, cumulative, "(x[i+1] - x[i])"),
		Cases: func(r *rand.Rand) []*trapezoidArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*trapezoidArgs{
				{g.Normal(f64, 3, 4), g.Normal(f64, 4), -1}, {g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), 0},
				{g.Normal(tensor.Float32, 2, 5), g.Normal(tensor.Float32, 1, 5), 1},
				{g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3), 0}, {g.Int(tensor.Int64, -4, 4, 5),
					g.Int(tensor.Int64, -4, 4, 5), 0},
			}
		},
	}, func(a *trapezoidArgs) (*trapezoid, error) {
		t, err := newTrapezoid(a.Y, a.Dim, cumulative)
		if err == nil {
			err = t.over(a.X)
		}
		return t, err
	}, func(gr opdef.Grads, a *trapezoidArgs, gy, gx *tensor.Tensor) {
		gr.Set("y", gy.Reshape(a.Y.Shape...))
		gr.Set("x", gx.Reshape(a.X.Shape...))
	})
}

func trapezoidDx(name, names string, cumulative bool) *opdef.Entry {
	return trapezoidEntry(opdef.Op[trapezoidDxArgs]{
		Schema: name + ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", Names: names,
		Doc: trapezoidDoc(name, cumulative, "dx"),
		Cases: func(r *rand.Rand) []*trapezoidDxArgs {
			g := opdef.Gen{R: r}
			return []*trapezoidDxArgs{
				{g.Normal(tensor.Float64, 3, 4), opdef.Int(1), -1}, {g.Normal(tensor.Float64, 3, 4), opdef.Float(0.5),
					0}, {g.Normal(tensor.Float32, 5), opdef.Int(2), 0}, {g.Normal(tensor.Complex128, 3),
					opdef.Int(1), 0},
			}
		},
	}, func(a *trapezoidDxArgs) (*trapezoid, error) {
		t, err := newTrapezoid(a.Y, a.Dim, cumulative)
		if err == nil {
			t.dx = a.Dx.Complex128()
		}
		return t, err
	}, func(gr opdef.Grads, a *trapezoidDxArgs, gy, _ *tensor.Tensor) { gr.Set("y", gy.Reshape(a.Y.Shape...)) })
}
