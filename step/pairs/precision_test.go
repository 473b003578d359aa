package pairs

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestPrecision: bfloat16 explains a run in bfloat16, not a wrong operator in it. It explains nothing between two runs
// in one dtype. The runs part at the first value that it does not explain.
func TestPrecision(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Comparer{Tolerances: tol, Repro: func(Pair) string { return "" }}
	for _, tc := range []struct {
		a, b, want string
		fails      int
		first      string
	}{
		{"float32", "bfloat16", "Explained by bfloat16 instead of float32: 5 of 5 calls with other arguments or results.", 0, ""},
		{"bfloat16", "float32", "Explained by bfloat16 instead of float32: 5 of 5 calls with other arguments or results.", 0, ""},
		{"float32", "leaky", "Explained by bfloat16 instead of float32: 3 of 5 calls with other arguments or results. 2 are not explained, first " +
			"torch.nn.functional.relu/1 in 1: output[0]: 96 of 96 elements differ", 2, "torch.nn.functional.relu.1"},
		{"bfloat16", "leaky", "", 15, "torch.nn.functional.relu.1"},
	} {
		all, err := Corresponding(context.Background(), "testdata/precision/"+tc.a, "testdata/precision/"+tc.b)
		if err != nil {
			t.Fatal(err)
		}
		type judged struct {
			pair    Pair
			results []*reports.Result
			apart   map[*reports.Result]*Difference
		}
		var p Precision
		var d Divergence
		var calls []judged
		for pair := range all {
			rs, apart := c.Compare(pair)
			p.Look(rs, apart)
			calls = append(calls, judged{pair, rs, apart})
		}
		fails := 0
		for _, j := range calls {
			p.Explain(j.pair, j.results, j.apart)
			d.Add(j.pair, j.results, j.apart)
			for _, r := range j.results {
				if r.Verdict == verdict.Fail {
					fails++
				}
			}
		}
		switch {
		case p.Known() != (tc.want != "") || (p.Record() != nil) != p.Known():
			t.Errorf("%s and %s: the precisions are known to differ: %t", tc.a, tc.b, p.Known())
		case p.Known() && !strings.HasPrefix(p.String(), tc.want):
			t.Errorf("%s and %s: %s, want %s", tc.a, tc.b, p.String(), tc.want)
		}
		if fails != tc.fails {
			t.Errorf("%s and %s: %d values fail, want %d", tc.a, tc.b, fails, tc.fails)
		}
		first := ""
		if at := d.First(); at != nil {
			first = path.Base(at.Capture)
		}
		if first != tc.first {
			t.Errorf("%s and %s part at %q, want %q", tc.a, tc.b, first, tc.first)
		}
	}
}

// TestKeywords: a keyword that only one side recorded is no difference, another value is one.
func TestKeywords(t *testing.T) {
	c := &comparison{locate: func(*reports.Result) {}, sides: recordings}
	dict := func(items ...value.Item) *value.Dict { return &value.Dict{Items: items} }
	c.keywords("input", dict(value.Item{Key: "dtype"}, value.Item{Key: "dim", Value: int64(1)}),
		dict(value.Item{Key: "dim", Value: int64(2)}, value.Item{Key: "device"}), false)
	var got []string
	for _, r := range c.results {
		got = append(got, r.Target+" "+string(r.Verdict)+" "+r.Reason)
	}
	want := []string{"input.dtype skipped a keyword that only the new recording has", "input.dim fail 1 against 2",
		"input.device skipped a keyword that only the old recording has"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUnset: a flag that is not set, buffers that an optimizer does not have, and generators of random numbers are no
// difference, however versions of torch write them. A flag that is set is one.
func TestUnset(t *testing.T) {
	list := func(of ...value.Value) value.Value { return &value.Sequence{Kind: value.List, Items: of} }
	generator := func() value.Value { return &value.Opaque{Global: "torch.Generator"} }
	for _, tc := range []struct {
		got, want value.Value
		says      string
	}{
		{nil, false, "input.x pass "}, {false, nil, "input.x pass "}, {true, nil, "input.x fail True against None"},
		{list(), list(nil, nil), ""}, {list(nil), list(), ""}, {list(int64(1)), list(), "input.x fail 1 values against 0"},
		{generator(), generator(), "input.x skipped a generator of random numbers, whose state is not recorded"},
	} {
		c := &comparison{locate: func(*reports.Result) {}, sides: recordings}
		c.keywords("input", &value.Dict{Items: []value.Item{{Key: "x", Value: tc.got}}},
			&value.Dict{Items: []value.Item{{Key: "x", Value: tc.want}}}, false)
		got := ""
		for _, r := range c.results {
			got += r.Target + " " + string(r.Verdict) + " " + r.Reason
		}
		if got != tc.says {
			t.Errorf("%v and %v: %q, want %q", tc.got, tc.want, got, tc.says)
		}
	}
}

// TestOnlyOneSet: an argument that only one call sets, such as a dtype that torch takes by itself as well, is no
// difference if the results agree. It is one if a result is of another dtype, further apart than what the call was
// given explains, or not known. A tensor is one.
func TestOnlyOneSet(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(dt tensor.DType, x ...float64) value.Value { return tensor.New(dt, []int{len(x)}, x).Rounded() }
	one := of(tensor.Float32, 1, 2)
	near, far := of(tensor.Float32, 1, 2.000001), of(tensor.Float32, 1, 2.1)
	for _, tc := range []struct {
		name      string
		got, want value.Value
		read      [2]value.Value
		gave      [2]value.Value
		fails     bool
	}{
		{"the same results", nil, tensor.Float32, [2]value.Value{one, one}, [2]value.Value{one, one}, false},
		{"given in the new one", tensor.Float32, nil, [2]value.Value{one, one}, [2]value.Value{one, one}, false},
		{"rounding", nil, 1e-7, [2]value.Value{one, one}, [2]value.Value{one, near}, false},
		{"other results", nil, 1e-7, [2]value.Value{one, one}, [2]value.Value{one, far}, true},
		{"of other arguments", nil, 1e-7, [2]value.Value{one, far}, [2]value.Value{one, far}, false},
		{"another dtype", nil, tensor.Float64, [2]value.Value{one, one}, [2]value.Value{one, of(tensor.Float64, 1, 2)},
			true},
		{"another shape", nil, int64(0), [2]value.Value{one, one}, [2]value.Value{one, of(tensor.Float32, 1)}, true},
		{"a tensor", nil, one, [2]value.Value{one, one}, [2]value.Value{one, one}, true},
		{"no results", nil, tensor.Float32, [2]value.Value{one, one}, [2]value.Value{}, true},
		{"both set", int64(1), int64(2), [2]value.Value{one, one}, [2]value.Value{one, one}, true},
	} {
		c := Comparer{Tolerances: tol}.of(Pair{A: &capture.Entry{}, B: &capture.Entry{}})
		c.locate = func(*reports.Result) {}
		c.leaf("input", "input[0]", "input", tc.read[0], tc.read[1])
		c.leaf("input", "input.x", "input.x", tc.got, tc.want)
		if tc.gave[0] != nil {
			c.leaf("forward", "output[0]", "output", tc.gave[0], tc.gave[1])
		}
		c.settleUnset()
		if r := c.results[1]; (r.Verdict == verdict.Fail) != tc.fails {
			t.Errorf("%s: %s: %s", tc.name, r.Verdict, r.Reason)
		}
	}
}

// TestInside: a call that a recorded call made is not taken for one of the program, though it is at the same end of its
// recording and gives the same.
func TestInside(t *testing.T) {
	call := func(within int, values ...float64) *placed {
		return &placed{Entry: &capture.Entry{Within: within}, operator: "gelu", shapes: []string{"", "[4]"},
			values: values}
	}
	own, inner, same := call(-1, 1, 2), call(7, 1, 2), call(-1, 1, 2)
	if own.likeness(inner) >= sameShapes || own.likeness(inner) == 0 || own.likeness(same) < sameShapes {
		t.Errorf("likeness of a call inside %d, of the program's own %d", own.likeness(inner), own.likeness(same))
	}
	if own.alike(inner) || !own.alike(same) {
		t.Error("a call inside is alike")
	}
}

// TestNumbersTell: calls with the same factor are more alike than calls with another.
func TestNumbersTell(t *testing.T) {
	mul := func(factor string) *placed {
		return &placed{Entry: &capture.Entry{}, operator: "mul", shapes: []string{""}, numbers: []string{factor}}
	}
	if a, b := mul("0.9").likeness(mul("0.9")), mul("0.9").likeness(mul("0.999")); a <= b || b < sameShapes {
		t.Errorf("likeness of equal factors %d, of others %d", a, b)
	}
}

// TestExplainedCounts: calls without any difference are not counted as explained by a precision.
func TestExplainedCounts(t *testing.T) {
	p := Precision{Fine: tensor.Float32, Coarse: tensor.BFloat16}
	for _, x := range []float64{0, 0, 0.001, 0.5} {
		r := &reports.Result{Op: "f", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass, Reason: "off"}
		if x > 0 {
			r.Verdict = verdict.Fail
		}
		p.Explain(Pair{A: &capture.Entry{}, B: &capture.Entry{}}, []*reports.Result{r},
			map[*reports.Result]*Difference{r: {Relative: x, Largest: x}})
	}
	const want = "Explained by bfloat16 instead of float32: 1 of 2 calls with other arguments or results; 2 of 4 calls " +
		"have the same. 1 is not explained, first f: output[0]: off"
	if got := p.String(); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := p.Record(); got.Calls != 4 || got.Explained != 3 || got.Same != 2 {
		t.Errorf("%+v", got)
	}
}
