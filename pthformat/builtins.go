package pthformat

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func deviceName(d value.Device) string {
	if d.Index < 0 {
		return d.Type
	}
	return fmt.Sprintf("%s:%d", d.Type, d.Index)
}

func buildSize(_ *unpickler, _ string, args []any) (any, error) {
	var items []any
	if len(args) > 0 {
		var ok bool
		if items, ok = elements(args[0]); !ok || len(args) > 1 {
			return nil, malformed("want one tuple")
		}
	}
	for _, it := range items {
		if _, ok := it.(int); !ok {
			return nil, malformed("a size holds %s", kindOf(it))
		}
	}
	return &sequence{value.Tuple, "torch.Size", items}, nil
}

// buildDevice: type, or type and index, or "type:index".
func buildDevice(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 1 || len(args) == 2 {
		if kind, ok := args[0].(string); ok {
			if len(args) == 1 {
				return parseDevice(kind), nil
			}
			if i, ok := args[1].(int); ok && i >= -1 {
				return value.Device{Type: kind, Index: i}, nil
			}
			if args[1] == nil {
				return value.Device{Type: kind, Index: -1}, nil
			}
		}
	}
	return nil, malformed("want a device type and an index")
}

func parseDevice(s string) value.Device {
	for i := range s {
		if s[i] != ':' {
			continue
		}
		n := 0
		if _, err := fmt.Sscanf(s[i+1:], "%d", &n); err == nil && fmt.Sprint(n) == s[i+1:] && n >= 0 {
			return value.Device{Type: s[:i], Index: n}
		}
	}
	return value.Device{Type: s, Index: -1}
}

func buildLayout(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 1 {
		if s, ok := args[0].(string); ok {
			return value.Layout(s), nil
		}
	}
	return nil, malformed("want the name of a layout")
}

// buildReturnType: a named result is made of the tuple of its values and a
// dict of the values that have no position.
func buildReturnType(_ *unpickler, name string, args []any) (any, error) {
	if len(args) == 1 || len(args) == 2 {
		if items, ok := elements(args[0]); ok {
			return &sequence{value.Tuple, name, items}, nil
		}
	}
	return nil, malformed("want a tuple of values")
}

// buildMapping: nothing, a dict, or a list of pairs; defaultdict's factory is
// not kept.
func buildMapping(_ *unpickler, name string, args []any) (any, error) {
	m := &mapping{class: name}
	if name == "builtins.dict" || name == "__builtin__.dict" {
		m.class = ""
	}
	if name == "collections.defaultdict" && len(args) > 0 {
		args = args[1:]
	}
	if len(args) == 0 {
		return m, nil
	}
	if d, ok := args[0].(*types.Dict); ok && len(args) == 1 {
		for _, e := range *d {
			m.Set(e.Key, e.Value)
		}
		return m, nil
	}
	items, ok := elements(args[0])
	if !ok || len(args) > 1 {
		return nil, malformed("want a dict or a list of pairs")
	}
	for _, it := range items {
		pair, ok := elements(it)
		if !ok || len(pair) != 2 {
			return nil, malformed("want a list of pairs")
		}
		m.Set(pair[0], pair[1])
	}
	return m, nil
}

func buildSequence(kind value.SequenceKind) builder {
	return func(_ *unpickler, _ string, args []any) (any, error) {
		s := &sequence{kind: kind}
		if len(args) == 0 {
			return s, nil
		}
		items, ok := elements(args[0])
		if !ok || len(args) > 1 {
			return nil, malformed("want one list or tuple")
		}
		s.items = slices.Clone(items)
		return s, nil
	}
}

func buildSlice(_ *unpickler, _ string, args []any) (any, error) {
	switch len(args) {
	case 1:
		return &slice{[3]any{nil, args[0], nil}}, nil
	case 2:
		return &slice{[3]any{args[0], args[1], nil}}, nil
	case 3:
		return &slice{[3]any(args)}, nil
	}
	return nil, malformed("%d arguments, want 1 to 3", len(args))
}

func buildComplex(_ *unpickler, _ string, args []any) (any, error) {
	var parts [2]float64
	if len(args) > 2 {
		return nil, malformed("%d arguments, want at most 2", len(args))
	}
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			parts[i] = a
		case int:
			parts[i] = float64(a)
		default:
			return nil, malformed("a part is %s", kindOf(a))
		}
	}
	return complex(parts[0], parts[1]), nil
}

// buildBytes: nothing, bytes, or a string whose characters stand for bytes
// (protocols before 3 have no bytes; "latin1" or "latin-1").
func buildBytes(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) == 0 {
		return value.Bytes{}, nil
	}
	if len(args) == 2 {
		if enc, ok := args[1].(string); !ok || enc != "latin1" && enc != "latin-1" {
			return nil, malformed("encoding %v, want latin1", args[1])
		}
	}
	if len(args) <= 2 {
		if b, ok := bytesOf(args[0]); ok {
			return value.Bytes(b), nil
		}
		if s, ok := args[0].(string); ok && len(args) == 2 {
			b := make([]byte, 0, utf8.RuneCountInString(s))
			for _, r := range s {
				if r > 0xff {
					return nil, malformed("character %U is not a byte", r)
				}
				b = append(b, byte(r))
			}
			return value.Bytes(b), nil
		}
	}
	return nil, malformed("want bytes or a string with its encoding")
}

// bytesOf returns the content of any of the types that stand for bytes.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case value.Bytes:
		return v, true
	case *types.ByteArray:
		return *v, true
	}
	return nil, false
}

// buildReconstructed: class, base, state of the base. The object is opaque.
func buildReconstructed(_ *unpickler, _ string, args []any) (any, error) {
	if len(args) > 0 {
		if c, ok := args[0].(*class); ok {
			args = args[min(len(args), 2):]
			if len(args) == 1 && args[0] == nil {
				args = nil
			}
			return &object{global: c.name, args: args}, nil
		}
	}
	return nil, malformed("want a class")
}

// buildGetattr: a class or object and the name of an attribute, as bound functions and methods
// are pickled. Nothing is looked up: the name is shown.
func buildGetattr(u *unpickler, name string, args []any) (any, error) {
	if len(args) == 2 {
		attr, ok := args[1].(string)
		safe := ok && attr != "" && !strings.HasPrefix(attr, "__") && !strings.Contains(attr, ".") &&
			!refusedModules[attr]
		switch of := args[0].(type) {
		case *class:
			if safe {
				return &class{u: u, name: of.name + "." + attr}, nil // perhaps a class inside of another
			}
		case *object:
			if safe {
				return &object{global: of.global + "." + attr, args: []any{of}}, nil
			}
		}
	}
	return nil, forbidden(name)
}

// kindOf names the type of what the machine made, for messages.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int, *big.Int:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []byte, value.Bytes, *types.ByteArray:
		return "bytes"
	case *types.Tuple:
		return "a tuple"
	case *types.List:
		return "a list"
	case *types.Dict, *types.OrderedDict, *mapping:
		return "a dict"
	case *tensor.Tensor:
		return "a tensor"
	case *class:
		return "the class " + v.name
	case *object:
		return "a " + v.global
	}
	return fmt.Sprintf("a %T", v)
}
