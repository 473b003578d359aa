package reports

import (
	"fmt"
	"strings"
	"testing"
)

// TestLookedAt: the reports of a replay say what it looked at, in numbers that add up, what not, and how to go on.
func TestLookedAt(t *testing.T) {
	lines := ""
	for i, more := range []string{
		`"op":"torch.exp","step":0,"target":"output[0]","verdict":"pass"`,
		`"op":"torch.exp","step":0,"target":"grad[0]","verdict":"mistrusted",` +
			`"reason":"all elements are zero on both sides"`,
		`"op":"torch.sin","step":1,"target":"output[0]","verdict":"fail",` +
			`"repro":"optool replay --ops my.star --ops 'a b.star' --tables /data/run/rank0/1"`,
		`"op":"torch.sin","step":4,"target":"output[0]","verdict":"skipped","reason":"random"`,
	} {
		lines += fmt.Sprintf(`{"kind":"result","capture":"rank0/%d",%s}`, max(i-1, 0), more) + "\n"
	}
	lines += `{"kind":"summary"}`
	read := func(command string) *Recording {
		run := fmt.Sprintf(`{"kind":"run","schema":1,"device":"none","command":["optool",%q,"c"]}`, command)
		rec, err := ReadRecording(strings.NewReader(run + "\n" + lines))
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	rec := read("replay")
	var b strings.Builder
	if err := WriteMarkdown(&b, rec); err != nil {
		t.Fatal(err)
	}
	var sheet strings.Builder
	for row := range rec.WorkbookSheets(nil)[0].Rows {
		if text, is := row[1].(string); is {
			sheet.WriteString(row[0].(string) + ": " + text + "\n")
		}
	}
	for _, want := range []string{
		"looked at: steps 0-1, 4, 3 calls of 2 operators, 4 values: 2 judged, 2 not judged",
		"not judged: mistrusted: all elements are zero on both sides (1 of torch.exp), random (1 of torch.sin)",
		"not looked at: other steps, other shapes, and values that changed between calls; no device ran the calls",
		"how bad: optool step --ops my.star --ops 'a b.star' --html step.html --xlsx step.xlsx /data/run shows what this did",
		"pass it on: optool bundle --ops my.star --ops 'a b.star' /data/run/",
	} {
		if n := strings.Count(sheet.String(), want); n != 1 {
			t.Errorf("%d times %q in the workbook:\n%s", n, want, sheet.String())
		}
		if n := strings.Count(strings.ReplaceAll(b.String(), "**", ""), want); n != 1 {
			t.Errorf("%d times %q in Markdown:\n%s", n, want, b.String())
		}
	}
	if want := "what is wrong: torch.sin: calls: 1 fail of 2. Worst: "; !strings.Contains(sheet.String(), want) {
		t.Errorf("no %q in the workbook:\n%s", want, sheet.String())
	}
	if n := rec.Summary.Judged() + rec.Summary.NotJudged().NotJudged; n != rec.Summary.Total() {
		t.Errorf("judged and not judged are %d of %d values", n, rec.Summary.Total())
	}
	if got := read("compare").LookedAt(); got != nil {
		t.Errorf("compare: %v", got)
	}
}

// TestProgramOfCommand: the command that shows how bad a wrong call is names the recording of its own program, in a
// word that a shell takes for one.
func TestProgramOfCommand(t *testing.T) {
	const capture = "wrong/rank0/7-2026-11-25-22-46-43/torch.exp.1"
	for _, tc := range []struct {
		capture, repro, want string
		several              bool
	}{
		{capture, "optool replay --tables /data/run/" + capture, "/data/run", false},
		{capture, "optool replay --tables /data/run/" + capture, "/data/run/wrong", true},
		{capture, "optool replay --tables '/data/my run/" + capture + "'", "'/data/my run/wrong'", true},
		{capture, "optool replay --tables --op torch.exp /data/run", "/data/run/wrong", true},
		{capture, `optool replay 'it'\''s/` + capture + "'", "", true},
	} {
		r := &Result{Op: "torch.exp", ForwardID: new(1), PID: new(7), Rank: new(0), Capture: tc.capture,
			Repro: &tc.repro}
		if got := r.program(tc.several); got != tc.want {
			t.Errorf("%s, several %v: %q, want %q", tc.repro, tc.several, got, tc.want)
		}
	}
}
