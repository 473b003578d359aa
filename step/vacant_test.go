package step

import (
	"strings"
	"testing"
)

// TestVacant: what a pipeline computes with uninitialised memory, to know the shapes of results, is no loss, and not
// wrong. What is computed with memory that a message filled is.
func TestVacant(t *testing.T) {
	tr := analyse(t, "parallel/testdata/pipeline")
	if len(tr.Findings) > 0 {
		t.Errorf("found %s %s: %s", tr.Findings[0].Rule, tr.Findings[0].Call, tr.Findings[0].Reason)
	}
	vacant := map[string]int{}
	for _, c := range tr.Processes[1].Calls {
		if c.Vacant() {
			vacant[c.Op]++
		}
	}
	if vacant["torch.nn.functional.linear"] != 1 || vacant["torch.nn.functional.mse_loss"] != 1 {
		t.Errorf("with uninitialised memory: %v", vacant)
	}
	for _, g := range tr.Seen().Gaps {
		if strings.Contains(g.What, "no loss was recorded") {
			t.Errorf("the second stage computes the loss of the first: %s", g.What)
		}
	}
	if n := len(tr.Processes[1].Steps); n != 4 {
		t.Errorf("%d losses, want one for each microbatch", n)
	}
}
