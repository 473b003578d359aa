package vmath

import "math"

// The formulas, one element at a time. The vector loops repeat them operation
// by operation: a change here is a change there. Products that are added go
// through math.FMA or are assigned first, since a compiler may otherwise fuse
// them on some machines.

const (
	log2e = 1 / math.Ln2
	// ln2Hi has 33 significant bits: its product with an exponent is exact.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	// magic added to a number rounds it to an integer, which appears in the
	// low bits of the sum.
	magic = 0x1.8p52

	expMax   = 708  // beyond, results of exp leave the normal range
	expm1Max = 700  // beyond, the factor 2^k may
	tanhMax  = 22   // beyond, tanh is 1
	erfSmall = 0.75 // up to here erf is a polynomial
	erfMax   = 6    // beyond, erf is 1
	erfcMax  = 26.5 // beyond, erfc leaves the normal range
	geluMax  = 37   // beyond, so does the normal distribution function

	rsqrt2 = 1 / math.Sqrt2
	// rsqrtTwoPi is 1/sqrt(2 pi).
	rsqrtTwoPi = 0.398942280401432677939946059934381868
	sqrtHalf   = 0x3fe6a09e667f3bcd // bits of sqrt(1/2)
)

// expPoly is (e^r - 1 - r)/r^2 on |r| <= ln(2)/2: interpolation in the zeros of
// the Chebyshev polynomial of degree 11, computed with 60 digits; error 3e-19.
var expPoly = [...]float64{
	0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326141, 0.0013888888888883752, 0.00019841269874800683,
	2.4801587325533502e-05, 2.75572554255029e-06, 2.7557273661174726e-07, 2.5105206475334834e-08, 2.091467944897855e-09,
}

// logPoly is (ln((1+s)/(1-s)) - 2s)/s in s^2, without the constant term 0, from
// FreeBSD's e_log.c; error 2^-58.45.
var logPoly = [...]float64{
	6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
	1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
}

// erfPoly is erf(x)/x - 1 in x^2 on |x| <= 0.75, made like expPoly; error 3e-17.
var erfPoly = [...]float64{
	0.1283791670955126, -0.37612638903183715, 0.11283791670952596, -0.026866170644428485, 0.005223977615420539,
	-0.0008548326188759752, 0.00012055289567541706, -1.4924196305569617e-05, 1.643068417974155e-06,
	-1.5940066854661717e-07,
	1.1472499701094691e-08,
}

// erfcxPoly is (1+2x) e^(x^2) erfc(x) in t = (x-3)/(x+3) on 0 <= x <= 28 (M. M.
// Shepherd and J. G. Laframboise, Chebyshev Approximation of (1+2x)exp(x^2)erfc x
// in 0 <= x < inf, Math. Comp. 36, 1981), made like expPoly; error 5e-17.
var erfcxPoly = [...]float64{
	1.2530080582697296, -0.1356211061245807, -0.047562294353446374, 0.12964515870270552, -0.11927366341552853,
	0.06830802734580459, -0.02377051491423367, 0.002529391788270445, 0.001888690312003782, -0.0007798320379611115,
	-0.00010515949033775975, 0.00012509815174864322, 4.948147875576539e-06, -2.009663087595395e-05,
	-7.275875746667183e-07,
	3.463997532352904e-06, 3.4899197889744293e-07, -6.050048623933503e-07, -1.311166137536459e-07,
	9.186243026143847e-08,
	3.29163439676632e-08, -8.500119502115306e-09, -4.210104975119195e-09,
}

// horner evaluates the polynomial with coefficients c, lowest first.
func horner(x float64, c []float64) float64 {
	p := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		p = math.FMA(p, x, c[i])
	}
	return p
}

// reduce writes x as k ln(2) + r, |r| <= ln(2)/2: it returns e^r - 1 and k in
// the upper twelve bits.
func reduce(x float64) (q float64, k uint64) {
	m := math.FMA(x, log2e, magic)
	n := m - magic
	r := math.FMA(-n, ln2Lo, math.FMA(-n, ln2Hi, x))
	r2 := r * r
	return math.FMA(r2, horner(r, expPoly[:]), r), math.Float64bits(m) << 52
}

func exp(x float64) float64 {
	switch {
	case x != x || x > 709.8:
		return x * math.Inf(1)
	case x < -746:
		return 0
	}
	q, k := reduce(x)
	if !(math.Abs(x) <= expMax) {
		return math.Ldexp(1+q, int(int64(k)>>52))
	}
	return math.Float64frombits(math.Float64bits(1+q) + k)
}

func expm1(x float64) float64 {
	if !(math.Abs(x) <= expm1Max) {
		return exp(x) - 1
	}
	q, k := reduce(x)
	scale := math.Float64frombits(k + 1023<<52)
	return withSign(math.FMA(scale, q, scale-1), x)
}

// withSign is y, whose sign is that of x or which is +0, with the sign of x.
func withSign(y, x float64) float64 {
	return math.Float64frombits(math.Float64bits(y) | math.Float64bits(x)&(1<<63))
}

func log(x float64) float64 {
	below := 0.0
	switch {
	case !(x > 0 && x <= math.MaxFloat64):
		return math.Log(x)
	case x < 0x1p-1022:
		x *= 0x1p54
		below = 54
	}
	d := math.Float64bits(x) - sqrtHalf
	k := float64(int64(d)>>52) - below
	f := math.Float64frombits(math.Float64bits(x)-d&(0xfff<<52)) - 1
	s := f / (2 + f)
	z := s * s
	h := 0.5 * f
	h *= f
	u := z * horner(z, logPoly[:])
	u += h
	u *= s
	u = math.FMA(k, ln2Lo, u)
	return math.FMA(k, ln2Hi, f-(h-u))
}

func log1p(x float64) float64 {
	if !(x > -1 && x <= 0x1p1000) {
		return math.Log1p(x)
	}
	u := 1 + x
	b := u - 1
	lost := (1 - (u - b)) + (x - b) // 1 + x = u + lost
	return withSign(log(u)+lost/u, x)
}

func tanh(x float64) float64 {
	if x != x {
		return x
	}
	t := expm1(2 * min(math.Abs(x), tanhMax))
	return withSign(t/(t+2), x)
}

func sigmoid(x float64) float64 {
	if !(math.Abs(x) <= expMax) {
		if x > 0 {
			return 1
		}
		return exp(x) // NaN too
	}
	return 1 / (1 + exp(-x))
}

func silu(x float64) float64 {
	if !(math.Abs(x) <= expMax) {
		if x > 0 {
			return x
		}
		e := exp(x / 2) // e^x alone would lose digits where it is subnormal
		return x * e * e
	}
	return x / (1 + exp(-x))
}

// siluSlope is the derivative of silu, s (1 + x (1-s)) with s the sigmoid of x.
func siluSlope(x float64) float64 {
	if !(math.Abs(x) <= expMax) {
		s := sigmoid(x)
		return s * math.FMA(x, 1-s, 1)
	}
	e := exp(-x)
	s := 1 / (1 + e)
	return s * math.FMA(x, e*s, 1) // e*s is 1-s
}

// erfcx is e^(x^2) erfc(x) for x from 0 to 28.
func erfcx(x float64) float64 {
	return horner((x-3)/(x+3), erfcxPoly[:]) / math.FMA(2, x, 1)
}

// erfcTail is erfc(x) for x from 0 to erfcMax.
func erfcTail(x float64) float64 {
	h := x * x
	low := math.FMA(x, x, -h)
	e := exp(-h) * erfcx(x)
	return math.FMA(-low, e, e)
}

// erfSeries is erf(x) for |x| <= erfSmall.
func erfSeries(x float64) float64 {
	return math.FMA(x, horner(x*x, erfPoly[:]), x)
}

func erf(x float64) float64 {
	a := math.Abs(x)
	switch {
	case x != x:
		return x
	case a <= erfSmall:
		return withSign(erfSeries(a), x)
	}
	return withSign(1-erfcTail(min(a, erfMax)), x)
}

func erfc(x float64) float64 {
	a := math.Abs(x)
	switch {
	case !(a <= erfcMax):
		return math.Erfc(x)
	case a <= erfSmall:
		return 1 - withSign(erfSeries(a), x)
	case x < 0:
		return 2 - erfcTail(a)
	}
	return erfcTail(a)
}

// gelu is x times the normal distribution function.
func gelu(x float64) float64 {
	a := math.Abs(x)
	half := 0.5 * x
	switch {
	case a <= geluMax:
	case x > 0:
		return x
	case x >= -39: // e^-h alone would lose digits where it is subnormal
		h := half * x
		low := math.FMA(half, x, -h)
		e, c := exp(-h/2), erfcx(a*rsqrt2)
		c = math.FMA(-low, c, c)
		return half * e * c * e
	default:
		return half * 0
	}
	h := half * x
	low := math.FMA(half, x, -h)
	e := exp(-h) * erfcx(a*rsqrt2)
	e = math.FMA(-low, e, e) // erfc(|x|/sqrt(2))
	if x < 0 {
		return half * e
	}
	return withSign(math.FMA(-half, e, x), x)
}

// geluTanh is the approximation x (1 + tanh(u))/2 with
// u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e^-2u).
func geluTanh(x float64) float64 {
	if !(math.Abs(x) <= geluTanhMax) {
		return x * sigmoid(-geluExponent(x))
	}
	return x / (1 + exp(geluExponent(x)))
}

const geluTanhMax = 20 // 2u is beyond expMax from about 21.2 on

const (
	gelu1 = -2 * 0.79788456080286535587989211986876 // -2 sqrt(2/pi)
	gelu3 = gelu1 * 0.044715
)

// geluExponent is -2u of geluTanh.
func geluExponent(x float64) float64 {
	p := math.FMA(x*x, gelu3, gelu1)
	return x * p
}

// geluSlope is the derivative of gelu, Phi(x) + x phi(x).
func geluSlope(x float64) float64 {
	if !(math.Abs(x) <= geluMax) {
		return farSlope(x)
	}
	tail, density := geluTail(x)
	p := 1 - tail
	if x < 0 {
		p = tail
	}
	return math.FMA(x, density, p)
}

// geluSlopeSize is Phi(|x|) + |x| (1 + x^2) phi(x).
func geluSlopeSize(x float64) float64 {
	if !(math.Abs(x) <= geluMax) {
		return farSlopeSize(x)
	}
	tail, density := geluTail(x)
	p := math.FMA(x, x, 1)
	p *= math.Abs(x)
	return math.FMA(p, density, 1-tail)
}

// geluTail is Phi(-|x|), for |x| up to geluMax, and the density phi(x).
func geluTail(x float64) (tail, density float64) {
	half := 0.5 * x
	h := half * x
	low := math.FMA(half, x, -h)
	e := exp(-h)
	tail = e * erfcx(math.Abs(x)*rsqrt2)
	tail = math.FMA(-low, tail, tail)
	density = math.FMA(-low, e, e)
	return 0.5 * tail, density * rsqrtTwoPi
}

func farSlope(x float64) float64 {
	p := x * (math.Exp(-x*x/2) * rsqrtTwoPi)
	return 0.5*math.Erfc(-x*rsqrt2) + p
}

func farSlopeSize(x float64) float64 {
	p := math.Abs(x) * (1 + x*x)
	p *= math.Exp(-x*x/2) * rsqrtTwoPi
	return 1 - 0.5*math.Erfc(math.Abs(x)*rsqrt2) + p
}
