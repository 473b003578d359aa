package results

import (
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/verdict"
)

// A Conformance says how a case of DIOPI's conformance test was run.
type Conformance struct {
	Source string // what was compared: "device" or "captured"
	Strict bool   // no element may be wrong
	Repro  string // the command that runs the case again
}

// LeftOut is the record of a case that was not run.
func (f Conformance) LeftOut(c *configs.Case, why string) *reports.Result {
	r := f.record(c)
	r.Phase, r.Verdict, r.Reason = "forward", verdict.Skipped, why
	return r
}

// Of are the records of a case's results.
func (f Conformance) Of(c *configs.Case, rs []conformance.Result) []*reports.Result {
	var out []*reports.Result
	for _, r := range rs {
		out = append(out, f.result(c, r))
	}
	return out
}

func (f Conformance) record(c *configs.Case) *reports.Result {
	r := &reports.Result{Capture: c.Name, Op: c.Function(), Source: &f.Source, Repro: &f.Repro}
	for _, arg := range c.Args() {
		r.Inputs = append(r.Inputs, arg.DType.String())
	}
	return r
}

func (f Conformance) result(c *configs.Case, r conformance.Result) *reports.Result {
	rec := f.record(c)
	rec.Phase, rec.Target, rec.Verdict, rec.Reason = r.Phase, r.Target, r.Verdict, r.Reason
	if r.Converted != "" && r.Verdict != verdict.Pass {
		rec.Reason += "; converted: " + r.Converted
	}
	if r.Want == nil {
		return rec
	}
	dt, rule := r.Want.DType.String(), "kit"
	if f.Strict {
		rule = "strict"
	}
	rec.DType, rec.Shape, rec.Numel, rec.Mismatch, rec.Rule = &dt, Shape(r.Want.Shape), &r.Numel, &r.Mismatched, &rule
	rec.ATol, rec.RTol = reports.Num(r.Atol), reports.Num(r.Rtol)
	rec.MaxAbs, rec.MaxRel = reports.Num(r.MaxAbs), reports.Num(r.MaxRelative)
	if r.WorstIndex >= 0 {
		rec.Worst = []int{r.WorstIndex}
		rec.Actual, rec.Expected = Value(r.Actual), Value(r.Expected)
	}
	return rec
}
