package conformance

import (
	"errors"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/kitcheck"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// CheckOperators is CheckDevice for a device that runs operators, not C functions: the case
// is made of the calls of operators that the reference makes of it.
func (s *Store) CheckOperators(d replay.Device, c *configs.Case, opt CheckOptions) []Result {
	in, out, grads, missing := s.read(c)
	if missing != nil {
		return missing
	}
	if slices.ContainsFunc(c.Args(), func(a configs.Arg) bool { return a.Sparse }) {
		return one(verdict.Unsupported, "sparse arguments cannot be sent to a device of operators")
	}
	var from []*tensor.Tensor
	if grads != nil {
		var err error
		if from, err = s.ReadCotangents(c.Name); err != nil {
			return one(verdict.Invalid, sentence(err))
		}
		if from == nil {
			from = onesLike(out, c.RequiresBackward())
		}
	}
	j := judged{&configs.Case{Name: c.Name, Item: in.Item}, laidOut(c, in.Kwargs), from}
	r := &run{function: c.Function(), opt: opt, rules: opt.rules(c)}
	got, err := reference.ComputeOn(d, j.c, j.kwargs, j.cotangent)
	var failure *reference.DeviceError
	switch {
	case errors.As(err, &failure):
		r.add(string(failure.Phase), failure.Verdict, failure.Reason)
	case err != nil:
		r.add("forward", verdict.Error, sentence(err))
	case c.NoOutputRef():
		if l, ok := got.Output.(*value.Sequence); ok && len(l.Items) > 0 {
			got.Output = l.Items[0]
		}
		if r.drawn("forward", in, got.Output) && got.InPlace != nil {
			r.drawn("inplace", in, got.InPlace)
		}
	default:
		r.compare("forward", "output", items(got.Output), out)
		if ref := j.accept(r.results, got.Output); ref != nil && grads != nil {
			grads = ref.Grads
		}
		r.otherwise(j, items(got.Output))
		if grads != nil {
			r.results = append(r.results, opt.judge("backward", r.rules, kitcheck.Compare("grad", orNone(got.Grads),
				grads, r.rules))...)
		}
		switch {
		case errors.As(got.InPlaceErr, &failure):
			r.add("inplace", failure.Verdict, failure.Reason)
		case got.InPlace != nil:
			r.compare("inplace", "output", value.NewList(got.InPlace), out)
		}
	}
	for _, f := range got.Faults {
		r.add(string(f.Phase), verdict.Fail, f.Reason)
	}
	return r.results
}

// items are the results of a call as a list.
func items(v value.Value) *value.Sequence {
	if l, ok := v.(*value.Sequence); ok {
		return l
	}
	return value.NewList(v)
}
