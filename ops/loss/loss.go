package loss

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// lossOps are losses with one term for each element.
var lossOps = []*opdef.Entry{
	elementLossOp(opdef.Planned[*plainLossArgs, *elementLoss]{
		Schema: "mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str " +
			"reduction='mean', Tensor? weight=None) -> Tensor",
		Names:  "F.mse_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Squared error", Formula: "(input - target)^2, averaged, added or left alone"},
		Cases:  plainLossCases(normalOperand),
		Plan: func(a *plainLossArgs) (*elementLoss, error) {
			return a.loss(&elementLoss{
				own: true,
				f:   func(v []float64) float64 { return (v[0] - v[1]) * (v[0] - v[1]) },
				df:  func(v, d []float64) { d[0] = 2 * (v[0] - v[1]); d[1] = -d[0] },
				ds:  func(v, d []float64) { d[0] = 2 * (math.Abs(v[0]) + math.Abs(v[1])); d[1] = d[0] },
			})
		},
	}),
	elementLossOp(opdef.Planned[*plainLossArgs, *elementLoss]{
		Schema: "l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str " +
			"reduction='mean', Tensor? weight=None) -> Tensor",
		Names:  "F.l1_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Absolute error", Formula: "|input - target|, averaged, added or left alone",
			Notes: "The gradient of no error is 0."},
		Cases: func(g opdef.Gen) []*plainLossArgs {
			c := func(shape ...int) *tensor.Tensor { return g.Normal(tensor.Complex128, shape...) }
			return append(plainLossCases(elements.DistinctOperand)(g), &plainLossArgs{Input: c(2, 3), Target: c(2, 3),
				Reduction: "mean"}, &plainLossArgs{Input: c(2, 3), Target: c(3), Reduction: "none"})
		},
		Plan: func(a *plainLossArgs) (*elementLoss, error) {
			dt := tensor.ResultType(a.Input, a.Target)
			if !dt.IsComplex() {
				return a.loss(absoluteError())
			}
			l, err := a.loss(complexError())
			x, y := opdef.Cast(a.Input, dt), opdef.Cast(a.Target, dt)
			l.complex, l.operands = dt, []*tensor.Tensor{elements.Real(x), elements.Real(y), elements.Imag(x),
				elements.Imag(y)}
			l.names = append(slices.Clone(inputTarget), inputTarget...)
			return l, err
		},
	}),
	elementLossOp(opdef.Planned[*smoothL1Args, *elementLoss]{
		Schema: "smooth_l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str " +
			"reduction='mean', float beta=1.0) -> Tensor",
		Names:  "F.smooth_l1_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Error:  opdef.Error{Shared: true},
		Doc: opdef.Doc{Summary: "Absolute error, squared where it is small",
			Formula: "d^2/(2*beta) if d < beta, else d - beta/2, with d = |input - target|"},
		Cases: lossPairs(true, normalOperand, normalOperand, func(g opdef.Gen, p lossPair) *smoothL1Args {
			return &smoothL1Args{Input: p.x, Target: p.t, Reduction: p.how, Beta: 0.5 + 0.25*float64(g.Nth)}
		}),
		Plan: func(a *smoothL1Args) (*elementLoss, error) {
			how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
			if a.Beta < 0 {
				return nil, opdef.Refuse("beta", "%v is negative", a.Beta)
			}
			l := absoluteError()
			if a.Beta > 0 {
				l = huber("beta", a.Beta, 1/a.Beta)
			}
			l.operands, l.names, l.how = []*tensor.Tensor{a.Input, a.Target}, inputTarget, how
			return l, err
		},
	}),
	elementLossOp(opdef.Planned[*huberArgs, *elementLoss]{
		Schema: "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? " +
			"weight=None) -> Tensor",
		Names:  "F.huber_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Error:  opdef.Error{Shared: true},
		Doc: opdef.Doc{Summary: "Squared error, absolute where it is large",
			Formula: "d^2/2 if d <= delta, else delta*(d - delta/2), with d = |input - target|"},
		Cases: lossPairs(true, normalOperand, normalOperand, func(g opdef.Gen, p lossPair) *huberArgs {
			return &huberArgs{Input: p.x, Target: p.t, Reduction: p.how, Delta: 0.5 + 0.25*float64(g.Nth)}
		}),
		Plan: func(a *huberArgs) (*elementLoss, error) {
			how, err := reductionOf(a.Reduction, nil, nil)
			if a.Delta <= 0 {
				return nil, opdef.Refuse("delta", "want a positive number, got %v", a.Delta)
			}
			l := huber("delta", a.Delta, 1)
			l.like = a.Input
			l.operands, l.names, l.how, l.weight, l.byWeight = []*tensor.Tensor{a.Input, a.Target}, inputTarget, how,
				a.Weight, true
			return l, err
		},
	}),
	elementLossOp(opdef.Planned[*bceArgs, *elementLoss]{
		Schema: "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, " +
			"bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.binary_cross_entropy",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Cross entropy of probabilities",
			Formula: "-weight*(target*log(input) + (1-target)*log(1-input))", Notes: "Logarithms are at least -100."},
		Cases: opdef.Calls[bceArgs](`
			f64[3, 4]{0.1..0.9}, f64[3, 4]{0.1..0.9}; f32[5]{0.1..0.9}, f32[5]{0.1..0.9}, reduction='sum'
			f64[]{0.1..0.9}, f64[]{0.1..0.9}, reduction='none'; f32[2, 0]{0.1..0.9}, f32[2, 0]{0.1..0.9}
			f64[2, 3, 2]{0.1..0.9 gaps}, f64[2, 3, 2]{0.1..0.9}, reduction='sum'
			bf16[4]{0.1..0.9}, bf16[4]{0.1..0.9}, reduction='none'
			f64[3, 4]{0.1..0.9}, f64[3, 4]{0.1..0.9}, weight=f64[4]{0.5..2 fixed}`),
		Plan: func(a *bceArgs) (*elementLoss, error) {
			how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
			if err != nil {
				return nil, err
			}
			if err := shapesAgree(a.Input, a.Target); err != nil {
				return nil, err
			}
			if err := inUnitInterval("input", a.Input); err != nil {
				return nil, err
			}
			return &elementLoss{
				operands: []*tensor.Tensor{a.Input, a.Target}, names: inputTarget, weight: a.Weight,
				how: how, own: true,
				f: func(v []float64) float64 {
					return -(v[1]*clampedLog(v[0]) + (1-v[1])*max(math.Log1p(-v[0]), -100))
				},
				df: func(v, d []float64) {
					d[0] = (v[0] - v[1]) / max(v[0]*(1-v[0]), 1e-12)
					d[1] = math.Log1p(-v[0]) - math.Log(v[0]) // not clamped, by torch neither
				},
				ds: func(v, d []float64) {
					x, t := v[0], math.Abs(v[1])
					d[0] = (x + t) / max(x*(1-x), 1e-12)
					d[1] = math.Abs(math.Log1p(-x)) + math.Abs(math.Log(x)) + 1/max(1-x, 1e-12)
				},
			}, nil
		},
	}),
	elementLossOp(opdef.Planned[*bceLogitsArgs, *elementLoss]{
		Schema: "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor",
		Names:  "F.binary_cross_entropy_with_logits",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Cross entropy of the sigmoid of logits",
			Formula: "weight*((1-target)*input + (1+(pos_weight-1)*target)*log(1+exp(-input)))"},
		Cases: opdef.Calls[bceLogitsArgs](`
			f64[3, 4], f64[3, 4]{0.1..0.9}; f32[5], f32[5]{0.1..0.9}, reduction='sum'
			f64[], f64[]{0.1..0.9}, reduction='none'; f32[2, 0], f32[2, 0]{0.1..0.9}
			f64[2, 3, 2]{gaps}, f64[2, 3, 2]{0.1..0.9}, reduction='sum'
			bf16[4], bf16[4]{0.1..0.9}, reduction='none'
			f64[3, 4], f64[3, 4]{0.1..0.9}, weight=f64[4]{0.5..2 fixed}, pos_weight=f64[4]{0.5..2 fixed}`),
		Plan: func(a *bceLogitsArgs) (*elementLoss, error) {
			how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
			if err != nil {
				return nil, err
			}
			if err := shapesAgree(a.Input, a.Target); err != nil {
				return nil, err
			}
			p := a.PosWeight
			if p == nil {
				p = tensor.Full(a.Input.DType, a.Input.Shape, 1.0)
			}
			if p.DType == tensor.Uint8 { // torch computes pos_weight - 1 in uint8: 0 - 1 is 255
				p = opdef.Map(tensor.Int32, p, func(x int64) int64 { return tensor.WrapInt(tensor.Uint8, x-1) + 1 })
			}
			return &elementLoss{
				operands: []*tensor.Tensor{a.Input, a.Target, p}, names: []string{"input", "target", ""},
				weight: a.Weight,
				how:    how, own: true, like: a.Target,
				f: func(v []float64) float64 {
					return (1-v[1])*v[0] + (1+(v[2]-1)*v[1])*kernel.Softplus(-v[0])
				},
				steps: func(round func(float64) float64, v []float64) float64 {
					rest := round(-kernel.Softplus(-v[0]))
					if v[2] != 1 {
						rest = round(rest * round(round(round(v[2]-1)*v[1])+1))
					}
					return round(round(round(1-v[1])*v[0]) - rest)
				},
				// For a negative input, the logarithm of the sigmoid contains the input.
				through: func(v []float64) float64 {
					return math.Abs((1-v[1])*v[0]) + math.Abs(1+(v[2]-1)*v[1])*max(0, -v[0])
				},
				df: func(v, d []float64) {
					x, t, p := v[0], v[1], v[2]
					s := sigmoidOf(x)
					d[0] = (1-t)*s - p*t*sigmoidOf(-x)
					if d[1] = -x; p != 1 {
						d[1] += (p - 1) * kernel.Softplus(-x)
					}
					d[2] = t * kernel.Softplus(-x)
				},
				ds: func(v, d []float64) {
					x, t, p := math.Abs(v[0]), math.Abs(v[1]), math.Abs(v[2])
					d[0] = (1+t+p*t)*sigmoidOf(v[0])*(1+x*sigmoidOf(-v[0])) + p*t
					d[1] = (p+1)*(kernel.Softplus(-v[0])+x) + x
					d[2] = t * kernel.Softplus(-v[0])
				},
			}, nil
		},
	}),
	elementLossOp(opdef.Planned[*klDivArgs, *elementLoss]{
		Schema: "kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str " +
			"reduction='mean', bool log_target=False) -> Tensor",
		Names:  "F.kl_div",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Divergence of a distribution from another, given by logarithms",
			Formula: "target*(log(target) - input), of a target in logarithms exp(target)*(target - input)",
			Notes:   "batchmean divides the sum by the first dimension."},
		Cases: opdef.Calls[klDivArgs](`
			f64[3, 4], f64[3, 4]{0.1..0.9}; f32[5], f32[5]{0.1..0.9}, reduction='sum', log_target=True
			f64[], f64[]{0.1..0.9}, reduction='none'; f32[2, 0], f32[2, 0]{0.1..0.9}, log_target=True
			f64[2, 3, 2]{gaps}, f64[2, 3, 2]{0.1..0.9}, reduction='sum'
			bf16[4], bf16[4]{0.1..0.9}, reduction='none', log_target=True; f64[3, 1], f64[4]{0.1..0.9}
			f64[2, 3], f64[3]{0.1..0.9}, reduction='none', log_target=True
			f64[3, 4], f64[3, 4]{0.1..0.9}, reduction='batchmean'`),
		Plan: klDiv,
	}),
	elementLossOp(opdef.Planned[*poissonArgs, *elementLoss]{
		Schema: "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? " +
			"size_average=None, float eps=1e-08, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.poisson_nll_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Negative logarithm of a Poisson likelihood",
			Formula: "exp(input) - target*input, or input - target*log(input + eps)",
			Notes:   "full adds Stirling's approximation of log(target!) where target > 1."},
		Cases: func(g opdef.Gen) []*poissonArgs {
			var cs []*poissonArgs
			for i, how := range []string{"mean", "sum", "none", "mean", "none"} {
				x, t := g.Uniform(tensor.Float64, 0.2, 2, 3, 4), g.Uniform(tensor.Float64, 1.5, 4, 3, 4)
				t.RequiresGrad = false
				cs = append(cs, &poissonArgs{Input: x, Target: t, LogInput: i%2 == 0, Full: i > 2, Eps: 1e-8,
					Reduction: how})
			}
			return cs
		},
		Plan: poissonLoss,
	}),
	elementLossOp(opdef.Planned[*gaussianArgs, *elementLoss]{
		Schema: "gaussian_nll_loss(Tensor input, Tensor target, Tensor|Scalar var, bool full=False, float " +
			"eps=1e-06, str reduction='mean') -> Tensor",
		Names: "F.gaussian_nll_loss",
		Doc: opdef.Doc{Summary: "Negative logarithm of a Gaussian likelihood",
			Formula: "(log(v) + (input - target)^2/v) / 2, with v = max(var, eps)",
			Notes:   "full adds log(2 pi)/2. The limit eps passes the gradient on."},
		Cases: opdef.Calls[gaussianArgs](`
			f64[3, 4], f64[3, 4], f64[3, 4]{0.5..2}
			f64[3, 4], f64[3, 4], f64[3]{0.5..2}, full=True, reduction='none'
			f64[3, 4], f64[3, 4], f64[3, 1]{0.5..2}, reduction='sum'`),
		Plan: gaussianLoss,
	}),
	compose.Declare(compose.Op[hingeArgs]{
		Schema: "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, bool? size_average=None, bool? " +
			"reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.hinge_embedding_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Distance of similar pairs, shortfall from the margin of others",
			Formula: "input if target is 1, max(0, margin - input) if -1"},
		Cases: opdef.Calls[hingeArgs](`
			f64[3, 4]{apart 0.5}, i64[3, 4]{= -1 1 -1 1 1 1 1 1 1 1 -1 1}, margin=0.5
			f32[5]{apart 0.5}, i64[5]{= -1 1 -1 1 1}, margin=0.5, reduction='sum'
			f64[]{apart 0.5}, i64[]{= 1}, margin=0.5, reduction='none'
			f32[2, 0]{apart 0.5}, i64[2, 0]{=}, margin=0.5
			f64[2, 3, 2]{apart 0.5 gaps}, i64[2, 3, 2]{= -1 1 -1 1 -1 1 1 -1 -1 -1 -1 -1}, margin=0.5,
			reduction='sum'; bf16[4]{apart 0.5}, i64[4]{= -1 -1 1 1}, margin=0.5, reduction='none'`),
	}, compose.Unfused, hingeEmbedding),
	elementLossOp(opdef.Planned[*softMarginArgs, *elementLoss]{
		Schema: "soft_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str " +
			"reduction='mean') -> Tensor",
		Names:  "F.soft_margin_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Logistic loss of labels 1 and -1", Formula: "log(1 + exp(-target*input))"},
		Cases: lossPairs(false, normalOperand, signOperand, func(g opdef.Gen, p lossPair) *softMarginArgs {
			return &softMarginArgs{Input: p.x, Target: p.t, Reduction: p.how}
		}),
		Plan: func(a *softMarginArgs) (*elementLoss, error) {
			how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
			return &elementLoss{
				operands: []*tensor.Tensor{a.Input, a.Target}, names: []string{"input", ""}, how: how, own: true,
				like:    a.Input,
				through: func([]float64) float64 { return 1 },
				f:       func(v []float64) float64 { return kernel.Softplus(-v[0] * v[1]) },
				df:      func(v, d []float64) { s := sigmoidOf(-v[0] * v[1]); d[0] = -v[1] * s; d[1] = -v[0] * s },
				ds: func(v, d []float64) {
					s := sigmoidOf(-v[0]*v[1]) * (1 + math.Abs(v[0]*v[1]))
					d[0], d[1] = math.Abs(v[1])*s, math.Abs(v[0])*s
				},
			}, err
		},
	}),
	compose.Declare(compose.Op[rankingArgs]{
		Schema: "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.margin_ranking_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Shortfall of the wanted order of two scores",
			Formula: "max(0, -target*(input1 - input2) + margin)", Notes: "At the limit the gradient is passed on."},
		Cases: lossPairs(false, elements.DistinctOperand, signOperand, func(g opdef.Gen, p lossPair) *rankingArgs {
			return &rankingArgs{Input1: p.x, Input2: elements.DistinctOperand(g, p.x.DType, p.x.Shape...),
				Target: p.t, Margin: 0.1, Reduction: p.how}
		}),
	}, compose.Unfused, marginRanking),
}

var inputTarget = []string{"input", "target"}

type plainLossArgs struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
	Weight              *tensor.Tensor
}

type smoothL1Args struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
	Beta                float64
}

type huberArgs struct {
	Input, Target *tensor.Tensor
	Reduction     string
	Delta         float64
	Weight        *tensor.Tensor
}

type bceArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage, Reduce   *bool
	Reduction             string
}

type bceLogitsArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage, Reduce   *bool
	Reduction             string
	PosWeight             *tensor.Tensor
}

type hingeArgs struct {
	Input, Target       *tensor.Tensor
	Margin              float64
	SizeAverage, Reduce *bool
	Reduction           string
}

type softMarginArgs struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
}

type rankingArgs struct {
	Input1, Input2, Target *tensor.Tensor
	Margin                 float64
	SizeAverage, Reduce    *bool
	Reduction              string
}

// loss sets what the arguments of mse_loss and l1_loss determine.
func (a *plainLossArgs) loss(l *elementLoss) (*elementLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	l.operands, l.names, l.how, l.weight, l.byWeight = []*tensor.Tensor{a.Input, a.Target}, inputTarget, how,
		a.Weight, true
	return l, err
}

func absoluteError() *elementLoss {
	return &elementLoss{
		alone: nodeOfGradient,
		f:     func(v []float64) float64 { return math.Abs(v[0] - v[1]) },
		df:    func(v, d []float64) { d[0] = kernel.Sign(v[0] - v[1]); d[1] = -d[0] },
	}
}

// complexError is absoluteError of complex numbers.
func complexError() *elementLoss {
	return &elementLoss{
		alone: nodeOfGradient,
		f:     func(v []float64) float64 { return math.Hypot(v[0]-v[1], v[2]-v[3]) },
		df: func(v, d []float64) {
			clear(d)
			if n := math.Hypot(v[0]-v[1], v[2]-v[3]); n != 0 {
				d[0], d[2] = (v[0]-v[1])/n, (v[2]-v[3])/n
				d[1], d[3] = -d[0], -d[2]
			}
		},
	}
}

// huber is k * (d^2/2 if d <= delta, else delta*(d - delta/2)). name is the name of the argument delta.
func huber(name string, delta, k float64) *elementLoss {
	formula := opdef.Formula[[]float64]{
		Numbers: []opdef.Number{{Name: "the factor of the square", Value: 0.5},
			{Name: "what is subtracted beyond " + name + ", in units of it,", Value: 0.5},
			{Name: "the factor beyond " + name, Value: k * delta}},
		Of: func(c []float64) func(v []float64) float64 {
			return func(v []float64) float64 {
				d := math.Abs(v[0] - v[1])
				if d < delta {
					return k * c[0] * d * d
				}
				return c[2] * (d - c[1]*delta)
			}
		},
	}
	return &elementLoss{
		own: true, f: formula.Sound(), formula: formula,
		df: func(v, d []float64) {
			z := v[0] - v[1]
			if math.Abs(z) >= delta {
				z = delta * kernel.Sign(z)
			}
			d[0], d[1] = k*z, -k*z
		},
		ds: func(v, d []float64) {
			d[0] = k * min(math.Abs(v[0])+math.Abs(v[1]), delta)
			if math.Abs(v[0]-v[1]) < delta {
				d[0] = k * (math.Abs(v[0]) + math.Abs(v[1]))
			}
			d[1] = d[0]
		},
	}
}

func clampedLog(x float64) float64 { return max(math.Log(x), -100) }

func sigmoidOf(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// pair is the two gradients of a node's inputs, from components p and q of df. The first input depends only on the
// target. It has no gradient if the target has none.
func (l *elementLoss) pair(up *tensor.Tensor, p, q int) ([]*tensor.Tensor, error) {
	second, err := l.each(up, q, l.df, false)
	if err != nil || !l.operands[1].RequiresGrad {
		return []*tensor.Tensor{nil, second}, err
	}
	first, err := l.each(up, p, l.df, false)
	return []*tensor.Tensor{first, second}, err
}

func plainLossCases(of operand) func(opdef.Gen) []*plainLossArgs {
	return func(g opdef.Gen) []*plainLossArgs {
		cs := lossPairs(true, of, of, func(g opdef.Gen, p lossPair) *plainLossArgs {
			return &plainLossArgs{Input: p.x, Target: p.t, Reduction: p.how}
		})(g)
		w := elements.Detached(g.Uniform(tensor.Float64, 0.5, 2, 3, 4))
		f64 := tensor.Float64
		return append(cs,
			&plainLossArgs{Input: of(g, f64, 3, 4), Target: of(g, f64, 3, 4), Reduction: "mean", Weight: w},
			&plainLossArgs{Input: of(g, f64, 3), Target: of(g, f64, 3), SizeAverage: new(false), Reduction: "mean"})
	}
}
