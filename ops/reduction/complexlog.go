package reduction

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A complexLogSum is the sum of complex exponentials so far: sum * exp(max),
// with max the largest real part.
type complexLogSum struct {
	max float64
	sum complex128
	any bool
}

func (a *complexLogSum) join(b complexLogSum) {
	switch {
	case !b.any:
	case !a.any:
		*a = b
	case a.max >= b.max || a.max != a.max:
		a.sum += b.sum * complex(kernel.ExpDiff(b.max, a.max), 0)
	default:
		a.sum = a.sum*complex(kernel.ExpDiff(a.max, b.max), 0) + b.sum
		a.max = b.max
	}
}

// value is the logarithm of the sum, whose angle is that of the sum; -Inf of
// nothing.
func (a *complexLogSum) value() complex128 {
	if !a.any || math.IsInf(a.max, -1) {
		return complex(math.Inf(-1), 0)
	}
	return complex(a.max, 0) + cmplx.Log(a.sum)
}

// exponential is exp(x) as a sum of one term.
func exponential(x complex128) complexLogSum {
	s, c := math.Sincos(imag(x))
	return complexLogSum{real(x), complex(c, s), true}
}

var complexLogSumming = opdef.Fold[complex128, complexLogSum]{
	Add: func(acc *complexLogSum, _ int, v [][]complex128) {
		for _, x := range v[0] {
			acc.join(exponential(x))
		}
	},
	Join: func(acc *complexLogSum, next complexLogSum) { acc.join(next) },
}

// complexLogSumScale is the magnitude of the logarithm y of a sum of complex
// exponentials, plus what rounding their angles and adding them does to it: the
// sum of their magnitudes over the magnitude of their sum.
func complexLogSumScale(a *LogSumExpArgs, y *tensor.Tensor) *tensor.Tensor {
	re := opdef.Must(logSumExp(&LogSumExpArgs{elements.Real(a.Self), a.Dim, a.Keepdim}))
	angle := 1 + opdef.MaxAbs(elements.Imag(a.Self))
	return opdef.Zip(tensor.Float64, re[0], elements.Real(y), func(l, r float64) float64 {
		return math.Abs(r) + math.Pi + angle*kernel.ExpDiff(l, r)
	})
}

// runningComplexLogSum stores logarithms of the running sums of exponentials.
// The angles are not reduced: that of the first is its own.
func runningComplexLogSum(src, dst []complex128) {
	s := complex(math.Inf(-1), 0)
	for i, x := range src {
		s = kernel.LogAddExpC(s, x)
		dst[i] = s
	}
}

// complexLogSumGrad stores the gradient of a running logarithm of sums, the sum
// over i >= k of up[i] * conj(exp(x[k] - y[i])), added up from the end. With
// sizes it is the sum of the magnitudes of the terms, each exponent being known
// to its own size.
func complexLogSumGrad(x, y, up, dst []complex128, sizes bool) {
	var s complexLogSum // of up[i] * conj(exp(-y[i]))
	for k := len(x) - 1; k >= 0; k-- {
		t := exponential(-y[k])
		f := exponential(x[k])
		if sizes {
			t.sum, f.sum = complex(cmplx.Abs(up[k])*(2+cmplx.Abs(y[k])), 0), complex(1+cmplx.Abs(x[k]), 0)
		} else {
			t.sum, f.sum = up[k]*cmplx.Conj(t.sum), cmplx.Conj(f.sum)
		}
		s.join(t)
		dst[k] = s.sum * f.sum * complex(kernel.ExpDiff(s.max, -f.max), 0)
	}
}
