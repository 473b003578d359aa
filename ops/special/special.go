package special

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Erf is a step of compositions too.
var (
	Erf = opdef.Unary{
		Name: "erf", Names: "erf special.erf Tensor.erf",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Error function", Formula: "2/sqrt(pi) * integral of exp(-t**2) from 0 to self"},
		F:      math.Erf,
		Block:  vmath.Erf,
		S16:    1, // torch takes it of bfloat16 as 1 less a product, in float32
		Steps: func(g, x, _ float64, r func(float64) float64) float64 {
			return r(r(2/math.Sqrt(math.Pi)*r(math.Exp(-r(x*x)))) * g)
		},
		DF: func(x, _ float64) float64 { return kernel.Gauss(x) },
		DS: func(x, _ float64) float64 { return (1 + x*x) * kernel.Gauss(x) },
	}
)

// specialOps are the error function and its relatives, gamma functions and
// other functions of one number.
var specialOps = []*opdef.Entry{
	Erf.Entry(),
	opdef.Unary{
		Name: "erfc", Names: "erfc special.erfc Tensor.erfc",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Complementary error function", Formula: "1 - erf(self)"},
		Block:  vmath.Erfc,
		S:      squareAmplified,
		DF:     func(x, _ float64) float64 { return -kernel.Gauss(x) },
		DS:     func(x, _ float64) float64 { return (1 + x*x) * kernel.Gauss(x) },
	}.Entry(),
	opdef.Unary{
		Name: "erfinv", Names: "erfinv special.erfinv Tensor.erfinv",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Lo:     -0.9, Hi: 0.9,
		Saved: true,
		Doc: opdef.Doc{Summary: "Inverse of the error function", Formula: "x with erf(x) = self",
			Notes: "Infinite at -1 and 1, NaN beyond."},
		F:  math.Erfinv,
		S:  func(_, y float64) float64 { return kernel.FiniteAbs(1 / kernel.Gauss(y)) }, // a Newton step with erf(y)
		DF: func(_, y float64) float64 { return 1 / kernel.Gauss(y) },
		DS: func(_, y float64) float64 { return (1 + y*y + 2*math.Abs(y)/kernel.Gauss(y)) / kernel.Gauss(y) },
	}.Entry(),
	opdef.Unary{
		Name: "special_erfcx", Names: "special.erfcx", Error: elements.ElementwiseError, Saved: true,
		Doc: opdef.Doc{Summary: "Scaled complementary error function", Formula: "exp(self**2) * erfc(self)"},
		F:   kernel.Erfcx,
		// torch's polynomials are exact to 7 ulp
		S:  func(x, y float64) float64 { return kernel.FiniteAbs(y) + squareAmplifiedBelow0(x, y) },
		DF: func(x, y float64) float64 { return 2*x*y - 2/math.SqrtPi },
		DS: func(x, y float64) float64 { return 2*math.Abs(x*y) + 2*squareAmplifiedBelow0(x, x*y) + 2/math.SqrtPi },
	}.Entry(),
	opdef.Unary{
		Name: "special_ndtr", Names: "special.ndtr", Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: "Distribution function of the standard normal distribution",
			Formula: "(1 + erf(self/sqrt(2))) / 2"},
		F:  kernel.NormalCDF,
		S:  func(_, _ float64) float64 { return 1 }, // torch adds 1 to erf
		DF: func(x, _ float64) float64 { return kernel.NormalDensity(x) },
		DS: func(x, _ float64) float64 { return (1 + x*x) * kernel.NormalDensity(x) },
	}.Entry().AsComposite(0),
	opdef.Unary{
		Name: "special_log_ndtr", Names: "special.log_ndtr", Error: elements.ElementwiseError,
		Doc: opdef.Doc{Summary: "Logarithm of the distribution function of the standard normal distribution",
			Formula: "ln(ndtr(self))"},
		F:  kernel.LogNormalCDF,
		S:  func(x, y float64) float64 { return kernel.FiniteAbs(y) + squareAmplified(x, y) }, // of 1 less erfc/2
		DF: func(x, _ float64) float64 { return kernel.LogNormalCDFSlope(x) },
		DS: func(x, _ float64) float64 { return (1 + x*x) * math.Sqrt(2/math.Pi) / kernel.Erfcx(-x/math.Sqrt2) },
	}.Entry(),
	opdef.Unary{
		Name: "special_ndtri", Names: "special.ndtri", Error: elements.ElementwiseError, Lo: 0.05, Hi: 0.95,
		Saved: true,
		Doc: opdef.Doc{Summary: "Quantile function of the standard normal distribution",
			Formula: "x with ndtr(x) = self", Notes: "Infinite at 0 and 1, NaN beyond."},
		F:  kernel.NormalQuantile,
		S:  func(_, y float64) float64 { return max(1, kernel.FiniteAbs(y)) }, // 1 - 2*self near 1/2
		DF: func(_, y float64) float64 { return 1 / kernel.NormalDensity(y) },
		DS: func(_, y float64) float64 { return (1 + y*y) / kernel.NormalDensity(y) },
	}.Entry(),
	opdef.Unary{
		Name: "special_entr", Names: "special.entr", Error: elements.ElementwiseError, Lo: 0.1, Hi: 3,
		Doc: opdef.Doc{Summary: "Entropy of a probability", Formula: "-self * ln(self), 0 at 0, -Inf below"},
		F: func(x float64) float64 {
			switch {
			case x < 0:
				return math.Inf(-1)
			case x == 0:
				return 0
			}
			return -x * kernel.Log(x)
		},
		DF: func(x, _ float64) float64 { return -1 - kernel.Log(x) },
		DS: func(x, _ float64) float64 { return 1 + kernel.FiniteAbs(math.Log(x)) },
	}.Entry(),
	opdef.Planned[*opdef.UnaryArgs, *sincArgs]{
		Schema: "sinc(Tensor self) -> Tensor", Names: "sinc special.sinc Tensor.sinc",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Normalised sine cardinal", Formula: "sin(pi*self) / (pi*self), 1 at 0"},
		Error:  opdef.Error{Class: opdef.Elementwise, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan:   func(a *opdef.UnaryArgs) (*sincArgs, error) { return (*sincArgs)(a), nil },
		Kernel: func(a *sincArgs) ([]*tensor.Tensor, error) {
			dt := a.Self.DType
			switch {
			case dt.IsComplex():
				return elements.Result(opdef.Map(dt, a.Self, kernel.SincC))
			case !dt.IsFloat():
				dt = tensor.DefaultDType
			}
			return elements.Result(opdef.Map(dt, a.Self, kernel.Sinc))
		},
		Grad: func(a *sincArgs, g *opdef.Grad) (opdef.Grads, error) {
			t,
				err := elements.MapN(a.Self.DType,
				func(v []complex128) complex128 { return v[0] * cmplx.Conj(kernel.SincSlopeC(v[1])) },
				func(v []float64) float64 { return v[0] * kernel.SincSlope(v[1]) }, g.Out[0], a.Self)
			return opdef.Grads{"self": {t}}, err
		},
		Bounds: opdef.Bounds[*sincArgs]{
			// pi*self is rounded before its sine is taken.
			Scale: func(a *sincArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				if !a.Self.DType.IsComplex() {
					return []*tensor.Tensor{tensor.Full(tensor.Float64, a.Self.Shape, 1.0)}
				}
				return []*tensor.Tensor{opdef.Zip(tensor.Float64, a.Self, outs[0], func(x, y complex128) float64 {
					return kernel.FiniteAbs((1+math.Pi*cmplx.Abs(x))*cmplx.Abs(y) + math.Cosh(math.Pi*imag(x)))
				})}
			},
			GradScale: func(a *sincArgs, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
				if !a.Self.DType.IsComplex() {
					return opdef.Grads{"self": pairScale(g.Out[0], a.Self,
						func(gi, x float64) float64 { return math.Abs(gi) * (math.Pi + 2/math.Abs(x)) })}, nil
				}
				abs := opdef.Abs(a.Self)
				up, d := opdef.Abs(g.Out[0]), opdef.Abs(gr["self"][0])
				small := pairScale(up, abs, func(gi, x float64) float64 { return gi * (math.Pi + 2/x) })
				large := pairScale(d, abs, func(y, x float64) float64 { return (1 + math.Pi*x) * y })
				sum := pairScale(small[0], large[0], func(x, y float64) float64 { return x + y })
				return opdef.Grads{"self": sum}, nil
			},
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`
			f64[3, 4]{apart 0}; f32[5]{apart 0}; bf16[2, 3]{apart 0}; f16[]{apart 0}; f32[0, 3]; c128[3, 2]; c64[4]
			i32[6]{-4..4}; f64[3]{= 0 1 -0.5}`),
	}.Entry(),
	opdef.Pointwise[logitArgs]{
		Schema: "logit(Tensor self, float? eps=None) -> Tensor", Names: "logit special.logit Tensor.logit",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Logarithm of the odds",
			Formula: "ln(self / (1 - self)), with self clamped to [eps, 1-eps] if eps is given",
			Notes:   "The gradient is 0 where self was clamped, NaN outside [0, 1] without eps."},
		Error: elements.ElementwiseError,
		Self:  func(a *logitArgs) *tensor.Tensor { return a.Self },
		F: func(a *logitArgs) func(float64) float64 {
			lo, hi := a.range01()
			return func(x float64) float64 {
				if x < lo { // also where hi is below lo, of eps above 0.5
					x = lo
				} else if x > hi {
					x = hi
				}
				if x > 0.25 && x < 0.75 {
					return 2 * math.Atanh(2*x-1) // both steps exact
				}
				return kernel.Log(x / (1 - x))
			}
		},
		S: func(*logitArgs) func(x, y float64) float64 {
			return func(_, y float64) float64 { return max(1, kernel.FiniteAbs(y)) }
		},
		DF: func(a *logitArgs) func(x, y float64) float64 {
			lo, hi := a.range01()
			return func(x, _ float64) float64 {
				switch {
				case x != x || (x < 0 || x > 1) && a.Eps == nil:
					return math.NaN()
				case x < lo || x > hi:
					return 0
				}
				return 1 / (x * (1 - x))
			}
		},
		DElse: func(*logitArgs) func(x, d float64) float64 { // -0 is compared with 0
			return func(x, d float64) float64 { return elements.IfElse(x == 0, math.Abs(d), d) }
		},
		Cases: opdef.Calls[logitArgs](`
			f64[3, 4]{0.15..0.85}; f32[5]{0.15..0.85}, eps=0.125; bf16[4]{0.15..0.85}; f32[]{0.15..0.85}
			f32[0, 2]{0.15..0.85}; i64[4]{0..1}, eps=0.125; f32[4]{= 0 1 -0.5 2}; f64[4]{= 0 1 -0.5 2}, eps=0.125`),
	}.Entry(),
	opdef.Unary{
		Name: "lgamma", Names: "lgamma special.gammaln Tensor.lgamma",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Lo:     0.2, Hi: 6,
		Doc: opdef.Doc{Summary: "Logarithm of the magnitude of the gamma function", Formula: "ln|Gamma(self)|"},
		F:   kernel.LogGamma,
		S:   logGammaScale,
		DF:  func(x, _ float64) float64 { return kernel.Digamma(x) },
		DS:  func(x, _ float64) float64 { return digammaScale(x) },
	}.Entry(),
	opdef.Unary{
		Name: "digamma", Names: "digamma special.digamma special.psi Tensor.digamma",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Lo:     0.2, Hi: 6,
		Doc: opdef.Doc{Summary: "Logarithmic derivative of the gamma function", Formula: "Gamma'(self) / Gamma(self)",
			Notes: "-Inf at 0, +Inf at -0, NaN at negative integers."},
		F:  kernel.Digamma,
		S:  func(x, _ float64) float64 { return digammaScale(x) },
		DF: func(x, _ float64) float64 { return kernel.Polygamma(1, x) },
		DS: func(x, _ float64) float64 { return polygammaScale(1, x) }, DS64: trigamma64,
	}.Entry(),
	polygammaOp("polygamma(int n, Tensor self) -> Tensor", "polygamma special.polygamma", false),
	polygammaOp("polygamma.method(Tensor self, int n) -> Tensor", "Tensor.polygamma", true),
	opdef.Pointwise[mvlgammaArgs]{
		Schema: "mvlgamma(Tensor self, int p) -> Tensor", Names: "mvlgamma special.multigammaln Tensor.mvlgamma",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Logarithm of the multivariate gamma function",
			Formula: "p*(p-1)/4*ln(pi) + sum of lgamma(self - j/2) over j from 0 to p-1",
			Notes:   "torch before 2.0 refuses elements that are not greater than (p-1)/2."},
		Error: elements.ElementwiseError,
		Self:  func(a *mvlgammaArgs) *tensor.Tensor { return a.Self },
		Check: func(a *mvlgammaArgs) error {
			if a.P < 1 {
				return opdef.Refuse("p", "want at least 1, got %d", a.P)
			}
			return nil
		},
		F:  func(a *mvlgammaArgs) func(float64) float64 { return a.sum(kernel.LogGamma, math.Log(math.Pi)) },
		DF: func(a *mvlgammaArgs) func(x, y float64) float64 { return ignoreResult(a.sum(kernel.Digamma, 0)) },
		S: func(a *mvlgammaArgs) func(x, y float64) float64 {
			return ignoreResult(a.sum(func(x float64) float64 { return logGammaScale(x, kernel.LogGamma(x)) },
				math.Log(math.Pi)))
		},
		DS: func(a *mvlgammaArgs) func(x, y float64) float64 { return ignoreResult(a.sum(digammaScale, 0)) },
		Cases: opdef.Calls[mvlgammaArgs](`
			f64[3, 4]{1.2..5}, 3; f32[5]{0.3..5}, 1; f32[]{2.5..5}, 5; bf16[4]{3..5}, 4; i64[4]{2..6}, 3
			f32[0, 2]{1..2}, 2`),
	}.Entry(),
	gammaRatio("igamma", "gammainc", "lower", "integral of t**(self-1) * exp(-t) from 0 to other, over Gamma(self)",
		kernel.GammaP, 1),
	gammaRatio("igammac", "gammaincc", "upper",
		"integral of t**(self-1) * exp(-t) from other to infinity, over Gamma(self)", kernel.GammaQ, -1),
	opdef.Planned[*opdef.BinaryArgs, *pairCall]{
		Schema: "special_zeta(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", Names: "special.zeta",
		Doc: opdef.Doc{Summary: "Hurwitz zeta function", Formula: "sum of (k + other)**-self over k from 0",
			Notes: "+Inf for self 1 and where other is 0 or a negative integer; NaN for self below 1 and where " +
				"other is negative and self no integer. torch has no gradient for self."},
		Error: opdef.Error{Class: opdef.Elementwise, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan:  func(a *opdef.BinaryArgs) (*pairCall, error) { return &pairCall{a, zetaSteps}, nil },
		Kernel: func(a *pairCall) ([]*tensor.Tensor, error) {
			return pairOfNumbers(a.Self, a.Other, true, kernel.Zeta)
		},
		Grad: func(a *pairCall, g *opdef.Grad) (opdef.Grads, error) {
			return otherGrad(a.BinaryArgs, g, func(gi, s, q float64) float64 { return -gi * s * kernel.Zeta(s+1, q) })
		},
		Bounds: opdef.Bounds[*pairCall]{
			Scale: func(a *pairCall, _ []*tensor.Tensor) []*tensor.Tensor {
				return pairScale(a.Self, a.Other, zetaScale)
			},
			GradScale: func(a *pairCall, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return otherGrad(a.BinaryArgs, g,
					func(gi, s, q float64) float64 { return math.Abs(gi * s * zetaScale(s+1, q)) })
			},
		},
		Cases: opdef.Calls[opdef.BinaryArgs](`
			f64[3, 4]{1.5..4 fixed}, f64[3, 4]{0.5..4}; f64[3, 1]{1.5..4 fixed}, f64[4]{0.5..4}
			f32[5]{1.5..4 fixed}, f32[]{0.5..4}; f64[2, 3]{1.5..4 fixed}, f64[2, 3]{0.5..4}
			bf16[4]{1.5..4 fixed}, bf16[4]{0.5..4}; f32[0, 3]{1.5..4 fixed}, f32[3]{0.5..4}
			f32[]{1.5..4 fixed}, f32[]{0.5..4}; 2.5, f32[3]{0.5..4}; i64[3]{2..4}, 2`),
	}.Entry(),
}

// sincArgs are a call of sinc.
type sincArgs opdef.UnaryArgs

// Else are the results of kernels whose product with pi overflows.
func (a *sincArgs) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	if !a.Self.DType.IsFloat() {
		return [][]*tensor.Tensor{nil}
	}
	return [][]*tensor.Tensor{{sincOverflow(a.Self, outs[0])}}
}

// GradElse are the gradients of such kernels.
func (a *sincArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	if !a.Self.DType.IsFloat() {
		return nil, nil
	}
	d := pairScale(g.Out[0], a.Self, func(gi, x float64) float64 { return gi * kernel.SincSlope(x) })
	return []opdef.Grads{{"self": {sincOverflow(a.Self, d[0])}}}, nil
}

type (
	logitArgs struct {
		Self *tensor.Tensor
		Eps  *float64
	}
	polygammaArgs struct {
		Self *tensor.Tensor
		N    int
	}
	mvlgammaArgs struct {
		Self *tensor.Tensor
		P    int
	}
)

// trigamma64 times 2^-50 is the error of ATen's series for the derivative of digamma, which ends at x**-7.
const trigamma64 = 0x1p21

// trigamma is trigamma64 for the n-th derivative of digamma if ATen computes it by that series.
func (a *polygammaArgs) trigamma(n int) float64 {
	if n == 1 && a.Self.DType == tensor.Float64 {
		return trigamma64
	}
	return 1
}

// range01 is the range that the argument is clamped to, in its dtype:
// everything without eps.
func (a *logitArgs) range01() (lo, hi float64) {
	if a.Eps == nil {
		return math.Inf(-1), math.Inf(1)
	}
	dt := a.Self.DType
	if !dt.IsFloat() {
		dt = tensor.DefaultDType
	}
	lo = dt.Round(*a.Eps)
	return lo, dt.Round(1 - lo)
}

// sum is the function sum of f(x - j/2) over j < p, plus p*(p-1)/4*c.
func (a *mvlgammaArgs) sum(f func(float64) float64, c float64) func(float64) float64 {
	return func(x float64) float64 {
		s := float64(a.P) * float64(a.P-1) / 4 * c
		for j := range tensor.Steps(a.P) {
			s += f(x - float64(j)/2)
		}
		return s
	}
}

func ignoreResult(f func(float64) float64) func(x, y float64) float64 {
	return func(x, _ float64) float64 { return f(x) }
}

// squareAmplified is the scale of exp(-x*x) and the like, whose argument is
// rounded.
func squareAmplified(x, y float64) float64 { return kernel.FiniteAbs(x * x * y) }

func squareAmplifiedBelow0(x, y float64) float64 {
	if x > 0 {
		return 0
	}
	return squareAmplified(x, y)
}

// logGammaScale: near the zeros terms of magnitude 1 cancel, left of them the
// logarithm of the gamma function of -x and that of pi/|sin(pi*x)|.
func logGammaScale(x, y float64) float64 {
	s := max(1, kernel.FiniteAbs(y))
	if x < 0 {
		s += kernel.FiniteAbs(kernel.LogGamma(-x))
	}
	return s
}

// digammaScale: the recurrence to an argument of about 10 and the logarithm
// there cancel; left of 0 pi*x is rounded before its tangent is taken.
func digammaScale(x float64) float64 {
	s := 4 + kernel.FiniteAbs(kernel.Digamma(x))
	if x < 0 {
		sin := kernel.SinPi(x)
		s += kernel.FiniteAbs(math.Pi * math.Pi / (sin * sin))
	}
	return s
}

// zetaScale is the sum of the magnitudes of the terms, of those of a series
// with positive base where q is negative, times the exponent, since the base of
// a power is rounded.
func zetaScale(s, q float64) float64 {
	if q < 0 && s == math.Floor(s) {
		return kernel.FiniteAbs((1 + s) * (kernel.Zeta(s, q-math.Floor(q)) + kernel.Zeta(s, math.Ceil(q)-q)))
	}
	return kernel.FiniteAbs((1 + s) * kernel.Zeta(s, q))
}

// polygammaScale: the factorial is computed as exp(lgamma(n+1)); in the
// reflection of the first derivative pi*x is rounded before its sine is taken.
func polygammaScale(n int, x float64) float64 {
	switch {
	case n == 0:
		return digammaScale(x)
	case n == 1 && x < 0.5:
		return kernel.FiniteAbs(kernel.Trigamma(x) * (1 + math.Abs(2*math.Pi*x/math.Tan(math.Pi*x))))
	case n == 1:
		return kernel.FiniteAbs(kernel.Trigamma(x))
	}
	l := kernel.LogGamma(float64(n) + 1)
	return kernel.FiniteAbs(math.Exp(l) * (1 + l) * zetaScale(float64(n)+1, x))
}

func polygammaOp(schema, names string, inPlace bool) *opdef.Entry {
	return opdef.Pointwise[polygammaArgs]{
		Schema: schema, Names: names,
		Traits: opdef.Traits{InPlace: inPlace},
		Doc: opdef.Doc{Summary: "Derivative of the digamma function", Formula: "n-th derivative of digamma at self",
			Notes: "Infinite at 0 and at negative integers; only large there for n = 1, as ATen has it, whose " +
				"float64 results are held to the error of its series, 1e-9.", Source: "torch.polygamma"},
		Error: elements.ElementwiseError,
		Self:  func(a *polygammaArgs) *tensor.Tensor { return a.Self },
		Check: func(a *polygammaArgs) error {
			if a.N < 0 {
				return opdef.Refuse("n", "want a number that is not negative, got %d", a.N)
			}
			return nil
		},
		F: func(a *polygammaArgs) func(float64) float64 {
			return func(x float64) float64 { return kernel.Polygamma(a.N, x) }
		},
		S: func(a *polygammaArgs) func(x, y float64) float64 {
			return func(x, _ float64) float64 { return a.trigamma(a.N) * polygammaScale(a.N, x) }
		},
		DF: func(a *polygammaArgs) func(x, y float64) float64 {
			return func(x, _ float64) float64 { return kernel.Polygamma(a.N+1, x) }
		},
		DS: func(a *polygammaArgs) func(x, y float64) float64 {
			return func(x, _ float64) float64 { return a.trigamma(a.N+1) * polygammaScale(a.N+1, x) }
		},
		Cases: func(g opdef.Gen) []*polygammaArgs {
			return []*polygammaArgs{
				{g.Uniform(tensor.Float64, 0.3, 5, 3, 4), 0}, {g.Uniform(tensor.Float64, 0.3, 5, 3, 4), 1},
				{g.Uniform(tensor.Float32, 0.3, 5, 5), 2},
				{g.Uniform(tensor.Float64, -2.8, -2.2, 4), 1}, {g.Uniform(tensor.Float64, -2.8, -2.2, 4), 3},
				{g.Uniform(tensor.Float64, 1, 5, 2, 3), 4},
				{g.Uniform(tensor.BFloat16, 1, 5, 4), 1}, {g.Uniform(tensor.Float32, 1, 5), 2},
				{g.Uniform(tensor.Float32, 1, 5, 0, 2), 1}, {g.Int(tensor.Int64, 1, 6, 4), 1},
			}
		},
	}.Entry()
}

// pairOfNumbers is f of two broadcast tensors, of which one may be a Python
// number. Integers are promoted to float32 if toFloat is set, else refused.
func pairOfNumbers(x, y *tensor.Tensor, toFloat bool, f func(x, y float64) float64) ([]*tensor.Tensor, error) {
	if x.Wrapped && y.Wrapped {
		return nil, opdef.Refuse("", "want a tensor among the arguments, got two numbers")
	}
	dt, xy, err := opdef.Common(x, y)
	if err != nil {
		return nil, err
	}
	if dt.Kind() < tensor.KindFloat && toFloat {
		dt = tensor.DefaultDType
	}
	if !dt.IsFloat() {
		return nil, opdef.Refuse("", "not defined for dtype %s", dt)
	}
	if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
		return nil, err
	}
	return elements.Result(opdef.Zip(dt, xy[0], xy[1], f))
}

// pairScale is the scale f of the elements of two broadcast tensors.
func pairScale(x, y *tensor.Tensor, f func(x, y float64) float64) []*tensor.Tensor {
	return []*tensor.Tensor{opdef.Must(elements.MapN(tensor.Float64, nil,
		func(v []float64) float64 { return f(v[0], v[1]) }, x, y))}
}

// otherGrad is the gradient of the second operand only: f(g, self, other).
func otherGrad(a *opdef.BinaryArgs, g *opdef.Grad, f func(gi, x, y float64) float64) (opdef.Grads, error) {
	gr := opdef.Grads{"self": {nil}, "other": {nil}}
	if a.Other.Wrapped {
		return gr, nil
	}
	ts, shape, err := opdef.BroadcastAll(g.Out[0], a.Self, a.Other)
	if err != nil {
		return nil, err
	}
	gr.Set("other", opdef.SumTo(opdef.ZipN(g.Outs[0].DType, shape, func(dst []float64, v [][]float64) {
		for i, gi := range v[0] {
			dst[i] = f(gi, v[1][i], v[2][i])
		}
	}, ts...), a.Other.Shape))
	return gr, nil
}

// gammaRatio declares an incomplete gamma function; sign is that of its
// derivative with respect to other.
func gammaRatio(name, special, which, formula string, f func(a, x float64) float64, sign float64) *opdef.Entry {
	density := func(gi, a, x float64) float64 {
		return gi * sign * math.Exp((a-1)*math.Log(x)-x-kernel.LogGamma(a))
	}
	return opdef.Planned[*opdef.BinaryArgs, *pairCall]{
		Schema: name + "(Tensor self, Tensor other) -> Tensor", Names: name + " special." + special + " Tensor." + name,
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Regularised " + which + " incomplete gamma function", Formula: formula,
			Notes:  "NaN where an argument is negative or both are 0 or infinite. torch has no gradient for self.",
			Source: "torch.special." + special},
		Error:  opdef.Error{Class: opdef.Elementwise, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan:   func(a *opdef.BinaryArgs) (*pairCall, error) { return &pairCall{a, gammaSteps(sign)}, nil },
		Kernel: func(a *pairCall) ([]*tensor.Tensor, error) { return pairOfNumbers(a.Self, a.Other, false, f) },
		Grad:   func(a *pairCall, g *opdef.Grad) (opdef.Grads, error) { return otherGrad(a.BinaryArgs, g, density) },
		Bounds: opdef.Bounds[*pairCall]{
			Scale: func(a *pairCall, outs []*tensor.Tensor) []*tensor.Tensor {
				double := outs[0].DType == tensor.Float64
				return pairScale(a.Self, a.Other, func(a, x float64) float64 {
					return gammaRatioScale(a, x, f(a, x), double)
				})
			},
			GradScale: func(a *pairCall, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return otherGrad(a.BinaryArgs, g, func(gi, a, x float64) float64 {
					return kernel.FiniteAbs(density(gi, a, x) * (4 + kernel.FiniteAbs((a-1)*math.Log(x)) + x +
						kernel.FiniteAbs(kernel.LogGamma(a))))
				})
			},
		},
		Cases: func(g opdef.Gen) []*opdef.BinaryArgs { return shapeAndQuantile(g, 0.5, 4, 0.5, 4) },
	}.Entry()
}

// A pairCall is a call whose gradient torch composes in steps.
type pairCall struct {
	*opdef.BinaryArgs
	steps opdef.BinarySteps
}

// GradElse is the gradient by these steps.
func (c *pairCall) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	return c.steps.Else(c.Self, c.Other, "self", "other", g), nil
}

// gammaSteps are the steps to the gradient of an incomplete gamma function, whose sign is sign.
func gammaSteps(sign float64) opdef.BinarySteps {
	return func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
		of := func(f func(x float64) float64, t *tensor.Tensor) *tensor.Tensor {
			return opdef.FloatStep(func(v []float64) float64 { return f(v[0]) }, t)
		}
		power := opdef.StepProduct(opdef.StepDifference(x, tensor.Wrap(int64(1))), of(math.Log, y))
		exponent := opdef.StepDifference(opdef.StepDifference(power, y), of(kernel.LogGamma, x))
		if sign < 0 {
			up = opdef.StepNegative(up)
		}
		return nil, opdef.StepProduct(up, of(math.Exp, exponent))
	}
}

func zetaSteps(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
	next := opdef.FloatStep(func(v []float64) float64 { return kernel.Zeta(v[0], v[1]) },
		opdef.StepSum(x, tensor.Wrap(int64(1))), y)
	return nil, opdef.StepProduct(opdef.StepProduct(up, opdef.StepNegative(x)), next)
}

// gammaRatioScale: x**a * exp(-x) / Gamma(a) is exp of a sum, and for small x
// one function is 1 minus the other. In float64 the limits of the series show:
// 1e-14 for small a, and 2e-9 in ATen for a above 20.
func gammaRatioScale(a, x, y float64, double bool) float64 {
	k := 1.0
	switch {
	case double && a > 20:
		k = 0x1p22
	case double:
		k = 16
	}
	// torch's series for large a takes the quotient x/a, which is rounded
	s := y * (1 + math.Sqrt(a) + math.Abs(a-x) + kernel.FiniteAbs(a*math.Log(x/a)))
	if x <= 1.1 {
		s++
	}
	return kernel.FiniteAbs(k * s)
}

// shapeAndQuantile generates pairs of which the second alone has a gradient.
func shapeAndQuantile(g opdef.Gen, lo, hi, lo2, hi2 float64) []*opdef.BinaryArgs {
	x := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		return elements.Detached(g.Uniform(dt, lo, hi, shape...))
	}
	y := func(dt tensor.DType, shape ...int) *tensor.Tensor { return g.Uniform(dt, lo2, hi2, shape...) }
	f32, f64 := tensor.Float32, tensor.Float64
	return []*opdef.BinaryArgs{
		{Self: x(f64, 3, 4), Other: y(f64, 3, 4)}, {Self: x(f64, 3, 1), Other: y(f64, 4)},
		{Self: x(f32, 5), Other: y(f32)},
		{Self: x(f64, 2, 3), Other: y(f64, 2, 3)}, {Self: x(tensor.BFloat16, 4),
			Other: y(tensor.BFloat16, 4)},
		{Self: x(f32, 0, 3), Other: y(f32, 3)}, {Self: x(f32), Other: y(f32)},
	}
}

// sincOverflow is t with NaN where pi times x is beyond the numbers of the dtype of x.
func sincOverflow(x, t *tensor.Tensor) *tensor.Tensor {
	dt := x.DType
	return opdef.Zip(dt, x, t, func(xi, ti float64) float64 {
		return elements.IfElse(math.IsInf(dt.Round(math.Pi*xi), 0), math.NaN(), ti)
	})
}
