package loss

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

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

// reduced averages or adds the terms of a loss, or leaves them alone.
func reduced(g *compose.Graph, terms *compose.Value, reduction string, sizeAverage, reduce *bool) compose.Values {
	how, err := reductionOf(reduction, sizeAverage, reduce)
	g.Check(err)
	switch how {
	case reduceBatchMean:
		g.Refuse("reduction", "%q is no way to reduce this loss", reduction)
	case reduceMean:
		terms = g.Mean(terms, false)
	case reduceSum:
		terms = g.Sum(terms, false)
	}
	return compose.Values{terms}
}

// positive is x where it is positive, else 0; at 0 the gradient is passed on, as
// by torch's clamp_min.
func positive(g *compose.Graph, x *compose.Value) *compose.Value {
	if x.DType().Kind() < tensor.KindFloat {
		return g.ReLU(x) // no gradient, and the dtype stays
	}
	return g.Clamp(x, 0, math.Inf(1))
}

// is tells where t holds the label.
func is(t *tensor.Tensor, label float64) *tensor.Tensor {
	return opdef.Map(tensor.Bool, t, func(x float64) int64 {
		if x == label {
			return 1
		}
		return 0
	})
}

// The losses below follow torch's own compositions (ATen, native/Loss.cpp, and
// torch/nn/functional.py).

func hingeEmbedding(g *compose.Graph, a *hingeArgs) compose.Values {
	x := g.Arg("input", a.Input)
	zeros, margin := g.Full(x.DType(), x.Shape(), 0), g.Number(a.Margin)
	if x.DType().Kind() < tensor.KindFloat { // torch makes the margin a tensor of x's dtype
		margin = g.Full(x.DType(), nil, math.Trunc(a.Margin))
	}
	short := positive(g, g.Sub(margin, x))
	return reduced(g, g.Add(g.Where(is(a.Target, 1), zeros, short), g.Where(is(a.Target, -1), zeros, x)),
		a.Reduction, a.SizeAverage, a.Reduce)
}

func marginRanking(g *compose.Graph, a *rankingArgs) compose.Values {
	x, y, target := g.Arg("input1", a.Input1), g.Arg("input2", a.Input2), g.Arg("target", a.Target)
	if x.Dim() != y.Dim() || x.Dim() != target.Dim() {
		g.Refuse("target", "input1, input2 and target differ in dimensions: %d, %d and %d", x.Dim(), y.Dim(),
			target.Dim())
	}
	return reduced(g, positive(g, g.Shift(g.Mul(g.Neg(target), g.Sub(x, y)), a.Margin)), a.Reduction, a.SizeAverage,
		a.Reduce)
}

func cosineEmbedding(g *compose.Graph, a *cosineEmbeddingArgs) compose.Values {
	x, y, dim := g.Arg("input1", a.Input1), g.Arg("input2", a.Input2), a.Target.Dim()
	if dim > 1 {
		g.Refuse("target", "want at most one dimension, got %d", dim)
	}
	if x.Dim() != dim+1 || y.Dim() != dim+1 {
		g.Refuse("input1", "want %d dimensions for %d of the target", dim+1, dim)
	}
	square := func(x *compose.Value) *compose.Value { return g.Shift(g.Sum(g.Mul(x, x), false, dim), 1e-12) }
	cos := g.Div(g.Sum(g.Mul(x, y), false, dim), g.Sqrt(g.Mul(square(x), square(y))))
	zeros := g.Full(cos.DType(), cos.Shape(), 0)
	similar := g.Where(is(a.Target, 1), g.Sub(g.Number(1), cos), zeros)
	others := g.Where(is(a.Target, -1), positive(g, g.Shift(cos, -a.Margin)), zeros)
	return reduced(g, g.Add(similar, others), a.Reduction, a.SizeAverage, a.Reduce)
}

// tripletMargin are the terms of triplet_margin_loss.
func tripletMargin(g *compose.Graph, a *tripletArgs) *compose.Value {
	anchor, near, far := g.Arg("anchor", a.Anchor), g.Arg("positive", a.Positive), g.Arg("negative", a.Negative)
	distance := func(x, y *compose.Value) *compose.Value {
		d := g.Shift(g.Sub(x, y), a.Eps)
		if d.Dim() == 0 {
			g.Refuse("anchor", "want vectors, got 0-d tensors")
		}
		return g.Norm(d, a.P, false, -1)
	}
	gap := distance(anchor, far)
	if a.Swap {
		gap = g.Minimum(gap, distance(near, far))
	}
	return positive(g, g.Sub(g.Shift(distance(anchor, near), a.Margin), gap))
}

func multilabelSoftMargin(g *compose.Graph, a *multilabelSoftArgs) compose.Values {
	x, target, weight := g.Arg("input", a.Input), g.Arg("target", a.Target), g.Arg("weight", a.Weight)
	if x.Dim() == 0 {
		g.Refuse("input", "want at least one dimension")
	}
	if !x.DType().IsFloat() {
		g.Refuse("input", "want a floating dtype, got %s", x.DType())
	}
	loss := g.Neg(g.Add(g.Mul(target, g.LogSigmoid(x)),
		g.Mul(g.Sub(g.Number(1), target), g.LogSigmoid(g.Neg(x)))))
	if weight != nil {
		loss = g.Mul(loss, weight)
	}
	classes := x.Shape()[x.Dim()-1]
	return reduced(g, g.Div(g.Sum(loss, false, x.Dim()-1), g.Number(float64(classes))), a.Reduction, a.SizeAverage,
		a.Reduce)
}

// scores are x as rows of the scores of classes.
func scores(g *compose.Graph, x *compose.Value) *compose.Value {
	classes := elements.LastDim(x.Shape())
	switch {
	case !x.DType().IsFloat():
		g.Refuse("input", "want a floating dtype, got %s", x.DType())
	case x.Dim() > 2 || classes == 0:
		g.Refuse("input", "want one or two dimensions of scores, got shape %s", tensor.ShapeString(x.Shape()))
	}
	return g.Reshape(x, x.T.Numel()/classes, classes)
}

// shortfalls are how much the scores own fall short of margin above x, 0 at the
// places skipped and where scores are not numbers.
func shortfalls(g *compose.Graph, own, x *compose.Value, margin float64, skip func(i int) bool) *compose.Value {
	gap := g.Add(g.Sub(g.Number(margin), own), x)
	mask := tensor.Make[int64](gap.T.Numel())
	for i, v := range tensor.Data[float64](gap.T) {
		if v != v || skip(i) {
			mask[i] = 1
		}
	}
	return g.ReLU(g.MaskedFill(gap, tensor.New(tensor.Bool, gap.Shape(), mask), 0))
}

func multiMargin(g *compose.Graph, a *multiMarginArgs) compose.Values {
	x := scores(g, g.Arg("input", a.Input))
	rows, classes := x.Shape()[0], x.Shape()[1]
	p := a.P.Int64()
	if p != 1 && p != 2 {
		g.Refuse("p", "want 1 or 2, got %v", a.P)
	}
	if a.Target.DType != tensor.Int64 || a.Target.Dim() > 1 || a.Target.Numel() != rows {
		g.Refuse("target", "want %d int64 class numbers, got %s", rows, a.Target.Meta())
	}
	target := tensor.Data[int64](a.Target)
	for _, t := range target {
		if t < 0 || t >= int64(classes) {
			g.Refuse("target", "class %d is out of range [0, %d)", t, classes)
		}
	}
	own := g.Gather(x, 1, a.Target.Reshape(rows, 1))
	loss := shortfalls(g, own, x, a.Margin.Float64(), func(i int) bool { return int64(i%classes) == target[i/classes] })
	if p == 2 {
		loss = g.Square(loss)
	}
	if a.Weight != nil {
		if a.Weight.Numel() != classes || a.Weight.Dim() > 1 {
			g.Refuse("weight", "want %d elements, one per class, got shape %s", classes,
				tensor.ShapeString(a.Weight.Shape))
		}
		loss = g.Mul(loss, g.Take(g.Const(a.Weight), []int{rows, 1}, target))
	}
	loss = g.Div(g.Sum(loss, false, 1), g.Number(float64(classes)))
	return reduced(g, g.Reshape(loss, a.Target.Shape...), a.Reduction, a.SizeAverage, a.Reduce)
}

func multilabelMargin(g *compose.Graph, a *multilabelMarginArgs) compose.Values {
	input := g.Arg("input", a.Input)
	x := scores(g, input)
	rows, classes := x.Shape()[0], x.Shape()[1]
	if a.Target.DType != tensor.Int64 || !slices.Equal(a.Target.Shape, input.Shape()) {
		g.Refuse("target", "want int64 class numbers of shape %s, got %s", tensor.ShapeString(input.Shape()),
			a.Target.Meta())
	}
	// labels are the targets of each row, most how many a row has at most.
	labels, most := tensor.Make[[]int64](rows), 1
	isLabel := tensor.Make[bool](rows * classes)
	for k := range labels {
		row := tensor.Data[int64](a.Target)[k*classes:][:classes]
		for _, t := range row {
			if t < -1 || t >= int64(classes) {
				g.Refuse("target", "class %d is out of range [-1, %d)", t, classes)
			}
		}
		if end := slices.Index(row, -1); end >= 0 {
			row = row[:end]
		}
		labels[k], most = row, max(most, len(row))
		for _, t := range row {
			isLabel[k*classes+int(t)] = true
		}
	}
	index := tensor.Make[int64](rows * most) // 0 where there is no target
	for k, row := range labels {
		copy(index[k*most:], row)
	}
	own := g.Unsqueeze(g.Gather(x, 1, tensor.New(tensor.Int64, []int{rows, most}, index)), 2)
	loss := shortfalls(g, own, g.Unsqueeze(x, 1), 1, func(i int) bool {
		k, t, j := i/classes/most, i/classes%most, i%classes
		return t >= len(labels[k]) || isLabel[k*classes+j]
	})
	loss = g.Div(g.Sum(loss, false, 1, 2), g.Number(float64(classes)))
	if input.Dim() < 2 {
		loss = g.Reshape(loss)
	}
	return reduced(g, loss, a.Reduction, a.SizeAverage, a.Reduce)
}
