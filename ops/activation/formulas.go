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

// geluTanhSlopeAt is geluTanhSlope of one element.
var geluTanhSlopeAt = geluTanhSlopeFormula.Sound()

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

func geluInner(x float64) float64 { return geluFactor * (x + geluCube*x*x*x) }

func geluInnerSlope(x float64) float64 { return geluFactor * (1 + 3*geluCube*x*x) }

const (
	geluFactor = math.Sqrt2 / math.SqrtPi
	geluCube   = 0.044715
)

var (
	geluFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return x * k[1] * (1 + math.Erf(x/k[0])) }
	}, opdef.Number{Name: "the divisor of erf's argument", Value: math.Sqrt2},
		opdef.Number{Name: "the factor of 1 + erf", Value: 0.5})
	geluSlopeFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return math.Erfc(-x/math.Sqrt2)/2 + x*k[0]*math.Exp(-k[1]*x*x) }
	}, opdef.Number{Name: "the factor of the density in the gradient", Value: 1 / math.Sqrt(2*math.Pi)},
		opdef.Number{Name: "the factor in the exponent of the density in the gradient", Value: 0.5})
	geluTanhFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return x * kernel.Sigmoid(2*k[0]*(x+k[1]*x*x*x)) }
	}, opdef.Number{Name: "the factor in tanh", Value: geluFactor},
		opdef.Number{Name: "the factor of the cube", Value: geluCube})
	geluTanhSlopeFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 {
			s := kernel.Sigmoid(2 * k[0] * (x + k[1]*x*x*x))
			return s + 2*x*k[0]*(1+k[2]*x*x)*(s*(1-s))
		}
	}, opdef.Number{Name: "the factor in tanh of the gradient", Value: geluFactor},
		opdef.Number{Name: "the factor of the cube in the gradient", Value: geluCube},
		opdef.Number{Name: "the factor of the square in the gradient", Value: 3 * geluCube})
	siluFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return x * kernel.Sigmoid(k[0]*x) }
	}, opdef.Number{Name: "the factor in the sigmoid", Value: 1})
	siluSlopeFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { s := kernel.Sigmoid(x); return s * (1 + x*(k[0]-s)) }
	}, opdef.Number{Name: "the number from which the sigmoid is subtracted in the gradient", Value: 1})
	mishFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return x * math.Tanh(kernel.Softplus(k[0]*x)/k[0]) }
	}, opdef.Number{Name: "beta of softplus", Value: 1})
	relu6Formula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 {
			if x == 0 {
				return x
			}
			return min(max(x, 0), k[0])
		}
	}, opdef.Number{Name: "the limit", Value: 6})
	seluFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return elu(x, k[0]*k[1], k[1], k[2]) }
	}, opdef.Number{Name: "alpha", Value: seluAlpha}, opdef.Number{Name: "scale", Value: seluScale},
		opdef.Number{Name: "the factor in the exponent", Value: 1})
	logSigmoidFormula = formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return -math.Log(k[0] + math.Exp(-x)) }
	}, opdef.Number{Name: "the number added to the exponential", Value: 1})
)

func formula(of func(k []float64) func(x float64) float64, numbers ...opdef.Number) opdef.Formula[float64] {
	return opdef.Formula[float64]{Numbers: numbers, Of: of}
}

// hardFormula is min(max(self + 3, 0), 6) / 6, or that times self. All of it has another width where the first number
// is not 3.
func hardFormula(times bool) opdef.Formula[float64] {
	return formula(func(k []float64) func(x float64) float64 {
		wider := k[0] - 3
		return func(x float64) float64 {
			y := min(max(x+(k[1]+wider), 0), k[2]+2*wider)
			if times {
				y *= x
			}
			return y / (k[3] + 2*wider)
		}
	}, opdef.Number{Name: "the number at which it ends", Value: 3}, opdef.Number{Name: "the added number", Value: 3},
		opdef.Number{Name: "the limit", Value: 6}, opdef.Number{Name: "the divisor", Value: 6})
}

// eluFormula is that of elu with these factors of the negative half and in the exponent.
func eluFormula(neg, in float64) opdef.Formula[float64] {
	return formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 { return elu(x, neg, k[0], k[1]) }
	}, opdef.Number{Name: "the factor of positive elements", Value: 1},
		opdef.Number{Name: "the factor in the exponent", Value: in})
}

func softplusFormula(a *softplusArgs) opdef.Formula[float64] {
	b, t := elements.ArithmeticValue(a.Beta, a.Self.DType), elements.ArithmeticValue(a.Threshold, a.Self.DType)
	return formula(func(k []float64) func(x float64) float64 {
		return func(x float64) float64 {
			if x*b > t {
				return x
			}
			return math.Log(k[0]+math.Exp(x*b)) / b
		}
	}, opdef.Number{Name: "the number added to the exponential", Value: 1})
}

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
