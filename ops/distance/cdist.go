package distance

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type cdistArgs struct {
	X1, X2      *tensor.Tensor
	P           float64
	ComputeMode *string
}

type pdistArgs struct {
	Input *tensor.Tensor
	P     float64
}

// pairs is the cdist call of the rows with themselves.
func (a *pdistArgs) pairs() *cdistArgs { return &cdistArgs{X1: a.Input, X2: a.Input, P: a.P} }

func (a *pdistArgs) plan() (*distances, error) {
	x := a.Input
	if x.Dim() != 2 || x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("input", "want a matrix of float32 or float64, got %s", x.Meta())
	}
	if !(a.P >= 0) {
		return nil, opdef.Refuse("p", "want no negative number, got %v", a.P)
	}
	return a.pairs().plan()
}

// distances are those of all rows of one matrix from all of another: both matrices with the common
// batch dimensions, and the shape and dtype of the result.
type distances struct {
	*cdistArgs
	x1, x2 *tensor.Tensor
	shape  []int
	dt     tensor.DType
}

func (a *cdistArgs) plan() (*distances, error) {
	for i, t := range []*tensor.Tensor{a.X1, a.X2} {
		arg := []string{"x1", "x2"}[i]
		if t.Dim() < 2 {
			return nil, opdef.Refuse(arg, "want at least 2 dimensions, got shape %s", tensor.ShapeString(t.Shape))
		}
		if !t.DType.IsFloat() {
			return nil, opdef.Refuse(arg, "not defined for dtype %s", t.DType)
		}
	}
	m, n := a.X1.Dim(), a.X2.Dim()
	switch {
	case a.X1.Shape[m-1] != a.X2.Shape[n-1]:
		return nil, opdef.Refuse("x2", "want %d columns as of x1, got %d", a.X1.Shape[m-1], a.X2.Shape[n-1])
	case !(a.P >= 0):
		return nil, opdef.Refuse("p", "want no negative number, got %v", a.P)
	case a.ComputeMode != nil && !slices.Contains([]string{"use_mm_for_euclid_dist_if_necessary",
		"use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"}, *a.ComputeMode):
		return nil, opdef.Refuse("compute_mode", "%q is not known", *a.ComputeMode)
	}
	batch, err := tensor.Broadcast(a.X1.Shape[:m-2], a.X2.Shape[:n-2])
	if err != nil {
		return nil, opdef.Refuse("x2", "batch dimensions: %v", err)
	}
	d := &distances{cdistArgs: a, shape: append(slices.Clone(batch), a.X1.Shape[m-2], a.X2.Shape[n-2])}
	if d.x1, err = a.X1.Expand(append(slices.Clone(batch), a.X1.Shape[m-2:]...)...); err != nil {
		return nil, opdef.Refuse("x1", "%v", err)
	}
	if d.x2, err = a.X2.Expand(append(slices.Clone(batch), a.X2.Shape[n-2:]...)...); err != nil {
		return nil, opdef.Refuse("x2", "%v", err)
	}
	d.dt, _, err = opdef.Common(a.X1, a.X2)
	return d, err
}

// pairRows computes f for every pair of rows; the result has rows of x1's rows.
func pairRows(dt tensor.DType, x1, x2 *tensor.Tensor, shape []int, f func(u, v []float64) float64) *tensor.Tensor {
	k := len(shape)
	rows, cols, width := shape[k-2], shape[k-1], x1.Shape[k-1]
	b := tensor.Data[float64](x2)
	return opdef.Rows(dt, shape, max(cols, 1), func(row int, dst []float64) {
		u := opdef.Scratch[float64](width)
		tensor.Load(x1, row*width, *u)
		for j := range dst {
			at := (row/rows*cols + j) * width
			dst[j] = f(*u, b[at:at+width])
		}
		opdef.Release(u)
	})
}

// all are the distances.
func (d *distances) all() *tensor.Tensor { return pairRows(d.dt, d.x1, d.x2, d.shape, d.distance) }

// distance is that of two rows.
func (a *cdistArgs) distance(u, v []float64) float64 {
	if a.P == 1 || a.P == 2 {
		d := opdef.Scratch[float64](len(u))
		defer opdef.Release(d)
		vmath.Sub(*d, u, v)
		if a.P == 2 {
			return math.Sqrt(vmath.Dot(*d, *d))
		}
		vmath.Abs(*d, *d)
		return vmath.Sum(*d)
	}
	s := 0.0
	for i, x := range u {
		d := math.Abs(x - v[i])
		switch {
		case a.P == 0:
			if d != 0 {
				s++
			}
		case math.IsInf(a.P, 1):
			s = math.Max(s, d)
		default:
			s += math.Pow(d, a.P)
		}
	}
	if a.P == 0 || math.IsInf(a.P, 1) {
		return s
	}
	return math.Pow(s, 1/a.P)
}

// cdistScale: torch computes Euclidean distances of many rows from a matrix
// product, |u|^2 + |v|^2 - 2uv, whose error is relative to the norms.
func cdistScale(a *distances, outs []*tensor.Tensor) []*tensor.Tensor {
	shape, mode := a.shape, ""
	if a.ComputeMode != nil {
		mode = *a.ComputeMode
	}
	few := shape[len(shape)-2] <= 25 && shape[len(shape)-1] <= 25
	if a.P != 2 || mode == "donot_use_mm_for_euclid_dist" || few && mode != "use_mm_for_euclid_dist" {
		return []*tensor.Tensor{opdef.Abs(outs[0])}
	}
	u := roundoff.U32
	if outs[0].DType == tensor.Float64 {
		u = roundoff.U64
	}
	norms := pairRows(tensor.Float64, a.x1, a.x2, shape, func(p, q []float64) float64 {
		s := 0.0
		for i, x := range p {
			s += x*x + q[i]*q[i]
		}
		return s
	})
	return []*tensor.Tensor{opdef.Zip(tensor.Float64, norms, outs[0], func(s, d float64) float64 {
		return s / math.Max(d, math.Sqrt(u*s)+math.SmallestNonzeroFloat64)
	})}
}

// wild are the rows that have elements which are not finite, and whether any row has.
func wild(x *tensor.Tensor) (rows []bool, any bool) {
	width := elements.LastDim(x.Shape)
	rows = tensor.Make[bool](x.Numel() / max(width, 1))
	for i, v := range tensor.Data[float64](x) {
		if !elements.IsFinite(v) {
			rows[i/width], any = true, true
		}
	}
	return rows, any
}

// others are what implementations make of distances of rows that are not finite: those that compare elements, which
// count them or take the largest, see NaN or pass over it, some with vector instructions only.
func (d *distances) others(dist *tensor.Tensor) []*tensor.Tensor {
	u, any1 := wild(d.x1)
	v, any2 := wild(d.x2)
	if !any1 && !any2 {
		return nil
	}
	k := len(d.shape)
	rows, cols := d.shape[k-2], d.shape[k-1]
	out := elements.Undefined(dist, 1, func(i int) bool { return u[i/cols] || v[i/cols/rows*cols+i%cols] })
	if math.IsInf(d.P, 1) {
		out = append(out, d.largest())
	}
	return out
}

// largest are the distances of order infinity that pass over NaN.
func (d *distances) largest() *tensor.Tensor {
	return pairRows(d.dt, d.x1, d.x2, d.shape, func(p, q []float64) float64 {
		s := 0.0
		for i, x := range p {
			if e := math.Abs(x - q[i]); e > s {
				s = e
			}
		}
		return s
	})
}

// otherGrads are the same for gradients: those of a row that is not finite, or meets one.
func (d *distances) otherGrads(gr opdef.Grads) []opdef.Grads {
	_, any1 := wild(d.x1)
	_, any2 := wild(d.x2)
	if !any1 && !any2 {
		return nil
	}
	var out []opdef.Grads
	for name, other := range map[string]bool{"x1": any2, "x2": any1, "input": any1} {
		if gr[name] == nil {
			continue
		}
		x := map[string]*tensor.Tensor{"x1": d.X1, "x2": d.X2, "input": d.X1}[name]
		own, _ := wild(x)
		for _, t := range elements.Undefined(gr[name][0], elements.LastDim(x.Shape),
			func(i int) bool { return other || own[i] }) {
			out = append(out, elements.GradOf(name, t))
		}
	}
	return out
}

func cdistGrad(a *distances, g *opdef.Grad) (opdef.Grads, error) {
	// slope is the derivative of the distance r by a difference d; for p = 2 it is d/r.
	slope := func(d, r float64) float64 {
		abs := math.Abs(d)
		switch {
		case r == 0 || a.P == 0 || d == 0:
			return 0
		case a.P == 1:
			return math.Copysign(1, d)
		case math.IsInf(a.P, 1):
			if abs == r {
				return math.Copysign(1, d)
			}
			return 0
		}
		return math.Copysign(math.Pow(abs/r, a.P-1), d)
	}
	side := func(x, y, gr, dist *tensor.Tensor) *tensor.Tensor {
		k := x.Dim()
		rows, cols, width := x.Shape[k-2], y.Shape[k-2], x.Shape[k-1]
		yd, gd, rd := tensor.Data[float64](y), tensor.Data[float64](gr), tensor.Data[float64](dist)
		return opdef.Rows(g.Outs[0].DType, x.Shape, max(width, 1), func(row int, dst []float64) {
			u, d := opdef.Scratch[float64](width), opdef.Scratch[float64](width)
			tensor.Load(x, row*width, *u)
			clear(dst)
			for j := range cols {
				at := (row/rows*cols + j) * width
				gj, rj := gd[row*cols+j], rd[row*cols+j]
				if a.P == 2 {
					if rj != 0 {
						vmath.Sub(*d, *u, yd[at:at+width])
						vmath.Axpy(dst, gj/rj, *d)
					}
					continue
				}
				for i, v := range yd[at : at+width] {
					dst[i] += gj * slope((*u)[i]-v, rj)
				}
			}
			opdef.Release(u)
			opdef.Release(d)
		})
	}
	k := len(a.shape)
	t, d := g.Out[0], g.Outs[0]
	return opdef.Grads{
		"x1": {opdef.SumTo(side(a.x1, a.x2, t, d), a.X1.Shape)},
		"x2": {opdef.SumTo(side(a.x2, a.x1, t.Transpose(k-2, k-1), d.Transpose(k-2, k-1)), a.X2.Shape)},
	}, nil
}

var distanceOps = []*opdef.Entry{
	opdef.Planned[*cdistArgs, *distances]{
		Schema: "cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None) -> Tensor",
		Names:  "cdist functional.cdist",
		Doc: opdef.Doc{Summary: "Distances between all pairs of rows of two batches of matrices",
			Formula: "norm(x1[..., i, :] - x2[..., j, :], p)", Notes: "The gradient is zero where rows coincide."},
		Error:  opdef.Error{Class: opdef.Elementwise, ULPs: 8, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 8}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Plan:   (*cdistArgs).plan,
		Kernel: func(d *distances) ([]*tensor.Tensor, error) { return elements.Single(d.all()), nil },
		Grad:   cdistGrad,
		Bounds: opdef.Bounds[*distances]{
			Scale: cdistScale,
			Terms: func(d *distances) int { return max(1, elements.LastDim(d.X1.Shape)) },
			GradTerms: func(d *distances) int {
				return max(1, d.X1.Numel(), d.X2.Numel())
			},
		},
		Cases: opdef.Calls[cdistArgs](`
			f64[4, 3], f64[2, 3]; f64[4, 3], f64[2, 3], p=1.0; f64[4, 3], f64[2, 3], p=3.0
			f64[4, 3], f64[2, 3], p=1.5; f64[4, 3], f64[2, 3], p=inf; f64[4, 3], f64[2, 3], p=0.0
			f32[2, 3, 4], f32[5, 4], compute_mode='donot_use_mm_for_euclid_dist'; f32[0, 4], f32[5, 4]
			f64[3, 2]{gaps}, f64[2, 2]{gaps}`),
	}.Entry(),
	opdef.Planned[*pdistArgs, *triangle]{
		Schema: "pdist(Tensor input, float p=2.0) -> Tensor",
		Names:  "pdist F.pdist",
		Doc: opdef.Doc{Summary: "Distances between all pairs of rows of a matrix",
			Formula: "norm(input[i] - input[j], p) for i < j", Notes: "The gradient is zero where rows coincide.",
			Source: "torch.nn.functional.pdist"},
		Error:  opdef.Error{Class: opdef.Elementwise, ULPs: 8, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 8}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*triangle]{
			Terms:     func(d *triangle) int { return max(1, elements.LastDim(d.X1.Shape)) },
			GradTerms: func(d *triangle) int { return max(1, d.X1.Numel()) },
		},
		Plan: func(a *pdistArgs) (*triangle, error) {
			d, err := a.plan()
			return &triangle{d}, err
		},
		Kernel: func(p *triangle) ([]*tensor.Tensor, error) { return elements.Single(p.upper(p.all())), nil },
		Grad:   (*triangle).grad,
		Cases: opdef.Calls[pdistArgs](`
			f64[4, 3]; f64[3, 2], p=1.0; f64[3, 2], p=3.0; f64[3, 4], p=inf; f32[5, 2]; f32[1, 2]; f64[3, 3], p=1.5`),
	}.Entry(),
}

// Else are the distances of rows that are not finite.
func (d *distances) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	return [][]*tensor.Tensor{d.others(outs[0])}
}

// GradElse are the gradients of such rows.
func (d *distances) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	gr, err := cdistGrad(d, g)
	others := d.otherGrads(gr)
	if err == nil && len(others) > 0 && math.IsInf(d.P, 1) {
		gr, err = cdistGrad(d, opdef.NewGrad(elements.Single(d.largest()), g.Out, nil))
		others = append(others, gr)
	}
	return others, err
}

// A triangle are the distances of each row from those behind it.
type triangle struct{ *distances }

// Else are the distances of rows that are not finite.
func (p *triangle) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	others := p.others(p.all())
	for i, t := range others {
		others[i] = p.upper(t)
	}
	return [][]*tensor.Tensor{others}
}

// GradElse are the gradients of such rows.
func (p *triangle) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	gr, err := p.grad(g)
	return p.otherGrads(gr), err
}

// upper are the distances of each row from those behind it.
func (d *distances) upper(all *tensor.Tensor) *tensor.Tensor {
	n := d.X1.Shape[0]
	v, out := tensor.Data[float64](all), tensor.Make[float64](n * max(n-1, 0) / 2)[:0]
	for i := range n {
		out = append(out, v[i*n+i+1:(i+1)*n]...)
	}
	return tensor.New(d.dt, []int{len(out)}, out)
}

func (p *triangle) grad(g *opdef.Grad) (opdef.Grads, error) {
	n, up := p.X1.Shape[0], tensor.Data[float64](g.Out[0])
	square := tensor.Make[float64](n * n)
	for i := range n {
		k := n - i - 1
		copy(square[i*n+i+1:(i+1)*n], up[:k])
		up = up[k:]
	}
	both, err := cdistGrad(p.distances, opdef.NewGrad(elements.Single(p.all()),
		elements.Single(tensor.New(tensor.Float64, []int{n, n}, square)), nil))
	if err != nil {
		return nil, err
	}
	return elements.GradOf("input", opdef.Zip(p.dt, both["x1"][0], both["x2"][0],
		func(x, y float64) float64 { return x + y })), nil
}
