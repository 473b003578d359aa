package step

import (
	"context"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
)

// TestReplaced: calls that only one of two runs made are a finding if what they gave differs by more than rounding.
func TestReplaced(t *testing.T) {
	for _, tc := range []struct{ a, b, at, reason string }{
		{"block", "block", "", ""},
		{"block", "block-erf", "", ""},
		{"block-erf", "block", "", ""},
		{"block", "block-sigmoid", "linear/6 input[0]", "linear/2 agree, this input differs by 0.0089; between them: mul " +
			"sigmoid mul in this run (optool_capture.py:1653), gelu in the other"},
		{"block-sigmoid", "block", "linear/4 input[0]", "between them: gelu in this run (optool_capture.py:1653), mul sigmoid"},
		{"block", "block-scaled", "gelu/3 grad_output[0]", "the gradient that arrives differs by 0.01, those of the calls " +
			"after it agree; between them: Scaled.apply in this run (optool_capture.py:1653), none in the other"},
		{"block-scaled", "block", "gelu/3 grad_output[0]", "none in this run, Scaled.apply in the other"},
		{"block", "block-eps", "layer_norm/1 output[0]", "eps=0.001 instead of 1e-05"},
	} {
		t.Run(tc.b+" against "+tc.a, func(t *testing.T) {
			tr := open(t, tc.b)
			if err := tr.Against(context.Background(), open(t, tc.a), options(t)); err != nil {
				t.Fatal(err)
			}
			f := tr.First()
			if tc.at == "" {
				if f != nil || tr.Runs.LossesApart() != nil {
					t.Errorf("finding %+v, losses apart: %v", f, tr.Runs.LossesApart())
				}
				return
			}
			if f == nil || f.Rule != verdict.Diverged || f.Call.Value(f.Target).name() != tc.at ||
				!strings.Contains(f.Reason, tc.reason) {
				t.Errorf("got %+v, want %s: %s", f, tc.at, tc.reason)
			}
			if apart := tr.Runs.LossesApart() != nil; apart == strings.Contains(tc.at, "grad") {
				t.Errorf("losses apart: %t", apart)
			}
		})
	}
}

// TestReplacedByOwnName: a function in the place of torch's that calls it is the other run's call, not the call inside
// of it, which agrees.
func TestReplacedByOwnName(t *testing.T) {
	shorttest.Computes(t)
	tr := analyse(t, unpack(t, "norm-replaced"))
	if err := tr.Against(context.Background(), analyse(t, unpack(t, "norm")), options(t)); err != nil {
		t.Fatal(err)
	}
	peers := 0
	for _, f := range tr.Findings {
		if f.Rule == verdict.Diverged {
			t.Errorf("%s of %s: %s", f.Target, f.Call, f.Reason)
		}
		if f.Rule == verdict.Wrong && f.Call.Peer != nil && f.Call.Peer.Op == f.Call.Op {
			peers++
		}
	}
	if peers != 2 {
		t.Errorf("%d wrong calls are calls of the other run, want 2: %+v", peers, tr.Findings)
	}
}
