package optim

import (
	"cmp"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var asgdOp = fusedOp("torch.optim.asgd.asgd", "asgd(Tensor[] params, Tensor[] grads, Tensor[] axs, Tensor[] mus, "+
	"Tensor[] etas, Tensor[] state_steps, bool? foreach=None, bool maximize=False, bool differentiable=False, "+
	"bool capturable=False, bool? has_complex=None, *, float lambd, Tensor|Scalar lr, float t0, float alpha, "+
	"float weight_decay) -> ()",
	opdef.Doc{
		Summary: "Step of averaged stochastic gradient descent of torch.optim, by calls of single tensors or of lists",
		Formula: "params = params*(1 - lambd*eta) - eta*grad; ax += mu*(params - ax); " +
			"eta = lr/(1 + lambd*lr*step)**alpha; mu = 1/max(1, step - t0)",
		Notes:  "weight_decay*params is added to grad. " + countNote + betweenNote,
		Source: "torch.optim.ASGD",
	}, (*asgdArgs).plan)

type asgdArgs struct {
	Params, Grads, Axs, Mus, Etas, StateSteps []*tensor.Tensor

	Foreach                              *bool
	Maximize, Differentiable, Capturable bool
	HasComplex                           *bool
	Lambd                                float64
	Lr                                   *tensor.Tensor
	T0, Alpha, WeightDecay               float64
}

// A mean is how ASGD averages parameters, and what it stores for the next step.
type mean struct {
	undecayed bool // self is not multiplied by 1 - lambd*eta
	byRate    bool // the step is made by lr, not by eta
	now       bool // the average is the new parameter
	before    bool // it is that of the parameter from before the step
	stillEta  bool // eta is not changed
	stillMu   bool // mu is not changed
	flat      bool // eta is lr after the step, too
}

func (a *asgdArgs) plan() (*fusedStep, error) {
	form := updateForm{a.Foreach, a.HasComplex, a.Capturable || a.Differentiable}
	numbers := form.numbers(slices.Concat(a.StateSteps, a.Mus, a.Etas), a.Lr)
	rounded, err := wholeStep(0, numbers, a.Params, a.Axs)
	if err := cmp.Or(err, onePer("mus", a.Params, a.Mus), onePer("etas", a.Params, a.Etas)); err != nil {
		return nil, err
	}
	sound := rule{size: 1, coupled: a.WeightDecay, between: rounded}
	return countedStep(a.step, sound, a.slips(sound), a.StateSteps, true)
}

// slips are what kernels of ASGD get wrong.
func (a *asgdArgs) slips(sound rule) []slip {
	all := []slip{
		{"self is not multiplied by 1 - lambd*eta", func(r *rule) { r.averaged.undecayed = true }},
		{"the step is made by lr, not by eta", func(r *rule) { r.averaged.byRate = true }},
		{"ax is the new parameter, not an average", func(r *rule) { r.averaged.now = true }},
		{"ax is the average of the parameter from before the step", func(r *rule) { r.averaged.before = true }},
		{"eta is not changed", func(r *rule) { r.averaged.stillEta = true }},
		{"mu is not changed", func(r *rule) { r.averaged.stillMu = true }},
		{"eta is lr after the step", func(r *rule) { r.averaged.flat = true }},
		updateSlips[0],
	}
	return append(append(all, countSlips...), decaySlips(sound, a.WeightDecay, a.WeightDecay*elementOr(a.Lr, 0))...)
}

func (a *asgdArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "axs"}, a.Params, a.Grads, a.Axs)
	if err := cmp.Or(err, onePer("state_steps", a.Params, a.StateSteps)); err != nil {
		return nil, err
	}
	lr := elementOr(a.Lr, 0)
	etas, mus := make([]*tensor.Tensor, len(a.Etas)), make([]*tensor.Tensor, len(a.Mus))
	for i := range etas {
		step := elementOr(a.StateSteps[i], 0) + 1 + rule.late
		next := func(t *tensor.Tensor, still bool, x float64) *tensor.Tensor {
			if still {
				return t
			}
			return opdef.Map(t.DType, t, func(float64) float64 { return x })
		}
		eta := lr
		if !rule.averaged.flat {
			eta /= math.Pow(1+a.Lambd*lr*step, a.Alpha)
		}
		etas[i] = next(a.Etas[i], rule.averaged.stillEta, eta)
		mus[i] = next(a.Mus[i], rule.averaged.stillMu, 1/max(1, step-a.T0))
	}
	f.rule = func(i int) func(v, s []float64) {
		eta, mu, r := elementOr(a.Etas[i], 0), elementOr(a.Mus[i], 1), rule
		if rule.averaged.byRate {
			eta = lr
		}
		if !rule.averaged.undecayed {
			r.shrink += a.Lambd * eta
		}
		return func(v, s []float64) {
			before := v[0]
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.Maximize))
			v[0] -= part(r.shrink-rule.shrink, before)
			rule.update(v, s, rule.size*eta, g, gs)
			of := v[0]
			if rule.averaged.before {
				of = before
			}
			s[2] = math.Abs(v[2]) + math.Abs(mu)*(s[0]+math.Abs(v[2]))
			if v[2] += mu * (of - v[2]); rule.averaged.now {
				v[2] = of
			}
		}
	}
	f.more = map[string][]*tensor.Tensor{"etas": etas, "mus": mus}
	return f, nil
}
