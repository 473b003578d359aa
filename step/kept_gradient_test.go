package step

import "testing"

// TestKeptGradients: gradients that a program adds up by itself lack nothing, and one that autograd made of what three
// readers of a value gave was not changed.
func TestKeptGradients(t *testing.T) {
	for _, f := range analyse(t, "parallel/testdata/kept").Findings {
		t.Errorf("found %s %s of %s: %s", f.Rule, f.Target, f.Call, f.Reason)
	}
}
