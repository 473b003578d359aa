package capture

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const fixtures = "../fixtures/captures"

// find returns the first entry below a tree of the fixtures that ends in rel.
func find(t *testing.T, path string) *Entry {
	t.Helper()
	for e, err := range Scan(context.Background(), []string{filepath.Join(fixtures, path)}, Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatalf("no capture under %s", path)
	return nil
}

// kinds names what values are: "float32[2, 3]" or Python's str.
func kinds(vs []value.Value) []string {
	out := []string{}
	for _, v := range vs {
		if t, ok := v.(*tensor.Tensor); ok {
			out = append(out, t.Meta())
		} else {
			out = append(out, value.Str(v))
		}
	}
	return out
}

func TestLoad(t *testing.T) {
	type call struct {
		Op, Kwargs                            string
		Args, Output, GradInputs, GradOutputs []string
	}
	none := []string{}
	for _, tc := range []struct {
		path string
		side Side
		want call
	}{
		{"v1/op_capture_result/0/2024-08-06--11-41/torch.Tensor.__setitem__", Device, call{
			"torch.Tensor.__setitem__", "{}",
			[]string{"float32[1, 36]", "(0, slice(None, None, 3))", "1.5"}, []string{"None"}, none, none,
		}},
		{"v1/op_capture_result/0/2024-08-06--11-41/torch.nn.functional.relu", Device, call{
			"torch.nn.functional.relu", "{'inplace': True}",
			[]string{"float32[2, 8, 3, 3]"}, []string{"float32[2, 8, 3, 3]"}, []string{"float32[2, 8, 3, 3]"},
			[]string{"float32[2, 8, 3, 3]"},
		}},
		{"v2/op_capture_result/torch.Tensor.div", Device, call{
			"torch.Tensor.div", "{}",
			[]string{"float32[2, 4, 12, 12]", "2.8284271247461903"}, []string{"float32[2, 4, 12, 12]"},
			[]string{"float32[2, 4, 12, 12]", "None"}, []string{"float32[2, 4, 12, 12]"},
		}},
		{"v2b/op_capture_result/torch.Tensor.split", Device, call{
			"torch.Tensor.split", "{'dim': -1}",
			[]string{"float32[2, 6, 24]", "8"},
			[]string{"(tensor(float32[2, 6, 8]), tensor(float32[2, 6, 8]), tensor(float32[2, 6, 8]))"},
			[]string{"float32[2, 6, 24]"}, []string{"float32[2, 6, 8]", "float32[2, 6, 8]", "float32[2, 6, 8]"},
		}},
		{"autocompare-v0/op_capture_result/2024-08-02--16-31/1915529/torch.Tensor.permute", Host, call{
			"torch.Tensor.permute", "{}",
			[]string{"float32[2, 6, 8]", "0", "2", "1"}, []string{"float32[2, 8, 6]"}, none, none,
		}},
		{"detection/op_tools_results/op_capture_results/torch.sort", Device, call{
			"torch.sort", "{'dim': 1, 'descending': True}",
			[]string{"float32[1, 36]"},
			[]string{"torch.return_types.sort(\nvalues=tensor(float32[1, 36]),\nindices=tensor(int64[1, 36]))"},
			[]string{"float32[1, 36]"}, []string{"float32[1, 36]"},
		}},
	} {
		t.Run(tc.path, func(t *testing.T) {
			c, err := find(t, tc.path).Load(LoadOptions{Side: tc.side})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := call{c.Op, value.Str(c.Kwargs), kinds(c.Args), kinds(c.Output), kinds(c.GradInputs),
				kinds(c.GradOutputs)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	c, err := find(t, "bad/half-capture").Load(LoadOptions{})
	t.Cleanup(func() { c.Close() })
	var fe *FileError
	if !errors.As(err, &fe) || fe.Path != "output.pth" ||
		fe.Reason() != "truncated zip: no end-of-central-directory record" {
		t.Errorf("Load of a truncated output: error %v", err)
	}
	if !c.Has(Input) || len(c.Args) != 1 {
		t.Errorf("Load of a truncated output: the call was lost: %v", kinds(c.Args))
	}
	if err := c.Err(Output); err == nil || errors.Is(err, ErrNoFile) {
		t.Errorf("Err(Output) = %v, want the file's error", err)
	}

	c, err = find(t, "bad/output-only").Load(LoadOptions{})
	t.Cleanup(func() { c.Close() })
	if err != nil {
		t.Errorf("Load without input.pth: %v", err)
	}
	if err := c.Err(Input); !errors.Is(err, ErrNoFile) || err.Error() != "no input.pth: capture is incomplete" {
		t.Errorf("Err(Input) without input.pth = %v", err)
	}
	if !c.HasOutput {
		t.Error("Load without input.pth: the output was lost")
	}
}

func TestParseRecord(t *testing.T) {
	dict := func(kv ...any) *value.Dict {
		d := &value.Dict{}
		for i := 0; i < len(kv); i += 2 {
			d.Items = append(d.Items, value.Item{Key: kv[i], Value: kv[i+1]})
		}
		return d
	}
	for _, tc := range []struct {
		name string
		root value.Value
		want string // error, "" for none
	}{
		{"tuple", dict("name", "torch.add", "args", value.NewTuple()), ""},
		{"list", dict("name", "torch.add", "args", value.NewList(int64(1)), "kwargs", nil), ""},
		{"not a dict", value.NewList(), "not a capture: not a dict"},
		{"checkpoint", dict("w", int64(1)), "not a capture: keys name and args missing"},
		{"no args", dict("name", "torch.add"), "not a capture: key args missing"},
		{"no name", dict("args", value.NewTuple()), "not a capture: key name missing"},
		{"name", dict("name", int64(1), "args", value.NewTuple()), "not a capture: op name is not a string"},
		{"args", dict("name", "torch.add", "args", "x"), "not a capture: args is not a tuple"},
		{"set", dict("name", "torch.add", "args", &value.Sequence{Kind: value.Set}),
			"not a capture: args is not a tuple"},
		{"kwargs", dict("name", "torch.add", "args", value.NewTuple(), "kwargs", int64(1)),
			"not a capture: kwargs is not a dict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseRecord(tc.root)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("ParseRecord: error %q, want %q", got, tc.want)
			}
			if err != nil && !errors.Is(err, ErrNotCapture) {
				t.Errorf("ParseRecord: %v does not wrap ErrNotCapture", err)
			}
		})
	}
}

// TestNested tells (args, kwargs) of old layouts from calls that take a tuple
// and a dict.
func TestNested(t *testing.T) {
	args := []value.Value{value.NewTuple(int64(1)), &value.Dict{}}
	for _, tc := range []struct {
		identifier string
		layout     Layout
		want       bool
	}{
		{"8/input", V1, true},
		{"device_input", AutocompareV0, true},
		{"8/input", Directory, true},
		{"8/input", V2, false},
		{"8/2024-10-24-10-00-00/input", Directory, false},
		{"8/2024-10-24-10-00-00/input", Current, false},
		{"torch.f/1", Directory, false},
	} {
		r := &Record{Name: "torch.f", Args: args, Kwargs: &value.Dict{}, Identifier: tc.identifier}
		if got := r.nested(tc.layout); got != tc.want {
			t.Errorf("nested(%q in %s) = %t, want %t", tc.identifier, tc.layout, got, tc.want)
		}
	}
}

func addresses(t *testing.T, e *Entry, k Kind) Addresses {
	t.Helper()
	c, _ := e.Load(LoadOptions{}) // what is not a capture may lie beside addresses
	defer c.Close()
	return c.Addresses(k)
}

func TestAddresses(t *testing.T) {
	e := find(t, "v1/op_capture_result/0/2024-08-06--11-41/torch.nn.functional.relu")
	a := addresses(t, e, Input)
	if len(a) != 1 || a["args[0]"] == "" {
		t.Errorf("Addresses of a nested call = %v, want that of args[0]", a)
	}
	root := tree(t, "x/input.pth", "x/input.pth.json")
	for _, text := range []string{"", "{", "[]", `{"args": 1}`, `{"args": [{"data_ptr": "x"}]}`} {
		if err := os.WriteFile(filepath.Join(root, "x/input.pth.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for e := range Scan(context.Background(), []string{root}, Options{}) {
			if a := addresses(t, e, Input); len(a) != 0 {
				t.Errorf("Addresses of %q = %v, want none", text, a)
			}
		}
	}
}

// TestMemoriesBesideAFile: what the hook's export adds to op_tools' keys.
func TestMemoriesBesideAFile(t *testing.T) {
	root := tree(t, "x/input.pth", "x/input.pth.json")
	text := `{"args": ["1", [{"data_ptr": 64, "version": 3, "name": "w"}, {"data_ptr": 128}]]}`
	if err := os.WriteFile(filepath.Join(root, "x/input.pth.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for e := range Scan(context.Background(), []string{root}, Options{}) {
		c, _ := e.Load(LoadOptions{})
		defer c.Close()
		want := map[string]Memory{"args[1][0]": {"64", 3, "w", ""}, "args[1][1]": {"128", -1, "", ""}}
		if got := c.Memories(Input); !maps.Equal(got, want) {
			t.Errorf("Memories = %v, want %v", got, want)
		}
	}
}

// TestShare: arguments at one address are one memory if they hold the same.
func TestShare(t *testing.T) {
	of := func(elements ...byte) *tensor.Tensor {
		x, err := tensor.NewView(tensor.NewStorage(elements), tensor.View{DType: tensor.Uint8, Shape: []int{2},
			Stride: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a, out, list := of(1, 2), of(1, 2), value.NewList(of(1, 2), of(3, 4))
	c := &Call{Args: []value.Value{a, list}, Kwargs: &value.Dict{Items: []value.Item{{Key: "out", Value: out}}}}
	c.share(map[string]Memory{"args[0]": {Address: "64"}, "args[1][0]": {Address: "128"},
		"args[1][1]": {Address: "64"}, "kwargs.out": {Address: "64"}})
	if !a.SameMemory(out) {
		t.Error("out= is not the argument at its address")
	}
	for _, v := range list.Items {
		if v.(*tensor.Tensor).SameMemory(a) {
			t.Errorf("%v is the argument of another address or other elements", v)
		}
	}
}

// TestUnseenAfter: None among the arguments after a call is a tensor that the recorder did not look at.
func TestUnseenAfter(t *testing.T) {
	a, b, changed := &tensor.Tensor{}, &tensor.Tensor{}, &tensor.Tensor{}
	dict := func(v value.Value) *value.Dict { return &value.Dict{Items: []value.Item{{Key: "out", Value: v}}} }
	c := &Call{}
	c.set(Input, &Record{Args: []value.Value{value.NewList(a, b), int64(1)}, Kwargs: dict(b)})
	c.set(After, &Record{Args: []value.Value{value.NewList(nil, changed), int64(1)}, Kwargs: dict(nil)})
	after := value.Tensors(value.NewTuple(value.NewTuple(c.After...), c.AfterKwargs))
	if !slices.Equal(after, []*tensor.Tensor{a, changed, b}) || !c.Unseen[a] || c.Unseen[changed] || !c.Unseen[b] {
		t.Errorf("after the call %v, not looked at %v", after, c.Unseen)
	}
}

func TestPatterns(t *testing.T) {
	const long = "torch.Tensor.__bool__,torch.Tensor.to,torch.cat"
	for _, tc := range []struct {
		list, op string
		want     bool
	}{
		{"torch.addc,torch.sub", "torch.add", false},
		{"torch.addc,torch.sub", "torch.addc", true},
		{"torch.add,torch.sub", "torch.addc", false},
		{"torch.addc,torch.sub", "torch.sub", true},
		{".*", "torch.subc", true},
		{"torch.add,.*", "torch.subc", true},
		{"", "torch.subc", false},
		{`torch\.nn\..*`, "torch.nn.functional.relu", true},
		{`nn\..*`, "torch.nn.functional.relu", false},
		{"torch.add|torch.sub", "torch.sub", true},
		{long, "torch.Tensor.__bool__", true},
		{long, "conv2d", false},
	} {
		p, err := ParsePatterns(tc.list)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second answer comes from the cache
			if got := p.Match(tc.op); got != tc.want {
				t.Errorf("Match(%q, %q) = %t, want %t", tc.list, tc.op, got, tc.want)
			}
		}
	}
	if _, err := ParsePatterns("torch.("); err == nil {
		t.Error("ParsePatterns accepted an open parenthesis")
	}
}

// TestGradientsInATuple: layouts whose identifiers name no time stored all gradients in one.
func TestGradientsInATuple(t *testing.T) {
	for identifier, want := range map[string]int{"8/grad_inputs": 2, "8/2024-09-20-10-00-00/grad_inputs": 1} {
		r := &Record{Name: "torch.add", Identifier: identifier, Kwargs: &value.Dict{},
			Args: []value.Value{value.NewTuple(1.0, 2.0)}}
		if r.flatten(GradInputs, V2); len(r.Args) != want {
			t.Errorf("%s: %d gradients, want %d", identifier, len(r.Args), want)
		}
	}
}
