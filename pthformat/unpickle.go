package pthformat

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An unpickler runs one walked pickle on gopickle's machine. persistent
// answers persistent ids; nil refuses them.
type unpickler struct {
	persistent func(id any) (any, error)
}

// A cursor feeds the machine and knows how far it has read. It leaves out frames, and what is put into the memo but
// never read: the machine would keep every object of the pickle until its end.
type cursor struct {
	*program
	at, end int    // the next byte, and the end of the opcode that it belongs to
	made    []byte // what the machine reads first
	count   uint32 // MEMOIZE opcodes met
}

// enter begins the next opcode that the machine is to see.
func (c *cursor) enter() {
	for c.at < c.length {
		b := c.pickle[c.at:]
		op := &opcodes[b[0]]
		n := op.extent(b)
		keep := true
		switch b[0] {
		case 0x95:
			n, keep = frameLen, false
		case 'p', 'q', 'r':
			keep = c.memoizes || c.read[uint32(slot(b[:n]))]
		case 0x94:
			if number := c.count; !c.puts {
				c.count++
				if c.read[number] { // LONG_BINPUT: the machine would count only those that it sees
					c.made = le.AppendUint32([]byte{'r'}, number)
				}
				keep = false
			}
		case 'c', 'i':
			if module, name, _ := strings.Cut(string(b[1:n-1]), "\n"); hooked[module+"."+name] {
				c.made = []byte{b[0], hookByte}
				c.at, c.end = c.at+2, c.at+n
				return
			}
		}
		if keep {
			c.end = c.at + n
			return
		}
		c.at += n
		c.end = c.at
		if len(c.made) > 0 {
			return
		}
	}
}

func (c *cursor) Read(p []byte) (int, error) {
	from := c.made
	if len(from) == 0 {
		from = c.pickle[c.at:c.end]
	}
	n := copy(p, from)
	if len(c.made) > 0 {
		c.made = c.made[n:]
	} else {
		c.at += n
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *cursor) ReadByte() (byte, error) {
	if len(c.made) == 0 && c.at == c.end {
		c.enter()
	}
	var b [1]byte
	if n, err := c.Read(b[:]); n == 0 {
		return 0, err
	}
	return b[0], nil
}

// run executes the program. The result is made of the machine's types, our
// nodes and finished values; convert turns it into values.
func (u *unpickler) run(p *program) (result any, err error) {
	c := &cursor{program: p}
	fail := func(e error) error {
		var fe *FormatError
		if !errors.As(e, &fe) {
			fe = &FormatError{Msg: "malformed pickle", Err: e}
		}
		if fe.Record == "" { // else it speaks of another record
			fe.Offset = int64(max(c.at-1, 0))
		}
		return fe
	}
	defer func() {
		if r := recover(); r != nil {
			result, err = nil, fail(fmt.Errorf("%v", r))
		}
	}()
	m := pickle.NewUnpickler(c)
	m.FindClass = u.findClass
	m.PersistentLoad = u.persistentID
	result, err = m.Load()
	if err != nil {
		return nil, fail(err)
	}
	return result, nil
}

func (u *unpickler) persistentID(id any) (any, error) {
	if u.persistent == nil {
		return nil, malformed("unexpected persistent id")
	}
	return u.persistent(id)
}

// The nodes are what the machine's stack holds beside its own types.

// object is an instance of a class outside the closed list. It takes whatever
// the pickle gives it and never does anything.
type object struct {
	global  string
	reason  string
	lacking bool     // the file does not hold all of it
	args    []any    // what it was made with
	named   []string // names of args; nil: they have positions
	base    any      // of a tensor subclass: the tensor it was made of
	state   any
	items   []any // APPEND, ADDITEMS
	pairs   []any // SETITEM: key, value, key, value
}

// part adds something that has a name.
func (o *object) part(name string, x any) {
	o.args, o.named = append(o.args, x), append(o.named, name)
}

func (o *object) PySetState(state any) error { o.state = state; return nil }
func (o *object) Append(v any)               { o.items = append(o.items, v) }
func (o *object) Add(v any)                  { o.items = append(o.items, v) }
func (o *object) Set(k, v any)               { o.pairs = append(o.pairs, k, v) }

// mapping is an OrderedDict, defaultdict, Counter or dict made by a call.
type mapping struct {
	class string
	pairs []any
	state any
}

func (m *mapping) PySetState(state any) error { m.state = state; return nil }
func (m *mapping) Set(k, v any)               { m.pairs = append(m.pairs, k, v) }

// attributes are the state without what torch notes on a state_dict; nil if nothing is left.
func (m *mapping) attributes() any {
	d, ok := m.state.(*types.Dict)
	if !ok {
		return m.state
	}
	left := slices.DeleteFunc(slices.Clone(*d), func(e types.DictEntry) bool {
		return e.Key == "_metadata" && versions(e.Value)
	})
	if len(left) == 0 {
		return nil
	}
	return &left
}

// versions reports whether x is what torch notes of the modules of a state_dict: dicts of
// flags and versions, by module.
func versions(x any) bool {
	for _, v := range valuesOf(x) {
		flags := valuesOf(v)
		if flags == nil {
			return false
		}
		for _, f := range flags {
			switch f.(type) {
			case nil, bool, int, string:
			default:
				return false
			}
		}
	}
	return valuesOf(x) != nil
}

// valuesOf are the values of a dict without attributes; nil of anything else.
func valuesOf(x any) []any {
	values := []any{}
	switch x := x.(type) {
	case *types.Dict:
		for _, e := range *x {
			values = append(values, e.Value)
		}
		return values
	case *mapping:
		if x.state == nil {
			for i := 1; i < len(x.pairs); i += 2 {
				values = append(values, x.pairs[i])
			}
			return values
		}
	}
	return nil
}

// sequence is a list, tuple or set made by a call.
type sequence struct {
	kind  value.SequenceKind
	class string
	items []any
}

func (s *sequence) Append(v any) { s.items = append(s.items, v) }
func (s *sequence) Add(v any)    { s.items = append(s.items, v) }

// slice is a slice object.
type slice struct{ parts [3]any }

// reference is a class or function that a file names.
func reference(global string) *value.Opaque { return &value.Opaque{Global: global, Whole: true} }

// converter turns what the machine made into values. Shared objects stay
// shared; objects may contain themselves.
type converter struct {
	lim    Limits
	seen   map[any]*visit
	cyclic bool
}

type visit struct {
	v     value.Value
	count int // objects inside, each counted as often as it is reached; 0 while open
}

// convert returns the value of x and the number of objects a walk would visit
// that knows nothing of sharing. The walk may come later and may be naive, so
// the limit holds for that number; an object met inside itself counts once.
func (c *converter) convert(x any, depth int) (value.Value, int, error) {
	if v, ok, err := atom(x); ok {
		return v, 1, err
	}
	if depth >= c.lim.Depth {
		return nil, 0, malformed("objects are nested more than %d deep", c.lim.Depth)
	}
	if s, ok := x.(*slice); ok {
		return c.slice(s, depth)
	}
	if v, ok := c.seen[x]; ok {
		if v.count == 0 {
			c.cyclic = true
			return v.v, 1, nil
		}
		return v.v, v.count, nil
	}
	if c.seen == nil {
		c.seen = map[any]*visit{}
	}
	here := &visit{}
	c.seen[x] = here
	n, err := c.container(x, here, depth+1)
	if err != nil {
		return nil, 0, err
	}
	if n > c.lim.Expanded {
		return nil, 0, malformed("value expands to more than %d items", c.lim.Expanded)
	}
	here.count = n
	return here.v, n, nil
}

// atom is the value of what has no other objects inside; ok reports whether x is such.
func atom(x any) (v value.Value, ok bool, err error) {
	switch x := x.(type) {
	case nil, bool, float64, complex128, string, *big.Int, tensor.DType,
		value.Device, value.Layout, value.MemoryFormat, value.Ellipsis, value.Bytes:
		return x, true, nil
	case *tensor.Tensor:
		return x, x.Attrs == nil, nil
	case int:
		return int64(x), true, nil
	case []byte:
		return value.Bytes(x), true, nil
	case *types.ByteArray:
		return value.Bytes(*x), true, nil
	case *class:
		name := x.name
		if builtin, ok := strings.CutPrefix(name, "__builtin__."); ok { // as protocol 2 spells it
			name = "builtins." + builtin
		}
		if name == "builtins.getattr" { // only called, see buildGetattr
			return nil, true, forbidden(x.name)
		}
		return reference(name), true, nil
	case storageClass:
		return reference(x.name), true, nil
	case *types.ObjectClass:
		return reference("builtins.object"), true, nil
	case *types.OrderedDictClass:
		return reference("collections.OrderedDict"), true, nil
	case *types.Reconstructor:
		return reference("copyreg._reconstructor"), true, nil
	case *storage:
		return x.opaque(), true, nil
	}
	return nil, false, nil
}

// container converts x and what is in it. here.v is set before its items are
// converted, so that they can refer to it.
func (c *converter) container(x any, here *visit, depth int) (int, error) {
	switch x := x.(type) {
	case *types.List:
		return c.sequence(here, depth, value.List, "", *x)
	case *types.Tuple:
		return c.sequence(here, depth, value.Tuple, "", *x)
	case *types.Set:
		return c.sequence(here, depth, value.Set, "", members(*x))
	case *types.FrozenSet:
		return c.sequence(here, depth, value.FrozenSet, "", members(*x))
	case *sequence:
		return c.sequence(here, depth, x.kind, x.class, x.items)
	case *types.Dict:
		pairs := make([]any, 0, 2*len(*x))
		for _, e := range *x {
			pairs = append(pairs, e.Key, e.Value)
		}
		return c.dict(here, depth, "", pairs)
	case *types.OrderedDict: // protocol 4 and later; see hooked
		pairs := make([]any, 0, 2*len(x.Map))
		for e := x.List.Front(); e != nil; e = e.Next() {
			entry := e.Value.(*types.OrderedDictEntry)
			pairs = append(pairs, entry.Key, entry.Value)
		}
		return c.dict(here, depth, "collections.OrderedDict", pairs)
	case *mapping:
		if state := x.attributes(); state != nil {
			o := &object{global: cmp.Or(x.class, "builtins.dict"), state: state, pairs: x.pairs}
			return c.object(o, here, depth)
		}
		return c.dict(here, depth, x.class, x.pairs)
	case *array:
		return c.array(x, here, depth)
	case *masked:
		return c.object(&x.object, here, depth)
	case *arrayType:
		here.v = reference("numpy.dtype " + x.String())
		return 1, nil
	case *object:
		return c.object(x, here, depth)
	case *tensor.Tensor:
		here.v = x
		state, n, err := c.convert(x.Attrs, depth)
		x.Attrs = nil
		if parts := attributes(state); len(parts) > 0 {
			x.Attrs = parts
		}
		return n + 1, err
	}
	return 0, malformed("unexpected %T in the pickle", x)
}

func (c *converter) sequence(here *visit, depth int, kind value.SequenceKind, class string, items []any) (int, error) {
	s := &value.Sequence{Kind: kind, Class: class}
	here.v = s
	n, err := c.items(items, depth, &s.Items)
	if err == nil && (kind == value.Set || kind == value.FrozenSet) {
		err = checkMembers(s.Items)
	}
	return n, err
}

// dict converts a dict of keys and values, which take turns in pairs.
func (c *converter) dict(here *visit, depth int, class string, pairs []any) (int, error) {
	d := &value.Dict{Class: class}
	here.v = d
	var flat []value.Value
	n, err := c.items(pairs, depth, &flat)
	if err != nil {
		return 0, err
	}
	d.Items = make([]value.Item, len(flat)/2)
	for i := range d.Items {
		d.Items[i] = value.Item{Key: flat[2*i], Value: flat[2*i+1]}
	}
	return n, checkKeys(d.Items)
}

// array converts an array of numpy: one of numbers, or of objects with a shape.
func (c *converter) array(x *array, here *visit, depth int) (int, error) {
	v, items, err := x.elements()
	if err != nil || items == nil {
		here.v = v
		return 1 + 2*len(value.Parts(v)), err
	}
	shape := types.Tuple(nil)
	if s, ok := elements(x.shape); ok {
		shape = s
	}
	return c.object(&object{global: "numpy.ndarray", reason: "array of objects", args: []any{&shape},
		named: []string{"shape"}, items: items}, here, depth)
}

func (c *converter) items(in []any, depth int, out *[]value.Value) (int, error) {
	if len(in) == 0 {
		return 1, nil
	}
	vs := make([]value.Value, len(in))
	*out = vs
	total := 1
	for i, x := range in {
		v, n, err := c.convert(x, depth)
		if err != nil {
			return 0, err
		}
		vs[i] = v
		if total += n; total > c.lim.Expanded {
			return total, nil // convert reports it
		}
	}
	return total, nil
}

func (c *converter) slice(s *slice, depth int) (value.Value, int, error) {
	var parts []value.Value
	if depth >= c.lim.Depth {
		return nil, 0, malformed("objects are nested more than %d deep", c.lim.Depth)
	}
	n, err := c.items(s.parts[:], depth+1, &parts)
	if err != nil || n > c.lim.Expanded {
		return nil, n, err
	}
	return value.Slice{Start: parts[0], Stop: parts[1], Step: parts[2]}, n, nil
}

// object converts an opaque object. Its parts are what a builder named, or else the arguments
// that it was made with, then its state, items and entries.
func (c *converter) object(o *object, here *visit, depth int) (int, error) {
	op := &value.Opaque{Global: o.global, Reason: o.reason, Whole: !o.lacking}
	here.v = op
	total := 1
	convert := func(x any) (value.Value, error) {
		v, n, err := c.convert(x, depth)
		total += n
		return v, err
	}
	if err := o.addMade(op, convert); err != nil {
		return 0, err
	}
	given := map[value.Value]bool{} // tensors that the object was made with
	for _, p := range op.Parts {
		if t, ok := p.Value.(*tensor.Tensor); ok {
			given[t] = true
		}
	}
	state, err := convert(o.state)
	if err != nil {
		return 0, err
	}
	telling := bookkeepers[o.global]
	for _, p := range attributes(state) {
		if t, ok := p.Value.(*tensor.Tensor); (!ok || !given[t]) && (telling == nil || telling[p.Name]) {
			op.Parts = append(op.Parts, p)
		}
	}
	for i, x := range o.items {
		v, err := convert(x)
		if err != nil {
			return 0, err
		}
		op.Parts = append(op.Parts, value.Part{Name: fmt.Sprintf("[%d]", i), Value: v})
	}
	if len(o.pairs) > 0 {
		v, err := convert(&mapping{pairs: o.pairs})
		if err != nil {
			return 0, err
		}
		op.Parts = append(op.Parts, value.Parts(v)...)
	}
	return total, nil
}

// addMade adds the parts that an object was made with: its arguments, and what it wraps.
func (o *object) addMade(op *value.Opaque, convert func(any) (value.Value, error)) error {
	for i, x := range o.args {
		v, err := convert(x)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("(%d)", i)
		if o.named != nil {
			name = o.named[i]
		}
		op.Parts = append(op.Parts, value.Part{Name: name, Value: v})
	}
	if o.base == nil { // what a subclass adds to a tensor that is an object itself
		return nil
	}
	v, err := convert(o.base)
	if err != nil {
		return err
	}
	if b, ok := v.(*value.Opaque); ok && len(b.Parts) > 0 {
		op.Parts, op.Whole = append(op.Parts, b.Parts...), op.Whole && b.Whole
	} else {
		op.Parts = append(op.Parts, value.Part{Name: "(0)", Value: v})
	}
	return nil
}

// attributes lists the state of an object by the names of its attributes. A state is a dict,
// or a pair of dicts where the class has slots; anything else is one part, called state. The
// parameters, buffers and submodules of a torch.nn.Module are attributes, as in Python.
func attributes(state value.Value) []value.Part {
	switch s := state.(type) {
	case nil:
		return nil
	case *value.Dict:
		var parts []value.Part
		module := isModule(s)
		for _, p := range value.Parts(s) {
			switch {
			case compilerMarks[p.Name]:
			case module && (p.Name == "_parameters" || p.Name == "_buffers" || p.Name == "_modules"):
				parts = append(parts, value.Parts(p.Value)...)
			default:
				parts = append(parts, p)
			}
		}
		return parts
	case *value.Sequence:
		if s.Kind == value.Tuple && s.Class == "" && len(s.Items) == 2 && isAttributes(s.Items[0]) &&
			isAttributes(s.Items[1]) {
			return append(attributes(s.Items[0]), attributes(s.Items[1])...)
		}
	}
	return []value.Part{{Name: "state", Value: state}}
}

// compilerMarks are attributes that torch.compile leaves on tensors. They say nothing of values.
var compilerMarks = set("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices",
	"_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices", "_dynamo_propagated_dynamic_indices",
	"_dynamo_static_input_type", "_dynamo_hint_overrides", "_dynamo_dynamic_range", "_has_dynamo_dim_marking",
	"_specialize_on")

// bookkeepers are classes that keep notes of the process beside what they describe, and the
// attributes that describe it.
var bookkeepers = map[string]map[string]bool{
	"torch.distributed.tensor._dtensor_spec.DTensorSpec":     set("mesh", "placements"),
	"torch.distributed._tensor._dtensor_spec.DTensorSpec":    set("mesh", "placements"),
	"torch.distributed._tensor.placement_types.DTensorSpec":  set("mesh", "placements"),
	"torch.distributed._tensor.placement_types._DTensorSpec": set("mesh", "placements"),
	"torch.distributed.device_mesh.DeviceMesh":               meshAttributes,
	"torch.distributed._tensor.device_mesh.DeviceMesh":       meshAttributes,
}

var meshAttributes = set("device_type", "_device_type", "mesh", "_mesh", "_rank_map", "_layout", "mesh_dim_names",
	"_mesh_dim_names")

func isAttributes(v value.Value) bool {
	_, ok := v.(*value.Dict)
	return ok || v == nil
}

// isModule reports whether attributes are those of a torch.nn.Module.
func isModule(d *value.Dict) bool {
	for _, name := range []string{"_parameters", "_buffers", "_modules"} {
		v, _ := d.Get(name)
		if _, ok := v.(*value.Dict); !ok {
			return false
		}
	}
	return true
}

// members lists a set that the machine made, in an order of our own: the
// machine keeps none.
func members[V any](m map[any]V) []any {
	out := make([]any, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b any) int {
		x, xIsNumber := number(a)
		y, yIsNumber := number(b)
		switch {
		case xIsNumber && yIsNumber && x != y:
			if x < y {
				return -1
			}
			return 1
		case xIsNumber != yIsNumber:
			if xIsNumber {
				return -1
			}
			return 1
		}
		return strings.Compare(sortKey(a, 4), sortKey(b, 4))
	})
	return out
}

func number(x any) (float64, bool) {
	switch x := x.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case int:
		return float64(x), true
	case float64:
		return x, x == x
	}
	return 0, false
}

// sortKey is a text that orders hashable objects: by type, then by content.
func sortKey(x any, depth int) string {
	if t, ok := x.(*types.Tuple); ok && depth > 0 {
		var b strings.Builder
		b.WriteString("(")
		for _, e := range *t {
			b.WriteString(sortKey(e, depth-1) + ",")
		}
		return b.String()
	}
	switch x.(type) {
	case nil, bool, int, float64, complex128, string, tensor.DType, value.Device:
		return fmt.Sprintf("%T %v", x, x)
	}
	return fmt.Sprintf("%T", x)
}

// checkKeys refuses keys that Python could not hash, and equal keys: no
// pickler writes them.
func checkKeys(items []value.Item) error {
	seen := make(map[any]struct{}, min(len(items), 1<<16))
	for _, it := range items {
		k, err := hashable(it.Key)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		if _, dup := seen[k]; dup {
			return malformed("dict key %v appears twice", it.Key)
		}
		seen[k] = struct{}{}
	}
	return nil
}

func checkMembers(items []value.Value) error {
	for _, it := range items {
		if _, err := hashable(it); err != nil {
			return err
		}
	}
	return nil
}

// hashable returns a Go value that is equal for equal Python keys, nil for
// keys that are not compared.
func hashable(v value.Value) (any, error) {
	switch v := v.(type) {
	case string, int64:
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		if i := int64(v); v >= math.MinInt64 && v < math.MaxInt64 && float64(i) == v {
			return i, nil
		}
		return v, nil
	case *value.Dict:
		return nil, malformed("unhashable dict key or set member: dict")
	case *value.Sequence:
		if v.Kind == value.List || v.Kind == value.Set {
			return nil, malformed("unhashable dict key or set member: list or set")
		}
	}
	return nil, nil
}
