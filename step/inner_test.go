package step

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
)

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
