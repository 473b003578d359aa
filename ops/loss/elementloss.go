package loss

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// An elementLoss is a loss with one term for each element of its broadcast operands. The terms are averaged, added or
// returned as they are.
type elementLoss struct {
	operands []*tensor.Tensor
	given    []*tensor.Tensor // the arguments, where operands are reshaped; else nil
	names    []string         // argument names of the operands; "" has no gradient
	weight   *tensor.Tensor
	byWeight bool // the mean divides by the sum of the weights
	how      reductionMode
	batch    int // what batchmean divides by

	// ints says that the loss reads integers as float32.
	ints bool

	// like is the operand whose dtype the loss has, because torch writes the terms into a copy of it. If it is nil,
	// the loss has the common dtype of all operands.
	like *tensor.Tensor

	// complex is the dtype of a loss of complex numbers, Invalid for other losses. Then the operands are all real
	// parts, followed by all imaginary parts.
	complex tensor.DType

	f func(v []float64) float64
	// formula is f with the numbers that a kernel may have wrong. Of is nil if f has no such number.
	formula opdef.Formula[[]float64]
	// through is the magnitude of a number that f adds to a term and takes away again, such as 1 in log(1 + exp(x)).
	// It is nil if there is none.
	through func(v []float64) float64
	// steps is f as torch computes it in a dtype of 16 bits: each step is rounded. It is nil if only the result is
	// rounded.
	steps func(round func(float64) float64, v []float64) float64
	// df stores the derivatives of f in d. ds, if not nil, stores the sums of the magnitudes of their terms.
	df, ds func(v, d []float64)

	// own says that the loss is one autograd node of torch, with a gradient for each of the first two operands. If it
	// is not, the last node is the reduction. An unreduced loss has another last node, whose gradients alone gives.
	own   bool
	alone func(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error)
}

// A reductionMode is what torch's losses do with their terms.
type reductionMode uint8

const (
	reduceNone reductionMode = iota
	reduceMean
	reduceSum
	reduceBatchMean
)

// reductionOf reads the arguments torch's losses share; the deprecated
// size_average and reduce win where one of them is given.
func reductionOf(name string, sizeAverage, reduce *bool) (reductionMode, error) {
	if sizeAverage != nil || reduce != nil {
		yes := func(b *bool) bool { return b == nil || *b }
		switch {
		case !yes(reduce):
			return reduceNone, nil
		case yes(sizeAverage):
			return reduceMean, nil
		}
		return reduceSum, nil
	}
	switch name {
	case "none":
		return reduceNone, nil
	case "mean":
		return reduceMean, nil
	case "sum":
		return reduceSum, nil
	case "batchmean":
		return reduceBatchMean, nil
	}
	return 0, opdef.Refuse("reduction", "%q is no way to reduce a loss", name)
}

// elementLossOp completes the declaration of a loss whose call gives its terms.
func elementLossOp[A any](o opdef.Planned[*A, *elementLoss]) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 4, Shared: o.Error.Shared,
		Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
	o.Terms = func(l *elementLoss) int {
		if l.how == reduceNone {
			return 1
		}
		return max(1, l.operands[0].Numel())
	}
	o.Kernel = func(l *elementLoss) ([]*tensor.Tensor, error) {
		t, err := l.forward(l.f)
		return elements.Single(t), err
	}
	o.Scale = func(l *elementLoss, _ []*tensor.Tensor) []*tensor.Tensor {
		s := opdef.Must(l.forward(l.magnitude))
		return elements.Single(elements.Scaled(s.WithDType(tensor.Float64), l.coarseness(s.DType)))
	}
	o.Grad = func(l *elementLoss, g *opdef.Grad) (opdef.Grads, error) { return l.grads(g, l.df, false) }
	o.GradTerms = func(l *elementLoss) int {
		n := 1
		for _, t := range l.operands {
			n = max(n, t.Numel())
		}
		return n
	}
	o.GradScale = func(l *elementLoss, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		ds := l.ds
		if ds == nil {
			ds = l.df
		}
		return l.grads(g, ds, true)
	}
	o.Node = func(l *elementLoss, g *opdef.Grad) (opdef.Node, error) { return l.node(g.Out[0]) }
	return o.Entry()
}

// Constants are the numbers of the formula. A kernel with another one has the derivatives of what it computes, too.
func (l *elementLoss) Constants() []opdef.Constant[any] {
	return opdef.ConstantsOf(l.formula, false, func(f func(v []float64) float64) *elementLoss {
		m := *l
		m.f, m.steps = f, nil
		m.df = func(v, d []float64) {
			w := slices.Clone(v)
			for k := range v {
				d[k] = opdef.Slope(func(x float64) float64 { w[k] = x; return f(w) }, v[k])
				w[k] = v[k]
			}
		}
		return &m
	})
}

func (l *elementLoss) Else(outs []*tensor.Tensor) [][]*tensor.Tensor {
	dt := outs[0].DType
	if l.steps == nil || !dt.IsHalf() {
		return make([][]*tensor.Tensor, 1)
	}
	stepped := opdef.Must(l.forward(func(v []float64) float64 { return l.steps(dt.Round, v) }))
	return [][]*tensor.Tensor{elements.Single(stepped)}
}

// magnitude is how far a term can be from exact, in units of the precision. It is the size of the term plus, for each
// operand, the size of the operand times the derivative.
func (l *elementLoss) magnitude(v []float64) float64 {
	var d [4]float64
	l.df(v, d[:len(v)])
	s := math.Abs(l.f(v))
	if l.through != nil {
		s += l.through(v)
	}
	for k, x := range v {
		if c := math.Abs(x * d[k]); c == c {
			s += c
		}
	}
	return s
}

// broadcast returns the dtype of the loss and its operands, the weight last,
// in one shape.
func (l *elementLoss) broadcast() (tensor.DType, []*tensor.Tensor, []int, error) {
	dt, ts, err := opdef.Common(l.operands...)
	if err != nil {
		return dt, nil, nil, err
	}
	if l.ints && dt.Kind() < tensor.KindFloat {
		dt = tensor.DefaultDType
	}
	if l.like != nil {
		dt = l.like.DType
	}
	if !dt.IsFloat() {
		return dt, nil, nil, opdef.Refuse("input", "want a floating dtype, got %s", dt)
	}
	if l.weight != nil {
		ts = append(ts, l.weight)
	}
	ts, shape, err := opdef.BroadcastAll(ts...)
	return dt, ts, shape, err
}

// coarseness is how much coarser the operands' dtypes round than dt. It matters for losses that torch computes step by
// step: a step that reads one operand rounds to that operand's dtype. Kernels of one step first convert the operands to
// one dtype.
func (l *elementLoss) coarseness(dt tensor.DType) float64 {
	if l.own && l.steps == nil {
		return 1
	}
	return elements.Coarseness(dt, append(slices.Clone(l.operands), l.weight)...)
}

// terms are the losses of the elements, with f in place of the loss.
func (l *elementLoss) terms(f func([]float64) float64) (*tensor.Tensor, error) {
	dt, ts, shape, err := l.broadcast()
	if err != nil {
		return nil, err
	}
	n := len(l.operands)
	return opdef.ZipN(dt, shape, func(dst []float64, s [][]float64) {
		var v [4]float64
		for i := range dst {
			for k := range n {
				v[k] = s[k][i]
			}
			dst[i] = f(v[:n])
			if l.weight != nil {
				dst[i] *= s[n][i]
			}
		}
	}, ts...), nil
}

// divisor is what the sum of n terms is divided by.
func (l *elementLoss) divisor(n int) float64 {
	switch {
	case l.how == reduceBatchMean:
		return float64(l.batch)
	case l.how == reduceMean && l.byWeight && l.weight != nil:
		return opdef.Sum(tensor.Float64, l.weight, elements.AllDims(l.weight.Dim()), false).Item()
	case l.how == reduceMean:
		return float64(n)
	}
	return 1
}

func (l *elementLoss) forward(f func([]float64) float64) (*tensor.Tensor, error) {
	t, err := l.terms(f)
	if err != nil || l.how == reduceNone {
		return t, err
	}
	return elements.Scaled(opdef.Sum(t.DType, t, elements.AllDims(t.Dim()), false), 1/l.divisor(t.Numel())), nil
}

// spread is the gradient of each term.
func (l *elementLoss) spread(up *tensor.Tensor, shape []int) *tensor.Tensor {
	if l.how == reduceNone {
		return up
	}
	return elements.Scaled(opdef.Unreduce(up, shape, elements.AllDims(len(shape))), 1/l.divisor(tensor.Numel(shape)))
}

// each returns the gradient of operand k before it is summed over broadcast
// dimensions: the gradients of the terms times component k of df.
func (l *elementLoss) each(up *tensor.Tensor, k int, df func(v, d []float64), magnitudes bool) (*tensor.Tensor, error) {
	dt, ts, shape, err := l.broadcast()
	if err != nil {
		return nil, err
	}
	n := len(l.operands)
	return opdef.ZipN(dt, shape, func(dst []float64, s [][]float64) {
		var v, d [4]float64
		for i := range dst {
			for j := range n {
				v[j] = s[j][i]
			}
			df(v[:n], d[:n])
			x := s[len(s)-1][i] * d[k]
			if l.weight != nil {
				x *= s[n][i]
			}
			if magnitudes {
				x = math.Abs(x)
			}
			dst[i] = x
		}
	}, append(ts, l.spread(up, shape))...), nil
}

func (l *elementLoss) grads(g *opdef.Grad, df func(v, d []float64), magnitudes bool) (opdef.Grads, error) {
	gr := opdef.Grads{}
	for k, name := range l.names {
		if name == "" || !g.Need(name) {
			continue
		}
		t, err := l.each(g.Out[0], k, df, magnitudes)
		if err != nil {
			return nil, err
		}
		if magnitudes {
			t = elements.Scaled(t, l.coarseness(l.operands[k].DType))
		}
		shape := l.operands[k].Shape
		if l.given != nil {
			shape = l.given[k].Shape
		}
		t = opdef.SumTo(t, l.operands[k].Shape).Reshape(shape...)
		if re := gr[name]; re != nil {
			t = l.ofParts(re[0], t, magnitudes)
		}
		gr.Set(name, t)
	}
	return gr, nil
}

// ofParts makes complex numbers of their parts, or the sums of the parts' magnitudes.
func (l *elementLoss) ofParts(re, im *tensor.Tensor, magnitudes bool) *tensor.Tensor {
	if magnitudes {
		return opdef.Zip(tensor.Float64, re, im, func(x, y float64) float64 { return x + y })
	}
	return opdef.Zip(l.complex, re, im, func(x, y float64) complex128 { return complex(x, y) })
}

func (l *elementLoss) node(up *tensor.Tensor) (opdef.Node, error) {
	_, _, shape, err := l.broadcast()
	if err != nil {
		return opdef.Node{}, err
	}
	switch {
	case l.byWeight && l.weight != nil:
		return opdef.Node{Skip: "gradients belong to another op"}, nil
	case l.own && slices.Equal(l.operands[0].Shape, l.operands[1].Shape):
		return opdef.Node{}, nil
	case l.own:
		n := opdef.Node{Grads: make([]*tensor.Tensor, 2)}
		for k := range n.Grads {
			if l.operands[k].RequiresGrad {
				if n.Grads[k], err = l.each(up, k, l.df, false); err != nil {
					return n, err
				}
			}
		}
		return n, nil
	case l.how == reduceBatchMean:
		return opdef.Node{Grads: []*tensor.Tensor{elements.Scaled(up, 1/l.divisor(0)), nil}, Weak: elements.SpreadOnly},
			nil
	case l.how != reduceNone:
		return opdef.Node{Grads: elements.Single(l.spread(up, shape)), Weak: elements.SpreadOnly}, nil
	}
	ts, err := l.alone(l, up)
	return opdef.Node{Grads: ts}, err
}

// nodeOfGradient is the node of an unreduced loss that ends in an op of the first
// operand's own gradients.
func nodeOfGradient(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error) {
	t, err := l.each(up, 0, l.df, false)
	if err == nil && l.complex != tensor.Invalid {
		var im *tensor.Tensor
		if im, err = l.each(up, 2, l.df, false); err == nil {
			t = l.ofParts(t, im, false)
		}
	}
	return elements.Single(t), err
}

// shapesAgree refuses operands torch does not broadcast.
func shapesAgree(input, target *tensor.Tensor) error {
	if !slices.Equal(input.Shape, target.Shape) {
		return opdef.Refuse("target", "shape %s differs from the input's %s", tensor.ShapeString(target.Shape),
			tensor.ShapeString(input.Shape))
	}
	return nil
}

// lossReductions are the three reductions, for cases.
var lossReductions = []string{"mean", "sum", "none"}

// An operand makes an operand for cases.
type operand func(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor

// A lossPair is an input and a target, and how their loss is reduced.
type lossPair struct {
	x, t *tensor.Tensor
	how  string
}

// lossPairs makes cases from functions that make inputs and targets. g.Nth counts the cases, so that each reduction and
// each layout occurs.
func lossPairs[A any](broadcast bool, input, target operand, one func(opdef.Gen, lossPair) *A) func(opdef.Gen) []*A {
	return func(g opdef.Gen) (out []*A) {
		add := func(x, t *tensor.Tensor, how string) {
			g.Nth = len(out)
			out = append(out, one(g, lossPair{x, t, how}))
		}
		shapes := [][]int{{3, 4}, {5}, {}, {2, 0}, {2, 3, 2}}
		for i, s := range shapes {
			dt := []tensor.DType{tensor.Float64, tensor.Float32}[i%2]
			x := input(g, dt, s...)
			if i == 4 {
				x = opdef.NonContiguous(x)
			}
			add(x, target(g, dt, s...), lossReductions[i%3])
		}
		add(input(g, tensor.BFloat16, 4), target(g, tensor.BFloat16, 4), "none")
		if broadcast {
			add(input(g, tensor.Float64, 3, 1), target(g, tensor.Float64, 4), "mean")
			add(input(g, tensor.Float64, 2, 3), target(g, tensor.Float64, 3), "none")
		}
		return out
	}
}

func normalOperand(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor {
	return g.Normal(dt, shape...)
}

// signOperand holds labels 1 and -1.
func signOperand(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor {
	return opdef.Map(dt, g.Int(tensor.Int8, 0, 1, shape...), func(x float64) float64 { return 2*x - 1 }).Rounded()
}

// inUnitInterval refuses elements outside [0, 1].
func inUnitInterval(arg string, t *tensor.Tensor) error {
	type bounds struct{ lo, hi float64 }
	f := opdef.FoldDims(opdef.Fold[float64, bounds]{
		Add: func(acc *bounds, _ int, v [][]float64) {
			for _, x := range v[0] {
				acc.lo, acc.hi = min(acc.lo, x), max(acc.hi, x)
			}
		},
		Join: func(acc *bounds, next bounds) { acc.lo, acc.hi = min(acc.lo, next.lo), max(acc.hi, next.hi) },
	}, elements.AllDims(t.Dim()), false, t)
	b := bounds{opdef.Collect(f, tensor.Float64, func(b *bounds) float64 { return b.lo }).Item(),
		opdef.Collect(f, tensor.Float64, func(b *bounds) float64 { return b.hi }).Item()}
	if b.lo < 0 || b.hi > 1 {
		return opdef.Refuse(arg, "%s", fmt.Sprintf("want elements between 0 and 1, got %v", [2]float64{b.lo, b.hi}))
	}
	return nil
}
