package checkpoint

import (
	"context"
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

func matrix(rows, cols int, v ...float64) *tensor.Tensor {
	return tensor.New(tensor.Float32, []int{rows, cols}, v)
}

func dict(items ...any) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(items); i += 2 {
		d.Items = append(d.Items, value.Item{Key: items[i], Value: items[i+1]})
	}
	return d
}

// tree writes files of values and returns their directory.
func tree(t *testing.T, files map[string]value.Value) string {
	t.Helper()
	root := t.TempDir()
	for name, v := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := pthformat.WriteFile(path, v); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t *testing.T, path string, joined bool) *Set {
	t.Helper()
	s, err := Open(context.Background(), path, pthformat.Plain, joined)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func names(s *Set) string {
	var out []string
	for _, n := range s.Values {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func TestOpen(t *testing.T) {
	one := matrix(1, 1, 1)
	for _, tc := range []struct {
		name  string
		files map[string]value.Value
		path  string
		want  string
	}{
		{"a tensor", map[string]value.Value{"a.pt": one}, "a.pt", "value"},
		{"a list", map[string]value.Value{"a.pt": value.NewList(one, value.NewTuple(int64(3), nil))}, "a.pt",
			"[0] [1][0] [1][1]"},
		{"a state_dict", map[string]value.Value{"a.pt": dict("m", dict("w", one, int64(3), one), "epoch", int64(4))},
			"a.pt", "m.w m.3 epoch"},
		{"one file in a directory", map[string]value.Value{"model.pth": dict("w", one)}, "", "w"},
		{"shards", map[string]value.Value{"model-00001-of-00002.pt": dict("a", one),
			"model-00002-of-00002.pt": dict("b", one)}, "", "a b"},
		{"arrays", map[string]value.Value{"x/a.pt": one, "b.pt": one}, "", "b x/a"},
		{"two state_dicts", map[string]value.Value{"s1.pt": dict("w", one), "s2.pt": dict("w", one)}, "", "s1.w s2.w"},
		{"other files", map[string]value.Value{"a.pt": one, "notes.bin": one, "pytorch_model.bin": dict("w", one)}, "",
			"a pytorch_model.w"},
	} {
		if got := names(open(t, filepath.Join(tree(t, tc.files), tc.path), false)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	root := tree(t, map[string]value.Value{"a.pt": dict("w", one), "x/b.pt": one})
	if got, want := names(open(t, root+"/", false)), names(open(t, root, false)); got != want || got == "" {
		t.Errorf("a directory with a slash behind it: %q, want %q", got, want)
	}
	for _, tc := range []struct {
		root value.Value
		bare bool
	}{
		{one, true}, {int64(3), true}, {&value.Sequence{Kind: value.Tuple, Class: "torch.Size"}, true},
		{value.NewList(one), false}, {dict("value", one), false},
	} {
		if got, err := Flatten(tc.root); err != nil || len(got) != 1 || got[0].Bare != tc.bare {
			t.Errorf("%s: %v, %v; want one that is bare: %v", value.Str(tc.root), got, err, tc.bare)
		}
	}
	cyclic := value.NewList()
	cyclic.Items = append(cyclic.Items, cyclic)
	if got, err := Flatten(cyclic); err != nil || len(got) != 1 || value.Str(got[0].Value) != "<a reference to the whole>" {
		t.Errorf("a list in itself: %v, %v", got, err)
	}
}

// TestMissingShard: an index names a shard that is not there, a file is damaged.
func TestMissingShard(t *testing.T) {
	root := tree(t, map[string]value.Value{"m-1-of-2.pt": dict("a", matrix(1, 1, 1))})
	for name, text := range map[string]string{
		"m.index.json": `{"weight_map": {"a": "m-1-of-2.pt", "b": "m-2-of-2.pt"}}`, "x.index.json": "{", "bad.pt": "x",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, root, false)
	var all []string
	for _, f := range s.Failures {
		all = append(all, f.Name+": "+f.Err.Error())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{`m-2-of-2.pt: m.index.json: shard "m-2-of-2.pt" with 1 values is missing`, "x.index.json: ",
		"bad.pt: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

func TestMap(t *testing.T) {
	m, err := ParseMap("# names\nmodel.layers.*.q.* -> dec.*.wq.*\nhead -> out transposed # kernel\n\n*.b -> *.bias\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"model.layers.3.q.weight": "dec.3.wq.weight", "x.b": "x.bias", "other": "other",
	} {
		if got, transposed := m.Rename(name); got != want || transposed {
			t.Errorf("%s becomes %s (%v), want %s", name, got, transposed, want)
		}
	}
	if got, transposed := m.Rename("head"); got != "out" || !transposed {
		t.Errorf("head becomes %s (%v)", got, transposed)
	}
	for text, want := range map[string]string{
		"a": "line 1", "\na ->": "line 2", "a.* -> b": "1 * on the left, 0 on the right", "a -> b c": "line 1",
	} {
		if _, err := ParseMap(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestUnshard joins what two ranks hold.
func TestUnshard(t *testing.T) {
	bias := tensor.New(tensor.Float32, []int{2}, []float64{7, 8})
	root := tree(t, map[string]value.Value{
		"mp_rank_00.pt": dict("w", matrix(1, 2, 1, 2), "row", matrix(2, 1, 1, 3), "norm", bias, "step", int64(3),
			"qkv", matrix(3, 1, 1, 2, 3)),
		"mp_rank_01.pt": dict("w", matrix(1, 2, 3, 4), "row", matrix(2, 1, 2, 4), "norm", bias, "step", int64(3),
			"qkv", matrix(3, 1, 4, 5, 6)),
	})
	whole := map[string][]int{"w": {2, 2}, "row": {2, 2}, "norm": {2}, "qkv": {6, 1}}
	for _, tc := range []struct {
		rules []string
		want  map[string][]float64
	}{
		{[]string{"qkv:qkv=0", "auto"}, map[string][]float64{"w": {1, 2, 3, 4}, "row": {1, 2, 3, 4}, "norm": {7, 8},
			"qkv": {1, 4, 2, 5, 3, 6}}},
		{[]string{"row:row", "norm:row", "column"}, map[string][]float64{"w": {1, 2, 3, 4}, "row": {1, 2, 3, 4},
			"norm": {7, 8}, "qkv": {1, 2, 3, 4, 5, 6}}},
		{[]string{"qkv:qkv=0:2,1", "row:dim=1", "dim=0"}, map[string][]float64{"qkv": {1, 2, 4, 5, 3, 6},
			"row": {1, 2, 3, 4}}},
	} {
		j, err := ParseJoin(tc.rules)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, root, true)
		if err := s.Unshard(j, func(name string) []int { return whole[name] }); err != nil || len(s.Failures) > 0 {
			t.Fatal(tc.rules, err, s.Failures)
		}
		if got := names(s); got != "w row norm step qkv" {
			t.Errorf("%v: names %q", tc.rules, got)
		}
		for _, n := range s.Values {
			x, ok := n.Value.(*tensor.Tensor)
			if want := tc.want[n.Name]; ok && want != nil && !slices.Equal(tensor.Data[float64](x), want) {
				t.Errorf("%v: %s is %v, want %v", tc.rules, n.Name, tensor.Data[float64](x), want)
			}
		}
	}
}

// TestUnshardRefused: parts that cannot be joined are said, not guessed.
func TestUnshardRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b value.Value
		rule string
		want string
	}{
		{"different copies", matrix(2, 2, 1, 2, 3, 4), matrix(2, 2, 1, 2, 3, 5), "auto", "hold different values"},
		{"no dimension", matrix(1, 1, 1), matrix(1, 1, 1), "auto", "no dimension"},
		{"dtypes", matrix(1, 2, 1, 2), tensor.New(tensor.Float64, []int{1, 2}, []float64{1, 2}), "dim=0", "ranks hold"},
		{"other sizes", matrix(1, 2, 1, 2), matrix(1, 3, 1, 2, 3), "dim=0", "ranks hold"},
		{"too few dimensions", matrix(1, 2, 1, 2), matrix(1, 2, 1, 2), "dim=5", "no dimension 5"},
		{"not thirds", matrix(1, 2, 1, 2), matrix(1, 2, 1, 2), "qkv=0", "do not divide into 3"},
	} {
		j, err := ParseJoin([]string{tc.rule})
		if err != nil {
			t.Fatal(err)
		}
		root := tree(t, map[string]value.Value{"rank0/m.pt": dict("w", tc.a), "rank1/m.pt": dict("w", tc.b)})
		s := open(t, root, true)
		if err := s.Unshard(j, func(string) []int { return []int{2, 2} }); err != nil {
			t.Fatal(err)
		}
		if len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, s.Failures, tc.want)
		}
	}
	for _, rule := range []string{"", "dim", "dim=-1", "dim=x", "qkv=0:0", "qkv=0:1,x", "[:dim=0", "sideways"} {
		if _, err := ParseJoin([]string{rule}); err == nil {
			t.Errorf("rule %q is accepted", rule)
		}
	}
}

// FuzzRules reads maps of names and rules of joins.
func FuzzRules(f *testing.F) {
	f.Add("a.* -> b.* transposed", "w*:qkv=0:4,1,1", "a.b")
	f.Fuzz(func(t *testing.T, text, rule, name string) {
		fuzzcheck.Bounded(t, len(text)+len(rule)+len(name), 1<<14, func() {
			m, err := ParseMap(text)
			fuzzcheck.Sentence(t, err)
			if err == nil {
				m.Rename(name)
			}
			_, err = ParseJoin([]string{rule})
			fuzzcheck.Sentence(t, err)
		})
	})
}
