package pointwise

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// bitwiseOps are functions of integers and of their bits.
var bitwiseOps = []*opdef.Entry{
	integerOp{"bitwise_and", "bitwise_and Tensor.bitwise_and Tensor.__and__", true, true, "Bits set in both",
		"self & other", func(_ int, x, y int64) int64 { return x & y }, anyOperands}.entry(),
	integerOp{"bitwise_or", "bitwise_or Tensor.bitwise_or Tensor.__or__", true, true, "Bits set in one or both",
		"self | other", func(_ int, x, y int64) int64 { return x | y }, anyOperands}.entry(),
	integerOp{"bitwise_xor", "bitwise_xor Tensor.bitwise_xor Tensor.__xor__", true, true, "Bits set in just one",
		"self ^ other", func(_ int, x, y int64) int64 { return x ^ y }, anyOperands}.entry(),
	integerOp{"__rand__", "Tensor.__rand__", false, true, "Bits set in both", "other & self",
		func(_ int, x, y int64) int64 { return x & y }, methodOperands}.entry(),
	integerOp{"__ror__", "Tensor.__ror__", false, true, "Bits set in one or both", "other | self",
		func(_ int, x, y int64) int64 { return x | y }, methodOperands}.entry(),
	integerOp{"__rxor__", "Tensor.__rxor__", false, true, "Bits set in just one", "other ^ self",
		func(_ int, x, y int64) int64 { return x ^ y }, methodOperands}.entry(),
	integerOp{"bitwise_left_shift", "bitwise_left_shift Tensor.bitwise_left_shift Tensor.__lshift__", true, false,
		"Bits moved up", "self << other", shiftLeft, anyOperands}.entry(),
	integerOp{"bitwise_right_shift", "bitwise_right_shift Tensor.bitwise_right_shift Tensor.__rshift__", true, false,
		"Bits moved down, the sign kept", "self >> other", shiftRight, anyOperands}.entry(),
	integerOp{"__rlshift__", "Tensor.__rlshift__", false, false, "Bits moved up", "other << self",
		func(bits int, x, y int64) int64 { return shiftLeft(bits, y, x) }, methodOperands}.entry(),
	integerOp{"__rrshift__", "Tensor.__rrshift__", false, false, "Bits moved down, the sign kept", "other >> self",
		func(bits int, x, y int64) int64 { return shiftRight(bits, y, x) }, methodOperands}.entry(),
	integerOp{"gcd", "gcd Tensor.gcd", true, false, "Greatest common divisor", "gcd(|self|, |other|)",
		func(_ int, x, y int64) int64 { return gcd(x, y) }, tensorOperands}.entry(),
	integerOp{"lcm", "lcm Tensor.lcm", true, false, "Least common multiple",
		"|self*other| / gcd(self, other), 0 if both are 0", func(_ int, x, y int64) int64 {
			if g := gcd(x, y); g != 0 {
				return abs64(x / g * y)
			}
			return 0
		}, tensorOperands}.entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "bitwise_not(Tensor self) -> Tensor", Names: "bitwise_not Tensor.bitwise_not Tensor.__invert__",
		Traits: opdef.Traits{InPlace: true, NoGrad: elements.PiecewiseConstant},
		Doc:    opdef.Doc{Summary: "Every bit changed; not for bool", Formula: "~self"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			x := a.Self
			switch x.DType.Kind() {
			case tensor.KindBool:
				return elements.Result(opdef.Map(x.DType, x, func(v int64) int64 { return 1 - v }))
			case tensor.KindInt:
				return elements.Result(opdef.Map(x.DType, x, func(v int64) int64 { return ^v }))
			}
			return nil, opdef.Refuse("self", "want integers or bool, got %s", x.DType)
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`i32[3, 4]{-9..9}; u8[5]{0..255}; bool[5]{0..1}; i16[0, 2]{0..1}`),
	}.Entry(),
}

// integerOp declares a function of two integers; bits is the width they have.
type integerOp struct {
	name, names string
	inPlace     bool
	bools       bool
	summary     string
	formula     string
	f           func(bits int, x, y int64) int64
	operands    string // of the schema
}

// Operands of integerOps: Python numbers may be either or, of a method, the other.
const (
	anyOperands    = "Tensor|Scalar self, Tensor|Scalar other"
	methodOperands = "Tensor self, Tensor|Scalar other"
	tensorOperands = "Tensor self, Tensor other"
)

func (v integerOp) entry() *opdef.Entry {
	return opdef.Op[opdef.BinaryArgs]{
		Schema: v.name + "(" + v.operands + ") -> Tensor", Names: v.names,
		Traits: opdef.Traits{InPlace: v.inPlace, NoGrad: elements.PiecewiseConstant, Trivial: true},
		Doc:    opdef.Doc{Summary: v.summary, Formula: v.formula},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
			if err := opdef.OneTensor(a.Self, a.Other); err != nil {
				return nil, err
			}
			dt := tensor.ResultType(a.Self, a.Other)
			if !dt.IsIntegral() && !(v.bools && dt == tensor.Bool) {
				return nil, opdef.Refuse("self", "not defined for dtype %s", dt)
			}
			xy, _, err := opdef.BroadcastAll(a.Self, a.Other)
			if err != nil {
				return nil, err
			}
			bits := dt.Bits()
			return elements.Result(opdef.Zip(dt, xy[0], xy[1], func(x, y int64) int64 { return v.f(bits, x, y) }))
		},
		Cases: func(g opdef.Gen) []*opdef.BinaryArgs {
			cs := []*opdef.BinaryArgs{
				{Self: g.Int(tensor.Int32, 0, 9, 3, 4), Other: g.Int(tensor.Int32, 0, 9, 4)},
				{Self: g.Int(tensor.Int64, -9, 9, 6), Other: tensor.Wrap(int64(3))},
				{Self: g.Int(tensor.Uint8, 0, 9, 6), Other: g.Int(tensor.Int8, 0, 5, 6)},
				{Self: g.Int(tensor.Int32, 0, 1, 0, 2), Other: g.Int(tensor.Int32, 0, 1)},
			}
			if v.operands == tensorOperands {
				cs = slices.DeleteFunc(cs, func(c *opdef.BinaryArgs) bool { return c.Other.Wrapped })
			}
			if v.bools {
				cs = append(cs, &opdef.BinaryArgs{Self: g.Int(tensor.Bool, 0, 1, 6),
					Other: g.Int(tensor.Bool, 0, 1, 6)})
			}
			return cs
		},
	}.Entry()
}

// shiftLeft gives 0 for distances that no bit survives, as torch 2 does; C and
// torch 1 leave them undefined.
func shiftLeft(bits int, x, y int64) int64 {
	if y < 0 || y >= int64(bits) {
		return 0
	}
	return x << uint(y)
}

// shiftRight leaves the sign for distances beyond the width.
func shiftRight(bits int, x, y int64) int64 {
	if y < 0 || y >= int64(bits) {
		y = int64(bits) - 1
	}
	return x >> uint(y)
}

func abs64(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

func gcd(x, y int64) int64 {
	for y != 0 {
		x, y = y, x%y
	}
	return abs64(x)
}
