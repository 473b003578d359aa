package kernel

import (
	"math"
	"math/cmplx"
)

// Exp is the exponential, also next to the largest number, where math.Exp overflows too early on some machines.
func Exp(x float64) float64 {
	if x > 709 {
		return math.Exp(x-16) * 8886110.520507872367 // e^16
	}
	return math.Exp(x)
}

// Log is the natural logarithm, also of subnormal numbers, which math.Log takes for normal ones on some machines.
func Log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// Log2 is the logarithm to base 2, exact for powers of two.
func Log2(x float64) float64 {
	if !(x > 0 && x <= math.MaxFloat64) {
		return math.Log2(x)
	}
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	// f - 1 is exact, and its logarithm small where e is 0
	return float64(e) + math.Log1p(f-1)*(1/math.Ln2)
}

// Log10 is the logarithm to base 10.
func Log10(x float64) float64 { return Log(x) / math.Ln10 }

// CLog is the logarithm of a complex number, also next to the unit circle, where that of a rounded modulus loses its
// digits.
func CLog(z complex128) complex128 {
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	if x < y {
		x, y = y, x
	}
	if !(x > 0.5 && x < 2 && y < 2) {
		return cmplx.Log(z)
	}
	return complex(0.5*math.Log1p(squaresLess1(x-1, y)), Angle(z))
}

// squaresLess1 is (1+d)^2 + y^2 - 1, added in twice the precision.
func squaresLess1(d, y float64) float64 {
	d2, y2 := d*d, y*y
	s, lost := twoSum(2*d, d2)
	t, more := twoSum(s, y2)
	return t + (lost + more + math.FMA(d, d, -d2) + math.FMA(y, y, -y2))
}

// CExp2 is 2**z.
func CExp2(z complex128) complex128 {
	if !finite(z) || math.Abs(real(z)) > 1000 || !(math.Abs(imag(z)) < 1<<28) {
		return PowC(2, z)
	}
	const ln2Low = 0x1.abc9e3b39803fp-56 // of ln(2)
	angle := imag(z) * math.Ln2
	low := math.FMA(imag(z), math.Ln2, -angle) + imag(z)*ln2Low
	s, c := Sincos(angle)
	e := math.Exp2(real(z))
	return complex(e*(c-low*s), e*(s+low*c))
}
