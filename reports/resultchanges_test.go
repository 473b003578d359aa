package reports

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		grown := ""
		switch {
		case c.far:
			grown = " (1 far worse)"
		case c.want != "":
			grown = " (1 worse)"
		}
		want := "1 finding in both" + grown + ","
		if n.StillWorse != btoi(c.want != "") || !strings.Contains(n.String(), want) {
			t.Errorf("%s: no %q in %q, %d still worse", c.name, want, n, n.StillWorse)
		}
	}
}

// TestLackingResults: what is gone is one failure a folder, or one for an operator of a folder that is still there.
// What a run did not look at is one skipped result, and is gone only where its operator was looked at to the end.
func TestLackingResults(t *testing.T) {
	value := func(folder, op string, n int) *Result {
		return &Result{Capture: fmt.Sprintf("%s/10-2026-11-29-01-23-13/%s.%d", folder, op, n), Op: op,
			Verdict: verdict.Pass}
	}
	a, b := value("x", "torch.mm", 1), value("x", "torch.add", 2)
	c, d := value("y", "torch.mm", 1), value("y", "torch.add", 2)
	old := []*Result{a, b, c, d}
	unreached := func(op string) *Budget {
		return &Budget{Ops: []*OpBudget{{Op: op, Looked: Looked{Calls: 2, CheckedCalls: 1}}}}
	}
	for _, x := range []struct {
		name   string
		budget *Budget
		shard  string
		want   []string
	}{
		{"whole", nil, "", []string{"fail missing calls of torch.add in x: gone: 1 value of 1 call, which only old.jsonl has",
			"fail missing folder y: gone: 2 values of 2 calls, which only old.jsonl has"}},
		{"shard", nil, "1/2", []string{"skipped not looked at 3 calls: not looked at: no time"}},
		{"budget", unreached("torch.add"), "", []string{"skipped not looked at 2 calls: not looked at: no time",
			"fail missing calls of torch.mm in y: gone: 1 value of 1 call, which only old.jsonl has"}},
	} {
		changes := ResultChanges(old, []*Result{a})
		rec := &Recording{Summary: NewSummary(), Run: Run{Shard: x.shard}}
		rec.Summary.Budget = x.budget
		NotLookedAt(changes, rec)
		var got []string
		for _, r := range LackingResults(changes, old, "old.jsonl", "no time") {
			got = append(got, fmt.Sprintf("%s %s %s: %s", r.Verdict, r.Op, r.Lacks, r.Reason))
			rec.Summary.Add(r)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s: %s", x.name, diff)
		}
		if n := rec.Summary.Calls(); n != 0 {
			t.Errorf("%s: got %d calls, want none", x.name, n)
		}
	}
}

// TestHistory: a value fails since the first of the nights without a right one, whatever their order. A night that did
// not judge it says nothing.
func TestHistory(t *testing.T) {
	value := func(v verdict.Verdict) []*Result {
		return []*Result{{Capture: "torch.mm/1/2", Op: "torch.mm", Target: "output[0]", Verdict: v}}
	}
	night := func(day int, results []*Result) *Night {
		at := time.Date(2026, 11, day, 2, 0, 0, 0, time.UTC) // judged in another order
		return &Night{Name: fmt.Sprintf("n%d", day), Start: at.AddDate(0, 0, -2*day), Recorded: at,
			Results: slices.Values(results)}
	}
	undated := func(day int, results []*Result) *Night {
		n := night(day, results)
		n.Recorded = time.Time{}
		return n
	}
	now := night(9, value(verdict.Fail))
	for _, c := range []struct {
		name   string
		nights []*Night
		want   string
	}{
		{"new today", []*Night{night(8, value(verdict.Pass))},
			"wrong since n9, recorded 2026-11-09 02:00; last right in n8"},
		{"since two nights", []*Night{night(7, value(verdict.Fail)), night(5, value(verdict.Pass)),
			night(6, value(verdict.Skipped)), night(8, nil), night(4, value(verdict.Fail))},
			"wrong since n7, recorded 2026-11-07 02:00; last right in n5"},
		{"as known", []*Night{night(7, value(verdict.Known))},
			"wrong since n7, recorded 2026-11-07 02:00; none of these runs judged it before"},
		{"in the order given", []*Night{night(5, value(verdict.Pass)), undated(8, value(verdict.Pass)),
			undated(7, value(verdict.Fail))}, "wrong since n7, judged 2026-10-24 02:00; last right in n8"},
		{"right later", []*Night{night(10, value(verdict.Pass)), night(8, value(verdict.Fail))},
			"wrong since n8, recorded 2026-11-08 02:00; none of these runs judged it before"},
		{"never seen", []*Night{night(7, nil)}, "wrong since n9, recorded 2026-11-09 02:00; none of these runs judged it before"},
	} {
		changes := ResultChanges(slices.Collect(c.nights[0].Results), slices.Collect(now.Results))
		History(changes, c.nights[0], now, c.nights[1:])
		i := slices.IndexFunc(changes, func(x ResultChange) bool { return x.New != nil })
		if got := changes[i].SinceText(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTimeline: what was ever wrong has a line, also if the last run is good, and a copy of a night does not count.
func TestTimeline(t *testing.T) {
	var nights []*Night
	for i, verdicts := range [][2]verdict.Verdict{{verdict.Pass, verdict.Pass}, {verdict.Fail, verdict.Pass},
		{verdict.Known, verdict.Pass}, {verdict.Skipped, ""}, {verdict.Pass, verdict.Pass}} {
		n := &Night{Name: fmt.Sprintf("n%d", i), Start: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC), marks: marks{}}
		for k, v := range verdicts {
			if v != "" {
				n.marks.add(&Result{Capture: "a", Op: []string{"torch.mm", "torch.add"}[k], Verdict: v})
			}
		}
		nights = append(nights, n)
	}
	first := *nights[1]
	got := Timeline(Past(&first, nights[4], nights[:4]), nights[4], []*Result{{Op: "torch.mm", Verdict: verdict.Pass}})
	want := []Fact{{"run by run", "5 runs, from n0, judged 2026-01-01 00:00 to n4, judged 2026-01-05 00:00: x wrong, " +
		"k known, . right, ? not judged, - not there"}, {".xk?.", "torch.mm"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHistoryOfShiftedCalls: the calls of other nights are those that the comparison pairs, also where numbers differ;
// and what is gone has the last night that had it. A part of a run says nothing of what it lacks.
func TestHistoryOfShiftedCalls(t *testing.T) {
	call := func(op, module string, id, order int, v verdict.Verdict) *Result {
		pid := 7
		return &Result{Capture: fmt.Sprintf("m/7-2026-01-01-00-00-00/%s.%d", op, id), Op: op, ForwardID: &id,
			Order: &order, PID: &pid, Phase: "forward", Target: "output[0]", Module: module, Verdict: v}
	}
	night := func(day int, more bool, v verdict.Verdict, lost bool) *Night {
		results := []*Result{call("torch.norm", "a", 0, 0, verdict.Pass)}
		if more {
			results = append(results, call("torch.mean", "a", 1, 1, verdict.Pass))
		}
		n := len(results)
		results = append(results, call("torch.norm", "b", n, n, v))
		if !lost {
			gone := call("torch.mm", "c", 0, 0, verdict.Pass)
			gone.Capture = "other/" + gone.Capture
			results = append(results, gone)
		}
		for _, r := range results {
			r.Capture = strings.Replace(r.Capture, "2026-01-01", fmt.Sprintf("2026-01-%02d", day), 1)
		}
		at := time.Date(2026, 1, day, 2, 0, 0, 0, time.UTC)
		return &Night{Name: fmt.Sprintf("n%d", day), Start: at, Recorded: at, Results: slices.Values(results)}
	}
	old, now := night(1, false, verdict.Pass, false), night(5, true, verdict.Fail, true)
	part := night(4, false, verdict.Pass, true)
	part.Part = true
	before, cur := slices.Collect(old.Results), slices.Collect(now.Results)
	old.Results, now.Results = slices.Values(before), slices.Values(cur)
	changes := ResultChanges(before, cur)
	History(changes, old, now, []*Night{night(2, true, verdict.Fail, false), night(3, false, verdict.Pass, true), part})
	got := map[Change]string{}
	for i := range changes {
		got[changes[i].Change] = changes[i].SinceText()
	}
	if want := "wrong since n5, recorded 2026-01-05 02:00; last right in n4"; got[Worse] != want {
		t.Errorf("got %q, want %q", got[Worse], want)
	}
	if want := "missing since n3, recorded 2026-01-03 02:00; last seen in n2"; got[Gone] != want {
		t.Errorf("got %q, want %q", got[Gone], want)
	}
	lines := OnlyFolders(before, cur, changes, "old", "new")
	if want := "only old has the folder other/m (1 call), " + got[Gone]; len(lines) != 1 || lines[0] != want {
		t.Errorf("got %q, want %q", lines, want)
	}
	NotLookedAt(changes, &Recording{Summary: NewSummary(), Run: Run{Shard: "1/2"}})
	if lines := OnlyFolders(before, cur, changes, "old", "new"); len(lines) > 0 {
		t.Errorf("of what was not looked at: %q", lines)
	}
}
