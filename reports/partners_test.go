package reports

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

// TestPartnersShifted: a call more shifts the numbers of all calls after it. They belong together by sequence, in each
// process of its own, whichever ranks a run has.
func TestPartnersShifted(t *testing.T) {
	run := func(name string, rank, from int, ops ...string) (out []*Result) {
		for i, op := range ops {
			id, order := from+i, i
			out = append(out, &Result{Capture: fmt.Sprintf("%s/%d/%d", name, rank, id), Op: op, ForwardID: &id,
				Order: &order, PID: &rank, Rank: &rank, Phase: "forward", Target: "output[0]",
				Verdict: verdict.Pass})
		}
		return out
	}
	old := append(run("old", 0, 0, "add"), run("old", 1, 3, "linear", "relu", "linear", "relu", "norm")...)
	cur := run("new", 1, 3, "linear", "relu", "mul", "linear", "relu", "norm")
	cur[5].Verdict = verdict.Fail
	var got []string
	for _, c := range ResultChanges(old, cur) {
		got = append(got, fmt.Sprintf("%s %s %s", c.Change, c.Result().Op, c.ID()))
	}
	if diff := cmp.Diff([]string{"worse norm 8 (was 7)", "new mul 5", "gone add 0"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestPartnersSample: runs that took other calls of one recording, or of two that are alike, keep the numbers.
func TestPartnersSample(t *testing.T) {
	run := func(name string, ids ...int) (out []*Result) {
		for _, id := range ids {
			out = append(out, &Result{Capture: fmt.Sprintf("%s/%d", name, id), Op: "linear", ForwardID: &id, Phase: "forward",
				Target: "output[0]", Verdict: verdict.Pass})
		}
		return out
	}
	for cur, before := range Partners(run("old", 1, 3, 5, 7), run("new", 2, 3, 6, 7)) {
		if *cur.ForwardID != *before.ForwardID {
			t.Errorf("%d belongs to %d", *cur.ForwardID, *before.ForwardID)
		}
	}
	unnumbered := &Result{Capture: "relu_1", Op: "relu", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass}
	other := &Result{Capture: "relu_2", Op: "relu", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass}
	if p := Partners([]*Result{unnumbered}, []*Result{other}); len(p) > 0 {
		t.Error("cases of two names belong together")
	}
}
