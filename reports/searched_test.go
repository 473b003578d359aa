package reports

import (
	"strings"
	"testing"
)

// TestSearched: a search that was cut short is said where no cause was found, and nowhere else.
func TestSearched(t *testing.T) {
	of := &Result{Capture: "a/1", Op: "torch.add", Target: "output[0]"}
	cause, pattern := Cause{Text: "alpha is 1, not 2"}, Cause{Text: "wrong only where self is below 0", Pattern: true}
	for _, tc := range []struct {
		found []Cause
		short bool
		want  bool
	}{{nil, true, true}, {nil, false, false}, {[]Cause{cause}, true, false}, {[]Cause{pattern}, true, true}} {
		all := Searched(Explained{Causes: tc.found, Short: tc.short}, of)
		if said := len(all) > len(tc.found); said != tc.want {
			t.Errorf("%v, short %v: %v", tc.found, tc.short, all)
		} else if last := len(all) - 1; said && (!all[last].Unfinished || !all[last].Pattern || all[last].Capture != "a/1" ||
			all[last].Label() != "cause") {
			t.Errorf("%+v", all[last])
		} else if said && !strings.Contains(all[last].Text, "optool explain") {
			t.Errorf("%q does not say what searches on", all[last].Text)
		}
	}
	of.Source = new("device")
	if all := Searched(Explained{Short: true}, of); len(all) != 1 || strings.Contains(all[0].Text, "explain") {
		t.Errorf("explain runs no device: %v", all)
	}
	for _, short := range []bool{true, false} {
		if all := Searched(Explained{Short: short, Kept: true}, of); len(all) != 1 ||
			!strings.Contains(all[0].Text, "`optool step` tells") {
			t.Errorf("short %v: a value that was overwritten is not found without step: %v", short, all)
		}
	}
	if all := Searched(Explained{Causes: []Cause{cause}, Kept: true}, of); len(all) != 1 {
		t.Errorf("a cause is known: %v", all)
	}
}
