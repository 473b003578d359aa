package conformance

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// suiteCases are the cases of the embedded suite for some functions.
func suiteCases(t *testing.T, functions ...string) []*configs.Case {
	t.Helper()
	entries, err := Source{}.Entries("")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := configs.Expand(entries, func(f string) bool {
		return len(functions) == 0 || slices.Contains(functions, f)
	})
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestSuite generates the data of one case of every entry and function of the
// embedded suite, and finds it right.
func TestSuite(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	seen := map[string]bool{}
	for _, c := range suiteCases(t) {
		key := c.Name[:strings.LastIndex(c.Name, "_")]
		if seen[key] {
			continue
		}
		seen[key] = true
		if m := store.Generate(c, GenerateOptions{Seed: 1}); m.Err != nil {
			t.Errorf("%s: %v", c.Name, m.Err)
			continue
		}
		for _, r := range store.CheckRecorded(c, CheckOptions{Strict: true}) {
			if r.Verdict != verdict.Pass && r.Verdict != verdict.Skipped {
				t.Errorf("%s: %s %s: %s", c.Name, r.Target, r.Verdict, r.Reason)
			}
		}
		if _, grads, err := store.ReadOutput(c.Name); err == nil && grads != nil {
			for _, it := range grads.Items {
				if it.Value == nil {
					t.Errorf("%s: no gradient of %v", c.Name, it.Key)
				}
			}
		}
	}
}

// TestSuiteIsComplete finds cases for every function of the kit.
func TestSuiteIsComplete(t *testing.T) {
	entries, err := Source{}.Entries("")
	if err != nil {
		t.Fatal(err)
	}
	have := Functions(entries)
	for _, r := range diopi.Recipes() {
		if !slices.Contains(have, r.Function) {
			t.Errorf("%s has no cases", r.Function)
		}
	}
}

// TestModels expands the suites of all models, and of every function that they
// call generates the smallest case and finds it right.
func TestModels(t *testing.T) {
	names, err := Source{}.Models()
	if err != nil || len(names) != 43 {
		t.Fatalf("%d models, %v; want 43", len(names), err)
	}
	size := func(c *configs.Case) int {
		n := 0
		for _, a := range c.Args() {
			k := 1
			if shape, ok := a.Shape.(*value.Sequence); ok {
				for _, d := range shape.Items {
					if d, ok := d.(int64); ok {
						k *= int(d)
					}
				}
			}
			n += k
		}
		return n
	}
	smallest := map[string]*configs.Case{}
	for _, name := range names {
		entries, err := Source{}.Entries(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := configs.Expand(entries, nil)
		if err != nil || len(cases) < 50 {
			t.Fatalf("%s: %d cases, %v", name, len(cases), err)
		}
		for _, c := range cases {
			if s, ok := smallest[c.Function()]; !ok || size(c) < size(s) {
				smallest[c.Function()] = c
			}
		}
	}
	store := NewStore(t.TempDir(), "models")
	for function, c := range smallest {
		if _, ok := diopi.Find(function); !ok {
			t.Errorf("%s is no function of the kit", function)
		}
		if m := store.Generate(c, GenerateOptions{}); m.Err != nil {
			t.Errorf("%s: %v", c.Name, m.Err)
			continue
		}
		for _, r := range store.CheckRecorded(c, CheckOptions{Strict: true}) {
			if r.Verdict != verdict.Pass && r.Verdict != verdict.Skipped {
				t.Errorf("%s: %s %s: %s", c.Name, r.Target, r.Verdict, r.Reason)
			}
		}
	}
	if _, err := (Source{}).Entries("resnet51"); err == nil ||
		!strings.HasSuffix(err.Error(), `did you mean "resnet50"?`) {
		t.Errorf("resnet51: %v", err)
	}
}

// TestCheckRecorded plants an error in recorded data.
func TestCheckRecorded(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	c := suiteCases(t, "tanh")[2]
	if m := store.Generate(c, GenerateOptions{}); m.Err != nil || !m.Grads {
		t.Fatalf("%+v", m)
	}
	out, grads, err := store.ReadOutput(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	v := slices.Clone(tensor.Data[float64](out.(*tensor.Tensor)))
	v[3] += 0.1
	wrong := tensor.New(out.(*tensor.Tensor).DType, out.(*tensor.Tensor).Shape, v)
	if err := store.WriteOutput(c.Name, wrong, grads); err != nil {
		t.Fatal(err)
	}
	rs := store.CheckRecorded(c, CheckOptions{})
	if len(rs) != 2 || rs[0].Verdict != verdict.Fail || rs[0].WorstIndex != 3 || rs[1].Verdict != verdict.Pass {
		t.Errorf("%+v", rs)
	}
	if err := os.Remove(store.OutputPath(c.Name)); err != nil {
		t.Fatal(err)
	}
	if rs := store.CheckRecorded(c, CheckOptions{}); rs[0].Verdict != verdict.Skipped {
		t.Errorf("without a result: %+v", rs)
	}
}

func TestResume(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	c := suiteCases(t, "abs")[0]
	for i, kept := range []bool{false, true} {
		if m := store.Generate(c, GenerateOptions{Resume: true}); m.Kept != kept || m.Err != nil {
			t.Errorf("run %d: %+v", i, m)
		}
	}
	unfinished := filepath.Join(store.Dir, "inputs", "."+c.Name+".123")
	if err := os.WriteFile(unfinished, []byte("a killed run"), 0o644); err != nil {
		t.Fatal(err)
	}
	end, err := store.Begin([]*configs.Case{c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err == nil || !store.Has(c.Name) {
		t.Errorf("%s: %v, the case's data is there: %v", unfinished, err, store.Has(c.Name))
	}
	// What another run is about to write stays while that is at work.
	if err := os.WriteFile(unfinished, []byte("another run"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{true, false} {
		endOther, err := store.Begin([]*configs.Case{c})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(unfinished); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", unfinished, err, there)
		}
		endOther()
		if there {
			end()
		}
	}
	if names, err := filepath.Glob(filepath.Join(store.Dir, ".*")); err != nil || names != nil {
		t.Errorf("left are %v, %v", names, err)
	}
}

// TestTies takes other elements of a tie than the reference does for right where the
// operator does: each function draws zeros alone. The gradient goes where the recorded
// index points.
func TestTies(t *testing.T) {
	entries, err := configs.Parse("ties.py", []byte(`
import numpy as np
def ties(name, para, **more):
    return dict(name = [name], interface = ["torch"], dtype = [np.float32], para = para, tensor_para = dict(
        gen_fn = "Genfunc.zeros", args = [dict(ins = ["input"], shape = [(4,)], requires_grad = ["requires_backward" in more])]), **more)
entries = {
    "topk": ties("topk", dict(k = [2], sorted = [True]), requires_backward = [0]),
    "argmax": ties("argmax", dict(dim = [0])),
    "max": ties("max", dict(dim = [0]), requires_backward = [0]),
    "argsort": ties("argsort", dict(stable = [True])),
}
`), "entries")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := configs.Expand(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore(t.TempDir(), "")
	for _, tc := range []struct {
		function string
		indices  []int64
		want     verdict.Verdict
	}{
		{"topk", []int64{3, 0}, verdict.Pass},
		{"topk", []int64{3, 3}, verdict.Fail}, // twice the same
		{"topk", []int64{3, 4}, verdict.Fail}, // beyond the end
		{"argmax", []int64{0}, verdict.Pass},
		{"argmax", []int64{2}, verdict.Warn}, // torch documents the first
		{"argmax", []int64{4}, verdict.Fail},
		{"max", []int64{3}, verdict.Warn},
		{"argsort", []int64{0, 1, 2, 3}, verdict.Pass},
		{"argsort", []int64{0, 2, 1, 3}, verdict.Fail}, // of a stable sort
	} {
		c := cases[slices.IndexFunc(cases, func(c *configs.Case) bool { return c.Function() == tc.function })]
		if m := store.Generate(c, GenerateOptions{}); m.Err != nil {
			t.Fatal(m.Err)
		}
		out, grads, err := store.ReadOutput(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		at := &out
		if l, ok := out.(*value.Sequence); ok {
			at = &l.Items[1]
		}
		*at = tensor.New(tensor.Int64, (*at).(*tensor.Tensor).Shape, tc.indices)
		if grads != nil && tc.want != verdict.Fail {
			g := make([]float64, 4)
			for _, i := range tc.indices {
				g[i] = 1
			}
			grads.Items[0].Value = tensor.New(tensor.Float32, []int{4}, g)
		}
		if err := store.WriteOutput(c.Name, out, grads); err != nil {
			t.Fatal(err)
		}
		for _, strict := range []bool{false, true} {
			worst := verdict.Pass
			rs := store.CheckRecorded(c, CheckOptions{Strict: strict})
			for _, r := range rs {
				if r.Verdict != verdict.Pass {
					worst = r.Verdict
				}
			}
			if worst != tc.want {
				t.Errorf("%s %d, strict %v: %s, want %s: %+v", tc.function, tc.indices, strict, worst, tc.want, rs)
			}
		}
	}
}

func TestRandomCotangents(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	c := suiteCases(t, "softmax")[5]
	sum := func(random bool) (s float64) {
		if m := store.Generate(c, GenerateOptions{RandomCotangents: random}); m.Err != nil {
			t.Fatal(m.Err)
		}
		_, grads, err := store.ReadOutput(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range tensor.Data[float64](get(grads, "input").(*tensor.Tensor)) {
			s += math.Abs(v)
		}
		return s
	}
	if ones, random := sum(false), sum(true); ones > 1e-3 || random < 1e-2 {
		t.Errorf("gradients of softmax are %g for ones and %g for random cotangents", ones, random)
	}
}

// TestRecordedCotangents finds data with random cotangents right, and knows ones
// again after the data is made anew with them.
func TestRecordedCotangents(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	for _, random := range []bool{true, false} {
		for _, name := range []string{"softmax", "unique", "group_norm"} {
			c := suiteCases(t, name)[3]
			if m := store.Generate(c, GenerateOptions{RandomCotangents: random}); m.Err != nil {
				t.Fatal(m.Err)
			}
			for _, r := range store.CheckRecorded(c, CheckOptions{Strict: true}) {
				if r.Verdict != verdict.Pass {
					t.Errorf("%s, random %v: %s %s: %s", c.Name, random, r.Target, r.Verdict, r.Reason)
				}
			}
			from, err := store.ReadCotangents(c.Name)
			if err != nil || (from != nil) != (random && name != "unique") {
				t.Errorf("%s, random %v: cotangents %v, %v", c.Name, random, from, err)
			}
		}
	}
}

// A deadDevice answers every plan with an error.
type deadDevice struct{}

func (deadDevice) Run(context.Context, *diopi.Plan) (*devicebridge.Result, error) {
	return nil, errors.New("the device is gone")
}

func TestDeadDevice(t *testing.T) {
	store := NewStore(t.TempDir(), "")
	c := suiteCases(t, "abs")[0]
	if m := store.Generate(c, GenerateOptions{}); m.Err != nil {
		t.Fatal(m.Err)
	}
	rs := store.CheckDevice(t.Context(), deadDevice{}, c, CheckOptions{})
	if len(rs) != 1 || rs[0].Verdict != verdict.Error || !strings.Contains(rs[0].Reason, "the device is gone") {
		t.Errorf("%+v", rs)
	}
}

func TestStrided(t *testing.T) {
	x := tensor.New(tensor.Int32, []int{2, 3}, []int64{1, 2, 3, 4, 5, 6}).Rounded()
	y := strided(x, []int{1, 4})
	if !slices.Equal(y.Stride, []int{1, 4}) || !slices.Equal(tensor.Data[int64](y), tensor.Data[int64](x)) {
		t.Errorf("strides %v, elements %v", y.Stride, tensor.Data[int64](y))
	}
}

func TestNearest(t *testing.T) {
	known := []string{"add", "relu", "batch_norm"}
	for name, want := range map[string]string{"rleu": `; did you mean "relu"?`,
		"batchnorm": `; did you mean "batch_norm"?`, "xyzzyx": ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestOtherwise: a result that is right with another value of a switch says so.
func TestOtherwise(t *testing.T) {
	c := suiteCases(t, "rotary_emb")[0]
	x := tensor.New(tensor.Float32, []int{1, 2, 1, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8}).Rounded()
	half := func(v float64) *tensor.Tensor { return tensor.Full(tensor.Float32, []int{2, 1, 2}, v).Rounded() }
	kwargs := func(interleaved bool) *value.Dict {
		return &value.Dict{Items: []value.Item{{Key: "input", Value: x}, {Key: "cos", Value: half(0.5)},
			{Key: "sin", Value: half(0.25)}, {Key: "conj", Value: false}, {Key: "interleaved", Value: interleaved}}}
	}
	of := func(interleaved bool) value.Value {
		ref, err := reference.Compute(c, kwargs(interleaved), reference.Ones)
		if err != nil {
			t.Fatal(err)
		}
		return ref.Output
	}
	for _, tc := range []struct {
		got  value.Value
		want string
	}{{of(false), "; right with interleaved=False"}, {of(true), ""}, {x, "differ"}} {
		r := &run{function: "rotary_emb", opt: CheckOptions{}, rules: CheckOptions{}.rules(c)}
		got := value.NewList(tc.got)
		r.compare("forward", "output", got, of(true))
		r.otherwise(judged{c, kwargs(true), nil}, got)
		reason := r.results[0].Reason
		if strings.Contains(reason, "right with") != strings.HasPrefix(tc.want, "; ") ||
			!strings.Contains(reason, tc.want) {
			t.Errorf("got %q, want %q", reason, tc.want)
		}
	}
}

func TestDistributions(t *testing.T) {
	kwargs := func(pairs ...value.Value) *value.Dict {
		d := &value.Dict{}
		for i := 0; i < len(pairs); i += 2 {
			d.Items = append(d.Items, value.Item{Key: pairs[i], Value: pairs[i+1]})
		}
		return d
	}
	floats := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, v) }
	ints := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(v)}, v) }
	flat := make([]float64, 1000)
	spread := make([]float64, 1000)
	for i := range spread {
		spread[i] = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/1000-1)
	}
	for _, c := range []struct {
		function string
		kwargs   *value.Dict
		x        *tensor.Tensor
		reason   string
	}{
		{"randperm", kwargs("n", int64(3)), ints(2, 0, 1), ""},
		{"randperm", kwargs("n", int64(3)), ints(2, 0, 2), "no permutation"},
		{"randperm", kwargs("n", int64(4)), ints(2, 0, 1), "want 4"},
		{"uniform", kwargs("start", int64(0), "end", 1.0), floats(0, 0.5, 1), ""},
		{"uniform", kwargs("start", int64(0), "end", 1.0), floats(0, 1.5), "outside"},
		{"uniform", kwargs(), floats(flat...), "the mean is 0"},
		{"bernoulli", kwargs("p", 0.5), floats(0, 1), ""},
		{"bernoulli", kwargs("p", 0.5), floats(0.5), "want 0 or 1"},
		{"random", kwargs("start", int64(2), "end", int64(4)), floats(2, 3), ""},
		{"random", kwargs("start", int64(2), "end", int64(4)), floats(4), "outside"},
		{"normal", kwargs("mean", int64(0), "std", int64(1)), floats(spread...), ""},
		{"normal", kwargs("mean", int64(1), "std", int64(1)), floats(spread...), "the distribution is off"},
		{"normal", kwargs("mean", false, "std", true), floats(spread...), ""},
		{"normal", kwargs("mean", true, "std", true), floats(spread...), "the distribution is off"},
		{"multinomial", kwargs("input", floats(1, 1, 1), "num_samples", int64(2), "replacement", false),
			ints(0, 2), ""},
		{"multinomial", kwargs("input", floats(1, 1, 1), "num_samples", int64(2), "replacement", false), ints(1, 1),
			"drawn twice"},
		{"multinomial", kwargs("input", floats(1, 1, 1), "num_samples", int64(2), "replacement", true), ints(1, 3),
			"none of 3"},
		{"dropout", kwargs("input", floats(1, 2), "p", 0.5), floats(2, 0), ""},
		{"dropout", kwargs("input", floats(1, 2), "p", 0.5), floats(1, 0), "element 0 is 1"},
		{"dropout", kwargs("input", floats(1, 2), "p", 0.5, "training", false), floats(1, 2), ""},
	} {
		got := distributions[c.function](c.kwargs, c.x)
		if (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%s: %q, want %q", c.function, got, c.reason)
		}
	}
}
