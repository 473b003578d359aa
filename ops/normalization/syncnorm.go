package normalization

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// bySyncBatchNorm is why the steps of a synchronised batch_norm have no
// gradient.
const bySyncBatchNorm = "torch.nn.SyncBatchNorm calls batch_norm_backward_reduce and batch_norm_backward_elemt"

// syncNormOps are the steps of a batch_norm whose statistics are those of
// several devices. All statistics have one number per channel, the second
// dimension of input.
var syncNormOps = []*opdef.Entry{
	opdef.Op[statsArgs]{
		Schema: "batch_norm_stats(Tensor input, float eps) -> (Tensor, Tensor)", Names: "batch_norm_stats",
		Doc: opdef.Doc{Summary: "Mean and 1/sqrt(var + eps) of each channel",
			Notes:  "var is not corrected. Of 16-bit input both are float32.",
			Source: "ATen/native/cuda/Normalization.cu"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2}, NoGrad: bySyncBatchNorm, Trivial: true,
		Exempt: wideStatistics,
		Kernel: func(a *statsArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			dt, shape := accumulateType(a.Input.DType), []int{a.Input.Shape[1]}
			return []*tensor.Tensor{n.statistic(dt, shape, reduction.MeanOf),
					n.statistic(dt, shape,
						func(m *reduction.Moments) float64 { return 1 / math.Sqrt(m.M2/m.N+a.Eps) })},
				nil
		},
		Scale: func(a *statsArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			n, err := a.norm()
			if err != nil {
				return outs
			}
			return n.statisticScales([]int{a.Input.Shape[1]})
		},
		Terms: func(a *statsArgs) int { return channelCount(a.Input) },
		Cases: func(r *rand.Rand) []*statsArgs {
			g := opdef.Gen{R: r}
			return []*statsArgs{{g.Normal(tensor.Float64, 4, 3), 1e-5}, {g.Normal(tensor.Float32, 2, 3, 4), 1e-3},
				{g.Normal(tensor.BFloat16, 3, 2, 2, 2), 1e-5}}
		},
	}.Entry(),
	opdef.Op[updateStatsArgs]{
		Schema: "batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) " +
			"-> (Tensor, Tensor)", Names: "batch_norm_update_stats",
		Doc: opdef.Doc{Summary: "Mean and variance of each channel",
			Notes: "The variance is not corrected. The running statistics move towards both by momentum, var corrected.", Source: "ATen/native/Normalization.cpp"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2}, NoGrad: bySyncBatchNorm, Trivial: true,
		Kernel: func(a *updateStatsArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			dt, shape := a.Input.DType, []int{a.Input.Shape[1]}
			return []*tensor.Tensor{n.statistic(dt, shape, reduction.MeanOf),
				n.statistic(dt, shape, func(m *reduction.Moments) float64 { return m.M2 / m.N })}, nil
		},
		After: func(a *updateStatsArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return n.running(a.RunningMean, a.RunningVar, a.Momentum), nil
		},
		Scale: func(a *updateStatsArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			n, err := a.norm()
			if err != nil {
				return outs
			}
			square := func(m *reduction.Moments) float64 { r := m.Rms(); return r * r }
			return []*tensor.Tensor{n.statistic(tensor.Float64, outs[0].Shape, (*reduction.Moments).Rms),
				n.statistic(tensor.Float64, outs[0].Shape, square)}
		},
		Terms: func(a *updateStatsArgs) int { return channelCount(a.Input) },
		Cases: func(r *rand.Rand) []*updateStatsArgs {
			g := opdef.Gen{R: r}
			m, v := g.Normal(tensor.Float64, 3), g.Uniform(tensor.Float64, 0.5, 2, 3)
			m.RequiresGrad, v.RequiresGrad = false, false
			return []*updateStatsArgs{{g.Normal(tensor.Float64, 4, 3), m, v, 0.1}, {g.Normal(tensor.Float32, 2, 3, 4),
				nil, nil, 0.1}}
		},
	}.Entry(),
	opdef.Op[elemtArgs]{
		Schema: "batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float " +
			"eps) -> Tensor", Names: "batch_norm_elemt",
		Doc: opdef.Doc{Summary: "Normalisation of each channel with given statistics",
			Formula: "(input - mean) * invstd * weight + bias", Notes: "eps is part of invstd.",
			Source: "ATen/native/cuda/Normalization.cu"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2}, NoGrad: bySyncBatchNorm, Exempt: wideStatistics,
		Kernel: func(a *elemtArgs) ([]*tensor.Tensor, error) {
			if err := checkChannels(a.Input, vector{"weight", a.Weight}, vector{"bias", a.Bias}, vector{"mean", a.Mean},
				vector{"invstd", a.Invstd}); err != nil {
				return nil, err
			}
			return elements.Single(byChannel(a.Input.DType,
					func(v []float64) float64 { return (v[0]-v[3])*v[4]*v[1] + v[2] },
					[]*tensor.Tensor{a.Input}, orAll(a.Weight, 1, a.Input), orAll(a.Bias, 0, a.Input), a.Mean,
					a.Invstd)),
				nil
		},
		Scale: func(a *elemtArgs, _ []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(byChannel(tensor.Float64, func(v []float64) float64 {
				return (math.Abs(v[0])+math.Abs(v[3]))*math.Abs(v[4]*v[1]) + math.Abs(v[2])
			}, []*tensor.Tensor{a.Input}, orAll(a.Weight, 1, a.Input), orAll(a.Bias, 0, a.Input), a.Mean, a.Invstd))
		},
		Terms: func(*elemtArgs) int { return 3 },
		Cases: func(r *rand.Rand) []*elemtArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			return []*elemtArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 3), g.Normal(f64, 3), g.Normal(f64, 3), g.Uniform(f64, 0.5, 2, 3),
					1e-5}, {g.Normal(f32, 2, 3, 4), nil, nil, g.Normal(f32, 3), g.Uniform(f32, 0.5, 2, 3), 1e-5},
				{g.Normal(tensor.BFloat16, 2, 3, 2, 2), g.Normal(f32, 3), nil, g.Normal(f32, 3),
					g.Uniform(f32, 0.5, 2, 3), 1e-5},
			}
		},
	}.Entry(),
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
	opdef.Op[backwardReduceArgs]{
		Schema: "batch_norm_backward_reduce(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? " +
			"weight, bool input_g, bool weight_g, bool bias_g) -> (Tensor, Tensor, Tensor, Tensor)",
		Names: "batch_norm_backward_reduce",
		Doc: opdef.Doc{Summary: "Sums over each channel that the gradients of a batch_norm are made of",
			Formula: "sum(grad_out), sum(grad_out*(input - mean)), the gradients of weight and bias",
			Notes:   "A call without one of the gradients is refused.", Source: "ATen/native/cuda/Normalization.cu"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4}, NoGrad: bySyncBatchNorm, Exempt: wideStatistics,
		Kernel: func(a *backwardReduceArgs) ([]*tensor.Tensor, error) {
			if !a.InputG || !a.WeightG || !a.BiasG {
				return nil, opdef.Refuse("input_g", "want all three gradients")
			}
			if err := checkChannels(a.Input, vector{"weight", a.Weight}, vector{"mean", a.Mean},
				vector{"invstd", a.Invstd}); err != nil {
				return nil, err
			}
			if !slices.Equal(a.GradOut.Shape, a.Input.Shape) {
				return nil, opdef.Refuse("grad_out", "want the shape of input %s, got %s",
					tensor.ShapeString(a.Input.Shape), tensor.ShapeString(a.GradOut.Shape))
			}
			return a.sums(func(v []float64) float64 { return v[0] },
				func(v []float64) float64 { return v[0] * (v[1] - v[2]) }), nil
		},
		Scale: func(a *backwardReduceArgs, _ []*tensor.Tensor) []*tensor.Tensor {
			s := a.sums(func(v []float64) float64 { return math.Abs(v[0]) },
				func(v []float64) float64 { return math.Abs(v[0]) * (math.Abs(v[1]) + math.Abs(v[2])) })
			for i, t := range s {
				s[i] = t.WithDType(tensor.Float64)
			}
			return s
		},
		Terms: func(a *backwardReduceArgs) int { return channelCount(a.Input) },
		Cases: func(r *rand.Rand) []*backwardReduceArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			return []*backwardReduceArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 4, 3), g.Normal(f64, 3), g.Uniform(f64, 0.5, 2, 3),
					g.Normal(f64, 3), true, true, true},
				{g.Normal(f32, 2, 3, 4), g.Normal(f32, 2, 3, 4), g.Normal(f32, 3), g.Uniform(f32, 0.5, 2, 3), nil, true,
					true, true},
			}
		},
	}.Entry(),
	opdef.Op[backwardElemtArgs]{
		Schema: "batch_norm_backward_elemt(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor? " +
			"weight, Tensor sum_dy, Tensor sum_dy_xmu, Tensor count) -> Tensor", Names: "batch_norm_backward_elemt",
		Doc: opdef.Doc{Summary: "Gradient of the input of a batch_norm from the sums over all devices",
			Formula: "(grad_out - sum_dy/n - (input - mean)*invstd^2*sum_dy_xmu/n) * invstd*weight, n = sum(count)",
			Source:  "ATen/native/cuda/Normalization.cu"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4}, NoGrad: bySyncBatchNorm, Exempt: wideStatistics,
		Kernel: func(a *backwardElemtArgs) ([]*tensor.Tensor, error) {
			if err := checkChannels(a.Input, vector{"weight", a.Weight}, vector{"mean", a.Mean},
				vector{"invstd", a.Invstd}, vector{"sum_dy", a.SumDy}, vector{"sum_dy_xmu", a.SumDyXmu}); err != nil {
				return nil, err
			}
			if !slices.Equal(a.GradOut.Shape, a.Input.Shape) {
				return nil, opdef.Refuse("grad_out", "want the shape of input %s, got %s",
					tensor.ShapeString(a.Input.Shape), tensor.ShapeString(a.GradOut.Shape))
			}
			return elements.Single(a.element(a.Input.DType, -1, func(v float64) float64 { return v })), nil
		},
		Scale: func(a *backwardElemtArgs, _ []*tensor.Tensor) []*tensor.Tensor {
			return elements.Single(a.element(tensor.Float64, 1, math.Abs))
		},
		Terms: func(*backwardElemtArgs) int { return 4 },
		Cases: func(r *rand.Rand) []*backwardElemtArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			return []*backwardElemtArgs{
				{g.Normal(f64, 4, 3), g.Normal(f64, 4, 3), g.Normal(f64, 3), g.Uniform(f64, 0.5, 2, 3),
					g.Normal(f64, 3), g.Normal(f64, 3), g.Normal(f64, 3), g.Int(tensor.Int32, 2, 5, 2)},
				{g.Normal(f32, 2, 3, 4), g.Normal(f32, 2, 3, 4), g.Normal(f32, 3), g.Uniform(f32, 0.5, 2, 3), nil,
					g.Normal(f32, 3), g.Normal(f32, 3), g.Int(tensor.Int32, 8, 8, 1)},
			}
		},
	}.Entry(),
}

var wideStatistics = map[string]string{"dtypes": "statistics of 16-bit tensors are float32"}

type statsArgs struct {
	Input *tensor.Tensor
	Eps   float64
}

func (a *statsArgs) norm() (*normalisation, error) { return channelNorm(a.Input, a.Eps) }

type updateStatsArgs struct {
	Input, RunningMean, RunningVar *tensor.Tensor
	Momentum                       float64
}

func (a *updateStatsArgs) norm() (*normalisation, error) {
	if err := checkChannels(a.Input, vector{"running_mean", a.RunningMean},
		vector{"running_var", a.RunningVar}); err != nil {
		return nil, err
	}
	return channelNorm(a.Input, 0)
}

type elemtArgs struct {
	Input, Weight, Bias, Mean, Invstd *tensor.Tensor
	Eps                               float64
}

type backwardReduceArgs struct {
	GradOut, Input, Mean, Invstd, Weight *tensor.Tensor
	InputG, WeightG, BiasG               bool
}

// sums are the results, where dy and dyx are the terms of the first two, of an
// element of grad_out, input and mean.
func (a *backwardReduceArgs) sums(dy, dyx func(v []float64) float64) []*tensor.Tensor {
	dims := slices.Delete(elements.AllDims(a.Input.Dim()), 1, 2)
	sum := func(f func(v []float64) float64) *tensor.Tensor {
		return opdef.Sum(accumulateType(a.Input.DType),
			byChannel(tensor.Float64, f, []*tensor.Tensor{a.GradOut, a.Input}, a.Mean), dims, false)
	}
	d, x := sum(dy), sum(dyx)
	wt := x.DType
	if a.Weight != nil {
		wt = a.Weight.DType
	}
	return []*tensor.Tensor{d, x, opdef.Zip(wt, x, a.Invstd, func(s, r float64) float64 { return s * r }),
		opdef.Cast(d, wt)}
}

type backwardElemtArgs struct {
	GradOut, Input, Mean, Invstd, Weight, SumDy, SumDyXmu, Count *tensor.Tensor
}

// element is the gradient with the given sign of the terms taken off, of
// arguments as of sees them.
func (a *backwardElemtArgs) element(dt tensor.DType, sign float64, of func(float64) float64) *tensor.Tensor {
	n := 0.0
	for _, c := range tensor.Data[float64](opdef.Cast(a.Count, tensor.Float64)) {
		n += c
	}
	return byChannel(dt, func(v []float64) float64 {
		r := of(v[3])
		return (of(v[0]) + sign*of(v[5])/n + sign*(of(v[1])+sign*of(v[2]))*r*r*of(v[6])/n) * r * of(v[4])
	}, []*tensor.Tensor{a.GradOut, a.Input}, a.Mean, a.Invstd, orAll(a.Weight, 1, a.Input), a.SumDy, a.SumDyXmu)
}

// channelNorm is the normalisation of the channels of x, to take statistics
// from.
func channelNorm(x *tensor.Tensor, eps float64) (*normalisation, error) {
	if err := checkChannels(x); err != nil {
		return nil, err
	}
	return &normalisation{x: x, shape: x.Shape, dims: slices.Delete(elements.AllDims(x.Dim()), 1, 2), affine: []int{1},
		eps: eps}, nil
}

// A vector is an argument with one number per channel, nil if absent.
type vector struct {
	name string
	t    *tensor.Tensor
}

// checkChannels refuses input without channels or elements, and vectors of other
// lengths.
func checkChannels(x *tensor.Tensor, vs ...vector) error {
	if err := channels(x, nil); err != nil {
		return err
	}
	if x.Numel() == 0 {
		return opdef.Refuse("input", "shape %s has no elements", tensor.ShapeString(x.Shape))
	}
	for _, v := range vs {
		if v.t != nil && !slices.Equal(v.t.Shape, x.Shape[1:2]) {
			return opdef.Refuse(v.name, "want %d elements, one per channel, got shape %s", x.Shape[1],
				tensor.ShapeString(v.t.Shape))
		}
	}
	return nil
}

func channelCount(x *tensor.Tensor) int { return max(1, x.Numel()/max(1, x.Shape[1])) }

// byChannel is f of the elements of tensors of one shape and, behind them, of
// the numbers of vectors for their channel.
func byChannel(
	dt tensor.DType, f func(v []float64) float64, same []*tensor.Tensor, vectors ...*tensor.Tensor,
) *tensor.Tensor {
	shape := same[0].Shape
	dims := slices.Delete(elements.AllDims(len(shape)), 1, 2)
	ts := slices.Clone(same)
	for _, v := range vectors {
		ts = append(ts, opdef.Unreduce(v, shape, dims))
	}
	return elements.ZipEach(dt, shape, f, ts)
}

// orAll is t, or v for each channel of x where t is absent.
func orAll(t *tensor.Tensor, v float64, x *tensor.Tensor) *tensor.Tensor {
	if t != nil {
		return t
	}
	return tensor.Full(tensor.Float64, x.Shape[1:2], v)
}

// statisticScales are what the mean and the reciprocal root of a variance are
// as exact as: the variance is known to the root mean square times the
// deviation.
func (n *normalisation) statisticScales(shape []int) []*tensor.Tensor {
	return []*tensor.Tensor{n.statistic(tensor.Float64, shape, (*reduction.Moments).Rms),
		n.statistic(tensor.Float64, shape,
			func(m *reduction.Moments) float64 {
				rstd := 1 / math.Sqrt(m.M2/m.N+n.eps)
				return rstd * (1 + m.Rms()*rstd)
			})}
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

var gatherStats = opdef.Op[gatherStatsArgs]{
	Schema: "batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, " +
		"Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
	Names: "batch_norm_gather_stats_with_counts",
	Doc: opdef.Doc{Summary: "Mean and 1/sqrt(var + eps) of each channel over all devices",
		Formula: "of the union of sets of counts[d] elements with mean[d] and invstd[d]",
		Notes:   "The running statistics move towards both by momentum, var corrected.",
		Source:  "ATen/native/cuda/Normalization.cu"},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 4}, NoGrad: bySyncBatchNorm,
	Kernel: func(a *gatherStatsArgs) ([]*tensor.Tensor, error) {
		ms, err := a.union()
		if err != nil {
			return nil, err
		}
		return a.each(a.Mean.DType, ms, reduction.MeanOf,
			func(m *reduction.Moments) float64 { return 1 / math.Sqrt(m.M2/m.N+a.Eps) }), nil
	},
	After: func(a *gatherStatsArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
		ms, err := a.union()
		if err != nil {
			return nil, err
		}
		now := a.each(tensor.Float64, ms, reduction.MeanOf,
			func(m *reduction.Moments) float64 { return m.M2 / (m.N - 1) })
		after := map[string][]*tensor.Tensor{}
		for i, v := range []vector{{"running_mean", a.RunningMean}, {"running_var", a.RunningVar}} {
			if v.t != nil {
				after[v.name] = elements.Single(opdef.Zip(v.t.DType, v.t, now[i],
					func(o, n float64) float64 { return (1-a.Momentum)*o + a.Momentum*n }))
			}
		}
		return after, nil
	},
	Scale: func(a *gatherStatsArgs, outs []*tensor.Tensor) []*tensor.Tensor {
		ms, err := a.union()
		if err != nil {
			return outs
		}
		return a.each(tensor.Float64, ms, (*reduction.Moments).Rms, func(m *reduction.Moments) float64 {
			rstd := 1 / math.Sqrt(m.M2/m.N+a.Eps)
			return rstd * (1 + m.Rms()*rstd)
		})
	},
	Terms: func(a *gatherStatsArgs) int { return max(1, a.Mean.Numel()) },
	Cases: func(r *rand.Rand) []*gatherStatsArgs {
		g := opdef.Gen{R: r}
		f64, f32 := tensor.Float64, tensor.Float32
		m, v := g.Normal(f64, 3), g.Uniform(f64, 0.5, 2, 3)
		m.RequiresGrad, v.RequiresGrad = false, false
		return []*gatherStatsArgs{
			{g.Normal(f64, 4, 3), g.Normal(f64, 2, 3), g.Uniform(f64, 0.5, 2, 2, 3), m, v, 0.1, 1e-5,
				tensor.New(f64, []int{2}, []float64{4, 6})},
			{g.Normal(f32, 2, 3, 4), g.Normal(f32, 1, 3), g.Uniform(f32, 0.5, 2, 1, 3), nil, nil, 0.1, 1e-5,
				tensor.New(f32, []int{1}, []float64{8})},
		}
	},
}.Entry()

// union are the moments of each channel over all devices.
func (a *gatherStatsArgs) union() ([]reduction.Moments, error) {
	if a.Mean.Dim() != 2 || !slices.Equal(a.Mean.Shape, a.Invstd.Shape) || a.Counts.Numel() != a.Mean.Shape[0] {
		return nil, opdef.Refuse("mean", "want a row per device, as of invstd and counts, got shapes %s, %s and %s",
			tensor.ShapeString(a.Mean.Shape), tensor.ShapeString(a.Invstd.Shape), tensor.ShapeString(a.Counts.Shape))
	}
	c := a.Mean.Shape[1]
	for _, v := range []vector{{"running_mean", a.RunningMean}, {"running_var", a.RunningVar}} {
		if v.t != nil && !slices.Equal(v.t.Shape, []int{c}) {
			return nil, opdef.Refuse(v.name, "want %d elements, one per channel, got shape %s", c,
				tensor.ShapeString(v.t.Shape))
		}
	}
	if !a.Mean.DType.IsFloat() || !a.Invstd.DType.IsFloat() {
		return nil, opdef.Refuse("mean", "want floating statistics, got %s and %s", a.Mean.DType, a.Invstd.DType)
	}
	means, rstds, counts := tensor.Data[float64](a.Mean), tensor.Data[float64](a.Invstd),
		tensor.Data[float64](opdef.Cast(a.Counts, tensor.Float64))
	ms := make([]reduction.Moments, c)
	for d, n := range counts {
		for k := range ms {
			r := rstds[d*c+k]
			ms[k].Join(reduction.Moments{N: n, Mean: means[d*c+k], M2: (1/(r*r) - a.Eps) * n})
		}
	}
	return ms, nil
}

// each are functions of the moments of each channel.
func (a *gatherStatsArgs) each(dt tensor.DType, ms []reduction.Moments,
	fs ...func(*reduction.Moments) float64) []*tensor.Tensor {
	var out []*tensor.Tensor
	for _, f := range fs {
		v := make([]float64, len(ms))
		for k := range ms {
			v[k] = f(&ms[k])
		}
		out = append(out, tensor.New(dt, []int{len(ms)}, v))
	}
	return out
}

// accumulateType is the dtype of statistics of a tensor: at least float32.
func accumulateType(dt tensor.DType) tensor.DType {
	if dt.Size() < tensor.Float32.Size() {
		return tensor.Float32
	}
	return dt
}
