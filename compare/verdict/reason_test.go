package verdict_test

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestGeneral: reasons lose what they say of one value, so that those of many values are few.
func TestGeneral(t *testing.T) {
	for reason, want := range map[string]string{
		verdict.NoOutput:                                "no output.pth",
		verdict.NothingReturned:                         verdict.NothingReturned,
		verdict.GradOfAnotherOp:                         verdict.GradOfAnotherOp,
		verdict.NoGradientOfOp + "torch defines none":   "the operator has no gradient",
		verdict.OnlyIn + "/data/run1":                   "only in one of the two recordings",
		verdict.OnlyIn + "run 2":                        "only in one of the two recordings",
		"all 768 elements are zero on both sides":       "all elements are zero on both sides",
		"the only element is zero on both sides":        "all elements are zero on both sides",
		"the tensor is empty: nothing was compared":     "the tensor is empty",
		"the incoming gradient, summed for the bias":    "the incoming gradient",
		"unknown op torch.foo; known: torch.bar":        "unknown op",
		"unknown op __main__.Rep.apply":                 "unknown op",
		"argument cannot be computed with: a.b.Thing":   "argument cannot be computed with",
		"values of dtype float8_e5m2 cannot be looked":  "values of dtype cannot be looked",
		`the keyword "x" of /a/b is not known`:          "the keyword of is not known",
		"op add: DIOPI has no backward function for it": "DIOPI has no backward function for it",
		"the library has no diopiLinearBackward":        "the library lacks a function",
		`op a: argument "p": judged by parts: rounded`:  "judged by parts",
		`op add: argument "other": complex numbers`:     "complex numbers",
		"": "",
	} {
		if got := verdict.General(reason); got != want {
			t.Errorf("General(%q) = %q, want %q", reason, got, want)
		}
	}
}

func TestList(t *testing.T) {
	if got := verdict.List([]verdict.Verdict{verdict.Skipped, verdict.Warn}); got != "skipped,warn" {
		t.Errorf("List gives %q", got)
	}
}
