package ops

import (
	"math"
	"math/cmplx"
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// arithmeticOps are sums, products, quotients and powers of broadcast tensors.
var arithmeticOps = []*opdef.Entry{
	opdef.Op[addArgs]{
		Schema:  "add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
		Names:   "add Tensor.add Tensor.__add__ Tensor.__radd__",
		InPlace: true,
		Doc:     opdef.Doc{Summary: "Sum of two tensors, the second scaled", Formula: "self + alpha*other", Source: "torch.add"},
		Error:   opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Kernel:  func(a *addArgs) ([]*tensor.Tensor, error) { return addScaled(a.Self, a.Other, a.Alpha, 1) },
		Grad:    func(a *addArgs, g *opdef.Grad) (opdef.Grads, error) { return addScaledGrad(a.Self, a.Other, a.Alpha, 1, g) },
		Cases:   addCases,
	}.Entry(),
	opdef.Binary{
		Name:    "mul",
		Names:   "mul multiply Tensor.mul Tensor.multiply Tensor.__mul__ Tensor.__rmul__",
		InPlace: true,
		Doc:     opdef.Doc{Summary: "Product of two tensors", Formula: "self * other", Source: "torch.mul"},
		Error:   opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 2}},
		F:       func(x, y float64) float64 { return x * y },
		C:       func(x, y complex128) complex128 { return x * y },
		I:       func(x, y int64) int64 { return x * y },
		DF:      func(x, y, _ float64) (float64, float64) { return y, x },
		DC:      func(x, y, _ complex128) (complex128, complex128) { return y, x },
	}.Entry(),
	opdef.Binary{
		Name:    "div",
		Names:   "div divide true_divide Tensor.div Tensor.divide Tensor.true_divide Tensor.__truediv__ Tensor.__div__",
		InPlace: true,
		Doc:     opdef.Doc{Summary: "Quotient of two tensors", Formula: "self / other", Notes: "Integers give float32.", Source: "torch.div"},
		Error:   opdef.Error{Class: opdef.Rounded},
		F:       func(x, y float64) float64 { return x / y },
		C:       func(x, y complex128) complex128 { return x / y },
		ToFloat: true,
		DF:      func(_, y, z float64) (float64, float64) { return 1 / y, -z / y },
		DC:      func(_, y, z complex128) (complex128, complex128) { return 1 / y, -z / y },
	}.Entry(),
}

type addArgs struct {
	Self, Other *tensor.Tensor
	Alpha       opdef.Scalar
}

// addScaled is self + sign*alpha*other.
func addScaled(self, other *tensor.Tensor, alpha opdef.Scalar, sign float64) ([]*tensor.Tensor, error) {
	dt, xy, err := opdef.Common(self, other)
	if err != nil {
		return nil, err
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
		return []*tensor.Tensor{opdef.Zip(dt, xy[0], xy[1], func(x, y float64) float64 { return x + k*y })}, nil
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
		gr.Set("other", opdef.SumTo(scale(g.Out[0], sign, alpha), other.Shape))
	}
	return gr, nil
}

// scale is sign*conj(k)*t: the gradient of t scaled by k.
func scale(t *tensor.Tensor, sign float64, k opdef.Scalar) *tensor.Tensor {
	if t.DType.IsComplex() {
		c := complex(sign, 0) * cmplx.Conj(k.Complex128())
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return c * x })
	}
	f := sign * k.Float64()
	if f == 1 {
		return t
	}
	return opdef.Map(t.DType, t, func(x float64) float64 { return f * x })
}

func addCases(r *rand.Rand) []*addArgs {
	g := opdef.Gen{R: r}
	f32, f64 := tensor.Float32, tensor.Float64
	one := opdef.Int(1)
	return []*addArgs{
		{g.Normal(f64, 3, 4), g.Normal(f64, 3, 4), one},
		{g.Normal(f64, 3, 1), g.Normal(f64, 4), opdef.Float(-2.5)},
		{g.Normal(f32, 2, 3), tensor.Wrap(1.5), one},
		{g.Normal(f32, 2, 3), tensor.Wrap(int64(2)), opdef.Int(3)},
		{g.Normal(tensor.BFloat16, 4), g.Normal(tensor.BFloat16, 4), one},
		{g.Normal(tensor.Float16, 4), g.Normal(f32), one},
		{g.Normal(f32, 0, 3), g.Normal(f32, 3), one},
		{opdef.NonContiguous(g.Normal(f64, 3, 4)), g.Normal(f64, 4), one},
		{g.Normal(tensor.Complex128, 3), g.Normal(tensor.Complex128, 2, 3), opdef.Cplx(complex(0.5, -1))},
		{g.Normal(f64, 3), g.Normal(tensor.Complex64, 3), one},
		{g.Int(tensor.Int8, -9, 9, 5), g.Int(tensor.Uint8, 0, 9, 5), opdef.Int(-1)},
		{g.Int(tensor.Bool, 0, 1, 5), g.Int(tensor.Bool, 0, 1, 5), one},
		{tensor.Full(f32, []int{3}, math.Inf(1)), g.Normal(f32, 3), one},
	}
}
