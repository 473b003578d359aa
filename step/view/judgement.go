package view

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A judgement says in a sentence for everyone whether a step is wrong.
type judgement struct {
	verdict verdict.Verdict // fail, warn, pass, or skipped where it cannot be judged
	text    string
}

// judge judges a trace.
func judge(t *step.Trace) judgement {
	_, device := t.Reruns()
	switch saved := t.SavedWrong(); {
	case t.First() != nil:
		return judgement{verdict.Fail, faultText(t, t.First()) + otherFaults(t)}
	case len(saved) > 0:
		return judgement{verdict.Fail, "Wrong: " + saved[0].String() + ", a failure saved beside the step"}
	case device != nil && device.Wrong > 0:
		return judgement{verdict.Fail, fmt.Sprintf("Wrong: %d of the passes that the device ran again fail there",
			device.Wrong)}
	}
	return judgeRest(t)
}

// faultText says what the first fault is, and whether an operator is wrong.
func faultText(t *step.Trace, f *step.Finding) string {
	call := f.Call.String()
	if f.Side == step.Other {
		call += " in the other run"
	}
	text := "Wrong: what the ranks do together is not what the whole program would do"
	switch {
	case f.Rule == verdict.Diverged && f.WrongIn == reports.WrongInSecond:
		return "Repaired: " + call + " is wrong in the other run only"
	case f.Rule == verdict.Diverged:
		return "Different: the two runs part at " + call
	case f.Drawn() == step.DrawnAnew:
		return "Wrong: checkpointing ran " + f.From.Call.String() + " again with other random numbers"
	case f.Drawn() == step.DrawnAgain, f.Drawn() == step.SetBack, f.Drawn() == step.SetInside:
		return "Wrong: " + call + " drew the random numbers of " + f.From.Call.String() + " again"
	case f.Rule == verdict.Changed:
		text = "Wrong: a value changed between " + f.Between()
	case f.Rule == verdict.Wrong:
		return "Wrong: " + gaveWrong(t, f)
	}
	if !operatorWrong(t) {
		text += "; no operator was found wrong"
	}
	return text
}

// gaveWrong says what a wrong call gave, and how many calls of its operator are wrong besides.
func gaveWrong(t *step.Trace, f *step.Finding) string {
	text := f.Call.String()
	if f.Side == step.Other {
		text += " in the other run"
	}
	if f.InBackward() {
		text += " gave a wrong gradient"
	} else {
		text += " gave a wrong result"
	}
	calls := map[*step.Call]bool{}
	for _, g := range t.Findings {
		if g.Rule == verdict.Wrong && g.Call.Op == f.Call.Op && g.Side == f.Side && g.Parallel == "" {
			calls[g.Call] = true
		}
	}
	if n := len(calls) - 1; n > 0 {
		text += ", as did " + reports.Count(n, "more call")
	}
	return text
}

// titleOperators is how many wrong operators and kinds of changed values a title has.
const titleOperators = 3

// otherFaults names the wrong operators and the changed values apart from the first fault, as further clauses of a
// title.
func otherFaults(t *step.Trace) (text string) {
	type operator struct {
		op   string
		side step.Side
	}
	told := map[operator]bool{}
	if f := t.First(); f.Rule == verdict.Wrong {
		told[operator{f.Call.Op, f.Side}] = true
	}
	more := 0
	for _, f := range t.Findings {
		o := operator{f.Call.Op, f.Side}
		if f.Rule != verdict.Wrong || f.Parallel != "" || told[o] {
			continue
		}
		if told[o] = true; len(told) > titleOperators {
			more++
			continue
		}
		text += "; " + gaveWrong(t, f)
	}
	if more > 0 {
		text += "; and " + reports.Count(more, "more wrong operator")
	}
	return text + otherChanges(t)
}

// otherChanges names the changed values apart from the first fault, as further clauses of a title.
func otherChanges(t *step.Trace) (text string) {
	n := 0
	for _, k := range t.Kinds() {
		f := k[0]
		if f.Rule != verdict.Changed || f.Drawn() != step.NotDrawn || f.Side == step.Other ||
			slices.Contains(k, t.First()) {
			continue
		}
		if n++; n > titleOperators {
			continue
		}
		text += "; a value changed between " + f.Between()
		if more := len(k) - 1; more > 0 {
			text += ", as did " + reports.Count(more, "more value")
		}
	}
	if n > titleOperators {
		text += "; and " + reports.Count(n-titleOperators, "more kind") + " of changed values"
	}
	return text
}

// operatorWrong reports whether some call is wrong by itself.
func operatorWrong(t *step.Trace) bool {
	_, device := t.Reruns()
	return len(t.SavedWrong()) > 0 || device != nil && device.Wrong > 0 ||
		slices.ContainsFunc(t.Calls(), func(c *step.Call) bool { return c.Verdict.Differs() }) ||
		slices.ContainsFunc(t.Findings, func(f *step.Finding) bool { return f.Rule == verdict.Wrong })
}

// judgeRest judges a trace without a fault.
func judgeRest(t *step.Trace) judgement {
	of := func(rule verdict.Rule) *step.Finding {
		for _, f := range t.Findings {
			if f.Rule == rule {
				return f
			}
		}
		return nil
	}
	judged, calls := t.Judged(), len(t.Calls())
	switch {
	case t.Runs.LossesApart() != nil && t.Runs.Other != nil:
		return judgement{verdict.Warn, "Different: the other run has a fault that was not found in this one, at " +
			t.Runs.Other.Call.String()}
	case t.Runs.LossesApart() != nil:
		return judgement{verdict.Warn, "Not explained: the losses of the two runs differ"}
	case judged == 0:
		return judgement{verdict.Skipped, "Cannot be judged: no call could be run again and compared"}
	case of(verdict.NonFinite) != nil:
		return judgement{verdict.Warn, "Not finite: a value is infinite or NaN, first at " +
			of(verdict.NonFinite).Call.String()}
	case of(verdict.Drift) != nil:
		return judgement{verdict.Warn, "Nothing is wrong, but precision is lost, first at " +
			of(verdict.Drift).Call.String()}
	case len(t.Findings) > 0:
		return judgement{verdict.Warn, "Nothing found wrong, but the two runs do not make the same calls"}
	case len(t.GivenUp()) > 0:
		return judgement{verdict.Warn, "Nothing found wrong, but some checks stopped at a limit"}
	case 2*judged < calls:
		return judgement{verdict.Skipped, fmt.Sprintf("Cannot be judged: nothing was found wrong, but only %d of %s could "+
			"be judged", judged, reports.Count(calls, "call"))}
	case !t.Seen().All() || len(t.Damaged()) > 0:
		return judgement{verdict.Pass, "Nothing found wrong in what could be judged"}
	}
	return judgement{verdict.Pass, "Nothing is wrong"}
}
