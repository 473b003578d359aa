package view

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/step"
)

// TestRepairedFaults: of two runs, the screen and the facts say which faults are new, which remain and which are
// repaired, and whether what changed between calls changed in the other run, too.
func TestRepairedFaults(t *testing.T) {
	for _, c := range []struct {
		this, other, want, line string
	}{
		{"clean", "scaled", "REPAIRED: output[0] of torch.nn.functional.gelu/4: ",
			"none new, none still wrong, 1 call repaired (torch.nn.functional.gelu)"},
		{"scaled", "scaled", "WRONG: output[0] of torch.nn.functional.gelu/4, still wrong as in the other run, does not",
			"none new, 1 call still wrong (torch.nn.functional.gelu), none repaired"},
		{"scaled", "clean", "WRONG: output[0] of torch.nn.functional.gelu/4, right in the other run, does not",
			"1 call new (torch.nn.functional.gelu), none still wrong, none repaired"},
		{"overwritten", "overwritten", "CHANGED: input[1] of torch.Tensor.add/7, as in the other run: ", ""},
		{"overwritten", "clean", "CHANGED: input[1] of torch.Tensor.add/7, not in the other run: ", ""},
		{"clean", "overwritten", "the other run has a fault that was not found in this one, changed at torch.Tensor.add/7", ""},
	} {
		tr := trace(t, c.this)
		if err := tr.Against(context.Background(), trace(t, c.other), options(t)); err != nil {
			t.Fatal(err)
		}
		x := Extra{Without: step.Moved{Loss: math.NaN()}}
		var screen strings.Builder
		if err := Screen(&screen, tr, x); err != nil {
			t.Fatal(err)
		}
		facts := ""
		for _, f := range Facts(tr, x) {
			facts += f.Name + ": " + f.Text + "\n"
		}
		got := screen.String()
		if !strings.Contains(got, c.want) || strings.Contains(got, "differ only by rounding") {
			t.Errorf("%s against %s: want %q in\n%s", c.this, c.other, c.want, got)
		}
		if repaired := strings.HasPrefix(c.want, "REPAIRED"); repaired &&
			(strings.Contains(got, "read its wrong values") || !strings.Contains(facts, "repaired: ")) {
			t.Errorf("%s against %s: got\n%s\n%s", c.this, c.other, got, facts)
		}
		switch has := strings.Contains(got, "faults of this run"); {
		case has != (c.line != ""):
			t.Errorf("%s against %s: got\n%s", c.this, c.other, got)
		case has && (!strings.Contains(got, c.line) || !strings.Contains(facts, "faults: "+c.line)):
			t.Errorf("%s against %s: want %q in\n%s\n%s", c.this, c.other, c.line, got, facts)
		}
	}
}
