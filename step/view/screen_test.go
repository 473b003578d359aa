package view

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// trace reads and analyses a tree of package step's testdata.
func options(t *testing.T) step.Options {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return step.Options{Options: replay.Options{Registry: ops.Default(), Tolerances: tol}}
}

func trace(t *testing.T, tree string) *step.Trace {
	t.Helper()
	opt := options(t)
	var calls []*step.Call
	for e, err := range capture.Scan(context.Background(), []string{"../testdata/" + tree}, capture.Options{}) {
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

// TestScreenOfTwoRuns: both losses, and no all-clear where they differ.
// TestStateWrites: a line for each line of the program that writes the state of an optimizer.
func TestStateWrites(t *testing.T) {
	got := stateWrites([]*step.StateWrite{{Location: "train.py:40", Parameters: []string{"head.weight"}},
		{Location: "train.py:41", Parameters: []string{"a", "b"}}})
	want := []string{"state of head.weight is also written at train.py:40",
		"state of 2 parameters, the first a, is also written at train.py:41"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScreenOfTwoRuns(t *testing.T) {
	tr := trace(t, "block-sigmoid")
	if err := tr.Against(context.Background(), trace(t, "block"), options(t)); err != nil {
		t.Fatal(err)
	}
	screen := func() string {
		var b strings.Builder
		if err := Screen(&b, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := screen(); !strings.Contains(got, "DIVERGED: ") ||
		!strings.Contains(got, "loss: other run 40.39756, this run 40.23472\n") {
		t.Errorf("got\n%s", got)
	}
	tr.Findings = nil
	if got := screen(); !strings.Contains(got, "The losses of step 0 differ, 40.39756 in the other run and 40.23472 in this") ||
		strings.Contains(got, "Nothing") {
		t.Errorf("without a finding:\n%s", got)
	}
}

// TestStepNumbers: a step has the number that the recorder gave it. Losses of one number are numbered within it.
func TestStepNumbers(t *testing.T) {
	for _, tc := range []struct {
		recorded int
		want     string
	}{{4, "\nstep 4: loss "}, {3, "\nloss 2 of 2 of step 3: 0."}, {-1, "\nstep 1: loss "}} {
		tr := trace(t, "tied")
		steps := tr.Processes[0].Steps
		steps[0].Loss.Entry.Step, steps[1].Loss.Entry.Step, steps[2].Loss.Entry.Step = 3, tc.recorded, 5
		var b strings.Builder
		if err := Screen(&b, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tc.want) {
			t.Errorf("recorded as %d: got\n%s", tc.recorded, b.String())
		}
	}
}

// TestLossOf16Bits: that a loss is rounded to 16 bits is said beside it.
func TestLossOf16Bits(t *testing.T) {
	tr := trace(t, "clean")
	s := tr.MainStep()
	const note = "the loss is in bfloat16: rounding it alone moves it by up to 0.0"
	if got := loss(tr, s, Extra{Without: step.Moved{Loss: math.NaN()}}); strings.Contains(got, "rounding it alone") {
		t.Errorf("of 32 bits: got\n%s", got)
	}
	s.Loss.Outputs[0].DType = tensor.BFloat16
	if got := loss(tr, s, Extra{Without: step.Moved{Loss: math.NaN()}}); !strings.Contains(got, note) {
		t.Errorf("got\n%s", got)
	}
}

// TestUnadded: a value that changed between calls is said to be why the errors do not add up.
func TestUnadded(t *testing.T) {
	tr := trace(t, "overwritten")
	s := tr.MainStep()
	s.Exact, s.Predicted = s.Given()/2, 0
	const why = "add up to the difference: a value that changed between calls is no error of a call\n"
	if got := loss(tr, s, Extra{Without: step.Moved{Loss: math.NaN()}}); !strings.Contains(got, why) {
		t.Errorf("with a changed value: got\n%s", got)
	}
	tr.Findings = nil
	if got := loss(tr, s, Extra{Without: step.Moved{Loss: math.NaN()}}); strings.Contains(got, why) ||
		!strings.Contains(got, "or a choice or comparison") {
		t.Errorf("without: got\n%s", got)
	}
}

// TestDeparture: two runs without a finding differ nowhere, by rounding, or by what was not judged. Those with a
// finding part somewhere. Calls that only one run makes are counted once, and are no warnings.
func TestDeparture(t *testing.T) {
	run := func(b, a string, change func(t *step.Trace)) string {
		tr := trace(t, b)
		change(tr)
		if err := tr.Against(context.Background(), trace(t, a), options(t)); err != nil {
			t.Fatal(err)
		}
		var s strings.Builder
		x := Extra{Without: step.Moved{Loss: math.NaN()}}
		if err := Screen(&s, tr, x); err != nil {
			t.Fatal(err)
		}
		for _, r := range tr.Results(func(*step.Call, bool) string { return "" }, "") {
			if r.Verdict == verdict.Warn {
				t.Errorf("%s against %s: warning %s %s: %s", b, a, r.Capture, r.Target, r.Reason)
			}
		}
		facts := ""
		for _, f := range Facts(tr, x) {
			facts += f.Text + "\n"
		}
		for line := range strings.Lines(runsText(tr)) {
			if strings.Count(facts, line) != 1 || strings.Count(s.String(), line) != 1 {
				t.Errorf("%s against %s: %q is not said once in\n%s\n%s", b, a, line, &s, facts)
			}
		}
		return s.String()
	}
	same := func(*step.Trace) {}
	unjudged := func(tr *step.Trace) { tr.Calls()[2].Results, tr.Calls()[2].Verdict = nil, verdict.Unsupported }
	for _, tc := range []struct {
		name, b, a string
		change     func(t *step.Trace)
		want       string
	}{
		{"same", "clean", "clean", same, "the values that both runs recorded are the same\n"},
		{"rounding", "block", "block-erf", same, "the runs differ only by rounding, first in "},
		{"not judged", "block", "block-erf", unjudged, "part by more than rounding, but not every call was judged"},
		{"parts", "block-sigmoid", "block", same, "the runs part at input[0] of torch.nn.functional.linear/6, by 0.0089 of " +
			"the largest element\nonly in the other run (1): torch.nn.functional.gelu\nonly in this run (3): torch.Tensor.mul"},
		{"backward", "block", "block-scaled", same, "the runs part at grad_output[0] of torch.nn.functional.gelu/3, by 0.0099 of " +
			"the largest element\n"},
	} {
		if got := run(tc.b, tc.a, tc.change); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got\n%s", tc.name, got)
		}
	}
}

// TestTogether: what all faults did to a loss is said beside the first one, if it is something else.
func TestTogether(t *testing.T) {
	next := &step.Step{Number: 1, Captured: 2}
	at := func(loss float64) step.Moved { return step.Moved{Step: next, Loss: loss, Update: 0.25} }
	why := step.Moved{Step: next, Loss: math.NaN(), Why: "linear/3 cannot be run again"}
	infinite := step.Moved{Step: &step.Step{Number: 1, Captured: math.NaN()}, Loss: 1.5, Update: math.NaN(),
		NotFinite: &step.Value{Target: "input[1]", Call: trace(t, "clean").Calls()[0]}}
	for _, tc := range []struct {
		name string
		x    Extra
		want string
	}{
		{"not finite", Extra{Without: infinite, Together: infinite, Faults: 1},
			"without the first fault the loss of step 1 would have been 1.5: it is NaN\n" +
				"how far it moved the parameters has no number: input[1] of " + infinite.NotFinite.Call.String() +
				" is not finite\n"},
		{"one", Extra{Without: at(1.5), Together: at(1.5), Faults: 1},
			"without the first fault the loss of step 1 would have been 1.5: the fault moves it by +0.5\n" +
				"the fault left the parameters elsewhere, by 25 % of how far the update moved them\n"},
		{"behind a difference of two runs", Extra{Without: at(1.5), Together: at(1.5), Faults: 1,
			Fault: "the fault of torch.relu/5"},
			"without the fault of torch.relu/5 the loss of step 1 would have been 1.5: the fault moves it by +0.5\n" +
				"the fault left the parameters elsewhere, by 25 % of how far the update moved them\n"},
		{"one kernel", Extra{Without: step.Moved{Step: next, Loss: 1.5, Update: math.NaN(), Op: "torch.relu", Calls: 4},
			Faults: 4, Together: step.Moved{Step: next, Loss: 1.5, Update: math.NaN()}},
			"without the first fault (torch.relu, 4 calls) the loss of step 1 would have been 1.5: the fault moves it by +0.5\n"},
		{"others", Extra{Without: step.Moved{Step: next, Loss: 1.5, Update: math.NaN(), Calls: 1, Kept: 1}, Faults: 2,
			Together: at(1.25)},
			"without the first fault the loss of step 1 would have been 1.5: the fault moves it by +0.5, with the errors of " +
				"1 other fault as recorded\n" +
				"without both wrong values the loss of step 1 would have been 1.25: they move it by +0.75\n" +
				"they left the parameters elsewhere, by 25 % of how far the update moved them\n"},
		{"equal", Extra{Without: why, Together: why, Faults: 3},
			"what the first fault does to the next loss cannot be told: linear/3 cannot be run again\n"},
		{"more", Extra{Without: at(2), Together: at(1.25), Faults: 7},
			"the first fault does not move the loss of step 1\n" +
				"without all 7 wrong values the loss of step 1 would have been 1.25: they move it by +0.75\n" +
				"they left the parameters elsewhere, by 25 % of how far the update moved them\n"},
		{"not known", Extra{Without: at(2), Together: why, Faults: 2},
			"the first fault does not move the loss of step 1\n" +
				"what both wrong values do to the next loss cannot be told: linear/3 cannot be run again\n"},
	} {
		var b strings.Builder
		if without(&b, &step.Step{}, tc.x); b.String() != tc.want {
			t.Errorf("%s: got\n%swant\n%s", tc.name, b.String(), tc.want)
		}
	}
}

// behindLoss is a trace with a fault in the update, and what it did.
func behindLoss(t *testing.T) (*step.Trace, Extra) {
	tr := trace(t, "clean")
	tr.Findings = []*step.Finding{{Rule: verdict.Wrong, Call: tr.Processes[0].Steps[0].Tail[0], Target: "output[0]"}}
	return tr, Extra{Without: step.Moved{Step: &step.Step{Number: 1, Captured: 2}, Loss: 1.5, Update: math.NaN()}}
}

// TestAddMoved: the page says at a fault behind the loss what it does to losses; at a wrong result it has the call's
// effect.
func TestAddMoved(t *testing.T) {
	tr, x := behindLoss(t)
	g := NewGraph(tr, repro)
	g.AddMoved(tr, x)
	want := "none on this loss; without the first fault the loss of step 1 would have been 1.5: the fault moves it by +0.5"
	if got := g.Findings[0].Effect; got != want {
		t.Errorf("behind the loss: %q, want %q", got, want)
	}
	tr = trace(t, "scaled")
	g = NewGraph(tr, repro)
	if g.AddMoved(tr, x); g.Findings[0].Effect != "" {
		t.Errorf("before the loss: %q", g.Findings[0].Effect)
	}
}

// TestScreen: the verdict, the way to the loss and the effects, within a screen.
func TestScreen(t *testing.T) {
	for _, tc := range []struct {
		tree string
		want []string
	}{
		{"clean", []string{"26 calls of 1 process, 2 steps", "Nothing found wrong in what could be judged", "3.06402588 recorded, 3.06402613 exact",
			"step 1: loss "}},
		{"scaled", []string{"WRONG: output[0] of torch.nn.functional.gelu/4 does not match its inputs",
			"torch.nn.functional.gelu/4 > torch.nn.functional.dropout/5 > torch.nn.functional.linear/6 > ",
			"6 calls read its wrong values", "without the first fault it would have been 3.064026",
			"next: optool show"}},
		{"overwritten", []string{"CHANGED: input[1] of torch.Tensor.add/7: 4 of 48 elements changed"}},
	} {
		var b strings.Builder
		tr := trace(t, tc.tree)
		moved := step.Moved{Step: tr.MainStep(), Loss: 3.0640262, Update: math.NaN()}
		if err := Screen(&b, tr, Extra{Without: moved, Next: []string{"optool show"}}); err != nil {
			t.Fatal(err)
		}
		for _, w := range tc.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", tc.tree, w, b.String())
			}
		}
		if n := strings.Count(b.String(), "\n"); n > 40 {
			t.Errorf("%s: %d lines are more than a screen", tc.tree, n)
		}
	}
	var partly strings.Builder
	tr := trace(t, "clean")
	var b strings.Builder
	next := tr.MainStep()
	without(&b, nil, Extra{Without: step.Moved{Step: next, Loss: next.Captured + 1e-5, Rounding: 2e-5,
		Update: math.NaN()}})
	if !strings.Contains(b.String(), "by no more than rounding does, 2e-05: in which direction cannot be told") {
		t.Errorf("of a move that is rounding: %s", b.String())
	}
	c := tr.Calls()[3]
	c.Verdict, c.Failed = verdict.Unsupported, "the op is not known"
	if err := Screen(&partly, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	want := "1 call not judged: the op is not known (first torch.nn.functional.gelu/4)"
	if !strings.Contains(partly.String(), want) {
		t.Errorf("no %q in\n%s", want, partly.String())
	}
	var wide, narrow strings.Builder
	for b, st := range map[*strings.Builder]reports.Style{&wide: {}, &narrow: {Width: 80, Color: true}} {
		x := Extra{Style: st, Without: step.Moved{Loss: math.NaN()}, Next: []string{"optool show " + strings.Repeat("long/", 30)}}
		if err := Screen(b, trace(t, "scaled"), x); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(wide.String(), "\x1b") || !strings.Contains(narrow.String(), "\x1b[1;31mWRONG\x1b[0m: ") {
		t.Errorf("colours are not as the style says:\n%s\n%s", wide.String(), narrow.String())
	}
	for line := range strings.Lines(narrow.String()) {
		whole := strings.HasPrefix(line, "next: ") || strings.Contains(line, "functional.gelu/302/") // to be copied
		if whole != (text.StringWidthWithoutEscSequences(line) > 81) {
			t.Errorf("only commands and captures are longer than 80 columns, found %q", line)
		}
	}
	if strings.Contains(narrow.String(), "…") {
		t.Errorf("names are cut:\n%s", narrow.String())
	}
	if relative(math.NaN()) != "-" {
		t.Error("an error that is not known has a number")
	}
}

// TestLossCall: where the program read another number than the call of the loss gave, the screen says what that gave.
func TestLossCall(t *testing.T) {
	tr := trace(t, "clean")
	s := tr.Processes[0].Steps[0]
	if got := lossCall(s); got != " ("+s.Loss.String()+")\n" {
		t.Errorf("got %q", got)
	}
	given := fmt.Sprintf("%.9g", s.Captured)
	s.Captured *= 1.25
	x := Extra{Without: step.Moved{Step: s, Loss: s.Given(), Update: math.NaN()}}
	if got := loss(tr, s, x); !strings.Contains(got, " ("+s.Loss.String()+" gave "+given+")\n") ||
		strings.Contains(got, "do not add up") {
		t.Errorf("got\n%s", got)
	}
}

// TestLike: wrong values that are alike are one block of the screen, one title and one kind of the page.
func TestLike(t *testing.T) {
	p, steps := &step.Process{Rank: -1}, []*step.Step{{Number: 0}, {Number: 1}}
	of := func(s, _ int, op, target, reason string) *step.Finding {
		return &step.Finding{Rule: verdict.Wrong, Target: target, Reason: reason, Call: &step.Call{Op: op,
			Entry: &capture.Entry{}, Process: p, Step: steps[s]}}
	}
	first := of(0, 1, "torch.softmax", "output[0]", "7661 of 16384 elements differ: got 1.5 want 1.25; scaled")
	for _, c := range []struct {
		f    *step.Finding
		want bool
	}{
		{of(1, 2, "torch.softmax", "output[0]", "12 of 16384 elements differ: got 0.5 want 0.25; scaled"), true},
		{of(0, 2, "torch.softmax", "output[0]", "12 of 16384 elements differ: got 0.5 want 0.25; scaled"), true},
		{of(0, 2, "torch.softmax", "output[0]", "12 of 16384 elements differ: got 0.5 want 0.25; a row"), false},
		{of(0, 2, "torch.softmax", "grad[0]", "12 of 16384 elements differ: got 0.5 want 0.25; scaled"), false},
		{of(0, 2, "torch.exp", "output[0]", "12 of 16384 elements differ: got 0.5 want 0.25; scaled"), false},
	} {
		if got := c.f.IsAlike(first); got != c.want {
			t.Errorf("%s %s: %s: alike %t, want %t", c.f.Call.Op, c.f.Target, c.f.Reason, got, c.want)
		}
	}
	cause := of(0, 2, "torch.softmax", "output[0]", "8 of 16384 elements differ: got 1.5 want 1.25; scaled")
	cause.Causes = []reports.Cause{{Text: "twice"}}
	if k := step.KindsOf([]*step.Finding{first, cause}); len(k) != 1 || len(k[0].Explained().Causes) != 1 {
		t.Errorf("a cause that was found of one is not told of its kind: %v", k)
	}
}

// severalWrong is a step in which a second operator is wrong in two calls.
func severalWrong(t *testing.T) *step.Trace {
	tr := trace(t, "scaled")
	for _, c := range tr.Calls() {
		if c.Op == "torch.nn.functional.linear" {
			tr.Findings = append(tr.Findings, &step.Finding{Rule: verdict.Wrong, Call: c, Target: "output[0]",
				Reason: fmt.Sprintf("%d elements differ", c.Entry.ID)})
		}
	}
	return tr
}

// TestSeveralWrong: the title and the screen have all wrong operators, each once.
func TestSeveralWrong(t *testing.T) {
	tr := severalWrong(t)
	n := len(tr.Findings) - 1
	if n < 2 {
		t.Fatalf("%d calls of linear", n)
	}
	linear := tr.Findings[1].Call
	want := fmt.Sprintf("Wrong: torch.nn.functional.gelu/4 gave a wrong result; %s gave a wrong result, as did %s",
		linear, reports.Count(n-1, "more call"))
	if got := judge(tr).text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b strings.Builder
	if err := Screen(&b, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(b.String(), "WRONG: "); got != 2 || !strings.Contains(b.String(), "\n  like it: ") {
		t.Errorf("%d blocks, want 2, one of which names those like it:\n%s", got, b.String())
	}
}

// TestUnreliable: the effect of a large error in a step whose effects do not add up is no fact.
func TestUnreliable(t *testing.T) {
	tr := trace(t, "scaled")
	s := tr.MainStep()
	c := s.Largest(1)[0]
	c.LocalError = 0.2
	s.Exact, s.Predicted = s.Given()-1, 1
	if c.EffectUnreliable() {
		t.Error("an effect is doubted though all add up")
	}
	s.Predicted = 3
	var b strings.Builder
	if err := effects(&b, s); err != nil {
		t.Fatal(err)
	}
	if want := impactText(c.Effect, true) + "  " + c.String(); !strings.Contains(b.String(), want) ||
		!strings.HasPrefix(want, "about ") || !strings.Contains(b.String(), "\nabout: an estimate") {
		t.Errorf("no %q in\n%s", want, b.String())
	}
	g := NewGraph(tr, repro)
	if !g.Nodes[g.at[c]].EffectUnreliable {
		t.Error("the page tells the effect as a fact")
	}
}

// TestFurtherKinds: kinds of findings for which a screen has no paragraph have a line each, and the screen says how to
// see them in full. A title has changed values, too.
func TestFurtherKinds(t *testing.T) {
	tr := trace(t, "scaled")
	calls := tr.Calls()
	for i := range 7 {
		tr.Findings = append(tr.Findings, &step.Finding{Rule: verdict.Wrong, Call: calls[0],
			Target: fmt.Sprintf("grad[%d]", i), Reason: "it differs"})
	}
	tr.Findings = append(tr.Findings, &step.Finding{Rule: verdict.Changed, Call: calls[1], Target: "input[0]",
		Reason: "it changed"})
	var b strings.Builder
	if err := Screen(&b, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"a line for each kind; --markdown FILE or --html FILE has them in full:\n",
		"\n  WRONG: grad[6] of ", "\n  CHANGED: input[0] of "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	want := "; a value changed between the calls before " + calls[1].String()
	if got := judge(tr).text; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
}
