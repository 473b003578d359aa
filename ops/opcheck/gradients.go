package opcheck

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// checkGradients compares gradients with difference quotients of
//
//	L(args) = sum over results of Re(conj(g) * out)
//
// whose gradient, in the convention of package opdef, is what Backward returns
// for the incoming gradients g. Quotients are taken along random directions of
// one argument at a time, for complex ones along real, imaginary and mixed
// directions, so that a wrong element shows in every direction that has it.
func checkGradients(x *subject) {
	if !differentiable(x.call) || x.call.Random() != "" {
		return
	}
	c := wideCall(x.call)
	f, err := x.forward(c)
	if err != nil {
		x.report("in float64: %v", err)
		return
	}
	all := x.cotangents(f)
	if !hasAny(all) {
		return
	}
	if _, size, err := lossOf(f, all); err != nil || math.IsNaN(size) || math.IsInf(size, 0) {
		return // no quotients at infinity
	}
	sets := [][]*tensor.Tensor{all}
	if len(all) > 1 { // each result alone: the others' gradients are nil
		for i, g := range all {
			if g != nil {
				one := make([]*tensor.Tensor, len(all))
				one[i] = g
				sets = append(sets, one)
			}
		}
	}
	for k, out := range sets {
		grads, err := x.backward(c, f, out, nil)
		if err != nil {
			x.report("%v", err)
			return
		}
		for _, a := range c.Tensors() {
			if !asks(a) || a.Tensor.Numel() == 0 {
				continue
			}
			if d := x.quotients(c, a, gradientOf(grads, a), out, k == 0); d != "" {
				x.report("%s", d)
			}
		}
		if k == 0 {
			x.selections(c, f, out, grads)
		}
	}
}

// wideCall is the call in float64 and complex128, dtypes asked for included.
func wideCall(c *opdef.Call) *opdef.Call {
	return each(c, widen).MapDTypes(func(dt tensor.DType) tensor.DType {
		switch dt.Kind() {
		case tensor.KindFloat:
			return tensor.Float64
		case tensor.KindComplex:
			return tensor.Complex128
		}
		return dt
	})
}

// widen is a copy of t in the dtype of its compute type.
func widen(t *tensor.Tensor) *tensor.Tensor {
	switch t.DType.Kind() {
	case tensor.KindFloat:
		return like(t, tensor.Float64, t)
	case tensor.KindComplex:
		return like(t, tensor.Complex128, t)
	}
	return t
}

func gradientOf(g opdef.Grads, a opdef.Arg) *tensor.Tensor {
	if ts := g[a.Name]; max(a.Index, 0) < len(ts) {
		return ts[max(a.Index, 0)]
	}
	return nil
}

// selections checks that asking for one gradient alone does not change it.
func (x *subject) selections(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, all opdef.Grads) {
	names := map[string]bool{}
	for _, a := range c.Tensors() {
		if asks(a) {
			names[a.Name] = true
		}
	}
	if len(names) < 2 {
		return
	}
	for name := range names {
		g, err := x.backward(c, f, out, map[string]bool{name: true})
		if err != nil {
			x.report("when only the gradient of %s is wanted: %v", name, err)
			continue
		}
		got, want := gradients(opdef.Grads{name: g[name]}), gradients(opdef.Grads{name: all[name]})
		if d := difference(got, want, x.slack); d != "" {
			x.report("when only the gradient of %s is wanted: %s", name, d)
		}
	}
}

// quotients compares the gradient of one argument (nil: zero) with difference
// quotients along directions. thorough tries more than one.
func (x *subject) quotients(c *opdef.Call, a opdef.Arg, grad *tensor.Tensor, out []*tensor.Tensor,
	thorough bool) string {
	n := a.Tensor.Numel()
	isComplex := a.Tensor.DType.IsComplex()
	analytic := make([]complex128, n)
	if grad != nil {
		copy(analytic, tensor.Data[complex128](grad))
	}
	masks := []complex128{1, 1}
	if isComplex {
		masks = []complex128{1, 1i, complex(1, 1)}
	}
	if !thorough {
		masks = masks[len(masks)-1:]
	}
	base := tensor.Data[complex128](a.Tensor)
	for _, m := range masks {
		v := make([]complex128, n)
		for i := range v {
			v[i] = complex(real(m)*x.step(), imag(m)*x.step())
		}
		got, want, ok, err := x.compareAlong(c, a, base, v, analytic, out)
		switch {
		case err != nil:
			return fmt.Sprintf("near the case: %v", err)
		case ok:
			continue
		}
		d := fmt.Sprintf("gradient of %s is %.6g along a direction, difference quotient %.6g", argName(a), got, want)
		if grad == nil {
			d = fmt.Sprintf("no gradient of %s, which the case asks for, difference quotient %.6g", argName(a), want)
		}
		if math.IsNaN(want) {
			return d + ": not smooth near the case"
		}
		for i := range v { // name an element that is wrong
			for _, unit := range []complex128{1, 1i}[:1+btoi(isComplex)] {
				one := make([]complex128, n)
				one[i] = unit
				if got, want, ok, err := x.compareAlong(c, a, base, one, analytic, out); err == nil && !ok {
					part := ""
					if isComplex {
						part = map[complex128]string{1: " (real part)", 1i: " (imaginary part)"}[unit]
					}
					return d + fmt.Sprintf("; element %d%s: %.6g, quotient %.6g", i, part, got, want)
				}
			}
		}
		return d
	}
	return ""
}

func argName(a opdef.Arg) string {
	if a.Index >= 0 {
		return fmt.Sprintf("%s %d", a.Name, a.Index)
	}
	return a.Name
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// step is a component of a direction: of random sign, away from zero.
func (x *subject) step() float64 {
	s := 0.5 + 0.5*x.rand.Float64()
	if x.rand.IntN(2) == 0 {
		return -s
	}
	return s
}

// compareAlong returns the derivative of L along v from the gradient and from
// difference quotients, and whether they agree. Quotients are central, with one
// step of Richardson extrapolation: error O(h^4) + 2^-53 L/h. h shrinks until
// the two quotients that are combined agree; the derivative is NaN where they
// never do.
func (x *subject) compareAlong(c *opdef.Call, a opdef.Arg, base, v, grad []complex128, out []*tensor.Tensor) (got,
	want float64, ok bool, err error) {
	size := 0.0
	for _, g := range out {
		if g != nil {
			size = math.Max(size, 1e-5*opdef.MaxAbs(g)) // slopes far below this are none
		}
	}
	for i := range v {
		p := real(cmplx.Conj(grad[i]) * v[i])
		got += p
		size += math.Abs(p)
	}
	best := math.Inf(1)
	noise := 0.0
	for _, h := range []float64{0x1p-10, 0x1p-13, 0x1p-16, 0x1p-20, 0x1p-7} {
		wide, w1, err := x.quotient(c, a, base, v, out, h)
		if err != nil {
			return got, want, false, err
		}
		narrow, w2, err := x.quotient(c, a, base, v, out, h/2)
		if err != nil {
			return got, want, false, err
		}
		floor := 0x1p-47 * math.Max(w1, w2) / h
		q, spread := (4*narrow-wide)/3, math.Abs(wide-narrow)
		if spread < best || math.IsInf(best, 1) {
			best, want, noise = spread, q, floor
		}
		if math.Abs(got-want) <= 1e-6*math.Max(size, math.Abs(want))+noise+0.1*best &&
			best <= 1e-3*math.Max(size, math.Abs(want))+2*noise {
			return got, want, true, nil
		}
		if spread <= 1e-5*math.Abs(q) && math.Abs(got-q) > 1e-3*math.Max(size, math.Abs(q))+2*floor {
			return got, want, false, nil // smooth, and another slope
		}
	}
	if !(best <= 1e-2*math.Max(size, math.Abs(want))+2*noise) {
		want = math.NaN()
	}
	return got, want, false, nil
}

// quotient is (L(x+hv) - L(x-hv)) / 2h, and the sum of the magnitudes of the
// terms of L.
func (x *subject) quotient(c *opdef.Call, a opdef.Arg, base, v []complex128, out []*tensor.Tensor, h float64) (q,
	size float64, err error) {
	plus, s1, err := x.loss(c, a, base, v, out, h)
	if err != nil {
		return 0, 0, err
	}
	minus, s2, err := x.loss(c, a, base, v, out, -h)
	return (plus - minus) / (2 * h), math.Max(s1, s2), err
}

func (x *subject) loss(c *opdef.Call, a opdef.Arg, base, v []complex128, out []*tensor.Tensor, h float64) (sum,
	size float64, err error) {
	moved := only(c, a, func(t *tensor.Tensor) *tensor.Tensor {
		if t.DType.IsComplex() {
			data := make([]complex128, len(base))
			for i := range data {
				data[i] = base[i] + complex(h, 0)*v[i]
			}
			return tensor.New(t.DType, t.Shape, data)
		}
		data := make([]float64, len(base))
		for i := range data {
			data[i] = real(base[i]) + h*real(v[i])
		}
		return tensor.New(t.DType, t.Shape, data)
	})
	f, err := x.forward(moved)
	if err != nil {
		return 0, 0, err
	}
	return lossOf(f, out)
}

// lossOf is L for results f and incoming gradients out, and the sum of the
// magnitudes of its terms.
func lossOf(f *opdef.Forward, out []*tensor.Tensor) (sum, size float64, err error) {
	err = guard(func() error {
		for k, g := range out {
			if g == nil {
				continue
			}
			os, gs := tensor.Data[complex128](f.Outs[k]), tensor.Data[complex128](g)
			if len(os) != len(gs) {
				return fmt.Errorf("result %d has another shape: %s", k, f.Outs[k].Meta())
			}
			for i := range os {
				p := real(cmplx.Conj(gs[i]) * os[i])
				sum += p
				size += math.Abs(p)
			}
		}
		return nil
	})
	return sum, size, err
}
