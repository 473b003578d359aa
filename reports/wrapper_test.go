package reports

import (
	"fmt"
	"slices"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestWrappedLines: each wrapper is named once, the first ones only.
func TestWrappedLines(t *testing.T) {
	s := NewSummary()
	for i := range 12 {
		w := Wrapper{fmt.Sprintf("torch.f%d", i/2), "lib.inner (lib.py:3)"}
		s.Add(&Result{Capture: fmt.Sprint(i), Op: "torch.add", Phase: "forward", Verdict: verdict.Pass,
			Wrapped: []Wrapper{w}})
	}
	lines := s.Told()
	if len(lines) != mostWrapped+1 || lines[0] != "torch.f0 is wrapped by lib.inner (lib.py:3): what it does around "+
		`torch's own was not judged; record with wrap=["torch.f0"] to judge it` || lines[mostWrapped] != "2 further "+
		"functions of torch are wrapped by the program, too: what the wrappers do around torch's own was not judged" {
		t.Errorf("%q", lines)
	}
	if !slices.Equal(s.notes(), lines) {
		t.Errorf("notes %q", s.notes())
	}
}
