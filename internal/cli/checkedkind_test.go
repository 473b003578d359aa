package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/replay/causes"
)

// TestPartedKind: cases that are wrong in the same words are like each other only as far as no other cause was found
// for some. Numbers in a cause may differ. Those that were not looked at are counted apart.
func TestPartedKind(t *testing.T) {
	texts := []string{"", "eps is 0.01, not 1e-05", "eps is 0.02, not 1e-05", "bias is left out", "bias is left out"}
	k := &checkedKind{key: "k", ops: []string{"torch.a"}, more: 8}
	for i := range texts {
		k.some = append(k.some, &checkFinding{Case: fmt.Sprintf("%d: a(x)", i), op: "torch.a"})
	}
	k.first = k.some[0]
	var likely string
	kinds := k.parted(func(f *checkFinding, known []string) []causes.Cause {
		likely = strings.Join(known, "; ")
		var i int
		fmt.Sscan(f.Case, &i)
		return []causes.Cause{{Targets: []string{"output[0]"}, Text: texts[i], Pattern: texts[i] == ""}}
	})
	if len(kinds) != 2 || kinds[0] != k || k.more != 2 || k.unseen != 4 || kinds[1].more != 1 ||
		kinds[1].first != k.some[3] {
		t.Fatalf("%d kinds: %+v", len(kinds), kinds)
	}
	if got := strings.Join(k.first.Causes, "; "); !strings.HasPrefix(got, "cause of case 1: ") ||
		!strings.Contains(got, "eps is 0.01") {
		t.Errorf("the first kind has %q", got)
	}
	if got := strings.Join(kinds[1].first.Causes, "; "); !strings.HasPrefix(got, "cause: ") ||
		!strings.Contains(got, "bias is left out") {
		t.Errorf("the other kind has %q", got)
	}
	if want := "eps is 0.01, not 1e-05; eps is 0.02, not 1e-05; bias is left out"; likely != want {
		t.Errorf("the causes tried first are %q", likely)
	}
}
