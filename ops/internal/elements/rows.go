package elements

import (
	"math"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/opdef"
)

// LogSoftmaxRow stores the logarithm of softmax of src in dst.
func LogSoftmaxRow(src, dst []float64) {
	m, l := LogSumExpRow(src)
	vmath.Affine(dst, src, -m, 1)
	vmath.Affine(dst, dst, -l, 1)
}

// LogSumExpRow returns the largest element m of src and l, such that m + l is
// the logarithm of the sum of the exponentials.
func LogSumExpRow(src []float64) (m, l float64) {
	m = vmath.Max(src)
	e := opdef.Scratch[float64](len(src))
	defer opdef.Release(e)
	vmath.Affine(*e, src, -m, 1)
	vmath.Exp(*e, *e)
	return m, math.Log(vmath.Sum(*e))
}
