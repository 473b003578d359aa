package view

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// TestGivenUp: where checks stopped at a limit, nothing passes for right.
func TestGivenUp(t *testing.T) {
	tr, opt := trace(t, "picked"), options(t)
	opt.Within = func(int64, func() error) error { return os.ErrDeadlineExceeded }
	if err := tr.Analyze(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	if len(tr.GivenUp()) == 0 {
		t.Fatal("nothing was given up")
	}
	var b strings.Builder
	if err := Screen(&b, tr, Extra{Style: reports.Style{Color: true},
		Without: step.Moved{Loss: math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"3 checks stopped at a limit, first of", "Nothing found wrong in what could be judged; 3 checks"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	green := (reports.Style{Color: true}).Paint(verdict.Pass, "Nothing")
	if strings.Contains(text, green[:len(green)/2]) {
		t.Errorf("drawn as a pass: %q", text)
	}
}

// TestAllClear: a step without faults says what was not looked at, and a call without a judged value
// is not drawn as one that passed.
func TestAllClear(t *testing.T) {
	tr := trace(t, "picked")
	text := nothing(tr)
	for _, want := range []string{
		"Nothing found wrong in what could be judged. Largest gaps: 2 gradients of inner nodes not linked",
		"; 19 values read without a recorded address", "; and 1 more kind.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	c := &step.Call{Entry: tr.Calls()[0].Entry, Process: tr.Processes[0], Verdict: verdict.Mistrusted,
		GradOutputs: []*step.Value{{}}}
	if n := node(c); n.Verdict == string(verdict.Pass) || n.Backward == string(verdict.Pass) {
		t.Errorf("a call without a judged value is %s, its backward pass %s", n.Verdict, n.Backward)
	}
}

// TestCallByCall: an all-clear says that the calls of an update are not judged as the rule of an optimizer.
func TestCallByCall(t *testing.T) {
	want := "The calls of each update were judged one by one (first torch.Tensor.add_/13), not as the rule of an optimizer"
	if text := nothing(trace(t, "clean")); !strings.Contains(text, want) {
		t.Errorf("no %q in %q", want, text)
	}
}

// TestStepsOfRanks: steps that all ranks of a program make are counted once.
func TestStepsOfRanks(t *testing.T) {
	tr := trace(t, "clean")
	tr.Processes = append(tr.Processes, tr.Processes[0])
	var b strings.Builder
	if err := Screen(&b, tr, Extra{Without: step.Moved{Loss: math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), " of 2 processes, 2 steps each") {
		t.Errorf("the steps are counted otherwise: %.200s", b.String())
	}
}
