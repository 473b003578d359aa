package capture

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func floats(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, v) }

func dict(items ...any) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(items); i += 2 {
		d.Items = append(d.Items, value.Item{Key: items[i], Value: items[i+1]})
	}
	return d
}

func save(t testing.TB, path string, v value.Value) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := pthformat.WriteFile(path, v); err != nil {
		t.Fatal(err)
	}
}

// load loads an entry and gives its arguments, keywords and results as text.
func load(t *testing.T, e *Entry) (text string, c *Call) {
	t.Helper()
	c, err := e.Load(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return valueText(value.NewTuple(c.Args...)) + " " + valueText(c.Kwargs) + " -> " +
		valueText(value.NewTuple(c.Output...)), c
}

// valueText is a value with the elements of tensors.
func valueText(v value.Value) string {
	switch v := v.(type) {
	case *tensor.Tensor:
		return strings.ReplaceAll(value.Str(value.NewList(elements(v)...)), ".0", "")
	case *value.Sequence:
		var parts []string
		for _, it := range v.Items {
			parts = append(parts, valueText(it))
		}
		return "(" + strings.Join(parts, ", ") + ")"
	case *value.Dict:
		var parts []string
		for _, it := range v.Items {
			parts = append(parts, value.Str(it.Key)+"="+valueText(it.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return value.Str(v)
}

func elements(t *tensor.Tensor) []value.Value {
	var out []value.Value
	for _, x := range tensor.Data[float64](t) {
		out = append(out, x)
	}
	return out
}

const flashInferLine = `{"function_name": "f", "call_sequence": 2, "timestamp": "20261122_013829_066", "process_id": 7,
"input_metadata": {"arg_1": 3, "arg_3": {"type": "torch.dtype", "value": "torch.float16"}, "kwarg_eps": 1e-05,
"kwarg_scales_1": null, "kwarg_top_2": true, "kwarg_mode": {"type": "Mode", "value": "A"}},
"output_metadata": {"result_1": 5}, "tensor_info": {"input_tensor_keys": ["arg_0", "arg_2_0", "arg_2_1", "kwarg_scales_0"],
"output_tensor_keys": ["result_0"]}, "tensor_details": {"arg_0": {"device": "cuda:1"}}, "tensor_format": "torch",
"function_signature": "(a, n, list, dtype, eps=1e-06, scales: List[int]=(1, 2), top_2=False, **kw) -> Tuple",
"execution_status": "STATUS"}`

func flashInferTree(t testing.TB, status string) string {
	line := strings.ReplaceAll(strings.ReplaceAll(flashInferLine, "\n", " "), "STATUS", "inputs_saved")
	if status == "completed" {
		line += "\n" + strings.Replace(line, "inputs_saved", "completed", 1) + "\n{\"cut"
	}
	root := writeFiles(t, map[string]string{"d/20261122_call/metadata.jsonl": line})
	dir := filepath.Join(root, "d/20261122_call")
	save(t, filepath.Join(dir, "inputs.pt"), dict("arg_0", floats(1, 2), "arg_2_0", floats(3), "arg_2_1", floats(4),
		"kwarg_scales_0", floats(5)))
	save(t, filepath.Join(dir, "outputs.pt"), dict("result_0", floats(6)))
	return root
}

func TestFlashInfer(t *testing.T) {
	found, failures := entriesOf(t, flashInferTree(t, "completed"), Options{Loose: true})
	if len(found) != 1 || len(failures) > 0 {
		t.Fatalf("%d entries, %v", len(found), failures)
	}
	e := found[0]
	if e.Rel != "d/20261122_call" || e.Op != "flashinfer.f" || e.PID != 7 || e.Time != "20261122_013829_066" ||
		e.Call != "f call0002" || e.Files != Of(Input, Output) {
		t.Errorf("entry %+v", e)
	}
	got, c := load(t, e)
	want := "([1, 2], 3, ([3], [4]), torch.float16) {eps=1e-05, mode=<Mode: value of Mode>, scales=([5], None), " +
		"top_2=True} -> (([6], 5))"
	if got != want || c.Args[0].(*tensor.Tensor).Device != "cuda:1" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// A call that ended the process has inputs alone.
	found, _ = entriesOf(t, flashInferTree(t, "inputs_saved"), Options{})
	if len(found) != 1 || found[0].Files != Of(Input) {
		t.Errorf("a call that did not come back: %+v", found)
	}
}

func TestParameters(t *testing.T) {
	for signature, want := range map[string]string{
		"(input, weight, eps=1e-06, enable_pdl=None)":     "input weight eps enable_pdl",
		"(a: Tuple[int, int]=(1, 2), *, b={'x': 1}) -> T": "a  b",
		"": "", "(": "", ")": "",
	} {
		if got := strings.Join(parameters(signature), " "); strings.Join(strings.Fields(got), " ") !=
			strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: %q, want %q", signature, got, want)
		}
	}
}

func TestSGLang(t *testing.T) {
	root := t.TempDir()
	base := "step=1___rank=3___dump_index=7___name=non_intrusive__model.layers.1.mlp.output___recompute_status=disabled" +
		"___layer_id=1.pt"
	save(t, filepath.Join(root, base), dict("value", floats(1, 2), "meta", dict("step", int64(1))))
	save(t, filepath.Join(root, "TP0_PP0_Rank2_pid99/Pass00004.pt"), dict("model.embed", floats(3), "model.layers.0",
		value.NewTuple(floats(4), nil)))
	found, failures := entriesOf(t, root, Options{Loose: true})
	if len(found) != 3 || len(failures) > 0 {
		t.Fatalf("%d entries, %v", len(found), failures)
	}
	if e := found[0]; e.Rel != base || e.Op != "non_intrusive__model.layers.1.mlp.output" || e.Step != 1 ||
		e.Rank != 3 || e.Order != 6 || e.Call != e.Op+" layer_id=1" || e.NotRun() == "" || e.Files != Of(Output) {
		t.Errorf("a value of the dumper: %+v", e)
	}
	if got, _ := load(t, found[0]); got != "() {} -> ([1, 2])" {
		t.Errorf("its value: %s", got)
	}
	e := found[2]
	if e.Rel != "TP0_PP0_Rank2_pid99/Pass00004.pt/model.layers.0" || e.Step != 4 || e.Rank != 2 || e.PID != 99 ||
		e.Order != 1 || e.Op != "model.layers.0" {
		t.Errorf("a result in a pass: %+v", e)
	}
	if got, _ := load(t, e); got != "() {} -> (([4], None))" {
		t.Errorf("its value: %s", got)
	}
	one, _ := entriesOf(t, filepath.Join(root, e.Rel), Options{})
	if len(one) != 1 || one[0].Rel != "." || one[0].Op != "model.layers.0" {
		t.Errorf("by its path: %v", one)
	}
	if all, _ := entriesOf(t, filepath.Join(root, "TP0_PP0_Rank2_pid99/Pass00004.pt"), Options{}); len(all) != 2 {
		t.Errorf("by its file: %v", all)
	}
}

const traceDefinitionText = `{"name": "norm_h2", "op_type": "rmsnorm", "axes": {"n": {"type": "var"}, "h": {"type": "const",
"value": 2}}, "inputs": {"x": {"shape": ["n", "h"], "dtype": "bfloat16"}, "w": {"shape": ["h"], "dtype": "float32"},
"mask": {"shape": ["n"], "dtype": "bool"}, "eps": {"shape": null, "dtype": "float32"}, "o": {"shape": ["h"],
"dtype": "float32"}}, "outputs": {}}`

const traceWorkloadText = `{"definition": "norm_h2", "solution": null, "workload": {"uuid": "u-1", "axes": {"n": 3},
"inputs": {"x": {"type": "random"}, "w": {"type": "safetensors", "path": "PATH", "tensor_key": "w"}, "mask": {"type":
"random"}, "eps": {"type": "scalar", "value": 1e-06}}}, "evaluation": null}`

func traceTree(t testing.TB, definition, workload string) string {
	t.Helper()
	const header = `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	st := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + "\x00\x00\x80?\x00\x00\x00@"
	oneLine := strings.ReplaceAll(workload, "\n", " ")
	return writeFiles(t, map[string]string{
		"definitions/rmsnorm/norm_h2.json": definition,
		"workloads/rmsnorm/norm_h2.jsonl":  oneLine + "\n\n",
		"blob/w.safetensors":               st,
		"other/run.jsonl":                  `{"kind":"run"}`,
	})
}

func TestFlashInferTrace(t *testing.T) {
	for _, path := range []string{"blob/w.safetensors", "/data/set/blob/w.safetensors"} {
		root := traceTree(t, traceDefinitionText, strings.Replace(traceWorkloadText, "PATH", path, 1))
		found, failures := entriesOf(t, root, Options{})
		if len(found) != 1 || len(failures) > 0 {
			t.Fatalf("%d entries, %v", len(found), failures)
		}
		e := found[0]
		if e.Rel != "workloads/rmsnorm/norm_h2.jsonl/u-1" || e.Op != "flashinfer.rmsnorm" || e.Files != Of(Input) {
			t.Errorf("entry %+v", e)
		}
		if e.Bytes() < 8 {
			t.Errorf("%d bytes", e.Bytes())
		}
		_, c := load(t, e)
		x, mask := c.Args[0].(*tensor.Tensor), c.Args[2].(*tensor.Tensor)
		if len(c.Args) != 5 || x.Meta() != "bfloat16[3, 2]" || mask.Meta() != "bool[3]" ||
			valueText(c.Args[1]) != "[1, 2]" || c.Args[3] != 1e-6 || c.Args[4] != nil {
			t.Errorf("arguments %s", value.Str(value.NewTuple(c.Args...)))
		}
		_, again := load(t, e)
		if !slices.Equal(tensor.Data[float64](x), tensor.Data[float64](again.Args[0].(*tensor.Tensor))) {
			t.Error("random inputs differ between two readings")
		}
		one, _ := entriesOf(t, filepath.Join(root, e.Rel), Options{})
		if len(one) != 1 || one[0].Rel != "." {
			t.Errorf("by its path: %v", one)
		}
	}
}

// TestProducersRefused: a damaged recording is named with what is wrong.
func TestProducersRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		root string
		want string
	}{
		{"flashinfer without tensors", func() string {
			root := flashInferTree(t, "completed")
			os.Remove(filepath.Join(root, "d/20261122_call/inputs.pt"))
			return root
		}(), "inputs.pt"},
		{"flashinfer without a key", func() string {
			root := flashInferTree(t, "completed")
			save(t, filepath.Join(root, "d/20261122_call/outputs.pt"), dict("result_1", floats(6)))
			return root
		}(), `outputs.pt: tensor "result_0" is missing`},
		{"flashinfer's log", writeFiles(t, map[string]string{"metadata.jsonl": `{"function_name": 3}`}), "JSON"},
		{"sglang", func() string {
			root := t.TempDir()
			save(t, filepath.Join(root, "step=0___name=x.pt"), floats(1))
			return root
		}(), "not a dict with the key value"},
		{"pass", func() string {
			root := t.TempDir()
			save(t, filepath.Join(root, "Pass1.pt"), floats(1))
			return root
		}(), "not a dict of module names"},
		{"trace leaves its root", traceTree(t, traceDefinitionText, strings.Replace(traceWorkloadText, "PATH",
			"../../etc/x", 1)), "leaves the data set"},
		{"trace without an axis", traceTree(t, strings.Replace(traceDefinitionText, `"n", "h"`, `"n", "z"`, 1),
			strings.Replace(traceWorkloadText, "PATH", "blob/w.safetensors", 1)), `axis "z" has no size`},
		{"trace of a giant", traceTree(t, traceDefinitionText, strings.NewReplacer("PATH", "blob/w.safetensors",
			`"n": 3`, `"n": 9223372036854775807`).Replace(traceWorkloadText)), "overflows"},
		{"trace without definition", traceTree(t, "{", traceWorkloadText), "definitions/rmsnorm/norm_h2.json: JSON"},
		{"trace line", traceTree(t, traceDefinitionText, `{"definition": "workload", "workload": 3}`), "line 1: JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, failures := entriesOf(t, tc.root, Options{})
			for _, e := range found {
				c, err := e.Load(LoadOptions{})
				c.Close()
				if err != nil {
					failures = append(failures, err.Error())
				}
			}
			if len(failures) == 0 || !strings.Contains(failures[0], tc.want) {
				t.Errorf("got %q, want %q", failures, tc.want)
			}
		})
	}
}

// fuzzTree reads every call of a tree.
func fuzzTree(t *testing.T, size int, root string) {
	fuzzcheck.Bounded(t, size, 1<<15, func() {
		for e, err := range Scan(context.Background(), []string{root}, Options{}) {
			fuzzcheck.Sentence(t, err)
			if err != nil {
				continue
			}
			c, err := e.Load(LoadOptions{})
			sentences(t, err)
			c.Inputs()
			c.Outputs()
			c.Close()
		}
	})
}

// sentences checks the errors of a call's files.
func sentences(t *testing.T, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			fuzzcheck.Sentence(t, err)
		}
	}
}

// FuzzFlashInfer reads a metadata.jsonl with sound tensors beside it.
func FuzzFlashInfer(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(flashInferLine, "\n", " ")))
	f.Fuzz(func(t *testing.T, b []byte) {
		root := flashInferTree(t, "completed")
		if err := os.WriteFile(filepath.Join(root, "d/20261122_call/metadata.jsonl"), b, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzzTree(t, len(b), root)
	})
}

// FuzzFlashInferTrace reads a definition and a workload.
func FuzzFlashInferTrace(f *testing.F) {
	f.Add(traceDefinitionText, strings.Replace(traceWorkloadText, "PATH", "blob/w.safetensors", 1))
	f.Fuzz(func(t *testing.T, definition, workload string) {
		fuzzTree(t, len(definition)+len(workload), traceTree(t, definition, workload))
	})
}

// FuzzSGLang reads a name of tags and a file that may be anything.
func FuzzSGLang(f *testing.F) {
	f.Add("step=1___rank=3___dump_index=7___name=x___layer_id=1.pt", []byte("PK"))
	f.Add("Pass00004.pt", []byte("PK"))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		if name == "" || strings.ContainsAny(name, "/\x00") || len(name) > 200 || name == "." || name == ".." {
			return
		}
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzzTree(t, len(name)+len(b), root)
	})
}

// TestForeignOrder: recordings of other tools that begin in one directory come in the order of their names, whatever
// that of the file system is.
func TestForeignOrder(t *testing.T) {
	root := t.TempDir()
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("step=0___rank=0___dump_index=%02d___name=x.pt", i)
		save(t, filepath.Join(root, name), dict("value", floats(1), "meta", dict()))
		want = append(want, name)
	}
	found, _ := entriesOf(t, root, Options{})
	var got []string
	for _, e := range found {
		got = append(got, e.Rel)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
