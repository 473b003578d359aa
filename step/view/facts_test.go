package view

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// TestFacts: reports begin with what the screen says of the whole step, in the same words.
func TestFacts(t *testing.T) {
	tr := trace(t, "picked")
	x := Extra{Without: step.Moved{Loss: math.NaN()}}
	var b strings.Builder
	if err := Screen(&b, tr, x); err != nil {
		t.Fatal(err)
	}
	facts := Facts(tr, x)
	if len(facts) == 0 || facts[0].Name != "step" || facts[0].Text != nothing(tr) {
		t.Fatalf("facts %q", facts)
	}
	for _, f := range facts {
		if !strings.Contains(b.String(), f.Text) {
			t.Errorf("the screen lacks %q:\n%s", f, b.String())
		}
	}
	has := slices.ContainsFunc(facts, func(f reports.Fact) bool { return f.Name == "loss" })
	if has != (tr.MainStep() != nil) {
		t.Errorf("the loss is a fact: %v", has)
	}
	tr.LeaveOut(tr.Calls()[0].Entry, nil)
	if text := Facts(tr, x)[0].Text; !strings.Contains(text, "Largest gaps: 1 capture left out of the step: ") {
		t.Errorf("a capture that is left out is no gap of %q", text)
	}
	if text := tr.Seen().String(); !strings.Contains(text, "1 capture left out of the step") {
		t.Errorf("no count of what is left out: %q", text)
	}
}
