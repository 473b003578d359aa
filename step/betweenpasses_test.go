package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestBetweenPasses: buffers that are refilled between the forward and the backward pass are changed between both
// calls that read them. No operator is wrong, also where no later call shows what was written.
func TestBetweenPasses(t *testing.T) {
	tr := analyse(t, unpack(t, "buffers-refilled"))
	for i, want := range []string{
		"torch.Tensor.mul/1 and torch.Tensor.mul/18",
		"torch.nn.functional.cross_entropy/3 and torch.nn.functional.cross_entropy/20",
		"torch.Tensor.mul/18 and torch.Tensor.mul/35",
		"torch.nn.functional.cross_entropy/20 and torch.nn.functional.cross_entropy/37",
		"the forward and the backward pass of torch.Tensor.mul/35",
		"the forward and the backward pass of torch.nn.functional.cross_entropy/37",
	} {
		if i >= len(tr.Findings) {
			t.Fatalf("%d findings", len(tr.Findings))
		}
		f := tr.Findings[i]
		if f.Between() != want || f.Rule != verdict.Changed || f.Target != "input[1]" {
			t.Errorf("%s of %s is %s between %q, want %q", f.Target, f.Call, f.Rule, f.Between(), want)
		}
	}
	if kinds := KindsOf(tr.Findings); len(kinds) != 2 {
		t.Errorf("%d kinds of findings, want 2", len(kinds))
	}
	for _, c := range tr.Calls() {
		if c.Verdict.Differs() {
			t.Errorf("%s is %s", c, c.Verdict)
		}
	}
}

// TestWrittenBetweenPasses: a recorded write to labels or a mask behind the loss is the cause of the wrong gradients.
func TestWrittenBetweenPasses(t *testing.T) {
	kinds := KindsOf(analyse(t, unpack(t, "buffers-written")).Findings)
	for i, want := range []string{"torch.Tensor.copy_/5 (recorded.py:18)", "torch.Tensor.copy_/4 (recorded.py:17)"} {
		want = "input[1] was overwritten by " + want
		if f := kinds[i][0]; len(f.Causes) != 1 || !strings.Contains(f.Causes[0].String(), want) {
			t.Errorf("the causes of %s of %s are %+v, want %q", f.Target, f.Call, f.Causes, want)
		}
	}
}
