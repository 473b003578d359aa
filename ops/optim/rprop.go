package optim

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

var rpropOp = fusedOp("torch.optim.rprop.rprop", "rprop(Tensor[] params, Tensor[] grads, Tensor[] prevs, "+
	"Tensor[] step_sizes, Tensor[] state_steps=[], bool? foreach=None, bool capturable=False, bool maximize=False, "+
	"bool differentiable=False, bool has_complex=False, *, float step_size_min, float step_size_max, "+
	"float etaminus, float etaplus) -> ()",
	opdef.Doc{
		Summary: "Step of resilient backpropagation of torch.optim, by calls of single tensors or of lists",
		Formula: "size = clamp(size * (etaplus if grad*prev > 0, etaminus if grad*prev < 0, else 1), step_size_min, " +
			"step_size_max); prev = 0 if grad*prev < 0, else grad; params -= size*sign(prev)",
		Notes:  countNote + betweenNote,
		Source: "torch.optim.Rprop",
	}, (*rpropArgs).plan)

type rpropArgs struct {
	Params, Grads, Prevs, StepSizes, StateSteps []*tensor.Tensor

	Foreach                                          *bool
	Capturable, Maximize, Differentiable, HasComplex bool
	StepSizeMin, StepSizeMax, Etaminus, Etaplus      float64
}

// A turn is what Rprop does where the gradient has, or has not, the sign that it had.
type turn struct {
	same, other float64 // times the size of the step
	least, most float64 // of that size
	steps       bool    // the parameter steps all the same where the sign is another one
	stored      bool    // the gradient is stored there, not 0
	stays       bool    // prev is not changed
	oldSize     bool    // the step has the size from before
	magnitude   bool    // the step is that size times the gradient, not times its sign
	before      bool    // the step has the sign of the gradient of the step before
}

func (a *rpropArgs) plan() (*fusedStep, error) {
	rounded, err := wholeStep(0, nil, a.Params, a.Prevs, a.StepSizes)
	if err != nil {
		return nil, err
	}
	sound := rule{size: 1, between: rounded,
		turn: turn{same: a.Etaplus, other: a.Etaminus, least: a.StepSizeMin, most: a.StepSizeMax}}
	return countedStep(a.step, sound, a.slips(), a.StateSteps, false)
}

// slips are what kernels of Rprop get wrong.
func (a *rpropArgs) slips() []slip {
	return []slip{
		{"the parameter steps all the same where the sign of the gradient is another one",
			func(r *rule) { r.turn.steps = true }},
		{"the gradient is stored also where its sign is another one", func(r *rule) { r.turn.stored = true }},
		{"the gradient is not set to 0 where its sign is another one",
			func(r *rule) { r.turn.steps, r.turn.stored = true, true }},
		{"etaminus and etaplus are exchanged",
			func(r *rule) { r.turn.same, r.turn.other = r.turn.other, r.turn.same }},
		{"step_size is not multiplied by etaplus", func(r *rule) { r.turn.same = 1 }},
		{"step_size is not multiplied by etaminus", func(r *rule) { r.turn.other = 1 }},
		{"step_size is multiplied neither by etaminus nor by etaplus",
			func(r *rule) { r.turn.same, r.turn.other = 1, 1 }},
		{"step_size_max is not looked at", func(r *rule) { r.turn.most = math.Inf(1) }},
		{"step_size_min is not looked at", func(r *rule) { r.turn.least = 0 }},
		{"step_size is not limited", func(r *rule) { r.turn.least, r.turn.most = 0, math.Inf(1) }},
		{"the step is made by step_size from before it", func(r *rule) { r.turn.oldSize = true }},
		{"the step is step_size times the gradient, not times its sign",
			func(r *rule) { r.turn.magnitude = true }},
		{"the step has the sign of the gradient before, not of the new one", func(r *rule) { r.turn.before = true }},
		{"prev is not changed", func(r *rule) { r.turn.stays = true }},
		updateSlips[0],
	}
}

func (a *rpropArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "prevs", "step_sizes"}, a.Params, a.Grads, a.Prevs, a.StepSizes)
	if err != nil {
		return nil, err
	}
	f.rule = func(i int) func(v, s []float64) {
		turn, dt := rule.turn, a.Params[i].DType
		turn.same, turn.other = dt.Round(turn.same), dt.Round(turn.other) // they are put into a tensor
		return func(v, s []float64) {
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.Maximize))
			by, prev, size := g, v[2], v[3]
			product := dt.Round(g * prev) // of tiny ones it is 0
			switch {
			case product > 0:
				v[3] *= turn.same
			case product < 0:
				v[3] *= turn.other
				if !turn.steps {
					by = 0
				}
			}
			v[3] = min(max(v[3], turn.least), turn.most)
			if product < 0 && !turn.stored {
				v[2] = 0
			} else {
				v[2] = g
			}
			if turn.stays {
				v[2] = prev
			}
			if turn.before {
				by = prev
			}
			if !turn.magnitude {
				by = sign(by)
			}
			if !turn.oldSize {
				size = v[3]
			}
			s[2], s[3] = gs, v[3]
			rule.update(v, s, rule.size*size, by, math.Abs(by))
		}
	}
	return f, nil
}

// sign is -1, 0 or 1, or NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}
