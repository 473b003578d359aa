package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareOps are comparisons, logical functions and choices between tensors.
var compareOps = []*opdef.Entry{
	comparison{"eq", "eq Tensor.eq Tensor.__eq__", "==", func(x, y float64) bool { return x == y },
		func(x, y int64) bool { return x == y }, func(x, y complex128) bool { return x == y }}.entry(),
	comparison{"ne", "ne not_equal Tensor.ne Tensor.not_equal Tensor.__ne__", "!=",
		func(x, y float64) bool { return x != y }, func(x, y int64) bool { return x != y },
		func(x, y complex128) bool { return x != y }}.entry(),
	comparison{"lt", "lt less Tensor.lt Tensor.less Tensor.__lt__", "<", func(x, y float64) bool { return x < y },
		func(x, y int64) bool { return x < y }, nil}.entry().WithTakenFor("torch.le", "torch.gt", "torch.ge"),
	comparison{"le", "le less_equal Tensor.le Tensor.less_equal Tensor.__le__", "<=",
		func(x, y float64) bool { return x <= y }, func(x, y int64) bool { return x <= y },
		nil}.entry().WithTakenFor("torch.lt", "torch.ge", "torch.gt"),
	comparison{"gt", "gt greater Tensor.gt Tensor.greater Tensor.__gt__", ">", func(x, y float64) bool { return x > y },
		func(x, y int64) bool { return x > y }, nil}.entry().WithTakenFor("torch.ge", "torch.lt", "torch.le"),
	comparison{"ge", "ge greater_equal Tensor.ge Tensor.greater_equal Tensor.__ge__", ">=",
		func(x, y float64) bool { return x >= y }, func(x, y int64) bool { return x >= y },
		nil}.entry().WithTakenFor("torch.gt", "torch.le", "torch.lt"),
	connective("logical_and", "Whether both elements are non-zero", "self and other",
		func(x, y bool) bool { return x && y }).WithTakenFor("torch.logical_or", "torch.logical_xor"),
	connective("logical_or", "Whether one of the elements is non-zero", "self or other",
		func(x, y bool) bool { return x || y }).WithTakenFor("torch.logical_and", "torch.logical_xor"),
	connective("logical_xor", "Whether just one of the elements is non-zero", "self xor other",
		func(x, y bool) bool { return x != y }).WithTakenFor("torch.logical_or", "torch.logical_and"),
	test{"logical_not", "logical_not Tensor.logical_not", true, "Whether each element is zero",
		func(x float64) bool { return x == 0 }, func(x complex128) bool { return x == 0 },
		func(x int64) bool { return x == 0 }}.entry(),
	test{"isnan", "isnan Tensor.isnan", false, "Whether each element is NaN", math.IsNaN, cmplxIsNaN, never}.entry(),
	test{"isinf", "isinf Tensor.isinf", false, "Whether each element is infinite",
		func(x float64) bool { return math.IsInf(x, 0) }, cmplx.IsInf, never}.entry(),
	test{"isfinite", "isfinite Tensor.isfinite", false, "Whether each element is neither infinite nor NaN",
		elements.IsFinite,
		func(x complex128) bool { return elements.IsFinite(real(x)) && elements.IsFinite(imag(x)) },
		func(int64) bool { return true }}.entry(),
	test{"isposinf", "isposinf Tensor.isposinf", false, "Whether each element is positive infinity",
		func(x float64) bool { return math.IsInf(x, 1) }, nil, never}.entry(),
	test{"isneginf", "isneginf Tensor.isneginf", false, "Whether each element is negative infinity",
		func(x float64) bool { return math.IsInf(x, -1) }, nil, never}.entry(),
	test{"isreal", "isreal Tensor.isreal", false, "Whether each element has no imaginary part",
		func(float64) bool { return true },
		func(x complex128) bool { return imag(x) == 0 }, func(int64) bool { return true }}.entry(),
	test{"signbit", "signbit Tensor.signbit", false, "Whether the sign bit is set", math.Signbit, nil,
		func(x int64) bool { return x < 0 }}.entry(),
	opdef.Op[closeArgs]{
		Schema: "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
		Doc: opdef.Doc{Summary: "Whether elements are close", Formula: "|self - other| <= atol + rtol*|other|",
			Notes: "Equal infinities are close."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.PiecewiseConstant, Trivial: true},

		Kernel: func(a *closeArgs) ([]*tensor.Tensor, error) {
			t, err := isClose(a)
			return []*tensor.Tensor{t}, err
		},
		Cases: func(g opdef.Gen) []*closeArgs {
			x := g.Normal(tensor.Float32, 3, 4)
			return []*closeArgs{{x, x, 1e-5, 1e-8, false}, {x, g.Normal(tensor.Float32, 3, 4), 0.5, 0.1, false},
				{g.Int(tensor.Int32, 0, 3, 4), g.Int(tensor.Int32, 0, 3, 4), 0, 1, false}}
		},
	}.Entry(),
	opdef.Query[closeArgs]{
		Schema: "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
		Doc: opdef.Doc{Summary: "Whether all elements are close",
			Formula: "all(|self - other| <= atol + rtol*|other|)"},
		Value: func(a *closeArgs) (value.Value, error) {
			t, err := isClose(a)
			if err != nil {
				return nil, err
			}
			return allTrue(t), nil
		},
	}.Entry(),
	opdef.Query[opdef.BinaryArgs]{
		Schema: "equal(Tensor self, Tensor other) -> bool",
		Doc: opdef.Doc{Summary: "Whether two tensors have the same shape and elements",
			Formula: "all(self == other)"},
		Value: func(a *opdef.BinaryArgs) (value.Value, error) {
			if a.Self.DType != a.Other.DType {
				return nil, opdef.Refuse("other", "want dtype %s, got %s", a.Self.DType, a.Other.DType)
			}
			if !sameShape(a.Self, a.Other) {
				return false, nil
			}
			eq := comparison{f: func(x, y float64) bool { return x == y }, i: func(x, y int64) bool { return x == y },
				c: func(x, y complex128) bool { return x == y }}
			ts, err := eq.kernel(a)
			if err != nil {
				return nil, err
			}
			return allTrue(ts[0]), nil
		},
	}.Entry(),
	opdef.Op[whereArgs]{
		Schema: "where(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor", Names: "where",
		Doc:    opdef.Doc{Summary: "Choice between two tensors", Formula: "self where condition, else other"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: where, Grad: whereGrad, Cases: whereCases,
	}.Entry().AsMoving(),
	opdef.Op[whereArgs]{
		Schema: "where.method(Tensor self, Tensor condition, Tensor|Scalar other) -> Tensor", Names: "Tensor.where",
		Doc:    opdef.Doc{Summary: "Choice between two tensors", Formula: "self where condition, else other"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: where, Grad: whereGrad, Cases: opdef.Calls[whereArgs](`
			f64[3, 4], bool[3, 4]{0..1}, f64[3, 4]; f64[4], bool[3, 1]{0..1}, f64[2, 1, 1]
			bf16[5], bool[5]{0..1}, 0.1`),
	}.Entry().AsMoving(),
	opdef.Op[maskedFillArgs]{
		Schema: "masked_fill(Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Fills elements under a mask with a value", Formula: "value where mask, else self"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: maskedFill, Grad: maskedFillGrad, Cases: maskedFillCases,
	}.Entry().AsMoving(),
	opdef.Op[clampArgs]{
		Schema: "clamp(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
		Names:  "clamp clip Tensor.clamp Tensor.clip",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Cut at a lower and an upper bound", Formula: "min(max(self, min), max)",
			Notes: "Where min > max the result is max. NaN stays NaN. The gradient at a bound goes to self, or, " +
				"as from torch 2.15 on, nowhere if the bound is a number, half to each of two tensors. Numbers " +
				"beyond the range of an integer dtype wrap, or are its limits, as versions of torch have it."},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: clamp, Grad: clampGrad, Cases: clampCases,
	}.Entry(),
	clampedAt("clamp_min(Tensor self, Tensor|Scalar min) -> Tensor", "Cut at a lower bound", "max(self, min)",
		func(a *clampMinArgs) (*clampArgs, error) { return &clampArgs{Self: a.Self, Min: a.Min}, nil },
		`f64[3, 4]{apart -0.5 0.5 0.75}, -0.5; f32[5]{apart -0.5 0.5 0.75}, -0.5; bf16[5]{apart -0.5 0.5 0.75}, 0.75
		f64[3, 4]{distinct}, f64[4]{-0.57..-0.55}; i32[5]{-4..4}, -2; f32[0, 2], 0.0; f32[3]{= NaN +Inf -Inf}, -1.0`),
	clampedAt("clamp_max(Tensor self, Tensor|Scalar max) -> Tensor", "Cut at an upper bound", "min(self, max)",
		func(a *clampMaxArgs) (*clampArgs, error) { return &clampArgs{Self: a.Self, Max: a.Max}, nil },
		`f64[3, 4]{apart -0.5 0.5 0.75}, 0.75; f64[3, 4]{apart -0.5 0.5 0.75}, 0.5; bf16[5]{apart -0.5 0.5 0.75}, -0.5
		f64[3, 4]{distinct}, f64[3, 1]{0.43..0.45}; i32[5]{-4..4}, 1.5; f32[3]{= NaN +Inf -Inf}, 1.0`),
}

// comparison declares a relation between the elements of two tensors.
type comparison struct {
	name, names, symbol string
	f                   func(x, y float64) bool
	i                   func(x, y int64) bool
	c                   func(x, y complex128) bool
}

func (v comparison) entry() *opdef.Entry {
	return opdef.Op[opdef.BinaryArgs]{
		Schema: v.name + "(Tensor self, Tensor|Scalar other) -> Tensor", Names: v.names,
		Traits: opdef.Traits{InPlace: true, NoGrad: elements.PiecewiseConstant, Trivial: true},
		Doc: opdef.Doc{Summary: "Whether self " + v.symbol + " other, element by element", Formula: "self " +
			v.symbol + " other",
			Notes: "Operands are first converted to their common dtype, numbers too."},
		Error:  elements.ExactError,
		Kernel: v.kernel, Cases: comparisonCases,
	}.Entry()
}

func (v comparison) kernel(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
	dt := tensor.ResultType(a.Self, a.Other)
	xy, _, err := opdef.BroadcastAll(convertTo(a.Self, dt), convertTo(a.Other, dt))
	if err != nil {
		return nil, err
	}
	switch {
	case dt == tensor.Invalid, dt.IsComplex() && v.c == nil:
		return nil, opdef.Refuse("self", "%s and %s are not compared", a.Self.DType, a.Other.DType)
	case dt.IsComplex():
		return elements.Result(opdef.Zip(tensor.Bool, xy[0], xy[1], boolean2(v.c)))
	case dt.IsFloat():
		return elements.Result(opdef.Zip(tensor.Bool, xy[0], xy[1], boolean2(v.f)))
	}
	return elements.Result(opdef.Zip(tensor.Bool, xy[0], xy[1], boolean2(v.i)))
}

// convertTo is t with its elements converted to dt, as they are before a
// comparison: rounded if dt does not hold them.
func convertTo(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if t.DType == dt || dt == tensor.Invalid || dt == tensor.Float64 || dt == tensor.Complex128 {
		return t
	}
	switch {
	case dt.IsFloat():
		return opdef.MapBlock(dt, t, func(dst, src []float64) {
			copy(dst, src)
			tensor.RoundBlock(dt, dst)
		})
	case dt.IsComplex():
		part := dt.Real()
		return opdef.Map(dt, t, func(x complex128) complex128 {
			return complex(part.Round(real(x)), part.Round(imag(x)))
		})
	case t.DType.IsIntegral():
		return opdef.Map(dt, t, func(x int64) int64 { return tensor.WrapInt(dt, x) })
	}
	return t
}

func boolean[S any](f func(S) bool) func(S) int64 {
	return func(x S) int64 { return elements.Indicator(f(x)) }
}

func boolean2[S any](f func(x, y S) bool) func(x, y S) int64 {
	return func(x, y S) int64 { return elements.Indicator(f(x, y)) }
}

func comparisonCases(g opdef.Gen) []*opdef.BinaryArgs {
	nan := tensor.New(tensor.Float32, []int{4}, []float64{math.NaN(), math.Inf(1), -1, 0})
	return []*opdef.BinaryArgs{
		{Self: g.Int(tensor.Int32, -2, 2, 3, 4), Other: g.Int(tensor.Int32, -2, 2, 4)},
		{Self: g.Normal(tensor.Float32, 3, 1), Other: g.Normal(tensor.Float64, 4)},
		{Self: g.Normal(tensor.BFloat16, 4), Other: tensor.Wrap(0.1)}, {Self: g.Int(tensor.Int64, -2, 2, 4),
			Other: tensor.Wrap(0.5)}, {Self: nan, Other: nan},
		{Self: g.Int(tensor.Bool, 0, 1, 4), Other: g.Int(tensor.Bool, 0, 1, 4)}, {Self: g.Normal(tensor.Float32, 0, 3),
			Other: g.Normal(tensor.Float32, 3)},
	}
}

// connective declares a logical function of two tensors: what is not zero is
// true.
func connective(name, summary, formula string, f func(x, y bool) bool) *opdef.Entry {
	return opdef.Op[opdef.BinaryArgs]{
		Schema: name + "(Tensor self, Tensor other) -> Tensor",
		Traits: opdef.Traits{InPlace: true, NoGrad: elements.PiecewiseConstant, Trivial: true},
		Doc:    opdef.Doc{Summary: summary, Formula: formula},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
			xy, _, err := opdef.BroadcastAll(opdef.Cast(a.Self, tensor.Bool), opdef.Cast(a.Other, tensor.Bool))
			if err != nil {
				return nil, err
			}
			return elements.Result(opdef.Zip(tensor.Bool, xy[0], xy[1],
				func(x, y int64) int64 { return elements.Indicator(f(x != 0, y != 0)) }))
		},
		Cases: func(g opdef.Gen) []*opdef.BinaryArgs {
			return []*opdef.BinaryArgs{
				{Self: g.Int(tensor.Bool, 0, 1, 3, 4), Other: g.Int(tensor.Bool, 0, 1, 4)},
				{Self: g.Int(tensor.Int32, 0, 1, 6), Other: g.Int(tensor.Float32, 0, 1, 6)},
				{Self: g.Int(tensor.Complex64, 0, 1, 6), Other: g.Int(tensor.Uint8, 0, 1, 6)},
				{Self: g.Int(tensor.Bool, 0, 1, 0, 2), Other: g.Int(tensor.Bool, 0, 1)},
			}
		},
	}.Entry()
}

// test declares a property of each element.
type test struct {
	name, names string
	inPlace     bool
	summary     string
	f           func(x float64) bool
	c           func(x complex128) bool
	i           func(x int64) bool
}

func (v test) entry() *opdef.Entry {
	return opdef.Op[opdef.UnaryArgs]{
		Schema: v.name + "(Tensor self) -> Tensor", Names: v.names,
		Traits: opdef.Traits{InPlace: v.inPlace, NoGrad: elements.PiecewiseConstant, Trivial: true},
		Doc:    opdef.Doc{Summary: v.summary},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			switch x := a.Self; x.DType.Kind() {
			case tensor.KindComplex:
				if v.c == nil {
					return nil, opdef.Refuse("self", "not defined for complex numbers, got %s", x.DType)
				}
				return elements.Result(opdef.Map(tensor.Bool, x, boolean(v.c)))
			case tensor.KindFloat:
				return elements.Result(opdef.Map(tensor.Bool, x, boolean(v.f)))
			default:
				return elements.Result(opdef.Map(tensor.Bool, x, boolean(v.i)))
			}
		},
		Cases: func(g opdef.Gen) []*opdef.UnaryArgs {
			cs := []*opdef.UnaryArgs{
				{Self: g.Normal(tensor.Float32, 3, 4)},
				{Self: tensor.New(tensor.Float32, []int{6}, []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0,
					math.Copysign(0, -1), 1})},
				{Self: g.Int(tensor.Int32, -1, 1, 6)}, {Self: g.Int(tensor.Bool, 0, 1, 6)},
				{Self: g.Normal(tensor.BFloat16, 0, 3)},
			}
			if v.c != nil {
				cs = append(cs, &opdef.UnaryArgs{Self: g.Normal(tensor.Complex64, 3)})
			}
			return cs
		},
	}.Entry()
}

func never(int64) bool { return false }

func cmplxIsNaN(x complex128) bool { return real(x) != real(x) || imag(x) != imag(x) }

type closeArgs struct {
	Self, Other *tensor.Tensor
	Rtol, Atol  float64
	EqualNan    bool
}

func isClose(a *closeArgs) (*tensor.Tensor, error) {
	switch {
	case a.Self.DType != a.Other.DType:
		return nil, opdef.Refuse("other", "want dtype %s, got %s", a.Self.DType, a.Other.DType)
	case a.Rtol < 0:
		return nil, opdef.Refuse("rtol", "must not be negative, got %v", a.Rtol)
	case a.Atol < 0:
		return nil, opdef.Refuse("atol", "must not be negative, got %v", a.Atol)
	}
	xy, _, err := opdef.BroadcastAll(a.Self, a.Other)
	if err != nil {
		return nil, err
	}
	return opdef.Zip(tensor.Bool, xy[0], xy[1], func(x, y complex128) int64 {
		switch {
		case x == y, a.EqualNan && cmplxIsNaN(x) && cmplxIsNaN(y):
			return 1
		}
		d := cmplx.Abs(x - y)
		return elements.Indicator(d <= a.Atol+a.Rtol*cmplx.Abs(y) && !math.IsInf(d, 0))
	}), nil
}

func sameShape(x, y *tensor.Tensor) bool {
	if x.Dim() != y.Dim() {
		return false
	}
	for i, n := range x.Shape {
		if n != y.Shape[i] {
			return false
		}
	}
	return true
}

func allTrue(t *tensor.Tensor) bool {
	for _, v := range tensor.Data[int64](t) {
		if v == 0 {
			return false
		}
	}
	return true
}
