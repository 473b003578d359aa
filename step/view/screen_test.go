package view

import (
	"context"
	"math"
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
	without(&b, nil, step.Moved{Step: next, Loss: next.Captured + 1e-5, Rounding: 2e-5, Update: math.NaN()})
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
