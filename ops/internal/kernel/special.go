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

// besselSeries is the sum of q^k / (k! (k+order)!), times order!, for q up to 16: terms of one sign.
func besselSeries(order int, q float64) float64 {
	s := 1.0
	for k := 40; k >= 1; k-- {
		s = 1 + q*s/float64(k*(k+order))
	}
	return s
}

// BesselI0e is exp(-|x|) I0(x), to 2 ulp.
func BesselI0e(x float64) float64 {
	x = math.Abs(x)
	if x <= 8 {
		return math.Exp(-x) * besselSeries(0, x*x/4)
	}
	return chebyshev(i0Large, 16/x-1) / math.Sqrt(x)
}

// BesselI1e is exp(-|x|) I1(x), to 2 ulp.
func BesselI1e(x float64) float64 {
	a := math.Abs(x)
	if a <= 8 {
		return math.Exp(-a) * (x / 2) * besselSeries(1, x*x/4)
	}
	return math.Copysign(chebyshev(i1Large, 16/a-1)/math.Sqrt(a), x)
}

// BesselI0 is the modified Bessel function of the first kind of order 0.
func BesselI0(x float64) float64 {
	if math.Abs(x) <= 8 {
		return besselSeries(0, x*x/4)
	}
	return growing(BesselI0e(x), x)
}

// BesselI1 is the modified Bessel function of the first kind of order 1.
func BesselI1(x float64) float64 {
	if math.Abs(x) <= 8 {
		return x / 2 * besselSeries(1, x*x/4)
	}
	return growing(BesselI1e(x), x)
}

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
		return math.Exp(x) * (chebyshev(k0Small, x*x/2-1) - logHalf(x)*BesselI0(x))
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
		return math.Exp(x) * (chebyshev(k1Small, x*x/2-1)/x + logHalf(x)*BesselI1(x))
	}
	return chebyshev(k1Large, 4/x-1) / math.Sqrt(x)
}

// logHalf is the logarithm of x/2, also where that is subnormal.
func logHalf(x float64) float64 {
	if x < 0x1p-1000 {
		return Log(x) - math.Ln2
	}
	return math.Log(x / 2)
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
func NormalCDF(x float64) float64 {
	if x > 0 {
		return 1 - normalTail(x)
	}
	return normalTail(-x)
}

// normalTail is NormalCDF(-x) for x >= 0, which the rounding of x*x costs no digits.
func normalTail(x float64) float64 {
	h := 0.5 * x * x
	low := math.FMA(0.5*x, x, -h)
	e := math.Exp(-h / 2) // its square may be subnormal
	switch {
	case x != x:
		return x
	case e == 0:
		return 0
	}
	t := 0.5 * e * Erfcx(x/math.Sqrt2)
	return (t - low*t) * e
}

// LogNormalCDF is the logarithm of NormalCDF, also where that underflows.
func LogNormalCDF(x float64) float64 {
	if x < -1 {
		return math.Log(Erfcx(-x/math.Sqrt2)/2) - x*x/2
	}
	return math.Log1p(-NormalCDF(-x))
}

// LogNormalCDFSlope is the derivative of LogNormalCDF, the density over NormalCDF.
func LogNormalCDFSlope(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return math.NaN() // as torch has it
	case x <= 0:
		return math.Sqrt(2/math.Pi) / Erfcx(-x/math.Sqrt2)
	}
	return NormalDensity(x) / NormalCDF(x)
}

// NormalDensity is the density of the standard normal distribution.
func NormalDensity(x float64) float64 { return expSquare(x, 0.5) / math.Sqrt(2*math.Pi) }

// Gauss is the derivative of the error function.
func Gauss(x float64) float64 { return 2 / math.SqrtPi * expSquare(x, 1) }

// expSquare is exp(-k x^2), which the rounding of the square costs no digits.
func expSquare(x, k float64) float64 {
	if x = math.Abs(x); x >= 50 {
		return 0
	}
	h := k * x * x
	e := math.Exp(-h)
	return e - math.FMA(k*x, x, -h)*e
}

// NormalQuantile is the inverse of NormalCDF: NaN outside [0, 1].
func NormalQuantile(p float64) float64 {
	if !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	return mathext.NormalQuantile(p)
}

// tanPi is tan(pi*x), exact at integers.
func tanPi(x float64) float64 { return SinPi(x) / CosPi(x) }

// zetaLess1 are zeta(k) - 1 for k from 2 on, computed with 40 digits.
var zetaLess1 = [...]float64{
	0.64493406684822643647, 0.2020569031595942854, 0.082323233711138191516, 0.036927755143369926331,
	0.017343061984449139715, 0.0083492773819228268398, 0.0040773561979443393787, 0.0020083928260822144179,
	0.00099457512781808533715, 0.0004941886041194645587, 0.00024608655330804829864, 0.00012271334757848914675,
	0.000061248135058704829259, 0.000030588236307020493552, 0.000015282259408651871733, 7.6371976378997622736e-6,
	3.8172932649998398565e-6, 1.9082127165539389257e-6, 9.5396203387279611315e-7, 4.7693298678780646312e-7,
	2.3845050272773299e-7, 1.1921992596531107307e-7, 5.9608189051259479612e-8, 2.9803503514652280186e-8,
	1.4901554828365041235e-8, 7.450711789835429492e-9, 3.7253340247884570548e-9, 1.8626597235130490064e-9,
}

// logGamma2 is the logarithm of the gamma function of 2 + z, |z| <= 0.5: https://dlmf.nist.gov/5.7.3.
func logGamma2(z float64) float64 {
	const less = 0.4227843350984671393934879 // 1 - gamma
	s := 0.0
	for i := len(zetaLess1) - 1; i >= 0; i-- {
		k := float64(i + 2)
		c := zetaLess1[i] / k
		if i%2 != 0 {
			c = -c
		}
		s = s*z + c
	}
	return z * (less + z*s)
}

// LogGamma is the logarithm of the magnitude of the gamma function: of numbers up to 2.5, where math.Lgamma loses two
// digits, by the series at 2.
func LogGamma(x float64) float64 {
	switch {
	case x != x || x > 2.5 || x == 0 || math.IsInf(x, 0):
		y, _ := math.Lgamma(math.Abs(x))
		return y
	case x >= 1.5:
		return logGamma2(x - 2)
	case x >= 0.5:
		return logGamma2(x-1) - math.Log1p(x-1)
	case x > 0:
		return logGamma2(x) - math.Log1p(x) - Log(x)
	}
	s := math.Abs(SinPi(x) * x)
	if s == 0 {
		if x > -1 { // x*x is too small
			return -Log(-x)
		}
		return math.Inf(1)
	}
	return math.Log(math.Pi/s) - LogGamma(-x)
}

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

// Trigamma is the derivative of Digamma. At 0 and the negative integers it is large instead of infinite, as in
// ATen (calc_trigamma), which rounds pi*x.
func Trigamma(x float64) float64 {
	if x < 0.5 {
		s := SinPi(x)
		if s == 0 {
			s = math.Sin(math.Pi * x)
		}
		return math.Pi*math.Pi/(s*s) - Trigamma(1-x)
	}
	sum := 0.0
	for ; x < 12; x++ {
		sum += 1 / (x * x)
	}
	// the Bernoulli numbers B_2k, https://dlmf.nist.gov/5.15.8
	c := [...]float64{1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510}
	w := 1 / (x * x)
	return sum + (1+0.5/x+w*horner(c[:], w))/x
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
	// exp and LogGamma do not overflow before the product with zeta does.
	f := 1.0
	if n <= 100 {
		f = math.Gamma(float64(n) + 1)
	} else {
		f = math.Exp(LogGamma(float64(n) + 1))
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
		return hurwitz(s, above) + sign*(hurwitz(s, below)-hurwitz(s, 1-q))
	}
	return hurwitz(s, q)
}

// hurwitz is the sum of (k+q)**-s over k >= 0 for s > 1 and q > 0: some terms, and the formula of Euler and Maclaurin
// (https://dlmf.nist.gov/25.11.5) for the others.
func hurwitz(s, q float64) float64 {
	sum, x := 0.0, q
	for ; x < 12+s; x++ {
		t := Pow(x, -s)
		sum += t
		if t <= 0x1p-60*sum { // both may be 0
			return sum
		}
	}
	t := Pow(x, -s)
	rest := x/(s-1) + 0.5
	// B_2k/(2k)! times s (s+1) ... (s+2k-2) x^(1-2k)
	c := s / x
	for k, b := range [...]float64{1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160,
		-691.0 / 1307674368000, 1.0 / 74724249600, -3617.0 / 10670622842880000} {
		rest += b * c
		c *= (s + float64(2*k+1)) / x * ((s + float64(2*k+2)) / x)
	}
	return sum + t*rest
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
	switch {
	case x == 0:
		return 1
	case math.Abs(x) < 0x1p-30:
		return 1 - math.Pi*math.Pi/6*x*x
	}
	return SinPi(x) / (math.Pi * x)
}

// SincC is Sinc of a complex number.
func SincC(x complex128) complex128 {
	if x == 0 {
		return 1
	}
	return CSinPi(x) / (math.Pi * x)
}

// sincSeries is the derivative of sin(p)/p over p, in p*p.
var sincSeries = []float64{-1.0 / 3, 1.0 / 30, -1.0 / 840, 1.0 / 45360, -1.0 / 3991680, 1.0 / 518918400}

// SincSlope is the derivative of Sinc.
func SincSlope(x float64) float64 {
	if p := math.Pi * x; math.Abs(p) < 0.3 {
		return math.Pi * p * horner(sincSeries, p*p)
	}
	return (CosPi(x) - Sinc(x)) / x
}

// SincSlopeC is the derivative of SincC.
func SincSlopeC(x complex128) complex128 {
	p := math.Pi * x
	if cmplx.Abs(p) >= 0.3 {
		return (CCos(p) - SincC(x)) / x
	}
	s := complex128(0)
	for k := len(sincSeries) - 1; k >= 0; k-- {
		s = s*p*p + complex(sincSeries[k], 0)
	}
	return math.Pi * p * s
}
