package normalization

import (
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// nativeNormOps are the normalisations that return the statistics they used. They
// share the fused kernels of the normalisations that do not, which a test of compose
// holds against their composition.
var nativeNormOps = []*opdef.Entry{
	nativeNorm(opdef.Planned[*nativeLayerNormArgs, *nativeNormalisation]{
		Schema: "native_layer_norm(Tensor input, int[1] normalized_shape, Tensor? weight, Tensor? bias, float eps) " +
			"-> (Tensor, Tensor, Tensor)",
		Names: "native_layer_norm",
		Doc: opdef.Doc{Summary: "Normalisation over the last dimensions, with mean and 1/sqrt(var + eps)",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
			Notes:   "The statistics take no gradient.", Source: "ATen/native/layer_norm.cpp"},
		Cases: opdef.Calls[nativeLayerNormArgs](`
			f64[3, 4], [4], f64[4], f64[4], 1e-05; f64[2, 3, 4], [3, 4], f64[3, 4], None, 0.001
			for T in f32 bf16: T[2, 5], [5], None, None, 1e-05
			for T in f32 bf16: T[3, 133]{rows}, [133], T[133], T[133], 1e-05
			f32[3, 1030]{rows}, [1030], f32[1030], f32[1030], 1e-05`),
		Plan: func(a *nativeLayerNormArgs) (*nativeNormalisation, error) {
			n, err := (&layerNormArgs{Input: a.Input, NormalizedShape: a.NormalizedShape, Weight: a.Weight,
				Bias: a.Bias, Eps: a.Eps}).norm()
			if err != nil {
				return nil, err
			}
			return &nativeNormalisation{norm: n, shapeOf: reduction.KeptShape(a.Input.Shape, n.dims)}, nil
		},
	}),
	nativeNorm(opdef.Planned[*nativeGroupNormArgs, *nativeNormalisation]{
		Schema: "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, " +
			"float eps) -> (Tensor, Tensor, Tensor)",
		Names: "native_group_norm",
		Doc: opdef.Doc{Summary: "Normalisation over groups of channels, with mean and 1/sqrt(var + eps)",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
			Notes:   "The statistics take no gradient.", Source: "ATen/native/group_norm.cpp"},
		Cases: opdef.Calls[nativeGroupNormArgs](`
			f64[2, 4, 3], f64[4], f64[4], 2, 4, 3, 2, 1e-05; f32[1, 4, 2, 2], None, None, 1, 4, 4, 1, 1e-05`),
		Plan: func(a *nativeGroupNormArgs) (*nativeNormalisation, error) {
			n, err := (&groupNormArgs{Input: a.Input, NumGroups: a.Group, Weight: a.Weight, Bias: a.Bias,
				Eps: a.Eps}).norm()
			if err != nil {
				return nil, err
			}
			if s := a.Input.Shape; s[0] != a.N || s[1] != a.C || tensor.Numel(s[2:]) != a.HxW {
				return nil, opdef.Refuse("input", "shape %s is not of %d samples, %d channels and %d positions",
					tensor.ShapeString(s), a.N, a.C, a.HxW)
			}
			return &nativeNormalisation{norm: n, shapeOf: []int{a.N, a.Group}}, nil
		},
	}),
	nativeBatchNorm,
	nativeBatchNormLike("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "+
		"Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
		func(a *nativeBatchNormArgs) bool { return a.RunningMean != nil }),
	opdef.Overload[nativeBatchNormArgs, noStatsArgs]{
		Schema: "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float " +
			"momentum, float eps) -> (Tensor, Tensor, Tensor)",
		Names: "_native_batch_norm_legit", Of: nativeBatchNorm,
		To: func(b *noStatsArgs) (*nativeBatchNormArgs, error) {
			return &nativeBatchNormArgs{b.Input, b.Weight, b.Bias, nil, nil, b.Training, b.Momentum, b.Eps}, nil
		},
		From: func(a *nativeBatchNormArgs) *noStatsArgs {
			if a.RunningMean != nil {
				return nil
			}
			return &noStatsArgs{a.Input, a.Weight, a.Bias, a.Training, a.Momentum, a.Eps}
		},
	}.Entry(),
	opdef.Overload[nativeBatchNormArgs, noTrainingArgs]{
		Schema: "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, " +
			"Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
		Names: "_native_batch_norm_legit_no_training", Of: nativeBatchNorm,
		To: func(b *noTrainingArgs) (*nativeBatchNormArgs, error) {
			return &nativeBatchNormArgs{b.Input, b.Weight, b.Bias, b.RunningMean, b.RunningVar, false, b.Momentum,
				b.Eps}, nil
		},
		From: func(a *nativeBatchNormArgs) *noTrainingArgs {
			if a.Training {
				return nil
			}
			return &noTrainingArgs{a.Input, a.Weight, a.Bias, a.RunningMean, a.RunningVar, a.Momentum, a.Eps}
		},
	}.Entry(),
	functionalBatchNorm,
}

type noStatsArgs struct {
	Input, Weight, Bias *tensor.Tensor
	Training            bool
	Momentum, Eps       float64
}

type noTrainingArgs struct {
	Input, Weight, Bias, RunningMean, RunningVar *tensor.Tensor
	Momentum, Eps                                float64
}

type nativeLayerNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight, Bias    *tensor.Tensor
	Eps             float64
}

type nativeGroupNormArgs struct {
	Input            *tensor.Tensor
	Weight, Bias     *tensor.Tensor
	N, C, HxW, Group int
	Eps              float64
}

type nativeBatchNormArgs struct {
	Input                   *tensor.Tensor
	Weight, Bias            *tensor.Tensor
	RunningMean, RunningVar *tensor.Tensor
	Training                bool
	Momentum, Eps           float64
}

func (a *nativeBatchNormArgs) plain() *batchNormArgs {
	return &batchNormArgs{Input: a.Input, RunningMean: a.RunningMean, RunningVar: a.RunningVar, Weight: a.Weight,
		Bias: a.Bias, Training: a.Training, Momentum: a.Momentum, Eps: a.Eps}
}

var nativeBatchNorm = nativeBatchNormLike("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? "+
	"running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
	func(*nativeBatchNormArgs) bool { return true })

// nativeBatchNormDoc is what all signatures of batch normalisation with statistics compute.
var nativeBatchNormDoc = opdef.Doc{
	Summary: "Normalisation of each channel over the batch, with mean and 1/sqrt(var + eps)",
	Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
	Notes:   "Outside training the statistics returned are empty. They take no gradient.",
	Source:  "ATen/native/Normalization.cpp",
}

func nativeBatchNormCases(g opdef.Gen) []*nativeBatchNormArgs {
	f64 := tensor.Float64
	m, v := elements.Detached(g.Normal(f64, 3)), elements.Detached(g.Uniform(f64, 0.5, 2, 3))
	return []*nativeBatchNormArgs{
		{g.Normal(f64, 4, 3), g.Normal(f64, 3), g.Normal(f64, 3), m, v, true, 0.1, 1e-5},
		{g.Normal(f64, 2, 3, 4), g.Normal(f64, 3), nil, m, v, false, 0.1, 1e-3},
		{g.Normal(tensor.Float32, 3, 2, 2), nil, nil, nil, nil, true, 0.1, 1e-5},
	}
}

// nativeBatchNormLike declares the operator under a signature, with those of its cases that keep holds for.
func nativeBatchNormLike(schema string, keep func(a *nativeBatchNormArgs) bool) *opdef.Entry {
	name, _, _ := strings.Cut(schema, "(")
	return nativeNorm(opdef.Planned[*nativeBatchNormArgs, *nativeNormalisation]{
		Schema: schema, Names: name, Doc: nativeBatchNormDoc,
		Cases: func(g opdef.Gen) []*nativeBatchNormArgs {
			return slices.DeleteFunc(nativeBatchNormCases(g), func(a *nativeBatchNormArgs) bool { return !keep(a) })
		},
		Plan: (*nativeBatchNormArgs).planned,
	})
}

func (a *nativeBatchNormArgs) planned() (*nativeNormalisation, error) {
	n, err := a.plain().norm()
	if err != nil {
		return nil, err
	}
	if n.vari != nil {
		return &nativeNormalisation{norm: n, shapeOf: []int{0}}, nil
	}
	return &nativeNormalisation{norm: n, shapeOf: []int{a.Input.Shape[1]}}, nil
}

// functionalBatchNorm returns the running statistics that the other forms change.
var functionalBatchNorm = nativeNorm(opdef.Planned[*nativeBatchNormArgs, *nativeNormalisation]{
	Schema: "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, " +
		"Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
	Names: "torch.ops.aten._native_batch_norm_legit_functional", Doc: nativeBatchNormDoc,
	Cases: func(g opdef.Gen) []*nativeBatchNormArgs { return nativeBatchNormCases(g)[:2] },
	Plan: func(a *nativeBatchNormArgs) (*nativeNormalisation, error) {
		n, err := a.planned()
		if err == nil {
			n.running = []*tensor.Tensor{a.RunningMean, a.RunningVar}
		}
		return n, err
	},
})

// A nativeNormalisation returns its statistics too.
type nativeNormalisation struct {
	norm    *normalisation
	shapeOf []int            // of the statistics
	running []*tensor.Tensor // running statistics, if new ones are results
}

// perRunning gives what of has for each of the new running statistics that are results: their values, scales, ....
func perRunning[T any](n *nativeNormalisation, of map[string][]T) []T {
	out := make([]T, len(n.running))
	for i := range out {
		if ts := of[[]string{"running_mean", "running_var"}[i]]; ts != nil {
			out[i] = ts[0]
		}
	}
	return out
}

// moved are the new running statistics as results; the old ones where they stay.
func (n *nativeNormalisation) moved() []*tensor.Tensor {
	out := perRunning(n, opdef.Must(n.norm.After(nil)))
	for i, t := range out {
		if t == nil {
			out[i] = n.running[i]
		}
	}
	return out
}

// Renewed says which results are running statistics.
func (n *nativeNormalisation) Renewed(i int) bool { return i >= 3 }

// After is the change of the running statistics.
func (n *nativeNormalisation) After(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if n.running != nil {
		return nil, nil
	}
	return n.norm.After(outs)
}

// AfterScale and AfterElse are those of the normalisation.
func (n *nativeNormalisation) AfterScale() map[string][]*tensor.Tensor  { return n.norm.AfterScale() }
func (n *nativeNormalisation) AfterElse() map[string][][]*tensor.Tensor { return n.norm.AfterElse() }

// Else are the deviations of kernels that keep statistics in 16 bits; the results are not far from those of all bits.
func (n *nativeNormalisation) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	all := append(make([][]*tensor.Tensor, 3), perRunning(n, n.norm.AfterElse())...)
	if n.norm.vari != nil || slices.Contains(n.shapeOf, 0) {
		return all
	}
	for _, m := range n.norm.inSteps() {
		_, rstd, _ := m.computed()
		all[2] = append(all[2], rstd.Reshape(n.shapeOf...))
	}
	return all
}

// GradElse are the gradients of such kernels.
func (n *nativeNormalisation) GradElse(g *opdef.Grad) (out []opdef.Grads, err error) {
	for _, m := range n.norm.inSteps() {
		if g.Out[0] != nil {
			out = append(out, m.grads(g, false))
		}
	}
	return out, nil
}

// OtherDType is that of statistics on GPUs and where the weight is not in 16 bits.
func (n *nativeNormalisation) OtherDType(i int) tensor.DType {
	if (i == 1 || i == 2) && n.norm.x.DType.IsHalf() {
		return tensor.Float32
	}
	return tensor.Invalid
}

// nativeNorm completes the declaration of a normalisation with its statistics.
func nativeNorm[A any](o opdef.Planned[*A, *nativeNormalisation]) *opdef.Entry {
	type call = *nativeNormalisation
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
	o.Exempt = map[string]string{"gradients": "the statistics take no gradient"}
	o.Trivial = true // a mean may be zero, statistics empty
	o.Terms = func(n call) int { return elements.NumelOver(n.norm.x.Shape, n.norm.dims) }
	o.GradTerms = o.Terms
	o.Kernel = func(n call) ([]*tensor.Tensor, error) {
		stat := func(f func(*reduction.Moments) float64) *tensor.Tensor {
			return n.norm.statistic(n.norm.x.DType, n.shapeOf, f)
		}
		rstd := stat(func(m *reduction.Moments) float64 { return 1 / math.Sqrt(m.M2/m.N+n.norm.eps) })
		return append([]*tensor.Tensor{n.norm.forward().Reshape(n.norm.shape...), stat(reduction.MeanOf), rstd},
			n.moved()...), nil
	}
	o.Scale = func(n call, _ []*tensor.Tensor) []*tensor.Tensor {
		s := append([]*tensor.Tensor{n.norm.scale().Reshape(n.norm.shape...)}, n.norm.statisticScales(n.shapeOf)...)
		for i, t := range perRunning(n, n.norm.AfterScale()) {
			if t == nil {
				t = opdef.Abs(n.running[i])
			}
			s = append(s, t)
		}
		return s
	}
	o.Steps = true
	grads := func(n call, g *opdef.Grad, magnitudes bool) (opdef.Grads, error) {
		if g.Out[0] == nil {
			return opdef.Grads{}, nil
		}
		return n.norm.grads(g, magnitudes), nil
	}
	o.Grad = func(n call, g *opdef.Grad) (opdef.Grads, error) { return grads(n, g, false) }
	o.GradScale = func(n call, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) { return grads(n, g, true) }
	return o.Entry()
}

// statistic is a function of the moments, of the given shape; empty where the
// statistics were given.
func (n *normalisation) statistic(dt tensor.DType, shape []int, f func(*reduction.Moments) float64) *tensor.Tensor {
	if n.vari != nil || slices.Contains(shape, 0) {
		return tensor.New(dt, shape, tensor.Make[float64](tensor.Numel(shape)))
	}
	return opdef.Collect(n.moments(), dt, f).Reshape(shape...)
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
