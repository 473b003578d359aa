package linalg

import (
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
)

type crossArgs struct {
	Self, Other *tensor.Tensor
	Dim         *int
}

// crossDim is the dimension given, or the first of size 3.
func crossDim(x *tensor.Tensor, dim *int) (int, error) {
	if dim != nil {
		return *dim, nil
	}
	d := slices.Index(x.Shape, 3)
	if d < 0 {
		return 0, opdef.Refuse("self", "shape %s has no dimension of size 3", tensor.ShapeString(x.Shape))
	}
	return d, nil
}

// rolled is x with its three elements along dim moved on by k places.
func rolled(x *tensor.Tensor, dim, k int) *tensor.Tensor {
	s := elements.Stencil{In: 3, Taps: make([][]elements.StencilTap, 3)}
	for j := range 3 {
		s.Taps[j] = []elements.StencilTap{{At: (j + k) % 3, Coef: 1}}
	}
	return s.Along(x.DType, x, dim)
}

// crossProduct is the cross product of x and y along dim, sign -1 between its
// two terms or 1 for the magnitudes. conj conjugates y.
func crossProduct(dt tensor.DType, x, y *tensor.Tensor, dim int, sign float64, conj bool) (*tensor.Tensor, error) {
	ts := []*tensor.Tensor{rolled(x, dim, 1), rolled(y, dim, 2), rolled(x, dim, 2), rolled(y, dim, 1)}
	if dt.Kind() < tensor.KindFloat {
		ts, shape, err := opdef.BroadcastAll(ts...)
		if err != nil {
			return nil, err
		}
		return elements.ZipEach(dt, shape, func(v []int64) int64 { return v[0]*v[1] - v[2]*v[3] }, ts), nil
	}
	return elements.MapN(dt, func(v []complex128) complex128 {
		if conj {
			v[1], v[3] = cmplx.Conj(v[1]), cmplx.Conj(v[3])
		}
		return v[0]*v[1] + complex(sign, 0)*v[2]*v[3]
	}, func(v []float64) float64 { return v[0]*v[1] + sign*v[2]*v[3] }, ts...)
}

func crossOp(name, param, names string, which func(a *crossArgs) (int, error)) *opdef.Entry {
	plan := func(a *crossArgs) (int, tensor.DType, error) {
		x, y := a.Self, a.Other
		if x.Dim() != y.Dim() {
			return 0, tensor.Invalid, opdef.Refuse("other", "want %d dimensions, got shape %s", x.Dim(),
				tensor.ShapeString(y.Shape))
		}
		d, err := which(a)
		if err == nil {
			d, err = opdef.Dim("dim", d, x.Dim())
		}
		if err != nil {
			return 0, tensor.Invalid, err
		}
		for _, in := range []struct {
			arg string
			t   *tensor.Tensor
		}{{"self", x}, {"other", y}} {
			if in.t.Dim() == 0 || in.t.Shape[d] != 3 {
				return 0, tensor.Invalid, opdef.Refuse(in.arg, "want 3 elements along dimension %d, got shape %s", d,
					tensor.ShapeString(in.t.Shape))
			}
		}
		if x.DType == tensor.Bool {
			return 0, tensor.Invalid, opdef.Refuse("self", "not defined for bool")
		}
		if _, _, err = opdef.BroadcastAll(x, y); err != nil {
			return 0, tensor.Invalid, opdef.Refuse("other", "shape %s does not fit %s", tensor.ShapeString(y.Shape),
				tensor.ShapeString(x.Shape))
		}
		dt, err := elements.PromoteWith("other", x.DType, y)
		return d, dt, err
	}
	grads := func(a *crossArgs, g *opdef.Grad, x, y, up *tensor.Tensor, sign float64, dt tensor.DType) (opdef.Grads,
		error) {
		d, _, err := plan(a)
		if err != nil {
			return nil, err
		}
		// x' = y x g and y' = g x x, the operand conjugated.
		gx, err := crossProduct(dt, up, y, d, sign, true)
		if err != nil {
			return nil, err
		}
		gy, err := crossProduct(dt, up, x, d, sign, true)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"self": {elements.Scaled(opdef.SumTo(gx, a.Self.Shape), sign)},
			"other": {opdef.SumTo(gy, a.Other.Shape)}}, nil
	}
	return opdef.Op[crossArgs]{
		Schema: name + "(Tensor self, Tensor other, " + param + ") -> Tensor", Names: names,
		Autocast: opdef.AutocastWidest,
		Doc: opdef.Doc{Summary: "Cross product of vectors of three elements",
			Formula: "out[i] = self[i+1]*other[i+2] - self[i+2]*other[i+1], indices modulo 3",
			Source:  "torch.linalg.cross"},
		Error:     opdef.Error{Class: opdef.Accumulated, ULPs: 2, Coarse: true},
		Terms:     func(*crossArgs) int { return 2 },
		GradTerms: func(a *crossArgs) int { return 2 * elements.BroadcastTerms(a.Self, a.Other) },
		Kernel: func(a *crossArgs) ([]*tensor.Tensor, error) {
			d, dt, err := plan(a)
			if err != nil {
				return nil, err
			}
			y, err := crossProduct(dt, a.Self, a.Other, d, -1, false)
			return elements.Single(y), err
		},
		Grad: func(a *crossArgs, g *opdef.Grad) (opdef.Grads, error) {
			return grads(a, g, a.Self, a.Other, g.Out[0], -1, g.Outs[0].DType)
		},
		Scale: func(a *crossArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			d, dt, err := plan(a)
			if err != nil {
				return elements.Single(opdef.Abs(outs[0]))
			}
			s, err := crossProduct(tensor.Float64, opdef.Abs(a.Self), opdef.Abs(a.Other), d, 1, false)
			if err != nil {
				return elements.Single(opdef.Abs(outs[0]))
			}
			return elements.Single(elements.Scaled(s, elements.EpsOverFloat32(dt)))
		},
		GradScale: func(a *crossArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			up := elements.Scaled(opdef.Abs(g.Out[0]), elements.EpsOverFloat32(g.Outs[0].DType))
			return grads(a, g, opdef.Abs(a.Self), opdef.Abs(a.Other), up, 1, tensor.Float64)
		},
		Cases: func(r *rand.Rand) []*crossArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*crossArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 4, 3), new(-1)}, {g.Normal(f64, 1, 3), g.Normal(f64, 5, 3), new(1)},
				{g.Normal(tensor.Float32, 3, 2), g.Normal(tensor.Float32, 3, 2), new(0)},
				{g.Normal(tensor.BFloat16, 2, 3), g.Normal(tensor.BFloat16, 2, 3), new(1)},
				{g.Normal(tensor.Complex128, 2, 3), g.Normal(tensor.Complex128, 2, 3), new(1)},
				{g.Int(tensor.Int64, -4, 4, 3), g.Int(tensor.Int64, -4, 4, 3), new(-1)},
			}
		},
	}.Entry()
}

var crossOps = []*opdef.Entry{
	crossOp("cross", "int? dim=None", "cross Tensor.cross",
		func(a *crossArgs) (int, error) { return crossDim(a.Self, a.Dim) }),
	crossOp("linalg_cross", "int? dim=-1", "linalg.cross", func(a *crossArgs) (int, error) {
		if a.Dim == nil {
			return -1, nil
		}
		return *a.Dim, nil
	}),
}
