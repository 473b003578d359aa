package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// backward computes and compares the recorded gradients.
func (r *runner) backward() {
	saved := flatten(r.rec.GradInputs)
	r.out.RecordedGradInputs, r.out.RecordedGradOutputs = r.rec.GradInputs, r.rec.GradOutputs
	skip := func(reason string) {
		r.out.Results = append(r.out.Results, Result{Phase: Backward, Verdict: verdict.Skipped, Reason: reason})
	}
	if len(tensorsOf(saved)) == 0 {
		skip(verdict.NoGradient)
		return
	}
	if r.call.Random() != "" {
		skip(r.call.Random())
		return
	}
	out, reason := r.cotangents()
	if reason != "" {
		skip(reason)
		return
	}
	if r.rec.ByOpTools {
		node, ok, err := r.call.Node(r.fwd, out)
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
	if !r.call.Entry.HasGrad {
		skip(verdict.NoGradientOfOp + r.call.Entry.NoGrad)
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
	grads, err := r.call.Backward(r.fwd, out, need)
	if err != nil {
		r.out.Results = append(r.out.Results, Result{Phase: Backward, Verdict: verdict.Error, Reason: err.Error()})
		return
	}
	r.out.GradInputs = make([]value.Value, len(saved))
	for i, a := range targets {
		if a.Tensor == nil {
			continue
		}
		g := grads[a.Name]
		k := max(a.Index, 0)
		if k >= len(g) || g[k] == nil {
			r.add(Backward, "grad", i, len(saved), verdict.Fail,
				fmt.Sprintf("a gradient of %q was recorded, but none flows to it", a.Name), nil,
				saved[i].(*tensor.Tensor))
			continue
		}
		r.out.GradInputs[i] = g[k]
		r.compareGrad(i, len(saved), saved[i].(*tensor.Tensor), g[k], r.call.GradBound(r.fwd, out, grads, a.Name, k))
	}
}

// cotangents returns the recorded gradient of each result tensor.
func (r *runner) cotangents() (out []*tensor.Tensor, reason string) {
	saved := flatten(r.rec.GradOutputs)
	outs := r.fwd.Outs
	for len(saved) > len(outs) && saved[len(saved)-1] == nil { // the node has results that the op does not return
		saved = saved[:len(saved)-1]
	}
	if len(saved) > len(outs) {
		return nil, fmt.Sprintf("%d gradients of results were recorded, the op has %d", len(saved), len(outs))
	}
	out = make([]*tensor.Tensor, len(outs))
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		switch {
		case !ok:
			continue
		case !t.DType.Computable():
			return nil, fmt.Sprintf("gradient of a result has dtype %s", t.DType)
		case !slices.Equal(t.Shape, outs[i].Shape):
			return nil, verdict.GradOfAnotherOp
		}
		out[i] = t
	}
	if len(tensorsOf(saved)) == 0 {
		return nil, verdict.NoGradOutput
	}
	return out, ""
}

// align says which argument each saved gradient belongs to; an Arg without
// tensor stands for None.
func (r *runner) align(saved []value.Value) ([]opdef.Arg, string) {
	targets := make([]opdef.Arg, len(saved))
	if !r.rec.ByOpTools {
		byTensor := map[*tensor.Tensor]opdef.Arg{}
		for _, a := range r.call.Tensors() {
			if t := r.source(a.Tensor); byTensor[t].Tensor == nil {
				byTensor[t] = a
			}
		}
		inputs := r.rec.Inputs()
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
	for _, a := range r.call.Tensors() {
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
func (r *runner) compareNode(node opdef.Node, out []*tensor.Tensor, saved []value.Value) {
	if len(node.Grads) != len(saved) {
		r.out.Results = append(r.out.Results, Result{Phase: Backward, Verdict: verdict.Skipped,
			Reason: verdict.GradOfAnotherOp})
		return
	}
	r.out.GradInputs = make([]value.Value, len(saved))
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		want := node.Grads[i]
		if !ok || want == nil {
			continue
		}
		if !slices.Equal(t.Shape, want.Shape) {
			r.add(Backward, "grad", i, len(saved), verdict.Skipped, verdict.GradOfAnotherOp, nil, t)
			continue
		}
		r.out.GradInputs[i] = want
		res := r.compareGrad(i, len(saved), t, want, r.call.NodeBound(r.fwd, out, node, i))
		if node.Weak != "" && (res.Verdict == verdict.Pass || res.Verdict == verdict.Warn) {
			res.Verdict, res.Reason = verdict.Mistrusted, node.Weak
		}
	}
}

// compareGrad compares one gradient. op_tools saves gradients of failures in
// the wider dtype its host computed in; they have the precision of the
// argument.
func (r *runner) compareGrad(i, n int, got, want *tensor.Tensor, b opdef.Bound) *Result {
	precision := tensor.Invalid
	if got.DType != want.DType && got.DType.Kind() == want.DType.Kind() && got.DType.Size() > want.DType.Size() {
		precision = want.DType
		want = opdef.Cast(want, got.DType)
	}
	return r.compare(Backward, "grad", i, n, got, want, b, precision)
}
