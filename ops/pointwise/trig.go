package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
)

// annexG is the note on functions that torch's loops on the CPU compute from
// textbook formulas.
const annexG = "Infinite and NaN complex arguments have the values of C99 Annex G; torch on the CPU has NaN at some " +
	"of them."

// Functions of one element that are steps of compositions too.
var (
	Sin = opdef.Unary{
		Name:   "sin",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Sine", Formula: "sin(self)"},
		F:      kernel.Sin, C: kernel.CSin,
		DF: func(x, _ float64) float64 { return kernel.Cos(x) },
		DC: func(x, _ complex128) complex128 { return kernel.CCos(x) },
	}
	Cos = opdef.Unary{
		Name:   "cos",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Cosine", Formula: "cos(self)"},
		F:      kernel.Cos, C: kernel.CCos,
		DF: func(x, _ float64) float64 { return -kernel.Sin(x) },
		DC: func(x, _ complex128) complex128 { return -kernel.CSin(x) },
	}
	Atan = opdef.Unary{
		Name: "atan", Names: "atan arctan Tensor.atan Tensor.arctan",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Inverse tangent", Formula: "atan(self)", Notes: annexG},
		F:      math.Atan, C: kernel.Atan,
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g / r(r(x*x)+1)) },
		DF:    func(x, _ float64) float64 { return 1 / (x*x + 1) },
		// x*x overflows in float32, which makes the derivative 0
		DS: func(x, _ float64) float64 { return elements.IfElse(math.Abs(x) > 0x1p63, 0x1p-100, 0) },
		DC: func(x, _ complex128) complex128 { return kernel.Reciprocal(x*x + 1) },
	}
	Tanh = opdef.Unary{
		Name: "tanh", Names: "tanh Tensor.tanh F.tanh",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError, Saved: true,
		Doc:   opdef.Doc{Summary: "Hyperbolic tangent", Formula: "tanh(self)"},
		F:     math.Tanh,
		Block: vmath.Tanh, C: kernel.CTanh,
		DF: func(_, y float64) float64 { return 1 - y*y },
		DC: func(_, y complex128) complex128 { return 1 - y*y },
		DS: func(_, y float64) float64 { return 1 + y*y },
	}
)

// trigOps are trigonometric and hyperbolic functions and their inverses.
var trigOps = []*opdef.Entry{
	Sin.Entry().WithTakenFor("torch.cos"),
	Cos.Entry().WithTakenFor("torch.sin"),
	opdef.Unary{
		Name:   "tan",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError, Saved: true,
		Lo: -1.2, Hi: 1.2,
		Doc: opdef.Doc{Summary: "Tangent", Formula: "tan(self)"},
		F:   kernel.Tan, C: kernel.CTan,
		Steps: func(g, _, y float64, r func(float64) float64) float64 { return r(g * r(1+r(y*y))) },
		DF:    func(_, y float64) float64 { return 1 + y*y },
		DC:    func(_, y complex128) complex128 { return 1 + y*y },
		DS:    func(_, y float64) float64 { return 1 + y*y },
	}.Entry(),
	opdef.Unary{
		Name: "asin", Names: "asin arcsin Tensor.asin Tensor.arcsin",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Lo:     -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse sine", Formula: "asin(self)", Notes: annexG},
		F:   kernel.Arcsin, C: kernel.Asin,
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g * r(1/math.Sqrt(r(r(-x*x)+1)))) },
		DF:    func(x, _ float64) float64 { return 1 / math.Sqrt((1-x)*(1+x)) },
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(cmplx.Sqrt(1 - x*x)) },
		DS:    func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -1.5) },
	}.Entry(),
	opdef.Unary{
		Name: "acos", Names: "acos arccos Tensor.acos Tensor.arccos",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Lo:     -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse cosine", Formula: "acos(self)"},
		F:   kernel.Arccos, C: kernel.Acos,
		SC:    func(_, y complex128) float64 { return cmplx.Abs(y) + math.Pi/2 }, // torch subtracts the inverse sine
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(-g * r(1/math.Sqrt(r(r(-x*x)+1)))) },
		DF:    func(x, _ float64) float64 { return -1 / math.Sqrt((1-x)*(1+x)) },
		DC:    func(x, _ complex128) complex128 { return -kernel.Reciprocal(cmplx.Sqrt(1 - x*x)) },
		DS:    func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -1.5) },
	}.Entry(),
	Atan.Entry(),
	opdef.Unary{
		Name:   "sinh",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Hyperbolic sine", Formula: "sinh(self)"},
		F:      kernel.Sinh, C: kernel.CSinh,
		DF: func(x, _ float64) float64 { return kernel.Cosh(x) },
		DC: func(x, _ complex128) complex128 { return kernel.CCosh(x) },
	}.Entry(),
	opdef.Unary{
		Name:   "cosh",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Hyperbolic cosine", Formula: "cosh(self)"},
		F:      kernel.Cosh, C: kernel.CCosh,
		DF: func(x, _ float64) float64 { return kernel.Sinh(x) },
		DC: func(x, _ complex128) complex128 { return kernel.CSinh(x) },
	}.Entry(),
	Tanh.Entry().WithTakenFor("torch.nn.functional.hardtanh"),
	opdef.Unary{
		Name: "asinh", Names: "asinh arcsinh Tensor.asinh Tensor.arcsinh",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Doc:    opdef.Doc{Summary: "Inverse hyperbolic sine", Formula: "asinh(self)"},
		F:      math.Asinh, C: kernel.Asinh,
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g * r(1/math.Sqrt(r(r(x*x)+1)))) },
		DF:    func(x, _ float64) float64 { return 1 / math.Sqrt(x*x+1) },
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(cmplx.Sqrt(x*x + 1)) },
		// as above
		DS: func(x, _ float64) float64 { return elements.IfElse(math.Abs(x) > 0x1p63, 0x1p25/math.Abs(x), 0) },
	}.Entry(),
	opdef.Unary{
		Name: "acosh", Names: "acosh arccosh Tensor.acosh Tensor.arccosh",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError, Lo: 1.3, Hi: 4,
		Doc: opdef.Doc{Summary: "Inverse hyperbolic cosine", Formula: "acosh(self)"},
		F:   math.Acosh, C: kernel.Acosh,
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g * r(1/math.Sqrt(r(r(x*x)-1)))) },
		DF:    func(x, _ float64) float64 { return 1 / math.Sqrt(0+(x-1)*(x+1)) }, // 0 + -0 is 0,
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(cmplx.Sqrt(x-1) * cmplx.Sqrt(x+1)) },
		DS:    func(x, _ float64) float64 { return x * x * math.Pow((x-1)*(x+1), -1.5) },
	}.Entry(),
	opdef.Unary{
		Name: "atanh", Names: "atanh arctanh Tensor.atanh Tensor.arctanh",
		Traits: opdef.Traits{InPlace: true},
		Error:  elements.ElementwiseError,
		Lo:     -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse hyperbolic tangent", Formula: "atanh(self)"},
		F:   math.Atanh, C: kernel.Atanh,
		Steps: func(g, x, _ float64, r func(float64) float64) float64 { return r(g / r(1-r(x*x))) },
		DF:    func(x, _ float64) float64 { return 1 / ((1 - x) * (1 + x)) },
		DC:    func(x, _ complex128) complex128 { return kernel.Reciprocal(1 - x*x) },
		DS:    func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -2) },
	}.Entry(),
}
