package optim

import (
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// functionalOps are the functions with which the optimizers of torch.optim update the parameters of a group. They make
// calls of single tensors, or of lists of them. `optool hook` records them as calls that make these.
var functionalOps = []*opdef.Entry{
	functionalAdam("torch.optim.adam.adam", "Adam", "bool has_complex=False, bool decoupled_weight_decay=False, ",
		func(a *functionalAdamArgs) bool { return a.DecoupledWeightDecay }),
	functionalAdam("torch.optim.adamw.adamw", "AdamW", "bool has_complex=False, bool decoupled_weight_decay=True, ",
		func(*functionalAdamArgs) bool { return true }),
	fusedOp("torch.optim.sgd.sgd", "sgd(Tensor[] params, Tensor[] grads, Tensor?[] momentum_buffer_list, "+
		"bool? has_sparse_grad=None, bool? foreach=None, bool? fused=None, Tensor? grad_scale=None, "+
		"Tensor? found_inf=None, *, float weight_decay, float momentum, Tensor|Scalar lr, float dampening, "+
		"bool nesterov, bool maximize) -> ()",
		opdef.Doc{
			Summary: "Step of stochastic gradient descent of torch.optim, by calls of single tensors or of lists",
			Formula: "buf = momentum*buf + (1-dampening)*grad; params -= lr*buf, or lr*(grad + momentum*buf) with nesterov",
			Notes:   "weight_decay*params is added to grad. A buffer that is missing becomes grad. " + betweenNote,
			Source:  "torch.optim.SGD",
		}, (*functionalSGDArgs).plan),
}

// betweenNote says what of these functions is not judged as a whole.
const betweenNote = "In 16 bits the values between the calls are rounded, so that only the calls are judged."

type (
	functionalAdamArgs struct {
		Params, Grads, ExpAvgs, ExpAvgSqs, MaxExpAvgSqs, StateSteps []*tensor.Tensor

		Foreach                          *bool
		Capturable, Differentiable       bool
		Fused                            *bool
		GradScale, FoundInf              *tensor.Tensor
		HasComplex, DecoupledWeightDecay bool
		Amsgrad                          bool
		Beta1, Beta2, Lr                 *tensor.Tensor
		WeightDecay, Eps                 float64
		Maximize                         bool
	}
	functionalSGDArgs struct {
		Params, Grads, MomentumBufferList []*tensor.Tensor

		HasSparseGrad, Foreach, Fused    *bool
		GradScale, FoundInf              *tensor.Tensor
		WeightDecay, Momentum, Dampening float64
		Lr                               *tensor.Tensor
		Nesterov, Maximize               bool
	}
)

// functionalAdam is the function of Adam or AdamW. Only newer torch has the arguments of more.
func functionalAdam(name, title, more string, decoupled func(*functionalAdamArgs) bool) *opdef.Entry {
	return fusedOp(name, name[strings.LastIndexByte(name, '.')+1:]+"(Tensor[] params, Tensor[] grads, "+
		"Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, "+
		"bool? foreach=None, bool capturable=False, "+
		"bool differentiable=False, bool? fused=None, Tensor? grad_scale=None, Tensor? found_inf=None, "+more+
		"*, bool amsgrad, Tensor|Scalar beta1, Tensor|Scalar beta2, Tensor|Scalar lr, float weight_decay, float eps, "+
		"bool maximize) -> ()",
		opdef.Doc{
			Summary: "Step of " + title + " of torch.optim, by calls of single tensors or of lists",
			Formula: "m = beta1*m + (1-beta1)*grad; v = beta2*v + (1-beta2)*grad**2; params -= lr/(1-beta1**step) * " +
				"m / (sqrt(v/(1-beta2**step)) + eps)",
			Notes: "1 is added to state_steps first. weight_decay*params is added to grad, or, where it is " +
				"decoupled, params is multiplied by 1 - lr*weight_decay. " + betweenNote,
			Source: "torch.optim." + title,
		}, func(a *functionalAdamArgs) (*fusedStep, error) { return a.plan(decoupled(a)) })
}

func (a *functionalAdamArgs) plan(decoupled bool) (*fusedStep, error) {
	if err := wholeStep([]*tensor.Tensor{a.Lr, a.Beta1, a.Beta2}, a.Params, a.ExpAvgs, a.ExpAvgSqs); err != nil {
		return nil, err
	}
	steps := make([]*tensor.Tensor, len(a.StateSteps))
	for i, t := range a.StateSteps {
		steps[i] = opdef.Map(t.DType, t, func(n float64) float64 { return n + 1 })
	}
	of := &adamArgs{Self: a.Params, Grads: a.Grads, ExpAvgs: a.ExpAvgs, ExpAvgSqs: a.ExpAvgSqs,
		MaxExpAvgSqs: a.MaxExpAvgSqs, StateSteps: steps, Lr: a.Lr, Beta1: elementOr(a.Beta1, 0),
		Beta2: elementOr(a.Beta2, 0), WeightDecay: a.WeightDecay, Eps: a.Eps, Amsgrad: a.Amsgrad, Maximize: a.Maximize}
	sound := of.rule(decoupled)
	return mistakable(func(r rule) (*fusedStep, error) {
		f, err := of.step(r)
		return f.ofParams(map[string][]*tensor.Tensor{"state_steps": steps}), err
	}, sound, of.slips(sound))
}

func (a *functionalSGDArgs) plan() (*fusedStep, error) {
	if err := wholeStep([]*tensor.Tensor{a.Lr}, a.Params); err != nil {
		return nil, err
	}
	var buffers []*tensor.Tensor
	for _, t := range a.MomentumBufferList {
		if t != nil {
			buffers = append(buffers, t)
		}
	}
	if a.Momentum != 0 && len(buffers) > 0 && len(buffers) < len(a.MomentumBufferList) {
		return nil, opdef.Unsupported("momentum_buffer_list", "only some parameters have buffers")
	}
	of := &sgdArgs{Self: a.Params, Grads: a.Grads, MomentumBufferList: buffers, WeightDecay: a.WeightDecay,
		Momentum: a.Momentum, Dampening: a.Dampening, Lr: a.Lr, Nesterov: a.Nesterov, Maximize: a.Maximize,
		IsFirstStep: len(buffers) == 0}
	exact := func(_ tensor.DType, x float64) float64 { return x }
	sound := of.rule()
	return mistakable(func(r rule) (*fusedStep, error) {
		f, err := of.step(exact, r)
		return f.ofParams(nil), err
	}, sound, of.slips(sound))
}

// ofParams is the step with its first list under the name that functions of torch.optim give it, which leave gradients
// as they are, and with more changes.
func (f *fusedStep) ofParams(more map[string][]*tensor.Tensor) *fusedStep {
	if f != nil {
		f.names[0], f.names[1], f.more = "params", "", more
	}
	return f
}

// wholeStep refuses lists of tensors with which the calls of a step round so much between each other that the step
// cannot be judged as a whole, and complex ones, which are seen as pairs. Numbers that are given as tensors round what
// is computed of them, too.
func wholeStep(numbers []*tensor.Tensor, lists ...[]*tensor.Tensor) error {
	for _, l := range lists {
		for _, t := range l {
			for _, n := range numbers {
				if n != nil && !n.Wrapped && n.DType.IsFloat() && n.DType.Eps() > t.DType.Eps() {
					return opdef.Unsupported("params", "the step is judged call by call: a number of it is a "+
						"tensor of %s, in which the calls round", n.DType)
				}
			}
			switch {
			case t.DType.IsComplex():
				return opdef.Unsupported("params", "the step is judged call by call: its parameters are complex")
			case t.DType.IsFloat() && t.DType.Size() <= 2:
				return opdef.Unsupported("params", "the step is judged call by call: the values between its "+
					"calls are rounded to %s", t.DType)
			}
		}
	}
	return nil
}
