package reports

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

func TestResultChanges(t *testing.T) {
	result := func(capture string, id int, v verdict.Verdict) *Result {
		return &Result{Capture: capture, Op: "torch.mm", ForwardID: &id, Phase: "forward", Target: "output[0]",
			Verdict: v}
	}
	old := []*Result{result("a", 1, verdict.Pass), result("b", 2, verdict.Fail), result("c", 3, verdict.Fail),
		result("d", 4, verdict.Pass), result("e", 5, verdict.Pass), result("f", 6, verdict.Pass)}
	cur := []*Result{result("a", 1, verdict.Pass), result("b", 2, verdict.Warn), result("c", 3, verdict.Fail),
		result("other", 4, verdict.Skipped), result("f", 6, verdict.Crash), result("g", 7, verdict.Pass),
		result("h", 8, verdict.Fail)}
	var got []string
	for _, c := range ResultChanges(old, cur) {
		was, is := c.Verdicts()
		got = append(got, fmt.Sprintf("%s %d %s %s", c.Change, *c.Result().ForwardID, was, is))
		var line map[string]any
		if text, err := json.Marshal(&c); err != nil || json.Unmarshal(text, &line) != nil || line["kind"] != "result_change" {
			t.Errorf("%s, %v", text, err)
		}
	}
	want := []string{"worse 4 pass skipped", "worse 6 pass crash", "new 8  fail", "better 2 fail warn", "new 7  pass", "gone 5 pass ",
		"still 3 fail fail"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFarWorse: how much worse a finding of both runs got is told, by its largest error, the share of wrong elements,
// or infinities and NaN.
func TestFarWorse(t *testing.T) {
	fail := func(ratio, most float64, wrong int, actual string) *Result {
		all := 100
		return &Result{Capture: "a", Op: "torch.mm", Phase: "forward", Target: "output[0]", Verdict: verdict.Fail,
			BoundRatio: Num(ratio), MaxAbs: Num(most), Mismatch: &wrong, Numel: &all, Actual: json.RawMessage(actual),
			Expected: json.RawMessage("2")}
	}
	for _, c := range []struct {
		name     string
		old, cur *Result
		want     string
		far      bool
	}{
		{"same", fail(5, 1, 1, "1"), fail(5, 1, 1, "1"), "", false},
		{"another seed", fail(5, 1, 3, "1"), fail(12, 3, 4, "1"), "2.4 times worse: ", false},
		{"error", fail(5, 1, 3, "1"), fail(500, 100, 3, "1"), "100 times worse: ", true},
		{"beside zero", fail(5, 1, 3, "1"), fail(5e30, 1.1, 3, "1"), "", false},
		{"larger data", fail(5, 1, 3, "1"), fail(5, 65536, 3, "1"), "", false},
		{"share", fail(5, 1, 1, "1"), fail(5, 1, 64, "1"), "64 times worse: ", true},
		{"nan", fail(5, 1, 1, "1"), fail(5, 1, 1, `"nan"`), "now infinite or NaN: ", true},
		{"nan in both", fail(5, 1, 1, `"nan"`), fail(5, 1, 1, `"nan"`), "", false},
		{"better", fail(500, 1, 64, "1"), fail(5, 1, 1, "1"), "", false},
	} {
		changes := ResultChanges([]*Result{c.old}, []*Result{c.cur})
		n := CountChanges(changes, 1)
		if got := changes[0].Now(); got != c.want || changes[0].FarWorse() != c.far || n.FarWorse != btoi(c.far) {
			t.Errorf("%s: got %q, %v, %d", c.name, got, changes[0].FarWorse(), n.FarWorse)
		}
	}
}

// TestGoneResults: what is gone is one failure a folder, or one for an operator of a folder that is still there. A run
// that did not look at all calls has one failure, with the reason.
func TestGoneResults(t *testing.T) {
	value := func(folder, op string, n int) *Result {
		return &Result{Capture: fmt.Sprintf("%s/10-2026-11-29-01-23-13/%s.%d", folder, op, n), Op: op,
			Verdict: verdict.Pass}
	}
	a, b := value("x", "torch.mm", 1), value("x", "torch.add", 2)
	c, d := value("y", "torch.mm", 1), value("y", "torch.add", 2)
	old := []*Result{a, b, c, d}
	changes := []ResultChange{{Old: b, Change: Gone}, {Old: c, Change: Gone}, {Old: d, Change: Gone},
		{Old: a, New: a, Change: StaysBad}}
	for unseen, want := range map[string][]string{
		"": {"torch.add x: gone: 1 value of 1 call, which only old.jsonl has",
			"folder y y: gone: 2 values of 2 calls, which only old.jsonl has"},
		"no time": {"calls not looked at : no time: 3 values of 3 calls, which only old.jsonl has"},
	} {
		var got []string
		for _, r := range GoneResults(changes, old, "old.jsonl", unseen) {
			if !r.Verdict.Differs() {
				t.Errorf("%s: %s", r.Op, r.Verdict)
			}
			got = append(got, r.Op+" "+r.Capture+": "+r.Reason)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
