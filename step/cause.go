package step

import (
	"fmt"
	"slices"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	found "github.com/optool/optool/reports/results"
	"github.com/optool/optool/verdict"
)

// How many findings causes are looked for, and how long: of one, and of all.
const (
	explainedFindings = 8
	explainOne        = 2 * time.Second
	explainAll        = 5 * time.Second
)

// explain looks for the causes of the first wrong values, as replay does. What time and memory do not suffice for has
// none.
func (t *Trace) explain(opt Options) {
	causesOf := opt.Causes
	if causesOf == nil {
		causesOf = ownCauses
	}
	end := time.Now().Add(explainAll)
	left := explainedFindings
	for _, f := range t.Findings {
		if f.Rule != verdict.Wrong || left == 0 {
			continue
		}
		left--
		until := time.Now().Add(explainOne)
		if until.After(end) {
			until = end
		}
		_ = opt.within(f.Call, "the cause of "+f.Target, func(opt Options) error {
			call := replay.Open(f.Call.Entry, opt.Options)
			defer call.Close()
			all, err := causesOf(f.Call.Entry, call, call.Compare(), until)
			for _, k := range all {
				if slices.Contains(k.Targets, f.Target) {
					f.Causes = append(f.Causes, k)
				}
			}
			return err
		})
	}
}

// ownCauses are the causes that the call shows by itself.
func ownCauses(e *capture.Entry, call *replay.Call, o *replay.Outcome, until time.Time) (out []reports.Cause, _ error) {
	for _, k := range call.Causes(o, until) {
		out = append(out, found.OfCause(e, k))
	}
	return out, nil
}

// nonFinite is the finding about the first call that made a value which is infinite or NaN of finite ones, nil if there
// is none. Values of -inf are those of masks unless others follow. Uninitialised memory may hold anything.
func (t *Trace) nonFinite() *Finding {
	var made, mask, last *Finding
	calls := 0
	skipped := map[*Step]bool{}
	for _, s := range t.Skipped() {
		skipped[s] = true
	}
	for _, c := range t.Calls() {
		n := c.notFinite
		if n == nil || c.random == opdef.Uninitialised ||
			skipped[c.Step] && c.Step.overflows(c, n.Phase == replay.Backward) {
			continue
		}
		f := &Finding{Rule: verdict.NonFinite, Call: c, Target: n.Target, Reason: n.Reason(),
			backward: n.Phase == replay.Backward}
		first := &made
		if n.Mask() {
			first = &mask
		} else if calls++; last == nil || last.before(f) {
			last = f
		}
		if n.Made && (*first == nil || f.before(*first)) {
			*first = f
		}
	}
	f, more := made, calls-1
	if f == nil && calls > 0 {
		f, more = mask, calls
	}
	if f != nil && more > 0 {
		f.Reason += fmt.Sprintf("; %s after it have such values, the last is %s", reports.Count(more, "call"),
			last.Call)
	}
	return f
}
