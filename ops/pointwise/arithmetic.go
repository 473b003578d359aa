package pointwise

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Functions of two elements that are steps of compositions too.
var (
	Mul = opdef.Binary{
		Name:       "mul",
		Names:      "mul multiply Tensor.mul Tensor.multiply Tensor.__mul__ Tensor.__rmul__",
		Traits:     opdef.Traits{InPlace: true},
		Doc:        opdef.Doc{Summary: "Product of two tensors", Formula: "self * other"},
		Error:      opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 2}},
		F:          func(x, y float64) float64 { return x * y },
		Block:      vmath.Mul,
		C:          func(x, y complex128) complex128 { return x * y },
		TwoNumbers: true,
		I:          func(x, y int64) int64 { return x * y },
		DX: func(up, _, y, z *tensor.Tensor) *tensor.Tensor {
			return opdef.ZipBlock(z.DType, up, y, vmath.Mul)
		},
		DY: func(up, x, _, z *tensor.Tensor) *tensor.Tensor {
			return opdef.ZipBlock(z.DType, up, x, vmath.Mul)
		},
		DC: func(x, y, _ complex128) (complex128, complex128) { return y, x },
	}
	Div = opdef.Binary{
		Name: "div",
		Names: "div divide true_divide Tensor.div Tensor.divide Tensor.true_divide Tensor.__truediv__ " +
			"Tensor.__div__",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Quotient of two tensors", Formula: "self / other",
			Notes: "Integers give float32."},
		Error:      elements.RoundedError,
		F:          func(x, y float64) float64 { return x / y },
		Block:      vmath.Div,
		C:          kernel.Quo,
		TwoNumbers: true,
		ToFloat:    true,
		DX: func(up, _, y, z *tensor.Tensor) *tensor.Tensor {
			return opdef.ZipBlock(z.DType, up, y, vmath.Div)
		},
		DY: func(up, _, y, z *tensor.Tensor) *tensor.Tensor {
			return opdef.ZipN(z.DType, z.Shape, func(dst []float64, s [][]float64) {
				vmath.Div(dst, s[1], s[2])
				vmath.Mul(dst, dst, s[0])
				vmath.Scale(dst, dst, -1)
			}, up, z, y)
		},
		DC: func(_, y, z complex128) (complex128, complex128) {
			return kernel.Reciprocal(y), kernel.Quo(-z, y)
		},
		Steps: quotientSteps,
	}
)

// arithmeticOps are sums, products, quotients and powers of broadcast tensors.
var arithmeticOps = []*opdef.Entry{
	addOp("add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
		"add Tensor.add Tensor.__add__ Tensor.__radd__", addCases),
	addOp("add.deprecated(Tensor self, Scalar alpha, Tensor other) -> Tensor", "add Tensor.add",
		opdef.Calls[AddArgs](`f64[3, 4], 1, f64[3, 4]; f64[3, 1], -2.5, f64[4]`)),
	subOp("sub(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
		"sub subtract Tensor.sub Tensor.subtract Tensor.__sub__", subCases),
	subOp("sub.deprecated(Tensor self, Scalar alpha, Tensor other) -> Tensor", "sub Tensor.sub",
		opdef.Calls[AddArgs](`f64[3, 4], 1, f64[3, 4]; f64[3, 1], -2.5, f64[4]`)),
	rsubOp("rsub(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", "rsub Tensor.rsub Tensor.__rsub__",
		func(g opdef.Gen) []*AddArgs {
			return slices.DeleteFunc(subCases(g), func(a *AddArgs) bool { return a.Self.Wrapped })
		}),
	// The dispatcher takes alpha by position beside a number.
	addOp("add.Scalar(Tensor self, Tensor|Scalar other, Scalar alpha) -> Tensor", "torch.ops.aten.add", scalarCases),
	subOp("sub.Scalar(Tensor self, Tensor|Scalar other, Scalar alpha) -> Tensor", "torch.ops.aten.sub", scalarCases),
	rsubOp("rsub.Scalar(Tensor self, Tensor|Scalar other, Scalar alpha) -> Tensor", "torch.ops.aten.rsub", scalarCases),
	Mul.Entry().AsSigned().WithTakenFor("torch.div"),
	Div.Entry().AsSigned().WithTakenFor("torch.mul"),
	opdef.Planned[*opdef.BinaryArgs, *reverseQuotient]{
		Schema: "__rtruediv__(Tensor self, Tensor|Scalar other) -> Tensor",
		Names:  "Tensor.__rtruediv__ Tensor.__rdiv__",
		Traits: opdef.Traits{Composite: true, Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Quotient with the operands swapped", Formula: "(1 / self) * other",
			Notes: "Two roundings, since torch multiplies by the reciprocal; the last node is that product."},
		Error:  opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan:   func(a *opdef.BinaryArgs) (*reverseQuotient, error) { return (*reverseQuotient)(a), nil },
		Kernel: func(a *reverseQuotient) ([]*tensor.Tensor, error) { return quotient(a.Other, a.Self) },
		Grad:   (*reverseQuotient).grad,
		Node: func(a *reverseQuotient, g *opdef.Grad) (opdef.Node, error) {
			inner, err := elements.MapN(g.Outs[0].DType,
				func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[1]) },
				func(v []float64) float64 { return v[0] * v[1] }, g.Out[0], a.Other)
			return opdef.Node{Grads: []*tensor.Tensor{inner}}, err
		},
		Bounds: opdef.Bounds[*reverseQuotient]{
			Scale: func(_ *reverseQuotient, outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{elements.AbsIfComplex(outs[0])}
			},
			GradScale: func(_ *reverseQuotient, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
				return opdef.Grads{"self": {opdef.Abs(gr["self"][0])}, "other": {nil}}, nil
			},
		},
		Cases: opdef.Calls[opdef.BinaryArgs](`
			f64[3, 4]{apart 0}, 2.5; f32[5]{apart 0}, 2.5; bf16[2, 3]{apart 0}, 2.5; f16[]{apart 0}, 2.5
			f32[0, 3], 2.5; c128[3, 2], 2.5; c64[4], 2.5; i32[6]{-4..4}, 2.5`),
	}.Entry().AsSigned(),
	opdef.Op[divModeArgs]{
		Schema: "div.Tensor_mode(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor",
		Names:  "div divide Tensor.div Tensor.divide",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Quotient of two tensors, rounded to an integer on request",
			Formula: "self / other, then floor or trunc",
			Notes:   "With trunc the quotient is rounded to the dtype before it is truncated, as torch does."},
		Error:  elements.RoundedError,
		Kernel: divMode,
		Grad: func(a *divModeArgs, g *opdef.Grad) (opdef.Grads, error) {
			if a.RoundingMode == nil {
				return quotientGrad(a.Self, a.Other, g)
			}
			return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}, "other": {elements.ZeroGrad(a.Other)}}, nil
		},
		Exempt: map[string]string{"dtypes": "the quotient is rounded to the dtype before it is truncated"},
		Cases:  divModeCases,
	}.Entry(),
	opdef.Op[opdef.BinaryArgs]{
		Schema: "floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
		Names:  "floor_divide Tensor.floor_divide Tensor.__floordiv__",
		Traits: opdef.Traits{InPlace: true, NoGrad: "torch defines none for floor_divide"},
		Doc: opdef.Doc{Summary: "Quotient rounded down", Formula: "floor(self / other)",
			Notes: "Rounds down as Python does; torch before 1.13 truncated."},
		Error: elements.RoundedError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
			return integral(a.Self, a.Other, floorDiv, kernel.FloorDiv)
		},
		Cases: integralCases,
	}.Entry(),
	opdef.Op[opdef.BinaryArgs]{
		Schema: "__rfloordiv__(Tensor self, Tensor|Scalar other) -> Tensor",
		Names:  "Tensor.__rfloordiv__",
		Doc:    opdef.Doc{Summary: "Quotient rounded down, operands swapped", Formula: "floor(other / self)"},
		Error:  elements.RoundedError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
			return integral(a.Other, a.Self, floorDiv, kernel.FloorDiv)
		},
		Traits: opdef.Traits{NoGrad: "torch defines none for floor_divide"},
		Cases:  reverseIntegralCases,
	}.Entry(),
	modulusOp("fmod(Tensor self, Tensor|Scalar other) -> Tensor", "fmod Tensor.fmod", true, false,
		"Remainder with the sign of the dividend", "self - other*trunc(self/other)", math.Mod,
		func(x, y int64) int64 { return x % y }, func(x, y float64) float64 { return math.Trunc(x / y) }).AsSigned(),
	modulusOp("remainder(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", "remainder Tensor.remainder Tensor.__mod__",
		true, false, "Remainder with the sign of the divisor", "self - other*floor(self/other)", pyMod,
		kernel.FloorMod, floorDiv),
	modulusOp("__rmod__(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", "Tensor.__rmod__", false, true,
		"Remainder with the sign of the divisor, operands swapped", "other - self*floor(other/self)", pyMod,
		kernel.FloorMod, floorDiv).AsComposite(0),
	opdef.Op[LerpArgs]{
		Schema: "lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Linear interpolation", Formula: "self + weight*(end - self)"},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Kernel: lerp, Grad: lerpGrad,
		Bounds: opdef.Bounds[*LerpArgs]{
			Scale: func(a *LerpArgs, _ []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{elements.MapMagnitudes(func(v []float64) float64 {
					return v[0] + v[2]*(v[0]+v[1])
				},
					a.Self,
					a.End, a.Weight)}
			},
			GradScale: func(a *LerpArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				sum := func(t *tensor.Tensor, f func(v []float64) float64) []*tensor.Tensor {
					return []*tensor.Tensor{opdef.SumTo(elements.MapMagnitudes(f, g.Out[0], a.Self, a.End, a.Weight),
						t.Shape)}
				}
				return opdef.Grads{
					"self":   sum(a.Self, func(v []float64) float64 { return v[0] * (1 + v[3]) }),
					"end":    sum(a.End, func(v []float64) float64 { return v[0] * v[3] }),
					"weight": sum(a.Weight, func(v []float64) float64 { return v[0] * (v[1] + v[2]) }),
				}, nil
			},
			GradTerms: func(a *LerpArgs) int { return 2 + elements.BroadcastTerms(a.Self, a.End, a.Weight) },
		},
		Cases: lerpCases,
	}.Entry(),
	powOp(opdef.Op[PowArgs]{
		Schema: "pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
		Names:  "pow Tensor.pow Tensor.__pow__",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Power", Formula: "self ** exponent",
			Notes: "An integer base takes negative exponents only from a tensor; the result is then 0 unless the " +
				"base is 1 or -1. " +
				"The gradient is 0 for exponent 0; that of the exponent is 0 where the base is 0 and the exponent " +
				"not negative."},
		Kernel: func(a *PowArgs) ([]*tensor.Tensor, error) { return power(a.Self, a.Exponent) },
	}),
	opdef.Op[opdef.BinaryArgs]{
		Schema: "__rpow__(Tensor self, Tensor|Scalar other) -> Tensor",
		Names:  "Tensor.__rpow__",
		Doc: opdef.Doc{Summary: "Power with the operands swapped", Formula: "other ** self",
			Notes: "The base is first rounded to the result's dtype, since torch makes a tensor of it."},
		Traits: opdef.Traits{
			Composite: true,    // of a power with the gradients in the other order
			Copied:    "other", // by torch.tensor, up to torch 1.13
			Autocast:  opdef.AutocastFloat32,
		},
		Error:  elements.ElementwiseError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) { return power(baseOf(a), a.Self) },
		Grad: func(a *opdef.BinaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			return reversePowGrad(a, g, false)
		},
		Bounds: opdef.Bounds[*opdef.BinaryArgs]{
			Scale: func(a *opdef.BinaryArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				return powScale(baseOf(a), a.Self, outs[0])
			},
			GradScale: func(a *opdef.BinaryArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return reversePowGrad(a, g, true)
			},
		},
		Cases: opdef.Calls[opdef.BinaryArgs](`
			f64[3, 4]{apart 0}, 2.5; f32[5]{apart 0}, 2.5; bf16[2, 3]{apart 0}, 2.5; f16[]{apart 0}, 2.5
			f32[0, 3], 2.5; c128[3, 2], 2.5; c64[4], 2.5; i32[6]{-4..4}, 2.5`),
	}.Entry(),
	powOp(opdef.Op[PowArgs]{
		Schema: "float_power(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
		Traits: opdef.Traits{
			Composite: true, // of a conversion to float64
			InPlace:   true,
			ExactOut:  true,
		},
		Doc: opdef.Doc{Summary: "Power in double precision", Formula: "self ** exponent",
			Notes: "The result is float64 or complex128."},
		Kernel: floatPower,
		Exempt: map[string]string{"dtypes": "the result is of double precision whatever the arguments"},
	}),
}

// addcmulOps and addcdivOps are tensors plus products or quotients.
var (
	addcmulOps = addcOps("addcmul", opdef.Op[AddcArgs]{
		Doc: opdef.Doc{Summary: "Tensor plus scaled product of two tensors",
			Formula: "self + value*tensor1*tensor2"},
		Kernel: addcmul, Grad: addcmulGrad, Cases: addcCases,
	})
	addcdivOps = addcOps("addcdiv", opdef.Op[AddcArgs]{
		Doc: opdef.Doc{Summary: "Tensor plus scaled quotient of two tensors",
			Formula: "self + value*tensor1/tensor2"},
		Kernel: addcdiv, Grad: addcdivGrad, Cases: addcdivCases,
	})
)

// powOp completes the declaration of a power.
func powOp(op opdef.Op[PowArgs]) *opdef.Entry {
	op.Error, op.Cases = elements.ElementwiseError, powCases
	op.Grad = func(a *PowArgs, g *opdef.Grad) (opdef.Grads, error) {
		return powGrad(a.Self, a.Exponent, "self", "exponent", g, false)
	}
	op.Scale = func(a *PowArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		return powScale(a.Self, a.Exponent, outs[0])
	}
	op.GradScale = func(a *PowArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		return powGrad(a.Self, a.Exponent, "self", "exponent", g, true)
	}
	return op.Entry()
}

// Else are the powers of kernels that take a square root.
func (a *PowArgs) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	if !outs[0].DType.IsFloat() {
		return [][]*tensor.Tensor{nil}
	}
	return [][]*tensor.Tensor{{opdef.Must(elements.MapN(outs[0].DType, nil,
		func(v []float64) float64 { return powByRoot(v[0], v[1]) }, a.Self, a.Exponent))}}
}

// GradElse are the gradients of such kernels.
func (a *PowArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	others := opdef.BinarySteps(powSteps).Else(a.Self, a.Exponent, "self", "exponent", g)
	if !g.Outs[0].DType.IsFloat() || a.Self.Wrapped {
		return others, nil
	}
	t, err := elements.MapN(g.Outs[0].DType, nil, func(v []float64) float64 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * v[2] * powByRoot(v[1], v[2]-1)
	}, g.Out[0], a.Self, a.Exponent)
	if err != nil {
		return nil, err
	}
	return append(others, opdef.Grads{"self": {opdef.SumTo(t, a.Self.Shape)}}), nil
}

// powByRoot is x**y as kernels compute it that take a square root for the exponents 1/2 and -1/2: of negative
// infinity that is NaN, and of -0 it is -0.
func powByRoot(x, y float64) float64 {
	switch y {
	case 0.5:
		return math.Sqrt(x)
	case -0.5:
		return 1 / math.Sqrt(x)
	}
	return kernel.Pow(x, y)
}

// AddArgs are the arguments of add and sub.
type AddArgs struct {
	Self, Other *tensor.Tensor
	Alpha       opdef.Scalar
}

// addScaled is self + sign*alpha*other.
func addScaled(self, other *tensor.Tensor, alpha opdef.Scalar, sign float64) ([]*tensor.Tensor, error) {
	dt, xy, err := opdef.Common(self, other)
	if err != nil {
		return nil, err
	}
	if alpha.Kind() == tensor.KindBool && dt != tensor.Bool {
		return nil, opdef.Refuse("alpha", "a bool scales bool tensors only, got dtype %s", dt)
	}
	if dt.Kind() < tensor.KindFloat && alpha.Kind() >= tensor.KindFloat {
		return nil, opdef.Refuse("alpha", "a floating number cannot scale dtype %s", dt)
	}
	if dt.Kind() == tensor.KindFloat && alpha.Kind() == tensor.KindComplex {
		return nil, opdef.Refuse("alpha", "a complex number cannot scale dtype %s", dt)
	}
	if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		k := complex(sign, 0) * alpha.Complex128()
		return []*tensor.Tensor{opdef.Zip(dt, xy[0], xy[1], func(x, y complex128) complex128 { return x + k*y })}, nil
	case tensor.KindFloat:
		k := sign * alpha.Float64()
		switch k {
		case 1:
			return []*tensor.Tensor{opdef.ZipBlock(dt, xy[0], xy[1], vmath.Add)}, nil
		case -1:
			return []*tensor.Tensor{opdef.ZipBlock(dt, xy[0], xy[1], vmath.Sub)}, nil
		}
		return []*tensor.Tensor{opdef.ZipBlock(dt, xy[0], xy[1], func(dst, x, y []float64) {
			copy(dst, x)
			vmath.Axpy(dst, k, y)
		})}, nil
	}
	k := int64(sign) * alpha.Int64()
	return []*tensor.Tensor{opdef.Zip(dt, xy[0], xy[1], func(x, y int64) int64 { return x + k*y })}, nil
}

func addScaledGrad(self, other *tensor.Tensor, alpha opdef.Scalar, sign float64, g *opdef.Grad) (opdef.Grads, error) {
	gr := opdef.Grads{"self": {nil}, "other": {nil}}
	if !self.Wrapped {
		gr.Set("self", opdef.SumTo(g.Out[0], self.Shape))
	}
	if !other.Wrapped {
		gr.Set("other", opdef.SumTo(elements.ScaledByConj(g.Out[0], sign, alpha), other.Shape))
	}
	return gr, nil
}

var addCases = opdef.Calls[AddArgs](`
	f64[3, 4], f64[3, 4]; f64[3, 1], f64[4], alpha=-2.5; f32[2, 3], 1.5; f32[2, 3], 2, alpha=3; bf16[4], bf16[4]
	f16[4], f32[]; f32[0, 3], f32[3]; c128[3], c128[2, 3], alpha=0.5-1j; f64[3], c64[3]
	i8[5]{-9..9}, u8[5]{0..9}, alpha=-1; bool[5]{0..1}, bool[5]{0..1}; f32[3]{full +Inf}, f32[3]`)
