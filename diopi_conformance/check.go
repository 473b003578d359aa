package conformance

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/kitcheck"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Result is one comparison of a case.
type Result struct {
	kitcheck.Result
	Phase      string // "forward", "backward", "inplace" or "input"
	Verdict    verdict.Verdict
	Atol, Rtol float64
	// Converted says which tensors of the phase's calls got another dtype by
	// CheckOptions.Convert: "input float64->float32"; empty for none.
	Converted string
}

// NotDone is the result of a case that was given up for the reason err.
func NotDone(err error) Result {
	return Result{Phase: "forward", Verdict: verdict.Error,
		Result: kitcheck.Result{Reason: sentence(err), WorstIndex: -1}}
}

// CheckOptions say how results are compared.
type CheckOptions struct {
	Strict  bool
	Variant Variant // of what is run on a device
	// Convert says which tensors the device wants in another dtype or layout; nil
	// is none. Exports says which functions it has, and is not called without
	// Convert.
	Convert *diopi.ConvertConfig
	Exports func(function string) bool
}

// rules are the kit's rules of comparison for a case.
func (o CheckOptions) rules(c *configs.Case) kitcheck.Options {
	k := kitcheck.Options{Strict: o.Strict}
	k.Atol, k.Rtol, k.Mismatch = c.Tolerances()
	// Where a function can sort, the kit compares sums alone, whatever sorted is.
	_, sorts := c.Para().Get("sorted")
	k.Sums = sorts && !o.Strict
	return k
}

// CheckRecorded compares what is recorded of a case with the reference,
// computed anew from the recorded arguments: the data itself is checked, no
// device.
func (s *Store) CheckRecorded(c *configs.Case, opt CheckOptions) []Result {
	in, out, grads, missing := s.read(c)
	switch {
	case missing != nil:
		return missing
	case c.NoOutputRef():
		return one(verdict.Skipped, "the function draws random numbers: there is no recorded result")
	}
	from, err := s.ReadCotangents(c.Name)
	if err != nil {
		return one(verdict.Invalid, sentence(err))
	}
	j := judged{&configs.Case{Name: c.Name, Item: in.Item}, in.Kwargs, from}
	ref, err := reference.Compute(j.c, j.kwargs, j.cotangent)
	if err != nil {
		return one(verdict.Error, sentence(err))
	}
	rules := opt.rules(c)
	results := opt.judge("forward", rules, kitcheck.Compare("output", out, ref.Output, rules))
	if accepted := j.accept(results, out); accepted != nil {
		ref = accepted
	}
	if grads != nil || ref.Grads != nil {
		results = append(results, opt.judge("backward", rules, kitcheck.Compare("grad", orNone(grads),
			orNone(ref.Grads), rules))...)
	}
	return results
}

// one is the result of a case that says nothing about values.
func one(v verdict.Verdict, reason string) []Result {
	return []Result{{Result: kitcheck.Result{Reason: reason, WorstIndex: -1}, Phase: "forward", Verdict: v}}
}

// read is what is recorded of a case: without results if it draws random numbers. If
// something cannot be read, missing says so.
func (s *Store) read(c *configs.Case) (in *Input, out value.Value, grads *value.Dict, missing []Result) {
	if !s.Has(c.Name) {
		return nil, nil, nil, one(verdict.Skipped, "gen_data has not made this case")
	}
	in, err := s.ReadInput(c.Name)
	if err == nil && !c.NoOutputRef() {
		if out, grads, err = s.ReadOutput(c.Name); errors.Is(err, os.ErrNotExist) {
			return nil, nil, nil, one(verdict.Skipped, "no result is recorded")
		}
	}
	if err != nil {
		return nil, nil, nil, one(verdict.Invalid, sentence(err))
	}
	return in, out, grads, nil
}

func orNone(d *value.Dict) value.Value {
	if d == nil {
		return nil
	}
	return d
}

// judge gives comparisons their verdicts.
func (o CheckOptions) judge(phase string, rules kitcheck.Options, rs []kitcheck.Result) []Result {
	out := make([]Result, len(rs))
	for i, r := range rs {
		out[i] = Result{Result: r, Phase: phase, Verdict: verdict.Fail, Atol: rules.Atol, Rtol: rules.Rtol}
		if r.OK {
			out[i].Verdict = verdict.Pass
		}
	}
	return out
}

// A judged case is what its operator is asked with about results that differ.
type judged struct {
	c          *configs.Case
	kwargs     *value.Dict
	cotangents []*tensor.Tensor // as recorded; ones where none is
}

func (j judged) cotangent(i int, out *tensor.Tensor) *tensor.Tensor {
	if i < len(j.cotangents) {
		return j.cotangents[i]
	}
	return reference.Ones(i, out)
}

// accept turns failed results into passes or warnings where the operator accepts got,
// as replay does; ref then has the gradients that belong to it, and is nil otherwise.
func (j judged) accept(results []Result, got value.Value) (ref *reference.Reference) {
	fails := func(r Result) bool { return r.Verdict == verdict.Fail }
	if !slices.ContainsFunc(results, fails) {
		return nil
	}
	full, err := reference.ComputeFor(j.c, j.kwargs, j.cotangent, got)
	if err != nil || full == nil || len(full.Accepted) != len(results) {
		return nil // what failed stays so
	}
	for i, a := range full.Accepted {
		r := &results[i]
		switch {
		case !fails(*r):
		case a.OK:
			ref = full
			r.OK, r.Verdict, r.Reason = true, verdict.Pass, a.Doubt
			if a.Doubt != "" {
				r.Verdict = verdict.Warn
			}
		case a.Reason != "":
			r.Reason = a.Reason
		}
	}
	return ref
}

// sentence is the text of an error on one line.
func sentence(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }
