package vllm

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type topkArgs struct {
	TopkWeights, TopkIndices, TokenExpertIndices, GatingOutput *tensor.Tensor
	Renormalize                                                bool
}

var topkSoftmax = kernel("_moe_C", "topk_softmax",
	"Tensor topk_weights, Tensor topk_indices, Tensor token_expert_indices, Tensor gating_output, "+
		"bool renormalize=False", []string{"topk_weights", "topk_indices", "token_expert_indices"},
	opdef.Doc{Summary: "The experts of rows and their weights, into tensors of k a row",
		Formula: "topk_weights, topk_indices = the k largest of softmax(gating_output, -1) and their places, " +
			"token_expert_indices[i, j] = j*rows + i",
		Notes: "With renormalize the weights of a row are divided by their sum."},
	func(g opdef.Gen) []*topkArgs {
		i := 0
		return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *topkArgs {
			i++
			ints := func() *tensor.Tensor { return g.Int(tensor.Int32, 0, 5, 3, 2) }
			return &topkArgs{g.Normal(tensor.Float32, 3, 2), ints(), ints(), g.Distinct(dt, 3, 6), i%2 == 0}
		})(g)
	},
	func(g *compose.Graph, a *topkArgs) compose.Values {
		x := g.Arg("gating_output", a.GatingOutput)
		fused.CheckRank(g, "gating_output", x, 2)
		rows := x.Shape()[0]
		if a.TopkWeights.Dim() != 2 || a.TopkWeights.Shape[0] != rows {
			g.Refuse("topk_weights", "want %d rows, got %s", rows, a.TopkWeights.Meta())
		}
		k := a.TopkWeights.Shape[1]
		weights, ids := fused.Gating(g, g.To(x, tensor.Float32), k, 1)
		if a.Renormalize {
			weights = g.Div(weights, g.Sum(weights, true, 1))
		}
		places := tensor.Make[int64](rows * k)
		for i := range places {
			places[i] = int64(i%k*rows + i/k)
		}
		from := g.Const(tensor.New(tensor.Int32, []int{rows, k}, places))
		return compose.Values{fused.Into(g, "topk_weights", a.TopkWeights, weights),
			fused.Into(g, "topk_indices", a.TopkIndices, ids),
			fused.Into(g, "token_expert_indices", a.TokenExpertIndices, from)}
	})

type alignArgs struct {
	TopkIds                                      *tensor.Tensor
	NumExperts, BlockSize                        int
	SortedTokenIds, ExpertsIds, NumTokensPostPad *tensor.Tensor
}

var alignBlocks = kernel("_moe_C", "moe_align_block_size",
	"Tensor topk_ids, int num_experts, int block_size, Tensor sorted_token_ids, Tensor experts_ids, "+
		"Tensor num_tokens_post_pad", []string{"sorted_token_ids", "experts_ids", "num_tokens_post_pad"},
	opdef.Doc{Summary: "The places of tokens by expert, in blocks of one expert each",
		Formula: "sorted_token_ids = the places in topk_ids of expert 0, filled up to whole blocks, then of expert 1 ...",
		Notes: "What is filled up and what is left is the number of places; experts_ids has the expert of each block " +
			"and 0 behind the last, num_tokens_post_pad how many places the blocks have. Places of one expert rise.",
	},
	func(g opdef.Gen) []*alignArgs {
		return []*alignArgs{{g.Int(tensor.Int32, 0, 3, 4, 2), 4, 2, g.Int(tensor.Int32, 0, 9, 14),
			g.Int(tensor.Int32, 0, 9, 7), g.Int(tensor.Int32, 0, 9, 1)}}
	},
	func(g *compose.Graph, a *alignArgs) compose.Values {
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
