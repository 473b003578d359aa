package step

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestInsideJudged: a call of an unknown operator inside of a judged one is none that could not be run again.
func TestInsideJudged(t *testing.T) {
	whole := &Call{Verdict: verdict.Pass}
	inner := &Call{Verdict: verdict.Unsupported, Failed: "unknown op", outer: whole}
	tr := &Trace{Processes: []*Process{{Calls: []*Call{whole, inner, {Verdict: verdict.Unsupported, Failed: "unknown op"}}}}}
	if n := tr.NotRun(); n != 1 {
		t.Errorf("%d calls could not be run again, want 1", n)
	}
}

// TestInner: of a wrong call, and a call that made it and is wrong for it, the first is the finding. A wrong call whose
// calls are right is one by itself.
func TestInner(t *testing.T) {
	whole := &Call{Op: "torch.optim.adam.adam"}
	inner := &Call{Op: "torch.Tensor.addcdiv_", outer: whole}
	wrong := func(c *Call) *Finding { return &Finding{Rule: verdict.Wrong, Call: c} }
	got := unexplained([]*Finding{wrong(whole), wrong(inner)})
	if len(got) != 1 || got[0].Call != inner || got[0].Behind != 1 {
		t.Errorf("got %+v, want the inner call, and one behind it", got)
	}
	if got = unexplained([]*Finding{wrong(whole)}); len(got) != 1 || got[0].Call != whole {
		t.Errorf("got %+v, want the whole", got)
	}
}
