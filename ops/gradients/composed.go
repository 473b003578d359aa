package gradients

import (
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// composed are the operators that are given what the forward call computed: a result, statistics, a mask, indices.
var composed = []*opdef.Entry{
	fromResult("tanh_backward", "Gradient of tanh by its result", "grad_output * (1 - output^2)",
		func(g *compose.Graph, up, y *compose.Value) *compose.Value {
			return g.Mul(up, g.Shift(g.Neg(g.Square(y)), 1))
		}),
	fromResult("sigmoid_backward", "Gradient of sigmoid by its result", "grad_output * (1 - output) * output",
		func(g *compose.Graph, up, y *compose.Value) *compose.Value {
			return g.Mul(up, g.Mul(y, g.Shift(g.Neg(y), 1)))
		}),
	softmaxData("_softmax_backward_data", "Gradient of softmax by its result",
		"output * (grad_output - sum(grad_output * output))",
		func(g *compose.Graph, up, y *compose.Value, dim int) *compose.Value {
			return g.Mul(y, g.Sub(up, g.Sum(g.Mul(up, y), true, dim)))
		}),
	softmaxData("_log_softmax_backward_data", "Gradient of log_softmax by its result",
		"grad_output - exp(output) * sum(grad_output)",
		func(g *compose.Graph, up, y *compose.Value, dim int) *compose.Value {
			return g.Sub(up, g.Mul(g.Exp(y), g.Sum(up, true, dim)))
		}),
	declare(compose.Op[dropoutArgs]{
		Schema: "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
		Doc:    opdef.Doc{Summary: "Gradient of native_dropout by its mask", Formula: "grad_output * mask * scale"},
		Cases:  opdef.Calls[dropoutArgs](`f32[2, 5]{fixed}, bool[2, 5]{0..1}, 2.0`),
	}, func(g *compose.Graph, a *dropoutArgs) compose.Values {
		if a.Mask.DType != tensor.Bool {
			g.Refuse("mask", "want bool, got %s", a.Mask.DType)
		}
		up := wide(g, "grad_output", a.GradOutput, a.Mask.Shape)
		zero := g.Full(up.DType(), nil, 0)
		return compose.Values{g.To(g.Scale(g.Where(a.Mask, up, zero), a.Scale), a.GradOutput.DType)}
	}),
	declare(compose.Op[preluArgs]{
		Schema: "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of prelu, the weight's for each element",
			Formula: "grad_output and 0 where self > 0, grad_output * weight and grad_output * self elsewhere"},
		Cases: opdef.Calls[preluArgs](`f32[2, 5]{fixed}, f32[2, 5]{fixed}, f32[1, 5]{fixed}`),
	}, func(g *compose.Graph, a *preluArgs) compose.Values {
		up, dt := wide(g, "grad_output", a.GradOutput, a.Self.Shape), a.Self.DType
		x, w := g.AtLeast(g.Arg("self", a.Self), tensor.Float32), g.AtLeast(g.Arg("weight", a.Weight), tensor.Float32)
		above := positive(a.Self)
		zero := g.Full(up.DType(), nil, 0)
		return compose.Values{g.To(g.Where(above, up, g.Mul(up, w)), dt), g.To(g.Where(above, zero, g.Mul(up, x)), dt)}
	}),
	declare(compose.Op[layerNormArgs]{
		Schema: "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor " +
			"mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of layer_norm by its statistics", Formula: ofNorm, Notes: maskNote},
		Cases: opdef.Calls[layerNormArgs](`
			f32[3, 4]{fixed}, f32[3, 4]{fixed}, [4], f32[3, 1]{fixed}, f32[3, 1]{0.5..2 fixed}, f32[4]{fixed},
			f32[4]{fixed}, [True, True, True]
			f32[3, 4]{fixed}, f32[3, 4]{fixed}, [4], f32[3, 1]{fixed}, f32[3, 1]{0.5..2 fixed}, None, None, [True,
			False, False]`),
	}, func(g *compose.Graph, a *layerNormArgs) compose.Values { return overLast(g, *a).gradients() }),
	declare(compose.Op[rmsNormArgs]{
		Schema: "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, " +
			"Tensor? weight, bool[] output_mask) -> (Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of rms_norm by its statistics", Formula: ofNorm, Notes: maskNote},
		Cases: opdef.Calls[rmsNormArgs](`
			f32[3, 4]{fixed}, f32[3, 4]{fixed}, [4], f32[3, 1]{0.5..2 fixed}, f32[4]{fixed}, [True, True]
			f32[3, 4]{fixed}, f32[3, 4]{fixed}, [4], f32[3, 1]{0.5..2 fixed}, None, [True, False]`),
	}, func(g *compose.Graph, a *rmsNormArgs) compose.Values {
		if len(a.OutputMask) != 2 {
			g.Refuse("output_mask", "want 2 values, got %d", len(a.OutputMask))
		}
		return overLast(g, layerNormArgs{GradOut: a.GradOut, Input: a.Input, NormalizedShape: a.NormalizedShape,
			Rstd: a.Rstd, Weight: a.Weight, OutputMask: append(slices.Clone(a.OutputMask), false)}).gradients()[:2]
	}),
	declare(compose.Op[groupNormArgs]{
		Schema: "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? " +
			"weight, int N, int C, int HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of group_norm by its statistics", Formula: ofNorm, Notes: maskNote},
		Cases: opdef.Calls[groupNormArgs](`
			f32[2, 4, 3]{fixed}, f32[2, 4, 3]{fixed}, f32[2, 2]{fixed}, f32[2, 2]{0.5..2 fixed}, f32[4]{fixed}, 2,
			4, 3, 2, [True, True, True]`),
	}, func(g *compose.Graph, a *groupNormArgs) compose.Values {
		if a.Group <= 0 || a.C%a.Group != 0 || a.Input.Numel() != a.N*a.C*a.HxW {
			g.Refuse("input", "shape %s is not of %d samples, %d channels in %d groups and %d positions",
				tensor.ShapeString(a.Input.Shape), a.N, a.C, a.Group, a.HxW)
		}
		each := a.C / a.Group
		return norm{g: g, input: a.Input, up: a.GradOut, weight: a.Weight, bias: a.Weight, mean: a.Mean, rstd: a.Rstd,
			shape: []int{a.N, a.Group, each, a.HxW}, per: []int{a.N, a.Group, 1, 1}, dims: []int{2, 3},
			affine: []int{1, a.Group, each, 1}, others: []int{0, 3}, mask: a.OutputMask, moves: true,
			adds: a.Input.DType}.gradients() // before torch 2
	}),
	declare(compose.Op[batchNormArgs]{
		Schema: "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, " +
			"Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[] output_mask) " +
			"-> (Tensor, Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of batch_norm by its statistics", Formula: ofNorm, Notes: maskNote},
		Cases: func(g opdef.Gen) []*batchNormArgs {
			up, x := pair(g, tensor.Float32, 3, 4, 2)
			mean, vari := elements.Detached(g.Normal(tensor.Float32, 4)),
				elements.Detached(g.Uniform(tensor.Float32, 0.5, 2, 4))
			return []*batchNormArgs{{up, x, vari, nil, nil, mean, vari, true, 1e-5, []bool{true, true, true}},
				{up, x, vari, mean, vari, nil, nil, false, 1e-5, []bool{true, true, true}}}
		},
	}, batchNormBackward),
	declare(compose.Op[batchNormUpdateArgs]{
		Schema: "batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? " +
			"running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[] output_mask, Tensor " +
			"reserve) -> (Tensor, Tensor, Tensor)",
		Doc: opdef.Doc{Summary: "Gradients of batch_norm by its statistics", Formula: ofNorm, Notes: maskNote +
			" save_var is 1/sqrt(variance + eps)."},
		Cases: func(g opdef.Gen) []*batchNormUpdateArgs {
			up, x := pair(g, tensor.Float32, 3, 4, 2)
			mean, vari := elements.Detached(g.Normal(tensor.Float32, 4)),
				elements.Detached(g.Uniform(tensor.Float32, 0.5, 2, 4))
			return []*batchNormUpdateArgs{{up, x, vari, nil, nil, mean, vari, true, 1e-5, []bool{true, true, true},
				tensor.New(tensor.Uint8, []int{0}, []int64{})}}
		},
	}, func(g *compose.Graph, a *batchNormUpdateArgs) compose.Values {
		return batchNormBackward(g, &batchNormArgs{a.GradOut, a.Input, a.Weight, a.RunningMean, a.RunningVar,
			a.SaveMean,
			a.SaveVar, a.Update, a.Eps, a.OutputMask})
	}),
	maxPool(2), maxPool(3), adaptivePool(2), adaptivePool(3), fractionalPool(2), fractionalPool(3), eluBackward,
	rreluBackward, preluKernel, trilinear,
}

const (
	ofNorm = "rstd * (h - mean(h) - x * mean(h * x)), h = grad_out * weight, x = (input - mean) * rstd; " +
		"sum(grad_out * x); sum(grad_out)"
	maskNote = "A gradient that output_mask leaves out is empty, or None."
)

// declare completes a declaration of a gradient.
func declare[A any](op compose.Op[A], f func(g *compose.Graph, a *A) compose.Values) *opdef.Entry {
	name, _, _ := strings.Cut(op.Schema, "(")
	if op.Names == "" {
		op.Names = "torch.ops.aten." + name
	}
	op.NoGrad, op.Trivial = "a gradient itself", true
	op.Doc.Source = "aten/src/ATen/native/native_functions.yaml"
	return compose.Declare(op, compose.Fused, f)
}

// wide is the gradient of a result of this shape, in at least float32.
func wide(g *compose.Graph, name string, up *tensor.Tensor, shape []int) *compose.Value {
	if !slices.Equal(up.Shape, shape) {
		g.Refuse(name, "want shape %s, got %s", tensor.ShapeString(shape), tensor.ShapeString(up.Shape))
	}
	if !up.DType.IsFloat() {
		g.Refuse(name, "want a floating dtype, got %s", up.DType)
	}
	return g.AtLeast(g.Arg(name, up), tensor.Float32)
}

type resultArgs struct{ GradOutput, Output *tensor.Tensor }

// fromResult declares the gradient of a function of one argument by its result.
func fromResult(name, summary, formula string,
	f func(g *compose.Graph, up, y *compose.Value) *compose.Value) *opdef.Entry {
	return declare(compose.Op[resultArgs]{
		Schema: name + "(Tensor grad_output, Tensor output) -> Tensor",
		Doc:    opdef.Doc{Summary: summary, Formula: formula},
		Cases:  opdef.Calls[resultArgs](`for T in f64 f32 bf16: T[2, 5]{fixed}, T[2, 5]{fixed}`),
	}, func(g *compose.Graph, a *resultArgs) compose.Values {
		up := wide(g, "grad_output", a.GradOutput, a.Output.Shape)
		y := f(g, up, g.AtLeast(g.Arg("output", a.Output), tensor.Float32))
		return compose.Values{g.To(y, a.GradOutput.DType)}
	})
}

type softmaxArgs struct {
	GradOutput, Output *tensor.Tensor
	Dim                int
	InputDtype         tensor.DType
}

// softmaxData declares the gradient of a softmax by its result.
func softmaxData(name, summary, formula string,
	f func(g *compose.Graph, up, y *compose.Value, dim int) *compose.Value) *opdef.Entry {
	return declare(compose.Op[softmaxArgs]{
		Schema: name + "(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
		Names:  name + " torch.ops.aten." + name,
		Doc:    opdef.Doc{Summary: summary, Formula: formula},
		Exempt: map[string]string{"dtypes": "the dtype of the result is given"},
		Cases:  opdef.Calls[softmaxArgs](`f32[2, 5]{fixed}, f32[2, 5]{fixed}, -1, f32`),
	}, func(g *compose.Graph, a *softmaxArgs) compose.Values {
		up := wide(g, "grad_output", a.GradOutput, a.Output.Shape)
		y := g.AtLeast(g.Arg("output", a.Output), tensor.Float32)
		return compose.Values{g.To(f(g, up, y, g.Axis("dim", a.Dim, y)), a.InputDtype)}
	})
}

type dropoutArgs struct {
	GradOutput, Mask *tensor.Tensor
	Scale            float64
}

type preluArgs struct{ GradOutput, Self, Weight *tensor.Tensor }

type layerNormArgs struct {
	GradOut, Input           *tensor.Tensor
	NormalizedShape          []int
	Mean, Rstd, Weight, Bias *tensor.Tensor
	OutputMask               []bool
}

type rmsNormArgs struct {
	GradOut, Input  *tensor.Tensor
	NormalizedShape []int
	Rstd, Weight    *tensor.Tensor
	OutputMask      []bool
}

type groupNormArgs struct {
	GradOut, Input, Mean, Rstd, Weight *tensor.Tensor
	N, C, HxW, Group                   int
	OutputMask                         []bool
}

type batchNormUpdateArgs struct {
	GradOut, Input, Weight, RunningMean, RunningVar, SaveMean, SaveVar *tensor.Tensor
	Update                                                             bool
	Eps                                                                float64
	OutputMask                                                         []bool
	Reserve                                                            *tensor.Tensor
}

type batchNormArgs struct {
	GradOut, Input, Weight, RunningMean, RunningVar, SaveMean, SaveInvstd *tensor.Tensor
	Train                                                                 bool
	Eps                                                                   float64
	OutputMask                                                            []bool
}

func batchNormBackward(g *compose.Graph, a *batchNormArgs) compose.Values {
	if a.Input.Dim() < 2 {
		g.Refuse("input", "want at least 2 dimensions, got shape %s", tensor.ShapeString(a.Input.Shape))
	}
	mean, rstd := a.SaveMean, a.SaveInvstd
	if !a.Train {
		if mean = a.RunningMean; mean == nil || a.RunningVar == nil {
			g.Refuse("running_mean", "running statistics are needed outside training")
		}
		rstd = nil
	} else if mean == nil || rstd == nil {
		g.Refuse("save_mean", "the statistics are needed in training")
	}
	per := slices.Repeat([]int{1}, a.Input.Dim())
	per[1] = a.Input.Shape[1]
	others := slices.Delete(elements.AllDims(a.Input.Dim()), 1, 2)
	return norm{g: g, input: a.Input, up: a.GradOut, weight: a.Weight, bias: a.Weight, mean: mean, rstd: rstd,
		vari: a.RunningVar, eps: a.Eps, shape: a.Input.Shape, per: per, dims: others, affine: per, others: others,
		mask: a.OutputMask, moves: a.Train}.gradients()
}

// norm is a normalisation with its statistics.
type norm struct {
	g                                         *compose.Graph
	input, up, weight, bias, mean, rstd, vari *tensor.Tensor // vari instead of rstd; mean nil: 0
	eps                                       float64
	shape, per                                []int // of the input and of the statistics, for broadcasting
	dims                                      []int // that the statistics are of
	affine                                    []int // shape of weight and bias, for broadcasting
	others                                    []int // dimensions over which weight and bias are repeated
	mask                                      []bool
	moves                                     bool // gradients flow through the statistics
	// adds is the dtype in which torch's CPU kernel adds row after row; Invalid: in float32.
	adds tensor.DType
}

// overLast is a normalisation over the last dimensions, around 0 if there is no mean.
func overLast(g *compose.Graph, a layerNormArgs) norm {
	lead := a.Input.Dim() - len(a.NormalizedShape)
	if lead < 0 || !slices.Equal(a.Input.Shape[lead:], a.NormalizedShape) {
		g.Refuse("normalized_shape", "input has shape %s", tensor.ShapeString(a.Input.Shape))
	}
	all := elements.AllDims(a.Input.Dim())
	per := slices.Clone(a.Input.Shape)
	for d := lead; d < len(per); d++ {
		per[d] = 1
	}
	return norm{g: g, input: a.Input, up: a.GradOut, weight: a.Weight, bias: a.Bias, mean: a.Mean, rstd: a.Rstd,
		shape: a.Input.Shape, per: per, dims: all[lead:], affine: a.Input.Shape[lead:], others: all[:lead],
		mask: a.OutputMask, moves: true, adds: a.Input.DType}
}

// gradients are those of input, weight and bias.
func (n norm) gradients() compose.Values {
	g := n.g
	if len(n.mask) != 3 {
		g.Refuse("output_mask", "want 3 values, got %d", len(n.mask))
	}
	of := func(name string, t *tensor.Tensor, shape []int) *compose.Value {
		if t.Numel() != tensor.Numel(shape) {
			g.Refuse(name, "want %d elements, got shape %s", tensor.Numel(shape), tensor.ShapeString(t.Shape))
		}
		return g.AtLeast(g.Reshape(g.Arg(name, t), shape...), tensor.Float32)
	}
	up := g.Reshape(wide(g, "grad_out", n.up, n.input.Shape), n.shape...)
	x := of("input", n.input, n.shape)
	var rstd *compose.Value
	if n.rstd != nil {
		rstd = of("rstd", n.rstd, n.per)
	} else {
		rstd = g.Rsqrt(g.Shift(of("running_var", n.vari, n.per), n.eps))
	}
	if n.mean != nil {
		x = g.Sub(x, of("mean", n.mean, n.per))
	}
	xhat := g.Mul(x, rstd)
	h, dt := up, n.input.DType
	if n.weight != nil {
		h, dt = g.Mul(up, of("weight", n.weight, n.affine)), n.weight.DType
	}
	empty := g.Full(n.input.DType, []int{0}, 0)
	out := compose.Values{empty, empty, empty}
	if n.mask[0] {
		d := h
		if n.moves {
			d = g.Sub(h, g.Mul(xhat, g.Mean(g.Mul(h, xhat), true, n.dims...)))
			if n.mean != nil {
				d = g.Sub(d, g.Mean(h, true, n.dims...))
			}
		}
		out[0] = g.To(g.Reshape(g.Mul(d, rstd), n.input.Shape...), n.input.DType)
	}
	sum := func(v *compose.Value, like *tensor.Tensor) *compose.Value {
		shape := []int{-1}
		if like != nil {
			shape = like.Shape
		}
		if n.adds.IsHalf() {
			return g.Rows(v, n.adds, dt, shape, n.others...)
		}
		if dt.IsHalf() {
			v = g.To(v, dt)
		}
		return g.To(g.Reshape(g.Sum(v, true, n.others...), shape...), dt)
	}
	if n.mask[1] {
		out[1] = sum(g.Mul(up, xhat), n.weight)
	}
	if n.mask[2] {
		out[2] = sum(up, n.bias)
	}
	return out
}

type maxPoolArgs struct {
	GradOutput, Self                      *tensor.Tensor
	KernelSize, Stride, Padding, Dilation []int
	CeilMode                              bool
	Indices                               *tensor.Tensor
}

type adaptivePoolArgs struct{ GradOutput, Self, Indices *tensor.Tensor }

type fractionalPoolArgs struct {
	GradOutput, Self       *tensor.Tensor
	KernelSize, OutputSize []int
	Indices                *tensor.Tensor
}

// maxPool declares the gradient of max_poolNd by its indices.
func maxPool(dims int) *opdef.Entry {
	params := strings.ReplaceAll("int[N] kernel_size, int[N] stride, int[N] padding, int[N] dilation, bool "+
		"ceil_mode, ", "N",
		strconv.Itoa(dims))
	return pooled("max_pool", "_with_indices", params, dims, func(a *maxPoolArgs) (up, x, at *tensor.Tensor) {
		return a.GradOutput, a.Self, a.Indices
	}, func(up, x, at *tensor.Tensor) *maxPoolArgs {
		return &maxPoolArgs{up, x, filled(dims, 2), filled(dims, 2), filled(dims, 0), filled(dims, 1), false, at}
	})
}

// adaptivePool declares the gradient of adaptive_max_poolNd.
func adaptivePool(dims int) *opdef.Entry {
	return pooled("adaptive_max_pool", "", "", dims, func(a *adaptivePoolArgs) (up, x, at *tensor.Tensor) {
		return a.GradOutput, a.Self, a.Indices
	}, func(up, x, at *tensor.Tensor) *adaptivePoolArgs { return &adaptivePoolArgs{up, x, at} })
}

// fractionalPool declares the gradient of fractional_max_poolNd.
func fractionalPool(dims int) *opdef.Entry {
	params := strings.ReplaceAll("int[N] kernel_size, int[N] output_size, ", "N", strconv.Itoa(dims))
	return pooled("fractional_max_pool", "", params, dims, func(a *fractionalPoolArgs) (up, x, at *tensor.Tensor) {
		return a.GradOutput, a.Self, a.Indices
	}, func(up, x, at *tensor.Tensor) *fractionalPoolArgs {
		return &fractionalPoolArgs{up, x, filled(dims, 2), filled(dims, 2), at}
	})
}

// pooled declares the gradient of a pooling that selects elements, by their indices in the last dims dimensions.
func pooled[A any](pool, suffix, params string, dims int, tensors func(a *A) (up, x, at *tensor.Tensor),
	arguments func(up, x, at *tensor.Tensor) *A) *opdef.Entry {
	forward := pool + strconv.Itoa(dims) + "d"
	name := forward + suffix + "_backward"
	terms := func(a *A) int { // no element is selected more often than there are results
		up, x, _ := tensors(a)
		return max(1, up.Numel()/max(1, tensor.Numel(x.Shape[:max(0, x.Dim()-dims)])))
	}
	return opdef.Op[A]{
		Schema: name + "(Tensor grad_output, Tensor self, " + params + "Tensor indices) -> Tensor",
		Names:  "torch.ops.aten." + name,
		Doc: opdef.Doc{Summary: "Gradient of " + forward + " by its indices",
			Formula: "the sum of grad_output where indices says so",
			Source:  "aten/src/ATen/native/native_functions.yaml"},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Traits: opdef.Traits{NoGrad: "a gradient itself", Trivial: true},

		Bounds: opdef.Bounds[*A]{Terms: terms},
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			up, x, at := tensors(a)
			if x.Dim() < dims || up.Dim() != x.Dim() || !slices.Equal(up.Shape, at.Shape) ||
				!slices.Equal(up.Shape[:x.Dim()-dims], x.Shape[:x.Dim()-dims]) || up.DType != x.DType ||
				!x.DType.IsFloat() ||
				at.DType != tensor.Int64 {
				return nil, opdef.Refuse("grad_output", "shape %s does not go with those of self, %s, and indices, %s",
					tensor.ShapeString(up.Shape), tensor.ShapeString(x.Shape), tensor.ShapeString(at.Shape))
			}
			plane, each := tensor.Numel(x.Shape[x.Dim()-dims:]), tensor.Numel(up.Shape[up.Dim()-dims:])
			v, places := tensor.Data[float64](up), tensor.Data[int64](at)
			sums := tensor.Make[float64](x.Numel())
			for i, place := range places {
				if place < 0 || int(place) >= plane {
					return nil, opdef.Refuse("indices", "%d is not in a plane of %d elements", place, plane)
				}
				sums[i/each*plane+int(place)] += v[i]
			}
			return elements.Single(tensor.New(x.DType, x.Shape, sums)), nil
		},
		Cases: func(g opdef.Gen) []*A {
			shape := func(n int) []int { return append([]int{1, 2}, filled(dims, n)...) }
			x, _ := pair(g, tensor.Float32, shape(4)...)
			up, _ := pair(g, tensor.Float32, shape(2)...)
			return []*A{arguments(up, x, g.Int(tensor.Int64, 0, 15, shape(2)...))}
		},
	}.Entry()
}

type eluArgs struct {
	GradOutput               *tensor.Tensor
	Alpha, Scale, InputScale opdef.Scalar
	IsResult                 bool
	SelfOrResult             *tensor.Tensor
}

var eluBackward = declare(compose.Op[eluArgs]{
	Schema: "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor " +
		"self_or_result) -> Tensor",
	Doc: opdef.Doc{Summary: "Gradient of elu, celu and selu", Formula: "grad_output * scale above 0, grad_output * " +
		"input_scale * scale * alpha * exp(input_scale * self) elsewhere"},
	Cases: opdef.Calls[eluArgs](`
		f32[2, 5]{fixed}, 1.0, 1.5, 0.5, False, f32[2, 5]{fixed}
		f32[2, 5]{fixed}, 1.0, 1.0, 1.0, True, f32[2, 5]{fixed}`),
}, func(g *compose.Graph, a *eluArgs) compose.Values {
	up := wide(g, "grad_output", a.GradOutput, a.SelfOrResult.Shape)
	x := g.AtLeast(g.Arg("self_or_result", a.SelfOrResult), tensor.Float32)
	alpha, scale, in := a.Alpha.Float64(), a.Scale.Float64(), a.InputScale.Float64()
	slope := g.Scale(g.Exp(g.Scale(x, in)), in*scale*alpha)
	if a.IsResult {
		slope = g.Scale(g.Shift(x, alpha*scale), in)
	}
	return compose.Values{g.To(g.Where(positive(a.SelfOrResult), g.Scale(up, scale), g.Mul(up, slope)),
		a.SelfOrResult.DType)}
})

// positive says which elements are above 0.
func positive(x *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(tensor.Bool, x, func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	})
}

type rreluArgs struct {
	GradOutput, Self, Noise *tensor.Tensor
	Lower, Upper            opdef.Scalar
	Training, SelfIsResult  bool
}

var rreluBackward = declare(compose.Op[rreluArgs]{
	Schema: "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, " +
		"bool " +
		"training, bool self_is_result) -> Tensor",
	Doc: opdef.Doc{Summary: "Gradient of rrelu by what was drawn", Formula: "grad_output * noise in training; " +
		"otherwise " +
		"grad_output above 0, grad_output * (lower + upper) / 2 elsewhere"},
	Cases: opdef.Calls[rreluArgs](`
		for B in True False: f32[2, 5]{fixed}, f32[2, 5]{fixed}, f32[2, 5]{0.125..0.3 fixed}, 0.125, 0.25, B, False`),
}, func(g *compose.Graph, a *rreluArgs) compose.Values {
	up := wide(g, "grad_output", a.GradOutput, a.Self.Shape)
	lower, upper := a.Lower.Float64(), a.Upper.Float64()
	if a.Training && upper-lower > 1e-6 {
		return compose.Values{g.To(g.Mul(up, g.AtLeast(g.Arg("noise", a.Noise), tensor.Float32)), a.GradOutput.DType)}
	}
	return compose.Values{g.To(g.Where(positive(a.Self), up, g.Scale(up, (lower+upper)/2)), a.GradOutput.DType)}
})

type preluKernelArgs struct{ Self, Weight *tensor.Tensor }

var preluKernel = compose.Declare(compose.Op[preluKernelArgs]{
	Schema: "_prelu_kernel(Tensor self, Tensor weight) -> Tensor", Names: "torch.ops.aten._prelu_kernel",
	Doc: opdef.Doc{Summary: "prelu with a weight for each element", Formula: "self above 0, weight * self elsewhere",
		Source: "aten/src/ATen/native/native_functions.yaml"},
	Cases: opdef.Calls[preluKernelArgs](`f64[2, 5]{apart 0}, f64[1, 5]; f32[4]{apart 0}, f32[4]`),
}, compose.Fused, func(g *compose.Graph, a *preluKernelArgs) compose.Values {
	x := g.Arg("self", a.Self)
	scaled := g.Mul(x, g.Arg("weight", a.Weight))
	if !slices.Equal(scaled.Shape(), a.Self.Shape) {
		g.Refuse("weight", "shape %s is not of self, %s", tensor.ShapeString(a.Weight.Shape),
			tensor.ShapeString(a.Self.Shape))
	}
	return compose.Values{g.Where(positive(a.Self), x, scaled)}
})

type trilinearArgs struct {
	I1, I2, I3                        *tensor.Tensor
	Expand1, Expand2, Expand3, Sumdim []int
	UnrollDim                         int
}

var trilinear = compose.Declare(compose.Op[trilinearArgs]{
	Schema: "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] " +
		"sumdim, int " +
		"unroll_dim=1) -> Tensor", Names: "_trilinear",
	Doc: opdef.Doc{Summary: "Sum of products of three tensors, as bilinear and its gradients use it",
		Formula: "sum(i1 * i2 * i3, sumdim), after each got the dimensions of its expand",
		Source:  "aten/src/ATen/native/Linear.cpp"},
	Cases: opdef.Calls[trilinearArgs](`f64[2, 3], f64[4, 3, 5], f64[2, 5], [1, 3], [0], [1, 2], [2, 3]`),
}, compose.Fused, func(g *compose.Graph, a *trilinearArgs) compose.Values {
	expand := func(name string, t *tensor.Tensor, dims []int) *compose.Value {
		v := g.Arg(name, t)
		dims = slices.Clone(dims)
		slices.Sort(dims)
		for _, d := range dims {
			if d < 0 || d > v.Dim() {
				g.Refuse(name, "cannot get dimension %d of shape %s", d, tensor.ShapeString(v.Shape()))
			}
			v = g.Unsqueeze(v, d)
		}
		return v
	}
	p := g.Mul(g.Mul(expand("i1", a.I1, a.Expand1), expand("i3", a.I3, a.Expand3)), expand("i2", a.I2, a.Expand2))
	for _, d := range a.Sumdim {
		if d < 0 || d >= p.Dim() {
			g.Refuse("sumdim", "no dimension %d", d)
		}
	}
	return compose.Values{g.Sum(p, false, a.Sumdim...)}
})

// pair are two random tensors of one shape that no gradient is asked for.
func pair(g opdef.Gen, dt tensor.DType, shape ...int) (x, y *tensor.Tensor) {
	return elements.Detached(g.Normal(dt, shape...)), elements.Detached(g.Normal(dt, shape...))
}
