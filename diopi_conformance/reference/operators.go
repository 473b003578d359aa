package reference

import (
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// operators are the functions of the kit that are one call of an operator under
// another name or with other arguments, by name: the operator, its arguments and,
// behind =>, those arguments whose new values are the result. An argument is
//
//	name            the keyword of that name
//	name=source     a keyword, [source,...] for a list of those that are given, @source for
//	                a tensor of whole numbers, 0+source for them behind a 0, or a literal
//
// Keywords that are None are left to their defaults.
var operators = map[string]string{
	"nms":                "torchvision.ops.nms boxes scores iou_threshold",
	"roi_align":          "torchvision.ops.roi_align input boxes output_size spatial_scale sampling_ratio aligned",
	"sigmoid_focal_loss": "torchvision.ops.sigmoid_focal_loss inputs targets alpha gamma reduction",

	"multihead_attention": "flash_attn.flash_attn_func q k v softmax_scale=scale causal=is_causal",
	"multihead_attention_varlen": "flash_attn.flash_attn_varlen_func q k v cu_seqlens_q=@cu_seqlens " +
		"cu_seqlens_k=@cu_seqlens max_seqlen_q=max_seqlen max_seqlen_k=max_seqlen softmax_scale=scale " +
		"causal=is_causal",
	"flash_attention": "flash_attn.flash_attn_func q k v softmax_scale causal=is_causal alibi_slopes " +
		"window_size=[window_size_left,window_size_right]",
	"flash_attention_varlen": "flash_attn.flash_attn_varlen_func q k v cu_seqlens_q=@cu_seqlens_q " +
		"cu_seqlens_k=@cu_seqlens_q max_seqlen_q max_seqlen_k=max_seqlen_kv softmax_scale causal=is_causal " +
		"alibi_slopes window_size=[window_size_left,window_size_right]",
	"customized_flash_attention": "diopi.customized_flash_attention q k v alibi_slopes=alibi_slopes p_dropout " +
		"softmax_scale=softmax_scale is_causal window_size_left window_size_right head_num input_layout",
	"customized_flash_attention_varlen": "flash_attn.flash_attn_varlen_func q k v cu_seqlens_q=@0+cu_seqlens_q " +
		"cu_seqlens_k=@0+cu_seqlens_q max_seqlen_q max_seqlen_k=max_seqlen_kv softmax_scale causal=is_causal " +
		"alibi_slopes window_size=[window_size_left,window_size_right]",
	"scaled_masked_softmax": "diopi.scaled_masked_softmax input mask scale fixed_triu_mask",

	"rotary_emb":    "diopi.rotary_emb input cos sin conj interleaved",
	"rotary_emb_v2": "diopi.rotary_emb_v2 query key cos sin dim",
	"apply_penalty": "diopi.apply_penalty logits presence_penalty frequency_penalty p_token_ids p_token_counts " +
		"p_cumsum_seq_len p_max_len_in_batch => logits",
	"apply_penalty_v2": "diopi.apply_penalty_v2 logits presence_penalty frequency_penalty repetition_penalty " +
		"p_token_ids p_token_counts => logits",
	"destindex_copy_kv": "diopi.destindex_copy_kv k dest_loc out => out",
	"token_attention":   "diopi.token_attention q k out b_loc b_start_loc b_seq_len max_input_len => out",
	"token_softmax_reducev": "diopi.token_softmax_reducev logics v out b_loc b_start_loc b_seq_len max_input_len " +
		"other_kv_index => out",
	"context_attention": "diopi.context_attention q k v out b_start_loc b_seq_len max_input_len => out",
	"prompt_flash_attention": "diopi.prompt_flash_attention query key value attenMask=attenMask actualSeqLengths " +
		"maxInputLen numHeads numKeyValueHeads dim",
	"paged_attention": "diopi.paged_attention query key value attenMask=attenMask actualSeqLengths numHeads " +
		"numKeyValueHeads dim blockTable blockSize",

	"batch_norm_stats": "torch.batch_norm_stats input eps",
	"batch_norm_gather_stats_with_counts": "torch.batch_norm_gather_stats_with_counts input mean=mean_all " +
		"invstd=invstd_all running_mean=running_mean running_var=running_var momentum eps counts=count_all",
	"batch_norm_elemt": "torch.batch_norm_elemt input weight=weight bias=bias mean invstd eps",
	"batch_norm_backward_elemt": "torch.batch_norm_backward_elemt grad_out input mean invstd weight=weight sum_dy " +
		"sum_dy_xmu count",
	"batch_norm_backward_reduce": "torch.batch_norm_backward_reduce grad_out=grad_output input mean invstd " +
		"weight=weight input_g=True weight_g=True bias_g=True",

	"adam": "torch._fused_adam_ self=[param] grads=[param_grad] exp_avgs=[exp_avg] exp_avg_sqs=[exp_avg_sq] " +
		"max_exp_avg_sqs=[max_exp_avg_sq] state_steps=[@step] lr beta1 beta2 weight_decay eps amsgrad " +
		"maximize=False => self exp_avgs exp_avg_sqs max_exp_avg_sqs",
	"adamw": "torch._fused_adamw_ self=[param] grads=[param_grad] exp_avgs=[exp_avg] exp_avg_sqs=[exp_avg_sq] " +
		"max_exp_avg_sqs=[max_exp_avg_sq] state_steps=[@step] lr beta1 beta2 weight_decay eps amsgrad " +
		"maximize=False => self exp_avgs exp_avg_sqs max_exp_avg_sqs",
}

// inLists are the functions whose results are lists of tensors, not one of each.
var inLists = map[string]string{
	"fused_adamw": "torch._fused_adamw_ self=params grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps lr beta1 " +
		"beta2 weight_decay eps amsgrad maximize => self exp_avgs exp_avg_sqs max_exp_avg_sqs",
}

// call carries out a line of operators.
func (t *Tape) call(line string, a *arguments, lists bool) value.Value {
	line, results, changes := strings.Cut(line, " => ")
	words := strings.Fields(line)
	kwargs := &value.Dict{}
	for _, w := range words[1:] {
		name, source, named := strings.Cut(w, "=")
		if !named {
			source = name
		}
		if v := a.source(source); v != nil || named {
			kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
		}
	}
	out := t.Call(words[0], nil, kwargs)
	if t.err != nil || !changes {
		return out
	}
	after := t.steps[len(t.steps)-1].forward.After
	all := value.NewList()
	for _, name := range strings.Fields(results) {
		switch ts := after[name]; {
		case lists || len(ts) > 1:
			all.Items = append(all.Items, list(ts...))
		case len(ts) == 0:
			all.Items = append(all.Items, unchanged(kwargs, name))
		default:
			all.Items = append(all.Items, ts[0])
		}
	}
	if len(all.Items) == 1 && !lists {
		return all.Items[0]
	}
	return all
}

// unchanged is the tensor that a call without change to it was given, None if none.
func unchanged(kwargs *value.Dict, name string) value.Value {
	v, _ := kwargs.Get(name)
	if s, ok := v.(*value.Sequence); ok {
		if len(s.Items) == 0 {
			return nil
		}
		return s.Items[0]
	}
	return v
}

// source is what an argument of a line is made of.
func (a *arguments) source(s string) value.Value {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		l := value.NewList()
		for _, part := range strings.Split(strings.TrimSuffix(inner, "]"), ",") {
			if v := a.source(part); v != nil {
				l.Items = append(l.Items, v)
			}
		}
		return l
	}
	if inner, ok := strings.CutPrefix(s, "@"); ok {
		var data []int64
		if rest, ok := strings.CutPrefix(inner, "0+"); ok {
			inner, data = rest, []int64{0}
		}
		for _, n := range a.ints(inner) {
			data = append(data, int64(n))
		}
		return tensor.New(tensor.Int32, []int{len(data)}, data)
	}
	if v, ok := a.kwargs.Get(s); ok {
		return v
	}
	if v, err := value.ParseLiteral(s); err == nil {
		return v
	}
	return nil
}
