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
	want := []Fault{{"torch.mm", "1 crash, 1 fail of 3", "output[0] off by one", "no bias", false},
		{"torch.add", "1 fail of 1", "output[0] off by one", "alpha is 2", false},
		{"torch.div", "1 known of 1", "output[0] off by one", "", true}}
	if diff := cmp.Diff(want, rec.Faults()); diff != "" {
		t.Error(diff)
	}
	for title, faults := range map[string][]Fault{"What is wrong": want, "Known failures": want[2:]} {
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
