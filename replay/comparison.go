package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A comparison is a run of a call while its results are compared.
type comparison struct {
	*Call
	out    *Outcome
	values Values
	// arguments are those whose gradients were recorded, by target.
	arguments map[string]opdef.Arg
	// given are the results that were recorded, or that a device gave, by their place among the results of the
	// operator, nil for those that cannot stand in their place; givenWrong: one of them failed, and all are given
	// nevertheless.
	given      []*tensor.Tensor
	givenWrong bool
	// shown: the call draws random numbers, and starts its gradients from the recorded
	// results, which show them.
	shown bool
	// drawnOuts are recorded results of a call that draws random numbers which they do not
	// show.
	drawnOuts []*tensor.Tensor
	part      bool    // what is compared are elements that were picked
	glance    *glance // a few elements of each value are compared; nil: all are
	mistaken  bool    // the call runs another way, and nobody asks for op_tools' rows
	// device is that which runs the call, deviceValues what it gave, with Options.Against.
	device       Device
	deviceValues []deviceValue
}

// guard runs f and makes a result of a panic.
func (r *comparison) guard(f func()) {
	if err := Guard(func() error { f(); return nil }); err != nil {
		r.addStop(err)
	}
}

// addCall adds a result about the call as such.
func (r *comparison) addCall(v verdict.Verdict, reason string) { r.addPhase(Forward, v, reason) }

// addPhase adds a result about a pass as such.
func (r *comparison) addPhase(p Phase, v verdict.Verdict, reason string) {
	r.out.Results = append(r.out.Results, Result{Phase: p, Verdict: v, Reason: reason})
}

// addInvalid adds the result of a file that cannot be used.
func (r *comparison) addInvalid(err error) {
	r.addCall(verdict.Invalid, err.Error())
	last := &r.out.Results[len(r.out.Results)-1]
	last.Unwritten = errors.Is(err, pthformat.ErrNothingSaved)
	for damaged := new(capture.FileError); errors.As(err, &damaged); err = damaged.Err { // the innermost
		last.File = damaged.Path
	}
}

// addStop adds the result of a call that came to nothing.
func (r *comparison) addStop(err error) {
	if errors.As(err, new(*quota.MemoryError)) {
		r.out.TooLarge = err
	}
	var s *stopped
	if errors.As(err, &s) {
		if s.verdict == verdict.Invalid {
			r.addInvalid(err)
			return
		}
		r.addCall(s.verdict, err.Error())
		return
	}
	r.addRefusal(err)
}

func (r *comparison) compareValue(l label, got, want value.Value, b opdef.Bound, precision tensor.DType) *Result {
	res := Result{Phase: l.phase, Target: l.target, Label: l.label}
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	tensors := isTensor && wantTensor
	switch {
	case tensors && r.glance != nil && g.DType.IsFloat():
		res = r.glance.look(l, g, w)
	case tensors && g.DType.Computable():
		res.DType, res.Shape, res.Reference = g.DType, g.Shape, reference(w)
		c := r.check(l, g, w, b, precision)
		res.Compared, res.Verdict, res.Reason = &c, c.Verdict, c.Reason
	case tensors:
		res.Verdict, res.Reason = verdict.Unsupported, fmt.Sprintf("values of dtype %s cannot be compared", g.DType)
	case wantTensor && withoutElements(got):
		res.Verdict, res.Reason = verdict.Skipped, unread(got)
	default:
		c := compare.Result{OpTools: compare.OpToolsValues(got, want), Rule: "equal", Numel: 1}
		res.Compared, res.Verdict, res.Reference = &c, verdict.Pass, "python"
		if equalValues(got, want) {
			break
		}
		c.Mismatched = 1
		res.Verdict = verdict.Fail
		res.Reason = fmt.Sprintf("recorded %s, want %s", value.Str(got), value.Str(want))
		if l.phase == Forward && got == nil && wantTensor {
			res.Reason += ": the call may have raised an error there"
		}
	}
	if isTensor {
		res.Place = g.Device
	}
	r.out.Results = append(r.out.Results, res)
	return &r.out.Results[len(r.out.Results)-1]
}

// check compares two tensors by the error model of the operator, or by a tolerance that was asked for.
func (r *comparison) check(l label, got, want *tensor.Tensor, b opdef.Bound, precision tensor.DType) compare.Result {
	tol, asked := r.opt.Tolerances.For(r.Op, b.Class.String(), l.label, got.DType)
	m := r.model(l.phase, b, precision)
	e := r.bound.Entry
	m.Moved = l.phase == Forward && (e.Moves || e.MovesOnCPU && r.opt.Device == nil && got.OnCPU())
	m.Signed = l.phase != Backward && e.Signed
	return compare.Check(got, want, m, tol, asked)
}

// model is the error model of a value. The gradients of a call with operands of
// different precisions may have been summed in the lower one, as torch sums
// those of a float32 weight applied to bfloat16 activations.
func (r *comparison) model(p Phase, b opdef.Bound, precision tensor.DType) compare.Model {
	operand := b.Operand
	if p == Backward {
		for _, a := range r.bound.Tensors() {
			if a.Tensor.DType.IsHalf() {
				operand = a.Tensor.DType
			}
		}
	}
	coarse := b.Coarse
	if r.mixed != tensor.Invalid && r.bound.Entry.Autocast == opdef.AutocastInner {
		operand, coarse = r.mixed, false // S counts float32, in which the products were not computed
	}
	return compare.Model{
		Operand: operand,
		Exact:   b.Class == opdef.Exact,
		ULPs:    b.ULPs, Scale: b.Scale, Least: b.Least, LeastShare: b.LeastShare,
		Covers: b.Covers, Terms: b.Terms,
		Coarse: coarse, Shared: p != Forward || b.Shared, Sum: b.Class == opdef.Accumulated, Single: b.Single(),
		Chain: b.Chain, Else: b.Else, Factors: b.Factors, Steps: b.Steps, OtherDType: b.OtherDType,
		Trivial: r.bound.Entry.Trivial, Round: precision, Part: r.part,
	}
}

// add adds a result of a value that was not compared; t is nil if it was not recorded.
func (r *comparison) add(l label, v verdict.Verdict, reason string, t *tensor.Tensor) {
	res := Result{Phase: l.phase, Target: l.target, Label: l.label, Verdict: v, Reason: reason}
	if t != nil {
		res.DType, res.Shape, res.Place = t.DType, t.Shape, t.Device
	}
	r.out.Results = append(r.out.Results, res)
}

// A deviceValue is what a device gave of a value that was compared.
type deviceValue struct {
	result    int // index among the results
	got, want *tensor.Tensor
}

// trustChange passes a value that is zero, as it should be, and was not zero before the call: the call wrote it.
func trustChange(r *Result, before *tensor.Tensor) {
	if r.Verdict == verdict.Mistrusted && r.Compared != nil && r.Compared.Zeros && !zeros(before) {
		r.Verdict, r.Reason = verdict.Pass, ""
	}
}

// trustZeros passes the items of a list that are zero, as they should be, if other items of the list passed: the same
// kernel computed all of them, so it ran and does not give zeros for everything.
func trustZeros(list []Result) {
	passed := func(r Result) bool { return r.Verdict == verdict.Pass || r.Verdict == verdict.Warn }
	if !slices.ContainsFunc(list, passed) {
		return
	}
	for i := range list {
		if r := &list[i]; r.Verdict == verdict.Mistrusted && r.Compared != nil && r.Compared.Zeros {
			r.Verdict, r.Reason = verdict.Pass, ""
		}
	}
}
