package step

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// TestFirstIsOfThisRun: a fault of the other run that this one has no more comes first in time, but the first fault is
// one that this run has: its effect on the loss is told.
func TestFirstIsOfThisRun(t *testing.T) {
	repaired := &Finding{Rule: verdict.Diverged, WrongIn: reports.WrongInSecond, Call: &Call{Op: "torch.add"}}
	still := &Finding{Rule: verdict.Wrong, WrongIn: reports.WrongInBoth, Call: &Call{Op: "torch.mul"}}
	if got := (&Trace{Findings: []*Finding{repaired, still}}).First(); got != still {
		t.Errorf("got %+v", got)
	}
	if got := (&Trace{Findings: []*Finding{repaired}}).First(); got != repaired {
		t.Errorf("got %+v", got)
	}
	// A difference of parameters is first in time, and no fault whose effect can be told.
	given := &Finding{Rule: verdict.Diverged, Call: &Call{Op: "torch.add"}}
	tr := &Trace{Findings: []*Finding{repaired, given, still}}
	if got := tr.First(); got != given {
		t.Errorf("first is %+v", got)
	}
	if got := tr.FirstFault(); got != still {
		t.Errorf("the first fault is %+v", got)
	}
	if got := (&Trace{Findings: []*Finding{repaired, given}}).FirstFault(); got != nil {
		t.Errorf("no fault of this run, and %+v", got)
	}
}
