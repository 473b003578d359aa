package replay

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
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

// A sampler is a call that is checked in parts.
type sampler struct {
	*Sampling
	bound *opdef.Call
	// whose parts are cut: bound, or the call without the declared mistake that bound has
	uncut   *opdef.Call
	planted func(part *opdef.Call) (*opdef.Call, error)
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
	s := &sampler{Sampling: c.opt.Sample, bound: c.bound, uncut: c.bound, planted: c.planted, first: cuts{}}
	if s.planted != nil {
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
	switch {
	case s.planted == nil:
		return c
	case c.Plan() != nil:
		return nil
	}
	return opdef.Must(s.planted(c))
}

// grid picks indices along the labels of a value, as many along each as there can be, so that
// the part has no more elements than asked for and takes no more operations than a call that
// is checked whole.
func (s *sampler) grid(v *sampledValue, shape []int, numel int) cuts {
	at := cuts{}
	own := s.axes.Own(v.labels, shape, s.sizes)
	all := 1.0
	for _, l := range own {
		all *= float64(s.sizes[l])
	}
	most := max(min(float64(s.elements()), float64(numel)*s.Over/s.flops), elementsLeast) * all / float64(max(numel, 1))
	each := 1 // along each label
	for i := 1 << 40; i > 0; i /= 2 {
		n := 1.0
		for _, l := range own {
			n *= float64(min(s.sizes[l], each+i))
		}
		if n <= most {
			each += i
		}
	}
	r := s.random(v)
	for _, l := range own {
		at[l] = pick(s.sizes[l], each, r)
	}
	return at
}

// elements is how many elements of a value are compared one by one.
func (s *sampler) elements() int { return cmp.Or(s.Elements, elementsEach) }

// random numbers for a value: the same for the same call.
func (s *sampler) random(v *sampledValue) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(s.bound.Name + " " + v.of.Name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(v.node)<<32+math.Float64bits(s.flops)))
}

// take is the part of a tensor whose dimensions have these labels.
func (s *sampler) take(t *tensor.Tensor, labels []int, at cuts) *tensor.Tensor {
	picked := make([][]int, t.Dim())
	any := false
	u := t
	for d, l := range labels {
		idx := at.of(l, t.Shape[d], s.sizes)
		switch n := len(idx); {
		case idx == nil:
		case n > 0 && idx[n-1]-idx[0] == n-1:
			u = u.Slice(d, idx[0], n, 1)
			u.RequiresGrad = t.RequiresGrad
		default:
			picked[d], any = idx, true
		}
	}
	if !any {
		return u
	}
	return gather(u, picked)
}
