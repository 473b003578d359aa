package configs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor/value"
)

// FuzzParse evaluates configuration files, expands what they say into cases, and
// reads it as a device's rules.
func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/entries.py")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, text := range []string{
		"", "entries = {}", "entries = {'a': dict(name=['add'], para=dict(alpha=[1, 2]))}",
		"entries = {'a': dict(name=['add'], tensor_para=dict(args=[{'ins': ['x'], 'shape': ((2, 3), (0,))," +
			" 'dtype': [np.float32], 'stride': ((4, 1), None), 'sparse': [False, True]}]))}",
		"entries = {'a': {'name': ['add'], 3: 4}}", "entries = {1: 2}", "entries = {'a': {'name': 'add'}}",
		"entries = {'a': dict(name=['add'], skip_all=True, para=dict(alpha=[Skip(1)]))}",
		"entries = {'a': dict(name=['f'], tensor_para=dict(args=[dict(ins=['x'], dtype=[Skip(np.int8)])]))}",
		"x = []\nx.append(x)\nentries = {'a': x}", "while True:\n  pass", "def f(): return f()\nentries = f()",
		"entries = {'a': 'x' * 1000000000}", "entries = {'a': 1 << 500}", "entries = [i for i in range(1 << 40)]",
		"import os\nfrom a import b\nentries = {}", "entries = {'a': slice(3), 'a': slice(1, 2)}", "\ufeffentries = 1",
		"entries = {'a': dict(name=['add'], tensor_para=dict(args=[{'shape': 3, 'value': 4}]))}", "entries =\x00",
	} {
		f.Add([]byte(text))
	}
	lim := limits{Steps: 10_000, Time: 5 * time.Second, Heap: 64 << 20}
	f.Fuzz(func(t *testing.T, src []byte) {
		var d *value.Dict
		var err error
		// A program takes what its limits allow, however short it is.
		fuzzcheck.Bounded(t, 1, 4<<30, func() { d, err = lim.parse("configs.py", src, "entries") })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "configs.py:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		cases, err := Expand(d, nil)
		fuzzcheck.Sentence(t, err)
		for _, c := range cases {
			c.Args()
			c.Tolerances()
			c.Clone()
		}
		rules, err := NewRules(d)
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		for _, c := range cases {
			if _, why := rules.Apply(c); strings.Contains(why, "\n") {
				t.Errorf("the reason to leave out a case has several lines: %q", why)
			}
		}
	})
}
