// Package value is the closed set of Python values that a capture can hold.
//
// pthformat produces them, opdef binds them to an op's arguments, reports print
// them. A Value is one of
//
//	nil                  None
//	bool, int64, *big.Int, float64, complex128, string
//	Bytes                bytes, bytearray
//	*tensor.Tensor       a tensor (numpy arrays too: Device "numpy")
//	*Sequence            list, tuple, set, frozenset, torch.Size, named tuple
//	*Dict                dict, OrderedDict, defaultdict
//	tensor.DType         torch.float32
//	Device, Layout, MemoryFormat, Slice, Ellipsis
//	*Opaque              anything else: named, shown, never executed
//
// Sequences and dicts are pointers because Python objects can be shared and
// can contain themselves.
package value

import "github.com/optool/optool/tensor"

// Value is any of the types of the package comment.
type Value any

// SequenceKind tells list, tuple and set apart.
type SequenceKind uint8

// Kinds of sequences.
const (
	List SequenceKind = iota
	Tuple
	Set
	FrozenSet
)

// A Sequence is a Python list, tuple or set. Class is "" for the plain types,
// "torch.Size" for a size, and the name of the class for a named tuple
// ("torch.return_types.sort").
type Sequence struct {
	Kind  SequenceKind
	Class string
	Items []Value
}

// NewTuple returns a plain tuple.
func NewTuple(items ...Value) *Sequence { return &Sequence{Kind: Tuple, Items: items} }

// NewList returns a list.
func NewList(items ...Value) *Sequence { return &Sequence{Kind: List, Items: items} }

// A Dict keeps insertion order. Class is "" for dict, else the class name
// ("collections.OrderedDict").
type Dict struct {
	Class string
	Items []Item
}

// An Item is one entry of a Dict.
type Item struct{ Key, Value Value }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	for _, it := range d.Items {
		if k, ok := it.Key.(string); ok && k == key {
			return it.Value, true
		}
	}
	return nil, false
}

// Bytes is a bytes or bytearray object.
type Bytes []byte

// Device is a torch.device. Index is -1 when none was given.
type Device struct {
	Type  string
	Index int
}

// Layout is a torch.layout: "torch.strided", "torch.sparse_coo".
type Layout string

// MemoryFormat is a torch.memory_format: "torch.channels_last".
type MemoryFormat string

// Slice is a Python slice; each part is nil or a Value, mostly int64.
type Slice struct{ Start, Stop, Step Value }

// Ellipsis is Python's `...`.
type Ellipsis struct{}

// Opaque is an object of a class that is not in the closed list: its global name and
// what it was built from. Nothing of it is ever called.
type Opaque struct {
	Global string
	Parts  []Part
	// Reason says what the object is, or why there is no more of it, where the class alone
	// does not say: "sparse tensor", "meta tensor: it has no values".
	Reason string
	// Whole says that Parts hold everything that was recorded of the object: two of one
	// class with equal parts are equal.
	Whole bool
}

// Walk calls f for v and everything inside it, depth first, containers before
// their items. It visits every Sequence and Dict once, so cycles end.
func Walk(v Value, f func(Value)) { walk(v, f, map[any]bool{}) }

func walk(v Value, f func(Value), seen map[any]bool) {
	switch v := v.(type) {
	case *Sequence:
		if seen[v] {
			return
		}
		seen[v] = true
		f(v)
		for _, it := range v.Items {
			walk(it, f, seen)
		}
	case *Dict:
		if seen[v] {
			return
		}
		seen[v] = true
		f(v)
		for _, it := range v.Items {
			walk(it.Key, f, seen)
			walk(it.Value, f, seen)
		}
	case *Opaque:
		if seen[v] {
			return
		}
		seen[v] = true
		f(v)
		for _, p := range v.Parts {
			walk(p.Value, f, seen)
		}
	default:
		f(v)
	}
}

// Tensors returns the tensors in v in order of first appearance.
func Tensors(v Value) []*tensor.Tensor {
	var ts []*tensor.Tensor
	Walk(v, func(x Value) {
		if t, ok := x.(*tensor.Tensor); ok {
			ts = append(ts, t)
		}
	})
	return ts
}
