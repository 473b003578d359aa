package opdef

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A setter stores a Python value into the argument struct's field.
type setter struct {
	field []int // reflect index; nil for arguments kernels do not see
	conv  func(value.Value) (reflect.Value, error)
	def   reflect.Value // what an absent argument gets
}

// goTypes is the field type each schema type must have.
func goType(t Type) (reflect.Type, error) {
	var base reflect.Type
	switch t.Base {
	case "Tensor":
		base = reflect.TypeFor[*tensor.Tensor]()
		if t.List {
			return reflect.SliceOf(base), nil
		}
		return base, nil
	case "Scalar":
		base = reflect.TypeFor[Scalar]()
	case "int":
		base = reflect.TypeFor[int]()
	case "float":
		base = reflect.TypeFor[float64]()
	case "bool":
		base = reflect.TypeFor[bool]()
	case "str":
		base = reflect.TypeFor[string]()
	case "dtype":
		base = reflect.TypeFor[tensor.DType]()
	case "any":
		return reflect.TypeFor[value.Value](), nil
	}
	switch {
	case t.List:
		return reflect.SliceOf(base), nil
	case t.Optional:
		return reflect.PointerTo(base), nil
	}
	return base, nil
}

func fieldName(param string) string {
	var b strings.Builder
	for _, w := range strings.Split(param, "_") {
		if w != "" {
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}

// makeSetters checks the argument struct against the schema and prepares the
// conversion of every parameter.
func makeSetters(s *Schema, args reflect.Type) ([]setter, error) {
	if args.Kind() != reflect.Struct {
		return nil, fmt.Errorf("argument type %v is not a struct", args)
	}
	plan := make([]setter, len(s.Params))
	used := map[string]bool{}
	for i, p := range s.Params {
		if !p.Type.carried() {
			continue
		}
		name := fieldName(p.Name)
		f, ok := args.FieldByName(name)
		if !ok {
			return nil, fmt.Errorf("argument %q: struct %v has no field %s", p.Name, args, name)
		}
		want, err := goType(p.Type)
		if err != nil {
			return nil, err
		}
		if f.Type != want {
			return nil, fmt.Errorf("argument %q: field %s is %v, want %v", p.Name, name, f.Type, want)
		}
		used[name] = true
		st := setter{field: f.Index, conv: converter(p.Type), def: reflect.Zero(want)}
		if !p.Required && p.Default != "None" {
			v, err := parseDefault(p.Default)
			if err != nil {
				return nil, fmt.Errorf("argument %q: default %q: %w", p.Name, p.Default, err)
			}
			if st.def, err = st.conv(v); err != nil {
				return nil, fmt.Errorf("argument %q: default %q: %w", p.Name, p.Default, err)
			}
			if p.Default == "[]" { // PyTorch takes None for it
				st.conv = orDefault(st.conv, st.def)
			}
		}
		plan[i] = st
	}
	for _, f := range reflect.VisibleFields(args) {
		if f.IsExported() && !f.Anonymous && !used[f.Name] {
			return nil, fmt.Errorf("field %s of %v is no argument of the schema", f.Name, args)
		}
	}
	return plan, nil
}

// orDefault is conv with None standing for the default.
func orDefault(conv func(value.Value) (reflect.Value, error), def reflect.Value) func(value.Value) (reflect.Value,
	error) {
	return func(v value.Value) (reflect.Value, error) {
		if v == nil {
			return def, nil
		}
		return conv(v)
	}
}

// parseDefault reads the default of an argument: a literal, a list of them or a
// dtype.
func parseDefault(s string) (value.Value, error) {
	if n := len(s); n >= 2 && s[0] == '[' && s[n-1] == ']' {
		list := value.NewList()
		for _, p := range splitArgs(s[1 : n-1]) {
			v, err := parseDefault(p)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, v)
		}
		return list, nil
	}
	if d, ok := tensor.ParseDType(s); ok {
		return d, nil
	}
	return value.ParseLiteral(s)
}

// converter returns the conversion of a Python value to the field of a
// schema type.
func converter(t Type) func(value.Value) (reflect.Value, error) {
	item := itemConverter(t)
	typ, _ := goType(t)
	if t.Base == "any" {
		return func(v value.Value) (reflect.Value, error) {
			r := reflect.New(typ).Elem()
			if v != nil {
				r.Set(reflect.ValueOf(v))
			}
			return r, nil
		}
	}
	if t.List {
		return func(v value.Value) (reflect.Value, error) {
			if v == nil && t.Optional {
				return reflect.Zero(typ), nil
			}
			seq, ok := v.(*value.Sequence)
			if !ok || seq.Kind >= value.Set {
				if t.Len > 0 {
					x, err := item(v)
					if err != nil {
						return x, fmt.Errorf("want a sequence of %s or one %s, got %s", t.Base, t.Base, TypeName(v))
					}
					s := reflect.MakeSlice(typ, t.Len, t.Len)
					for i := range t.Len {
						s.Index(i).Set(x)
					}
					return s, nil
				}
				return reflect.Value{}, fmt.Errorf("want a sequence of %s, got %s", t.Base, TypeName(v))
			}
			s := reflect.MakeSlice(typ, len(seq.Items), len(seq.Items))
			for i, it := range seq.Items {
				x, err := item(it)
				if err != nil {
					return x, fmt.Errorf("item %d: %w", i, err)
				}
				s.Index(i).Set(x)
			}
			return s, nil
		}
	}
	if !t.Optional || t.Base == "Tensor" {
		return item
	}
	return func(v value.Value) (reflect.Value, error) {
		if v == nil {
			return reflect.Zero(typ), nil
		}
		x, err := item(v)
		if err != nil {
			return x, err
		}
		p := reflect.New(typ.Elem())
		p.Elem().Set(x)
		return p, nil
	}
}

// itemConverter converts one value of a type.
func itemConverter(t Type) func(value.Value) (reflect.Value, error) {
	switch t.Base {
	case "Tensor":
		none := reflect.Zero(reflect.TypeFor[*tensor.Tensor]())
		optional := t.Optional && !t.List || t.ListOpt
		return func(v value.Value) (reflect.Value, error) {
			if x, ok := v.(*tensor.Tensor); ok {
				return reflect.ValueOf(x), computable(x.DType)
			}
			if v == nil && optional {
				return none, nil
			}
			if s, ok := ScalarOf(v); ok && t.Scalar {
				return reflect.ValueOf(s.Tensor()), nil
			}
			return none, t.wants(v)
		}
	case "Scalar":
		return convertAs(t, scalarOrItem)
	case "int":
		return convertAs(t, func(v value.Value) (int, bool) {
			s, ok := scalarOrItem(v)
			return int(s.Int64()), ok && s.Kind() == tensor.KindInt
		})
	case "float":
		return convertAs(t, func(v value.Value) (float64, bool) {
			s, ok := scalarOrItem(v)
			return s.Float64(), ok && s.Kind() <= tensor.KindFloat
		})
	case "bool":
		return convertAs(t, isA[bool])
	case "str":
		return convertAs(t, isA[string])
	case "dtype":
		return func(v value.Value) (reflect.Value, error) {
			if d, ok := dtypeOf(v); ok {
				return reflect.ValueOf(d), computable(d)
			}
			return reflect.Value{}, t.wants(v)
		}
	}
	return func(v value.Value) (reflect.Value, error) { return reflect.ValueOf(v), nil }
}

// convertAs converts a value of which of makes a T.
func convertAs[T any](t Type, of func(value.Value) (T, bool)) func(value.Value) (reflect.Value, error) {
	return func(v value.Value) (reflect.Value, error) {
		if x, ok := of(v); ok {
			return reflect.ValueOf(x), nil
		}
		return reflect.Value{}, t.wants(v)
	}
}

func isA[T any](v value.Value) (T, bool) { x, ok := v.(T); return x, ok }

// wants is the error of a value of another type.
func (t Type) wants(v value.Value) error { return fmt.Errorf("want %s, got %s", t.Base, TypeName(v)) }

func computable(d tensor.DType) error {
	if d.Computable() {
		return nil
	}
	return fmt.Errorf("dtype %s has no values to compute with", d)
}

// dtypeOf is v as torch's argument parser takes it for a dtype: a type of Python is one of torch's.
func dtypeOf(v value.Value) (tensor.DType, bool) {
	switch v := v.(type) {
	case tensor.DType:
		return v, true
	case *value.Opaque:
		_, name, _ := strings.Cut(v.Global, ".")
		if dt, ok := pythonTypes[name]; ok && len(v.Parts) == 0 && v.Global == "builtins."+name {
			return dt, true
		}
	}
	return 0, false
}

var pythonTypes = map[string]tensor.DType{"bool": tensor.Bool, "int": tensor.Int64, "float": tensor.Float64,
	"complex": tensor.Complex128}

// ScalarOf converts a Python number.
func ScalarOf(v value.Value) (Scalar, bool) {
	switch v := v.(type) {
	case bool:
		return Bool(v), true
	case int64:
		return Int(v), true
	case float64:
		return Float(v), true
	case complex128:
		return Cplx(v), true
	case *big.Int: // beyond int64: torch refuses it for integers, uses it as a float
		f, _ := new(big.Float).SetInt(v).Float64()
		return Float(f), true
	}
	return Scalar{}, false
}

// scalarOrItem also accepts a 0-d tensor, as torch's argument parser does.
func scalarOrItem(v value.Value) (Scalar, bool) {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return ScalarOf(v)
	}
	if t.Dim() != 0 || !t.DType.Computable() {
		return Scalar{}, false
	}
	return ScalarAt(t, 0), true
}

// ScalarAt is element i of t as a Python number of its category.
func ScalarAt(t *tensor.Tensor, i int) Scalar {
	switch t.DType.Kind() {
	case tensor.KindFloat:
		return Float(tensor.At[float64](t, i))
	case tensor.KindComplex:
		return Cplx(tensor.At[complex128](t, i))
	case tensor.KindBool:
		return Bool(tensor.At[int64](t, i) != 0)
	}
	return Int(tensor.At[int64](t, i))
}

// TypeName names the Python type of v for messages.
func TypeName(v value.Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case complex128:
		return "complex"
	case string:
		return "str"
	case *tensor.Tensor:
		return "tensor " + v.Meta()
	case tensor.DType:
		return "torch." + v.String()
	case *value.Sequence:
		if v.Class != "" {
			return v.Class
		}
		return [...]string{"list", "tuple", "set", "frozenset"}[v.Kind]
	case *value.Dict:
		return "dict"
	case value.Slice:
		return "slice"
	case value.Ellipsis:
		return "ellipsis"
	case value.Device:
		return "torch.device"
	case *value.Opaque:
		return v.Global
	}
	return fmt.Sprintf("%T", v)
}

// aliases are further keywords that torch's argument parser takes for a parameter
// of this name, whatever the op: numpy_compatibility_arg_names in
// torch/csrc/utils/python_arg_parser.cpp, and input, which ATen calls self.
var aliases = map[string][]string{
	"self":    {"input", "x", "a", "x1"},
	"dim":     {"axis"},
	"keepdim": {"keepdims"},
	"other":   {"x2"},
}

// bind converts the arguments of a call to a new argument struct.
func (e *Entry) bind(args []value.Value, kwargs *value.Dict) (any, error) {
	p := reflect.New(e.op.argsType())
	st := p.Elem()
	params := e.Schema.Params
	given := make([]bool, len(params))
	taken := 0
	refuse := func(arg, msg string) error { return &RefusedError{Arg: arg, Msg: msg, taken: taken} }
	err := e.place(args, kwargs, given, refuse, func(i int, v value.Value) error {
		if e.setters[i].field != nil {
			x, err := e.setters[i].conv(v)
			if err != nil {
				return refuse(params[i].Name, err.Error())
			}
			st.FieldByIndex(e.setters[i].field).Set(x)
		}
		taken++
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, prm := range params {
		if given[i] {
			continue
		}
		if prm.Required {
			return nil, refuse(prm.Name, "missing")
		}
		if f := e.setters[i].field; f != nil {
			st.FieldByIndex(f).Set(e.setters[i].def)
		}
	}
	return p.Interface(), nil
}

// place finds the parameter of each argument of a call, and marks those that are given.
func (e *Entry) place(args []value.Value, kwargs *value.Dict, given []bool, refuse func(arg, msg string) error,
	set func(i int, v value.Value) error) error {
	params := e.Schema.Params
	i := 0
	for k := 0; k < len(args); i++ {
		if i >= len(params) || params[i].Keyword {
			return refuse("", fmt.Sprintf("takes %d positional arguments, got %d", i, len(args)))
		}
		v := args[k]
		if params[i].Type.Variadic {
			base := params[i].Type.Base
			if seq, ok := v.(*value.Sequence); !ok || seq.Kind >= value.Set || base == "any" || base == "Tensor" &&
				len(args)-k > 1 {
				v = value.NewTuple(args[k:]...)
				k = len(args) - 1
			}
		}
		given[i] = true
		if err := set(i, v); err != nil {
			return err
		}
		k++
	}
	if kwargs == nil {
		return nil
	}
	for _, it := range kwargs.Items {
		key, _ := it.Key.(string)
		at := e.keyword(key, given)
		if at < 0 {
			return refuse("", fmt.Sprintf("unexpected keyword argument %q", key))
		}
		if given[at] {
			return refuse(key, "given twice")
		}
		given[at] = true
		if err := set(at, it.Value); err != nil {
			return err
		}
	}
	return nil
}

// Named gives the arguments of a call under the names of the schema, in the order in which they were given.
func (e *Entry) Named(args []value.Value, kwargs *value.Dict) (*value.Dict, error) {
	refuse := func(arg, msg string) error { return e.refused(Refuse(arg, "%s", msg)) }
	out := &value.Dict{}
	err := e.place(args, kwargs, make([]bool, len(e.Schema.Params)), refuse, func(i int, v value.Value) error {
		out.Items = append(out.Items, value.Item{Key: e.Schema.Params[i].Name, Value: v})
		return nil
	})
	return out, err
}

func (e *Entry) keyword(key string, given []bool) int {
	for i, p := range e.Schema.Params {
		if p.Name == key {
			return i
		}
	}
	for i, p := range e.Schema.Params {
		if given[i] {
			continue
		}
		for _, a := range aliases[p.Name] {
			if a == key {
				return i
			}
		}
	}
	return -1
}

// A RefusedError is a call that torch refuses too: a wrong argument, a shape
// that does not fit. With Limit it is one that torch or the library of the function may
// compute, and the reference does not.
type RefusedError struct {
	Op    string
	Arg   string // "" if no single argument is to blame
	Msg   string
	Limit bool
	taken int // arguments that fitted before the one that does not
}

func (e *RefusedError) Error() string {
	s := ""
	if e.Op != "" {
		s = "op " + e.Op + ": "
	}
	if e.Arg != "" {
		s += fmt.Sprintf("argument %q: ", e.Arg)
	}
	return s + e.Msg
}

// Refuse returns the error of a kernel for an argument torch refuses too. arg
// is the schema name of the argument, "" if none is to blame.
func Refuse(arg, format string, args ...any) error {
	return &RefusedError{Arg: arg, Msg: fmt.Sprintf(format, args...)}
}

// Unsupported returns the error of a kernel for an argument that the function takes and the
// reference does not compute with: its verdict is unsupported, not error.
func Unsupported(arg, format string, args ...any) error {
	return &RefusedError{Arg: arg, Msg: fmt.Sprintf(format, args...), Limit: true}
}
