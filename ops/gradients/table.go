package gradients

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Table declares the operators; find is asked for the registry of the operators whose gradients they give.
func Table(find func() *opdef.Registry) []*opdef.Entry {
	return append([]*opdef.Entry{
		derived[plainArgs]{"silu_backward(Tensor grad_output, Tensor self) -> Tensor", "Gradient of silu",
			plainOf("torch.nn.functional.silu"), plainCases}.entry(find),
		derived[plainArgs]{"mish_backward(Tensor grad_output, Tensor self) -> Tensor", "Gradient of mish",
			plainOf("torch.nn.functional.mish"), plainCases}.entry(find),
		derived[plainArgs]{"hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", "Gradient of hardswish",
			plainOf("torch.nn.functional.hardswish"), plainCases}.entry(find),
		derived[plainArgs]{"hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
			"Gradient of hardsigmoid", plainOf("torch.nn.functional.hardsigmoid"), plainCases}.entry(find),
		derived[bufferArgs]{"log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
			"Gradient of logsigmoid", func(a *bufferArgs) (origin, error) {
				return unary("torch.nn.functional.logsigmoid", a.GradOutput, a.Self), nil
			}, func(g opdef.Gen) []*bufferArgs {
				up, x := normal(g, tensor.Float32, 2, 5)
				return []*bufferArgs{{up, x, tensor.New(tensor.Float32, []int{0}, []float64{})}}
			}}.entry(find),
		derived[geluArgs]{`gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor`,
			"Gradient of gelu", func(a *geluArgs) (origin, error) {
				o := unary("torch.nn.functional.gelu", a.GradOutput, a.Self)
				o.kwargs = &value.Dict{Items: []value.Item{{Key: "approximate", Value: a.Approximate}}}
				return o, nil
			}, func(g opdef.Gen) []*geluArgs {
				up, x := normal(g, tensor.Float32, 2, 5)
				wide, y := normal(g, tensor.Float64, 3)
				return []*geluArgs{{up, x, "none"}, {up, x, "tanh"}, {wide, y, "none"}}
			}}.entry(find),
		derived[thresholdArgs]{"threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
			"Gradient of threshold, and of relu", func(a *thresholdArgs) (origin, error) {
				return unary("torch.nn.functional.threshold", a.GradOutput, a.Self, a.Threshold.Python(), 0.0), nil
			}, func(g opdef.Gen) []*thresholdArgs {
				up, x := normal(g, tensor.Float32, 2, 5)
				return []*thresholdArgs{{up, x, opdef.Int(0)}}
			}}.entry(find),
		derived[slopeArgs]{"leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool " +
			"self_is_result) -> Tensor", "Gradient of leaky_relu", (*slopeArgs).origin,
			func(g opdef.Gen) []*slopeArgs {
				up, x := normal(g, tensor.Float32, 2, 5)
				return []*slopeArgs{{up, x, opdef.Float(0.1), false}, {up, x, opdef.Float(0.1), true}}
			}}.entry(find),
		derived[hardtanhArgs]{"hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) " +
			"-> Tensor", "Gradient of hardtanh", func(a *hardtanhArgs) (origin, error) {
			return unary("torch.nn.functional.hardtanh", a.GradOutput, a.Self, a.MinVal.Python(),
				a.MaxVal.Python()), nil
		}, func(g opdef.Gen) []*hardtanhArgs {
			up, x := normal(g, tensor.Float32, 2, 5)
			return []*hardtanhArgs{{up, x, opdef.Int(-1), opdef.Int(1)}}
		}}.entry(find),
		derived[softplusArgs]{"softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> " +
			"Tensor", "Gradient of softplus", func(a *softplusArgs) (origin, error) {
			return unary("torch.nn.functional.softplus", a.GradOutput, a.Self, a.Beta.Python(),
				a.Threshold.Python()), nil
		}, func(g opdef.Gen) []*softplusArgs {
			up, x := normal(g, tensor.Float32, 2, 5)
			return []*softplusArgs{{up, x, opdef.Int(1), opdef.Int(20)}}
		}}.entry(find),
		derived[lossArgs]{"mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
			"Gradient of mse_loss", lossOf("torch.ops.aten.mse_loss"), lossCases}.entry(find),
		derived[betaArgs]{"smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, " +
			"float beta) -> Tensor", "Gradient of smooth_l1_loss", betaOf("torch.ops.aten.smooth_l1_loss"),
			betaCases}.entry(find),
		derived[deltaArgs]{"huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, " +
			"float delta) -> Tensor", "Gradient of huber_loss", func(a *deltaArgs) (origin, error) {
			word, err := reduction(a.Reduction)
			return loss("torch.nn.functional.huber_loss", a.GradOutput, a.Self, a.Target, word, a.Delta), err
		}, func(g opdef.Gen) []*deltaArgs {
			up, x := normal(g, tensor.Float32, 2, 5)
			return []*deltaArgs{{up, x, up, 0, 1}}
		}}.entry(find),
		derived[nllArgs]{nllSchema("nll_loss_backward"), "Gradient of nll_loss", (*nllArgs).origin,
			nllCases(3, 5)}.entry(find),
		derived[nllArgs]{nllSchema("nll_loss2d_backward"), "Gradient of nll_loss of images", (*nllArgs).origin,
			nllCases(2, 5, 2, 2)}.entry(find),
		derived[selectArgs]{"select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
			"Gradient of select", func(a *selectArgs) (origin, error) {
				x, err := zeros(a.GradOutput, a.InputSizes)
				return unary("torch.select", a.GradOutput, x, int64(a.Dim), int64(a.Index)), err
			}, func(g opdef.Gen) []*selectArgs {
				return []*selectArgs{{g.Normal(tensor.Float32, 3), []int{2, 3}, 0, 1}}
			}}.entry(find),
		derived[sliceArgs]{"slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int " +
			"step) -> Tensor", "Gradient of slice", func(a *sliceArgs) (origin, error) {
			x, err := zeros(a.GradOutput, a.InputSizes)
			return unary("torch.ops.aten.slice", a.GradOutput, x, int64(a.Dim), int64(a.Start), int64(a.End),
				int64(a.Step)), err
		}, func(g opdef.Gen) []*sliceArgs {
			return []*sliceArgs{{g.Normal(tensor.Float32, 2, 2), []int{2, 5}, 1, 1, math.MaxInt64, 2}}
		}}.entry(find),
		derived[diagonalArgs]{"diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int " +
			"dim2) -> Tensor", "Gradient of diagonal", func(a *diagonalArgs) (origin, error) {
			x, err := zeros(a.GradOutput, a.InputSizes)
			return unary("torch.diagonal", a.GradOutput, x, int64(a.Offset), int64(a.Dim1), int64(a.Dim2)), err
		}, func(g opdef.Gen) []*diagonalArgs {
			return []*diagonalArgs{{g.Normal(tensor.Float32, 3), []int{3, 4}, 0, 0, 1}}
		}}.entry(find),
		derived[embeddingArgs]{"embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int " +
			"padding_idx, bool scale_grad_by_freq) -> Tensor", "Gradient of the table of embedding",
			(*embeddingArgs).origin, func(g opdef.Gen) []*embeddingArgs {
				return []*embeddingArgs{{g.Normal(tensor.Float32, 6, 3), g.Int(tensor.Int64, 0, 3, 6), 4, -1, false},
					{g.Normal(tensor.Float32, 6, 3), g.Int(tensor.Int64, 0, 3, 6), 4, 1, false}}
			}}.entry(find),
		derived[averageArgs]{"avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] " +
			"stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
			"Gradient of avg_pool2d", (*averageArgs).origin, func(g opdef.Gen) []*averageArgs {
				return []*averageArgs{{g.Normal(tensor.Float32, 1, 2, 2, 2), g.Normal(tensor.Float32, 1, 2, 4, 4),
					[]int{2, 2}, []int{2, 2}, []int{0, 0}, false, true, nil}}
			}}.entry(find),
		derived[plainArgs]{"_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
			"Gradient of adaptive_avg_pool2d", func(a *plainArgs) (origin, error) {
				if a.GradOutput.Dim() < 3 {
					return origin{}, opdef.Refuse("grad_output", "want 3 or 4 dimensions, got %d", a.GradOutput.Dim())
				}
				o := unary("torch.nn.functional.adaptive_avg_pool2d", a.GradOutput, a.Self,
					ints(a.GradOutput.Shape[a.GradOutput.Dim()-2:]))
				o.of = of("input")
				return o, nil
			}, func(g opdef.Gen) []*plainArgs {
				return []*plainArgs{{g.Normal(tensor.Float32, 1, 2, 2, 2), g.Normal(tensor.Float32, 1, 2, 4, 4)}}
			}}.entry(find),
		padding("reflection_pad1d_backward", "reflect", 2, find),
		padding("reflection_pad2d_backward", "reflect", 4, find),
		padding("replication_pad1d_backward", "replicate", 2, find),
		padding("replication_pad2d_backward", "replicate", 4, find),
		derived[attentionArgs]{"_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, " +
			"Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? " +
			"attn_mask=None, float? scale=None) -> (Tensor, Tensor, Tensor)", "Gradients of attention",
			(*attentionArgs).origin, func(g opdef.Gen) []*attentionArgs {
				q := func() *tensor.Tensor { return g.Normal(tensor.Float32, 1, 2, 3, 4) }
				return []*attentionArgs{{q(), q(), q(), q(), q(), g.Normal(tensor.Float32, 1, 2, 3), 0, true, nil, nil}}
			}}.entry(find),
	}, slices.Concat(composed, torchvision(find))...)
}

// unary is a call whose first argument, called self, is the one with a gradient.
func unary(name string, up, self *tensor.Tensor, more ...value.Value) origin {
	return origin{name: name, args: append([]value.Value{self}, more...), up: up, of: of("self")}
}

type plainArgs struct{ GradOutput, Self *tensor.Tensor }

func plainOf(name string) func(a *plainArgs) (origin, error) {
	return func(a *plainArgs) (origin, error) { return unary(name, a.GradOutput, a.Self), nil }
}

func plainCases(g opdef.Gen) []*plainArgs {
	var out []*plainArgs
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16} {
		up, x := normal(g, dt, 2, 5)
		out = append(out, &plainArgs{up, x})
	}
	return out
}

type bufferArgs struct{ GradOutput, Self, Buffer *tensor.Tensor }

type geluArgs struct {
	GradOutput, Self *tensor.Tensor
	Approximate      string
}

type thresholdArgs struct {
	GradOutput, Self *tensor.Tensor
	Threshold        opdef.Scalar
}

type slopeArgs struct {
	GradOutput, Self *tensor.Tensor
	NegativeSlope    opdef.Scalar
	SelfIsResult     bool
}

// origin: the result has the sign of self where the slope is positive, as torch wants it in place.
func (a *slopeArgs) origin() (origin, error) {
	if a.SelfIsResult && a.NegativeSlope.Float64() < 0 {
		return origin{}, opdef.Refuse("negative_slope", "want at least 0 of an in-place call, got %s", a.NegativeSlope)
	}
	return unary("torch.nn.functional.leaky_relu", a.GradOutput, a.Self, a.NegativeSlope.Python()), nil
}

type hardtanhArgs struct {
	GradOutput, Self *tensor.Tensor
	MinVal, MaxVal   opdef.Scalar
}

type softplusArgs struct {
	GradOutput, Self *tensor.Tensor
	Beta, Threshold  opdef.Scalar
}

// loss is a loss of self, called input, and a target.
func loss(name string, up, self, target *tensor.Tensor, more ...value.Value) origin {
	return origin{name: name, args: append([]value.Value{self, target}, more...), up: up, of: of("input")}
}

type lossArgs struct {
	GradOutput, Self, Target *tensor.Tensor
	Reduction                int
}

func lossOf(name string) func(a *lossArgs) (origin, error) {
	return func(a *lossArgs) (origin, error) {
		return loss(name, a.GradOutput, a.Self, a.Target, int64(a.Reduction)), nil
	}
}

func lossCases(g opdef.Gen) []*lossArgs {
	up, x := normal(g, tensor.Float32, 2, 5)
	wide, y := normal(g, tensor.Float64, 3)
	one := elements.Detached(g.Normal(tensor.Float64))
	return []*lossArgs{{up, x, up, 0}, {one, wide, y, 1}, {one, wide, y, 2}}
}

type betaArgs struct {
	GradOutput, Self, Target *tensor.Tensor
	Reduction                int
	Beta                     float64
}

func betaOf(name string) func(a *betaArgs) (origin, error) {
	return func(a *betaArgs) (origin, error) {
		return loss(name, a.GradOutput, a.Self, a.Target, int64(a.Reduction), a.Beta), nil
	}
}

func betaCases(g opdef.Gen) []*betaArgs {
	up, x := normal(g, tensor.Float32, 2, 5)
	return []*betaArgs{{up, x, up, 0, 1}}
}

type deltaArgs struct {
	GradOutput, Self, Target *tensor.Tensor
	Reduction                int
	Delta                    float64
}

func nllSchema(name string) string {
	return name + "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, " +
		"Tensor total_weight) -> Tensor"
}

type nllArgs struct {
	GradOutput, Self, Target, Weight *tensor.Tensor
	Reduction, IgnoreIndex           int
	TotalWeight                      *tensor.Tensor
}

func (a *nllArgs) origin() (origin, error) {
	word, err := reduction(a.Reduction)
	return origin{name: "torch.nn.functional.nll_loss", args: []value.Value{a.Self, a.Target, optional(a.Weight), nil,
		int64(a.IgnoreIndex), nil, word}, up: a.GradOutput, of: of("input")}, err
}

// optional is a tensor, or None.
func optional(t *tensor.Tensor) value.Value {
	if t == nil {
		return nil
	}
	return t
}

func nllCases(shape ...int) func(g opdef.Gen) []*nllArgs {
	targets := append([]int{shape[0]}, shape[2:]...)
	return func(g opdef.Gen) []*nllArgs {
		x, target := g.Normal(tensor.Float32, shape...), g.Int(tensor.Int64, 0, 4, targets...)
		return []*nllArgs{
			{g.Normal(tensor.Float32, targets...), x, target, nil, 0, -100, tensor.Scalar(tensor.Float32, 0.0)},
			{g.Normal(tensor.Float32), x, target, nil, 1, -100, tensor.Scalar(tensor.Float32, float64(target.Numel()))},
		}
	}
}

type selectArgs struct {
	GradOutput *tensor.Tensor
	InputSizes []int
	Dim, Index int
}

type sliceArgs struct {
	GradOutput            *tensor.Tensor
	InputSizes            []int
	Dim, Start, End, Step int
}

type diagonalArgs struct {
	GradOutput         *tensor.Tensor
	InputSizes         []int
	Offset, Dim1, Dim2 int
}

type embeddingArgs struct {
	GradOutput, Indices    *tensor.Tensor
	NumWeights, PaddingIdx int
	ScaleGradByFreq        bool
}

func (a *embeddingArgs) origin() (origin, error) {
	up := a.GradOutput
	if up.Dim() == 0 {
		return origin{}, opdef.Refuse("grad_output", "want at least one dimension")
	}
	table, err := zeros(up, []int{a.NumWeights, up.Shape[up.Dim()-1]})
	return origin{name: "torch.embedding", args: []value.Value{table, a.Indices, int64(a.PaddingIdx),
		a.ScaleGradByFreq}, up: up, of: of("weight")}, err
}

type averageArgs struct {
	GradOutput, Self            *tensor.Tensor
	KernelSize, Stride, Padding []int
	CeilMode, CountIncludePad   bool
	DivisorOverride             *int
}

func (a *averageArgs) origin() (origin, error) {
	stride := a.Stride
	if len(stride) == 0 {
		stride = a.KernelSize
	}
	o := unary("torch.nn.functional.avg_pool2d", a.GradOutput, a.Self, ints(a.KernelSize), ints(stride),
		ints(a.Padding), a.CeilMode, a.CountIncludePad)
	if a.DivisorOverride != nil {
		o.args = append(o.args, int64(*a.DivisorOverride))
	}
	o.of = of("input")
	return o, nil
}

type paddingArgs struct {
	GradOutput, Self *tensor.Tensor
	Padding          []int
}

// padding declares the gradient of a padding by n numbers.
func padding(name, mode string, n int, find func() *opdef.Registry) *opdef.Entry {
	return derived[paddingArgs]{name + "(Tensor grad_output, Tensor self, int[] padding) -> Tensor",
		"Gradient of pad in mode " + mode, func(a *paddingArgs) (origin, error) {
			if len(a.Padding) != n {
				return origin{}, opdef.Refuse("padding", "want %d numbers, got %d", n, len(a.Padding))
			}
			o := unary("torch.nn.functional.pad", a.GradOutput, a.Self, ints(a.Padding), mode)
			o.of = of("input")
			return o, nil
		}, func(g opdef.Gen) []*paddingArgs {
			shape, padded, by := []int{1, 2}, []int{1, 2}, []int(nil)
			for range n / 2 {
				shape, padded, by = append(shape, 4), append(padded, 7), append(by, 1, 2)
			}
			return []*paddingArgs{{g.Normal(tensor.Float32, padded...), g.Normal(tensor.Float32, shape...), by}}
		}}.entry(find)
}

type attentionArgs struct {
	GradOut, Query, Key, Value, Out, Logsumexp *tensor.Tensor
	DropoutP                                   float64
	IsCausal                                   bool
	AttnMask                                   *tensor.Tensor
	Scale                                      *float64
}

func (a *attentionArgs) origin() (origin, error) {
	if a.DropoutP != 0 {
		return origin{}, opdef.Unsupported("dropout_p", "the mask of dropout is not known")
	}
	o := origin{name: "torch.nn.functional.scaled_dot_product_attention", args: []value.Value{a.Query, a.Key, a.Value,
		optional(a.AttnMask), 0.0, a.IsCausal}, up: a.GradOut, of: []string{"query", "key", "value"}}
	if a.Scale != nil {
		o.kwargs = &value.Dict{Items: []value.Item{{Key: "scale", Value: *a.Scale}}}
	}
	return o, nil
}
