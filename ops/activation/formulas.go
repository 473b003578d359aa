package activation

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

func siluSlope(x, _ float64) float64 {
	s := kernel.Sigmoid(x)
	return s * (1 + x*(1-s))
}

// geluScale is |x|/2 (1 + |erf(x/sqrt(2))|): of a positive element x its result
// y, of a negative one what is missing from it.
func geluScale(dst, x, y []float64) {
	copy(dst, x)
	vmath.Axpy(dst, -2, y)
	vmath.Abs(dst, dst)
	vmath.Abs(x, x)
	vmath.Add(dst, dst, x)
	vmath.Affine(dst, dst, 0, 0.5)
}

// ofArgument is a derivative, or its S, that does not look at the result.
func ofArgument(f func(dst, x []float64)) func(dst, x, y []float64) {
	return func(dst, x, _ []float64) { f(dst, x) }
}

// geluTanhSlopeScale is (1 + |t|)/2 + |x u'(x)| (1 + t*t)/2 with t the tanh of the inner function u;
// 1 - t*t is rounded near 1.
func geluTanhSlopeScale(dst, x, _ []float64) {
	for i, v := range x {
		dst[i] = geluInner(v)
	}
	vmath.Tanh(dst, dst)
	for i, t := range dst {
		dst[i] = 0.5*(1+math.Abs(t)) + elements.IfElse(t*t < 1, 0.5*math.Abs(x[i])*geluInnerSlope(x[i])*(1+t*t), 0)
	}
}

// geluTanhSlope is s + 2 x u'(x) s (1-s) with s the sigmoid of twice the inner function u.
func geluTanhSlope(dst, x, _ []float64) {
	for i, v := range x {
		dst[i] = 2 * geluInner(v)
	}
	vmath.Sigmoid(dst, dst)
	for i, s := range dst {
		dst[i] = s + 2*x[i]*geluInnerSlope(x[i])*(s*(1-s))
	}
}

func geluInner(x float64) float64 { return math.Sqrt2 / math.SqrtPi * (x + 0.044715*x*x*x) }

func geluInnerSlope(x float64) float64 { return math.Sqrt2 / math.SqrtPi * (1 + 3*0.044715*x*x) }

// elu is neg*(exp(in*x) - 1) for x up to 0, pos*x above.
func elu(x, neg, pos, in float64) float64 {
	if x <= 0 {
		return neg * math.Expm1(in*x)
	}
	return pos * x
}

func eluSlope(x, neg, pos, in float64) float64 {
	if x <= 0 {
		return neg * in * math.Exp(in*x)
	}
	return pos
}

// eluScale: implementations that subtract 1 from exp cancel near 0, and those
// that compute the gradient from the result (in place) far from it.
func eluScale(alpha float64) func(x, y float64) float64 {
	return func(x, _ float64) float64 { return elements.IfElse(x <= 0, alpha, 0) }
}

var eluCases = opdef.Calls[eluArgs](`
	f64[3, 4]{apart 0}; f32[5]{apart 0}, alpha=0.5; bf16[2, 3]{apart 0}, alpha=2.0; f16[4]{apart 0}
	f32[]{apart 0}, alpha=0.5; f32[0, 3], alpha=2.0; f32[5]{= NaN +Inf -Inf 50 -50}`)

func shrinkSlope(a *shrinkArgs) func(x, y float64) float64 {
	k := a.Self.DType.Round(a.Lambd.Float64())
	return func(x, _ float64) float64 { return elements.IfElse(x >= -k && x <= k, 0, 1) }
}

var shrinkCases = opdef.Calls[shrinkArgs](`
	f64[3, 4]{apart -0.5 0.5}; f32[5]{apart -0.5 0.5}; bf16[2, 3]{apart -0.5 0.5}; f16[4]{apart -0.5 0.5}
	f32[]{apart -0.5 0.5}; f32[0, 3]; f32[5]{= NaN +Inf -Inf 50 -50}`)

func softsign(a *softsignArgs) ([]*tensor.Tensor, error) {
	x := a.Self
	switch {
	case x.DType == tensor.Bool:
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	case x.DType.IsComplex():
		return elements.Result(opdef.Map(x.DType, x,
			func(z complex128) complex128 { return z / complex(1+cmplx.Abs(z), 0) }))
	}
	dt := x.DType
	if !dt.IsFloat() {
		dt = tensor.DefaultDType
	}
	return elements.Result(opdef.Map(dt, x, func(x float64) float64 { return x / (1 + math.Abs(x)) }))
}

func softsignGrad(a *softsignArgs, g *opdef.Grad) (opdef.Grads, error) {
	x, gr := a.Self, opdef.Grads{}
	if !x.DType.IsComplex() {
		gr.Set("self", opdef.Zip(x.DType, g.Out[0], x,
			func(gi, x float64) float64 { d := 1 + math.Abs(x); return gi/d - gi*(math.Abs(x)/d/d) }))
		return gr, nil
	}
	// z/(1+|z|): d/dz on the direct path, and through the real |z|.
	gr.Set("self", opdef.Zip(x.DType, g.Out[0], x, func(gi, z complex128) complex128 {
		d := 1 + cmplx.Abs(z)
		through := -real(gi*cmplx.Conj(z)) / (d * d)
		return gi/complex(d, 0) + complex(through, 0)*kernel.SignC(z)
	}))
	return gr, nil
}
