package kernel

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// pi/2 in three parts, each the nearest to what those before leave.
const (
	quarter1 = 0x1.921fb54442d18p+0
	quarter2 = 0x1.1a62633145c07p-54
	quarter3 = -0x1.f1976b7ed8fbcp-110
)

// quarters writes x as n*pi/2 + r + low with |r| at most about pi/4, and n
// modulo 4; r + low is as precise as x is, also where x is next to a multiple of
// pi/2, which math.Sin reduces with some bits less. x is finite.
func quarters(x float64) (n int, r, low float64) {
	if math.Abs(x) > 1<<28 {
		return manyQuarters(x)
	}
	k := math.RoundToEven(x * (1 / quarter1))
	p := k * quarter1
	a := x - p // exact
	b := -math.FMA(k, quarter1, -p)
	q := k * quarter2
	c := -math.FMA(k, quarter2, -q) - k*quarter3
	r, low = twoSum(a, b)
	r, e := twoSum(r, -q)
	low += e + c
	r, low = twoSum(r, low)
	return int(int64(k) & 3), r, low
}

// twoOverPi are the binary digits of 2/pi, from the one worth 1/2 on.
var twoOverPi = [...]uint64{
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
	0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
	0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
	0xa9e391615ee61b08,
}

// digits are the 64 binary digits of 2/pi from the one worth 2^-first on.
func digits(first int) uint64 {
	i := first - 1
	if i < 0 { // 2/pi has none in front of the point
		return twoOverPi[0] >> min(-i, 64)
	}
	w, s := i/64, i%64
	return twoOverPi[w]<<s | twoOverPi[w+1]>>1>>(63-s)
}

// manyQuarters is quarters of a large x, after M. H. Payne and R. N. Hanek: x is a whole number m times a power
// of two, and digits of 2/pi that give multiples of 4 in the product are left out.
func manyQuarters(x float64) (n int, r, low float64) {
	const width = 4 // words of 2/pi; the closest that numbers come to a multiple of pi/2 takes 62 bits of them
	fraction, e := math.Frexp(math.Abs(x))
	m, e := uint64(fraction*(1<<53)), e-53
	var p [width]uint64 // m*2/pi modulo 4, from the highest word on: two digits, the point, and the rest
	var carry uint64
	for i := width - 1; i >= 0; i-- {
		hi, lo := bits.Mul64(m, digits(e-1+64*i))
		sum, c := bits.Add64(lo, carry, 0)
		p[i], carry = sum, hi+c
	}
	n = int(p[0] >> 62)
	negative := p[0]>>61&1 != 0 // the rest is at least a half: one quarter more, less what is missing
	if negative {
		n++
		borrow := uint64(0)
		for i := width - 1; i >= 0; i-- {
			p[i], borrow = bits.Sub64(0, p[i], borrow)
		}
	}
	p[0] &= 1<<62 - 1
	hi, lo := 0.0, 0.0
	for i, scale := width-1, 2-64*width; i >= 0; i, scale = i-1, scale+64 {
		for _, half := range [...]uint64{p[i] & (1<<32 - 1), p[i] >> 32 << 32} {
			var lost float64
			hi, lost = twoSum(math.Ldexp(float64(half), scale), hi)
			lo += lost
		}
	}
	hi, lo = twoSum(hi, lo)
	r = hi * quarter1
	low = math.FMA(hi, quarter1, -r) + hi*quarter2 + lo*quarter1
	r, low = twoSum(r, low)
	if negative {
		r, low = -r, -low
	}
	if x < 0 {
		return -n & 3, -r, -low
	}
	return n & 3, r, low
}

// twoSum is a + b and what rounding it lost.
func twoSum(a, b float64) (s, lost float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// Sin is the sine.
func Sin(x float64) float64 {
	if x-x != 0 || x == 0 {
		return math.Sin(x)
	}
	n, r, low := quarters(x)
	s, c := sincos(r, low)
	return [...]float64{s, c, -s, -c}[n]
}

// Cos is the cosine.
func Cos(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	n, r, low := quarters(x)
	s, c := sincos(r, low)
	return [...]float64{c, -s, -c, s}[n]
}

// Sincos is the sine and the cosine.
func Sincos(x float64) (sin, cos float64) { return Sin(x), Cos(x) }

// sincos are the sine and the cosine of r + low, which is at most about pi/4.
func sincos(r, low float64) (s, c float64) {
	s, c = math.Sincos(r)
	return s + low*c, c - low*s
}

// Tan is the tangent.
func Tan(x float64) float64 {
	if x-x != 0 || x == 0 {
		return math.Tan(x)
	}
	n, r, low := quarters(x)
	s, c := sincos(r, low)
	if n&1 != 0 {
		return -c / s
	}
	return s / c
}

// SinPi is sin(pi*x), exact at integers.
func SinPi(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	n, r, low := halves(x)
	s, c := sincos(r, low)
	return [...]float64{s, c, -s, -c}[n]
}

// CosPi is cos(pi*x), exact at integers and halves.
func CosPi(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	n, r, low := halves(x)
	s, c := sincos(r, low)
	return [...]float64{c, -s, -c, s}[n]
}

// halves writes pi*x as n*pi/2 + r + low, as quarters does.
func halves(x float64) (n int, r, low float64) {
	x = math.Remainder(x, 2)
	k := math.RoundToEven(2 * x)
	f := 2*x - k // exact
	r = f * quarter1
	low = math.FMA(f, quarter1, -r) + f*quarter2
	return int(int64(k) & 3), r, low
}

// Atan2 is the angle of the point (x, y). math.Atan2 takes the sign of the quotient y/x, which may be rounded to +0.
func Atan2(y, x float64) float64 {
	if a := math.Atan2(y, x); a == a {
		return math.Copysign(a, y)
	}
	return math.NaN()
}

// Arcsin is the inverse sine. Near 1 math.Asin takes the root of 1 - x*x, which is rounded.
func Arcsin(x float64) float64 { return Atan2(x, math.Sqrt((1-x)*(1+x))) }

// Arccos is the inverse cosine. math.Acos subtracts near 1.
func Arccos(x float64) float64 { return 2 * Atan2(math.Sqrt(1-x), math.Sqrt(1+x)) }

// Sinh is the hyperbolic sine, also where math.Sinh overflows too early.
func Sinh(x float64) float64 {
	if a := math.Abs(x); a > 700 {
		return math.Copysign(halfExp(a), x)
	}
	return math.Sinh(x)
}

// Cosh is the hyperbolic cosine, also where math.Cosh overflows too early.
func Cosh(x float64) float64 {
	if a := math.Abs(x); a > 700 {
		return halfExp(a)
	}
	return math.Cosh(x)
}

// halfExp is exp(x)/2 of a large x.
func halfExp(x float64) float64 {
	const ln2High, ln2Low = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	return Exp(x-ln2High) * (1 - ln2Low) // the difference is exact
}

// CTan is the tangent of a complex number.
func CTan(z complex128) complex128 { return rotated(CTanh, z) }

// CTanh is the hyperbolic tangent of a complex number. cmplx.Tanh divides
// infinities for real parts beyond 710 and subtracts near its poles.
func CTanh(z complex128) complex128 {
	x, y := real(z), imag(z)
	if !finite(z) {
		return cmplx.Tanh(z)
	}
	s, c := Sincos(y)
	if math.Abs(x) > 22 {
		return complex(math.Copysign(1, x), 4*s*c*math.Exp(-2*math.Abs(x)))
	}
	sh, ch := math.Sinh(x), math.Cosh(x)
	d := c*c + sh*sh
	return complex(sh*ch/d, s*c/d)
}

// CExp is the exponential of a complex number. cmplx.Exp reduces large angles with fewer bits.
func CExp(z complex128) complex128 {
	if !finite(z) || imag(z) == 0 {
		return cmplx.Exp(z)
	}
	s, c := Sincos(imag(z))
	e, more := real(z), 1.0
	if e > 700 { // overflows, where a product with a small sine may not
		e, more = e-300, math.Exp(300)
	}
	e = math.Exp(e)
	return complex(e*c*more, e*s*more)
}

// CSinh is the hyperbolic sine of a complex number.
func CSinh(z complex128) complex128 {
	if !finite(z) || math.Abs(real(z)) > 700 {
		return cmplx.Sinh(z)
	}
	s, c := Sincos(imag(z))
	return complex(math.Sinh(real(z))*c, math.Cosh(real(z))*s)
}

// CCosh is the hyperbolic cosine of a complex number.
func CCosh(z complex128) complex128 {
	if !finite(z) || math.Abs(real(z)) > 700 {
		return cmplx.Cosh(z)
	}
	s, c := Sincos(imag(z))
	return complex(math.Cosh(real(z))*c, math.Sinh(real(z))*s)
}

// CSin is the sine of a complex number.
func CSin(z complex128) complex128 {
	if !finite(z) || math.Abs(imag(z)) > 700 {
		return cmplx.Sin(z)
	}
	s, c := Sincos(real(z))
	return complex(s*math.Cosh(imag(z)), c*math.Sinh(imag(z)))
}

// CCos is the cosine of a complex number.
func CCos(z complex128) complex128 {
	if !finite(z) || math.Abs(imag(z)) > 700 {
		return cmplx.Cos(z)
	}
	s, c := Sincos(real(z))
	return complex(c*math.Cosh(imag(z)), -s*math.Sinh(imag(z)))
}

// CSinPi is sin(pi*z) of a complex number.
func CSinPi(z complex128) complex128 {
	y := math.Pi * imag(z)
	if !finite(z) || math.Abs(y) > 700 {
		return cmplx.Sin(math.Pi * z)
	}
	low := math.FMA(math.Pi, imag(z), -y) + quarter2*2*imag(z) // of pi*imag(z)
	s, c := math.Sinh(y), math.Cosh(y)
	return complex(SinPi(real(z))*(c+low*s), CosPi(real(z))*(s+low*c))
}
