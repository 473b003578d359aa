package view

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/step"
)

// TestJudge: a step is wrong, sound or cannot be judged, in words for everyone.
func TestJudge(t *testing.T) {
	two := trace(t, "picked")
	two.Findings = []*step.Finding{{Rule: verdict.Missing, Call: two.Calls()[0]}}
	none := trace(t, "picked")
	for _, c := range none.Calls() {
		c.Verdict, c.Results = verdict.Skipped, nil
	}
	for _, tc := range []struct {
		t    *step.Trace
		v    verdict.Verdict
		text string
	}{
		{trace(t, "scaled"), verdict.Fail, "Wrong: torch.nn.functional.gelu/4 gave a wrong result"},
		{trace(t, "overwritten"), verdict.Fail, "Wrong: a value changed between torch.nn.functional.linear/6 and " +
			"torch.Tensor.add/7; no operator was found wrong"},
		{trace(t, "picked"), verdict.Pass, "Nothing found wrong in what could be judged"},
		{two, verdict.Warn, "Nothing found wrong, but the two runs do not make the same calls"},
		{none, verdict.Skipped, "Cannot be judged: no call could be run again and compared"},
	} {
		if got := judge(tc.t); got.verdict != tc.v || got.text != tc.text {
			t.Errorf("got %s, %q, want %s, %q", got.verdict, got.text, tc.v, tc.text)
		}
	}
}

// TestBetween: where a value changed between two calls, screen, facts and graph blame neither.
func TestBetween(t *testing.T) {
	tr := trace(t, "overwritten")
	x := Extra{Without: step.Moved{Loss: math.NaN()}, Together: step.Moved{Loss: math.NaN()}}
	var b strings.Builder
	if err := Screen(&b, tr, x); err != nil {
		t.Fatal(err)
	}
	const between = "between torch.nn.functional.linear/6 and torch.Tensor.add/7; no operator was found wrong"
	if !strings.Contains(b.String(), "\n  it is "+between) {
		t.Errorf("no %q in\n%s", between, b.String())
	}
	if f := Facts(tr, x)[0]; f.Name != "wrong" || f.Text != "a value changed "+between {
		t.Errorf("first fact %q", f)
	}
	g := NewGraph(tr, repro)
	f := g.Findings[0]
	if f.From == nil || g.Nodes[*f.From].ID != 6 || g.Nodes[f.Node].ID != 7 || f.Between == "" {
		t.Errorf("finding %+v", f)
	}
	p, want := opened(t, g)
	want("h1.fail", "Wrong: a value changed between")
	want("#legend", "changed between these calls")
	want("#jump", "changed: between linear/6 and add/7")
	want("#side .finding", "It is no fault of this operator, but between linear/6 and add/7")
	p.Wait(`document.querySelectorAll(".node.apart").length === 2 && !document.querySelector(".node.fault")`)
}

// TestHeadlineOnPhone: the headline of a step is whole on a small screen.
func TestHeadlineOnPhone(t *testing.T) {
	g := NewGraph(trace(t, "overwritten"), repro)
	g.Judgement, g.Verdict = strings.Repeat("Wrong: a value changed. ", 30), strings.Repeat("what ", 99)
	p, _ := opened(t, g)
	p.Resize(390, 844)
	p.Wait(`["h1", "#what"].every(q => (e => e.scrollHeight <= e.clientHeight + 1 && e.scrollWidth <= e.clientWidth + 1)` +
		`(document.querySelector(q)))`)
}
