package configs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func load(t *testing.T, name string) *value.Dict {
	t.Helper()
	d, err := Load("testdata/entries.py", name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func expand(t *testing.T) []*Case {
	t.Helper()
	cases, err := Expand(load(t, "entries"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func find(t *testing.T, cases []*Case, name string) *Case {
	t.Helper()
	i := slices.IndexFunc(cases, func(c *Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	return cases[i]
}

func TestExpandCounts(t *testing.T) {
	got := map[string]int{}
	for _, c := range expand(t) {
		got[c.Name[:strings.LastIndex(c.Name, "_")]]++
	}
	want := map[string]int{"pair::add": 6, "pair::sub": 6, "sparse::spmm": 4, "numbers::arange": 3, "value::index": 10}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d cases, want %d", key, got[key], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("cases of %v, want those of %v", got, want)
	}
}

// TestExpandItem compares items with what DIOPI's rules make of them, key for
// key and in order.
func TestExpandItem(t *testing.T) {
	cases := expand(t)
	const head = "{'atol': 0.001, 'rtol': 1e-05, 'atol_half': 0.01, 'rtol_half': 0.05, 'mismatch_ratio_threshold': " +
		"0.001, " +
		"'memory_format': 'NCHW', 'fp16_exact_match': False, 'train': True, 'gen_policy': 'dafault', "
	for name, want := range map[string]string{
		"pair::add_3.pth": head + "'name': 'add', 'interface': ['torch'], 'para': {'alpha': 1}, 'tensor_para': {" +
			"'gen_fn': {'fn': 'Genfunc.uniform', 'low': 0, 'high': 2}, 'args': [" +
			"{'ins': 'input', 'shape': (2, 3), 'requires_grad': [True], 'stride': [(4, 1), None], 'sparse': " +
			"[False], 'gen_num_range': [], " +
			"'dtype': torch.int64, 'gen_fn': {'fn': 'Genfunc.uniform', 'low': 0, 'high': 2}, 'gen_policy': " +
			"'default', 'inputstride': (4, 1)}, " +
			"{'ins': 'other', 'shape': (3,), 'gen_fn': 'Genfunc.mask', 'dtype': torch.bool, 'requires_grad': " +
			"[False], 'sparse': [False], 'gen_num_range': [], 'gen_policy': 'default'}, " +
			"{'ins': 'third', 'shape': (3,), 'gen_fn': 'Genfunc.mask', 'dtype': torch.bool, 'requires_grad': " +
			"[False], 'sparse': [False], 'gen_num_range': [], 'gen_policy': 'default'}" +
			"], 'seq_name': ''}, 'requires_backward': [], 'tag': [], 'saved_args': {}}",
		"numbers::arange_2.pth": strings.Replace(head, "0.001", "1e-05", 1) +
			"'name': 'arange', 'para': {'end': slice(0, 3, None)}, " +
			"'tensor_para': {'args': [], 'seq_name': ''}, 'requires_backward': [], 'tag': [], 'saved_args': {}, " +
			"'interface': []}",
	} {
		if got := value.Repr(find(t, cases, name).Item); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestCaseView(t *testing.T) {
	cases := expand(t)
	c := find(t, cases, "pair::sub_0.pth")
	if c.Function() != "sub" || c.Interface() != "torch" || c.InPlace() {
		t.Errorf("function %s of %s, in place %v", c.Function(), c.Interface(), c.InPlace())
	}
	args := c.Args()
	if a := args[0]; !a.RequiresGrad || !slices.Equal(a.Stride, []int{4, 1}) || a.DType != tensor.Float32 {
		t.Errorf("argument %+v", a)
	}
	if atol, rtol, mismatch := c.Tolerances(); atol != 1e-3 || rtol != 1e-5 || mismatch != 1e-3 {
		t.Errorf("tolerances %v %v %v", atol, rtol, mismatch)
	}
	if atol, _, _ := find(t, cases, "value::index_0.pth").Tolerances(); atol != 1e-2 {
		t.Errorf("tolerance of float16 is %v, want that of halves", atol)
	}
	var sparse []bool
	for _, a := range find(t, cases, "sparse::spmm_1.pth").Args() {
		sparse = append(sparse, a.Sparse)
	}
	if !slices.Equal(sparse, []bool{true, false}) {
		t.Errorf("sparse is %v, want the last argument to change first", sparse)
	}
}

// sized is a case with arguments of these shapes.
func sized(function string, dt tensor.DType, count value.Value, shapes ...value.Value) *Case {
	args := value.NewList()
	for _, s := range shapes {
		args.Items = append(args.Items, &value.Dict{Items: []value.Item{{Key: "shape", Value: s},
			{Key: "dtype", Value: dt}, {Key: "gen_num_range", Value: count}}})
	}
	return &Case{Name: function + "_0.pth", Item: &value.Dict{Items: []value.Item{{Key: "name", Value: function},
		{Key: "tensor_para", Value: &value.Dict{Items: []value.Item{{Key: "args", Value: args}}}}}}}
}

func TestSizes(t *testing.T) {
	shape := func(n ...int64) value.Value {
		l := value.NewList()
		for _, x := range n {
			l.Items = append(l.Items, x)
		}
		return l
	}
	for _, c := range []struct {
		of    *Case
		bytes int64
		flops float64
	}{
		{sized("add", tensor.Float16, nil, shape(3, 4), shape(4)), 32, 0},
		{sized("add", tensor.Float32, nil, shape(), nil), 4, 0},
		{sized("add", tensor.Float32, nil, shape(1<<40, 1<<40), shape(2)), 8, 0}, // more than memory holds
		{sized("cat", tensor.Float32, shape(1, 4), shape(2, 2)), 48, 0},
		{sized("cat", tensor.Float32, nil, value.NewList(shape(2, 2), shape(3))), 28, 0},
		{sized("conv2d", tensor.Float32, nil, shape(2, 4, 8, 8), shape(6, 4, 3, 3)), 4 * (512 + 216), 2 * 512 * 6 * 9},
		{sized("conv2d", tensor.Float32, nil, shape(2, 0, 8, 8), shape(6, 0, 3, 3)), 0, 0},
		{sized("conv2d", tensor.Float32, nil, shape(2)), 8, 0},
	} {
		if bytes, flops := c.of.Bytes(), c.of.ConvolutionFlops(); bytes != c.bytes || flops != c.flops {
			t.Errorf("%v: %d bytes, %v flops, want %d, %v", value.Repr(c.of.Item), bytes, flops, c.bytes, c.flops)
		}
	}
}

func TestRules(t *testing.T) {
	rules, err := NewRules(load(t, "device"))
	if err != nil {
		t.Fatal(err)
	}
	var left []*Case
	var names []string
	for _, c := range expand(t) {
		if changed, why := rules.Apply(c); why == "" {
			left, names = append(left, changed), append(names, c.Name)
		}
	}
	// pair::add: alpha 1 is left out, and 0-d input; spmm: a sparse mat2.
	want := []string{"pair::add_2.pth", "pair::add_5.pth",
		"pair::sub_0.pth", "pair::sub_1.pth", "pair::sub_2.pth", "pair::sub_3.pth", "pair::sub_4.pth",
		"pair::sub_5.pth",
		"sparse::spmm_1.pth", "sparse::spmm_3.pth"}
	if got := names[:min(len(names), len(want))]; !slices.Equal(got, want) || len(names) != len(want)+6 {
		t.Errorf("%v remain, want %v and 6 of index", names, want)
	}
	if atol, _, _ := left[0].Tolerances(); atol != 0.5 {
		t.Errorf("tolerance %v, want the device's", atol)
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b value.Value
		want bool
	}{
		{true, int64(1), true}, {int64(1), 1.0, true}, {nil, nil, true}, {nil, int64(0), false}, {"a", "a", true},
		{nan, nan, false},
		{value.NewTuple(int64(1)), value.NewTuple(1.0), true}, {value.NewTuple(), value.NewList(), false},
		{tensor.Float32, tensor.Float32, true}, {"1", int64(1), false},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("%s == %s is %v", value.Repr(c.a), value.Repr(c.b), got)
		}
	}
}

func TestErrors(t *testing.T) {
	for src, want := range map[string]string{
		"x = 1":                        "no entries is assigned",
		"entries = 3":                  "want a dict",
		"entries = {1: open('x')}":     "undefined: open",
		"entries = {'a': dict(name=1)": "got end of file",
		"entries = {'a': dict()}":      "no name is given",
		"entries = {'a': dict(name=['f'], para=dict(p=[1, 2], q=[1]))}":                                       "para q has 1 values, want 2",
		"entries = {'a': dict(name=['f'], tensor_para=dict(args=[{'shape': [(2, 2)], 'stride': [(1, 1)]}]))}": "overlaps",
		"entries = {'a': dict(name=['f'], tensor_para=dict(args=[{'ins': ['x'], 'value': [1, 2], 'shape': [()]}, " +
			"{'ins': ['y'], 'value': [1]}, {'ins': ['z']}]))}": "",
		"def f():\n  for x in range(1 << 20):\n    for y in range(1 << 20): pass\nf()\nentries = {}": "too many steps",
	} {
		path := filepath.Join(t.TempDir(), "e.py")
		if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Load(path, "entries")
		if err == nil {
			_, err = Expand(d, nil)
		}
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", src, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", src, err, want)
		}
	}
}

// TestLimits evaluates what would never end, or need more memory or stack than
// there is.
func TestLimits(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"recursion", "def f(x):\n    return f(x)\nd = f(0)\n", "called recursively"},
		{"loop", "def f():\n    while True:\n        pass\nf()\nd = {}\n", "too many steps"},
		{"a list of itself", "l = []\nl.append(l)\nd = {'a': l}\n", "holds itself"},
		{"a giant list", "d = {'a': [0] * (1 << 29)}\n", "a list of length 1 repeated 536870912 times"},
		{"a giant tuple", "t = (0, 1)\nt *= 1 << 28\nd = {}\n", "a tuple of length 2 repeated 268435456 times"},
		{"a giant string", "d = {'a': (1 << 29) * 'x'}\n", "a string of length 1 repeated 536870912 times"},
		{"a string of no end", "d = {'a': 'x' * (1 << 100)}\n", "repeated 1267650600228229401496703205376 times"},
		{"a giant range", "d = {'a': sorted(range(1 << 40))}\n", "range of 1099511627776 numbers"},
		{"a giant number", "n = 3\nfor i in range(60):\n    n = n * n\nd = {}\n", "a product of"},
		{"a giant text", "s = 'x'\nfor i in range(60):\n    s = s + s\nd = {}\n", "a string of length 2097152"},
		{"many texts", "l = []\nfor i in range(1000000):\n    l.append('x' * 1000000)\nd = {}\n", "MiB of memory"},
		{"a giant replacement", "d = {'a': 'x'.replace('x', 'xx')}\n", "replace is not known here"},
		{"a giant replacement by name", "d = {'a': getattr('x', 'replace')('x', 'xx')}\n", "replace is not known"},
		{"shared lists", "l = []\nfor i in range(60):\n    l = [l, l]\nd = {'a': l}\n", "it holds more than"},
		{"the text of shared lists", "l = []\nfor i in range(60):\n    l = [l, l]\nd = {'a': str(l)}\n", "a text of more"},
		{"a filled text", "s = '%s' * 5000 % tuple([5000 * 'x'] * 5000)\nd = {}\n", "a text of more"},
		{"a filled text of a mapping", "s = '%(a)s' * 50000\ns %= {'a': s}\nd = {}\n", "a text of more"},
		{"a power", "d = {'a': 2 ** (2 ** 40)}\n", "got '**'"},
		{"depth", "l = []\nfor i in range(100000):\n    l = [l]\nd = {'a': l}\n", "nested more than 100 deep"},
	} {
		_, err := Parse("f.py", []byte(tt.src), "d")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

// TestProducts: what is bounded is as it was below the bounds.
func TestProducts(t *testing.T) {
	d, err := Parse("f.py", []byte("n = 3\nn *= 2\nd = {'a': [n * 2.5, -2 * [1], 2 * 'ab', (1,) * 2 * 2, n * n * 2, '%s-%d' % ('a', 7 % 4), str(n)]}\n"), "d")
	if got := value.Repr(d); err != nil || got != "{'a': [15.0, [], 'abab', (1, 1, 1, 1), 72, 'a-3', '6']}" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestNamesAreFiles refuses names that would lead out of the directory of data.
func TestNamesAreFiles(t *testing.T) {
	for _, key := range []string{"../../evil", "a\x00b", strings.Repeat("a", 5000)} {
		entries := dict(key, dict("name", value.NewList("relu")))
		if _, err := Expand(entries, nil); err == nil || !strings.Contains(err.Error(), "cases of it are files") {
			t.Errorf("%.20q: got error %v, want one about files", key, err)
		}
	}
}
