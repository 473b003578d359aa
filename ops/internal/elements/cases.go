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
var CasesAwayFromZero = opdef.Calls[opdef.UnaryArgs](`
	f64[3, 4]{apart 0}; f32[5]{apart 0}; bf16[2, 3]{apart 0}; f16[]{apart 0}; f32[0, 3]; c128[3, 2]; c64[4]
	i32[6]{-4..4}`)

// SelfCases are cases of an operator that takes tensors of any dtype and shape.
var SelfCases = opdef.Calls[opdef.UnaryArgs](`
	f32[2, 3, 4]; f64[2, 3]; bf16[4]; f32[]; f32[0, 3]; c128[2, 2]; i32[2, 3]{-5..5}`)
