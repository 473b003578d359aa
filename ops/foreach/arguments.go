package foreach

import (
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type foreachArgs struct{ Self []*tensor.Tensor }

type foreachPairArgs struct{ Self, Other []*tensor.Tensor }

type foreachSumArgs struct {
	Self, Other []*tensor.Tensor
	Alpha       opdef.Scalar
}

type foreachScalarArgs struct {
	Self   []*tensor.Tensor
	Scalar opdef.Scalar
}

type foreachScalarsArgs struct {
	Self    []*tensor.Tensor
	Scalars []opdef.Scalar
}

type foreachTensorArgs struct {
	Self  []*tensor.Tensor
	Other *tensor.Tensor
}

type foreachTensorSumArgs struct {
	Self  []*tensor.Tensor
	Other *tensor.Tensor
	Alpha opdef.Scalar
}

type foreachExponentsArgs struct{ Self, Exponent []*tensor.Tensor }

type foreachExponentArgs struct {
	Self     []*tensor.Tensor
	Exponent opdef.Scalar
}

type foreachNumbersArgs struct {
	Self     []*tensor.Tensor
	Exponent []opdef.Scalar
}

type foreachBaseArgs struct {
	Self     opdef.Scalar
	Exponent []*tensor.Tensor
}

type foreachAddcArgs struct {
	Self, Tensor1, Tensor2 []*tensor.Tensor
	Value                  opdef.Scalar
}

type foreachAddcScalarsArgs struct {
	Self, Tensor1, Tensor2 []*tensor.Tensor
	Scalars                []opdef.Scalar
}

type foreachAddcTensorArgs struct {
	Self, Tensor1, Tensor2 []*tensor.Tensor
	Scalars                *tensor.Tensor
}

type foreachLerpArgs struct {
	Self, Tensors1 []*tensor.Tensor
	Weight         opdef.Scalar
}

type foreachLerpListArgs struct{ Self, Tensors1, Weights []*tensor.Tensor }

type foreachLerpScalarsArgs struct {
	Self, Tensors1 []*tensor.Tensor
	Scalars        []opdef.Scalar
}

type foreachNormArgs struct {
	Self  []*tensor.Tensor
	Ord   opdef.Scalar
	Dtype *tensor.DType
}

type foreachProductArgs struct{ Self, Mat2 []*tensor.Tensor }

type foreachCopyArgs struct {
	Self, Src   []*tensor.Tensor
	NonBlocking bool
}

func (a *foreachArgs) sizes() []int { return []int{len(a.Self)} }

// foreachTensors makes lists of tensors of one shape each, with values that
// every function is smooth at.
func foreachTensors(g opdef.Gen) [][]*tensor.Tensor {
	u := func(dt tensor.DType, shape ...int) *tensor.Tensor { return g.Uniform(dt, 0.55, 0.9, shape...) }
	f32, f64, bf16 := tensor.Float32, tensor.Float64, tensor.BFloat16
	return [][]*tensor.Tensor{
		{u(f64, 2, 3), u(f64, 3), u(f64)},
		{u(f32, 2, 2), opdef.NonContiguous(u(f32, 3, 2))},
		{u(bf16, 4)},
		{u(f32, 3), u(f32, 0, 2), u(f32, 2)},
	}
}

var foreachCases = opdef.Calls[foreachArgs](`
	[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}]; [f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}]
	[bf16[4]{0.55..0.9}]; [f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}]`)

func foreachNumbers(n int) []opdef.Scalar {
	s := tensor.Make[opdef.Scalar](n)
	for i := range s {
		s[i] = opdef.Float(0.5 + float64(i))
	}
	return s
}

var foreachPairCases = opdef.Calls[foreachPairArgs](`
	[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], [f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9},
	f64[]{0.55..0.9}]
	[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], [f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}]
	[bf16[4]{0.55..0.9}], [bf16[4]{0.55..0.9}]
	[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], [f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9},
	f32[2]{0.55..0.9}]`)

var foreachScalarCases = opdef.Calls[foreachScalarArgs](`
	[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], 0.25
	[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], 1.25; [bf16[4]{0.55..0.9}], 2.25
	[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], 3.25`)

var foreachScalarsCases = opdef.Calls[foreachScalarsArgs](`
	[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], [0.5, 1.5, 2.5]
	[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], [0.5, 1.5]; [bf16[4]{0.55..0.9}], [0.5]
	[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], [0.5, 1.5, 2.5]`)
