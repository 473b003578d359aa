package reports

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

// TestFaults: every operator with wrong calls has a row, in the order of the calls, with its own cause; Markdown and
// workbook have all of them.
func TestFaults(t *testing.T) {
	var b bytes.Buffer
	j, s := NewJSONLines(&b), NewSummary()
	err := j.Run(Run{})
	for i, c := range []struct {
		op string
		v  verdict.Verdict
	}{{"torch.sub", verdict.Pass}, {"torch.mm", verdict.Fail}, {"torch.add", verdict.Fail}, {"torch.mm", verdict.Pass},
		{"torch.mm", verdict.Crash}, {"torch.div", verdict.Known}} {
		order := i
		r := &Result{Capture: strings.Repeat("x", i+1), Op: c.op, Phase: "forward", Target: "output[0]", Verdict: c.v,
			Order: &order, Reason: "off by one; much"}
		s.Add(r)
		err = errors.Join(err, j.Result(r))
	}
	out := []string{"output[0]"}
	err = errors.Join(err, j.Cause(&Cause{Capture: "xx", Op: "torch.mm", Targets: out, Text: "no bias"}),
		j.Cause(&Cause{Capture: "xxx", Op: "torch.add", Targets: out, Text: "alpha is 2"}), j.Summary(s))
	if err != nil {
		t.Fatal(err)
	}
	rec := readRecorded(t, b.String())
	want := []Fault{
		{"torch.mm", "1 crash, 1 fail of 3", "output[0] off by one", "no bias", false, false, "", "", false, false},
		{"torch.add", "1 fail of 1", "output[0] off by one", "alpha is 2", false, false, "", "", false, false},
		{"torch.div", "1 known of 1", "output[0] off by one", "", true, false, "", "", false, false}}
	if diff := cmp.Diff(want, rec.Faults()); diff != "" {
		t.Error(diff)
	}
	for title, faults := range map[string][]Fault{"What is wrong, the largest error first": want,
		"What is wrong": want[:1], "Known failures": want[2:]} {
		if got := FaultsTitle(faults); got != title {
			t.Errorf("the title is %q, want %q", got, title)
		}
	}
	var text bytes.Buffer
	if err := WriteMarkdown(&text, rec); err != nil {
		t.Fatal(err)
	}
	for row := range rec.WorkbookSheets(nil)[0].Rows {
		text.WriteString(Cell(row[0].(string)) + "\n")
	}
	for _, want := range []string{"| operator | calls | worst | cause or pattern |",
		"| torch.add | 1 fail of 1 | output\\[0\\] off by one | alpha is 2 |",
		"what is wrong: torch.mm\n", "what is wrong: torch.add\n", "known failure: torch.div\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %q:\n%s", want, text.String())
		}
	}
}

// TestFaultsPlaces: the largest error comes first. Folders and devices have columns where there are several.
func TestFaultsPlaces(t *testing.T) {
	value := func(folder, op, on string, size float64) *Result {
		r := &Result{Capture: folder + "/9-2026-11-29-01-23-13/" + op + ".1", Op: op, Target: "output[0]",
			Verdict: verdict.Fail, Reason: "off", RecordedOn: on + " with torch 2.9.0"}
		if size > 0 {
			r.RelativeError = Num(size)
		}
		return r
	}
	passing := func(folder string) *Result {
		r := value(folder, "torch.add", "npu:0", 0)
		r.Capture, r.Verdict = r.Capture+"7", verdict.Pass
		return r
	}
	rec := &Recording{Summary: NewSummary(), Results: ResultsOf(value("a", "torch.mm", "npu:0", 0.003),
		passing("c"), passing("a"), value("a", "torch.add", "npu:0", 1.5), value("b", "torch.mm", "mlu:0", 0.002),
		value("b", "torch.div", "mlu:0", 0))}
	if err := rec.Count(); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"operator", "folder", "device", "calls", "worst", "cause or pattern"},
		{"torch.div", "b", "mlu:0", "1 fail of 1", "output[0] off", ""},
		{"torch.add", "a", "npu:0", "1 fail of 2", "output[0] off, by up to 150 % of the largest value", ""},
		{"torch.mm", "a, b", "npu:0, mlu:0", "2 fail of 2", "output[0] off, by up to 0.3 % of the largest value", ""}}
	if diff := cmp.Diff(want, FaultTable(rec.Faults())); diff != "" {
		t.Error(diff)
	}
}

// TestFaultsReading: operators whose calls only read other values are nothing that is wrong, and come behind those that
// are, however large their differences are.
func TestFaultsReading(t *testing.T) {
	value := func(capture, op string, size float64, reads bool) *Result {
		return &Result{Capture: capture, Op: op, Phase: "forward", Target: "output[0]", Verdict: verdict.Fail,
			Reason: "off", RelativeError: Num(size), Inherits: reads}
	}
	rec := &Recording{Summary: NewSummary(), Results: ResultsOf(value("1", "torch.mm", 0.1, false),
		value("2", "torch.add", 9, true), value("3", "torch.add", 8, true), value("4", "torch.mm", 7, true))}
	if err := rec.Count(); err != nil {
		t.Fatal(err)
	}
	rows := FaultTable(rec.Faults())
	if len(rows) != 2 || rows[1][0] != "torch.mm" || rows[1][1] != "1 fail, 1 only read other values of 2" {
		t.Errorf("%q", rows)
	}
	if ops := rec.Summary.Ops(); ops[0].Op != "torch.mm" {
		t.Errorf("%s comes first", ops[0].Op)
	}
}

// TestBetweenCalls: what is wrong between two calls fails the run, but no call and no operator.
func TestBetweenCalls(t *testing.T) {
	see := "optool step --html step.html run"
	first := 0
	rec := &Recording{Summary: NewSummary(), Last: []byte("{}"), Results: ResultsOf(
		&Result{Capture: "mul", Op: "torch.mul", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass,
			Order: &first},
		&Result{Capture: "add", Op: OpBetween, Between: "torch.mul/1 and torch.add/2", Phase: "forward",
			Target: "input[0]", Verdict: verdict.Fail, Reason: "changed: 5 of 9 elements", Repro: &see},
		&Result{Capture: "add", Op: "torch.add", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass})}
	if err := rec.Count(); err != nil {
		t.Fatal(err)
	}
	s := rec.Summary
	s.endCapture()
	if s.Captures[verdict.Pass] != 2 || s.Captures[verdict.Fail] != 0 || !s.Differs() {
		t.Errorf("captures %v, differs %v", s.Captures, s.Differs())
	}
	for _, o := range s.Ops() {
		if o.Op == OpBetween || o.differs() {
			t.Errorf("operator %s, %v", o.Op, o.Counts)
		}
	}
	want := []Fault{{Op: "no operator: between torch.mul/1 and torch.add/2", Calls: "no call fails",
		Worst: "input[0] changed: 5 of 9 elements", Between: true}}
	if diff := cmp.Diff(want, rec.Faults()); diff != "" {
		t.Error(diff)
	}
	var md, junit bytes.Buffer
	if err := errors.Join(WriteMarkdown(&md, rec), WriteJUnit(&junit, rec)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### ❌ 0 of 2 calls fail, 2 pass. 1 fault between calls, where no operator is at fault.",
		"**fail** between torch.mul/1 and torch.add/2, capture add", see} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	if text := md.String(); strings.Contains(text, "| op |") || strings.Contains(text, "1 fail") {
		t.Errorf("an operator is blamed:\n%s", text)
	}
	if !strings.Contains(junit.String(), `<testsuite name="between calls" tests="1" failures="1"`) {
		t.Errorf("no failure in %s", junit.String())
	}
}
