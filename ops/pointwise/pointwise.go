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

func zeroSlope(float64, float64) float64 { return 0 }

func unitSlope(float64, float64) float64 { return 1 }

var integers = []float64{-3, -2, -1, 0, 1, 2, 3}

// Functions of one element that are steps of compositions too.
var (
	Neg = opdef.Unary{
		Name: "neg", Names: "neg negative Tensor.neg Tensor.negative Tensor.__neg__",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError,
		NoBool: true,
		Doc:    opdef.Doc{Summary: "Negation", Formula: "-self"},
		F:      func(x float64) float64 { return -x },
		C:      func(x complex128) complex128 { return -x },
		I:      func(x int64) int64 { return -x },
		DF:     func(_, _ float64) float64 { return -1 },
		DC:     func(_, _ complex128) complex128 { return -1 },
	}
	Sign = opdef.Unary{
		Name:   "sign",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError,
		Doc:    opdef.Doc{Summary: "Sign", Formula: "-1, 0 or 1", Notes: "The sign of NaN is 0."},
		F:      kernel.Sign,
		I:      func(x int64) int64 { return int64(kernel.Sign(float64(x))) },
		DF:     zeroSlope,
		Kinks:  []float64{0},
	}
	Ceil = opdef.Unary{
		Name:   "ceil",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError, NoBool: true, Kinks: integers,
		Doc: opdef.Doc{Summary: "Smallest integer not less than each element", Formula: "ceil(self)"},
		F:   math.Ceil, I: func(x int64) int64 { return x }, DF: zeroSlope,
	}
	Floor = opdef.Unary{
		Name:   "floor",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError, NoBool: true, Kinks: integers,
		Doc: opdef.Doc{Summary: "Largest integer not greater than each element", Formula: "floor(self)"},
		F:   math.Floor, I: func(x int64) int64 { return x }, DF: zeroSlope,
	}
	Trunc = opdef.Unary{
		Name: "trunc", Names: "trunc fix Tensor.trunc Tensor.fix",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError,
		NoBool: true,
		Kinks:  integers,
		Doc:    opdef.Doc{Summary: "Integer part", Formula: "trunc(self)"},
		F:      math.Trunc, I: func(x int64) int64 { return x }, DF: zeroSlope,
	}
	Reciprocal = opdef.Unary{
		Name:   "reciprocal",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error: opdef.Error{Class: opdef.Rounded,
			Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 6}}, Saved: true,
		Kinks: []float64{0},
		Doc:   opdef.Doc{Summary: "Reciprocal", Formula: "1 / self"},
		F:     func(x float64) float64 { return 1 / x },
		C:     kernel.Reciprocal,
		Steps: func(g, _, y float64, r func(float64) float64) float64 { return r(-g * r(y*y)) },
		DF:    func(_, y float64) float64 { return -y * y },
		DC:    func(_, y complex128) complex128 { return -y * y },
	}
	Sqrt = opdef.Unary{
		Name:   "sqrt",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.RoundedError, Saved: true, Lo: 0.2, Hi: 4,
		Doc:   opdef.Doc{Summary: "Square root", Formula: "sqrt(self)"},
		F:     math.Sqrt,
		Block: vmath.Sqrt, C: cmplx.Sqrt,
		DF: func(_, y float64) float64 { return 1 / (2 * y) },
		DC: func(_, y complex128) complex128 { return kernel.Reciprocal(2 * y) },
	}
	Rsqrt = opdef.Unary{
		// The result's own error of 2 ulp counts three times in the gradient.
		Name:   "rsqrt",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error: opdef.Error{Class: opdef.Rounded, ULPs: 2,
			Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 10}}, Saved: true,
		Lo: 0.2, Hi: 4,
		Doc:   opdef.Doc{Summary: "Reciprocal of the square root", Formula: "1 / sqrt(self)"},
		F:     func(x float64) float64 { return 1 / math.Sqrt(x) },
		C:     func(x complex128) complex128 { return kernel.Reciprocal(cmplx.Sqrt(x)) },
		Steps: func(g, _, y float64, r func(float64) float64) float64 { return r(r(-0.5*g) * r(y*y*y)) },
		DF:    func(_, y float64) float64 { return -0.5 * y * y * y },
		DC:    func(_, y complex128) complex128 { return -0.5 * y * y * y },
	}
	Exp = opdef.Unary{
		Name:   "exp",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError, Saved: true,
		Doc:   opdef.Doc{Summary: "Exponential", Formula: "e**self", Notes: annexG},
		F:     math.Exp,
		Block: vmath.Exp, C: kernel.CExp,
		DF: func(_, y float64) float64 { return y },
		DC: func(_, y complex128) complex128 { return y },
	}
	Expm1 = opdef.Unary{
		Name: "expm1", Names: "expm1 special.expm1 Tensor.expm1",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Saved:  true,
		Doc:    opdef.Doc{Summary: "Exponential minus one", Formula: "e**self - 1"},
		F:      math.Expm1,
		Block:  vmath.Expm1, C: kernel.Expm1,
		DF: func(_, y float64) float64 { return y + 1 },
		DC: func(_, y complex128) complex128 { return y + 1 },
		DS: func(_, y float64) float64 { return math.Abs(y) + 1 },
	}
	Log = opdef.Unary{
		Name:   "log",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError, Lo: 0.2, Hi: 4,
		Doc:   opdef.Doc{Summary: "Natural logarithm", Formula: "ln(self)"},
		F:     math.Log,
		Block: vmath.Log, C: kernel.CLog,
		DF: func(x, _ float64) float64 { return 1 / x },
		DC: func(x, _ complex128) complex128 { return kernel.Reciprocal(x) },
	}
	Log1p = opdef.Unary{
		Name: "log1p", Names: "log1p special.log1p Tensor.log1p",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Lo:     -0.8, Hi: 4,
		Doc:   opdef.Doc{Summary: "Natural logarithm of one plus each element", Formula: "ln(1 + self)"},
		F:     math.Log1p,
		Block: vmath.Log1p, C: kernel.Log1p,
		DF: func(x, _ float64) float64 { return 1 / (x + 1) },
		DC: func(x, _ complex128) complex128 { return kernel.Reciprocal(x + 1) },
	}
	Sigmoid = opdef.Unary{
		Name: "sigmoid", Names: "sigmoid special.expit Tensor.sigmoid F.sigmoid",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Saved:  true,
		Doc:    opdef.Doc{Summary: "Logistic function", Formula: "1 / (1 + exp(-self))"},
		F:      kernel.Sigmoid,
		Block:  vmath.Sigmoid,
		C:      func(x complex128) complex128 { return kernel.Reciprocal(1 + kernel.CExp(-x)) },
		DF:     func(_, y float64) float64 { return y * (1 - y) },
		DC:     func(_, y complex128) complex128 { return y * (1 - y) },
		DS:     func(_, y float64) float64 { return y * (1 + y) },
	}
)

// pointwiseOps are functions of one tensor, element by element.
var pointwiseOps = []*opdef.Entry{
	opdef.Planned[*opdef.UnaryArgs, *magnitude]{
		Schema: "abs(Tensor self) -> Tensor", Names: "abs absolute Tensor.abs Tensor.absolute Tensor.__abs__",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Magnitude", Formula: "|self|",
			Notes: "Complex input gives the real dtype; one infinite part makes it +Inf, where torch 1 has NaN if " +
				"the other is NaN. The subgradient at 0 is 0."},
		Error:  opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Plan:   func(a *opdef.UnaryArgs) (*magnitude, error) { return (*magnitude)(a), nil },
		Kernel: func(a *magnitude) ([]*tensor.Tensor, error) { return absolute(a.Self) },
		Grad: func(a *magnitude, g *opdef.Grad) (opdef.Grads, error) {
			gr := opdef.Grads{}
			if !a.Self.DType.IsComplex() {
				gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Self,
					func(gi, x float64) float64 { return gi * kernel.Sign(x) }))
				return gr, nil
			}
			gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Self,
				func(gi, x complex128) complex128 { return gi * kernel.SignC(x) }))
			return gr, nil
		},
		Cases: elements.CasesAwayFromZero,
	}.Entry().AsMoving(),
	Neg.Entry().AsMoving(),
	opdef.Unary{
		Name: "positive", Names: "positive Tensor.positive Tensor.__pos__", Error: elements.ExactError, NoBool: true,
		Doc: opdef.Doc{Summary: "The tensor itself", Formula: "self"},
		F:   func(x float64) float64 { return x },
		C:   func(x complex128) complex128 { return x },
		I:   func(x int64) int64 { return x },
		DF:  unitSlope,
		DC:  func(_, _ complex128) complex128 { return 1 },
	}.Entry().AsMoving(),
	Sign.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "sgn(Tensor self) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Sign, for complex numbers the direction", Formula: "self / |self|, 0 at 0"},
		Error:  opdef.Error{Class: opdef.Rounded, ULPs: 4, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			x := a.Self
			switch x.DType.Kind() {
			case tensor.KindComplex:
				return elements.Result(opdef.Map(x.DType, x, kernel.SignC))
			case tensor.KindFloat:
				return elements.Result(opdef.Map(x.DType, x, kernel.Sign))
			}
			return elements.Result(opdef.Map(x.DType, x, func(x int64) int64 { return int64(kernel.Sign(float64(x))) }))
		},
		Grad: sgnGrad,
		Bounds: opdef.Bounds[*opdef.UnaryArgs]{
			GradScale: func(a *opdef.UnaryArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return opdef.Grads{"self": {opdef.Zip(tensor.Float64, opdef.Abs(g.Out[0]), opdef.Abs(a.Self),
					func(gi, r float64) float64 {
						if !a.Self.DType.IsComplex() || r == 0 {
							return 0
						}
						return gi / r
					})}}, nil
			},
		},
		Cases: elements.CasesAwayFromZero,
	}.Entry(),
	Ceil.Entry().AsSigned(),
	Floor.Entry().AsSigned().WithTakenFor("torch.trunc"),
	Trunc.Entry().AsSigned().WithTakenFor("torch.floor"),
	opdef.Unary{
		Name:   "frac",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ExactError, NoInts: true, Kinks: integers,
		Doc: opdef.Doc{Summary: "Fractional part", Formula: "self - trunc(self)"},
		F:   func(x float64) float64 { return x - math.Trunc(x) },
		DF:  unitSlope,
	}.Entry(),
	opdef.Pointwise[RoundArgs]{
		Schema: "round(Tensor self, *, int decimals=0) -> Tensor", Names: "round special.round Tensor.round",
		Traits: opdef.Traits{InPlace: true},
		NoBool: true,
		Doc: opdef.Doc{Summary: "Nearest number with so many decimals, ties to even",
			Formula: "rint(self*10^decimals) / 10^decimals",
			Notes: "The product and the quotient are rounded to the dtype (float32 at least), as torch does: " +
				"decimals=2 of 2.675 is 2.68 in float32."},
		Error: opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Exact}},
		Self:  func(a *RoundArgs) *tensor.Tensor { return a.Self },
		Check: func(a *RoundArgs) error {
			if a.Decimals != 0 && !a.Self.DType.IsFloat() {
				return opdef.Refuse("decimals", "want 0 for dtype %s, got %d", a.Self.DType, a.Decimals)
			}
			return nil
		},
		F: func(a *RoundArgs) func(float64) float64 {
			if a.Decimals == 0 {
				return math.RoundToEven
			}
			p := math.Pow(10, math.Abs(float64(a.Decimals)))
			if a.Decimals < 0 {
				return func(x float64) float64 { return math.RoundToEven(a.Self.DType.Round(x/p)) * p }
			}
			return func(x float64) float64 { return math.RoundToEven(a.Self.DType.Round(x*p)) / p }
		},
		I:  func(*RoundArgs) func(int64) int64 { return func(x int64) int64 { return x } },
		DF: func(*RoundArgs) func(x, y float64) float64 { return zeroSlope },
		Cases: opdef.Calls[RoundArgs](`
			f64[3, 4]{apart -2.5 -1.5 -0.5 0.5 1.5 2.5 -3 -2 -1 0 1 2 3}
			for T in f32 bf16: T[5]{apart -2.5 -1.5 -0.5 0.5 1.5 2.5 -3 -2 -1 0 1 2 3}
			f32[0, 3]; f32[4], decimals=2; f32[4], decimals=-1; i32[4]{-4..4}; f32[6]{= -1.5 -0.5 0.5 1.5 2.5 NaN}`),
		Exempt: map[string]string{"dtypes": "the scaled value is rounded to the dtype"},
	}.Entry().AsSigned().WithTakenFor("torch.trunc"),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "square(Tensor self) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Square", Formula: "self**2"},
		Error:  opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Elementwise}},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			x := a.Self
			switch x.DType.Kind() {
			case tensor.KindComplex:
				return elements.Result(opdef.Map(x.DType, x, func(x complex128) complex128 { return x * x }))
			case tensor.KindFloat:
				return elements.Result(opdef.Map(x.DType, x, func(x float64) float64 { return x * x }))
			case tensor.KindBool: // pow by the int 2 promotes
				return elements.Result(opdef.Map(tensor.Int64, x, func(x int64) int64 { return x }))
			}
			return elements.Result(opdef.Map(x.DType, x, func(x int64) int64 { return x * x }))
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr := opdef.Grads{}
			if a.Self.DType.IsComplex() {
				gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Self,
					func(gi, x complex128) complex128 { return 2 * gi * cmplx.Conj(x) }))
				return gr, nil
			}
			gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Self, func(gi, x float64) float64 { return 2 * gi * x }))
			return gr, nil
		},
		Bounds: opdef.Bounds[*opdef.UnaryArgs]{
			Scale:     complexScale,
			GradScale: elements.ComplexGradScale,
		},
		Cases: elements.CasesAwayFromZero,
	}.Entry().AsSigned(),
	Reciprocal.Entry().AsSigned(),
	Sqrt.Entry().AsSigned().WithTakenFor("torch.rsqrt"),
	Rsqrt.Entry().WithTakenFor("torch.sqrt"),
	Exp.Entry().WithTakenFor("torch.exp2"),
	opdef.Unary{
		Name: "exp2", Names: "exp2 special.exp2 Tensor.exp2",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Saved:  true,
		Doc:    opdef.Doc{Summary: "Power of two", Formula: "2**self"},
		F:      math.Exp2, C: kernel.CExp2,
		DF: func(_, y float64) float64 { return y * math.Ln2 },
		DC: func(_, y complex128) complex128 { return y * math.Ln2 },
		// the product with ln(2) is rounded
		SC: func(x, y complex128) float64 { return cmplx.Abs(y) * (1 + cmplx.Abs(x)) },
	}.Entry().WithTakenFor("torch.exp"),
	Expm1.Entry().WithTakenFor("torch.exp"),
	Log.Entry().WithTakenFor("torch.log2"),
	opdef.Unary{
		Name:   "log2",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError, Lo: 0.2, Hi: 4,
		Doc: opdef.Doc{Summary: "Logarithm to base 2", Formula: "log2(self)"},
		F:   kernel.Log2, C: func(x complex128) complex128 { return logC(x, math.Ln2) },
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g / r(x*math.Ln2)) },
		DF:    func(x, _ float64) float64 { return 1 / (x * math.Ln2) },
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(x * math.Ln2) },
	}.Entry().WithTakenFor("torch.log"),
	opdef.Unary{
		Name:   "log10",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError, Lo: 0.2, Hi: 4,
		Doc:   opdef.Doc{Summary: "Logarithm to base 10", Formula: "log10(self)"},
		F:     kernel.Log10,
		C:     func(x complex128) complex128 { return logC(x, math.Ln10) },
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g / r(x*math.Ln10)) },
		DF:    func(x, _ float64) float64 { return 1 / (x * math.Ln10) },
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(x * math.Ln10) },
	}.Entry(),
	Log1p.Entry().WithTakenFor("torch.log"),
	Sigmoid.Entry().WithTakenFor("torch.nn.functional.hardsigmoid"),
	opdef.Unary{
		Name:   "deg2rad",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.RoundedError,
		Doc:    opdef.Doc{Summary: "Degrees to radians", Formula: "self * pi/180"},
		F:      func(x float64) float64 { return x * (math.Pi / 180) },
		DF:     func(_, _ float64) float64 { return math.Pi / 180 },
	}.Entry().AsSigned(),
	opdef.Unary{
		Name:   "rad2deg",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.RoundedError,
		Doc:    opdef.Doc{Summary: "Radians to degrees", Formula: "self * 180/pi"},
		F:      func(x float64) float64 { return x * (180 / math.Pi) },
		DF:     func(_, _ float64) float64 { return 180 / math.Pi },
	}.Entry().AsSigned(),
	opdef.Pointwise[nanToNumArgs]{
		Schema: "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Replaces NaN and infinities by numbers",
			Formula: "nan, posinf, neginf where self is NaN, +Inf, -Inf; self elsewhere",
			Notes:   "Defaults: 0, the largest and the smallest finite value of the dtype. Of complex numbers each part."},
		Error: elements.ExactError,
		Self:  func(a *nanToNumArgs) *tensor.Tensor { return a.Self },
		F:     (*nanToNumArgs).number,
		C: func(a *nanToNumArgs) func(complex128) complex128 {
			part := a.number()
			return func(z complex128) complex128 { return complex(part(real(z)), part(imag(z))) }
		},
		I: func(*nanToNumArgs) func(int64) int64 { return func(x int64) int64 { return x } },
		DF: func(*nanToNumArgs) func(x, y float64) float64 {
			return func(x, _ float64) float64 {
				if x-x != 0 {
					return 0
				}
				return 1
			}
		},
		DC: func(*nanToNumArgs) func(x, y complex128) complex128 {
			return func(z, _ complex128) complex128 {
				if cmplx.IsNaN(z) || cmplx.IsInf(z) {
					return 0
				}
				return 1
			}
		},
		Exempt: map[string]string{"dtypes": "infinities become the largest value of the dtype"},
		Cases: func(g opdef.Gen) []*nanToNumArgs {
			odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1.5}
			k := 7.5
			return []*nanToNumArgs{
				{Self: g.Normal(tensor.Float64, 3, 4)}, {Self: tensor.New(tensor.Float32, []int{5}, odd)},
				{tensor.New(tensor.Float16, []int{5}, odd), &k, &k, &k}, {Self: g.Int(tensor.Int32, -4, 4, 4)},
				{Self: g.Normal(tensor.Float32, 0, 2)}, {Self: g.Normal(tensor.Complex128, 3)},
				{Self: tensor.New(tensor.Complex64, []int{3}, []complex128{complex(odd[0], 1), complex(2, odd[2]), 3i}),
					Nan: &k},
			}
		},
	}.Entry(),
}

// A magnitude is a call of abs.
type magnitude opdef.UnaryArgs

// ErrorOf is that of a root of a sum of squares for complex numbers.
func (a *magnitude) ErrorOf() opdef.Error {
	if a.Self.DType.IsComplex() { // the root of a sum of squares
		return opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise}}
	}
	return elements.ExactError
}

// number is the function of one real number.
func (a *nanToNumArgs) number() func(float64) float64 {
	dt := a.Self.DType.Real()
	nan, pos, neg := elements.OrElse(a.Nan, 0), elements.OrElse(a.Posinf, dt.Max()), elements.OrElse(a.Neginf, dt.Min())
	return func(x float64) float64 {
		switch {
		case x != x:
			return nan
		case math.IsInf(x, 1):
			return pos
		case math.IsInf(x, -1):
			return neg
		}
		return x
	}
}

// RoundArgs are the arguments of round.
type RoundArgs struct {
	Self     *tensor.Tensor
	Decimals int
}

type nanToNumArgs struct {
	Self                *tensor.Tensor
	Nan, Posinf, Neginf *float64
}

func absolute(x *tensor.Tensor) ([]*tensor.Tensor, error) {
	if x.DType == tensor.Bool {
		return nil, opdef.Refuse("self", "not defined for dtype bool")
	}
	return elements.Result(opdef.Abs(x))
}

// sgnGrad: the direction of a complex number does not change along itself.
func sgnGrad(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
	gr := opdef.Grads{}
	if !a.Self.DType.IsComplex() {
		gr.Set("self", tensor.Full(a.Self.DType, a.Self.Shape, 0.0))
		return gr, nil
	}
	gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Self, func(gi, x complex128) complex128 {
		if x == 0 {
			return 0
		}
		r, s := complex(cmplx.Abs(x), 0), kernel.SignC(x)
		return (gi - complex(real(gi*cmplx.Conj(s)), 0)*s) / r
	}))
	return gr, nil
}

// logC is the logarithm to the base whose natural logarithm is ln.
func logC(x complex128, ln float64) complex128 {
	y := kernel.CLog(x)
	return complex(real(y)/ln, imag(y)/ln)
}

// complexScale is the magnitude of complex results, whose parts are only as
// exact as that, and 0 for real ones.
func complexScale(_ *opdef.UnaryArgs, outs []*tensor.Tensor) []*tensor.Tensor {
	return []*tensor.Tensor{elements.AbsIfComplex(outs[0])}
}
