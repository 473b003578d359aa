package custom

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"go.starlark.net/starlark"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// argument is the argument name of a call as Starlark sees it.
func (o *operator) argument(g *composition, name string, v any) starlark.Value {
	tensorOf := func(t *tensor.Tensor, arg func() *compose.Value) starlark.Value {
		if t == nil {
			return starlark.None
		}
		return tensorValue{g, arg(), o.all}
	}
	if slices.Contains(o.constant, name) {
		tensorOf = func(t *tensor.Tensor, _ func() *compose.Value) starlark.Value {
			if t == nil {
				return starlark.None
			}
			return tensorValue{g, g.Const(t), o.all}
		}
	}
	switch v := v.(type) {
	case *tensor.Tensor:
		return tensorOf(v, func() *compose.Value { return g.Arg(name, v) })
	case []*tensor.Tensor:
		args := g.Args(name, v)
		list := make([]starlark.Value, len(v))
		for i, t := range v {
			list[i] = tensorOf(t, func() *compose.Value { return args[i] })
		}
		return starlark.NewList(list)
	case value.Value: // of an argument of type any
	}
	x, err := plain(v)
	if err != nil {
		g.Refuse(name, "%v", err)
	}
	return x
}

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
// dt.
type example func(g opdef.Gen, dt tensor.DType) *value.Dict

// A generator is a tensor of an example.
type generator struct {
	of       func(g opdef.Gen, dt tensor.DType) *tensor.Tensor
	floating bool
}

func (generator) String() string        { return "generator" }
func (generator) Type() string          { return "generator" }
func (generator) Freeze()               {}
func (generator) Truth() starlark.Bool  { return true }
func (generator) Hash() (uint32, error) { return 0, errors.New("a generator is no key of a dict") }

// maxElements bounds a tensor of an example: checks compute difference quotients of
// each element.
const maxElements = 1 << 14

// generators are the functions that make tensors of examples.
var generators = starlark.StringDict{
	"normal": drawn("normal", 0, func(g opdef.Gen, dt tensor.DType, _ []float64, shape []int) *tensor.Tensor {
		return g.Normal(dt, shape...)
	}),
	"uniform": drawn("uniform", 2, func(g opdef.Gen, dt tensor.DType, n []float64, shape []int) *tensor.Tensor {
		return g.Uniform(dt, n[0], n[1], shape...)
	}),
	"integers": whole("integers", 2, func(g opdef.Gen, n []float64, shape []int) *tensor.Tensor {
		return g.Int(tensor.Int64, int(n[0]), int(n[1]), shape...)
	}),
	"bools": whole("bools", 0, func(g opdef.Gen, _ []float64, shape []int) *tensor.Tensor {
		return g.Int(tensor.Bool, 0, 1, shape...)
	}),
}

// drawn is the function name of so many numbers and a shape.
func drawn(name string, numbers int, of func(g opdef.Gen, dt tensor.DType, n []float64, shape []int) *tensor.Tensor,
) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
		kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(kwargs) > 0 || len(args) < numbers {
			return nil, fmt.Errorf("%s: want %d numbers and the sizes of a shape", name, numbers)
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
		return generator{func(g opdef.Gen, dt tensor.DType) *tensor.Tensor { return of(g, dt, n, shape) }, true}, nil
	})
}

// whole is drawn of a tensor that is not floating.
func whole(name string, numbers int, of func(g opdef.Gen, n []float64, shape []int) *tensor.Tensor) *starlark.Builtin {
	b := drawn(name, numbers, func(g opdef.Gen, _ tensor.DType, n []float64, shape []int) *tensor.Tensor {
		return of(g, n, shape)
	})
	return starlark.NewBuiltin(name, func(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
		kwargs []starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(th, b, args, kwargs)
		if err != nil {
			return nil, err
		}
		return generator{v.(generator).of, false}, nil
	})
}

// generated reads the cases of an operator: a list of dicts of arguments by name.
func generated(cases *starlark.List) ([]example, error) {
	if cases == nil {
		return nil, nil
	}
	var out []example
	for i := range cases.Len() {
		d, ok := cases.Index(i).(*starlark.Dict)
		if !ok {
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
		out = append(out, func(g opdef.Gen, dt tensor.DType) *value.Dict {
			kwargs := &value.Dict{}
			for _, item := range d.Items() {
				name, _ := starlark.AsString(item[0])
				v, _ := made(item[1], g, dt) // tried above
				kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
			}
			return kwargs
		})
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
		if dt, ok := tensor.ParseDType(string(v)); ok {
			return dt, nil
		}
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
			out = append(out, opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *opdef.Arguments {
				kwargs := ex(g, dt)
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
			})(g)...)
		}
		return out
	}
}

// usual are arguments of one shape; the others keep their defaults.
func usual(s *opdef.Schema, shape ...int) example {
	return func(g opdef.Gen, dt tensor.DType) *value.Dict {
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
				panic(fmt.Errorf("argument %q has no default: say cases=[dict(%s=..., ...)]", p.Name, p.Name))
			}
		}
		return kwargs
	}
}
