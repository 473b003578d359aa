package loss

import (
	"math"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// rnntLoss is the loss of a transducer.
var rnntLoss = opdef.Planned[*rnntArgs, *lattice]{
	Schema: "rnnt_loss(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank=-1, " +
		"float clamp=-1, str reduction='mean', bool fused_log_softmax=True) -> Tensor",
	Names: "torchaudio.functional.rnnt_loss torchaudio.functional.functional.rnnt_loss",
	Doc: opdef.Doc{
		Summary: "Negative logarithm of the probability of a label sequence under any path of a transducer",
		Notes: "logits is (B, T, U + 1, C) with targets (B, U): from (t, u) a path goes on to t + 1 by the blank, or to " +
			"u + 1 by the label. fused_log_softmax=False takes logarithms of probabilities. " +
			"Gradients are clamped to [-clamp, clamp] if clamp is above 0.",
		Source: "torchaudio.functional.rnnt_loss; Graves, Sequence transduction with recurrent neural networks, 2012",
	},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
	Bounds: opdef.Bounds[*lattice]{
		Terms:     (*lattice).steps,
		GradTerms: (*lattice).steps,
		// Each step of a path is known to the size of its logarithm.
		Scale: func(l *lattice, _ []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(l.forward(func(k int) float64 {
				return 2*math.Abs(l.tables().total[k]) + float64(l.times[k]+l.labels[k])
			}).WithDType(tensor.Float64))
		},
		// With T + U logarithms added up, probabilities are known to T + U times theirs.
		GradScale: func(l *lattice, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
			t := gr["logits"][0]
			grown := 1 + float64(l.steps())*math.Log(float64(max(2, l.c)))
			return elements.GradOf("logits", tensor.Full(tensor.Float64, t.Shape, opdef.MaxAbs(t)*grown)), nil
		},
	},
	Plan: (*rnntArgs).lattice,
	Kernel: func(l *lattice) ([]*tensor.Tensor, error) {
		return elements.Single(l.forward(func(k int) float64 { return -l.tables().total[k] })), nil
	},
	Grad: func(l *lattice, g *opdef.Grad) (opdef.Grads, error) {
		return elements.GradOf("logits", l.grad(g.Out[0])), nil
	},
	Node: func(l *lattice, g *opdef.Grad) (opdef.Node, error) {
		if l.how == reduceNone {
			return opdef.Node{}, nil
		}
		spread := opdef.Unreduce(g.Out[0], []int{l.n}, []int{0})
		return opdef.Node{Grads: elements.Single(elements.Scaled(spread, l.share())), Weak: elements.SpreadOnly}, nil
	},
	Cases: opdef.Calls[rnntArgs](`
		f64[2, 4, 3, 5], i32[2, 2]{0..3}, i32[2]{= 4 3}, i32[2]{= 2 1}
		f64[2, 3, 4, 3], i32[2, 3]{1..2}, i32[2]{= 3 1}, i32[2]{= 3 0}, blank=0, reduction='none',
		fused_log_softmax=False
		f32[1, 3, 2, 4], i32[1, 1]{1..3}, i32[1]{= 3}, i32[1]{= 1}, blank=0, reduction='sum'`),
}.Entry()

type rnntArgs struct {
	Logits, Targets, LogitLengths, TargetLengths *tensor.Tensor
	Blank                                        int
	Clamp                                        float64
	Reduction                                    string
	FusedLogSoftmax                              bool
}

// A lattice is a call after its arguments were checked: points (t, u), of which rows of
// logits say how a path goes on.
type lattice struct {
	args       *rnntArgs
	how        reductionMode
	n, t, u, c int // batch, times, labels + 1, classes
	blank      int
	times      []int // lengths, of each sample
	labels     []int
	targets    []int64

	tables func() *rnntTables // what the points have, made once
}

func (a *rnntArgs) lattice() (*lattice, error) {
	if err := elements.WantFloat("logits", a.Logits); err != nil {
		return nil, err
	}
	if d := a.Logits.Dim(); d != 4 {
		return nil, opdef.Refuse("logits", "want 4 dimensions, got %d", d)
	}
	how, err := reductionOf(a.Reduction, nil, nil)
	if err != nil {
		return nil, err
	}
	s := a.Logits.Shape
	l := &lattice{args: a, how: how, n: s[0], t: s[1], u: s[2], c: s[3], blank: a.Blank}
	if l.blank < 0 {
		l.blank += l.c
	}
	if l.blank < 0 || l.blank >= l.c {
		return nil, opdef.Refuse("blank", "class %d is out of range [-%d, %d)", a.Blank, l.c, l.c)
	}
	if t := a.Targets; t.DType.Kind() != tensor.KindInt || t.Dim() != 2 || t.Shape[0] != l.n || t.Shape[1] != l.u-1 {
		return nil, opdef.Refuse("targets", "want integers of shape [%d, %d], got %s of %v", l.n, l.u-1, t.DType,
			t.Shape)
	}
	if l.times, err = lengthsOf("logit_lengths", a.LogitLengths, l.n, l.t); err != nil {
		return nil, err
	}
	if l.labels, err = lengthsOf("target_lengths", a.TargetLengths, l.n, l.u-1); err != nil {
		return nil, err
	}
	l.targets = tensor.Data[int64](a.Targets)
	for k := range l.n {
		if l.times[k] == 0 {
			return nil, opdef.Refuse("logit_lengths", "sample %d has no time", k)
		}
		for u := range l.labels[k] {
			if y := l.label(k, u); y < 0 || y >= l.c {
				return nil, opdef.Refuse("targets", "class %d is out of range [0, %d)", y, l.c)
			}
		}
	}
	l.tables = sync.OnceValue(l.makeTables)
	return l, nil
}

// steps is how many factors a path has at most.
func (l *lattice) steps() int { return max(1, l.t+l.u-1) }

// label is the class that leads from u to u + 1 in sample k.
func (l *lattice) label(k, u int) int { return int(l.targets[k*(l.u-1)+u]) }

// share is the factor of each loss in the reduced loss.
func (l *lattice) share() float64 {
	if l.how == reduceMean {
		return 1 / float64(l.n)
	}
	return 1
}

// An rnntTables has, of each point of each sample, the logarithms of the probabilities of the
// blank and of the label (-Inf where a sample does not go on so), what the row's
// logarithms are less (0 unless log_softmax is fused), and the logarithm of the probability of
// all paths from the beginning; total is that of all paths of each sample.
type rnntTables struct{ blank, label, less, ahead, total []float64 }

func (l *lattice) makeTables() *rnntTables {
	points := func() []float64 { return tensor.Make[float64](l.n * l.t * l.u) }
	p := &rnntTables{points(), points(), points(), points(), tensor.Make[float64](l.n)}
	l.eachPoint(func(k, t, u, at int, row []float64) {
		if l.args.FusedLogSoftmax {
			m, lse := elements.LogSumExpRow(row)
			p.less[at] = m + lse
		}
		p.blank[at], p.label[at] = row[l.blank]-p.less[at], math.Inf(-1)
		if u < l.labels[k] {
			p.label[at] = row[l.label(k, u)] - p.less[at]
		}
	})
	l.eachSample(func(k int) { p.goAhead(l, k) })
	return p
}

// eachPoint calls f with each point that a path can reach, its number and its row of logits.
func (l *lattice) eachPoint(f func(k, t, u, at int, row []float64)) {
	tensor.Parallel(l.n*l.t, 1, func(lo, hi int) {
		row := tensor.Make[float64](l.c)
		for i := lo; i < hi; i++ {
			k, t := i/l.t, i%l.t
			if t >= l.times[k] {
				continue
			}
			for u := range l.labels[k] + 1 {
				at := i*l.u + u
				tensor.Load(l.args.Logits, at*l.c, row)
				f(k, t, u, at, row)
			}
		}
	})
}

// eachSample calls f with the number of each.
func (l *lattice) eachSample(f func(k int)) {
	tensor.Parallel(l.n, 1, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			f(k)
		}
	})
}

// goAhead follows the paths of sample k from their beginning.
func (p *rnntTables) goAhead(l *lattice, k int) {
	first, end := k*l.t*l.u, l.labels[k]
	for t := range l.times[k] {
		for u := range end + 1 {
			at, x := first+t*l.u+u, 0.0
			switch {
			case t == 0 && u == 0:
			case t == 0:
				x = p.ahead[at-1] + p.label[at-1]
			case u == 0:
				x = p.ahead[at-l.u] + p.blank[at-l.u]
			default:
				x = logAdd(p.ahead[at-l.u]+p.blank[at-l.u], p.ahead[at-1]+p.label[at-1])
			}
			p.ahead[at] = x
		}
	}
	last := first + (l.times[k]-1)*l.u + end
	p.total[k] = p.ahead[last] + p.blank[last]
}

// goBack follows the paths of sample k from their end: back gets, of each point, the logarithm of the
// probability of all paths from there.
func (p *rnntTables) goBack(l *lattice, k int, back []float64) {
	first, end := k*l.t*l.u, l.labels[k]
	for t := l.times[k] - 1; t >= 0; t-- {
		for u := end; u >= 0; u-- {
			at := first + t*l.u + u
			byBlank, byLabel := math.Inf(-1), math.Inf(-1)
			switch {
			case t+1 < l.times[k]:
				byBlank = back[at+l.u] + p.blank[at]
			case u == end:
				byBlank = p.blank[at]
			}
			if u < end {
				byLabel = back[at+1] + p.label[at]
			}
			back[at] = logAdd(byBlank, byLabel)
		}
	}
}

func (l *lattice) forward(f func(k int) float64) *tensor.Tensor {
	out := tensor.Make[float64](l.n)
	for k := range out {
		out[k] = l.share() * f(k)
	}
	dt := l.args.Logits.DType
	if l.how != reduceNone {
		return tensor.Scalar(dt, opdef.PairwiseSum(out))
	}
	return tensor.New(dt, []int{l.n}, out)
}

// grad is, of each point, the probability of the paths through it times that of each class,
// less the probability of the paths that leave it by that class; 0 past the lengths.
func (l *lattice) grad(up *tensor.Tensor) *tensor.Tensor {
	p := l.tables()
	back := tensor.Make[float64](len(p.ahead))
	l.eachSample(func(k int) { p.goBack(l, k, back) })
	g := tensor.Make[float64](l.args.Logits.Numel())
	l.eachPoint(func(k, t, u, at int, row []float64) {
		reached := p.ahead[at] - p.total[k]
		dst := g[at*l.c : (at+1)*l.c]
		if l.args.FusedLogSoftmax {
			through := math.Exp(reached + back[at])
			for c, x := range row {
				dst[c] = through * math.Exp(x-p.less[at])
			}
		}
		switch {
		case t+1 < l.times[k]:
			dst[l.blank] -= math.Exp(reached + p.blank[at] + back[at+l.u])
		case u == l.labels[k]:
			dst[l.blank] -= math.Exp(reached + p.blank[at])
		}
		if u < l.labels[k] {
			dst[l.label(k, u)] -= math.Exp(reached + p.label[at] + back[at+1])
		}
		f := l.share()
		if up.Numel() == 1 && l.how != reduceNone {
			f *= up.Item()
		} else {
			f *= tensor.At[float64](up, k)
		}
		for c, x := range dst {
			if m := l.args.Clamp; m > 0 {
				x = min(max(x, -m), m)
			}
			dst[c] = f * x
		}
	})
	return tensor.New(l.args.Logits.DType, l.args.Logits.Shape, g)
}
