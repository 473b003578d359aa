package value

import (
	"math"
	"testing"
)

func TestParseLiteral(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Value
	}{
		{"None", nil}, {"True", true}, {"False", false}, {"-3", int64(-3)}, {"0.5", 0.5}, {"1e-5", 1e-5},
		{"inf", math.Inf(1)}, {"-inf", math.Inf(-1)}, {"'mean'", "mean"}, {`"floor"`, "floor"}, {"''", ""},
	} {
		if got, err := ParseLiteral(tc.text); err != nil || got != tc.want {
			t.Errorf("%s: got %v, %v, want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "mean", "'mean", `'mean"`, "[1]"} {
		if got, err := ParseLiteral(text); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}
