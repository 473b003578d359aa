package configs

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/optool/optool/diopi_conformance/numpypickle"
	"github.com/optool/optool/internal/sandbox"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/tensor/value"
)

// Limits of one file's text, of lists and dicts in each other, and of the values of the
// result, those that are in several places counted in each.
const (
	maxSize   = 16 << 20
	maxDepth  = 100
	maxValues = 4 << 20
)

// limits are those of an evaluation.
type limits sandbox.Limits

// defaultLimits: DIOPI's largest file takes about 300,000 steps and less than a
// second. Text that grows is copied when it is full, so that twice the memory is taken
// before it is looked at.
var defaultLimits = limits{Steps: 20_000_000, Time: 30 * time.Second, Heap: 512 << 20}

// Load evaluates the Python file at path, a module of assignments such as
// DIOPI's diopi_configs.py and device_configs.py, and returns what it assigns
// to the global name. Import lines are dropped; np (its scalar types, inf,
// nan), Skip and slice are known.
func Load(path, name string) (*value.Dict, error) {
	src, err := smallfile.Read(path, maxSize)
	if err != nil {
		return nil, err
	}
	return Parse(path, src, name)
}

// Parse is Load of a file whose content is at hand.
func Parse(path string, src []byte, name string) (*value.Dict, error) {
	return defaultLimits.parse(path, src, name)
}

func (lim limits) parse(path string, src []byte, name string) (*value.Dict, error) {
	globals, err := lim.evaluate(path, src)
	if err != nil {
		return nil, err
	}
	v, ok := globals[name]
	if !ok {
		return nil, fmt.Errorf("%s: no %s is assigned", path, name)
	}
	c := converter{tuples: map[string]*value.Sequence{}}
	out, err := c.convert(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", path, name, err)
	}
	d, ok := out.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: %s is a %s, want a dict", path, name, v.Type())
	}
	return d, nil
}

func (lim limits) evaluate(path string, src []byte) (starlark.StringDict, error) {
	f, err := sandbox.Parse(path, []byte(withoutImports(src)))
	if err != nil {
		return nil, err
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.DictExpr); ok {
			d.List = lastOfEachKey(d.List)
		}
		return true
	})
	predeclared := starlark.StringDict{
		"np": numpy(), "numpy": numpy(),
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make), // for optool's own files
		"Skip":   starlark.NewBuiltin("Skip", makeSkip),
		"slice":  starlark.NewBuiltin("slice", makeSlice),
	}
	globals, err := sandbox.Limits(lim).Exec(path, f, predeclared)
	var evalErr *starlark.EvalError
	if errors.As(err, &evalErr) {
		err = errors.New(strings.ReplaceAll(strings.TrimSpace(evalErr.Backtrace()), "\n", ": "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return globals, nil
}

// withoutImports blanks import statements, which stand on lines of their own, and
// leaves out a byte order mark.
func withoutImports(src []byte) string {
	lines := strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "import ") || strings.HasPrefix(l, "from ") {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

// lastOfEachKey drops entries whose literal key comes again, which Starlark
// refuses: as in Python the last value counts, in the place of the first.
func lastOfEachKey(list []syntax.Expr) []syntax.Expr {
	at := map[any]int{}
	out := list[:0]
	for _, e := range list {
		entry, ok := e.(*syntax.DictEntry)
		if !ok {
			out = append(out, e)
			continue
		}
		if key, ok := entry.Key.(*syntax.Literal); ok {
			if i, again := at[key.Value]; again {
				out[i] = e
				continue
			}
			at[key.Value] = len(out)
		}
		out = append(out, e)
	}
	return out
}

// atom is a value that Starlark lacks: a numpy scalar type, a slice, a Skip.
type atom struct {
	v    value.Value
	name string
}

func (a *atom) String() string        { return a.name }
func (a *atom) Type() string          { return a.name }
func (a *atom) Freeze()               {}
func (a *atom) Truth() starlark.Bool  { return true }
func (a *atom) Hash() (uint32, error) { return starlark.String(a.name).Hash() }

// Skip marks a value whose cases a device leaves out.
type Skip struct{ Value value.Value }

func numpy() starlark.Value {
	members := starlark.StringDict{
		"inf": starlark.Float(inf), "nan": starlark.Float(nan), "pi": starlark.Float(3.141592653589793),
	}
	for _, name := range numpypickle.ScalarNames() {
		dt, _ := numpypickle.ScalarType(name)
		members[name] = &atom{dt, "np." + name}
	}
	return starlarkstruct.FromStringDict(starlark.String("np"), members)
}

func makeSkip(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
	error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "value", &v); err != nil {
		return nil, err
	}
	c := converter{}
	x, err := c.convert(v)
	return &atom{&Skip{x}, "Skip"}, err
}

func makeSlice(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
	error) {
	if len(kwargs) > 0 || len(args) < 1 || len(args) > 3 {
		return nil, fmt.Errorf("%s: want 1 to 3 positional arguments", b.Name())
	}
	c := converter{}
	parts := make([]value.Value, 3)
	for i, a := range args {
		var err error
		if parts[i], err = c.convert(a); err != nil {
			return nil, err
		}
	}
	if len(args) == 1 {
		parts[0], parts[1] = nil, parts[0]
	}
	return &atom{value.Slice{Start: parts[0], Stop: parts[1], Step: parts[2]}, "slice"}, nil
}

// A converter turns Starlark values into Python ones. Equal tuples of a file
// become one, as they are where CPython compiles it.
type converter struct {
	tuples map[string]*value.Sequence
	depth  int
	values int // so far
}

func (c *converter) convert(v starlark.Value) (value.Value, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, fmt.Errorf("a %s is nested more than %d deep, or holds itself", v.Type(), maxDepth)
	}
	defer func() { c.depth-- }()
	if c.values++; c.values > maxValues {
		return nil, fmt.Errorf("it holds more than %d values", maxValues)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, nil
		}
		return new(big.Int).Set(v.BigInt()), nil
	case starlark.Float:
		return float64(v), nil
	case starlark.String:
		return string(v), nil
	case *atom:
		return v.v, nil
	case starlark.Tuple:
		return c.tuple(v)
	case *starlark.List:
		items := make([]starlark.Value, v.Len())
		for i := range items {
			items[i] = v.Index(i)
		}
		out, err := c.items(items)
		return value.NewList(out...), err
	case *starlark.Dict:
		d := &value.Dict{}
		for _, pair := range v.Items() {
			both, err := c.items(pair)
			if err != nil {
				return nil, err
			}
			d.Items = append(d.Items, value.Item{Key: both[0], Value: both[1]})
		}
		return d, nil
	}
	return nil, fmt.Errorf("a %s is not data: %s", v.Type(), v)
}

// tuple converts a tuple. Equal tuples that cannot change become one and the same.
func (c *converter) tuple(v starlark.Tuple) (value.Value, error) {
	items, err := c.items(v)
	if err != nil {
		return nil, err
	}
	t := value.NewTuple(items...)
	if !isConstant(t) || c.tuples == nil {
		return t, nil
	}
	key := value.Repr(t)
	if same, ok := c.tuples[key]; ok {
		return same, nil
	}
	c.tuples[key] = t
	return t, nil
}

func (c *converter) items(in []starlark.Value) ([]value.Value, error) {
	out := make([]value.Value, len(in))
	for i, v := range in {
		var err error
		if out[i], err = c.convert(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// isConstant reports whether v holds nothing that can change.
func isConstant(v value.Value) bool {
	switch v := v.(type) {
	case *value.Sequence:
		if v.Kind != value.Tuple {
			return false
		}
		for _, it := range v.Items {
			if !isConstant(it) {
				return false
			}
		}
	case *value.Dict:
		return false
	}
	return true
}
