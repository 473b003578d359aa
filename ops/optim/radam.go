package optim

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var radamOp = fusedOp("torch.optim.radam.radam", "radam(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, "+
	"Tensor[] exp_avg_sqs, Tensor[] state_steps, bool decoupled_weight_decay=False, bool? foreach=None, "+
	"bool differentiable=False, bool capturable=False, bool? has_complex=None, bool maximize=False, *, float beta1, "+
	"float beta2, Tensor|Scalar lr, float weight_decay, float eps) -> ()",
	opdef.Doc{
		Summary: "Step of RAdam of torch.optim, by calls of single tensors or of lists",
		Formula: "m = beta1*m + (1-beta1)*grad; v = beta2*v + (1-beta2)*grad**2; params -= lr/(1-beta1**step) * m * " +
			"(r*sqrt(1-beta2**step)/(sqrt(v) + eps) if rho > 5 else 1)",
		Notes: "n = 2/(1-beta2) - 1, rho = n - 2*step*beta2**step/(1-beta2**step), r = sqrt((rho-4)*(rho-2)*n/" +
			"((n-4)*(n-2)*rho)). weight_decay*params is added to grad, or, where it is decoupled, params is multiplied " +
			"by 1 - lr*weight_decay. " + countNote + betweenNote,
		Source: "torch.optim.RAdam",
	}, (*radamArgs).plan)

type radamArgs struct {
	Params, Grads, ExpAvgs, ExpAvgSqs, StateSteps []*tensor.Tensor

	DecoupledWeightDecay       bool
	Foreach                    *bool
	Differentiable, Capturable bool
	HasComplex                 *bool
	Maximize                   bool
	Beta1, Beta2               float64
	Lr                         *tensor.Tensor
	WeightDecay, Eps           float64
}

// A rectification is RAdam's treatment of early steps, whose average of squares has seen few gradients.
type rectification int

const (
	rectifyNone     rectification = iota // as Adam
	rectifyLate                          // the update is scaled, or has no divisor in the first steps
	rectifyTooEarly                      // it is scaled one step too early, from step 4 on
	rectifyOnly                          // it is scaled, and the first steps are as Adam's
	rectifyInverse                       // it is divided by the scale
	rectifySquare                        // it is multiplied by the square of the scale: the root is not taken
)

// of is the factor of the update in a step, and whether the update has a divisor. The factor comes from a length that
// cancels in early steps: the last result is how many times larger that makes its rounding error.
func (r rectification) of(beta2, steps float64) (factor float64, divided bool, lost float64) {
	if r == rectifyNone {
		return 1, true, 0
	}
	most, correction := 2/(1-beta2)-1, 1-math.Pow(beta2, steps)
	length := most - 2*steps*math.Pow(beta2, steps)/correction
	least := 5.0
	if r == rectifyTooEarly {
		least = 4
	}
	if !(length > least) {
		return 1, r == rectifyOnly, 0
	}
	lost = most * (2 + 1/correction) * (1/(length-4) + 1/(length-2) + 1/length)
	square := (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
	switch r {
	case rectifyInverse:
		return 1 / math.Sqrt(square), true, lost
	case rectifySquare:
		return square, true, lost
	}
	return math.Sqrt(square), true, lost
}

func (a *radamArgs) plan() (*fusedStep, error) {
	form := updateForm{a.Foreach, a.HasComplex, a.Capturable || a.Differentiable}
	switch {
	case form.older():
		return nil, opdef.Unsupported("foreach", "the step is judged call by call: lists of torch before 2 add no eps, "+
			"and the call does not tell which torch it is")
	case form.tensors:
		return nil, opdef.Unsupported("capturable", "the step is judged call by call: the numbers of an early step are "+
			"tensors of few correct digits")
	}
	rounded, err := wholeStep(a.Eps, []*tensor.Tensor{a.Lr}, a.Params, a.ExpAvgs, a.ExpAvgSqs)
	if err != nil {
		return nil, err
	}
	of := &adamArgs{Self: a.Params, Grads: a.Grads, ExpAvgs: a.ExpAvgs, ExpAvgSqs: a.ExpAvgSqs,
		StateSteps: counted(a.StateSteps), Lr: a.Lr, Beta1: a.Beta1, Beta2: a.Beta2, WeightDecay: a.WeightDecay,
		Eps: a.Eps, Maximize: a.Maximize}
	sound := of.rule(a.DecoupledWeightDecay)
	sound.between = rounded
	sound.root, sound.rectified = rootUncorrected, rectifyLate
	slips := append(of.slips(sound),
		slip{"eps is added after the root is corrected", func(r *rule) { r.root = rootPlus }},
		slip{"the update is not rectified, as in Adam", func(r *rule) { r.rectified = rectifyNone }},
		slip{"the update is rectified from a length of 4 on, not of 5",
			func(r *rule) { r.rectified = rectifyTooEarly }},
		slip{"the first steps have the divisor of Adam", func(r *rule) { r.rectified = rectifyOnly }},
		slip{"the update is divided by the rectification", func(r *rule) { r.rectified = rectifyInverse }},
		slip{"the root of the rectification is not taken", func(r *rule) { r.rectified = rectifySquare }})
	return countedStep(of.step, sound, slips, a.StateSteps, true)
}
