package kernel

import (
	"math"
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
// pi/2, which math.Sin reduces with some bits less. ok is false for numbers so
// large that math.Sin is better.
func quarters(x float64) (n int, r, low float64, ok bool) {
	if !(math.Abs(x) <= 1<<28) {
		return 0, 0, 0, false
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
	return int(int64(k) & 3), r, low, true
}

// twoSum is a + b and what rounding it lost.
func twoSum(a, b float64) (s, lost float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// Sin is the sine.
func Sin(x float64) float64 {
	n, r, low, ok := quarters(x)
	if !ok || x == 0 {
		return math.Sin(x)
	}
	return turned(n, r, low)
}

// Cos is the cosine.
func Cos(x float64) float64 {
	n, r, low, ok := quarters(x)
	if !ok {
		return math.Cos(x)
	}
	return turned(n+1, r, low)
}

// turned is sin(n*pi/2 + r + low).
func turned(n int, r, low float64) float64 {
	s, c := math.Sincos(r)
	y := s + low*c
	if n&1 != 0 {
		y = c - low*s
	}
	if n&2 != 0 {
		return -y
	}
	return y
}

// Tan is the tangent.
func Tan(x float64) float64 {
	n, r, low, ok := quarters(x)
	if !ok || x == 0 {
		return math.Tan(x)
	}
	t := math.Tan(r)
	t += low * (1 + t*t)
	if n&1 != 0 {
		return -1 / t
	}
	return t
}

// CTan is the tangent of a complex number.
func CTan(z complex128) complex128 { return rotated(CTanh, z) }

// CTanh is the hyperbolic tangent of a complex number. cmplx.Tanh divides
// infinities for real parts beyond 710.
func CTanh(z complex128) complex128 {
	x, y := real(z), imag(z)
	if !(math.Abs(x) > 22) || !finite(z) {
		return cmplx.Tanh(z)
	}
	s, c := math.Sincos(y)
	return complex(math.Copysign(1, x), 4*s*c*math.Exp(-2*math.Abs(x)))
}
