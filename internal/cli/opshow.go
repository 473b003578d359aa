package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/vendors"
)

// operatorsNamed are the operators that answer to a name, written in full or as declarations
// write it, or whose schema has it.
func operatorsNamed(reg *opdef.Registry, name string) []*opdef.Entry {
	if es := reg.Lookup(opdef.FullName(name)); len(es) > 0 {
		return es
	}
	var out []*opdef.Entry
	for _, e := range reg.Entries() {
		if base, _, _ := strings.Cut(e.Op(), "."); e.Op() == name || base == name {
			out = append(out, e)
		}
	}
	return out
}

// unknownOperator names operators that the name may mean.
func unknownOperator(reg *opdef.Registry, name string) error {
	similar, text := similarOperators(reg, name), fmt.Sprintf("no operator answers to %s", name)
	if len(similar) == 0 {
		last := name[strings.LastIndexByte(name, '.')+1:]
		return usageError("%s; list all with \"optool ops\"%s", text, conformance.Nearest(last, schemaNames(reg)))
	}
	return usageError("%s; there is %s", text, strings.Join(similar[:min(5, len(similar))], ", "))
}

// schemaNames are the names of all operators in their schemas.
func schemaNames(reg *opdef.Registry) []string {
	var names []string
	for _, e := range reg.Entries() {
		base, _, _ := strings.Cut(e.Op(), ".")
		names = append(names, base)
	}
	return names
}

// similarOperators are the names of operators whose last part contains that of name. Case and underscores do not count:
// layer_norm for layernorm, _fused_adamw_ for adamw. torch's names come first, and the shorter ones among them.
func similarOperators(reg *opdef.Registry, name string) []string {
	letters := func(name string) string {
		last := name[strings.LastIndexByte(name, '.')+1:]
		return strings.ToLower(strings.ReplaceAll(last, "_", ""))
	}
	want := letters(name)
	if len(want) < 3 { // which many names have in them
		return reg.Similar(name)
	}
	var similar []string
	for _, e := range reg.Entries() {
		i := slices.IndexFunc(e.Names, func(n string) bool { return strings.Contains(letters(n), want) })
		if i >= 0 {
			similar = append(similar, e.Names[i])
		}
	}
	foreign := func(name string) int {
		if strings.HasPrefix(name, "torch.") {
			return 0
		}
		return 1
	}
	slices.SortFunc(similar, func(a, b string) int {
		return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(len(letters(a)), len(letters(b))),
			cmp.Compare(a, b))
	})
	return slices.Compact(similar)
}

// writeOperators shows operators whole.
func writeOperators(w io.Writer, width int, entries []*opdef.Entry) error {
	if width <= 0 { // piped
		width = 100
	}
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", e.Op())
		for _, line := range operatorLines(e) {
			if line[1] == "" {
				continue
			}
			const indent = 13
			for k, part := range strings.Split(text.WrapSoft(line[1], max(20, width-indent)), "\n") {
				label := line[0]
				if k > 0 {
					label = ""
				}
				fmt.Fprintf(&b, "  %-*s%s\n", indent-2, label, strings.TrimRight(part, " "))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// operatorLines are label and text of all that is known of an operator.
func operatorLines(e *opdef.Entry) [][2]string {
	devices := strings.Join(deviceFunctions(e), ", ")
	if devices == "" {
		devices = "no function of DIOPI"
	}
	return [][2]string{
		{"schema", e.Schema.String()},
		{"names", strings.Join(e.Names, " ")},
		{"computes", e.Doc.Summary},
		{"formula", e.Doc.Formula},
		{"notes", e.Doc.Notes},
		{"dtypes", strings.Join(e.DTypes(), " ")},
		{"error", errorText(e)},
		{"gradients", gradientsText(e)},
		{"autocast", [...]string{
			opdef.AutocastNone: "", opdef.AutocastLower: "runs in its 16-bit dtype",
			opdef.AutocastFloat32: "runs in float32", opdef.AutocastWidest: "runs in the widest dtype",
			opdef.AutocastInner:   "runs its products in the 16-bit dtype on the CPU",
			opdef.AutocastProduct: "runs in the widest dtype, on the CPU in products of its 16-bit dtype"}[e.Autocast]},
		{"devices", devices},
		{"source", e.Doc.Source},
	}
}

func errorText(e *opdef.Entry) string {
	if e.Random != "" {
		return e.Random + ": values are not compared with a reference"
	}
	return scaled(e.Error)
}

// scaled is a bound and what its S is.
func scaled(e opdef.Error) string {
	s := e.String()
	if strings.HasSuffix(s, "S") {
		s += ", S the sum of the magnitudes of the n terms of an element, c(n) = 4 + 4 sqrt(n), u the roundoff of " +
			"the sum (docs/verdicts.md)"
	}
	return s
}

func gradientsText(e *opdef.Entry) string {
	if !e.HasGrad {
		return gradientText(e)
	}
	s := e.Error.OfGradients().String() + ". "
	switch {
	case e.Inner:
		return s + "op_tools records what the last node of torch's composition received, which is computed too"
	case e.Composite:
		return s + "op_tools records what the last node of torch's composition received, which is not compared"
	}
	return s + "op_tools records one for each argument that asks for it"
}

// writeSources prints the definitions of operators that files declare.
func (a *app) writeSources(name string, entries []*opdef.Entry) error {
	var shown []string
	for _, e := range entries {
		path, line, err := placeOf(e.Place)
		if err != nil {
			return usageError("--source: %s (%s) is declared in Go, in the folder ops of optool's sources", name,
				e.Schema)
		}
		src, ok := vendors.Source(path)
		if !ok {
			if src, err = smallfile.Read(path, custom.MaxSize); err != nil {
				return failed(err)
			}
		}
		text, err := custom.Excerpt(path, src, line)
		if err != nil {
			return failed(err)
		}
		if slices.Contains(shown, text) { // one statement declares both
			continue
		}
		shown = append(shown, text)
		if len(shown) > 1 {
			text = "\n" + text
		}
		if _, err := fmt.Fprintf(a.Out, "# %s:%d\n\n%s", path, line, text); err != nil {
			return failed(err)
		}
	}
	return nil
}

// placeOf is the file and the line of a place: "mylib.star:3:1".
func placeOf(place string) (path string, line int, err error) {
	at, _, ok := cutLast(place)
	path, number, also := cutLast(at)
	if !ok || !also {
		return "", 0, fmt.Errorf("no place in a file: %q", place)
	}
	line, err = strconv.Atoi(number)
	return path, line, err
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// checkOperators runs the checks that hold for every operator on those of a file.
func (a *app) checkOperators(path string) error {
	entries, err := custom.Load(path)
	if err != nil {
		return failed(err)
	}
	reg := a.known()
	if !slices.ContainsFunc(a.own, func(o ownOperators) bool { return o.path == path }) {
		if reg, err = reg.With(entries); err != nil {
			return failed(err)
		}
	}
	if len(entries) == 0 {
		return failed(fmt.Errorf("%s: declares no operator", path))
	}
	suite := &opcheck.Suite{Registry: reg, Seed: 1}
	findings := 0
	for _, e := range entries {
		found := suite.Entry(e)
		findings += len(found)
		for _, f := range found {
			if _, err := fmt.Fprintln(a.Out, f); err != nil {
				return failed(err)
			}
		}
		if len(found) == 0 {
			if _, err := fmt.Fprintf(a.Out, "op %s: passes %d checks\n", e.Op(), len(opcheck.Checks())); err != nil {
				return failed(err)
			}
		}
	}
	if findings > 0 {
		return exitWith(1)
	}
	return nil
}
