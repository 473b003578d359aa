package optim

import (
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// functionalOps are the functions with which the optimizers of torch.optim update the parameters of a group. They make
// calls of single tensors, or of lists of them. `optool hook` records them as calls that make these.
var functionalOps = []*opdef.Entry{
	functionalAdam("torch.optim.adam.adam", "Adam", "bool? has_complex=None, bool decoupled_weight_decay=False, ",
		func(a *functionalAdamArgs) bool { return a.DecoupledWeightDecay }),
	functionalAdam("torch.optim.adamw.adamw", "AdamW", "bool? has_complex=None, bool decoupled_weight_decay=True, ",
		func(*functionalAdamArgs) bool { return true }),
	fusedOp("torch.optim.sgd.sgd", "sgd(Tensor[] params, Tensor[] grads, Tensor?[] momentum_buffer_list, "+
		"bool? has_sparse_grad=None, bool? foreach=None, bool? fused=False, Tensor? grad_scale=None, "+
		"Tensor? found_inf=None, *, float weight_decay, float momentum, Tensor|Scalar lr, float dampening, "+
		"bool nesterov, bool maximize) -> ()",
		opdef.Doc{
			Summary: "Step of stochastic gradient descent of torch.optim, by calls of single tensors or of lists",
			Formula: "buf = momentum*buf + (1-dampening)*grad; params -= lr*buf, or lr*(grad + momentum*buf) with nesterov",
			Notes:   "weight_decay*params is added to grad. A buffer that is missing becomes grad. " + betweenNote,
			Source:  "torch.optim.SGD",
		}, (*functionalSGDArgs).plan),
	fusedOp("torch.optim.rmsprop.rmsprop", "rmsprop(Tensor[] params, Tensor[] grads, Tensor[] square_avgs, "+
		"Tensor[] grad_avgs, Tensor[] momentum_buffer_list, Tensor[] state_steps=[], bool? foreach=None, "+
		"bool maximize=False, bool differentiable=False, bool capturable=False, bool? has_complex=None, *, "+
		"Tensor|Scalar lr, float alpha, float eps, float weight_decay, float momentum, bool centered) -> ()",
		opdef.Doc{
			Summary: "Step of RMSprop of torch.optim, by calls of single tensors or of lists",
			Formula: "v = alpha*v + (1-alpha)*grad**2; buf = momentum*buf + grad/(sqrt(v - m**2) + eps); " +
				"params -= lr*buf",
			Notes: "m is alpha*m + (1-alpha)*grad if centered, else 0. weight_decay*params is added to grad. " +
				countNote + betweenNote,
			Source: "torch.optim.RMSprop",
		}, (*functionalRMSpropArgs).plan),
	fusedOp("torch.optim.adadelta.adadelta", "adadelta(Tensor[] params, Tensor[] grads, Tensor[] square_avgs, "+
		"Tensor[] acc_deltas, Tensor[] state_steps=[], bool capturable=False, bool? foreach=None, "+
		"bool differentiable=False, bool? has_complex=None, *, Tensor|Scalar lr, float rho, float eps, "+
		"float weight_decay, bool maximize) -> ()",
		opdef.Doc{
			Summary: "Step of Adadelta of torch.optim, by calls of single tensors or of lists",
			Formula: "v = rho*v + (1-rho)*grad**2; delta = sqrt(u + eps)/sqrt(v + eps) * grad; " +
				"u = rho*u + (1-rho)*delta**2; params -= lr*delta",
			Notes: "v and u are square_avgs and acc_deltas. weight_decay*params is added to grad. " + countNote +
				betweenNote,
			Source: "torch.optim.Adadelta",
		}, (*functionalAdadeltaArgs).plan),
	fusedOp("torch.optim.adagrad.adagrad", "adagrad(Tensor[] params, Tensor[] grads, Tensor[] state_sums, "+
		"Tensor[] state_steps, bool? fused=None, Tensor? grad_scale=None, Tensor? found_inf=None, "+
		"bool? has_sparse_grad=None, bool? foreach=None, bool differentiable=False, bool? has_complex=None, *, "+
		"Tensor|Scalar lr, float weight_decay, float lr_decay, float eps, bool maximize) -> ()",
		opdef.Doc{
			Summary: "Step of Adagrad of torch.optim, by calls of single tensors or of lists",
			Formula: "sum += grad**2; params -= lr/(1 + (step-1)*lr_decay) * grad/(sqrt(sum) + eps)",
			Notes:   "weight_decay*params is added to grad. " + countNote + betweenNote,
			Source:  "torch.optim.Adagrad",
		}, (*functionalAdagradArgs).plan),
	adamaxOp,
	rpropOp,
	radamOp,
	nadamOp,
	asgdOp,
}

// countNote says what these functions do to the numbers of the steps.
const countNote = "1 is added to state_steps first. "

// betweenNote says how these functions round.
const betweenNote = "In 16 bits the values between the calls are rounded, too, and the bound counts that."

type (
	functionalAdamArgs struct {
		Params, Grads, ExpAvgs, ExpAvgSqs, MaxExpAvgSqs, StateSteps []*tensor.Tensor

		Foreach                    *bool
		Capturable, Differentiable bool
		Fused                      *bool
		GradScale, FoundInf        *tensor.Tensor
		HasComplex                 *bool
		DecoupledWeightDecay       bool
		Amsgrad                    bool
		Beta1, Beta2, Lr           *tensor.Tensor
		WeightDecay, Eps           float64
		Maximize                   bool
	}
	functionalSGDArgs struct {
		Params, Grads, MomentumBufferList []*tensor.Tensor

		HasSparseGrad, Foreach, Fused    *bool
		GradScale, FoundInf              *tensor.Tensor
		WeightDecay, Momentum, Dampening float64
		Lr                               *tensor.Tensor
		Nesterov, Maximize               bool
	}
	functionalRMSpropArgs struct {
		Params, Grads, SquareAvgs, GradAvgs, MomentumBufferList, StateSteps []*tensor.Tensor

		Foreach                              *bool
		Maximize, Differentiable, Capturable bool
		HasComplex                           *bool
		Lr                                   *tensor.Tensor
		Alpha, Eps, WeightDecay, Momentum    float64
		Centered                             bool
	}
	functionalAdadeltaArgs struct {
		Params, Grads, SquareAvgs, AccDeltas, StateSteps []*tensor.Tensor

		Capturable            bool
		Foreach               *bool
		Differentiable        bool
		HasComplex            *bool
		Lr                    *tensor.Tensor
		Rho, Eps, WeightDecay float64
		Maximize              bool
	}
	functionalAdagradArgs struct {
		Params, Grads, StateSums, StateSteps []*tensor.Tensor

		Fused                     *bool
		GradScale, FoundInf       *tensor.Tensor
		HasSparseGrad, Foreach    *bool
		Differentiable            bool
		HasComplex                *bool
		Lr                        *tensor.Tensor
		WeightDecay, LrDecay, Eps float64
		Maximize                  bool
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
			Notes: countNote + "weight_decay*params is added to grad, or, where it is " +
				"decoupled, params is multiplied by 1 - lr*weight_decay. " + betweenNote,
			Source: "torch.optim." + title,
		}, func(a *functionalAdamArgs) (*fusedStep, error) { return a.plan(decoupled(a)) })
}

func (a *functionalAdamArgs) plan(decoupled bool) (*fusedStep, error) {
	form := updateForm{a.Foreach, a.HasComplex, a.Capturable || a.Differentiable}
	coupled := a.WeightDecay
	if decoupled {
		coupled = 0
	}
	if err := form.leavesGradients(coupled, a.Maximize); err != nil {
		return nil, err
	}
	numbers := form.numbers(a.StateSteps, a.Lr, a.Beta1, a.Beta2)
	rounded, err := wholeStep(a.Eps, numbers, a.Params, a.ExpAvgs, a.ExpAvgSqs)
	if err != nil {
		return nil, err
	}
	of := &adamArgs{Self: a.Params, Grads: a.Grads, ExpAvgs: a.ExpAvgs, ExpAvgSqs: a.ExpAvgSqs,
		MaxExpAvgSqs: a.MaxExpAvgSqs, StateSteps: counted(a.StateSteps), Lr: a.Lr, Beta1: elementOr(a.Beta1, 0),
		Beta2: elementOr(a.Beta2, 0), WeightDecay: a.WeightDecay, Eps: a.Eps, Amsgrad: a.Amsgrad, Maximize: a.Maximize,
		tensors: form.tensors}
	sound := of.rule(decoupled)
	sound.between = rounded
	return countedStep(of.step, sound, of.slips(sound), a.StateSteps, true)
}

func (a *functionalRMSpropArgs) plan() (*fusedStep, error) {
	form := updateForm{foreach: a.Foreach, hasComplex: a.HasComplex}
	if err := form.leavesGradients(a.WeightDecay, a.Maximize); err != nil {
		return nil, err
	}
	rounded, err := wholeStep(a.Eps, []*tensor.Tensor{a.Lr}, a.Params, a.SquareAvgs)
	if err != nil {
		return nil, err
	}
	of := &rmspropArgs{Self: a.Params, Grads: a.Grads, SquareAvgs: a.SquareAvgs, GradAvgs: a.GradAvgs,
		MomentumBufferList: a.MomentumBufferList, Lr: elementOr(a.Lr, 0), Alpha: a.Alpha, Eps: a.Eps,
		WeightDecay: a.WeightDecay, Momentum: a.Momentum, Centered: a.Centered, maximize: a.Maximize}
	sound := of.rule()
	sound.between = rounded
	return countedStep(of.step, sound, of.slips(sound), a.StateSteps, false)
}

func (a *functionalAdadeltaArgs) plan() (*fusedStep, error) {
	form := updateForm{foreach: a.Foreach, hasComplex: a.HasComplex}
	if err := form.leavesGradients(a.WeightDecay, a.Maximize); err != nil {
		return nil, err
	}
	rounded, err := wholeStep(a.Eps, []*tensor.Tensor{a.Lr}, a.Params, a.SquareAvgs, a.AccDeltas)
	if err != nil {
		return nil, err
	}
	of := &adadeltaArgs{Self: a.Params, Grads: a.Grads, SquareAvgs: a.SquareAvgs, AccDeltas: a.AccDeltas,
		Lr: elementOr(a.Lr, 0), Rho: a.Rho, Eps: a.Eps, WeightDecay: a.WeightDecay, maximize: a.Maximize}
	sound := of.rule()
	sound.between = rounded
	return countedStep(of.step, sound, of.slips(sound), a.StateSteps, false)
}

func (a *functionalAdagradArgs) plan() (*fusedStep, error) {
	form := updateForm{foreach: a.Foreach, hasComplex: a.HasComplex}
	form.tensors = form.older()
	if err := form.leavesGradients(a.WeightDecay, a.Maximize); err != nil {
		return nil, err
	}
	rounded, err := wholeStep(a.Eps, form.numbers(a.StateSteps, a.Lr), a.Params, a.StateSums)
	if err != nil {
		return nil, err
	}
	of := &adagradArgs{Self: a.Params, Grads: a.Grads, StateSums: a.StateSums, StateSteps: counted(a.StateSteps),
		Lr: a.Lr, LrDecay: a.LrDecay, WeightDecay: a.WeightDecay, Eps: a.Eps, Maximize: a.Maximize}
	sound := of.rule()
	sound.between = rounded
	return countedStep(of.step, sound, of.slips(sound), a.StateSteps, a.LrDecay != 0)
}

// counted are the numbers of the steps, each one more.
func counted(steps []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(steps))
	for i, t := range steps {
		out[i] = opdef.Map(t.DType, t, func(n float64) float64 { return n + 1 })
	}
	return out
}

// countedStep is a step of one of these functions that counts itself, with its mistakes. The number of the step may be
// used in it. Older torch counts the steps of some optimizers elsewhere: there are no numbers then.
func countedStep(step func(rule) (*fusedStep, error), sound rule, slips []slip,
	steps []*tensor.Tensor, used bool) (*fusedStep, error) {
	if len(steps) > 0 {
		slips = append(slips, slip{"state_steps is not counted up", func(r *rule) { r.still = true }})
	}
	if len(steps) > 0 && used {
		slips = append(slips, slip{"state_steps is not counted up, nor is it in the step",
			func(r *rule) { r.still, r.late = true, -1 }})
	}
	return mistakable(func(r rule) (*fusedStep, error) {
		f, err := step(r)
		if err != nil || len(steps) == 0 {
			return f.ofParams(nil), err
		}
		after := steps
		if !r.still {
			after = counted(steps)
		}
		return f.ofParams(map[string][]*tensor.Tensor{"state_steps": after}), nil
	}, sound, slips)
}

func (a *functionalSGDArgs) plan() (*fusedStep, error) {
	form := updateForm{foreach: a.Foreach}
	if a.Fused == nil || *a.Fused { // torch 2 gives None or True, and SGD has no has_complex
		form.hasComplex = new(bool)
	}
	if err := form.leavesGradients(a.WeightDecay, a.Maximize); err != nil {
		return nil, err
	}
	rounded, err := wholeStep(0, []*tensor.Tensor{a.Lr}, a.Params)
	if err != nil {
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
	sound := of.rule()
	sound.between = rounded
	return mistakable(func(r rule) (*fusedStep, error) {
		f, err := of.step(unrounded, r)
		return f.ofParams(nil), err
	}, sound, of.slips(sound))
}

// An updateForm is how a function makes its step.
type updateForm struct {
	foreach, hasComplex *bool
	tensors             bool // the numbers of a step are computed as tensors
}

// older tells lists of older torch, which does not give has_complex.
func (f updateForm) older() bool { return f.foreach != nil && *f.foreach && f.hasComplex == nil }

// leavesGradients refuses lists of older torch that add the weight decay to the gradients where they are.
func (f updateForm) leavesGradients(coupled float64, maximize bool) error {
	if f.older() && coupled != 0 && !maximize {
		return opdef.Unsupported("foreach", "the step is judged call by call: lists of torch before 2 add the weight "+
			"decay to the gradients themselves, and the call does not tell which torch it is")
	}
	return nil
}

// numbers are those tensors whose dtype rounds what the step computes of them.
func (f updateForm) numbers(steps []*tensor.Tensor, more ...*tensor.Tensor) []*tensor.Tensor {
	if f.tensors {
		return slices.Concat(steps, more)
	}
	return more
}

// ofParams is the step with its first list under the name that functions of torch.optim give it, which leave gradients
// as they are, and with more changes. Its calls round what is between them.
func (f *fusedStep) ofParams(more map[string][]*tensor.Tensor) *fusedStep {
	if f != nil {
		f.names[0], f.names[1], f.between = "params", "", true
		if f.more == nil {
			f.more = map[string][]*tensor.Tensor{}
		}
		maps.Copy(f.more, more)
	}
	return f
}

// wholeStep refuses complex lists, which are seen as pairs, lists whose dtype has no number as small as eps (0: there
// is none), and numbers that are given as tensors of fewer bits than the lists.
func wholeStep(eps float64, numbers []*tensor.Tensor, lists ...[]*tensor.Tensor) (b between, err error) {
	for _, l := range lists {
		for _, t := range l {
			for _, n := range numbers {
				if n != nil && !n.Wrapped && n.DType.IsFloat() && n.DType.Eps() > t.DType.Eps() {
					return b, opdef.Unsupported("params", "the step is judged call by call: a number of it is a "+
						"tensor of %s, in which the calls round", n.DType)
				}
			}
			switch {
			case t.DType.IsComplex():
				return b, opdef.Unsupported("params", "the step is judged call by call: its parameters are complex")
			case t.DType.IsFloat() && eps != 0 && t.DType.Round(eps) == 0:
				return b, opdef.Unsupported("eps", "the step is judged call by call: eps is 0 in %s", t.DType)
			case t.DType.IsHalf() && t.DType.Eps()/2 > b.unit:
				b = between{t.DType.Eps() / 2, t.DType.SmallestNormal()}
			}
		}
	}
	return b, nil
}
