package reports

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestUnjudged: values that were not judged are counted by reasons of which there are few, and the
// largest are said, with what they are about.
func TestUnjudged(t *testing.T) {
	s := NewSummary()
	add := func(n int, op string, v verdict.Verdict, reason string) {
		for i := range n {
			s.Add(&Result{Capture: fmt.Sprint(op, i), Op: op, Phase: "forward", Verdict: v,
				Reason: strings.ReplaceAll(reason, "#", fmt.Sprint(i))})
		}
	}
	add(93, "torch.Tensor.__setitem__", verdict.Skipped, verdict.NothingReturned)
	add(40, "torch.neg", verdict.Mistrusted, "all # elements are zero on both sides")
	add(20, "torch.abs", verdict.Mistrusted, "all # elements are zero on both sides")
	add(7, "a.b", verdict.Unsupported, "unknown op a.b#; known: c.d")
	add(2, "torch.exp", verdict.Error, "op exp: argument #")
	add(1, "", verdict.Invalid, "x#/input.pth: offset 7: no")
	for _, v := range []verdict.Verdict{verdict.Pass, verdict.Warn, verdict.Fail, verdict.Timeout, verdict.Crash} {
		add(5, "torch.add", v, "")
	}
	s.Add(&Result{Capture: "g", Op: "abs", Verdict: verdict.Skipped, Reason: "written", Generated: &GeneratedCase{}})
	want := "163 values not judged: returns nothing that could be compared (93 of torch.Tensor.__setitem__), " +
		"mistrusted: all elements are zero on both sides (60 of torch.neg and 1 other op), unknown op (7 of a.b), " +
		"2 other reasons (3); optool explain PATH prints a line that declares an unknown op for --ops FILE"
	if got := s.Unjudged.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var joined Unjudged
	joined.Join(&s.Unjudged)
	joined.Join(&Unjudged{})
	if got := joined.String(); got != want {
		t.Errorf("joined: got  %s\nwant %s", got, want)
	}
	if n := s.Judged(); n != 26 { // the written one is neither
		t.Errorf("%d judged, want 26", n)
	}
	var b strings.Builder
	if err := NewJSONLines(&b).Summary(s); err != nil {
		t.Fatal(err)
	}
	var last struct {
		NotJudged int            `json:"not_judged"`
		Reasons   map[string]int `json:"reasons"`
	}
	if err := json.Unmarshal([]byte(b.String()), &last); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range last.Reasons {
		sum += n
	}
	if last.NotJudged != 163 || sum != 163 || len(last.Reasons) != 5 {
		t.Errorf("the summary has %d not judged, %v", last.NotJudged, last.Reasons)
	}
}

// TestManyReasons: however many reasons there are, and however long, the summary stays short.
func TestManyReasons(t *testing.T) {
	u := &Unjudged{}
	word := func(i int) string { return strings.Repeat(string(rune('a'+i/26))+string(rune('a'+i%26)), 100_000) }
	for i := range 600 {
		u.Add(&Result{Op: word(i), Verdict: verdict.Skipped, Reason: word(i) + "\x1b[2J"})
	}
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Reasons) > maxReasons+1 || len(text) > 10_000 || u.NotJudged != 600 {
		t.Errorf("%d reasons in %d bytes for %d values", len(u.Reasons), len(text), u.NotJudged)
	}
	if s := u.String(); len(s) > 1000 || strings.ContainsRune(s, '\x1b') {
		t.Errorf("%d bytes: %.200q", len(s), s)
	}
}

func TestNothingUnjudged(t *testing.T) {
	u := &Unjudged{}
	u.Add(&Result{Verdict: verdict.Pass})
	text, err := json.Marshal(u)
	if got := string(text); err != nil || got != `{"not_judged":0,"reasons":{}}` || u.String() != "" {
		t.Errorf("%s, %v; %q", got, err, u.String())
	}
}

// TestMistrustedIsNoPass: an operator of which nothing but mistrusted values exists is not among those
// that passed, and a run of such values alone is no all-clear.
func TestMistrustedIsNoPass(t *testing.T) {
	rec := &Recording{Summary: NewSummary(), Results: ResultsOf(
		&Result{Capture: "a", Op: "torch.neg", Phase: "forward", Target: "output[0]", Verdict: verdict.Mistrusted,
			Reason: "all 4 elements are zero on both sides"},
		&Result{Capture: "b", Op: "torch.abs", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass},
		&Result{Capture: "c", Op: "torch.abs", Phase: "forward", Target: "output[0]", Verdict: verdict.Mistrusted,
			Reason: "the tensor is empty: nothing was compared"})}
	if err := rec.Count(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := rec.Summary.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	diff(t, "summary", `
op         pass  mistrusted  worst
torch.abs     1           1
torch.neg                 1  output[0] all 4 elements are zero on both sides

2 values not judged: mistrusted: all elements are zero on both sides (1 of torch.neg), mistrusted: the tensor is empty (1 of torch.abs)
3 captures: 1 pass, 2 mistrusted
`, b.String())
	b.Reset()
	if err := WriteMarkdown(&b, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| torch.abs | 1 | 1 |", "| torch.neg |  | 1 |", "2 values not judged"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("Markdown lacks %q:\n%s", want, b.String())
		}
	}
	only := &Recording{Summary: NewSummary(), Results: ResultsOf(
		&Result{Capture: "a", Op: "torch.neg", Verdict: verdict.Mistrusted, Reason: "all 4 elements are zero"})}
	if err := only.Count(); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := WriteMarkdown(&b, only); err != nil || strings.Contains(b.String(), "✅") {
		t.Errorf("%v: nothing was judged, and the comment says\n%s", err, b.String())
	}
}

// TestFailOn: captures for which the run was told to fail are printed with their reason and command,
// behind the findings, those of one kind together, and reports have them as failures.
func TestFailOn(t *testing.T) {
	failOn := []verdict.Verdict{verdict.Skipped, verdict.Warn}
	d := NewDigest(failOn)
	s := NewSummary()
	s.FailOn = failOn
	var all []*Result
	for i, v := range []verdict.Verdict{verdict.Skipped, verdict.Mistrusted, verdict.Skipped, verdict.Pass,
		verdict.Fail} {
		f := wrong("torch.abs", i, 7, "output[0]", "why")
		f.Results[0].Verdict = v
		d.Add(f)
		s.Add(f.Results[0])
		all = append(all, f.Results[0])
	}
	var b strings.Builder
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	diff(t, "digest", `
First wrong call:

FAIL  torch.abs, id 4, process 7
  capture  7/4
  output[0] fail: why
  again    optool replay 7/4

These fail the run, as --fail-on skipped,warn says:

SKIPPED  torch.abs, id 0, process 7
  output[0] skipped: why
  like it  1 more: id 2
  again    optool replay 7/0

`, b.String())
	told := strings.Join(s.Told(), "\n")
	if want := "--fail-on skipped,warn fails the run: 2 captures (2 skipped)"; !strings.Contains(told, want) {
		t.Errorf("the totals lack %q: %s", want, told)
	}
	rec := &Recording{Summary: s, Results: ResultsOf(all...)}
	b.Reset()
	if err := WriteJUnit(&b, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`failures="3"`, `message="--fail-on skipped: why"`, `skipped="1"`,
		`<property name="not judged" value="3 values`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("JUnit lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteMarkdown(&b, rec); err != nil ||
		!strings.Contains(b.String(), "**skipped** torch.abs, id 0") {
		t.Errorf("%v: Markdown lacks the call:\n%s", err, b.String())
	}
}

// TestMistrustedCase: a case whose values prove nothing is not counted as passed.
func TestMistrustedCase(t *testing.T) {
	c := NewCaseTable()
	c.Add("relu", []string{"float32"}, []*Result{{Verdict: verdict.Mistrusted, Reason: "all zero"}}, false)
	if n := c.Total(); n.Passed != 0 || n.NotCompared != 1 {
		t.Errorf("%+v", n)
	}
}
