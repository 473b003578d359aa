package custom

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"go.starlark.net/starlark"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
)

// A Function is one that operators may be made of.
type Function struct {
	Signature string // "softmax(x, dim)"
	Doc       string // what it gives, a phrase
}

// Functions lists them by name.
func Functions() []Function {
	var out []Function
	all := newLibrary()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		out = append(out, Function{name + "(" + f.params + ")", f.doc})
	}
	return out
}

// A function of Starlark that computes with the tensors of a composition.
type function struct {
	params string
	doc    string
	method bool // of a tensor too: the first parameter is one
	call   func(g *compose.Graph, in *arguments) any
	all    library // that it is one of
}

func define(params, doc string, method bool, call func(g *compose.Graph, in *arguments) any) *function {
	return &function{params: params, doc: doc, method: method, call: call}
}

// arguments are those of one call of a function.
type arguments struct {
	name   string
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

// unpack stores the arguments in the order of pairs: name, pointer, ... as
// starlark.UnpackArgs takes them.
func (a *arguments) unpack(pairs ...any) {
	if err := starlark.UnpackArgs(a.name, a.args, a.kwargs, pairs...); err != nil {
		panic(mistake{err})
	}
}

// A mistake is an error of who wrote the operator.
type mistake struct{ error }

// current is where a thread keeps the composition it works on.
const current = "graph"

// run calls f for a thread, which must be computing an operator.
func (f *function) run(th *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
	error) {
	g, ok := th.Local(current).(*composition)
	if !ok {
		return nil, fmt.Errorf("%s: there are tensors in the function of an operator only", name)
	}
	return f.apply(g, name, args, kwargs)
}

// apply calls f. What torch refuses and what the writer of the operator got wrong are
// errors.
func (f *function) apply(g *composition, name string, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value,
	err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case mistake:
			err = r.error
		case *opdef.RefusedError:
			err = fmt.Errorf("%s: %w", name, r)
		default:
			panic(r)
		}
	}()
	switch out := f.call(g.Graph, &arguments{name, args, kwargs}).(type) {
	case *compose.Value:
		return tensorValue{g, out, f.all}, nil
	case []*compose.Value:
		list := make([]starlark.Value, len(out))
		for i, x := range out {
			list[i] = tensorValue{g, x, f.all}
		}
		return starlark.NewList(list), nil
	case starlark.Value:
		return out, nil
	case nil:
		return starlark.None, nil
	default:
		return nil, fmt.Errorf("%s: gives %T", name, out)
	}
}

// unary is a function of each element.
func unary(doc string, f func(g *compose.Graph, x *compose.Value) *compose.Value) *function {
	return define("x", doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		in.unpack("x", &x)
		return f(g, x.v)
	})
}

// element is unary of what u declares.
func element(doc string, u opdef.Unary) *function {
	return unary(doc, func(g *compose.Graph, x *compose.Value) *compose.Value { return g.Unary(u, x) })
}

// step is element of a function that is constant between its jumps.
func step(doc string, f func(x float64) float64) *function {
	return element(doc, opdef.Unary{Error: opdef.Error{Class: opdef.Exact}, F: f,
		I: func(x int64) int64 { return int64(f(float64(x))) }, DF: func(_, _ float64) float64 { return 0 }})
}

// binary is a function of the elements of two operands, either of which may be a
// number.
func binary(doc string, f func(g *compose.Graph, x, y *compose.Value) *compose.Value) *function {
	return define("x, y", doc, true, func(g *compose.Graph, in *arguments) any {
		var x, y operand
		in.unpack("x", &x, "y", &y)
		return f(g, x.of(g), y.of(g))
	})
}

// arithmetic is binary; of a floating tensor x and a number k, which the reference does
// not round to x's dtype, it is right, and left where the number comes first.
func arithmetic(doc string, tensors func(g *compose.Graph, x, y *compose.Value) *compose.Value,
	right, left func(g *compose.Graph, x *compose.Value, k float64) *compose.Value) *function {
	floating := func(x *compose.Value) bool { return x != nil && x.DType().Kind() >= tensor.KindFloat }
	isReal := func(s *opdef.Scalar) bool { return s != nil && s.Kind() != tensor.KindComplex }
	return define("x, y", doc, true, func(g *compose.Graph, in *arguments) any {
		var x, y operand
		in.unpack("x", &x, "y", &y)
		switch {
		case floating(x.tensor) && isReal(y.number):
			return right(g, x.tensor, y.number.Float64())
		case floating(y.tensor) && isReal(x.number):
			return left(g, y.tensor, x.number.Float64())
		}
		return tensors(g, x.of(g), y.of(g))
	})
}

// over is x / k.
func over(g *compose.Graph, x *compose.Value, k float64) *compose.Value {
	return g.Unary(opdef.Unary{Error: opdef.Error{Class: opdef.Elementwise, ULPs: 1},
		F: func(x float64) float64 { return x / k }, DF: func(_, _ float64) float64 { return 1 / k },
		C:  func(x complex128) complex128 { return x / complex(k, 0) },
		DC: func(_, _ complex128) complex128 { return complex(1/k, 0) }}, x)
}

// relation is a bool function of two operands, without gradient.
func relation(doc string, holds func(order int) bool) *function {
	return binary(doc, func(g *compose.Graph, x, y *compose.Value) *compose.Value {
		_, cast, err := opdef.Common(x.T, y.T)
		g.Check(err)
		ts, shape, err := opdef.BroadcastAll(cast...)
		g.Check(err)
		switch ts[0].DType.Kind() {
		case tensor.KindComplex:
			g.Refuse("", "complex numbers have no order")
		case tensor.KindFloat:
			return g.Derived(related[float64](shape, ts, holds), x, y)
		}
		return g.Derived(related[int64](shape, ts, holds), x, y)
	})
}

// related is the bool tensor of how elements compare: 0 equal, below 0 less, above 0
// greater; NaN is 2 from everything.
func related[T int64 | float64](shape []int, ts []*tensor.Tensor, holds func(order int) bool) *tensor.Tensor {
	return opdef.ZipN(tensor.Bool, shape, func(dst []int64, src [][]T) {
		for i, x := range src[0] {
			order, y := unordered, src[1][i]
			switch {
			case x == y:
				order = 0
			case x < y:
				order = -1
			case x > y:
				order = 1
			}
			dst[i] = elements.Indicator(holds(order))
		}
	}, ts...)
}

// unordered is how NaN compares with everything.
const unordered = 2

// logical is a function of two bool tensors.
func logical(doc string, f func(x, y bool) bool) *function {
	return define("x, y", doc, true, func(g *compose.Graph, in *arguments) any {
		var x, y tensorArg
		in.unpack("x", &x, "y", &y)
		ts, shape, err := opdef.BroadcastAll(boolean(g, "x", x.v), boolean(g, "y", y.v))
		g.Check(err)
		return g.Derived(opdef.ZipN(tensor.Bool, shape, func(dst []int64, src [][]int64) {
			for i, x := range src[0] {
				dst[i] = elements.Indicator(f(x != 0, src[1][i] != 0))
			}
		}, ts...), x.v, y.v)
	})
}

// boolean is the tensor of x, which must be one of bool.
func boolean(g *compose.Graph, arg string, x *compose.Value) *tensor.Tensor {
	if x.DType() != tensor.Bool {
		g.Refuse(arg, "want a bool Tensor, got %s", x.T.Meta())
	}
	return x.T
}

// integral is the tensor of x, which must be one of integers.
func integral(g *compose.Graph, arg string, x *compose.Value) *tensor.Tensor {
	if !x.DType().IsIntegral() {
		g.Refuse(arg, "want a Tensor of integers, got %s", x.T.Meta())
	}
	return x.T
}

// reduction is a function over dimensions.
func reduction(doc string, f func(g *compose.Graph, x *compose.Value, keepdim bool, dims ...int) *compose.Value,
) *function {
	return define("x, dim=None, keepdim=False", doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		var dims ints
		keepdim := false
		in.unpack("x", &x, "dim??", &dims, "keepdim?", &keepdim)
		return f(g, x.v, keepdim, dims...)
	})
}

// along is a function along one dimension.
func along(doc string, f func(g *compose.Graph, x *compose.Value, dim int) *compose.Value) *function {
	return define("x, dim", doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		var dim int
		in.unpack("x", &x, "dim", &dim)
		return f(g, x.v, g.Axis("dim", dim, x.v))
	})
}

// sizes are a function's integers given one by one or as one list, after x.
func sizes(doc, params string, f func(g *compose.Graph, x *compose.Value, n []int) *compose.Value) *function {
	return define("x, "+params, doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		var n ints
		if len(in.args) > 2 {
			in.args = starlark.Tuple{in.args[0], in.args[1:]}
		}
		in.unpack("x", &x, params, &n)
		return f(g, x.v, n)
	})
}

// constant is a tensor of numbers that depend on nothing.
func constant(params, doc string, f func(g *compose.Graph, in *arguments) *tensor.Tensor) *function {
	return define(params, doc, false, func(g *compose.Graph, in *arguments) any { return g.Const(f(g, in)) })
}

// full is a tensor of equal elements; values is nil where a call gives it.
func full(params, doc string, fill *float64) *function {
	return constant(params, doc, func(g *compose.Graph, in *arguments) *tensor.Tensor {
		var shape ints
		x, dt := starlark.Value(starlark.Float(0)), dtypeArg{dt: tensor.Float32}
		if fill != nil {
			x = starlark.Float(*fill)
			in.unpack("shape", &shape, "dtype?", &dt)
		} else {
			in.unpack("shape", &shape, "value", &x, "dtype?", &dt)
		}
		s, err := scalar(x)
		if err != nil {
			panic(mistake{fmt.Errorf("%s: value: %w", in.name, err)})
		}
		if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
			g.Refuse("shape", "sizes are not negative, got %v", []int(shape))
		}
		g.Check(tensor.CheckSize(shape))
		return opdef.Cast(tensor.Full(tensor.Float64, shape, s.Float64()), dt.dt)
	})
}

var zero, one = 0.0, 1.0

// library are functions by name.
type library map[string]*function

// newLibrary is what operators are made of. Each function is declared here alone.
func newLibrary() library {
	all := library{
		"add": arithmetic("x + y", (*compose.Graph).Add, (*compose.Graph).Shift, (*compose.Graph).Shift),
		"sub": arithmetic("x - y", (*compose.Graph).Sub,
			func(g *compose.Graph, x *compose.Value, k float64) *compose.Value { return g.Shift(x, -k) },
			func(g *compose.Graph, x *compose.Value, k float64) *compose.Value { return g.Shift(g.Neg(x), k) }),
		"mul": arithmetic("x * y", (*compose.Graph).Mul, (*compose.Graph).Scale, (*compose.Graph).Scale),
		"div": arithmetic("x / y", (*compose.Graph).Div, over,
			func(g *compose.Graph, x *compose.Value, k float64) *compose.Value { return g.Scale(g.Reciprocal(x), k) }),
		"maximum":    binary("the larger of x and y", (*compose.Graph).Maximum),
		"minimum":    binary("the smaller of x and y", (*compose.Graph).Minimum),
		"abs":        unary("|x|", (*compose.Graph).Abs),
		"neg":        unary("-x", (*compose.Graph).Neg),
		"exp":        unary("e^x", (*compose.Graph).Exp),
		"expm1":      unary("e^x - 1", (*compose.Graph).Expm1),
		"log":        unary("natural logarithm", (*compose.Graph).Log),
		"log1p":      unary("log(1 + x)", (*compose.Graph).Log1p),
		"sqrt":       unary("square root", (*compose.Graph).Sqrt),
		"rsqrt":      unary("1/sqrt(x)", (*compose.Graph).Rsqrt),
		"square":     unary("x*x", (*compose.Graph).Square),
		"reciprocal": unary("1/x", (*compose.Graph).Reciprocal),
		"sin":        unary("sine", (*compose.Graph).Sin),
		"cos":        unary("cosine", (*compose.Graph).Cos),
		"tanh":       unary("hyperbolic tangent", (*compose.Graph).Tanh),
		"sigmoid":    unary("1/(1 + exp(-x))", (*compose.Graph).Sigmoid),
		"logsigmoid": unary("log(sigmoid(x))", (*compose.Graph).LogSigmoid),
		"silu":       unary("x*sigmoid(x)", (*compose.Graph).SiLU),
		"relu":       unary("max(x, 0)", (*compose.Graph).ReLU),
		"softplus":   unary("log(1 + exp(x))", (*compose.Graph).Softplus),
		"detach":     unary("x without its gradient", (*compose.Graph).Detach),
		"erf": element("error function", opdef.Unary{Error: opdef.Error{Class: opdef.Elementwise}, F: math.Erf,
			DF: func(x, _ float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }}),
		"atan": element("arc tangent", opdef.Unary{Error: opdef.Error{Class: opdef.Elementwise}, F: math.Atan,
			DF: func(x, _ float64) float64 { return 1 / (1 + x*x) }}),
		"round": step("nearest integer, halves to even", math.RoundToEven),
		"floor": step("next integer below", math.Floor),
		"ceil":  step("next integer above", math.Ceil),
		"trunc": step("integer part", math.Trunc),
		"sign": step("-1, 0 or 1", func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		}),
		"pow": define("x, exponent", "x^exponent, a number", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			var p operand
			in.unpack("x", &x, "exponent", &p)
			if p.number == nil {
				g.Refuse("exponent", "want a number")
			}
			return g.Pow(x.v, p.number.Float64())
		}),
		"clamp": define("x, min=None, max=None", "x limited to [min, max], numbers", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				lo, hi := starlark.Float(math.Inf(-1)), starlark.Float(math.Inf(1))
				in.unpack("x", &x, "min??", asFloat{&lo}, "max??", asFloat{&hi})
				return g.Clamp(x.v, float64(lo), float64(hi))
			}),
		"gelu": define("x, approximate=\"none\"", "x times the normal distribution's cumulative function, or its "+
			"approximation by \"tanh\"", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			approximate := "none"
			in.unpack("x", &x, "approximate?", &approximate)
			if approximate != "none" && approximate != "tanh" {
				g.Refuse("approximate", "want none or tanh, got %q", approximate)
			}
			return g.GELU(x.v, approximate == "tanh")
		}),

		"eq":          relation("x == y, without gradient, as the other relations", func(o int) bool { return o == 0 }),
		"ne":          relation("x != y", func(o int) bool { return o != 0 }),
		"lt":          relation("x < y", func(o int) bool { return o == -1 }),
		"le":          relation("x <= y", func(o int) bool { return o == -1 || o == 0 }),
		"gt":          relation("x > y", func(o int) bool { return o == 1 }),
		"ge":          relation("x >= y", func(o int) bool { return o == 1 || o == 0 }),
		"logical_and": logical("x and y, of bool", func(x, y bool) bool { return x && y }),
		"logical_or":  logical("x or y, of bool", func(x, y bool) bool { return x || y }),
		"logical_xor": logical("x or y but not both, of bool", func(x, y bool) bool { return x != y }),
		"logical_not": unary("not x, of bool", func(g *compose.Graph, x *compose.Value) *compose.Value {
			return g.Derived(opdef.Map(tensor.Bool, boolean(g, "x", x), func(x int64) int64 { return 1 - x }), x)
		}),
		"where": define("cond, x, y", "x where the bool cond holds, y elsewhere", true,
			func(g *compose.Graph, in *arguments) any {
				var cond tensorArg
				var x, y operand
				in.unpack("cond", &cond, "x", &x, "y", &y)
				return g.Where(boolean(g, "cond", cond.v), x.of(g), y.of(g))
			}),
		"masked_fill": define("x, mask, value", "x, the number value where the bool mask holds", true,
			func(g *compose.Graph, in *arguments) any {
				var x, mask tensorArg
				value := starlark.Float(0)
				in.unpack("x", &x, "mask", &mask, "value", asFloat{&value})
				return g.MaskedFill(x.v, boolean(g, "mask", mask.v), float64(value))
			}),
		"to": define("x, dtype", "x with a dtype, rounded to it", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			var dt dtypeArg
			in.unpack("x", &x, "dtype", &dt)
			return g.To(x.v, dt.dt)
		}),
		"at_least": define("x, dtype", "x with a dtype if its own is narrower: what is computed in float32", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dt dtypeArg
				in.unpack("x", &x, "dtype", &dt)
				return g.AtLeast(x.v, dt.dt)
			}),

		"reshape": sizes("x with another shape; one size may be -1", "shape",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Reshape(x, n...) }),
		"permute": sizes("x with its dimensions in another order", "dims",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Permute(x, n...) }),
		"expand": sizes("x broadcast to a shape", "shape",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value {
				g.Check(tensor.CheckSize(n))
				return g.Expand(x, n...)
			}),
		"transpose": define("x, dim0, dim1", "x with two dimensions swapped", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var a, b int
				in.unpack("x", &x, "dim0", &a, "dim1", &b)
				return g.Transpose(x.v, a, b)
			}),
		"unsqueeze": define("x, dim", "x with a new dimension of size 1", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dim int
				in.unpack("x", &x, "dim", &dim)
				return g.Unsqueeze(x.v, dim)
			}),
		"squeeze": along("x without a dimension of size 1", (*compose.Graph).Squeeze),
		"flatten": define("x, start=0, end=-1", "x with the dimensions from start to end made one", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				start, end := 0, -1
				in.unpack("x", &x, "start?", &start, "end?", &end)
				start, end = g.Axis("start", start, x.v), g.Axis("end", end, x.v)
				if start > end {
					g.Refuse("start", "it is behind end")
				}
				s := x.v.Shape()
				shape := append(slices.Clone(s[:start]), tensor.Numel(s[start:end+1]))
				return g.Reshape(x.v, append(shape, s[end+1:]...)...)
			}),
		"narrow": define("x, dim, start, length", "length elements from start along dim", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dim, start, n int
				in.unpack("x", &x, "dim", &dim, "start", &start, "length", &n)
				return g.Narrow(x.v, dim, start, n)
			}),
		"slice": define("x, dim, start=0, end=None, step=1", "x[start:end:step] along dim", true, sliced),
		"select": define("x, dim, index", "x at an index of dim, which is dropped", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dim, index int
				in.unpack("x", &x, "dim", &dim, "index", &index)
				if index < 0 {
					index += x.v.Shape()[g.Axis("dim", dim, x.v)]
				}
				return g.Select(x.v, dim, index)
			}),
		"chunk": define("x, n, dim=0", "x cut along dim into n equal parts", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var n, dim int
				in.unpack("x", &x, "n", &n, "dim?", &dim)
				if n < 1 {
					g.Refuse("n", "want 1 part or more, got %d", n)
				}
				return g.Chunk(x.v, n, dim)
			}),
		"split": define("x, sizes, dim=0", "x cut along dim into parts of these sizes", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var n ints
				dim := 0
				in.unpack("x", &x, "sizes", &n, "dim?", &dim)
				total := 0
				for _, size := range n {
					if size < 0 {
						g.Refuse("sizes", "sizes are not negative, got %v", []int(n))
					}
					total += size
				}
				if have := x.v.Shape()[g.Axis("dim", dim, x.v)]; total != have {
					g.Refuse("sizes", "want %d in all, got %d", have, total)
				}
				return g.Split(x.v, n, dim)
			}),
		"cat":   joined("the Tensors xs joined along dim", (*compose.Graph).Cat),
		"stack": joined("the Tensors xs joined along a new dimension", (*compose.Graph).Stack),
		"flip":  along("x with the order along dim reversed", (*compose.Graph).Flip),
		"roll": define("x, shift, dim", "x moved on by shift places along dim, the last to the front", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var shift, dim int
				in.unpack("x", &x, "shift", &shift, "dim", &dim)
				return g.Roll(x.v, dim, shift)
			}),
		"repeat_interleave": define("x, n, dim", "each slice along dim n times", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var n, dim int
				in.unpack("x", &x, "n", &n, "dim", &dim)
				if n < 0 {
					g.Refuse("n", "want 0 or more, got %d", n)
				}
				return g.RepeatInterleave(x.v, n, dim)
			}),
		"diagonal": define("x, offset=0", "the diagonal of a matrix, offset columns right of the main one", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				offset := 0
				in.unpack("x", &x, "offset?", &offset)
				return g.Diagonal(x.v, offset)
			}),
		"index_select": define("x, dim, index", "the slices of x along dim at the indices of a Tensor or list", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dim int
				var index starlark.Value
				in.unpack("x", &x, "dim", &dim, "index", &index)
				return g.IndexSelect(x.v, dim, indices(g, index))
			}),
		"gather": define("x, dim, index", "x at the indices of a Tensor along dim, as torch.gather", true,
			func(g *compose.Graph, in *arguments) any {
				var x, index tensorArg
				var dim int
				in.unpack("x", &x, "dim", &dim, "index", &index)
				return g.Gather(x.v, dim, integral(g, "index", index.v))
			}),
		"embedding": define("index, weight", "the rows of weight at the indices of a Tensor", true,
			func(g *compose.Graph, in *arguments) any {
				var index, weight tensorArg
				in.unpack("index", &index, "weight", &weight)
				t := integral(g, "index", index.v)
				rows := g.IndexSelect(weight.v, 0, elementsOf(t))
				return g.Reshape(rows, append(slices.Clone(t.Shape), weight.v.Shape()[1:]...)...)
			}),

		"sum":         reduction("sum over dimensions, all of them by default", (*compose.Graph).Sum),
		"mean":        reduction("mean over dimensions", (*compose.Graph).Mean),
		"amax":        reduction("largest element; equal ones share the gradient", (*compose.Graph).Amax),
		"amin":        reduction("smallest element; equal ones share the gradient", (*compose.Graph).Amin),
		"cumsum":      along("running sum", (*compose.Graph).Cumsum),
		"softmax":     along("exp(x)/sum(exp(x))", (*compose.Graph).Softmax),
		"log_softmax": along("x - log(sum(exp(x)))", (*compose.Graph).LogSoftmax),
		"logsumexp": define("x, dim, keepdim=False", "log(sum(exp(x)))", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dim int
				keepdim := false
				in.unpack("x", &x, "dim", &dim, "keepdim?", &keepdim)
				return g.LogSumExp(x.v, g.Axis("dim", dim, x.v), keepdim)
			}),
		"norm": define("x, p=2.0, dim=None, keepdim=False", "vector norm of order p", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dims ints
				p, keepdim := starlark.Float(2), false
				in.unpack("x", &x, "p?", asFloat{&p}, "dim??", &dims, "keepdim?", &keepdim)
				return g.Norm(x.v, float64(p), keepdim, dims...)
			}),
		"var": define("x, dim=None, correction=1, keepdim=False", "mean square distance from the mean, of n - correction",
			true,
			variance),

		"matmul": binaryTensors("product of the last two dimensions, others broadcast", (*compose.Graph).Matmul),
		"linear": define("x, weight, bias=None", "x times the transpose of weight, plus bias", true,
			func(g *compose.Graph, in *arguments) any {
				var x, weight, bias tensorArg
				in.unpack("x", &x, "weight", &weight, "bias??", &bias)
				return g.Linear(x.v, weight.v, bias.v)
			}),
		"attention": define("q, k, v, scale=None, causal=False, mask=None, window=(-1, -1), softcap=0.0, offset=None",
			"softmax(scale*q*k + mask)*v, of queries, keys and values [..., length, size]", true, attention),

		"full":  full("shape, value, dtype=\"float32\"", "a Tensor of equal elements", nil),
		"zeros": full("shape, dtype=\"float32\"", "a Tensor of zeros", &zero),
		"ones":  full("shape, dtype=\"float32\"", "a Tensor of ones", &one),
		"arange": constant("n, dtype=\"int64\"", "the integers from 0 to n-1", func(g *compose.Graph,
			in *arguments) *tensor.Tensor {
			var n int
			dt := dtypeArg{dt: tensor.Int64}
			in.unpack("n", &n, "dtype?", &dt)
			if n < 0 {
				g.Refuse("n", "want 0 or more, got %d", n)
			}
			g.Check(tensor.CheckSize([]int{n}))
			return opdef.Cast(tensor.Lazy(tensor.Int64, []int{n}, 1, func(lo int, dst []int64) {
				for i := range dst {
					dst[i] = int64(lo + i)
				}
			}), dt.dt)
		}),
		"ints": define("x", "the elements of a Tensor of integers, a list", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				in.unpack("x", &x)
				v := elementsOf(integral(g, "x", x.v))
				if len(v) > maxInts {
					g.Refuse("x", "want at most %d elements, got %s", maxInts, x.v.T.Meta())
				}
				return starlark.NewList(intTuple(v))
			}),
		"update": define("name, x", "x is the new value of the Tensor argument of that name, which the call changes",
			false,
			func(g *compose.Graph, in *arguments) any {
				var name string
				var x tensorArg
				in.unpack("name", &name, "x", &x)
				g.Update(name, x.v)
				return nil
			}),
	}
	for _, f := range all {
		f.all = all
	}
	return all
}

// maxInts is how many elements of a tensor become Starlark's integers.
const maxInts = 1 << 16

// asFloat unpacks a number.
type asFloat struct{ to *starlark.Float }

func (a asFloat) Unpack(v starlark.Value) error {
	f, ok := starlark.AsFloat(v)
	if !ok {
		return fmt.Errorf("want a number, got %s", v.Type())
	}
	*a.to = starlark.Float(f)
	return nil
}

// binaryTensors is a function of two tensors.
func binaryTensors(doc string, f func(g *compose.Graph, x, y *compose.Value) *compose.Value) *function {
	return define("x, y", doc, true, func(g *compose.Graph, in *arguments) any {
		var x, y tensorArg
		in.unpack("x", &x, "y", &y)
		return f(g, x.v, y.v)
	})
}

func joined(doc string, f func(g *compose.Graph, dim int, xs ...*compose.Value) *compose.Value) *function {
	return define("xs, dim=0", doc, false, func(g *compose.Graph, in *arguments) any {
		var xs tensorArgs
		dim := 0
		in.unpack("xs", &xs, "dim?", &dim)
		if len(xs) == 0 {
			g.Refuse("xs", "want a Tensor or more")
		}
		return f(g, dim, xs...)
	})
}

func sliced(g *compose.Graph, in *arguments) any {
	var x tensorArg
	var dim, start int
	var end integer
	step := 1
	in.unpack("x", &x, "dim", &dim, "start?", &start, "end??", &end, "step?", &step)
	if step < 1 {
		g.Refuse("step", "want 1 or more, got %d", step)
	}
	dim = g.Axis("dim", dim, x.v)
	size := x.v.Shape()[dim]
	within := func(i int) int {
		if i < 0 {
			i += size
		}
		return min(max(i, 0), size)
	}
	n := max(0, (within(end.or(size))-within(start)+step-1)/step)
	return g.Slice(x.v, dim, min(within(start), size-min(n, size)), n, step)
}

// indices are those of a tensor of integers or of a list.
func indices(g *compose.Graph, v starlark.Value) []int {
	if t, ok := v.(tensorValue); ok {
		x := integral(g, "index", t.v)
		if x.Dim() > 1 {
			g.Refuse("index", "want one dimension, got %s", x.Meta())
		}
		return elementsOf(x)
	}
	var list ints
	if err := list.Unpack(v); err != nil {
		panic(mistake{fmt.Errorf("index: %w", err)})
	}
	return list
}

func elementsOf(t *tensor.Tensor) []int {
	out := tensor.Make[int](t.Numel())
	for i, x := range tensor.Data[int64](t) {
		out[i] = int(x)
	}
	return out
}

func variance(g *compose.Graph, in *arguments) any {
	var x tensorArg
	var dims ints
	correction, keepdim := 1, false
	in.unpack("x", &x, "dim??", &dims, "correction?", &correction, "keepdim?", &keepdim)
	resolved, err := opdef.Dims("dim", dims, x.v.Dim())
	g.Check(err)
	n := 1
	for _, d := range resolved {
		n *= x.v.Shape()[d]
	}
	far := g.Sub(x.v, g.Mean(x.v, true, resolved...))
	return g.Div(g.Sum(g.Square(far), keepdim, resolved...), g.Number(float64(n-correction)))
}

func attention(g *compose.Graph, in *arguments) any {
	var q, k, v, mask tensorArg
	var window ints
	var offset integer
	var scale real
	causal, softcap := false, starlark.Float(0)
	in.unpack("q", &q, "k", &k, "v", &v, "scale??", &scale, "causal?", &causal, "mask??", &mask, "window?",
		&window, "softcap?", asFloat{&softcap}, "offset??", &offset)
	for i, x := range []*compose.Value{q.v, k.v, v.v} {
		if x.Dim() < 2 {
			g.Refuse("qkv"[i:i+1], "want [..., length, size], got %s", x.T.Meta())
		}
	}
	queries, keys := q.v.Shape()[q.v.Dim()-2], k.v.Shape()[k.v.Dim()-2]
	s := compose.Everything(1 / math.Sqrt(float64(q.v.Shape()[q.v.Dim()-1])))
	if scale.given {
		s.Scale = float64(scale.x)
	}
	s.Offset = offset.or(keys - queries) // the last query stands at the last key
	if len(window) != 0 && len(window) != 2 {
		g.Refuse("window", "want two numbers, of keys before and after a query; -1: all")
	}
	if len(window) == 2 {
		s.Before, s.After = window[0], window[1]
	}
	if causal {
		s.After = 0
	}
	s.Softcap, s.Mask = float64(softcap), mask.v
	return g.Attention(q.v, k.v, v.v, s)
}

// position says where in the user's file an error arose, innermost first.
func position(err error) error {
	var eval *starlark.EvalError
	if !errors.As(err, &eval) {
		return err
	}
	return placed(eval.CallStack, eval.Unwrap())
}

// placed is err with the innermost place in the user's file.
func placed(stack starlark.CallStack, err error) error {
	for i := len(stack) - 1; i >= 0; i-- {
		if at := stack[i].Pos; at.Filename() != "<builtin>" && at.IsValid() {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return err
}
