package custom

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Function is one that operators may be made of.
type Function struct {
	Signature string // "softmax(x, dim)"
	Doc       string // what it gives, a phrase
}

// Functions lists them by name: the primitives, and those that parts.star makes of them.
func Functions() []Function {
	var out []Function
	for name, f := range primitives() {
		out = append(out, Function{name + "(" + f.params + ")", f.doc})
	}
	for name, v := range parts() {
		f, ok := v.(*starlark.Function)
		if !ok {
			continue
		}
		doc := strings.TrimSuffix(strings.Join(strings.Fields(f.Doc()), " "), ".")
		out = append(out, Function{name + "(" + parameters(f) + ")", doc})
	}
	slices.SortFunc(out, func(a, b Function) int { return strings.Compare(a.Signature, b.Signature) })
	return out
}

// parameters are those of a function as its definition writes them.
func parameters(f *starlark.Function) string {
	var all []string
	for i := range f.NumParams() {
		p, _ := f.Param(i)
		if d := f.ParamDefault(i); d != nil {
			p += "=" + d.String()
		}
		all = append(all, p)
	}
	return strings.Join(all, ", ")
}

// A function of Starlark that computes with the tensors of a composition.
type function struct {
	params string
	doc    string
	method bool // of a tensor too: the first parameter is one
	call   func(g *compose.Graph, in *arguments) any
}

func define(params, doc string, method bool, call func(g *compose.Graph, in *arguments) any) *function {
	return &function{params: params, doc: doc, method: method, call: call}
}

// arguments are those of one call of a function.
type arguments struct {
	of     *composition
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

// A refusal is what the writer of an operator refuses an argument with.
type refusal struct{ *opdef.RefusedError }

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
		case refusal:
			err = r
		case *opdef.RefusedError:
			err = fmt.Errorf("%s: %w", name, r)
		default:
			panic(r)
		}
	}()
	switch out := f.call(g.Graph, &arguments{g, name, args, kwargs}).(type) {
	case *compose.Value:
		if len(args) > 0 && g.names[out] == "" { // refusals name the argument that it was made of
			if x, ok := args[0].(tensorValue); ok {
				g.names[out] = g.names[x.v()]
			}
		}
		return computed(g, out), nil
	case []*compose.Value:
		list := make([]starlark.Value, len(out))
		for i, x := range out {
			list[i] = computed(g, x)
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

// element is the function of one element that u declares.
func element(doc string, u opdef.Unary) *function {
	return define("x", doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		in.unpack("x", &x)
		return g.Unary("", u, x.v).Called(in.name)
	})
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

// arithmetic is binary; of a tensor x and a number k, one of which is floating, it is right, and
// left where the number comes first: the reference does not round k to x's dtype.
func arithmetic(doc string, tensors func(g *compose.Graph, x, y *compose.Value) *compose.Value,
	right, left func(g *compose.Graph, x *compose.Value, k float64) *compose.Value) *function {
	floating := func(x *compose.Value, k *opdef.Scalar) bool {
		return x != nil && k != nil && k.Kind() != tensor.KindComplex &&
			(x.DType().Kind() >= tensor.KindFloat || k.Kind() == tensor.KindFloat)
	}
	return define("x, y", doc, true, func(g *compose.Graph, in *arguments) any {
		var x, y operand
		in.unpack("x", &x, "y", &y)
		switch {
		case floating(x.tensor, y.number):
			return right(g, x.tensor, y.number.Float64())
		case floating(y.tensor, x.number):
			return left(g, y.tensor, x.number.Float64())
		}
		return tensors(g, x.of(g), y.of(g))
	})
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

// numbered is a function of a Tensor and of integers, given by place or by the names of params.
func numbered(params, doc string, f func(g *compose.Graph, x *compose.Value, n []int) *compose.Value) *function {
	return define("x, "+params, doc, true, func(g *compose.Graph, in *arguments) any {
		var x tensorArg
		names := strings.Split(params, ", ")
		n, pairs := make([]int, len(names)), []any{"x", &x}
		for i, name := range names {
			pairs = append(pairs, name, &n[i])
		}
		in.unpack(pairs...)
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

// maxInts is how many elements of a tensor become Starlark's integers.
const maxInts = 1 << 20

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

// withGradient is a value whose gradients a function of Starlark makes, as a kernel for the backward pass does.
func withGradient(g *compose.Graph, in *arguments) any {
	var y tensorArg
	var xs tensorArgs
	var gradient starlark.Callable
	in.unpack("y", &y, "xs", &xs, "gradient", &gradient)
	of := in.of
	return g.WithGradient(y.v, xs, func(up *compose.Value) []*compose.Value {
		out, err := starlark.Call(of.thread, gradient, starlark.Tuple{computed(of, up)}, nil)
		if err != nil {
			g.Refuse("", "%v", position(err))
		}
		var grads tensorArgs
		if one, is := out.(tensorValue); is {
			grads = tensorArgs{one.v()}
		} else if err := grads.Unpack(out); err != nil {
			g.Refuse("gradient", "want a Tensor or a list of them: %v", err)
		}
		if len(grads) != len(xs) {
			g.Refuse("gradient", "want %d gradients, got %d", len(xs), len(grads))
		}
		return grads
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
		x := integral(g, "index", t.v())
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

// scoreParams are the arguments of attentions behind queries, keys and values.
const scoreParams = "scale=None, causal=False, mask=None, window=(-1, -1), softcap=0.0, offset=None"

// scores unpacks tensors, the first two of them queries and keys whose lengths are in dimension length of the end,
// and scoreParams.
func scores(g *compose.Graph, in *arguments, length int, tensors []any, more ...any) compose.Scores {
	var mask tensorArg
	var window ints
	var offset integer
	var scale real
	causal, softcap := false, starlark.Float(0)
	in.unpack(slices.Concat(tensors, []any{"scale??", &scale, "causal?", &causal, "mask??", &mask, "window?",
		&window, "softcap?", asFloat{&softcap}, "offset??", &offset}, more)...)
	var shapes [][]int
	for i := 0; i < len(tensors); i += 2 {
		x := tensors[i+1].(*tensorArg).v
		if x.Dim() < length {
			g.Refuse(tensors[i].(string), "want at least %d dimensions, got %s", length, x.T.Meta())
		}
		shapes = append(shapes, x.Shape()[x.Dim()-length:])
	}
	s := compose.Everything(1 / math.Sqrt(float64(shapes[0][length-1])))
	if scale.given {
		s.Scale = float64(scale.x)
	}
	s.Offset = offset.or(shapes[1][0] - shapes[0][0]) // the last query stands at the last key
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
	return s
}

func attention(g *compose.Graph, in *arguments) any {
	var q, k, v tensorArg
	s := scores(g, in, 2, []any{"q", &q, "k", &k, "v", &v})
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
