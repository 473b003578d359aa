package pointwise

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type whereArgs struct{ Condition, Self, Other *tensor.Tensor }

// mask reads a condition: bool, or uint8 as torch still allows.
func mask(arg string, t *tensor.Tensor) error {
	if t.DType != tensor.Bool && t.DType != tensor.Uint8 {
		return opdef.Refuse(arg, "want dtype bool, got %s", t.DType)
	}
	return nil
}

func where(a *whereArgs) ([]*tensor.Tensor, error) {
	if err := mask("condition", a.Condition); err != nil {
		return nil, err
	}
	_, xy, err := opdef.Common(a.Self, a.Other)
	if err != nil {
		return nil, err
	}
	dt := tensor.ResultType(a.Self, a.Other) // of two numbers too
	t, err := elements.Where(dt, a.Condition, convertTo(xy[0], dt), convertTo(xy[1], dt))
	return []*tensor.Tensor{t}, err
}

func whereGrad(a *whereArgs, g *opdef.Grad) (opdef.Grads, error) {
	zero := tensor.Scalar(g.Out[0].DType, 0.0)
	x, err := elements.Where(g.Out[0].DType, a.Condition, g.Out[0], zero)
	if err != nil {
		return nil, err
	}
	y, err := elements.Where(g.Out[0].DType, a.Condition, zero, g.Out[0])
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"condition": {nil}, "self": {elements.SumGradTo(x, a.Self)},
		"other": {elements.SumGradTo(y, a.Other)}}, nil
}

func whereCases(g opdef.Gen) []*whereArgs {
	cond := func(shape ...int) *tensor.Tensor { return g.Int(tensor.Bool, 0, 1, shape...) }
	return []*whereArgs{
		{cond(3, 4), g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 3, 4)},
		{cond(3, 1), g.Normal(tensor.Float64, 4), g.Normal(tensor.Float64, 2, 1, 1)},
		{cond(5), g.Normal(tensor.BFloat16, 5), tensor.Wrap(0.1)}, {cond(5), tensor.Wrap(int64(1)),
			g.Normal(tensor.Float32, 5)}, {cond(4), tensor.Wrap(1.5), tensor.Wrap(int64(0))},
		{cond(4), tensor.Wrap(1.5), tensor.Wrap(0.1)},
		{cond(4), g.Int(tensor.Int32, -4, 4, 4), g.Int(tensor.Int64, -4, 4, 4)},
		{cond(0, 2), g.Normal(tensor.Float32, 2), g.Normal(tensor.Float32, 2)},
		{cond(3), g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3)},
	}
}

type maskedFillArgs struct{ Self, Mask, Value *tensor.Tensor }

func maskedFill(a *maskedFillArgs) ([]*tensor.Tensor, error) {
	if err := mask("mask", a.Mask); err != nil {
		return nil, err
	}
	if a.Value.Dim() != 0 {
		return nil, opdef.Refuse("value", "want a number or a 0-d tensor, got %s", a.Value.Meta())
	}
	v, err := elements.FillValue("value", opdef.ScalarAt(a.Value, 0), a.Self.DType)
	if err != nil {
		return nil, err
	}
	t, err := elements.Where(a.Self.DType, a.Mask, v, a.Self)
	return []*tensor.Tensor{t}, err
}

func maskedFillGrad(a *maskedFillArgs, g *opdef.Grad) (opdef.Grads, error) {
	zero := tensor.Scalar(g.Out[0].DType, 0.0)
	x, err := elements.Where(g.Out[0].DType, a.Mask, zero, g.Out[0])
	if err != nil {
		return nil, err
	}
	v, err := elements.Where(g.Out[0].DType, a.Mask, g.Out[0], zero)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"self": {opdef.SumTo(x, a.Self.Shape)}, "mask": {nil},
		"value": {elements.SumGradTo(v, a.Value)}}, nil
}

func maskedFillCases(g opdef.Gen) []*maskedFillArgs {
	m := func(shape ...int) *tensor.Tensor { return g.Int(tensor.Bool, 0, 1, shape...) }
	return []*maskedFillArgs{
		{g.Normal(tensor.Float64, 3, 4), m(3, 4), tensor.Wrap(-2.5)}, {g.Normal(tensor.Float64, 3, 4), m(4),
			tensor.Wrap(math.Inf(-1))},
		{g.Normal(tensor.Float64, 3, 1), m(4), g.Normal(tensor.Float64)}, {g.Normal(tensor.BFloat16, 5), m(5),
			tensor.Wrap(int64(3))},
		{g.Int(tensor.Int32, -4, 4, 4), m(4), tensor.Wrap(int64(7))}, {g.Normal(tensor.Float32, 0, 2), m(2),
			tensor.Wrap(1.0)},
		{g.Normal(tensor.Complex128, 3), m(3), tensor.Wrap(complex(1, 2))},
	}
}
