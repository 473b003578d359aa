package kernel

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// Sines next to multiples of pi, where the reduction decides, from 50 digits of pi.
func TestReduction(t *testing.T) {
	for _, c := range []struct{ x, sin, tan float64 }{
		{math.Pi, 1.2246467991473532e-16, -1.2246467991473532e-16},
		{2 * math.Pi, -2.4492935982947064e-16, -2.4492935982947064e-16},
		{100 * math.Pi, 1.9643867237284719e-15, 1.9643867237284719e-15},
		{0.5, 0.479425538604203, 0.5463024898437905},
		{-2, -0.9092974268256817, 2.185039863261519},
	} {
		if got := Sin(c.x); math.Abs(got/c.sin-1) > 4e-16 {
			t.Errorf("sin(%v) = %v, want %v", c.x, got, c.sin)
		}
		if got := Tan(c.x); math.Abs(got/c.tan-1) > 5e-16 {
			t.Errorf("tan(%v) = %v, want %v", c.x, got, c.tan)
		}
	}
	if got := Cos(math.Pi / 2); math.Abs(got/6.123233995736766e-17-1) > 4e-16 {
		t.Errorf("cos(pi/2) = %v", got)
	}
	for _, x := range []float64{math.Inf(1), math.NaN()} {
		if !math.IsNaN(Sin(x)) || !math.IsNaN(Cos(x)) || !math.IsNaN(Tan(x)) {
			t.Errorf("a function of %v is a number", x)
		}
	}
	if !math.Signbit(Sin(math.Copysign(0, -1))) || !math.Signbit(Tan(math.Copysign(0, -1))) {
		t.Error("the sign of -0 is lost")
	}
}

func TestComplexTangent(t *testing.T) {
	for _, z := range []complex128{complex(-1000, 3), complex(800, -1), complex(25, 2)} {
		w := CTanh(z)
		if real(w) != math.Copysign(1, real(z)) || math.Abs(imag(w)) > 1e-20 {
			t.Errorf("tanh(%v) = %v", z, w)
		}
	}
	z := complex(0.3, 21.9)
	if d := cmplx.Abs(CTan(z) - cmplx.Tan(z)); d > 1e-16 {
		t.Errorf("tan(%v) is off by %g", z, d)
	}
}

// bigPower is x**n by exact products.
func bigPower(x float64, n int) float64 {
	p, b := big.NewFloat(1).SetPrec(400), big.NewFloat(x).SetPrec(400)
	for range n {
		p.Mul(p, b)
	}
	f, _ := p.Float64()
	return f
}

func TestPow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x, n := math.Exp(2*r.NormFloat64()), 1+r.IntN(60)
		want := bigPower(x, n)
		if got := Pow(x, float64(n)); math.Abs(got-want) > 2.5*math.Abs(math.Nextafter(want, math.Inf(1))-want) {
			t.Fatalf("%v ** %d = %v, want %v", x, n, got, want)
		}
		if n%2 == 1 && Pow(-x, float64(n)) != -Pow(x, float64(n)) {
			t.Fatalf("-%v ** %d = %v", x, n, Pow(-x, float64(n)))
		}
		// A root, to half a unit of its argument.
		if got := Pow(want, 1/float64(n)); math.Abs(got/x-1) > 4e-16*(1+math.Abs(math.Log(want))/float64(n)) {
			t.Fatalf("%v ** (1/%d) = %v, want %v", want, n, got, x)
		}
	}
	for _, c := range [][3]float64{{2, 0.5, math.Sqrt2}, {9, 0.5, 3}, {-8, 3, -512}, {0, 7, 0}, {2, 1000, 0x1p1000},
		{2, -1074, 0x1p-1074}, {1, math.Inf(1), 1}, {0.5, 1e300, 0}} {
		if got := Pow(c[0], c[1]); math.Abs(got-c[2]) > 3e-16*math.Abs(c[2]) {
			t.Errorf("%v ** %v = %v, want %v", c[0], c[1], got, c[2])
		}
	}
	if !math.IsNaN(Pow(-2, 0.5)) {
		t.Error("a root of a negative number is a number")
	}
}
