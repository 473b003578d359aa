package opdef

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/tensor/value"
)

// A Registry finds ops by the names captures use.
type Registry struct {
	entries  []*Entry
	byName   map[string][]*Entry // overloads in order of declaration
	families []*Family
	formulas func() *Registry // see WithFormulas; nil: there are none
}

// A Family is a group of operators whose declarations are read when a name of one of its
// namespaces is first met.
type Family struct {
	// Namespaces are the first parts of all names: torch_npu of torch_npu.npu_swiglu, npu of
	// torch.ops.npu.npu_swiglu.
	Namespaces []string
	read       func() *Registry
}

// NewFamily is the family of what read gives, which is called once.
func NewFamily(namespaces []string, read func() []*Entry) *Family {
	return &Family{namespaces, sync.OnceValue(func() *Registry { return TrustedRegistry(read()) })}
}

// Entries reads the family's declarations.
func (f *Family) Entries() []*Entry { return f.read().entries }

// has reports whether a full name is in one of the family's namespaces.
func (f *Family) has(name string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, dispatched), ".")
	return slices.Contains(f.Namespaces, first)
}

// WithFamilies is r and families, whose operators stand behind those of r.
func (r *Registry) WithFamilies(families ...*Family) *Registry {
	return &Registry{r.entries, r.byName, slices.Concat(r.families, families), r.formulas}
}

// WithFormulas is r with formulas of its operators, under the names of these; read is called once, when one is asked
// for.
func (r *Registry) WithFormulas(read func() []*Entry) *Registry {
	formulas := sync.OnceValue(func() *Registry { return TrustedRegistry(read()) })
	return &Registry{r.entries, r.byName, r.families, formulas}
}

// Formula is the formula of a call, with its arguments, nil if there is none. Its mistakes may be those of the call.
func (r *Registry) Formula(c *Call) *Call {
	if r.formulas == nil || !OfTorch(c.Entry.Names[0]) {
		return nil
	}
	args, kwargs := c.Python()
	for _, n := range c.Entry.Names {
		for _, e := range r.formulas().byName[n] {
			if f, err := e.Bind(n, args, kwargs); err == nil {
				return f
			}
		}
	}
	return nil
}

// named are the overloads that answer to a full name.
func (r *Registry) named(name string) []*Entry {
	known := r.byName[name]
	if len(r.families) == 0 || OfTorch(name) {
		return known
	}
	for _, f := range r.families {
		if f.has(name) {
			known = append(slices.Clip(known), f.read().byName[name]...)
		}
	}
	return known
}

// all are the entries of r and of all families.
func (r *Registry) all() []*Entry {
	out := r.entries
	for _, f := range r.families {
		out = append(slices.Clip(out), f.Entries()...)
	}
	return out
}

// NewRegistry checks the tables and builds a registry of them. Every
// contradiction in a declaration is reported.
func NewRegistry(tables ...[]*Entry) (*Registry, error) {
	r := TrustedRegistry(tables...)
	schemas := map[string]bool{}
	var errs []error
	for _, e := range r.entries {
		if schemas[e.schema] {
			errs = append(errs, fmt.Errorf("op %s: declared twice: %s", e.Op(), e.schema))
		}
		schemas[e.schema] = true
		errs = append(errs, r.conflicts(e))
	}
	return r, errors.Join(errs...)
}

// With is r and further operators, which are checked; r itself stays as it is. One of a
// name that r knows takes the place of all that answered to it if it says that it
// Replaces, and is an error otherwise, whatever its arguments: which of two would be
// meant cannot be told from a call.
func (r *Registry) With(entries []*Entry) (*Registry, error) {
	own, left := r.entries, []*Family{}
	for _, f := range r.families {
		if slices.ContainsFunc(entries, func(e *Entry) bool { return slices.ContainsFunc(e.Names, f.has) }) {
			own = append(slices.Clip(own), f.Entries()...)
		} else {
			left = append(left, f)
		}
	}
	all := TrustedRegistry(own, entries)
	all.families, all.formulas = left, r.formulas
	var errs []error
	for _, e := range entries {
		for _, n := range e.Names {
			known := r.Lookup(n)
			switch {
			case len(known) > 0 && e.Replaces:
				all.byName[n] = slices.DeleteFunc(all.byName[n],
					func(o *Entry) bool { return slices.Contains(known, o) })
			case len(known) > 0:
				errs = append(errs, fmt.Errorf("%s: op %s: %s is known as %s: replaces=True takes its place", e.Place,
					e.Op(), n, known[0].schema))
			}
		}
	}
	if len(errs) > 0 {
		return nil, errs[0]
	}
	for _, e := range entries {
		errs = append(errs, all.conflicts(e))
	}
	return all, errors.Join(errs...)
}

// conflicts says what contradicts itself in e, and which operators before it answer to
// the same calls.
func (r *Registry) conflicts(e *Entry) error {
	if err := e.Ready(); err != nil {
		return err
	}
	var errs []error
	for _, n := range e.Names {
		for _, other := range r.byName[n] {
			if other == e {
				break
			}
			if other.Ready() == nil && slices.Equal(other.Schema.parameters(), e.Schema.parameters()) {
				errs = append(errs, fmt.Errorf("op %s: op %s answers to %s with arguments of the same types", e.Op(),
					other.Op(), n))
			}
		}
	}
	return errors.Join(errs...)
}

// TrustedRegistry builds a registry of tables that NewRegistry finds sound,
// without reading the declarations: Bind and Entries read those they need.
func TrustedRegistry(tables ...[]*Entry) *Registry {
	r := &Registry{byName: map[string][]*Entry{}}
	for _, t := range tables {
		r.entries = append(r.entries, t...)
		for _, e := range t {
			for _, n := range e.Names {
				r.byName[n] = append(r.byName[n], e)
			}
		}
	}
	return r
}

// Entries returns all ops in order of declaration, those that contradict
// themselves left out.
func (r *Registry) Entries() []*Entry { return sound(r.all()) }

// Lookup returns the overloads that answer to a public name.
func (r *Registry) Lookup(name string) []*Entry {
	var out []*Entry
	for _, n := range r.spellings(name) {
		out = append(out, r.named(n)...)
	}
	return sound(out)
}

// spellings are the known names of the function that a recorder calls name. Recorders disagree about
// functions of the dispatcher: torch.ops.torchvision.nms is torchvision.nms for some of them, and some
// add the overload, torch.ops.aten.linalg_inv.default. A function of ATen is in addition the one that
// Python's API has with the same arguments in the same order, torch.linalg.inv. Functions of
// torch.nn.functional are not among them: most are written in Python and have other arguments.
func (r *Registry) spellings(name string) []string {
	var out []string
	add := func(n string) {
		if len(r.named(n)) > 0 && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	add(name)
	if OfTorch(name) {
		return out
	}
	parts := strings.Split(strings.TrimPrefix(name, dispatched), ".")
	if len(parts) < 2 || len(parts) > 3 { // namespace, function, overload
		return out
	}
	add(dispatched + strings.Join(parts, "."))
	add(dispatched + parts[0] + "." + parts[1])
	if parts[0] != "aten" {
		return out
	}
	aten, before := parts[1], len(out)
	python := []string{"torch." + aten, "torch.Tensor." + aten, "torch._C._nn." + aten}
	if family, rest, ok := strings.Cut(aten, "_"); ok && slices.Contains([]string{"linalg", "fft", "special"}, family) {
		python = append(python, "torch."+family+"."+rest)
	}
	for _, n := range python {
		if add(n); len(out) > before {
			break
		}
	}
	return out
}

// dispatched is how the names of functions begin that are called through PyTorch's dispatcher.
const dispatched = "torch.ops."

func sound(es []*Entry) []*Entry {
	return slices.DeleteFunc(slices.Clone(es), func(e *Entry) bool { return e.Ready() != nil })
}

// ErrUnknownOp is the error of Bind for a name no op answers to.
var ErrUnknownOp = errors.New("unknown op")

// An UnboundError is a call of a known function whose arguments fit none of the overloads that are
// known.
type UnboundError struct {
	Nearest string        // the schema of the overload that took most arguments
	Refused *RefusedError // why it does not take the next one
}

func (e *UnboundError) Error() string { return e.Refused.Error() }

// Unwrap gives the refusal of the nearest overload.
func (e *UnboundError) Unwrap() error { return e.Refused }

// Bind finds the overload of name that accepts the arguments. It returns ErrUnknownOp, or an
// *UnboundError where no overload does.
func (r *Registry) Bind(name string, args []value.Value, kwargs *value.Dict) (*Call, error) {
	known := r.spellings(name)
	if len(known) == 0 {
		return nil, fmt.Errorf("%w %s", ErrUnknownOp, name)
	}
	var nearest *UnboundError
	for _, n := range known {
		for _, e := range r.named(n) {
			c, err := e.Bind(n, args, kwargs)
			if err == nil {
				return c, nil
			}
			var refused *RefusedError
			switch {
			case !errors.As(err, &refused):
				return nil, err
			case nearest == nil || refused.taken > nearest.Refused.taken: // the first is used most
				nearest = &UnboundError{e.schema, refused}
			}
		}
	}
	return nil, nearest
}

// Knows reports whether an op answers to a name, or to one whose last part it is.
func (r *Registry) Knows(name string) bool {
	if known := r.spellings(name); len(known) > 0 || strings.Contains(name, ".") {
		return len(known) > 0
	}
	return len(r.Similar(name)) > 0
}

// Similar returns the known names nearest to an unknown one: the same last part under
// another prefix, first those that begin as it does. Of an autograd function, CLASS.apply, the
// class is what names it.
func (r *Registry) Similar(name string) []string {
	class := strings.TrimSuffix(name, ".apply")
	base := class[strings.LastIndexByte(class, '.')+1:] + name[len(class):]
	var out []string
	for _, e := range r.all() {
		for _, n := range e.Names {
			if strings.HasSuffix(n, "."+base) {
				out = append(out, n)
			}
		}
	}
	shared := func(n string) int { // parts at the beginning
		parts, want, i := strings.Split(n, "."), strings.Split(name, "."), 0
		for i < min(len(parts), len(want)) && parts[i] == want[i] {
			i++
		}
		return i
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(shared(b), shared(a)), cmp.Compare(a, b))
	})
	return slices.Compact(out)
}
