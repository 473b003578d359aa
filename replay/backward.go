package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// compareGradients computes and compares the recorded gradients.
func (r *comparison) compareGradients() {
	saved := flatten(r.Record.GradInputs)
	r.values.RecordedGradInputs, r.values.RecordedGradOutputs = r.Record.GradInputs, r.Record.GradOutputs
	skip := func(reason string) {
		r.addPhase(Backward, verdict.Skipped, reason)
	}
	if len(tensorsOf(saved)) == 0 {
		skip(verdict.NoGradient)
		return
	}
	if r.bound.Random() != "" {
		skip(r.bound.Random())
		return
	}
	out, reason := r.recordedGradOutputs()
	if reason != "" {
		skip(reason)
		return
	}
	if r.Record.ByOpTools {
		node, ok, err := r.bound.Node(r.fwd, out)
		switch {
		case err != nil:
			skip(err.Error())
			return
		case node.Skip != "":
			skip(node.Skip)
			return
		case ok:
			r.compareNode(node, out, saved)
			return
		}
	}
	if !r.bound.Entry.HasGrad {
		skip(verdict.NoGradientOfOp + r.bound.Entry.NoGrad)
		return
	}
	targets, reason := r.align(saved)
	if reason != "" {
		skip(reason)
		return
	}
	need := map[string]bool{}
	for _, a := range targets {
		if a.Tensor != nil {
			need[a.Name] = true
		}
	}
	grads, err := r.bound.Backward(r.fwd, out, need)
	if err != nil {
		r.addPhase(Backward, verdict.Error, err.Error())
		return
	}
	r.values.GradInputs = make([]value.Value, len(saved))
	for i, a := range targets {
		if a.Tensor == nil {
			continue
		}
		g := grads[a.Name]
		k := max(a.Index, 0)
		if k >= len(g) || g[k] == nil {
			r.add(leaf(Backward, "grad", i, len(saved)), verdict.Fail,
				fmt.Sprintf("a gradient of %q was recorded, but none flows to it", a.Name), saved[i].(*tensor.Tensor))
			continue
		}
		r.values.GradInputs[i] = g[k]
		r.compareGradient(leaf(Backward, "grad", i, len(saved)), saved[i].(*tensor.Tensor), g[k],
			r.bound.GradBound(r.fwd, out, grads, a.Name, k))
	}
}

// align says which argument each saved gradient belongs to; an Arg without
// tensor stands for None.
func (r *comparison) align(saved []value.Value) ([]opdef.Arg, string) {
	targets := make([]opdef.Arg, len(saved))
	if !r.Record.ByOpTools {
		byTensor := map[*tensor.Tensor]opdef.Arg{}
		for _, a := range r.bound.Tensors() {
			if t := r.recorded(a.Tensor); byTensor[t].Tensor == nil {
				byTensor[t] = a
			}
		}
		inputs := r.Record.Inputs()
		if len(inputs) != len(saved) {
			return nil, fmt.Sprintf("%d gradients were recorded for %d tensor arguments", len(saved), len(inputs))
		}
		for i, s := range saved {
			if _, ok := s.(*tensor.Tensor); ok {
				targets[i] = byTensor[inputs[i]]
			}
		}
		return targets, ""
	}
	var wanting []opdef.Arg
	for _, a := range r.bound.Tensors() {
		if a.Tensor.RequiresGrad {
			wanting = append(wanting, a)
		}
	}
	k := 0
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		if !ok {
			continue
		}
		if k == len(wanting) || !slices.Equal(wanting[k].Tensor.Shape, t.Shape) {
			return nil, verdict.GradOfAnotherOp
		}
		targets[i] = wanting[k]
		k++
	}
	if k != len(wanting) {
		return nil, verdict.GradOfAnotherOp
	}
	return targets, ""
}

// compareNode compares what the last autograd node received.
func (r *comparison) compareNode(node opdef.Node, out []*tensor.Tensor, saved []value.Value) {
	if len(node.Grads) != len(saved) {
		r.addPhase(Backward, verdict.Skipped, verdict.GradOfAnotherOp)
		return
	}
	r.values.GradInputs = make([]value.Value, len(saved))
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		want := node.Grads[i]
		if !ok || want == nil {
			continue
		}
		if !slices.Equal(t.Shape, want.Shape) {
			r.add(leaf(Backward, "grad", i, len(saved)), verdict.Skipped, verdict.GradOfAnotherOp, t)
			continue
		}
		r.values.GradInputs[i] = want
		res := r.compareGradient(leaf(Backward, "grad", i, len(saved)), t, want, r.bound.NodeBound(r.fwd, out, node, i))
		if node.Weak != "" && (res.Verdict == verdict.Pass || res.Verdict == verdict.Warn) {
			res.Verdict, res.Reason = verdict.Mistrusted, node.Weak
		}
	}
}

// compareGradient compares one gradient. op_tools saves gradients of failures in
// the wider dtype its host computed in; they have the precision of the
// argument.
func (r *comparison) compareGradient(l label, got, want *tensor.Tensor, b opdef.Bound) *Result {
	precision := tensor.Invalid
	if got.DType != want.DType && got.DType.Kind() == want.DType.Kind() && got.DType.Size() > want.DType.Size() {
		precision = want.DType
		want = opdef.Cast(want, got.DType)
	}
	return r.compareValue(l, got, want, b, precision)
}
