package reports

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// TestChangedOps: each operator with changed calls has a line. Calls are counted, not their values, and a call that
// fails no longer because nothing judges it is not repaired.
func TestChangedOps(t *testing.T) {
	value := func(capture, op, target string, v verdict.Verdict) *Result {
		return &Result{Capture: capture, Op: op, Phase: "forward", Target: target, Verdict: v}
	}
	old := []*Result{
		value("1", "gelu", "output[0]", verdict.Fail), value("1", "gelu", "grad[0]", verdict.Fail),
		value("2", "gelu", "output[0]", verdict.Fail), value("3", "softmax", "output[0]", verdict.Pass),
		value("4", "exp", "output[0]", verdict.Fail), value("5", "sin", "output[0]", verdict.Fail),
		value("6", "cos", "output[0]", verdict.Fail),
	}
	now := []*Result{
		value("1", "gelu", "output[0]", verdict.Pass), value("1", "gelu", "grad[0]", verdict.Pass),
		value("2", "gelu", "output[0]", verdict.Pass), value("3", "softmax", "output[0]", verdict.Fail),
		value("4", "exp", "output[0]", verdict.Unsupported), value("6", "cos", "output[0]", verdict.Fail),
		value("7", "tan", "output[0]", verdict.Pass),
	}
	want := []Fact{{"newly wrong", "softmax, 1 call"}, {"no longer judged", "exp, 1 call"},
		{"gone, was wrong", "sin, 1 call"}, {"still wrong", "cos, 1 call"}, {"repaired", "gelu, 2 calls"}}
	if got := ChangedOps(ResultChanges(old, now)); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	const counts = "10 calls: 1 newly wrong, 1 no longer judged, 1 still wrong, 2 repaired, 1 new, " +
		"4 as good as before; 1 call only before: 1 gone, was wrong"
	if got := CountCalls(ResultChanges(old, now), 10); got != counts {
		t.Errorf("got  %q\nwant %q", got, counts)
	}
}

// TestRepairedWithWarnings: a call that failed and only warns now is repaired, though values of it that passed warn.
// One that passed has a new warning: it is still judged. One of which another value still fails is not repaired.
func TestRepairedWithWarnings(t *testing.T) {
	run := func(verdicts ...verdict.Verdict) (rs []*Result) {
		for i, v := range verdicts {
			rs = append(rs, &Result{Capture: fmt.Sprint(i / 2), Op: "norm", Phase: "backward", Verdict: v,
				Target: fmt.Sprintf("grad[%d]", i%2)})
		}
		return rs
	}
	const pass, warn, fail = verdict.Pass, verdict.Warn, verdict.Fail
	changes := ResultChanges(run(fail, pass, fail, pass, pass, pass, fail, fail),
		run(pass, warn, warn, pass, pass, warn, pass, fail))
	const want = "4 calls: 1 still wrong, 2 repaired (1 of them with a new warning), 1 with a new warning"
	if got := CountCalls(changes, 4); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if less, warned := CountWord(changes, Less), CountWord(changes, Warned); less != 0 || warned != 2 {
		t.Errorf("%d values are judged no longer, %d warn now", less, warned)
	}
}

// TestUnneeded: what a function of the program did inside is not gone when the function is, nor are the arguments after
// its call. A value that is gone of a call that is there counts as no gone call.
func TestUnneeded(t *testing.T) {
	result := func(run, op string, id int, phase, replaced string, within *int) *Result {
		return &Result{Capture: "rank0/" + run + "/" + op, Op: op, ForwardID: &id, Phase: phase, Target: phase + "[0]",
			Verdict: verdict.Pass, Replaced: replaced, Within: within}
	}
	outer, inner := 3, 4
	old := []*Result{result("1", "torch.gelu", outer, "output", "m.fast", nil), result("1", "torch.gelu", outer, "input", "m.fast", nil),
		result("1", "torch._C.gelu", inner, "output", "", &outer), result("1", "torch.mul", 5, "output", "", &inner),
		result("1", "torch.exp", 6, "output", "", nil), result("1", "torch.mm", 7, "output", "", nil), result("1", "torch.mm", 7, "grad", "", nil)}
	cur := []*Result{result("1", "torch.gelu", outer, "output", "", nil), result("1", "torch.mm", 7, "output", "", nil)}
	changes := ResultChanges(old, cur)
	want := "2 calls: 1 with values gone, 1 as good as before; 3 calls only before: 1 gone, 2 gone with a replaced function"
	if got := CountCalls(changes, 2); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := CountChanges(changes, 2); n.Gone != 2 || n.Unneeded != 3 {
		t.Errorf("%+v", n)
	}
	if got, want := GoneOps(changes), "torch.exp (1 call), torch.mm (values of 1 call)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var lacks []string
	for _, r := range LackingResults(changes, old, "old", "") {
		lacks = append(lacks, r.Lacks)
	}
	gone := []string{"calls of torch.exp in rank0/1", "values of calls of torch.mm in rank0/1"}
	if !slices.Equal(lacks, gone) {
		t.Errorf("got %q, want %q", lacks, gone)
	}
	back := result("1", "torch.neg", 8, "output", "", nil)
	back.WithinBackward = &outer
	if n := CountChanges(ResultChanges(append(old, back), cur), 2); n.Gone != 2 || n.Unneeded != 4 {
		t.Errorf("a call in the backward pass of the function: %+v", n)
	}
	cur[0].Replaced = "m.fast" // as before, but it makes no calls
	if n := CountChanges(ResultChanges(old, cur), 2); n.Gone != 3 || n.Unneeded != 2 {
		t.Errorf("%+v", n)
	}
}

// TestCallsAddUp: a call of which only the new run has some value is no new call, and each call of the new run counts
// once.
func TestCallsAddUp(t *testing.T) {
	value := func(id int, target string, v verdict.Verdict) *Result {
		return &Result{Capture: fmt.Sprintf("rank0/%d", id), Op: "gelu", ForwardID: &id, Target: target, Verdict: v}
	}
	old := []*Result{value(1, "output[0]", verdict.Pass), value(2, "output[0]", verdict.Pass),
		value(3, "output[0]", verdict.Pass), value(4, "output[0]", verdict.Pass), value(4, "grad[0]", verdict.Fail)}
	cur := []*Result{value(1, "output[0]", verdict.Pass), value(2, "output[0]", verdict.Pass),
		value(2, "input[0]", verdict.Pass), value(3, "output[0]", verdict.Fail), value(3, "input[0]", verdict.Pass),
		value(4, "output[0]", verdict.Pass), value(5, "output[0]", verdict.Pass)}
	want := "5 calls: 1 newly wrong, 1 with values gone that were wrong, 1 new, 1 with new values, 1 as good as before"
	if got := CountCalls(ResultChanges(old, cur), 5); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want = "0 calls: none; 4 calls only before: 1 gone, was wrong, 3 gone"
	if got := CountCalls(ResultChanges(old, nil), 0); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestLess: what is only not judged any more has another word than what is wrong.
func TestLess(t *testing.T) {
	for v, want := range map[verdict.Verdict]Change{verdict.Mistrusted: Less, verdict.Fail: Worse} {
		c := ResultChange{Old: &Result{Verdict: verdict.Pass}, New: &Result{Verdict: v}, Change: Worse}
		if got := c.Word(); got != want {
			t.Errorf("%s: got %q, want %q", v, got, want)
		}
	}
}

// TestKnownFarWorse: a known failure that is far worse now is no new one.
func TestKnownFarWorse(t *testing.T) {
	const far = "1 call: 1 wrong before, far worse now"
	for worse, want := range map[float64]string{20: far, 2: "1 call: 1 newly wrong"} {
		old, now := failing("torch.mm", "output[0]", 1, 5), failing("torch.mm", "output[0]", 1, 5*worse)
		old.Verdict = verdict.Known
		if got := CountCalls(ResultChanges([]*Result{old}, []*Result{now}), 1); got != want {
			t.Errorf("%g times worse: got %q, want %q", worse, got, want)
		}
	}
}

// TestKnownByNameFarWorse: a failure that is known by a line without numbers is compared with the run before. A line
// with numbers says itself how wrong it may be.
func TestKnownByNameFarWorse(t *testing.T) {
	const far = "1 call: 1 wrong before, far worse now"
	for _, x := range []struct {
		line  string
		worse float64
		want  string
		count int
	}{
		{"torch.mm * divides by n-1", 30, far, 1},
		{"torch.mm * divides by n-1", 2, "1 call: 1 known", 0},
		{"torch.mm * bound_ratio=100 max_abs_diff=100 as agreed", 30, "1 call: 1 known", 0},
	} {
		list, err := ParseKnown("k.txt", []byte(x.line), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		old, now := failing("torch.mm", "output[0]", 1, 5), failing("torch.mm", "output[0]", 1, 5*x.worse)
		list.Mark(now)
		if now.Verdict != verdict.Known {
			t.Fatalf("%s: %s %s", x.line, now.Verdict, now.Reason)
		}
		for _, was := range []verdict.Verdict{verdict.Fail, verdict.Known} {
			old.Verdict = was
			changes := ResultChanges([]*Result{old}, []*Result{now})
			n := CountChanges(changes, 1)
			if got := CountCalls(changes, 1); got != x.want || n.FarWorse != x.count || n.Known != 1 {
				t.Errorf("%s, %g times worse: got %q, %+v, want %q", x.line, x.worse, got, n, x.want)
			}
		}
	}
}
