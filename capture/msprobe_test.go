package capture

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// writeFiles writes text files below a new directory and returns it.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// entries scans a path and gives what was found, with errors as text.
func entriesOf(t testing.TB, path string, opt Options) (found []*Entry, failures []string) {
	t.Helper()
	for e, err := range Scan(context.Background(), []string{path}, opt) {
		if err != nil {
			failures = append(failures, err.Error())
			continue
		}
		found = append(found, e)
	}
	return found, failures
}

const msprobeSample = `{"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "/elsewhere", "data": {
 "Functional.silu.0.forward": {
  "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 2.0, "Min": 1.0,
    "Mean": 1.5, "Norm": 2.2, "requires_grad": true, "data_name": "x.pt"}],
  "input_kwargs": {"inplace": {"type": "bool", "value": false}},
  "output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": NaN, "Min": -Infinity,
    "Mean": null, "Norm": Infinity, "requires_grad": true, "md5": "0a1b2c3d"}]},
 "Module.blocks.0.mlp.MLP.forward.0": {"input_args": [], "input_kwargs": {}, "output": [],
  "parameters": {"weight": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [0, 4], "requires_grad": true}}},
 "Torch.topk.1.forward": {
  "input_args": [{"type": "int", "value": 3}, {"type": "float", "value": Infinity}, {"type": "float", "value": 2},
    {"type": "str", "value": "NaN"}, null, {}, {"type": "slice", "value": [null, 4, 2]},
    {"type": "torch.Size", "value": [2, 3]}, {"type": "ellipsis", "value": "..."},
    [{"type": "int", "value": 1}, {"type": "bool", "value": true}], {"type": "int64", "value": 7},
    {"type": "torch.distributed.ReduceOp", "value": "SUM"}],
  "input_kwargs": {"dtype": {"type": "torch.dtype", "value": "torch.bfloat16"},
    "device": {"type": "torch.device", "value": "npu:1"},
    "memory_format": {"type": "torch.memory_format", "format": "channels_last"}},
  "output": [{"type": "int", "value": 1}, {"type": "int", "value": 2}]},
 "Functional.silu.0.backward": {"input": [null], "output": [{"type": "float", "value": NaN}]},
 "Module.blocks.0.mlp.MLP.parameters_grad.0": {"weight": [{"type": "int", "value": 9}]},
 "Module.blocks.0.mlp.MLP.backward.0": {"input": [], "output": [{"type": "int", "value": 8}]},
 "unlike any": 3
}}`

func msprobeTree(t testing.TB, dump string) string {
	t.Helper()
	root := writeFiles(t, map[string]string{
		"step2/rank3/dump.json": dump,
		"step2/rank3/stack.json": `{"0": [["Functional.silu.0.forward", "other"],
			["File /usr/lib/site-packages/torch/nn/functional.py, line 5, in silu, \n x", "File /home/u/train.py, line 45, in f, \n y"]]}`,
		"step2/rank3/construct.json": `{"Functional.silu.0.forward": "Module.blocks.0.mlp.MLP.forward.0",
			"Module.blocks.0.mlp.MLP.forward.0": null}`,
	})
	dir := filepath.Join(root, "step2/rank3/dump_tensor_data")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := pthformat.WriteFile(filepath.Join(dir, "x.pt"), tensor.New(tensor.Float32, []int{2},
		[]float64{1, 2})); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestMSProbe(t *testing.T) {
	root := msprobeTree(t, msprobeSample)
	found, failures := entriesOf(t, root, Options{Loose: true})
	if len(found) != 3 || len(failures) > 0 {
		t.Fatalf("%d entries, want 3; %v", len(found), failures)
	}
	silu, module, topk := found[0], found[1], found[2]
	if silu.Rel != "step2/rank3/Functional.silu.0" || silu.Op != "torch.nn.functional.silu" || silu.Rank != 3 ||
		silu.Step != 2 || silu.Order != 0 || silu.BackwardOrder != 3 || silu.Module != "blocks.0.mlp" ||
		silu.Location != "/home/u/train.py:45" || silu.NotRun() != "" || silu.Layout != MSProbe {
		t.Errorf("silu: %+v", silu)
	}
	if module.NotRun() == "" || module.Op != "Module.MLP" || module.Module != "blocks.0.mlp" || module.Order != 1 {
		t.Errorf("module: %+v", module)
	}
	if silu.Bytes() < 8 {
		t.Errorf("%d bytes", silu.Bytes())
	}
	c, err := silu.Load(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := c.Args[0].(*tensor.Tensor)
	if got := tensor.Data[float64](x); !slices.Equal(got, []float64{1, 2}) || !x.RequiresGrad || !c.ByOpTools {
		t.Errorf("argument %v, requires_grad %v", got, x.RequiresGrad)
	}
	out := c.Output[0].(*tensor.Tensor).Summary()
	if out == nil || !math.IsNaN(*out.Max) || !math.IsInf(*out.Min, -1) || out.Mean != nil ||
		!math.IsInf(*out.Norm, 1) || out.Checksum != "0a1b2c3d" {
		t.Errorf("statistics of the result: %+v", out)
	}
	if len(c.GradOutputs) != 1 || c.GradOutputs[0] != nil || !math.IsNaN(c.GradInputs[0].(float64)) {
		t.Errorf("gradients %v, %v", c.GradOutputs, c.GradInputs)
	}
	m, err := module.Load(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if w, ok := m.Kwargs.Get("weight"); !ok || w.(*tensor.Tensor).Meta() != "float32[0, 4]" {
		t.Errorf("parameters: %v", m.Kwargs)
	}
	if value.Str(value.NewTuple(m.GradInputs...)) != "(8, 9)" {
		t.Errorf("gradients of a module: %v", m.GradInputs)
	}
	k, err := topk.Load(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if got, want := value.Str(value.NewTuple(k.Args...)), "(3, inf, 2.0, 'NaN', None, <object: msprobe does not record this value "+
		"(a dtype or device given by position, or an object)>, slice(None, 4, 2), torch.Size([2, 3]), Ellipsis, "+
		"[1, True], 7, <torch.distributed.ReduceOp: value of torch.distributed.ReduceOp>)"; got != want {
		t.Errorf("arguments %s\nwant      %s", got, want)
	}
	if got, want := value.Str(k.Kwargs), "{'dtype': torch.bfloat16, 'device': device(type='npu', index=1), "+
		"'memory_format': torch.channels_last}"; got != want {
		t.Errorf("keywords %s\nwant     %s", got, want)
	}
	if value.Str(k.Output[0]) != "(1, 2)" || !k.Unknown.Has(Input) {
		t.Errorf("several results: %s, unknown %v", value.Str(k.Output[0]), k.Unknown)
	}
}

// TestMSProbePath: a call is named by its path in a dump, and a dump by its file.
func TestMSProbePath(t *testing.T) {
	root := msprobeTree(t, msprobeSample)
	one, failures := entriesOf(t, filepath.Join(root, "step2/rank3/Torch.topk.1"), Options{})
	if len(one) != 1 || one[0].Rel != "." || one[0].Op != "torch.topk" {
		t.Errorf("a call by its path: %v, %v", one, failures)
	}
	if all, _ := entriesOf(t, filepath.Join(root, "step2/rank3/dump.json"), Options{}); len(all) != 3 ||
		all[0].Rel != "Functional.silu.0" {
		t.Errorf("a dump by its file: %v", all)
	}
	if none, failures := entriesOf(t, filepath.Join(root, "step2/rank3/Torch.topk.9"), Options{}); len(none) != 0 ||
		len(failures) != 1 {
		t.Errorf("a call that is not there: %v, %v", none, failures)
	}
}

// TestMSProbeOps: names of operators by package.
func TestMSProbeOps(t *testing.T) {
	for key, want := range map[string]string{
		"Functional.silu.0.forward":                    "torch.nn.functional.silu",
		"Torch.linalg.norm.0.forward":                  "torch.linalg.norm",
		"Tensor.__mul__.9.forward":                     "torch.Tensor.__mul__",
		"NPU.npu_fusion_attention.0.forward":           "torch_npu.npu_fusion_attention",
		"Distributed.all_reduce.0.forward":             "torch.distributed.all_reduce",
		"Module.blocks.0.mlp.down.Linear.forward.0":    "Module.Linear",
		"Other.x.0.forward":                            "Other.x",
		"Module.blocks.0.mlp.Linear.parameters_grad.1": "Module.Linear",
	} {
		prefix, count, _, ok := msprobeKey(key)
		c := msprobeCall{dump: &msprobeDump{framework: "pytorch"}, prefix: prefix, count: count}
		if !ok || c.op() != want {
			t.Errorf("%s is %s, want %s", key, c.op(), want)
		}
	}
	for _, key := range []string{"", "a.b", "Functional.silu.x.forward", "Functional.silu.0.sideways"} {
		if _, _, _, ok := msprobeKey(key); ok {
			t.Errorf("%q is the key of a call", key)
		}
	}
}

// TestMSProbeRefused: what is wrong with a dump is said, and the calls before it
// are there.
func TestMSProbeRefused(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"cut off", `"unlike any": 3`, `"Torch.a.0.forward": {"input_args"`, "dump.json: "},
		{"no data", `"data": {`, `"date": {`, "key data missing"},
		{"escape", `"x.pt"`, `"../../x.pt"`, "not the name of a file beside it"},
		{"missing file", `"x.pt"`, `"y.pt"`, "y.pt"},
		{"other shape", `"shape": [2], "Max": 2.0`, `"shape": [3], "Max": 2.0`, "x.pt holds float32[2], dump.json says float32[3]"},
		{"huge", `"shape": [0, 4]`, `"shape": [9223372036854775807, 4]`, "overflows"},
		{"bare", `[{"type": "int", "value": 3}`, `[3`, "a bare"},
		{"deep", `"input_args": [{"type": "int", "value": 3}`, `"input_args": [` + strings.Repeat("[", 200) +
			strings.Repeat("]", 200), "nests deeper"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.Contains(msprobeSample, tc.old) {
				t.Fatalf("no %q in the sample", tc.old)
			}
			root := msprobeTree(t, strings.Replace(msprobeSample, tc.old, tc.new, 1))
			found, failures := entriesOf(t, root, Options{})
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

// FuzzMSProbe reads a dump.json and every call in it.
func FuzzMSProbe(f *testing.F) {
	f.Add([]byte(msprobeSample))
	f.Add([]byte(`{"task": "statistics", "level": "L1", "data": {"Torch.a.0.forward": {"output": [NaN, -Infinity, "N"]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "dump.json"), b, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzzTree(t, len(b), dir)
	})
}

func TestPlainJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[NaN, Infinity, -Infinity, -1]`: `["N", "Infini", "-Infini", -1]`,
		`{"NaN": "Infinity \" NaN"}`:     `{"NaN": "Infinity \" NaN"}`,
		`"cut off NaN`:                   `"cut off NaN`,
		`Na`:                             `Na`,
	} {
		if got := string(plainJSON([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
