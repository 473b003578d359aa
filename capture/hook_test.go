package capture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// hookRecording is the directory of a process in fixtures/hook; record.py beside it wrote it.
const hookRecording = "../fixtures/hook/rank1/4711-2026-11-22-12-00-00"

func scanned(t *testing.T, dir string) (entries []*capture.Entry, errs []error) {
	t.Helper()
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, errs
}

func hookEntry(t *testing.T, name string) *capture.Entry {
	t.Helper()
	entries, errs := scanned(t, hookRecording)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, e := range entries {
		if e.Call == name {
			return e
		}
	}
	t.Fatalf("no %s among %d calls", name, len(entries))
	return nil
}

func TestHookEntries(t *testing.T) {
	entries, errs := scanned(t, "../fixtures/hook")
	if len(errs) > 0 || len(entries) != 31 {
		t.Fatalf("%d calls, errors %v, want 31 and none", len(entries), errs)
	}
	e := entries[2]
	if e.Call != "torch.nn.functional.linear.2" {
		t.Fatalf("third call is %s", e.Call)
	}
	if e.Op != "torch.nn.functional.linear" || e.ID != 2 || e.PID != 4711 || e.Rank != 1 || e.Step != 0 ||
		e.Order != 2 || e.Module != "first" || e.Location != "/tmp/train/train.py:24" || e.Layout != capture.Hook ||
		e.Rel != "rank1/4711-2026-11-22-12-00-00/torch.nn.functional.linear.2" {
		t.Errorf("%+v", e)
	}
	if got := e.Files.String(); got != "input,output,grad_inputs,grad_outputs" {
		t.Errorf("files %s", got)
	}
	loss := hookEntry(t, "torch.nn.functional.cross_entropy.22")
	if e.BackwardOrder <= loss.BackwardOrder || loss.BackwardOrder <= loss.Order {
		t.Errorf("backward order: %d of the first layer, %d of the loss at %d", e.BackwardOrder, loss.BackwardOrder,
			loss.Order)
	}
}

// TestHookUnknown: None among gradients is one that was not recorded.
func TestHookUnknown(t *testing.T) {
	list, _ := scanned(t, hookRecording)
	seen := map[bool]int{}
	for _, e := range list {
		c, err := e.Load(capture.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		unknown := c.Unknown.Has(capture.GradInputs)
		if c.Has(capture.GradInputs) {
			seen[unknown]++
		}
		if unknown != slices.Contains(c.GradInputs, nil) || c.Unknown.Has(capture.Input) {
			t.Errorf("%s: gradients %v, unknown %s", e.Call, c.GradInputs, c.Unknown)
		}
		c.Close()
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("calls with and without unknown gradients: %v", seen)
	}
}

func TestHookCall(t *testing.T) {
	c, err := hookEntry(t, "torch.nn.functional.linear.2").Load(capture.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.ByOpTools || len(c.Args) != 3 || len(c.Output) != 1 || len(c.GradInputs) != 3 || len(c.GradOutputs) != 1 {
		t.Fatalf("%+v", c)
	}
	x, w := c.Args[0].(*tensor.Tensor), c.Args[1].(*tensor.Tensor)
	if !slices.Equal(x.Shape, []int{6, 8}) || !w.RequiresGrad || !w.Parameter || x.Parameter {
		t.Errorf("x %s, w %s", x.Meta(), w.Meta())
	}
	g := c.GradInputs[1].(*tensor.Tensor)
	if !slices.Equal(g.Shape, w.Shape) {
		t.Errorf("gradient of w: %s", g.Meta())
	}
}

// What is to be read of a call is what holds its tensors, each content once.
func TestHookParts(t *testing.T) {
	entries, _ := scanned(t, hookRecording)
	for _, e := range entries {
		c, err := e.Load(capture.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held := map[string]int64{}
		for _, vs := range [][]value.Value{c.Args, c.Output, c.GradInputs, c.GradOutputs, c.After, {c.Kwargs}} {
			for _, x := range value.Tensors(value.NewList(vs...)) {
				held[x.Storage().Key] = x.Storage().Len()
			}
		}
		c.Close()
		var want int64
		for _, n := range held {
			want += n
		}
		if got := e.Bytes(); got != want {
			t.Errorf("%s: %d bytes, its tensors have %d", e.Call, got, want)
		}
	}
}

// TestHookBytesOnce: how many bytes a call has is read from the recording once, since each command asks several times.
func TestHookBytesOnce(t *testing.T) {
	dir := altered(t, func(b []byte) []byte { return b })
	entries, _ := scanned(t, dir)
	had := make([]int64, len(entries))
	for i, e := range entries {
		had[i] = files.Bytes(e.Parts())
	}
	if err := os.Remove(filepath.Join(dir, "calls.jsonl")); err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if n := e.Bytes(); n != had[i] {
			t.Errorf("%s: %d bytes, its parts have %d", e.Call, n, had[i])
		}
	}
}

func TestHookArgumentsAfterTheCall(t *testing.T) {
	c, err := hookEntry(t, "torch.nn.functional.batch_norm.5").Load(capture.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.HasAfter || len(c.After) != len(c.Args) {
		t.Fatalf("%d arguments after the call, %d before", len(c.After), len(c.Args))
	}
	mean := func(vs []value.Value) float64 { return tensor.Data[float64](vs[1].(*tensor.Tensor))[0] }
	if before, after := mean(c.Args), mean(c.After); before != 0 || after == 0 {
		t.Errorf("running mean %g before, %g after", before, after)
	}
}

// TestHookMemory: a tensor that is given twice is one, another of the same values is not.
func TestHookMemory(t *testing.T) {
	for address, same := range map[string]bool{"7": true, "8": false} {
		dir := t.TempDir()
		calls := `{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"blob","n":0,"key":"k","file":0,"begin":0,"bytes":8}
{"event":"call","id":0,"name":"torch.Tensor.mul_","args":[{"tensor":0,"dtype":"float32","shape":[2],"ptr":7},` +
			`{"tensor":0,"dtype":"float32","shape":[2],"ptr":` + address + `}],"kwargs":{}}
{"event":"end"}
`
		for name, text := range map[string]string{"calls.jsonl": calls, "tensors-00000.safetensors": "12345678"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		found, errs := scanned(t, dir)
		if len(errs) > 0 || len(found) != 1 {
			t.Fatalf("%d calls, errors %v", len(found), errs)
		}
		c, err := found[0].Load(capture.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Args[0].(*tensor.Tensor).SameMemory(c.Args[1].(*tensor.Tensor)); got != same {
			t.Errorf("addresses 7 and %s: the same memory is %t", address, got)
		}
		c.Close()
	}
}

func TestHookStrides(t *testing.T) {
	c, err := hookEntry(t, "torch.Tensor.expand.11").Load(capture.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	y := c.Output[0].(*tensor.Tensor)
	if !slices.Equal(y.Shape, []int{2, 6, 16}) || !slices.Equal(y.Stride, []int{0, 16, 1}) {
		t.Errorf("shape %v, stride %v", y.Shape, y.Stride)
	}
	x := tensor.Data[float64](c.Args[0].(*tensor.Tensor))
	if got := tensor.Data[float64](y); !slices.Equal(got, append(slices.Clone(x), x...)) {
		t.Error("the expanded tensor has other elements")
	}
	if got, want := c.Args[1:], 2; len(got) != 3 || got[0] != int64(want) {
		t.Errorf("sizes %v", got)
	}
}

func TestHookAddresses(t *testing.T) {
	addresses := func(name string, k capture.Kind) capture.Addresses {
		c, err := hookEntry(t, name).Load(capture.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Addresses(k)
	}
	const linear = "torch.nn.functional.linear.2"
	in, out := addresses(linear, capture.Input), addresses(linear, capture.Output)
	if len(in) != 3 || in["args[1]"] == "" || out["args[0]"] == "" {
		t.Errorf("inputs %v, output %v", in, out)
	}
	relu := addresses("torch.Tensor.relu.3", capture.Input)
	if relu["args[0]"] != out["args[0]"] {
		t.Errorf("the result lies at %s, its reader found it at %s", out["args[0]"], relu["args[0]"])
	}
}

// altered copies the recording with its events changed.
func altered(t testing.TB, change func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(hookRecording)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "calls.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(b), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestHookCut: a file that ends before the last event gives the calls that are in it, and says that others are lost.
func TestHookCut(t *testing.T) {
	dir := altered(t, func(b []byte) []byte {
		at := bytes.Index(b, []byte(`{"event":"return","id":3,`))
		return b[:at+40]
	})
	entries, errs := scanned(t, dir)
	var damaged *capture.FileError
	if len(errs) != 1 || len(entries) != 4 || !errors.As(errs[0], &damaged) || damaged.Rel != "calls.jsonl" ||
		damaged.Reason() != "the recording ends inside a line: calls after id 3 are lost" {
		t.Fatalf("%d calls, errors %v, want 4 and one error", len(entries), errs)
	}
	if last := entries[3]; last.Files.Has(capture.Output) || !last.Files.Has(capture.Input) {
		t.Errorf("the call that was under way has %s", last.Files)
	}
	c, err := entries[3].Load(capture.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for want, change := range map[string]func([]byte) []byte{
		"the recording is empty":                                   func([]byte) []byte { return nil },
		"not whole: the recording ends inside a line: its calls":   func(b []byte) []byte { return b[:60] },
		"not whole: the recording ends inside a line: calls after": func(b []byte) []byte { return b[:len(b)-1] },
		"not whole: the recording has no end: calls after id ": func(b []byte) []byte {
			return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
		},
		"not whole: the recorded program was killed, crashed or called os._exit before the first call of step 1: " +
			"what follows is missing; step 0 is whole": died,
		"killed, crashed or called os._exit in step 0, after torch.Tensor.add_/30": func(b []byte) []byte {
			return died(bytes.Replace(b, []byte(`{"event":"step","step":1}`), []byte(`{}`), 1))
		},
		"; step 0 is whole; nothing of steps 2, 4-5": func(b []byte) []byte {
			return died(bytes.Replace(b, []byte(`"steps":null`), []byte(`"steps":[0,1,2,4,5]`), 1))
		},
		"the recorded program raised ValueError: device lost before the first call of step 1": func(b []byte) []byte {
			return beforeEnd(b, `{"event":"exception","error":"ValueError: device lost","step":1}`)
		},
	} {
		if _, errs := scanned(t, altered(t, change)); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("errors %v, want %q", errs, want)
		}
	}
	whole := altered(t, func(b []byte) []byte { return died(beforeEnd(b, `{"event":"pause","step":2}`)) })
	if found, errs := scanned(t, whole); len(errs) > 0 || found[0].Unended != "" {
		t.Errorf("a program that died after its recorded steps: %v", errs)
	}
}

// died makes a recording that of a program that died at its end.
func died(b []byte) []byte {
	return bytes.Replace(b, []byte(`"complete":true`), []byte(`"complete":false`), 1)
}

// beforeEnd adds an event before the last one.
func beforeEnd(b []byte, event string) []byte {
	at := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	return slices.Concat(b[:at], []byte(event+"\n"), b[at:])
}

// A recording is found whatever the order of the keys and however long its first line.
func TestHookKeysInAnotherOrder(t *testing.T) {
	want, errs := scanned(t, hookRecording)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	dir := altered(t, func(b []byte) []byte {
		var out []byte
		for line := range bytes.Lines(b) {
			var event map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&event); err != nil {
				t.Fatal(err)
			}
			if event["event"] == "run" {
				event["argv"] = []string{strings.Repeat("long ", 2000)}
			}
			sorted, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(out, sorted...), '\n')
		}
		return out
	})
	if got, errs := scanned(t, dir); len(errs) > 0 || len(got) != len(want) {
		t.Errorf("%d calls, errors %v, want %d and none", len(got), errs, len(want))
	}
	if err := loadAll(dir); err != "" {
		t.Error(err)
	}
}

func TestHookRefuses(t *testing.T) {
	sub := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   string // in the error of the walk, or of loading all calls
	}{
		{"version", sub(`"version":1`, `"version":2`), "line 1: version 2 of the format is not known"},
		{"no JSON from the start", sub(`"version":1`, `"version":`), "line 1: JSON"},
		{"not JSON", sub(`{"event":"step"`, `{"event"`), "line 2: JSON"},
		{"a call twice", sub(`"call","id":1,`, `"call","id":0,`), "call 0 appears twice"},
		{"a return of no call", sub(`"return","id":0`, `"return","id":99`), "return of call 99, whose own line is missing"},
		{"no operator", sub(`"torch.arange"`, `"../../etc"`), `"../../etc" is not the name of an operator`},
		{"a blob before the file", sub(`"begin":`, `"begin":-`), "is impossible"},
		{"a blob past the end", sub(`"begin":`, `"begin":9`), "reach past its end"},
		{"another file", sub(`"file":0`, `"file":7`), "tensors-00007.safetensors"},
		{"a larger shape", sub(`"shape":[6]`, `"shape":[600000]`), "reaches past its storage"},
		{"an overflowing shape", sub(`"shape":[6]`, `"shape":[4611686018427387904,8]`), "element count overflows"},
		{"a tensor never saved", sub(`"tensor":3,`, `"tensor":3000000,`), "tensor 3000000 was not saved"},
		{"an unknown kind", sub(`{"tensor":3,`, `{"lambda":3,`), `"lambda" is not a kind of value`},
		{"a gradient of no tensor", sub(`"grad_input","id":22,"i":0`, `"grad_input","id":22,"i":9`), "gradient of tensor 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := loadAll(altered(t, c.change)); !strings.Contains(err, c.want) {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}

// loadAll loads every call below dir and reads its tensors; it returns the errors.
func loadAll(dir string) string {
	var said []string
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			said = append(said, err.Error())
			continue
		}
		c, err := e.Load(capture.LoadOptions{})
		if err != nil {
			said = append(said, err.Error())
		}
		for _, x := range append(c.Inputs(), c.Outputs()...) {
			x.Meta()
		}
		c.Addresses(capture.Input)
		c.Close()
	}
	return strings.Join(said, "\n")
}

// TestHookArrays: an array of numpy is a tensor that is not counted among those of the call.
func TestHookArrays(t *testing.T) {
	dir := t.TempDir()
	calls := `{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"blob","n":0,"key":"a","file":0,"begin":0,"bytes":8}
{"event":"blob","n":1,"key":"b","file":0,"begin":8,"bytes":8}
{"event":"call","id":0,"name":"torch.f","args":[{"array":0,"dtype":"float64","shape":[]},{"tensor":1,"dtype":"float32","shape":[2]}],"kwargs":{}}
{"event":"return","id":0,"result":null,"after":{"0":{"tensor":0,"dtype":"float32","shape":[2]}}}
{"event":"end"}
`
	for name, b := range map[string]string{"calls.jsonl": calls, "tensors-00000.safetensors": "\x00\x00\x00\x00\x00\x00\x04\x40" +
		"\x00\x00\x80\x3f\x00\x00\x00\x40"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Load(capture.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x, y := c.Args[0].(*tensor.Tensor), c.Args[1].(*tensor.Tensor)
		if x.Item() != 2.5 || y.Meta() != "float32[2]" || c.Err(capture.Output) != nil {
			t.Errorf("got %v and %v, error %v", x.Item(), y.Meta(), c.Err(capture.Output))
		}
		c.Close()
	}
}

// TestHookTypes: a type of Python is known by its name, as in a pickle.
func TestHookTypes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "calls.jsonl"), []byte(`{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"call","id":0,"name":"torch.zeros","args":[2],"kwargs":{"dtype":{"object":"builtins.type","text":"<class 'int'>"},`+
		`"device":{"object":"builtins.type","text":"<class 'numpy.float32'>"}}}
{"event":"end"}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		c, _ := e.Load(capture.LoadOptions{})
		var got []string
		for _, it := range c.Kwargs.Items {
			got = append(got, it.Value.(*value.Opaque).Global)
		}
		if want := []string{"builtins.int", "builtins.type"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzHook(f *testing.F) {
	b, err := os.ReadFile(filepath.Join(hookRecording, "calls.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	f.Add(bytes.Join(lines[:12], nil))
	f.Add([]byte(`{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"call","id":0,"name":"torch.f","args":[{"tuple":[1,2.5,{"float":"inf"}]},{"slice":[null,1,2]},{"dict":[["a",1]]}],"kwargs":{}}
{"event":"return","id":0,"result":{"object":"x.Y","text":"z"},"after":{"0":{"tensor":1}}}
`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "calls.jsonl"), b, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzzcheck.Bounded(t, len(b), 1<<14, func() {
			for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
				fuzzcheck.Sentence(t, err)
				if err != nil {
					continue
				}
				c, _ := e.Load(capture.LoadOptions{})
				for _, k := range capture.Kinds() {
					fuzzcheck.Sentence(t, c.Err(k))
				}
				c.Close()
			}
		})
	})
}

// TestHookNestedCollective: earlier hooks recorded a collective and the function of the same purpose that it calls.
func TestHookNestedCollective(t *testing.T) {
	dir := t.TempDir()
	lines := `{"event":"run","format":"optool-capture","version":1,"rank":0,"pid":1}
{"event":"call","id":0,"name":"torch.distributed.all_reduce","group":[0],"args":[1],"kwargs":{}}
{"event":"call","id":1,"name":"torch.distributed.distributed_c10d.all_reduce","args":[1],"kwargs":{}}
{"event":"return","id":1,"result":null}
{"event":"return","id":0,"result":null}
{"event":"call","id":2,"name":"torch.distributed.distributed_c10d.isend","args":[1],"kwargs":{}}
{"event":"return","id":2,"result":null}
{"event":"end"}
`
	for name, text := range map[string]string{"calls.jsonl": lines, "tensors-00000.safetensors": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, errs := scanned(t, dir)
	var ids []int
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	if len(errs) > 0 || !slices.Equal(ids, []int{0, 2}) {
		t.Errorf("calls %v, errors %v, want 0 and 2", ids, errs)
	}
}
