package kernel

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
)

// Softplus is log(1 + exp(x)), which does not overflow.
func Softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// SoftplusBlock stores Softplus of src, which dst does not overlap.
func SoftplusBlock(dst, src []float64) {
	for i, x := range src {
		dst[i] = -math.Abs(x)
	}
	vmath.Exp(dst, dst)
	vmath.Log1p(dst, dst)
	for i, x := range src {
		dst[i] += max(x, 0)
	}
}

// Mish is x tanh(log(1 + e^x)), which is x n/(n+2) with n = e^x (e^x + 2).
func Mish(x float64) float64 {
	switch {
	case x > 40:
		return x
	case x < -700: // e^x alone would lose digits where it is subnormal
		e := math.Exp(x / 2)
		return x * e * e
	}
	e := math.Exp(x)
	n := e * (e + 2)
	return x * (n / (n + 2))
}

// MishSlope is the derivative of Mish: the hyperbolic tangent, and x times the sigmoid times 1 less its square.
func MishSlope(x float64) float64 {
	if x > 40 || x != x || math.IsInf(x, 0) {
		t := math.Tanh(Softplus(x))
		return t + x*Sigmoid(x)*(1-t*t)
	}
	e := math.Exp(x)
	n := e * (e + 2)
	d := n + 2
	return n/d + 4*x*Sigmoid(x)*((n+1)/d)/d
}

// TanhShrink is x - tanh(x). Near 0 it is (x cosh(x) - sinh(x))/cosh(x), whose series has terms of one sign.
func TanhShrink(x float64) float64 {
	if !(math.Abs(x) < 1) {
		return x - math.Tanh(x)
	}
	q, s := x*x, 1.0
	for k := 10.0; k >= 1; k-- {
		s = 1 + q*s/(2*k*(2*k+3))
	}
	return x * (q / 3) * s / math.Cosh(x)
}

// LogAddExpC is the logarithm of the sum of two complex exponentials.
func LogAddExpC(x, y complex128) complex128 {
	if real(x) < real(y) || real(x) != real(x) {
		x, y = y, x
	}
	switch {
	case real(x) != real(y) || !math.IsInf(real(x), 0):
		return x + Log1p(CExp(y-x))
	case real(x) < 0: // no angle is that of 0
		return x
	}
	return CLog(CExp(x) + CExp(y))
}

// ExpDiffC is exp(x - y), where equal infinite real parts differ by nothing.
func ExpDiffC(x, y complex128) complex128 {
	if math.IsInf(real(x), 0) && real(x) == real(y) {
		return cmplx.Rect(1, imag(x)-imag(y))
	}
	return CExp(x - y)
}

// Sign is -1, 0 or 1 as x is negative, neither, or positive.
func Sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// SignC is x/|x|, 0 at 0.
func SignC(x complex128) complex128 {
	if x == 0 {
		return 0
	}
	return x / complex(cmplx.Abs(x), 0)
}

// Sigmoid is 1/(1 + exp(-x)). It does not overflow: exp of a negative number only.
func Sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// PowC is cmplx.Pow, with x**0 = 1 and without its refusal of 0 to a power
// whose real part is negative.
func PowC(x, y complex128) complex128 {
	switch {
	case y == 0:
		return 1
	case x == 0 && real(y) > 0:
		return 0
	case x == 0:
		return cmplx.Exp(y * cmplx.Log(x))
	// the product would turn infinities into NaN
	case imag(x) == 0 && real(x) > 0 && (cmplx.IsInf(y) || cmplx.IsNaN(y)):
		l := math.Log(real(x))
		return cmplx.Exp(complex(real(y)*l, imag(y)*l))
	}
	return cmplx.Pow(x, y)
}

// FloorDiv is x/y rounded down.
func FloorDiv(x, y int64) int64 {
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q
}

// FloorMod is the rest of FloorDiv, which has the sign of y.
func FloorMod(x, y int64) int64 {
	m := x % y
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m
}

// ExpDiff is exp(x - y), where equal infinities differ by nothing.
func ExpDiff(x, y float64) float64 {
	if x == y {
		return 1
	}
	return math.Exp(x - y)
}

// FiniteAbs is |x|, or 0 if that is not finite.
func FiniteAbs(x float64) float64 {
	if math.IsInf(x, 0) || x != x {
		return 0
	}
	return math.Abs(x)
}
