package view

import (
	"strings"
	"testing"

	"github.com/optool/optool/step"
	"github.com/optool/optool/verdict"
)

// TestAllClear: a step without faults says what was not looked at, and a call of which no value was judged
// is not drawn as one that passed.
func TestAllClear(t *testing.T) {
	tr := trace(t, "picked")
	text := nothing(tr)
	for _, want := range []string{"Nothing is wrong", " Not judged: 1 value of calls, 1 weight gradient that nothing recorded."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	c := &step.Call{Entry: tr.Calls()[0].Entry, Process: tr.Processes[0], Verdict: verdict.Mistrusted,
		GradOutputs: []*step.Value{{}}}
	if n := node(c); n.Verdict == string(verdict.Pass) || n.Backward == string(verdict.Pass) {
		t.Errorf("a call without a judged value is %s, its backward pass %s", n.Verdict, n.Backward)
	}
}
