package kernel

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/mathext"
)

// chebyshev is the sum of c[k]*T_k(t) (Clenshaw).
func chebyshev(c []float64, t float64) float64 {
	var b0, b1 float64
	for k := len(c) - 1; k > 0; k-- {
		b0, b1 = c[k]+2*t*b0-b1, b0
	}
	return c[0] + t*b0 - b1
}

// besselI is exp(-|x|) times the modified Bessel function of the first kind
// whose series are small and large, for |x|.
func besselI(small, large []float64, x float64) float64 {
	x = math.Abs(x)
	if x <= 8 {
		return chebyshev(small, x/4-1)
	}
	return chebyshev(large, 16/x-1) / math.Sqrt(x)
}

// BesselI0e is exp(-|x|) I0(x), to 2 ulp.
func BesselI0e(x float64) float64 { return besselI(i0Small, i0Large, x) }

// BesselI1e is exp(-|x|) I1(x), to 2 ulp.
func BesselI1e(x float64) float64 {
	y := besselI(i1Small, i1Large, x)
	if math.Abs(x) <= 8 {
		return x * y
	}
	return math.Copysign(y, x)
}

// BesselI0 is the modified Bessel function of the first kind of order 0.
func BesselI0(x float64) float64 { return growing(BesselI0e(x), x) }

// BesselI1 is the modified Bessel function of the first kind of order 1.
func BesselI1(x float64) float64 { return growing(BesselI1e(x), x) }

// growing is y*exp(|x|) without overflow while the product is finite.
func growing(y, x float64) float64 {
	h := math.Exp(math.Abs(x) / 2)
	if math.IsInf(h, 0) {
		return math.Copysign(h, y)
	}
	return y * h * h
}

// BesselK0e is exp(x) K0(x), to a few ulp: +Inf at 0, NaN below.
func BesselK0e(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(1)
	case !(x > 0):
		return math.NaN()
	case x <= 2:
		return math.Exp(x) * (chebyshev(k0Small, x*x/2-1) - math.Log(x/2)*BesselI0(x))
	}
	return chebyshev(k0Large, 4/x-1) / math.Sqrt(x)
}

// BesselK1e is exp(x) K1(x), to a few ulp: +Inf at 0, NaN below.
func BesselK1e(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(1)
	case !(x > 0):
		return math.NaN()
	case x <= 2:
		return math.Exp(x) * (chebyshev(k1Small, x*x/2-1)/x + math.Log(x/2)*BesselI1(x))
	}
	return chebyshev(k1Large, 4/x-1) / math.Sqrt(x)
}

// Erfcx is exp(x*x) erfc(x), to a few ulp.
func Erfcx(x float64) float64 {
	switch {
	case x != x:
		return x
	case math.IsInf(x, 1):
		return 0
	case x < -30:
		return math.Inf(1)
	case x < 0:
		// x*x is rounded: put back what was lost.
		sq := x * x
		return 2*math.Exp(sq)*(1+math.FMA(x, x, -sq)) - Erfcx(-x)
	case x > 1e8:
		return 1 / (x * math.Sqrt(math.Pi))
	}
	return chebyshev(erfcxSeries, (x-3.75)/(x+3.75)) / (1 + 2*x)
}

// NormalCDF is the distribution function of the standard normal distribution.
func NormalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// LogNormalCDF is the logarithm of NormalCDF, also where that underflows.
func LogNormalCDF(x float64) float64 {
	if x < -1 {
		return math.Log(Erfcx(-x/math.Sqrt2)/2) - x*x/2
	}
	return math.Log1p(-math.Erfc(x/math.Sqrt2) / 2)
}

// NormalQuantile is the inverse of NormalCDF: NaN outside [0, 1].
func NormalQuantile(p float64) float64 {
	if !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	return mathext.NormalQuantile(p)
}

// sinPi and tanPi are sin(pi*x) and tan(pi*x), exact at integers.
func sinPi(x float64) float64 { return math.Sin(math.Pi * math.Remainder(x, 2)) }
func tanPi(x float64) float64 { return math.Tan(math.Pi * math.Remainder(x, 1)) }

// Digamma is the logarithmic derivative of the gamma function, to 1e-15 of the
// larger of 1 and itself: -Inf at 0, +Inf at -0, NaN at negative integers.
// mathext.Digamma has errors of 3e-11, since its series is shorter.
// Source: https://dlmf.nist.gov/5.11 (asymptotic expansion).
func Digamma(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case math.IsInf(x, -1) || x < 0 && x == math.Floor(x):
		return math.NaN()
	case x < 0:
		return Digamma(1-x) - math.Pi/tanPi(x)
	}
	shift := 0.0
	for ; x < 12; x++ {
		shift += 1 / x
	}
	// B_2k/2k
	c := [...]float64{1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12}
	w := 1 / (x * x)
	return math.Log(x) - 0.5/x - w*horner(c[:], w) - shift
}

// horner is c[0] + c[1]*t + c[2]*t*t + ...
func horner(c []float64, t float64) float64 {
	s := 0.0
	for k := len(c) - 1; k >= 0; k-- {
		s = s*t + c[k]
	}
	return s
}

// Trigamma is the derivative of Digamma as ATen computes it (calc_trigamma):
// its asymptotic series ends at x**-7, an error of 1e-9, and its values at 0 and
// the negative integers are large instead of infinite, since pi*x is rounded.
// Source: aten/src/ATen/native/Math.h
func Trigamma(x float64) float64 {
	if x < 0.5 {
		s := math.Sin(math.Pi * x)
		return math.Pi*math.Pi/(s*s) - Trigamma(1-x)
	}
	sum := 0.0
	for range 6 {
		sum += 1 / (x * x)
		x++
	}
	w := 1 / (x * x)
	return sum + (1+1/(2*x)+w*(1.0/6-w*(1.0/30-w/42)))/x
}

// Polygamma is the n-th derivative of Digamma, n >= 0; from the second on it is
// infinite at 0 and at negative integers.
func Polygamma(n int, x float64) float64 {
	switch {
	case n == 0:
		return Digamma(x)
	case n == 1:
		return Trigamma(x)
	}
	// exp and Lgamma do not overflow before the product with zeta does.
	f := 1.0
	if n <= 100 {
		f = math.Gamma(float64(n) + 1)
	} else {
		l, _ := math.Lgamma(float64(n) + 1)
		f = math.Exp(l)
	}
	if n%2 == 0 {
		f = -f
	}
	return f * Zeta(float64(n)+1, x)
}

// Zeta is the sum of (k+q)**-s over k >= 0 (Hurwitz): +Inf for s = 1 and where
// q is 0 or a negative integer, NaN for s < 1, where q is negative and s no
// integer, and at infinity.
func Zeta(s, q float64) float64 {
	switch {
	case s == 1:
		return math.Inf(1)
	case s < 1:
		return math.NaN()
	case q <= 0 && q == math.Floor(q):
		return math.Inf(1)
	case s != s || q != q || math.IsInf(s, 0) || q <= 0 && s != math.Floor(s):
		return math.NaN()
	case math.IsInf(q, 1):
		return math.NaN() // as torch has it
	case q < 0:
		// The terms with a negative base, q to below 0, are those of two series
		// with a positive one.
		above, below := q-math.Floor(q), math.Ceil(q)-q
		sign := 1.0
		if math.Mod(s, 2) != 0 {
			sign = -1
		}
		return mathext.Zeta(s, above) + sign*(mathext.Zeta(s, below)-mathext.Zeta(s, 1-q))
	}
	return mathext.Zeta(s, q)
}

// GammaP is the regularised lower incomplete gamma function of a and x.
func GammaP(a, x float64) float64 {
	if v, ok := gammaEdge(a, x); ok {
		return v
	}
	return mathext.GammaIncReg(a, x)
}

// GammaQ is the regularised upper incomplete gamma function of a and x,
// 1 - GammaP.
func GammaQ(a, x float64) float64 {
	if v, ok := gammaEdge(a, x); ok {
		return 1 - v
	}
	return mathext.GammaIncRegComp(a, x)
}

// gammaEdge is GammaP at the ends of its domain and outside of it. An infinite
// argument decides even if the other is NaN, as in torch.
func gammaEdge(a, x float64) (v float64, ok bool) {
	switch {
	case a < 0 || x < 0, a == 0 && !(x > 0), math.IsInf(a, 0) && math.IsInf(x, 0):
		return math.NaN(), true
	case a == 0:
		return 1, true
	case x == 0 || math.IsInf(a, 0):
		return 0, true
	case math.IsInf(x, 0):
		return 1, true
	case a != a || x != x:
		return math.NaN(), true
	}
	return 0, false
}

// Airy is the Airy function Ai of a finite x. Its relative error, that of its
// amplitude for negative x, is a few ulp times 1 + |x|**1.5.
func Airy(x float64) float64 {
	switch {
	case math.IsInf(x, 0) || x != x:
		return math.NaN()
	case x > 104: // below the smallest normal number
		return 0
	case x < -1e4:
		// https://dlmf.nist.gov/9.7.9, two terms
		z := -x
		xi := 2.0 / 3 * z * math.Sqrt(z)
		sin, cos := math.Sincos(xi - math.Pi/4)
		return (cos + 5.0/72/xi*sin) / (math.SqrtPi * math.Sqrt(math.Sqrt(z)))
	}
	return real(mathext.AiryAi(complex(x, 0)))
}

// Sinc is sin(pi*x)/(pi*x), 1 at 0.
func Sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return sinPi(x) / (math.Pi * x)
}

// SincC is Sinc of a complex number.
func SincC(x complex128) complex128 {
	if x == 0 {
		return 1
	}
	return cmplx.Sin(math.Pi*x) / (math.Pi * x)
}

// sincSeries is the derivative of sin(p)/p over p, in p*p.
var sincSeries = []float64{-1.0 / 3, 1.0 / 30, -1.0 / 840, 1.0 / 45360, -1.0 / 3991680, 1.0 / 518918400}

// SincSlope is the derivative of Sinc.
func SincSlope(x float64) float64 {
	if p := math.Pi * x; math.Abs(p) < 0.3 {
		return math.Pi * p * horner(sincSeries, p*p)
	}
	return (math.Cos(math.Pi*math.Remainder(x, 2)) - Sinc(x)) / x
}

// SincSlopeC is the derivative of SincC.
func SincSlopeC(x complex128) complex128 {
	p := math.Pi * x
	if cmplx.Abs(p) >= 0.3 {
		return (cmplx.Cos(p) - SincC(x)) / x
	}
	s := complex128(0)
	for k := len(sincSeries) - 1; k >= 0; k-- {
		s = s*p*p + complex(sincSeries[k], 0)
	}
	return math.Pi * p * s
}
