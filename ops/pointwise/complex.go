package pointwise

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// complexOps make complex numbers and take them apart.
var complexOps = []*opdef.Entry{
	opdef.Op[complexArgs]{
		Schema: "complex(Tensor real, Tensor imag) -> Tensor", Names: "complex",
		Doc:   opdef.Doc{Summary: "Complex numbers from their parts", Formula: "real + i*imag"},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: func(a *complexArgs) ([]*tensor.Tensor, error) {
			return fromParts(a.Real, a.Imag, "imag", func(x, y float64) complex128 { return complex(x, y) })
		},
		Grad: func(a *complexArgs, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"real": {opdef.SumTo(elements.Real(g.Out[0]), a.Real.Shape)},
				"imag": {opdef.SumTo(elements.Imag(g.Out[0]), a.Imag.Shape)}}, nil
		},
		Bounds: opdef.Bounds[*complexArgs]{
			GradScale: func(a *complexArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return opdef.Grads{"real": {opdef.SumTo(opdef.Abs(elements.Real(g.Out[0])), a.Real.Shape)},
					"imag": {opdef.SumTo(opdef.Abs(elements.Imag(g.Out[0])), a.Imag.Shape)}}, nil
			},
		},
		Cases: opdef.Calls[complexArgs](`f64[3, 4], f64[4]; f32[5], f32[5]; f32[0], f32[0]`),
	}.Entry(),
	opdef.Op[polarArgs]{
		Schema: "polar(Tensor abs, Tensor angle) -> Tensor", Names: "polar",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Complex numbers from magnitude and angle", Formula: "abs * exp(i*angle)",
			Notes: "The gradient of abs is that along the direction of the result, as torch has it: its sign is the " +
				"other for negative abs, and it is 0 for abs 0."},
		Error: elements.ElementwiseError,
		Kernel: func(a *polarArgs) ([]*tensor.Tensor, error) {
			return fromParts(a.Abs, a.Angle, "angle", func(r, phi float64) complex128 {
				s, c := math.Sincos(phi)
				return complex(r*c, r*s)
			})
		},
		Grad: polarGrad,
		Bounds: opdef.Bounds[*polarArgs]{
			Scale: func(_ *polarArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{opdef.Abs(outs[0])}
			},
			GradScale: func(a *polarArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				grown, err := elements.MapN(tensor.Float64, nil, func(v []float64) float64 { return v[0] * v[1] },
					opdef.Abs(g.Out[0]), opdef.Abs(a.Abs))
				if err != nil {
					return nil, err
				}
				return opdef.Grads{"abs": {opdef.SumTo(opdef.Abs(g.Out[0]), a.Abs.Shape)},
					"angle": {opdef.SumTo(grown, a.Angle.Shape)}}, nil
			},
			GradTerms: func(a *polarArgs) int { return 2 * elements.BroadcastTerms(a.Abs, a.Angle) },
		},
		Cases: opdef.Calls[polarArgs](`f64[3, 4]{0.5..2}, f64[4]; f32[5]{0.5..2}, f32[5]; f32[0], f32[0]`),
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "real(Tensor self) -> Tensor", Names: "real Tensor.real Tensor.real.__get__",
		Doc:    opdef.Doc{Summary: "Real part", Formula: "Re(self)", Notes: "A real tensor is returned as it is."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{Uncast: "real"},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsComplex() {
				return elements.Result(a.Self)
			}
			return elements.Result(elements.Real(a.Self))
		},
		Grad:  func(_ *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) { return elements.PassGrad(g) },
		Cases: elements.CasesAwayFromZero,
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "imag(Tensor self) -> Tensor", Names: "imag Tensor.imag Tensor.imag.__get__",
		Doc:    opdef.Doc{Summary: "Imaginary part", Formula: "Im(self)"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{Uncast: "imag"},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsComplex() {
				return nil, opdef.Refuse("self", "want a complex tensor, got %s", a.Self.DType)
			}
			return elements.Result(elements.Imag(a.Self))
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {opdef.Map(a.Self.DType, g.Out[0], func(x float64) complex128 {
				return complex(0, x)
			})}}, nil
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`c128[3, 2]; c64[4]; c64[0]`),
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "conj(Tensor self) -> Tensor", Names: "conj conj_physical Tensor.conj Tensor.conj_physical",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Complex conjugate", Formula: "conj(self)"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return elements.Result(elements.Conj(a.Self)) },
		Grad: func(_ *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {elements.Conj(g.Out[0])}}, nil
		},
		Node: func(a *opdef.UnaryArgs, _ *opdef.Grad) (opdef.Node, error) {
			if !a.Self.DType.IsComplex() {
				return elements.ReturnedArgument, nil
			}
			return opdef.Node{}, nil
		},
		Cases: elements.CasesAwayFromZero,
	}.Entry(),
	opdef.Planned[*opdef.UnaryArgs, *resolving]{
		Schema: "resolve_conj(Tensor self) -> Tensor", Names: "resolve_conj Tensor.resolve_conj",
		Doc: opdef.Doc{Summary: "The same elements without the mark that they are conjugated", Formula: "self",
			Notes: "torch before 2.0 saves arguments without that mark; the conjugate is then right."},
		Error:  elements.ExactError,
		Plan:   func(a *opdef.UnaryArgs) (*resolving, error) { return (*resolving)(a), nil },
		Kernel: func(a *resolving) ([]*tensor.Tensor, error) { return elements.Result(a.Self) },
		Grad: func(_ *resolving, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", g.Out[0]), nil
		},
		Cases: elements.CasesAwayFromZero,
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "angle(Tensor self) -> Tensor",
		Doc: opdef.Doc{Summary: "Angle", Formula: "atan2(Im(self), Re(self))",
			Notes: "pi for negative real numbers; the gradient of real input is 0."},
		Error: elements.ElementwiseError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			x := a.Self
			if x.DType.IsComplex() {
				return elements.Result(opdef.Map(x.DType.Real(), x, kernel.Angle))
			}
			dt := x.DType
			if !dt.IsFloat() {
				dt = tensor.DefaultDType
			}
			return elements.Result(opdef.Map(dt, x, func(x float64) float64 {
				switch {
				case x < 0:
					return math.Pi
				case x != x:
					return x
				}
				return 0
			}))
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			if !a.Self.DType.IsComplex() {
				return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}}, nil
			}
			return opdef.Grads{"self": {opdef.Zip(a.Self.DType, g.Out[0], a.Self, func(gi, z complex128) complex128 {
				if z == 0 {
					return 0
				}
				x, y := real(z), imag(z)
				k := real(gi) / (x*x + y*y)
				return complex(-k*y, k*x)
			})}}, nil
		},
		Bounds: opdef.Bounds[*opdef.UnaryArgs]{GradScale: elements.ComplexGradScale},
		Cases:  elements.CasesAwayFromZero,
	}.Entry(),
}

// A resolving is a call of resolve_conj.
type resolving opdef.UnaryArgs

// Accept takes the conjugate where the mark was not saved.
func (*resolving) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if !want[0].DType.IsComplex() || !slices.Equal(tensor.Data[complex128](got[0]),
		tensor.Data[complex128](elements.Conj(want[0]))) {
		return make([]opdef.Acceptance, 1)
	}
	return []opdef.Acceptance{{OK: true, Rule: "conjugate bit not saved"}}
}

type complexArgs struct{ Real, Imag *tensor.Tensor }

type polarArgs struct{ Abs, Angle *tensor.Tensor }

func fromParts(x, y *tensor.Tensor, arg string, f func(x, y float64) complex128) ([]*tensor.Tensor, error) {
	switch {
	case x.DType != tensor.Float16 && x.DType != tensor.Float32 && x.DType != tensor.Float64:
		return nil, opdef.Refuse("", "want float16, float32 or float64, got %s", x.DType)
	case y.DType != x.DType:
		return nil, opdef.Refuse(arg, "want dtype %s, got %s", x.DType, y.DType)
	}
	ts, shape, err := opdef.BroadcastAll(x, y)
	if err != nil {
		return nil, err
	}
	return elements.Result(elements.ZipEach(x.DType.Complex(), shape,
		func(v []float64) complex128 { return f(v[0], v[1]) }, ts))
}

// polarGrad: d/d|z| is the part along z, d/d angle |z| times the part across.
func polarGrad(a *polarArgs, g *opdef.Grad) (opdef.Grads, error) {
	ts, shape, err := opdef.BroadcastAll(g.Out[0], a.Abs, a.Angle)
	if err != nil {
		return nil, err
	}
	dt := a.Abs.DType
	along := elements.ZipEach(dt, shape,
		func(v []complex128) float64 {
			return real(cmplx.Conj(v[0]) * kernel.SignC(v[1]*cmplx.Rect(1, real(v[2]))))
		}, ts)
	across := elements.ZipEach(dt, shape, func(v []complex128) float64 {
		return real(cmplx.Conj(v[0]) * cmplx.Rect(1, real(v[2])) * complex(0, real(v[1])))
	}, ts)
	return opdef.Grads{"abs": {opdef.SumTo(along, a.Abs.Shape)}, "angle": {opdef.SumTo(across, a.Angle.Shape)}}, nil
}
