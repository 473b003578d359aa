package optim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// optimizerOps are the fused steps of optimizers and of loss scaling. All but
// _amp_update_scale_ return None and change the tensors they are given.
var optimizerOps = []*opdef.Entry{
	fusedAdam("_fused_adam_", "Adam", false, fusedOp[adamArgs]),
	fusedAdam("_fused_adamw_", "AdamW", true, fusedOp[adamArgs]),
	fusedAdam("_fused_adam", "Adam", false, freshOp[adamArgs]),
	fusedAdam("_fused_adamw", "AdamW", true, freshOp[adamArgs]),
	fusedSGD("_fused_sgd_", "The values between them are not rounded.", unrounded, fusedOp[sgdArgs]),
	fusedSGD("_fused_sgd", "The values between them are not rounded.", unrounded, freshOp[sgdArgs]),
	fusedSGD("diopi.sgd", "The values between them have the dtype of self, as in torch.optim without foreach.",
		tensor.DType.Round, fusedOp[sgdArgs]),
	fusedOp("_fused_adagrad_", "_fused_adagrad_(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, "+
		"*, Tensor|Scalar lr, float lr_decay, "+
		"float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
		opdef.Doc{
			Summary: "Step of Adagrad on lists of tensors",
			Formula: "sum += grad**2; self -= lr/(1 + (step-1)*lr_decay) * grad/(sqrt(sum) + eps)",
			Notes:   fusedNote, Source: "torch.optim.Adagrad",
		}, func(a *adagradArgs) (*fusedStep, error) {
			return mistakable(a.step, a.rule(), a.slips(a.rule()))
		}),
	fusedOp("diopi.adadelta", "adadelta(Tensor[] self, Tensor[] grads, Tensor[] square_avgs, Tensor[] acc_deltas, *, "+
		"float lr, float rho, float eps, float weight_decay) -> ()",
		opdef.Doc{
			Summary: "Step of Adadelta on lists of tensors",
			Formula: "v = rho*v + (1-rho)*grad**2; delta = sqrt(u + eps)/sqrt(v + eps) * grad; " +
				"u = rho*u + (1-rho)*delta**2; self -= lr*delta",
			Notes: "v and u are square_avgs and acc_deltas. " + decayNote, Source: "torch.optim.Adadelta, diopiAdadelta",
		}, func(a *adadeltaArgs) (*fusedStep, error) {
			return mistakable(a.step, a.rule(), a.slips(a.rule()))
		}),
	fusedOp("diopi.rmsprop", "rmsprop(Tensor[] self, Tensor[] grads, Tensor[] square_avgs, Tensor[] grad_avgs, "+
		"Tensor[] momentum_buffer_list, *, float lr, float alpha, float eps, float weight_decay, float momentum, "+
		"bool centered) -> ()",
		opdef.Doc{
			Summary: "Step of RMSprop on lists of tensors",
			Formula: "v = alpha*v + (1-alpha)*grad**2; buf = momentum*buf + grad/(sqrt(v - m**2) + eps); self -= lr*buf",
			Notes: "m is alpha*m + (1-alpha)*grad if centered, else 0. Lists that a step does not use may be empty. " +
				decayNote, Source: "torch.optim.RMSprop, diopiRmsprop",
		}, func(a *rmspropArgs) (*fusedStep, error) {
			return mistakable(a.step, a.rule(), a.slips(a.rule()))
		}),
	fusedOp("_amp_foreach_non_finite_check_and_unscale_", "_amp_foreach_non_finite_check_and_unscale_(Tensor[] self, "+
		"Tensor found_inf, Tensor inv_scale) -> ()",
		opdef.Doc{
			Summary: "Multiplies gradients by a factor and reports those that are not finite",
			Formula: "self *= inv_scale; found_inf = 1 if an element was infinite or NaN",
			Source:  "torch.cuda.amp.GradScaler",
		}, (*unscaleArgs).step),
	opdef.Op[updateScaleArgs]{
		Schema: "_amp_update_scale_(Tensor self, Tensor growth_tracker, Tensor found_inf, float " +
			"scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor",
		Names:  "_amp_update_scale_",
		Traits: opdef.Traits{InPlace: true, NoGrad: "torch defines none for _amp_update_scale_"},
		Doc: opdef.Doc{Summary: "Updates the factor of loss scaling",
			Formula: "self*scale_backoff_factor if found_inf, self*scale_growth_factor after growth_interval steps " +
				"without, else self",
			Notes:  "growth_tracker counts the steps. A factor that would become infinite stays.",
			Source: "torch.cuda.amp.GradScaler"},
		Error: elements.RoundedError,
		Kernel: func(a *updateScaleArgs) ([]*tensor.Tensor, error) {
			s, _, err := a.update()
			return []*tensor.Tensor{s}, err
		},
		Cases: opdef.Calls[updateScaleArgs](`
			f32[]{= 1024}, i32[]{= 0}, f32[]{= 0}, 2.0, 0.5, 5; f32[]{= 1024}, i32[]{= 4}, f32[]{= 0}, 2.0, 0.5, 5
			f32[]{= 1024}, i32[]{= 0}, f32[]{= 1}, 2.0, 0.5, 5; f32[]{= 1024}, i32[]{= 4}, f32[]{= 1}, 2.0, 0.5, 5`),
	}.Entry(),
}

func (a *updateScaleArgs) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	_, n, err := a.update()
	return map[string][]*tensor.Tensor{"growth_tracker": {n}}, err
}

// What steps do to the gradient first.
const (
	decayNote = "weight_decay*self is added to grad."
	fusedNote = "grad is divided by grad_scale, which is stored, and weight_decay*self added to it. Nothing " +
		"changes if found_inf is 1."
)

type (
	adamArgs struct {
		Self, Grads, ExpAvgs, ExpAvgSqs, MaxExpAvgSqs, StateSteps []*tensor.Tensor

		Lr                             *tensor.Tensor
		Beta1, Beta2, WeightDecay, Eps float64
		Amsgrad, Maximize              bool
		GradScale, FoundInf            *tensor.Tensor

		tensors bool // both corrections are computed as tensors of few digits
	}
	sgdArgs struct {
		Self, Grads, MomentumBufferList []*tensor.Tensor

		WeightDecay, Momentum, Dampening float64
		Lr                               *tensor.Tensor
		Nesterov, Maximize, IsFirstStep  bool
		GradScale, FoundInf              *tensor.Tensor
	}
	adagradArgs struct {
		Self, Grads, StateSums, StateSteps []*tensor.Tensor

		Lr                        *tensor.Tensor
		LrDecay, WeightDecay, Eps float64
		Maximize                  bool
		GradScale, FoundInf       *tensor.Tensor
	}
	adadeltaArgs struct {
		Self, Grads, SquareAvgs, AccDeltas []*tensor.Tensor

		Lr, Rho, Eps, WeightDecay float64

		maximize bool // only functions of torch.optim can
	}
	rmspropArgs struct {
		Self, Grads, SquareAvgs, GradAvgs, MomentumBufferList []*tensor.Tensor

		Lr, Alpha, Eps, WeightDecay, Momentum float64
		Centered                              bool

		maximize bool // only functions of torch.optim can
	}
	unscaleArgs struct {
		Self               []*tensor.Tensor
		FoundInf, InvScale *tensor.Tensor
	}
	updateScaleArgs struct {
		Self, GrowthTracker, FoundInf         *tensor.Tensor
		ScaleGrowthFactor, ScaleBackoffFactor float64
		GrowthInterval                        int
	}
)

// A fusedStep is one step of an optimizer: lists of tensors, of which item i of
// all belongs to parameter i.
type fusedStep struct {
	names []string // of the arguments, "" of those that the step leaves as they are
	lists [][]*tensor.Tensor
	// rule gives, for parameter i, the function that replaces the values v of
	// one element of each list by the new ones, and stores in s the magnitudes
	// of the terms they are made of.
	rule    func(i int) func(v, s []float64)
	between bool       // the step is made of calls that round what is between them
	either  *fusedStep // another step that is as right, nil if there is none
	// more are changes of single tensors.
	more map[string][]*tensor.Tensor
	// mistakes are steps that kernels take instead.
	mistakes []opdef.Mistake[any]
}

// changes are the new values of all lists, or their scales.
func (f *fusedStep) changes(scales bool) map[string][]*tensor.Tensor {
	out := map[string][]*tensor.Tensor{}
	for k, name := range f.names {
		if name == "" {
			continue
		}
		for i, t := range f.lists[k] {
			switch {
			case f.rule != nil:
				t = f.change(k, i, scales)
			case scales:
				t = opdef.Abs(t)
			}
			out[name] = append(out[name], t)
		}
	}
	for name, ts := range f.more {
		out[name] = ts
	}
	return out
}

func (f *fusedStep) change(k, i int, scales bool) *tensor.Tensor {
	rule := f.rule(i)
	ts := make([]*tensor.Tensor, len(f.lists))
	for j, l := range f.lists {
		ts[j] = l[i]
	}
	dt, coarse := ts[k].DType, 1.0
	if scales {
		dt, coarse = tensor.Float64, f.coarseness(k, i)
	}
	return opdef.ZipN(dt, ts[k].Shape, func(dst []float64, src [][]float64) {
		v, s := make([]float64, len(src)), make([]float64, len(src))
		for e := range dst {
			for j := range src {
				v[j], s[j] = src[j][e], 0
			}
			rule(v, s)
			if dst[e] = v[k]; scales {
				dst[e] = coarse * s[k]
			}
		}
	}, ts...)
}

// coarseness is how much coarser than float32 the roundings are of what list k holds of parameter i, if the calls of
// the step round to 16 bits.
func (f *fusedStep) coarseness(k, i int) float64 {
	coarse := 1.0
	for _, l := range f.lists {
		if f.between && l[i].DType.IsHalf() {
			coarse = max(coarse, elements.EpsOverFloat32(l[i].DType))
		}
	}
	const counted = 8 // half units by which S counts roundings
	switch {
	case coarse == 1:
		return 1
	case k == 0:
		return coarse * ofSelf / counted
	}
	return coarse * ofStates / counted
}

// ErrorOf is the class of a step. One in 16 bits is rounded once, or its bound counts what is rounded before.
func (f *fusedStep) ErrorOf() opdef.Error {
	e := elements.ElementwiseError
	for _, l := range f.lists {
		for _, t := range l {
			if t.DType.IsHalf() {
				e.ULPs, e.Coarse = 1, f.between
			}
		}
	}
	return e
}

// onePer refuses a list that has not one tensor per parameter.
func onePer(name string, params, list []*tensor.Tensor) error {
	if len(list) != len(params) {
		return opdef.Refuse(name, "want %d tensors, one per parameter, got %d", len(params), len(list))
	}
	return nil
}

// newFusedStep refuses lists that do not belong together. Lists that are empty
// where the step has no use for them are left out before.
func newFusedStep(names []string, lists ...[]*tensor.Tensor) (*fusedStep, error) {
	for k, l := range lists {
		if err := onePer(names[k], lists[0], l); err != nil {
			return nil, err
		}
		for i, t := range l {
			if !slices.Equal(t.Shape, lists[0][i].Shape) {
				return nil, opdef.Refuse(names[k], "tensor %d has shape %s, its parameter %s", i,
					tensor.ShapeString(t.Shape), tensor.ShapeString(lists[0][i].Shape))
			}
			if !t.DType.IsFloat() {
				return nil, opdef.Refuse(names[k], "not defined for dtype %s", t.DType)
			}
		}
	}
	if len(lists[0]) == 0 {
		return nil, opdef.Refuse("self", "want at least one tensor")
	}
	return &fusedStep{names: names, lists: lists}, nil
}

// fusedOp declares an op that returns None and changes lists of tensors.
func fusedOp[A any](names, schema string, doc opdef.Doc, step func(a *A) (*fusedStep, error)) *opdef.Entry {
	return opdef.Planned[*A, *fusedStep]{
		Schema: schema, Names: names, Doc: doc, Error: elements.ElementwiseError,
		Traits: opdef.Traits{NoGrad: "it returns nothing"},
		Plan:   step,
	}.Entry()
}

// declaring makes the entry of an operator that does a step: fusedOp or freshOp.
type declaring[A any] func(names, schema string, doc opdef.Doc, step func(a *A) (*fusedStep, error)) *opdef.Entry

func unrounded(_ tensor.DType, x float64) float64 { return x }

// A freshStep is a step that gives new lists of tensors, and changes none.
type freshStep struct {
	step *fusedStep
	rest []*tensor.Tensor // of a list that the step does not change
}

// freshOp declares an op that does a step and gives the lists that fusedOp would change.
func freshOp[A any](names, schema string, doc opdef.Doc, step func(a *A) (*fusedStep, error)) *opdef.Entry {
	return opdef.Planned[*A, *freshStep]{
		Cases:  func(g opdef.Gen) []*A { return freshCases(g, new(A)) },
		Schema: strings.TrimSuffix(schema, "()") + "Tensor[]", Names: names, Doc: doc, Error: elements.ElementwiseError,
		Traits: opdef.Traits{NoGrad: "no gradient flows through a step"},
		Plan: func(a *A) (*freshStep, error) {
			f, err := step(a)
			if err != nil {
				return nil, err
			}
			return &freshStep{f, unchanged(a, f)}, nil
		},
		Kernel: func(f *freshStep) ([]*tensor.Tensor, error) { return f.results(false), nil },
		Bounds: opdef.Bounds[*freshStep]{
			Scale: func(f *freshStep, _ []*tensor.Tensor) []*tensor.Tensor { return f.results(true) },
		},
	}.Entry()
}

// freshCases are arguments of a step, one with each option and one without.
func freshCases[A any](g opdef.Gen, a *A) (out []*A) {
	list := func(lo, hi float64) []*tensor.Tensor {
		return []*tensor.Tensor{g.Uniform(tensor.Float32, lo, hi, 3, 4), g.Uniform(tensor.Float32, lo, hi, 5)}
	}
	steps := []*tensor.Tensor{tensor.Full(tensor.Float32, nil, 3.0), tensor.Full(tensor.Float32, nil, 7.0)}
	lr := tensor.Wrap(0.1)
	for _, with := range []bool{false, true} {
		b := *a
		switch x := any(&b).(type) {
		case *adamArgs:
			*x = adamArgs{Self: list(-1, 1), Grads: list(-1, 1), ExpAvgs: list(-1, 1), ExpAvgSqs: list(0.1, 1),
				StateSteps: steps, Lr: lr, Beta1: 0.9, Beta2: 0.99, Eps: 1e-3}
			if with {
				x.MaxExpAvgSqs, x.Amsgrad, x.Maximize, x.WeightDecay = list(0.1, 1), true, true, 0.1
			}
		case *sgdArgs:
			*x = sgdArgs{Self: list(-1, 1), Grads: list(-1, 1), MomentumBufferList: list(-1, 1), Lr: lr}
			if with {
				x.Momentum, x.Nesterov, x.WeightDecay = 0.9, true, 0.1
			}
		}
		out = append(out, &b)
	}
	return out
}

// unchanged is the last list of a step's arguments, if the step leaves it as it is.
func unchanged(args any, f *fusedStep) []*tensor.Tensor {
	switch a := args.(type) {
	case *adamArgs:
		if !a.Amsgrad {
			return a.MaxExpAvgSqs
		}
	case *sgdArgs:
		if !slices.Contains(f.names, "momentum_buffer_list") {
			return a.MomentumBufferList
		}
	}
	return nil
}

// results are the lists one after the other, or the sizes of their errors.
func (f *freshStep) results(scales bool) (out []*tensor.Tensor) {
	all := f.step.changes(scales)
	for _, name := range f.step.names {
		out = append(out, all[name]...)
	}
	for _, t := range f.rest {
		if scales {
			t = opdef.Abs(t)
		}
		out = append(out, t)
	}
	return out
}

// Mistakes are those of the step.
func (f *freshStep) Mistakes() []opdef.Mistake[any] {
	return opdef.MistakesOf(f.step.mistakes, func(p any) any { return &freshStep{p.(*fusedStep), f.rest} })
}

func (*fusedStep) Value() (value.Value, error) { return nil, nil }

func (f *fusedStep) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return f.changes(false), nil
}

func (f *fusedStep) AfterScale() map[string][]*tensor.Tensor {
	return f.changes(true)
}

// AfterElse are the values of the other step that is as right.
func (f *fusedStep) AfterElse() map[string][][]*tensor.Tensor {
	if f.either == nil {
		return nil
	}
	out := map[string][][]*tensor.Tensor{}
	for name, ts := range f.either.changes(false) {
		for _, t := range ts {
			out[name] = append(out[name], []*tensor.Tensor{t})
		}
	}
	return out
}

func (f *fusedStep) Mistakes() []opdef.Mistake[any] { return f.mistakes }

// elementOr is the single element of t, or otherwise if there is no t.
func elementOr(t *tensor.Tensor, otherwise float64) float64 {
	if t == nil || t.Numel() == 0 {
		return otherwise
	}
	return tensor.At[float64](t, 0)
}

// incoming is the gradient as a step starts from it: without the factor of loss
// scaling (that is stored back), negated if the objective is maximized.
func incoming(stored *float64, scale float64, maximize bool) float64 {
	*stored /= scale
	if maximize {
		return -*stored
	}
	return *stored
}

func fusedAdam(name, title string, decoupled bool, declare declaring[adamArgs]) *opdef.Entry {
	decay := "weight_decay*self is added to it"
	if decoupled {
		decay = "self is first multiplied by 1 - lr*weight_decay"
	}
	return declare(name, name+"(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "+
		"Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, "+
		"Tensor|Scalar lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "+
		"Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
		opdef.Doc{
			Summary: "Step of " + title + " on lists of tensors",
			Formula: "m = beta1*m + (1-beta1)*grad; v = beta2*v + (1-beta2)*grad**2; self -= lr/(1-beta1**step) * m " +
				"/ (sqrt(v/(1-beta2**step)) + eps)",
			Notes: "grad is divided by grad_scale, which is stored; " + decay +
				". With amsgrad the largest v so far takes its place. Nothing changes if found_inf is 1.",
			Source: "torch.optim." + title,
		}, func(a *adamArgs) (*fusedStep, error) {
			sound := a.rule(decoupled)
			return mistakable(a.step, sound, a.slips(sound))
		})
}

// rule is the sound step of Adam, or of AdamW, whose weight decay is decoupled.
func (a *adamArgs) rule(decoupled bool) rule {
	r := rule{size: elementOr(a.Lr, 0), averages: [2]weights{{a.Beta1, 1 - a.Beta1}, {a.Beta2, 1 - a.Beta2}}}
	if decoupled {
		r.shrink = r.size * a.WeightDecay
	} else {
		r.coupled = a.WeightDecay
	}
	return r
}

// slips are what kernels of Adam get wrong.
func (a *adamArgs) slips(sound rule) (all []slip) {
	add := func(text string, with func(r *rule)) { all = append(all, slip{text, with}) }
	add("exp_avg is not corrected for its beginning", func(r *rule) { r.plain[0] = true })
	add("exp_avg_sq is not corrected for its beginning", func(r *rule) { r.plain[1] = true })
	add("neither average is corrected for its beginning", func(r *rule) { r.plain = [2]bool{true, true} })
	add("beta1 and beta2 are exchanged in both averages, not in their corrections", func(r *rule) {
		r.averages[0], r.averages[1] = r.averages[1], r.averages[0]
	})
	add("the corrections of both averages are exchanged", func(r *rule) { r.turned = [2]bool{true, true} })
	all = append(all, countSlips...)
	for k, name := range []string{"exp_avg", "exp_avg_sq"} {
		add("the correction of "+name+" alone counts one step less", func(r *rule) { r.lateIn[k] = -1 })
		add("the correction of "+name+" alone counts one step more", func(r *rule) { r.lateIn[k] = 1 })
		add(fmt.Sprintf("%s is corrected by beta%d, not by beta%d", name, 2-k, 1+k),
			func(r *rule) { r.turned[k] = true })
	}
	add("eps is added before the root is corrected", func(r *rule) { r.root = rootUncorrected })
	add("eps is added under the root before that is corrected", func(r *rule) { r.root = rootBefore })
	add("the correction of exp_avg_sq is applied to its root", func(r *rule) { r.root = rootFirst })
	if a.GradScale != nil {
		add("grads is multiplied by grad_scale, not divided", func(r *rule) { r.inverse = true })
	}
	all = append(all, rootSlips...)
	all = append(all, decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)...)
	for k, name := range []string{"exp_avg", "exp_avg_sq"} {
		all = append(all, averageSlips(k, name, sound.averages[1-k])...)
	}
	add("exp_avg_sq is made of the square of exp_avg, not of the gradient's", func(r *rule) { r.power = ofAverage })
	add("exp_avg_sq is made of the gradient's magnitude, not of its square", func(r *rule) { r.power = ofMagnitude })
	add("exp_avg_sq is made of the square of what the gradient differs from exp_avg", func(r *rule) {
		r.power = ofDifference
	})
	add("the gradient is added to exp_avg once more for the update, as in NAdam", func(r *rule) { r.again = true })
	if a.Amsgrad {
		add("max_exp_avg_sq is not looked at", func(r *rule) { r.limit = true })
		add("max_exp_avg_sq is taken from before the step", func(r *rule) { r.early = true })
	}
	return append(all, updateSlips...)
}

func (a *adamArgs) step(rule rule) (*fusedStep, error) {
	names := []string{"self", "grads", "exp_avgs", "exp_avg_sqs"}
	lists := [][]*tensor.Tensor{a.Self, a.Grads, a.ExpAvgs, a.ExpAvgSqs}
	if a.Amsgrad {
		names, lists = append(names, "max_exp_avg_sqs"), append(lists, a.MaxExpAvgSqs)
	}
	f, err := newFusedStep(names, lists...)
	if err := cmp.Or(err, onePer("state_steps", a.Self, a.StateSteps)); err != nil {
		return nil, err
	}
	if elementOr(a.FoundInf, 0) == 1 {
		return f, nil
	}
	scale := elementOr(a.GradScale, 1)
	if rule.inverse {
		scale = 1 / scale
	}
	f.rule = func(i int) func(v, s []float64) {
		steps := elementOr(a.StateSteps[i], 1) + rule.late
		size, root, betas := rule.size, 1.0, [2]float64{a.Beta1, a.Beta2}
		for k := range betas {
			if rule.turned[k] {
				betas[k] = [2]float64{a.Beta2, a.Beta1}[k]
			}
		}
		if !rule.plain[0] {
			size /= 1 - math.Pow(betas[0], steps+rule.lateIn[0])
		}
		if !rule.plain[1] {
			root = math.Sqrt(1 - math.Pow(betas[1], steps+rule.lateIn[1]))
		}
		factor, divided, few := rule.rectified.of(a.Beta2, steps)
		size *= factor
		// How much larger the terms of the corrections are than these, in roundings of the parameter.
		lost := 1 + few*tensor.Float64.Eps()/a.Self[i].DType.Eps()
		if a.tensors {
			lost += math.Abs(size/rule.size) + 1/(root*root)
		}
		return func(v, s []float64) {
			old := [2]float64{v[2], v[3]}
			g, gs := rule.decayed(v, s, incoming(&v[1], scale, a.Maximize))
			m := rule.averages[0].of(v[2], g)
			sq := rule.averages[1].of(v[3], rule.power.of(g, m))
			s[2] = rule.averages[0].size(v[2], gs)
			s[3] = rule.averages[1].size(v[3], gs*gs)
			v[2], v[3] = m, sq
			if a.Amsgrad {
				before := v[4]
				v[4], s[4] = max(before, sq), s[3]
				switch {
				case rule.early:
					sq = before
				case !rule.limit:
					sq = v[4]
				}
			}
			if rule.old[0] {
				m = old[0]
			}
			if rule.old[1] {
				sq = old[1]
			}
			if rule.raw {
				m = g
			}
			if rule.again {
				m = rule.averages[0].of(m, g)
			}
			by, blur := size, 1.0
			if divided {
				var divisor float64
				divisor, blur = rule.divisor(sq, root, a.Eps)
				by /= divisor
			}
			rule.update(v, s, by, m, blur*lost*s[2])
		}
	}
	return f, nil
}

func fusedSGD(names, rounding string, round func(dt tensor.DType, x float64) float64,
	declare declaring[sgdArgs]) *opdef.Entry {
	return declare(names, names[strings.LastIndexByte(names, '.')+1:]+"(Tensor[] self, Tensor[] grads, Tensor[] "+
		"momentum_buffer_list, *, float weight_decay, float momentum, Tensor|Scalar lr, float dampening, bool nesterov, "+
		"bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
		opdef.Doc{
			Summary: "Step of stochastic gradient descent on lists of tensors",
			Formula: "buf = momentum*buf + (1-dampening)*grad; self -= lr*buf, or lr*(grad + momentum*buf) with " +
				"nesterov",
			Notes: fusedNote + " The buffers may be missing in the first step. " + rounding, Source: "torch.optim.SGD",
		}, func(a *sgdArgs) (*fusedStep, error) {
			sound := a.rule()
			step := func(r rule) (*fusedStep, error) { return a.step(round, r) }
			return mistakable(step, sound, a.slips(sound))
		})
}

func (a *sgdArgs) rule() rule {
	return rule{size: elementOr(a.Lr, 0), coupled: a.WeightDecay, ahead: a.Momentum,
		averages: [2]weights{{a.Momentum, 1 - a.Dampening}}}
}

// slips are what kernels of stochastic gradient descent get wrong.
func (a *sgdArgs) slips(sound rule) []slip {
	all := decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)
	add := func(text string, with func(r *rule)) { all = append(all, slip{text, with}) }
	if a.Momentum != 0 && a.IsFirstStep && a.Dampening != 0 {
		add("dampening applies in the first step, too", func(r *rule) {
			r.first, r.averages[0].keep = true, 0
		})
	}
	if a.Momentum != 0 && !a.IsFirstStep {
		add("dampening is momentum", func(r *rule) { r.averages[0].take = 1 - a.Momentum })
		add("lr is multiplied into the buffer", func(r *rule) { r.averages[0].take *= r.size; r.size = 1 })
		if a.Dampening != 0 {
			add("lr is multiplied into the buffer, dampening is not looked at", func(r *rule) {
				r.averages[0].take, r.size = r.size, 1
			})
		}
		if a.Dampening != 0 {
			add("momentum_buffer is multiplied by 1 - dampening, not the gradient", func(r *rule) {
				r.averages[0] = weights{a.Momentum * (1 - a.Dampening), 1}
			})
			add("momentum_buffer is multiplied by 1 - dampening, as the gradient is", func(r *rule) {
				r.averages[0].keep *= 1 - a.Dampening
			})
		}
		all = append(all, averageSlips(0, "momentum_buffer", weights{})...)
		if a.Nesterov {
			add("nesterov: the gradient is not added to momentum*momentum_buffer", func(r *rule) { r.alone = true })
			add("nesterov: momentum_buffer is added without momentum", func(r *rule) { r.ahead = 1 })
			add("nesterov: momentum_buffer is multiplied by 1 - dampening, not by momentum", func(r *rule) {
				r.ahead = 1 - a.Dampening
			})
		}
	}
	return append(all, updateSlips...)
}

func (a *sgdArgs) step(round func(dt tensor.DType, x float64) float64, rule rule) (*fusedStep, error) {
	names, lists := []string{"self", "grads"}, [][]*tensor.Tensor{a.Self, a.Grads}
	kept := a.Momentum != 0 && !(a.IsFirstStep && len(a.MomentumBufferList) == 0)
	if kept {
		names, lists = append(names, "momentum_buffer_list"), append(lists, a.MomentumBufferList)
	}
	f, err := newFusedStep(names, lists...)
	if err != nil || elementOr(a.FoundInf, 0) == 1 {
		return f, err
	}
	scale := elementOr(a.GradScale, 1)
	f.rule = func(i int) func(v, s []float64) {
		pass := func(x float64) float64 { return round(a.Self[i].DType, x) }
		return func(v, s []float64) {
			g, gs := rule.decayed(v, s, incoming(&v[1], scale, a.Maximize))
			g = pass(g)
			if a.Momentum != 0 {
				buf, bs := g, gs
				if !a.IsFirstStep || rule.first {
					w := rule.averages[0]
					was := 0.0
					if kept && !a.IsFirstStep { // in the first step there is none, or it was not initialised
						was = v[2]
					}
					buf, bs = pass(pass(w.keep*was)+w.take*g), w.size(was, gs)
				}
				before := 0.0
				if kept {
					before = v[2]
					v[2], s[2] = buf, bs
				}
				if rule.old[0] {
					buf = before
				}
				switch {
				case rule.raw:
				case a.Nesterov && rule.alone:
					g, gs = pass(rule.ahead*buf), math.Abs(rule.ahead)*bs
				case a.Nesterov:
					g, gs = pass(g+rule.ahead*buf), gs+math.Abs(rule.ahead)*bs
				default:
					g, gs = buf, bs
				}
			}
			rule.update(v, s, rule.size, g, gs)
		}
	}
	return f, nil
}

func (a *adagradArgs) rule() rule {
	return rule{size: elementOr(a.Lr, 0), coupled: a.WeightDecay, averages: [2]weights{{1, 1}}}
}

// slips are what kernels of Adagrad get wrong.
func (a *adagradArgs) slips(sound rule) []slip {
	all := append(slices.Clone(rootSlips), decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)...)
	if a.LrDecay != 0 {
		all = append(all, countSlips...)
	}
	all = append(all, averageSlips(0, "state_sum", weights{})...)
	all = append(all, slip{"state_sum is made of the gradient's magnitude, not of its square",
		func(r *rule) { r.power = ofMagnitude }})
	return append(all, updateSlips[:2]...)
}

func (a *adagradArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "state_sums"}, a.Self, a.Grads, a.StateSums)
	if err := cmp.Or(err, onePer("state_steps", a.Self, a.StateSteps)); err != nil {
		return nil, err
	}
	if elementOr(a.FoundInf, 0) == 1 {
		return f, nil
	}
	scale := elementOr(a.GradScale, 1)
	f.rule = func(i int) func(v, s []float64) {
		size := rule.size / (1 + (elementOr(a.StateSteps[i], 1)-1+rule.late)*a.LrDecay)
		return func(v, s []float64) {
			g, gs := rule.decayed(v, s, incoming(&v[1], scale, a.Maximize))
			sq := v[2]
			s[2] = rule.averages[0].size(v[2], gs*gs)
			if v[2] = rule.averages[0].of(v[2], rule.power.of(g, g)); !rule.old[0] {
				sq = v[2]
			}
			divisor, blur := rule.divisor(sq, 1, a.Eps)
			rule.update(v, s, size/divisor, g, gs*blur)
		}
	}
	return f, nil
}

func (a *adadeltaArgs) rule() rule {
	w := weights{a.Rho, 1 - a.Rho}
	return rule{size: a.Lr, coupled: a.WeightDecay, averages: [2]weights{w, w}, root: rootInside, upper: rootInside}
}

// slips are what kernels of Adadelta get wrong.
func (a *adadeltaArgs) slips(sound rule) []slip {
	all := decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)
	for k, name := range []string{"acc_delta", "square_avg"} {
		all = append(all, averageSlips(k, name, weights{})[1-k:]...) // acc_delta is taken from before the step
	}
	roots := func(of root) func(r *rule) { return func(r *rule) { r.root, r.upper = of, of } }
	return append(append(all, slip{"eps is added to the roots, not under them", roots(rootPlus)},
		slip{"the roots are not taken", roots(rootMissing)},
		slip{"eps is not added to acc_delta", func(r *rule) { r.upper = rootAlone }},
		slip{"eps is not added to square_avg", func(r *rule) { r.root = rootAlone }},
		slip{"eps is not added", roots(rootAlone)},
		slip{"the roots of acc_delta and square_avg are exchanged", func(r *rule) { r.inverted = true }},
		slip{"acc_delta is changed before the update reads it", func(r *rule) { r.fresh = true }},
		slip{"acc_delta is made of the square of the gradient, not of the update's",
			func(r *rule) { r.delta = deltaGradient }},
		slip{"acc_delta is made of the square of the update times lr", func(r *rule) { r.delta = deltaTimesRate }},
		slip{"acc_delta is made of the update's magnitude, not of its square",
			func(r *rule) { r.delta = deltaMagnitude }},
		slip{"square_avg is made of the gradient's magnitude, not of its square",
			func(r *rule) { r.power = ofMagnitude }}), updateSlips[:2]...)
}

func (a *adadeltaArgs) step(rule rule) (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "square_avgs", "acc_deltas"}, a.Self, a.Grads, a.SquareAvgs,
		a.AccDeltas)
	if err != nil {
		return nil, err
	}
	f.rule = func(int) func(v, s []float64) {
		deltas, squares := rule.averages[0], rule.averages[1]
		return func(v, s []float64) {
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.maximize))
			sq := v[2]
			s[2] = squares.size(v[2], gs*gs)
			if v[2] = squares.of(v[2], rule.power.of(g, g)); !rule.old[1] {
				sq = v[2]
			}
			divisor, blur := rule.divisor(sq, 1, a.Eps)
			ratio := rule.upper.of(v[3], 1, a.Eps) / divisor
			gs *= blur
			if rule.inverted {
				ratio = 1 / ratio
			}
			delta := ratio * g
			s[3] = deltas.size(v[3], ratio*gs*ratio*gs)
			v[3] = deltas.of(v[3], rule.delta.of(delta, g, rule.size))
			if rule.fresh {
				ratio = rule.upper.of(v[3], 1, a.Eps) / divisor
				delta = ratio * g
			}
			rule.update(v, s, rule.size, delta, ratio*gs)
		}
	}
	return f, nil
}

func (a *rmspropArgs) rule() rule {
	return rule{size: a.Lr, coupled: a.WeightDecay, averages: [2]weights{{a.Momentum, 1}, {a.Alpha, 1 - a.Alpha}},
		mean: weights{a.Alpha, 1 - a.Alpha}}
}

// slips are what kernels of RMSprop get wrong.
func (a *rmspropArgs) slips(sound rule) []slip {
	all := append(slices.Clone(rootSlips), decaySlips(sound, a.WeightDecay, a.WeightDecay*sound.size)...)
	all = append(all, averageSlips(1, "square_avg", weights{})...)
	if a.Momentum > 0 {
		all = append(all, slip{"lr is multiplied into the buffer", func(r *rule) {
			r.averages[0].take *= r.size
			r.size = 1
		}})
		all = append(all, averageSlips(0, "momentum_buffer", weights{})[1:]...)
	}
	if a.Centered {
		all = append(all, slip{"the square of grad_avg is not subtracted", func(r *rule) { r.whole = true }},
			slip{"the square of grad_avg from before the step is subtracted", func(r *rule) { r.oldMean = true }},
			slip{"grad_avg does not decay: what is kept of it is not multiplied",
				func(r *rule) { r.mean.keep = 1 }},
			slip{"what is new in grad_avg is not multiplied", func(r *rule) { r.mean.take = 1 }},
			slip{"the weights of grad_avg are exchanged", func(r *rule) {
				r.mean = weights{r.mean.take, r.mean.keep}
			}})
	}
	all = append(all, slip{"square_avg is made of the gradient's magnitude, not of its square",
		func(r *rule) { r.power = ofMagnitude }})
	return append(all, updateSlips...)
}

func (a *rmspropArgs) step(rule rule) (*fusedStep, error) {
	names, lists := []string{"self", "grads", "square_avgs"}, [][]*tensor.Tensor{a.Self, a.Grads, a.SquareAvgs}
	if a.Centered && len(a.GradAvgs) > 0 {
		names, lists = append(names, "grad_avgs"), append(lists, a.GradAvgs)
	}
	if a.Momentum > 0 && len(a.MomentumBufferList) > 0 {
		names, lists = append(names, "momentum_buffer_list"), append(lists, a.MomentumBufferList)
	}
	f, err := newFusedStep(names, lists...)
	if err != nil {
		return nil, err
	}
	mean, buffer := slices.Index(names, "grad_avgs"), slices.Index(names, "momentum_buffer_list")
	f.rule = func(int) func(v, s []float64) {
		// kept moves the average in list k, 0 if there is none, by the part new.
		kept := func(v, s []float64, k int, factor, next, scale float64) (x, size float64) {
			if k < 0 {
				return next, scale
			}
			s[k] = factor*math.Abs(v[k]) + scale
			v[k] = factor*v[k] + next
			return v[k], s[k]
		}
		return func(v, s []float64) {
			g, gs := rule.decayed(v, s, incoming(&v[1], 1, a.maximize))
			square := rule.averages[1]
			sq := v[2]
			now, _ := kept(v, s, 2, square.keep, square.take*rule.power.of(g, g), square.take*gs*gs)
			if !rule.old[1] {
				sq = now
			}
			cancelled := 1.0 // how much larger the terms of the variance are than it is
			if a.Centered {
				before := 0.0
				if mean >= 0 {
					before = v[mean]
				}
				w := rule.mean
				m, _ := kept(v, s, mean, w.keep, w.take*g, math.Abs(w.take)*gs)
				if rule.oldMean {
					m = before
				}
				if !rule.whole {
					cancelled = (sq + m*m) / (sq - m*m)
					sq -= m * m
				}
			}
			root, blur := rule.divisor(sq, 1, a.Eps)
			by, size := g/root, cancelled*gs/root*blur
			if w := rule.averages[0]; a.Momentum > 0 && !rule.raw {
				by, size = kept(v, s, buffer, w.keep, w.take*by, w.take*size)
			}
			rule.update(v, s, rule.size, by, size)
		}
	}
	return f, nil
}

func (a *unscaleArgs) step() (*fusedStep, error) {
	f, err := newFusedStep([]string{"self"}, a.Self)
	switch {
	case err != nil:
		return nil, err
	case a.FoundInf.Numel() != 1:
		return nil, opdef.Refuse("found_inf", "want one element, got shape %s", tensor.ShapeString(a.FoundInf.Shape))
	case a.InvScale.Numel() != 1:
		return nil, opdef.Refuse("inv_scale", "want one element, got shape %s", tensor.ShapeString(a.InvScale.Shape))
	}
	k := elementOr(a.InvScale, 1)
	f.rule = func(int) func(v, s []float64) { return func(v, _ []float64) { v[0] *= k } }
	found := elementOr(a.FoundInf, 0)
	for _, t := range a.Self {
		for _, x := range tensor.Data[float64](t) {
			if math.IsInf(x, 0) || x != x {
				found = 1
			}
		}
	}
	f.more = map[string][]*tensor.Tensor{"found_inf": {tensor.Full(a.FoundInf.DType, a.FoundInf.Shape, found)}}
	return f, nil
}

// update is the new factor and the new count.
func (a *updateScaleArgs) update() (scale, tracker *tensor.Tensor, err error) {
	for _, arg := range []opdef.Arg{{Name: "self", Tensor: a.Self}, {Name: "growth_tracker", Tensor: a.GrowthTracker},
		{Name: "found_inf", Tensor: a.FoundInf}} {
		if arg.Tensor.Numel() != 1 {
			return nil, nil, opdef.Refuse(arg.Name, "want one element, got shape %s",
				tensor.ShapeString(arg.Tensor.Shape))
		}
	}
	s, n := elementOr(a.Self, 0), tensor.At[int64](a.GrowthTracker, 0)
	switch {
	case elementOr(a.FoundInf, 0) != 0:
		s, n = s*a.ScaleBackoffFactor, 0
	case n+1 == int64(a.GrowthInterval):
		if grown := a.Self.DType.Round(s * a.ScaleGrowthFactor); !math.IsInf(grown, 0) {
			s = grown
		}
		n = 0
	default:
		n++
	}
	return tensor.Full(a.Self.DType, a.Self.Shape, s), tensor.Full(a.GrowthTracker.DType, a.GrowthTracker.Shape, n), nil
}
