package kernel

import (
	"math"
	"math/cmplx"
	"testing"
)

// TestComplexSpecial: values of C99 Annex G (and of glibc), signed zeros
// included; of the quotients, torch's.
func TestComplexSpecial(t *testing.T) {
	inf, nan, neg0 := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, tc := range []struct {
		name    string
		f       func(complex128) complex128
		z, want complex128
	}{
		{"asin", Asin, complex(1, inf), complex(0, inf)},
		{"asin", Asin, complex(inf, -1), complex(math.Pi/2, -inf)},
		{"acos", Acos, complex(-inf, inf), complex(3*math.Pi/4, -inf)},
		{"acos", Acos, complex(0, nan), complex(math.Pi/2, nan)},
		{"atan", Atan, complex(inf, 1), complex(math.Pi/2, 0)},
		{"atan", Atan, complex(neg0, 1.5), complex(-math.Pi/2, math.Atanh(1/1.5))},
		{"atan", Atan, complex(0, 1.5), complex(math.Pi/2, math.Atanh(1/1.5))},
		{"asinh", Asinh, complex(inf, inf), complex(inf, math.Pi/4)},
		{"asinh", Asinh, complex(neg0, neg0), complex(neg0, neg0)},
		{"asinh", Asinh, complex(nan, 0), complex(nan, 0)},
		{"acosh", Acosh, complex(-inf, 1), complex(inf, math.Pi)},
		{"acosh", Acosh, complex(nan, inf), complex(inf, nan)},
		{"atanh", Atanh, complex(inf, inf), complex(0, math.Pi/2)},
		{"atanh", Atanh, complex(1.5, neg0), complex(math.Atanh(1/1.5), -math.Pi/2)},
		{"reciprocal", Reciprocal, complex(inf, 2), complex(nan, neg0)},
		{"reciprocal", Reciprocal, complex(0, 2), complex(0, -0.5)},
		{"1/z", func(z complex128) complex128 { return Quo(1, z) }, complex(inf, 2), complex(nan, nan)},
		{"z/(1+i)", func(z complex128) complex128 { return Quo(z, 1+1i) }, complex(inf, 1), complex(inf, -inf)},
	} {
		if got := tc.f(tc.z); !same(real(got), real(tc.want)) || !same(imag(got), imag(tc.want)) {
			t.Errorf("%s(%v) = %v, want %v", tc.name, tc.z, got, tc.want)
		}
	}
}

func same(a, b float64) bool {
	if a != a || b != b || math.IsInf(b, 0) || b == 0 {
		return a != a && b != b || a == b && math.Signbit(a) == math.Signbit(b)
	}
	return math.Abs(a-b) <= 4e-16*math.Abs(b)
}

// TestComplexInverse: each inverse function undoes its function, also next to
// branch points, where the textbook logarithms lose half the digits.
func TestComplexInverse(t *testing.T) {
	for _, z := range []complex128{0.3 + 0.7i, -2 + 1e-3i, 1 + 1e-9i, -1 - 1e-9i, 0.5i, 3, 1e-10 - 1e-12i} {
		for _, f := range []struct {
			name         string
			inverse, fun func(complex128) complex128
		}{{"asin", Asin, cmplx.Sin}, {"acos", Acos, cmplx.Cos}, {"asinh", Asinh, cmplx.Sinh},
			{"acosh", Acosh, cmplx.Cosh}, {"atan", Atan, cmplx.Tan}, {"atanh", Atanh, cmplx.Tanh}} {
			if got := f.fun(f.inverse(z)); cmplx.Abs(got-z) > 1e-15*(1+cmplx.Abs(z)*cmplx.Abs(z)) {
				t.Errorf("%s of its inverse of %v is %v", f.name, z, got)
			}
		}
	}
}
