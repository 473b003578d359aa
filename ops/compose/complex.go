package compose

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Conj is the complex conjugate; of real numbers it is x.
func (g *Graph) Conj(x *Value) *Value {
	if !x.DType().IsComplex() {
		return x
	}
	return g.value(opdef.Map(x.DType(), x.T, cmplx.Conj), x.passed, func(up *Value) []*Value {
		return []*Value{g.Conj(up)}
	}, x)
}

// Real is the real part; of real numbers it is x.
func (g *Graph) Real(x *Value) *Value {
	if !x.DType().IsComplex() {
		return x
	}
	dt := x.DType().Real()
	return g.value(opdef.Map(dt, x.T, func(z complex128) float64 { return real(z) }), x.passed,
		func(up *Value) []*Value { return []*Value{g.Complex(up, nil)} }, x)
}

// Imag is the imaginary part of complex numbers.
func (g *Graph) Imag(x *Value) *Value {
	if !x.DType().IsComplex() {
		g.Refuse("", "dtype %s has no imaginary part", x.DType())
	}
	dt := x.DType().Real()
	return g.value(opdef.Map(dt, x.T, func(z complex128) float64 { return imag(z) }), x.passed,
		func(up *Value) []*Value { return []*Value{g.Complex(nil, up)} }, x)
}

// Complex is re + i*im, of which one may be nil, and then is zero.
func (g *Graph) Complex(re, im *Value) *Value {
	var in []*Value
	zero := func(like *Value) *Value { return g.Full(like.DType(), like.Shape(), 0) }
	switch {
	case re == nil:
		re, in = zero(im), []*Value{nil, im}
	case im == nil:
		im, in = zero(re), []*Value{re, nil}
	default:
		in = []*Value{re, im}
	}
	dt := re.DType().Complex()
	t := opdef.Zip(dt, re.T, im.T, func(x, y float64) complex128 { return complex(x, y) })
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		if g.squared {
			return plus(re.bound(), im.bound())
		}
		return opdef.Zip(tensor.Float64, re.bound(), im.bound(), math.Hypot)
	}, func(up *Value) []*Value { return []*Value{g.Real(up), g.Imag(up)} }, in...)
}
