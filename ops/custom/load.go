package custom

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"

	"github.com/optool/optool/internal/sandbox"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
)

// maxSize is how large a file may be, in bytes.
const maxSize = 1 << 20

// limits are those of a file; a call of a function of it takes no more steps either.
var limits = sandbox.Limits{Steps: 2_000_000, Time: 10 * time.Second, Heap: 256 << 20}

// Load reads the operators that files declare; of a folder it reads the files
// named *.star, in order of their names. Errors name file and line.
func Load(paths ...string) ([]*opdef.Entry, error) {
	var out []*opdef.Entry
	for _, p := range paths {
		files, err := filesOf(p)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			src, err := smallfile.Read(f, maxSize)
			if err != nil {
				return nil, err
			}
			entries, err := Parse(f, src)
			if err != nil {
				return nil, err
			}
			out = append(out, entries...)
		}
	}
	return out, nil
}

func filesOf(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() {
		return []string{path}, nil
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s: neither a regular file nor a directory", path)
	}
	files, err := filepath.Glob(filepath.Join(escaped(path), "*.star"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no file there is named *.star", path)
	}
	return files, err
}

// escaped is path as a pattern that matches itself alone.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Parse is Load of one file whose content is at hand.
func Parse(path string, src []byte) ([]*opdef.Entry, error) {
	f, err := sandbox.Dialect.Parse(path, bytes.TrimPrefix(src, []byte("\ufeff")), 0)
	if err != nil {
		return nil, err
	}
	l := loader{all: newLibrary()}
	predeclared := starlark.StringDict{"op": starlark.NewBuiltin("op", l.op), "math": starlarkmath.Module,
		"inf": starlark.Float(math.Inf(1)), "nan": starlark.Float(math.NaN())}
	for name, f := range l.all {
		predeclared[name] = starlark.NewBuiltin(name, func(th *starlark.Thread, _ *starlark.Builtin,
			args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return f.run(th, name, args, kwargs)
		})
	}
	maps.Copy(predeclared, generators)
	globals, err := limits.Exec(path, f, predeclared)
	if err != nil {
		return nil, position(err)
	}
	globals.Freeze()
	return l.entries, nil
}

// A loader collects the operators of a file.
type loader struct {
	all     library
	entries []*opdef.Entry
}

// op is the function op of a file.
func (l *loader) op(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error) {
	var schema, summary, formula, notes, source, names, random string
	var f starlark.Callable
	var noGrad starlark.Value = starlark.None
	var cases *starlark.List
	torch, ulps, replaces := "fused", starlark.Float(0), false
	err := starlark.UnpackArgs("op", args, kwargs, "schema", &schema, "function", &f, "names?", &names,
		"summary?", &summary, "formula?", &formula, "notes?", &notes, "source?", &source, "torch?", &torch,
		"no_grad?", &noGrad, "random?", &random, "ulps?", asFloat{&ulps}, "cases?", &cases,
		"replaces?", &replaces)
	if err != nil {
		return nil, err
	}
	at := th.CallFrame(1).Pos
	schema = strings.Join(strings.Fields(schema), " ")
	name, _, _ := strings.Cut(schema, "(")
	o := &operator{function: f, path: at.Filename(), all: l.all}
	decl := compose.Op[opdef.Arguments]{Schema: schema, Names: names, Random: random,
		Doc:   opdef.Doc{Summary: summary, Formula: formula, Notes: notes, Source: source},
		Error: opdef.Error{Class: opdef.Composed, Coarse: true, ULPs: float64(ulps)}}
	if names == "" {
		decl.Names = name
	}
	if summary == "" {
		decl.Doc.Summary = "Operator of " + filepath.Base(at.Filename())
	}
	if source == "" {
		decl.Doc.Source = at.String()
	}
	ways := map[string]compose.Torch{"fused": compose.Fused, "composed": compose.Unfused}
	way, ok := ways[torch]
	switch {
	case !ok:
		return nil, fmt.Errorf("op %s: torch: want \"fused\" (an operator with a gradient of its own) or \"composed\", "+
			"got %q", name, torch)
	case !(ulps >= 0 && ulps <= maxULPs):
		return nil, fmt.Errorf("op %s: ulps: want a number from 0 to %d, got %v", name, maxULPs, float64(ulps))
	}
	if decl.NoGrad, err = o.withoutGradient(noGrad); err != nil {
		return nil, fmt.Errorf("op %s: no_grad: %w", name, err)
	}
	var e *opdef.Entry
	if o.cases, err = generated(cases); err != nil {
		return nil, fmt.Errorf("op %s: cases: %w", name, err)
	}
	decl.Cases = o.arguments(func() *opdef.Entry { return e })
	if returns := schema[strings.LastIndex(schema, "->")+2:]; strings.Trim(returns, " ()") == "" ||
		strings.TrimSpace(returns) == "None" {
		e = compose.DeclareInPlace(decl, nil, o.compose)
	} else {
		o.results = returned(returns)
		e = compose.Declare(decl, way, o.compose)
	}
	e.Place, e.Replaces = at.String(), replaces
	if _, err := opdef.AtRunTime(e); err != nil {
		return nil, err
	}
	if err := o.fits(e.Schema); err != nil {
		return nil, fmt.Errorf("op %s: %w", name, err)
	}
	f.Freeze()
	l.entries = append(l.entries, e)
	return starlark.None, nil
}

// maxULPs bounds what a file may ask for as tolerance: a hundred is far beyond what any
// sound function of few steps needs.
const maxULPs = 1000

// returned is the number of results of a schema, anyNumber for a list.
func returned(s string) int {
	if strings.Contains(s, "[]") {
		return anyNumber
	}
	return strings.Count(s, "Tensor")
}

const anyNumber = -1

// An operator is what a file says of one.
type operator struct {
	path     string
	function starlark.Callable
	all      library
	constant []string // arguments that need no gradient
	results  int
	cases    []example
}

// withoutGradient stores the names of no_grad, and gives the reason if it is True: the
// operator has no gradient at all.
func (o *operator) withoutGradient(v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.NoneType:
		return "", nil
	case starlark.Bool:
		if v {
			return "it is declared without", nil
		}
		return "", nil
	}
	return "", each(v, "names of arguments", func(item starlark.Value) error {
		s, ok := starlark.AsString(item)
		if !ok {
			return fmt.Errorf("want a name, got %s", item.Type())
		}
		o.constant = append(o.constant, s)
		return nil
	})
}

// fits checks the function and the names of arguments against the schema.
func (o *operator) fits(s *opdef.Schema) error {
	for _, name := range o.constant {
		if !slices.ContainsFunc(s.Params, func(p opdef.Param) bool {
			return p.Name == name && p.Type.Base == "Tensor"
		}) {
			return fmt.Errorf("no_grad: the schema has no Tensor %s", name)
		}
	}
	f, ok := o.function.(*starlark.Function)
	if !ok {
		return errors.New("function: want one that the file defines")
	}
	var want []string
	for _, p := range s.Params {
		want = append(want, p.Name)
	}
	if f.HasVarargs() || f.HasKwargs() {
		return nil
	}
	var have []string
	for i := range f.NumParams() {
		name, _ := f.Param(i)
		have = append(have, name)
	}
	if !slices.Equal(want, have) {
		return fmt.Errorf("the function takes (%s), the schema says (%s)", strings.Join(have, ", "),
			strings.Join(want, ", "))
	}
	return nil
}

// compose calls the function for one call of the operator.
func (o *operator) compose(g *compose.Graph, a *opdef.Arguments) compose.Values {
	th := sandbox.Thread(o.path, limits.Steps)
	c := &composition{g, th}
	th.SetLocal(current, c)
	args := make(starlark.Tuple, len(a.Schema().Params))
	for i, p := range a.Schema().Params {
		args[i] = o.argument(c, p.Name, a.At(i))
	}
	out, err := starlark.Call(th, o.function, args, nil)
	if err != nil {
		g.Refuse("", "%v", position(err))
	}
	var vs compose.Values
	if o.results != 0 {
		switch out := out.(type) {
		case tensorValue:
			vs = append(vs, out.v)
		default:
			var list tensorArgs
			if err := list.Unpack(out); err != nil {
				g.Refuse("", "%s: the function gives %s, want the results: %v", o.path, out.Type(), err)
			}
			vs = compose.Values(list)
		}
	} else if out != starlark.None {
		g.Refuse("", "%s: the function gives %s, and the schema says nothing", o.path, out.Type())
	}
	if len(vs) != o.results && o.results != anyNumber {
		g.Refuse("", "%s: the function gives %d results, the schema says %d", o.path, len(vs), o.results)
	}
	return vs
}
