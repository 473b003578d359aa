package kernel

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestFFT compares lengths of every kind with the sum that defines the
// transform: powers of two, many small factors, primes below and above the
// limit, products of large primes.
func TestFFT(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 4, 8, 12, 30, 61, 67, 97, 134, 360, 1009, 67 * 71} {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		for _, inverse := range []bool{false, true} {
			sign := -1.0
			if inverse {
				sign = 1
			}
			got := append([]complex128{}, x...)
			FFT(got, inverse)
			for k := 0; k < n; k += 1 + n/50 {
				want := complex128(0)
				for j, v := range x {
					sin, cos := math.Sincos(2 * math.Pi * float64(j*k%n) / float64(n))
					want += v * complex(cos, sign*sin)
				}
				if cmplx.Abs(got[k]-want) > 1e-14*float64(n) {
					t.Errorf("n = %d, inverse %v: element %d = %v, want %v", n, inverse, k, got[k], want)
					break
				}
			}
		}
	}
}

// TestFFTPrime: a length whose work would grow with the square; a shifted
// impulse has a known transform.
func TestFFTPrime(t *testing.T) {
	const n = 100003
	x := make([]complex128, n)
	x[1] = 1
	FFT(x, false)
	for _, k := range []int{0, 1, n / 3, n - 1} {
		want := cmplx.Exp(complex(0, -2*math.Pi*float64(k)/n))
		if cmplx.Abs(x[k]-want) > 1e-12 {
			t.Errorf("element %d = %v, want %v", k, x[k], want)
		}
	}
}

func TestFactors(t *testing.T) {
	for _, c := range []struct{ n, largest, count int }{{1, 0, 0}, {2, 2, 1}, {8, 2, 2}, {60, 5, 3}, {97, 97, 1},
		{4782969, 3, 14}, {134, 67, 2}} {
		if largest, count := factors(c.n); largest != c.largest || count != c.count {
			t.Errorf("factors(%d) = %d, %d, want %d, %d", c.n, largest, count, c.largest, c.count)
		}
	}
}
