package ops

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/opdef"
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

// distances are those of all rows from all.
func (a *pdistArgs) distances() (*tensor.Tensor, error) {
	x := a.Input
	if x.Dim() != 2 || x.DType != tensor.Float32 && x.DType != tensor.Float64 {
		return nil, opdef.Refuse("input", "want a matrix of float32 or float64, got %s", x.Meta())
	}
	if !(a.P >= 0) {
		return nil, opdef.Refuse("p", "want no negative number, got %v", a.P)
	}
	return a.pairs().distances()
}

// plan checks the call and gives the batch shape.
func (a *cdistArgs) plan() (batch []int, err error) {
	for arg, t := range map[string]*tensor.Tensor{"x1": a.X1, "x2": a.X2} {
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
	if batch, err = tensor.Broadcast(a.X1.Shape[:m-2], a.X2.Shape[:n-2]); err != nil {
		return nil, opdef.Refuse("x2", "batch dimensions: %v", err)
	}
	return batch, nil
}

// expand gives both matrices with the common batch dimensions.
func (a *cdistArgs) expand() (x1, x2 *tensor.Tensor, shape []int, err error) {
	batch, err := a.plan()
	if err != nil {
		return nil, nil, nil, err
	}
	full := func(t *tensor.Tensor) *tensor.Tensor {
		u, e := t.Expand(append(slices.Clone(batch), t.Shape[t.Dim()-2:]...)...)
		if e != nil {
			err = opdef.Refuse("x2", "%v", e)
		}
		return u
	}
	x1, x2 = full(a.X1), full(a.X2)
	return x1, x2, append(slices.Clone(batch), a.X1.Shape[a.X1.Dim()-2], a.X2.Shape[a.X2.Dim()-2]), err
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

func (a *cdistArgs) distances() (*tensor.Tensor, error) {
	x1, x2, shape, err := a.expand()
	if err != nil {
		return nil, err
	}
	dt, _, err := opdef.Common(a.X1, a.X2)
	if err != nil {
		return nil, err
	}
	return pairRows(dt, x1, x2, shape, a.distance), nil
}

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
func cdistScale(a *cdistArgs, outs []*tensor.Tensor) []*tensor.Tensor {
	x1, x2, shape, err := a.expand()
	mode := ""
	if a.ComputeMode != nil {
		mode = *a.ComputeMode
	}
	few := err == nil && shape[len(shape)-2] <= 25 && shape[len(shape)-1] <= 25
	if err != nil || a.P != 2 || mode == "donot_use_mm_for_euclid_dist" || few && mode != "use_mm_for_euclid_dist" {
		return []*tensor.Tensor{opdef.Abs(outs[0])}
	}
	u := 0x1p-24
	if outs[0].DType == tensor.Float64 {
		u = 0x1p-53
	}
	norms := pairRows(tensor.Float64, x1, x2, shape, func(p, q []float64) float64 {
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

func cdistGrad(a *cdistArgs, g *opdef.Grad) (opdef.Grads, error) {
	x1, x2, shape, err := a.expand()
	if err != nil {
		return nil, err
	}
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
	k := len(shape)
	t, d := g.Out[0], g.Outs[0]
	return opdef.Grads{
		"x1": {opdef.SumTo(side(x1, x2, t, d), a.X1.Shape)},
		"x2": {opdef.SumTo(side(x2, x1, t.Transpose(k-2, k-1), d.Transpose(k-2, k-1)), a.X2.Shape)},
	}, nil
}
