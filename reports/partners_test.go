package reports

import (
	"fmt"
	"strings"
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
			out = append(out, &Result{Capture: fmt.Sprintf("rank%d/%s/add.%d", rank, name, id), Op: op, ForwardID: &id,
				Order: &order, PID: &rank, Rank: &rank, Phase: "forward", Target: "output[0]",
				Verdict: verdict.Pass})
		}
		return out
	}
	old := append(run("10-2026-01-01-01-00-00", 0, 0, "add"), run("11-2026-01-01-01-00-00", 1, 3, "linear", "relu", "linear", "relu", "norm")...)
	cur := run("9-2026-01-02-01-00-00", 1, 3, "linear", "relu", "mul", "linear", "relu", "norm")
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
			out = append(out, &Result{Capture: fmt.Sprintf("rank0/%s/linear.%d", name, id), Op: "linear",
				ForwardID: &id, Phase: "forward", Target: "output[0]", Verdict: verdict.Pass})
		}
		return out
	}
	for cur, before := range Partners(run("10-2026-01-01-01-00-00", 1, 3, 5, 7),
		run("9-2026-01-02-01-00-00", 2, 3, 6, 7)) {
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

// TestPartnersFolders: calls of one folder belong together, whatever numbers their processes have, and never to those
// of another folder.
func TestPartnersFolders(t *testing.T) {
	run := func(folder string, pid, second int, v verdict.Verdict) *Result {
		id := 3
		return &Result{Capture: fmt.Sprintf("%s/rank0/%d-2026-01-01-01-00-%02d/gelu.3", folder, pid, second), Op: "gelu",
			ForwardID: &id, PID: &pid, Phase: "forward", Target: "output[0]", Verdict: v}
	}
	const bad, good = verdict.Fail, verdict.Pass
	for _, c := range []struct {
		name      string
		old, cur  []*Result
		want      string
		wantLines []string
	}{
		{"the failure moves", []*Result{run("x", 10, 1, bad), run("y", 20, 2, good)},
			[]*Result{run("x", 9, 3, good), run("y", 8, 4, bad)}, "worse y, better x", nil},
		{"one is absent", []*Result{run("x", 10, 1, bad), run("y", 20, 2, good)}, []*Result{run("y", 8, 4, bad)},
			"worse y, gone x", []string{"only old has the folder x (1 call)"}},
		{"another instead",
			[]*Result{run("x", 10, 1, bad)}, []*Result{run("y", 8, 4, bad)}, "new y, gone x",
			[]string{"only old has the folder x (1 call)", "only new has the folder y (1 call)"}},
		{"processes of a folder by time", []*Result{run("x", 10, 1, bad), run("x", 20, 2, good)},
			[]*Result{run("x", 9, 3, bad), run("x", 8, 4, good)}, "still x", nil},
		{"several paths", []*Result{run("mon/x", 10, 1, bad), run("mon/y", 20, 2, good)},
			[]*Result{run("tue/y", 8, 4, good)}, "gone mon/x", []string{"only old has the folder mon/x (1 call)"}},
	} {
		var got []string
		for _, r := range ResultChanges(c.old, c.cur) {
			got = append(got, string(r.Change)+" "+r.Result().Folder())
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
		lines := OnlyFolders(c.old, c.cur, ResultChanges(c.old, c.cur), "old", "new")
		if diff := cmp.Diff(c.wantLines, lines); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
