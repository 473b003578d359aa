package kernel

import "github.com/optool/optool/internal/num/vmath"

// Softmax stores exp(src)/sum(exp(src)) in dst. The largest element is taken out
// first, so that nothing overflows; a row of -Inf alone is NaN.
func Softmax(dst, src []float64) {
	vmath.Affine(dst, src, -vmath.Max(src), 1)
	vmath.Exp(dst, dst)
	vmath.Affine(dst, dst, 0, 1/vmath.Sum(dst))
}
