package step

import (
	"strings"
	"testing"
)

// TestArguments: calls of one operator that differ in the same argument are one finding, which counts them.
func TestArguments(t *testing.T) {
	w := walk{argued: map[string]*argued{}, backward: map[*Step]passed{}}
	tell := func(op, arguments string) {
		c := &Call{Op: op}
		w.tell(&pair{b: c, arguments: arguments}, &Finding{Call: c, Reason: op + " differs in " + arguments})
	}
	for range 3 {
		tell("mul_", "other")
	}
	tell("mul_", "")
	tell("addcdiv_", "value")
	tell("addcdiv_", "value")
	tell("addcdiv_", "value, out")
	w.end(&Process{})
	var got []string
	for _, f := range w.out {
		got = append(got, f.Reason)
	}
	want := "mul_ differs in other, as in 2 other calls of this operator\nmul_ differs in \n" +
		"addcdiv_ differs in value, as in 1 other call of this operator\naddcdiv_ differs in value, out"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
