package step

import (
	"context"
	"strings"
	"testing"
)

// TestArguments: calls of one operator that differ in the same argument are one finding, which counts them.
func TestArguments(t *testing.T) {
	w := walk{argued: map[string]*argued{}, other: map[*Call]bool{}, backward: map[*Step]passed{}}
	tell := func(op, arguments string, outer *Call) *Call {
		c := &Call{Op: op, outer: outer}
		w.tell(&pair{b: c, arguments: arguments}, &Finding{Call: c, Reason: op + " differs in " + arguments})
		return c
	}
	for range 3 {
		tell("mul_", "other", nil)
	}
	tell("mul_", "", nil)
	tell("addcdiv_", "value", nil)
	tell("addcdiv_", "value", nil)
	tell("addcdiv_", "value, out", nil)
	tell("lerp_", "weight", tell("adam", "lr", nil))
	w.end(&Process{})
	var got []string
	for _, f := range w.out {
		got = append(got, f.Reason)
	}
	want := "mul_ differs in other, as in 2 other calls of this operator\nmul_ differs in \n" +
		"addcdiv_ differs in value, as in 1 other call of this operator\naddcdiv_ differs in value, out\nadam differs in lr"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestArgumentsOfUpdate: two runs whose optimizers were given different learning rates part at the update, not at the
// calls that it makes.
func TestArgumentsOfUpdate(t *testing.T) {
	tr := analyse(t, unpack(t, "rate"))
	if err := tr.Against(context.Background(), analyse(t, unpack(t, "rate-other")), options(t)); err != nil {
		t.Fatal(err)
	}
	if len(tr.Findings) != 1 || tr.Findings[0].Reason != "lr=0.001 instead of 0.002" ||
		tr.Findings[0].Call.Op != "torch.optim.adam.adam" {
		t.Errorf("got %+v", tr.Findings)
	}
}
