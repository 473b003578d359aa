package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func options(t *testing.T) Options {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Options: replay.Options{Registry: ops.Default(), Tolerances: tol}}
}

// open reads and analyses a tree of testdata.
func open(t *testing.T, tree string) *Trace {
	t.Helper()
	return analyse(t, "testdata/"+tree)
}

func analyse(t *testing.T, path string) *Trace {
	t.Helper()
	var calls []*Call
	for e, err := range capture.Scan(context.Background(), []string{path}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, Read(e, options(t)))
	}
	slices.Reverse(calls) // the order of files says nothing
	tr := New(calls)
	if err := tr.Analyze(context.Background(), options(t)); err != nil {
		t.Fatal(err)
	}
	return tr
}

// name is a value as tests write it: "gelu/4 output[0]".
func (v *Value) name() string {
	if v == nil {
		return "none"
	}
	return v.Call.Op[strings.LastIndexByte(v.Call.Op, '.')+1:] + fmt.Sprintf("/%d %s", v.Call.Entry.ID, v.Target)
}

// TestLinks: what every input and gradient of a result came from, of one step
// with its optimizer and the next step.
func TestLinks(t *testing.T) {
	tr := open(t, "clean")
	want := map[string]string{
		"embedding/1 input[0]":            "leaf data",
		"embedding/1 input[1]":            "leaf parameter",
		"layer_norm/2 input[0]":           "embedding/1 output[0]",
		"layer_norm/2 input.weight":       "leaf parameter",
		"linear/3 input[0]":               "layer_norm/2 output[0]",
		"gelu/4 input[0]":                 "linear/3 output[0]",
		"dropout/5 input[0]":              "gelu/4 output[0]",
		"linear/6 input[0]":               "dropout/5 output[0]",
		"add/7 input[0]":                  "embedding/1 output[0]", // read by layer_norm before
		"add/7 input[1]":                  "linear/6 output[0]",
		"view/8 input[0]":                 "add/7 output[0]",
		"linear/9 input[0]":               "view/8 output[0]",
		"cross_entropy/10 input[0]":       "linear/9 output[0]",
		"cross_entropy/10 input[1]":       "leaf data",
		"cross_entropy/10 grad_output[0]": "leaf seed",
		"mul_/11 input[0]":                "leaf optimizer state",
		"add_/12 input[0]":                "mul_/11 output[0]",
		"add_/13 input[1]":                "add_/12 output[0]",
		"linear/16 input[1]":              "add_/13 output[0]", // the weight that the optimizer wrote
		"mul_/24 input[0]":                "add_/12 output[0]", // the momentum of the step before
		"add/7 grad_output[0]":            "view/8 grad[0]",
		"linear/6 grad_output[0]":         "add/7 grad[0]", // both of add's are equal; either is right
	}
	got := map[string]string{}
	for _, c := range tr.Calls() {
		for _, v := range append(slices.Clone(c.Inputs), c.GradOutputs...) {
			if v.From.Value != nil {
				got[v.name()] = v.From.Value.name()
			} else {
				got[v.name()] = fmt.Sprintf("%s %s", v.From.How, v.From.Role)
			}
		}
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s comes from %q, want %q", name, got[name], w)
		}
	}
}

// TestFindings: the first fault and nothing else.
func TestFindings(t *testing.T) {
	for _, tc := range []struct {
		tree, rule, at, from, reason string
	}{
		{"clean", "", "", "", ""},
		{"eps", "", "", "", ""},
		{"tied", "", "", "", ""},
		{"clipped", "", "", "", ""},
		{"attention", "", "", "", ""},
		{"scaled", "wrong", "gelu/4 output[0]", "none", "scaled by 1.01"},
		{"overwritten", "changed", "add/7 input[1]", "linear/6 output[0]",
			"4 of 48 elements changed, the first at [0, 0, 5], the last at [0, 1, 0]"},
	} {
		t.Run(tc.tree, func(t *testing.T) {
			tr := open(t, tc.tree)
			if tc.rule == "" {
				for _, f := range tr.Findings {
					t.Errorf("finding %s %s %s: %s", f.Rule, f.Call, f.Target, f.Reason)
				}
				return
			}
			if len(tr.Findings) != 1 {
				t.Fatalf("%d findings, want 1", len(tr.Findings))
			}
			f := tr.Findings[0]
			at, from := f.Call.Value(f.Target).name(), f.From.name()
			if string(f.Rule) != tc.rule || at != tc.at || from != tc.from || !strings.Contains(f.Reason, tc.reason) {
				t.Errorf("got %s %s from %s: %s\nwant %s %s from %s: %s", f.Rule, at, f.From.name(), f.Reason, tc.rule,
					tc.at, tc.from, tc.reason)
			}
		})
	}
}

// TestLoss: the exact loss does not depend on the fault; the recorded one without
// the fault is the exact one but for rounding; small faults are predicted.
func TestLoss(t *testing.T) {
	exact := open(t, "clean").Processes[0].Steps[0].Exact
	for _, tree := range []string{"clean", "scaled", "overwritten"} {
		tr := open(t, tree)
		s := tr.Processes[0].Steps[0]
		if math.Abs(s.Exact-exact) > 1e-12*exact {
			t.Errorf("%s: exact loss %v, want %v", tree, s.Exact, exact)
		}
		if len(s.Breaks) > 0 {
			t.Errorf("%s: the exact step breaks at %s: %s", tree, s.Breaks[0].Call, s.Breaks[0].Reason)
		}
		if tr.First() != nil {
			if without := tr.Without(context.Background(), options(t)).Loss; math.Abs(without-exact) > 1e-6*exact {
				t.Errorf("%s: loss without the fault %v, want %v", tree, without, exact)
			}
		}
		if off := s.Captured - s.Exact; tree == "scaled" && math.Abs(s.Predicted-off) > 0.1*math.Abs(off) {
			t.Errorf("%s: predicted %v, want %v", tree, s.Predicted, off)
		}
	}
}

// TestImagined: with every call exact the imagined loss is the exact one, with none
// it is the recorded one.
func TestImagined(t *testing.T) {
	p := open(t, "clean").Processes[0]
	for _, tc := range []struct {
		name string
		how  Choice
		want func(*Step) float64
	}{
		{"exact", AsExact, func(s *Step) float64 { return s.Exact }},
		{"recorded", AsRecorded, func(s *Step) float64 { return s.Captured }},
	} {
		got, err := p.Losses(context.Background(), WhatIf{Choose: func(*Call) (Choice, tensor.DType) {
			return tc.how, tensor.Invalid
		}}, options(t))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range p.Steps {
			if math.Abs(got[i].Loss-tc.want(s)) > 1e-12 {
				t.Errorf("%s: loss of step %d is %v, want %v", tc.name, i, got[i].Loss, tc.want(s))
			}
		}
	}
}

// TestImaginedOne: a run in which the calls of one operator are exact lacks the effect of these calls, and no rounding
// of others, such as that of dropout.
func TestImaginedOne(t *testing.T) {
	p := analyse(t, unpack(t, "autocast-dropout")).Processes[0]
	s := p.Steps[0]
	for _, sum := range s.Sums(func(c *Call) string { return c.Op }) {
		losses, err := p.Losses(context.Background(), WhatIf{Choose: func(c *Call) (Choice, tensor.DType) {
			if c.Op == sum.Name {
				return AsExact, tensor.Invalid
			}
			return AsRecorded, tensor.Invalid
		}}, options(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Captured - losses[0].Loss; math.Abs(got-sum.Effect) > 0.05*math.Abs(sum.Effect) {
			t.Errorf("%s moved the loss by %g, its effect is %g", sum.Name, got, sum.Effect)
		}
	}
}

// TestImaginedSame: an update by the recorded gradients, computed anew with the errors of its calls, leaves what it
// left in the recorded run, also where the calls do not return what they write.
func TestImaginedSame(t *testing.T) {
	shorttest.Computes(t)
	for _, name := range []string{"weight-stale-bf16", "clip-lost", "kernel-gradient", "autocast-dropout"} {
		p := analyse(t, unpack(t, name)).Processes[0]
		opt := options(t)
		w := WhatIf{Choose: func(*Call) (Choice, tensor.DType) { return AsRecorded, tensor.Invalid }, Carries: true,
			With: map[*Value]*tensor.Tensor{}}
		for _, c := range p.Calls {
			for _, v := range c.Inputs {
				if v.From.first == nil && v.From.How != IsChanged && (v.isGradient() || v.From.Value == nil) {
					g, err := v.Recorded(opt)
					if err != nil {
						t.Fatal(err)
					}
					w.With[v] = g
				}
			}
		}
		losses, err := p.Losses(context.Background(), w, opt)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range p.Steps {
			if math.Abs(losses[i].Loss-s.Captured) > 1e-9 {
				t.Errorf("%s: the loss of step %d is %.9g, want %.9g", name, i, losses[i].Loss, s.Captured)
			}
		}
	}
}

// TestReach: a wrong gradient of a weight reaches no other call, a wrong gradient of a result those that made it.
func TestReach(t *testing.T) {
	shorttest.Computes(t)
	for name, want := range map[string]int{"kernel-gradient": 0, "backward-wrong": 1} {
		if f := analyse(t, unpack(t, name)).First(); f.Reach() != want {
			t.Errorf("%s: %s of %s reaches %d calls, want %d", name, f.Target, f.Call, f.Reach(), want)
		}
	}
}

// TestOneMore: the argument of the recorder by which it records the next step, too.
func TestOneMore(t *testing.T) {
	for want, steps := range map[string][]int{": steps=[3, 4]": {3, 3}, ": steps=[0, 2, 3]": {0, 2}, "": {-1}} {
		p := &Process{}
		for _, n := range steps {
			p.Calls = append(p.Calls, &Call{Entry: &capture.Entry{Step: n}})
		}
		if got := p.oneMore(); got != want {
			t.Errorf("%v: %q, want %q", steps, got, want)
		}
	}
}

// TestRecords: every call is a node, the backward passes stand behind their loss,
// last call first.
func TestRecords(t *testing.T) {
	tr := open(t, "clean")
	var order []string
	if err := tr.Nodes(func(n *Node) error {
		order = append(order, fmt.Sprintf("%s %d", n.Phase, *n.ForwardID))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	at := slices.Index(order, "forward 10")
	if got := order[at+1 : at+4]; !slices.Equal(got, []string{"backward 10", "backward 9", "backward 8"}) {
		t.Errorf("behind the loss come %v", got)
	}
	s := tr.Summary()
	if s.Calls != 26 || len(s.Losses) != 2 || s.First != nil || s.Loss.Capture != s.Losses[0].Capture {
		t.Errorf("summary %+v", s)
	}
}

// TestMemory: memory that is written again is forgotten, views are not.
func TestMemory(t *testing.T) {
	at := func(address uint64, n int) *Value {
		return &Value{DType: tensor.Float32, Shape: []int{n}, Stride: []int{1}, Address: address}
	}
	var m memory
	base, half, other := at(1000, 8), at(1016, 4), at(2000, 4)
	m.overwrite(base)
	m.name(half)
	m.overwrite(other)
	if got := m.around(1016); len(got) != 1 || got[0].names[0] != base {
		t.Errorf("around 1016: %v, want the tensor at 1000", got)
	}
	late := at(1020, 2)
	m.overwrite(late)
	if m.at(1000) != nil || m.at(1016) != nil {
		t.Error("memory that was written again still holds the tensors that were there")
	}
	if m.at(2000) == nil || m.at(1020).names[0] != late {
		t.Error("other memory was forgotten")
	}
}

// TestFingerprint: content, memory and samples tell equal, transposed and partly
// equal tensors apart.
func TestFingerprint(t *testing.T) {
	data := make([]float64, 1200)
	for i := range data {
		data[i] = float64(i%97) + 0.5
	}
	x := tensor.New(tensor.Float32, []int{30, 40}, data).Rounded()
	same := tensor.New(tensor.Float32, []int{30, 40}, slices.Clone(data)).Rounded()
	poked := slices.Clone(data)
	for i := range 600 {
		poked[i] = -1
	}
	part := tensor.New(tensor.Float32, []int{30, 40}, poked).Rounded()
	a, b, c, tr := newFingerprint(x), newFingerprint(same), newFingerprint(part), newFingerprint(x.Transpose(0, 1))
	if a.sum != b.sum || a.sum == c.sum || a.sum == tr.sum || a.block != tr.block {
		t.Errorf("sums %x %x %x %x, blocks %x %x", a.sum, b.sum, c.sum, tr.sum, a.block, tr.block)
	}
	if same := a.alike(&c, tensor.Float32); same.n != sampled || math.Abs(same.share()-0.5) > 0.05 {
		t.Errorf("half of it is equal, got %v of %d", same.share(), same.n)
	}
	if !a.near(&b, tensor.Float32) || a.near(&tr, tensor.Float32) {
		t.Error("near does not tell equal from different")
	}
}

// TestZerosOfEitherSign: products with zeros have zeros of both signs in places of their own. They say no more than
// other zeros of whether one tensor is another with a part overwritten.
func TestZerosOfEitherSign(t *testing.T) {
	make := func(k float64) *tensor.Tensor {
		data := make([]float64, 540)
		for i := range data {
			if data[i] = k * float64(i+1); i%18 > 6 {
				data[i] = math.Copysign(0, float64(i%5-2)*k)
			}
		}
		return tensor.New(tensor.Float32, []int{540}, data).Rounded()
	}
	for _, k := range []float64{3, -3} {
		x, y := make(1), make(k)
		a, b := newFingerprint(x), newFingerprint(y)
		if got := a.alike(&b, tensor.Float32); got.same != 0 || got.n == sampled {
			t.Errorf("times %v: %d of %d samples are equal", k, got.same, got.n)
		}
		if d := bitwise(y, x); d.n != 210 || d.same != 0 || d.some.same != 0 || d.isPart(tensor.Float32) {
			t.Errorf("times %v: %d elements differ, %d are equal", k, d.n, d.same)
		}
	}
}

// TestSampledLayouts: the samples of a matrix and of its transpose are others, whatever its shape.
func TestSampledLayouts(t *testing.T) {
	for _, shape := range [][2]int{{16, 16}, {64, 64}, {128, 128}, {64, 32}, {512, 512}} {
		data := make([]float64, shape[0]*shape[1])
		for i := range data {
			data[i] = float64(i%4093) + 0.5
		}
		x := tensor.New(tensor.Float32, shape[:], data).Rounded()
		a, b := newFingerprint(x), newFingerprint(x.Transpose(0, 1))
		if same := a.alike(&b, tensor.Float16); same.share() > 0.1 || same.n != sampled {
			t.Errorf("%v: %v of %d samples are those of the transpose, want next to none", shape, same.share(), same.n)
		}
	}
}

// TestEmptyFingerprint: the offset of an empty tensor may lie past its storage.
func TestEmptyFingerprint(t *testing.T) {
	x, err := tensor.NewView(tensor.NewStorage(nil), tensor.View{DType: tensor.Float32, Shape: []int{0, 3},
		Stride: []int{3, 1}})
	if err != nil {
		t.Fatal(err)
	}
	x.Offset = 100
	if f := newFingerprint(x); f.samples != nil {
		t.Errorf("got samples %v of an empty tensor", f.samples)
	}
}

// TestMaskScale: the factor of a dropout, and tensors that are none.
func TestMaskScale(t *testing.T) {
	in := tensor.New(tensor.Float32, []int{4}, []float64{1, -2, 3, 0.1}).Rounded()
	for _, tc := range []struct {
		name  string
		out   []float64
		scale float64
		ok    bool
	}{
		{"p = 0.1", []float64{1 / 0.9, 0, 3 / 0.9, 0}, 1 / 0.9, true},
		{"all dropped", []float64{0, 0, 0, 0}, 0, true},
		{"no mask", []float64{1, -2, 4, 0}, 0, false},
	} {
		out := tensor.New(tensor.Float32, []int{4}, tc.out).Rounded()
		if scale, ok := maskScale(out, in); ok != tc.ok || ok && scale != tc.scale {
			t.Errorf("%s: got %v %v, want %v %v", tc.name, scale, ok, tc.scale, tc.ok)
		}
	}
}

// TestProcesses: calls are ordered by process and number; ranks come from folders,
// and equal process numbers on two machines are told apart by the folder.
func TestProcesses(t *testing.T) {
	call := func(rel string, pid, id int) *Call {
		return &Call{Entry: &capture.Entry{Rel: rel, Step: -1, Order: -1,
			Name: capture.Name{Op: "torch.add", PID: pid, ID: id, Rank: -1}}}
	}
	for _, tc := range []struct {
		name  string
		calls []*Call
		want  string
	}{
		{"two ranks", []*Call{call("rank1/torch.add/7/1/t", 7, 1), call("rank0/torch.add/9/2/t", 9, 2),
			call("rank0/torch.add/9/1/t", 9, 1)}, "0:9[1 2] 1:7[1] "},
		{"equal processes", []*Call{call("a/torch.add/7/1/t", 7, 1), call("b/torch.add/7/1/t", 7, 1)},
			"-1:7[1] -1:7[1] "},
		{"one process in two folders", []*Call{call("a/torch.add/7/2/t", 7, 2), call("b/torch.add/7/1/t", 7, 1)},
			"-1:7[1 2] "},
	} {
		got := ""
		for _, p := range processes(tc.calls) {
			ids := []int{}
			for _, c := range p.Calls {
				ids = append(ids, c.Entry.ID)
			}
			got += fmt.Sprintf("%d:%d%v ", p.Rank, p.PID, ids)
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestAgainst: the first call that differs, by the argument that makes it differ;
// one run against itself has no finding.
func TestAgainst(t *testing.T) {
	for _, tc := range []struct{ a, b, rule, at, reason string }{
		{"clean", "clean", "", "", ""},
		{"clean", "eps", "diverged", "layer_norm/2 output[0]", "eps=0.001 instead of 1e-05"},
		{"scaled", "clean", "diverged", "gelu/4 output[0]", "the other run's is wrong by itself"},
		{"clean", "scaled", "wrong", "gelu/4 output[0]", "scaled by 1.01"},
	} {
		t.Run(tc.b+" against "+tc.a, func(t *testing.T) {
			tr := open(t, tc.b)
			if err := tr.Against(context.Background(), open(t, tc.a), options(t)); err != nil {
				t.Fatal(err)
			}
			if tc.rule == "" {
				if len(tr.Findings) > 0 {
					t.Errorf("%d findings, first: %+v", len(tr.Findings), tr.Findings[0])
				}
				return
			}
			f := tr.First()
			if f == nil || string(f.Rule) != tc.rule || f.Call.Value(f.Target).name() != tc.at || f.Peer == nil ||
				!strings.Contains(f.Reason, tc.reason) {
				t.Errorf("got %+v, want %s at %s: %s", f, tc.rule, tc.at, tc.reason)
			}
		})
	}
}

// summarised makes a trace of which only summaries are known.
func summarised(t *testing.T, tree string, like tensor.Summary) *Trace {
	t.Helper()
	var calls []*Call
	for _, c := range open(t, tree).Calls() {
		for _, vs := range [][]*Value{c.Inputs, c.Outputs, c.Grads, c.GradOutputs} {
			for _, v := range vs {
				s, err := v.summarised(&like, options(t))
				if err != nil {
					t.Fatal(err)
				}
				if like.Mean == nil {
					s = &tensor.Summary{Checksum: s.Checksum}
				}
				v.summary, v.content, v.From, v.readers = s, summaryFingerprint(s), Link{}, nil
			}
		}
		c.Results, c.Verdict, c.Step = nil, verdict.Unsupported, nil
		calls = append(calls, c)
	}
	return New(calls)
}

// TestAgainstSummaries: where runs part is known from statistics or checksums alone,
// also of gradients.
func TestAgainstSummaries(t *testing.T) {
	zero := 0.0
	statistics, checksums := tensor.Summary{Mean: &zero, Norm: &zero}, tensor.Summary{Checksum: "0"}
	for _, tc := range []struct {
		name, a, b, at, reason string
		like                   tensor.Summary
		change                 string // a value of b whose summary is another
	}{
		{"equal statistics", "clean", "clean", "", "", statistics, ""},
		{"statistics", "clean", "scaled", "gelu/4 output[0]", "differ by 0.0099, the inputs by 0", statistics, ""},
		{"arguments", "clean", "eps", "layer_norm/2 output[0]", "eps=0.001 instead of 1e-05", statistics, ""},
		{"equal checksums", "clean", "clean", "", "", checksums, ""},
		{"checksums", "clean", "scaled", "gelu/4 output[0]", "by how much was not recorded", checksums, ""},
		{"gradient", "clean", "clean", "gelu/4 grad[0]", "gradients that arrive and the arguments by 0", statistics,
			"gelu/4 grad[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := summarised(t, tc.a, tc.like), summarised(t, tc.b, tc.like)
			for _, c := range b.Calls() {
				for _, v := range c.Grads {
					if v.name() == tc.change {
						most := 2 * *v.summary.Max
						v.summary = &tensor.Summary{Max: &most, Min: v.summary.Min}
						v.content = summaryFingerprint(v.summary)
					}
				}
			}
			if err := b.Against(context.Background(), a, options(t)); err != nil {
				t.Fatal(err)
			}
			f := b.First()
			if tc.at == "" {
				if f != nil || b.Runs.Compared != len(a.Calls()) {
					t.Errorf("finding %+v, %d calls compared of %d", f, b.Runs.Compared, len(a.Calls()))
				}
				return
			}
			if f == nil || f.Rule != verdict.Diverged || f.Call.Value(f.Target).name() != tc.at ||
				!strings.Contains(f.Reason, tc.reason) {
				t.Errorf("got %+v, want %s: %s", f, tc.at, tc.reason)
			}
		})
	}
}

// TestApartBySummary: how far values are apart at least.
func TestApartBySummary(t *testing.T) {
	known := func(dt tensor.DType, n int, most, least, mean, norm float64) *Value {
		return &Value{DType: dt, Shape: []int{n}, summary: &tensor.Summary{Max: &most, Min: &least, Mean: &mean,
			Norm: &norm}}
	}
	sum := func(s string) *Value {
		return &Value{DType: tensor.Float32, Shape: []int{4}, summary: &tensor.Summary{Checksum: s}}
	}
	base := known(tensor.Float32, 4, 2, -4, 0.5, 5)
	for _, tc := range []struct {
		name string
		a, b *Value
		want float64
	}{
		{"largest", base, known(tensor.Float32, 4, 3, -4, 0.5, 5), 0.25},
		{"mean, of the root mean square", base, known(tensor.Float32, 4, 2, -4, 0.75, 5), 0.1},
		{"norm", base, known(tensor.Float32, 4, 2, -4, 0.5, 4), 0.2},
		{"rounding of the sum", base, known(tensor.Float32, 4, 2, -4, 0.5, 5.000001), 0},
		{"another dtype", base, known(tensor.BFloat16, 4, 2, -4, 0.5, 5.1), 0},
		{"not a number", base, known(tensor.Float32, 4, math.NaN(), -4, 0.5, 5), math.Inf(1)},
		{"another shape", base, known(tensor.Float32, 5, 2, -4, 0.5, 5), 1},
		{"equal checksums", sum("ab"), sum("AB"), 0},
		{"checksums", sum("ab"), sum("ac"), math.Inf(1)},
		{"nothing", base, sum("ab"), math.NaN()},
	} {
		got, err := tc.a.apartBySummary(tc.b, Options{})
		if err != nil {
			got = math.NaN()
		}
		if got != tc.want && !(got != got && tc.want != tc.want) {
			t.Errorf("%s: got %v (%v), want %v", tc.name, got, err, tc.want)
		}
	}
}

// TestShifted: one more call shifts the numbers of all later ones; the fault is found
// where it is.
func TestShifted(t *testing.T) {
	root := t.TempDir()
	for e, err := range capture.Scan(context.Background(), []string{"testdata/scaled"}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		var copies []int
		switch {
		case e.ID < 3:
			copies = []int{e.ID}
		case e.ID == 3: // the first linear layer runs twice
			copies = []int{3, 4}
		default:
			copies = []int{e.ID + 1}
		}
		for _, id := range copies {
			dir := filepath.Join(root, "op_tools_results", "op_capture_results", e.Op, "9", fmt.Sprint(id),
				"2025-01-01-00-00-00")
			if err := os.CopyFS(dir, os.DirFS(e.Dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr := analyse(t, root)
	if err := tr.Against(context.Background(), open(t, "overwritten"), options(t)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tr.Findings {
		got = append(got, fmt.Sprintf("%s %s/%d", f.Rule, f.Call.Op[strings.LastIndexByte(f.Call.Op, '.')+1:],
			f.Call.Entry.ID))
	}
	if len(got) == 0 || got[0] != "wrong gelu/5" || tr.Findings[0].Peer == nil || tr.Findings[0].Peer.Entry.ID != 4 {
		t.Errorf("got %v, want gelu/5 wrong first, which is gelu/4 of the other run", got)
	}
	var alone []string
	for _, s := range got {
		if strings.HasPrefix(s, "missing") || strings.HasPrefix(s, "inserted") {
			alone = append(alone, s)
		}
	}
	if len(alone) != 1 || !strings.HasPrefix(alone[0], "inserted linear/") {
		t.Errorf("only in one run: %v, want one linear layer inserted", alone)
	}
}

// TestAlign: calls that only one run has do not shift the others.
func TestAlign(t *testing.T) {
	calls := func(text string) []*Call {
		var out []*Call
		for i, name := range strings.Fields(text) {
			op, sum, _ := strings.Cut(name, ":")
			v := &Value{DType: tensor.Float32, Shape: []int{2}, content: fingerprint{sum: uint64(len(sum)) + 7}}
			out = append(out, &Call{Op: "torch." + op, Order: i, Outputs: []*Value{v},
				Entry: &capture.Entry{Name: capture.Name{ID: i}}})
		}
		return out
	}
	for _, tc := range []struct{ name, a, b, pairs, missing, inserted string }{
		{"equal", "mul add mul", "mul add mul", "0-0 1-1 2-2 ", "", ""},
		{"one more", "mul add mul", "clone mul add mul", "0-1 1-2 2-3 ", "", "clone "},
		{"one less", "mul clone add", "mul add", "0-0 2-1 ", "clone ", ""},
		{"other code between", "exp sub div log", "exp neg add log", "0-0 3-3 ", "sub div ", "neg add "},
		{"content decides", "mul:a mul:bb mul:ccc", "mul:bb mul:ccc", "1-0 2-1 ", "mul ", ""},
		{"in place", "relu", "relu_", "0-0 ", "", ""},
		{"nothing in common", "exp", "log", "", "exp ", "log "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			al := align(calls(tc.a), calls(tc.b))
			pairs, missing, inserted := "", "", ""
			for _, p := range al.Pairs {
				pairs += fmt.Sprintf("%d-%d ", p[0], p[1])
			}
			for _, i := range al.Missing {
				missing += operators(calls(tc.a))[i] + " "
			}
			for _, j := range al.Inserted {
				inserted += operators(calls(tc.b))[j] + " "
			}
			if pairs != tc.pairs || missing != tc.missing || inserted != tc.inserted {
				t.Errorf("got %q, missing %q, inserted %q, want %q, %q, %q", pairs, missing, inserted, tc.pairs,
					tc.missing, tc.inserted)
			}
		})
	}
}

// TestBridge: a gradient that op_tools saw at an inner node of its reader, and a
// weight gradient that only the optimizer has, are explained by the reference; a
// part that was overwritten is found.
func TestBridge(t *testing.T) {
	clean := open(t, "clean")
	for _, at := range []string{"layer_norm/2 grad_output[0]", "add_/12 input[1]"} {
		if v := lookup(clean, at); v == nil || v.From.Role != "gradient" || v.From.How != ByContent {
			t.Errorf("%s is not explained: %+v", at, v)
		}
	}
	for _, tc := range []struct {
		at, file string
		argument int
		reach    int // calls that are wrong because of it
	}{
		{"layer_norm/2 grad_output[0]", "grad_outputs.pth", 0, 1}, // the embedding's gradient
		{"add_/12 input[1]", "input.pth", 1, 12},                  // the second step
	} {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS("testdata/clean")); err != nil {
			t.Fatal(err)
		}
		rel := filepath.FromSlash(lookup(clean, tc.at).Call.Entry.Rel)
		poke(t, filepath.Join(root, rel, tc.file), tc.argument, []float64{.5, .5, .5})
		f := analyse(t, root).First()
		if f == nil || f.Rule != verdict.Changed || f.Call.Value(f.Target).name() != tc.at ||
			!strings.Contains(f.Reason, "3 of") {
			t.Errorf("%s: got %+v, want it changed", tc.at, f)
			continue
		}
		if f.InBackward() != (tc.file == "grad_outputs.pth") || f.Reach() != tc.reach {
			t.Errorf("%s: in the backward pass: %v, reaches %d calls, want %d", tc.at, f.InBackward(), f.Reach(),
				tc.reach)
		}
	}
}

// TestTied: the gradient that an optimizer reads is the sum of what all readers of a
// parameter gave since it was written last; rows of one part are no change.
func TestTied(t *testing.T) {
	n := 0
	for _, c := range open(t, "tied").Calls() {
		for _, v := range c.Inputs {
			if v.From.Role == "gradient" && v.From.How == ByContent {
				n++
			}
		}
	}
	if n != 2 {
		t.Errorf("%d gradients of the shared weight are explained, want 2: of one loss, and of two", n)
	}
}

// TestAveraged: the exact step goes on through attention with dropout inside, and keeps
// the order in which equal numbers were sorted.
func TestAveraged(t *testing.T) {
	s := open(t, "attention").Processes[0].Steps[0]
	if len(s.Breaks) > 0 || len(s.Averaged) != 1 || s.Averaged[0].Op != "torch.nn.functional.scaled_dot_product_attention" {
		t.Fatalf("breaks %v, averaged %v", s.Breaks, s.Averaged)
	}
	for _, c := range s.Calls {
		if c.TotalError > 1e-5 {
			t.Errorf("total error of %s is %v", c, c.TotalError)
		}
	}
	if off := s.Captured - s.Exact; off == 0 || math.Abs(off) > 1e-5 {
		t.Errorf("the loss is off by %v, want rounding", off)
	}
	s.Averaged[0].Outputs = nil // as of a call that checkpointing stopped
	if err := s.Loss.Process.Exact(context.Background(), options(t)); err != nil || len(s.Averaged) > 1 {
		t.Errorf("averaged %v: a call without a result is averaged (%v)", s.Averaged[1:], err)
	}
}

// lookup is the value that name gives a name.
func lookup(tr *Trace, name string) *Value {
	for _, c := range tr.Calls() {
		for _, v := range append(slices.Clone(c.Inputs), c.GradOutputs...) {
			if v.name() == name {
				return v
			}
		}
	}
	return nil
}

// poke overwrites elements of argument k of a file, from the sixth on.
func poke(t *testing.T, path string, k int, with []float64) {
	t.Helper()
	f, err := pthformat.Open(path, pthformat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	args, _ := f.Root.(*value.Dict).Get("args")
	items := args.(*value.Sequence).Items
	was := items[k].(*tensor.Tensor)
	data := slices.Clone(tensor.Data[float64](was))
	copy(data[5:], with)
	items[k] = tensor.New(was.DType, was.Shape, data)
	if err := errors.Join(os.Remove(path), pthformat.WriteFile(path, f.Root), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestOutliers: elements that stand out, rounding, and tensors that are not alike.
func TestOutliers(t *testing.T) {
	exact := make([]float64, 100)
	for i := range exact {
		exact[i] = math.Sin(float64(i))
	}
	change := func(f func(i int, x float64) float64) []float64 {
		out := make([]float64, len(exact))
		for i, x := range exact {
			out[i] = f(i, x)
		}
		return out
	}
	for _, tc := range []struct {
		name string
		x    []float64
		n    int
		ok   bool
	}{
		{"rounding", change(func(i int, x float64) float64 { return float64(float32(x)) }), 0, true},
		{"two elements", change(func(i int, x float64) float64 {
			if i == 3 || i == 4 {
				return 2
			}
			return float64(float32(x))
		}), 2, true},
		{"scaled", change(func(i int, x float64) float64 { return 1.5 * x }), 0, false},
		{"half of it", change(func(i int, x float64) float64 { return x + float64(i%2) }), 0, false},
	} {
		if _, n, _, ok := outliers(tc.x, exact, exact, 1, tensor.Float32, 0.75); ok != tc.ok || ok && n != tc.n {
			t.Errorf("%s: got %d %v, want %d %v", tc.name, n, ok, tc.n, tc.ok)
		}
	}
}

// TestOutliersThatTell: elements next to zero in both tensors show of neither that it is the other, and infinities
// where float16 ends do not stand out.
func TestOutliersThatTell(t *testing.T) {
	const n = 256
	momentum, gradient := make([]float64, n), make([]float64, n)
	for i := range n {
		momentum[i] = 1e-9
		if i < 32 { // the rows of an embedding that were used
			momentum[i], gradient[i] = 1+math.Cos(float64(i)), math.Sin(float64(i))-2
		}
	}
	_, far, telling, ok := outliers(momentum, gradient, gradient, 1, tensor.Float32, 0.75)
	if !ok || far != 32 || telling != 32 {
		t.Errorf("%d stand out of %d that tell, %v; want 32 of 32", far, telling, ok)
	}
	for i := range gradient {
		gradient[i] = 60000 + 100*float64(i)
		momentum[i] = tensor.Float16.Round(gradient[i])
	}
	if _, far, _, ok := outliers(momentum, gradient, gradient, 1, tensor.Float16, 0.75); !ok || far != 0 {
		t.Errorf("%d stand out of what overflows, %v; want none", far, ok)
	}
}

// TestAgreement: equal elements of tensors of a few values are chance.
func TestAgreement(t *testing.T) {
	var few, many agreement
	for i := range 300 {
		few.add(uint64(i%3), uint64(i/3%3))
		y := i
		if i%2 == 1 {
			y = -i
		}
		many.add(uint64(i), uint64(y))
	}
	if share, beyond := few.share(), few.beyondChance(); math.Abs(share-1./3) > 0.02 || beyond > 0.02 {
		t.Errorf("of three values %.3g are equal, %.3g beyond chance", share, beyond)
	}
	if share, beyond := many.share(), many.beyondChance(); share != 0.5 || math.Abs(beyond-0.5) > 0.01 {
		t.Errorf("of 300 values %.3g are equal, %.3g beyond chance", share, beyond)
	}
}

// TestOutliersOfCancellation: what rounding of two nearly opposite parts leaves in bfloat16 stands out of their sum,
// not out of the parts. An overwritten element stands out of both.
func TestOutliersOfCancellation(t *testing.T) {
	const n = 256
	round := tensor.BFloat16.Round
	x, sum, sizes := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		a := 0.01 * math.Sin(float64(i))
		if i%16 == 0 {
			a = 1 + 0.3*math.Sin(float64(i))
		}
		b := -a * (1 + 0.001*math.Cos(float64(i)))
		x[i] = round(round(a) + round(b))
		sum[i], sizes[i] = a+b, math.Abs(a)+math.Abs(b)
	}
	if _, n, _, ok := outliers(x, sum, sizes, 1, tensor.BFloat16, 0.75); !ok || n != 0 {
		t.Errorf("rounding: %d %v stand out, want none", n, ok)
	}
	x[5] = 2
	if first, n, _, ok := outliers(x, sum, sizes, 1, tensor.BFloat16, 0.75); !ok || n != 1 || first != 5 {
		t.Errorf("an overwritten element: %d from %d, %v, want 1 at 5", n, first, ok)
	}
	if _, n, _, ok := outliers(x, sum, sum, 1, tensor.BFloat16, 0.75); ok && n < 2 {
		t.Errorf("against the sum %d stand out: nothing cancels here", n)
	}
}

// TestCopied: an input without a producer that holds elements of a result alone may
// have been read from it by a call that was not recorded.
func TestCopied(t *testing.T) {
	tr := open(t, "clean")
	c := lookup(tr, "layer_norm/2 input[0]").From.Value.Call
	out := c.Outputs[0]
	for _, tc := range []struct {
		name    string
		samples []uint64
		want    bool
	}{
		{"elements of it", out.content.samples[3:9], true},
		{"others", lookup(tr, "gelu/4 input[0]").content.samples[3:9], false},
	} {
		v := lookup(tr, "linear/9 input[0]")
		made := *v
		v.From, v.RequiresGrad, v.content.samples = Link{How: IsLeaf}, true, tc.samples
		got, err := c.copied(out, options(t))
		if err != nil || got != tc.want {
			t.Errorf("%s: got %v %v, want %v", tc.name, got, err, tc.want)
		}
		*v = made
	}
}

// TestApart: parameters that ranks should have in common.
func TestApart(t *testing.T) {
	rank := func(pid int, sums ...uint64) *Process {
		p := &Process{PID: pid}
		for _, sum := range sums {
			c := &Call{Op: "torch.mul", Process: p}
			c.Inputs = []*Value{{Call: c, DType: tensor.Float32, Shape: []int{2}, content: fingerprint{sum: sum},
				From: Link{How: IsLeaf, Role: "parameter"}}}
			p.Calls = append(p.Calls, c)
		}
		return p
	}
	named := func(p *Process, names ...string) *Process {
		for i, n := range names {
			p.Calls[i].Inputs[0].named = n
		}
		return p
	}
	for _, tc := range []struct {
		name           string
		a, b           *Process
		differ, shared int
	}{
		{"of one name", named(rank(1, 1, 2, 3), "a", "b", "c"), named(rank(2, 1, 2, 9), "a", "b", "c"), 1, 2},
		{"an optimizer's own", named(rank(1, 1, 2, 3), "a", "b", ""), named(rank(2, 1, 2, 9), "a", "b", ""), 0, 2},
		{"experts", named(rank(1, 1, 2, 3), "a", "b", "up0"), named(rank(2, 1, 2, 9), "a", "b", "up1"), 0, 2},
		{"equal", rank(1, 1, 2, 3), rank(2, 1, 2, 3), 0, 3},
		{"one differs", rank(1, 1, 2, 3), rank(2, 1, 9, 3), 1, 2},
		{"parts of a model", rank(1, 1, 2, 3), rank(2, 4, 5, 6), 0, 0},
	} {
		differ, shared := (&Trace{Processes: []*Process{tc.a, tc.b}}).Apart()
		if len(differ) != tc.differ || shared != tc.shared {
			t.Errorf("%s: got %d differ, %d shared, want %d, %d", tc.name, len(differ), shared, tc.differ, tc.shared)
		}
	}
}

// TestElsewhere: elements that were overwritten by those of another value.
func TestElsewhere(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/clean")); err != nil {
		t.Fatal(err)
	}
	tr := open(t, "clean")
	norm := lookup(tr, "linear/3 input[0]").From.Value
	x, done, err := norm.load(options(t))
	if err != nil {
		t.Fatal(err)
	}
	data := slices.Clone(tensor.Data[float64](x)[5:12])
	done()
	add := lookup(tr, "add/7 input[1]").Call.Entry.Rel
	poke(t, filepath.Join(root, filepath.FromSlash(add), "input.pth"), 1, data)
	f := analyse(t, root).First()
	want := "they are those of output[0] of torch.nn.functional.layer_norm/2"
	if f == nil || f.Rule != verdict.Changed || !strings.Contains(f.Reason, "7 of 48") ||
		!strings.HasSuffix(f.Reason, want) {
		t.Errorf("got %+v, want a change that ends in %q", f, want)
	}
}

// TestFormats: docs/formats.md lists the fields of a node.
func TestFormats(t *testing.T) {
	page, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### `\"kind\":\"node\"`\n")
	section, _, _ = strings.Cut(section, "\n#")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "kind" && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/formats.md does not list %q", name)
		}
	}
}

// TestConfirmed: a change that the whole content does not show is no finding.
func TestConfirmed(t *testing.T) {
	for _, c := range analyse(t, "testdata/clean").Calls() {
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil && w.like(v) && w.equals(v) {
				v.From.How = IsChanged
				if all := changed([]*Value{v}, Options{}); len(all) > 0 {
					t.Fatalf("%s of %s: %s", v.Target, c, all[0].Reason)
				}
				return
			}
		}
	}
	t.Fatal("no input has the content of a result")
}
