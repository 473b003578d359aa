package reports

import (
	"slices"
	"testing"

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
		{"gone, was wrong", "sin, 1 call"}, {"repaired", "gelu, 2 calls"}, {"still wrong", "cos, 1 call"}}
	if got := ChangedOps(ResultChanges(old, now)); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	const counts = "1 call newly wrong, 1 no longer judged, 1 gone, was wrong, 2 repaired, 1 still wrong, 1 new, 4 as good as before"
	if got := CountCalls(ResultChanges(old, now), 10); got != counts {
		t.Errorf("got  %q\nwant %q", got, counts)
	}
}
