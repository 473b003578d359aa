package loss

import (
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// rowLossOps are losses made of one term per row: a vector, or vectors that
// belong together.
var rowLossOps = []*opdef.Entry{
	compose.Declare(compose.Op[multiMarginArgs]{
		Schema: "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, Tensor? weight=None, " +
			"bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.multi_margin_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Shortfall of the score of a class from all others",
			Formula: "sum over j != target of weight[target]*max(0, margin - input[target] + input[j])^p / C"},
		Cases: func(g opdef.Gen) []*multiMarginArgs {
			f64 := tensor.Float64
			w := elements.Detached(g.Uniform(f64, 0.5, 2, 4))
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
		Names:  "F.multilabel_margin_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Shortfall of the scores of several classes from all others",
			Formula: "sum over targets t and other classes j of max(0, 1 - input[t] + input[j]) / C",
			Notes:   "The targets of a row end at the first -1."},
		Cases: opdef.Calls[multilabelMarginArgs](`
			f64[2, 4], i64[2, 4]{= 3 0 -1 1 2 -1 -1 0}
			f64[2, 4], i64[2, 4]{= 3 0 -1 1 2 -1 -1 0}, reduction='none'
			f32[4], i64[4]{= 3 0 -1 1}, reduction='sum'`),
	}, compose.Fused, multilabelMargin),
	compose.Declare(compose.Op[multilabelSoftArgs]{
		Schema: "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.multilabel_soft_margin_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Cross entropy of the sigmoid of logits, averaged over classes",
			Formula: "-mean(weight*(target*log(sigmoid(input)) + (1-target)*log(sigmoid(-input))))"},
		Cases: opdef.Calls[multilabelSoftArgs](`
			f64[3, 4], f64[3, 4]{0.1..0.9}, weight=f64[4]{0.5..2 fixed}
			f64[3, 4], f64[3, 4]{0.1..0.9}, reduction='none'; f32[2, 3, 4], f32[2, 3, 4]{0.1..0.9}, reduction='sum'
			bf16[5], bf16[5]{0.1..0.9}`),
	}, compose.Unfused, multilabelSoftMargin),
	compose.Declare(compose.Op[tripletArgs]{
		Schema: "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, " +
			"float eps=1e-06, bool swap=False, bool? size_average=None, bool? reduce=None, str reduction='mean') -> " +
			"Tensor",
		Names:  "F.triplet_margin_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Shortfall of a distance from another",
			Formula: "max(0, d(anchor, positive) - d(anchor, negative) + margin), with d(x, y) = norm(x - y + eps, p)",
			Notes: "swap takes the smaller of d(anchor, negative) and d(positive, negative). At the limit the " +
				"gradient is passed on."},
		Cases: opdef.Calls[tripletArgs](`
			f64[3, 4], f64[3, 4], f64[3, 4], margin=5.0
			f64[3, 4], f64[3, 4], f64[4], margin=5.0, p=3.0, swap=True, reduction='none'
			f64[4], f64[4], f64[4], margin=5.0, reduction='sum'
			c128[3, 4], c128[3, 4], c128[3, 4], margin=5.0, p=3.0, reduction='none'`),
	}, compose.Unfused, func(g *compose.Graph, a *tripletArgs) compose.Values {
		return reduced(g, tripletMargin(g, a), a.Reduction, a.SizeAverage, a.Reduce)
	}),
	compose.Declare(compose.Op[tripletDistanceArgs]{
		Schema: "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, any " +
			"distance_function=None, float margin=1.0, bool swap=False, str reduction='mean') -> Tensor",
		Names: "F.triplet_margin_with_distance_loss",
		Doc: opdef.Doc{Summary: "Shortfall of a distance from another",
			Formula: "max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the pairwise_distance",
			Notes:   "Distance functions given as arguments are not known."},
		Cases: opdef.Calls[tripletDistanceArgs](`
			f64[3, 4], f64[3, 4], f64[3, 4], margin=5.0
			f64[3, 4], f64[3, 4], f64[3, 4], margin=5.0, swap=True, reduction='none'`),
	}, compose.Unfused, func(g *compose.Graph, a *tripletDistanceArgs) compose.Values {
		if a.DistanceFunction != nil {
			g.Refuse("distance_function", "only the default distance is known")
		}
		terms := tripletMargin(g, &tripletArgs{Anchor: a.Anchor, Positive: a.Positive, Negative: a.Negative,
			Margin: a.Margin, P: 2, Eps: 1e-6, Swap: a.Swap})
		return reduced(g, terms, a.Reduction, nil, nil)
	}),
	compose.Declare(compose.Op[cosineEmbeddingArgs]{
		Schema: "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, bool? " +
			"size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
		Names:  "F.cosine_embedding_loss",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Distance of the cosine of similar vectors from 1, excess of others over a margin",
			Formula: "1 - cos(input1, input2) if target is 1, max(0, cos(input1, input2) - margin) if -1"},
		Cases: opdef.Calls[cosineEmbeddingArgs](`
			f64[3, 4], f64[3, 4], i64[3]{= -1 1 1}, margin=-0.9
			f64[3, 4], f64[3, 4], i64[3]{= -1 1 -1}, margin=-1.0, reduction='none'
			f32[5], f32[5], i64[]{= -1}, margin=-1.0, reduction='sum'`),
	}, compose.Unfused, cosineEmbedding),
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
