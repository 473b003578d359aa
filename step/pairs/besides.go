package pairs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// Besides judges the calls of a pair by themselves whose values another precision may explain: two recordings that are
// wrong in the same way are no further apart than sound ones. known are judgements that were made already. What is
// wrong in one recording fails, and what is wrong in both is no difference, but said.
func (x *Rounding) Besides(l *Looked, known map[*capture.Entry]Judgement) {
	if l.Pair.B == nil || x.Judge == nil || !l.gave() && !l.gaveSame() {
		return
	}
	x.begin()
	maps.Copy(x.judged, known)
	if l.alike() {
		x.judgeSame([]Looked{*l})
	}
	a, b := x.judge(l.Pair)
	judged := false
	for _, r := range l.Results {
		at := ValueName{r.Phase, r.Target}
		whyA, wrongA := a.Wrong[at]
		whyB, wrongB := b.Wrong[at]
		judged = judged || (wrongA || a.Right[at]) && (wrongB || b.Right[at])
		if result(r) && isSame(r, l.Apart[r]) {
			x.bySelf(r, a, b)
		}
		if !differs(r, l.Apart[r]) || !wrongA && !wrongB || r.WrongIn != "" {
			continue
		}
		why := whyA
		if !wrongA {
			why = inOld + whyB
		}
		r.WrongIn = reports.InWhich(wrongA, wrongB)
		switch {
		case wrongA != wrongB:
			r.Verdict, r.Reason = verdict.Fail, why
		case r.Verdict.Differs():
			r.Reason = "wrong in both recordings: " + why + "; between the recordings: " + r.Reason
		default:
			x.still(r, why)
			continue
		}
		x.states[r] = isWrong
		x.wrong[reports.Place{Capture: r.Capture, Target: r.Target}] = [2]bool{wrongA, wrongB}
	}
	if !l.gave() {
		return
	}
	if x.Alone++; !judged {
		x.NotAlone = append(x.NotAlone, name(l.Pair.A))
	}
}

// gave reports whether a result or a gradient of a pair is not the same on both sides.
func (l *Looked) gave() bool {
	return slices.ContainsFunc(l.Results, func(r *reports.Result) bool {
		return result(r) && differs(r, l.Apart[r])
	})
}

// Retyped reports whether a result or a gradient of a pair has another dtype on the other side.
func (l *Looked) Retyped() bool {
	return l.gave() && slices.ContainsFunc(l.Results, func(r *reports.Result) bool {
		d := l.Apart[r]
		return d != nil && d.DTypes[0] != d.DTypes[1] && d.DTypes[0] != tensor.Invalid
	})
}

// SaysAlone says which calls Besides judged, of the calls of both recordings, of which so many gave the same. It is ""
// of none.
func (x *Rounding) SaysAlone(calls, same int) string {
	if x.Alone == 0 {
		return ""
	}
	s := fmt.Sprintf("Of %s, %d gave other results: both recordings were judged by themselves, too",
		reports.Count(calls, "call"), x.Alone)
	if n := len(x.NotAlone); n > 0 {
		s += fmt.Sprintf("; %d of them could not be: %s", n, strings.Join(x.NotAlone[:min(n, 3)], ", "))
		if n > 3 {
			s += fmt.Sprintf(" and %d more", n-3)
		}
	}
	s += "."
	var rest []string
	if same > 0 {
		rest = append(rest, fmt.Sprintf("%d gave the same", same))
	}
	if none := calls - x.Alone - same; none > 0 {
		rest = append(rest, fmt.Sprintf("%d gave no tensor that was compared", none))
	}
	if len(rest) > 0 {
		s += " " + strings.Join(rest, ", ") + "."
	}
	return s
}
