package normalization

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// bySyncBatchNorm is why the steps of a synchronised batch_norm have no
// gradient.
const bySyncBatchNorm = "torch.nn.SyncBatchNorm calls batch_norm_backward_reduce and batch_norm_backward_elemt"

// syncNormOps are the steps of a batch_norm whose statistics are those of
// several devices. All statistics have one number per channel, the second
// dimension of input.
var syncNormOps = []*opdef.Entry{
	compose.Declare(compose.Op[statsArgs]{
		Schema: "batch_norm_stats(Tensor input, float eps) -> (Tensor, Tensor)", Names: "batch_norm_stats",
		Doc: opdef.Doc{Summary: "Mean and 1/sqrt(var + eps) of each channel",
			Notes:  "var is not corrected. Of 16-bit input both are float32.",
			Source: "ATen/native/cuda/Normalization.cu"},
		Traits: opdef.Traits{NoGrad: bySyncBatchNorm, Trivial: true},
		Exempt: wideStatistics,
		Cases:  opdef.Calls[statsArgs](`f64[4, 3], 1e-05; f32[2, 3, 4], 0.001; bf16[3, 2, 2, 2], 1e-05`),
	}, compose.Fused, func(g *compose.Graph, a *statsArgs) compose.Values {
		mean, vari := channelMoments(g, g.Arg("input", a.Input))
		return compose.Values{mean, g.Rsqrt(g.Shift(vari, a.Eps))}
	}),
	compose.Declare(compose.Op[updateStatsArgs]{
		Schema: "batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) " +
			"-> (Tensor, Tensor)", Names: "batch_norm_update_stats",
		Doc: opdef.Doc{Summary: "Mean and variance of each channel",
			Notes: "The variance is not corrected. The running statistics move towards both by momentum, var corrected.", Source: "ATen/native/Normalization.cpp"},
		Traits: opdef.Traits{NoGrad: bySyncBatchNorm, Trivial: true},

		Cases: opdef.Calls[updateStatsArgs](`
			f64[4, 3], f64[3]{fixed}, f64[3]{0.5..2 fixed}, 0.1; f32[2, 3, 4], None, None, 0.1`),
	}, compose.Fused, func(g *compose.Graph, a *updateStatsArgs) compose.Values {
		x := g.Arg("input", a.Input)
		mean, vari := channelMoments(g, x)
		n := g.Number(float64(x.T.Numel() / x.Shape()[1]))
		moveStatistics(g, a.RunningMean, a.RunningVar, a.Momentum, mean, vari, n)
		return compose.Values{g.To(mean, x.DType()), g.To(vari, x.DType())}
	}),
	compose.Declare(compose.Op[elemtArgs]{
		Schema: "batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float " +
			"eps) -> Tensor", Names: "batch_norm_elemt",
		Doc: opdef.Doc{Summary: "Normalisation of each channel with given statistics",
			Formula: "(input - mean) * invstd * weight + bias", Notes: "eps is part of invstd.",
			Source: "ATen/native/cuda/Normalization.cu"},
		Traits: opdef.Traits{NoGrad: bySyncBatchNorm},
		Exempt: wideStatistics,
		Cases: opdef.Calls[elemtArgs](`
			f64[4, 3], f64[3], f64[3], f64[3], f64[3]{0.5..2}, 1e-05
			f32[2, 3, 4], None, None, f32[3], f32[3]{0.5..2}, 1e-05
			bf16[2, 3, 2, 2], f32[3], None, f32[3], f32[3]{0.5..2}, 1e-05`),
	}, compose.Fused, func(g *compose.Graph, a *elemtArgs) compose.Values {
		x := wideInput(g, g.Arg("input", a.Input))
		of := func(name string, t *tensor.Tensor) *compose.Value { return channelVector(g, x, name, t) }
		y := g.Mul(g.Sub(x, of("mean", a.Mean)), of("invstd", a.Invstd))
		if a.Weight != nil {
			y = g.Mul(y, of("weight", a.Weight))
		}
		if a.Bias != nil {
			y = g.Add(y, of("bias", a.Bias))
		}
		return compose.Values{g.To(y, a.Input.DType)}
	}),
	gatherStats,
	opdef.Overload[gatherStatsArgs, gatherCountArgs]{
		Schema: "batch_norm_gather_stats(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, Tensor? " +
			"running_var, float momentum, float eps, int count) -> (Tensor, Tensor)",
		Names: "batch_norm_gather_stats", Of: gatherStats,
		To: func(b *gatherCountArgs) (*gatherStatsArgs, error) {
			if b.Mean.Dim() == 0 {
				return nil, opdef.Refuse("mean", "want a row per device, got shape []")
			}
			return &gatherStatsArgs{b.Input, b.Mean, b.Invstd, b.RunningMean, b.RunningVar, b.Momentum, b.Eps,
				tensor.Full(tensor.Float64, b.Mean.Shape[:1], float64(b.Count))}, nil
		},
		From: func(a *gatherStatsArgs) *gatherCountArgs {
			return &gatherCountArgs{a.Input, a.Mean, a.Invstd, a.RunningMean, a.RunningVar, a.Momentum, a.Eps, 8}
		},
	}.Entry(),
	compose.Declare(compose.Op[backwardReduceArgs]{
		Schema: "batch_norm_backward_reduce(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? " +
			"weight, bool input_g, bool weight_g, bool bias_g) -> (Tensor, Tensor, Tensor, Tensor)",
		Names: "batch_norm_backward_reduce",
		Doc: opdef.Doc{Summary: "Sums over each channel that the gradients of a batch_norm are made of",
			Formula: "sum(grad_out), sum(grad_out*(input - mean)), the gradients of weight and bias",
			Notes:   "A call without one of the gradients is refused.", Source: "ATen/native/cuda/Normalization.cu"},
		Traits: opdef.Traits{NoGrad: bySyncBatchNorm},
		Exempt: wideStatistics,
		Cases: opdef.Calls[backwardReduceArgs](`
			f64[4, 3], f64[4, 3], f64[3], f64[3]{0.5..2}, f64[3], True, True, True
			f32[2, 3, 4], f32[2, 3, 4], f32[3], f32[3]{0.5..2}, None, True, True, True`),
	}, compose.Fused, func(g *compose.Graph, a *backwardReduceArgs) compose.Values {
		if !a.InputG || !a.WeightG || !a.BiasG {
			g.Refuse("input_g", "want all three gradients")
		}
		x, up := wideInput(g, g.Arg("input", a.Input)), gradOut(g, a.GradOut, a.Input)
		dims := slices.Delete(elements.AllDims(x.Dim()), 1, 2)
		sum := g.Sum(up, false, dims...)
		product := g.Sum(g.Mul(up, g.Sub(x, channelVector(g, x, "mean", a.Mean))), false, dims...)
		invstd, dt := g.Reshape(channelVector(g, x, "invstd", a.Invstd), -1), product.DType()
		if a.Weight != nil {
			dt = channelVector(g, x, "weight", a.Weight).DType()
		}
		return compose.Values{sum, product, g.To(g.Mul(product, invstd), dt), g.To(sum, dt)}
	}),
	compose.Declare(compose.Op[backwardElemtArgs]{
		Schema: "batch_norm_backward_elemt(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? " +
			"weight, Tensor sum_dy, Tensor sum_dy_xmu, Tensor count) -> Tensor", Names: "batch_norm_backward_elemt",
		Doc: opdef.Doc{Summary: "Gradient of the input of a batch_norm from the sums over all devices",
			Formula: "(grad_out - sum_dy/n - (input - mean)*invstd^2*sum_dy_xmu/n) * invstd*weight, n = sum(count)",
			Source:  "ATen/native/cuda/Normalization.cu"},
		Traits: opdef.Traits{NoGrad: bySyncBatchNorm},
		Exempt: wideStatistics,
		Cases: opdef.Calls[backwardElemtArgs](`
			f64[4, 3], f64[4, 3], f64[3], f64[3]{0.5..2}, f64[3], f64[3], f64[3], i32[2]{2..5}
			f32[2, 3, 4], f32[2, 3, 4], f32[3], f32[3]{0.5..2}, None, f32[3], f32[3], i32[1]{8..8}`),
	}, compose.Fused, func(g *compose.Graph, a *backwardElemtArgs) compose.Values {
		x, up := wideInput(g, g.Arg("input", a.Input)), gradOut(g, a.GradOut, a.Input)
		of := func(name string, t *tensor.Tensor) *compose.Value { return channelVector(g, x, name, t) }
		n := g.Sum(g.To(g.Arg("count", a.Count), x.DType()), false)
		invstd := of("invstd", a.Invstd)
		slope := g.Mul(g.Square(invstd), g.Div(of("sum_dy_xmu", a.SumDyXmu), n))
		y := g.Sub(g.Sub(up, g.Div(of("sum_dy", a.SumDy), n)), g.Mul(g.Sub(x, of("mean", a.Mean)), slope))
		if y = g.Mul(y, invstd); a.Weight != nil {
			y = g.Mul(y, of("weight", a.Weight))
		}
		return compose.Values{g.To(y, a.Input.DType)}
	}),
}

var wideStatistics = map[string]string{"dtypes": "statistics of 16-bit tensors are float32"}

type statsArgs struct {
	Input *tensor.Tensor
	Eps   float64
}

type updateStatsArgs struct {
	Input, RunningMean, RunningVar *tensor.Tensor
	Momentum                       float64
}

type elemtArgs struct {
	Input, Weight, Bias, Mean, Invstd *tensor.Tensor
	Eps                               float64
}

type backwardReduceArgs struct {
	GradOut, Input, Mean, Invstd, Weight *tensor.Tensor
	InputG, WeightG, BiasG               bool
}

type backwardElemtArgs struct {
	GradOut, Input, Mean, Invstd, Weight, SumDy, SumDyXmu, Count *tensor.Tensor
}

type gatherCountArgs struct {
	Input, Mean, Invstd, RunningMean, RunningVar *tensor.Tensor
	Momentum, Eps                                float64
	Count                                        int
}

type gatherStatsArgs struct {
	Input, Mean, Invstd, RunningMean, RunningVar *tensor.Tensor
	Momentum, Eps                                float64
	Counts                                       *tensor.Tensor
}

var gatherStats = compose.Declare(compose.Op[gatherStatsArgs]{
	Schema: "batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, " +
		"Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
	Names: "batch_norm_gather_stats_with_counts",
	Doc: opdef.Doc{Summary: "Mean and 1/sqrt(var + eps) of each channel over all devices",
		Formula: "of the union of sets of counts[d] elements with mean[d] and invstd[d]",
		Notes:   "The running statistics move towards both by momentum, var corrected.",
		Source:  "ATen/native/cuda/Normalization.cu"},
	Traits: opdef.Traits{NoGrad: bySyncBatchNorm},
	Cases: opdef.Calls[gatherStatsArgs](`
		f64[4, 3], f64[2, 3], f64[2, 3]{0.5..2}, f64[3]{fixed}, f64[3]{0.5..2 fixed}, 0.1, 1e-05, f64[2]{= 4 6}
		f32[2, 3, 4], f32[1, 3], f32[1, 3]{0.5..2}, None, None, 0.1, 1e-05, f32[1]{= 8}`),
}, compose.Fused, gatherStatistics)

// gatherStatistics joins the moments of devices, each of counts elements a
// channel.
func gatherStatistics(g *compose.Graph, a *gatherStatsArgs) compose.Values {
	mean, invstd := g.Arg("mean", a.Mean), g.Arg("invstd", a.Invstd)
	if mean.Dim() != 2 || !slices.Equal(mean.Shape(), invstd.Shape()) || a.Counts.Numel() != mean.Shape()[0] {
		g.Refuse("mean", "want a row per device, as of invstd and counts, got shapes %s, %s and %s",
			tensor.ShapeString(a.Mean.Shape), tensor.ShapeString(a.Invstd.Shape), tensor.ShapeString(a.Counts.Shape))
	}
	if !mean.DType().IsFloat() || !invstd.DType().IsFloat() {
		g.Refuse("mean", "want floating statistics, got %s and %s", mean.DType(), invstd.DType())
	}
	counts := g.Reshape(g.To(g.Arg("counts", a.Counts), mean.DType()), -1, 1)
	n := g.Sum(counts, false)
	joint := g.Div(g.Sum(g.Mul(mean, counts), false, 0), n)
	own := g.Shift(g.Reciprocal(g.Square(invstd)), -a.Eps)
	vari := g.Div(g.Sum(g.Mul(g.Add(own, g.Square(g.Sub(mean, joint))), counts), false, 0), n)
	moveStatistics(g, a.RunningMean, a.RunningVar, a.Momentum, joint, vari, n)
	return compose.Values{joint, g.To(g.Rsqrt(g.Shift(vari, a.Eps)), mean.DType())}
}

// wideInput is an input with channels and elements, of 16 bits as float32.
func wideInput(g *compose.Graph, x *compose.Value) *compose.Value {
	g.Check(channels(x.T, nil))
	if x.T.Numel() == 0 {
		g.Refuse("input", "shape %s has no elements", tensor.ShapeString(x.Shape()))
	}
	return g.AtLeast(x, tensor.Float32)
}

// gradOut is the gradient of a result that is like input.
func gradOut(g *compose.Graph, up, input *tensor.Tensor) *compose.Value {
	if !slices.Equal(up.Shape, input.Shape) {
		g.Refuse("grad_out", "want the shape of input %s, got %s", tensor.ShapeString(input.Shape),
			tensor.ShapeString(up.Shape))
	}
	return g.AtLeast(g.Arg("grad_out", up), tensor.Float32)
}

// channelVector is the argument name, one number for each channel of x, broadcast as
// x is.
func channelVector(g *compose.Graph, x *compose.Value, name string, t *tensor.Tensor) *compose.Value {
	checkVector(g, name, t, x.Shape()[1])
	shape := slices.Repeat([]int{1}, x.Dim())
	shape[1] = t.Numel()
	return g.Reshape(g.Arg(name, t), shape...)
}

func checkVector(g *compose.Graph, name string, t *tensor.Tensor, n int) {
	if !slices.Equal(t.Shape, []int{n}) {
		g.Refuse(name, "want %d elements, one per channel, got shape %s", n, tensor.ShapeString(t.Shape))
	}
}

// channelMoments are mean and variance of each channel, in at least float32.
func channelMoments(g *compose.Graph, x *compose.Value) (mean, vari *compose.Value) {
	x = wideInput(g, x)
	dims := slices.Delete(elements.AllDims(x.Dim()), 1, 2)
	mean = g.Mean(x, true, dims...)
	return g.Reshape(mean, -1), g.Mean(g.Square(g.Sub(x, mean)), false, dims...)
}

// moveStatistics moves the running statistics that there are towards those of n
// elements, whose variance is not corrected.
func moveStatistics(g *compose.Graph, mean, vari *tensor.Tensor, momentum float64, newMean, newVar, n *compose.Value) {
	corrected := g.Mul(newVar, g.Div(n, g.Shift(n, -1)))
	for _, s := range []struct {
		name string
		old  *tensor.Tensor
		now  *compose.Value
	}{{"running_mean", mean, newMean}, {"running_var", vari, corrected}} {
		if s.old != nil {
			checkVector(g, s.name, s.old, newMean.Shape()[0])
			old := g.Arg(s.name, s.old)
			kept := g.Sub(old, g.Scale(old, momentum))
			g.Update(s.name, g.To(g.Add(kept, g.Scale(s.now, momentum)), old.DType()))
		}
	}
}
