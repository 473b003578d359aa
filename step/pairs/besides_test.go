package pairs

import (
	"context"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// TestBesides: that another precision explains a difference does not make a call right. One that is wrong in both
// recordings is known to be, one that is wrong in one of them fails.
func TestBesides(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const relu = "torch.nn.functional.relu"
	at := ValueName{"forward", "output[0]"}
	for _, tc := range []struct {
		wrong [2]bool // in which recordings relu is
		want  verdict.Verdict
		in    reports.WrongIn
	}{
		{[2]bool{}, verdict.Pass, ""},
		{[2]bool{true, true}, verdict.StillWrong, reports.WrongInBoth},
		{[2]bool{true, false}, verdict.Fail, reports.WrongInFirst},
		{[2]bool{false, true}, verdict.Fail, reports.WrongInSecond},
	} {
		all, err := Corresponding(context.Background(), "testdata/precision/float32", "testdata/precision/bfloat16")
		if err != nil {
			t.Fatal(err)
		}
		second := map[*capture.Entry]bool{}
		x := &Rounding{Judge: func(e *capture.Entry) Judgement {
			in := 0
			if second[e] {
				in = 1
			}
			if e.Op == relu && tc.wrong[in] {
				return Judgement{Wrong: map[ValueName]string{at: "no relu"}}
			}
			return Judgement{Right: map[ValueName]bool{at: true}}
		}}
		c := Comparer{Tolerances: tol, Repro: func(Pair) string { return "" }}
		var looked []*Looked
		var p Precision
		for pair := range all {
			second[pair.B] = true
			rs, apart := c.Compare(pair)
			p.Look(rs, apart)
			looked = append(looked, &Looked{pair, rs, apart})
		}
		seen := false
		for _, l := range looked {
			p.Explain(l.Pair, l.Results, l.Apart)
			x.Besides(l, nil)
			for _, r := range l.Results {
				if (r.Op == relu) && r.Phase == "forward" {
					seen = true
					if r.Verdict != tc.want || r.WrongIn != tc.in {
						t.Errorf("wrong in %v: %s, %q: %s", tc.wrong, r.Verdict, r.WrongIn, r.Reason)
					}
				} else if r.Verdict.Differs() {
					t.Errorf("%s: %s: %s", r.Title(), r.Verdict, r.Reason)
				}
			}
		}
		if !seen || x.Alone != 5 || len(x.NotAlone) != 0 {
			t.Errorf("%t, %s", seen, x.SaysAlone(5, 0))
		}
	}
}

// TestSaysAlone: the calls that gave other results, the same and no tensor add up to those of both recordings.
func TestSaysAlone(t *testing.T) {
	for want, x := range map[string]*Rounding{
		"": {},
		"Of 10 calls, 6 gave other results: both recordings were judged by themselves, too. 3 gave the same, 1 gave no " +
			"tensor that was compared.": {Alone: 6},
		"Of 10 calls, 7 gave other results: both recordings were judged by themselves, too; 1 of them could not be: f. " +
			"3 gave the same.": {Alone: 7, NotAlone: []string{"f"}},
	} {
		if got := x.SaysAlone(10, 3); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
