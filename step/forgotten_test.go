package step

import (
	"strings"
	"testing"
)

// TestForgottenTerm: a gradient of the program's own function that lacks a term is the first gap, with its error, and
// no finding, since it may be meant. One that is the derivative is said to have been compared.
func TestForgottenTerm(t *testing.T) {
	for name, want := range map[string]string{
		"function-forgets": "grad[0] of __main__.Swish.apply at swish.py:27 is not the derivative of the calls that it " +
			"made in 2 calls (error 24 %): ",
		"function-right": "2 calls not judged: unknown op __main__.Swish.apply, but the gradients were compared and are " +
			"the derivative",
	} {
		tr := analyse(t, unpack(t, name))
		for _, f := range tr.Findings {
			t.Errorf("%s: finding %s %s: %s", name, f.Rule, f.Call, f.Reason)
		}
		gaps := tr.Seen().Gaps
		if len(gaps) == 0 || !strings.HasPrefix(gaps[0].String(), want) {
			t.Errorf("%s: the gaps are %v, want first %q", name, gaps, want)
		}
		if n := len(tr.Doubted()); (n > 0) != (name == "function-forgets") {
			t.Errorf("%s: %d gradients in doubt", name, n)
		}
	}
}
