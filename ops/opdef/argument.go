package opdef

import (
	"reflect"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An Argument is a bound argument of a call as kernels see it.
type Argument struct {
	Name          string // schema name
	Required      bool
	Value         any // of the Go type of the argument struct's field
	Default       any // the value of an absent argument, of the same type
	field, absent reflect.Value
}

// Python is the Python value that binds to the argument.
func (a Argument) Python() value.Value { return python(a.field) }

// MayBeNone reports whether the argument is None unless it is given.
func (a Argument) MayBeNone() bool {
	v := reflect.ValueOf(a.Default)
	return !a.Required && v.Kind() == reflect.Pointer && v.IsNil()
}

// IsDefault reports whether the argument has the value of an absent one.
func (a Argument) IsDefault() bool { return !a.Required && reflect.DeepEqual(a.Value, a.Default) }

// Argument returns the argument that the schema names so. There is none where the
// schema does not name it or kernels do not see it: a device, a layout.
func (c *Call) Argument(name string) (Argument, bool) {
	for i, p := range c.Entry.Schema.Params {
		if p.Name == name && c.Entry.setters[i].field != nil {
			return c.argument(i), true
		}
	}
	return Argument{}, false
}

// Arguments returns the arguments that kernels see, in schema order.
func (c *Call) Arguments() []Argument {
	var out []Argument
	for i := range c.Entry.Schema.Params {
		if c.Entry.setters[i].field != nil {
			out = append(out, c.argument(i))
		}
	}
	return out
}

func (c *Call) argument(i int) Argument {
	p, set := c.Entry.Schema.Params[i], c.Entry.setters[i]
	v := reflect.ValueOf(c.args).Elem().FieldByIndex(set.field)
	return Argument{Name: p.Name, Required: p.Required, Value: v.Interface(), Default: set.def.Interface(), field: v,
		absent: set.def}
}

// Sequence reports whether a call with one result returns it in a sequence of one, and
// whether that is known: not of calls that were not made by Bind, where it is said by how an
// argument was given.
func (c *Call) Sequence() (yes, known bool) {
	s := c.Entry.Schema
	name := s.decisive()
	switch {
	case s.Several():
		return true, true
	case name == "":
		return false, s.Single() || strings.HasPrefix(s.Returns, "Tensor|")
	case c.bound == nil:
		return false, false
	}
	var v value.Value
	if c.bound.kwargs != nil {
		v, _ = c.bound.kwargs.Get(name)
	}
	for i, p := range s.Params {
		if p.Name == name && !p.Keyword && i < len(c.bound.args) {
			if len(c.bound.args) > i+1 {
				return true, true
			}
			v = c.bound.args[i]
		}
	}
	_, list := v.(*value.Sequence)
	return list || v == true, true
}

// Shape is the shape of the results, where it is known before anything is computed.
func (c *Call) Shape() (shape []int, known bool) {
	a, ok := c.Argument(c.Entry.Like)
	if t, is := a.Value.(*tensor.Tensor); ok && is && t != nil && c.out == nil {
		return t.Shape, true
	}
	return nil, false
}

// HasArgument reports whether the schema has an argument of that name that kernels
// see. The entry must be Ready.
func (e *Entry) HasArgument(name string) bool {
	for _, p := range e.Schema.Params {
		if p.Name == name {
			return p.Type.carried()
		}
	}
	return false
}

// InPlace reports whether the results replace the elements of the first argument:
// an in-place form, or inplace=True.
func (c *Call) InPlace() bool { return c.written != nil }

// CountsInStorage reports whether an argument counts elements from the start of a
// tensor's storage: what the call gives depends on where the tensor lies.
func (c *Call) CountsInStorage() bool {
	_, ok := c.Argument("storage_offset")
	return ok
}
