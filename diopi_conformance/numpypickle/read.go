package numpypickle

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// scalarTypes are the numpy scalar types that stand for a dtype.
//
// Source: numpy reference, scalars; numpy 2 names the first numpy.bool.
var scalarTypes = map[string]tensor.DType{
	"bool_": tensor.Bool, "bool": tensor.Bool,
	"int8": tensor.Int8, "int16": tensor.Int16, "int32": tensor.Int32, "int64": tensor.Int64,
	"uint8": tensor.Uint8, "uint16": tensor.Uint16, "uint32": tensor.Uint32, "uint64": tensor.Uint64,
	"float16": tensor.Float16, "float32": tensor.Float32, "float64": tensor.Float64,
	"complex64": tensor.Complex64, "complex128": tensor.Complex128,
}

// ScalarType returns the dtype of a numpy scalar type by its name without the
// module: "float32", "bool_".
func ScalarType(name string) (tensor.DType, bool) {
	dt, ok := scalarTypes[name]
	return dt, ok
}

// ScalarNames lists the names of the numpy scalar types, sorted.
func ScalarNames() []string { return slices.Sorted(maps.Keys(scalarTypes)) }

// ScalarName is the name of the numpy scalar type of dt: "float32", "bool_".
// Dtypes that numpy lacks have none.
func ScalarName(dt tensor.DType) (string, bool) {
	if dt == tensor.Bool {
		return "bool_", true
	}
	_, ok := scalarTypes[dt.String()]
	return dt.String(), ok
}

// limits are above what the largest files need: arrays of the model suites, and
// the cases of a whole suite in one file.
var limits = pthformat.Limits{Pickle: 16 << 30, Objects: 1 << 24, Expanded: 1 << 24}

// ReadFile reads the pickle at path, a regular file that memory holds.
func ReadFile(path string) (value.Value, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if err := quota.CheckMemory(info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := Read(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// Read reads the pickle b. Arrays may be views of copies of b's bytes; b is
// not kept.
func Read(b []byte) (value.Value, error) { return read(b, limits) }

func read(b []byte, lim pthformat.Limits) (value.Value, error) {
	v, err := pthformat.ReadPickle(b, lim)
	if err != nil {
		return nil, err
	}
	r := resolver{done: map[any]bool{}}
	return r.resolve(v), nil
}

// A resolver replaces the names of numpy scalar types by dtypes, in place.
type resolver struct{ done map[any]bool }

func (r *resolver) resolve(v value.Value) value.Value {
	switch x := v.(type) {
	case *value.Opaque:
		name, ok := strings.CutPrefix(x.Global, "numpy.")
		if dt, known := scalarTypes[name]; ok && known && len(x.Parts) == 0 {
			return dt
		}
	case *value.Sequence:
		if !r.done[x] {
			r.done[x] = true
			for i := range x.Items {
				x.Items[i] = r.resolve(x.Items[i])
			}
		}
	case *value.Dict:
		if !r.done[x] {
			r.done[x] = true
			for i := range x.Items {
				x.Items[i].Value = r.resolve(x.Items[i].Value)
			}
		}
	}
	return v
}
