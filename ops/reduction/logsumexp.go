package reduction

import (
	"math"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// LogSumExpArgs are the arguments of logsumexp.
type LogSumExpArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

// A LogSum is the sum of exponentials so far: sum * exp(max).
type LogSum struct {
	Max, sum float64
	any      bool
}

// Join adds the sum of further elements.
func (a *LogSum) Join(b LogSum) {
	switch {
	case !b.any:
	case !a.any:
		*a = b
	case a.Max >= b.Max || a.Max != a.Max:
		a.sum += b.sum * kernel.ExpDiff(b.Max, a.Max)
	default:
		a.sum = a.sum*kernel.ExpDiff(a.Max, b.Max) + b.sum
		a.Max = b.Max
	}
}

// Value is the logarithm of the sum, -Inf of nothing.
func (a *LogSum) Value() float64 {
	if !a.any || math.IsInf(a.Max, -1) {
		return math.Inf(-1)
	}
	return a.Max + math.Log(a.sum)
}

// LogSumFold folds elements to the logarithm of the sum of their exponentials.
var LogSumFold = opdef.Fold[float64, LogSum]{
	Add: func(acc *LogSum, _ int, v [][]float64) {
		m := vmath.Max(v[0])
		if math.IsInf(m, 0) {
			s := 0.0
			for _, x := range v[0] {
				s += kernel.ExpDiff(x, m)
			}
			acc.Join(LogSum{m, s, true})
			return
		}
		e := opdef.Scratch[float64](len(v[0]))
		vmath.Affine(*e, v[0], -m, 1)
		vmath.Exp(*e, *e)
		acc.Join(LogSum{m, vmath.Sum(*e), true})
		opdef.Release(e)
	},
	Join: func(acc *LogSum, next LogSum) { acc.Join(next) },
}

func logSumExp(a *LogSumExpArgs) ([]*tensor.Tensor, error) {
	dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	x := a.Self
	if x.DType.IsComplex() {
		return elements.Single(opdef.Collect(opdef.FoldDims(complexLogSumming, dims, a.Keepdim, x), x.DType,
			(*complexLogSum).value)), nil
	}
	if x.DType.Kind() < tensor.KindFloat {
		x = elements.Converted(x, tensor.DefaultDType)
	}
	return elements.Single(opdef.Collect(opdef.FoldDims(LogSumFold, dims, a.Keepdim, x), x.DType, (*LogSum).Value)), nil
}
