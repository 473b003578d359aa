package bundle_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports/bundle"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func report() bundle.Report {
	return bundle.Report{Versions: []string{"optool 1.2.3"}, Settings: []string{"A=b"}, Again: "optool replay call",
		Values: []bundle.Value{{Target: "output[0]", Text: "output[0]: pass"},
			{Target: "grad[0]", Wrong: true, Unseen: true, Text: "torch.softmax: fail\n```\n",
				Errors: "worst elements"}}}
}

// each calls f with one call of each operator of a tree of the fixtures.
func each(t *testing.T, tree string, f func(e *capture.Entry, c *replay.Call)) {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for e, err := range capture.Scan(t.Context(), []string{"../../fixtures/captures/" + tree}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.Op] {
			continue
		}
		seen[e.Op] = true
		c := replay.Open(e, replay.Options{Registry: ops.Default(), Tolerances: tol})
		f(e, c)
		c.Close()
	}
	if len(seen) == 0 {
		t.Fatalf("nothing in %s", tree)
	}
}

func written(t *testing.T, c *replay.Call, r bundle.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := bundle.Write(&b, c, r); err != nil {
		t.Fatalf("%s: %v", c.Op, err)
	}
	return b.Bytes()
}

// unpack writes the files of a zip to a directory, those of its one folder.
func unpack(t *testing.T, b []byte, dir string) map[string]bool {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range z.File {
		_, name, ok := strings.Cut(f.Name, "/")
		if !ok || name == "" {
			t.Fatalf("%s is not in a folder", f.Name)
		}
		names[name] = true
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestWrite(t *testing.T) {
	each(t, "autocompare", func(e *capture.Entry, c *replay.Call) {
		if c.Op != "torch.softmax" {
			return
		}
		c.Compare()
		r := report()
		got, want, ok := c.Pair(&replay.Result{Phase: replay.Forward, Target: "output[0]"})
		if !ok {
			t.Fatal("softmax has no result")
		}
		p, err := compare.NewProfile(got, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Values[1].Profile = p
		b := written(t, c, r)
		if !bytes.Equal(b, written(t, c, r)) {
			t.Error("the same call gives other bytes the second time")
		}
		dir := t.TempDir()
		names := unpack(t, b, dir)
		for _, name := range []string{"README.md", "repeat.py", "repeat.c", "diopi.h", "diopi_runtime.h", "errors_grad0.svg",
			"call/input.pth", "call/output.pth", "call/grad_inputs.pth", "call/grad_outputs.pth",
			"expected/output.pth", "expected/gradients.pth", "expected/gradients_float64.pth"} {
			if !names[name] {
				t.Errorf("%s is missing", name)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# torch.softmax\n", "| self | float32[2, 6, 6] | [36 6 1] | true |", "| dim | `-1` |",
			"torch.softmax: fail\n'''\n```", "optool 1.2.3", "- A=b", "optool replay call", "\n- output[0]: pass\n", "worst elements",
			"\nNo element of grad[0] is further off than it may be by itself.", "](errors_grad0.svg)"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("README.md has no %q", want)
			}
		}
		if begin := "# torch.softmax\n\n```\ntorch.softmax: fail\n"; !strings.HasPrefix(string(text), begin) {
			t.Errorf("README.md begins with %.100q, want %q", text, begin)
		}
		f, err := pthformat.Open(filepath.Join(dir, "expected/output_float64.pth"), pthformat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out := f.Root.(*value.Sequence).Items[0].(*tensor.Tensor)
		for i := range out.Numel() {
			if x, y := tensor.At[float64](out, i), tensor.At[float64](want, i); out.DType != tensor.Float64 || x != y {
				t.Fatalf("expected value %d is %v, want %v", i, x, y)
			}
		}
		svg, err := os.ReadFile(filepath.Join(dir, "errors_grad0.svg"))
		if err != nil || !strings.Contains(string(svg), "xmlns=") || !strings.Contains(string(svg), "<style>") {
			t.Errorf("the picture: %v, %.80s", err, svg)
		}
	})
}

// TestChangedArguments: what a call writes into its arguments is expected, and files of operators are packed.
func TestChangedArguments(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, 2}).Rounded()
	in := &capture.Record{Name: "torch.Tensor.mul_", Args: []value.Value{x, 3.0}, Kwargs: &value.Dict{}}
	c := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: in}),
		replay.Options{Registry: ops.Default(), Tolerances: tol})
	r := report()
	r.Imports = []string{"kernels"}
	r.Operators = []bundle.Operators{{Name: "my.star", Text: []byte("# mine")}}
	dir := t.TempDir()
	if !unpack(t, written(t, c, r), dir)["my.star"] {
		t.Error("my.star is missing")
	}
	f, err := pthformat.Open(filepath.Join(dir, "expected/arguments.pth"), pthformat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	items := f.Root.(*value.Sequence).Items
	if len(items) != 1 || tensor.At[float64](items[0].(*tensor.Tensor), 1) != 6 {
		t.Errorf("arguments after the call: %v", items)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.Contains(string(text), "repeat.py --device cpu --import kernels\n") {
		t.Errorf("README.md: %v\n%s", err, text)
	}
}

// TestProgramWithoutBackward: where the library lacks the backward function, the program compares what its forward
// function computed.
func TestProgramWithoutBackward(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	library, err := filepath.Abs("../../devicebridge/native/dist/libdiopi_host.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Skip("built without devices")
	}
	each(t, "lm-f32", func(e *capture.Entry, c *replay.Call) {
		if e.Op != "torch.nn.functional.linear" {
			return
		}
		dir := t.TempDir()
		unpack(t, written(t, c, report()), dir)
		source, err := os.ReadFile(filepath.Join(dir, "repeat.c"))
		if err != nil {
			t.Fatal(err)
		}
		lacking := bytes.Replace(source, []byte(`find("diopiLinearBackward")`), []byte(`find("diopiNone")`), 1)
		if bytes.Equal(lacking, source) {
			t.Fatal("the program has no backward function")
		}
		if err := os.WriteFile(filepath.Join(dir, "repeat.c"), lacking, 0o666); err != nil {
			t.Fatal(err)
		}
		cc := exec.Command("cc", "-std=gnu11", "-O0", "-rdynamic", "-o", "repeat", "repeat.c", "-ldl", "-lm")
		cc.Dir = dir
		if out, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
		check := func(code int) {
			t.Helper()
			cmd := exec.Command("./repeat", library)
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), "output[0]: ") {
				t.Errorf("exit code %d, want %d:\n%s", got, code, out)
			}
		}
		check(3)
		expected := filepath.Join(dir, "data/expected0.bin")
		b, err := os.ReadFile(expected)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 0x40
		if err := os.WriteFile(expected, b, 0o666); err != nil {
			t.Fatal(err)
		}
		check(1)
	})
}

// TestPrograms compiles the programs of one call of each operator with all warnings, and
// runs them on the built-in device.
func TestPrograms(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	library, err := filepath.Abs("../../devicebridge/native/dist/libdiopi_host.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Skip("built without devices")
	}
	ran := 0
	for _, tree := range []string{"lm-f32", "lm-bf16", "cnn", "corners"} {
		each(t, tree, func(e *capture.Entry, c *replay.Call) {
			dir := t.TempDir()
			if !unpack(t, written(t, c, report()), dir)["repeat.c"] {
				return
			}
			run := func(name string, args ...string) (string, error) {
				cmd := exec.Command(name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := run("cc", "-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
				"-rdynamic", "-o", "repeat", "repeat.c", "-ldl", "-lm"); err != nil {
				t.Errorf("%s: cc: %v\n%s", c.Op, err, out)
				return
			}
			// 3: the library has no such function, or wants other memory.
			out, err := run("./repeat", library)
			if err != nil && !strings.Contains(out, "does not have it") {
				t.Errorf("%s: %v\n%s", c.Op, err, out)
			}
			if err != nil {
				return
			}
			ran++
			expected := filepath.Join(dir, "data/expected0.bin")
			b, err := os.ReadFile(expected)
			if err != nil || len(b) == 0 {
				return
			}
			b[len(b)-1] ^= 0x40 // an exponent that is far off
			if err := os.WriteFile(expected, b, 0o666); err != nil {
				t.Fatal(err)
			}
			if out, err := run("./repeat", library); err == nil {
				t.Errorf("%s: a wrong expected value is not found:\n%s", c.Op, out)
			}
		})
	}
	if ran < 10 {
		t.Errorf("only %d programs ran", ran)
	}
}

// TestProgramJudgesByBounds: an error that op_tools' tolerance of the dtype hides is wrong in the C program, as it is
// for optool, and what the verdict allows is right.
func TestProgramJudgesByBounds(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	faulty, sound := faulttest.Library(t, "half_accumulate"), faulttest.Library(t, "none")
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := tensor.New(tensor.Float32, []int{1, 1}, []float64{0.6004231}).Rounded()
	b := tensor.New(tensor.Float32, []int{1, 1}, []float64{0.7998238}).Rounded()
	in := &capture.Record{Name: "torch.mm", Args: []value.Value{a, b}, Kwargs: &value.Dict{}}
	c := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: in}),
		replay.Options{Registry: ops.Default(), Tolerances: tol})
	dir := t.TempDir()
	names := unpack(t, written(t, c, report()), dir)
	if !names["expected/allowed_output.pth"] || !names["data/allowed0.bin"] {
		t.Fatalf("no bounds in %v", names)
	}
	cc := exec.Command("cc", "-std=gnu11", "-O0", "-rdynamic", "-o", "repeat", "repeat.c", "-ldl", "-lm")
	cc.Dir = dir
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	for library, want := range map[string]int{faulty: 1, sound: 0} {
		cmd := exec.Command("./repeat", library)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d:\n%s", filepath.Base(library), got, want, out)
		}
		if !strings.Contains(string(out), "may be off by") {
			t.Errorf("the program does not say what it allows:\n%s", out)
		}
	}
}

// TestScript: repeat.py names gradients by their arguments, finds the recorded one that is wrong, and judges the call
// that it makes by the bounds of the verdict.
func TestScript(t *testing.T) {
	if err := exec.Command("python3", "-c", "import torch").Run(); err != nil {
		t.Skip("there is no python3 with torch")
	}
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(grad bool, vs ...float64) *tensor.Tensor {
		x := tensor.New(tensor.Float32, []int{len(vs)}, vs).Rounded()
		x.RequiresGrad = grad
		return x
	}
	x, y := row(true, 1, 2, 3), row(true, 4, 5, 6)
	rec := func(name string, vs ...value.Value) *capture.Record {
		return &capture.Record{Name: "torch.mul", Args: vs, Kwargs: &value.Dict{}, Identifier: "torch.mul/" + name}
	}
	c := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
		capture.Input: rec("input", x, y), capture.Output: rec("output", row(false, 4, 10, 18)),
		capture.GradOutputs: rec("grad_outputs", row(false, 1, 1, 1)),
		capture.GradInputs:  rec("grad_inputs", row(false, 4, 5, 6), row(false, 1, 2, 3.00001)),
	}), replay.Options{Registry: ops.Default(), Tolerances: tol})
	r := report()
	r.Outcome = c.Compare()
	dir := t.TempDir()
	unpack(t, written(t, c, r), dir)
	run := func(args ...string) (string, int) {
		cmd := exec.Command("python3", append([]string{filepath.Join(dir, "repeat.py"), "--trust"}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run()
	for _, want := range []string{"recorded output[0]: 0 of 3 ", "recorded grad[0]: 0 of 3 ", "recorded grad[1]: 1 of 3 ",
		"gradient of self: 0 of 3 ", "gradient of other: 0 of 3 "} {
		if !strings.Contains(out, want) || code != 0 {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
	if out, code := run("--atol", "1e-3"); code != 0 || !strings.Contains(out, "recorded grad[1]: 0 of 3 ") {
		t.Errorf("with a tolerance: exit code %d\n%s", code, out)
	}
	// Without the module of the user, what was recorded is compared all the same.
	if out, code := run("--import", "nowhere"); code != 3 || !strings.Contains(out, "recorded grad[1]: 1 of 3 ") ||
		!strings.Contains(out, "it cannot be run here: nowhere cannot be imported (") || strings.Contains(out, "Traceback") {
		t.Errorf("without the module: exit code %d\n%s", code, out)
	}
	// The program's own function, which the user names.
	if err := os.WriteFile(filepath.Join(dir, "mymod.py"), []byte("def mul(a, b):\n    return a * b + 1\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "repeat.py", "--trust", "--function", "mymod:mul")
	cmd.Dir = dir
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 ||
		!strings.Contains(string(out), "this runs mymod:mul") || !strings.Contains(string(out), "output[0]: 3 of 3 ") {
		t.Errorf("--function: %s", out)
	}
	write := func(name string, v value.Value) {
		if err := pthformat.WriteFile(filepath.Join(dir, name), v); err != nil {
			t.Fatal(err)
		}
	}
	write("expected/gradients_float64.pth", value.NewList(tensor.New(tensor.Float64, []int{3}, []float64{4, 5, 6}),
		tensor.New(tensor.Float64, []int{3}, []float64{1, 2, 3.00001})))
	if out, code := run(); code != 1 || !strings.Contains(out, "gradient of other: 1 of 3 elements are wrong; worst at [2]") {
		t.Errorf("a wrong gradient: exit code %d\n%s", code, out)
	}
}

// TestAutocast: a call under autocast is repeated and compared as the verdict reads it: with its casts, in the dtypes
// that were recorded, and with the verdict's counts, worst elements and bounds.
func TestAutocast(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(dt tensor.DType, vs ...float64) *tensor.Tensor {
		return tensor.New(dt, []int{1, len(vs)}, vs).Rounded()
	}
	// The last probability is not written, nor is what follows from it.
	x := row(tensor.BFloat16, 0, 1, 0.5)
	x.RequiresGrad = true
	y := []float64{0.18632372, 0.50648040, 0}
	gy := []float64{1, 0.25, 0}
	dot := gy[0]*y[0] + gy[1]*y[1]
	rec := func(name string, v *tensor.Tensor) *capture.Record {
		return &capture.Record{Name: "torch.softmax", Args: []value.Value{v}, Kwargs: &value.Dict{},
			Identifier: "torch.softmax/" + name}
	}
	in := rec("input", x)
	in.Args = append(in.Args, int64(-1))
	c := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
		capture.Input: in, capture.Output: rec("output", row(tensor.Float32, y...)),
		capture.GradOutputs: rec("grad_outputs", row(tensor.Float32, gy...)),
		capture.GradInputs:  rec("grad_inputs", row(tensor.BFloat16, y[0]*(gy[0]-dot), y[1]*(gy[1]-dot), 0)),
	}), replay.Options{Registry: ops.Default(), Tolerances: tol})
	r := report()
	r.Outcome = c.Compare()
	r.Replaced = "torch.softmax is not torch's own here: replaced by mymod.install.<locals>.softmax"
	dir := t.TempDir()
	unpack(t, written(t, c, r), dir)
	load := func(name string) *tensor.Tensor {
		f, err := pthformat.Open(filepath.Join(dir, "expected", name), pthformat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return value.Tensors(f.Root)[0]
	}
	for name, want := range map[string]tensor.DType{"output.pth": tensor.Float32, "gradients.pth": tensor.BFloat16,
		"recorded_gradients.pth": tensor.BFloat16} {
		if got := load(name).DType; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	recorded := []string{}
	for i := range r.Outcome.Results {
		res := &r.Outcome.Results[i]
		if res.Compared == nil || res.Compared.WorstIndex == nil || res.Phase == replay.Input {
			continue
		}
		file := map[replay.Phase]string{replay.Forward: "output", replay.Backward: "recorded_gradients"}[res.Phase]
		at := tensor.Ravel(res.Compared.WorstIndex, []int{1, 3})
		allowed := tensor.Data[float64](load("allowed_" + file + ".pth"))[at]
		if limit := res.Compared.Limit(res.Compared.WorstIndex).Allowed; allowed != limit {
			t.Errorf("%s may be off by %g, the verdict allows %g", res.Target, allowed, limit)
		}
		recorded = append(recorded, fmt.Sprintf("recorded %s: %d of 3 elements are wrong; worst at [0, %d]: got ",
			res.Target, res.Compared.Mismatched, at))
	}
	if len(recorded) != 2 {
		t.Fatalf("%d values fail", len(recorded))
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"repeat.py casts arguments to float32", "where no `--function` reaches it"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("README.md has no %q", want)
		}
	}
	if err := exec.Command("python3", "-c", "import torch").Run(); err != nil {
		t.Skip("there is no python3 with torch")
	}
	if err := os.WriteFile(filepath.Join(dir, "mymod.py"), []byte("def install():\n    def softmax(): pass\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		function string
		code     int
		want     []string
	}{
		{"", 0, append(recorded, "arguments are cast as under torch.autocast: to float32", "output[0]: 0 of 3 ",
			"gradient of self: 0 of 3 ", "no --function reaches it")},
		{"mymod.softmax", 3, []string{"there is no mymod.softmax here (mymod has no softmax); --function reaches"}},
	} {
		cmd := exec.Command("python3", "repeat.py", "--trust")
		if try.function != "" {
			cmd.Args = append(cmd.Args, "--function", try.function)
		}
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != try.code {
			t.Errorf("%q: exit code %d, want %d", try.function, code, try.code)
		}
		for _, want := range try.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q: no %q in\n%s", try.function, want, out)
			}
		}
	}
}

// TestRandom: a call that draws random numbers is repeated without them where an argument says how many it drops, and
// otherwise not at all: what was recorded, and another run, are not compared with a result without them.
func TestRandom(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(tensor.Float32, []int{1, 1, 2, 2}, []float64{1, 2, 3, 4}).Rounded()
	x.RequiresGrad = true
	four := func(y float64) *tensor.Tensor { return tensor.New(tensor.Float32, x.Shape, []float64{y, y, y, y}) }
	opened := func(op string, kwargs map[string]value.Value, args ...value.Value) *replay.Call {
		kw := &value.Dict{}
		for k, v := range kwargs {
			kw.Items = append(kw.Items, value.Item{Key: k, Value: v})
		}
		rec := func(name string, args []value.Value, kwargs *value.Dict) *capture.Record {
			return &capture.Record{Name: op, Args: args, Kwargs: kwargs, Identifier: op + "/" + name}
		}
		return replay.Of(capture.Made(map[capture.Kind]*capture.Record{
			capture.Input:       rec("input", args, kw),
			capture.Output:      rec("output", []value.Value{four(9)}, &value.Dict{}),
			capture.GradOutputs: rec("grad_outputs", []value.Value{four(1)}, &value.Dict{}),
		}), replay.Options{Registry: ops.Default(), Tolerances: tol})
	}
	const attention = "torch.nn.functional.scaled_dot_product_attention"
	for _, tc := range []struct {
		name    string
		c       *replay.Call
		without string // in names.json; "" for none
	}{
		{"keyword", opened(attention, map[string]value.Value{"dropout_p": 0.5}, x, x, x),
			`"without":{"name":"dropout_p","place":-1,"recorded":0.5,"value":0}`},
		{"place", opened(attention, nil, x, x, x, nil, 0.5),
			`"without":{"name":"dropout_p","place":4,"recorded":0.5,"value":0}`},
		{"dropout", opened("torch.nn.functional.dropout", map[string]value.Value{"p": 0.5}, x), ""},
		{"rrelu", opened("torch.nn.functional.rrelu", map[string]value.Value{"training": true}, x), ""},
	} {
		r := report()
		r.Outcome = tc.c.Compare()
		for i := range r.Outcome.Results {
			if of := &r.Outcome.Results[i]; of.Phase == replay.Forward && tc.c.Profile(of) != nil {
				t.Errorf("%s: errors of %s are measured, but what it should be is not known", tc.name, of.Target)
			}
		}
		dir := t.TempDir()
		files := unpack(t, written(t, tc.c, r), dir)
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		names := read("expected/names.json")
		if !strings.Contains(names, `"random":"draws random numbers"`) ||
			!strings.Contains(names, cmp.Or(tc.without, `"without":null`)) {
			t.Errorf("%s: %s", tc.name, names)
		}
		want := map[bool]string{true: "repeat.py runs it with dropout_p=0.0, so that it draws none",
			false: "repeat.py cannot repeat the call: it draws random numbers"}[tc.without != ""]
		if text := read("README.md"); !strings.Contains(text, want) {
			t.Errorf("%s: README.md has no %q:\n%s", tc.name, want, text)
		}
		for _, name := range []string{"expected/output.pth", "expected/gradients.pth"} {
			if files[name] != (tc.without != "") {
				t.Errorf("%s: %s is there: %t", tc.name, name, files[name])
			}
		}
		if files["expected/recorded_gradients.pth"] {
			t.Errorf("%s: recorded gradients are compared", tc.name)
		}
		if exec.Command("python3", "-c", "import torch").Run() == nil && tc.without == "" {
			cmd := exec.Command("python3", filepath.Join(dir, "repeat.py"), "--trust")
			out, _ := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			if code != 3 || !strings.Contains(string(out), "it cannot be repeated: it draws") {
				t.Errorf("%s: exit code %d\n%s", tc.name, code, out)
			}
		}
	}
}
