package step

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// regionOf is the only region of a range.
func regionOf(t *testing.T, tree, ids string) *Region {
	t.Helper()
	rg, err := ParseRange(ids)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := open(t, tree).Regions([]Range{rg})
	if err != nil {
		t.Fatal(err)
	}
	return rs[0]
}

// compared replays a region.
func compared(t *testing.T, r *Region) *replay.Outcome {
	t.Helper()
	c, closed, err := r.Open(context.Background(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	defer c.Close()
	return c.Compare()
}

// TestRegion: what a region reads, what leaves it, and what is said of that.
func TestRegion(t *testing.T) {
	for _, tc := range []struct {
		tree, ids       string
		inputs, results string
		want            verdict.Verdict
		reason          string
	}{
		{"clean", "2..4", "layer_norm/2 input[0], layer_norm/2 input.weight, layer_norm/2 input.bias, linear/3 input[1]", "gelu/4 output[0]", verdict.Pass, ""},
		// The embedding is read behind the region too; dropout is known by what it kept.
		{"clean", "1..6", "", "embedding/1 output[0], linear/6 output[0]", verdict.Pass, ""},
		{"clean", "6..10", "", "cross_entropy/10 output[0]", verdict.Pass, ""},
		{"clean", "4..4", "gelu/4 input[0]", "gelu/4 output[0]", verdict.Pass, ""},
		{"scaled", "2..4", "", "gelu/4 output[0]", verdict.Fail, "scaled by 1.01"},
		{"scaled", "2..6", "", "linear/6 output[0]", verdict.Fail, ""}, // what was wrong inside is wrong behind it
		{"scaled", "5..6", "", "linear/6 output[0]", verdict.Pass, ""},
	} {
		r := regionOf(t, tc.tree, tc.ids)
		names := func(vs []*Value) string {
			var out []string
			for _, v := range vs {
				out = append(out, v.name())
			}
			return strings.Join(out, ", ")
		}
		if got := names(r.Inputs); tc.inputs != "" && got != tc.inputs {
			t.Errorf("%s %s reads %s, want %s", tc.tree, tc.ids, got, tc.inputs)
		}
		if got := names(r.Results); got != tc.results {
			t.Errorf("%s %s gives %s, want %s", tc.tree, tc.ids, got, tc.results)
		}
		o := compared(t, r)
		if len(o.Results) != len(r.Results) || o.Verdict() != tc.want ||
			!strings.Contains(o.Results[len(o.Results)-1].Reason, tc.reason) {
			t.Errorf("%s %s: %+v, want %s %q", tc.tree, tc.ids, o.Results, tc.want, tc.reason)
		}
	}
}

// TestRegionBound: the bound of a region is neither that of its last call, nor without
// limits: of float32 calls some hundred units in the last place of the largest element.
func TestRegionBound(t *testing.T) {
	r := regionOf(t, "clean", "2..9")
	e := r.entry(context.Background(), options(t))
	if err := e.Ready(); err != nil {
		t.Fatal(err)
	}
	c, err := e.Bind(r.Op, []value.Value{value.NewTuple()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	b := c.OutBound(f, 0)
	if b.Class != opdef.Composed {
		t.Errorf("class %v", b.Class)
	}
	s, x := slices.Max(tensor.Data[float64](b.Scale())), slices.Max(tensor.Data[float64](f.Outs[0]))
	if s < x || s > 100*x {
		t.Errorf("S is %g, the largest element %g", s, x)
	}
}

// TestRegionNamed: a region that is an operator, which takes what the region reads.
func TestRegionNamed(t *testing.T) {
	r := regionOf(t, "clean", "4..4=torch.nn.functional.gelu")
	if o := compared(t, r); o.Op != "torch.nn.functional.gelu" || o.Verdict() != verdict.Pass {
		t.Errorf("%+v", o)
	}
	r.Op = "torch.nn.functional.silu"
	r.Range.Op = r.Op
	if o := compared(t, r); o.Verdict() != verdict.Fail {
		t.Errorf("gelu passes as silu: %+v", o)
	}
}

func TestRegionErrors(t *testing.T) {
	for s, want := range map[string]string{
		"":       "want FROM..TO",
		"3":      "want FROM..TO",
		"a..b":   "want FROM..TO",
		"-2..4":  "want FROM..TO",
		"5..4":   "want ids in order, got 5..4",
		"1..2= ": "want the name of an operator",
	} {
		if _, err := ParseRange(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", s, err, want)
		}
	}
	tr := open(t, "clean")
	for want, ids := range map[string][]string{
		"no call has an id from 900 to 901":  {"900..901"},
		"2..4 and 4..6 have calls in common": {"2..4", "4..6"},
	} {
		var ranges []Range
		for _, s := range ids {
			rg, err := ParseRange(s)
			if err != nil {
				t.Fatal(err)
			}
			ranges = append(ranges, rg)
		}
		if _, err := tr.Regions(ranges); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", ids, err, want)
		}
	}
	if s := fmt.Sprint(Range{1, 2, "a.b"}); s != "1..2=a.b" {
		t.Error(s)
	}
}
