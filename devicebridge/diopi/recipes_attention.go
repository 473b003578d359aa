package diopi

import (
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var attentions = []*Recipe{
	{Function: "multihead_attention",
		sig: "q k v dropout_p=0.0 is_causal=False return_debug_mask=False scale=None generator=None",
		fwd: "MultiHeadAttention", bwd: "MultiHeadAttentionBackward",
		bind:  bindings{"scale": headScale("scale"), "gen": dropoutGenerator("dropout_p")},
		gbind: bindings{"scale": headScale("scale"), "gen": dropoutGenerator("dropout_p"), "out": firstResult},
		outs: []out{result(dtypeOf("q"), shapeOf("q")), aux(constant(tensor.Float32), lseDense),
			aux(dtypeOf("q"), func(*build) []int { return []int{0} })}},
	{Function: "multihead_attention_varlen",
		sig: "q k v cu_seqlens max_seqlen dropout_p=0.0 is_causal=False return_debug_mask=False scale=None " +
			"generator=None",
		fwd: "MultiHeadAttentionVarLen", bwd: "MultiHeadAttentionVarLenBackward", bind: packed,
		gbind: with(packed, bindings{"out": firstResult}),
		outs: []out{result(dtypeOf("q"), shapeOf("q")), aux(constant(tensor.Float32),
			lsePacked("cu_seqlens", "max_seqlen")),
			aux(dtypeOf("q"), func(*build) []int { return []int{0} })}},
	{Function: "flash_attention",
		sig: "q k v alibi_slopes p_dropout softmax_scale is_causal window_size_left window_size_right",
		fwd: "FlashAttention", bwd: "FlashAttentionBackward", bind: flash,
		gbind: with(flash, bindings{"attention_out": firstResult}),
		outs:  []out{like("q"), aux(constant(tensor.Float32), lseDense)}},
	{Function: "flash_attention_varlen",
		sig: "q k v alibi_slopes max_seqlen_q max_seqlen_kv cu_seqlens_q cu_seqlens_kv p_dropout softmax_scale " +
			"is_causal window_size_left window_size_right",
		fwd: "FlashAttentionVarLen", bwd: "FlashAttentionVarLenBackward", bind: flashPacked,
		gbind: with(flashPacked, bindings{"attention_out": firstResult}),
		outs: []out{result(dtypeOf("q"), shapeOf("q")), aux(constant(tensor.Float32),
			lsePacked("cu_seqlens_q", "max_seqlen_q"))}},
	{Function: "customized_flash_attention",
		sig: "q k v alibi_slopes p_dropout softmax_scale is_causal window_size_left window_size_right head_num " +
			"input_layout",
		fwd: "CustomizedFlashAttention", bwd: "CustomizedFlashAttentionBackward",
		bind:  with(customized, bindings{"attention_mask": causalMask(layoutLengths)}),
		gbind: with(customized, bindings{"attention_mask": causalMask(layoutLengths), "attention_out": firstResult}),
		outs:  []out{like("q")}, forward: customizedForward},
	{Function: "customized_flash_attention_varlen",
		sig: "q k v alibi_slopes max_seqlen_q max_seqlen_kv cu_seqlens_q cu_seqlens_kv p_dropout softmax_scale " +
			"is_causal window_size_left window_size_right",
		fwd: "CustomizedFlashAttentionVarLen", bwd: "CustomizedFlashAttentionVarLenBackward",
		bind: with(customizedPacked, bindings{"attention_mask": causalMask(packedLengths)}),
		gbind: with(customizedPacked, bindings{"attention_mask": causalMask(packedLengths),
			"attention_out": firstResult}),
		outs: []out{result(dtypeOf("q"), shapeOf("q"))}, forward: customizedForward},

	{Function: "rotary_emb", sig: "input cos sin conj interleaved", fwd: "RotaryEmbedding",
		bind: bindings{"x": "input"}, outs: []out{result(asInput, shapeOf("input"))}},
	{Function: "rotary_emb_v2", sig: "query key cos sin dim", fwd: "RotaryEmbeddingV2", returns: "query key"},
	{Function: "apply_penalty",
		sig: "logits presence_penalty frequency_penalty p_token_ids p_token_counts p_cumsum_seq_len p_max_len_in_batch",
		fwd: "ApplyPenalty", returns: "logits"},
	{Function: "apply_penalty_v2",
		sig: "logits presence_penalty frequency_penalty repetition_penalty p_token_ids p_token_counts",
		fwd: "ApplyPenaltyV2", returns: "logits"},
	{Function: "destindex_copy_kv", sig: "k dest_loc out", fwd: "DestIndexCopyKV", returns: "out"},
	{Function: "context_attention", sig: "q k v out b_start_loc b_seq_len max_input_len",
		fwd:  "ContextAttentionInference",
		bind: bindings{"context_attention_out": "out"}, returns: "out"},
	{Function: "token_attention", sig: "q k out b_loc b_start_loc b_seq_len max_input_len",
		fwd:  "TokenAttentionInference",
		bind: bindings{"token_attention_out": "out"}, returns: "out"},
	{Function: "token_softmax_reducev", sig: "logics v out b_loc b_start_loc b_seq_len max_input_len other_kv_index",
		fwd: "TokenSoftmaxReduceVInference", bind: bindings{"out": "out"}, returns: "out"},
	{Function: "prompt_flash_attention",
		sig: "query key value attenMask actualSeqLengths maxInputLen numHeads numKeyValueHeads dim",
		fwd: "PromptFlashAttention",
		bind: bindings{"atten_mask": "attenMask", "actual_seq_lengths": "actualSeqLengths",
			"max_input_len": "maxInputLen",
			"num_heads":     "numHeads", "num_kv_heads": "numKeyValueHeads"},
		prepare: func(b *build) { b.tensor("attenMask") }, // without one nothing is hidden: it would not be causal
		outs:    []out{like("query")}},
	{Function: "paged_attention",
		sig: "query key value attenMask actualSeqLengths numHeads numKeyValueHeads dim blockTable blockSize",
		fwd: "PagedAttention",
		bind: bindings{"q": "query", "k": "key", "v": "value", "actual_seq_lengths": "actualSeqLengths",
			"num_heads":    "numHeads",
			"num_kv_heads": "numKeyValueHeads", "block_table": "blockTable", "block_size": "blockSize"},
		outs: []out{like("query")}},
}

// What the attention functions have in common.
var (
	packed = bindings{"scale": headScale("scale"), "gen": dropoutGenerator("dropout_p"), "max_q": "max_seqlen",
		"max_k":     "max_seqlen",
		"cum_seq_q": lengths("cu_seqlens"), "cum_seq_k": lengths("cu_seqlens")}
	flash       = bindings{"gen": generator, "softmax_scale": headScale("softmax_scale")}
	flashPacked = with(flash, bindings{"cum_seq_q": lengths("cu_seqlens_q"), "cum_seq_kv": lengths("cu_seqlens_kv")})
	customized  = bindings{"gen": dropoutGenerator("p_dropout"), "softmax_scale": headScale("softmax_scale")}

	customizedPacked = with(customized, bindings{"cum_seq_q": "cu_seqlens_q", "cum_seq_kv": "cu_seqlens_kv"})
)

// with joins bindings.
func with(a, more bindings) bindings {
	all := bindings{}
	for _, m := range []bindings{a, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// headScale is the scale that is given, else 1/sqrt of the size of a head.
func headScale(arg string) func(*build) any {
	return func(b *build) any {
		if b.args[arg] != nil && b.float(arg) != 0 {
			return b.float(arg)
		}
		q := b.tensor("q").Shape
		if len(q) == 0 {
			b.fail("q must have a dimension")
		}
		size := float64(q[len(q)-1])
		if layout := b.args["input_layout"]; layout == "SBH" || layout == "BSH" {
			size /= b.float("head_num")
		}
		return 1 / math.Sqrt(size)
	}
}

// dropoutGenerator is the generator if anything is dropped.
func dropoutGenerator(p string) func(*build) any {
	return func(b *build) any {
		if b.float(p) > 0 {
			return b.gen
		}
		return nil
	}
}

// lseDense is the shape of the logsumexp of q [batch, length, heads, size].
func lseDense(b *build) []int {
	q := b.rank("q", 4)
	return []int{q[0], q[2], q[1]}
}

// lsePacked is the shape of the logsumexp of packed q [tokens, heads, size].
func lsePacked(lengths, longest string) shapeRule {
	return func(b *build) []int {
		n := b.ints(lengths)
		return []int{len(n) - 1, b.rank("q", 3)[1], b.int(longest)}
	}
}

// lengths are cumulative lengths as a tensor.
func lengths(arg string) func(*build) any {
	return func(b *build) any {
		if t, ok := b.args[arg].(*Tensor); ok {
			return t
		}
		s, ok := sizes(b.args[arg])
		if !ok {
			b.fail("%s must be integers, got %s", arg, describe(b.args[arg]))
		}
		v := tensor.New(tensor.Int32, []int{len(s)}, s)
		t := &Tensor{Role: arg, DType: v.DType, Shape: v.Shape, Value: v}
		b.args[arg] = t
		return t
	}
}

// causalMask is true above the diagonal, at most 2048 each way; null unless
// the attention is causal.
func causalMask(size func(*build) (rows, cols int)) func(*build) any {
	const most = 2048
	return func(b *build) any {
		if !b.bool("is_causal") {
			return nil
		}
		rows, cols := size(b)
		rows, cols = min(rows, most), min(cols, most)
		data := make([]int64, rows*cols)
		for r := range rows {
			for c := r + 1; c < cols; c++ {
				data[r*cols+c] = 1
			}
		}
		v := tensor.New(tensor.Bool, []int{rows, cols}, data)
		return &Tensor{Role: "attention_mask", DType: tensor.Bool, Shape: v.Shape, Value: v}
	}
}

func packedLengths(b *build) (int, int) { return b.int("max_seqlen_q"), b.int("max_seqlen_kv") }

// layoutLengths are the lengths of q and k in the given layout.
func layoutLengths(b *build) (int, int) {
	layouts := map[value.Value]struct{ rank, length int }{"SBH": {3, 0}, "BSH": {3, 1}, "BNSD": {4, 2}, "BSND": {4, 1}}
	l, ok := layouts[b.args["input_layout"]]
	if !ok {
		b.fail("input_layout must be SBH, BSH, BNSD or BSND, got %s", describe(b.args["input_layout"]))
	}
	return b.rank("q", l.rank)[l.length], b.rank("k", l.rank)[l.length]
}

// customizedForward: the callee makes what the gradient needs; no mask without dropout.
func customizedForward(b *build) {
	set := map[string]Arg{}
	for _, name := range []string{"dropout_mask", "softmax_max", "softmax_sum", "softmax_out"} {
		a := &Alloc{Role: name}
		set[name] = a
		b.written[name] = a
	}
	if b.float("p_dropout") == 0 {
		b.written["dropout_mask"] = nil
	}
	o := b.make(b.r.outs[0])
	set["attention_out"] = o
	b.invoke(b.function(b.r.fwd), b.r.bind, set)
}
