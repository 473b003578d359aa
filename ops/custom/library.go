package custom

import (
	_ "embed" // parts.star
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/special"
	"github.com/optool/optool/tensor"
)

// library are functions by name.
type library map[string]*function

// primitives are the functions that operators are built from. Only the tables of this folder declare them.
var primitives = sync.OnceValue(func() library {
	all := library{}
	for _, part := range []library{elementwise(), comparisons(), arrangements(), selections(), reductions(), products(),
		constants(), integers(), attentions(), quantizations(), refusals()} {
		for name, f := range part {
			if all[name] != nil {
				panic("two functions " + name)
			}
			all[name] = f
		}
	}
	return all
})

// predeclared are the primitives as Starlark calls them, with its constants.
var predeclared = sync.OnceValue(func() starlark.StringDict {
	all := starlark.StringDict{"math": starlarkmath.Module, "inf": starlark.Float(math.Inf(1)),
		"nan": starlark.Float(math.NaN())}
	for name, f := range primitives() {
		all[name] = starlark.NewBuiltin(name, func(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
			kwargs []starlark.Tuple) (starlark.Value, error) {
			return f.run(th, name, args, kwargs)
		})
	}
	return all
})

//go:embed parts.star
var partsSource []byte

// parts are the functions that are written in Starlark with primitives.
var parts = sync.OnceValue(func() starlark.StringDict {
	all, err := execute("parts.star", partsSource, trusted, predeclared())
	if err != nil {
		panic(err)
	}
	all.Freeze()
	maps.DeleteFunc(all, func(name string, _ starlark.Value) bool { return strings.HasPrefix(name, "_") })
	return all
})

// composed are all functions that operators may call: the primitives and the parts.
var composed = sync.OnceValue(func() starlark.StringDict {
	all := maps.Clone(predeclared())
	maps.Copy(all, parts())
	return all
})

// elementwise are functions of the elements of one or two tensors.
func elementwise() library {
	return library{
		"add": arithmetic("x + y", (*compose.Graph).Add, (*compose.Graph).Shift, (*compose.Graph).Shift),
		"sub": arithmetic("x - y", (*compose.Graph).Sub,
			func(g *compose.Graph, x *compose.Value, k float64) *compose.Value { return g.Shift(x, -k) },
			func(g *compose.Graph, x *compose.Value, k float64) *compose.Value { return g.Shift(g.Neg(x), k) }),
		"mul": arithmetic("x * y", (*compose.Graph).Mul, (*compose.Graph).Scale, (*compose.Graph).Scale),
		"div": arithmetic("x / y", (*compose.Graph).Div, (*compose.Graph).Over,
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
		"with_gradient": define("y, xs, gradient", "y, with the gradients of the Tensors xs that gradient makes of its own",
			false, withGradient),
		"erfinv": element("inverse of the error function", opdef.Unary{Error: elements.ElementwiseError, F: math.Erfinv,
			DF: func(_, y float64) float64 { return math.Sqrt(math.Pi) / 2 * math.Exp(y*y) }}),
		"rounded": define("x, dtype", "x rounded to the numbers of a dtype, in its own", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var dt dtypeArg
				in.unpack("x", &x, "dtype", &dt)
				return g.Unary("", opdef.Unary{Error: elements.ExactError, F: dt.dt.Round,
					DF: func(_, _ float64) float64 { return 1 }}, x.v)
			}),
		"erf":  element("error function", special.Erf),
		"atan": element("arc tangent", pointwise.Atan),
		"round": element("nearest integer, halves to even", opdef.Unary{Error: elements.ExactError, F: math.RoundToEven,
			I: func(x int64) int64 { return x }, DF: func(_, _ float64) float64 { return 0 }}),
		"floor": element("next integer below", pointwise.Floor),
		"ceil":  element("next integer above", pointwise.Ceil),
		"trunc": element("integer part", pointwise.Trunc),
		"sign":  element("-1, 0 or 1", pointwise.Sign),
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
	}
}

// comparisons are relations, choices between two values, and conversions.
func comparisons() library {
	return library{
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
	}
}

// arrangements are functions that move elements.
func arrangements() library {
	return library{
		"reshape": sizes("x with another shape; one size may be -1", "shape",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Reshape(x, n...) }),
		"permute": sizes("x with its dimensions in another order", "dims",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Permute(x, n...) }),
		"expand": sizes("x broadcast to a shape", "shape",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value {
				g.Check(tensor.CheckSize(n))
				return g.Expand(x, n...)
			}),
		"transpose": numbered("dim0, dim1", "x with two dimensions swapped",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Transpose(x, n[0], n[1]) }),
		"unsqueeze": numbered("dim", "x with a new dimension of size 1",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Unsqueeze(x, n[0]) }),
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
		"narrow": numbered("dim, start, length", "length elements from start along dim",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Narrow(x, n[0], n[1], n[2]) }),
		"slice": define("x, dim, start=0, end=None, step=1", "x[start:end:step] along dim", true, sliced),
		"select": numbered("dim, index", "x at an index of dim, which is dropped",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value {
				dim, index := n[0], n[1]
				if index < 0 {
					index += x.Shape()[g.Axis("dim", dim, x)]
				}
				return g.Select(x, dim, index)
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
		"roll": numbered("shift, dim", "x moved on by shift places along dim, the last to the front",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value { return g.Roll(x, n[1], n[0]) }),
		"repeat_interleave": numbered("n, dim", "each slice along dim n times",
			func(g *compose.Graph, x *compose.Value, n []int) *compose.Value {
				if n[0] < 0 {
					g.Refuse("n", "want 0 or more, got %d", n[0])
				}
				return g.RepeatInterleave(x, n[0], n[1])
			}),
		"diagonal": define("x, offset=0", "the diagonal of a matrix, offset columns right of the main one", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				offset := 0
				in.unpack("x", &x, "offset?", &offset)
				return g.Diagonal(x.v, offset)
			}),
	}
}

// selections are functions that pick elements by index.
func selections() library {
	return library{
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
	}
}

// reductions are functions over dimensions.
func reductions() library {
	return library{
		"sum":  reduction("sum over dimensions, all of them by default", (*compose.Graph).Sum),
		"mean": reduction("mean over dimensions", (*compose.Graph).Mean),
		"amax": reduction("largest element; equal ones share the gradient", (*compose.Graph).Amax),
		"amin": reduction("smallest element; equal ones share the gradient", (*compose.Graph).Amin),
		"kept_sum": define("x, dim, dtype", "sum over dimensions, which stay as one element, kept in a dtype: rounded "+
			"after each term", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			var dims ints
			var dt dtypeArg
			in.unpack("x", &x, "dim", &dims, "dtype", &dt)
			return g.KeptSum(x.v, dt.dt, dims...)
		}),
		"cumsum": along("running sum", (*compose.Graph).Cumsum),
		"topk": define("x, k, dtype=\"int64\"", "the k largest along the last dimension, in falling order, and "+
			"their places in a dtype of integers; others that are as large within rounding are accepted", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var k int
				dt := dtypeArg{dt: tensor.Int64}
				in.unpack("x", &x, "k", &k, "dtype?", &dt)
				values, at := g.TopK(x.v, k)
				return []*compose.Value{values, g.Places(x.v, opdef.Cast(at, dt.dt))}
			}),
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
	}
}

// products are sums of products.
func products() library {
	return library{
		"matmul": binaryTensors("product of the last two dimensions, others broadcast", (*compose.Graph).Matmul),
		"linear": define("x, weight, bias=None", "x times the transpose of weight, plus bias", true,
			func(g *compose.Graph, in *arguments) any {
				var x, weight, bias tensorArg
				in.unpack("x", &x, "weight", &weight, "bias??", &bias)
				return g.Linear(x.v, weight.v, bias.v)
			}),
		"attention": define("q, k, v, "+scoreParams,
			"softmax(scale*q*k + mask)*v, of queries, keys and values [..., length, size]", true, attention),
	}
}

// constants make tensors from numbers. The table also has the functions that change an argument of the call.
func constants() library {
	return library{
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
}
