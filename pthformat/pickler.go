package pthformat

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A pickler writes one value as a pickle of protocol 2, the protocol of
// torch.save, with the opcodes that torch.load(weights_only=True) knows.
type pickler struct {
	out      []byte
	memo     map[any]int // slot of an object, or of a global or string
	depth    int
	storages []savedStorage
	keys     map[storageKey]int // index in storages
}

// storageKey tells storages apart. torch refuses to load one storage as two
// types, so each type of a shared storage gets a copy.
type storageKey struct {
	data  any // *tensor.Storage or *tensor.Tensor
	dtype tensor.DType
}

// maxWriteDepth bounds the nesting of what is written, so that tuples that
// contain themselves are an error. CPython reads and writes less.
const maxWriteDepth = 1000

func newPickler() *pickler {
	return &pickler{memo: map[any]int{}, keys: map[storageKey]int{}}
}

// saveName is the storage class that torch 1 and 2 use for a dtype. Dtypes
// without one are written by _rebuild_tensor_v3 over bytes (torch 2).
var saveName = func() map[tensor.DType]string {
	m := map[tensor.DType]string{}
	for name, dt := range storageTypes {
		if dt.Computable() {
			m[dt] = name
		}
	}
	return m
}()

func (p *pickler) encode(v value.Value) error {
	p.out = append(p.out, 0x80, 2)
	if err := p.value(v); err != nil {
		return err
	}
	p.out = append(p.out, '.')
	return nil
}

func (p *pickler) op(code ...byte) { p.out = append(p.out, code...) }

// get writes a reference to an object written before.
func (p *pickler) get(key any) bool {
	slot, ok := p.memo[key]
	if ok {
		p.slot('h', 'j', slot)
	}
	return ok
}

// put remembers the object on top of the stack.
func (p *pickler) put(key any) {
	slot := len(p.memo)
	p.memo[key] = slot
	p.slot('q', 'r', slot)
}

func (p *pickler) slot(short, long byte, slot int) {
	if slot < 256 {
		p.op(short, byte(slot))
		return
	}
	p.op(long)
	p.out = le.AppendUint32(p.out, uint32(slot))
}

// global writes a reference to module.name; text and globals share the memo
// under keys of their own types.
type globalKey string

func (p *pickler) global(module, name string) {
	key := globalKey(module + "." + name)
	if p.get(key) {
		return
	}
	p.out = append(p.out, "c"+module+"\n"+name+"\n"...)
	p.put(key)
}

func (p *pickler) text(s string) {
	p.op('X')
	p.out = le.AppendUint32(p.out, uint32(len(s)))
	p.out = append(p.out, s...)
}

// shared writes a string that occurs often once.
func (p *pickler) shared(s string) {
	if !p.get(s) {
		p.text(s)
		p.put(s)
	}
}

func (p *pickler) int(n int64) {
	switch {
	case n >= 0 && n < 1<<8:
		p.op('K', byte(n))
	case n >= 0 && n < 1<<16:
		p.op('M', byte(n), byte(n>>8))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		p.op('J')
		p.out = le.AppendUint32(p.out, uint32(n))
	default:
		p.bigInt(big.NewInt(n))
	}
}

// bigInt writes two's complement bytes, least significant first.
func (p *pickler) bigInt(n *big.Int) error {
	size := n.BitLen()/8 + 1
	if size > 255 {
		return fmt.Errorf("integer of %d bytes is too long", size)
	}
	x := n
	if n.Sign() < 0 {
		x = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	b := x.FillBytes(make([]byte, size))
	slices.Reverse(b)
	p.op(0x8a, byte(size))
	p.out = append(p.out, b...)
	return nil
}

func (p *pickler) float(x float64) {
	b := math.Float64bits(x)
	p.op('G')
	for shift := 56; shift >= 0; shift -= 8 {
		p.op(byte(b >> shift))
	}
}

func (p *pickler) bool(b bool) {
	if b {
		p.op(0x88)
	} else {
		p.op(0x89)
	}
}

// ints writes a tuple of sizes or strides.
func (p *pickler) ints(ns []int) {
	if len(ns) > 3 {
		p.op('(')
	}
	for _, n := range ns {
		p.int(int64(n))
	}
	p.tuple(len(ns))
}

// tuple makes a tuple of the n topmost objects, above a mark if n is above 3.
func (p *pickler) tuple(n int) {
	switch n {
	case 0:
		p.op(')')
	case 1, 2, 3:
		p.op(0x84 + byte(n))
	default:
		p.op('t')
	}
}

// call applies a global to the tuple that args leaves on the stack.
func (p *pickler) call(module, name string, args func() error) error {
	p.global(module, name)
	if err := args(); err != nil {
		return err
	}
	p.op('R')
	return nil
}

func (p *pickler) value(v value.Value) error {
	if p.depth++; p.depth > maxWriteDepth {
		return errors.New("value is nested too deep, or a tuple contains itself")
	}
	defer func() { p.depth-- }()
	switch v := v.(type) {
	case nil:
		p.op('N')
	case bool:
		p.bool(v)
	case int64:
		p.int(v)
	case *big.Int:
		return p.bigInt(v)
	case float64:
		p.float(v)
	case complex128:
		return p.complex(v)
	case string:
		if len(v) > math.MaxInt32 || !utf8.ValidString(v) {
			return fmt.Errorf("string of %d bytes is too long or not UTF-8", len(v))
		}
		p.text(v)
	case *value.Sequence, *value.Dict, *tensor.Tensor:
		return p.object(v)
	default:
		return p.instance(v)
	}
	return nil
}

// object writes what may contain other values, once: where it comes again the memo has it.
func (p *pickler) object(v value.Value) error {
	if p.get(v) {
		return nil
	}
	switch v := v.(type) {
	case *value.Sequence:
		return p.sequence(v)
	case *value.Dict:
		return p.dict(v)
	case *tensor.Tensor:
		if err := p.tensor(v); err != nil {
			return err
		}
	}
	p.put(v)
	return nil
}

// instance writes a value that is no object of Python's own syntax: a global, or a call of one.
func (p *pickler) instance(v value.Value) error {
	switch v := v.(type) {
	case value.Bytes:
		return p.bytes(v)
	case tensor.DType:
		p.global("torch", v.String())
	case value.Device:
		return p.call("torch", "device", func() error {
			p.text(v.Type)
			if v.Index < 0 {
				p.tuple(1)
				return nil
			}
			p.int(int64(v.Index))
			p.tuple(2)
			return nil
		})
	case value.Layout:
		return p.call("torch.serialization", "_get_layout", func() error {
			p.text(string(v))
			p.tuple(1)
			return nil
		})
	case value.MemoryFormat:
		module, name, ok := strings.Cut(string(v), ".")
		if _, known := constants[string(v)]; !ok || !known {
			return fmt.Errorf("memory format %q is not known", v)
		}
		p.global(module, name)
	case value.Ellipsis:
		p.global("__builtin__", "Ellipsis")
	case value.Slice:
		return p.call("__builtin__", "slice", func() error {
			if err := p.items([]value.Value{v.Start, v.Stop, v.Step}); err != nil {
				return err
			}
			p.tuple(3)
			return nil
		})
	case *value.Opaque:
		return fmt.Errorf("%q cannot be written: only its name is known", v.Global)
	default:
		return fmt.Errorf("a %T cannot be written", v)
	}
	return nil
}

func (p *pickler) complex(v complex128) error {
	return p.call("__builtin__", "complex", func() error {
		p.float(real(v))
		p.float(imag(v))
		p.tuple(2)
		return nil
	})
}

// bytes writes them as protocol 2 does: as text in latin1.
func (p *pickler) bytes(v value.Bytes) error {
	return p.call("_codecs", "encode", func() error {
		var s strings.Builder
		for _, b := range v {
			s.WriteRune(rune(b))
		}
		p.text(s.String())
		p.shared("latin1")
		p.tuple(2)
		return nil
	})
}

func (p *pickler) items(items []value.Value) error {
	for _, it := range items {
		if err := p.value(it); err != nil {
			return err
		}
	}
	return nil
}

func (p *pickler) sequence(s *value.Sequence) error {
	switch {
	case s.Kind == value.List && s.Class == "":
		return p.list(s, s.Items)
	case s.Kind == value.Tuple && s.Class == "":
		return p.plainTuple(s, s.Items)
	case s.Kind == value.Tuple && s.Class == "torch.Size":
		p.global("torch", "Size")
		if err := p.plainTuple(nil, s.Items); err != nil {
			return err
		}
		p.tuple(1)
	case s.Kind == value.Tuple && strings.HasPrefix(s.Class, "torch.return_types."):
		p.global("torch.return_types", s.Class[len("torch.return_types."):])
		if err := p.plainTuple(nil, s.Items); err != nil {
			return err
		}
		p.op('}')
		p.tuple(2)
	case s.Kind == value.Set && s.Class == "", s.Kind == value.FrozenSet && s.Class == "":
		p.global("__builtin__", map[bool]string{true: "set", false: "frozenset"}[s.Kind == value.Set])
		if err := p.list(nil, s.Items); err != nil {
			return err
		}
		p.tuple(1)
	default:
		return fmt.Errorf("a sequence of class %q cannot be written", s.Class)
	}
	p.op('R')
	p.put(s)
	return nil
}

// list writes a list; key, if not nil, is what refers to it later. A list is
// remembered before it is filled: it may contain itself.
func (p *pickler) list(key any, items []value.Value) error {
	p.op(']')
	if key != nil {
		p.put(key)
	}
	if len(items) == 0 {
		return nil
	}
	p.op('(')
	if err := p.items(items); err != nil {
		return err
	}
	p.op('e')
	return nil
}

func (p *pickler) plainTuple(key any, items []value.Value) error {
	if len(items) > 3 {
		p.op('(')
	}
	if err := p.items(items); err != nil {
		return err
	}
	p.tuple(len(items))
	if key != nil && len(items) > 0 {
		p.put(key)
	}
	return nil
}

func (p *pickler) dict(d *value.Dict) error {
	switch d.Class {
	case "":
		p.op('}')
	case "collections.OrderedDict", "collections.defaultdict", "collections.Counter":
		module, name, _ := strings.Cut(d.Class, ".")
		p.global(module, name)
		p.op(')', 'R')
	default:
		return fmt.Errorf("a dict of class %q cannot be written", d.Class)
	}
	p.put(d)
	if len(d.Items) == 0 {
		return nil
	}
	p.op('(')
	for _, it := range d.Items {
		if err := p.value(it.Key); err != nil {
			return err
		}
		if err := p.value(it.Value); err != nil {
			return err
		}
	}
	p.op('u')
	return nil
}

// tensor writes the constructor call of t; a Parameter wraps it in another.
func (p *pickler) tensor(t *tensor.Tensor) error {
	if !t.DType.Computable() {
		return fmt.Errorf("a tensor of dtype %s cannot be written", t.DType)
	}
	if t.Parameter {
		p.global("torch._utils", "_rebuild_parameter")
	}
	class, rebuild := saveName[t.DType], "_rebuild_tensor_v2"
	if class == "" {
		rebuild = "_rebuild_tensor_v3"
	}
	p.global("torch._utils", rebuild)
	p.op('(')
	offset, stride := p.storage(t, class)
	p.int(int64(offset))
	p.ints(t.Shape)
	p.ints(stride)
	p.bool(t.RequiresGrad && !t.Parameter)
	p.hooks()
	if class == "" {
		p.global("torch", t.DType.String())
	}
	p.op('t', 'R')
	if t.Parameter {
		p.bool(t.RequiresGrad)
		p.hooks()
		p.op(0x87, 'R')
	}
	return nil
}

func (p *pickler) hooks() {
	p.global("collections", "OrderedDict")
	p.op(')', 'R')
}

// backwards reports whether t runs through its storage backwards, which torch
// has no tensors for: such a view is written as a copy.
func backwards(t *tensor.Tensor) bool {
	return slices.ContainsFunc(t.Stride, func(n int) bool { return n < 0 })
}

// storage writes the persistent id of t's storage and returns where t lies in
// it.
func (p *pickler) storage(t *tensor.Tensor, class string) (offset int, stride []int) {
	saved, key := savedStorage{computed: t}, storageKey{t, t.DType}
	count, location := int64(t.Numel()), t.Device
	stride = tensor.Contiguous(t.Shape)
	if s := t.Storage(); s != nil && !backwards(t) {
		count = s.Len() / int64(t.DType.Size())
		saved, key = savedStorage{stored: s, size: count * int64(t.DType.Size())}, storageKey{s, t.DType}
		offset, stride = t.Offset, t.Stride
		if location == "" {
			location = s.Location
		}
	}
	if location == "" || location == "numpy" {
		location = "cpu"
	}
	index, ok := p.keys[key]
	if !ok {
		index = len(p.storages)
		p.keys[key] = index
		p.storages = append(p.storages, saved)
	}
	p.op('(')
	p.shared("storage")
	if class == "" {
		p.global("torch.storage", "UntypedStorage")
		count *= int64(t.DType.Size())
	} else {
		p.global("torch", class)
	}
	p.text(strconv.Itoa(index))
	p.shared(location)
	p.int(count)
	p.op('t', 'Q')
	return offset, stride
}
