package step

import (
	"context"
	"math"
	"strings"
	"testing"
)

// TestUngiven: a parameter to which a call gave no gradient, though it gave those of others, is named.
func TestUngiven(t *testing.T) {
	tr := analyse(t, unpack(t, "bias-detached"))
	gaps := tr.Seen().Gaps
	if len(tr.Findings) > 0 || len(gaps) == 0 || !strings.HasPrefix(gaps[0].What,
		"input[3] (1.bias) of torch.nn.functional.layer_norm at detached.py:19 got no gradient") {
		t.Errorf("%v, %v", tr.Findings, gaps)
	}
	if gaps := analyse(t, unpack(t, "autograd-seen")).ungiven(); len(gaps) > 0 {
		t.Errorf("nothing lacks: %v", gaps)
	}
}

// TestGenerator: the gradients of a generator that runs before the loss of the discriminator come with the next loss.
// What a wrong gradient does to that loss follows from those of the discriminator only, and the generator's calls have
// no effect on the first loss that their gradients tell.
func TestGenerator(t *testing.T) {
	tr := analyse(t, unpack(t, "gan-wrong"))
	const right = 0.7837851643562317 // of the run with the right gradients
	m := tr.Without(context.Background(), options(t))
	if m.Why != "" || m.Calls != 2 || !(math.Abs(m.Loss-right) < 1e-7) {
		t.Errorf("%+v", m)
	}
	for _, c := range tr.Processes[0].Steps[0].Calls {
		if c.differentiatedIn() != c.Step && c.Effect == c.Effect {
			t.Errorf("%s has the effect %v", c, c.Effect)
		}
	}
}
