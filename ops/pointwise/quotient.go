package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// quotient is x/y, of float32 for integers.
func quotient(x, y *tensor.Tensor) ([]*tensor.Tensor, error) {
	dt, xy, err := opdef.Common(x, y)
	if err != nil {
		return nil, err
	}
	if dt.Kind() < tensor.KindFloat {
		dt = tensor.DefaultDType
	}
	t, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] / v[1] },
		func(v []float64) float64 { return v[0] / v[1] }, xy...)
	return []*tensor.Tensor{t}, err
}

// A reverseQuotient is a quotient with the operands swapped.
type reverseQuotient opdef.BinaryArgs

// Else is the quotient as torch computes it, whose reciprocal may overflow.
func (a *reverseQuotient) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	dt := outs[0].DType
	if !dt.IsFloat() {
		return [][]*tensor.Tensor{nil}
	}
	return [][]*tensor.Tensor{{opdef.Must(elements.MapN(dt, nil,
		func(v []float64) float64 { return dt.Round(1/v[0]) * v[1] }, a.Self, a.Other))}}
}

func quotientGrad(x, y *tensor.Tensor, g *opdef.Grad) (opdef.Grads, error) {
	dt := g.Outs[0].DType
	gx, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] / cmplx.Conj(v[1]) },
		func(v []float64) float64 { return v[0] / v[1] }, g.Out[0], y)
	if err != nil {
		return nil, err
	}
	gy, err := elements.MapN(dt, func(v []complex128) complex128 { return -v[0] * cmplx.Conj(v[2]/v[1]) },
		func(v []float64) float64 { return -v[0] * v[2] / v[1] }, g.Out[0], y, g.Outs[0])
	return opdef.Grads{"self": {elements.SumGradTo(gx, x)}, "other": {elements.SumGradTo(gy, y)}}, err
}

// quotientSteps are the gradients of x/y as torch composes them.
func quotientSteps(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
	return opdef.StepRatio(up, y),
		opdef.StepProduct(opdef.StepNegative(up), opdef.StepRatio(opdef.StepRatio(x, y), y))
}

// GradElse are the gradients of a quotient that is not rounded to whole numbers.
func (a *divModeArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	if a.RoundingMode != nil {
		return nil, nil
	}
	return opdef.BinarySteps(quotientSteps).Else(a.Self, a.Other, "self", "other", g), nil
}

// Else is the quotient of kernels that truncate it before it is rounded to the dtype.
func (a *divModeArgs) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	dt := outs[0].DType
	if elements.OrElse(a.RoundingMode, "") != "trunc" || !dt.IsFloat() {
		return nil
	}
	return [][]*tensor.Tensor{{opdef.Must(elements.MapN(dt, nil,
		func(v []float64) float64 { return math.Trunc(v[0] / v[1]) }, a.Self, a.Other))}}
}

func (a *reverseQuotient) grad(g *opdef.Grad) (opdef.Grads, error) {
	gr, err := quotientGrad(a.Other, a.Self, g)
	if err == nil {
		gr["self"], gr["other"] = gr["other"], gr["self"]
	}
	return gr, err
}

// integral applies a division that gives whole numbers or remainders; integers
// stay integers and refuse a zero divisor.
func integral(x, y *tensor.Tensor, f func(x, y float64) float64, i func(x, y int64) int64) ([]*tensor.Tensor, error) {
	dt, xy, err := opdef.Common(x, y)
	if err != nil {
		return nil, err
	}
	if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindFloat:
		return elements.Result(opdef.Zip(dt, xy[0], xy[1], f))
	case tensor.KindInt:
		for _, v := range tensor.Data[int64](y) {
			if v == 0 && tensor.Numel(xy[0].Shape) > 0 {
				return nil, opdef.Refuse("other", "integer division by zero")
			}
		}
		return elements.Result(opdef.Zip(dt, xy[0], xy[1], func(x, y int64) int64 { // a negative number wraps in uint8
			return i(tensor.WrapInt(dt, x), tensor.WrapInt(dt, y))
		}))
	}
	return nil, opdef.Refuse("self", "not defined for dtype %s", dt)
}

// floorDiv rounds x/y down from the exact remainder, as Python's // does.
func floorDiv(x, y float64) float64 {
	if y == 0 {
		return x / y
	}
	mod := math.Mod(x, y)
	q := (x - mod) / y
	if mod != 0 && (y < 0) != (mod < 0) {
		q--
	}
	if q == 0 {
		return math.Copysign(0, x/y)
	}
	return math.Round(q)
}

// pyMod is Python's %: the sign of the divisor.
func pyMod(x, y float64) float64 {
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return m
}

func divMode(a *divModeArgs) ([]*tensor.Tensor, error) {
	switch elements.OrElse(a.RoundingMode, "") {
	case "":
		if a.RoundingMode == nil {
			return quotient(a.Self, a.Other)
		}
	case "floor":
		return integral(a.Self, a.Other, floorDiv, kernel.FloorDiv)
	case "trunc":
		dt := tensor.ResultType(a.Self, a.Other)
		return integral(a.Self, a.Other, func(x, y float64) float64 { return math.Trunc(dt.Round(x / y)) },
			func(x, y int64) int64 { return x / y })
	}
	return nil, opdef.Refuse("rounding_mode", "want None, trunc or floor, got %q", *a.RoundingMode)
}

var integralCases = opdef.Calls[opdef.BinaryArgs](`
	f64[3, 4]{3.1..3.9}, f64[4]{1.1..1.4}; f32[5]{apart 0}, f32[5]{apart 0}; bf16[2, 3]{apart 0}, 1.5
	f32[0, 3], f32[3]{apart 0}; i32[6]{-9..9}, i32[6]{1..4}; i64[2, 3]{1..9}, -4`)

var reverseIntegralCases = opdef.Calls[opdef.BinaryArgs](`
	f64[4]{1.1..1.4}, f64[3, 4]{3.1..3.9}; f32[5]{apart 0}, f32[5]{apart 0}; f32[3]{apart 0}, f32[0, 3]
	i32[6]{1..4}, i32[6]{-9..9}; i64[4]{1..9}, -7`)

var divModeCases = opdef.Calls[divModeArgs](`
	f64[3, 4]{3.1..3.9}, f64[4]{1.1..1.4}, rounding_mode='floor'
	f64[3, 4]{3.1..3.9}, f64[4]{1.1..1.4}, rounding_mode=None
	f32[5]{apart 0}, f32[5]{apart 0}, rounding_mode='trunc'; f32[5]{apart 0}, f32[5]{apart 0}, rounding_mode=None
	bf16[2, 3]{apart 0}, 1.5, rounding_mode='floor'; bf16[2, 3]{apart 0}, 1.5, rounding_mode=None
	f32[0, 3], f32[3]{apart 0}, rounding_mode='trunc'; f32[0, 3], f32[3]{apart 0}, rounding_mode=None
	i32[6]{-9..9}, i32[6]{1..4}, rounding_mode='floor'; i32[6]{-9..9}, i32[6]{1..4}, rounding_mode=None
	i64[2, 3]{1..9}, -4, rounding_mode='trunc'; i64[2, 3]{1..9}, -4, rounding_mode=None`)

// A modulus is a call of a remainder: fmod, remainder or __rmod__.
type modulus struct {
	x, y     *tensor.Tensor // the operands, and their names
	nx, ny   string
	quotient func(x, y float64) float64 // rounded to a whole number: minus the derivative by y
}

// gradients are those of term(x) of each term x.
func (m *modulus) gradients(g *opdef.Grad, term func(v float64) float64) (opdef.Grads, error) {
	gx, err := elements.MapN(g.Outs[0].DType, nil, func(v []float64) float64 { return term(v[0]) }, g.Out[0])
	if err != nil {
		return nil, err
	}
	gy, err := elements.MapN(g.Outs[0].DType, nil,
		func(v []float64) float64 { return term(-v[0] * m.quotient(v[1], v[2])) }, g.Out[0], m.x, m.y)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{m.nx: {elements.SumGradTo(gx, m.x)}, m.ny: {elements.SumGradTo(gy, m.y)}}, nil
}

// GradElse are the gradients of kernels that round the quotient to the dtype before they make a whole number of it.
func (m *modulus) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	dt := g.Outs[0].DType
	steps := opdef.BinarySteps(func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
		whole := opdef.Step(func(v []float64) float64 {
			return m.quotient(dt.Round(v[0]/v[1]), 1)
		}, x, y)
		return nil, opdef.StepProduct(opdef.StepNegative(up), whole)
	})
	return steps.Else(m.x, m.y, m.nx, m.ny, g), nil
}

// modulusOp declares a remainder; quotient is what it leaves: x - y*quotient.
func modulusOp(schema, names string, inPlace, reversed bool, summary, formula string, f func(x, y float64) float64,
	i func(x, y int64) int64, quotient func(x, y float64) float64) *opdef.Entry {
	cases := integralCases
	if reversed {
		cases = reverseIntegralCases
	}
	return opdef.Planned[*opdef.BinaryArgs, *modulus]{
		Schema: schema, Names: names,
		Traits: opdef.Traits{InPlace: inPlace},
		Doc:    opdef.Doc{Summary: summary, Formula: formula, Source: "torch.remainder, torch.fmod"},
		Error:  opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan: func(a *opdef.BinaryArgs) (*modulus, error) {
			if reversed {
				return &modulus{a.Other, a.Self, "other", "self", quotient}, nil
			}
			return &modulus{a.Self, a.Other, "self", "other", quotient}, nil
		},
		Kernel: func(m *modulus) ([]*tensor.Tensor, error) {
			if err := opdef.OneTensor(m.x, m.y); err != nil {
				return nil, err
			}
			return integral(m.x, m.y, f, i)
		},
		Grad: func(m *modulus, g *opdef.Grad) (opdef.Grads, error) {
			return m.gradients(g, func(v float64) float64 { return v })
		},
		Bounds: opdef.Bounds[*modulus]{
			GradScale: func(m *modulus, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return m.gradients(g, math.Abs)
			},
		},
		Cases: cases,
	}.Entry()
}
