package step

import (
	"slices"
	"strings"
	"testing"
)

// TestRedrawn: two layers whose dropout drew the same random numbers are no all-clear. In the first step the second
// goes on where the first ended.
func TestRedrawn(t *testing.T) {
	gaps := analyse(t, unpack(t, "generator-set-back")).Seen().Gaps
	i := slices.IndexFunc(gaps, func(g Gap) bool { return strings.Contains(g.What, "drew the same random numbers") })
	if i < 0 || gaps[i].N != 1 || gaps[i].First != "torch.nn.functional.dropout/23" {
		t.Errorf("gaps %+v, want one call that drew what torch.nn.functional.dropout/20 had drawn", gaps)
	}
}
