package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type divModeArgs struct {
	Self, Other  *tensor.Tensor
	RoundingMode *string
}

// AddcArgs are the arguments of addcmul and addcdiv.
type AddcArgs struct {
	Self, Tensor1, Tensor2 *tensor.Tensor
	Value                  opdef.Scalar
}

// LerpArgs are the arguments of lerp.
type LerpArgs struct{ Self, End, Weight *tensor.Tensor }

// PowArgs are the arguments of pow.
type PowArgs struct{ Self, Exponent *tensor.Tensor }

func subtract(x, y *tensor.Tensor, alpha opdef.Scalar) ([]*tensor.Tensor, error) {
	if x.DType == tensor.Bool || y.DType == tensor.Bool {
		return nil, opdef.Refuse("other", "bool cannot be subtracted: use logical_xor or ~")
	}
	return addScaled(x, y, alpha, -1)
}

func sumOfMagnitudes(x, y *tensor.Tensor, alpha opdef.Scalar) []*tensor.Tensor {
	k := alpha.Abs().Float64()
	return []*tensor.Tensor{elements.MapMagnitudes(func(v []float64) float64 { return v[0] + k*v[1] }, x, y)}
}

var subCases = opdef.Calls[AddArgs](`
	f64[3, 4], f64[3, 4]; f64[3, 1], f64[4], alpha=-2.5; f32[2, 3], 1.5; f32[2, 3], 2, alpha=3; bf16[4], bf16[4]
	f16[4], f32[]; f32[0, 3], f32[3]; c128[3], c128[2, 3], alpha=0.5-1j; f64[3], c64[3]
	i8[5]{-9..9}, u8[5]{0..9}, alpha=-1; f32[3]{full +Inf}, f32[3]`)

// addOp and subOp declare a signature each.
func addOp(schema, names string, cases func(g opdef.Gen) []*AddArgs) *opdef.Entry {
	return opdef.Op[AddArgs]{
		Schema: schema, Names: names,
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Sum of two tensors, the second scaled", Formula: "self + alpha*other"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Kernel: func(a *AddArgs) ([]*tensor.Tensor, error) { return addScaled(a.Self, a.Other, a.Alpha, 1) },
		Grad: func(a *AddArgs, g *opdef.Grad) (opdef.Grads, error) {
			return addScaledGrad(a.Self, a.Other, a.Alpha, 1, g)
		},
		Cases: cases,
	}.Entry()
}

func subOp(schema, names string, cases func(g opdef.Gen) []*AddArgs) *opdef.Entry {
	return opdef.Op[AddArgs]{
		Schema: schema, Names: names,
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Difference of two tensors, the second scaled", Formula: "self - alpha*other"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Kernel: func(a *AddArgs) ([]*tensor.Tensor, error) { return subtract(a.Self, a.Other, a.Alpha) },
		Grad: func(a *AddArgs, g *opdef.Grad) (opdef.Grads, error) {
			return addScaledGrad(a.Self, a.Other, a.Alpha, -1, g)
		},
		Bounds: opdef.Bounds[*AddArgs]{
			Scale: func(a *AddArgs, _ []*tensor.Tensor) []*tensor.Tensor {
				return sumOfMagnitudes(a.Self, a.Other, a.Alpha)
			},
		},
		Cases: cases,
	}.Entry()
}

func rsubOp(schema, names string, cases func(g opdef.Gen) []*AddArgs) *opdef.Entry {
	return opdef.Op[AddArgs]{
		Schema: schema, Names: names,
		Doc: opdef.Doc{Summary: "Difference of two tensors, the first scaled and subtracted",
			Formula: "other - alpha*self"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Kernel: func(a *AddArgs) ([]*tensor.Tensor, error) { return subtract(a.Other, a.Self, a.Alpha) },
		Grad: func(a *AddArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr, err := addScaledGrad(a.Other, a.Self, a.Alpha, -1, g)
			if err == nil {
				gr["self"], gr["other"] = gr["other"], gr["self"]
			}
			return gr, err
		},
		Bounds: opdef.Bounds[*AddArgs]{
			Scale: func(a *AddArgs, _ []*tensor.Tensor) []*tensor.Tensor {
				return sumOfMagnitudes(a.Other, a.Self, a.Alpha)
			},
		},
		Cases: cases,
	}.Entry()
}

// scalarCases are those of addCases whose other operand is a number.
var scalarCases = opdef.Calls[AddArgs](`f32[2, 3], 1.5, 1; f32[2, 3], 2, 3`)

// addcOps declares both signatures of addcmul or addcdiv.
func addcOps(name string, op opdef.Op[AddcArgs]) []*opdef.Entry {
	op.InPlace, op.Error, op.Autocast = true, opdef.Error{Class: opdef.Accumulated}, opdef.AutocastWidest
	op.GradTerms, op.Doc.Source = addcTerms, "torch."+name
	deprecated := op
	op.Schema = name + "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"
	deprecated.Schema = name + ".deprecated(Tensor self, Scalar value, Tensor tensor1, Tensor tensor2) -> Tensor"
	deprecated.Names = name + " Tensor." + name
	return []*opdef.Entry{op.Entry(), deprecated.Entry()}
}

// addcCommon is the dtype and the broadcast operands of addcmul and addcdiv.
func addcCommon(a *AddcArgs) (tensor.DType, []*tensor.Tensor, []int, error) {
	dt, ts, err := opdef.Common(a.Self, a.Tensor1, a.Tensor2)
	if err != nil {
		return dt, nil, nil, err
	}
	if !dt.IsComplex() && a.Value.Kind() == tensor.KindComplex {
		return dt, nil, nil, opdef.Refuse("value", "%v does not scale dtype %s", a.Value, dt)
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	return dt, ts, shape, err
}

func addcmul(a *AddcArgs) ([]*tensor.Tensor, error) {
	dt, ts, shape, err := addcCommon(a)
	if err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		k := a.Value.Complex128()
		return elements.Result(elements.ZipEach(dt, shape, func(v []complex128) complex128 {
			return v[0] + k*v[1]*v[2]
		}, ts))
	case tensor.KindFloat:
		k := elements.ArithmeticValue(a.Value, dt)
		return elements.Result(scaledSum(dt, shape, k, vmath.Mul, ts))
	case tensor.KindBool:
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	}
	k := a.Value.Int64()
	return elements.Result(elements.ZipEach(dt, shape, func(v []int64) int64 { return v[0] + k*v[1]*v[2] }, ts))
}

func addcdiv(a *AddcArgs) ([]*tensor.Tensor, error) {
	if a.Tensor1.DType.Kind() < tensor.KindFloat && a.Tensor2.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("tensor1", "integers are not divided, got %s and %s", a.Tensor1.DType, a.Tensor2.DType)
	}
	dt, ts, shape, err := addcCommon(a)
	if err != nil {
		return nil, err
	}
	if dt.IsComplex() {
		k := a.Value.Complex128()
		return elements.Result(elements.ZipEach(dt, shape, func(v []complex128) complex128 {
			return v[0] + k*v[1]/v[2]
		}, ts))
	}
	k := elements.ArithmeticValue(a.Value, dt)
	return elements.Result(scaledSum(dt, shape, k, vmath.Div, ts))
}

// scaledSum is the first of three tensors plus f of k times the second and the third.
func scaledSum(dt tensor.DType, shape []int, k float64, f func(dst, x, y []float64),
	ts []*tensor.Tensor) *tensor.Tensor {
	return opdef.ZipN(dt, shape, func(dst []float64, v [][]float64) {
		vmath.Scale(dst, v[1], k)
		f(dst, dst, v[2])
		vmath.Add(dst, dst, v[0])
	}, ts...)
}

func addcTerms(a *AddcArgs) int { return 2 + elements.BroadcastTerms(a.Self, a.Tensor1, a.Tensor2) }

func addcmulGrad(a *AddcArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt, c, k := g.Outs[0].DType, cmplx.Conj(a.Value.Complex128()), elements.ArithmeticValue(a.Value, g.Outs[0].DType)
	gr := opdef.Grads{"self": {opdef.SumTo(g.Out[0], a.Self.Shape)}}
	for _, p := range []struct {
		name       string
		arg, other *tensor.Tensor
	}{{"tensor1", a.Tensor1, a.Tensor2}, {"tensor2", a.Tensor2, a.Tensor1}} {
		t, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * c * cmplx.Conj(v[1]) },
			func(v []float64) float64 { return v[0] * k * v[1] }, g.Out[0], p.other)
		if err != nil {
			return nil, err
		}
		gr.Set(p.name, opdef.SumTo(t, p.arg.Shape))
	}
	return gr, nil
}

func addcdivGrad(a *AddcArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt, c, k := g.Outs[0].DType, a.Value.Complex128(), elements.ArithmeticValue(a.Value, g.Outs[0].DType)
	g1, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(c/v[1]) },
		func(v []float64) float64 { return v[0] * k / v[1] }, g.Out[0], a.Tensor2)
	if err != nil {
		return nil, err
	}
	// torch rounds value*tensor1 to the dtype of tensor1 before it divides.
	round := func(x float64) float64 { return x }
	if own := a.Tensor1.DType; own.IsFloat() && own != dt {
		round = own.Round
	}
	g2, err := elements.MapN(dt, func(v []complex128) complex128 { return -v[0] * cmplx.Conj(c*v[1]/(v[2]*v[2])) },
		func(v []float64) float64 { return -v[0] * round(k*v[1]) / (v[2] * v[2]) }, g.Out[0], a.Tensor1, a.Tensor2)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{
		"self": {opdef.SumTo(g.Out[0], a.Self.Shape)}, "tensor1": {opdef.SumTo(g1, a.Tensor1.Shape)},
		"tensor2": {opdef.SumTo(g2, a.Tensor2.Shape)},
	}, nil
}

func addcCases(g opdef.Gen) []*AddcArgs {
	return append(addcdivCases(g), &AddcArgs{g.Int(tensor.Int32, -4, 4, 3), g.Int(tensor.Int32, -4, 4, 3),
		g.Int(tensor.Int32, -4, 4, 3), opdef.Int(2)})
}

func addcdivCases(g opdef.Gen) []*AddcArgs {
	zero := []float64{0}
	return []*AddcArgs{
		{g.Normal(tensor.Float64, 3, 4), g.Normal(tensor.Float64, 3, 4), g.Apart(tensor.Float64, zero, 3, 4),
			opdef.Float(-0.5)},
		{g.Normal(tensor.Float64, 3, 1), g.Normal(tensor.Float64, 4), g.Apart(tensor.Float64, zero, 2, 3, 1),
			opdef.Int(1)},
		{g.Normal(tensor.Float32, 5), g.Normal(tensor.Float32, 5), g.Apart(tensor.Float32, zero, 5), opdef.Float(0.1)},
		{g.Normal(tensor.BFloat16, 5), g.Normal(tensor.BFloat16, 5), g.Apart(tensor.BFloat16, zero, 5),
			opdef.Float(0.1)},
		{g.Normal(tensor.Float32), g.Normal(tensor.Float32), g.Apart(tensor.Float32, zero), opdef.Int(2)},
		{g.Normal(tensor.Float32, 0, 3), g.Normal(tensor.Float32, 3), g.Apart(tensor.Float32, zero, 3), opdef.Int(1)},
		{g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 3),
			opdef.Cplx(complex(0.5, -1))},
	}
}

func lerp(a *LerpArgs) ([]*tensor.Tensor, error) {
	for _, p := range []struct {
		name string
		t    *tensor.Tensor
	}{{"end", a.End}, {"weight", a.Weight}} {
		if !p.t.Wrapped && p.t.DType != a.Self.DType {
			return nil, opdef.Refuse(p.name, "want dtype %s, got %s", a.Self.DType, p.t.DType)
		}
	}
	if a.Self.DType.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("self", "not defined for dtype %s", a.Self.DType)
	}
	_, ts, err := opdef.Common(a.Self, a.End, a.Weight)
	if err != nil {
		return nil, err
	}
	// From the nearer end, as torch: with an infinite one it makes a difference.
	if a.Weight.Numel() == 1 && a.Self.DType.IsFloat() {
		ends, shape, err := opdef.BroadcastAll(ts...)
		if err != nil {
			return nil, err
		}
		w := tensor.At[float64](ts[2], 0)
		from, factor := 0, w
		if !(math.Abs(w) < 0.5) {
			from, factor = 1, -(1 - w)
		}
		return elements.Result(opdef.ZipN(a.Self.DType, shape, func(dst []float64, v [][]float64) {
			vmath.Sub(dst, v[1], v[0])
			vmath.Scale(dst, dst, factor)
			vmath.Add(dst, dst, v[from])
		}, ends[:2]...))
	}
	t, err := elements.MapN(a.Self.DType, func(v []complex128) complex128 {
		if cmplx.Abs(v[2]) < 0.5 {
			return v[0] + v[2]*(v[1]-v[0])
		}
		return v[1] - (v[1]-v[0])*(1-v[2])
	}, func(v []float64) float64 {
		if math.Abs(v[2]) < 0.5 {
			return v[0] + v[2]*(v[1]-v[0])
		}
		return v[1] - (v[1]-v[0])*(1-v[2])
	}, ts...)
	return []*tensor.Tensor{t}, err
}

func lerpGrad(a *LerpArgs, g *opdef.Grad) (opdef.Grads, error) {
	dt := a.Self.DType
	gs, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(1-v[1]) },
		func(v []float64) float64 { return v[0] * (1 - v[1]) }, g.Out[0], a.Weight)
	if err != nil {
		return nil, err
	}
	ge, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[1]) },
		func(v []float64) float64 { return v[0] * v[1] }, g.Out[0], a.Weight)
	if err != nil {
		return nil, err
	}
	gw, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[2]-v[1]) },
		func(v []float64) float64 { return v[0] * (v[2] - v[1]) }, g.Out[0], a.Self, a.End)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"self": {opdef.SumTo(gs, a.Self.Shape)}, "end": {opdef.SumTo(ge, a.End.Shape)},
		"weight": {elements.SumGradTo(gw, a.Weight)}}, nil
}

var lerpCases = opdef.Calls[LerpArgs](`
	f64[3, 4], f64[3, 4], f64[3, 4]{0..1}; f64[3, 1], f64[4], 0.25; f32[5], f32[5], 0.9; bf16[5], bf16[5], 0.9
	f32[0, 2], f32[2], 0.5; c128[3], c128[3], 0.5`)

// powScale: a complex power is the exponential of a product, which is rounded.
func powScale(x, y, out *tensor.Tensor) []*tensor.Tensor {
	if !out.DType.IsComplex() {
		return []*tensor.Tensor{tensor.Full(tensor.Float64, out.Shape, 0.0)}
	}
	ts := []*tensor.Tensor{opdef.Must(x.Expand(out.Shape...)), opdef.Must(y.Expand(out.Shape...)), out}
	return []*tensor.Tensor{elements.ZipEach(tensor.Float64, out.Shape,
		func(v []complex128) float64 { return cmplx.Abs(v[2]) * powGrowth(v[0], v[1]) }, ts)}
}

// powGrowth is 1 + |y log x|, by which rounding the product y log x changes
// x**y.
func powGrowth(x, y complex128) float64 {
	if x == 0 {
		return 1
	}
	return 1 + cmplx.Abs(y*cmplx.Log(x))
}

func power(x, y *tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := opdef.OneTensor(x, y); err != nil {
		return nil, err
	}
	dt, xy, err := opdef.Common(x, y)
	if err != nil {
		return nil, err
	}
	if dt.Kind() >= tensor.KindFloat {
		t, err := elements.MapN(dt, func(v []complex128) complex128 { return kernel.PowC(v[0], v[1]) },
			func(v []float64) float64 { return kernel.Pow(v[0], v[1]) }, xy...)
		return []*tensor.Tensor{t}, err
	}
	if dt == tensor.Bool && !y.Wrapped { // to the power of True and False, torch copies and fills
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	}
	if y.Wrapped && tensor.At[int64](y, 0) < 0 {
		return nil, opdef.Refuse("exponent", "integers have no negative integer powers, got %d", tensor.At[int64](y, 0))
	}
	if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
		return nil, err
	}
	return elements.Result(opdef.Zip(dt, xy[0], xy[1], powInt))
}

// powInt is x**n by squaring, wrapping; negative powers are 0 unless x is 1 or
// -1.
func powInt(x, n int64) int64 {
	if n < 0 {
		switch {
		case x == 1 || x == -1 && n%2 == 0:
			return 1
		case x == -1:
			return -1
		}
		return 0
	}
	r := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// powSteps are the gradients of x**y as torch composes them.
func powSteps(up, x, y, z *tensor.Tensor) (dx, dy *tensor.Tensor) {
	slope := opdef.StepProduct(y, opdef.Step(func(v []float64) float64 { return kernel.Pow(v[0], v[1]) }, x,
		opdef.StepDifference(y, tensor.Wrap(int64(1)))))
	dx = opdef.Step(func(v []float64) float64 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * v[1]
	}, up, slope, y)
	growth := opdef.StepProduct(z, opdef.FloatStep(func(v []float64) float64 { return math.Log(v[0]) }, x))
	return dx, opdef.Step(func(v []float64) float64 {
		if v[2] == 0 && v[3] >= 0 {
			return 0
		}
		return v[0] * v[1]
	}, up, growth, x, y)
}

// powGrad are the gradients of x**y under the names nx and ny, or with
// magnitudes set the sums of the magnitudes of their terms.
func powGrad(x, y *tensor.Tensor, nx, ny string, g *opdef.Grad, magnitude bool) (opdef.Grads, error) {
	dt := g.Outs[0].DType
	gr := opdef.Grads{nx: {nil}, ny: {nil}}
	put := func(name string, arg *tensor.Tensor, c func(v []complex128) complex128, f func(v []float64) float64) error {
		if arg.Wrapped || !g.Need(name) {
			return nil
		}
		t, err := elements.MapN(dt, c, f, g.Out[0], x, y, g.Outs[0])
		if err != nil {
			return err
		}
		if magnitude {
			t = opdef.Abs(t)
			ts, shape, err := opdef.BroadcastAll(t, x, y)
			if err != nil {
				return err
			}
			if dt.IsFloat() && name == nx {
				t = elements.ZipEach(tensor.Float64, shape, func(v []float64) float64 {
					if k := v[2] - 1; dt.Round(k) != k { // the exponent is rounded
						return v[0] * (1 + math.Abs(k*math.Log(math.Abs(v[1]))))
					}
					return v[0]
				}, ts)
			}
			if dt.IsComplex() { // logarithm and exponent are rounded to their own dtypes
				coarse := elements.Coarseness(dt, x, y)
				t = elements.ZipEach(tensor.Float64, shape, func(v []complex128) float64 {
					return coarse * real(v[0]) * powGrowth(v[1], v[2])
				}, ts)
			}
		}
		gr.Set(name, opdef.SumTo(t, arg.Shape))
		return nil
	}
	err := put(nx, x, func(v []complex128) complex128 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * cmplx.Conj(v[2]*kernel.PowC(v[1], v[2]-1))
	}, func(v []float64) float64 {
		if v[2] == 0 {
			return 0
		}
		return v[0] * v[2] * kernel.Pow(v[1], v[2]-1)
	})
	if err != nil {
		return nil, err
	}
	return gr, put(ny, y, func(v []complex128) complex128 {
		if v[1] == 0 && imag(v[2]) == 0 && real(v[2]) >= 0 {
			return 0
		}
		return v[0] * cmplx.Conj(v[3]*cmplx.Log(v[1]))
	}, func(v []float64) float64 {
		if v[1] == 0 && v[2] >= 0 {
			return 0
		}
		return v[0] * v[3] * math.Log(v[1])
	})
}

// baseOf is the base of __rpow__: a number becomes a tensor of the result's
// dtype.
func baseOf(a *opdef.BinaryArgs) *tensor.Tensor {
	if !a.Other.Wrapped {
		return a.Other
	}
	dt := tensor.ResultType(a.Other, a.Self)
	switch dt.Kind() {
	case tensor.KindFloat:
		return tensor.Scalar(dt, dt.Round(tensor.At[float64](a.Other, 0)))
	case tensor.KindComplex:
		c, part := tensor.At[complex128](a.Other, 0), dt.Real()
		return tensor.Scalar(dt, complex(part.Round(real(c)), part.Round(imag(c))))
	}
	return tensor.Scalar(dt, tensor.At[int64](a.Other, 0))
}

func reversePowGrad(a *opdef.BinaryArgs, g *opdef.Grad, magnitude bool) (opdef.Grads, error) {
	gr, err := powGrad(baseOf(a), a.Self, "other", "self", g, magnitude)
	if err == nil && a.Other.Wrapped {
		gr["other"] = []*tensor.Tensor{nil}
	}
	return gr, err
}

func floatPower(a *PowArgs) ([]*tensor.Tensor, error) {
	if err := opdef.OneTensor(a.Self, a.Exponent); err != nil {
		return nil, err
	}
	dt := tensor.Float64
	if a.Self.DType.IsComplex() || a.Exponent.DType.IsComplex() {
		dt = tensor.Complex128
	}
	t, err := elements.MapN(dt, func(v []complex128) complex128 { return kernel.PowC(v[0], v[1]) },
		func(v []float64) float64 { return kernel.Pow(v[0], v[1]) }, a.Self, a.Exponent)
	return []*tensor.Tensor{t}, err
}

var powCases = opdef.Calls[PowArgs](`
	f64[3, 4]{0.3..3}, f64[3, 4]; f64[3, 1]{0.3..3}, f64[4]; f64[3]{apart 0}, 3; f32[5]{0.3..3}, 0.5
	f32[5]{0.3..3}, -1.5; f32[5], 0; bf16[5]{0.3..3}, 2; 2.5, f32[4]; f32[0, 2], 2; c128[3]{0.3..3}, c128[3]
	i32[5]{-4..4}, 3; i64[4]{-3..3}, i64[4]{0..4}`)
