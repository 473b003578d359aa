package configs

import (
	"fmt"
	"slices"

	"github.com/optool/optool/tensor/value"
)

// dict makes a dict of alternating keys and values.
func dict(pairs ...value.Value) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(pairs); i += 2 {
		d.Items = append(d.Items, value.Item{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func emptyList() value.Value { return value.NewList() }
func falseList() value.Value { return value.NewList(false) }

// set assigns d[key] as Python does: in place if the key is there, else last.
func set(d *value.Dict, key string, v value.Value) {
	for i := range d.Items {
		if d.Items[i].Key == key {
			d.Items[i].Value = v
			return
		}
	}
	d.Items = append(d.Items, value.Item{Key: key, Value: v})
}

func setDefault(d *value.Dict, key string, make func() value.Value) {
	if _, ok := d.Get(key); !ok {
		set(d, key, make())
	}
}

func drop(d *value.Dict, key string) {
	d.Items = slices.DeleteFunc(d.Items, func(it value.Item) bool { return it.Key == key })
}

// sequence returns the items of the list or tuple d[key].
func sequence(d *value.Dict, key string) ([]value.Value, error) {
	v, ok := d.Get(key)
	if !ok {
		return nil, fmt.Errorf("no %s is given", key)
	}
	s, ok := v.(*value.Sequence)
	if !ok {
		return nil, fmt.Errorf("%s is %s, want a list", key, value.Repr(v))
	}
	return s.Items, nil
}

// ints returns the integers of a list or tuple; what is not one counts as 0.
func ints(v value.Value) []int {
	s, ok := v.(*value.Sequence)
	if !ok {
		return nil
	}
	out := make([]int, len(s.Items))
	for i, it := range s.Items {
		n, _ := it.(int64)
		out[i] = int(n)
	}
	return out
}

// copied is Python's deepcopy of data: lists and dicts are new, a tuple only
// if something in it is.
func copied(v value.Value) value.Value {
	switch v := v.(type) {
	case *value.Sequence:
		items := make([]value.Value, len(v.Items))
		same := v.Kind == value.Tuple
		for i, it := range v.Items {
			items[i] = copied(it)
			switch it.(type) {
			case *value.Sequence, *value.Dict:
				same = same && items[i] == it
			}
		}
		if same {
			return v
		}
		return &value.Sequence{Kind: v.Kind, Class: v.Class, Items: items}
	case *value.Dict:
		d := &value.Dict{Class: v.Class, Items: make([]value.Item, len(v.Items))}
		for i, it := range v.Items {
			d.Items[i] = value.Item{Key: it.Key, Value: copied(it.Value)}
		}
		return d
	}
	return v
}
