package step

import (
	"strings"
	"testing"
)

// TestBypassed: what is written without autograd is named, for nobody knows whether it is meant; what autograd saw is
// not.
func TestBypassed(t *testing.T) {
	for name, want := range map[string]string{
		"autograd-data": "torch.Tensor.mul_/5 and torch.Tensor.div_/6 (bypass.py:12) changed output[0] of " +
			"torch.Tensor.add/1 without autograd",
		"autograd-nograd": "torch.Tensor.mul_/2 (bypass.py:14) changed output[0] of torch.Tensor.add/1 without autograd",
		"autograd-seen":   "",
	} {
		tr := analyse(t, unpack(t, name))
		gaps := tr.Bypassed()
		if want == "" && len(gaps) > 0 || want != "" && (len(gaps) != 1 || !strings.HasPrefix(gaps[0].What, want)) {
			t.Errorf("%s: %v", name, gaps)
		}
		if tr.Seen().All() != (want == "") || len(tr.Findings) > 0 {
			t.Errorf("%s: gaps %v, findings %v", name, tr.Seen().Gaps, tr.Findings)
		}
	}
}
