package loss

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// crossEntropyOps are losses that pick the scores of classes.
var crossEntropyOps = []*opdef.Entry{
	opdef.Planned[*crossEntropyArgs, *classLoss]{
		Schema: "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int " +
			"ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0) -> Tensor",
		Names: "F.cross_entropy",
		Doc: opdef.Doc{Summary: "Cross entropy of scores and classes or class probabilities",
			Formula: "-weight[target]*log_softmax(input)[target], or -sum(weight*target*log_softmax(input))",
			Notes: "input is (C), (N, C) or (N, C, *). The mean divides by the sum of the weights of the targets " +
				"that are not ignored; of probabilities by the number of positions."},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4,
			Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 4, Covers: true}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*classLoss]{
			Terms:     (*classLoss).terms,
			GradTerms: func(l *classLoss) int { return l.classes + l.divided() },
			Scale: func(l *classLoss, _ []*tensor.Tensor) []*tensor.Tensor {
				return elements.Single(l.forward(true))
			},
			GradScale: func(l *classLoss, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return l.grads(g, true), nil
			},
		},
		Plan:   (*crossEntropyArgs).loss,
		Kernel: func(l *classLoss) ([]*tensor.Tensor, error) { return elements.Single(l.forward(false)), nil },
		Grad:   func(l *classLoss, g *opdef.Grad) (opdef.Grads, error) { return l.grads(g, false), nil },
		Node:   func(l *classLoss, g *opdef.Grad) (opdef.Node, error) { return l.node(g.Out[0]), nil },
		Cases:  crossEntropyCases,
	}.Entry(),
	opdef.Planned[*nllArgs, *classLoss]{
		Schema: "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int " +
			"ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor",
		Names: "F.nll_loss",
		Doc: opdef.Doc{Summary: "Negated scores of classes", Formula: "-weight[target]*input[target]",
			Notes: "input is (C), (N, C) or (N, C, *). The mean divides by the sum of the weights of the targets " +
				"that are not ignored."},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 3}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*classLoss]{
			Terms: func(l *classLoss) int { return tensor.Numel(l.positions) },
			Scale: func(l *classLoss, _ []*tensor.Tensor) []*tensor.Tensor { return elements.Single(l.forward(true)) },
			// An element is one product; what the mean divides by was added up.
			GradTerms: (*classLoss).divided,
			GradScale: func(_ *classLoss, _ *opdef.Grad, grads opdef.Grads) (opdef.Grads, error) {
				return elements.GradOf("input", opdef.Abs(grads["input"][0])), nil
			},
		},
		Plan:   (*nllArgs).loss,
		Kernel: func(l *classLoss) ([]*tensor.Tensor, error) { return elements.Single(l.forward(false)), nil },
		Grad: func(l *classLoss, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", l.picked(g.Out[0])), nil
		},
		Node: func(l *classLoss, g *opdef.Grad) (opdef.Node, error) {
			if l.flat() == nil {
				return opdef.Node{}, nil
			}
			return l.node(g.Out[0]), nil
		},
		Cases: opdef.Calls[nllArgs](`
			f64[3, 4], i64[3]{0..3}; f64[3, 4], i64[3]{= 1 -100 3}, weight=f64[4]{0.5..2 fixed}
			f64[3, 4], i64[3]{= 1 -100 3}, reduction='none'
			f64[2, 4, 3], i64[2, 3]{0..3}, weight=f64[4]{0.5..2 fixed}, ignore_index=2, reduction='sum'
			f64[2, 4, 2, 2], i64[2, 2, 2]{0..3}, reduction='none'; f32[5], i64[]{0..4}
			bf16[3, 4], i64[3]{0..3}, reduction='sum'; f32[0, 4], i64[0]{0..3}, reduction='none'
			f64[2, 4, 3, 2], i64[2, 3, 2]{= 1 -100 3 0 2 1 1 3 -100 0 2 2}, weight=f64[4]{0.5..2 fixed}`),
	}.Entry(),
}

type crossEntropyArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage           *bool
	IgnoreIndex           int
	Reduce                *bool
	Reduction             string
	LabelSmoothing        float64
}

type nllArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage           *bool
	IgnoreIndex           int
	Reduce                *bool
	Reduction             string
}

// A classLoss is cross_entropy or nll_loss after its arguments were checked.
type classLoss struct {
	x         *tensor.Tensor
	dim       int   // of the classes
	positions []int // x's shape without it
	classes   int
	how       reductionMode
	smoothing float64
	scores    bool // x holds scores, not logarithms of probabilities

	target []int64        // class by position, -1 where ignored; nil if
	probs  *tensor.Tensor // probabilities are given
	weight *tensor.Tensor // by class, or nil
	dt     tensor.DType   // of the loss
	w      []float64      // its elements

	// What kernels get wrong: what the mean's divisor is short of, the last classes that the sums of exponentials
	// lack, a gradient that lacks what is picked.
	fewer    float64
	lacks    int
	unpicked bool

	timesZero bool // the softmax of an ignored position is multiplied by 0, which NaN among its scores survives
}

// terms are how many one result depends on through one chain of additions: the scores of a position,
// then the positions; weighted by probabilities, all are added at once.
func (l *classLoss) terms() int {
	switch {
	case l.how == reduceNone:
		return l.classes
	case l.probs != nil:
		return l.x.Numel()
	}
	return l.classes + tensor.Numel(l.positions)
}

// divided is how many weights were added to what gradients are divided by.
func (l *classLoss) divided() int {
	if l.weight == nil || l.how != reduceMean {
		return 0
	}
	return tensor.Numel(l.positions)
}

// Mistakes are what kernels get wrong about the classes and the mean.
func (l *classLoss) Mistakes() (out []opdef.Mistake[any]) {
	if l.scores {
		with := func(text string, with func(m *classLoss)) {
			out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
				m := *l
				with(&m)
				return &m, nil
			}})
		}
		for _, tail := range opdef.Tails(l.classes) {
			with(fmt.Sprintf("the sum of exponentials lacks the last %d of %d classes", tail, l.classes),
				func(m *classLoss) { m.lacks = tail })
		}
		with("the gradient is the softmax alone: 1 is not subtracted at the target",
			func(m *classLoss) { m.unpicked = true })
		out[len(out)-1].Gradients = true
	}
	n, all := l.divisor(), float64(tensor.Numel(l.positions))
	if l.how != reduceMean || n <= 1 {
		return out
	}
	add := func(divisor float64, text string) {
		out = append(out, opdef.Mistake[any]{
			Text: fmt.Sprintf(text+"the sum is divided by %g, not by %g", divisor, n),
			Plan: func() (any, error) {
				m := *l
				m.fewer = n - divisor
				return &m, nil
			}})
	}
	add(n-1, "")
	switch {
	case l.weight != nil:
		add(all, "weights do not count: ")
	case n != all:
		add(all, "ignored positions count: ")
	}
	return out
}

func newClassLoss(x, weight *tensor.Tensor, how reductionMode) (*classLoss, error) {
	if err := elements.WantFloat("input", x); err != nil {
		return nil, err
	}
	l := &classLoss{x: x, dt: x.DType, dim: min(1, x.Dim()-1), how: how, weight: weight}
	if x.Dim() == 0 {
		return nil, opdef.Refuse("input", "want a dimension of classes, got a 0-d tensor")
	}
	l.classes = x.Shape[l.dim]
	l.positions = slices.Delete(slices.Clone(x.Shape), l.dim, l.dim+1)
	if how == reduceBatchMean {
		return nil, opdef.Refuse("reduction", `"batchmean" is no way to reduce this loss`)
	}
	if weight != nil {
		if weight.Dim() != 1 || weight.Shape[0] != l.classes {
			return nil, opdef.Refuse("weight", "want %d elements, one per class, got shape %s", l.classes,
				tensor.ShapeString(weight.Shape))
		}
		l.w = tensor.Data[float64](weight)
	}
	return l, nil
}

// classesOf reads and checks a target of class numbers.
func (l *classLoss) classesOf(target *tensor.Tensor, ignore int) error {
	if target.DType != tensor.Int64 && target.DType != tensor.Uint8 {
		return opdef.Refuse("target", "want int64 class numbers, got dtype %s", target.DType)
	}
	if !slices.Equal(target.Shape, l.positions) {
		return opdef.Refuse("target", "want shape %s, got %s", tensor.ShapeString(l.positions),
			tensor.ShapeString(target.Shape))
	}
	l.target = slices.Clone(tensor.Data[int64](target))
	for i, t := range l.target {
		switch {
		case t == int64(ignore):
			l.target[i] = -1
		case t < 0 || t >= int64(l.classes):
			return opdef.Refuse("target", "class %d is out of range [0, %d)", t, l.classes)
		}
	}
	return nil
}

func (a *nllArgs) loss() (*classLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	l, err := newClassLoss(a.Input, a.Weight, how)
	if err != nil {
		return nil, err
	}
	return l, l.classesOf(a.Target, a.IgnoreIndex)
}

func (a *crossEntropyArgs) loss() (*classLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	l, err := newClassLoss(a.Input, a.Weight, how)
	if err != nil {
		return nil, err
	}
	if a.LabelSmoothing > 1 {
		return nil, opdef.Refuse("label_smoothing", "want a number between 0 and 1, got %v", a.LabelSmoothing)
	}
	l.scores, l.smoothing = true, max(a.LabelSmoothing, 0) // torch takes a negative one for none
	if !slices.Equal(a.Input.Shape, a.Target.Shape) {
		return l, l.classesOf(a.Target, a.IgnoreIndex)
	}
	if !a.Target.DType.IsFloat() {
		return nil, opdef.Refuse("target", "want floating class probabilities, got dtype %s", a.Target.DType)
	}
	if a.IgnoreIndex >= 0 {
		return nil, opdef.Refuse("ignore_index", "does not apply to class probabilities")
	}
	l.probs = a.Target
	l.dt, _, err = opdef.Common(l.factors()...)
	return l, err
}

// flat is the shape nll_loss gives an input of 3 or of more than 4 dimensions,
// whose loss it computes as that of an image; nil otherwise.
func (l *classLoss) flat() []int {
	if n := l.x.Dim(); n <= 2 || n == 4 {
		return nil
	}
	return []int{l.x.Shape[0], l.classes, 1, tensor.Numel(l.x.Shape[2:])}
}

func (l *classLoss) weightOf(class int64) float64 {
	if l.w == nil {
		return 1
	}
	return l.w[class]
}

// A scoreSum is what the losses of a position need to know of its scores:
// their logarithmic sum, and sums of weights and of weighted scores, where the
// weights are those of the classes times their probabilities.
type scoreSum struct {
	reduction.LogSum
	w, wx, wax float64
}

func (l *classLoss) scoreSums() []scoreSum {
	ts := []*tensor.Tensor{l.x}
	if l.weight != nil {
		ts = append(ts, opdef.Unreduce(l.weight, l.x.Shape, slices.Delete(elements.AllDims(l.x.Dim()), l.dim, l.dim+1)))
	}
	if l.probs != nil {
		ts = append(ts, l.probs)
	}
	even := l.smoothing / float64(l.classes)
	weighted := l.probs != nil || l.smoothing > 0
	f := opdef.FoldDims(opdef.Fold[float64, scoreSum]{
		Add: func(acc *scoreSum, at int, v [][]float64) {
			reduction.LogSumFold.Add(&acc.LogSum, at, v[:1])
			if !weighted {
				return
			}
			var w, wx, wax float64
			for i, x := range v[0] {
				k := 1.0
				if l.weight != nil {
					k = v[1][i]
				}
				if l.probs != nil {
					k *= v[len(v)-1][i]*(1-l.smoothing) + even
				}
				w += k
				wx += k * x
				wax += math.Abs(k * x)
			}
			acc.w, acc.wx, acc.wax = acc.w+w, acc.wx+wx, acc.wax+wax
		},
		Join: func(acc *scoreSum, b scoreSum) {
			acc.Join(b.LogSum)
			acc.w, acc.wx, acc.wax = acc.w+b.w, acc.wx+b.wx, acc.wax+b.wax
		},
	}, []int{l.dim}, false, ts...)
	sums := f.All()
	for p := range sums {
		if l.lacks > 0 {
			row := make([]float64, l.classes-l.lacks)
			for c := range row {
				row[c] = l.at(p, int64(c))
			}
			sums[p].LogSum = reduction.LogSum{}
			reduction.LogSumFold.Add(&sums[p].LogSum, 0, [][]float64{row})
		}
	}
	return sums
}

// lse is the logarithm of the sum of the exponentials of the scores, nan where
// an infinity among them leaves log_softmax undefined.
func (s *scoreSum) lse() float64 {
	if math.IsInf(s.Max, 0) {
		return math.NaN()
	}
	return s.Value()
}

// at is the element of x at position p and class c.
func (l *classLoss) at(p int, c int64) float64 {
	inner := tensor.Numel(l.x.Shape[l.dim+1:])
	return tensor.At[float64](l.x, (p/inner*l.classes+int(c))*inner+p%inner)
}

// forward is the loss, or the sums of the magnitudes of its terms: a logarithm
// of a probability is known to the largest score, its distance from it and the
// logarithm of the number of classes.
func (l *classLoss) forward(magnitudes bool) *tensor.Tensor {
	n := tensor.Numel(l.positions)
	out := tensor.Make[float64](n)
	var sums []scoreSum
	if l.scores && n > 0 {
		sums = l.scoreSums()
	}
	logs := math.Log(float64(max(1, l.classes)))
	tensor.Parallel(n, 256, func(a, b int) {
		for p := a; p < b; p++ {
			var s scoreSum
			if sums != nil {
				s = sums[p]
			}
			lse := s.lse()
			doubt := math.Abs(s.Max) + logs + 1
			switch {
			case l.probs != nil && l.classes == 0: // the sum of no terms
			case l.probs != nil && magnitudes:
				out[p] = s.wax + math.Abs(s.w)*(math.Abs(lse)+doubt)
			case l.probs != nil:
				out[p] = lse*s.w - s.wx
			case l.target[p] < 0:
			case !l.scores && magnitudes:
				out[p] = math.Abs(l.weightOf(l.target[p]) * l.at(p, l.target[p]))
			case !l.scores:
				out[p] = -l.weightOf(l.target[p]) * l.at(p, l.target[p])
			default:
				x, w, even := l.at(p, l.target[p]), l.weightOf(l.target[p]), l.smoothing/float64(l.classes)
				switch {
				case magnitudes:
					out[p] = (1-l.smoothing)*math.Abs(w)*(math.Abs(x-s.Max)+doubt) +
						even*(s.wax+math.Abs(s.w)*(math.Abs(lse)+doubt))
				case l.smoothing > 0:
					out[p] = (1-l.smoothing)*w*(lse-x) + even*(lse*s.w-s.wx)
				default:
					out[p] = w * (lse - x)
				}
			}
		}
	})
	dt := l.dt
	if magnitudes {
		dt = tensor.Float64
	}
	t := tensor.New(dt, l.positions, out)
	if l.how != reduceNone {
		t = tensor.Scalar(dt, opdef.PairwiseSum(out)/l.divisor())
	}
	if magnitudes && l.probs != nil { // torch rounds logarithms to the dtype of the scores
		return elements.Scaled(t, elements.Coarseness(l.dt, l.factors()...))
	}
	return t
}

// factors are the scores and what their logarithms are multiplied by.
func (l *classLoss) factors() []*tensor.Tensor {
	ts := []*tensor.Tensor{l.x}
	for _, t := range []*tensor.Tensor{l.probs, l.weight} {
		if t != nil {
			ts = append(ts, t)
		}
	}
	return ts
}

// divisor is what the sum of the losses of positions is divided by.
func (l *classLoss) divisor() float64 {
	if l.how != reduceMean {
		return 1
	}
	if l.probs != nil && l.classes == 0 {
		return 0 // torch's mean is nan
	}
	if l.probs != nil {
		return float64(tensor.Numel(l.positions)) - l.fewer
	}
	n := -l.fewer
	for _, t := range l.target {
		if t >= 0 {
			n += l.weightOf(t)
		}
	}
	return n
}

// perPosition is the gradient of the loss of each position.
func (l *classLoss) perPosition(up *tensor.Tensor) []float64 {
	if l.how == reduceNone {
		return tensor.Data[float64](up)
	}
	g := tensor.Make[float64](tensor.Numel(l.positions))
	d := up.Item() / l.divisor()
	for i := range g {
		g[i] = d
	}
	return g
}

// byPosition is the tensor of x's shape whose classes of a position are stored
// by fill; x and, if there are any, probabilities are given to it.
func (l *classLoss) byPosition(dt tensor.DType, fill func(p int, x, probs, dst []float64)) *tensor.Tensor {
	if l.x.Numel() == 0 {
		return tensor.New(dt, l.x.Shape, []float64{})
	}
	order := append(slices.Delete(elements.AllDims(l.x.Dim()), l.dim, l.dim+1), l.dim)
	last := l.dim == l.x.Dim()-1
	x, q := l.x, l.probs
	if !last {
		x = x.Permute(order...)
		if q != nil {
			q = q.Permute(order...)
		}
	}
	n := l.classes
	t := opdef.Rows(dt, x.Shape, n, func(p int, dst []float64) {
		src, probs := opdef.Scratch[float64](n), opdef.Scratch[float64](n)
		tensor.Load(x, p*n, *src)
		if q != nil {
			tensor.Load(q, p*n, *probs)
		}
		fill(p, *src, *probs, dst)
		opdef.Release(src)
		opdef.Release(probs)
	})
	if last {
		return t
	}
	back := make([]int, len(order))
	for i, d := range order {
		back[d] = i
	}
	return t.Permute(back...)
}

// picked is the gradient of logarithms of probabilities: -weight at the target.
func (l *classLoss) picked(up *tensor.Tensor) *tensor.Tensor {
	g := l.perPosition(up)
	return l.byPosition(l.x.DType, func(p int, _, _, dst []float64) {
		clear(dst)
		if t := l.target[p]; t >= 0 {
			dst[t] = -g[p] * l.weightOf(t)
		}
	})
}

// grads are the gradients of scores, and of probabilities.
func (l *classLoss) grads(gr *opdef.Grad, magnitudes bool) opdef.Grads {
	grads := opdef.Grads{}
	if l.x.Numel() == 0 {
		grads.Set("input", tensor.New(l.x.DType, l.x.Shape, []float64{}))
		if l.probs != nil {
			grads.Set("target", tensor.New(l.probs.DType, l.x.Shape, []float64{}))
		}
		return grads
	}
	g := l.perPosition(gr.Out[0])
	grads.Set("input", l.scoresGrad(g, magnitudes))
	if l.probs != nil && gr.Need("target") {
		grads.Set("target", l.probsGrad(g, magnitudes))
	}
	return grads
}

// scoresGrad is the gradient of scores, from that of each position.
func (l *classLoss) scoresGrad(g []float64, magnitudes bool) *tensor.Tensor {
	even := l.smoothing / float64(l.classes)
	// picked is the weight of class c at a position: of its probability, of its
	// share of the smoothing, of being the target t.
	picked := func(c int, t int64, probs []float64) float64 {
		q := even
		if l.probs != nil {
			q += probs[c] * (1 - l.smoothing)
		}
		if int64(c) == t {
			q += 1 - l.smoothing
		}
		return q * l.weightOf(int64(c))
	}
	// A position's gradient is the softmax times the sum of what is picked, less
	// what is picked.
	return l.byPosition(l.x.DType, func(p int, x, probs, dst []float64) {
		t, total := int64(-1), 1.0
		if l.probs == nil {
			if t = l.target[p]; t < 0 {
				clear(dst)
				if l.timesZero {
					kernel.Softmax(dst, x)
					vmath.Scale(dst, dst, 0)
				}
				return
			}
			total = l.weightOf(t)
		}
		if l.probs != nil || l.smoothing > 0 {
			total = 0
			for c := range x {
				total += picked(c, t, probs)
			}
		}
		kernel.Softmax(dst, x)
		if l.lacks > 0 {
			kernel.Softmax(dst[:l.classes-l.lacks], x[:l.classes-l.lacks])
			clear(dst[l.classes-l.lacks:])
		}
		if l.unpicked {
			vmath.Affine(dst, dst, 0, g[p]*total)
			return
		}
		switch {
		case magnitudes && l.probs == nil && l.smoothing == 0:
			k := math.Abs(g[p] * total)
			vmath.Mul(dst, dst, l.exponents(x, dst))
			vmath.Affine(dst, dst, 0, k)
			dst[t] += k
		case magnitudes:
			vmath.Mul(dst, dst, l.exponents(x, dst))
			for c, e := range dst {
				dst[c] = math.Abs(g[p]) * (math.Abs(total)*e + math.Abs(picked(c, t, probs)))
			}
		case l.probs == nil && l.smoothing == 0:
			k := g[p] * total
			vmath.Affine(dst, dst, 0, k)
			dst[t] -= k
		default:
			for c, e := range dst {
				dst[c] = g[p] * (total*e - picked(c, t, probs))
			}
		}
	})
}

// probsGrad is the gradient of probabilities, from that of each position.
func (l *classLoss) probsGrad(g []float64, magnitudes bool) *tensor.Tensor {
	logs := math.Log(float64(l.classes))
	coarse := elements.Coarseness(l.probs.DType, l.factors()...)
	return l.byPosition(l.probs.DType, func(p int, x, _, dst []float64) {
		m, lse := elements.LogSumExpRow(x)
		for c, xc := range x {
			k := g[p] * (1 - l.smoothing) * l.weightOf(int64(c))
			dst[c] = k * (m - xc + lse)
			if magnitudes {
				dst[c] = coarse * math.Abs(k) * (2*math.Abs(m) + math.Abs(xc) + 2*logs + 1)
			}
		}
	})
}

// exponents stores in x, the scores of a position with the probabilities p, by what the exponents are
// known: of 16 bits the logarithms of p are rounded to the dtype, wider ones may be differences
// of scores and the logarithm of their sum.
func (l *classLoss) exponents(x, p []float64) []float64 {
	logs, most := math.Log(float64(l.classes)), vmath.Max(x)
	if l.x.DType.IsHalf() {
		vmath.Affine(x, x, -(1 + most - math.Log(vmath.Max(p)) + 2*logs), -1)
	} else {
		vmath.Abs(x, x)
		vmath.Affine(x, x, 1+math.Abs(most)+2*logs, 1)
	}
	for i, of := range x { // the exponential of -inf is exact
		if p[i] == 0 && math.IsInf(of, 1) {
			x[i] = 0
		}
	}
	return x
}

// node is what the last autograd node received: the gradient of logarithms of
// probabilities; with label smoothing, or of probabilities, of numbers that
// follow them.
func (l *classLoss) node(up *tensor.Tensor) opdef.Node {
	switch {
	case l.probs != nil && l.how == reduceMean:
		return opdef.Node{Grads: elements.Single(elements.Scaled(up, 1/l.divisor())), Weak: elements.SpreadOnly}
	case l.probs != nil:
		return opdef.Node{Grads: elements.Single(elements.Scaled(up, -1)), Weak: "the incoming gradient negated"}
	case l.smoothing > 0:
		return opdef.Node{Grads: []*tensor.Tensor{up, up}, Weak: "the incoming gradient"}
	}
	flat := l.flat()
	if flat != nil && l.how == reduceNone {
		return opdef.Node{Grads: elements.Single(up.Reshape(flat[0], 1, flat[3])),
			Weak: "the incoming gradient reshaped"}
	}
	picked := l.picked(up)
	if flat != nil {
		picked = picked.Reshape(flat...)
	}
	return opdef.Node{Grads: elements.Single(picked),
		Scale: func() []*tensor.Tensor { return elements.Single(opdef.Abs(picked)) }}
}

// GradElse are the gradients where the mean divides by weights that were added in 16 bits and, of scores, as torch's
// CPU computes ignored positions.
func (l *classLoss) GradElse(gr *opdef.Grad) ([]opdef.Grads, error) {
	out, err := l.otherDivisor(gr)
	if err != nil || !l.scores || !slices.ContainsFunc(l.target, func(t int64) bool { return t < 0 }) {
		return out, err
	}
	m := *l
	m.timesZero = true
	return append(out, m.grads(gr, false)), nil
}

// otherDivisor are the gradients where the mean divides by weights that were added in 16 bits.
func (l *classLoss) otherDivisor(gr *opdef.Grad) ([]opdef.Grads, error) {
	if !l.x.DType.IsHalf() || l.how != reduceMean || l.weight == nil || l.probs != nil {
		return nil, nil
	}
	m := *l
	m.fewer = l.divisor() - l.addedWeights()
	if !l.scores {
		return []opdef.Grads{elements.GradOf("input", m.picked(gr.Out[0]))}, nil
	}
	return []opdef.Grads{m.grads(gr, false)}, nil
}

// addedWeights is the sum of the weights of the targets that count as torch's CPU kernels add them, in
// the dtype of the scores: sums of 16 terms, of which sums of 16 are formed, and so on.
func (l *classLoss) addedWeights() float64 {
	const levels = 8
	power := max(4, (bits.Len(uint(len(l.target)-1))+levels-1)/levels)
	var sums [levels]float64
	round := l.x.DType.Round
	for i, t := range l.target {
		if t < 0 {
			continue
		}
		sums[0] = round(sums[0] + l.weightOf(t))
		for k := 0; k+1 < levels && i>>(k*power)&(1<<power-1) == 0; k++ {
			sums[k+1] = round(sums[k+1] + sums[k])
			sums[k] = 0
		}
	}
	all := 0.0
	for _, s := range sums {
		all = round(all + s)
	}
	return all
}

var crossEntropyCases = opdef.Calls[crossEntropyArgs](`
	f64[3, 4], i64[3]{0..3}; f64[3, 4], i64[3]{= 1 -100 3}, weight=f64[4]{0.5..2 fixed}, label_smoothing=0.1
	f64[3, 4], i64[3]{= 1 -100 3}, reduction='none', label_smoothing=0.2
	f64[2, 4, 3], i64[2, 3]{0..3}, weight=f64[4]{0.5..2 fixed}, ignore_index=2, reduction='sum'
	f64[2, 4, 2, 2], i64[2, 2, 2]{0..3}, reduction='none'; f32[5], i64[]{0..4}
	bf16[3, 4], i64[3]{0..3}, reduction='sum'; f64[3, 4], f64[3, 4]{0.1..0.9}
	f64[2, 4, 3], f64[2, 4, 3]{0.1..0.9}, weight=f64[4]{0.5..2 fixed}, reduction='none', label_smoothing=0.3
	f32[0, 4], i64[0]{0..3}, reduction='none'; f32[3, 33], i64[3]{0..32}
	for T in f32 bf16: T[3, 133]{rows}, i64[3]{0..132}
	f32[3, 1030]{rows}, i64[3]{0..1029}
	for T in f32 bf16: T[3, 133]{tails}, i64[3]{= 132 1 130}
	f32[3, 1030]{tails}, i64[3]{= 1029 1 1026}`)
