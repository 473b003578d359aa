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
