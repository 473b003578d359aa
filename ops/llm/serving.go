package llm

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type promptArgs struct {
	Query, Key, Value, AttenMask                 *tensor.Tensor
	ActualSeqLengths                             []int
	MaxInputLen, NumHeads, NumKeyValueHeads, Dim int
}

var promptAttention = compose.Declare(compose.Op[promptArgs]{
	Schema: "prompt_flash_attention(Tensor query, Tensor key, Tensor value, Tensor? attenMask, " +
		"int[] actualSeqLengths, int maxInputLen, int numHeads, int numKeyValueHeads, int dim) -> Tensor",
	Names: "diopi.prompt_flash_attention",
	Doc: opdef.Doc{Summary: "Causal attention of prompts",
		Formula: "as flash_attn_func with causal",
		Notes:   "Rows hold one head after the other; each sequence has maxInputLen rows.",
		Source:  "diopiPromptFlashAttention"},
	NoGrad: fused.ByInference,
	Cases: func(g opdef.Gen) []*promptArgs {
		causal := tensor.New(tensor.Bool, []int{3, 3}, []int64{0, 1, 1, 0, 0, 1, 0, 0, 0})
		cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *promptArgs {
			return &promptArgs{g.Normal(dt, 6, 16), g.Normal(dt, 6, 8), g.Normal(dt, 6, 8), causal, []int{3, 3}, 3, 4,
				2, 4}
		})(g)
		cs[0].AttenMask = nil
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *promptArgs) compose.Values {
	open := func(name string, t *tensor.Tensor, heads int) *compose.Value {
		return fused.OpenHeads(g, name, g.Arg(name, t), len(a.ActualSeqLengths), a.MaxInputLen, heads, a.Dim)
	}
	s := compose.Everything(fused.ScaleOf(nil, a.Dim))
	s.After = 0
	out := fused.Attend(g, open("query", a.Query, a.NumHeads), open("key", a.Key, a.NumKeyValueHeads),
		open("value", a.Value, a.NumKeyValueHeads), nil, s)
	return compose.Values{g.Reshape(out, len(a.ActualSeqLengths)*a.MaxInputLen, a.NumHeads*a.Dim)}
})

type pagedArgs struct {
	Query, Key, Value, AttenMask, BlockTable   *tensor.Tensor
	ActualSeqLengths                           []int
	NumHeads, NumKeyValueHeads, Dim, BlockSize int
}

var pagedAttention = compose.Declare(compose.Op[pagedArgs]{
	Schema: "paged_attention(Tensor query, Tensor key, Tensor value, Tensor? attenMask, int[] actualSeqLengths, " +
		"int numHeads, int numKeyValueHeads, int dim, Tensor blockTable, int blockSize) -> Tensor",
	Names: "diopi.paged_attention",
	Doc: opdef.Doc{Summary: "Attention of one query per sequence over a store of keys and values in pages",
		Formula: "as flash_attn_func for each query",
		Notes: "A page holds blockSize rows of the store; row i of blockTable has the pages of sequence i, of which " +
			"actualSeqLengths[i] rows count.",
		Source: "diopiPagedAttention"},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *pagedArgs {
		table := tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
		return &pagedArgs{g.Normal(dt, 2, 16), g.Normal(dt, 12, 8), g.Normal(dt, 12, 8), nil, table,
			[]int{6, 3}, 4, 2, 4, 4}
	}),
}, compose.Fused, func(g *compose.Graph, a *pagedArgs) compose.Values {
	batch := len(a.ActualSeqLengths)
	q := fused.OpenHeads(g, "query", g.Arg("query", a.Query), batch, 1, a.NumHeads, a.Dim)
	width := a.NumKeyValueHeads * a.Dim
	if a.BlockTable.Dim() != 2 || a.BlockTable.Shape[0] != batch || a.BlockTable.DType.Kind() != tensor.KindInt {
		g.Refuse("blockTable", "want a row of pages for each of %d sequences, got %s", batch, a.BlockTable.Meta())
	}
	if a.BlockSize < 1 || width < 1 || a.Key.Numel()%width != 0 || a.Value.Numel() != a.Key.Numel() {
		g.Refuse("key", "%s and %s do not hold pages of %d rows of %d", a.Key.Meta(), a.Value.Meta(),
			a.BlockSize, width)
	}
	store := func(name string, t *tensor.Tensor) *compose.Value {
		return g.Reshape(g.Arg(name, t), 1, t.Numel()/width, a.NumKeyValueHeads, a.Dim)
	}
	k, v := store("key", a.Key), store("value", a.Value)
	pages, each := tensor.Data[int64](a.BlockTable), a.BlockTable.Shape[1]
	parts := tensor.Make[*compose.Value](batch)
	for i, n := range a.ActualSeqLengths {
		if n < 1 || n > each*a.BlockSize {
			g.Refuse("actualSeqLengths", "%d rows are not in %d pages of %d", n, each, a.BlockSize)
		}
		rows := tensor.Make[int](n)
		for j := range rows {
			if rows[j] = int(pages[i*each+j/a.BlockSize])*a.BlockSize + j%a.BlockSize; rows[j] < 0 {
				g.Refuse("blockTable", "page %d is outside of the store", pages[i*each+j/a.BlockSize])
			}
		}
		parts[i] = fused.Attend(g, g.Narrow(q, 0, i, 1), g.IndexSelect(k, 1, rows), g.IndexSelect(v, 1, rows), nil,
			compose.Everything(fused.ScaleOf(nil, a.Dim)))
	}
	if batch == 0 {
		g.Refuse("actualSeqLengths", "want at least one sequence")
	}
	return compose.Values{g.Reshape(g.Cat(0, parts...), batch, a.NumHeads*a.Dim)}
})

type contextArgs struct {
	Q, K, V, Out, BStartLoc, BSeqLen *tensor.Tensor
	MaxInputLen                      int
}

var contextAttention = compose.DeclareInPlace(compose.Op[contextArgs]{
	Schema: "context_attention(Tensor q, Tensor k, Tensor v, Tensor out, Tensor b_start_loc, Tensor b_seq_len, " +
		"int max_input_len) -> ()",
	Names: "lightllm.models.llama.triton_kernel.context_flashattention_nopad.context_attention_fwd " +
		"deeplink_ext.cpp_extensions.context_attention_inference diopi.context_attention",
	Doc: opdef.Doc{Summary: "Causal attention within sequences, stored in out",
		Formula: "as flash_attn_func with causal for each sequence",
		Notes: "q, k, v and out are (rows, heads, size); sequence i has b_seq_len[i] rows from b_start_loc[i]. Rows " +
			"of out of no sequence stay.", Source: "diopiContextAttentionInference"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *contextArgs {
		return &contextArgs{g.Normal(dt, 8, 4, 4), g.Normal(dt, 8, 2, 4), g.Normal(dt, 8, 2, 4),
			g.Normal(dt, 8, 4, 4), fused.Integers(0, 3), fused.Integers(3, 4), 4}
	}),
}, []string{"out"}, func(g *compose.Graph, a *contextArgs) compose.Values {
	q, k, v, out := g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V), g.Arg("out", a.Out)
	fused.CheckHeads(g, 3, q, k, v)
	if !slices.Equal(out.Shape()[:min(1, out.Dim())], q.Shape()[:1]) || out.T.Numel() != q.T.Numel() {
		g.Refuse("out", "want the shape of q %s, got %s", tensor.ShapeString(q.Shape()), a.Out.Meta())
	}
	width := tensor.Numel(q.Shape()[1:])
	s := compose.Everything(fused.ScaleOf(nil, q.Shape()[2]))
	s.After = 0
	starts, rows := fused.Ints(g, "b_start_loc", a.BStartLoc), fused.Ints(g, "b_seq_len", a.BSeqLen)
	if len(starts) != len(rows) {
		g.Refuse("b_seq_len", "want %d lengths, got %d", len(starts), len(rows))
	}
	for i, n := range rows {
		lo := starts[i]
		if n < 1 || lo < 0 || lo+n > min(q.Shape()[0], k.Shape()[0], v.Shape()[0]) {
			g.Refuse("b_seq_len", "sequence %d of %d rows at %d does not fit", i, n, lo)
		}
		part := func(x *compose.Value) *compose.Value { return g.Unsqueeze(g.Narrow(x, 0, lo, n), 0) }
		rows := fused.Attend(g, part(q), part(k), part(v), nil, s)
		out = g.Put(out, fused.Span(lo*width, n*width), rows)
	}
	return compose.Values{out}
})

// A cache addresses the keys or values of sequences in a common store: position j of
// sequence i is row table[i][longest - lengths[i] + j].
type cache struct {
	table           []int64
	width, longest  int
	starts, lengths []int
}

func newCache(g *compose.Graph, table, starts, lengths *tensor.Tensor, longest int) *cache {
	c := &cache{longest: longest, starts: fused.Ints(g, "b_start_loc", starts),
		lengths: fused.Ints(g, "b_seq_len", lengths)}
	if table.Dim() != 2 || table.DType.Kind() != tensor.KindInt || table.Shape[0] != len(c.lengths) ||
		len(c.starts) != len(c.lengths) {
		g.Refuse("b_loc", "want a row of integers for each of %d sequences, got %s", len(c.lengths), table.Meta())
	}
	c.table, c.width = tensor.Data[int64](table), table.Shape[1]
	return c
}

// rows are those of sequence i in a store of n.
func (c *cache) rows(g *compose.Graph, i, n int) []int {
	out := tensor.Make[int](c.lengths[i])
	for j := range out {
		at := c.longest - c.lengths[i] + j
		if at < 0 || at >= c.width {
			g.Refuse("b_loc", "position %d of sequence %d is not among %d", j, i, c.width)
		}
		if out[j] = int(c.table[i*c.width+at]); out[j] < 0 || out[j] >= n {
			g.Refuse("b_loc", "row %d is outside of %d", out[j], n)
		}
	}
	return out
}

// places are those of the scores of sequence i among total of each head.
func (c *cache) places(g *compose.Graph, i, heads, total int) []int64 {
	lo, n := c.starts[i], c.lengths[i]
	if n < 1 || lo < 0 || lo+n > total {
		g.Refuse("b_start_loc", "sequence %d of %d scores at %d does not fit in %d", i, n, lo, total)
	}
	var out []int64
	for h := range heads {
		out = append(out, fused.Span(h*total+lo, n)...)
	}
	return out
}

type tokenArgs struct {
	Q, K, Out, BLoc, BStartLoc, BSeqLen *tensor.Tensor
	MaxInputLen                         int
}

// cacheNotes say how sequences address the store.
const cacheNotes = "Position j of sequence i is row b_loc[i][max_input_len - b_seq_len[i] + j] of the store, its " +
	"scores stand at b_start_loc[i] + j."

var tokenAttention = compose.DeclareInPlace(compose.Op[tokenArgs]{
	Schema: "token_attention(Tensor q, Tensor k, Tensor out, Tensor b_loc, Tensor b_start_loc, Tensor b_seq_len, " +
		"int max_input_len) -> ()",
	Names: "lightllm.models.llama.triton_kernel.token_attention_nopad_att1.token_att_fwd " +
		"deeplink_ext.cpp_extensions.token_attention_inference diopi.token_attention",
	Doc: opdef.Doc{Summary: "Scores of one query per sequence over a store of keys, stored in out",
		Formula: "out[h, start + j] = q[i, h] . k[row(i, j), h] / sqrt(size)", Notes: cacheNotes,
		Source: "diopiTokenAttentionInference"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *tokenArgs {
		return &tokenArgs{g.Normal(dt, 2, 3, 4), g.Normal(dt, 9, 3, 4), g.Normal(dt, 3, 6),
			tensor.New(tensor.Int32, []int{2, 4}, []int64{8, 1, 2, 3, 0, 5, 7, 4}).Rounded(), fused.Integers(0, 2),
			fused.Integers(2, 4), 4}
	}),
}, []string{"out"}, func(g *compose.Graph, a *tokenArgs) compose.Values {
	q, k, out := g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("out", a.Out)
	fused.CheckRank(g, "q", q, 3)
	fused.CheckRank(g, "k", k, 3)
	fused.CheckRank(g, "out", out, 2)
	c := newCache(g, a.BLoc, a.BStartLoc, a.BSeqLen, a.MaxInputLen)
	heads := q.Shape()[1]
	if !slices.Equal(q.Shape()[1:], k.Shape()[1:]) || out.Shape()[0] != heads || q.Shape()[0] < len(c.lengths) {
		g.Refuse("k", "q %s, k %s and out %s do not fit", a.Q.Meta(), a.K.Meta(), a.Out.Meta())
	}
	for i := range c.lengths {
		keys := g.Permute(g.IndexSelect(k, 0, c.rows(g, i, k.Shape()[0])), 1, 0, 2) // [heads, n, size]
		query := g.Unsqueeze(g.Select(q, 0, i), -1)
		scores := g.Scale(g.Matmul(keys, query), 1/math.Sqrt(float64(q.Shape()[2])))
		out = g.Put(out, c.places(g, i, heads, out.Shape()[1]), g.Squeeze(scores, -1))
	}
	return compose.Values{out}
})

type reduceVArgs struct {
	Logics, V, Out, BLoc, BStartLoc, BSeqLen *tensor.Tensor
	MaxInputLen, OtherKvIndex                int
}

var tokenSoftmaxReduceV = compose.DeclareInPlace(compose.Op[reduceVArgs]{
	Schema: "token_softmax_reducev(Tensor logics, Tensor v, Tensor out, Tensor b_loc, Tensor b_start_loc, " +
		"Tensor b_seq_len, int max_input_len, int other_kv_index) -> ()",
	Names: "lightllm.models.llama.triton_kernel.token_attention_softmax_and_reducev.token_softmax_reducev_fwd " +
		"deeplink_ext.cpp_extensions.token_softmax_reducev_inference diopi.token_softmax_reducev",
	Doc: opdef.Doc{Summary: "Means of a store of values by the softmax of scores, stored in out",
		Formula: "out[i, h] = sum_j softmax(logics[h, start .. start+n])_j v[row(i, j), h]", Notes: cacheNotes,
		Source: "diopiTokenSoftmaxReduceVInference"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *reduceVArgs {
		return &reduceVArgs{g.Normal(dt, 3, 6), g.Normal(dt, 9, 3, 4), g.Normal(dt, 2, 3, 4),
			tensor.New(tensor.Int32, []int{2, 4}, []int64{8, 1, 2, 3, 0, 5, 7, 4}).Rounded(), fused.Integers(0, 2),
			fused.Integers(2, 4), 4, 0}
	}),
}, []string{"out"}, func(g *compose.Graph, a *reduceVArgs) compose.Values {
	scores, v, out := g.Arg("logics", a.Logics), g.Arg("v", a.V), g.Arg("out", a.Out)
	fused.CheckRank(g, "logics", scores, 2)
	fused.CheckRank(g, "v", v, 3)
	fused.CheckRank(g, "out", out, 3)
	c := newCache(g, a.BLoc, a.BStartLoc, a.BSeqLen, a.MaxInputLen)
	heads, size := v.Shape()[1], v.Shape()[2]
	if !slices.Equal(v.Shape()[1:], out.Shape()[1:]) || scores.Shape()[0] != heads || out.Shape()[0] < len(c.lengths) {
		g.Refuse("v", "logics %s, v %s and out %s do not fit", a.Logics.Meta(), a.V.Meta(), a.Out.Meta())
	}
	for i, n := range c.lengths {
		p := g.Take(scores, []int{heads, 1, n}, c.places(g, i, heads, scores.Shape()[1]))
		values := g.Permute(g.IndexSelect(v, 0, c.rows(g, i, v.Shape()[0])), 1, 0, 2) // [heads, n, size]
		out = g.Put(out, fused.Span(i*heads*size, heads*size), g.Matmul(g.Softmax(p, -1), values))
	}
	return compose.Values{out}
})

type copyArgs struct{ K, DestLoc, Out *tensor.Tensor }

var copyKV = compose.DeclareInPlace(compose.Op[copyArgs]{
	Schema: "destindex_copy_kv(Tensor k, Tensor dest_loc, Tensor out) -> ()",
	Names: "lightllm.common.basemodel.triton_kernel.destindex_copy_kv.destindex_copy_kv " +
		"deeplink_ext.cpp_extensions.dest_index_copy_kv diopi.destindex_copy_kv",
	Doc: opdef.Doc{Summary: "Copies keys or values to rows of a store", Formula: "out[dest_loc[i]] = k[i]",
		Source: "diopiDestIndexCopyKV"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *copyArgs {
		return &copyArgs{g.Normal(dt, 2, 2, 3), fused.Integers(3, 0), g.Normal(dt, 5, 2, 3)}
	}),
}, []string{"out"}, func(g *compose.Graph, a *copyArgs) compose.Values {
	k, out, dest := g.Arg("k", a.K), g.Arg("out", a.Out), fused.Ints(g, "dest_loc", a.DestLoc)
	if k.Dim() == 0 || out.Dim() != k.Dim() || !slices.Equal(k.Shape()[1:], out.Shape()[1:]) ||
		len(dest) > k.Shape()[0] {
		g.Refuse("out", "%d rows of k %s do not fit in %s", len(dest), a.K.Meta(), a.Out.Meta())
	}
	width, places := tensor.Numel(k.Shape()[1:]), []int64{}
	for _, d := range dest {
		if d < 0 || d >= out.Shape()[0] {
			g.Refuse("dest_loc", "row %d is outside of %d", d, out.Shape()[0])
		}
		places = append(places, fused.Span(d*width, width)...)
	}
	return compose.Values{g.Put(out, places, g.Narrow(k, 0, 0, len(dest)))}
})

type penaltyArgs struct {
	Logits, PresencePenalty, FrequencyPenalty, PTokenIds, PTokenCounts, PCumsumSeqLen *tensor.Tensor
	PMaxLenInBatch                                                                    int
}

// penalised lowers the logits at places by presence and by counts times frequency,
// all of them one number per place.
func penalised(g *compose.Graph, logits, old *compose.Value, places []int64, counts *tensor.Tensor,
	presence, frequency *compose.Value) compose.Values {
	less := g.Add(g.Mul(g.Const(opdef.Cast(counts, logits.DType())), frequency), presence)
	return compose.Values{g.Put(logits, places, g.Sub(old, less))}
}

var applyPenalty = compose.DeclareInPlace(compose.Op[penaltyArgs]{
	Schema: "apply_penalty(Tensor logits, Tensor presence_penalty, Tensor frequency_penalty, Tensor p_token_ids, " +
		"Tensor p_token_counts, Tensor p_cumsum_seq_len, int p_max_len_in_batch) -> ()",
	Names: "lightllm.common.basemodel.triton_kernel.apply_penalty.apply_penalty " +
		"deeplink_ext.cpp_extensions.apply_penalty diopi.apply_penalty",
	Doc: opdef.Doc{Summary: "Lowers the logits of tokens that occurred",
		Formula: "logits[i, id] -= count(id)*frequency_penalty[i] + presence_penalty[i]",
		Notes:   "Sequence i has the ids from p_cumsum_seq_len[i] to p_cumsum_seq_len[i+1].",
		Source:  "diopiApplyPenalty"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *penaltyArgs {
		return &penaltyArgs{g.Normal(dt, 2, 5), g.Uniform(dt, 0, 1, 2), g.Uniform(dt, 0, 1, 2),
			fused.Integers(0, 4, 2), fused.Integers(1, 2, 3), fused.Integers(0, 2, 3), 2}
	}),
}, []string{"logits"}, func(g *compose.Graph, a *penaltyArgs) compose.Values {
	logits, presence, frequency := g.Arg("logits", a.Logits), g.Arg("presence_penalty", a.PresencePenalty),
		g.Arg("frequency_penalty", a.FrequencyPenalty)
	fused.CheckRank(g, "logits", logits, 2)
	fused.CheckRank(g, "presence_penalty", presence, 1)
	fused.CheckRank(g, "frequency_penalty", frequency, 1)
	ids, counts, ends := fused.Ints(g, "p_token_ids", a.PTokenIds), fused.Ints(g, "p_token_counts", a.PTokenCounts),
		fused.Ints(g, "p_cumsum_seq_len", a.PCumsumSeqLen)
	rows, width := logits.Shape()[0], logits.Shape()[1]
	if len(ends) != rows+1 || len(ids) != len(counts) || ends[0] != 0 || ends[rows] != len(ids) ||
		!slices.IsSorted(ends) || min(presence.T.Numel(), frequency.T.Numel()) < rows {
		g.Refuse("p_cumsum_seq_len", "%d ids, %d counts and their ranges %v do not fit %s", len(ids), len(counts), ends,
			a.Logits.Meta())
	}
	places, of := make([]int64, len(ids)), make([]int, len(ids))
	for i := range rows {
		for j := ends[i]; j < ends[i+1]; j++ {
			if ids[j] < 0 || ids[j] >= width {
				g.Refuse("p_token_ids", "token %d is outside of %d", ids[j], width)
			}
			places[j], of[j] = int64(i*width+ids[j]), i
		}
	}
	return penalised(g, logits, g.Take(logits, []int{len(ids)}, places), places, a.PTokenCounts,
		g.IndexSelect(presence, 0, of), g.IndexSelect(frequency, 0, of))
})

type penaltyV2Args struct {
	Logits, PresencePenalty, FrequencyPenalty, RepetitionPenalty, PTokenIds, PTokenCounts *tensor.Tensor
}

var applyPenaltyV2 = compose.DeclareInPlace(compose.Op[penaltyV2Args]{
	Schema: "apply_penalty_v2(Tensor logits, Tensor presence_penalty, Tensor frequency_penalty, " +
		"Tensor repetition_penalty, Tensor p_token_ids, Tensor p_token_counts) -> ()",
	Names: "deeplink_ext.cpp_extensions.apply_penalty_v2 diopi.apply_penalty_v2",
	Doc: opdef.Doc{Summary: "Lowers the logits of tokens that occurred, also by a factor",
		Formula: "logits[id] = (logits[id]/repetition if positive, else logits[id]*repetition) - count*frequency - " +
			"presence",
		Notes:  "Ids are places among all logits, with a penalty of each kind.",
		Source: "diopiApplyPenaltyV2"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *penaltyV2Args {
		return &penaltyV2Args{g.Apart(dt, []float64{0}, 2, 5), g.Uniform(dt, 0, 1, 3),
			g.Uniform(dt, 0, 1, 3),
			g.Uniform(dt, 1, 2, 3), fused.Integers(0, 4, 7), fused.Integers(1, 2, 3)}
	}),
}, []string{"logits"}, func(g *compose.Graph, a *penaltyV2Args) compose.Values {
	logits := g.Arg("logits", a.Logits)
	if !logits.DType().IsFloat() {
		g.Refuse("logits", "want a floating dtype, got %s", logits.DType())
	}
	ids, counts := fused.Ints(g, "p_token_ids", a.PTokenIds), fused.Ints(g, "p_token_counts", a.PTokenCounts)
	if len(counts) != len(ids) {
		g.Refuse("p_token_counts", "want %d counts, got %d", len(ids), len(counts))
	}
	each := func(name string, t *tensor.Tensor) *compose.Value {
		x := g.Arg(name, t)
		if fused.CheckRank(g, name, x, 1); t.Shape[0] != len(ids) {
			g.Refuse(name, "want %d penalties, got %s", len(ids), t.Meta())
		}
		return x
	}
	places := make([]int64, len(ids))
	for i, id := range ids {
		places[i] = int64(id)
	}
	old, repetition := g.Take(logits, []int{len(ids)}, places), each("repetition_penalty", a.RepetitionPenalty)
	positive := opdef.Map(tensor.Bool, old.T, func(x float64) int64 {
		if x > 0 {
			return 1
		}
		return 0
	})
	old = g.Where(positive, g.Div(old, repetition), g.Mul(old, repetition))
	return penalised(g, logits, old, places, a.PTokenCounts, each("presence_penalty", a.PresencePenalty),
		each("frequency_penalty", a.FrequencyPenalty))
})
