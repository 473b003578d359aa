package reference

import (
	"fmt"
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// functions are the functions of the kit that are not one call of the operator of
// their name: the calls that they are (see runLine).
var functions = map[string]string{
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

	"adadelta": "diopi.adadelta self=[param] grads=[param_grad] square_avgs=[square_avg] acc_deltas=[acc_delta] lr rho " +
		"eps weight_decay => self square_avgs acc_deltas",
	"rmsprop": "diopi.rmsprop self=[param] grads=[param_grad] square_avgs=[square_avg] grad_avgs=[grad_avg] " +
		"momentum_buffer_list=[momentum_buffer] lr alpha eps weight_decay momentum centered => self square_avgs " +
		"grad_avgs momentum_buffer_list",

	// Random functions, which only devices compute.
	"bernoulli":   "torch.bernoulli self=input p",
	"multinomial": "torch.multinomial self=input num_samples replacement",
	"normal":      "torch.normal mean std size",
	"normal_":     "torch.Tensor.normal_ self=input mean std",
	"random":      "torch.Tensor.random_ self=input from=start to=end",
	"randperm":    "torch.randperm n",
	"uniform":     "torch.Tensor.uniform_ self=input from=start to=end",

	"im2col":       "torch.nn.functional.unfold input kernel_size dilation padding stride",
	"col2im":       "torch.nn.functional.fold input output_size kernel_size dilation padding stride",
	"layer_normGB": "torch.nn.functional.layer_norm input normalized_shape weight bias eps",
	"nll_loss_v2":  "torch.nn.functional.nll_loss input target weight ignore_index reduction",
	"ctc_loss": "torch.log_softmax self=log_probs dim=2 | torch.nn.functional.ctc_loss log_probs=_ targets " +
		"input_lengths target_lengths blank reduction zero_infinity",
	"linalgqr":   "torch.linalg.qr A=input mode",
	"split":      "torch.split *tensor *split_size_or_sections dim",
	"meshgrid":   "torch.meshgrid tensors",
	"cast_dtype": "torch.Tensor.to self=input other=out",
	"copy_":      "torch.Tensor.copy_ self=input src=other",
	"index_put":  "torch.index_put self=input indices=[indices1,indices2,indices3] values accumulate",
	"norm":       "torch.norm self=input p dim keepdim dtype",
	"sort":       "torch.sort self=input dim descending stable",
}

// chosen are those whose calls depend on their arguments: the calls, and the
// arguments with what is computed for them.
var chosen = map[string]func(a arguments) (string, arguments, error){
	"pool1d":          pool("1d"),
	"pool2d":          pool("2d"),
	"pool3d":          pool("3d"),
	"rms_norm":        rmsNorm,
	"clip_grad_norm_": clipGradNorm,
	"sgd":             sgd,
	"adam":            adam("torch._fused_adam_"),
	"adamw":           adam("torch._fused_adamw_"),
	"fused_adamw":     fusedAdamW,
	"equal":           equal,
	"slice_op":        sliceOp,
	"index":           index,
}

// finished are functions whose results are not quite those of their calls.
var finished = map[string]func(a arguments, out value.Value) (value.Value, error){
	"batch_norm_backward_reduce": func(a arguments, out value.Value) (value.Value, error) {
		l := out.(*value.Sequence)
		for i, flag := range []string{"input_g", "input_g", "weight_g", "bias_g"} {
			if !a.flag(flag) {
				l.Items[i] = nil
			}
		}
		return l, nil
	},
	// The number of elements that are not zero has no gradient in the kit: it is told
	// apart from the result that has.
	"norm": func(a arguments, out value.Value) (value.Value, error) {
		t, ok := out.(*tensor.Tensor)
		if p := a.value("p"); ok && (p == int64(0) || p == 0.0) {
			u := *t
			out = &u
		}
		return out, nil
	},
	// The order of equal elements is free unless stable, so the kit then keeps the
	// values alone.
	"sort": func(a arguments, out value.Value) (value.Value, error) {
		if x, err := a.tensor("input"); err != nil || x.Dim() == 0 || a.flag("stable") {
			return out, err
		}
		return out.(*value.Sequence).Items[0], nil
	},
	"clip_grad_norm_": func(a arguments, out value.Value) (value.Value, error) {
		total := out.(*tensor.Tensor)
		if v := total.DType.Round(total.Item()); a.flag("error_if_nonfinite") && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return nil, fmt.Errorf("the total norm is %v, and error_if_nonfinite is set", v)
		}
		return total, nil
	},
}

// pool chooses the pooling function that mode and adaptive name.
func pool(rank string) func(a arguments) (string, arguments, error) {
	return func(a arguments) (string, arguments, error) {
		const name = "torch.nn.functional."
		mode, _ := a.value("mode").(string)
		switch {
		case mode != "avg" && mode != "max":
			return "", a, fmt.Errorf("argument mode: want avg or max, got %s", value.Repr(a.value("mode")))
		case a.flag("adaptive"):
			return name + "adaptive_" + mode + "_pool" + rank + " input output_size", a, nil
		case mode == "avg":
			return name + "avg_pool" + rank + " input kernel_size stride padding ceil_mode count_include_pad", a, nil
		}
		return name + "max_pool" + rank + " input kernel_size stride padding dilation ceil_mode", a, nil
	}
}

// rmsNorm is over the last dimension without normalized_shape, and may have a bias.
func rmsNorm(a arguments) (string, arguments, error) {
	x, err := a.tensor("input")
	if err != nil {
		return "", a, err
	}
	if !a.has("normalized_shape") && x.Dim() > 0 {
		a = a.with("normalized_shape", int64(x.Shape[x.Dim()-1]))
	}
	line := "torch.nn.functional.rms_norm input normalized_shape weight eps"
	if a.has("bias") {
		line += " | torch.add self=_ other=bias"
	}
	return line, a, nil
}

// clipGradNorm is the norm of the norms of all tensors; that they are scaled in place
// is not part of the result.
func clipGradNorm(a arguments) (string, arguments, error) {
	switch p := a.value("norm_type"); {
	case p == nil:
		a = a.with("norm_type", 2.0)
	case p == "inf":
		a = a.with("norm_type", math.Inf(1))
	}
	if len(tensors(a.value("tensors"))) == 0 {
		return "torch.zeros size=[]", a, nil
	}
	return "torch._foreach_norm self=tensors ord=norm_type | torch.stack tensors=_ | " +
		"torch.norm self=_ p=norm_type", a, nil
}

// sgd is torch.optim's sequence of tensor operations, whose first step makes the
// buffer. Without momentum there is none, and one that is given stays as it is.
func sgd(a arguments) (string, arguments, error) {
	buf, result := "[buf]", "momentum_buffer_list"
	switch momentum := a.value("momentum"); {
	case momentum == nil || momentum == 0.0 || momentum == int64(0):
		buf, result = "[]", "=buf"
	case !a.has("buf"): // it is made, but not given back
		x, err := a.tensor("param")
		if err != nil {
			return "", a, err
		}
		a = a.with("made", tensor.Full(x.DType, x.Shape, 0.0).Dense())
		buf, result = "[made]", "=buf"
	}
	return "diopi.sgd self=[param] grads=[param_grad] momentum_buffer_list=" + buf + " weight_decay momentum lr " +
			"dampening nesterov maximize=False is_first_step => self " + result,
		a.with("is_first_step", !a.has("buf")), nil
}

// adam is a step of torch's fused form of that name on one parameter. Torch wants no
// max_exp_avg_sqs unless amsgrad; one that is given stays as it is.
func adam(name string) func(a arguments) (string, arguments, error) {
	return func(a arguments) (string, arguments, error) {
		most, result := "[]", "=max_exp_avg_sq"
		if a.flag("amsgrad") {
			most, result = "[max_exp_avg_sq]", "max_exp_avg_sqs"
		}
		return name + " self=[param] grads=[param_grad] exp_avgs=[exp_avg] exp_avg_sqs=[exp_avg_sq] max_exp_avg_sqs=" +
			most + " state_steps=[@step] lr beta1 beta2 weight_decay eps amsgrad maximize=False => self exp_avgs " +
			"exp_avg_sqs " + result, a, nil
	}
}

// fusedAdamW is the same on lists.
func fusedAdamW(a arguments) (string, arguments, error) {
	most, result := "[]", "=max_exp_avg_sqs"
	if a.flag("amsgrad") {
		most, result = "max_exp_avg_sqs", "max_exp_avg_sqs[]"
	}
	return "torch._fused_adamw_ self=params grads exp_avgs exp_avg_sqs max_exp_avg_sqs=" + most + " state_steps lr " +
		"beta1 beta2 weight_decay eps amsgrad maximize => self[] exp_avgs[] exp_avg_sqs[] " + result, a, nil
}

// equal compares values across dtypes, as the kit's devices do.
func equal(a arguments) (string, arguments, error) {
	x, err := a.tensor("input")
	if err != nil {
		return "", a, err
	}
	y, err := a.tensor("other")
	if err != nil {
		return "", a, err
	}
	wide := tensor.Int64
	switch max(x.DType.Kind(), y.DType.Kind()) {
	case tensor.KindComplex:
		wide = tensor.Complex128
	case tensor.KindFloat:
		wide = tensor.Float64
	}
	return "torch.equal self=input other", a.with("input", opdef.Cast(x, wide)).with("other", opdef.Cast(y, wide)), nil
}

// sliceOp indexes dimension dim.
func sliceOp(a arguments) (string, arguments, error) {
	x, err := a.tensor("input")
	if err != nil {
		return "", a, err
	}
	dim, _ := a.value("dim").(int64)
	d, err := opdef.Dim("dim", int(dim), x.Dim())
	at := value.NewTuple()
	for range d {
		at.Items = append(at.Items, value.Slice{})
	}
	at.Items = append(at.Items, a.value("index"))
	return "torch.Tensor.__getitem__ self=input index", a.with("index", at), err
}

// index has an index in every argument but input; the first None stands for all
// dimensions that the others leave.
func index(a arguments) (string, arguments, error) {
	at, open := value.NewTuple(), false
	for _, it := range a.Items {
		switch {
		case it.Key == "input":
		case it.Value != nil:
			at.Items = append(at.Items, it.Value)
		case !open:
			open = true
			at.Items = append(at.Items, value.Ellipsis{})
		}
	}
	return "torch.Tensor.__getitem__ self=input index", a.with("index", at), nil
}
