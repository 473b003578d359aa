package gradients

import (
	"math"
	"strconv"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const (
	f   = "torch.nn.functional."
	qkv = "query key value"
)

// forms are the operators that another operator computes, or whose gradients it has.
func forms() []form {
	all := []form{
		// Gradients of functions of one element.
		{schema: "silu_backward(Tensor grad_output, Tensor self) -> Tensor", call: f + "silu(self)", of: "self",
			rows: plain},
		{schema: "mish_backward(Tensor grad_output, Tensor self) -> Tensor", call: f + "mish(self)", of: "self",
			rows: plain},
		{schema: "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", call: f + "hardswish(self)",
			of: "self", rows: plain},
		{schema: "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", call: f + "hardsigmoid(self)",
			of: "self", rows: plain},
		{schema: "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
			call: f + "logsigmoid(self)", of: "self", rows: plainAnd(tensor.New(tensor.Float32, []int{0},
				[]float64{}))},
		{schema: `gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor`,
			call: f + "gelu(self, approximate=approximate)", of: "self", rows: plain},
		{schema: "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
			call: f + "threshold(self, threshold, 0)", of: "self", rows: plainAnd(0)},
		{schema: "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool " +
			"self_is_result) -> " +
			"Tensor", of: "self", origin: leakyReLU, call: f + "leaky_relu", rows: plainAnd(0.1, true)},
		{schema: "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
			call: f + "hardtanh(self, min_val, max_val)", of: "self", rows: plainAnd(-1, 1)},
		{schema: "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
			call: f + "softplus(self, beta, threshold)", of: "self", rows: plainAnd(1, 20)},
		{schema: "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
			call: f + "hardshrink(self, lambd)", of: "self", rows: plainAnd(0.5)},
		{schema: "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
			call: f + "softshrink(self, lambd)", of: "self", rows: plainAnd(0.5)},
		{schema: "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
			call: "torch.logit(self, eps)", of: "self", rows: plainAnd(0.01)},
		{schema: "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", call: f + "glu(self, dim)",
			of: "self", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 3), normal(g, 2, 6), -1)}
			}},

		// Gradients of losses.
		{schema: "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
			call: "torch.ops.aten.mse_loss(self, target, reduction)", of: "input", rows: lossRows()},
		{schema: "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float " +
			"beta) -> " +
			"Tensor", call: "torch.ops.aten.smooth_l1_loss(self, target, reduction, beta)", of: "input",
			rows: lossRows(1.0)},
		{schema: "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> " +
			"Tensor", call: "torch.ops.aten.huber_loss(self, target, reduction, delta)", of: "input",
			rows: lossRows(1.0)},
		{schema: "soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
			call: "torch.ops.aten.soft_margin_loss(self, target, reduction)", of: "input", rows: lossRows()},
		{schema: "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? " +
			"weight=None, int " +
			"reduction=1) -> Tensor", call: "torch.ops.aten.binary_cross_entropy(self, target, weight, reduction)",
			of: "input", rows: func(g opdef.Gen) [][]value.Value {
				p := func() *tensor.Tensor { return elements.Detached(g.Uniform(tensor.Float32, 0.1, 0.9, 2, 5)) }
				return [][]value.Value{row(normal(g, 2, 5), p(), p(), p(), 0), row(normal(g), p(), p(), nil, 1)}
			}},
		{schema: nllSchema("nll_loss_backward"), call: f + "nll_loss", of: "input", origin: nll, rows: nllRows(3, 5)},
		{schema: nllSchema("nll_loss2d_backward"), call: f + "nll_loss", of: "input", origin: nll,
			rows: nllRows(2, 5, 2, 2)},
		{schema: "multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar " +
			"margin, " +
			"Tensor? weight=None, int reduction=1) -> Tensor",
			call: "torch.ops.aten.multi_margin_loss(self, target, p, margin, weight, reduction)", of: "input",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 3), normal(g, 3, 5), g.Int(tensor.Int64, 0, 4, 3), 1, 1, nil, 0)}
			}},
		{schema: "multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, " +
			"Tensor " +
			"is_target) -> Tensor", call: "torch.ops.aten.multilabel_margin_loss(self, target, reduction)",
			of: "input"},
		{schema: ctcSchema("int[]"), call: ctcCall, of: "log_probs"},
		{schema: ctcSchema("Tensor"), call: ctcCall, of: "log_probs"},

		// Gradients of what moves elements.
		{schema: "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
			call: "torch.select(zeros(input_sizes), dim, index)", of: "self", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 3), []int{2, 3}, 0, 1)}
			}},
		{schema: "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> " +
			"Tensor",
			call: "torch.ops.aten.slice(zeros(input_sizes), dim, start, end, step)", of: "self",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 2), []int{2, 5}, 1, 1, math.MaxInt64, 2)}
			}},
		{schema: "diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
			call: "torch.diagonal(zeros(input_sizes), offset, dim1, dim2)", of: "self",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 3), []int{3, 4}, 0, 0, 1)}
			}},
		{schema: "unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
			call: "torch.Tensor.unfold(zeros(input_sizes), dim, size, step)", of: "self",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 2, 3), []int{2, 5}, 1, 3, 2)}
			}},
		{schema: "trace_backward(Tensor grad, int[] sizes) -> Tensor", call: "torch.trace(zeros(sizes))", of: "self",
			rows: func(g opdef.Gen) [][]value.Value { return [][]value.Value{row(normal(g), []int{2, 3})} }},
		{schema: "index_select_backward(Tensor grad, int[] self_sizes, int dim, Tensor index) -> Tensor",
			call: "torch.index_select(zeros(self_sizes), dim, index)", of: "self",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 6), []int{2, 4}, 1, g.Int(tensor.Int64, 0, 3, 6))}
			}},
		{schema: "gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
			call: "torch.gather(self, dim, index)", of: "self", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 6), normal(g, 2, 4), 1, g.Int(tensor.Int64, 0, 3, 2, 6), false)}
			}},
		{schema: "masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
			call: "torch.masked_scatter(grad_output, mask, zeros(sizes))", of: "source",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 3), g.Int(tensor.Bool, 0, 1, 2, 3), []int{7})}
			}},
		{schema: "cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor",
			call: "torch.cumprod(input, dim)", of: "self"},
		{schema: "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, " +
			"bool " +
			"scale_grad_by_freq) -> Tensor", call: "torch.embedding", of: "weight", origin: embedding,
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 6, 3), g.Int(tensor.Int64, 0, 3, 6), 4, -1, false),
					row(normal(g, 6, 3), g.Int(tensor.Int64, 0, 3, 6), 4, 1, false)}
			}},
		// Gradients of pooling, images and distances.
		averagePool("avg_pool2d", 2), averagePool("avg_pool3d", 3),
		{schema: "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", of: "input",
			call: f + "adaptive_avg_pool2d", origin: adaptive(2), rows: adaptiveRows(2)},
		{schema: "_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor", of: "input",
			call: f + "adaptive_avg_pool3d", origin: adaptive(3), rows: adaptiveRows(3)},
		{schema: "grid_sampler_2d_backward" + gridSchema, call: "torch.grid_sampler_2d" + gridCall, of: "input grid",
			rows: gridRows(2)},
		{schema: "grid_sampler_3d_backward" + gridSchema, call: "torch.grid_sampler_3d" + gridCall, of: "input grid",
			rows: gridRows(3)},
		{schema: "affine_grid_generator_backward(Tensor grad, int[] size, bool align_corners) -> Tensor",
			call: "torch.affine_grid_generator", of: "theta", origin: affineGrid,
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(normal(g, 2, 3, 4, 2), []int{2, 1, 3, 4}, true)}
			}},
		{schema: "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
			call: "torch.cdist(x1, x2, p)", of: "x1"},
		{schema: "_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor",
			call: "torch.pdist(self, p)", of: "input"},
		{schema: "_cdist_forward(Tensor x1, Tensor x2, float p, ignored compute_mode) -> Tensor",
			call: "torch.cdist(x1, x2, p)", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 3, 5), g.Normal(tensor.Float64, 4, 5), 2.0, nil)}
			}},
		{schema: "_pdist_forward(Tensor self, float p=2.) -> Tensor", call: "torch.pdist(self, p)",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 4, 5), 2.0)}
			}},
		{schema: "_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor " +
			"saved_norms, int " +
			"dim) -> (Tensor, Tensor)", call: "torch._weight_norm_interface(saved_v, saved_g, dim)", of: "v g"},
		{schema: "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? " +
			"lengths=None, " +
			"Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor", of: "data",
			call: "torch.segment_reduce(data, reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial, " +
				"unsafe=True)"},

		// Attention.
		attention(qkv, "attn_mask", "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor "+
			"query, Tensor key, "+
			"Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, "+
			"float? scale=None) -> (Tensor, Tensor, Tensor)"),
		attention(qkv, "None", "_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, "+
			"Tensor key, Tensor value, "+
			"Tensor out, Tensor logsumexp, "+varlen+", float dropout_p, bool is_causal, ignored philox_seed, ignored "+
			"philox_offset, *, float? scale=None) -> (Tensor, Tensor, Tensor)"),
		attention(qkv+" attn_mask", "attn_bias", "_scaled_dot_product_efficient_attention_backward(Tensor "+
			"grad_out_, Tensor query, Tensor key, Tensor "+
			"value, Tensor? attn_bias, Tensor out, Tensor logsumexp, ignored philox_seed, ignored philox_offset, "+
			"float dropout_p, bool[] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, "+
			"Tensor)"),
		attention(qkv, "attn_bias", "_scaled_dot_product_cudnn_attention_backward(Tensor grad_out, Tensor query, "+
			"Tensor key, Tensor value, "+
			"Tensor out, Tensor logsumexp, ignored philox_seed, ignored philox_offset, Tensor? attn_bias, "+varlen+
			", float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)"),

		// Results under other names.
		{schema: "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", call: "torch.softmax",
			origin: softmaxOf("torch.softmax"), rows: softmaxRows},
		{schema: "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", call: "torch.log_softmax",
			origin: softmaxOf("torch.log_softmax"), rows: softmaxRows},
		{schema: "_adaptive_avg_pool2d(Tensor self, int[] output_size) -> Tensor",
			call: f + "adaptive_avg_pool2d(self, output_size)", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 1, 2, 4, 4), []int{2, 2})}
			}},
		{schema: "_adaptive_avg_pool3d(Tensor self, int[] output_size) -> Tensor",
			call: f + "adaptive_avg_pool3d(self, output_size)", rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 1, 2, 4, 4, 4), []int{2, 2, 2})}
			}},
		{schema: "copy(Tensor self, Tensor src, ignored non_blocking=False) -> Tensor", call: "torch.Tensor.copy_(self, src)",
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 2, 3), g.Normal(tensor.Float64, 3))}
			}},
		{schema: "lift_fresh(Tensor self) -> Tensor", call: "torch.clone(self)", rows: one},
		{schema: "lift_fresh_copy(Tensor self) -> Tensor", call: "torch.clone(self)", rows: one},
		{schema: "_conj(Tensor self) -> Tensor", call: "torch.conj(self)", rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(g.Normal(tensor.Complex128, 2, 3))}
		}},
		{schema: "_conj_physical(Tensor self) -> Tensor", call: "torch.conj(self)", rows: one},
		{schema: "_efficientzerotensor(int[] size, *, dtype? dtype=None, Layout? layout=None, Device? device=None, " +
			"ignored pin_memory=None) -> Tensor", call: "torch.zeros(size, dtype=dtype)",
			rows: func(opdef.Gen) [][]value.Value { return [][]value.Value{row([]int{2, 3})} }},
		{schema: "index(Tensor self, Tensor?[] indices) -> Tensor", call: "torch.Tensor.__getitem__", origin: index,
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 3, 4), value.NewList(nil, g.Int(tensor.Int64, 0,
					3, 2)))}
			}},
		{schema: "_unsafe_index(Tensor self, Tensor?[] indices) -> Tensor", call: "torch.Tensor.__getitem__",
			origin: index, rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Float64, 3, 4), value.NewList(g.Int(tensor.Int64, 0, 2, 2)))}
			}},
		{schema: "_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor", call: "torch.fft.fftn",
			origin: fourierC2C, rows: func(g opdef.Gen) [][]value.Value {
				x := func() *tensor.Tensor { return g.Normal(tensor.Complex128, 2, 4) }
				return [][]value.Value{row(x(), []int{1}, 0, true), row(x(), []int{0, 1}, 2, false)}
			}},
		{schema: "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
			call:   "torch.fft.rfftn",
			origin: fourierR2C, rows: func(g opdef.Gen) [][]value.Value {
				x := func() *tensor.Tensor { return g.Normal(tensor.Float64, 2, 5) }
				return [][]value.Value{row(x(), []int{0, 1}, 0, true), row(x(), []int{1}, 1, false)}
			}},
		{schema: "_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
			call: "torch.fft.irfftn", origin: fourierC2R, rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{row(g.Normal(tensor.Complex128, 2, 4), []int{0, 1}, 2, 6)}
			}},
	}
	for dims := 1; dims <= 3; dims++ {
		for _, p := range []struct{ name, mode string }{{"reflection_pad", "reflect"}, {"replication_pad",
			"replicate"}} {
			name := p.name + strconv.Itoa(dims) + "d"
			all = append(all, padding(name, p.mode, 2*dims), paddingGradient(name, p.mode, 2*dims))
		}
	}
	for _, u := range upsamplings {
		all = append(all, u.forms()...)
	}
	return all
}

// normal is a random tensor in float32 that no gradient is asked for.
func normal(g opdef.Gen, shape ...int) *tensor.Tensor {
	return elements.Detached(g.Normal(tensor.Float32, shape...))
}

func one(g opdef.Gen) [][]value.Value { return [][]value.Value{row(g.Normal(tensor.Float64, 2, 3))} }

func softmaxRows(g opdef.Gen) [][]value.Value {
	return [][]value.Value{row(g.Normal(tensor.Float64, 2, 3), 1, false)}
}

// plain are the cases of a gradient of a function of one element.
func plain(g opdef.Gen) [][]value.Value { return plainAnd()(g) }

// plainAnd are those of a function with more arguments.
func plainAnd(more ...any) func(g opdef.Gen) [][]value.Value {
	return func(g opdef.Gen) (out [][]value.Value) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16} {
			x := func() *tensor.Tensor { return elements.Detached(g.Normal(dt, 2, 5)) }
			out = append(out, row(append([]any{x(), x()}, more...)...))
		}
		return out
	}
}

// lossRows are the cases of a gradient of a loss, for each reduction.
func lossRows(more ...any) func(g opdef.Gen) [][]value.Value {
	return func(g opdef.Gen) (out [][]value.Value) {
		for reduction, up := range []*tensor.Tensor{normal(g, 2, 5), normal(g), normal(g)} {
			out = append(out, row(append([]any{up, normal(g, 2, 5), normal(g, 2, 5), reduction}, more...)...))
		}
		return out
	}
}

// leakyReLU: the result has the sign of self where the slope is positive, as torch wants it in place.
func leakyReLU(a args) (origin, error) {
	if slope, _ := a.any("negative_slope").(float64); a.bool("self_is_result") && slope < 0 {
		return origin{}, opdef.Refuse("negative_slope", "want at least 0 of an in-place call, got %v", slope)
	}
	return a.read(f+"leaky_relu(self, negative_slope)", "self")
}

func nllSchema(name string) string {
	return name + "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, " +
		"Tensor total_weight) -> Tensor"
}

func nll(a args) (origin, error) {
	n := a.int("reduction")
	if n < 0 || n > 2 {
		return origin{}, opdef.Refuse("reduction", "want 0, 1 or 2, got %d", n)
	}
	words := [...]string{"none", "mean", "sum"}
	return a.read(f+`nll_loss(self, target, weight, None, ignore_index, None, "`+words[n]+`")`, "input")
}

func nllRows(shape ...int) func(g opdef.Gen) [][]value.Value {
	targets := append([]int{shape[0]}, shape[2:]...)
	return func(g opdef.Gen) [][]value.Value {
		x, target := normal(g, shape...), g.Int(tensor.Int64, 0, 4, targets...)
		return [][]value.Value{
			row(normal(g, targets...), x, target, nil, 0, -100, tensor.Scalar(tensor.Float32, 0.0)),
			row(normal(g), x, target, nil, 1, -100, tensor.Scalar(tensor.Float32, float64(target.Numel()))),
		}
	}
}

const ctcCall = "torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, 0, zero_infinity)"

func ctcSchema(lengths string) string {
	name := "_ctc_loss_backward"
	if lengths == "Tensor" {
		name += ".Tensor"
	}
	return name + "(Tensor grad, Tensor log_probs, Tensor targets, " + lengths + " input_lengths, " + lengths +
		" target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor"
}

func embedding(a args) (origin, error) {
	up := a.up()
	if up.Dim() == 0 {
		return origin{}, opdef.Refuse("grad_output", "want at least one dimension")
	}
	table, err := zeros("num_weights", up, []int{int(a.int("num_weights")), up.Shape[up.Dim()-1]})
	return origin{name: "torch.embedding", args: []value.Value{table, a.any("indices"), a.any("padding_idx"),
		a.any("scale_grad_by_freq")}, of: []string{"weight"}}, err
}

// padding is a padding by n numbers.
func padding(name, mode string, n int) form {
	return form{schema: name + "(Tensor self, int[] padding) -> Tensor", call: f + "pad",
		origin: paddingOf(mode, n, ""), rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(g.Normal(tensor.Float64, append([]int{2}, filled(n/2, 4)...)...), filled(n, 1))}
		}}
}

// paddingGradient is the gradient of a padding by n numbers.
func paddingGradient(name, mode string, n int) form {
	return form{schema: name + "_backward(Tensor grad_output, Tensor self, int[] padding) -> Tensor", call: f + "pad",
		of: "input", origin: paddingOf(mode, n, "input"), rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(normal(g, append([]int{2}, filled(n/2, 6)...)...),
				normal(g, append([]int{2}, filled(n/2, 4)...)...), filled(n, 1))}
		}}
}

func paddingOf(mode string, n int, of string) func(a args) (origin, error) {
	return func(a args) (origin, error) {
		if got := len(a.ints("padding")); got != n {
			return origin{}, opdef.Refuse("padding", "want %d numbers, got %d", n, got)
		}
		return a.read(f+"pad(self, padding, "+strconv.Quote(mode)+")", of)
	}
}

// averagePool is the gradient of an average over windows of so many dimensions.
func averagePool(name string, dims int) form {
	return form{schema: name + "_backward(Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] " +
		"padding, " +
		"bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", of: "input", call: f + name,
		origin: func(a args) (origin, error) {
			stride := "stride"
			if len(a.ints(stride)) == 0 {
				stride = "kernel_size"
			}
			return a.read(f+name+"(self, kernel_size, "+stride+", padding, ceil_mode, count_include_pad, "+
				"divisor_override)", "input")
		}, rows: func(g opdef.Gen) [][]value.Value {
			of := func(n int) []int { return filled(dims, n) }
			return [][]value.Value{row(normal(g, append([]int{1, 2}, of(2)...)...),
				normal(g, append([]int{1, 2}, of(4)...)...), of(2), of(2), of(0), false, true, nil)}
		}}
}

// filled is a list of one number.
func filled(n, x int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// adaptive is the gradient of an average over windows for a result of so many dimensions.
func adaptive(dims int) func(a args) (origin, error) {
	name := f + "adaptive_avg_pool" + string(rune('0'+dims)) + "d"
	return func(a args) (origin, error) {
		up := a.up()
		if up.Dim() < dims+1 {
			return origin{}, opdef.Refuse("grad_output", "want %d or %d dimensions, got %d", dims+1, dims+2, up.Dim())
		}
		return origin{name: name, args: row(a.any("self"), up.Shape[up.Dim()-dims:]), of: []string{"input"}}, nil
	}
}

func adaptiveRows(dims int) func(g opdef.Gen) [][]value.Value {
	return func(g opdef.Gen) [][]value.Value {
		return [][]value.Value{row(normal(g, append([]int{1, 2}, filled(dims, 2)...)...),
			normal(g, append([]int{1, 2}, filled(dims, 4)...)...))}
	}
}

const (
	gridSchema = "(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool " +
		"align_corners, bool[] output_mask) -> (Tensor, Tensor)"
	gridCall = "(input, grid, interpolation_mode, padding_mode, align_corners)"
)

func gridRows(dims int) func(g opdef.Gen) [][]value.Value {
	return func(g opdef.Gen) [][]value.Value {
		return [][]value.Value{row(normal(g, append([]int{1, 2}, filled(dims, 2)...)...),
			normal(g, append([]int{1, 2}, filled(dims, 4)...)...),
			elements.Detached(g.Uniform(tensor.Float32, -0.9, 0.9, append(append([]int{1}, filled(dims, 2)...),
				dims)...)),
			0, 0, false, []bool{true, true})}
	}
}

func affineGrid(a args) (origin, error) {
	size := a.ints("size")
	if len(size) != 4 && len(size) != 5 {
		return origin{}, opdef.Refuse("size", "want 4 or 5 numbers, got %d", len(size))
	}
	theta, err := zeros("size", a.up(), []int{size[0], len(size) - 2, len(size) - 1})
	return origin{name: "torch.affine_grid_generator", args: []value.Value{theta, a.any("size"),
		a.any("align_corners")},
		of: []string{"theta"}}, err
}

// varlen are arguments of attention kernels that sequences of one length do not use.
const varlen = "ignored cum_seq_q, ignored cum_seq_k, int max_q, int max_k"

// attention are the gradients, of these arguments, of attention by the kernel of a schema, whose mask has this name.
func attention(of, mask, schema string) form {
	call := f + "scaled_dot_product_attention(query, key, value, " + mask + ", 0, is_causal, scale=scale)"
	return form{schema: schema, of: of, call: call, origin: func(a args) (origin, error) {
		if p, _ := a.any("dropout_p").(float64); p != 0 {
			return origin{}, opdef.Unsupported("dropout_p", "the mask of dropout is not known")
		}
		return a.read(call, of)
	}, rows: func(g opdef.Gen) [][]value.Value {
		given := map[string]any{"logsumexp": normal(g, 1, 2, 3), "dropout_p": 0.0, "is_causal": true, "max_q": 3,
			"max_k": 3, "grad_input_mask": []bool{true, true, true, false}, "attn_bias": nil, "philox_seed": nil,
			"philox_offset": nil, "cum_seq_q": nil, "cum_seq_k": nil}
		var out []any
		for _, p := range opdef.Must(opdef.ParseSchema(schema)).Params {
			if v, ok := given[p.Name]; ok {
				out = append(out, v)
			} else if !p.Keyword {
				out = append(out, normal(g, 1, 2, 3, 4))
			}
		}
		return [][]value.Value{row(out...)}
	}}
}

// softmaxOf is a softmax in float32 of an argument in 16 bits, or in its dtype.
func softmaxOf(name string) func(a args) (origin, error) {
	return func(a args) (origin, error) {
		if a.bool("half_to_float") {
			o, err := a.read(name+"(self, dim)", "")
			o.kwargs.Items = append(o.kwargs.Items, value.Item{Key: "dtype", Value: tensor.Float32})
			return o, err
		}
		return a.read(name+"(self, dim)", "")
	}
}

// index is indexing by tensors, None for all elements of a dimension.
func index(a args) (origin, error) {
	var all []value.Value
	l, _ := a.any("indices").(*value.Sequence)
	for _, v := range l.Items {
		if t, _ := v.(*tensor.Tensor); t == nil {
			v = value.Slice{}
		}
		all = append(all, v)
	}
	return origin{name: "torch.Tensor.__getitem__", args: []value.Value{a.any("self"), value.NewTuple(all...)}}, nil
}

// The norms of a Fourier transform and of an inverse one, by the number that ATen has for them.
var (
	fourierNorms = []string{"backward", "ortho", "forward"}
	inverseNorms = []string{"forward", "ortho", "backward"}
)

// fourier is a transform of torch.fft along dim.
func fourier(a args, name string, norms []string, s value.Value) (origin, error) {
	n := a.int("normalization")
	if n < 0 || n > 2 {
		return origin{}, opdef.Refuse("normalization", "want 0, 1 or 2, got %d", n)
	}
	return origin{name: "torch.fft." + name, args: []value.Value{a.any("self"), s, a.any("dim"), norms[n]}}, nil
}

func fourierC2C(a args) (origin, error) {
	if a.bool("forward") {
		return fourier(a, "fftn", fourierNorms, nil)
	}
	return fourier(a, "ifftn", inverseNorms, nil)
}

func fourierR2C(a args) (origin, error) {
	if a.bool("onesided") {
		return fourier(a, "rfftn", fourierNorms, nil)
	}
	return fourier(a, "fftn", fourierNorms, nil)
}

func fourierC2R(a args) (origin, error) {
	x, dims := a.tensor("self"), a.ints("dim")
	if x.Dim() == 0 {
		return origin{}, opdef.Refuse("self", "want at least one dimension")
	}
	sizes := make([]int, len(dims))
	for i, d := range dims {
		d, err := opdef.Dim("dim", d, x.Dim())
		if err != nil {
			return origin{}, err
		}
		if sizes[i] = x.Shape[d]; i == len(dims)-1 {
			sizes[i] = int(a.int("last_dim_size"))
		}
	}
	return fourier(a, "irfftn", inverseNorms, row(sizes)[0])
}

// An upsampling is a mode of interpolate that ATen has under a name of its own.
type upsampling struct {
	name, mode         string
	dims               int
	corners, antialias bool // corners: align_corners is an argument
}

var upsamplings = []upsampling{
	{"upsample_nearest1d", "nearest", 1, false, false}, {"upsample_nearest2d", "nearest", 2, false, false},
	{"upsample_nearest3d", "nearest", 3, false, false},
	{"_upsample_nearest_exact1d", "nearest-exact", 1, false, false},
	{"_upsample_nearest_exact2d", "nearest-exact", 2, false, false},
	{"_upsample_nearest_exact3d", "nearest-exact", 3, false, false},
	{"upsample_linear1d", "linear", 1, true, false}, {"upsample_bilinear2d", "bilinear", 2, true, false},
	{"upsample_trilinear3d", "trilinear", 3, true, false}, {"upsample_bicubic2d", "bicubic", 2, true, false},
	{"_upsample_bilinear2d_aa", "bilinear", 2, true, true}, {"_upsample_bicubic2d_aa", "bicubic", 2, true, true},
}

// forms are the upsampling, with sizes and scales or, as torch.nn.functional calls it, either; and its gradient.
func (u upsampling) forms() []form {
	corners, scales := "", []string{"scales"}
	if u.corners {
		corners = "bool align_corners, "
	}
	if u.dims > 1 {
		scales = []string{"scales_d", "scales_h", "scales_w"}[3-u.dims:]
	}
	rest := corners + "float? " + strings.Join(scales, "=None, float? ") + "=None) -> Tensor"
	call := func(input, size string) string {
		align, anti := "None", "False"
		if u.corners {
			align = "align_corners"
		}
		if u.antialias {
			anti = "True"
		}
		return f + "interpolate(" + input + ", " + size + ", None, " + strconv.Quote(u.mode) + ", " + align + ", " +
			"None, " +
			anti + ")"
	}
	resize := func(input, of string) func(a args) (origin, error) {
		return func(a args) (origin, error) {
			o, err := a.read(call(input, "output_size"), of)
			if err != nil || a.any(scales[0]) == nil {
				return o, err
			}
			factors := value.NewList() // the size follows from them
			for _, s := range scales {
				factors.Items = append(factors.Items, a.any(s))
			}
			o.args[1], o.args[2] = nil, factors
			return o, nil
		}
	}
	either := func(a args) (origin, error) {
		o, err := a.read(call("input", "output_size"), "")
		if err == nil {
			o.args[2] = a.any("scale_factors")
		}
		return o, err
	}
	in, out := filled(u.dims, 4), filled(u.dims, 6)
	batch := func(sizes []int) []int { return append([]int{1, 2}, sizes...) }
	arguments := func(vs ...any) []value.Value {
		if u.corners {
			vs = append(vs, false)
		}
		return row(vs...)
	}
	return []form{
		{schema: u.name + "(Tensor self, int[] output_size, " + rest, call: f + "interpolate",
			origin: resize("self", ""), rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{arguments(g.Normal(tensor.Float64, batch(in)...), out)}
			}},
		{schema: u.name + ".vec(Tensor input, int[]? output_size, " + corners + "float[]? scale_factors) -> Tensor",
			call: f + "interpolate", origin: either, rows: func(g opdef.Gen) [][]value.Value {
				factors := value.NewList()
				for range u.dims {
					factors.Items = append(factors.Items, 1.5)
				}
				return [][]value.Value{append(arguments(g.Normal(tensor.Float64, batch(in)...), nil), factors)}
			}},
		{schema: u.name + "_backward(Tensor grad_output, int[] output_size, int[] input_size, " + rest,
			call: f + "interpolate", of: "input", origin: resize("zeros(input_size)", "input"),
			rows: func(g opdef.Gen) [][]value.Value {
				return [][]value.Value{arguments(normal(g, batch(out)...), out, batch(in))}
			}},
	}
}
