package cli_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A format writes a small recording below a directory. Of another variant all elements
// of tensors are others, where they are recorded at all.
type format struct {
	write  func(t *testing.T, dir string, variant int)
	replay bool     // its calls can be run again
	flags  []string // of compare
	file   string   // that is given in place of its directory; "" for the directory
}

var formats = map[string]format{
	"hook":                   {write: writeHook, replay: true},
	"op_tools":               {write: writeOpTools, replay: true},
	"msprobe":                {write: writeMSProbe, replay: true},
	"flashinfer pt":          {write: writeFlashInfer("torch")},
	"flashinfer safetensors": {write: writeFlashInfer("safetensors")},
	"sglang":                 {write: writeSGLang},
	"sglang ranks":           {write: writeSGLang, flags: []string{"--unshard", "dims"}},
	"pass":                   {write: writePass},
	"flashinfer-trace":       {write: writeTrace},
	"pt":                     {write: writePt},
	"safetensors":            {write: writeSafetensorsFile},
	"npy":                    {write: writeNpy},
	"npz":                    {write: writeNpz},
	"shards":                 {write: writeShards},
	"polygraphy":             {write: writePolygraphy, file: "out.json"},
}

// TestMutants gives the commands damaged recordings of every format. They neither panic
// nor hang nor take much memory; what is refused is refused in one sentence that names a
// file or a call; no value passes that did not pass before, and a run that passes has
// compared all that was compared before. OPTOOL_MUTANTS is how many there are of each.
func TestMutants(t *testing.T) {
	shorttest.Computes(t)
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			n := fuzzcheck.Mutants(t, 12)
			root := t.TempDir()
			sound, other := filepath.Join(root, "a"), filepath.Join(root, "b")
			f.write(t, sound, 0)
			f.write(t, other, 1)
			against := map[string]outcome{
				sound: optool(t, f.compare(sound, sound)...),
				other: optool(t, f.compare(sound, other)...),
			}
			if o := against[sound]; o.code != cli.ExitOK || len(o.passes) == 0 {
				t.Fatalf("compare of equal recordings gives %d: %s", o.code, o.text)
			}
			if o := against[other]; o.code != cli.ExitDiffers {
				t.Fatalf("compare of different recordings gives %d: %s", o.code, o.text)
			}
			replayed := outcome{}
			if f.replay {
				if replayed = optool(t, "replay", sound); len(replayed.passes) == 0 {
					t.Fatalf("replay gives %d: %s", replayed.code, replayed.text)
				}
			}
			r := rand.New(rand.NewPCG(1+fuzzcheck.Seed(t), uint64(n)))
			refused := 0
			for i := range n {
				from := []string{sound, other}[i%2]
				dir := filepath.Join(root, fmt.Sprintf("m%d", i))
				if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				rel, how := fuzzcheck.MutateFile(t, r, dir)
				what := fmt.Sprintf("mutant %d of %d: %s of %s: %s", i, n, rel, filepath.Base(from), how)
				fuzzcheck.Returns(t, what, func() {
					var again outcome
					// Of eight commands that judge all calls, also under the race detector.
					fuzzcheck.Bounded(t, 1, 3<<29, func() {
						o := optool(t, f.compare(sound, dir)...)
						o.judge(t, rel, against[from])
						if o.code == cli.ExitOK && o.failed == 0 && len(o.passes) < len(against[from].passes) {
							t.Errorf("passes, with %d of %d values compared", len(o.passes), len(against[from].passes))
						}
						if o.code == cli.ExitFailed {
							refused++
						}
						again = optool(t, "replay", dir)
						if f.replay && from == sound { // values of the other are made up
							again.judge(t, rel, replayed)
						}
						optool(t, "compare", filepath.Join(sound, rel), filepath.Join(dir, rel))
						for _, command := range []string{"show", "ls", "check"} {
							optool(t, command, filepath.Join(dir, f.file))
						}
					})
					again.others(t, dir)
				})
				if t.Failed() {
					t.Fatalf("%s", what)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d of %d refused", refused, n)
		})
	}
}

// compare is the command that compares two recordings.
func (f format) compare(a, b string) []string {
	return append([]string{"compare", filepath.Join(a, f.file), filepath.Join(b, f.file)}, f.flags...)
}

// An outcome is what a command gave.
type outcome struct {
	code   int
	text   string // all it said
	errors string
	passes map[string]bool
	blank  map[string]bool // mistrusted: zeros, which other values may replace on both sides
	failed int             // results that did not pass
}

// optool runs a command, whose errors are sentences.
func optool(t *testing.T, args ...string) outcome {
	t.Helper()
	o := outcome{passes: map[string]bool{}, blank: map[string]bool{}}
	var out, errs bytes.Buffer
	switch args[0] {
	case "replay":
		args = append(args, "--acc_check", "--json", "-", "--out", t.TempDir(), "--memory", "1GiB")
	case "compare":
		args = append(args, "--json", "-")
	}
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	o.code = cli.Main(append(args, "--quiet", "--jobs", "1"), streams)
	o.text, o.errors = out.String()+errs.String(), errs.String()
	if !slices.Contains([]int{cli.ExitOK, cli.ExitDiffers, cli.ExitFailed}, o.code) {
		t.Errorf("%q gives %d: %s", args, o.code, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		fuzzcheck.Sentence(t, errors.New(strings.TrimSuffix(line, "\n")))
	}
	if strings.Contains(o.text, "internal error") {
		t.Errorf("%q: %s", args, o.text)
	}
	for line := range strings.Lines(out.String()) {
		var res struct{ Kind, Capture, Phase, Target, Verdict string }
		if json.Unmarshal([]byte(line), &res) != nil || res.Kind != "result" {
			continue
		}
		switch target := res.Capture + " " + res.Phase + " " + res.Target; res.Verdict {
		case "pass":
			o.passes[target] = true
			continue
		case "mistrusted":
			o.blank[target] = true
		}
		o.failed++
	}
	return o
}

// judge compares what a command gave of a recording of which the file rel is damaged
// with what it gave of the original.
func (o outcome) judge(t *testing.T, rel string, original outcome) {
	t.Helper()
	for p := range o.passes {
		if !original.passes[p] && !original.blank[p] {
			t.Errorf("%s passes, as it did not before", p)
		}
	}
	named := strings.Contains(o.errors, filepath.Base(rel)) || strings.Contains(o.errors, "no captures found") ||
		strings.Contains(o.text, `"kind":"result"`)
	if o.code == cli.ExitFailed && !named {
		t.Errorf("refused without the name of %s: %s", rel, o.text)
	}
}

// others gives the recording that replay said o of to the commands that replay calls for something else:
// none passes over what replay refuses.
func (o outcome) others(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"step", dir}, {"explain", "--all", dir}} {
		if code := optool(t, args...).code; o.code == cli.ExitFailed && code == cli.ExitOK {
			t.Errorf("%q gives 0, replay refuses it: %s", args, o.text)
		}
	}
	code, text := cli.View(t.Context(), 3, dir)
	if strings.Contains(text, "internal error") {
		t.Errorf("view: %s", text)
	}
	if !slices.Contains([]int{cli.ExitOK, cli.ExitFailed}, code) || code != cli.ExitOK && o.code == cli.ExitOK {
		t.Errorf("view gives %d, replay %d: %.1000s", code, o.code, text)
	}
}

// elements are n numbers, others in every variant.
func elements(n, variant int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i+1)/4 + 100*float64(variant)
	}
	return v
}

func floats(variant int, shape ...int) *tensor.Tensor {
	return tensor.New(tensor.Float32, shape, elements(tensor.Numel(shape), variant))
}

func dict(items ...any) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(items); i += 2 {
		d.Items = append(d.Items, value.Item{Key: items[i], Value: items[i+1]})
	}
	return d
}

func write(t *testing.T, content string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(content), 0o666))
	if err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, v value.Value, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), pthformat.WriteFile(name, v)); err != nil {
		t.Fatal(err)
	}
}

// safetensors are float32 tensors in one file.
func safetensors(variant int, shapes map[string][]int) string {
	var data []byte
	header := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		begin := len(data)
		for _, x := range elements(tensor.Numel(shapes[name]), variant) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shapes[name], "data_offsets": []int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err) // names and numbers
	}
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + string(text) + string(data)
}

// npy is a float32 array.
func npy(variant int, shape ...int) string {
	dims := ""
	for _, n := range shape {
		dims += fmt.Sprintf("%d, ", n)
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", dims)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	b = append(b, header...)
	for _, x := range elements(tensor.Numel(shape), variant) {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return string(b)
}

func writeHook(t *testing.T, dir string, variant int) {
	if err := os.CopyFS(dir, os.DirFS("../../fixtures/hook/rank1/4711-2026-11-22-12-00-00")); err != nil {
		t.Fatal(err)
	}
	if variant == 0 {
		return
	}
	path := filepath.Join(dir, "tensors-00000.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 + int(binary.LittleEndian.Uint64(b)); i < len(b); i++ {
		b[i] ^= 0x40
	}
	write(t, string(b), path)
}

// writeOpTools writes some calls of a step, forward and backward.
func writeOpTools(t *testing.T, dir string, variant int) {
	from := "../../step/testdata/clean/op_tools_results/op_capture_results"
	for _, op := range []string{"torch.nn.functional.linear", "torch.nn.functional.layer_norm"} {
		if err := os.CopyFS(filepath.Join(dir, "op_tools_results/op_capture_results", op),
			os.DirFS(filepath.Join(from, op))); err != nil {
			t.Fatal(err)
		}
	}
	if variant == 0 {
		return
	}
	outputs, err := filepath.Glob(filepath.Join(dir, "op_tools_results/op_capture_results/*/*/*/*/output.pth"))
	if err != nil || len(outputs) == 0 {
		t.Fatal(outputs, err)
	}
	for _, path := range outputs {
		f, err := pthformat.Open(path, pthformat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		args, _ := f.Root.(*value.Dict).Get("args")
		for i, v := range args.(*value.Sequence).Items {
			if was, ok := v.(*tensor.Tensor); ok {
				args.(*value.Sequence).Items[i] = floats(variant, was.Shape...)
			}
		}
		if err := errors.Join(os.Remove(path), pthformat.WriteFile(path, f.Root), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func writeMSProbe(t *testing.T, dir string, variant int) {
	silu := tensor.New(tensor.Float32, []int{4}, func() []float64 {
		v := elements(4, variant)
		for i, x := range v {
			v[i] = x / (1 + math.Exp(-x))
		}
		return v
	}())
	described := func(t *tensor.Tensor, data string) string {
		v := tensor.Data[float64](t)
		return fmt.Sprintf(`{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [%d], "Max": %g, "Min": %g,
			"Mean": %g, "Norm": %g, "requires_grad": false%s}`, len(v), slices.Max(v), slices.Min(v), v[0]/2, v[1],
			data)
	}
	in, out := floats(variant, 4), silu.Rounded()
	write(t, fmt.Sprintf(`{"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": null, "data": {
		"Functional.silu.0.forward": {"input_args": [%s], "input_kwargs": {"inplace": {"type": "bool", "value": false}},
			"output": [%s]},
		"Functional.relu.0.forward": {"input_args": [%s], "input_kwargs": {}, "output": [%s]},
		"Tensor.sum.0.forward": {"input_args": [{"type": "int", "value": 3}], "input_kwargs": {}, "output": [null]}}}`,
		described(in, `, "data_name": "in.pt"`), described(out, `, "data_name": "out.pt"`), described(in, ""),
		described(in, "")), dir, "step0/rank0/dump.json")
	write(t, `{"0": [["Functional.silu.0.forward"], ["File /home/u/train.py, line 45, in f, \n y"]]}`, dir,
		"step0/rank0/stack.json")
	save(t, in, dir, "step0/rank0/dump_tensor_data/in.pt")
	save(t, out, dir, "step0/rank0/dump_tensor_data/out.pt")
}

func writeFlashInfer(kind string) func(t *testing.T, dir string, variant int) {
	return func(t *testing.T, dir string, variant int) {
		const line = `{"function_name": "f", "call_sequence": 1, "timestamp": "20261122_013829_066", "process_id": 7,` +
			`"input_metadata": {"arg_1": 3}, "output_metadata": {}, "tensor_info": {"input_tensor_keys": ["arg_0"], ` +
			`"output_tensor_keys": ["result"]}, "tensor_details": {"arg_0": {"device": "cuda:0"}}, ` +
			`"tensor_format": "KIND", "function_signature": "(input, eps)", "execution_status": "STATUS"}` + "\n"
		dir = filepath.Join(dir, "20261122_013829_066_pid7_f_call0001")
		write(t, strings.NewReplacer("KIND", kind, "STATUS", "inputs_saved").Replace(line)+
			strings.NewReplacer("KIND", kind, "STATUS", "completed").Replace(line), dir, "metadata.jsonl")
		if kind == "safetensors" {
			write(t, safetensors(variant, map[string][]int{"arg_0": {2, 3}}), dir, "inputs.safetensors")
			write(t, safetensors(variant, map[string][]int{"result": {3}}), dir, "outputs.safetensors")
			return
		}
		save(t, dict("arg_0", floats(variant, 2, 3)), dir, "inputs.pt")
		save(t, dict("result", floats(variant, 3)), dir, "outputs.pt")
	}
}

func writeSGLang(t *testing.T, dir string, variant int) {
	for rank := range 2 {
		save(t, dict("value", floats(variant, 2, 3), "meta", dict("dims", "t h[tp]",
			"sglang_parallel_info", dict("tp_rank", int64(rank), "tp_size", int64(2)))), dir,
			fmt.Sprintf("step=0___rank=%d___dump_index=1___name=x___layer_id=1.pt", rank))
	}
}

func writePass(t *testing.T, dir string, variant int) {
	save(t, dict("model.embed", floats(variant, 3), "model.layers.0", value.NewTuple(floats(variant, 4), nil)), dir,
		"TP0_PP0_Rank0_pid1/Pass00001.pt")
}

func writeTrace(t *testing.T, dir string, variant int) {
	write(t, `{"name": "norm_h2", "op_type": "rmsnorm", "axes": {"n": {"type": "var"}, "h": {"type": "const",
		"value": 2}}, "inputs": {"x": {"shape": ["n", "h"], "dtype": "bfloat16"}, "w": {"shape": ["h"], "dtype": "float32"},
		"eps": {"shape": null, "dtype": "float32"}}, "outputs": {}}`, dir, "definitions/rmsnorm/norm_h2.json")
	write(t, `{"definition": "norm_h2", "solution": null, "workload": {"uuid": "u-1", "axes": {"n": 3}, "inputs": `+
		`{"x": {"type": "random"}, "w": {"type": "safetensors", "path": "blob/w.safetensors", "tensor_key": "w"}, `+
		`"eps": {"type": "scalar", "value": 1e-06}}}, "evaluation": null}`+"\n", dir, "workloads/rmsnorm/norm_h2.jsonl")
	write(t, safetensors(variant, map[string][]int{"w": {2}}), dir, "blob/w.safetensors")
}

func writePt(t *testing.T, dir string, variant int) {
	save(t, dict("layers", value.NewList(floats(variant, 2, 3), floats(variant, 4)), "embed", dict("weight",
		floats(variant, 5))), dir, "model.pt")
}

func writeSafetensorsFile(t *testing.T, dir string, variant int) {
	write(t, safetensors(variant, map[string][]int{"a.weight": {2, 3}, "a.bias": {2}}), dir, "model.safetensors")
}

func writeNpy(t *testing.T, dir string, variant int) { write(t, npy(variant, 2, 3), dir, "a.npy") }

func writeNpz(t *testing.T, dir string, variant int) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, name := range []string{"a.npy", "b.npy"} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: []uint16{zip.Store, zip.Deflate}[i]})
		if err == nil {
			_, err = io.WriteString(w, npy(variant, 2, i+2))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, b.String(), dir, "a.npz")
}

func writePolygraphy(t *testing.T, dir string, variant int) {
	array := func(shape ...int) any {
		return map[string]any{"polygraphy_class": "LazyArray", "values": map[string]any{"polygraphy_class": "ndarray",
			"array": []byte(npy(variant, shape...))}}
	}
	iteration := map[string]any{"polygraphy_class": "IterationResult", "runtime": 0.5,
		"outputs": map[string]any{"h": array(2, 3), "y": array(4)}}
	text, err := json.Marshal(map[string]any{"polygraphy_class": "RunResults",
		"lst": []any{[]any{"onnxrt-runner-N0-11/22/26-21:03:46", []any{iteration, iteration}}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, string(text), dir, "out.json")
}

func writeShards(t *testing.T, dir string, variant int) {
	write(t, safetensors(variant, map[string][]int{"a.weight": {2, 3}}), dir, "model-00001-of-00002.safetensors")
	write(t, safetensors(variant, map[string][]int{"b.weight": {3}}), dir, "model-00002-of-00002.safetensors")
	write(t, `{"metadata": {"total_size": 36}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors",
		"b.weight": "model-00002-of-00002.safetensors"}}`, dir, "model.safetensors.index.json")
}
