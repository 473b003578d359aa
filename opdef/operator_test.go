package opdef

import (
	"reflect"
	"testing"
)

// TestFunctions: whatever a declaration says of a plan is carried over, and nothing
// that it does not say.
func TestFunctions(t *testing.T) {
	type args struct{}
	var o, none Planned[*args, *args]
	said := 0
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Type.Kind() != reflect.Func || f.Type.NumIn() == 0 || f.Type.In(0) != reflect.TypeFor[*args]() ||
			f.Name == "Plan" { // which makes the plan of the arguments, here of the same type
			continue
		}
		said++
		v.Field(i).Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { panic(f.Name) }))
	}
	carried := 0
	all, nothing := reflect.ValueOf(o.functions()).Elem(), reflect.ValueOf(none.functions()).Elem()
	for i := range all.NumField() {
		if all.Field(i).Kind() != reflect.Func {
			continue
		}
		carried++
		if name := all.Type().Field(i).Name; all.Field(i).IsNil() || !nothing.Field(i).IsNil() {
			t.Errorf("%s: set %t where it was declared, %t where it was not", name, !all.Field(i).IsNil(),
				!nothing.Field(i).IsNil())
		}
	}
	if said == 0 || said != carried {
		t.Errorf("%d functions take the plan, %d are carried over", said, carried)
	}
}
