package pointwise

import (
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

var whereCases = opdef.Calls[whereArgs](`
	bool[3, 4]{0..1}, f64[3, 4], f64[3, 4]; bool[3, 1]{0..1}, f64[4], f64[2, 1, 1]; bool[5]{0..1}, bf16[5], 0.1
	bool[5]{0..1}, 1, f32[5]; bool[4]{0..1}, 1.5, 0; bool[4]{0..1}, 1.5, 0.1
	bool[4]{0..1}, i32[4]{-4..4}, i64[4]{-4..4}; bool[0, 2]{0..1}, f32[2], f32[2]; bool[3]{0..1}, c128[3], c128[3]`)

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

var maskedFillCases = opdef.Calls[maskedFillArgs](`
	f64[3, 4], bool[3, 4]{0..1}, -2.5; f64[3, 4], bool[4]{0..1}, -inf; f64[3, 1], bool[4]{0..1}, f64[]
	bf16[5], bool[5]{0..1}, 3; i32[4]{-4..4}, bool[4]{0..1}, 7; f32[0, 2], bool[2]{0..1}, 1.0
	c128[3], bool[3]{0..1}, 1+2j`)
