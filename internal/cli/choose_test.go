package cli

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// TestChoose: explain takes the wrong value whose cause is known, as replay does, and says what is known of the others.
func TestChoose(t *testing.T) {
	var rs []*reports.Result
	for _, target := range []string{"output[0]", "grad[1]", "grad[2]", "grad[3]"} {
		rs = append(rs, &reports.Result{Target: target, Verdict: verdict.Fail})
	}
	rs[0].Verdict = verdict.Pass
	found := []reports.Cause{{Targets: []string{"grad[1]"}, Text: "wrong where self is zero", Pattern: true},
		{Targets: []string{"grad[2]", "grad[3]"}, Text: "all elements are zero"}}
	var o explainOptions
	at, err := o.choose(rs, found)
	if err != nil || rs[at].Target != "grad[2]" {
		t.Fatalf("%s, %v, want grad[2]", rs[at].Target, err)
	}
	if got, want := otherValues(rs, at, found),
		"grad[1]: no cause found; grad[3]: the same cause (--target VALUE explains one)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if at, _ = o.choose(rs, nil); rs[at].Target != "grad[1]" {
		t.Errorf("without causes %s, want the first wrong value", rs[at].Target)
	}
	o.target = "grad[1]"
	if at, _ = o.choose(rs, found); rs[at].Target != "grad[1]" {
		t.Errorf("--target grad[1] gives %s", rs[at].Target)
	}
	if got, want := otherValues(rs, at, found), "grad[2]: all elements are zero; grad[3]: all elements are zero "+
		"(--target VALUE explains one)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := otherValues(rs[:2], 1, found); got != "" {
		t.Errorf("one wrong value: %q", got)
	}
}
