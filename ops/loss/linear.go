package loss

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type linearEntropyArgs struct {
	Input, LinearWeight, Target, LinearBias, Weight *tensor.Tensor
	Reduction                                       string
	IgnoreIndex                                     *int
	LabelSmoothing                                  float64
	Options                                         value.Value
}

var linearCrossEntropy = compose.Declare(compose.Op[linearEntropyArgs]{
	Schema: "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None, " +
		"Tensor? weight=None, str reduction='mean', int? ignore_index=None, float label_smoothing=0.0, " +
		"any options=None) -> Tensor",
	Names:  "F.linear_cross_entropy",
	Traits: opdef.Traits{Composite: true},
	Doc: opdef.Doc{Summary: "Cross entropy of a linear map",
		Formula: "cross_entropy(linear(input, linear_weight, linear_bias), target)",
		Notes: "input is (N, features) or (features), linear_weight (classes, features). options, the size of " +
			"chunks, do " +
			"not change the result. Targets that are probabilities and losses of more dimensions are refused."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *linearEntropyArgs {
		target := tensor.New(tensor.Int64, []int{4}, []int64{2, 0, 4, 1}).Rounded()
		ignored := 4
		a := &linearEntropyArgs{Input: g.Normal(dt, 4, 3), LinearWeight: g.Normal(dt, 5, 3), Target: target,
			Reduction: []string{"mean", "sum", "none"}[g.Nth%3]}
		if g.Nth%2 == 0 {
			a.LinearBias, a.LabelSmoothing, a.IgnoreIndex = g.Normal(dt, 5), 0.1, &ignored
			a.Weight = g.Uniform(dt, 0.5, 2, 5)
			a.Weight.RequiresGrad = false
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *linearEntropyArgs) compose.Values {
	x, weight := g.Arg("input", a.Input), g.Arg("linear_weight", a.LinearWeight)
	if weight.Dim() != 2 || x.Dim() < 1 || x.Dim() > 2 || !x.DType().IsFloat() || weight.Shape()[0] == 0 {
		g.Refuse("linear_weight", "want floating rows and a matrix, got %s and %s", a.Input.Meta(),
			a.LinearWeight.Meta())
	}
	rows, classes := slices.Clone(x.Shape()[:x.Dim()-1]), weight.Shape()[0]
	if a.Target.DType.Kind() != tensor.KindInt || !slices.Equal(a.Target.Shape, rows) {
		g.Refuse("target", "want a class for each row of %s, got %s", a.Input.Meta(), a.Target.Meta())
	}
	ignored := int64(-100)
	if a.IgnoreIndex != nil {
		ignored = int64(*a.IgnoreIndex)
	}
	each := g.Full(x.DType(), []int{classes}, 1) // weights of classes
	if a.Weight != nil {
		if each = g.Detach(g.Arg("weight", a.Weight)); each.Dim() != 1 || each.Shape()[0] != classes {
			g.Refuse("weight", "want %d numbers, got %s", classes, a.Weight.Meta())
		}
	}
	n := tensor.Numel(rows)
	at, counts := tensor.Make[int](n), tensor.Make[float64](n)
	for i, id := range tensor.Data[int64](a.Target) {
		switch {
		case id == ignored:
		case id < 0 || id >= int64(classes):
			g.Refuse("target", "class %d is not among %d", id, classes)
		default:
			at[i], counts[i] = int(id), 1
		}
	}
	logits := g.Linear(x, weight, g.Arg("linear_bias", a.LinearBias))
	logp := g.To(g.LogSoftmax(g.AtLeast(g.Reshape(logits, n, classes), tensor.Float32), -1), x.DType())
	ids := tensor.Make[int64](n)
	for i, id := range at {
		ids[i] = int64(id)
	}
	used := g.Mul(g.IndexSelect(each, 0, at), g.Const(tensor.New(x.DType(), []int{n}, counts)))
	loss := g.Neg(g.Mul(g.Squeeze(g.Gather(logp, 1, tensor.New(tensor.Int64, []int{n, 1}, ids)), 1), used))
	var smooth *compose.Value
	if a.LabelSmoothing != 0 {
		all := g.Neg(g.Sum(g.Mul(logp, each), false, 1))
		smooth = g.Mul(all, g.Const(tensor.New(x.DType(), []int{n}, counts)))
	}
	reduce := func(x *compose.Value) *compose.Value {
		switch a.Reduction {
		case "none":
			return g.Reshape(x, rows...)
		case "sum":
			return g.Sum(x, false)
		case "mean":
			return g.Div(g.Sum(x, false), g.Sum(used, false))
		}
		g.Refuse("reduction", "want none, mean or sum, got %s", a.Reduction)
		return nil
	}
	if smooth == nil {
		return compose.Values{reduce(loss)}
	}
	return compose.Values{g.Add(g.Scale(reduce(loss), 1-a.LabelSmoothing),
		g.Scale(reduce(smooth), a.LabelSmoothing/float64(classes)))}
})
