package step

import (
	"context"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
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
	// Repair are changed values that readers get as they were made.
	Repair []*Value
	// With are inputs that are others than they were recorded.
	With map[*Value]*tensor.Tensor
	// Carries reports that a step begins with what the imagined run left behind the step before, such as a weight that
	// the optimizer wrote, not with what was recorded.
	Carries bool

	averaged *[]*Call // if not nil, is told of calls through which the run passes only on average, or to first order
}

// An ImaginedLoss is the loss of a step in an imagined run.
type ImaginedLoss struct {
	Loss float64 // NaN if it is not known
	Why  string  // why it is not known; "" if it is
	// Averaged and Bridged are as those of Moved.
	Averaged, Bridged []*Call
}

// Losses are the losses of the steps of p in an imagined run. Calls that it does
// not touch give what was recorded; those behind it are computed anew, each with
// the error that it had in the recording added, so that nothing else changes.
func (p *Process) Losses(ctx context.Context, w WhatIf, opt Options) ([]ImaginedLoss, error) {
	var passed []*Call
	w.averaged = &passed
	losses, broken, err := p.losses(ctx, w, p.Calls, opt)
	if err != nil {
		return nil, err
	}
	out := make([]ImaginedLoss, len(p.Steps))
	for i, s := range p.Steps {
		out[i].Loss = losses[i]
		if len(broken)+len(passed) == 0 {
			continue
		}
		way := map[*Call]bool{}
		for _, c := range coneOf([]*Call{s.Loss}) {
			way[c] = w.Carries || c.Step == s && c.phase()%2 == 0
		}
		off := func(c *Call) bool { return !way[c] }
		if left := slices.DeleteFunc(slices.Clone(broken), func(b Break) bool { return off(b.Call) }); len(left) > 0 {
			out[i].Loss, out[i].Why = math.NaN(), why(left, nil)
		}
		out[i].Averaged, out[i].Bridged = byKind(slices.DeleteFunc(slices.Clone(passed), off))
	}
	return out, nil
}

// byKind are calls through which a run passes on average, and those through which it passes to first order.
func byKind(passed []*Call) (averaged, bridged []*Call) {
	for _, c := range passed {
		if c.random != "" {
			averaged = append(averaged, c)
		} else {
			bridged = append(bridged, c)
		}
	}
	return averaged, bridged
}

// losses runs some of the calls. It also gives the calls to be computed anew that could not be.
func (p *Process) losses(ctx context.Context, w WhatIf, calls []*Call, opt Options) (losses []float64, broken []Break,
	err error) {
	losses = make([]float64, len(p.Steps))
	x := p.imagined(ctx, w, &broken, opt)
	for i, s := range p.Steps {
		losses[i] = x.lossOf(s, s.Given())
	}
	x.loss = func(s *Step, loss float64) { losses[s.Number] = loss }
	err = x.run(calls)
	return losses, broken, err
}

// imagined is an imagined run. Calls that could not be computed anew are added to broken.
func (p *Process) imagined(ctx context.Context, w WhatIf, broken *[]Break, opt Options) *rerun {
	return &rerun{process: p, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}, whatIf: &w,
		broken: func(c *Call, reason string) { *broken = append(*broken, Break{c, reason}) },
		averaged: func(c *Call) {
			if w.averaged != nil && len(c.Outputs) > 0 {
				*w.averaged = append(*w.averaged, c)
			}
		}, loss: func(*Step, float64) {}}
}

// An Imagination is a result in an imagined run.
type Imagination struct {
	Result *tensor.Tensor
	// Broken are calls to be computed anew that could not be: what the result would be is not known then.
	Broken []Break
	// Rerouted counts rows of whole numbers that calls decide otherwise than recorded: tokens that go to other experts.
	Rerouted int
	// Ties are choices that rounding may decide otherwise in a real run; Kept is the result with the recorded
	// decisions, nil if the run takes no other routes.
	Ties []Tie
	Kept *tensor.Tensor
	// Strays are the calls where the run would have left the recorded way of the program, had it not kept the routes
	// that were recorded; Rerouted is 0 then.
	Strays []Break
}

// Why says why the result is not known, "" if it is.
func (i Imagination) Why() string { return why(i.Broken, nil) }

// Result is a result in an imagined run, the recorded one where the run does not touch it.
func (w WhatIf) Result(ctx context.Context, of *Value, opt Options) (Imagination, error) {
	i, err := w.result(ctx, of, false, opt)
	if err != nil || len(i.Strays) == 0 && i.Rerouted == 0 {
		return i, err
	}
	kept, err := w.result(ctx, of, true, opt)
	if len(i.Strays) == 0 {
		i.Kept = kept.Result
		return i, err
	}
	kept.Strays = i.Strays
	return kept, err
}

// result is a result in an imagined run, with the recorded decisions if they are kept.
func (w WhatIf) result(ctx context.Context, of *Value, decisions bool, opt Options) (i Imagination, err error) {
	x := &rerun{process: of.Call.Process, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}, whatIf: &w,
		keep: []*Value{of}, anew: true, decisions: decisions}
	x.broken = func(c *Call, reason string) { i.Broken = append(i.Broken, Break{c, reason}) }
	x.averaged, x.loss = func(*Call) {}, func(*Step, float64) {}
	x.each = func(c *Call, got, now *tensor.Tensor) {
		if c.Decides() && got.DType.Kind() == tensor.KindInt {
			i.Rerouted += otherRows(got, now)
		}
	}
	if !decisions {
		x.chose = func(c *Call, args []value.Value, outs []*tensor.Tensor) {
			i.Ties = append(i.Ties, ties(c, args, outs)...)
		}
	}
	if err = x.run(steered([]*Value{of})); err != nil {
		return i, err
	}
	i.Strays = x.left
	if i.Result = x.value(of); i.Result == nil {
		i.Result, err = of.Recorded(opt)
	}
	return i, err
}

// otherRows counts the rows of whole numbers that do not hold the same ones, in whatever order.
func otherRows(a, b *tensor.Tensor) (n int) {
	if !sameShape(a.Shape, b.Shape) || a.Dim() == 0 || b.DType.Kind() != tensor.KindInt {
		return 0
	}
	row := a.Shape[a.Dim()-1]
	x, y := slices.Clone(tensor.Data[int64](a)), slices.Clone(tensor.Data[int64](b))
	for at := 0; row > 0 && at < len(x); at += row {
		r, s := x[at:at+row], y[at:at+row]
		slices.Sort(r)
		slices.Sort(s)
		if !slices.Equal(r, s) {
			n++
		}
	}
	return n
}

// touched reports whether a call reads something else than was recorded.
func (x *rerun) touched(c *Call) bool {
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		w := v.From.origin()
		return w != nil && x.values[w] != nil && !x.carried(v, w) || x.repairs(v) || x.given(v) != nil
	})
}

// given is what an input is in the imagined run, nil if that does not say.
func (x *rerun) given(v *Value) *tensor.Tensor {
	if x.whatIf == nil {
		return nil
	}
	if t := x.whatIf.With[v]; t != nil || v.From.first == nil {
		return t
	}
	return x.whatIf.With[v.From.first]
}

// carried reports whether an input is as it was recorded, since an earlier step left it.
func (x *rerun) carried(v, w *Value) bool {
	return v.carried(w) && (x.whatIf == nil || !x.whatIf.Carries)
}

// chosen are the results of a call, given unrounded, as it computes in the rerun. The recorded ones, got, are compared
// with what reference gives.
func (x *rerun) chosen(got, outs []*tensor.Tensor, how Choice, dt tensor.DType,
	reference func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error) {
	switch how {
	case InDType:
		outs = slices.Clone(outs)
		for i, t := range outs {
			if t != nil && t.DType.IsFloat() {
				outs[i] = roundedTo(t, dt)
			}
		}
	case AsRecorded:
		want, err := reference()
		if err != nil {
			return nil, err
		}
		return x.withErrors(got, outs, want), nil
	}
	return outs, nil
}

// repairs reports whether a changed input is to be read as its producer made it, as it always is in the exact step.
func (x *rerun) repairs(v *Value) bool {
	if x.whatIf == nil {
		return v.From.How == IsChanged
	}
	return v.From.How == IsChanged && slices.ContainsFunc(x.whatIf.Repair, func(r *Value) bool {
		return v.From.Value == r.From.Value
	})
}

// lossOf is the loss of a step whose loss's call gives a number: a change behind that call that is not repaired stays
// as it was found.
func (x *rerun) lossOf(s *Step, given float64) float64 {
	if slices.ContainsFunc(s.changed, func(v *Value) bool { return !x.repairs(v) }) {
		return s.Captured
	}
	return given
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

// RoundsOnce reports whether all elements of a result are what one rounding of sums in float32 gives.
func RoundsOnce(got, exact *tensor.Tensor) bool {
	x, y := tensor.Data[float64](got), tensor.Data[float64](exact)
	largest := 0.0
	for _, v := range y {
		if v-v == 0 {
			largest = max(largest, math.Abs(v))
		}
	}
	const terms = 16 // roundings of float32 that a sum may add up to, of the largest element
	sums := terms * tensor.Float32.Eps() * largest
	for i := range x {
		if d := math.Abs(x[i] - y[i]); d > got.DType.Eps()/2*math.Abs(y[i])+sums {
			return false
		}
	}
	return true
}

// withErrors gives results the errors that the call makes: what the recorded results, got, differ by from want, the
// reference on the recorded arguments. In a run that rounds anew, a result that the call rounds once is rounded once
// again.
func (x *rerun) withErrors(got, outs, want []*tensor.Tensor) []*tensor.Tensor {
	outs = slices.Clone(outs)
	for i, t := range outs {
		if i >= min(len(got), len(want)) || t == nil || got[i] == nil || want[i] == nil ||
			!comparable(got[i], want[i]) || !t.DType.IsFloat() {
			continue
		}
		errors := opdef.ZipN(t.DType, got[i].Shape, func(dst []float64, src [][]float64) {
			for k := range dst {
				if dst[k] = src[0][k] - src[1][k]; dst[k]-dst[k] != 0 { // both infinite: a mask
					dst[k] = 0
				}
			}
		}, got[i], want[i])
		switch {
		case !slices.ContainsFunc(tensor.Data[float64](errors), func(e float64) bool { return e != 0 }):
		case x.anew && (!comparable(t, got[i]) || RoundsOnce(got[i], want[i])):
			outs[i] = roundedTo(t, got[i].DType)
		case comparable(t, got[i]):
			most := 4 * got[i].DType.Eps() // a few roundings of an element change no sign: a square stays one
			outs[i] = opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
				for k, v := range src[0] {
					e := src[1][k]
					if dst[k] = v + e; v*dst[k] <= 0 && math.Abs(e) <= most*math.Abs(src[2][k]) {
						dst[k] = v
					}
				}
			}, t, errors, want[i])
		}
	}
	return outs
}
