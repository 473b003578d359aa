package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareSampled compares a value of a call that is checked in parts. want is the whole one,
// which is not computed.
func (r *comparison) compareSampled(l label, got value.Value, want *tensor.Tensor, v *sampledValue,
	precision tensor.DType) *Result {
	g, ok := got.(*tensor.Tensor)
	if !ok || !slices.Equal(g.Shape, want.Shape) || !g.DType.IsFloat() {
		return r.compareValue(l, got, want, opdef.Bound{}, precision)
	}
	s, n, at := r.sampler, g.Numel(), cuts{}
	if r.glance != nil {
		at := r.glance.cuts(s, v, l, g.Shape)
		if s.cut(at) == nil {
			at = nil
		}
		res := r.comparePart(l, g, v, at, precision)
		r.out.Results = append(r.out.Results, *res)
		return &r.out.Results[len(r.out.Results)-1]
	}
	alone := len(s.axes.Linear) == 0           // nothing can be said of what lies outside of the part
	if alone || s.along(v, g) != opdef.Uncut { // else it is compared whole
		at = s.grid(v, g.Shape, n)
	}
	res := r.comparePart(l, g, v, at, precision)
	sampled := &Sampled{Checked: res.Compared.Numel, Projected: math.NaN()}
	if sampled.Checked < n && !alone {
		p := s.project(g, v, precision)
		sampled.Projected = p.largest
		for _, cell := range p.cells {
			if more := r.comparePart(l, g, v, cell, precision); more.Compared.Mismatched > 0 {
				more.Compared.Mismatched += res.Compared.Mismatched
				if verdict.Worse(res.Verdict, more.Verdict) == more.Verdict {
					res = more
				}
			}
			sampled.Checked = min(sampled.Checked+numelOf(g.Shape, v.labels, cell), n)
		}
		if sampled.Projected > 1 && res.Verdict == verdict.Pass {
			res.Verdict = verdict.Warn
			res.Reason = fmt.Sprintf("a projection of the whole is off by %.3g times what rounding explains, though no "+
				"element that was looked at is", sampled.Projected)
		}
	}
	if sampled.Checked < n && res.Reason != "" {
		res.Reason += fmt.Sprintf("; %d of %d elements were looked at", sampled.Checked, n)
	}
	res.Shape, res.Compared.Numel, res.Sampled = g.Shape, n, sampled
	r.out.Results = append(r.out.Results, *res)
	return &r.out.Results[len(r.out.Results)-1]
}

// comparePart is the comparison of a part of a value, with indices in the whole.
func (r *comparison) comparePart(l label, got *tensor.Tensor, v *sampledValue, at cuts,
	precision tensor.DType) *Result {
	s := r.sampler
	call := s.bound
	if len(at) > 0 {
		call = s.cut(at)
	}
	want, bound := v.make(call, s.takeAll(v.out, at))
	if precision != tensor.Invalid && want.DType != got.DType {
		want = opdef.Cast(want, got.DType)
	}
	n := len(r.out.Results)
	r.part = len(at) > 0
	res := *r.compareValue(l, s.take(got, v.labels, at), want, bound, precision)
	r.part = false
	r.out.Results = r.out.Results[:n]
	was := "at " + tensor.ShapeString(res.Compared.WorstIndex)
	for d, i := range res.Compared.WorstIndex {
		if idx := at.of(v.labels[d], got.Shape[d], s.sizes); idx != nil {
			res.Compared.WorstIndex[d] = idx[i]
		}
	}
	res.Reason = strings.Replace(res.Reason, was, "at "+tensor.ShapeString(res.Compared.WorstIndex), 1)
	res.Compared.Limit, res.Compared.Allowed = nil, nil // their indices are those of the part
	return &res
}

// Sampled reports whether a value of the outcome was looked at in part.
func (o *Outcome) Sampled() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.Sampled != nil })
}
