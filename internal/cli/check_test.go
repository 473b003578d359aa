package cli

import (
	"testing"

	"github.com/optool/optool/overflow"
)

// TestCheckExit: a check that looked at no value is no pass.
func TestCheckExit(t *testing.T) {
	for _, tc := range []struct {
		s    overflow.Summary
		want int
	}{
		{overflow.Summary{Captures: 1, Values: 1}, ExitOK},
		{overflow.Summary{Captures: 2, Values: 1, Unwritten: 1}, ExitOK},
		{overflow.Summary{Captures: 1}, ExitFailed},
		{overflow.Summary{Captures: 1, Unwritten: 1}, ExitFailed},
		{overflow.Summary{Captures: 1, Values: 1, Refused: 1}, ExitFailed},
		{overflow.Summary{Captures: 1, Values: 1, Refused: 1, Overflow: 1}, ExitDiffers},
		{overflow.Summary{Captures: 1, Interrupted: true}, ExitInterrupted},
		{overflow.Summary{}, ExitOK}, // a part of a run that has no calls
	} {
		if got := checkExit(&tc.s); got != tc.want {
			t.Errorf("%+v: exit code %d, want %d", tc.s, got, tc.want)
		}
	}
}
