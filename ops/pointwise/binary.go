package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Atan2 is a step of compositions too.
var (
	Atan2 = opdef.Binary{
		Name: "atan2", Names: "atan2 arctan2 Tensor.atan2 Tensor.arctan2",
		Traits:    opdef.Traits{InPlace: true, Autocast: opdef.AutocastWidest},
		ToFloat:   true,
		Error:     elements.ElementwiseError,
		Doc:       opdef.Doc{Summary: "Angle of the point (other, self)", Formula: "atan2(self, other)"},
		NoNumbers: true,
		F:         kernel.Atan2,
		DF: func(x, y, _ float64) (float64, float64) {
			r := x*x + y*y
			if r == 0 {
				return 0, 0
			}
			return y / r, -x / r
		},
		Steps: func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
			inverse := opdef.FloatStep(func(v []float64) float64 { return 1 / v[0] },
				opdef.StepSum(opdef.StepProduct(x, x), opdef.StepProduct(y, y)))
			dx = opdef.StepProduct(opdef.StepProduct(up, y), inverse)
			return dx, opdef.StepProduct(opdef.StepProduct(up, opdef.StepNegative(x)), inverse)
		},
	}
)

// binaryOps are functions of two tensors other than arithmetic.
var binaryOps = []*opdef.Entry{
	Atan2.Entry(),
	opdef.Binary{
		Name:      "hypot",
		Traits:    opdef.Traits{InPlace: true},
		Error:     elements.ElementwiseError,
		Doc:       opdef.Doc{Summary: "Length of the hypotenuse", Formula: "sqrt(self**2 + other**2)"},
		NoNumbers: true,
		F:         math.Hypot,
		DF:        func(x, y, z float64) (float64, float64) { return x / z, y / z },
		Steps: func(up, x, y, z *tensor.Tensor) (dx, dy *tensor.Tensor) {
			return opdef.StepProduct(up, opdef.StepRatio(x, z)), opdef.StepProduct(up, opdef.StepRatio(y, z))
		},
	}.Entry(),
	opdef.Binary{
		Name:    "copysign",
		Traits:  opdef.Traits{InPlace: true},
		ToFloat: true, TensorSelf: true,
		Error: elements.MovedError, // broadcast
		Doc:   opdef.Doc{Summary: "Magnitude of self with the sign of other", Formula: "|self| * sign(other)"},
		F:     math.Copysign,
		DF: func(x, _, z float64) (float64, float64) {
			if x == 0 {
				return 0, 0
			}
			return z / x, 0
		},
	}.Entry().AsSigned(),
	opdef.Binary{
		Name: "logaddexp", Error: elements.ElementwiseError,
		Doc:       opdef.Doc{Summary: "Logarithm of the sum of exponentials", Formula: "ln(e**self + e**other)"},
		NoNumbers: true,
		F:         func(x, y float64) float64 { return logAddExp(x, y, 1) },
		C:         kernel.LogAddExpC,
		DF:        func(x, y, _ float64) (float64, float64) { return 1 / (1 + math.Exp(y-x)), 1 / (1 + math.Exp(x-y)) },
		DC: func(x, y, _ complex128) (complex128, complex128) {
			return kernel.Reciprocal(1 + cmplx.Exp(y-x)), kernel.Reciprocal(1 + cmplx.Exp(x-y))
		},
		DS: func(x, y, _ float64) (float64, float64) { // the difference is rounded
			d := 1 + kernel.FiniteAbs(x-y)
			return d / (1 + math.Exp(y-x)), d / (1 + math.Exp(x-y))
		},
		S: func(x, y, _ float64) float64 { return finiteMax(x, y) },
		SC: func(x, y, z complex128) float64 { // the sum of exponentials cancels
			return cmplx.Abs(z) + (1+cmplx.Abs(x-y))*math.Exp(logAddExp(real(x), real(y), 1)-real(z))
		},
		Steps: logAddExpSteps(math.Exp),
	}.Entry(),
	opdef.Binary{
		Name: "logaddexp2", Error: elements.ElementwiseError,
		Doc:       opdef.Doc{Summary: "Logarithm of the sum of powers, to base 2", Formula: "log2(2**self + 2**other)"},
		NoNumbers: true,
		F:         func(x, y float64) float64 { return logAddExp(x, y, math.Ln2) },
		DF: func(x, y, _ float64) (float64, float64) {
			return 1 / (1 + math.Exp2(y-x)), 1 / (1 + math.Exp2(x-y))
		},
		DS: func(x, y, _ float64) (float64, float64) { // the difference is rounded
			d := 1 + kernel.FiniteAbs(x-y)
			return d / (1 + math.Exp2(y-x)), d / (1 + math.Exp2(x-y))
		},
		S:     func(x, y, _ float64) float64 { return finiteMax(x, y) },
		Steps: logAddExpSteps(math.Exp2),
	}.Entry(),
	opdef.Binary{
		Name: "xlogy", Names: "xlogy special.xlogy Tensor.xlogy",
		Traits:  opdef.Traits{InPlace: true},
		ToFloat: true,
		Error:   opdef.Error{Class: opdef.Elementwise, Shared: true},
		Lo:      0.3, Hi: 3,
		Doc: opdef.Doc{Summary: "Product with a logarithm", Formula: "self * ln(other), 0 where self is 0"},
		F: func(x, y float64) float64 {
			if x == 0 && y == y {
				return 0
			}
			return x * math.Log(y)
		},
		DF: func(x, y, _ float64) (float64, float64) {
			if x == 0 && y <= 0 {
				return 0, x / y
			}
			return math.Log(y), x / y
		},
		Steps: func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
			return nil, opdef.StepRatio(opdef.StepProduct(up, x), y)
		},
	}.Entry(),
	opdef.Binary{
		Name: "special_xlog1py", Names: "special.xlog1py", ToFloat: true,
		Error: opdef.Error{Class: opdef.Elementwise, Shared: true},
		Lo:    0.3, Hi: 3,
		Doc: opdef.Doc{Summary: "Product with a logarithm of one plus a number",
			Formula: "self * ln(1 + other), 0 where self is 0"},
		F: func(x, y float64) float64 {
			if x == 0 && y == y {
				return 0
			}
			return x * math.Log1p(y)
		},
		DF: func(x, y, _ float64) (float64, float64) {
			if x == 0 && y <= -1 {
				return 0, x / (y + 1)
			}
			return math.Log1p(y), x / (y + 1)
		},
		Steps: func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
			return nil, opdef.StepRatio(opdef.StepProduct(up, x), opdef.StepSum(y, tensor.Wrap(int64(1))))
		},
	}.Entry(),
	opdef.Planned[*opdef.BinaryArgs, *ldexp]{
		Schema: "ldexp(Tensor self, Tensor other) -> Tensor",
		Traits: opdef.Traits{InPlace: true, Composite: true},

		Doc:   opdef.Doc{Summary: "Product with a power of two", Formula: "self * 2**other"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Plan:  func(a *opdef.BinaryArgs) (*ldexp, error) { return (*ldexp)(a), nil },
		Kernel: func(a *ldexp) ([]*tensor.Tensor, error) {
			dt := a.dtype()
			if dt == tensor.Invalid {
				return nil, opdef.Refuse("other", "no common dtype for %s and %s", a.Self.DType, a.Other.DType)
			}
			t, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * kernel.PowC(2, v[1]) },
				func(v []float64) float64 { return v[0] * math.Exp2(v[1]) }, a.Self, a.Other)
			return []*tensor.Tensor{t}, err
		},
		Grad: func(a *ldexp, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g, false) },
		Bounds: opdef.Bounds[*ldexp]{
			Scale: func(a *ldexp, outs []*tensor.Tensor) []*tensor.Tensor { // the power is of other's dtype
				return []*tensor.Tensor{elements.Scaled(opdef.Abs(outs[0]).WithDType(tensor.Float64),
					elements.Coarseness(outs[0].DType, a.Other))}
			},
			GradScale: func(a *ldexp, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return a.grad(g, true)
			},
		},
		Exempt: map[string]string{"dtypes": "the power of an integer exponent was float32 in torch before 2.15"},
		Cases: opdef.Calls[opdef.BinaryArgs](`
			f64[3, 4], f64[4]; f32[5], i32[5]{-3..3}; i32[5]{-3..3}, i32[5]{-3..3}; bf16[0, 2], bf16[2]
			c128[3], f64[3]`),
	}.Entry(),
	opdef.Op[heavisideArgs]{
		Schema: "heaviside(Tensor self, Tensor values) -> Tensor",
		Traits: opdef.Traits{InPlace: true, NoGrad: "torch defines none", Trivial: true},
		Doc: opdef.Doc{Summary: "Step function",
			Formula: "0 where self < 0, values where self = 0, 1 where self > 0"},
		Error: elements.ExactError,
		Kernel: func(a *heavisideArgs) ([]*tensor.Tensor, error) {
			x, y := a.Self, a.Values
			if x.DType != y.DType || x.DType.IsComplex() {
				return nil, opdef.Refuse("values", "want the dtype of self and no complex one, got %s and %s",
					x.DType, y.DType)
			}
			ts, shape, err := opdef.BroadcastAll(x, y)
			if err != nil {
				return nil, err
			}
			if x.DType.IsFloat() {
				return elements.Result(step[float64](x.DType, shape, ts))
			}
			return elements.Result(step[int64](x.DType, shape, ts))
		},
		Cases: opdef.Calls[heavisideArgs](`
			f64[3, 4], f64[4]; f32[3]{full 0}, f32[3]; i32[6]{-1..1}, i32[6]{-5..5}; f32[0, 2], f32[2]`),
	}.Entry(),
	opdef.Op[opdef.BinaryArgs]{
		Schema: "nextafter(Tensor self, Tensor other) -> Tensor",
		Traits: opdef.Traits{InPlace: true, NoGrad: "not differentiable"},
		Doc:    opdef.Doc{Summary: "Next value of the dtype in the direction of other"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.BinaryArgs) ([]*tensor.Tensor, error) {
			dt, xy, err := opdef.Common(a.Self, a.Other)
			if err != nil {
				return nil, err
			}
			if !dt.IsFloat() {
				return nil, opdef.Refuse("self", "want floating tensors, got dtype %s", dt)
			}
			if xy, _, err = opdef.BroadcastAll(xy...); err != nil {
				return nil, err
			}
			return elements.Result(opdef.Zip(dt, xy[0], xy[1],
				func(x, y float64) float64 { return nextAfter(dt, x, y) }))
		},
		Exempt: map[string]string{"dtypes": "the result is the neighbour in the dtype"},
		Cases: func(g opdef.Gen) []*opdef.BinaryArgs {
			odd := tensor.New(tensor.Float32, []int{6}, []float64{0, 1, -1, math.Inf(1), math.NaN(), math.MaxFloat32})
			to := tensor.New(tensor.Float32, []int{6}, []float64{1, 0, 0, 0, 0, math.Inf(1)})
			return []*opdef.BinaryArgs{
				{Self: g.Normal(tensor.Float64, 3, 4), Other: g.Normal(tensor.Float64, 4)}, {Self: odd, Other: to},
				{Self: g.Normal(tensor.BFloat16, 6), Other: g.Normal(tensor.BFloat16, 6)},
				{Self: g.Normal(tensor.Float32, 0, 2), Other: g.Normal(tensor.Float32, 2)},
			}
		},
	}.Entry(),
	opdef.Op[frexpArgs]{
		Schema: "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
		Doc: opdef.Doc{Summary: "Mantissa and exponent",
			Formula: "self = mantissa * 2**exponent, 0.5 <= |mantissa| < 1"},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Kernel: func(a *frexpArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsFloat() {
				return nil, opdef.Refuse("self", "want a floating tensor, got dtype %s", a.Self.DType)
			}
			return []*tensor.Tensor{
				opdef.Map(a.Self.DType, a.Self, func(x float64) float64 { m, _ := math.Frexp(x); return m }),
				opdef.Map(tensor.Int32, a.Self, func(x float64) int64 {
					if !elements.IsFinite(x) {
						return 0
					}
					_, e := math.Frexp(x)
					return int64(e)
				}),
			}, nil
		},
		Grad: func(a *frexpArgs, g *opdef.Grad) (opdef.Grads, error) {
			if g.Out[0] == nil {
				return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}}, nil
			}
			return opdef.Grads{"self": {opdef.Zip(a.Self.DType, g.Out[0], a.Self, func(gi, x float64) float64 {
				if !elements.IsFinite(x) {
					return gi
				}
				_, e := math.Frexp(x)
				return math.Ldexp(gi, -e)
			})}}, nil
		},
		Cases: opdef.Calls[frexpArgs](`
			f64[3, 4]{apart -1 -0.5 0 0.5 1}
			for T in f32 bf16: T[5]{apart -1 -0.5 0 0.5 1}
			f32[0]`),
	}.Entry(),
}

// logAddExpSteps are the gradients of the logarithm of a sum of powers.
func logAddExpSteps(power func(x float64) float64) opdef.BinarySteps {
	return func(up, x, y, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
		share := func(x, y *tensor.Tensor) *tensor.Tensor {
			apart := opdef.FloatStep(func(v []float64) float64 { return power(v[0]) }, opdef.StepDifference(y, x))
			return opdef.StepRatio(up, opdef.StepSum(tensor.Wrap(int64(1)), apart))
		}
		return share(x, y), share(y, x)
	}
}

type heavisideArgs struct{ Self, Values *tensor.Tensor }

type frexpArgs struct{ Self *tensor.Tensor }

// logAddExp is the logarithm, to the base whose natural logarithm is ln, of
// the sum of two powers of it.
func logAddExp(x, y, ln float64) float64 {
	if math.IsInf(x, 0) && x == y {
		return x
	}
	return max(x, y) + math.Log1p(math.Exp(-math.Abs(x-y)*ln))/ln
}

func finiteMax(x, y float64) float64 {
	s := 0.0
	for _, v := range []float64{x, y} {
		if elements.IsFinite(v) {
			s = math.Max(s, math.Abs(v))
		}
	}
	return s
}

// An ldexp is a product with a power of two.
type ldexp opdef.BinaryArgs

// dtype is that of the product with pow(2.0, other), which torch computes.
func (a *ldexp) dtype() tensor.DType {
	factor := a.Other.DType
	if factor.Kind() < tensor.KindFloat {
		factor = tensor.DefaultDType
	}
	return tensor.ResultType(a.Self, &tensor.Tensor{DType: factor, Shape: a.Other.Shape})
}

// OtherDType is that of self: newer versions of torch have a kernel for floating numbers and whole exponents.
func (a *ldexp) OtherDType(int) tensor.DType {
	if a.Self.DType.IsFloat() && a.Other.DType.IsIntegral() {
		return a.Self.DType
	}
	return tensor.Invalid
}

// Else is the product with the power rounded to its own dtype.
func (a *ldexp) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	if t := opdef.StepProduct(a.Self, a.power()); t != nil {
		return [][]*tensor.Tensor{{t}}
	}
	return nil
}

// GradElse are the gradients with that power.
func (a *ldexp) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	steps := opdef.BinarySteps(func(up, x, _, _ *tensor.Tensor) (dx, dy *tensor.Tensor) {
		p := a.power()
		return opdef.StepProduct(up, p),
			opdef.StepProduct(opdef.StepProduct(up, x), opdef.StepProduct(p, tensor.Wrap(math.Ln2)))
	})
	return steps.Else(a.Self, a.Other, "self", "other", g), nil
}

func (a *ldexp) power() *tensor.Tensor {
	return opdef.FloatStep(func(v []float64) float64 { return math.Exp2(v[0]) }, a.Other)
}

func (a *ldexp) grad(g *opdef.Grad, magnitude bool) (opdef.Grads, error) {
	dt := g.Out[0].DType
	gx, err := elements.MapN(dt, func(v []complex128) complex128 { return v[0] * cmplx.Conj(kernel.PowC(2, v[1])) },
		func(v []float64) float64 { return v[0] * math.Exp2(v[1]) }, g.Out[0], a.Other)
	if err != nil {
		return nil, err
	}
	gy, err := elements.MapN(dt,
		func(v []complex128) complex128 { return v[0] * cmplx.Conj(v[1]*kernel.PowC(2, v[2])*math.Ln2) },
		func(v []float64) float64 { return v[0] * v[1] * (math.Exp2(v[2]) * math.Ln2) }, g.Out[0], a.Self, a.Other)
	if err != nil {
		return nil, err
	}
	if magnitude {
		gx = elements.Scaled(opdef.Abs(gx), elements.Coarseness(a.Self.DType, a.Other))
		gy = elements.Scaled(opdef.Abs(gy), elements.Coarseness(a.Other.DType, a.Self))
	}
	return opdef.Grads{"self": {opdef.SumTo(gx, a.Self.Shape)}, "other": {opdef.SumTo(gy, a.Other.Shape)}}, nil
}

func step[T float64 | int64](dt tensor.DType, shape []int, ts []*tensor.Tensor) *tensor.Tensor {
	return elements.ZipEach(dt, shape, func(v []T) T {
		switch x := v[0]; {
		case x == 0:
			return v[1]
		case x < 0:
			return 0
		case x == x:
			return 1
		}
		return 0
	}, ts)
}

// nextAfter is the neighbour of x in dt towards y.
func nextAfter(dt tensor.DType, x, y float64) float64 {
	switch {
	case dt.MantissaBits() == tensor.Float64.MantissaBits():
		return math.Nextafter(x, y)
	case x != x || y != y:
		return math.NaN()
	case x == y:
		return y
	case x == 0:
		return math.Copysign(dt.ULP(0), y)
	case math.IsInf(x, 0):
		return math.Copysign(dt.Max(), x)
	}
	m, away := math.Abs(x), (y > x) == (x > 0)
	u := dt.ULP(m)
	if away {
		if m += u; m > dt.Max() {
			m = math.Inf(1)
		}
		return math.Copysign(m, x)
	}
	if half := m - u/2; dt.Round(half) == half { // below a power of two the spacing halves
		return math.Copysign(half, x)
	}
	return math.Copysign(m-u, x)
}
