package vllm

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type topkArgs struct {
	TopkWeights, TopkIndices, TokenExpertIndices, GatingOutput *tensor.Tensor
	Renormalize                                                bool
	Bias                                                       *tensor.Tensor
	RoutedScalingFactor                                        float64
	IsPadding                                                  *tensor.Tensor
}

type topkSoftmaxArgs struct {
	TopkWeights, TopkIndices, TokenExpertIndices, GatingOutput *tensor.Tensor
	Renormalize                                                bool
	Bias, IsPadding                                            *tensor.Tensor
}

type topkSoftplusArgs struct {
	TopkWeights, TopkIndices, TokenExpertIndices, GatingOutput *tensor.Tensor
	Renormalize                                                bool
	RoutedScalingFactor                                        float64
	CorrectionBias, InputIds, Tid2eid, IsPadding               *tensor.Tensor
}

const (
	topkOuts  = "Tensor topk_weights, Tensor topk_indices, Tensor token_expert_indices, Tensor gating_output, "
	topkNotes = "With a bias the experts are those of the largest scores plus bias, and the weights their scores " +
		"without it. With renormalize the weights of a row are divided by their sum. Rows of padding are not supported."
)

var topkWritten = []string{"topk_weights", "topk_indices", "token_expert_indices"}

// topkDoc describes a choice of experts by scores.
func topkDoc(scores, notes string) opdef.Doc {
	return opdef.Doc{Summary: "The experts of rows and their weights, into tensors of k a row",
		Formula: "topk_indices = the places of the k largest of " + scores + " + bias, topk_weights = " + scores +
			" there, token_expert_indices[i, j] = j*rows + i", Notes: topkNotes + notes}
}

// topkCases are calls with and without bias, all of them of args.
func topkCases[A any](of func(a topkArgs) *A) func(g opdef.Gen) []*A {
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *A {
		ints := func() *tensor.Tensor { return g.Int(tensor.Int32, 0, 5, 3, 2) }
		a := topkArgs{TopkWeights: g.Normal(tensor.Float32, 3, 2), TopkIndices: ints(), TokenExpertIndices: ints(),
			GatingOutput: g.Distinct(dt, 3, 6), Renormalize: g.Nth%2 == 0, RoutedScalingFactor: 1}
		if g.Nth > 0 {
			a.Bias = g.Distinct(tensor.Float32, 6)
			a.RoutedScalingFactor = 2.5
		}
		return of(a)
	})
}

var (
	topkSoftmax = kernel("_moe_C", "topk_softmax", topkOuts+"bool renormalize=False, Tensor? bias=None, "+
		"Tensor? is_padding=None", topkWritten, topkDoc("softmax(gating_output, -1)", ""),
		topkCases(func(a topkArgs) *topkSoftmaxArgs {
			return &topkSoftmaxArgs{a.TopkWeights, a.TopkIndices, a.TokenExpertIndices, a.GatingOutput, a.Renormalize,
				a.Bias, nil}
		}),
		func(g *compose.Graph, a *topkSoftmaxArgs) compose.Values {
			t := topkArgs{a.TopkWeights, a.TopkIndices, a.TokenExpertIndices, a.GatingOutput, a.Renormalize, a.Bias, 1,
				a.IsPadding}
			return t.choose(g, softmaxed, "bias")
		})
	topkSigmoid = kernel("_moe_C", "topk_sigmoid", topkOuts+"bool renormalize=False, Tensor? bias=None, "+
		"float routed_scaling_factor=1.0, Tensor? is_padding=None", topkWritten,
		topkDoc("sigmoid(gating_output)", " routed_scaling_factor is a factor of all weights."),
		topkCases(func(a topkArgs) *topkArgs { return &a }),
		func(g *compose.Graph, a *topkArgs) compose.Values {
			return a.choose(g, (*compose.Graph).Sigmoid, "bias")
		})
	topkSoftplusSqrt = kernel("_moe_C", "topk_softplus_sqrt", topkOuts+"bool renormalize, "+
		"float routed_scaling_factor, Tensor? correction_bias=None, Tensor? input_ids=None, Tensor? tid2eid=None, "+
		"Tensor? is_padding=None", topkWritten, topkDoc("sqrt(log(1 + exp(gating_output)))",
		" routed_scaling_factor is a factor of all weights. Where tid2eid is given, its row input_ids[i] has the "+
			"experts of row i."),
		topkCases(func(a topkArgs) *topkSoftplusArgs {
			s := &topkSoftplusArgs{a.TopkWeights, a.TopkIndices, a.TokenExpertIndices, a.GatingOutput, a.Renormalize,
				a.RoutedScalingFactor, a.Bias, nil, nil, nil}
			if a.GatingOutput.DType == tensor.Float32 {
				s.InputIds = fused.Integers(1, 0, 1)
				s.Tid2eid = tensor.New(tensor.Int32, []int{2, 2}, []int64{5, 0, 2, 3}).Rounded()
			}
			return s
		}),
		func(g *compose.Graph, a *topkSoftplusArgs) compose.Values {
			t := topkArgs{a.TopkWeights, a.TopkIndices, a.TokenExpertIndices, a.GatingOutput, a.Renormalize,
				a.CorrectionBias, a.RoutedScalingFactor, a.IsPadding}
			of := func(g *compose.Graph, x *compose.Value) *compose.Value { return g.Sqrt(g.Softplus(x)) }
			if a.Tid2eid == nil {
				return t.choose(g, of, "correction_bias")
			}
			return t.lookUp(g, of, a.InputIds, a.Tid2eid)
		})
)

func softmaxed(g *compose.Graph, x *compose.Value) *compose.Value { return g.Softmax(x, -1) }

// router is how experts are chosen and weighed.
func (a *topkArgs) router(g *compose.Graph) fused.Router {
	if a.IsPadding != nil {
		g.Unsupported("is_padding", "rows of padding are not supported")
	}
	rows := a.GatingOutput.Shape
	if len(rows) != 2 || a.TopkWeights.Dim() != 2 || a.TopkWeights.Shape[0] != rows[0] {
		g.Refuse("topk_weights", "want a row for each of gating_output %s, got %s", a.GatingOutput.Meta(),
			a.TopkWeights.Meta())
	}
	return fused.Router{K: a.TopkWeights.Shape[1], Renormalize: a.Renormalize, Factor: a.RoutedScalingFactor}
}

// scores are those of the experts.
func (a *topkArgs) scores(g *compose.Graph, of func(g *compose.Graph, x *compose.Value) *compose.Value) *compose.Value {
	return of(g, g.To(g.Arg("gating_output", a.GatingOutput), tensor.Float32))
}

// choose writes the experts that scores plus the argument of the name bias choose.
func (a *topkArgs) choose(g *compose.Graph, of func(g *compose.Graph, x *compose.Value) *compose.Value,
	bias string) compose.Values {
	r := a.router(g)
	return a.write(g)(r.Route(g, a.scores(g, of), g.Arg(bias, a.Bias)))
}

// lookUp writes the experts that a table has for the token of each row.
func (a *topkArgs) lookUp(g *compose.Graph, of func(g *compose.Graph, x *compose.Value) *compose.Value,
	tokens, table *tensor.Tensor) compose.Values {
	r := a.router(g)
	if tokens == nil || tokens.Numel() != a.GatingOutput.Shape[0] || table.Dim() != 2 || table.Shape[1] != r.K {
		g.Refuse("input_ids", "want a token for each row and %d experts for each token", r.K)
	}
	experts, at := fused.Ints(g, "tid2eid", table.Reshape(table.Numel())), tensor.Make[int64](tokens.Numel()*r.K)
	for i, token := range fused.Ints(g, "input_ids", tokens.Reshape(tokens.Numel())) {
		for j := range r.K {
			if token < 0 || token >= table.Shape[0] {
				g.Refuse("input_ids", "token %d is not among %d", token, table.Shape[0])
			}
			expert, among := experts[token*r.K+j], a.GatingOutput.Shape[1]
			if expert < 0 || expert >= among {
				g.Refuse("tid2eid", "expert %d is not among %d", expert, among)
			}
			at[i*r.K+j] = int64(expert)
		}
	}
	places := tensor.New(tensor.Int64, []int{tokens.Numel(), r.K}, at)
	return a.write(g)(r.Weights(g, a.scores(g, of), places), g.Const(opdef.Cast(places, tensor.Int32)))
}

// write is what the arguments become; SGLang's kernels write no token_expert_indices.
func (a *topkArgs) write(g *compose.Graph) func(weights, ids *compose.Value) compose.Values {
	return func(weights, ids *compose.Value) compose.Values {
		out := compose.Values{fused.Into(g, "topk_weights", a.TopkWeights, weights),
			fused.Into(g, "topk_indices", a.TopkIndices, ids)}
		if a.TokenExpertIndices == nil {
			return out
		}
		rows, k := a.GatingOutput.Shape[0], a.TopkWeights.Shape[1]
		places := tensor.Make[int64](rows * k)
		for i := range places {
			places[i] = int64(i%k*rows + i/k)
		}
		from := g.Const(tensor.New(tensor.Int32, []int{rows, k}, places))
		return append(out, fused.Into(g, "token_expert_indices", a.TokenExpertIndices, from))
	}
}

type groupedArgs struct {
	Scores                  *tensor.Tensor
	NGroup, TopkGroup, Topk int
	Renormalize             bool
	RoutedScalingFactor     float64
	Bias                    *tensor.Tensor
	ScoringFunc             int
}

type groupedBiasedArgs struct {
	Scores, ScoresWithBias  *tensor.Tensor
	NGroup, TopkGroup, Topk int
	Renormalize             bool
	RoutedScalingFactor     float64
}

var groupedDoc = opdef.Doc{Summary: "The experts of rows and their weights, from the best groups of experts",
	Formula: "the places of the topk largest of scores + bias in topk_group of n_group groups, and scores there",
	Notes: "The groups are those with the largest sums of two scores + bias. With scoring_func 1 the scores are " +
		"sigmoid(scores). With renormalize the weights of a row are divided by their sum; routed_scaling_factor is " +
		"a factor of all.",
	Source: "torch.ops._moe_C.grouped_topk"}

var groupedNames = "torch.ops._moe_C.grouped_topk vllm._custom_ops.grouped_topk"

var (
	groupedTopk = compose.Declare(compose.Op[groupedArgs]{
		Schema: "vllm_grouped_topk(Tensor scores, int n_group, int topk_group, int topk, bool renormalize, " +
			"float routed_scaling_factor, Tensor bias, int scoring_func=0) -> (Tensor, Tensor)",
		Names: groupedNames, Doc: groupedDoc, NoGrad: fused.ByInference,
		Exempt: map[string]string{"dtypes": "the weights are float32 whatever the dtype"},
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *groupedArgs {
			return &groupedArgs{g.Distinct(dt, 3, 12), 4, 2, 3, g.Nth%2 == 0, 2.5, g.Distinct(tensor.Float32, 12),
				g.Nth % 2}
		}),
	}, compose.Fused, func(g *compose.Graph, a *groupedArgs) compose.Values {
		x := g.To(g.Arg("scores", a.Scores), tensor.Float32)
		switch a.ScoringFunc {
		case 0:
		case 1:
			x = g.Sigmoid(x)
		default:
			g.Unsupported("scoring_func", "scores of function %d are not supported", a.ScoringFunc)
		}
		r := fused.Router{K: a.Topk, Groups: a.NGroup, TopGroups: a.TopkGroup, Renormalize: a.Renormalize,
			Factor: a.RoutedScalingFactor}
		weights, places := r.Route(g, x, g.To(g.Arg("bias", a.Bias), tensor.Float32))
		return compose.Values{weights, places}
	})
	groupedTopkBiased = compose.Declare(compose.Op[groupedBiasedArgs]{ // until 0.11
		Schema: "vllm_grouped_topk.biased(Tensor scores, Tensor scores_with_bias, int n_group, int topk_group, int topk, " +
			"bool renormalize, float routed_scaling_factor) -> (Tensor, Tensor)",
		Names: groupedNames, Doc: groupedDoc, NoGrad: fused.ByInference,
		Exempt: map[string]string{"dtypes": "the weights are float32 whatever the dtype"},
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *groupedBiasedArgs {
			return &groupedBiasedArgs{g.Distinct(dt, 3, 12), g.Distinct(dt, 3, 12), 4, 2, 3, g.Nth%2 == 0, 2.5}
		}),
	}, compose.Fused, func(g *compose.Graph, a *groupedBiasedArgs) compose.Values {
		x, biased := g.Arg("scores", a.Scores), g.Arg("scores_with_bias", a.ScoresWithBias)
		if !slices.Equal(x.Shape(), biased.Shape()) {
			g.Refuse("scores_with_bias", "want the shape of scores %s, got %s", a.Scores.Meta(),
				a.ScoresWithBias.Meta())
		}
		r := fused.Router{K: a.Topk, Groups: a.NGroup, TopGroups: a.TopkGroup, Renormalize: a.Renormalize,
			Factor: a.RoutedScalingFactor}
		weights, places := r.RouteBy(g, g.To(x, tensor.Float32), g.To(biased, tensor.Float32))
		return compose.Values{weights, places}
	})
)

type moeSumArgs struct{ Input, Output *tensor.Tensor }

var moeSum = kernel("_moe_C", "moe_sum", "Tensor input, Tensor output", []string{"output"},
	opdef.Doc{Summary: "Sums of what the experts of rows give, into output", Formula: "output = sum(input, 1)"},
	opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *moeSumArgs {
		return &moeSumArgs{g.Normal(dt, 3, 2, 4), g.Normal(dt, 3, 4)}
	}),
	func(g *compose.Graph, a *moeSumArgs) compose.Values {
		x := g.Arg("input", a.Input)
		fused.CheckRank(g, "input", x, 3)
		return compose.Values{fused.Into(g, "output", a.Output, g.Sum(g.AtLeast(x, tensor.Float32), false, 1))}
	})

type alignArgs struct {
	TopkIds                                      *tensor.Tensor
	NumExperts, BlockSize                        int
	SortedTokenIds, ExpertsIds, NumTokensPostPad *tensor.Tensor
	MaybeExpertMap                               *tensor.Tensor
}

var alignBlocks = kernel("_moe_C", "moe_align_block_size",
	"Tensor topk_ids, int num_experts, int block_size, Tensor sorted_token_ids, Tensor experts_ids, "+
		"Tensor num_tokens_post_pad, Tensor? maybe_expert_map=None", []string{"sorted_token_ids", "experts_ids", "num_tokens_post_pad"},
	opdef.Doc{Summary: "The places of tokens by expert, in blocks of one expert each",
		Formula: "sorted_token_ids = the places in topk_ids of expert 0, filled up to whole blocks, then of expert 1 ...",
		Notes: "What is filled up and what is left is the number of places; experts_ids has the expert of each block " +
			"and 0 behind the last, num_tokens_post_pad how many places the blocks have. Places of one expert rise. " +
			"A map of experts is not supported.",
	},
	func(g opdef.Gen) []*alignArgs {
		return []*alignArgs{{g.Int(tensor.Int32, 0, 3, 4, 2), 4, 2, g.Int(tensor.Int32, 0, 9, 14),
			g.Int(tensor.Int32, 0, 9, 7), g.Int(tensor.Int32, 0, 9, 1), nil}}
	},
	func(g *compose.Graph, a *alignArgs) compose.Values {
		if a.MaybeExpertMap != nil {
			g.Unsupported("maybe_expert_map", "experts of other processes are not supported")
		}
		ids := fused.Ints(g, "topk_ids", a.TopkIds.Reshape(a.TopkIds.Numel()))
		if a.BlockSize < 1 || a.NumExperts < 0 {
			g.Refuse("block_size", "want blocks of at least one place and experts, got %d and %d", a.BlockSize,
				a.NumExperts)
		}
		places := tensor.Make[[]int64](a.NumExperts)
		for i, e := range ids {
			if e < 0 || e >= a.NumExperts {
				g.Refuse("topk_ids", "expert %d is not among %d", e, a.NumExperts)
			}
			places[e] = append(places[e], int64(i))
		}
		sorted, experts := tensor.Make[int64](a.SortedTokenIds.Numel()), tensor.Make[int64](a.ExpertsIds.Numel())
		for i := range sorted {
			sorted[i] = int64(len(ids))
		}
		at := 0
		for e, p := range places {
			blocks := (len(p) + a.BlockSize - 1) / a.BlockSize
			if blocks > (len(sorted)-at)/a.BlockSize || at/a.BlockSize+blocks > len(experts) {
				g.Refuse("sorted_token_ids", "%s and %s do not hold the blocks of %d experts", a.SortedTokenIds.Meta(),
					a.ExpertsIds.Meta(), a.NumExperts)
			}
			copy(sorted[at:], p)
			for b := range blocks {
				experts[at/a.BlockSize+b] = int64(e)
			}
			at += blocks * a.BlockSize
		}
		into := func(name string, out *tensor.Tensor, v []int64) *compose.Value {
			return fused.Into(g, name, out, g.Const(tensor.New(tensor.Int32, out.Shape, v)))
		}
		if a.NumTokensPostPad.Numel() != 1 {
			g.Refuse("num_tokens_post_pad", "want one number, got %s", a.NumTokensPostPad.Meta())
		}
		return compose.Values{into("sorted_token_ids", a.SortedTokenIds, sorted),
			into("experts_ids", a.ExpertsIds, experts),
			into("num_tokens_post_pad", a.NumTokensPostPad, []int64{int64(at)})}
	})
