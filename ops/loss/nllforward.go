package loss

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// nllForwardOps are nll_loss as the dispatcher has it, with the weight that its mean divides by.
var nllForwardOps = []*opdef.Entry{
	nllForwardOp("nll_loss_forward", `
		f64[3, 4], i64[3]{0..3}, None, 1, -100; f64[3, 4], i64[3]{= 1 -100 3}, f64[4]{0.5..2 fixed}, 1, -100
		f64[3, 4], i64[3]{= 1 -100 3}, None, 0, -100; f32[5], i64[]{0..4}, None, 1, -100
		bf16[3, 4], i64[3]{0..3}, None, 2, -100; f32[0, 4], i64[0]{0..3}, None, 0, -100`, 1, 2),
	nllForwardOp("nll_loss2d_forward", `f64[2, 4, 2, 2], i64[2, 2, 2]{0..3}, None, 0, -100`, 4),
}

type nllForwardArgs struct {
	Self, Target, Weight *tensor.Tensor
	Reduction            int
	IgnoreIndex          int
}

// An nllForward is a loss that returns its divisor too.
type nllForward struct{ *classLoss }

// Mistakes are those of the loss.
func (l *nllForward) Mistakes() []opdef.Mistake[any] {
	all := l.classLoss.Mistakes()
	for i := range all {
		plan := all[i].Plan
		all[i].Plan = func() (any, error) {
			wrong, err := plan()
			if err != nil {
				return nil, err
			}
			return &nllForward{wrong.(*classLoss)}, nil
		}
	}
	return all
}

func (a *nllForwardArgs) loss() (*nllForward, error) {
	if a.Reduction < 0 || a.Reduction >= len(reductions) {
		return nil, opdef.Refuse("reduction", "want 0 (none), 1 (mean) or 2 (sum), got %d", a.Reduction)
	}
	l, err := (&nllArgs{Input: a.Self, Target: a.Target, Weight: a.Weight, IgnoreIndex: a.IgnoreIndex,
		Reduction: reductions[a.Reduction]}).loss()
	return &nllForward{l}, err
}

// totalWeight is the sum of the weights of all targets that are not ignored; 0 where there is no reduction.
func (l *nllForward) totalWeight() float64 {
	if l.how == reduceNone {
		return 0
	}
	mean := *l.classLoss
	mean.how, mean.fewer = reduceMean, 0
	return mean.divisor()
}

func (l *nllForward) results(magnitudes bool) []*tensor.Tensor {
	return []*tensor.Tensor{l.forward(magnitudes), tensor.Scalar(l.dt, l.totalWeight())}
}

// nllForwardOp declares the operator for scores of these numbers of dimensions.
func nllForwardOp(name, cases string, dims ...int) *opdef.Entry {
	return opdef.Planned[*nllForwardArgs, *nllForward]{
		Schema: name + "(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> " +
			"(Tensor, Tensor)",
		Names: "torch.ops.aten." + name, // torch itself has no such name
		Doc: opdef.Doc{Summary: "Negated scores of classes, and the sum of weights",
			Formula: "-weight[target]*self[target]",
			Notes:   "The mean divides by the second result, which is 0 without a reduction and takes no gradient.",
			Source:  "ATen/native/LossNLL.cpp"},
		Traits: opdef.Traits{Trivial: true}, // nothing was added up
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 3}},
		Bounds: opdef.Bounds[*nllForward]{
			Terms:     func(l *nllForward) int { return tensor.Numel(l.positions) },
			Scale:     func(l *nllForward, _ []*tensor.Tensor) []*tensor.Tensor { return l.results(true) },
			GradTerms: func(l *nllForward) int { return l.divided() },
			GradScale: func(_ *nllForward, _ *opdef.Grad, grads opdef.Grads) (opdef.Grads, error) {
				if grads["self"] == nil {
					return opdef.Grads{}, nil
				}
				return elements.GradOf("self", opdef.Abs(grads["self"][0])), nil
			},
		},
		Plan: func(a *nllForwardArgs) (*nllForward, error) {
			if !slices.Contains(dims, a.Self.Dim()) {
				return nil, opdef.Refuse("self", "want %v dimensions, got %d", dims, a.Self.Dim())
			}
			return a.loss()
		},
		Kernel: func(l *nllForward) ([]*tensor.Tensor, error) { return l.results(false), nil },
		Grad: func(l *nllForward, g *opdef.Grad) (opdef.Grads, error) {
			if g.Out[0] == nil {
				return opdef.Grads{}, nil
			}
			return elements.GradOf("self", l.picked(g.Out[0])), nil
		},
		Exempt: map[string]string{"gradients": "the sum of weights takes no gradient"},
		Cases:  opdef.Calls[nllForwardArgs](cases),
	}.Entry()
}
