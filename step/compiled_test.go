package step

import (
	"math"
	"testing"
)

// TestCompiledLoss: where the calls of a compiled backward pass read the 1 with which it begins more than once, what
// they compute from it is no loss, and the update behind the loss is known.
func TestCompiledLoss(t *testing.T) {
	tr := analyse(t, unpack(t, "compiled-seed-read-twice"))
	steps := tr.Processes[0].Steps
	if len(steps) != 2 || math.Abs(steps[0].Captured-0.917229176) > 1e-8 ||
		math.Abs(steps[1].Captured-0.720969915) > 1e-8 {
		t.Fatalf("got %d steps, want losses 0.917229176 and 0.720969915", len(steps))
	}
	f := tr.First()
	if f == nil || f.Call.Entry.ID != 49 || f.Target != "input[4]" {
		t.Fatalf("got %+v, want input[4] of torch.optim.adam.adam/49", f)
	}
	m := tr.Without(t.Context(), options(t))
	if m.Why != "" || math.Abs(m.Loss-0.54537986) > 1e-6 {
		t.Errorf("got %+v, want the next loss without the fault, 0.54537986", m)
	}
}
