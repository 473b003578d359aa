package step

import (
	"context"
	"math"
	"testing"
)

// TestEffectsBehindWrongGradients: the recorded gradients of the calls before a wrong one would tell their effects
// wrong. With the right gradients the effects add up to what the loss is off by, and the function's own calls give the
// exact loss and the next loss without the fault, though the operator of the function is not known.
func TestEffectsBehindWrongGradients(t *testing.T) {
	tr := analyse(t, unpack(t, "own-norm-wrong"))
	s := tr.Processes[0].Steps[0]
	if m := s.Misled; m.First == nil || m.First.String() != "__main__.Norm.apply/12" || m.Target != "grad[0]" ||
		m.Corrected != 5 || m.Unknown != 0 || m.Doubted {
		t.Errorf("%+v", s.Misled)
	}
	const right = 2.84012117 // as the run with the right gradients has it
	if math.Abs(s.Exact-right) > 1e-6 || math.Abs(s.Predicted-(s.Captured-s.Exact)) > 0.01*math.Abs(s.Predicted) {
		t.Errorf("exact %v, effects %v of %v", s.Exact, s.Predicted, s.Captured-s.Exact)
	}
	if len(s.Bridged) > 0 {
		t.Errorf("bridged: %v", s.Bridged)
	}
	const next = 2.646047830581665
	m := tr.Without(context.Background(), options(t))
	if m.Why != "" || !(math.Abs(m.Loss-next) < m.RoundsBy()) {
		t.Errorf("the next loss is %v, want %v: %s", m.Loss, next, m.Why)
	}
	if !tr.First().Call.ByDerivative() {
		t.Error("nothing but the step tells that the gradient is wrong")
	}
	if n := tr.NotRun(); n > 0 {
		t.Errorf("%d calls could not be run again", n)
	}
}

// TestEffectsUnknown: where nobody knows the right gradients, the effects are unknown.
func TestEffectsUnknown(t *testing.T) {
	p := analyse(t, unpack(t, "own-norm-wrong")).Processes[0]
	s := p.Steps[0]
	for _, c := range s.Calls {
		if c.Entry.Module == "down" {
			c.GradOutputs = nil
		}
	}
	if err := p.Effects(context.Background(), options(t)); err != nil {
		t.Fatal(err)
	}
	if s.Misled.Unknown == 0 || s.Misled.Why == "" {
		t.Errorf("%+v", s.Misled)
	}
	for _, c := range s.Calls {
		if c.Entry.Module == "up" && c.Effect == c.Effect {
			t.Errorf("%s has the effect %v", c, c.Effect)
		}
	}
}
