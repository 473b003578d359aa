package step

import (
	"fmt"
	"path"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	found "github.com/optool/optool/reports/results"
)

// explainedFindings is of how many findings causes are looked for.
const explainedFindings = 8

// explain looks for the causes of the first wrong values, as replay does. What the work of a run and the memory do not
// suffice for has none.
func (t *Trace) explain(opt Options) {
	causesOf := opt.Causes
	if causesOf == nil {
		causesOf = ownCauses
	}
	var budget causes.Budget
	for _, c := range t.Calls() {
		budget.Compared(c.searchWork)
	}
	wrong := slices.DeleteFunc(slices.Clone(t.Findings), func(f *Finding) bool { return f.Rule != verdict.Wrong })
	wrong = inTurn(wrong)
	wrong = wrong[:min(len(wrong), explainedFindings)]
	searched := map[*Finding]bool{} // to the end
	for i, f := range wrong {
		if f.backward {
			if k := f.Call.ofOverwritten(opt); k != nil && slices.Contains(k.Targets, f.Target) {
				f.Causes = []reports.Cause{*k}
				continue
			}
		}
		allowed := budget.Allow(len(wrong) - i)
		_ = opt.within(f.Call, "the cause of "+f.Target, func(opt Options) error {
			call := replay.Open(f.Call.Entry, opt.Options)
			defer call.Close()
			all, err := causesOf(f.Call.Entry, call, call.Compare(), allowed)
			for _, k := range all {
				if slices.Contains(k.Targets, f.Target) {
					f.Causes = append(f.Causes, k)
				}
			}
			return err
		})
		if !f.backward && !slices.ContainsFunc(f.Causes, func(k reports.Cause) bool { return !k.Pattern }) {
			if k := f.Call.ofOldArgument(opt); k != nil {
				f.Causes = []reports.Cause{*k}
			}
		}
		budget.Spend(allowed.Took)
		searched[f] = !allowed.Short
		f.Causes = reports.Searched(reports.Explained{Causes: f.Causes, Short: allowed.Short},
			&reports.Result{Capture: f.Call.Entry.Rel, Op: f.Call.Op, Target: f.Target})
	}
	forgetUnfinished(wrong, searched)
}

// inTurn are findings in turn by kind: the first of each, then the second of each, and so on, so that many alike do not
// use up the work that another fault needs.
func inTurn(findings []*Finding) (out []*Finding) {
	kinds := KindsOf(findings)
	for i := 0; len(out) < len(findings); i++ {
		for _, k := range kinds {
			if i < len(k) {
				out = append(out, k[i])
			}
		}
	}
	return out
}

// forgetUnfinished takes back that a search was not finished where one of a like finding was: it found nothing more.
func forgetUnfinished(findings []*Finding, searched map[*Finding]bool) {
	for _, k := range KindsOf(findings) {
		if !slices.ContainsFunc(k, func(f *Finding) bool { return searched[f] }) {
			continue
		}
		for _, f := range k {
			f.Causes = slices.DeleteFunc(f.Causes, func(c reports.Cause) bool { return c.Unfinished })
		}
	}
}

// ofOldArgument is the cause of a wrong result that a call gives if it reads what an earlier call found where one of
// its arguments lies: a kernel that keeps a copy of a weight, such as a prepacked one, and was not told that it
// changed. It is nil if there is none.
func (c *Call) ofOldArgument(opt Options) *reports.Cause {
	const tried = 4
	for _, v := range c.Inputs {
		if !v.telling() || v.Address == 0 {
			continue
		}
		seen := []uint64{v.content.sum}
		for i := c.Order - 1; i >= 0 && len(seen) <= tried; i-- {
			for _, u := range c.Process.Calls[i].Inputs {
				if u.Address != v.Address || !u.like(v) || slices.Contains(seen, u.content.sum) {
					continue
				}
				if seen = append(seen, u.content.sum); c.givenBy(v, u, opt) {
					text := fmt.Sprintf("%s is what %s read there before: a copy that was not made anew, of a prepacked "+
						"weight say", v.Target, u.Call)
					k := found.OfCause(c.Entry, causes.Cause{Targets: c.failing(replay.Forward, replay.Input), Share: 1,
						Text: text})
					return &k
				}
			}
		}
	}
	return nil
}

// ofOverwritten is the cause of wrong gradients of a call that are right with what a recorded call wrote where one of
// its arguments or results lies, before the backward pass read it there: through data say, which torch's check of
// versions does not see. It is nil if there is none.
func (c *Call) ofOverwritten(opt Options) *reports.Cause {
	if c.Step == nil || len(c.failing(replay.Backward)) == 0 || c.failing(replay.Forward) != nil {
		return nil
	}
	for _, u := range slices.Concat(c.Inputs, c.Outputs) {
		for _, w := range u.overwrittenBy() {
			if !c.differentiates(map[*Value]*Value{u: w}, opt) {
				continue
			}
			by := w.Call.String()
			if at := w.Call.Entry.Location; at != "" {
				by += " (" + path.Base(at) + ")"
			}
			text := fmt.Sprintf("%s was overwritten by %s before the backward pass read it", u.Target, by)
			k := found.OfCause(c.Entry, causes.Cause{Targets: c.failing(replay.Backward), Share: 1, Text: text})
			return &k
		}
	}
	return nil
}

// overwrittenBy are the results of later calls before the backward pass that wrote in place where a value lies, and
// left other elements there.
func (u *Value) overwrittenBy() (all []*Value) {
	const tried = 4
	if u.Address == 0 || u.after != nil {
		return nil
	}
	late := func(d *Call) bool {
		if at := u.Call.Entry.BackwardOrder; at >= 0 && d.Entry.Order >= 0 {
			return d.Entry.Order >= at
		}
		return d.phase() != u.Call.phase()
	}
	for _, d := range u.Call.Process.Calls[u.Call.Order+1:] {
		if late(d) || len(all) == tried {
			break
		}
		if !d.writes {
			continue
		}
		for _, w := range d.Outputs {
			if w.Address == u.Address && w.like(u) && !w.equals(u) {
				all = append(all, w)
			}
		}
	}
	return all
}

// ownCauses are the causes that the call shows by itself.
func ownCauses(e *capture.Entry, call *replay.Call, o *replay.Outcome,
	a *causes.Allowance) (out []reports.Cause, _ error) {
	for _, k := range call.Causes(o, a) {
		out = append(out, found.OfCause(e, k))
	}
	return out, nil
}

// nonFinite is the finding about the first call that made a value which is infinite or NaN of finite ones, nil if there
// is none. Values of -inf are those of masks unless NaN or +inf follow. Then they are what was made first, unless they
// are due: then it is the call that made NaN or +inf of them.
func (t *Trace) nonFinite() *Finding {
	var made, mask, ofMask, last *Finding
	calls := 0
	skipped := map[*Step]bool{}
	for _, s := range t.Skipped() {
		skipped[s] = true
	}
	for _, c := range t.Calls() {
		n := c.notFinite
		if n == nil || c.vacant || skipped[c.Step] && c.Step.overflows(c, n.Phase == replay.Backward) {
			continue
		}
		f := &Finding{Rule: verdict.NonFinite, Call: c, Target: n.Target, Reason: n.Reason(),
			backward: n.Phase == replay.Backward}
		if !n.Mask() {
			if calls++; last == nil || last.before(f) {
				last = f
			}
		}
		switch {
		case n.Made && n.Mask():
			mask = earlier(mask, f)
		case n.Made:
			made = earlier(made, f)
		case n.OfMask:
			ofMask = earlier(ofMask, f)
		}
	}
	f, more := made, calls-1
	switch {
	case f != nil || calls == 0:
	case mask != nil && !mask.Call.notFinite.Due():
		f, more = mask, calls
	default:
		f = ofMask
	}
	if f != nil && more > 0 {
		f.Reason += fmt.Sprintf("; %s after it have such values, the last is %s", reports.Count(more, "call"),
			last.Call)
	}
	return f
}

// earlier is the one of two findings that shows first; the first may be nil.
func earlier(f, g *Finding) *Finding {
	if f == nil || g.before(f) {
		return g
	}
	return f
}
