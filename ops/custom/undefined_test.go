package custom

import (
	"strings"
	"testing"
)

// TestUndefined: an undefined name brings the functions whose names share words with it, and where all are listed.
func TestUndefined(t *testing.T) {
	for name, want := range map[string]string{
		"layer_norm": "f.star:2:12: undefined: layer_norm: there are norm, normal, normed, rms_norm; optool ops --functions ",
		"softmaxx":   ": there are softmax, log_softmax",
		"qwrtz":      "undefined: qwrtz: optool ops --functions lists the functions there are",
	} {
		_, err := Parse("f.star", []byte("def f(x):\n    return "+name+"(x)\nop(\"lib.f(Tensor x) -> Tensor\", f)\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
