package reports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// TestSameCause: one damage in ten operators is one finding, which names the others; another cause is another finding,
// though more kinds come before it than are shown. A call without a cause stands by itself.
func TestSameCause(t *testing.T) {
	d := NewDigest(nil)
	for i := range 12 {
		cause := "the last 3 of dimension 1 are zero, as if not written"
		switch i {
		case 10:
			cause = "all elements are multiplied by 0.5"
		case 11:
			cause = ""
		}
		f := NewFinding([]*Result{{Op: fmt.Sprintf("torch.op%d", i), Capture: fmt.Sprint(i), ForwardID: new(i),
			Order: new(i), PID: new(1), Phase: "forward", Target: "output[0]", Verdict: verdict.Fail, Reason: "it differs"}})
		f.Explain = func(time.Time, Turn) (x Explained) {
			if cause != "" {
				x.Causes = []Cause{{Targets: []string{"output[0]"}, Text: cause}}
			}
			return x
		}
		d.Add(f)
	}
	if err := d.Explain(func(*Cause) error { return nil }, func(*Profile) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if n := strings.Count(got, "FAIL  "); n != 3 {
		t.Errorf("%d findings, want 3", n)
	}
	for _, want := range []string{
		"like it  the same cause in 9 calls: torch.op1/1, torch.op2/2, torch.op3/3, torch.op4/4, torch.op5/5, torch.op6/6, 3 other kinds\n",
		"output[0] reproduced to rounding if all elements are multiplied by 0.5", "FAIL  torch.op11, id 11"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	told, all := 0, 0
	for range d.Told() {
		told++
	}
	for range d.Kinds() {
		all++
	}
	if told != 3 || all != 12 {
		t.Errorf("%d told, %d kinds", told, all)
	}
}
