package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// rowLossOps are losses made of one term per row: a vector, or vectors that
// belong together.
var rowLossOps = []*opdef.Entry{
	rowLossOp(opdef.Op[multiMarginArgs]{
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
				{Input: farOperand(g, f64, 3, 4), Target: g.Int(tensor.Int64, 0, 3, 3), P: opdef.Int(1),
					Margin: opdef.Float(1.1), Weight: w, Reduction: "mean"},
				{Input: g.Normal(f64, 3, 4), Target: g.Int(tensor.Int64, 0, 3, 3), P: opdef.Int(2),
					Margin: opdef.Float(0.5), Reduction: "none"},
				{Input: farOperand(g, tensor.Float32, 5), Target: g.Int(tensor.Int64, 0, 4), P: opdef.Int(1),
					Margin: opdef.Float(1.1), Reduction: "sum"},
			}
		},
	}, (*multiMarginArgs).loss),
	rowLossOp(opdef.Op[multilabelMarginArgs]{
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
	}, (*multilabelMarginArgs).loss),
	rowLossOp(opdef.Op[multilabelSoftArgs]{
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
	}, (*multilabelSoftArgs).loss),
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
	rowLossOp(opdef.Op[cosineEmbeddingArgs]{
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
	}, (*cosineEmbeddingArgs).loss),
}

// A rowLoss is a loss of one term per row of its operands.
type rowLoss struct {
	operands []*tensor.Tensor // as given
	names    []string         // "" has no gradient
	how      reduction
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
		return single(t), err
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) { return compute(a, false) }
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		s, err := compute(a, true)
		if err != nil {
			return single(opdef.Abs(outs[0]))
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
		return opdef.Node{Grads: single(l.spread(g.Out[0])), Weak: weakSpread}, nil
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

// width is the length of a row of shape.
func width(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

func (l *rowLoss) forward(f func(k int, rows [][]float64) float64) (*tensor.Tensor, error) {
	dt, ts, shape, err := l.rows()
	if err != nil {
		return nil, err
	}
	n, w := tensor.Numel(l.lead), width(shape)
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
	return times(opdef.Unreduce(up, l.lead, allDims(len(l.lead))), 1/l.divisor())
}

func (l *rowLoss) grads(g *opdef.Grad) (opdef.Grads, error) {
	dt, ts, shape, err := l.rows()
	if err != nil {
		return nil, err
	}
	w := width(shape)
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

type multiMarginArgs struct {
	Input, Target       *tensor.Tensor
	P, Margin           opdef.Scalar
	Weight              *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
}

type multilabelMarginArgs struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
}

type multilabelSoftArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage, Reduce   *bool
	Reduction             string
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

func (a *multiMarginArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	x, classes := a.Input, width(a.Input.Shape)
	if err := floating("input", x); err != nil {
		return nil, err
	}
	p, margin := a.P.Int64(), a.Margin.Float64()
	if p != 1 && p != 2 {
		return nil, opdef.Refuse("p", "want 1 or 2, got %v", a.P)
	}
	rows := 1
	if x.Dim() == 2 {
		rows = x.Shape[0]
	}
	if x.Dim() > 2 || classes == 0 {
		return nil, opdef.Refuse("input", "want one or two dimensions of scores, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	if a.Target.DType != tensor.Int64 || a.Target.Dim() > 1 || a.Target.Numel() != rows {
		return nil, opdef.Refuse("target", "want %d int64 class numbers, got %s", rows, a.Target.Meta())
	}
	weight := make([]float64, classes)
	for i := range weight {
		weight[i] = 1
	}
	if a.Weight != nil {
		if a.Weight.Numel() != classes || a.Weight.Dim() > 1 {
			return nil, opdef.Refuse("weight", "want %d elements, one per class, got shape %s", classes,
				tensor.ShapeString(a.Weight.Shape))
		}
		weight = tensor.Data[float64](a.Weight)
	}
	target := tensor.Data[int64](a.Target)
	for _, t := range target {
		if t < 0 || t >= int64(classes) {
			return nil, opdef.Refuse("target", "class %d is out of range [0, %d)", t, classes)
		}
	}
	lead := slices.Clone(a.Target.Shape)
	each := func(k int, row []float64, f func(j int, gap, w float64)) {
		t := target[k]
		for j, x := range row {
			if gap := margin - row[t] + x; int64(j) != t && gap > 0 {
				f(j, gap, weight[t]/float64(classes))
			}
		}
	}
	return &rowLoss{
		operands: single(x), names: []string{"input"}, how: how, own: true, lead: lead,
		f: func(k int, rows [][]float64) float64 {
			s := 0.0
			each(k, rows[0], func(_ int, gap, w float64) {
				if p == 2 {
					gap *= gap
				}
				s += w * gap
			})
			return s
		},
		scale: func(k int, rows [][]float64) float64 {
			row, s := rows[0], 0.0
			each(k, row, func(j int, gap, w float64) {
				m := math.Abs(margin) + math.Abs(row[target[k]]) + math.Abs(row[j])
				if p == 2 {
					m *= 2 * gap
				}
				s += math.Abs(w) * m
			})
			return s
		},
		df: func(k int, rows, d [][]float64) {
			each(k, rows[0], func(j int, gap, w float64) {
				if p == 2 {
					w *= 2 * gap
				}
				d[0][j] += w
				d[0][target[k]] -= w
			})
		},
	}, nil
}

func (a *multilabelMarginArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	x, classes := a.Input, width(a.Input.Shape)
	if err := floating("input", x); err != nil {
		return nil, err
	}
	if x.Dim() > 2 || classes == 0 {
		return nil, opdef.Refuse("input", "want one or two dimensions of scores, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	if a.Target.DType != tensor.Int64 || !slices.Equal(a.Target.Shape, x.Shape) {
		return nil, opdef.Refuse("target", "want int64 class numbers of shape %s, got %s", tensor.ShapeString(x.Shape),
			a.Target.Meta())
	}
	target := tensor.Data[int64](a.Target)
	for _, t := range target {
		if t < -1 || t >= int64(classes) {
			return nil, opdef.Refuse("target", "class %d is out of range [-1, %d)", t, classes)
		}
	}
	lead := []int{}
	if x.Dim() == 2 {
		lead = []int{x.Shape[0]}
	}
	each := func(k int, row []float64, f func(t, j int, gap float64)) {
		labels := target[k*classes : (k+1)*classes]
		if end := slices.Index(labels, -1); end >= 0 {
			labels = labels[:end]
		}
		for _, t := range labels {
			for j, x := range row {
				if gap := 1 - row[t] + x; gap > 0 && !slices.Contains(labels, int64(j)) {
					f(int(t), j, gap)
				}
			}
		}
	}
	return &rowLoss{
		operands: single(x), names: []string{"input"}, how: how, own: true, lead: lead,
		f: func(k int, rows [][]float64) float64 {
			s := 0.0
			each(k, rows[0], func(_, _ int, gap float64) { s += gap })
			return s / float64(classes)
		},
		scale: func(k int, rows [][]float64) float64 {
			row, s := rows[0], 0.0
			each(k, row, func(t, j int, _ float64) { s += 1 + math.Abs(row[t]) + math.Abs(row[j]) })
			return s / float64(classes)
		},
		df: func(k int, rows, d [][]float64) {
			each(k, rows[0], func(t, j int, _ float64) {
				d[0][t] -= 1 / float64(classes)
				d[0][j] += 1 / float64(classes)
			})
		},
	}, nil
}

func (a *multilabelSoftArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	if a.Input.Dim() == 0 {
		return nil, opdef.Refuse("input", "want at least one dimension")
	}
	operands, names := []*tensor.Tensor{a.Input, a.Target}, []string{"input", "target"}
	if a.Weight != nil {
		operands, names = append(operands, a.Weight), append(names, "")
	}
	shape, err := tensor.Broadcast(a.Input.Shape, a.Target.Shape)
	if err != nil {
		return nil, opdef.Refuse("target", "%v", err)
	}
	weight := func(rows [][]float64, i int) float64 {
		w := 1 / float64(len(rows[0]))
		if len(rows) > 2 {
			w *= rows[2][i]
		}
		return w
	}
	return &rowLoss{
		operands: operands, names: names, how: how, lead: shape[:len(shape)-1],
		f: func(_ int, rows [][]float64) float64 {
			s := 0.0
			for i, x := range rows[0] {
				t := rows[1][i]
				s += weight(rows, i) * (t*softplus(-x) + (1-t)*softplus(x))
			}
			return s
		},
		scale: func(_ int, rows [][]float64) float64 {
			s := 0.0
			for i, x := range rows[0] {
				t := math.Abs(rows[1][i])
				s += math.Abs(weight(rows, i)) * (1 + 2*t) * (1 + softplus(math.Abs(x)) + math.Abs(x))
			}
			return s
		},
		df: func(_ int, rows, d [][]float64) {
			for i, x := range rows[0] {
				t, w := rows[1][i], weight(rows, i)
				d[0][i] = w * ((1-t)*sigmoidOf(x) - t*sigmoidOf(-x))
				d[1][i] = -w * x
			}
		},
		alone: func(l *rowLoss, up *tensor.Tensor) ([]*tensor.Tensor, string) {
			return []*tensor.Tensor{times(up, 1/float64(width(a.Input.Shape))), nil}, "the incoming gradient scaled"
		},
	}, nil
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

func tripletLoss(anchor, positive, negative *tensor.Tensor, margin, p, eps float64, swap bool, how reduction) (*rowLoss,
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
					s := k * math.Copysign(slope(p, math.Abs(z), dist, 1), z)
					d[x][i] += s
					d[y][i] -= s
				}
			}
			add(0, 1, near, 1)
			add(0, 2, far, -shareOf(other, far))
			if swap {
				add(1, 2, other, -shareOf(far, other))
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
			return single(opdef.Zip(up.DType, up, t, func(g, m float64) float64 { return g * m })), ""
		},
	}, nil
}

func (a *cosineEmbeddingArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	shape, err := tensor.Broadcast(a.Input1.Shape, a.Input2.Shape)
	if err != nil {
		return nil, opdef.Refuse("input1", "%v", err)
	}
	n := a.Target.Dim()
	if n > 1 {
		return nil, opdef.Refuse("target", "want at most one dimension, got %d", n)
	}
	if a.Input1.Dim() != n+1 || a.Input2.Dim() != n+1 {
		return nil, opdef.Refuse("input1", "want %d dimensions for %d of the target", n+1, n)
	}
	if n == 1 && a.Target.Shape[0] != shape[0] {
		return nil, opdef.Refuse("target", "want %d labels, got %d", shape[0], a.Target.Shape[0])
	}
	target := tensor.Data[float64](a.Target)
	// sums are x.y and the squared lengths, which torch keeps from 0.
	sums := func(rows [][]float64) (s crossSum) {
		for i, x := range rows[0] {
			y := rows[1][i]
			s.xy, s.axy, s.xx, s.yy = s.xy+x*y, s.axy+math.Abs(x*y), s.xx+x*x, s.yy+y*y
		}
		s.xx, s.yy = s.xx+1e-12, s.yy+1e-12
		return s
	}
	return &rowLoss{
		operands: []*tensor.Tensor{a.Input1, a.Input2}, names: []string{"input1", "input2"}, how: how,
		lead: shape[:len(shape)-1],
		f: func(k int, rows [][]float64) float64 {
			s := sums(rows)
			switch cos := s.xy / math.Sqrt(s.xx*s.yy); target[k] {
			case 1:
				return 1 - cos
			case -1:
				return max(0, cos-a.Margin)
			}
			return 0
		},
		scale: func(k int, rows [][]float64) float64 {
			s := sums(rows)
			return 1 + math.Abs(a.Margin) + 4*s.axy/math.Sqrt(s.xx*s.yy)
		},
		df: func(k int, rows, d [][]float64) {
			s := sums(rows)
			r := math.Sqrt(s.xx * s.yy)
			cos, sign := s.xy/r, 0.0
			switch {
			case target[k] == 1:
				sign = -1
			case target[k] == -1 && cos >= a.Margin:
				sign = 1
			}
			for i, x := range rows[0] {
				y := rows[1][i]
				d[0][i] = sign * (y/r - cos*x/s.xx)
				d[1][i] = sign * (x/r - cos*y/s.yy)
			}
		},
		alone: func(_ *rowLoss, up *tensor.Tensor) ([]*tensor.Tensor, string) {
			return []*tensor.Tensor{up, up}, "the incoming gradient"
		},
	}, nil
}
