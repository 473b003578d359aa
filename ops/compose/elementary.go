package compose

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
)

// rounded is the error of what a device rounds once.
var rounded = opdef.Error{Class: opdef.Rounded}

// transcendental is the error of what a device approximates.
var transcendental = opdef.Error{Class: opdef.Elementwise}

// Functions of one and of two elements.
var (
	add = opdef.Binary{
		Name:  "addition",
		Error: rounded,
		Block: vmath.Add,
		F:     func(x, y float64) float64 { return x + y }, C: func(x, y complex128) complex128 { return x + y },
		I: func(x, y int64) int64 { return x + y },
	}
	sub = opdef.Binary{
		Name:  "subtraction",
		Error: rounded,
		Block: vmath.Sub,
		F:     func(x, y float64) float64 { return x - y }, C: func(x, y complex128) complex128 { return x - y },
		I: func(x, y int64) int64 { return x - y },
	}
	mul = opdef.Binary{
		Name:  "product",
		Error: rounded,
		Block: vmath.Mul,
		F:     func(x, y float64) float64 { return x * y }, C: func(x, y complex128) complex128 { return x * y },
		I: func(x, y int64) int64 { return x * y },
	}
	div = opdef.Binary{
		Name:  "division",
		Error: rounded,
		Block: vmath.Div,
		F:     func(x, y float64) float64 { return x / y }, C: func(x, y complex128) complex128 { return x / y },
	}
	neg = opdef.Unary{
		Name:  "negation",
		Error: opdef.Error{Class: opdef.Exact},
		F:     func(x float64) float64 { return -x }, C: func(x complex128) complex128 { return -x },
		I: func(x int64) int64 { return -x },
	}
	sqrt = opdef.Unary{
		Name:  "square root",
		Error: rounded,
		F:     math.Sqrt, C: cmplx.Sqrt, Block: vmath.Sqrt,
	}
	square = opdef.Unary{
		Name:  "square",
		Error: rounded,
		F:     func(x float64) float64 { return x * x }, C: func(x complex128) complex128 { return x * x },
		Block: func(dst, x []float64) { vmath.Mul(dst, x, x) },
	}
	reciprocal = opdef.Unary{
		Name:  "reciprocal",
		Error: rounded, Saved: true,
		F: func(x float64) float64 { return 1 / x }, DF: func(_, y float64) float64 { return -y * y },
		C: func(x complex128) complex128 { return 1 / x }, DC: func(_, y complex128) complex128 { return -y * y },
	}
	rsqrt = opdef.Unary{
		Name:  "reciprocal square root",
		Error: opdef.Error{Class: opdef.Elementwise, ULPs: 2}, Saved: true,
		F:  func(x float64) float64 { return 1 / math.Sqrt(x) },
		DF: func(_, y float64) float64 { return -0.5 * y * y * y },
	}
	abs = opdef.Unary{ // torch's gradient at 0 is 0
		Name:  "magnitude",
		Error: opdef.Error{Class: opdef.Exact}, Block: vmath.Abs,
		F:  math.Abs,
		DF: func(x, _ float64) float64 { return kernel.Sign(x) },
	}
	exp   = opdef.Unary{Name: "exponential", Error: transcendental, F: math.Exp, C: cmplx.Exp, Block: vmath.Exp}
	expm1 = opdef.Unary{
		Name:  "expm1",
		Error: transcendental, Block: vmath.Expm1,
		F: math.Expm1, DF: func(_, y float64) float64 { return y + 1 },
	}
	log = opdef.Unary{
		Name:  "logarithm",
		Error: transcendental, Block: vmath.Log,
		F: math.Log, DF: func(x, _ float64) float64 { return 1 / x },
		C: cmplx.Log, DC: func(x, _ complex128) complex128 { return 1 / x },
	}
	log1p = opdef.Unary{
		Name:  "log1p",
		Error: transcendental, Block: vmath.Log1p,
		F: math.Log1p, DF: func(x, _ float64) float64 { return 1 / (1 + x) },
	}
	sin = opdef.Unary{
		Name: "sine", Error: transcendental, F: math.Sin,
		DF: func(x, _ float64) float64 { return math.Cos(x) },
	}
	cos = opdef.Unary{
		Name: "cosine", Error: transcendental, F: math.Cos,
		DF: func(x, _ float64) float64 { return -math.Sin(x) },
	}
	tanh = opdef.Unary{
		Name:  "tanh",
		Error: transcendental, Saved: true, Block: vmath.Tanh,
		F: math.Tanh, DF: func(_, y float64) float64 { return 1 - y*y },
		DS: func(_, _ float64) float64 { return 1 },
	}
	sigmoid = opdef.Unary{
		Name:  "sigmoid",
		Error: transcendental, Saved: true, Block: vmath.Sigmoid,
		F: kernel.Sigmoid, DF: func(_, y float64) float64 { return y * (1 - y) },
		DS: func(_, y float64) float64 { return y },
	}
	silu = opdef.Unary{
		Name:  "silu",
		Error: transcendental, Block: vmath.SiLU,
		F: func(x float64) float64 { return x * kernel.Sigmoid(x) },
		DF: func(x, _ float64) float64 {
			s := kernel.Sigmoid(x)
			return s * (1 + x*(1-s))
		},
		DS: func(x, _ float64) float64 { return kernel.Sigmoid(x) * (1 + math.Abs(x)) },
	}
	relu = opdef.Unary{ // torch's gradient at 0 is 0
		Name:  "relu",
		Error: opdef.Error{Class: opdef.Exact},
		F:     func(x float64) float64 { return max(x, 0) },
		I:     func(x int64) int64 { return max(x, 0) },
		DF: func(x, _ float64) float64 {
			if x > 0 {
				return 1
			}
			return 0
		},
	}
	geluErf = opdef.Unary{
		Name:  "gelu",
		Error: transcendental, Block: vmath.GELU,
		F: func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) },
		DF: func(x, _ float64) float64 {
			return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		},
		S: func(x, _ float64) float64 { return math.Abs(x) / 2 },
		DS: func(x, _ float64) float64 {
			return 0.5 + math.Abs(x)*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		},
	}
	geluTanh = opdef.Unary{
		Name:  "gelu",
		Error: transcendental, Block: vmath.GELUTanh,
		F: func(x float64) float64 { return x / 2 * (1 + math.Tanh(geluInner(x))) },
		DF: func(x, _ float64) float64 {
			t := math.Tanh(geluInner(x))
			return (1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		},
		S:  func(x, _ float64) float64 { return math.Abs(x) / 2 },
		DS: func(x, _ float64) float64 { return 1 + math.Abs(x) },
	}
	// softplus is log(1 + exp(x)).
	softplus = opdef.Unary{Name: "softplus", Error: transcendental, F: kernel.Softplus, Block: kernel.SoftplusBlock,
		DF: func(x, _ float64) float64 { return kernel.Sigmoid(x) }}
	maximum = opdef.Binary{ // torch halves the gradient among equal operands
		Name:  "maximum",
		Error: opdef.Error{Class: opdef.Exact},
		F:     math.Max, I: func(x, y int64) int64 { return max(x, y) },
		DF: func(x, y, _ float64) (dx, dy float64) { return share(x, y), share(y, x) },
	}
	minimum = opdef.Binary{
		Name:  "minimum",
		Error: opdef.Error{Class: opdef.Exact},
		F:     math.Min, I: func(x, y int64) int64 { return min(x, y) },
		DF: func(x, y, _ float64) (dx, dy float64) { return share(y, x), share(x, y) },
	}
)

// geluInner is the argument of the tanh in gelu's approximation (Hendrycks and
// Gimpel, Gaussian Error Linear Units, 2016).
func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

// share is the part of the gradient of max(x, y) that x gets.
func share(x, y float64) float64 {
	switch {
	case x > y:
		return 1
	case x == y:
		return 0.5
	}
	return 0
}

// Add is x + y. Operands of this and of the other functions of two elements are
// broadcast and promoted as torch does.
func (g *Graph) Add(x, y *Value) *Value {
	return g.Binary(add, x, y).withGradients(func(up *Value) []*Value { return []*Value{up, up} })
}

// Sub is x - y.
func (g *Graph) Sub(x, y *Value) *Value {
	return g.Binary(sub, x, y).withGradients(func(up *Value) []*Value { return []*Value{up, g.Neg(up)} })
}

// Mul is x * y.
func (g *Graph) Mul(x, y *Value) *Value {
	return g.Binary(mul, x, y).withGradients(func(up *Value) []*Value {
		return []*Value{g.Mul(up, g.Conj(y)), g.Mul(up, g.Conj(x))}
	})
}

// Div is x / y, of integers in float32.
func (g *Graph) Div(x, y *Value) *Value {
	z := g.Binary(div, x, y)
	return z.withGradients(func(up *Value) []*Value {
		return []*Value{g.Div(up, g.Conj(y)), g.Neg(g.Mul(up, g.Conj(g.Div(z, y))))}
	})
}

// Maximum is the larger of x and y; equal ones share the gradient.
func (g *Graph) Maximum(x, y *Value) *Value { return g.Binary(maximum, x, y) }

// Minimum is the smaller of x and y; equal ones share the gradient.
func (g *Graph) Minimum(x, y *Value) *Value { return g.Binary(minimum, x, y) }

// Scale is k*x, the product with a Python number.
func (g *Graph) Scale(x *Value, k float64) *Value {
	return g.withNumber(opdef.Unary{
		Name:  fmt.Sprintf("factor %.4g", k),
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

// Shift is x + k, the sum with a Python number.
func (g *Graph) Shift(x *Value, k float64) *Value {
	return g.withNumber(opdef.Unary{
		Name:  fmt.Sprintf("addition of %.4g", k),
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
func (g *Graph) withNumber(f opdef.Unary, x *Value) *Value {
	v := g.Unary(f, x)
	v.in = append(v.in, nil)
	return v
}

// Neg is -x.
func (g *Graph) Neg(x *Value) *Value {
	return g.Unary(neg, x).withGradients(func(up *Value) []*Value { return []*Value{g.Neg(up)} })
}

// Sqrt is the square root.
func (g *Graph) Sqrt(x *Value) *Value {
	y := g.Unary(sqrt, x)
	return y.withGradients(func(up *Value) []*Value { return []*Value{g.Div(up, g.Scale(g.Conj(y), 2))} })
}

// Rsqrt is 1/sqrt(x).
func (g *Graph) Rsqrt(x *Value) *Value { return g.Unary(rsqrt, x) }

// Square is x*x.
func (g *Graph) Square(x *Value) *Value {
	return g.Unary(square, x).withGradients(func(up *Value) []*Value {
		return []*Value{g.Mul(up, g.Scale(g.Conj(x), 2))}
	})
}

// Reciprocal is 1/x.
func (g *Graph) Reciprocal(x *Value) *Value { return g.Unary(reciprocal, x) }

// Abs is |x| of real numbers; the gradient at 0 is 0.
func (g *Graph) Abs(x *Value) *Value { return g.Unary(abs, x) }

// Exp is e^x.
func (g *Graph) Exp(x *Value) *Value {
	y := g.Unary(exp, x)
	return y.withGradients(func(up *Value) []*Value { return []*Value{g.Mul(up, g.Conj(y))} })
}

// Expm1 is e^x - 1.
func (g *Graph) Expm1(x *Value) *Value { return g.Unary(expm1, x) }

// Log is the natural logarithm.
func (g *Graph) Log(x *Value) *Value { return g.Unary(log, x) }

// Log1p is log(1 + x).
func (g *Graph) Log1p(x *Value) *Value { return g.Unary(log1p, x) }

// Sin is the sine.
func (g *Graph) Sin(x *Value) *Value { return g.Unary(sin, x) }

// Cos is the cosine.
func (g *Graph) Cos(x *Value) *Value { return g.Unary(cos, x) }

// Tanh is the hyperbolic tangent.
func (g *Graph) Tanh(x *Value) *Value { return g.Unary(tanh, x) }

// Sigmoid is 1/(1 + exp(-x)).
func (g *Graph) Sigmoid(x *Value) *Value { return g.Unary(sigmoid, x) }

// SiLU is x*sigmoid(x).
func (g *Graph) SiLU(x *Value) *Value { return g.Unary(silu, x) }

// ReLU is max(x, 0); the gradient at 0 is 0.
func (g *Graph) ReLU(x *Value) *Value { return g.Unary(relu, x) }

// GELU is x times the normal distribution's cumulative function, or, if
// approximate, Hendrycks' approximation with tanh.
func (g *Graph) GELU(x *Value, approximate bool) *Value {
	if approximate {
		return g.Unary(geluTanh, x)
	}
	return g.Unary(geluErf, x)
}

// Softplus is log(1 + exp(x)).
func (g *Graph) Softplus(x *Value) *Value { return g.Unary(softplus, x) }

// LogSigmoid is log(sigmoid(x)).
func (g *Graph) LogSigmoid(x *Value) *Value { return g.Neg(g.Softplus(g.Neg(x))) }

// Clamp is x limited to [lo, hi]; the gradient passes at the limits, as in torch.
func (g *Graph) Clamp(x *Value, lo, hi float64) *Value {
	return g.Unary(opdef.Unary{
		Name:  "limit",
		Error: opdef.Error{Class: opdef.Exact},
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
	return g.Unary(opdef.Unary{
		Name:  "power",
		Error: transcendental,
		F:     func(x float64) float64 { return math.Pow(x, p) },
		Block: func(dst, src []float64) { kernel.PowBlock(dst, src, p) },
	}, x).withGradients(func(up *Value) []*Value {
		if p == 0 {
			return []*Value{g.Full(up.DType(), up.Shape(), 0)}
		}
		return []*Value{g.Mul(up, g.Scale(g.Pow(x, p-1), p))}
	})
}
