package special

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// polynomialOps are orthogonal polynomials of degree n at x.
var polynomialOps = []*opdef.Entry{
	chebyshevOp("chebyshev_polynomial_t", "Chebyshev polynomial of the first kind", chebyshevT, false),
	chebyshevOp("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind", chebyshevU, false),
	chebyshevOp("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind", chebyshevV, false),
	chebyshevOp("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind", chebyshevW, false),
	chebyshevOp("shifted_chebyshev_polynomial_t", "Shifted Chebyshev polynomial of the first kind", chebyshevT, true),
	chebyshevOp("shifted_chebyshev_polynomial_u", "Shifted Chebyshev polynomial of the second kind", chebyshevU, true),
	chebyshevOp("shifted_chebyshev_polynomial_v", "Shifted Chebyshev polynomial of the third kind", chebyshevV, true),
	chebyshevOp("shifted_chebyshev_polynomial_w", "Shifted Chebyshev polynomial of the fourth kind", chebyshevW, true),
	polynomialOp("hermite_polynomial_h", "Hermite polynomial of the physicists",
		"H[k+1] = 2*x*H[k] - 2*k*H[k-1], H[0] = 1, H[1] = 2*x",
		recurrence{func(x float64) float64 { return 2 * x },
			func(x, k, p, q float64) float64 { return 2*x*p - 2*k*q }}),
	polynomialOp("hermite_polynomial_he", "Hermite polynomial of the probabilists",
		"He[k+1] = x*He[k] - k*He[k-1], He[0] = 1, He[1] = x",
		recurrence{func(x float64) float64 { return x }, func(x, k, p, q float64) float64 { return x*p - k*q }}),
	polynomialOp("laguerre_polynomial_l", "Laguerre polynomial",
		"(k+1)*L[k+1] = (2*k+1-x)*L[k] - k*L[k-1], L[0] = 1, L[1] = 1-x",
		recurrence{func(x float64) float64 { return 1 - x },
			func(x, k, p, q float64) float64 { return ((2*k+1-x)*p - k*q) / (k + 1) }}),
	polynomialOp("legendre_polynomial_p", "Legendre polynomial",
		"(k+1)*P[k+1] = (2*k+1)*x*P[k] - k*P[k-1], P[0] = 1, P[1] = x",
		recurrence{func(x float64) float64 { return x },
			func(x, k, p, q float64) float64 { return ((2*k+1)*x*p - k*q) / (k + 1) }}),
}

type polynomialArgs struct{ X, N *tensor.Tensor }

// A recurrence of three terms makes polynomials from 1 and first; next is
// polynomial k+1 from polynomials k (p) and k-1 (q).
type recurrence struct {
	first func(x float64) float64
	next  func(x, k, p, q float64) float64
}

// at is the polynomial of degree n, and the largest of those it was made from.
func (r recurrence) at(x float64, n int64) (y, largest float64) {
	switch {
	case n < 0:
		return 0, 0
	case n == 0:
		return 1, 1
	}
	tensor.Steps(int(n))
	q, p := 1.0, r.first(x)
	largest = max(q, math.Abs(p))
	for k := int64(1); k < n && p == p; k++ {
		q, p = p, r.next(x, float64(k), p, q)
		largest = max(largest, math.Abs(p))
	}
	return p, largest
}

// A chebyshevKind is one of the four kinds of Chebyshev polynomials: the start
// of its recurrence, and the closed form used for |x| < 1 above a degree: a wave
// of the angle acos(x) over its amplitude's inverse.
type chebyshevKind struct {
	first func(x float64) float64
	wave  func(angle, n float64) float64
	over  func(angle float64) float64
	above int64
}

var (
	chebyshevT = chebyshevKind{
		func(x float64) float64 { return x },
		func(t, n float64) float64 { return kernel.Cos(n * t) }, func(float64) float64 { return 1 }, 6,
	}
	chebyshevU = chebyshevKind{
		func(x float64) float64 { return 2 * x },
		func(t, n float64) float64 { return kernel.Sin((n + 1) * t) }, kernel.Sin, 8,
	}
	chebyshevV = chebyshevKind{
		func(x float64) float64 { return 2*x - 1 },
		func(t, n float64) float64 { return kernel.Cos((n + 0.5) * t) },
		func(t float64) float64 { return kernel.Cos(t / 2) }, 8,
	}
	chebyshevW = chebyshevKind{
		func(x float64) float64 { return 2*x + 1 },
		func(t, n float64) float64 { return kernel.Sin((n + 0.5) * t) },
		func(t float64) float64 { return kernel.Sin(t / 2) }, 8,
	}
)

func (c chebyshevKind) at(x float64, n int64) (y, largest float64) {
	if n > c.above && math.Abs(x) < 1 {
		t := kernel.Arccos(x)
		over := c.over(t)
		return c.wave(t, float64(n)) / over, 1 / over
	}
	return recurrence{c.first, func(x, _, p, q float64) float64 { return 2*x*p - q }}.at(x, n)
}

func chebyshevOp(name, summary string, c chebyshevKind, shifted bool) *opdef.Entry {
	formula := "2*x*C[n-1] - C[n-2]"
	at := c.at
	if shifted {
		formula = "C[n](2*x-1) with C[n](t) = 2*t*C[n-1](t) - C[n-2](t)"
		at = func(x float64, n int64) (float64, float64) { return c.at(2*x-1, n) }
	}
	return polynomialOp(name, summary, formula, evaluator(at))
}

type evaluator func(x float64, n int64) (y, largest float64)

func (f evaluator) at(x float64, n int64) (y, largest float64) { return f(x, n) }

// polynomialOp declares torch.special.<name>(x, n).
func polynomialOp(name, summary, formula string, p interface {
	at(x float64, n int64) (y, largest float64)
}) *opdef.Entry {
	return opdef.Op[polynomialArgs]{
		Schema: "special_" + name + "(Tensor|Scalar x, Tensor|Scalar n) -> Tensor", Names: "special." + name,
		Doc: opdef.Doc{Summary: summary, Formula: formula,
			Notes: "n is truncated to an integer; below 0 the result is 0."},
		Error: elements.ElementwiseError,
		Kernel: func(a *polynomialArgs) ([]*tensor.Tensor, error) {
			return pairOfNumbers(a.X, a.N, true, func(x, n float64) float64 {
				y, _ := p.at(x, tensor.FloatToInt(n))
				return y
			})
		},
		Traits: opdef.Traits{NoGrad: "torch defines none for special." + name},
		Bounds: opdef.Bounds[*polynomialArgs]{
			// Every step of the recurrence rounds; near its zeros the polynomial is
			// small against its parts.
			Scale: func(a *polynomialArgs, _ []*tensor.Tensor) []*tensor.Tensor {
				return pairScale(a.X, a.N, func(x, n float64) float64 {
					_, s := p.at(x, tensor.FloatToInt(n))
					return kernel.FiniteAbs((1 + n) * s)
				})
			},
		},
		Cases: opdef.Calls[polynomialArgs](`
			f64[3, 4], i64[3, 4]{-1..9}; f64[3, 1]{-1..1}, i64[4]{-1..9}; f32[5], 3; 0.25, f32[5]{= 0 5 6 3 1}
			f32[0, 3], i64[3]{-1..9}; i32[4]{-2..2}, i64[4]{-1..9}; f32[4]{= -1 1 0 NaN}, 7; f32[], i64[]{-1..9}`),
	}.Entry()
}
