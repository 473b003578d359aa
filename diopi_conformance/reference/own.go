package reference

import (
	"maps"
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A function computes the result of a call. What goes wrong makes the tape
// fail.
type function func(t *Tape, a *arguments) value.Value

// own are the functions that are more than one call of an operator, by name.
var own = merged(shapeFunctions, layerFunctions, optimizerFunctions)

func merged(families ...map[string]function) map[string]function {
	all := map[string]function{}
	for _, f := range families {
		maps.Copy(all, f)
	}
	return all
}

// arguments gives the arguments of a call by name. What is missing or of
// another type makes the tape fail.
type arguments struct {
	tape   *Tape
	kwargs *value.Dict
}

func (a *arguments) value(name string) value.Value {
	v, _ := a.kwargs.Get(name)
	return v
}

// has reports whether the argument is given and not None.
func (a *arguments) has(name string) bool { return a.value(name) != nil }

func (a *arguments) tensor(name string) *tensor.Tensor {
	t, ok := a.value(name).(*tensor.Tensor)
	if !ok {
		a.tape.fail("argument %s: want an array, got %s", name, value.Repr(a.value(name)))
		return tensor.Full(tensor.Float64, []int{0}, 0.0)
	}
	return t
}

// tensors are those of a list argument.
func (a *arguments) tensors(name string) []*tensor.Tensor {
	return tensors(a.value(name))
}

func (a *arguments) float(name string) float64 {
	switch v := a.value(name).(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case bool:
		if v {
			return 1
		}
		return 0
	}
	a.tape.fail("argument %s: want a number, got %s", name, value.Repr(a.value(name)))
	return math.NaN()
}

func (a *arguments) int(name string) int { return int(a.float(name)) }

func (a *arguments) bool(name string) bool {
	switch v := a.value(name).(type) {
	case bool:
		return v
	case int64:
		return v != 0
	case nil:
		return false
	}
	a.tape.fail("argument %s: want a bool, got %s", name, value.Repr(a.value(name)))
	return false
}

// ints are the integers of a list, a tensor, or a single integer.
func (a *arguments) ints(name string) []int {
	switch v := a.value(name).(type) {
	case int64:
		return []int{int(v)}
	case *tensor.Tensor:
		var out []int
		for _, n := range tensor.Data[int64](v) {
			out = append(out, int(n))
		}
		return out
	case *value.Sequence:
		var out []int
		for _, it := range v.Items {
			n, ok := it.(int64)
			if !ok {
				a.tape.fail("argument %s: want integers, got %s", name, value.Repr(v))
			}
			out = append(out, int(n))
		}
		return out
	}
	a.tape.fail("argument %s: want integers, got %s", name, value.Repr(a.value(name)))
	return nil
}

// without returns the keyword arguments but those named.
func (a *arguments) without(names ...string) *value.Dict {
	d := &value.Dict{}
next:
	for _, it := range a.kwargs.Items {
		for _, n := range names {
			if it.Key == n {
				continue next
			}
		}
		d.Items = append(d.Items, it)
	}
	return d
}

// sizes makes the Python list of ints.
func sizes(ns ...int) *value.Sequence {
	l := value.NewList()
	for _, n := range ns {
		l.Items = append(l.Items, int64(n))
	}
	return l
}

func list(ts ...*tensor.Tensor) *value.Sequence {
	l := value.NewList()
	for _, t := range ts {
		if t == nil {
			l.Items = append(l.Items, nil)
		} else {
			l.Items = append(l.Items, t)
		}
	}
	return l
}

// number is the Python number n as a value.
func number(n int) value.Value { return int64(n) }

// detached is t without the way it came: no gradient flows through it.
func detached(v value.Value) value.Value {
	if t, ok := v.(*tensor.Tensor); ok {
		u := *t
		return &u
	}
	return v
}
