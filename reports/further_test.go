package reports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// TestFurtherCauses: causes are looked for in all kinds of findings, also those of which the screen prints a line.
// Where no time was left, the screen and each value say so, with the command that looks for the cause.
func TestFurtherCauses(t *testing.T) {
	var file bytes.Buffer
	fmt.Fprintln(&file, `{"kind":"run","schema":1}`)
	d, lines := NewDigest(nil), NewJSONLines(&file)
	var last *Finding
	for i := range 20 {
		capture := fmt.Sprintf("rank0/torch.op%d.1", i)
		r := &Result{Op: fmt.Sprintf("torch.op%d", i), Capture: capture, ForwardID: new(i), Order: new(i), PID: new(1),
			Phase: "forward", Target: "output[0]", Verdict: verdict.Fail, Reason: "it differs",
			Repro: new("optool replay --tables /data/run/" + capture)}
		f := NewFinding([]*Result{r})
		f.Explain = func(_ time.Time, turn Turn) (x Explained) {
			if want := (Turn{min(20-i, 8-i), false}); i < shownKinds && turn != want ||
				i >= shownKinds && turn != (Turn{20 - i, true}) {
				t.Errorf("finding %d: %+v", i, turn)
			}
			x.Sought = i < 19
			if x.Unsought = i == 19; i < 18 {
				x.Causes = []Cause{{Capture: capture, Op: r.Op, ForwardID: new(i), Targets: []string{"output[0]"},
					Text: fmt.Sprintf("mistake %d is made", i)}}
			}
			return x
		}
		d.Add(f)
		last = f
		lines.Result(r)
	}
	like := &Result{Op: "torch.op9", Capture: "rank0/torch.op9.50", ForwardID: new(50), PID: new(1), Phase: "forward",
		Target: "output[0]", Verdict: verdict.Fail, Reason: "it differs"}
	seen := &Result{Op: "torch.other", Capture: "rank0/torch.other.51", Phase: "forward", Target: "output[0]",
		Verdict: verdict.Fail, Reason: "3 of 3 elements differ: at [0] got 2 want 1 (8 ulp); all scaled by 2"}
	lines.Result(like)
	alone := *like
	alone.Op, alone.Capture, alone.ForwardID = "torch.op18", "rank0/torch.op18.52", new(52)
	lines.Result(&alone)
	lines.Result(&Result{Op: "collective", Capture: "rank0/collective.53", Phase: "forward", Target: "output[0]",
		Verdict: verdict.Fail, Reason: "the ranks differ"})
	lines.Result(seen)
	if err := d.Explain(lines.Cause, lines.Profile); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cause: mistake 17 is made", "causes of 1 line not sought, to save time"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	wrapped := last.Causes[0].Wrapped(Style{Width: 60}, 4)
	if want := "not sought, to save time:\n    optool explain /data/run/rank0/torch.op19.1"; wrapped != want {
		t.Errorf("%q, want %q", wrapped, want)
	}
	sum := NewSummary()
	sum.NoCause = d.NoCause()
	if err := lines.Summary(sum); err != nil {
		t.Fatal(err)
	}
	rec, err := ReadRecording(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	s := rec.ResultSheet()
	at, got := slices.Index(s.Columns, "cause"), map[any]any{}
	for row := range s.Rows {
		got[row[0]] = row[at]
	}
	for capture, want := range map[string]string{
		"rank0/torch.op17.1":   "output[0] reproduced to rounding if mistake 17 is made",
		"rank0/torch.op18.1":   "none of the mistakes that optool tried reproduces it",
		"rank0/torch.op18.52":  "like torch.op18/18: none of the mistakes that optool tried reproduces it",
		"rank0/collective.53":  "not sought",
		"rank0/torch.op19.1":   "not sought, to save time: optool explain /data/run/rank0/torch.op19.1",
		"rank0/torch.op9.50":   "like torch.op9/9: output[0] reproduced to rounding if mistake 9 is made",
		"rank0/torch.other.51": "all scaled by 2",
	} {
		if got[capture] != want {
			t.Errorf("%s: %v, want %q", capture, got[capture], want)
		}
	}
	var junit strings.Builder
	if err := WriteJUnit(&junit, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">cause: output[0] reproduced to rounding if mistake 17 is made&#xA;",
		">cause: like torch.op9/9: output[0] reproduced to rounding if mistake 9 is made&#xA;call: torch.op9, id 50"} {
		if !strings.Contains(junit.String(), want) {
			t.Errorf("no %q in\n%s", want, junit.String())
		}
	}
	for _, f := range rec.Faults() {
		if want := map[string]string{"torch.op17": "mistake 17 is made",
			"torch.op18": "none of the mistakes that optool tried reproduces it", "collective": "not sought", "torch.other": "pattern: all scaled by 2",
			"torch.op19": "not sought, to save time: optool explain /data/run/rank0/torch.op19.1"}[f.Op]; want != "" &&
			f.Cause != want {
			t.Errorf("%s: %q, want %q", f.Op, f.Cause, want)
		}
	}
}
