package opdef

import (
	"fmt"
	"reflect"

	"github.com/optool/optool/tensor/value"
)

// Arguments are the arguments of an operator whose schema is known only when
// optool runs: what a struct of its own is to a declaration in Go.
type Arguments struct {
	schema *Schema
	fields reflect.Value // a struct of one field per argument that is carried
}

// Schema is the schema the arguments are of.
func (a *Arguments) Schema() *Schema { return a.schema }

// At is argument i of the schema, in the type that a field of Planned's argument
// struct has; nil where kernels do not see it (a Device).
func (a *Arguments) At(i int) any {
	if !a.schema.Params[i].Type.carried() {
		return nil
	}
	return a.fields.FieldByName(fieldName(a.schema.Params[i].Name)).Interface()
}

// Named is the Python value of the argument that the schema names so, nil where kernels do not see it.
func (a *Arguments) Named(name string) (v value.Value, ok bool) {
	for _, p := range a.schema.Params {
		if p.Name == name {
			if p.Type.carried() {
				v = python(a.fields.FieldByName(fieldName(name)))
			}
			return v, true
		}
	}
	return nil, false
}

// AtRunTime completes the declaration e of an operator whose functions take
// Arguments: the argument struct is made from the schema. Errors are those that
// building a registry reports.
func AtRunTime(e *Entry) (*Entry, error) {
	s, err := ParseSchema(e.schema)
	if err != nil {
		return nil, err
	}
	var fields []reflect.StructField
	seen := map[string]string{}
	for _, p := range s.Params {
		if !p.Type.carried() {
			continue
		}
		t, err := goType(p.Type)
		if err != nil {
			return nil, err
		}
		name := fieldName(p.Name)
		if other, ok := seen[name]; ok || name == "" {
			return nil, fmt.Errorf("schema %q: arguments %q and %q are told apart by underscores alone", e.schema,
				other, p.Name)
		}
		seen[name] = p.Name
		fields = append(fields, reflect.StructField{Name: name, Type: t})
	}
	op := *e.op
	op.other = &otherArgs{reflect.StructOf(fields), func(args any) (any, error) {
		return &Arguments{s, reflect.ValueOf(args).Elem()}, nil
	}, func(args any) any { return args.(*Arguments).fields.Addr().Interface() }, e.op}
	e.op = &op
	return e, e.Ready()
}

// Arguments binds Python arguments of an operator that AtRunTime completed.
func (e *Entry) Arguments(args []value.Value, kwargs *value.Dict) (*Arguments, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	p, err := e.bind(args, kwargs)
	if err != nil {
		return nil, e.refused(err)
	}
	return &Arguments{e.Schema, reflect.ValueOf(p).Elem()}, nil
}
