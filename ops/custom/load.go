package custom

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/optool/optool/internal/sandbox"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = 1 << 20

// limits are those of a file; a call of a function of it takes no more steps either.
var limits = sandbox.Limits{Steps: 2_000_000, Time: 10 * time.Second, Heap: 256 << 20}

// Load reads the operators that files declare; of a folder it reads the files
// named *.star, in order of their names. Errors name file and line.
func Load(paths ...string) ([]*opdef.Entry, error) {
	var out []*opdef.Entry
	for _, p := range paths {
		files, err := Files(p)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			src, err := smallfile.Read(f, MaxSize)
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

// Files are the files of operators that a path names: the file itself, or the files named *.star of a folder.
func Files(path string) ([]string, error) {
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
func Parse(path string, src []byte) ([]*opdef.Entry, error) { return parse(path, src, limits) }

// Embedded is Parse of a file that is part of optool. What its functions refuse is told as
// an operator in Go tells it, without the place in the file.
func Embedded(path string, src []byte) []*opdef.Entry {
	entries, err := parse(path, src, trusted)
	if err != nil {
		panic(err)
	}
	return entries
}

// trusted are the limits of a file that is part of optool: those of a call alone.
var trusted = sandbox.Limits{Steps: 100_000_000}

func parse(path string, src []byte, l sandbox.Limits) ([]*opdef.Entry, error) {
	ld := loader{limits: l}
	predeclared := maps.Clone(composed())
	predeclared["op"] = starlark.NewBuiltin("op", ld.op)
	maps.Copy(predeclared, generators)
	globals, err := execute(path, src, l, predeclared)
	if err != nil {
		return nil, err
	}
	globals.Freeze()
	return ld.entries, nil
}

func execute(path string, src []byte, l sandbox.Limits, predeclared starlark.StringDict) (starlark.StringDict, error) {
	f, err := sandbox.Parse(path, bytes.TrimPrefix(src, []byte("\ufeff")))
	if err != nil {
		return nil, err
	}
	globals, err := l.Exec(path, f, predeclared)
	return globals, position(undefined(err, predeclared))
}

// A loader collects the operators of a file.
type loader struct {
	limits  sandbox.Limits
	entries []*opdef.Entry
}

// op is the function op of a file.
func (l *loader) op(th *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error) {
	var schema, summary, formula, notes, source, names, random string
	var f starlark.Callable
	var noGrad starlark.Value = starlark.None
	var cases *starlark.List
	var exempt *starlark.Dict
	var mistakes *starlark.List
	torch, ulps, replaces, inPlace := "fused", starlark.Float(0), false, false
	err := starlark.UnpackArgs("op", args, kwargs, "schema", &schema, "function", &f, "names?", &names,
		"summary?", &summary, "formula?", &formula, "notes?", &notes, "source?", &source, "torch?", &torch,
		"no_grad?", &noGrad, "random?", &random, "ulps?", asFloat{&ulps}, "cases?", &cases,
		"replaces?", &replaces, "in_place?", &inPlace, "exempt??", &exempt,
		"mistakes?", &mistakes)
	if err != nil {
		return nil, err
	}
	at := th.CallStack()[0].Pos // of the statement, which may call a function that declares
	embedded := l.limits == trusted
	schema = strings.Join(strings.Fields(schema), " ")
	name, _, _ := strings.Cut(schema, "(")
	o := &operator{function: f, path: at.Filename(), limits: l.limits}
	decl := compose.Op[opdef.Arguments]{Schema: schema, Names: names,
		Traits: opdef.Traits{Random: random, InPlace: inPlace},

		Doc:   opdef.Doc{Summary: summary, Formula: formula, Notes: notes, Source: source},
		Error: opdef.Error{Class: opdef.Composed, Coarse: true, ULPs: float64(ulps)}}
	if names == "" {
		decl.Names = name
	}
	if summary == "" {
		decl.Doc.Summary = "Operator of " + filepath.Base(at.Filename())
	}
	if source == "" && !embedded {
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
	if err = o.mistaken(mistakes); err != nil {
		return nil, fmt.Errorf("op %s: mistakes: %w", name, err)
	}
	if decl.Exempt, err = reasons(exempt); err != nil {
		return nil, fmt.Errorf("op %s: exempt: %w", name, err)
	}
	var e *opdef.Entry
	if o.cases, err = generated(cases); err != nil {
		return nil, fmt.Errorf("op %s: cases: %w", name, err)
	}
	decl.Cases = o.arguments(func() *opdef.Entry { return e })
	e = o.declare(decl, way)
	e.Place, e.Replaces = at.String(), replaces
	if _, err := opdef.AtRunTime(e); err != nil {
		return nil, err
	}
	if err := o.allFit(e.Schema); err != nil {
		return nil, fmt.Errorf("op %s: %w", name, err)
	}
	l.entries = append(l.entries, e)
	return starlark.None, nil
}

// declare makes the entry of an operator, by what its schema says that it returns.
func (o *operator) declare(decl compose.Op[opdef.Arguments], way compose.Torch) *opdef.Entry {
	returns := decl.Schema[strings.LastIndex(decl.Schema, "->")+2:]
	switch {
	case strings.Trim(returns, " ()") == "" || strings.TrimSpace(returns) == "None":
		return compose.DeclareInPlace(decl, nil, o.compose)
	case returned(returns) == 0:
		decl.Error, decl.Cases = opdef.Error{}, nil
		return compose.DeclareValue(decl, o.value)
	}
	o.results = returned(returns)
	o.hasGrad = decl.NoGrad == ""
	return compose.Declare(decl, way, o.compose)
}

// allFit checks that the function and those of its mistakes take the arguments of the schema, and freezes them.
func (o *operator) allFit(schema *opdef.Schema) error {
	if err := o.fits(schema); err != nil {
		return err
	}
	for _, w := range o.wrong { // all that a call of the operator has, but for the function
		w.constant, w.hasGrad, w.results = o.constant, o.hasGrad, o.results
		if err := w.fits(schema); err != nil {
			return fmt.Errorf("mistakes: %w", err)
		}
		w.function.Freeze()
	}
	o.function.Freeze()
	return nil
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

// mistaken stores what a file says that kernels get wrong: a list of texts, each with the function that computes it.
func (o *operator) mistaken(list *starlark.List) error {
	if list == nil {
		return nil
	}
	for i := range list.Len() {
		pair, ok := list.Index(i).(starlark.Tuple)
		if !ok || len(pair) != 2 && len(pair) != 3 {
			return fmt.Errorf("item %d: want a text and a function, got %s", i, list.Index(i).Type())
		}
		var in dtypeArg
		if len(pair) == 3 && pair[2] != starlark.None {
			if err := in.Unpack(pair[2]); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		text, isText := starlark.AsString(pair[0])
		f, isFunction := pair[1].(starlark.Callable)
		if !isText || !isFunction {
			return fmt.Errorf("item %d: want a text and a function, got %s and %s", i, pair[0].Type(),
				pair[1].Type())
		}
		o.wrong = append(o.wrong, &operator{path: o.path, limits: o.limits, function: f, text: text, in: in})
	}
	return nil
}

// mistakes are those of a call.
func (o *operator) mistakes(a *opdef.Arguments) (out []opdef.Mistake[any]) {
	for _, w := range o.wrong {
		if w.in.given {
			out = append(out, compose.MistakeIn(w.in.dt, w.text, a, w.compose))
			if half := halfOf(a); w.in.dt == tensor.Float32 && half != tensor.Invalid {
				out = append(out, compose.MistakeIn(half, w.text+", in "+half.String(), a, w.compose))
			}
			continue
		}
		out = append(out, compose.Mistake(w.text, a, w.compose))
	}
	return out
}

// halfOf is the dtype of 16 bits that tensors among the arguments have: kernels that round to float32 may round to it,
// too. Invalid if none has one.
func halfOf(a *opdef.Arguments) tensor.DType {
	for i := range a.Schema().Params {
		if t, ok := a.At(i).(*tensor.Tensor); ok && t != nil && t.DType.IsHalf() {
			return t.DType
		}
	}
	return tensor.Invalid
}

// reasons are those of a dict from names of checks to why these do not hold.
func reasons(d *starlark.Dict) (map[string]string, error) {
	if d == nil {
		return nil, nil
	}
	out := map[string]string{}
	for _, item := range d.Items() {
		check, ok := starlark.AsString(item[0])
		why, isText := starlark.AsString(item[1])
		if !ok || !isText || why == "" {
			return nil, fmt.Errorf("want names of checks with the reason, got %s: %s", item[0], item[1])
		}
		out[check] = why
	}
	return out, nil
}

// An operator is what a file says of one.
type operator struct {
	path     string
	function starlark.Callable
	limits   sandbox.Limits // of a call
	constant []string       // arguments that need no gradient
	hasGrad  bool
	byName   bool // the function takes any arguments, by name
	results  int
	cases    []example
	wrong    []*operator // what kernels compute that make a mistake
	text     string      // of one of these: what is wrong
	in       dtypeArg    // of one of these: the dtype in which each of its steps is kept
}

// withoutGradient stores the names of no_grad, and gives the reason if it is True or one:
// the operator has no gradient at all.
func (o *operator) withoutGradient(v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.NoneType:
		return "", nil
	case starlark.Bool:
		if v {
			return "it is declared without", nil
		}
		return "", nil
	case starlark.String:
		return string(v), nil
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
	if o.byName = f.HasKwargs() && f.NumParams() == 1; o.byName || f.HasVarargs() || f.HasKwargs() {
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

// value is the Python value that the function gives for one call.
func (o *operator) value(g *compose.Graph, a *opdef.Arguments) value.Value {
	out, _ := o.call(g, a)
	v, err := made(out, opdef.Gen{}, tensor.Float32)
	if _, tensor := out.(tensorValue); err != nil || tensor {
		g.Refuse("", "%s: the function gives %s, want a Python value", o.path, out.Type())
	}
	return v
}

// compose calls the function for one call of the operator.
func (o *operator) compose(g *compose.Graph, a *opdef.Arguments) compose.Values {
	out, c := o.call(g, a)
	for _, x := range c.wanted {
		x.v()
	}
	var vs compose.Values
	if o.results != 0 {
		switch out := out.(type) {
		case tensorValue:
			vs = append(vs, out.v())
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
		first := ""
		if o.results == 1 {
			first = "; [0] is the first"
		}
		g.Refuse("", "%s: the function gives %d results, the schema says %d%s", o.path, len(vs), o.results, first)
	}
	return vs
}

// call is what the function gives for one call, and the composition that it made.
func (o *operator) call(g *compose.Graph, a *opdef.Arguments) (starlark.Value, *composition) {
	th := sandbox.Thread(o.path, o.limits.Steps)
	g.Mistaken(func() []opdef.Mistake[any] { return o.mistakes(a) })
	c := &composition{Graph: g, thread: th, names: map[*compose.Value]string{}}
	th.SetLocal(current, c)
	var args starlark.Tuple
	var kwargs []starlark.Tuple
	for i, p := range a.Schema().Params {
		v := o.argument(c, p, a.At(i))
		if o.byName {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(p.Name), v})
		} else {
			args = append(args, v)
		}
	}
	out, err := starlark.Call(th, o.function, args, kwargs)
	if err != nil {
		var told refusal
		var refused *opdef.RefusedError
		if errors.As(err, &told) {
			panic(told.RefusedError)
		} else if o.limits == trusted && errors.As(err, &refused) {
			panic(refused)
		}
		g.Refuse("", "%v", position(err))
	}
	return out, c
}
