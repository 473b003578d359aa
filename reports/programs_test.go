package reports

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

// programRun is a run whose calls have these folders, ranks and verdicts.
func programRun(t *testing.T, calls ...[2]any) *Recording {
	t.Helper()
	var b bytes.Buffer
	j, s := NewJSONLines(&b), NewSummary()
	err := j.Run(Run{})
	for i, c := range calls {
		order, pid, rank := i, 7, strings.Count(c[0].(string), "1")
		size := Number(0.01 * float64(i+1))
		r := &Result{Capture: fmt.Sprintf("%s/7-2026-11-29-01-23-13/torch.mm.%d", c[0], i), Op: "torch.mm", Phase: "forward", Target: "output[0]", Verdict: c[1].(verdict.Verdict), Order: &order, PID: &pid, Rank: &rank,
			Reason: "off"}
		if r.Verdict == verdict.Fail {
			r.RelativeError = &size
		}
		s.Add(r)
		err = errors.Join(err, j.Result(r))
	}
	if err = errors.Join(err, j.Summary(s)); err != nil {
		t.Fatal(err)
	}
	return readRecorded(t, b.String())
}

// TestPrograms: of several programs each has a row, the wrong ones first, on the screen, in Markdown and in workbooks.
func TestPrograms(t *testing.T) {
	rec := programRun(t, [2]any{"a/step0/rank0", verdict.Pass}, [2]any{"b/rank0", verdict.Mistrusted},
		[2]any{"c/rank0", verdict.Fail}, [2]any{"c/rank0", verdict.Pass}, [2]any{"a/step2/rank0", verdict.Mistrusted},
		[2]any{"d/rank0", verdict.Warn})
	want := [][]string{{"program", "verdict", "calls", "failing", "not judged", "worst operator"},
		{"c", "fail", "2", "1", "0", "torch.mm"}, {"b", "not judged", "1", "0", "1", ""},
		{"a", "pass", "2", "0", "1", ""}, {"d", "warn", "1", "0", "0", ""}}
	if diff := cmp.Diff(want, rec.Summary.ProgramTable()); diff != "" {
		t.Error(diff)
	}
	const answer = "Wrong calls in 1 of 4 programs, 1 not judged"
	var text bytes.Buffer
	if err := errors.Join(rec.Summary.WritePrograms(&text, Style{Width: 80}), WriteMarkdown(&text, rec)); err != nil {
		t.Fatal(err)
	}
	for row := range rec.WorkbookSheets(nil)[0].Rows {
		text.WriteString(Cell(row[0].(string)) + "=" + fmt.Sprint(row[1]) + "\n")
	}
	for _, want := range []string{answer + ":\n\nprogram  verdict     calls  failing  not judged  worst operator\n" +
		"c        fail            2        1           0  torch.mm\n",
		"#### " + answer + "\n", "| c | fail | 2 | 1 | 0 | torch.mm |",
		"programs=" + answer + "\n", "program c=fail: 1 of 2 calls fail. Worst: torch.mm\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if !strings.Contains(string(rec.Last), `"programs":[{"program":"c","calls":2,"failing":1,`) {
		t.Errorf("the summary is %s", rec.Last)
	}
}

// TestOneProgram: folders of different ranks are those of one program.
func TestOneProgram(t *testing.T) {
	for _, rec := range []*Recording{
		programRun(t, [2]any{"host/rank0", verdict.Pass}, [2]any{"other/rank1", verdict.Fail}),
		programRun(t, [2]any{"a/rank0", verdict.Pass}, [2]any{"a/rank0", verdict.Fail}),
	} {
		if got := rec.Summary.ProgramTable(); got != nil {
			t.Errorf("got %v", got)
		}
	}
}

// TestWrongProgramsAreListed: a screen lists all programs with wrong calls, and leaves out right ones.
func TestWrongProgramsAreListed(t *testing.T) {
	var calls [][2]any
	for i := range 40 {
		v := verdict.Pass
		if i%8 != 0 {
			v = verdict.Fail
		}
		calls = append(calls, [2]any{fmt.Sprintf("p%d/rank0", i), v})
	}
	var text bytes.Buffer
	if err := programRun(t, calls...).Summary.WritePrograms(&text, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), " fail "); n != 35 || !strings.Contains(text.String(), "... and 5 more\n") {
		t.Errorf("%d of 35 wrong programs:\n%s", n, text.String())
	}
}
