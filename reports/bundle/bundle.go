package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports/charts"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

//go:embed repeat.py
var script []byte

// A Report is what the caller knows about the call.
type Report struct {
	Values   []Value  // as they were compared
	Versions []string // lines: of optool, of the device
	Settings []string // lines: variables and flags that decide verdicts
	Again    string   // the command that judges the call, from the directory of its files
	// Imports are the Python modules that bring the operator, as far as they are known.
	Imports []string
	// Function is the program's that was recorded in the place of torch's, as "module:function"; "" for torch's own.
	// Replaced says so, in a sentence, if torch's own is not what is repeated.
	Function, Replaced string
	// Reduction is what reduce said of the call, if that was cut from a recorded one; "" if not.
	Reduction string
	// Directories are known ones of this machine. README.md names no directory that it recognises as one, nor these.
	Directories []string
	// Operators are the user's files that say what operators compute. Again names them.
	Operators []Operators
	// Outcome is what comparing the call found, nil if it was not compared.
	Outcome *replay.Outcome
}

// A Value is what the comparison of one value found.
type Value struct {
	Target string
	// Wrong: Text is the whole judgement, and Errors say how large the errors are. Otherwise Text is one line.
	Wrong        bool
	Text, Errors string
	Profile      *compare.Profile // of which a picture is drawn; nil for none
	// Unseen: no element of a wrong value is wrong by itself, nor what all have in common: the programs do not show it.
	Unseen bool
}

// Operators are a file of the user's that declares operators.
type Operators struct {
	Name string // in the folder of the zip
	Text []byte
}

// A file is one of the zip.
type file struct {
	name string
	data []byte
}

// Write writes the zip of a call that was opened; it need not have been compared.
func Write(w io.Writer, c *replay.Call, r Report) error {
	var files []file
	err := replay.Guard(func() (err error) {
		files, err = parts(c, r)
		return err
	})
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, f := range sortedFiles(files) {
		// Without a time the same call gives the same bytes.
		h := &zip.FileHeader{Name: path.Join(folder(c), f.name), Method: zip.Deflate}
		if strings.HasSuffix(f.name, ".pth") { // a zip itself, of numbers
			h.Method = zip.Store
		}
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// folder is the one directory at the root of the zip, named by the operator: "gelu".
func folder(c *replay.Call) string {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	name = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, name)
	if len(name) > 60 {
		name = name[:60]
	}
	return cmp.Or(name, "call")
}

// parts are the files of a call.
func parts(c *replay.Call, r Report) ([]file, error) {
	files := []file{{"repeat.py", script}}
	for _, o := range r.Operators {
		files = append(files, file{o.Name, o.Text})
	}
	add := func(name string, v value.Value) error {
		var b bytes.Buffer
		root := strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".pth")
		if err := pthformat.Write(&b, root, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, file{name, b.Bytes()})
		return nil
	}
	for _, k := range capture.Kinds() {
		if rec := c.Record.Record(k); rec != nil {
			rec.Identifier = untimed(rec)
			if err := add("call/"+k.String()+".pth", rec.Value()); err != nil {
				return nil, err
			}
		}
	}
	why, due := "", &due{}
	as := c.AsRead()
	if err := as.Start(); err != nil {
		why = err.Error()
	} else if due, err = expected(as, r.Outcome, add); err != nil {
		return nil, err
	} else {
		files = append(files, file{"expected/names.json", due.names(r)})
		if due.random != "" {
			why = "it " + due.random
		}
	}
	if why == "" {
		p, err := newProgram(as.DeviceCall(true), due)
		if err != nil {
			why = err.Error()
		} else {
			files = append(files, p.files...)
			files = append(files, file{"repeat.c", []byte(p.source(c.Op))},
				file{"diopi_runtime.h", runtimeHeader}, file{"diopi.h", devicebridge.Header()})
		}
	}
	for _, v := range r.Values {
		if v.Wrong && v.Profile != nil {
			files = append(files, file{pictureName(v.Target), charts.File(charts.ErrorMap(v.Profile.Map, "ulp"))})
		}
	}
	files = append(files, file{"README.md", []byte(readme(c, r, due, why))})
	return files, nil
}

// untimed is op_tools' "<id>/<time>/<file>" with 0 for the time, and any other identifier as it is. The number of
// parts remains: it tells layouts apart.
func untimed(r *capture.Record) string {
	parts := strings.Split(r.Identifier, "/")
	if !r.ByOpTools() || len(parts) < 3 {
		return r.Identifier
	}
	return parts[0] + "/0/" + parts[len(parts)-1]
}

// A due is what a call should give.
type due struct {
	outputs, arguments, gradients, recorded []replay.Due
	// random says that the call draws random numbers, so that it cannot be repeated; "" if it does not. Then nothing is
	// due, or, if without is not nil, what the call gives with that argument, so that it draws none.
	random   string
	without  *replay.Setting
	autocast replay.Autocast
}

// expected adds what the call should give, as far as the reference computes it.
func expected(c *replay.Call, o *replay.Outcome, add func(string, value.Value) error) (*due, error) {
	d := &due{random: c.Bound().Random(), autocast: c.Autocast()}
	if d.random != "" {
		undrawn, setting := c.Undrawn()
		if undrawn == nil {
			return d, nil
		}
		c, o, d.without = undrawn, nil, &setting
	}
	d.outputs, d.arguments = c.DueOutputs(o), c.DueArguments(o)
	d.gradients, _ = c.DueGradients(o) // the verdict says why there are none
	if o != nil {
		d.recorded = c.DueRecordedGradients(o)
	}
	for _, part := range []struct {
		name string
		of   []replay.Due
	}{{"output", d.outputs}, {"arguments", d.arguments}, {"gradients", d.gradients},
		{"recorded_gradients", d.recorded}} {
		if part.of == nil {
			continue
		}
		var wide, rounded, allowed []value.Value
		for _, v := range part.of {
			if v.Want == nil {
				wide, rounded, allowed = append(wide, nil), append(rounded, nil), append(allowed, nil)
				continue
			}
			wide, rounded = append(wide, unrounded(v.Want)), append(rounded, v.Want.Rounded())
			if v.Allowed == nil {
				allowed = append(allowed, nil)
			} else {
				allowed = append(allowed, v.Allowed)
			}
		}
		for name, vs := range map[string][]value.Value{part.name + "_float64": wide, part.name: rounded,
			"allowed_" + part.name: allowed} {
			if err := add("expected/"+name+".pth", value.NewList(vs...)); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// repeats says what repeat.py does of a call that draws random numbers; "" if it draws none.
func (d *due) repeats() string {
	switch {
	case d.random == "":
		return ""
	case d.without == nil:
		return "repeat.py cannot repeat the call: it " + d.random + ", and another run draws others. optool judges the " +
			"recorded values.\n\n"
	}
	return fmt.Sprintf("The call %s. repeat.py runs it with %s, so that it draws none, and compares it with what that "+
		"gives. optool judges the recorded values, which have %[3]s=%[4]v.\n\n", d.random, d.without, d.without.Name,
		d.without.Recorded)
}

// names are the names of values in the lists, for repeat.py, and the recorded function.
func (d *due) names(r Report) []byte {
	of := func(due []replay.Due) []string {
		names := []string{}
		for _, v := range due {
			names = append(names, v.Name)
		}
		return names
	}
	together := func(due []replay.Due) []*[2]float64 {
		limits := []*[2]float64{}
		for _, v := range due {
			if t := v.Together; t != nil {
				limits = append(limits, &[2]float64{t.Factor, t.Offset})
			} else {
				limits = append(limits, nil)
			}
		}
		return limits
	}
	worst := func(due []replay.Due) [][]int {
		at := [][]int{}
		for _, v := range due {
			at = append(at, v.Worst)
		}
		return at
	}
	names := map[string]any{"arguments": of(d.arguments), "gradients": of(d.gradients),
		"recorded_gradients": of(d.recorded), "together": map[string][]*[2]float64{"output": together(d.outputs),
			"arguments": together(d.arguments), "gradients": together(d.gradients),
			"recorded_gradients": together(d.recorded)},
		"worst": map[string][][]int{"output": worst(d.outputs), "arguments": worst(d.arguments),
			"gradients": worst(d.gradients), "recorded_gradients": worst(d.recorded)}}
	d.nameAutocast(names)
	if d.random != "" {
		names["random"], names["without"] = d.random, d.without
	}
	if r.Replaced != "" {
		names["replaced"], names["function"] = withoutDirectories(r.Replaced, r.Directories), r.Function
	}
	b, err := json.Marshal(names)
	return append(opdef.Must(b, err), '\n')
}

// nameAutocast adds what torch.autocast did to the arguments.
func (d *due) nameAutocast(names map[string]any) {
	name := func(dt tensor.DType) any {
		if dt == tensor.Invalid {
			return nil
		}
		return dt.String()
	}
	if d.autocast.Casts != nil {
		casts := []any{}
		for _, dt := range d.autocast.Casts {
			casts = append(casts, name(dt))
		}
		names["casts"] = casts
	}
	if d.autocast.Inside != tensor.Invalid {
		names["autocast"] = name(d.autocast.Inside)
	}
	if d.autocast.Recorded != tensor.Invalid {
		names["recorded_autocast"] = name(d.autocast.Recorded)
	}
}

// autocastText says what repeat.py does of what torch.autocast did; "" if that is nothing.
func (d *due) autocastText() string {
	switch {
	case d.autocast.Inside != tensor.Invalid:
		return fmt.Sprintf("repeat.py makes the call under torch.autocast in %s, as the verdict reads it.\n\n",
			d.autocast.Inside)
	case d.autocast.Casts != nil:
		return fmt.Sprintf("repeat.py casts arguments to %s, as torch.autocast does and the verdict reads the call."+
			"\n\n", slices.Max(d.autocast.Casts)) // there is one dtype, and Invalid
	}
	return ""
}

// unrounded is a floating result in the dtype it was computed in.
func unrounded(t *tensor.Tensor) *tensor.Tensor {
	switch {
	case t.DType.IsFloat():
		return opdef.Cast(t, tensor.Float64).Rounded()
	case t.DType.IsComplex():
		return opdef.Cast(t, tensor.Complex128).Rounded()
	}
	return t.Rounded()
}

// readme is README.md; why says why there is no C program, "" if there is one. What is wrong comes first.
func readme(c *replay.Call, r Report, d *due, why string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", c.Op)
	judged(&b, r.Values)
	arguments(&b, c)
	if r.Reduction != "" {
		b.WriteString("## How it was reduced\n\n" + fenced(r.Reduction))
	}
	fmt.Fprintf(&b, "## Repeat it\n\n```\npython repeat.py --device cpu%s\n", bringing(c.Op, r))
	if why == "" {
		b.WriteString("cc -std=gnu11 -O1 -rdynamic -o repeat repeat.c -ldl -lm && ./repeat ./libdiopi_impl.so\n")
	}
	fmt.Fprintf(&b, "%s\n```\n\n", r.Again)
	if Unnamed(c.Op) && len(r.Imports) == 0 {
		fmt.Fprintf(&b, "MODULE is the Python module that brings %s; it must be on PYTHONPATH or here.\n\n", c.Op)
	}
	if r.Replaced != "" {
		fmt.Fprintf(&b, "%s. ", strings.ReplaceAll(r.Replaced, "<", `\<`))
		switch module, _, _ := strings.Cut(r.Function, ":"); {
		case module != "":
			fmt.Fprintf(&b, "`--function` runs it. Its module, %s, must be on PYTHONPATH or here. ", module)
		case strings.Contains(r.Replaced, "<locals>"):
			b.WriteString("It is defined inside a function, where no `--function` reaches it. ")
		}
		b.WriteString("Without `--function`, and in C, other functions run: that they are right says nothing of the " +
			"recorded one.\n\n")
	}
	b.WriteString(d.autocastText())
	b.WriteString(d.repeats())
	if why != "" {
		fmt.Fprintf(&b, "There is no C program: %s.\n\n", why)
	}
	errorsOf(&b, r.Values)
	listFiles(&b, c.AsRead(), r, why == "")
	if d.without != nil {
		fmt.Fprintf(&b, "\nThe files of expected/ are of the call with %s.\n", d.without)
	}
	b.WriteString("\n## Versions and settings\n\n")
	for _, line := range slices.Concat(r.Versions, r.Settings) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return withoutDirectories(b.String(), r.Directories)
}

// fenced is text that Markdown shows as it is.
func fenced(text string) string {
	return "```\n" + strings.ReplaceAll(strings.TrimSpace(text), "```", "'''") + "\n```\n\n"
}

// judged writes the verdicts: those of wrong values in full, then a line for each of the others.
func judged(b *strings.Builder, values []Value) {
	for _, v := range values {
		if v.Wrong {
			b.WriteString(fenced(v.Text))
		}
		if v.Wrong && v.Unseen {
			fmt.Fprintf(b, "No element of %s is further off than it may be by itself. The programs below compare elements "+
				"and what all of them share: they do not show what is wrong.\n\n", v.Target)
		}
	}
	rest := 0
	for _, v := range values {
		if !v.Wrong {
			fmt.Fprintf(b, "- %s\n", strings.ReplaceAll(v.Text, "*", `\*`))
			rest++
		}
	}
	if rest > 0 {
		b.WriteString("\n")
	}
}

// errorsOf writes how large the errors of wrong values are, and where they lie.
func errorsOf(b *strings.Builder, values []Value) {
	for _, v := range values {
		if !v.Wrong || v.Errors == "" && v.Profile == nil {
			continue
		}
		fmt.Fprintf(b, "## Errors of %s\n\n", v.Target)
		if v.Errors != "" {
			b.WriteString(fenced(v.Errors))
		}
		if v.Profile != nil {
			fmt.Fprintf(b, "The last two dimensions:\n\n![errors of %s](%s)\n\n", v.Target, pictureName(v.Target))
		}
	}
}

// arguments writes a table of the arguments.
func arguments(b *strings.Builder, c *replay.Call) {
	if c.Err() != nil {
		return
	}
	b.WriteString("| argument | dtype and shape | strides | requires a gradient |\n|---|---|---|---|\n")
	for _, a := range c.Bound().Tensors() {
		fmt.Fprintf(b, "| %s | %s | %v | %t |\n", a, a.Tensor.Meta(), a.Tensor.Stride, a.Tensor.RequiresGrad)
	}
	for _, a := range c.Bound().Arguments() {
		switch v := a.Python(); v.(type) {
		case nil, *tensor.Tensor:
		default:
			if s, ok := v.(*value.Sequence); !ok || len(value.Tensors(s)) == 0 {
				fmt.Fprintf(b, "| %s | `%s` | | |\n", a.Name, strings.ReplaceAll(value.Repr(v), "|", "\\|"))
			}
		}
	}
	b.WriteString("\n")
}

// listFiles writes a table of the files; program says that there is one in C.
func listFiles(b *strings.Builder, c *replay.Call, r Report, program bool) {
	b.WriteString(`## Files

| | |
|---|---|
| call/*.pth | what was recorded, in the form of op_tools |
| expected/*_float64.pth | results and gradients of the reference, not rounded, as a list of tensors |
| expected/output.pth, gradients.pth | the same, rounded once to the dtype of each |
`)
	b.WriteString("| expected/allowed_*.pth | how far each element may be off: the bounds of the verdict |\n")
	if len(c.Changed()) > 0 {
		b.WriteString("| expected/arguments*.pth | the tensors among the arguments after the call, None for one that it does " +
			"not change |\n")
	}
	for _, o := range r.Operators {
		fmt.Fprintf(b, "| %s | says what operators compute, for optool's --ops |\n", o.Name)
	}
	b.WriteString("| repeat.py | the call in PyTorch 1.13 or newer, on any device |\n")
	if program {
		b.WriteString("| repeat.c, diopi_runtime.h, diopi.h, data/ | the C calls of DIOPI that it is, and their tensors " +
			"in row-major order; expected values, and how far they may be off, as float64 |\n")
	}
}

// Paths of the sender's machine: those between quotes may have spaces.
var (
	quotedPath = lazyregexp.New("([\"'])~?/(?:[^\"'/\n]+/)+([^\"'/\n]+[\"'])")
	barePath   = lazyregexp.New("(^|[\\s\"'`=(\\[,:;])~?/(?:[^\\s\"'`()\\[\\],:;/]+/)+")
)

// withoutDirectories is text in which paths are the names of their files. Known directories may have any name.
func withoutDirectories(text string, known []string) string {
	known = slices.Clone(known)
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	for _, dir := range known {
		if dir = strings.TrimRight(dir, "/"); dir != "" {
			text = strings.ReplaceAll(text, dir+"/", "")
		}
	}
	return barePath().ReplaceAllString(quotedPath().ReplaceAllString(text, "$1$2"), "$1")
}

// Unnamed reports whether the name of an operator does not say which Python module brings it.
func Unnamed(op string) bool {
	return strings.HasPrefix(op, "__main__.") || strings.HasPrefix(op, "torch.ops.") && !strings.HasPrefix(op, "torch.ops.aten.")
}

// bringing are the flags of repeat.py for the function, and the modules that bring an operator.
func bringing(op string, r Report) (flags string) {
	modules := r.Imports
	if r.Replaced != "" && r.Function != "" {
		flags = " --function " + r.Function
	} else if Unnamed(op) && len(modules) == 0 {
		modules = []string{"MODULE"}
	}
	for _, m := range modules {
		flags += " --import " + m
	}
	return flags
}

func pictureName(target string) string {
	return "errors_" + strings.NewReplacer("[", "", "]", "").Replace(target) + ".svg"
}
