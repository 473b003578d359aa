package opdef

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/value"
)

// A Registry finds ops by the names captures use.
type Registry struct {
	entries []*Entry
	byName  map[string][]*Entry // overloads in order of declaration
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
	all := TrustedRegistry(r.entries, entries)
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
func (r *Registry) Entries() []*Entry { return sound(r.entries) }

// Lookup returns the overloads that answer to a public name.
func (r *Registry) Lookup(name string) []*Entry { return sound(r.byName[r.spelled(name)]) }

// spelled is name, or, of an unknown name of ATen's, torch.ops.aten.linalg_inv.default, the one
// that Python's API has for the same function with the same arguments in the same order. Those
// of torch.nn.functional are not among them: most are written in Python, with others.
func (r *Registry) spelled(name string) string {
	aten, ok := strings.CutPrefix(name, "torch.ops.aten.")
	if !ok || len(r.byName[name]) > 0 {
		return name
	}
	aten, _, _ = strings.Cut(aten, ".")
	spellings := []string{"torch." + aten, "torch.Tensor." + aten, "torch._C._nn." + aten}
	if family, rest, ok := strings.Cut(aten, "_"); ok && slices.Contains([]string{"linalg", "fft", "special"}, family) {
		spellings = append(spellings, "torch."+family+"."+rest)
	}
	for _, s := range spellings {
		if len(r.byName[s]) > 0 {
			return s
		}
	}
	return name
}

func sound(es []*Entry) []*Entry {
	return slices.DeleteFunc(slices.Clone(es), func(e *Entry) bool { return e.Ready() != nil })
}

// ErrUnknownOp is the error of Bind for a name no op answers to.
var ErrUnknownOp = errors.New("unknown op")

// Bind finds the overload of name that accepts the arguments. It returns
// ErrUnknownOp, or the *RefusedError of the first overload, which is the one that
// is used most.
func (r *Registry) Bind(name string, args []value.Value, kwargs *value.Dict) (*Call, error) {
	known := r.spelled(name)
	overloads := r.byName[known]
	if len(overloads) == 0 {
		return nil, fmt.Errorf("%w %s", ErrUnknownOp, name)
	}
	var first error
	for _, e := range overloads {
		c, err := e.Bind(known, args, kwargs)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// Knows reports whether an op answers to a name, or to one whose last part it is.
func (r *Registry) Knows(name string) bool {
	if known := r.byName[r.spelled(name)]; len(known) > 0 || strings.Contains(name, ".") {
		return len(known) > 0
	}
	return len(r.Similar(name)) > 0
}

// Similar returns the known names nearest to an unknown one: the same last part under
// another prefix, first those that begin as it does.
func (r *Registry) Similar(name string) []string {
	base := name[strings.LastIndexByte(name, '.')+1:]
	var out []string
	for n := range r.byName {
		if strings.HasSuffix(n, "."+base) {
			out = append(out, n)
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
	return out
}
