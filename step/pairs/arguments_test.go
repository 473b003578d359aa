package pairs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor/value"
)

// TestArgumentsByName: what one run gives by position and the other by keyword is one argument, and an argument that
// only one gives is compared with its default.
func TestArgumentsByName(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, mean, variance, weight := floats(1, 2), floats(0, 0), floats(1, 1), floats(3, 4)
	keywords := func(kv ...any) *value.Dict {
		d := &value.Dict{}
		for i := 0; i < len(kv); i += 2 {
			d.Items = append(d.Items, value.Item{Key: kv[i], Value: kv[i+1]})
		}
		return d
	}
	byPosition := []value.Value{x, mean, variance, weight, nil, true, 0.1, 1e-5}
	for _, tc := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		fails  string
	}{
		{"three by position", byPosition[:3], keywords("weight", weight, "bias", nil, "training", true, "momentum", 0.1,
			"eps", 1e-5), ""},
		{"defaults left out", byPosition[:3], keywords("weight", weight, "training", true), ""},
		{"another eps", byPosition[:3], keywords("weight", weight, "training", true, "eps", 0.01),
			"input.eps: 1e-05 against 0.01"},
		{"another default", byPosition[:3], keywords("weight", weight), "input.training: True against False"},
		{"another weight", byPosition[:3], keywords("weight", floats(3, 5), "training", true), "input.weight: 1 of 2"},
		{"all by keyword", nil, keywords("input", x, "running_mean", mean, "running_var", variance, "weight", weight,
			"training", true), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for dir, call := range map[string]*value.Dict{
				"x": keywords("args", value.NewTuple(byPosition...), "kwargs", keywords()),
				"y": keywords("args", value.NewTuple(tc.args...), "kwargs", tc.kwargs),
			} {
				const op = "torch.nn.functional.batch_norm"
				write(t, root, dir+"/output.pth", op, x)
				for _, file := range []string{"input.pth", "after.pth"} {
					call.Items = append(keywords("name", op, "identifier", "1").Items, call.Items...)
					if err := pthformat.WriteFile(filepath.Join(root, dir, file), call); err != nil {
						t.Fatal(err)
					}
				}
			}
			c := Comparer{Tolerances: tol, Repro: func(Pair) string { return "" }, Registry: ops.Default()}
			for _, paths := range [][2]string{{"x", "y"}, {"y", "x"}} {
				for p := range between(t, filepath.Join(root, paths[0]), filepath.Join(root, paths[1])) {
					rs, _ := c.Compare(p)
					var failed []string
					for _, r := range rs {
						if r.Verdict == "fail" && (len(failed) == 0 || !strings.HasPrefix(failed[0], r.Target)) {
							failed = append(failed, r.Target+": "+r.Reason)
						}
					}
					if paths[0] == "y" { // the other way around
						for i := range failed {
							name, reason, _ := strings.Cut(failed[i], ": ")
							if a, b, ok := strings.Cut(reason, " against "); ok {
								failed[i] = name + ": " + b + " against " + a
							}
						}
					}
					if got := strings.Join(failed, "; "); (got == "") != (tc.fails == "") ||
						!strings.HasPrefix(got, tc.fails) {
						t.Errorf("%v: fails %q, want %q", paths, got, tc.fails)
					}
					if !slices.ContainsFunc(rs, func(r *reports.Result) bool { return r.Target == "input.weight" }) {
						t.Errorf("%v: the weight was not compared", paths)
					}
				}
			}
		})
	}
}
