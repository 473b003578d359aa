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

// TestSetByMethod: a generator that its own method set back is no all-clear, as no function of torch's modules did it.
// Within a forward pass the results show that both calls drew the same numbers; between steps it is the first gap.
func TestSetByMethod(t *testing.T) {
	f := analyse(t, unpack(t, "generator-set-by-method")).First()
	if f == nil || f.From == nil || f.From.Call.Entry.ID != 37 || f.Call.Entry.ID != 38 || f.Drawn() != DrawnAgain ||
		!strings.Contains(f.Reason, "did not advance, between /tmp/model/queue/train.py:30 and /tmp/model/queue/train.py:32") {
		t.Errorf("got %+v, want dropout/38, which drew the numbers of dropout/37", f)
	}
	gaps := analyse(t, unpack(t, "generator-set-between-steps")).Seen().Gaps
	if len(gaps) == 0 || gaps[0].What != "2 calls that drew the same random numbers as in an earlier step: the program "+
		"set the generator back, or it did not advance" || gaps[0].First != "torch.nn.functional.dropout/37" {
		t.Errorf("gaps %+v, want two calls that drew what those of the step before had drawn", gaps)
	}
}

// TestSettings: what set the generator back between two draws is named, where a recorder knows it. What torch itself
// puts back is no gap, and a seed at the beginning of each step is one.
func TestSettings(t *testing.T) {
	f := analyse(t, unpack(t, "generator-seeded")).First()
	if f == nil || f.From == nil || f.From.Call.Entry.ID != 4 || f.Call.Entry.ID != 10 ||
		!strings.Contains(f.Reason, "torch.manual_seed set the generator back at train.py:72") {
		t.Errorf("got %+v, want dropout/10, which drew the numbers of dropout/4 behind train.py:72", f)
	}
	for name, want := range map[string]int{"generator-forked": 0, "generator-seeded-each-step": 1} {
		n := 0
		for _, g := range analyse(t, unpack(t, name)).Seen().Gaps {
			if strings.Contains(g.What, "drew the same random numbers") {
				n += g.N
			}
		}
		if n != want {
			t.Errorf("%s: %d calls are a gap, want %d", name, n, want)
		}
	}
}
