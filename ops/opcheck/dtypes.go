package opcheck

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// checkDTypes rounds the floating arguments to a narrower dtype and compares
// the unrounded results with those of the same numbers in float64: kernels
// must not round on the way, and a result that is float64 for float64 must have
// the narrower dtype. Gradients may be computed from results saved in the
// narrower dtype, so they are compared to a few of its eps, of the incoming
// gradient where it is larger (1 - y*y of tanh). Python numbers are rounded to float32 first, the
// precision in which arithmetic with narrower tensors takes them.
func checkDTypes(x *subject) {
	c := each(x.call, dense).Map(func(a opdef.Arg) *tensor.Tensor {
		if a.Tensor.Wrapped {
			return single(opdef.ScalarAt(a.Tensor, 0)).Tensor()
		}
		return a.Tensor
	}).MapScalars(single)
	floating := func(a opdef.Arg) bool { return a.Tensor.DType.Kind() >= tensor.KindFloat }
	if !slices.ContainsFunc(c.Tensors(), floating) || x.call.Random() != "" {
		return
	}
	hasComplex := slices.ContainsFunc(c.Tensors(), func(a opdef.Arg) bool { return a.Tensor.DType.IsComplex() })
	for _, dt := range tensor.Floats()[1:] {
		if !hasComplex || dt == tensor.Float32 {
			x.checkDType(dt, each(c, func(t *tensor.Tensor) *tensor.Tensor { return narrow(t, dt) }))
		}
	}
}

// checkDType compares a call in dtype dt with that of the same numbers in float64.
func (x *subject) checkDType(dt tensor.DType, narrowed *opdef.Call) {
	nf, err := x.forward(narrowed)
	if err != nil {
		if !refused(err) {
			x.report("in %s: %v", dt, err)
		}
		return // the dtypes an op takes are its own
	}
	wide := each(narrowed, widen)
	wf, err := x.forward(wide)
	if err != nil {
		x.report("in %s, widened to float64: %v", dt, err)
		return
	}
	got, want := outputs(nf), outputs(wf)
	results, incoming := len(want), 0.0
	if out := x.cotangents(nf); differentiable(narrowed) && hasAny(out) {
		ng, err := x.backward(narrowed, nf, out, nil)
		if err != nil {
			x.report("in %s: %v", dt, err)
			return
		}
		for i, g := range out {
			if g != nil {
				incoming = max(incoming, opdef.MaxAbs(g))
				out[i] = like(g, wf.Outs[i].DType, g)
			}
		}
		wg, err := x.backward(wide, wf, out, nil)
		if err != nil {
			x.report("in %s, widened to float64: %v", dt, err)
			return
		}
		got, want = append(got, gradients(ng)...), append(want, gradients(wg)...)
	}
	if len(got) != len(want) {
		x.report("in %s: %d results, in float64 %d", dt, len(got), len(want))
		return
	}
	for i, w := range want {
		g := got[i]
		if (g.t == nil) != (w.t == nil) || g.name != w.name {
			x.report("in %s: %s, in float64 %s", dt, g.name, w.name)
			return
		}
		if w.t == nil {
			continue
		}
		if should := narrowDType(w.t.DType, dt); g.t.DType != should {
			x.report("%s of %s arguments has dtype %s, want %s", g.name, dt, g.t.DType, should)
			continue
		}
		rel := 1e-12
		if i >= results { // from saved results, which are rounded
			rel = 8 * dt.Eps() * (1 + incoming/opdef.MaxAbs(w.t))
		}
		if d := tensorDifference(like(g.t, w.t.DType, g.t), w.t, rel); d != "" {
			x.report("%s of %s arguments and of the same numbers in float64 differ before rounding: %s (is a "+
				"number rounded on the way? compositions take g.Scale and g.Shift, not g.Number)", g.name, dt, d)
		}
	}
}

func single(s opdef.Scalar) opdef.Scalar {
	switch s.Kind() {
	case tensor.KindFloat:
		return opdef.Float(tensor.Float32.Round(s.Float64()))
	case tensor.KindComplex:
		c := s.Complex128()
		return opdef.Cplx(complex(tensor.Float32.Round(real(c)), tensor.Float32.Round(imag(c))))
	}
	return s
}

func narrow(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if t.DType.Kind() < tensor.KindFloat {
		return t
	}
	u := like(t, narrowDType(widen(t).DType, dt), t)
	return dense(u)
}

// narrowDType is what wide becomes when float64 becomes dt.
func narrowDType(wide, dt tensor.DType) tensor.DType {
	switch wide {
	case tensor.Float64:
		return dt
	case tensor.Complex128:
		return dt.Complex()
	}
	return wide
}
