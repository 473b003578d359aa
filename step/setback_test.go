package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestSetBack: what is set back or scaled in memory is found where several calls inside an optimizer's counted writes,
// where the calls behind find the new value again, where the gradient of a loss is 1, and where a generator of the
// program's own goes back to an earlier step's numbers. So is one that goes back inside a call, as its results show,
// and torch's own if it goes back once, in the midst of a step.
func TestSetBack(t *testing.T) {
	for name, want := range map[string]struct {
		from, call int
		target     string
		reason     string
	}{
		"momentum-set-back":      {14, 22, "input[4]", "the step before left in input[4] of torch.optim.sgd.sgd/14"},
		"squares-set-back":       {29, 48, "input[6]", "the step before left in input[6] of torch.optim.adam.adam/29"},
		"update-lost":            {43, 63, "input[1]", "what lay there before input[0] of torch.optim.adam.adam/43"},
		"update-lost-while-read": {43, 63, "input[1]", "what lay there before input[0] of torch.optim.adam.adam/43"},
		"update-half": {64, 106, "input[1]", "it holds what input[0] of torch.Tensor.addcdiv_/74 had left there before, not " +
			"what input[0] of torch.optim.adam.adam/64 wrote there last"},
		"loss-halved": {16, 20, "input[0]", "is 0.415147 and was 0.830294 in output[0] of torch.Tensor.mul/16"},
		"own-generator-set-back": {2, 19, "output[0]", "torch.randn/2 in an earlier step: the program's own generator was " +
			"set back, or did not advance, between /tmp/model/s36z/train.py:32 and /tmp/model/s36z/train.py:35"},
		"dropout-repeated-inside": {51, 53, "output[0]",
			"torch.nn.functional.dropout/51: the generator had gone on before the call"},
		"noise-of-the-step-before": {1, 9, "output[0]", "torch.randn_like/1 in an earlier step: the generator was set back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := analyse(t, unpack(t, name))
			for _, gap := range tr.Seen().Gaps {
				if strings.Contains(gap.What, drewTheSame) {
					t.Errorf("gap %q beside the finding", gap.What)
				}
			}
			if n := len(tr.Findings); n != 1 && strings.HasPrefix(name, "update-lost") {
				t.Errorf("%d findings, want one for all that read the old weight", n)
			}
			f := tr.First()
			if f == nil || f.Rule != verdict.Changed || f.From == nil || f.From.Call.Entry.ID != want.from ||
				f.Call.Entry.ID != want.call || f.Target != want.target || !strings.Contains(f.Reason, want.reason) {
				t.Errorf("got %+v, want %s of call %d changed since call %d: %s", f, want.target, want.call, want.from,
					want.reason)
			}
		})
	}
}

// TestNotSetBack: a generator that the program seeds within each step, also for the second run of a line, a loss to
// which calls that are not recorded add constants, and a weight that the program sets back by a call that only torch
// counts are no findings: there are gaps.
func TestNotSetBack(t *testing.T) {
	for _, name := range []string{"own-generator-seeded", "noise-seeded-for-validation", "loss-added",
		"update-undone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := analyse(t, unpack(t, name))
			if f := tr.First(); f != nil || len(tr.Seen().Gaps) == 0 {
				t.Errorf("got %+v and gaps %+v, want no finding, and gaps", f, tr.Seen().Gaps)
			}
		})
	}
}
