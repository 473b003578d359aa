package value

import (
	"errors"
	"fmt"
)

// MaxItems bounds how many values, containers counted, a file may expand to:
// containers that are shared can stand for far more than they hold.
const MaxItems = 1 << 20

// Errors of values that cannot be expanded.
var (
	ErrTooMany = fmt.Errorf("more than %d values when containers are expanded", MaxItems)
	ErrLoop    = errors.New("a container holds itself")
)

// Leaves flattens values as op_tools counts them: containers are opened, dict
// keys and values both, None counts. It fails with ErrLoop or ErrTooMany.
func Leaves(vs []Value) ([]Value, error) {
	f := flattener{inside: map[Value]bool{}}
	err := f.all(vs)
	return f.leaves, err
}

type flattener struct {
	leaves []Value
	seen   int
	inside map[Value]bool
}

func (f *flattener) all(vs []Value) error {
	for _, v := range vs {
		if err := f.add(v); err != nil {
			return err
		}
	}
	return nil
}

func (f *flattener) add(v Value) error {
	if f.seen++; f.seen > MaxItems {
		return ErrTooMany
	}
	var items []Value
	switch v := v.(type) {
	case *Sequence:
		items = v.Items
	case *Dict:
		for _, it := range v.Items {
			items = append(items, it.Key, it.Value)
		}
	default:
		f.leaves = append(f.leaves, v)
		return nil
	}
	if f.inside[v] {
		return ErrLoop
	}
	f.inside[v] = true
	defer delete(f.inside, v)
	return f.all(items)
}
