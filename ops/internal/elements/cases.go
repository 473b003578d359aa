package elements

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// DistinctOperand has values whose differences stay away from 0: multiples of
// 1/4, shifted by a number of its own.
func DistinctOperand(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor {
	shift := 0.03 + 0.06*g.R.Float64()
	t := opdef.Map(dt, g.Int(tensor.Int8, -8, 8, shape...), func(x float64) float64 { return x/4 + shift }).Rounded()
	t.RequiresGrad = true
	return t
}

// CasesAwayFromZero are cases of a function that has a kink at zero.
func CasesAwayFromZero(g opdef.Gen) []*opdef.UnaryArgs {
	zero := []float64{0}
	return []*opdef.UnaryArgs{
		{Self: g.Apart(tensor.Float64, zero, 3, 4)}, {Self: g.Apart(tensor.Float32, zero, 5)},
		{Self: g.Apart(tensor.BFloat16, zero, 2, 3)},
		{Self: g.Apart(tensor.Float16, zero)}, {Self: g.Normal(tensor.Float32, 0, 3)},
		{Self: g.Normal(tensor.Complex128, 3, 2)}, {Self: g.Normal(tensor.Complex64, 4)},
		{Self: g.Int(tensor.Int32, -4, 4, 6)},
	}
}

// SelfCases are cases of an operator that takes tensors of any dtype and shape.
func SelfCases(g opdef.Gen) []*opdef.UnaryArgs {
	return []*opdef.UnaryArgs{
		{Self: g.Normal(tensor.Float32, 2, 3, 4)}, {Self: g.Normal(tensor.Float64, 2, 3)},
		{Self: g.Normal(tensor.BFloat16, 4)},
		{Self: g.Normal(tensor.Float32)},
		{Self: g.Normal(tensor.Float32, 0, 3)}, {Self: g.Normal(tensor.Complex128, 2, 2)},
		{Self: g.Int(tensor.Int32, -5, 5, 2, 3)},
	}
}
