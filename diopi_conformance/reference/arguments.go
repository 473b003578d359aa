package reference

import (
	"fmt"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// arguments are those of a call, by name.
type arguments struct{ *value.Dict }

func (a arguments) value(name string) value.Value {
	v, _ := a.Get(name)
	return v
}

// has reports whether the argument is given and not None.
func (a arguments) has(name string) bool { return a.value(name) != nil }

// with are the arguments with another value for one of them.
func (a arguments) with(name string, v value.Value) arguments {
	d := &value.Dict{Items: []value.Item{{Key: name, Value: v}}}
	for _, it := range a.Items {
		if it.Key != name {
			d.Items = append(d.Items, it)
		}
	}
	return arguments{d}
}

func (a arguments) tensor(name string) (*tensor.Tensor, error) {
	t, ok := a.value(name).(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("argument %s: want an array, got %s", name, value.Repr(a.value(name)))
	}
	return t, nil
}

// flag is the truth of a bool or an integer.
func (a arguments) flag(name string) bool {
	n, _ := a.value(name).(int64)
	yes, _ := a.value(name).(bool)
	return yes || n != 0
}

// ints are the integers of a list, a tensor, or a single integer.
func (a arguments) ints(name string) ([]int64, error) {
	switch v := a.value(name).(type) {
	case int64:
		return []int64{v}, nil
	case *tensor.Tensor:
		return tensor.Data[int64](v), nil
	case *value.Sequence:
		out := make([]int64, len(v.Items))
		for i, it := range v.Items {
			n, ok := it.(int64)
			if !ok {
				return nil, fmt.Errorf("argument %s: want integers, got %s", name, value.Repr(v))
			}
			out[i] = n
		}
		return out, nil
	}
	return nil, fmt.Errorf("argument %s: want integers, got %s", name, value.Repr(a.value(name)))
}

// source is what an argument of a line is made of.
func (a arguments) source(s string) (value.Value, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		l := value.NewList()
		for part := range strings.SplitSeq(strings.TrimSuffix(inner, "]"), ",") {
			v, err := a.source(part)
			if err != nil {
				return nil, err
			}
			if v != nil {
				l.Items = append(l.Items, v)
			}
		}
		return l, nil
	}
	if inner, ok := strings.CutPrefix(s, "@"); ok {
		var data []int64
		if rest, ok := strings.CutPrefix(inner, "0+"); ok {
			inner, data = rest, []int64{0}
		}
		rest, err := a.ints(inner)
		data = append(data, rest...)
		return tensor.New(tensor.Int32, []int{len(data)}, data), err
	}
	if v, ok := a.Get(s); ok {
		return v, nil
	}
	if v, err := value.ParseLiteral(s); err == nil {
		return v, nil
	}
	return nil, nil
}
