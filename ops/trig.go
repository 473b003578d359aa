package ops

import (
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/vmath"
	"github.com/optool/optool/opdef"
)

// trigOps are trigonometric and hyperbolic functions and their inverses.
var trigOps = []*opdef.Entry{
	opdef.Unary{
		Name: "sin", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Sine", Formula: "sin(self)", Source: "torch.sin"},
		F:   math.Sin, C: cmplx.Sin,
		DF: func(x, _ float64) float64 { return math.Cos(x) },
		DC: func(x, _ complex128) complex128 { return cmplx.Cos(x) },
	}.Entry(),
	opdef.Unary{
		Name: "cos", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Cosine", Formula: "cos(self)", Source: "torch.cos"},
		F:   math.Cos, C: cmplx.Cos,
		DF: func(x, _ float64) float64 { return -math.Sin(x) },
		DC: func(x, _ complex128) complex128 { return -cmplx.Sin(x) },
	}.Entry(),
	opdef.Unary{
		Name: "tan", InPlace: true, Error: smooth, Saved: true, Lo: -1.2, Hi: 1.2,
		Doc: opdef.Doc{Summary: "Tangent", Formula: "tan(self)", Source: "torch.tan"},
		F:   math.Tan, C: cmplx.Tan,
		DF: func(_, y float64) float64 { return 1 + y*y },
		DC: func(_, y complex128) complex128 { return 1 + y*y },
	}.Entry(),
	opdef.Unary{
		Name: "asin", Names: "asin arcsin Tensor.asin Tensor.arcsin", InPlace: true, Error: smooth, Lo: -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse sine", Formula: "asin(self)", Source: "torch.asin"},
		F:   math.Asin, C: asinC,
		DF: func(x, _ float64) float64 { return 1 / math.Sqrt((1-x)*(1+x)) },
		DC: func(x, _ complex128) complex128 { return 1 / cmplx.Sqrt(1-x*x) },
		DS: func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -1.5) },
	}.Entry(),
	opdef.Unary{
		Name: "acos", Names: "acos arccos Tensor.acos Tensor.arccos", InPlace: true, Error: smooth, Lo: -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse cosine", Formula: "acos(self)", Source: "torch.acos"},
		F:   math.Acos, C: acosC,
		DF: func(x, _ float64) float64 { return -1 / math.Sqrt((1-x)*(1+x)) },
		DC: func(x, _ complex128) complex128 { return -1 / cmplx.Sqrt(1-x*x) },
		DS: func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -1.5) },
	}.Entry(),
	opdef.Unary{
		Name: "atan", Names: "atan arctan Tensor.atan Tensor.arctan", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Inverse tangent", Formula: "atan(self)", Source: "torch.atan"},
		F:   math.Atan, C: func(x complex128) complex128 { return -1i * atanhC(1i*x) },
		DF: func(x, _ float64) float64 { return 1 / (x*x + 1) },
		DS: func(x, _ float64) float64 { return either(math.Abs(x) > 0x1p63, 0x1p-100, 0) }, // x*x overflows in float32
		DC: func(x, _ complex128) complex128 { return 1 / (x*x + 1) },
	}.Entry(),
	opdef.Unary{
		Name: "sinh", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Hyperbolic sine", Formula: "sinh(self)", Source: "torch.sinh"},
		F:   math.Sinh, C: cmplx.Sinh,
		DF: func(x, _ float64) float64 { return math.Cosh(x) },
		DC: func(x, _ complex128) complex128 { return cmplx.Cosh(x) },
	}.Entry(),
	opdef.Unary{
		Name: "cosh", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Hyperbolic cosine", Formula: "cosh(self)", Source: "torch.cosh"},
		F:   math.Cosh, C: cmplx.Cosh,
		DF: func(x, _ float64) float64 { return math.Sinh(x) },
		DC: func(x, _ complex128) complex128 { return cmplx.Sinh(x) },
	}.Entry(),
	opdef.Unary{
		Name: "tanh", Names: "tanh Tensor.tanh F.tanh", InPlace: true, Error: smooth, Saved: true,
		Doc:   opdef.Doc{Summary: "Hyperbolic tangent", Formula: "tanh(self)", Source: "torch.tanh"},
		Block: vmath.Tanh, C: cmplx.Tanh,
		DF: func(_, y float64) float64 { return 1 - y*y },
		DC: func(_, y complex128) complex128 { return 1 - y*y },
		DS: func(_, y float64) float64 { return 1 + y*y },
	}.Entry(),
	opdef.Unary{
		Name: "asinh", Names: "asinh arcsinh Tensor.asinh Tensor.arcsinh", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Inverse hyperbolic sine", Formula: "asinh(self)", Source: "torch.asinh"},
		F:   math.Asinh, C: func(x complex128) complex128 { return -1i * asinC(1i*x) },
		DF: func(x, _ float64) float64 { return 1 / math.Sqrt(x*x+1) },
		DC: func(x, _ complex128) complex128 { return 1 / cmplx.Sqrt(x*x+1) },
	}.Entry(),
	opdef.Unary{
		Name: "acosh", Names: "acosh arccosh Tensor.acosh Tensor.arccosh", InPlace: true, Error: smooth, Lo: 1.3, Hi: 4,
		Doc: opdef.Doc{Summary: "Inverse hyperbolic cosine", Formula: "acosh(self)", Source: "torch.acosh"},
		F:   math.Acosh, C: acoshC,
		DF: func(x, _ float64) float64 { return 1 / math.Sqrt((x-1)*(x+1)) },
		DC: func(x, _ complex128) complex128 { return 1 / cmplx.Sqrt(x*x-1) },
		DS: func(x, _ float64) float64 { return x * x * math.Pow((x-1)*(x+1), -1.5) },
	}.Entry(),
	opdef.Unary{
		Name: "atanh", Names: "atanh arctanh Tensor.atanh Tensor.arctanh", InPlace: true, Error: smooth, Lo: -0.9, Hi: 0.9,
		Doc: opdef.Doc{Summary: "Inverse hyperbolic tangent", Formula: "atanh(self)", Source: "torch.atanh"},
		F:   math.Atanh, C: atanhC,
		DF: func(x, _ float64) float64 { return 1 / ((1 - x) * (1 + x)) },
		DC: func(x, _ complex128) complex128 { return 1 / (1 - x*x) },
		DS: func(x, _ float64) float64 { return math.Pow((1-x)*(1+x), -2) },
	}.Entry(),
}

// The inverse functions follow W. Kahan, "Branch cuts for complex elementary
// functions" (1987), whose products of square roots do not cancel where the
// textbook logarithms (and math/cmplx) do.

func asinC(z complex128) complex128 {
	p, q := cmplx.Sqrt(1-z), cmplx.Sqrt(1+z)
	return complex(math.Atan2(real(z), real(p*q)), math.Asinh(imag(cmplx.Conj(p)*q)))
}

func acosC(z complex128) complex128 {
	p, q := cmplx.Sqrt(1-z), cmplx.Sqrt(1+z)
	return complex(2*math.Atan2(real(p), real(q)), math.Asinh(imag(cmplx.Conj(q)*p)))
}

func acoshC(z complex128) complex128 {
	p, q := cmplx.Sqrt(z-1), cmplx.Sqrt(z+1)
	return complex(math.Asinh(real(cmplx.Conj(p)*q)), 2*math.Atan2(imag(p), real(q)))
}

func atanhC(z complex128) complex128 {
	x, y := real(z), imag(z)
	return complex(0.25*math.Log1p(4*x/((1-x)*(1-x)+y*y)), 0.5*math.Atan2(2*y, (1-x)*(1+x)-y*y))
}
