package kernel

import (
	"math"
	"math/cmplx"
)

// The inverse functions follow W. Kahan, "Branch cuts for complex elementary
// functions" (1987), whose products of square roots do not cancel where the
// textbook logarithms (and math/cmplx) do. Infinite and NaN arguments have the
// values of C99 Annex G, which math/cmplx has too.

// Asin is the inverse sine.
func Asin(z complex128) complex128 {
	if !finite(z) {
		return cmplx.Asin(z)
	}
	p, q := roots(z)
	return complex(Atan2(real(z), real(p*q)), math.Asinh(imag(cmplx.Conj(p)*q)))
}

// Acos is the inverse cosine.
func Acos(z complex128) complex128 {
	if !finite(z) {
		return cmplx.Acos(z)
	}
	p, q := roots(z)
	return complex(2*Atan2(real(p), real(q)), math.Asinh(imag(cmplx.Conj(q)*p)))
}

// Atan is the inverse tangent.
func Atan(z complex128) complex128 { return rotated(Atanh, z) }

// Asinh is the inverse hyperbolic sine.
func Asinh(z complex128) complex128 { return rotated(Asin, z) }

// Acosh is the inverse hyperbolic cosine.
func Acosh(z complex128) complex128 {
	if !finite(z) {
		return cmplx.Acosh(z)
	}
	p, q := cmplx.Sqrt(z-1), cmplx.Sqrt(z+1)
	return complex(math.Asinh(real(cmplx.Conj(p)*q)), 2*Atan2(imag(p), real(q)))
}

// Atanh is the inverse hyperbolic tangent.
func Atanh(z complex128) complex128 {
	if !finite(z) {
		return cmplx.Atanh(z)
	}
	x, y := real(z), imag(z)
	if math.Signbit(x) { // the function is odd; below, nothing cancels for x >= 0
		return -Atanh(-z)
	}
	return complex(0.25*math.Log1p(4*x/((1-x)*(1-x)+y*y)), 0.5*Atan2(2*y, (1-x)*(1+x)-y*y))
}

// Angle is the angle of a complex number.
func Angle(z complex128) float64 { return Atan2(imag(z), real(z)) }

// Expm1 is exp(z) - 1.
func Expm1(z complex128) complex128 {
	if !finite(z) {
		return cmplx.Exp(z) - 1
	}
	h := Sin(imag(z) / 2) // cos(y) = 1 - 2*h*h
	s, c := Sincos(imag(z))
	return complex(math.Expm1(real(z))*c-2*h*h, math.Exp(real(z))*s)
}

// Log1p is the natural logarithm of 1 + z.
func Log1p(z complex128) complex128 {
	x, y := real(z), imag(z)
	if !finite(z) || math.Abs(x) > 0.5 || math.Abs(y) > 0.5 {
		return CLog(1 + z)
	}
	return complex(0.5*math.Log1p(squaresLess1(x, y)), Atan2(y, 1+x))
}

// rotated is -i*f(i*z) without the products, which would turn infinities into NaN.
func rotated(f func(complex128) complex128, z complex128) complex128 {
	w := f(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

// roots are the square roots of 1-z and 1+z, the signs of zeros kept.
func roots(z complex128) (p, q complex128) {
	return cmplx.Sqrt(complex(1-real(z), -imag(z))), cmplx.Sqrt(complex(1+real(z), imag(z)))
}

// Quo is x/y. Where a part is infinite or NaN it is the textbook formula on
// scaled numbers, as in torch, so that an infinite divisor gives NaN and not 0.
func Quo(x, y complex128) complex128 {
	if finite(x) && finite(y) {
		return x / y
	}
	s := math.Max(math.Abs(real(y)), math.Abs(imag(y)))
	a, b, c, d := real(x)/s, imag(x)/s, real(y)/s, imag(y)/s
	n := c*c + d*d
	return complex((a*c+b*d)/n, (b*c-a*d)/n)
}

// Reciprocal is 1/z. Where a part is infinite or NaN it is conj(z)/|z|^2, as in torch.
func Reciprocal(z complex128) complex128 {
	if finite(z) {
		return 1 / z
	}
	n := real(z)*real(z) + imag(z)*imag(z)
	return complex(real(z)/n, -imag(z)/n)
}

func finite(z complex128) bool { return real(z)-real(z) == 0 && imag(z)-imag(z) == 0 }
