package results

import (
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/reports"
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

// Generated is the record of what gen_data made of a case: nothing was compared.
func (f Conformance) Generated(m conformance.Made) *reports.Result {
	r := &reports.Result{Capture: m.Case.Name, Op: m.Case.Function(), Phase: "generate", Verdict: verdict.Skipped,
		Generated: &reports.GeneratedCase{Kept: m.Kept, Input: m.Input, Output: m.Output, Grads: m.Grads}}
	for _, arg := range m.Case.Args() {
		r.Inputs = append(r.Inputs, arg.DType.String())
	}
	switch {
	case m.Err != nil:
		r.Verdict, r.Reason = verdict.Error, strings.ReplaceAll(m.Err.Error(), "\n", " ")
	case m.Kept:
		r.Reason = "the data was there and is kept"
	case !m.Output:
		r.Reason = "input written: the function draws random numbers"
	case m.Grads:
		r.Reason = "input, output and gradients written"
	default:
		r.Reason = "input and output written"
	}
	return r
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
