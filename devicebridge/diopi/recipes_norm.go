package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var norms = []*Recipe{
	{Function: "batch_norm", sig: "input running_mean running_var weight bias training=False momentum=0.1 eps=1e-05",
		fwd: "BatchNorm", bwd: "BatchNormBackward",
		outs: []out{like("input"), aux(batchStat, channels), aux(batchStat, channels)}},
	{Function: "batch_norm_stats", sig: "input eps", fwd: "BatchNormStats",
		outs: []out{result(halfToSingle("input"), channels), result(halfToSingle("input"), channels)}},
	{Function: "batch_norm_gather_stats_with_counts",
		sig: "input mean_all invstd_all running_mean running_var momentum eps count_all",
		fwd: "BatchNormGatherStatsWithCounts", bind: bindings{"counts": "count_all"},
		outs: []out{result(asInput, channels), result(asInput, channels)}},
	{Function: "batch_norm_backward_reduce", sig: "grad_output input mean invstd weight input_g weight_g bias_g",
		fwd:  "BatchNormBackwardReduce",
		bind: bindings{"grad_out": "grad_output"},
		outs: []out{wanted("input_g"), wanted("input_g"), wanted("weight_g"), wanted("bias_g")}},
	{Function: "batch_norm_backward_elemt", sig: "grad_out input mean invstd weight sum_dy sum_dy_xmu count",
		fwd:  "BatchNormBackwardElemt",
		outs: []out{result(asInput, shapeOf("grad_out"))}},
	{Function: "batch_norm_elemt", sig: "input weight bias mean invstd eps", fwd: "BatchNormElemt",
		outs: []out{result(asInput, shapeOf("input"))}},
	{Function: "group_norm", sig: "input num_groups weight=None bias=None eps=1e-05", fwd: "GroupNorm",
		bwd:   "GroupNormBackward",
		gbind: bindings{"mean": "save_mean", "rstd": "save_invstd"},
		outs:  []out{like("input"), aux(rowStat, groups), aux(rowStat, groups)}},
	{Function: "instance_norm", sig: "input axis=2 weight=None bias=None eps=1e-05", fwd: "InstanceNorm",
		bwd:  "InstanceNormBackward",
		bind: bindings{"scale": "weight"}, gbind: bindings{"scale": "weight", "grad_scale": grad{of: "weight"}},
		outs: []out{like("input")}},
	{Function: "layer_norm", sig: "input normalized_shape weight=None bias=None eps=1e-05", fwd: "LayerNorm",
		bwd:   "LayerNormBackward",
		gbind: bindings{"mean": "save_mean", "rstd": "save_invstd"},
		outs:  []out{like("input"), aux(rowStat, outer), aux(rowStat, outer)}},
	{Function: "layer_normGB", sig: "input normalized_shape weight=None bias=None eps=1e-05", fwd: "LayerNormGB",
		bwd: "LayerNormGBBackward",
		bind: bindings{"running_mean": auxiliary("mean", asInput, outer), "running_var": auxiliary("std", asInput,
			outer), "begin_norm_axis": outerRank},
		gbind: bindings{"running_mean": "mean", "running_std": "std", "begin_norm_axis": outerRank},
		outs:  []out{like("input")}},
	{Function: "rms_norm", sig: "input normalized_shape weight bias=None eps=1e-05", fwd: "RMSNorm",
		bwd: "RMSNormBackward",
		gbind: bindings{"grad_input": grad{of: "input", rule: fresh(asInput, shapeOf("input"))},
			"grad_weight": grad{of: "weight", rule: fresh(dtypeOf("weight"), shapeOf("weight"))}},
		outs: []out{result(asInput, shapeOf("input")), aux(halfToSingle("input"), outer)}},
	{Function: "normalize", sig: "input p=2.0 dim=1 eps=1e-12", fwd: "Normalize", bwd: "NormalizeBackward",
		bind: bindings{"axis": "dim"}, gbind: bindings{"axis": "dim"}, outs: []out{like("input")}},
	softmax("softmax", "Softmax"),
	softmax("log_softmax", "LogSoftmax"),
	{Function: "scaled_masked_softmax", sig: "input mask scale fixed_triu_mask", fwd: "ScaledMaskedSoftmax",
		bwd:   "ScaledMaskedSoftmaxBackward",
		gbind: bindings{"output": firstResult, "grad_input": grad{of: "input", rule: fresh(asInput, shapeOf("input"))}},
		outs:  []out{result(asInput, shapeOf("input"))}},
	dropout("dropout", shapeOf("input")),
	dropout("dropout2d", func(b *build) []int {
		shape := slices.Clone(b.tensor("input").Shape)
		for i := 2; i < len(shape); i++ {
			shape[i] = 1
		}
		return shape
	}),
}

// batchStat is the dtype of batch statistics: float32 for float16 input.
func batchStat(b *build) tensor.DType { return halfToSingle("input")(b) }

// rowStat is the dtype of the statistics of layer and group norm: that of the
// input, as the kit has it, but float32 for bfloat16, which the kit does not know:
// 8 bits of a mean leave nothing of a gradient.
func rowStat(b *build) tensor.DType {
	if dt := asInput(b); dt != tensor.BFloat16 {
		return dt
	}
	return tensor.Float32
}

func channels(b *build) []int {
	shape := b.tensor("input").Shape
	if len(shape) < 2 {
		b.fail("input must have a dimension of channels, got shape %v", shape)
	}
	return shape[1:2]
}

// wanted is a statistic per channel, null if its flag is false.
func wanted(flag string) out {
	return out{rule: func(b *build) any {
		if !b.bool(flag) {
			b.plan.Outputs = append(b.plan.Outputs, nil)
			return nil
		}
		return newTensor(asInput(b), channels(b))
	}}
}

func groups(b *build) []int {
	shape := b.tensor("input").Shape
	if len(shape) == 0 {
		b.fail("input must have a dimension")
	}
	return []int{shape[0], b.int("num_groups")}
}

// outer are the dimensions before the normalised ones.
func outer(b *build) []int {
	shape, n := b.tensor("input").Shape, len(b.ints("normalized_shape"))
	if n > len(shape) {
		b.fail("normalized_shape has %d dimensions, input %d", n, len(shape))
	}
	return shape[:len(shape)-n]
}

func outerRank(b *build) any { return int64(len(outer(b))) }

// auxiliary is a tensor that a call writes though its parameter is not an output.
func auxiliary(name string, dt dtypeRule, sh shapeRule) func(*build) any {
	return func(b *build) any {
		t := newTensor(dt(b), sh(b))
		t.Role = name
		b.written[name] = t
		return t
	}
}

// firstResult is the first result, saved or not.
func firstResult(b *build) any {
	if len(b.plan.Outputs) == 0 {
		return nil
	}
	return b.plan.Outputs[0]
}

// softmax is softmax or log_softmax, which the kit does not call without elements.
// Input of another dtype than is asked for is cast first, as PyTorch does: DIOPI's
// function has one dtype.
func softmax(function, c string) *Recipe {
	cast := func(b *build) bool {
		dt, ok := b.args["dtype"].(tensor.DType)
		return ok && dt != b.tensor("input").DType
	}
	return &Recipe{Function: function, sig: "input dim=None dtype=None", fwd: c, bwd: c + "Backward", also: "CastDtype",
		gbind: bindings{"output": firstResult},
		prepare: func(b *build) {
			if b.args["dim"] == nil {
				b.args["dim"] = int64(0)
			}
		},
		outs: []out{{rule: func(b *build) any {
			t := rawLike(b.tensor("input"))
			if dt, ok := b.args["dtype"].(tensor.DType); ok {
				t.DType, t.Stride = dt, nil
			}
			return t
		}}},
		forward: func(b *build) {
			if slices.Contains(b.tensor("input").Shape, 0) {
				b.returnArgument("input")
				return
			}
			if !cast(b) {
				b.callForward(c)
				return
			}
			x := newTensor(b.args["dtype"].(tensor.DType), b.tensor("input").Shape)
			x.Role = "input as " + x.DType.String()
			b.call("CastDtype", nil, map[string]Arg{"out": x, "input": b.tensor("input")})
			out := newTensor(x.DType, x.Shape)
			b.result(out)
			b.call(c, nil, map[string]Arg{"out": out, "input": x})
		},
		backward: func(b *build) {
			if !cast(b) {
				b.callBackward()
				return
			}
			y := firstResult(b).(*Tensor)
			g := newTensor(y.DType, y.Shape)
			g.Role = "grad_input as " + g.DType.String()
			b.call(c+"Backward", b.r.gbind, map[string]Arg{"grad_input": g})
			b.call("CastDtype", nil, map[string]Arg{"out": b.gradient(grad{of: "input"}), "input": g})
		}}
}

// dropout is a dropout whose mask has the given shape.
func dropout(function string, mask shapeRule) *Recipe {
	m := aux(constant(tensor.Uint8), mask)
	return &Recipe{Function: function, sig: "input p=0.5 training=True generator=None", fwd: "Dropout",
		inp:  "DropoutInp",
		bind: bindings{"train": "training"},
		forward: func(b *build) {
			o := rawLike(b.tensor("input"))
			b.result(o)
			k := m.rule(b).(*Tensor)
			b.plan.Outputs = append(b.plan.Outputs, k)
			b.call("Dropout", bindings{"train": "training", "generator": generator},
				map[string]Arg{"out": o, "mask": k})
		},
		inplace: func(b *build) {
			b.call("DropoutInp", bindings{"train": "training", "generator": generator},
				map[string]Arg{"mask": m.rule(b).(*Tensor)})
			b.plan.InPlace = b.tensor("input")
		}}
}

// generator is the generator of the case.
func generator(b *build) any { return b.gen }

var losses = []*Recipe{
	elementLoss("mse_loss", "input target reduction='mean'", "MSELoss"),
	elementLoss("smooth_l1_loss", "input target reduction='mean' beta=1.0", "SmoothL1Loss"),
	loss("binary_cross_entropy", "input target weight=None reduction='mean'", "BCELoss", shapeOf("input")),
	loss("binary_cross_entropy_with_logits", "input target weight=None reduction='mean' pos_weight=None",
		"BCEWithLogits", shapeOf("input")),
	loss("cross_entropy", "input target weight=None ignore_index=-100 reduction='mean' label_smoothing=0.0",
		"CrossEntropyLoss", func(b *build) []int {
			x := b.tensor("input").Shape
			if len(x) < 2 {
				return []int{}
			}
			return append([]int{x[0]}, x[2:]...)
		}),
	loss("nll_loss", "input target weight=None ignore_index=-100 reduction='mean'", "NLLLoss", shapeOf("target")),
	extended(loss("nll_loss_v2", "input target weight=None ignore_index=-100 reduction='mean'", "NLLLossV2",
		shapeOf("target")),
		aux(asInput, func(*build) []int { return []int{1} })),
	{Function: "sigmoid_focal_loss", sig: "inputs targets alpha=0.25 gamma=2 reduction='none'", fwd: "SigmoidFocalLoss",
		bwd:   "SigmoidFocalLossBackward",
		gbind: bindings{"input": "inputs", "target": "targets", "grad_input": grad{of: "inputs"}},
		outs:  []out{lossOut("inputs", shapeOf("inputs"))}},
	{Function: "ctc_loss",
		sig: "log_probs targets input_lengths target_lengths blank=0 reduction='mean' zero_infinity=False",
		fwd: "CTCLoss", bwd: "CTCLossBackward", also: "LogSoftmax LogSoftmaxBackward", forward: ctcForward,
		backward: ctcBackward},
}

// loss is a loss of input and target: one number, or with reduction none a tensor of shape.
func loss(function, sig, c string, shape shapeRule) *Recipe {
	return &Recipe{Function: function, sig: sig, fwd: c, bwd: c + "Backward", outs: []out{lossOut("input", shape)}}
}

// elementLoss is a loss of each element. Its backward function has no place for the
// sum over what was broadcast.
func elementLoss(function, sig, c string) *Recipe {
	r := loss(function, sig, c, shapeOf("input"))
	r.backward = func(b *build) {
		if x, y := b.tensor("input").Shape, b.tensor("target").Shape; !slices.Equal(x, y) {
			b.fail("no gradient of input of shape %v for a target of shape %v", x, y)
		}
		b.callBackward()
	}
	return r
}

func extended(r *Recipe, more ...out) *Recipe {
	r.outs = append(r.outs, more...)
	return r
}

func lossOut(input string, shape shapeRule) out {
	return out{rule: func(b *build) any {
		x := b.tensor(input)
		if b.args["reduction"] != "none" {
			return newTensor(x.DType, []int{})
		}
		if s := shape(b); !slices.Equal(s, x.Shape) {
			return newTensor(x.DType, s)
		}
		return rawLike(x)
	}}
}

// ctcForward normalises the log-probabilities first, as the kit does.
func ctcForward(b *build) {
	x := b.rank("log_probs", 3)
	longest := ctcLongest(b)
	b.written["log_probs_"] = b.ctcLogSoftmax()
	n := x[1]
	dt := b.tensor("log_probs").DType
	shape := []int{1}
	if b.args["reduction"] == "none" {
		shape = []int{n}
	}
	loss := newTensor(dt, shape)
	b.result(loss)
	nll, alpha := newTensor(dt, []int{n}), newTensor(dt, []int{n, x[0], 2*longest + 1})
	b.written["neg_log_likelihood"], b.written["log_alpha"] = nll, alpha
	b.call("CTCLoss", bindings{"log_probs": "log_probs_"}, map[string]Arg{"out": loss, "neg_log_likelihood": nll,
		"log_alpha": alpha})
}

// ctcLongest is the longest target.
func ctcLongest(b *build) int {
	var longest int64
	switch v := b.args["target_lengths"].(type) {
	case *Tensor:
		for _, n := range tensor.Data[int64](v.Value) {
			longest = max(longest, n)
		}
	case *value.Sequence:
		for _, n := range b.ints("target_lengths") {
			longest = max(longest, int64(n))
		}
	default:
		b.fail("target_lengths must be a tensor, got %s", describe(v))
	}
	return int(longest)
}

func (b *build) ctcLogSoftmax() *Tensor {
	t := rawLike(b.tensor("log_probs"))
	t.Role = "log_probs_"
	b.call("LogSoftmax", nil, map[string]Arg{"out": t, "input": b.tensor("log_probs"), "dim": Integer(2)})
	return t
}

// ctcBackward goes back through the normalisation too.
func ctcBackward(b *build) {
	b.written["log_probs_"] = b.ctcLogSoftmax()
	inner := rawLike(b.tensor("log_probs"))
	inner.Role = "grad_log_probs_"
	b.call("CTCLossBackward", bindings{"log_probs": "log_probs_"}, map[string]Arg{"grad_input": inner})
	b.call("LogSoftmaxBackward", nil, map[string]Arg{
		"grad_input": b.gradient(grad{of: "log_probs"}), "grad_output": inner, "output": b.written["log_probs_"],
		"dim": Integer(2),
	})
}
