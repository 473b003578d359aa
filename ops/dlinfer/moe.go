package dlinfer

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

type gatingArgs struct {
	RouterLogits *tensor.Tensor
	Topk         int
	MoeMetadata  value.Value
}

const metadataNotes = " moe_metadata is not read: the experts are those of one process."

var gating = compose.Declare(compose.Op[gatingArgs]{
	Schema: "dlinfer_moe_gating_topk_softmax(Tensor router_logits, int topk, any moe_metadata=None) -> " +
		"(Tensor, Tensor)", Names: names("moe_gating_topk_softmax"),
	Doc: opdef.Doc{Summary: "The experts of rows and their weights",
		Formula: "the topk largest of softmax(router_logits, -1), and their places",
		Notes:   "Places are int32, the first of equal ones first." + metadataNotes,
		Source:  source("moe_gating_topk_softmax")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gatingArgs {
		return &gatingArgs{g.Distinct(dt, 3, 6), 2, nil}
	}),
}, compose.Fused, func(g *compose.Graph, a *gatingArgs) compose.Values {
	weights, ids := fused.Gating(g, g.Arg("router_logits", a.RouterLogits), a.Topk, 1)
	return compose.Values{weights, ids}
})

type moeArgs struct {
	HiddenStates, GateUpWeights, DownWeights, TopkWeights, TopkIds *tensor.Tensor
	Topk                                                           int
	Renormalize                                                    bool
	MoeMetadata, ChunkedMoeLayout                                  value.Value
}

var fusedMoe = compose.Declare(compose.Op[moeArgs]{
	Schema: "dlinfer_fused_moe(Tensor hidden_states, Tensor gate_up_weights, Tensor down_weights, " +
		"Tensor topk_weights, Tensor topk_ids, int topk, bool renormalize, any moe_metadata=None, " +
		"any chunked_moe_layout=None) -> Tensor", Names: names("fused_moe"),
	Doc: opdef.Doc{Summary: "Mixture of experts",
		Formula: "sum_j topk_weights[i, j] * down[e] (silu(a) * b), (a, b) the halves of gate_up[e] " +
			"hidden_states[i], e = " +
			"topk_ids[i, j]",
		Notes: "gate_up_weights is (experts, 2*m, d), down_weights (experts, d, m). With renormalize the weights of " +
			"a " +
			"row are divided by their sum. A chunked layout is refused." + metadataNotes, Source: source("fused_moe")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *moeArgs {
		ids := tensor.New(tensor.Int32, []int{3, 2}, []int64{0, 3, 2, 0, 3, 2}).Rounded()
		return &moeArgs{HiddenStates: g.Normal(dt, 3, 4), GateUpWeights: g.Normal(dt, 4, 6, 4),
			DownWeights: g.Normal(dt, 4, 4, 3), TopkWeights: g.Uniform(dt, 0.1, 1, 3, 2), TopkIds: ids, Topk: 2,
			Renormalize: g.Nth%2 == 1}
	}),
}, compose.Fused, func(g *compose.Graph, a *moeArgs) compose.Values {
	if a.ChunkedMoeLayout != nil {
		g.Unsupported("chunked_moe_layout", "weights in chunks are not supported")
	}
	x, weights := g.Arg("hidden_states", a.HiddenStates), g.Arg("topk_weights", a.TopkWeights)
	if a.Topk < 1 || x.Dim() != 2 || weights.T.Numel() != x.Shape()[0]*a.Topk {
		g.Refuse("topk_weights", "want %d weights for each row of %s, got %s", a.Topk, a.HiddenStates.Meta(),
			a.TopkWeights.Meta())
	}
	shape := []int{x.Shape()[0], a.Topk}
	if a.TopkIds.Numel() != tensor.Numel(shape) {
		g.Refuse("topk_ids", "want %d for each row, got %s", a.Topk, a.TopkIds.Meta())
	}
	if weights = g.Reshape(weights, shape...); a.Renormalize {
		weights = g.Div(weights, g.Sum(weights, true, 1))
	}
	return compose.Values{fused.Experts(g, x, g.Arg("gate_up_weights", a.GateUpWeights),
		g.Arg("down_weights", a.DownWeights), weights, a.TopkIds.Reshape(shape...))}
})

type linearArgs struct {
	X, Weight, Bias *tensor.Tensor
	AllReduce       *bool
	Group           *string
}

var linear = compose.Declare(compose.Op[linearArgs]{
	Schema: "dlinfer_linear(Tensor x, Tensor weight, Tensor? bias=None, bool? all_reduce=False, str? group='') -> " +
		"Tensor", Names: names("linear"),
	Doc: opdef.Doc{Summary: "Linear map", Formula: "x weight^T + bias",
		Notes: "A weight in format NZ, (1, columns/n, rows, n), is a matrix again first. all_reduce, a sum over " +
			"processes, is refused.", Source: source("linear")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *linearArgs {
		a := &linearArgs{X: g.Normal(dt, 2, 3, 8), Weight: g.Normal(dt, 5, 8), Bias: g.Normal(dt, 5)}
		if g.Nth == 1 {
			a.Weight, a.Bias = g.Normal(dt, 1, 2, 5, 4), nil
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *linearArgs) compose.Values {
	if a.AllReduce != nil && *a.AllReduce {
		g.Unsupported("all_reduce", "a sum over processes is not known from one of them")
	}
	weight := g.Arg("weight", a.Weight)
	if s := slices.Clone(weight.Shape()); len(s) == 4 && s[0] == 1 {
		weight = g.Reshape(g.Permute(weight, 0, 2, 1, 3), s[2], s[1]*s[3])
	}
	return compose.Values{g.Linear(g.Arg("x", a.X), weight, g.Arg("bias", a.Bias))}
})
