package reports

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

// TestRepaired: of two recordings, reports tell calls that are repaired from those that fail, and those that are wrong
// in both, which keep the exit code.
func TestRepaired(t *testing.T) {
	var b bytes.Buffer
	j, s, n := NewJSONLines(&b), NewSummary(), Faulty{}
	err := j.Run(Run{})
	for i, c := range []struct {
		op string
		v  verdict.Verdict
		in WrongIn
	}{{"torch.add", verdict.Pass, ""}, {"torch.mm", verdict.Fail, WrongInSecond},
		{"torch.div", verdict.StillWrong, WrongInBoth}} {
		r := &Result{Capture: strings.Repeat("x", i+1), Op: c.op, Phase: "forward", Target: "output[0]", Verdict: c.v,
			WrongIn: c.in, Reason: "off by one"}
		s.Add(r)
		n.Add(NewFinding([]*Result{r}))
		err = errors.Join(err, j.Result(r))
	}
	s.Facts = []Fact{{"faults", n.String()}}
	if err := errors.Join(err, j.Summary(s)); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteMarkdown(&text, readRecorded(t, b.String())); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"faults: none new, 1 call still wrong (torch.div), 1 call repaired (torch.mm)",
		"1 of 3 calls fail, 1 of them still wrong, 1 repaired, 1 pass.",
		"#### What differs between the recordings, or is wrong in both",
		"| torch.mm | 1 repaired of 1 |", "| torch.div | 1 still wrong of 1 |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, text.String())
		}
	}
	only := NewSummary()
	only.Add(&Result{Capture: "x", Op: "torch.div", Verdict: verdict.StillWrong, WrongIn: WrongInBoth})
	if !only.Differs() {
		t.Error("a call that differs and is wrong in both recordings is no difference")
	}
}

// TestOnlyRepaired: a run all of whose faults are repaired is a success in all reports, though the recordings differ:
// neither the repaired call fails nor those that read what it made. JSON lines call both fail.
func TestOnlyRepaired(t *testing.T) {
	var b bytes.Buffer
	j, s := NewJSONLines(&b), NewSummary()
	err := j.Run(Run{})
	results := []*Result{
		{Capture: "p/rank0/torch.mm.1", Op: "torch.mm", Verdict: verdict.Fail, WrongIn: WrongInSecond, Reason: "off by one"},
		{Capture: "p/rank0/torch.add.2", Op: "torch.add", Verdict: verdict.Fail, Inherits: true, Reason: "it differs"},
		{Capture: "q/rank0/torch.add.1", Op: "torch.add", Verdict: verdict.Pass}}
	for i, r := range results {
		r.Phase, r.Target, r.Order, r.PID, r.Rank = "forward", "output[0]", new(i), new(7), new(0)
		r.Repair()
		s.Add(r)
		err = errors.Join(err, j.Result(r))
	}
	s.Facts = []Fact{{"faults", "none new, none still wrong, 1 call repaired (torch.mm)"}}
	s.First, s.Exit = &Place{Capture: results[0].Capture, Target: "output[0]"}, 1
	if err := errors.Join(err, j.Summary(s)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"verdict":"fail","reason":"off by one"`, `"wrong_in":"second"`, `"repaired":1`, `"fail":2`,
		`"captures_fail":2`, `"counts":{"fail":1,"repaired":1}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	rec := readRecorded(t, b.String())
	if s := rec.Summary; !s.Differs() || s.Wrong() {
		t.Errorf("differs %v, wrong %v", s.Differs(), s.Wrong())
	}
	want := [][]string{{"program", "verdict", "calls", "failing", "not judged", "worst operator"},
		{"p", "repaired", "2", "0", "0", ""}, {"q", "pass", "1", "0", "0", ""}}
	if diff := cmp.Diff(want, rec.Summary.ProgramTable()); diff != "" {
		t.Error(diff)
	}
	var text bytes.Buffer
	if err := errors.Join(WriteMarkdown(&text, rec), WriteJUnit(&text, rec)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### ✅ faults: none new, none still wrong, 1 call repaired (torch.mm)",
		"calls: **0 of 3 calls fail, 1 repaired, 1 pass, 1 only read other values.**", "No wrong call in 2 programs",
		"#### What is repaired", "first call that differs: **torch.mm", "**repaired** torch.mm",
		"**reads other values**: 1 call differs, and so do values it was given: torch.add 1",
		"exit code 1: the recordings differ, but only because faults of the old one are repaired",
		"3 captures: 1 pass, 1 repaired, 1 read other values", `tests="3" failures="0" errors="0" skipped="1"`,
		`<skipped message="reads other values: it differs">`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	// With a fault that the first recording has, the run is none.
	rec.Summary.Add(&Result{Capture: "x", Op: "torch.div", Verdict: verdict.Fail, WrongIn: WrongInFirst})
	if !rec.Summary.Wrong() || rec.Summary.onlyRepaired() != "" {
		t.Error("a new fault is no failure")
	}
}
