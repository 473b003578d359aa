package replay

import (
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
)

// compareExchange compares what a collective left in its arguments with what all ranks of its group put in.
func (r *comparison) compareExchange() {
	if r.entry == nil || r.opt.Device != nil {
		r.addCall(verdict.Skipped, verdict.BetweenProcesses)
		return
	}
	var m collective.Match
	if m = r.opt.Ranks.Of(r.entry); m.Exchange == nil {
		r.addCall(verdict.Skipped, m.Why)
		return
	}
	judged, err := m.Exchange.Judge(r.opt.Read, nil, m.At)
	if err != nil {
		r.addCall(verdict.Skipped, "the other ranks of its group cannot be read: "+err.Error())
		return
	}
	for _, v := range judged[0].Values {
		res := Result{Phase: Input, Target: v.Target, Verdict: verdict.Pass, Reason: v.Reason, DType: v.DType,
			Shape: v.Shape}
		if v.Reason != "" {
			res.Verdict = verdict.Fail
		}
		r.out.Results = append(r.out.Results, res)
	}
	if why := judged[0].Why; why != "" {
		r.addCall(verdict.Skipped, why)
	}
}
