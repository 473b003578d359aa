package loss

import (
	"math"
	"sync"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// ctcOps is connectionist temporal classification.
var ctcOps = []*opdef.Entry{
	opdef.Planned[*ctcArgs, *alignment]{
		Schema: "ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, str " +
			"reduction='mean', bool zero_infinity=False) -> Tensor",
		Names:  "F.ctc_loss",
		Traits: opdef.Traits{Composite: true, Autocast: opdef.AutocastFloat32},

		Doc: opdef.Doc{
			Summary: "Negative logarithm of the probability of a label sequence under any alignment",
			Notes: "log_probs is (T, N, C) or (T, C), targets (N, S) or all labels one after the other. The mean " +
				"divides each loss by its target's length first. " +
				"As in PyTorch, the gradient is that of the scores whose log_softmax log_probs is.",
			Source: "torch.nn.functional.ctc_loss; Graves et al., Connectionist temporal classification, 2006",
		},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}},
		Exempt: map[string]string{"gradients": "the gradient is that of the scores before log_softmax"},
		Bounds: opdef.Bounds[*alignment]{
			Terms:     func(c *alignment) int { return max(1, c.args.LogProbs.Shape[0]) },
			GradTerms: func(c *alignment) int { return max(1, c.args.LogProbs.Numel()) },
			// Each of the T factors of a path is known to the size of its logarithm.
			Scale: func(c *alignment, outs []*tensor.Tensor) []*tensor.Tensor {
				return elements.Single(c.forward(func(k int) float64 {
					return 2*math.Abs(c.loss(k)) + float64(c.inputs[k])
				}).WithDType(tensor.Float64))
			},
			// With T logarithms added up, probabilities are known to T times theirs.
			GradScale: func(c *alignment, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
				t, length := gr["log_probs"][0], float64(c.args.LogProbs.Shape[0])
				grown := 1 + length*math.Log(float64(max(2, elements.LastDim(c.args.LogProbs.Shape))))
				return elements.GradOf("log_probs", tensor.Full(tensor.Float64, t.Shape, opdef.MaxAbs(t)*grown)), nil
			},
		},
		Plan: (*ctcArgs).alignment,
		Kernel: func(c *alignment) ([]*tensor.Tensor, error) {
			return elements.Single(c.forward(c.loss)), nil
		},
		Grad: func(c *alignment, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("log_probs", c.grad(g.Out[0])), nil
		},
		Node: func(c *alignment, g *opdef.Grad) (opdef.Node, error) {
			if c.how == reduceNone {
				return opdef.Node{}, nil
			}
			return opdef.Node{Grads: elements.Single(elements.Scaled(opdef.Unreduce(g.Out[0], []int{c.n}, []int{0}),
				1/c.divisor())),
				Weak: elements.SpreadOnly}, nil
		},
		Cases: func(g opdef.Gen) []*ctcArgs {
			f64, i64 := tensor.Float64, tensor.Int64
			ints := func(v ...int64) value.Value { return tensor.New(i64, []int{len(v)}, v).Rounded() }
			logs := func(dt tensor.DType, shape ...int) *tensor.Tensor {
				t := opdef.AlongDim(dt, g.Normal(dt, shape...), len(shape)-1, elements.LogSoftmaxRow).Rounded()
				t.RequiresGrad = true
				return t
			}
			return []*ctcArgs{
				{LogProbs: logs(f64, 6, 2, 4), Targets: g.Int(i64, 1, 3, 2, 2), InputLengths: ints(6, 5),
					TargetLengths: ints(2, 1), Reduction: "mean"},
				{LogProbs: logs(f64, 6, 2, 4), Targets: g.Int(i64, 1, 3, 3), InputLengths: value.NewTuple(int64(6),
					int64(6)), TargetLengths: value.NewTuple(int64(1), int64(2)), Reduction: "none"},
				{LogProbs: logs(tensor.Float32, 5, 3), Targets: tensor.New(i64, []int{2}, []int64{1, 1}).Rounded(),
					InputLengths: ints(5), TargetLengths: ints(2), Blank: 2, Reduction: "sum", ZeroInfinity: true},
			}
		},
	}.Entry(),
}

type ctcArgs struct {
	LogProbs, Targets           *tensor.Tensor
	InputLengths, TargetLengths value.Value
	Blank                       int
	Reduction                   string
	ZeroInfinity                bool
}

// An alignment is a call after its arguments were checked.
type alignment struct {
	args    *ctcArgs
	how     reductionMode
	single  bool // log_probs has no batch dimension
	n, c    int  // batch, classes
	logs    []float64
	labels  [][]int64 // per sample
	inputs  []int     // lengths
	targets []int

	paths func() []samplePaths // of each sample, followed once
}

// lengthsOf reads a tensor or sequence of n lengths from 0 to limit.
func lengthsOf(arg string, v value.Value, n, limit int) ([]int, error) {
	var out []int
	switch v := v.(type) {
	case *tensor.Tensor:
		if v.DType.Kind() >= tensor.KindFloat {
			return nil, opdef.Refuse(arg, "want integers, got dtype %s", v.DType)
		}
		for _, x := range tensor.Data[int64](v) {
			out = append(out, int(x))
		}
	case *value.Sequence:
		for _, it := range v.Items {
			s, ok := opdef.ScalarOf(it)
			if !ok || s.Kind() > tensor.KindInt {
				return nil, opdef.Refuse(arg, "want integers, got %s", opdef.TypeName(it))
			}
			out = append(out, int(s.Int64()))
		}
	default:
		return nil, opdef.Refuse(arg, "want a tensor or a sequence of integers, got %s", opdef.TypeName(v))
	}
	if len(out) != n {
		return nil, opdef.Refuse(arg, "want %d lengths, one per sample, got %d", n, len(out))
	}
	for _, x := range out {
		if x < 0 || x > limit {
			return nil, opdef.Refuse(arg, "length %d is out of range [0, %d]", x, limit)
		}
	}
	return out, nil
}

func (a *ctcArgs) alignment() (*alignment, error) {
	if err := elements.WantFloat("log_probs", a.LogProbs); err != nil {
		return nil, err
	}
	if d := a.LogProbs.Dim(); d != 2 && d != 3 {
		return nil, opdef.Refuse("log_probs", "want 2 or 3 dimensions, got %d", d)
	}
	if k := a.Targets.DType.Kind(); k != tensor.KindInt {
		return nil, opdef.Refuse("targets", "want integers, got dtype %s", a.Targets.DType)
	}
	how, err := reductionOf(a.Reduction, nil, nil)
	if err != nil {
		return nil, err
	}
	al := &alignment{args: a, how: how, single: a.LogProbs.Dim() == 2, n: 1, c: elements.LastDim(a.LogProbs.Shape)}
	if !al.single {
		al.n = a.LogProbs.Shape[1]
	}
	if a.Blank < 0 || a.Blank >= al.c {
		return nil, opdef.Refuse("blank", "class %d is out of range [0, %d)", a.Blank, al.c)
	}
	if al.inputs, err = lengthsOf("input_lengths", a.InputLengths, al.n, a.LogProbs.Shape[0]); err != nil {
		return nil, err
	}
	targets, stride := tensor.Data[int64](a.Targets), 0
	if a.Targets.Dim() > 1 {
		if a.Targets.Shape[0] != al.n {
			return nil, opdef.Refuse("targets", "want %d rows, got %d", al.n, a.Targets.Shape[0])
		}
		stride = elements.LastDim(a.Targets.Shape)
	}
	limit := len(targets)
	if stride > 0 {
		limit = stride
	}
	if al.targets, err = lengthsOf("target_lengths", a.TargetLengths, al.n, limit); err != nil {
		return nil, err
	}
	at := 0
	for k, n := range al.targets {
		if stride > 0 {
			at = k * stride
		}
		if at+n > len(targets) {
			return nil, opdef.Refuse("targets", "%d labels are fewer than the target_lengths say", len(targets))
		}
		al.labels = append(al.labels, targets[at:at+n])
		for _, t := range al.labels[k] {
			if t < 0 || t >= int64(al.c) {
				return nil, opdef.Refuse("targets", "class %d is out of range [0, %d)", t, al.c)
			}
		}
		at += n
	}
	al.logs = tensor.Data[float64](a.LogProbs)
	al.paths = sync.OnceValue(al.follow)
	return al, nil
}

// state is the class of state s of sample k: labels with blanks around them.
func (al *alignment) state(k, s int) int {
	if s%2 == 0 {
		return al.args.Blank
	}
	return int(al.labels[k][s/2])
}

// log is the logarithm of the probability of class c of sample k at time t.
func (al *alignment) log(k, t, c int) float64 { return al.logs[(t*al.n+k)*al.c+c] }

func logAdd(x ...float64) float64 {
	m := vmath.Max(x)
	if math.IsInf(m, -1) {
		return m
	}
	s := 0.0
	for _, v := range x {
		s += math.Exp(v - m)
	}
	return m + math.Log(s)
}

// samplePaths are the logarithms of the probabilities of all paths of a sample to each state until
// each time, at [t*states+s], and less that of all paths to the end: +Inf if no path fits.
type samplePaths struct {
	ahead  []float64
	negLog float64
}

// follow goes along the paths of all samples.
func (al *alignment) follow() []samplePaths {
	out := make([]samplePaths, al.n)
	al.eachSample(func(k int) {
		p := samplePaths{al.walk(k, false), math.Inf(1)}
		states, steps := 2*len(al.labels[k])+1, al.inputs[k]
		switch {
		case steps == 0 && states == 1:
			p.negLog = 0
		case steps > 0 && states == 1:
			p.negLog = -p.ahead[steps-1]
		case steps > 0:
			p.negLog = -logAdd(p.ahead[steps*states-1], p.ahead[steps*states-2])
		}
		out[k] = p
	})
	return out
}

// walk goes along the paths of sample k from their beginning or, if back is set, from their end: of each
// state and time the logarithm of the probability of all paths from there, with the class of the state itself.
func (al *alignment) walk(k int, back bool) []float64 {
	states, steps := 2*len(al.labels[k])+1, al.inputs[k]
	out := tensor.Make[float64](steps * states)
	// at maps a state and time counted from where the paths begin.
	at := func(t, s int) (int, int) {
		if back {
			return steps - 1 - t, states - 1 - s
		}
		return t, s
	}
	for t := range steps {
		for s := range states {
			rt, rs := at(t, s)
			class := al.state(k, rs)
			before := math.Inf(-1)
			if t == 0 {
				if s < 2 {
					before = 0
				}
			} else {
				get := func(s int) float64 {
					pt, ps := at(t-1, s)
					return out[pt*states+ps]
				}
				from := []float64{get(s)}
				if s > 0 {
					from = append(from, get(s-1))
				}
				if s > 1 {
					if _, ps := at(t, s-2); al.state(k, ps) != class {
						from = append(from, get(s-2))
					}
				}
				before = logAdd(from...)
			}
			out[rt*states+rs] = before + al.log(k, rt, class)
		}
	}
	return out
}

// eachSample calls f with the number of each.
func (al *alignment) eachSample(f func(k int)) {
	tensor.Parallel(al.n, 1, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			f(k)
		}
	})
}

// without reports that sample k has no path and counts for nothing.
func (al *alignment) without(k int) bool {
	return al.args.ZeroInfinity && math.IsInf(al.paths()[k].negLog, 1)
}

// loss is that of sample k.
func (al *alignment) loss(k int) float64 {
	if al.without(k) {
		return 0
	}
	return al.paths()[k].negLog
}

// share is the factor of the loss of sample k in the reduced loss.
func (al *alignment) share(k int) float64 {
	if al.how == reduceMean {
		return 1 / (al.divisor() * float64(max(1, al.targets[k])))
	}
	return 1
}

func (al *alignment) divisor() float64 {
	if al.how == reduceMean {
		return float64(al.n)
	}
	return 1
}

func (al *alignment) forward(f func(k int) float64) *tensor.Tensor {
	out := tensor.Make[float64](al.n)
	for k := range out {
		out[k] = al.share(k) * f(k)
	}
	dt := al.args.LogProbs.DType
	if al.how != reduceNone || al.single {
		return tensor.Scalar(dt, opdef.PairwiseSum(out))
	}
	return tensor.New(dt, []int{al.n}, out)
}

// grad is exp(log_probs) less the probability of the class at that time among
// the paths of the target, 0 past the input's length.
func (al *alignment) grad(up *tensor.Tensor) *tensor.Tensor {
	g := make([]float64, len(al.logs))
	al.eachSample(func(k int) {
		if al.without(k) {
			return
		}
		u := al.share(k)
		if up.Numel() == 1 {
			u *= up.Item()
		} else {
			u *= tensor.At[float64](up, k)
		}
		states, p, back := 2*len(al.labels[k])+1, al.paths()[k], al.walk(k, true)
		joint := tensor.Make[float64](al.c)
		for t := range al.inputs[k] {
			for c := range joint {
				joint[c] = math.Inf(-1)
			}
			for s := range states {
				c := al.state(k, s)
				joint[c] = logAdd(joint[c], p.ahead[t*states+s]+back[t*states+s])
			}
			row := g[(t*al.n+k)*al.c : (t*al.n+k+1)*al.c]
			for c := range row {
				lp := al.log(k, t, c)
				row[c] = u * (math.Exp(lp) - math.Exp(joint[c]+p.negLog-lp))
			}
		}
	})
	return tensor.New(al.args.LogProbs.DType, al.args.LogProbs.Shape, g)
}
