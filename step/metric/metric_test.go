package metric

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

func options(t *testing.T) step.Options {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return step.Options{Options: replay.Options{Registry: ops.Default(), Tolerances: tol}}
}

// open reads and analyses a tree of testdata.
func open(t *testing.T, tree string) *step.Trace {
	t.Helper()
	opt := options(t)
	var calls []*step.Call
	at := []string{filepath.Join("testdata", tree)}
	for e, err := range capture.Scan(context.Background(), at, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, step.Read(e, opt))
	}
	tr := step.New(calls)
	if err := tr.Analyze(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	return tr
}

// A truth is an effect that record.py computed in float64.
type truth struct {
	KL      float64 `json:"kl"`
	LogProb float64 `json:"logprob"`
	Flips   int     `json:"flips"`
	MaxAbs  float64 `json:"max_abs"`
	MeanAbs float64 `json:"mean_abs"` // of tokens of two runs
}

func truths(t *testing.T, tree string) map[string]truth {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]truth
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all[tree]
}

func wantEffect(t *testing.T, name string, e Effect, want truth) {
	t.Helper()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want)+1e-15 {
			t.Errorf("%s: %s is %.12g, want %.12g", name, what, got, want)
		}
	}
	near("kl", e.KL, want.KL)
	near("logprob", e.LogProb, want.LogProb)
	near("max_abs", e.MaxAbs, want.MaxAbs)
	if len(e.Flips) != want.Flips {
		t.Errorf("%s: %d flips, want %d", name, len(e.Flips), want.Flips)
	}
}

func measure(t *testing.T, tree string) *Metric {
	t.Helper()
	of, err := Find(open(t, tree), "last")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Measure(context.Background(), of, Options{Options: options(t)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMeasure: what torch computes in float64, of the whole run and of one operator's errors alone.
func TestMeasure(t *testing.T) {
	m, want := measure(t, "logits"), truths(t, "logits")
	wantEffect(t, "all", m.Total, want["all"])
	for _, g := range m.ByOp {
		if g.Name == "torch.nn.functional.silu" {
			wantEffect(t, "silu", g.Effect, want["silu"])
			return
		}
	}
	t.Error("silu is not among the operators")
}

// TestRoutes: with the recorded routes no single operator costs as much as the flipped route does.
func TestRoutes(t *testing.T) {
	for tree, truth := range map[string]string{"routed": "routed", "listed": "lists"} {
		m := measure(t, tree)
		wantEffect(t, tree, m.Total, truths(t, truth)["all"])
		if m.Routes == nil || m.Routes.KL <= m.ByOp[0].KL {
			t.Errorf("%s: routes cost %+v, the first operator %g", tree, m.Routes, m.ByOp[0].KL)
		}
	}
}

// TestRerouted: a run in which all is exact sends a token to another expert where rounding sent it elsewhere.
func TestRerouted(t *testing.T) {
	for tree, flips := range map[string]bool{"routed": true, "logits": false} {
		m := measure(t, tree)
		all := step.WhatIf{Choose: func(*step.Call) (step.Choice, tensor.DType) { return step.AsExact, tensor.Invalid }}
		if err := m.Imagine(context.Background(), "all", all, Options{Options: options(t)}); err != nil {
			t.Fatal(err)
		}
		if i := m.Record().Imagined[0]; i.Calls != len(step.Cone(m.Of)) {
			t.Errorf("%s: %d calls are exact", tree, i.Calls)
		}
		if i := m.Imagined[0]; (i.Rerouted > 0) != flips || i.KL > 1e-12 {
			t.Errorf("%s: %d tokens go to other experts, KL %g", tree, i.Rerouted, i.KL)
		} else if (i.Kept != nil) != flips || (len(i.Ties) > 0) != flips || flips && i.Kept.KL <= i.KL {
			t.Errorf("%s: with the recorded routes %+v, near ties %+v", tree, i.Kept, i.Ties)
		}
	}
}

// TestVisited: an exact run follows tokens to another expert than the recorded ones; where it would visit more of them
// than were recorded, the recorded routes are kept, and this is said.
func TestVisited(t *testing.T) {
	for tree, kept := range map[string]bool{"visited_others": false, "visited_more": true} {
		m := measure(t, tree)
		wantEffect(t, tree, m.Total, truths(t, "visits")[tree])
		if (len(m.Strays) > 0) != kept || (m.Routes == nil) != kept {
			t.Errorf("%s: strays %v, routes %v", tree, m.Strays, m.Routes)
		}
		all := step.WhatIf{Choose: func(*step.Call) (step.Choice, tensor.DType) { return step.AsExact, tensor.Invalid }}
		if err := m.Imagine(context.Background(), "all", all, Options{Options: options(t)}); err != nil {
			t.Fatal(err)
		}
		if i := m.Imagined[0]; (len(i.Strays) > 0) != kept || i.KL > 1e-12 {
			t.Errorf("%s: an exact run strays %v, KL %g", tree, i.Strays, i.KL)
		}
	}
}

// TestRoundedAnew: behind an operator that is computed exactly, calls round what they read, as torch's own run does.
func TestRoundedAnew(t *testing.T) {
	m := measure(t, "logits")
	add := step.WhatIf{Choose: func(c *step.Call) (step.Choice, tensor.DType) {
		if strings.HasSuffix(c.Op, ".add") {
			return step.AsExact, tensor.Invalid
		}
		return step.AsRecorded, tensor.Invalid
	}}
	if err := m.Imagine(context.Background(), "add", add, Options{Options: options(t)}); err != nil {
		t.Fatal(err)
	}
	wantEffect(t, "without", m.Imagined[0].Effect, truths(t, "logits")["without"])
}

// TestCuts: what calls that were not recorded made is named, and nothing else is.
func TestCuts(t *testing.T) {
	for tree, want := range map[string]string{"unrecorded_numpy": "input[0] of torch.Tensor.to/5",
		"unrecorded_list": "output[0] of torch.tensor/4", "logits": "", "routed": "", "listed": ""} {
		tr := open(t, tree)
		of, err := Find(tr, "last")
		if err != nil {
			t.Fatal(err)
		}
		m, err := Measure(context.Background(), of, Options{Options: options(t)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range m.Cuts {
			got = append(got, v.Target+" of "+v.Call.String())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", tree, got, want)
		}
		if r := m.Record(); (r.Cut != nil) != (want != "") {
			t.Errorf("%s: the record has %+v", tree, r.Cut)
		}
	}
}

// TestNonFinite: positions whose logits are NaN or Inf are counted and left out; -Inf of single tokens is a mask.
func TestNonFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	exact := []float64{1, 2, 3, 1, 2, 3, 1, -inf, 3}
	d, err := NewDistribution(tensor.New(tensor.Float64, []int{3, 3}, exact), []int64{1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		logits []float64
		want   int
	}{
		{exact, 0}, {[]float64{1, 2, 3, 1, nan, 3, 1, -inf, 3}, 1}, {[]float64{1, inf, 3, 1, nan, 3, 1, -inf, 3}, 2},
		{[]float64{-inf, -inf, -inf, 1, nan, 3, inf, -inf, 3}, 3},
	} {
		e := d.Effect(tc.logits)
		m := &Metric{Positions: 3, Total: e, Of: &step.Value{}}
		if e.NonFinite != tc.want || (m.NonFinite() > 0) != (tc.want > 0) || tc.want < 3 && e.KL != 0 {
			t.Errorf("%v: %+v", tc.logits, e)
		}
		if (tc.want == 3) != math.IsNaN(e.KL) {
			t.Errorf("%v: KL %g where no position is finite", tc.logits, e.KL)
		}
	}
}

// TestGroupDType: an operator that is called in two dtypes is named by that of the larger errors.
func TestGroupDType(t *testing.T) {
	call := func(dt tensor.DType, e float64) *step.Call {
		c := &step.Call{Op: "torch.Tensor.add", Entry: &capture.Entry{}, LocalError: e}
		c.Outputs = []*step.Value{{Call: c, DType: dt}}
		return c
	}
	m := &Metric{}
	m.group([]*step.Call{call(tensor.Float32, 1e-8), call(tensor.BFloat16, 1e-3), call(tensor.Float32, 1e-8)})
	if g := m.ByOp[0]; len(m.ByOp) != 1 || g.DType != "bfloat16" || len(g.Calls) != 3 {
		t.Errorf("%+v", g)
	}
}

// TestPadding: positions that read padding may have no distribution. Where other positions have none, it is a finding.
func TestPadding(t *testing.T) {
	measured := func(tree string) (*Metric, *step.Trace) {
		tr := open(t, tree)
		of, err := Find(tr, "last")
		if err != nil {
			t.Fatal(err)
		}
		m, err := Measure(context.Background(), of, Options{Options: options(t)})
		if err != nil {
			t.Fatal(err)
		}
		return m, tr
	}
	m, tr := measured("nan_logits")
	if m.Total.NonFinite != 3 || m.NonFinite() != 0 || !(m.Total.KL > 0) {
		t.Errorf("%d positions without a distribution, %d of tokens; KL %g", m.Total.NonFinite, m.NonFinite(),
			m.Total.KL)
	}
	made := len(tr.Findings)
	if m.Merge(tr); made == 0 || len(tr.Findings) > 0 {
		t.Errorf("%d findings before, now %+v", made, tr.Findings)
	}
	m.Padding = false
	if m.Merge(tr); len(tr.Findings) != 1 || tr.Findings[0].Rule != verdict.NonFinite {
		t.Errorf("findings %+v where the positions are no padding", tr.Findings)
	}
	this := open(t, "nan_padded")
	p, err := NewPair(context.Background(), this, open(t, "nan_none"), "", options(t))
	if err != nil || p == nil {
		t.Fatal(err)
	}
	if p.Merge(this); len(p.Tokens) != 6 || p.NonFinite() > 0 || len(this.Findings) > 0 {
		t.Errorf("%d tokens, %d not finite: %+v", len(p.Tokens), p.NonFinite(), this.Findings)
	}
}

// TestOnlyPadding: places without a value are padding at the begin or end of rows, where each reads the same token.
func TestOnlyPadding(t *testing.T) {
	for _, tc := range []struct {
		ids, unknown string // rows
		want         bool
	}{
		{"00123 45678", "xx... .....", true},
		{"12300 45600", "...xx ...xx", true},
		{"12340 45678", "....x .....", true},
		{"12345 00678", "..... .....", false},
		{"01234 05678", "x.... x....", false},
		{"00123 45678", "xx..x .....", false},
		{"01123 45678", "xx... .....", false},
		{"00000 45678", "xxxxx .....", false}, {"10234 45678", ".x... .....", false},
	} {
		ids, unknown := strings.Fields(tc.ids), strings.Fields(tc.unknown)
		got := onlyPadding(len(ids), func(r int) int { return len(ids[r]) }, func(r, k int) (int64, bool) {
			return int64(ids[r][k]), unknown[r][k] == 'x'
		})
		if got != tc.want {
			t.Errorf("%s: %s: %t", tc.ids, tc.unknown, got)
		}
	}
}
