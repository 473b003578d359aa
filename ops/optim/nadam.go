package optim

import (
	"cmp"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var nadamOp = fusedOp("torch.optim.nadam.nadam", "nadam(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, "+
	"Tensor[] exp_avg_sqs, Tensor[] mu_products, Tensor[] state_steps, bool decoupled_weight_decay=False, "+
	"bool? foreach=None, bool capturable=False, bool differentiable=False, bool? has_complex=None, "+
	"bool maximize=False, *, float beta1, float beta2, Tensor|Scalar lr, float weight_decay, float momentum_decay, "+
	"float eps) -> ()",
	opdef.Doc{
		Summary: "Step of NAdam of torch.optim, by calls of single tensors or of lists",
		Formula: "m = beta1*m + (1-beta1)*grad; v = beta2*v + (1-beta2)*grad**2; mu_product *= mu(step); " +
			"params -= lr * ((1-mu(step))/(1-mu_product) * grad + mu(step+1)/(1-mu_product*mu(step+1)) * m) " +
			"/ (sqrt(v/(1-beta2**step)) + eps)",
		Notes: "mu(t) = beta1*(1 - 0.96**(t*momentum_decay)/2). weight_decay*params is added to grad, or, where " +
			"it is decoupled, params is multiplied by 1 - lr*weight_decay. Older torch multiplies mu_product by mu(step) " +
			"once more in the divisor of m where it updates single tensors. " + countNote + betweenNote,
		Source: "torch.optim.NAdam",
	}, (*nadamArgs).plan)

type nadamArgs struct {
	Params, Grads, ExpAvgs, ExpAvgSqs, MuProducts, StateSteps []*tensor.Tensor

	DecoupledWeightDecay       bool
	Foreach                    *bool
	Capturable, Differentiable bool
	HasComplex                 *bool
	Maximize                   bool
	Beta1, Beta2               float64
	Lr                         *tensor.Tensor

	WeightDecay, MomentumDecay, Eps float64
}

// A cache is what NAdam makes of the momenta of this step and of the next one.
type cache struct {
	twice     bool // that of this step is once more in the product of the next one
	same      bool // the next one is that of this step
	still     bool // the product is not changed
	plain     bool // nothing is divided by 1 - the product
	noGrad    bool // the update has no part of the gradient
	noAverage bool // it has no part of the average
}

func (a *nadamArgs) plan() (*fusedStep, error) {
	form := updateForm{a.Foreach, a.HasComplex, a.Capturable || a.Differentiable}
	coupled := a.WeightDecay
	if a.DecoupledWeightDecay {
		coupled = 0
	}
	if err := form.leavesGradients(coupled, a.Maximize); err != nil {
		return nil, err
	}
	numbers := form.numbers(a.StateSteps, slices.Concat(a.MuProducts, []*tensor.Tensor{a.Lr})...)
	rounded, err := wholeStep(a.Eps, numbers, a.Params, a.ExpAvgs, a.ExpAvgSqs)
	if err := cmp.Or(err, onePer("mu_products", a.Params, a.MuProducts)); err != nil {
		return nil, err
	}
	of := &adamArgs{Beta1: a.Beta1, Beta2: a.Beta2, Lr: a.Lr, WeightDecay: a.WeightDecay}
	sound := of.rule(a.DecoupledWeightDecay)
	sound.between = rounded
	sound.cache.twice = a.HasComplex == nil && (a.Foreach == nil || !*a.Foreach) && !form.tensors
	f, err := countedStep(a.step, sound, a.slips(sound), a.StateSteps, true)
	if err == nil && sound.cache.twice { // the call does not tell which torch it is
		newer := sound
		newer.cache.twice = false
		f.either, err = a.step(newer)
		f.either.ofParams(nil)
	}
	return f, err
}

// slips are what kernels of NAdam get wrong.
func (a *nadamArgs) slips(sound rule) []slip {
	all := []slip{
		{"exp_avg_sq is not corrected for its beginning", func(r *rule) { r.plain[1] = true }},
		{"beta1 and beta2 are exchanged in both averages, not in their corrections", func(r *rule) {
			r.averages[0], r.averages[1] = r.averages[1], r.averages[0]
		}},
		{"exp_avg_sq is corrected by beta1, not by beta2", func(r *rule) { r.turned[1] = true }},
		{"eps is added before the root is corrected", func(r *rule) { r.root = rootUncorrected }},
		{"the correction of exp_avg_sq is applied to its root", func(r *rule) { r.root = rootFirst }},
		{"the momentum of the next step is taken for that of this one", func(r *rule) { r.cache.same = true }},
		{"mu_product is not changed", func(r *rule) { r.cache.still = true }},
		{"neither part is divided by 1 - mu_product", func(r *rule) { r.cache.plain = true }},
		{"the update has no part of the gradient itself", func(r *rule) { r.cache.noGrad = true }},
		{"the update has no part of exp_avg", func(r *rule) { r.cache.noAverage = true }},
		{"exp_avg_sq is made of the gradient's magnitude, not of its square",
			func(r *rule) { r.power = ofMagnitude }},
	}
	all = append(append(append(all, countSlips...), rootSlips...),
		decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)...)
	for k, name := range []string{"exp_avg", "exp_avg_sq"} {
		all = append(all, averageSlips(k, name, sound.averages[1-k])...)
	}
	return append(all, updateSlips[:2]...)
}

// momentum is that of a step.
func (a *nadamArgs) momentum(step float64) float64 {
	return a.Beta1 * (1 - 0.5*math.Pow(0.96, step*a.MomentumDecay))
}

func (a *nadamArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "exp_avgs", "exp_avg_sqs"}, a.Params, a.Grads, a.ExpAvgs,
		a.ExpAvgSqs)
	if err := cmp.Or(err, onePer("state_steps", a.Params, a.StateSteps)); err != nil {
		return nil, err
	}
	products := make([]*tensor.Tensor, len(a.MuProducts))
	for i, t := range a.MuProducts {
		mu := a.momentum(elementOr(a.StateSteps[i], 0) + 1 + rule.late)
		if products[i] = t; !rule.cache.still {
			products[i] = opdef.Map(t.DType, t, func(x float64) float64 { return t.DType.Round(x * mu) })
		}
	}
	f.rule = func(i int) func(v, s []float64) {
		steps, product := elementOr(a.StateSteps[i], 0)+1+rule.late, elementOr(products[i], 1)
		mu, next := a.momentum(steps), a.momentum(steps+1)
		if rule.cache.same {
			next = mu
		}
		ofGrad, ofAverage, following := rule.size*(1-mu), rule.size*next, product*next
		if rule.cache.twice {
			following *= mu
		}
		if !rule.cache.plain {
			ofGrad, ofAverage = ofGrad/(1-product), ofAverage/(1-following)
		}
		if rule.cache.noGrad {
			ofGrad = 0
		}
		if rule.cache.noAverage {
			ofAverage = 0
		}
		root, beta := 1.0, a.Beta2
		if rule.turned[1] {
			beta = a.Beta1
		}
		if !rule.plain[1] {
			root = math.Sqrt(1 - math.Pow(beta, steps))
		}
		lost := 1 + 1/(1-product)
		if a.Capturable || a.Differentiable {
			lost += 1/(1-mu) + 1/(1-following) + 1/(root*root)
		}
		return func(v, s []float64) {
			old := [2]float64{v[2], v[3]}
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.Maximize))
			m := rule.averages[0].of(v[2], g)
			sq := rule.averages[1].of(v[3], rule.power.of(g, m))
			s[2] = rule.averages[0].size(v[2], gs)
			s[3] = rule.averages[1].size(v[3], gs*gs)
			v[2], v[3] = m, sq
			if rule.old[0] {
				m = old[0]
			}
			if rule.old[1] {
				sq = old[1]
			}
			divisor, blur := rule.divisor(sq, root, a.Eps)
			size := (math.Abs(ofGrad)*gs + math.Abs(ofAverage)*s[2]) * lost * blur
			rule.update(v, s, 1/divisor, ofGrad*g+ofAverage*m, size)
		}
	}
	f.more = map[string][]*tensor.Tensor{"mu_products": products}
	return f, nil
}
