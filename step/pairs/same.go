package pairs

import (
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// result reports whether a value is what a call gave, not what it was given.
func result(r *reports.Result) bool {
	return r.Phase != "input" && !strings.HasPrefix(r.Target, "grad_output")
}

// isSame reports whether a value was compared and is the same in both recordings.
func isSame(r *reports.Result, d *Difference) bool {
	return !differs(r, d) && r.Setting == "" &&
		(r.Verdict == verdict.Pass || r.Verdict == verdict.Warn || r.Verdict == verdict.Mistrusted)
}

// gaveSame reports whether a call gave a value that is the same in both recordings.
func (l *Looked) gaveSame() bool {
	return slices.ContainsFunc(l.Results, func(r *reports.Result) bool { return result(r) && isSame(r, l.Apart[r]) })
}

// alike reports whether all values of a pair are the same, so that what is right in one recording is in the other.
func (l *Looked) alike() bool {
	return !slices.ContainsFunc(l.Results, func(r *reports.Result) bool { return !isSame(r, l.Apart[r]) })
}

// judgeSame judges the calls that gave the same in both recordings, some at a time.
func (x *Rounding) judgeSame(all []Looked) {
	if x.Judge == nil {
		return
	}
	free := make(chan struct{}, max(1, x.Jobs))
	var wait sync.WaitGroup
	var one sync.Mutex
	for _, l := range all {
		if l.Pair.B == nil || !l.gaveSame() {
			continue
		}
		alike := l.alike()
		for i, e := range []*capture.Entry{l.Pair.A, l.Pair.B} {
			if i == 1 && alike {
				continue
			}
			free <- struct{}{}
			wait.Go(func() {
				defer func() { <-free }()
				j := x.Judge(e)
				one.Lock()
				defer one.Unlock()
				if x.judged[e] = j; alike {
					x.judged[l.Pair.B] = j
				}
			})
		}
	}
	wait.Wait()
}

// bySelf says what is wrong with a value that is the same in both recordings.
func (x *Rounding) bySelf(r *reports.Result, a, b Judgement) {
	at := ValueName{r.Phase, r.Target}
	whyA, wrongA := a.Wrong[at]
	whyB, wrongB := b.Wrong[at]
	r.WrongIn = reports.InWhich(wrongA, wrongB)
	switch {
	case wrongA && wrongB:
		x.still(r, whyA)
	case wrongA || wrongB: // the arguments differ
		r.Verdict, r.Reason = verdict.Fail, whyA
		if !wrongA {
			r.Reason = inOld + whyB
		}
		r.Reason += "; both recordings hold the same result, of other arguments"
		x.states[r] = isWrong
		x.wrong[reports.Place{Capture: r.Capture, Target: r.Target}] = [2]bool{wrongA, wrongB}
	}
}

// lost reports whether one of the recordings lacks the results of a call.
func (l *Looked) lost() bool {
	return slices.ContainsFunc(l.Results, func(r *reports.Result) bool {
		return r.Phase == "forward" && r.Target == "" && (r.Verdict == verdict.Skipped || r.Verdict == verdict.Invalid)
	})
}

// AddSame counts the call of a pair, all of whose values were compared, if it gave the same in both recordings.
func (x *Rounding) AddSame(l *Looked, to *reports.Same) {
	if l.Pair.B == nil || l.gave() || l.lost() || !slices.ContainsFunc(l.Results, func(r *reports.Result) bool {
		return r.DType != nil && result(r) && (r.WrongIn != "" || isSame(r, l.Apart[r]))
	}) {
		return
	}
	judged := slices.ContainsFunc(l.Results, func(r *reports.Result) bool {
		at := ValueName{r.Phase, r.Target}
		return r.WrongIn != "" || x.judged[l.Pair.A].Right[at] && x.judged[l.Pair.B].Right[at]
	})
	to.Add(l.Pair.A.Op, judged)
}
