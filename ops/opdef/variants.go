package opdef

import (
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Cases generates calls of the op from its declaration, the same ones for the
// same state of r. Ops without cases give none.
func (e *Entry) Cases(r *rand.Rand) []*Call {
	args := e.op.cases(Gen{R: r})
	calls := make([]*Call, len(args))
	for i, a := range args {
		calls[i] = e.NewCall(a)
		if calls[i].inplaceFlag() {
			calls[i].written = calls[i].first()
		}
	}
	return calls
}

// first is the tensor an in-place form writes to, nil if the call has none.
func (c *Call) first() *tensor.Tensor {
	if ts := c.tensors(); len(ts) > 0 {
		return ts[0].Tensor
	}
	return nil
}

// As returns the call under another name of its op: an in-place name makes it
// write to its first tensor.
func (c *Call) As(name string) *Call {
	d := *c
	d.Name = name
	if c.Entry.InPlace && IsInPlaceName(name) {
		d.written = c.first()
	}
	return &d
}

// To returns the call with its results written to out, as out= does.
func (c *Call) To(out ...*tensor.Tensor) *Call {
	d := *c
	d.out = out
	return &d
}

// Python returns the arguments of the call as the Python values that bind to
// them: positional ones, then the keyword-only ones.
func (c *Call) Python() (args []value.Value, kwargs *value.Dict) {
	kwargs = &value.Dict{}
	st := reflect.ValueOf(c.args).Elem()
	for i, p := range c.Entry.Schema.Params {
		var v value.Value
		if f := c.Entry.setters[i].field; f != nil {
			if v = python(st.FieldByIndex(f)); v == nil && p.Type.List && !p.Type.Optional {
				v = value.NewList()
			}
		}
		if p.Keyword {
			kwargs.Items = append(kwargs.Items, value.Item{Key: p.Name, Value: v})
		} else {
			args = append(args, v)
		}
	}
	return args, kwargs
}

// Unwritten returns the call without the way in which it was written: Called then gives
// arguments by their places in the schema, not by names that Bind took for them.
func (c *Call) Unwritten() *Call {
	d := *c
	d.bound = nil
	return &d
}

// concise returns the arguments of a call without those that have their default; others that
// have one are given by keyword.
func (c *Call) concise() (args []value.Value, kwargs *value.Dict) {
	kwargs = &value.Dict{}
	for i, p := range c.Entry.Schema.Params {
		if c.Entry.setters[i].field == nil {
			continue
		}
		a := c.argument(i)
		v := a.Python()
		switch {
		case a.IsDefault() || v == nil && !p.Required:
		case p.Keyword || !p.Required:
			kwargs.Items = append(kwargs.Items, value.Item{Key: p.Name, Value: v})
		case v == nil && p.Type.List && !p.Type.Optional:
			args = append(args, value.NewList())
		default:
			args = append(args, v)
		}
	}
	switch {
	case c.out == nil:
	case len(c.out) == 1:
		kwargs.Items = append(kwargs.Items, value.Item{Key: "out", Value: c.out[0]})
	default:
		out := &value.Sequence{Kind: value.Tuple}
		for _, t := range c.out {
			out.Items = append(out.Items, t)
		}
		kwargs.Items = append(kwargs.Items, value.Item{Key: "out", Value: out})
	}
	return args, kwargs
}

// Called returns the arguments as the call was written: those that Bind was given, with
// the tensors that Map put in their place; without Bind as people write them. Lists and
// dicts are new ones where a tensor in them was replaced.
func (c *Call) Called() (args []value.Value, kwargs *value.Dict) {
	if c.bound == nil {
		return c.concise()
	}
	before, now := (&Call{Entry: c.Entry, args: c.bound.fields}).tensors(), c.tensors()
	replaced := map[*tensor.Tensor]*tensor.Tensor{}
	for i, a := range before {
		if a.Tensor != nil && now[i].Tensor != a.Tensor {
			replaced[a.Tensor] = now[i].Tensor
		}
	}
	if len(replaced) == 0 {
		return c.bound.args, c.bound.kwargs
	}
	put := func(v value.Value) value.Value { return replace(v, replaced) }
	for _, v := range c.bound.args {
		args = append(args, put(v))
	}
	if c.bound.kwargs == nil {
		return args, nil
	}
	kwargs = &value.Dict{Class: c.bound.kwargs.Class}
	for _, it := range c.bound.kwargs.Items {
		if it.Key != value.Value("out") || c.out == nil { // what is written to stays, though it be an argument as well
			it.Value = put(it.Value)
		}
		kwargs.Items = append(kwargs.Items, it)
	}
	return args, kwargs
}

// replace is v with other tensors in the place of some.
func replace(v value.Value, by map[*tensor.Tensor]*tensor.Tensor) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		if t := by[v]; t != nil {
			return t
		}
	case *value.Sequence:
		s := *v
		s.Items = make([]value.Value, len(v.Items))
		for i, it := range v.Items {
			s.Items[i] = replace(it, by)
		}
		return &s
	case *value.Dict:
		d := *v
		d.Items = make([]value.Item, len(v.Items))
		for i, it := range v.Items {
			d.Items[i] = value.Item{Key: it.Key, Value: replace(it.Value, by)}
		}
		return &d
	}
	return v
}

func python(f reflect.Value) value.Value {
	switch v := f.Interface().(type) {
	case *tensor.Tensor:
		switch {
		case v == nil:
			return nil
		case v.Wrapped:
			return ScalarAt(v, 0).Python()
		}
		return v
	case Scalar:
		return v.Python()
	case int:
		return int64(v)
	case float64, bool, string, tensor.DType, nil:
		return v
	}
	switch {
	case f.Kind() == reflect.Interface:
		return f.Interface()
	case f.IsNil():
		return nil
	case f.Kind() == reflect.Pointer:
		return python(f.Elem())
	}
	list := value.NewList()
	for i := range f.Len() {
		list.Items = append(list.Items, python(f.Index(i)))
	}
	return list
}

// Python is the number as a Python value.
func (s Scalar) Python() value.Value {
	switch s.Kind() {
	case tensor.KindBool:
		return s.i != 0
	case tensor.KindFloat:
		return s.f
	case tensor.KindComplex:
		return s.c
	}
	return s.i
}

// MapScalars returns the call with every Scalar argument replaced by f of it,
// items of lists included; absent ones stay.
func (c *Call) MapScalars(f func(Scalar) Scalar) *Call { return mapFields(c, "Scalar", f) }

// MapDTypes is MapScalars for dtype arguments.
func (c *Call) MapDTypes(f func(tensor.DType) tensor.DType) *Call { return mapFields(c, "dtype", f) }

// Nested are the tensors in arguments of any type: of an index, by the names of the arguments.
func (c *Call) Nested() (all []Arg) {
	c.MapNested(func(a Arg) *tensor.Tensor {
		all = append(all, a)
		return a.Tensor
	})
	return all
}

// MapNested is the call with f of each of its Nested tensors.
func (c *Call) MapNested(f func(Arg) *tensor.Tensor) *Call {
	p := reflect.New(c.Entry.op.argsType())
	p.Elem().Set(reflect.ValueOf(c.args).Elem())
	for i, prm := range c.Entry.Schema.Params {
		if prm.Type.Base != "any" {
			continue
		}
		n := 0
		var of func(v value.Value) value.Value
		of = func(v value.Value) value.Value {
			switch v := v.(type) {
			case *tensor.Tensor:
				n++
				return f(Arg{prm.Name, n - 1, v})
			case *value.Sequence:
				items := slices.Clone(v.Items)
				for k := range items {
					items[k] = of(items[k])
				}
				return &value.Sequence{Kind: v.Kind, Items: items}
			}
			return v
		}
		field := p.Elem().FieldByIndex(c.Entry.setters[i].field)
		if v, ok := field.Interface().(value.Value); ok {
			field.Set(reflect.ValueOf(of(v)))
		}
	}
	return c.with(p.Interface())
}

func mapFields[T any](c *Call, base string, f func(T) T) *Call {
	p := reflect.New(c.Entry.op.argsType())
	p.Elem().Set(reflect.ValueOf(c.args).Elem())
	for i, prm := range c.Entry.Schema.Params {
		if prm.Type.Base != base {
			continue
		}
		field := p.Elem().FieldByIndex(c.Entry.setters[i].field)
		switch v := field.Interface().(type) {
		case T:
			field.Set(reflect.ValueOf(f(v)))
		case *T:
			if v != nil {
				s := f(*v)
				field.Set(reflect.ValueOf(&s))
			}
		case []T:
			out := slices.Clone(v)
			for k, s := range out {
				out[k] = f(s)
			}
			field.Set(reflect.ValueOf(out))
		}
	}
	return c.with(p.Interface())
}
