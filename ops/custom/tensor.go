package custom

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A composition is a graph that a thread makes.
type composition struct {
	*compose.Graph
	thread *starlark.Thread
	names  map[*compose.Value]string // of arguments
	wanted []tensorValue             // arguments that ask for a gradient
}

// Refuse ends the composition where Starlark itself has no error, with the place.
func (c *composition) Refuse(format string, args ...any) {
	c.Graph.Refuse("", "%v", placed(c.thread.CallStack(), fmt.Errorf(format, args...)))
}

// A tensorValue is a tensor of a composition as Starlark sees it: arithmetic, len,
// x[i] and x[a:b] along the first dimension, shape, ndim and dtype, and as methods the
// functions whose first argument is a tensor.
type tensorValue struct {
	g *composition
	t *tensor.Tensor
	v func() *compose.Value
}

// computed is a value of a composition.
func computed(g *composition, v *compose.Value) tensorValue {
	return tensorValue{g, v.T, func() *compose.Value { return v }}
}

// unread is the argument name, which becomes a value of the composition when a function
// first computes with it: what is not read has no part in bounds.
func unread(g *composition, name string, t *tensor.Tensor, arg func() *compose.Value) tensorValue {
	return tensorValue{g, t, sync.OnceValue(func() *compose.Value {
		v := arg()
		g.names[v] = name
		return v
	})}
}

var (
	_ starlark.HasAttrs  = tensorValue{}
	_ starlark.HasBinary = tensorValue{}
	_ starlark.HasUnary  = tensorValue{}
	_ starlark.Sliceable = tensorValue{}
)

func (t tensorValue) String() string        { return t.t.Meta() }
func (t tensorValue) Type() string          { return "Tensor" }
func (t tensorValue) Freeze()               {}
func (t tensorValue) Hash() (uint32, error) { return 0, errors.New("a Tensor is no key of a dict") }

// Truth refuses: the elements of a Tensor are not known while the function runs.
func (t tensorValue) Truth() starlark.Bool {
	t.g.Refuse("a Tensor is neither true nor false, its elements are not known here: where(cond, x, y) chooses " +
		"among them, \"x != None\" asks whether it was given")
	return false
}

func (t tensorValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "shape":
		return intTuple(t.t.Shape), nil
	case "ndim":
		return starlark.MakeInt(t.t.Dim()), nil
	case "numel":
		return starlark.MakeInt(t.t.Numel()), nil
	case "dtype":
		return starlark.String(t.t.DType.String()), nil
	case "is_floating":
		return starlark.Bool(t.t.DType.IsFloat()), nil
	case "is_integer":
		return starlark.Bool(t.t.DType.Kind() == tensor.KindInt), nil
	}
	f, ok := primitives()[name]
	if !ok || !f.method {
		return nil, nil
	}
	return starlark.NewBuiltin(name, func(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
		kwargs []starlark.Tuple) (starlark.Value, error) {
		return f.run(th, name, append(starlark.Tuple{t}, args...), kwargs)
	}), nil
}

func (t tensorValue) AttrNames() []string {
	names := []string{"dtype", "is_floating", "is_integer", "ndim", "numel", "shape"}
	for n, f := range primitives() {
		if f.method {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func (t tensorValue) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	name, ok := map[syntax.Token]string{syntax.PLUS: "add", syntax.MINUS: "sub", syntax.STAR: "mul",
		syntax.SLASH: "div", syntax.SLASHSLASH: "floordiv", syntax.PERCENT: "mod"}[op]
	if !ok {
		return nil, nil
	}
	args := starlark.Tuple{t, y}
	if side == starlark.Right {
		args = starlark.Tuple{y, t}
	}
	return primitives()[name].apply(t.g, name, args, nil)
}

func (t tensorValue) Unary(op syntax.Token) (starlark.Value, error) {
	switch op {
	case syntax.MINUS:
		return primitives()["neg"].apply(t.g, "neg", starlark.Tuple{t}, nil)
	case syntax.PLUS:
		return t, nil
	}
	return nil, nil
}

func (t tensorValue) Len() int {
	if t.t.Dim() == 0 {
		return 0
	}
	return t.t.Shape[0]
}

func (t tensorValue) Index(i int) starlark.Value {
	return computed(t.g, t.g.Select(t.v(), 0, i))
}

func (t tensorValue) Slice(start, end, step int) starlark.Value {
	if step < 1 {
		t.g.Refuse("a slice of a Tensor goes forward, not in steps of %d", step)
	}
	n := max(0, (end-start+step-1)/step)
	if n == 0 {
		start = 0
	}
	return computed(t.g, t.g.Slice(t.v(), 0, start, n, step))
}

func intTuple(v []int) starlark.Tuple {
	out := make(starlark.Tuple, len(v))
	for i, n := range v {
		out[i] = starlark.MakeInt(n)
	}
	return out
}

// An operand is a Tensor or a number, which is one as torch's arithmetic takes it.
type operand struct {
	tensor *compose.Value
	number *opdef.Scalar
}

func (o *operand) Unpack(v starlark.Value) error {
	if t, ok := v.(tensorValue); ok {
		o.tensor = t.v()
		return nil
	}
	s, err := scalar(v)
	if err != nil {
		return fmt.Errorf("want a Tensor or a number, got %s", v.Type())
	}
	o.number = &s
	return nil
}

func (o operand) of(g *compose.Graph) *compose.Value {
	if o.number != nil {
		return g.Scalar(*o.number)
	}
	return o.tensor
}

// scalar is a Python number.
func scalar(v starlark.Value) (opdef.Scalar, error) {
	switch v := v.(type) {
	case starlark.Bool:
		return opdef.Bool(bool(v)), nil
	case starlark.Float:
		return opdef.Float(float64(v)), nil
	case starlark.Int:
		if n, ok := v.Int64(); ok {
			return opdef.Int(n), nil
		}
		return opdef.Scalar{}, fmt.Errorf("%s is beyond 64 bits", v)
	}
	return opdef.Scalar{}, fmt.Errorf("want a number, got %s", v.Type())
}

// A tensorArg is an argument that must be a Tensor.
type tensorArg struct{ v *compose.Value }

func (a *tensorArg) Unpack(v starlark.Value) error {
	t, ok := v.(tensorValue)
	if !ok {
		return fmt.Errorf("want a Tensor, got %s", v.Type())
	}
	a.v = t.v()
	return nil
}

// An integer is one that may be left out.
type integer struct {
	n     int
	given bool
}

func (a *integer) Unpack(v starlark.Value) (err error) {
	a.n, err = starlark.AsInt32(v)
	a.given = err == nil
	return err
}

// or is the integer, or other where it was left out.
func (a integer) or(other int) int {
	if a.given {
		return a.n
	}
	return other
}

// A real is a number that may be left out.
type real struct {
	x     starlark.Float
	given bool
}

func (a *real) Unpack(v starlark.Value) error {
	err := asFloat{&a.x}.Unpack(v)
	a.given = err == nil
	return err
}

// tensorArgs are a list of Tensors.
type tensorArgs []*compose.Value

func (a *tensorArgs) Unpack(v starlark.Value) error {
	return each(v, "Tensors", func(item starlark.Value) error {
		var t tensorArg
		if err := t.Unpack(item); err != nil {
			return err
		}
		*a = append(*a, t.v)
		return nil
	})
}

// ints are one integer or a list of them.
type ints []int

func (a *ints) Unpack(v starlark.Value) error {
	if _, ok := v.(starlark.Int); ok {
		v = starlark.Tuple{v}
	}
	*a = ints{}
	return each(v, "integers", func(item starlark.Value) error {
		n, err := starlark.AsInt32(item)
		if err != nil {
			return err
		}
		*a = append(*a, n)
		return nil
	})
}

func each(v starlark.Value, of string, f func(starlark.Value) error) error {
	seq, ok := v.(starlark.Indexable)
	if _, tensor := v.(tensorValue); !ok || tensor || v.Type() == "string" {
		return fmt.Errorf("want a list of %s, got %s", of, v.Type())
	}
	for i := range seq.Len() {
		if err := f(seq.Index(i)); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// A dtypeArg is the name of a dtype.
type dtypeArg struct {
	dt    tensor.DType
	given bool
}

func (a *dtypeArg) Unpack(v starlark.Value) error {
	s, ok := starlark.AsString(v)
	dt, known := tensor.ParseDType(s)
	if !ok || !known || !dt.Computable() {
		return fmt.Errorf("want the name of a dtype, such as \"float32\", got %s", v)
	}
	a.dt, a.given = dt, true
	return nil
}
