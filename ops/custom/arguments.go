package custom

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"go.starlark.net/starlark"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// argument is the argument p of a call as Starlark sees it.
func (o *operator) argument(g *composition, p opdef.Param, v any) starlark.Value {
	constant := p.Type.Base == "any" || slices.Contains(o.constant, p.Name)
	tensorOf := func(t *tensor.Tensor, arg func() *compose.Value) starlark.Value {
		if constant {
			arg = func() *compose.Value { return g.Const(t) }
		}
		if t == nil {
			return starlark.None
		}
		x := unread(g, p.Name, t, arg)
		if o.hasGrad && !constant && t.RequiresGrad {
			g.wanted = append(g.wanted, x)
		}
		return x
	}
	switch v := v.(type) {
	case *tensor.Tensor:
		return tensorOf(v, func() *compose.Value { return g.Arg(p.Name, v) })
	case []*tensor.Tensor:
		if v == nil && p.Type.Optional {
			return starlark.None
		}
		args := sync.OnceValue(func() []*compose.Value { return g.Args(p.Name, v) })
		list := make([]starlark.Value, len(v))
		for i, t := range v {
			list[i] = tensorOf(t, func() *compose.Value { return args()[i] })
		}
		return starlark.NewList(list)
	case *value.Sequence:
		list := make([]starlark.Value, len(v.Items))
		for i, item := range v.Items {
			list[i] = o.argument(g, opdef.Param{Name: p.Name, Type: opdef.Type{Base: "any"}}, item)
		}
		return starlark.NewList(list)
	}
	x, err := plain(v)
	if err != nil && p.Type.Base == "any" {
		return opaque{typeName(v)}
	} else if err != nil {
		g.Refuse(p.Name, "%v", err)
	}
	return x
}

// An opaque is an argument that a function can only compare with None.
type opaque struct{ of string }

func (o opaque) String() string        { return o.of }
func (o opaque) Type() string          { return o.of }
func (opaque) Freeze()                 {}
func (opaque) Truth() starlark.Bool    { return true }
func (o opaque) Hash() (uint32, error) { return 0, fmt.Errorf("%s is no key of a dict", o.of) }

// plain is an argument without tensors.
func plain(v any) (starlark.Value, error) {
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(v), nil
	case int:
		return starlark.MakeInt(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case float64:
		return starlark.Float(v), nil
	case string:
		return starlark.String(v), nil
	case tensor.DType:
		return starlark.String(v.String()), nil
	case opdef.Scalar:
		return number(v)
	case *bool:
		return optional(v)
	case *int:
		return optional(v)
	case *float64:
		return optional(v)
	case *string:
		return optional(v)
	case *tensor.DType:
		return optional(v)
	case *opdef.Scalar:
		return optional(v)
	case []int:
		return list(v)
	case []float64:
		return list(v)
	case []bool:
		return list(v)
	case []opdef.Scalar:
		return list(v)
	case *value.Sequence:
		return list(v.Items)
	}
	return nil, fmt.Errorf("an operator of a file cannot take %s", typeName(v))
}

func typeName(v any) string {
	if v, ok := v.(value.Value); ok {
		return opdef.TypeName(v)
	}
	return fmt.Sprintf("%T", v)
}

func optional[T any](v *T) (starlark.Value, error) {
	if v == nil {
		return starlark.None, nil
	}
	return plain(*v)
}

func list[T any](v []T) (starlark.Value, error) {
	out := make([]starlark.Value, len(v))
	for i, x := range v {
		var err error
		if out[i], err = plain(x); err != nil {
			return nil, err
		}
	}
	return starlark.NewList(out), nil
}

func number(s opdef.Scalar) (starlark.Value, error) {
	switch s.Kind() {
	case tensor.KindComplex:
		return nil, errors.New("a complex number, which Starlark does not have")
	case tensor.KindFloat:
		return starlark.Float(s.Float64()), nil
	case tensor.KindBool:
		return starlark.Bool(s.Int64() != 0), nil
	}
	return starlark.MakeInt64(s.Int64()), nil
}

// An example generates the keyword arguments of a case with floating tensors of dtype
// dt, or always of its own.
type example struct {
	own *tensor.DType
	of  func(g opdef.Gen, dt tensor.DType) *value.Dict
}

// A generator is a tensor of an example.
type generator struct {
	of func(g opdef.Gen, dt tensor.DType) *tensor.Tensor
}

func (generator) String() string        { return "generator" }
func (generator) Type() string          { return "generator" }
func (generator) Freeze()               {}
func (generator) Truth() starlark.Bool  { return true }
func (generator) Hash() (uint32, error) { return 0, errors.New("a generator is no key of a dict") }

// A single is a case of one dtype.
type single struct {
	generator
	dt   tensor.DType
	args *starlark.Dict
}

// maxElements bounds a tensor of an example: checks compute difference quotients of
// each element.
const maxElements = 1 << 14

// generators are the functions that make tensors of examples.
var generators = starlark.StringDict{
	"normal": drawn("normal", 0, nil, func(g opdef.Gen, dt tensor.DType, _ []float64, shape []int) *tensor.Tensor {
		return g.Normal(dt, shape...)
	}),
	"uniform": drawn("uniform", 2, nil, func(g opdef.Gen, dt tensor.DType, n []float64, shape []int) *tensor.Tensor {
		return g.Uniform(dt, n[0], n[1], shape...)
	}),
	"distinct": drawn("distinct", 0, nil, func(g opdef.Gen, dt tensor.DType, _ []float64, shape []int) *tensor.Tensor {
		return g.Distinct(dt, shape...)
	}),
	"apart": drawn("apart", 1, nil, func(g opdef.Gen, dt tensor.DType, n []float64, shape []int) *tensor.Tensor {
		return g.Apart(dt, []float64{-n[0], n[0]}, shape...)
	}),
	"integers": drawn("integers", 2, &whole, func(g opdef.Gen, dt tensor.DType, n []float64,
		shape []int) *tensor.Tensor {
		return g.Int(dt, int(n[0]), int(n[1]), shape...)
	}),
	"bools": drawn("bools", 0, &truth, func(g opdef.Gen, dt tensor.DType, _ []float64, shape []int) *tensor.Tensor {
		return g.Int(dt, 0, 1, shape...)
	}),
	"given": starlark.NewBuiltin("given", given),
	"only":  starlark.NewBuiltin("only", only),
}

var whole, truth = tensor.Int64, tensor.Bool

// drawn is the function name of so many numbers and a shape, of a dtype of its own or (nil) that of the case.
func drawn(name string, numbers int, own *tensor.DType,
	of func(g opdef.Gen, dt tensor.DType, n []float64, shape []int) *tensor.Tensor) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
		kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) < numbers {
			return nil, fmt.Errorf("%s: want %d numbers and the sizes of a shape", name, numbers)
		}
		var fixed dtypeArg
		grad := true
		if err := starlark.UnpackArgs(name, nil, kwargs, "dtype?", &fixed, "grad?", &grad); err != nil {
			return nil, err
		}
		var n []float64
		var shape ints
		for _, a := range args[:numbers] {
			x, ok := starlark.AsFloat(a)
			if !ok {
				return nil, fmt.Errorf("%s: want a number, got %s", name, a.Type())
			}
			n = append(n, x)
		}
		if numbers == 2 && !(n[0] <= n[1]) {
			return nil, fmt.Errorf("%s: %v is above %v", name, n[0], n[1])
		}
		if err := shape.Unpack(args[numbers:]); err != nil {
			return nil, fmt.Errorf("%s: shape: %w", name, err)
		}
		total := 1
		for _, size := range shape {
			if total *= size; size < 0 || total > maxElements {
				return nil, fmt.Errorf("%s: shape %s: want sizes from 0 and at most %d elements", name,
					tensor.ShapeString(shape), maxElements)
			}
		}
		return generator{func(g opdef.Gen, dt tensor.DType) *tensor.Tensor {
			if fixed.given {
				dt = fixed.dt
			} else if own != nil {
				dt = *own
			}
			t := of(g, dt, n, shape)
			t.RequiresGrad = t.RequiresGrad && grad
			return t
		}}, nil
	})
}

// given is the tensor of numbers that a list, or a list of lists, holds.
func given(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
	error) {
	var list starlark.Value
	dt := dtypeArg{dt: tensor.Int32}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "numbers", &list, "dtype?", &dt); err != nil {
		return nil, err
	}
	var shape []int
	var numbers []float64
	var read func(v starlark.Value, depth int) error
	read = func(v starlark.Value, depth int) error {
		if x, ok := starlark.AsFloat(v); ok {
			numbers = append(numbers, x)
			return nil
		} else if b, ok := v.(starlark.Bool); ok {
			numbers = append(numbers, float64(elements.Indicator(bool(b))))
			return nil
		}
		seq, ok := v.(starlark.Indexable)
		if !ok {
			return fmt.Errorf("want numbers and lists of them, got %s", v.Type())
		}
		if depth == len(shape) {
			shape = append(shape, seq.Len())
		}
		for i := range seq.Len() {
			if err := read(seq.Index(i), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err := read(list, 0)
	if err == nil && tensor.Numel(shape) != len(numbers) {
		err = errors.New("the lists are of different lengths")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return generator{func(opdef.Gen, tensor.DType) *tensor.Tensor { // a new one, since checks change it
		return opdef.Cast(tensor.New(tensor.Float64, shape, numbers), dt.dt).Rounded()
	}}, nil
}

// only is a case whose floating tensors have one dtype.
func only(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
	error) {
	var dt dtypeArg
	if err := starlark.UnpackArgs(b.Name(), args, nil, "dtype", &dt); err != nil {
		return nil, err
	}
	d := starlark.NewDict(len(kwargs))
	for _, item := range kwargs {
		if err := d.SetKey(item[0], item[1]); err != nil {
			return nil, err
		}
	}
	return single{dt: dt.dt, args: d}, nil
}

// generated reads the cases of an operator: a list of dicts of arguments by name.
func generated(cases *starlark.List) ([]example, error) {
	if cases == nil {
		return nil, nil
	}
	var out []example
	for i := range cases.Len() {
		var own *tensor.DType
		d, ok := cases.Index(i).(*starlark.Dict)
		if one, is := cases.Index(i).(single); is {
			d, own = one.args, &one.dt
		} else if !ok {
			return nil, fmt.Errorf("case %d: want a dict of arguments, got %s", i, cases.Index(i).Type())
		}
		for _, item := range d.Items() {
			if _, ok := starlark.AsString(item[0]); !ok {
				return nil, fmt.Errorf("case %d: want names of arguments, got %s", i, item[0])
			}
			if _, err := made(item[1], opdef.Gen{R: rand.New(rand.NewPCG(1, 1))}, tensor.Float32); err != nil {
				return nil, fmt.Errorf("case %d: argument %s: %w", i, item[0], err)
			}
		}
		out = append(out, example{own, func(g opdef.Gen, dt tensor.DType) *value.Dict {
			kwargs := &value.Dict{}
			for _, item := range d.Items() {
				name, _ := starlark.AsString(item[0])
				v, _ := made(item[1], g, dt) // tried above
				kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
			}
			return kwargs
		}})
	}
	cases.Freeze()
	return out, nil
}

// made is an argument of a case.
func made(v starlark.Value, g opdef.Gen, dt tensor.DType) (value.Value, error) {
	switch v := v.(type) {
	case generator:
		return v.of(g, dt), nil
	case starlark.NoneType:
		return nil, nil
	case starlark.String:
		return string(v), nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Float:
		return float64(v), nil
	case starlark.Int:
		n, ok := v.Int64()
		if !ok {
			return nil, fmt.Errorf("%s is beyond 64 bits", v)
		}
		return n, nil
	case starlark.Indexable:
		out := value.NewList()
		for i := range v.Len() {
			item, err := made(v.Index(i), g, dt)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, item)
		}
		return out, nil
	}
	return nil, fmt.Errorf("want numbers, words, lists and what %v make, got %s",
		slices.Sorted(maps.Keys(generators)), v.Type())
}

// arguments are the cases of an operator, those of the file or, where there are none,
// matrices and stacks of them for all tensors.
func (o *operator) arguments(entry func() *opdef.Entry) func(g opdef.Gen) []*opdef.Arguments {
	return func(g opdef.Gen) []*opdef.Arguments {
		e, examples := entry(), o.cases
		if len(examples) == 0 {
			examples = []example{usual(e.Schema, 4, 6), usual(e.Schema, 2, 4, 6)}
		}
		var out []*opdef.Arguments
		for _, ex := range examples {
			one := func(g opdef.Gen, dt tensor.DType) *opdef.Arguments {
				kwargs := ex.of(g, dt)
				for _, p := range e.Schema.Params {
					if name, ok := kwargs.Get(p.Name); ok && p.Type.Base == "dtype" {
						setDType(kwargs, p.Name, name)
					}
				}
				for _, name := range o.constant {
					v, _ := kwargs.Get(name)
					if t, ok := v.(*tensor.Tensor); ok {
						t.RequiresGrad = false
					}
				}
				a, err := e.Arguments(nil, kwargs)
				if err != nil {
					panic(err)
				}
				return a
			}
			if ex.own != nil {
				out = append(out, one(g, *ex.own))
			} else {
				out = append(out, opdef.PerDType(one)(g)...)
			}
		}
		return out
	}
}

// setDType makes the dtype of a name, which words of other arguments look like.
func setDType(kwargs *value.Dict, arg string, name value.Value) {
	word, _ := name.(string)
	dt, ok := tensor.ParseDType(word)
	for i, item := range kwargs.Items {
		if ok && item.Key == value.Value(arg) {
			kwargs.Items[i].Value = dt
		}
	}
}

// usual are arguments of one shape; the others keep their defaults.
func usual(s *opdef.Schema, shape ...int) example {
	return example{of: func(g opdef.Gen, dt tensor.DType) *value.Dict {
		kwargs := &value.Dict{}
		set := func(name string, v value.Value) {
			kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
		}
		for _, p := range s.Params {
			switch {
			case p.Type.Base == "Tensor" && p.Type.List:
				set(p.Name, value.NewList(g.Normal(dt, shape...), g.Normal(dt, shape...)))
			case p.Type.Base == "Tensor":
				set(p.Name, g.Normal(dt, shape...))
			case p.Required:
				panic(fmt.Errorf("argument %q has no default: give op() cases=[dict(%s=..., ...)]", p.Name, p.Name))
			}
		}
		return kwargs
	}}
}
