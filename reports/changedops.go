package reports

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
)

// The kinds of changed calls, by their worst value, the worst first.
const (
	newlyWrong    = "newly wrong"
	farWorseCalls = "wrong before, far worse now"
	lessJudged    = "no longer judged"
	goneWrong     = "gone, was wrong"
	repaired      = "repaired"
	betterCalls   = "better"
	stillWrong    = "still wrong"
)

var callChanges = []string{newlyWrong, farWorseCalls, lessJudged, goneWrong, repaired, betterCalls, stillWrong}

// maxChangedOps is how many lines ChangedOps has at most, and one that counts the others.
const maxChangedOps = 20

// ChangedOps says which operators have changed calls, and how many: "newly wrong", "torch.exp, 6 calls". New, gone and
// known values are left out, except gone ones that were wrong. A call of several values counts once, by its worst one.
func ChangedOps(changes []ResultChange) (lines []Fact) {
	type call struct{ capture, op string }
	of, calls := map[call]int{}, []call(nil) // the kind of each call
	for i := range changes {
		kind := slices.Index(callChanges, changes[i].kind())
		if kind < 0 {
			continue
		}
		r := changes[i].Result()
		c := call{r.Capture, r.Op}
		if was, known := of[c]; !known {
			calls = append(calls, c)
		} else {
			kind = min(kind, was)
		}
		of[c] = kind
	}
	type line struct {
		kind int
		op   string
	}
	count, order := map[line]int{}, []line(nil)
	for _, c := range calls {
		l := line{of[c], c.op}
		if count[l]++; count[l] == 1 {
			order = append(order, l)
		}
	}
	slices.SortStableFunc(order, func(a, b line) int { return cmp.Compare(a.kind, b.kind) })
	for i, l := range order {
		if i == maxChangedOps {
			return append(lines, Fact{"changed too", Count(len(order)-i, "more operator")})
		}
		lines = append(lines, Fact{callChanges[l.kind], fmt.Sprintf("%s, %s", Name(l.op), Count(count[l], "call"))})
	}
	return lines
}

// kind is one of callChanges, "" for a change that is none.
func (c *ResultChange) kind() string {
	judged := func(r *Result) bool { return r.Verdict == verdict.Pass || r.Verdict == verdict.Warn }
	switch {
	case c.Change == Gone && c.Old.Finding():
		return goneWrong
	case c.Change == Gone || c.Change == IsKnown:
		return ""
	case c.Regressed() && c.New.Finding():
		return newlyWrong
	case c.FarWorse():
		return farWorseCalls
	case c.Change == StaysBad:
		return stillWrong
	case c.Regressed():
		return lessJudged
	case c.Change == Better && c.Old.Finding() && judged(c.New):
		return repaired
	case c.Change == Better && c.Old.Finding():
		return lessJudged
	case c.Change == Better:
		return betterCalls
	}
	return ""
}
