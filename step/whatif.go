package step

import (
	"context"
	"math"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Choice is what a call computes with in an imagined run.
type Choice uint8

// The choices.
const (
	AsRecorded Choice = iota // with the error that was recorded
	InDType                  // correctly, rounded once to a dtype
	AsExact                  // in float64, without rounding
)

// A WhatIf is an imagined run: the recorded one, but for some calls.
type WhatIf struct {
	// Choose says how a call computes; dt is the dtype of InDType.
	Choose func(c *Call) (how Choice, dt tensor.DType)
	// Repair, if not nil, is a changed value that readers get as it was made.
	Repair *Value
}

// Losses are the losses of the steps of p in an imagined run. Calls that it does
// not touch give what was recorded; those behind it are computed anew, each with
// the error that it had in the recording added, so that nothing else changes.
func (p *Process) Losses(ctx context.Context, w WhatIf, opt Options) ([]float64, error) {
	losses, _, err := p.losses(ctx, w, opt)
	return losses, err
}

// losses also counts the calls to be computed anew that could not be.
func (p *Process) losses(ctx context.Context, w WhatIf, opt Options) (losses []float64, broken int, err error) {
	losses = make([]float64, len(p.Steps))
	for i, s := range p.Steps {
		losses[i] = s.Captured
	}
	x := &rerun{process: p, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}, whatIf: &w}
	x.broken, x.averaged = func(*Call, string) { broken++ }, func(*Call) {}
	x.loss = func(s *Step, loss float64) { losses[s.Number] = loss }
	err = x.run(p.Calls)
	return losses, broken, err
}

// Result is a result in an imagined run, the recorded one where the run does not touch it. broken counts the calls
// to be computed anew that could not be.
func (w WhatIf) Result(ctx context.Context, of *Value, opt Options) (t *tensor.Tensor, broken int, err error) {
	x := &rerun{process: of.Call.Process, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}, whatIf: &w,
		keep: []*Value{of}}
	x.broken, x.averaged, x.loss = func(*Call, string) { broken++ }, func(*Call) {}, func(*Step, float64) {}
	if err = x.run(Cone(of)); err != nil {
		return nil, broken, err
	}
	if t = x.value(of); t == nil {
		t, err = of.Recorded(opt)
	}
	return t, broken, err
}

// touched reports whether a call reads something else than was recorded.
func (x *rerun) touched(c *Call) bool {
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		w := v.From.origin()
		return w != nil && x.values[w] != nil && !v.carried(w) || x.repairs(v)
	})
}

// chosen are the results of a call, given unrounded, as it computes in the rerun.
func (x *rerun) chosen(rec *capture.Call, outs []*tensor.Tensor, how Choice, dt tensor.DType) ([]*tensor.Tensor,
	error) {
	switch how {
	case InDType:
		outs = slices.Clone(outs)
		for i, t := range outs {
			if t.DType.IsFloat() {
				outs[i] = roundedTo(t, dt)
			}
		}
	case AsRecorded:
		return x.withErrors(rec, outs)
	}
	return outs, nil
}

// repairs reports whether a changed input is to be read as its producer made it, as it always is in the exact step.
func (x *rerun) repairs(v *Value) bool {
	if x.whatIf == nil {
		return v.From.How == IsChanged
	}
	r := x.whatIf.Repair
	return r != nil && v.From.How == IsChanged && v.From.Value == r.From.Value
}

// roundedTo is t rounded once to dt, or to its own dtype if dt is Invalid.
func roundedTo(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if dt == tensor.Invalid {
		dt = t.DType
	}
	return opdef.MapBlock(t.DType, t, func(dst, src []float64) {
		copy(dst, src)
		tensor.RoundBlock(dt, dst)
	})
}

// withErrors adds to results what the recorded ones differ by from the reference on
// the recorded arguments.
func (x *rerun) withErrors(rec *capture.Call, outs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	_, f, err := x.forward(rec, rec.Args, rec.Kwargs)
	if err != nil {
		return nil, err
	}
	got := rec.Outputs()
	want, err := results(f, len(got))
	if err != nil {
		return nil, err
	}
	outs = slices.Clone(outs)
	for i, t := range outs {
		if i >= len(got) || !comparable(got[i], want[i]) || !comparable(t, got[i]) {
			continue
		}
		outs[i] = opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
			for k := range dst {
				d := src[1][k] - src[2][k]
				if d-d != 0 { // both infinite: a mask
					d = 0
				}
				dst[k] = src[0][k] + d
			}
		}, t, got[i], want[i])
	}
	return outs, nil
}

// Without is the loss of the finding's step as it would have been without the
// fault; NaN where that is not known.
func (f *Finding) Without(ctx context.Context, opt Options) float64 {
	s := f.Call.Step
	if s == nil || f.backward || f.Rule == verdict.Parallel || f.Call.phase()%2 == 1 {
		return math.NaN() // it did not move this loss
	}
	w := WhatIf{Choose: func(c *Call) (Choice, tensor.DType) {
		if f.Rule == verdict.Wrong && c == f.Call || slices.Contains(f.unseen, c) {
			return InDType, tensor.Invalid
		}
		return AsRecorded, tensor.Invalid
	}}
	if f.Rule == verdict.Changed {
		w.Repair = f.Call.Value(f.Target)
	}
	losses, broken, err := f.Call.Process.losses(ctx, w, opt)
	if err != nil || broken > 0 {
		return math.NaN()
	}
	return losses[s.Number]
}
