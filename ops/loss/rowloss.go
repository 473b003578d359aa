package loss

import (
	"math"
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// rowLossOps are losses made of one term per row: a vector, or vectors that
// belong together.
var rowLossOps = []*opdef.Entry{
	compose.Declare(compose.Op[multiMarginArgs]{
		Schema: "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, Tensor? weight=None, " +
			"bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:    "F.multi_margin_loss",
		Autocast: opdef.AutocastFloat32,
		Doc: opdef.Doc{Summary: "Shortfall of the score of a class from all others",
			Formula: "sum over j != target of weight[target]*max(0, margin - input[target] + input[j])^p / C",
			Source:  "torch.nn.functional.multi_margin_loss"},
		Cases: func(r *rand.Rand) []*multiMarginArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			w := g.Uniform(f64, 0.5, 2, 4)
			w.RequiresGrad = false
			return []*multiMarginArgs{
				{Input: elements.DistinctOperand(g, f64, 3, 4), Target: g.Int(tensor.Int64, 0, 3, 3), P: opdef.Int(1),
					Margin: opdef.Float(1.1), Weight: w, Reduction: "mean"},
				{Input: g.Normal(f64, 3, 4), Target: g.Int(tensor.Int64, 0, 3, 3), P: opdef.Int(2),
					Margin: opdef.Float(0.5), Reduction: "none"},
				{Input: elements.DistinctOperand(g, tensor.Float32, 5), Target: g.Int(tensor.Int64, 0, 4),
					P:      opdef.Int(1),
					Margin: opdef.Float(1.1), Reduction: "sum"},
			}
		},
	}, compose.Fused, multiMargin),
	compose.Declare(compose.Op[multilabelMarginArgs]{
		Schema: "multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, " +
			"str reduction='mean') -> Tensor",
		Names:    "F.multilabel_margin_loss",
		Autocast: opdef.AutocastFloat32,
		Doc: opdef.Doc{Summary: "Shortfall of the scores of several classes from all others",
			Formula: "sum over targets t and other classes j of max(0, 1 - input[t] + input[j]) / C",
			Notes:   "The targets of a row end at the first -1.", Source: "torch.nn.functional.multilabel_margin_loss"},
		Cases: func(r *rand.Rand) []*multilabelMarginArgs {
			g := opdef.Gen{R: r}
			target := tensor.New(tensor.Int64, []int{2, 4}, []int64{3, 0, -1, 1, 2, -1, -1, 0}).Rounded()
			return []*multilabelMarginArgs{
				{Input: g.Normal(tensor.Float64, 2, 4), Target: target, Reduction: "mean"},
				{Input: g.Normal(tensor.Float64, 2, 4), Target: target, Reduction: "none"},
				{Input: g.Normal(tensor.Float32, 4), Target: target.Select(0, 0), Reduction: "sum"},
			}
		},
	}, compose.Fused, multilabelMargin),
	compose.Declare(compose.Op[multilabelSoftArgs]{
		Schema: "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:    "F.multilabel_soft_margin_loss",
		Autocast: opdef.AutocastFloat32,
		Doc: opdef.Doc{Summary: "Cross entropy of the sigmoid of logits, averaged over classes",
			Formula: "-mean(weight*(target*log(sigmoid(input)) + (1-target)*log(sigmoid(-input))))",
			Source:  "torch.nn.functional.multilabel_soft_margin_loss"},
		Cases: func(r *rand.Rand) []*multilabelSoftArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			w := g.Uniform(f64, 0.5, 2, 4)
			w.RequiresGrad = false
			return []*multilabelSoftArgs{
				{Input: g.Normal(f64, 3, 4), Target: probabilityOperand(g, f64, 3, 4), Weight: w, Reduction: "mean"},
				{Input: g.Normal(f64, 3, 4), Target: probabilityOperand(g, f64, 3, 4), Reduction: "none"},
				{Input: g.Normal(tensor.Float32, 2, 3, 4), Target: probabilityOperand(g, tensor.Float32, 2, 3, 4),
					Reduction: "sum"}, {Input: g.Normal(tensor.BFloat16, 5), Target: probabilityOperand(g,
					tensor.BFloat16, 5), Reduction: "mean"},
			}
		},
	}, compose.Composed, multilabelSoftMargin),
	rowLossOp(opdef.Op[tripletArgs]{
		Schema: "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, " +
			"float eps=1e-06, bool swap=False, bool? size_average=None, bool? reduce=None, str reduction='mean') -> " +
			"Tensor",
		Names:    "F.triplet_margin_loss",
		Autocast: opdef.AutocastFloat32,
		Doc: opdef.Doc{Summary: "Shortfall of a distance from another",
			Formula: "max(0, d(anchor, positive) - d(anchor, negative) + margin), with d(x, y) = norm(x - y + eps, p)",
			Notes: "swap takes the smaller of d(anchor, negative) and d(positive, negative). At the limit the " +
				"gradient is passed on.", Source: "torch.nn.functional.triplet_margin_loss"},
		Cases: func(r *rand.Rand) []*tripletArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			n := func(shape ...int) *tensor.Tensor { return g.Normal(f64, shape...) }
			return []*tripletArgs{
				{Anchor: n(3, 4), Positive: n(3, 4), Negative: n(3, 4), Margin: 5, P: 2, Eps: 1e-6, Reduction: "mean"},
				{Anchor: n(3, 4), Positive: n(3, 4), Negative: n(4), Margin: 5, P: 3, Eps: 1e-6, Swap: true,
					Reduction: "none"},
				{Anchor: n(4), Positive: n(4), Negative: n(4), Margin: 5, P: 2, Eps: 1e-6, Reduction: "sum"},
			}
		},
	}, func(a *tripletArgs) (*rowLoss, error) {
		how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
		if err != nil {
			return nil, err
		}
		return tripletLoss(a.Anchor, a.Positive, a.Negative, a.Margin, a.P, a.Eps, a.Swap, how)
	}),
	rowLossOp(opdef.Op[tripletDistanceArgs]{
		Schema: "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, any " +
			"distance_function=None, float margin=1.0, bool swap=False, str reduction='mean') -> Tensor",
		Names: "F.triplet_margin_with_distance_loss",
		Doc: opdef.Doc{Summary: "Shortfall of a distance from another",
			Formula: "max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the pairwise_distance",
			Notes:   "Distance functions given as arguments are not known.",
			Source:  "torch.nn.functional.triplet_margin_with_distance_loss"},
		Cases: func(r *rand.Rand) []*tripletDistanceArgs {
			g := opdef.Gen{R: r}
			n := func(shape ...int) *tensor.Tensor { return g.Normal(tensor.Float64, shape...) }
			return []*tripletDistanceArgs{{Anchor: n(3, 4), Positive: n(3, 4), Negative: n(3, 4), Margin: 5,
				Reduction: "mean"}, {Anchor: n(3, 4), Positive: n(3, 4), Negative: n(3, 4), Margin: 5, Swap: true,
				Reduction: "none"}}
		},
	}, func(a *tripletDistanceArgs) (*rowLoss, error) {
		if a.DistanceFunction != nil {
			return nil, opdef.Refuse("distance_function", "only the default distance is known")
		}
		how, err := reductionOf(a.Reduction, nil, nil)
		if err != nil {
			return nil, err
		}
		return tripletLoss(a.Anchor, a.Positive, a.Negative, a.Margin, 2, 1e-6, a.Swap, how)
	}),
	compose.Declare(compose.Op[cosineEmbeddingArgs]{
		Schema: "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:    "F.cosine_embedding_loss",
		Autocast: opdef.AutocastFloat32,
		Doc: opdef.Doc{Summary: "Distance of the cosine of similar vectors from 1, excess of others over a margin",
			Formula: "1 - cos(input1, input2) if target is 1, max(0, cos(input1, input2) - margin) if -1",
			Source:  "torch.nn.functional.cosine_embedding_loss"},
		Cases: func(r *rand.Rand) []*cosineEmbeddingArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*cosineEmbeddingArgs{
				{Input1: g.Normal(f64, 3, 4), Input2: g.Normal(f64, 3, 4), Target: labelOperand(g, f64, 3),
					Margin: -0.9, Reduction: "mean"}, {Input1: g.Normal(f64, 3, 4), Input2: g.Normal(f64, 3, 4),
					Target: labelOperand(g, f64, 3), Margin: -1, Reduction: "none"},
				{Input1: g.Normal(tensor.Float32, 5), Input2: g.Normal(tensor.Float32, 5), Target: labelOperand(g, f64),
					Margin: -1, Reduction: "sum"},
			}
		},
	}, compose.Composed, cosineEmbedding),
}

// A rowLoss is a loss of one term per row of its operands.
type rowLoss struct {
	operands []*tensor.Tensor // as given
	names    []string         // "" has no gradient
	how      reductionMode
	own      bool  // one autograd node with a gradient for the first operand
	lead     []int // shape of the terms

	// f is the term of row k; df stores its derivatives by the elements of the
	// rows. scale is the sum of the magnitudes behind f.
	f, scale func(k int, rows [][]float64) float64
	df       func(k int, rows, d [][]float64)

	// alone is what the last node of the unreduced loss received.
	alone func(l *rowLoss, up *tensor.Tensor) ([]*tensor.Tensor, string)
}

// rowLossOp completes the declaration of a loss of rows.
func rowLossOp[A any](o opdef.Op[A], call func(*A) (*rowLoss, error)) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}}
	o.Terms = func(a *A) int {
		l, err := call(a)
		if err != nil {
			return 1
		}
		return max(1, l.operands[0].Numel())
	}
	compute := func(a *A, scale bool) ([]*tensor.Tensor, error) {
		l, err := call(a)
		if err != nil {
			return nil, err
		}
		f := l.f
		if scale {
			f = l.scale
		}
		t, err := l.forward(f)
		return elements.Single(t), err
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) { return compute(a, false) }
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		s, err := compute(a, true)
		if err != nil {
			return elements.Single(opdef.Abs(outs[0]))
		}
		return s
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		l, err := call(a)
		if err != nil {
			return nil, err
		}
		return l.grads(g)
	}
	o.Node = func(a *A, g *opdef.Grad) (opdef.Node, error) {
		l, err := call(a)
		switch {
		case err != nil || l.own:
			return opdef.Node{}, err
		case l.how == reduceNone:
			ts, weak := l.alone(l, g.Out[0])
			return opdef.Node{Grads: ts, Weak: weak}, nil
		}
		return opdef.Node{Grads: elements.Single(l.spread(g.Out[0])), Weak: elements.SpreadOnly}, nil
	}
	return o.Entry()
}

// rows are the operands in one shape, the last dimension being the rows'.
func (l *rowLoss) rows() (tensor.DType, []*tensor.Tensor, []int, error) {
	dt, ts, err := opdef.Common(l.operands...)
	if err != nil {
		return dt, nil, nil, err
	}
	switch {
	case dt.IsComplex():
		return dt, nil, nil, opdef.Refuse(l.names[0], "not defined for complex numbers")
	case !dt.IsFloat():
		dt = tensor.DefaultDType
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	return dt, ts, shape, err
}

func (l *rowLoss) forward(f func(k int, rows [][]float64) float64) (*tensor.Tensor, error) {
	dt, ts, shape, err := l.rows()
	if err != nil {
		return nil, err
	}
	n, w := tensor.Numel(l.lead), elements.LastDim(shape)
	out := make([]float64, n)
	tensor.Parallel(n, 64, func(a, b int) {
		rows := make([][]float64, len(ts))
		for i := range rows {
			rows[i] = make([]float64, w)
		}
		for k := a; k < b; k++ {
			for i, t := range ts {
				tensor.Load(t, k*w, rows[i])
			}
			out[k] = f(k, rows)
		}
	})
	if l.how == reduceNone {
		return tensor.New(dt, l.lead, out), nil
	}
	return tensor.Scalar(dt, opdef.PairwiseSum(out)/l.divisor()), nil
}

func (l *rowLoss) divisor() float64 {
	if l.how == reduceMean {
		return float64(tensor.Numel(l.lead))
	}
	return 1
}

// spread is the gradient of each term.
func (l *rowLoss) spread(up *tensor.Tensor) *tensor.Tensor {
	if l.how == reduceNone {
		return up
	}
	return elements.Scaled(opdef.Unreduce(up, l.lead, elements.AllDims(len(l.lead))), 1/l.divisor())
}

func (l *rowLoss) grads(g *opdef.Grad) (opdef.Grads, error) {
	dt, ts, shape, err := l.rows()
	if err != nil {
		return nil, err
	}
	w := elements.LastDim(shape)
	up := tensor.Data[float64](l.spread(g.Out[0]))
	gr := opdef.Grads{}
	for at, name := range l.names {
		if name == "" || !g.Need(name) {
			continue
		}
		if tensor.Numel(shape) == 0 {
			gr.Set(name, tensor.New(dt, l.operands[at].Shape, make([]float64, l.operands[at].Numel())))
			continue
		}
		t := opdef.Rows(dt, shape, w, func(k int, dst []float64) {
			rows, d := make([][]float64, len(ts)), make([][]float64, len(ts))
			for i, t := range ts {
				rows[i], d[i] = make([]float64, w), make([]float64, w)
				tensor.Load(t, k*w, rows[i])
			}
			l.df(k, rows, d)
			for i, x := range d[at] {
				dst[i] = up[k] * x
			}
		})
		gr.Set(name, opdef.SumTo(t, l.operands[at].Shape))
	}
	return gr, nil
}

type tripletArgs struct {
	Anchor, Positive, Negative *tensor.Tensor
	Margin, P, Eps             float64
	Swap                       bool
	SizeAverage, Reduce        *bool
	Reduction                  string
}

type tripletDistanceArgs struct {
	Anchor, Positive, Negative *tensor.Tensor
	DistanceFunction           value.Value
	Margin                     float64
	Swap                       bool
	Reduction                  string
}

type cosineEmbeddingArgs struct {
	Input1, Input2, Target *tensor.Tensor
	Margin                 float64
	SizeAverage, Reduce    *bool
	Reduction              string
}

// rowMagnitudes is the scale of losses that compare elements of a row.
func rowMagnitudes(rows [][]float64) float64 {
	s := 1.0
	for _, row := range rows {
		for _, x := range row {
			s += math.Abs(x)
		}
	}
	return s
}

// distanceOf is the norm of order p of x - y + eps.
func distanceOf(x, y []float64, p, eps float64) float64 {
	s := 0.0
	for i := range x {
		d := math.Abs(x[i] - y[i] + eps)
		if math.IsInf(p, 1) {
			s = max(s, d)
			continue
		}
		s += math.Pow(d, p)
	}
	if math.IsInf(p, 1) {
		return s
	}
	return math.Pow(s, 1/p)
}

func tripletLoss(anchor, positive, negative *tensor.Tensor, margin, p, eps float64, swap bool,
	how reductionMode) (*rowLoss,
	error) {
	shape, err := tensor.Broadcast(anchor.Shape, positive.Shape, negative.Shape)
	if err != nil {
		return nil, opdef.Refuse("anchor", "%v", err)
	}
	if len(shape) == 0 {
		return nil, opdef.Refuse("anchor", "want vectors, got 0-d tensors")
	}
	// far is d(anchor, negative), other d(positive, negative) if that counts.
	distances := func(rows [][]float64) (near, far, other float64) {
		near, far, other = distanceOf(rows[0], rows[1], p, eps), distanceOf(rows[0], rows[2], p, eps), math.Inf(1)
		if swap {
			other = distanceOf(rows[1], rows[2], p, eps)
		}
		return near, far, other
	}
	return &rowLoss{
		operands: []*tensor.Tensor{anchor, positive, negative}, names: []string{"anchor", "positive", "negative"},
		how: how, lead: shape[:len(shape)-1],
		f: func(_ int, rows [][]float64) float64 {
			near, far, other := distances(rows)
			return max(0, near-min(far, other)+margin)
		},
		scale: func(_ int, rows [][]float64) float64 { return 2*rowMagnitudes(rows) + math.Abs(margin) },
		df: func(_ int, rows, d [][]float64) {
			near, far, other := distances(rows)
			if near-min(far, other)+margin < 0 {
				return
			}
			add := func(x, y int, dist, k float64) {
				for i := range rows[x] {
					z := rows[x][i] - rows[y][i] + eps
					s := k * math.Copysign(reduction.NormSlope(p, math.Abs(z), dist, 1), z)
					d[x][i] += s
					d[y][i] -= s
				}
			}
			add(0, 1, near, 1)
			add(0, 2, far, -reduction.GradShare(other, far))
			if swap {
				add(1, 2, other, -reduction.GradShare(far, other))
			}
		},
		// The node clamps the difference of the distances.
		alone: func(l *rowLoss, up *tensor.Tensor) ([]*tensor.Tensor, string) {
			passed := *l
			t, err := passed.forward(func(_ int, rows [][]float64) float64 {
				if near, far, other := distances(rows); near-min(far, other)+margin >= 0 {
					return 1
				}
				return 0
			})
			if err != nil {
				return nil, err.Error()
			}
			return elements.Single(opdef.Zip(up.DType, up, t, func(g, m float64) float64 { return g * m })), ""
		},
	}, nil
}
