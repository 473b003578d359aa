package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Sampling has large calls checked in parts: products of matrices and what else says by its
// opdef.Axes how it can be cut. Of each value some elements are compared one by one, as
// always: those of a call of its own on the parts of the arguments that they are made of. And
// the whole is projected (see project.go), which says where else to look, if the operator is linear
// in something.
type Sampling struct {
	Over     float64 // floating-point operations of a forward pass; calls of more are checked in parts
	Elements int     // about how many are compared one by one, of each value
}

// Sampled says how much of a value was looked at.
type Sampled struct {
	Checked int // elements that were compared one by one
	// Projected is the largest difference of a projection over what it is allowed; NaN if the
	// value was not projected.
	Projected float64
}

// A sampler is a call that is checked in parts.
type sampler struct {
	*Sampling
	bound *opdef.Call
	// whose parts are cut: bound, or the call without the declared mistake that bound has
	uncut   *opdef.Call
	mistake string
	axes    *opdef.Axes
	sizes   map[int]int // of labels
	fwd     *opdef.Forward
	flops   float64
	// The call on at most two indices of each label, and what it gives.
	tiny    *opdef.Call
	tinyFwd *opdef.Forward
	first   cuts
}

// newSampler returns nil if the call is not to be checked in parts.
func (c *Call) newSampler() *sampler {
	if c.opt.Sample == nil || c.opt.Device != nil || c.opt.Runs > 1 || c.alter != nil && !c.incoming ||
		c.bound.Random() != "" {
		return nil
	}
	s := &sampler{Sampling: c.opt.Sample, bound: c.bound, uncut: c.bound, mistake: c.mistake, first: cuts{}}
	if s.mistake != "" {
		s.uncut = c.sound
	}
	s.axes = s.uncut.Axes()
	if s.axes == nil {
		return nil
	}
	for _, a := range c.bound.Tensors() {
		if s.axes.Of(a) != nil && !a.Tensor.DType.IsFloat() {
			return nil
		}
	}
	s.sizes = s.axes.Sizes(c.bound.Tensors())
	for l, n := range s.sizes {
		s.first[l] = upTo(0, min(n, 2))
	}
	s.tiny = s.parts(s.first)
	f, err := s.tiny.Forward()
	if err != nil || len(f.Outs) != 1 || len(f.After) > 0 || f.Outs[0].Dim() != len(s.axes.Out) {
		return nil // the whole call says what is wrong
	}
	s.tinyFwd = f
	t := s.whole(f.Outs[0], s.axes.Out, func() *tensor.Tensor { return opdef.Must(c.bound.Forward()).Outs[0] })
	s.fwd = &opdef.Forward{Value: t, Outs: []*tensor.Tensor{t}}
	if s.flops = c.bound.Flops(s.fwd); s.flops <= s.Over {
		return nil
	}
	return s
}

// whole is a tensor of the whole call like part, one of the tiny call: it is computed if an
// element is asked for.
func (s *sampler) whole(part *tensor.Tensor, labels []int, compute func() *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(part.Shape)
	for d, l := range labels {
		if shape[d] == len(s.first[l]) && l != opdef.Uncut {
			shape[d] = s.sizes[l]
		}
	}
	return deferred(part.DType, shape, compute)
}

// deferred is a floating tensor that is computed if an element is asked for.
func deferred(dt tensor.DType, shape []int, compute func() *tensor.Tensor) *tensor.Tensor {
	once := sync.OnceValue(compute)
	return tensor.Lazy(dt, shape, 1, func(lo int, dst []float64) { tensor.Load(once(), lo, dst) })
}

// grads are the gradients of arguments; they are computed if an element is asked for.
func (s *sampler) grads(out []*tensor.Tensor, need map[string]bool) opdef.Grads {
	grads := opdef.Grads{}
	for _, a := range s.bound.Tensors() {
		if !need[a.Name] {
			continue
		}
		k := len(grads[a.Name])
		grads[a.Name] = append(grads[a.Name], deferred(a.Tensor.DType, a.Tensor.Shape, func() *tensor.Tensor {
			return opdef.Must(s.bound.Backward(s.fwd, out, map[string]bool{a.Name: true}))[a.Name][k]
		}))
	}
	return grads
}

// node is what the last autograd node received, computed if an element is asked for, where
// that takes computing.
func (s *sampler) node(out []*tensor.Tensor) (opdef.Node, bool, error) {
	part := make([]*tensor.Tensor, len(out))
	for i, t := range out {
		if t != nil {
			part[i] = s.take(t, s.axes.Out, s.first)
		}
	}
	n, ok, err := s.tiny.Node(s.tinyFwd, part)
	if err != nil || !ok || n.Axes == nil {
		return s.bound.Node(s.fwd, out)
	}
	for i, t := range n.Grads {
		if t != nil {
			n.Grads[i] = s.whole(t, n.Axes[i], func() *tensor.Tensor {
				whole, _, err := s.bound.Node(s.fwd, out)
				return opdef.Must(whole, err).Grads[i]
			})
		}
	}
	return n, ok, nil
}

// A sampledValue is a value of a call that can be made of parts of the arguments.
type sampledValue struct {
	labels []int // of its dimensions
	// of is the argument that it is the gradient of; without a name it is the result.
	of   opdef.Arg
	node int // or what of the last node's it is, from 1
	// Gradients of results; nil of the result.
	out []*tensor.Tensor
}

// gradient is the value of the gradient of an argument.
func (s *sampler) gradient(a opdef.Arg, out []*tensor.Tensor) *sampledValue {
	return &sampledValue{labels: s.axes.Of(a), of: a, out: out}
}

// ofNode is the value of gradient i of a node, that of the argument with its labels.
func (s *sampler) ofNode(n opdef.Node, i int, out []*tensor.Tensor) *sampledValue {
	v := &sampledValue{labels: n.Axes[i], node: i + 1, out: out}
	for _, a := range s.bound.Tensors() {
		if sameLabels(s.axes.Of(a), v.labels) {
			v.of = a
		}
	}
	return v
}

// make makes the value, and its bound, in a call on parts of the arguments, out being the
// parts of the gradients of results.
func (v *sampledValue) make(call *opdef.Call, out []*tensor.Tensor) (*tensor.Tensor, opdef.Bound) {
	if v.out == nil {
		f := opdef.Must(call.Forward())
		return f.Outs[0], call.OutBound(f, 0)
	}
	// The result is computed if gradients depend on it: not where they are those of products.
	f := &opdef.Forward{Outs: []*tensor.Tensor{deferred(out[0].DType, out[0].Shape, func() *tensor.Tensor {
		return opdef.Must(call.Forward()).Outs[0]
	})}}
	if v.node > 0 {
		n, _, err := call.Node(f, out)
		n = opdef.Must(n, err)
		return n.Grads[v.node-1], call.NodeBound(f, out, n, v.node-1)
	}
	k := max(v.of.Index, 0)
	grads := opdef.Must(call.Backward(f, out, map[string]bool{v.of.Name: true}))
	return grads[v.of.Name][k], call.GradBound(f, out, grads, v.of.Name, k)
}

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
	res.Compared.Limit = nil // its indices are those of the part
	return &res
}

// takeAll are the parts of gradients of results.
func (s *sampler) takeAll(out []*tensor.Tensor, at cuts) []*tensor.Tensor {
	var parts []*tensor.Tensor
	for _, t := range out {
		parts = append(parts, s.take(t, s.axes.Out, at))
	}
	return parts
}

// parts is the call on parts of the arguments, without the mistake that it has.
func (s *sampler) parts(at cuts) *opdef.Call {
	return s.uncut.Map(func(a opdef.Arg) *tensor.Tensor {
		labels := s.axes.Of(a)
		if labels == nil {
			return a.Tensor
		}
		return s.take(a.Tensor, labels, at)
	})
}

// cut is the call on parts of the arguments, nil if they are too small for the mistake that the call has.
func (s *sampler) cut(at cuts) *opdef.Call {
	c := s.parts(at)
	if s.mistake == "" {
		return c
	}
	if c.Plan() == nil {
		for _, m := range c.Mistakes() {
			if m.Text == s.mistake {
				return opdef.Must(m.Plan())
			}
		}
	}
	return nil
}

// Sampled reports whether a value of the outcome was looked at in part.
func (o *Outcome) Sampled() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.Sampled != nil })
}
