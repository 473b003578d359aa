package optim

import (
	"cmp"
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var adamaxOp = fusedOp("torch.optim.adamax.adamax", "adamax(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, "+
	"Tensor[] exp_infs, Tensor[] state_steps, bool? foreach=None, bool maximize=False, bool differentiable=False, "+
	"bool capturable=False, bool? has_complex=None, *, float eps, float beta1, float beta2, Tensor|Scalar lr, "+
	"float weight_decay) -> ()",
	opdef.Doc{
		Summary: "Step of Adamax of torch.optim, by calls of single tensors or of lists",
		Formula: "m = beta1*m + (1-beta1)*grad; u = max(beta2*u, abs(grad) + eps); params -= lr/(1-beta1**step) * m/u",
		Notes:   "weight_decay*params is added to grad. " + countNote + betweenNote,
		Source:  "torch.optim.Adamax",
	}, (*adamaxArgs).plan)

type adamaxArgs struct {
	Params, Grads, ExpAvgs, ExpInfs, StateSteps []*tensor.Tensor

	Foreach                              *bool
	Maximize, Differentiable, Capturable bool
	HasComplex                           *bool
	Eps, Beta1, Beta2                    float64
	Lr                                   *tensor.Tensor
	WeightDecay                          float64
}

// A norm is how Adamax makes its largest gradient of what is left of that and of the new one, and its divisor of that.
type norm int

const (
	normLargest  norm = iota // max(u, g + eps)
	normOutside              // max(u, g) + eps
	normDivisor              // max(u, g), to which eps is added for the update alone
	normAlone                // max(u, g)
	normSum                  // u + g + eps
	normRoot                 // sqrt(u**2 + (g + eps)**2)
	normSmallest             // min(u, g + eps)
)

func (n norm) of(u, g, eps float64) (kept, divisor float64) {
	switch n {
	case normOutside:
		kept = max(u, g) + eps
	case normDivisor:
		return max(u, g), max(u, g) + eps
	case normAlone:
		kept = max(u, g)
	case normSum:
		kept = u + g + eps
	case normRoot:
		kept = math.Hypot(u, g+eps)
	case normSmallest:
		kept = min(u, g+eps)
	default:
		kept = max(u, g+eps)
	}
	return kept, kept
}

func (a *adamaxArgs) plan() (*fusedStep, error) {
	form := updateForm{a.Foreach, a.HasComplex, a.Capturable}
	if err := form.leavesGradients(a.WeightDecay, a.Maximize); err != nil {
		return nil, err
	}
	rounded, err := wholeStep(a.Eps, form.numbers(a.StateSteps, a.Lr), a.Params, a.ExpAvgs, a.ExpInfs)
	if err != nil {
		return nil, err
	}
	sound := rule{size: elementOr(a.Lr, 0), coupled: a.WeightDecay, between: rounded,
		averages: [2]weights{{a.Beta1, 1 - a.Beta1}, {a.Beta2, 1}}}
	return countedStep(a.step, sound, a.slips(sound), a.StateSteps, true)
}

// slips are what kernels of Adamax get wrong.
func (a *adamaxArgs) slips(sound rule) []slip {
	all := []slip{
		{"exp_avg is not corrected for its beginning", func(r *rule) { r.plain[0] = true }},
		{"exp_avg is corrected by beta2, not by beta1", func(r *rule) { r.turned[0] = true }},
		{"eps is not added", func(r *rule) { r.norm = normAlone }},
		{"eps is added to the larger of both, not to the gradient", func(r *rule) { r.norm = normOutside }},
		{"eps is added to exp_inf in the update, not to the gradient", func(r *rule) { r.norm = normDivisor }},
		{"the gradient is added to exp_inf, which is not the larger of both", func(r *rule) { r.norm = normSum }},
		{"exp_inf is the root of both squares, not the larger of both", func(r *rule) { r.norm = normRoot }},
		{"exp_inf is the smaller of both, not the larger", func(r *rule) { r.norm = normSmallest }},
		{"exp_inf is made of the gradient's square, not of its magnitude", func(r *rule) { r.power = ofMagnitude }},
		{"exp_inf has the weight of exp_avg", func(r *rule) { r.averages[1].keep = a.Beta1 }},
		{"exp_avg has the weight of exp_inf", func(r *rule) { r.averages[0] = weights{a.Beta2, 1 - a.Beta2} }},
	}
	all = append(append(all, countSlips...), decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)...)
	for k, name := range []string{"exp_avg", "exp_inf"} {
		all = append(all, averageSlips(k, name, weights{})...)
	}
	return append(all, updateSlips...)
}

func (a *adamaxArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "exp_avgs", "exp_infs"}, a.Params, a.Grads, a.ExpAvgs, a.ExpInfs)
	if err := cmp.Or(err, onePer("state_steps", a.Params, a.StateSteps)); err != nil {
		return nil, err
	}
	f.rule = func(i int) func(v, s []float64) {
		size, beta, lost := rule.size, a.Beta1, 1.0
		if rule.turned[0] {
			beta = a.Beta2
		}
		if !rule.plain[0] {
			size /= 1 - math.Pow(beta, elementOr(a.StateSteps[i], 0)+1+rule.late)
		}
		if a.Capturable {
			lost += math.Abs(size / rule.size)
		}
		return func(v, s []float64) {
			old := [2]float64{v[2], v[3]}
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.Maximize))
			m, w := rule.averages[0].of(v[2], g), rule.averages[1]
			s[2], s[3] = rule.averages[0].size(v[2], gs), max(math.Abs(w.keep*v[3]), math.Abs(w.take)*gs+a.Eps)
			largest := math.Abs(g)
			if rule.power == ofMagnitude {
				largest = g * g
			}
			kept, divisor := rule.norm.of(w.keep*v[3], w.take*largest, a.Eps)
			v[2], v[3] = m, kept
			if rule.old[0] {
				m = old[0]
			}
			if rule.old[1] {
				divisor = old[1]
			}
			if rule.raw {
				m = g
			}
			rule.update(v, s, size/divisor, m, s[2]*(lost+s[3]/math.Abs(divisor)))
		}
	}
	return f, nil
}
