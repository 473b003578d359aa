package reports

import (
	"bytes"
	"errors"
	"strings"
	"testing"

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
		"#### What is wrong in one recording, or in both",
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
