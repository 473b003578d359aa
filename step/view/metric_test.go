package view

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/metric"
)

// TestTokens: the screen says of two programs what the findings say: small differences of the exact values, beside
// those of the runs, are none.
func TestTokens(t *testing.T) {
	for _, tc := range []struct {
		apart, program float64
		want           string
	}{
		{1e-3, 0, "the programs compute the same: exact log-probabilities are 0 apart"},
		{1e-3, 5e-8, "the programs compute the same: exact log-probabilities are 5e-08 apart"},
		{1e-3, 5e-6, "the programs compute the same: exact log-probabilities are 5e-06 apart"},
		{1e-3, 5e-4, "the programs themselves differ: exact log-probabilities are 0.0005 apart"},
		{1e-6, 5e-6, "the programs themselves differ: exact log-probabilities are 5e-06 apart"},
	} {
		p := &metric.Pair{Program: tc.program, Tokens: []*metric.Token{{This: metric.Score{LogProb: -1},
			Other: metric.Score{LogProb: -1 - tc.apart}}}}
		var b strings.Builder
		if err := Tokens(&b, p, reports.Style{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tc.want) {
			t.Errorf("no %q in\n%s", tc.want, b.String())
		}
	}
}

// TestTokensWithoutNumbers: tokens whose log-probability is NaN are counted, and the others measured.
func TestTokensWithoutNumbers(t *testing.T) {
	known := &metric.Token{This: metric.Score{LogProb: -1}, Other: metric.Score{LogProb: -1}}
	unknown := &metric.Token{This: metric.Score{LogProb: math.NaN()}, Other: metric.Score{LogProb: -1}}
	for want, tokens := range map[string][]*metric.Token{
		"1 token without a finite log-probability":                 {known, unknown},
		"1 token in both runs: log-probabilities differ by 0 on":   {unknown, known},
		"2 tokens in both runs: none has finite log-probabilities": {unknown, unknown},
		"the other at 0; both are as near at 2":                    {known, known},
	} {
		var b strings.Builder
		if err := Tokens(&b, &metric.Pair{Tokens: tokens}, reports.Style{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
}
