package optim

import (
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
	fusedAdam("_fused_adam_", "Adam", false),
	fusedAdam("_fused_adamw_", "AdamW", true),
	fusedSGD("_fused_sgd_", "The values between them are not rounded.",
		func(_ tensor.DType, x float64) float64 { return x }),
	fusedSGD("diopi.sgd", "The values between them have the dtype of self, as in torch.optim without foreach.",
		tensor.DType.Round),
	fusedOp("_fused_adagrad_", "_fused_adagrad_(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, "+
		"*, Tensor|Scalar lr, float lr_decay, "+
		"float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
		opdef.Doc{
			Summary: "Step of Adagrad on lists of tensors",
			Formula: "sum += grad**2; self -= lr/(1 + (step-1)*lr_decay) * grad/(sqrt(sum) + eps)",
			Notes:   fusedNote, Source: "torch.optim.Adagrad",
		}, (*adagradArgs).step),
	fusedOp("diopi.adadelta", "adadelta(Tensor[] self, Tensor[] grads, Tensor[] square_avgs, Tensor[] acc_deltas, *, "+
		"float lr, float rho, float eps, float weight_decay) -> ()",
		opdef.Doc{
			Summary: "Step of Adadelta on lists of tensors",
			Formula: "v = rho*v + (1-rho)*grad**2; delta = sqrt(u + eps)/sqrt(v + eps) * grad; " +
				"u = rho*u + (1-rho)*delta**2; self -= lr*delta",
			Notes: "v and u are square_avgs and acc_deltas. " + decayNote, Source: "torch.optim.Adadelta, diopiAdadelta",
		}, (*adadeltaArgs).step),
	fusedOp("diopi.rmsprop", "rmsprop(Tensor[] self, Tensor[] grads, Tensor[] square_avgs, Tensor[] grad_avgs, "+
		"Tensor[] momentum_buffer_list, *, float lr, float alpha, float eps, float weight_decay, float momentum, "+
		"bool centered) -> ()",
		opdef.Doc{
			Summary: "Step of RMSprop on lists of tensors",
			Formula: "v = alpha*v + (1-alpha)*grad**2; buf = momentum*buf + grad/(sqrt(v - m**2) + eps); self -= lr*buf",
			Notes: "m is alpha*m + (1-alpha)*grad if centered, else 0. Lists that a step does not use may be empty. " +
				decayNote, Source: "torch.optim.RMSprop, diopiRmsprop",
		}, (*rmspropArgs).step),
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
	}
	rmspropArgs struct {
		Self, Grads, SquareAvgs, GradAvgs, MomentumBufferList []*tensor.Tensor

		Lr, Alpha, Eps, WeightDecay, Momentum float64
		Centered                              bool
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
	names []string // of the arguments
	lists [][]*tensor.Tensor
	// rule gives, for parameter i, the function that replaces the values v of
	// one element of each list by the new ones, and stores in s the magnitudes
	// of the terms they are made of.
	rule func(i int) func(v, s []float64)
	// more are changes of single tensors.
	more map[string][]*tensor.Tensor
	// mistakes are steps that kernels take instead.
	mistakes []opdef.Mistake[any]
}

// changes are the new values of all lists, or their scales.
func (f *fusedStep) changes(scales bool) map[string][]*tensor.Tensor {
	out := map[string][]*tensor.Tensor{}
	for k, name := range f.names {
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
	dt := ts[k].DType
	if scales {
		dt = tensor.Float64
	}
	return opdef.ZipN(dt, ts[k].Shape, func(dst []float64, src [][]float64) {
		v, s := make([]float64, len(src)), make([]float64, len(src))
		for e := range dst {
			for j := range src {
				v[j], s[j] = src[j][e], 0
			}
			rule(v, s)
			if dst[e] = v[k]; scales {
				dst[e] = s[k]
			}
		}
	}, ts...)
}

// newFusedStep refuses lists that do not belong together. Lists that are empty
// where the step has no use for them are left out before.
func newFusedStep(names []string, lists ...[]*tensor.Tensor) (*fusedStep, error) {
	for k, l := range lists {
		if len(l) != len(lists[0]) {
			return nil, opdef.Refuse(names[k], "want %d tensors, one per parameter, got %d", len(lists[0]), len(l))
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

func (*fusedStep) Value() (value.Value, error) { return nil, nil }

func (f *fusedStep) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return f.changes(false), nil
}

func (f *fusedStep) AfterScale() map[string][]*tensor.Tensor {
	return f.changes(true)
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

func fusedAdam(name, title string, decoupled bool) *opdef.Entry {
	decay := "weight_decay*self is added to it"
	if decoupled {
		decay = "self is first multiplied by 1 - lr*weight_decay"
	}
	return fusedOp(name, name+"(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "+
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
			right := adamRule{decoupled: decoupled}
			f, err := a.step(right)
			if err == nil {
				f.mistakes = a.mistakes(right)
			}
			return f, err
		})
}

// An adamRule is how a step of Adam is taken; without mistakes only decoupled may be set.
type adamRule struct {
	decoupled    bool    // weight decay is not added to the gradient
	late         float64 // is added to the number of the step
	plain        [2]bool // m and v are not corrected for having begun as 0
	inside       bool    // eps is added under the root
	uncorrected  bool    // eps is added to the root of v before its correction
	whole        bool    // weight decay is not multiplied by lr
	old          bool    // m is that before the step
	after        bool    // the decay of AdamW is taken after the step, of the new parameter
	first, limit bool    // v is made of the square of m; amsgrad's largest v is not looked at
}

// mistakes are what kernels of Adam get wrong.
func (a *adamArgs) mistakes(right adamRule) (out []opdef.Mistake[any]) {
	add := func(text string, with func(r *adamRule)) {
		rule := right
		with(&rule)
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			return a.step(rule)
		}})
	}
	add("exp_avg is not corrected for its beginning", func(r *adamRule) { r.plain[0] = true })
	add("exp_avg_sq is not corrected for its beginning", func(r *adamRule) { r.plain[1] = true })
	add("neither average is corrected for its beginning", func(r *adamRule) { r.plain = [2]bool{true, true} })
	add("state_steps is one less", func(r *adamRule) { r.late = -1 })
	add("state_steps is one more", func(r *adamRule) { r.late = 1 })
	add("eps is added under the root", func(r *adamRule) { r.inside = true })
	add("eps is added before the root is corrected", func(r *adamRule) { r.uncorrected = true })
	if a.WeightDecay != 0 {
		if right.decoupled {
			add("weight_decay*self is added to the gradient, as in Adam", func(r *adamRule) { r.decoupled = false })
			add("weight_decay is not multiplied by lr", func(r *adamRule) { r.whole = true })
			add("self decays after the step, not before", func(r *adamRule) { r.after = true })
		} else {
			add("self is multiplied by 1 - lr*weight_decay, as in AdamW", func(r *adamRule) { r.decoupled = true })
		}
	}
	add("exp_avg is taken from before the step", func(r *adamRule) { r.old = true })
	add("exp_avg_sq is made of the square of exp_avg, not of the gradient's", func(r *adamRule) { r.first = true })
	if a.Amsgrad {
		add("max_exp_avg_sq is not looked at", func(r *adamRule) { r.limit = true })
	}
	return out
}

func (a *adamArgs) step(rule adamRule) (*fusedStep, error) {
	names := []string{"self", "grads", "exp_avgs", "exp_avg_sqs"}
	lists := [][]*tensor.Tensor{a.Self, a.Grads, a.ExpAvgs, a.ExpAvgSqs}
	if a.Amsgrad {
		names, lists = append(names, "max_exp_avg_sqs"), append(lists, a.MaxExpAvgSqs)
	}
	f, err := newFusedStep(names, lists...)
	switch {
	case err != nil:
		return nil, err
	case len(a.StateSteps) != len(a.Self):
		return nil, opdef.Refuse("state_steps", "want %d tensors, one per parameter, got %d", len(a.Self),
			len(a.StateSteps))
	case elementOr(a.FoundInf, 0) == 1:
		return f, nil
	}
	lr, scale := elementOr(a.Lr, 0), elementOr(a.GradScale, 1)
	f.rule = func(i int) func(v, s []float64) {
		steps := elementOr(a.StateSteps[i], 1) + rule.late
		size, root := lr, 1.0
		if !rule.plain[0] {
			size /= 1 - math.Pow(a.Beta1, steps)
		}
		if !rule.plain[1] {
			root = math.Sqrt(1 - math.Pow(a.Beta2, steps))
		}
		decay := lr * a.WeightDecay
		if rule.whole {
			decay = a.WeightDecay
		}
		return func(v, s []float64) {
			p, g := v[0], incoming(&v[1], scale, a.Maximize)
			s[0], s[1] = math.Abs(p), math.Abs(v[1])
			gs := math.Abs(g)
			switch {
			case rule.after:
			case rule.decoupled:
				p -= decay * p
			default:
				g += a.WeightDecay * p
				gs += a.WeightDecay * math.Abs(p)
			}
			old := v[2]
			m := a.Beta1*v[2] + (1-a.Beta1)*g
			sq := a.Beta2*v[3] + (1-a.Beta2)*g*g
			if rule.first {
				sq = a.Beta2*v[3] + (1-a.Beta2)*m*m
			}
			s[2] = a.Beta1*math.Abs(v[2]) + (1-a.Beta1)*gs
			s[3] = a.Beta2*math.Abs(v[3]) + (1-a.Beta2)*gs*gs
			v[2], v[3] = m, sq
			if a.Amsgrad {
				if v[4], s[4] = max(v[4], sq), s[3]; !rule.limit {
					sq = v[4]
				}
			}
			over := size / (math.Sqrt(sq)/root + a.Eps)
			switch {
			case rule.inside:
				over = size / math.Sqrt(sq/root/root+a.Eps)
			case rule.uncorrected:
				over = size / ((math.Sqrt(sq) + a.Eps) / root)
			}
			if rule.old {
				m = old
			}
			if v[0] = p - over*m; rule.after {
				v[0] -= decay * v[0]
			}
			s[0] += over * s[2]
		}
	}
	return f, nil
}

func fusedSGD(names, rounding string, round func(dt tensor.DType, x float64) float64) *opdef.Entry {
	return fusedOp(names, names[strings.LastIndexByte(names, '.')+1:]+"(Tensor[] self, Tensor[] grads, Tensor[] "+
		"momentum_buffer_list, *, float weight_decay, float momentum, Tensor|Scalar lr, float dampening, bool nesterov, "+
		"bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
		opdef.Doc{
			Summary: "Step of stochastic gradient descent on lists of tensors",
			Formula: "buf = momentum*buf + (1-dampening)*grad; self -= lr*buf, or lr*(grad + momentum*buf) with " +
				"nesterov",
			Notes: fusedNote + " The buffers may be missing in the first step. " + rounding, Source: "torch.optim.SGD",
		}, func(a *sgdArgs) (*fusedStep, error) {
			f, err := a.step(round, sgdRule{})
			if err == nil {
				f.mistakes = a.mistakes(round)
			}
			return f, err
		})
}

// A sgdRule is what a step of stochastic gradient descent gets wrong.
type sgdRule struct {
	decay float64 // of self is taken away first
	inner bool    // lr is multiplied into the buffer
}

// mistakes are what kernels of stochastic gradient descent get wrong.
func (a *sgdArgs) mistakes(round func(dt tensor.DType, x float64) float64) (out []opdef.Mistake[any]) {
	add := func(text string, a sgdArgs, rule sgdRule) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			return a.step(round, rule)
		}})
	}
	if lr, decay := elementOr(a.Lr, 0), a.WeightDecay; decay != 0 {
		plain := *a
		plain.WeightDecay = 0
		const text = "self is multiplied by 1 - %s, nothing is added to the gradient"
		add(fmt.Sprintf(text, "lr*weight_decay"), plain, sgdRule{decay: lr * decay})
		add(fmt.Sprintf(text, "weight_decay"), plain, sgdRule{decay: decay})
	}
	if a.Momentum != 0 && !a.IsFirstStep {
		damped := *a
		damped.Dampening = a.Momentum
		add("dampening is momentum", damped, sgdRule{})
		add("lr is multiplied into the buffer", *a, sgdRule{inner: true})
	}
	return out
}

func (a *sgdArgs) step(round func(dt tensor.DType, x float64) float64, rule sgdRule) (*fusedStep, error) {
	names, lists := []string{"self", "grads"}, [][]*tensor.Tensor{a.Self, a.Grads}
	kept := a.Momentum != 0 && !(a.IsFirstStep && len(a.MomentumBufferList) == 0)
	if kept {
		names, lists = append(names, "momentum_buffer_list"), append(lists, a.MomentumBufferList)
	}
	f, err := newFusedStep(names, lists...)
	if err != nil || elementOr(a.FoundInf, 0) == 1 {
		return f, err
	}
	lr, scale := elementOr(a.Lr, 0), elementOr(a.GradScale, 1)
	f.rule = func(i int) func(v, s []float64) {
		pass := func(x float64) float64 { return round(a.Self[i].DType, x) }
		return func(v, s []float64) {
			g := incoming(&v[1], scale, a.Maximize)
			s[1] = math.Abs(v[1])
			gs := s[1] + a.WeightDecay*math.Abs(v[0])
			g = pass(g + a.WeightDecay*v[0])
			v[0] -= rule.decay * v[0]
			step := lr
			if rule.inner {
				g, gs, step = lr*g, lr*gs, 1
			}
			if a.Momentum != 0 {
				buf, bs := g, gs
				if !a.IsFirstStep {
					buf = pass(pass(a.Momentum*v[2]) + (1-a.Dampening)*g)
					bs = a.Momentum*math.Abs(v[2]) + math.Abs(1-a.Dampening)*gs
				}
				if kept {
					v[2], s[2] = buf, bs
				}
				if a.Nesterov {
					g, gs = pass(g+a.Momentum*buf), gs+a.Momentum*bs
				} else {
					g, gs = buf, bs
				}
			}
			s[0] = math.Abs(v[0]) + step*gs
			v[0] -= step * g
		}
	}
	return f, nil
}

func (a *adagradArgs) step() (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "state_sums"}, a.Self, a.Grads, a.StateSums)
	switch {
	case err != nil:
		return nil, err
	case len(a.StateSteps) != len(a.Self):
		return nil, opdef.Refuse("state_steps", "want %d tensors, one per parameter, got %d", len(a.Self),
			len(a.StateSteps))
	case elementOr(a.FoundInf, 0) == 1:
		return f, nil
	}
	lr, scale := elementOr(a.Lr, 0), elementOr(a.GradScale, 1)
	f.rule = func(i int) func(v, s []float64) {
		size := lr / (1 + (elementOr(a.StateSteps[i], 1)-1)*a.LrDecay)
		return func(v, s []float64) {
			g := incoming(&v[1], scale, a.Maximize)
			s[1] = math.Abs(v[1])
			gs := s[1] + a.WeightDecay*math.Abs(v[0])
			g += a.WeightDecay * v[0]
			s[2] = math.Abs(v[2]) + gs*gs
			v[2] += g * g
			over := size / (math.Sqrt(v[2]) + a.Eps)
			s[0] = math.Abs(v[0]) + over*gs
			v[0] -= over * g
		}
	}
	return f, nil
}

func (a *adadeltaArgs) step() (*fusedStep, error) {
	f, err := newFusedStep([]string{"self", "grads", "square_avgs", "acc_deltas"}, a.Self, a.Grads, a.SquareAvgs,
		a.AccDeltas)
	if err != nil {
		return nil, err
	}
	f.rule = func(int) func(v, s []float64) {
		return func(v, s []float64) {
			g, gs := v[1]+a.WeightDecay*v[0], math.Abs(v[1])+a.WeightDecay*math.Abs(v[0])
			s[1] = math.Abs(v[1])
			s[2] = a.Rho*math.Abs(v[2]) + (1-a.Rho)*gs*gs
			v[2] = a.Rho*v[2] + (1-a.Rho)*g*g
			ratio := math.Sqrt(v[3]+a.Eps) / math.Sqrt(v[2]+a.Eps)
			delta := ratio * g
			s[3] = a.Rho*math.Abs(v[3]) + (1-a.Rho)*ratio*gs*ratio*gs
			v[3] = a.Rho*v[3] + (1-a.Rho)*delta*delta
			s[0] = math.Abs(v[0]) + a.Lr*ratio*gs
			v[0] -= a.Lr * delta
		}
	}
	return f, nil
}

func (a *rmspropArgs) step() (*fusedStep, error) {
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
			g, gs := v[1]+a.WeightDecay*v[0], math.Abs(v[1])+a.WeightDecay*math.Abs(v[0])
			s[1] = math.Abs(v[1])
			sq, _ := kept(v, s, 2, a.Alpha, (1-a.Alpha)*g*g, (1-a.Alpha)*gs*gs)
			cancelled := 1.0 // how much larger the terms of the variance are than it is
			if a.Centered {
				m, _ := kept(v, s, mean, a.Alpha, (1-a.Alpha)*g, (1-a.Alpha)*gs)
				cancelled = (sq + m*m) / (sq - m*m)
				sq -= m * m
			}
			root := math.Sqrt(sq) + a.Eps
			by, size := g/root, cancelled*gs/root
			if a.Momentum > 0 {
				by, size = kept(v, s, buffer, a.Momentum, by, size)
			}
			s[0] = math.Abs(v[0]) + a.Lr*size
			v[0] -= a.Lr * by
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
