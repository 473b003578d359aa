package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

// pointwise is a function because it looks functions up in the interface, which
// a process that needs no device does not read.
func pointwise() []*Recipe {
	return slices.Concat(
		// The result has the dtype of the input, or float32 for integers.
		unary("Abs Neg Floor Ceil Sgn Relu Erfinv BitwiseNot Sigmoid Silu Hardswish", asInput),
		unary("Sqrt Rsqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Exp Expm1 Log Log2 Log10 "+
			"Log1p Erf Reciprocal", asFloat),
		unary("LogicalNot", constant(tensor.Bool)),
		[]*Recipe{
			{Function: "sign", sig: "input", fwd: "Sign", outs: []out{like("input")}},
			{Function: "isnan", sig: "input", fwd: "IsNan",
				outs: []out{result(constant(tensor.Bool), shapeOf("input"))}},
		},
		binary("Add Sub", "input other alpha=1", common("input", "other")),
		binary("Mul", "input other", asFloat),
		binary("Eq Ne Ge Gt Le Lt", "input other", constant(tensor.Bool)),
		binary("LogicalAnd LogicalOr", "input other", constant(tensor.Bool)),
		binary("BitwiseAnd BitwiseOr", "input other", common("input", "other")),
		binary("Div", "input other rounding_mode=None", asFloat),
		[]*Recipe{
			{Function: "maximum", sig: "input other", fwd: "Maximum",
				outs: []out{result(common("input", "other"), broadcast("input", "other"))}},
			{Function: "minimum", sig: "input other", fwd: "Minimum",
				outs: []out{result(common("input", "other"), broadcast("input", "other"))}},
			{Function: "equal", sig: "input other", fwd: "Equal"},
			{Function: "pow", sig: "input=None self=None exponent=None", fwd: "Pow PowTensor PowScalar",
				inp:     "PowInp PowInpTensor",
				prepare: firstOperand, outs: []out{result(powDType, broadcast("input", "exponent"))},
				inplace: powInPlace},
			{Function: "remainder", sig: "other input=None self=None", fwd: "RemainderTensor RemainderScalar Remainder",
				prepare: firstOperand, outs: []out{result(remainderDType, broadcast("input", "other"))}},
			{Function: "leaky_relu", sig: "input negative_slope=0.01 input_is_result=False", fwd: "LeakyRelu",
				inp: "LeakyReluInp", bwd: "LeakyReluBackward",
				outs: []out{like("input")}},
			{Function: "hardtanh", sig: "input min_val=-1.0 max_val=1.0", fwd: "Hardtanh", inp: "HardtanhInp",
				bwd: "HardtanhBackward", outs: []out{like("input")}},
			{Function: "threshold", sig: "input threshold value", fwd: "Threshold", inp: "ThresholdInp",
				bwd: "ThresholdBackward", outs: []out{like("input")}},
			{Function: "gelu", sig: "input approximate='none'", fwd: "Gelu", bwd: "GeluBackward",
				outs: []out{like("input")}},
			{Function: "addcmul", sig: "input tensor1 tensor2 value=1", fwd: "Addcmul", inp: "AddcmulInp",
				outs: []out{result(asInput, broadcast("input", "tensor1", "tensor2"))}},
			{Function: "addcdiv", sig: "input tensor1 tensor2 value=1", fwd: "Addcdiv", inp: "AddcdivInp",
				outs: []out{result(asInput, broadcast("input", "tensor1", "tensor2"))}},
			{Function: "lerp", sig: "input end weight", fwd: "LerpTensor LerpScalar",
				outs: []out{result(asInput, broadcast("input", "end", "weight"))}},
			{Function: "where", sig: "condition input other", fwd: "Where",
				outs: []out{result(asInput, broadcast("condition", "input", "other"))}},
			clamping("clamp", "input min=None max=None", "Clamp"),
			clamping("clamp_min", "input min", "ClampMin"),
			clamping("clamp_max", "input max", "ClampMax"),
			{Function: "masked_fill", sig: "input mask value", fwd: "MaskedFill MaskedFillScalar",
				inp:  "MaskedFillInp MaskedFillInpScalar",
				outs: []out{result(asInput, broadcast("input", "mask"))}, inplace: maskedFillInPlace},
			{Function: "complex", sig: "real imag", fwd: "Complex",
				outs: []out{result(complexOf("real"), broadcast("real", "imag"))}},
			{Function: "polar", sig: "abs angle", fwd: "Polar",
				outs: []out{result(complexOf("abs"), broadcast("abs", "angle"))}},
			// The kit takes the parts of complex numbers into complex tensors.
			{Function: "real", sig: "input", fwd: "Real", outs: []out{like("input")}},
			{Function: "imag", sig: "input", fwd: "Imag", outs: []out{like("input")}},
			{Function: "conj", sig: "input", fwd: "Conj", outs: []out{like("input")}},
			{Function: "cast_dtype", sig: "input out", fwd: "CastDtype", bind: bindings{"out": "out"}, returns: "out"},
			{Function: "_foreach_add", sig: "self scalar", fwd: "ForeachaddScalar", bind: foreachBindings("scalar"),
				outs: []out{each("self", rawDense)}},
			{Function: "_foreach_mul", sig: "self scalar", fwd: "ForeachmulScalar", bind: foreachBindings("scalar"),
				outs: []out{each("self", rawDense)}},
			{Function: "_foreach_norm", sig: "self ord=2", fwd: "ForeachnormScalar", bind: bindings{"inputs": "self",
				"ord": "ord"},
				outs: []out{each("self", func(t *Tensor) *Tensor { return newTensor(t.DType, []int{}) })}},
		},
	)
}

var (
	asInput = dtypeOf("input")
	asFloat = floating("input")
)

// gradients of unary functions, by C function
var unaryBackward = map[string]bool{"Sigmoid": true, "Silu": true, "Tanh": true, "Hardswish": true}

// unary makes the recipes of functions of one tensor.
func unary(names string, dt dtypeRule) []*Recipe {
	var rs []*Recipe
	for _, name := range fields(names) {
		o := out{rule: func(b *build) any {
			t := rawLike(b.tensor("input"))
			if t.DType = dt(b); t.DType != b.tensor("input").DType {
				t.Stride = nil
			}
			return t
		}}
		r := &Recipe{Function: snake(name), sig: "input", fwd: name, inp: name + "Inp", outs: []out{o}}
		if unaryBackward[name] {
			r.bwd, r.gbind = name+"Backward", bindings{"output": firstResult}
		}
		rs = append(rs, r)
	}
	return rs
}

// binary makes the recipes of functions of a tensor and a tensor or number.
func binary(names, sig string, dt dtypeRule) []*Recipe {
	var rs []*Recipe
	for _, name := range fields(names) {
		r := &Recipe{Function: snake(name), sig: sig, fwd: name, inp: name + "Inp",
			outs: []out{result(dt, broadcast("input", "other"))}}
		if _, ok := Lookup(prefix + name + "Scalar"); ok {
			r.fwd += " " + name + "Scalar"
			r.inp += " " + name + "InpScalar"
		}
		rs = append(rs, r)
	}
	return rs
}

// snake is the kit's name of a C function: "LogicalAnd" is logical_and.
func snake(name string) string {
	var s []byte
	for i, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			if i > 0 {
				s = append(s, '_')
			}
			c += 'a' - 'A'
		}
		s = append(s, c)
	}
	return string(s)
}

// firstOperand takes the number self for input.
func firstOperand(b *build) {
	if b.args["input"] == nil {
		b.args["input"] = b.args["self"]
	}
	delete(b.args, "self")
}

// powDType is the dtype the kit gives a power.
func powDType(b *build) tensor.DType {
	base, exp := b.args["input"], b.args["exponent"]
	x, y := b.kindOf(base), b.kindOf(exp)
	if _, isTensor := base.(*Tensor); !isTensor && x.IsIntegral() && (y.IsIntegral() || y.IsFloat()) {
		return y
	}
	switch {
	case !x.IsIntegral() && !y.IsIntegral() && x != tensor.Bool && y != tensor.Bool:
		return x
	case x == tensor.Int8 && y == tensor.Uint8:
		return tensor.Int16
	case x.IsIntegral() && y == tensor.Uint8:
		return x
	case x == tensor.Bool && y.IsFloat():
		return tensor.Float32
	case x == tensor.Bool:
		return tensor.Int64
	case !y.IsIntegral() && x != tensor.Float16:
		return tensor.Float32
	}
	return x
}

// powInPlace raises a copy of the input in the dtype of the result to a number,
// the input itself to a tensor.
func powInPlace(b *build) {
	if _, ok := b.args["exponent"].(*Tensor); !ok {
		b.args["input"] = b.converted("input", powDType(b))
	}
	b.callInPlace()
}

// remainderDType is the dtype the kit gives a remainder.
func remainderDType(b *build) tensor.DType {
	x, y := b.args["input"], b.args["other"]
	dx, dy := b.kindOf(x), b.kindOf(y)
	_, isTensor := x.(*Tensor)
	switch {
	case dx == tensor.Int8 && dy == tensor.Uint8, dx == tensor.Uint8 && dy == tensor.Int8:
		return tensor.Int16
	case !isTensor && dx.IsIntegral() && dy == tensor.Bool:
		return tensor.Int64
	case !isTensor && dx.IsIntegral():
		return dy
	}
	return b.common(x, y)
}

// clamping are clamp and its one-sided forms: integers with a floating-point
// bound become float32.
func clamping(function, sig, c string) *Recipe {
	toFloat := func(b *build) bool {
		bound := b.args["min"]
		if bound == nil {
			bound = b.args["max"]
		}
		_, isFloat := bound.(float64)
		return isFloat && b.tensor("input").DType.IsIntegral()
	}
	return &Recipe{Function: function, sig: sig, fwd: c + " " + c + "Scalar", inp: c + "Inp " + c + "InpScalar",
		outs: []out{{rule: func(b *build) any {
			if toFloat(b) {
				return newTensor(tensor.Float32, b.tensor("input").Shape)
			}
			return rawLike(b.tensor("input"))
		}}},
		inplace: func(b *build) {
			if toFloat(b) {
				b.args["input"] = b.converted("input", tensor.Float32)
			}
			b.callInPlace()
		}}
}

// maskedFillInPlace fills a copy of the input that has the shape of the result.
func maskedFillInPlace(b *build) {
	t := b.tensor("input")
	shape := b.broadcast(t.Shape, b.tensor("mask").Shape)
	wide, err := t.Value.Expand(shape...)
	if err != nil {
		b.fail("input: %v", err)
	}
	b.args["input"] = copyOf(wide.Dense(), t.DType)
	b.callInPlace()
}

// converted is a copy of a tensor argument in another dtype.
func (b *build) converted(arg string, dt tensor.DType) *Tensor {
	return copyOf(b.tensor(arg).Value, dt)
}

// copyOf is a dense tensor with the elements of v as dt; like numpy's, a copy
// without elements has strides of 0.
func copyOf(v *tensor.Tensor, dt tensor.DType) *Tensor {
	var c *tensor.Tensor
	switch dt.Kind() {
	case tensor.KindFloat:
		c = tensor.New(dt, v.Shape, tensor.Data[float64](v))
	case tensor.KindComplex:
		c = tensor.New(dt, v.Shape, tensor.Data[complex128](v))
	default:
		c = tensor.New(dt, v.Shape, tensor.Data[int64](v))
	}
	t := &Tensor{Role: "copy", DType: dt, Shape: c.Shape, Value: c}
	if c.Numel() == 0 {
		t.Stride = make([]int, len(c.Shape))
	}
	return t
}

func foreachBindings(number string) bindings { return bindings{"inputs": "self", "other": number} }

// each is one result for each tensor of a list.
func each(arg string, f func(*Tensor) *Tensor) out {
	return out{rule: func(b *build) any {
		var list Tensors
		for _, t := range b.tensors(arg) {
			list = append(list, f(t))
		}
		return list
	}}
}

func rawDense(t *Tensor) *Tensor { return newTensor(t.DType, t.Shape) }
