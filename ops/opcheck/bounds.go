package opcheck

import (
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// checkBounds evaluates the error model of every result and gradient. For
// multilinear ops it also moves every argument by up to 2^-20 of each element,
// as rounding them would, and requires that no result moves further than S
// says.
func checkBounds(x *subject) {
	if x.call.Random() != "" {
		return
	}
	c := wideCall(x.call)
	f, err := x.forward(c)
	if err != nil {
		x.report("in float64: %v", err)
		return
	}
	shaken := 0
	moved := each(c, func(t *tensor.Tensor) *tensor.Tensor {
		if t.DType.Kind() < tensor.KindFloat {
			return t
		}
		shaken++
		return x.shake(t)
	})
	mf, err := x.forward(moved)
	if err != nil {
		x.report("near the case: %v", err)
		return
	}
	for i, o := range f.Outs {
		x.bound(fmt.Sprintf("result %d", i), c.OutBound(f, i), o, mf.Outs[i], shaken)
	}
	out := x.cotangents(f)
	if !differentiable(c) || !hasAny(out) {
		return
	}
	g, err := x.backward(c, f, out, nil)
	if err != nil {
		x.report("%v", err)
		return
	}
	mg, err := x.backward(moved, mf, out, nil)
	if err != nil {
		x.report("near the case: %v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		for i, t := range g[name] {
			if t != nil && mg[name][i] != nil {
				x.bound("gradient of "+name, c.GradBound(f, out, g, name, i), t, mg[name][i], shaken)
			}
		}
	}
}

// shakeSize is the relative size of the change of arguments in checkBounds:
// large against float64, small against 1.
const shakeSize = 0x1p-20

// shake moves every element of t by up to shakeSize of itself.
func (x *subject) shake(t *tensor.Tensor) *tensor.Tensor {
	if t.DType.IsComplex() {
		v := slices.Clone(tensor.Data[complex128](t))
		for i := range v {
			v[i] *= complex(1+shakeSize*(2*x.rand.Float64()-1), 0)
		}
		return like(t, t.DType, tensor.New(t.DType, t.Shape, v))
	}
	v := slices.Clone(tensor.Data[float64](t))
	for i := range v {
		v[i] *= 1 + shakeSize*(2*x.rand.Float64()-1)
	}
	return like(t, t.DType, tensor.New(t.DType, t.Shape, v))
}

func (x *subject) bound(what string, b opdef.Bound, ref, moved *tensor.Tensor, shaken int) {
	if b.Scale == nil {
		return
	}
	s := b.Scale()
	if s == nil || !slices.Equal(s.Shape, ref.Shape) {
		x.report("%s: S has not the result's shape %s", what, tensor.ShapeString(ref.Shape))
		return
	}
	ss, rs, ms := tensor.Data[float64](s), tensor.Data[complex128](ref), tensor.Data[complex128](moved)
	second := math.Pow(float64(shaken)*shakeSize, 2) * opdef.MaxAbs(s) // of second order: no rounding of the arguments
	for i, r := range rs {
		m := cmplx.Abs(r)
		factors := float64(shaken) * (1 + math.Log2(float64(b.Terms))) // as the comparison grows with terms
		if ss[i] <= m*(1+1e-9) {                                       // nothing cancels: as many factors as terms
			factors = float64(shaken * b.Terms)
		}
		if math.IsNaN(m) || math.IsInf(m, 0) {
			continue
		}
		switch {
		case !(ss[i] >= 0) || math.IsInf(ss[i], 0):
			x.report("%s: S of element %d is %g where the result is %g", what, i, ss[i], m)
			return
		case b.Covers && ss[i] < m*(1-1e-9):
			x.report("%s: S of element %d is %g, less than the result's magnitude %g", what, i, ss[i], m)
			return
		case b.Class == opdef.Accumulated && cmplx.Abs(ms[i]-r) > factors*shakeSize*1.001*ss[i]+1e-13*m+second:
			x.report("%s: S of element %d is %g, but arguments rounded to %g change the result by %g", what, i, ss[i],
				shakeSize, cmplx.Abs(ms[i]-r))
			return
		}
	}
}
