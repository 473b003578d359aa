package view

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/step"
)

// TestShares: beside the loss of a later step the screen and the page say what its own faults do to it, and why the
// rest cannot be told. The page also has the note of a function in torch's place.
func TestShares(t *testing.T) {
	tr := trace(t, "clean")
	first, later := tr.Processes[0].Steps[0], tr.Processes[0].Steps[1]
	call := first.Calls[1]
	call.Entry.Replaced = "mymod.fast"
	tr.Findings = []*step.Finding{{Rule: verdict.Wrong, Call: call, Target: "output[0]"}}
	moved := func(s *step.Step, loss float64) step.Moved {
		return step.Moved{Step: s, Loss: loss, Update: math.NaN()}
	}
	x := Extra{Without: moved(first, first.Captured-1), Imagine: []string{"with gelu exact ..."},
		Shares: map[*step.Step]step.Share{later: {Moved: moved(later, later.Captured+0.5), Faults: 2, Before: "so it is"}}}
	x.Together, x.Faults = x.Without, 1
	g := NewGraph(tr, repro)
	g.AddMoved(tr, x)
	var b strings.Builder
	if err := Screen(&b, tr, x); err != nil {
		t.Fatal(err)
	}
	page := strings.Join(g.Effects, "\n")
	at := -1
	for _, want := range []string{
		"without the first fault it would have been 2.06402588: the fault moves it by +1\n",
		"step 1: loss 3.19560552 recorded, 3.19560588 exact, difference -3.6e-07 (torch.nn.functional.cross_entropy/23)\n",
		"without its own 2 faults it would have been 3.69560552: they move it by -0.5\n",
		"what the faults before step 1 did to its weights, and so to this loss and later ones, cannot be told: so it is\n",
	} {
		if i := strings.Index(b.String(), want); i < at || i < 0 {
			t.Errorf("screen: %q is missing or in another place in\n%s", want, b.String())
		} else {
			at = i
		}
		if !strings.Contains(page, want) {
			t.Errorf("page: %q is missing in\n%s", want, page)
		}
	}
	if !slices.Contains(g.Effects, x.Imagine[0]) {
		t.Errorf("page: %q is missing in %q", x.Imagine[0], g.Effects)
	}
	if want := "note: " + call.Op + " is not torch's own here: replaced by mymod.fast"; g.Findings[0].Note != want {
		t.Errorf("page: note %q, want %q", g.Findings[0].Note, want)
	}
}
