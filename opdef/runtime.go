package opdef

import (
	"fmt"
	"reflect"

	"github.com/optool/optool/value"
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

// A runtimeOperator is an operator that takes Arguments.
type runtimeOperator struct {
	operator
	schema *Schema
	fields reflect.Type
}

func (o runtimeOperator) argsType() reflect.Type { return o.fields }

func (o runtimeOperator) cases(g Gen) []any {
	var out []any
	for _, c := range o.operator.cases(g) {
		out = append(out, c.(*Arguments).fields.Addr().Interface())
	}
	return out
}

func (o runtimeOperator) plan(args any) (any, error) {
	return o.operator.plan(&Arguments{o.schema, reflect.ValueOf(args).Elem()})
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
	e.op = runtimeOperator{e.op, s, reflect.StructOf(fields)}
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
