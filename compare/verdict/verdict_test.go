package verdict_test

import (
	"slices"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

func TestWorse(t *testing.T) {
	all := append([]verdict.Verdict{""}, verdict.All()...)
	for i, a := range all {
		for j, b := range all {
			if got, want := verdict.Worse(a, b), all[max(i, j)]; got != want {
				t.Errorf("Worse(%q, %q) = %q, want %q", a, b, got, want)
			}
		}
	}
}

func TestFinding(t *testing.T) {
	var got []verdict.Verdict
	for _, v := range verdict.All() {
		if v.Finding() {
			got = append(got, v)
		}
	}
	want := []verdict.Verdict{verdict.Fail, verdict.Invalid, verdict.Error, verdict.Timeout, verdict.Crash}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q", got, want)
	}
}
