package compose

import (
	"fmt"
	"math"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/activation"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/reduction"
)

// Functions that are no declaration of the registry by themselves: its add and sub take alpha, its abs gives complex
// numbers another dtype, its square bool, and its softplus has a threshold.
var (
	add = opdef.Binary{
		Error: elements.RoundedError,
		Block: vmath.Add,
		F:     func(x, y float64) float64 { return x + y }, C: func(x, y complex128) complex128 { return x + y },
		I: func(x, y int64) int64 { return x + y },
	}
	sub = opdef.Binary{
		Error: elements.RoundedError,
		Block: vmath.Sub,
		F:     func(x, y float64) float64 { return x - y }, C: func(x, y complex128) complex128 { return x - y },
		I: func(x, y int64) int64 { return x - y },
	}
	square = opdef.Unary{
		Error: elements.RoundedError,
		F:     func(x float64) float64 { return x * x }, C: func(x complex128) complex128 { return x * x },
		Block: func(dst, x []float64) { vmath.Mul(dst, x, x) },
	}
	abs = opdef.Unary{ // torch's gradient at 0 is 0
		Error: elements.ExactError, Block: vmath.Abs,
		F:  math.Abs,
		DF: func(x, _ float64) float64 { return kernel.Sign(x) },
	}
	// softplus is log(1 + exp(x)).
	softplus = opdef.Unary{Error: elements.ElementwiseError, F: kernel.Softplus, Block: kernel.SoftplusBlock,
		DF: func(x, _ float64) float64 { return kernel.Sigmoid(x) }}
)

// Add is x + y. Operands of this and of the other functions of two elements are
// broadcast and promoted as torch does.
func (g *Graph) Add(x, y *Value) *Value {
	return g.Binary("addition", add, x, y).withGradients(func(up *Value) []*Value { return []*Value{up, up} })
}

// Sub is x - y.
func (g *Graph) Sub(x, y *Value) *Value {
	return g.Binary("subtraction", sub, x, y).withGradients(func(up *Value) []*Value { return []*Value{up, g.Neg(up)} })
}

// Mul is x * y.
func (g *Graph) Mul(x, y *Value) *Value {
	return g.Binary("product", pointwise.Mul, x, y).withGradients(func(up *Value) []*Value {
		return []*Value{g.Mul(up, g.Conj(y)), g.Mul(up, g.Conj(x))}
	})
}

// Div is x / y, of integers in float32.
func (g *Graph) Div(x, y *Value) *Value {
	z := g.Binary("division", pointwise.Div, x, y)
	return z.withGradients(func(up *Value) []*Value {
		return []*Value{g.Div(up, g.Conj(y)), g.Neg(g.Mul(up, g.Conj(g.Div(z, y))))}
	})
}

// Maximum is the larger of x and y; equal ones share the gradient.
func (g *Graph) Maximum(x, y *Value) *Value { return g.Binary("maximum", reduction.Maximum, x, y) }

// Minimum is the smaller of x and y; equal ones share the gradient.
func (g *Graph) Minimum(x, y *Value) *Value { return g.Binary("minimum", reduction.Minimum, x, y) }

// Scale is k*x, the product with a Python number.
func (g *Graph) Scale(x *Value, k float64) *Value {
	k = g.number("factor", k)
	return g.withNumber(fmt.Sprintf(factorStep+"%.4g", k), opdef.Unary{
		Error: numberError,
		F:     func(x float64) float64 { return k * x },
		Block: func(dst, src []float64) {
			for i, x := range src {
				dst[i] = k * x
			}
		},
		C: func(x complex128) complex128 { return complex(k, 0) * x },
	}, x).withGradients(func(up *Value) []*Value { return []*Value{g.Scale(up, k)} })
}

// Over is x / k, the quotient by a Python number.
func (g *Graph) Over(x *Value, k float64) *Value {
	k = g.number("divisor", k)
	return g.Unary(fmt.Sprintf(quotientStep+"%.4g", k), opdef.Unary{
		Error: numberError,
		F:     func(x float64) float64 { return x / k }, DF: func(_, _ float64) float64 { return 1 / k },
		C:  func(x complex128) complex128 { return x / complex(k, 0) },
		DC: func(_, _ complex128) complex128 { return complex(1/k, 0) },
	}, x)
}

// Shift is x + k, the sum with a Python number.
func (g *Graph) Shift(x *Value, k float64) *Value {
	if isSmall(k) {
		if v := g.inOtherForm(x, k, sumForms); v != nil {
			return v
		}
	}
	return g.shift(x, g.number("added number", k))
}

func (g *Graph) shift(x *Value, k float64) *Value {
	return g.withNumber(fmt.Sprintf(additionStep+"%.4g", k), opdef.Unary{
		Error: numberError,
		F:     func(x float64) float64 { return x + k },
		Block: func(dst, src []float64) {
			for i, x := range src {
				dst[i] = x + k
			}
		},
		C: func(x complex128) complex128 { return x + complex(k, 0) },
		S: func(_, _ float64) float64 { return k },
	}, x).withGradients(func(up *Value) []*Value { return []*Value{up} })
}

// numberError is the error of a device that rounds the number and the result.
var numberError = opdef.Error{Class: opdef.Elementwise, ULPs: 1}

// withNumber is the function of x and a number that f is. The number is exact in
// the reference, and an operand that needs no gradient in torch.
func (g *Graph) withNumber(step string, f opdef.Unary, x *Value) *Value {
	v := g.Unary(step, f, x)
	v.in = append(v.in, nil)
	return v
}

// Neg is -x.
func (g *Graph) Neg(x *Value) *Value {
	return g.Unary("negation", pointwise.Neg, x).withGradients(func(up *Value) []*Value { return []*Value{g.Neg(up)} })
}

// Sqrt is the square root.
func (g *Graph) Sqrt(x *Value) *Value {
	y := g.Unary("square root", pointwise.Sqrt, x)
	return y.withGradients(func(up *Value) []*Value { return []*Value{g.Div(up, g.Scale(g.Conj(y), 2))} })
}

// Rsqrt is 1/sqrt(x).
func (g *Graph) Rsqrt(x *Value) *Value { return g.Unary("reciprocal square root", pointwise.Rsqrt, x) }

// Square is x*x.
func (g *Graph) Square(x *Value) *Value {
	if v := g.inOtherForm(x, 0, squareForms); v != nil {
		return v
	}
	return g.square(x)
}

func (g *Graph) square(x *Value) *Value {
	return g.Unary("square", square, x).withGradients(func(up *Value) []*Value {
		return []*Value{g.Mul(up, g.Scale(g.Conj(x), 2))}
	})
}

// Reciprocal is 1/x.
func (g *Graph) Reciprocal(x *Value) *Value { return g.Unary("reciprocal", pointwise.Reciprocal, x) }

// Abs is |x| of real numbers; the gradient at 0 is 0.
func (g *Graph) Abs(x *Value) *Value { return g.Unary("magnitude", abs, x) }

// Exp is e^x.
func (g *Graph) Exp(x *Value) *Value {
	y := g.Unary("exponential", pointwise.Exp, x)
	return y.withGradients(func(up *Value) []*Value { return []*Value{g.Mul(up, g.Conj(y))} })
}

// Expm1 is e^x - 1.
func (g *Graph) Expm1(x *Value) *Value { return g.Unary("expm1", pointwise.Expm1, x) }

// Log is the natural logarithm.
func (g *Graph) Log(x *Value) *Value { return g.Unary("logarithm", pointwise.Log, x) }

// Log1p is log(1 + x).
func (g *Graph) Log1p(x *Value) *Value { return g.Unary("log1p", pointwise.Log1p, x) }

// Sin is the sine.
func (g *Graph) Sin(x *Value) *Value { return g.Unary("sine", pointwise.Sin, x) }

// Cos is the cosine.
func (g *Graph) Cos(x *Value) *Value { return g.Unary("cosine", pointwise.Cos, x) }

// Tanh is the hyperbolic tangent.
func (g *Graph) Tanh(x *Value) *Value { return g.Unary("tanh", pointwise.Tanh, x) }

// Sigmoid is 1/(1 + exp(-x)).
func (g *Graph) Sigmoid(x *Value) *Value { return g.Unary("sigmoid", pointwise.Sigmoid, x) }

// SiLU is x*sigmoid(x).
func (g *Graph) SiLU(x *Value) *Value { return g.Unary("silu", activation.SiLU, x) }

// ReLU is max(x, 0); the gradient at 0 is 0.
func (g *Graph) ReLU(x *Value) *Value { return g.Unary("relu", activation.ReLU, x) }

// GELU is x times the normal distribution's cumulative function, or, if
// approximate, Hendrycks' approximation with tanh.
func (g *Graph) GELU(x *Value, approximate bool) *Value {
	if approximate {
		return g.Unary("gelu", activation.GELUTanh, x)
	}
	return g.Unary("gelu", activation.GELU, x)
}

// Softplus is log(1 + exp(x)).
func (g *Graph) Softplus(x *Value) *Value { return g.Unary("softplus", softplus, x) }

// LogSigmoid is log(sigmoid(x)).
func (g *Graph) LogSigmoid(x *Value) *Value { return g.Neg(g.Softplus(g.Neg(x))) }

// Clamp is x limited to [lo, hi]; the gradient passes at the limits, as in torch.
func (g *Graph) Clamp(x *Value, lo, hi float64) *Value {
	if math.IsInf(hi, 1) && isSmall(lo) {
		if v := g.inOtherForm(x, lo, limitForms); v != nil {
			return v
		}
	}
	return g.clamp(x, g.number("lower limit", lo), g.number("upper limit", hi))
}

func (g *Graph) clamp(x *Value, lo, hi float64) *Value {
	return g.Unary("limit", opdef.Unary{
		Error: elements.ExactError,
		F:     func(x float64) float64 { return min(max(x, lo), hi) },
		DF: func(x, _ float64) float64 {
			if x >= lo && x <= hi {
				return 1
			}
			return 0
		},
	}, x)
}

// Pow is x^p. Of p = 0 the gradient is 0 everywhere, as in torch.
func (g *Graph) Pow(x *Value, p float64) *Value {
	p = g.number("exponent", p)
	return g.Unary(fmt.Sprintf(powerStep+"%.4g", p), opdef.Unary{
		Error: elements.ElementwiseError,
		F:     func(x float64) float64 { return math.Pow(x, p) },
		Block: func(dst, src []float64) { kernel.PowBlock(dst, src, p) },
	}, x).withGradients(func(up *Value) []*Value {
		if p == 0 {
			return []*Value{g.Full(up.DType(), up.Shape(), 0)}
		}
		return []*Value{g.Mul(up, g.Scale(g.Pow(x, p-1), p))}
	})
}
