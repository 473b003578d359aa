package step

import (
	"context"
	"math"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestShares: of each step behind the first fault it is told what its own faults do to its loss, and why the rest
// cannot be told. What a fault does is compared with the rounding of the calls that read what it made.
func TestShares(t *testing.T) {
	tr := analyse(t, "testdata/clean")
	p := tr.Processes[0]
	of := func(s *Step) *Finding { // of a call that is right: it moves the loss as rounding does
		return &Finding{Rule: verdict.Wrong, Call: s.Loss, Target: "output[0]"}
	}
	tr.Findings = []*Finding{of(p.Steps[0])}
	m := tr.Without(context.Background(), options(t))
	shares := tr.Shares(context.Background(), m, 5, options(t))
	share, ok := shares[p.Steps[1]]
	before := "the gradients that follow from " + p.Steps[0].Loss.String() + " were not computed anew"
	if len(shares) != 1 || !ok || share.Faults != 0 || share.Before != before || share.Loss == share.Loss {
		t.Errorf("no fault of its own: %+v", shares)
	}
	tr.Findings = append(tr.Findings, of(p.Steps[1]))
	share = tr.Shares(context.Background(), m, 5, options(t))[p.Steps[1]]
	if share.Faults != 1 || share.Before != before || !(math.Abs(share.Loss-p.Steps[1].Captured) < 1e-5) {
		t.Errorf("a fault of its own: %+v", share)
	}
	if n := len(tr.Shares(context.Background(), m, 0, options(t))); n != 0 {
		t.Errorf("%d shares of no step", n)
	}

	early := &Finding{Rule: verdict.Wrong, Call: p.Steps[0].Calls[1], Target: "output[0]"}
	if m = (faults{early}).without(context.Background(), options(t)); !(m.Rounding > 0) || !m.Rounds() {
		t.Errorf("a fault as large as rounding: %+v", m)
	}
	m = analyse(t, "testdata/scaled").Without(context.Background(), options(t))
	if !(m.Rounding > 0) || m.Rounds() {
		t.Errorf("a fault larger than rounding: %+v", m)
	}
}
