package pairs

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
)

// TestWhereRunsPart: the place is judged on the scale of the values. Calls that inherit a difference are not it, nor
// updates, whose small elements rounding moves.
func TestWhereRunsPart(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Comparer{Tolerances: tol, Repro: func(Pair) string { return "" }}
	for _, tc := range []struct{ a, b, at, reason string }{
		{"block", "block", "", ""},
		{"block", "block-erf", "", ""},
		{"block-erf", "block", "", ""},
		{"block", "block-eps", "layer_norm.1 input.eps", "this argument differs: 1e-05 against 0.001"},
		{"block", "block-sigmoid", "linear.4 input[0]", "linear/2 agree, this input differs by 0.0089; between them: " +
			"gelu only in the new recording (optool_capture.py:1653), mul sigmoid mul only in the old recording"},
		{"block-sigmoid", "block", "linear.6 input[0]", "mul sigmoid mul only in the new recording"},
		{"block", "block-scaled", "gelu.3 grad_output[0]", "the gradient that arrives differs by 0.0099, those of " +
			"the calls after it agree; between them: Scaled.apply clone only in the old recording"},
		{"block-scaled", "block", "gelu.3 grad_output[0]", "Scaled.apply clone only in the new recording"},
		{"block-eps", "block-sigmoid", "layer_norm.1 input.eps", ""},
	} {
		all, err := Corresponding(context.Background(), "../../step/testdata/"+tc.a, "../../step/testdata/"+tc.b)
		if err != nil {
			t.Fatal(err)
		}
		var d Divergence
		for pair := range all {
			rs, apart := c.Compare(pair)
			d.Add(pair, rs, apart)
		}
		at, reason := "", ""
		if p := d.First(); p != nil {
			name := path.Base(p.Capture)
			at, reason = strings.TrimPrefix(name, "torch.nn.functional.")+" "+p.Target, d.Findings()[0].Reason
		}
		if at != tc.at || !strings.Contains(reason, tc.reason) {
			t.Errorf("%s and %s part at %q: %s, want %q: %s", tc.a, tc.b, at, reason, tc.at, tc.reason)
		}
	}
}
