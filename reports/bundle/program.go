package bundle

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

//go:embed diopi_runtime.h
var runtimeHeader []byte

// A program is a C program that makes the C calls of a plan.
type program struct {
	files []file // the data that it reads

	declared, body, checks strings.Builder
	checked                int // how many comparisons there are
	tensors                map[*diopi.Tensor]string
	allocs                 map[*diopi.Alloc]string
	outs                   map[*diopi.Out]string
}

// newProgram writes a program for a call; the error says why there is none.
func newProgram(c *replay.DeviceCall, d *due) (*program, error) {
	mc, err := mapping.NewCase(c.Call, c.Forward, c.GradOutputs, c.Need)
	if err != nil && len(c.Need) > 0 {
		c.Need, c.GradOutputs = nil, nil
		mc, err = mapping.NewCase(c.Call, c.Forward, nil, nil)
	}
	if err != nil {
		return nil, err
	}
	plan, err := mc.Recipe.Plan(mc.Case)
	if err != nil {
		return nil, err
	}
	p := &program{tensors: map[*diopi.Tensor]string{}, allocs: map[*diopi.Alloc]string{},
		outs: map[*diopi.Out]string{}}
	if err := p.pass(plan, diopi.Forward); err != nil {
		return nil, err
	}
	results := plan.Outputs
	if plan.InPlace != nil && c.Forward.Written {
		results = []diopi.Arg{plan.InPlace}
	}
	for i, a := range results {
		if i < len(d.outputs) {
			p.check(d.outputs[i].Name, a, d.outputs[i])
		}
	}
	p.compare()
	if len(c.Need) == 0 {
		return p, nil
	}
	if err := p.pass(plan, diopi.Backward); err != nil {
		return nil, err
	}
	for _, g := range plan.Grads {
		keyword, index, _ := strings.Cut(g.Name, "[")
		name := mc.Args[keyword]
		if index != "" {
			name += "[" + index
		}
		for _, v := range d.gradients {
			if v.Name == name || v.Name == name+"[0]" {
				p.check("gradient of "+v.Name, g.Arg, v)
				break
			}
		}
	}
	p.compare()
	return p, nil
}

// pass writes the C calls of one pass.
func (p *program) pass(plan *diopi.Plan, phase diopi.Phase) error {
	for _, call := range plan.Calls {
		if call.Phase != phase {
			continue
		}
		if err := p.call(call); err != nil {
			return fmt.Errorf("%s: %w", call.Function, err)
		}
	}
	return nil
}

// compare writes the comparisons of a pass behind its calls. A library without the backward function shows what its
// forward function computes.
func (p *program) compare() {
	fmt.Fprintf(&p.body, "\n%s", p.checks.String())
	p.checks.Reset()
}

// call writes one C call.
func (p *program) call(c *diopi.Call) error {
	f, ok := diopi.Lookup(c.Function)
	if !ok {
		return fmt.Errorf("no such function")
	}
	var args []string
	for i := range f.Params {
		prm := &f.Params[i]
		if prm.Kind == diopi.KindContext {
			args = append(args, "&vendor.context")
			continue
		}
		a, err := p.arg(prm, c.Args[prm.Name])
		if err != nil {
			return fmt.Errorf("argument %s: %w", prm.Name, err)
		}
		args = append(args, a)
	}
	fmt.Fprintf(&p.body, "  {\n    __typeof__(%[1]s)* function;\n    *(void**)&function = find(\"%[1]s\");\n"+
		"    if (!function) return lacks(\"%[1]s\", ok);\n    called(\"%[1]s\", function(%[2]s));\n  }\n",
		c.Function, strings.Join(args, ", "))
	return nil
}

// arg is the C expression of an argument.
func (p *program) arg(prm *diopi.Param, a diopi.Arg) (string, error) {
	how, ok := prm.Kind.Passing()
	if !ok {
		return "", fmt.Errorf("a parameter of kind %s cannot be written in C", prm.Kind)
	}
	switch a := a.(type) {
	case nil:
		return "NULL", nil
	case *diopi.Tensor:
		return p.tensor(a)
	case *diopi.Alloc:
		if p.allocs[a] == "" {
			p.allocs[a] = fmt.Sprintf("made%d", len(p.allocs))
			fmt.Fprintf(&p.declared, "  diopiTensorHandle_t %s = NULL;  // %s\n", p.allocs[a], comment(a.Role))
		}
		if how.Form == diopi.FormAllocAddress {
			return "&" + p.allocs[a], nil
		}
		return p.allocs[a], nil
	case diopi.Tensors:
		return p.array(prm, a)
	case *diopi.Out:
		return p.out(prm, a)
	case *diopi.Generator, diopi.Generators:
		return "", fmt.Errorf("random numbers of a generator cannot be repeated in C")
	}
	if text := plain(how.Form, a); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("an argument of type %T cannot be written in C", a)
}

// array is the C expression of an array of tensors.
func (p *program) array(prm *diopi.Param, ts diopi.Tensors) (string, error) {
	ctype, names := "diopiTensorHandle_t", make([]string, len(ts))
	if prm.Kind == diopi.KindArrayIn {
		ctype = "diopiConstTensorHandle_t"
	}
	for i, t := range ts {
		if names[i] = "NULL"; t != nil {
			var err error
			if names[i], err = p.tensor(t); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("(%s[]){%s}", ctype, strings.Join(names, ", ")), nil
}

// plain is the C expression of an argument without tensors in the form in which it is passed; "" for others.
func plain(form diopi.Form, a diopi.Arg) string {
	pointer := func(is bool, ctype, text string) string {
		if is {
			return "&(" + ctype + "){" + text + "}"
		}
		return text
	}
	switch a := a.(type) {
	case diopi.Scalar:
		if a.UsesInt() {
			return fmt.Sprintf("&(diopiScalar_t){.stype = %s, .ival = %s}", dtypeName(a.DType), integer(a.Int))
		}
		return fmt.Sprintf("&(diopiScalar_t){.stype = %s, .fval = %s}", dtypeName(a.DType), float(a.Float))
	case diopi.Size:
		size := fmt.Sprintf("(diopiSize_t){%s, %d}", integers(a), len(a))
		if form == diopi.FormSizePointer {
			size = "&" + size
		}
		return size
	case diopi.Integer:
		return pointer(form == diopi.FormIntegerPointer, "int64_t", integer(int64(a)))
	case diopi.Real:
		return pointer(form == diopi.FormRealPointer, "double", float(float64(a)))
	case diopi.Bool:
		return pointer(form == diopi.FormBoolPointer, "bool", strconv.FormatBool(bool(a)))
	case diopi.Enum:
		return string(a)
	case diopi.Text:
		return quoted(string(a))
	}
	return ""
}

// out is where a callee stores a plain result.
func (p *program) out(prm *diopi.Param, o *diopi.Out) (string, error) {
	ctype := map[diopi.Kind]string{diopi.KindBoolOut: "bool", diopi.KindInt64Out: "int64_t",
		diopi.KindInt64InOut: "int64_t", diopi.KindDoubleOut: "double"}[prm.Kind]
	if ctype == "" {
		return "", fmt.Errorf("a result of kind %s cannot be written in C", prm.Kind)
	}
	if p.outs[o] == "" {
		p.outs[o] = fmt.Sprintf("plain%d", len(p.outs))
		value := "0"
		switch v := o.Value.(type) {
		case bool:
			value = strconv.FormatBool(v)
		case int64:
			value = integer(v)
		case float64:
			value = float(v)
		}
		fmt.Fprintf(&p.declared, "  %s %s = %s;  // %s\n", ctype, p.outs[o], value, comment(o.Role))
		fmt.Fprintf(&p.checks, "  printf(\"%%s: %%.17g\\n\", %s, (double)%s);\n", quoted(o.Role), p.outs[o])
	}
	return "&" + p.outs[o], nil
}

// tensor is the name of a tensor, declared where it is new.
func (p *program) tensor(t *diopi.Tensor) (string, error) {
	if t.CSR != nil {
		return "", fmt.Errorf("sparse tensors cannot be written in C")
	}
	if name := p.tensors[t]; name != "" {
		return name, nil
	}
	name := fmt.Sprintf("t%d", len(p.tensors))
	p.tensors[t] = name
	stride, where := "NULL", "diopi_device"
	if t.Stride != nil {
		stride = integers(t.Stride)
	}
	if t.Host {
		where = "diopi_host"
	}
	fmt.Fprintf(&p.declared, "  diopiTensorHandle_t %s = new_tensor(%s, %s, %d, %s, %s, %s);\n", name, quoted(t.Role),
		dtypeName(t.DType), len(t.Shape), integers(t.Shape), stride, where)
	if t.Value != nil {
		path := "data/" + name + ".bin"
		p.files = append(p.files, file{path, t.Value.AppendBytes(nil)})
		fmt.Fprintf(&p.declared, "  load(%s, \"%s\");\n", name, path)
	}
	return name, nil
}

// check writes the comparison of a result.
func (p *program) check(what string, a diopi.Arg, v replay.Due) {
	name := ""
	switch a := a.(type) {
	case *diopi.Tensor:
		name = p.tensors[a]
	case *diopi.Alloc:
		name = p.allocs[a]
	}
	if name == "" || v.Want == nil || v.Allowed == nil {
		return
	}
	want, allowed := fmt.Sprintf("data/expected%d.bin", p.checked), fmt.Sprintf("data/allowed%d.bin", p.checked)
	p.checked++
	p.files = append(p.files, file{want, wide(v.Want).AppendBytes(nil)}, file{allowed, v.Allowed.AppendBytes(nil)})
	fmt.Fprintf(&p.checks, "  ok = check(%s, %s, \"%s\", \"%s\", %d) && ok;\n", quoted(what), name, want, allowed,
		v.Want.Numel())
	if t := v.Together; t != nil {
		near := strings.Replace(want, "expected", "nearest", 1)
		p.files = append(p.files, file{near, wide(v.Want.Rounded()).AppendBytes(nil)})
		n := v.Want.Numel()
		fmt.Fprintf(&p.checks, "  ok = together(%s, %s, (const double*)read_file(\"%s\", %d),\n"+
			"                (const double*)read_file(\"%s\", %d), %d, %g, %g) && ok;\n", quoted(what), name, want, 8*n,
			near, 8*n, n, t.Factor, t.Offset)
	}
}

// wide is a tensor in float64, or complex128.
func wide(t *tensor.Tensor) *tensor.Tensor {
	to := tensor.Float64
	if t.DType.IsComplex() {
		to = tensor.Complex128
	}
	return opdef.Cast(t, to)
}

// source is the text of the program.
func (p *program) source(op string) string {
	return fmt.Sprintf(`// One call of %s: the C calls that it is, on the tensors of data/.
//
//	cc -std=gnu11 -O1 -rdynamic -o repeat repeat.c -ldl -lm
//	./repeat ./libdiopi_impl.so
//
// Exit code 0: as expected, 1: not, 3: it could not be run.
#include "diopi_runtime.h"

int main(int argc, char** argv) {
  if (argc != 2) fail("usage", "./repeat LIBRARY");
  open_library(argv[1]);
  int ok = 1;
%s
%s  return ok ? 0 : 1;
}
`, comment(op), p.declared.String(), p.body.String())
}

func dtypeName(dt tensor.DType) string { return "diopi_dtype_" + dt.String() }

// comment keeps text on one line of C.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '\\' {
			return '?'
		}
		return r
	}, s)
}

// quoted is a C string literal.
func quoted(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

func integer(v int64) string {
	if v == math.MinInt64 {
		return "INT64_MIN"
	}
	return fmt.Sprintf("INT64_C(%d)", v)
}

// integers is an array of int64_t, which has at least one item.
func integers[T int | int64](vs []T) string {
	if len(vs) == 0 {
		return "(int64_t[]){0}"
	}
	texts := make([]string, len(vs))
	for i, v := range vs {
		texts[i] = strconv.FormatInt(int64(v), 10)
	}
	return "(int64_t[]){" + strings.Join(texts, ", ") + "}"
}

func float(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NAN"
	case math.IsInf(v, 0):
		return map[bool]string{true: "INFINITY", false: "-INFINITY"}[v > 0]
	}
	return strconv.FormatFloat(v, 'x', -1, 64)
}

// sortedFiles is for tests and the zip: files in order of their names.
func sortedFiles(files []file) []file {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}
