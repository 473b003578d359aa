package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// normOps normalise by mean and variance, or by root mean square, taken over
// some dimensions.
var normOps = []*opdef.Entry{
	opdef.Op[layerNormArgs]{
		Schema:    "layer_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
		Names:     "F.layer_norm layer_norm",
		Doc:       opdef.Doc{Summary: "Normalisation over the last dimensions", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "var is not corrected.", Source: "torch.nn.functional.layer_norm"},
		Error:     normError,
		Terms:     func(a *layerNormArgs) int { return numel(a.NormalizedShape) },
		GradTerms: func(a *layerNormArgs) int { return a.Input.Numel() },
		Kernel: func(a *layerNormArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return single(n.forward()), nil
		},
		Grad: func(a *layerNormArgs, g *opdef.Grad) (opdef.Grads, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return n.grads("input", g), nil
		},
		Scale: func(a *layerNormArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			return scaleOf(a.norm())(outs)
		},
		Cases: func(r *rand.Rand) []*layerNormArgs {
			g := opdef.Gen{R: r}
			f64, f32, bf := tensor.Float64, tensor.Float32, tensor.BFloat16
			return []*layerNormArgs{
				{Input: g.Normal(f64, 3, 4), NormalizedShape: []int{4}, Weight: g.Normal(f64, 4), Bias: g.Normal(f64, 4), Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 4), NormalizedShape: []int{3, 4}, Weight: g.Normal(f64, 3, 4), Eps: 1e-3},
				{Input: g.Normal(f32, 2, 5), NormalizedShape: []int{5}, Eps: 1e-5}, {Input: g.Normal(f32, 0, 5), NormalizedShape: []int{5}, Eps: 1e-5},
				{Input: g.Normal(bf, 2, 4), NormalizedShape: []int{4}, Weight: g.Normal(bf, 4), Bias: g.Normal(bf, 4), Eps: 1e-5},
				{Input: opdef.NonContiguous(g.Normal(f64, 3, 4)), NormalizedShape: []int{4}, Bias: g.Normal(f64, 4), Eps: 0.1},
			}
		},
	}.Entry(),
	opdef.Op[rmsNormArgs]{
		Schema:    "rms_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
		Names:     "F.rms_norm rms_norm",
		Doc:       opdef.Doc{Summary: "Scaling by the root mean square over the last dimensions", Formula: "input / sqrt(mean(input^2) + eps) * weight", Notes: "eps is the dtype's machine epsilon by default.", Source: "torch.nn.functional.rms_norm"},
		Error:     normError,
		Terms:     func(a *rmsNormArgs) int { return numel(a.NormalizedShape) },
		GradTerms: func(a *rmsNormArgs) int { return a.Input.Numel() },
		Kernel: func(a *rmsNormArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return single(n.forward()), nil
		},
		Grad: func(a *rmsNormArgs, g *opdef.Grad) (opdef.Grads, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return n.grads("input", g), nil
		},
		Scale: func(a *rmsNormArgs, outs []*tensor.Tensor) []*tensor.Tensor { return scaleOf(a.norm())(outs) },
		Cases: func(r *rand.Rand) []*rmsNormArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*rmsNormArgs{
				{Input: g.Normal(f64, 3, 4), NormalizedShape: []int{4}, Weight: g.Normal(f64, 4), Eps: ptr(1e-6)}, {Input: g.Normal(f64, 2, 3, 4), NormalizedShape: []int{3, 4}, Eps: ptr(1e-3)},
				{Input: g.Normal(tensor.Float32, 2, 5), NormalizedShape: []int{5}, Eps: ptr(1e-5)}, {Input: opdef.NonContiguous(g.Normal(f64, 3, 4)), NormalizedShape: []int{4}, Eps: ptr(1e-5)},
			}
		},
	}.Entry(),
	opdef.Op[groupNormArgs]{
		Schema:    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
		Names:     "F.group_norm group_norm",
		Doc:       opdef.Doc{Summary: "Normalisation over groups of channels", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *); mean and var are taken over each sample's C/num_groups channels and all positions.", Source: "torch.nn.functional.group_norm"},
		Error:     normError,
		Terms:     func(a *groupNormArgs) int { return a.Input.Numel() },
		GradTerms: func(a *groupNormArgs) int { return a.Input.Numel() },
		Kernel: func(a *groupNormArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return single(n.forward().Reshape(a.Input.Shape...)), nil
		},
		Grad: func(a *groupNormArgs, g *opdef.Grad) (opdef.Grads, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			gr := n.grads("input", opdef.NewGrad(nil, single(g.Out[0].Reshape(n.x.Shape...)), nil))
			gr.Set("input", gr["input"][0].Reshape(a.Input.Shape...))
			return gr, nil
		},
		Scale: func(a *groupNormArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			n, err := a.norm()
			if err != nil {
				return single(opdef.Abs(outs[0]))
			}
			return single(n.scale().Reshape(a.Input.Shape...))
		},
		Cases: func(r *rand.Rand) []*groupNormArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			return []*groupNormArgs{
				{Input: g.Normal(f64, 2, 4, 3), NumGroups: 2, Weight: g.Normal(f64, 4), Bias: g.Normal(f64, 4), Eps: 1e-5},
				{Input: g.Normal(f64, 2, 4, 2, 2), NumGroups: 4, Bias: g.Normal(f64, 4), Eps: 1e-3}, {Input: g.Normal(f32, 3, 6), NumGroups: 2, Eps: 1e-5},
				{Input: g.Normal(tensor.BFloat16, 1, 4, 5), NumGroups: 1, Weight: g.Normal(tensor.BFloat16, 4), Eps: 1e-5},
				{Input: opdef.NonContiguous(g.Normal(f64, 2, 4, 3)), NumGroups: 2, Weight: g.Normal(f64, 4), Eps: 1e-5},
			}
		},
	}.Entry(),
	opdef.Op[batchNormArgs]{
		Schema:    "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
		Names:     "F.batch_norm",
		Doc:       opdef.Doc{Summary: "Normalisation of each channel over the batch", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *). In training mean and var are those of the batch, and the running statistics move towards them by momentum (var corrected); otherwise they are the running statistics.", Source: "torch.nn.functional.batch_norm"},
		Error:     normError,
		Terms:     func(a *batchNormArgs) int { return a.Input.Numel() },
		GradTerms: func(a *batchNormArgs) int { return a.Input.Numel() },
		Kernel: func(a *batchNormArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return single(n.forward()), nil
		},
		After: func(a *batchNormArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil || !a.Training || a.Input.Numel() == 0 {
				return nil, err
			}
			return n.running(a.RunningMean, a.RunningVar, a.Momentum), nil
		},
		Grad: func(a *batchNormArgs, g *opdef.Grad) (opdef.Grads, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return n.grads("input", g), nil
		},
		Scale: func(a *batchNormArgs, outs []*tensor.Tensor) []*tensor.Tensor { return scaleOf(a.norm())(outs) },
		Cases: func(r *rand.Rand) []*batchNormArgs {
			g := opdef.Gen{R: r}
			f64, f32 := tensor.Float64, tensor.Float32
			stats := func(dt tensor.DType, c int) (*tensor.Tensor, *tensor.Tensor) {
				m, v := g.Normal(dt, c), g.Uniform(dt, 0.5, 2, c)
				m.RequiresGrad, v.RequiresGrad = false, false
				return m, v
			}
			m64, v64 := stats(f64, 3)
			m32, v32 := stats(f32, 4)
			return []*batchNormArgs{
				{Input: g.Normal(f64, 4, 3), RunningMean: m64, RunningVar: v64, Weight: g.Normal(f64, 3), Bias: g.Normal(f64, 3), Training: true, Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 2, 2), RunningMean: m64, RunningVar: v64, Weight: g.Normal(f64, 3), Momentum: 0.1, Eps: 1e-3},
				{Input: g.Normal(f64, 2, 3, 4), Bias: g.Normal(f64, 3), Training: true, Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f32, 3, 4, 5), RunningMean: m32, RunningVar: v32, Training: true, Momentum: 0.5, Eps: 1e-5},
				{Input: opdef.NonContiguous(g.Normal(f64, 3, 3, 2)), RunningMean: m64, RunningVar: v64, Training: true, Momentum: 0.1, Eps: 1e-5},
			}
		},
	}.Entry(),
	opdef.Op[instanceNormArgs]{
		Schema:    "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
		Names:     "F.instance_norm",
		Doc:       opdef.Doc{Summary: "Normalisation of each channel of each sample", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *). With running statistics given, these move towards the average over the batch; without use_input_stats they are used instead.", Source: "torch.nn.functional.instance_norm"},
		Error:     normError,
		Terms:     func(a *instanceNormArgs) int { return a.Input.Numel() },
		GradTerms: func(a *instanceNormArgs) int { return a.Input.Numel() },
		Kernel: func(a *instanceNormArgs) ([]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return single(n.forward()), nil
		},
		After: func(a *instanceNormArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil || !a.UseInputStats || a.Input.Numel() == 0 {
				return nil, err
			}
			return n.running(a.RunningMean, a.RunningVar, a.Momentum), nil
		},
		Grad: func(a *instanceNormArgs, g *opdef.Grad) (opdef.Grads, error) {
			n, err := a.norm()
			if err != nil {
				return nil, err
			}
			return n.grads("input", g), nil
		},
		// The last node is a view of the batch normalisation of N*C channels.
		Node: func(a *instanceNormArgs, g *opdef.Grad) (opdef.Node, error) {
			s := a.Input.Shape
			return opdef.Node{Grads: single(g.Out[0].Reshape(slices.Concat([]int{1, s[0] * s[1]}, s[2:])...)), Weak: "the incoming gradient reshaped"}, nil
		},
		Scale: func(a *instanceNormArgs, outs []*tensor.Tensor) []*tensor.Tensor { return scaleOf(a.norm())(outs) },
		Cases: func(r *rand.Rand) []*instanceNormArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			m, v := g.Normal(f64, 3), g.Uniform(f64, 0.5, 2, 3)
			m.RequiresGrad, v.RequiresGrad = false, false
			return []*instanceNormArgs{
				{Input: g.Normal(f64, 2, 3, 4), Weight: g.Normal(f64, 3), Bias: g.Normal(f64, 3), UseInputStats: true, Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 2, 2), RunningMean: m, RunningVar: v, UseInputStats: true, Momentum: 0.3, Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 4), RunningMean: m, RunningVar: v, Weight: g.Normal(f64, 3), Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(tensor.Float32, 1, 2, 6), UseInputStats: true, Momentum: 0.1, Eps: 1e-5},
			}
		},
	}.Entry(),
}

// normError: a result is a sum of a few products of numbers known to the scale
// below; gradients take in sums over whole rows.
var normError = opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 4}}

type layerNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight, Bias    *tensor.Tensor
	Eps             float64
	CudnnEnable     bool
}

type rmsNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight          *tensor.Tensor
	Eps             *float64
}

type groupNormArgs struct {
	Input        *tensor.Tensor
	NumGroups    int
	Weight, Bias *tensor.Tensor
	Eps          float64
	CudnnEnabled bool
}

type batchNormArgs struct {
	Input                   *tensor.Tensor
	RunningMean, RunningVar *tensor.Tensor
	Weight, Bias            *tensor.Tensor
	Training                bool
	Momentum, Eps           float64
}

type instanceNormArgs struct {
	Input                   *tensor.Tensor
	RunningMean, RunningVar *tensor.Tensor
	Weight, Bias            *tensor.Tensor
	UseInputStats           bool
	Momentum, Eps           float64
}

// A normalisation of x: (x - mean) / sqrt(var + eps) * weight + bias, with mean
// and variance taken over dims, or given.
type normalisation struct {
	x            *tensor.Tensor
	dims         []int
	eps          float64
	rms          bool           // no mean is subtracted
	mean, vari   *tensor.Tensor // given statistics, of x's shape; else nil
	weight, bias *tensor.Tensor // nil if absent
	affine       []int          // x's dimensions that weight and bias have
	stats        *opdef.Folded[momentsSoFar]
}

// expandAffine is a weight or bias (v if nil) as a tensor of x's shape.
func (n *normalisation) expandAffine(t *tensor.Tensor, v float64) *tensor.Tensor {
	if t == nil {
		return tensor.Full(tensor.Float64, n.x.Shape, v)
	}
	return opdef.Unreduce(t, n.x.Shape, n.others())
}

// others are the dimensions over which weight and bias are broadcast.
func (n *normalisation) others() []int {
	return slices.DeleteFunc(allDims(n.x.Dim()), func(d int) bool { return slices.Contains(n.affine, d) })
}

func (n *normalisation) moments() *opdef.Folded[momentsSoFar] {
	if n.stats == nil {
		n.stats = opdef.FoldDims(measuring, n.dims, false, n.x)
	}
	return n.stats
}

// statistics are the mean subtracted and the factor 1/sqrt(var + eps), of x's
// shape.
func (n *normalisation) statistics() (mean, rstd *tensor.Tensor) {
	if n.vari != nil {
		return n.mean, opdef.Map(tensor.Float64, n.vari, func(v float64) float64 { return 1 / math.Sqrt(v+n.eps) })
	}
	m := n.moments()
	mean = opdef.Unreduce(opdef.Collect(m, tensor.Float64, func(a *momentsSoFar) float64 {
		if n.rms {
			return 0
		}
		return meanSoFar(a)
	}), n.x.Shape, n.dims)
	rstd = opdef.Unreduce(opdef.Collect(m, tensor.Float64, func(a *momentsSoFar) float64 {
		v := a.m2 / a.n
		if n.rms {
			v += a.mean * a.mean
		}
		return 1 / math.Sqrt(v+n.eps)
	}), n.x.Shape, n.dims)
	return mean, rstd
}

func (n *normalisation) forward() *tensor.Tensor {
	mean, rstd := n.statistics()
	return opdef.ZipN(n.x.DType, n.x.Shape, func(dst []float64, s [][]float64) {
		x, mean, rstd, w, b := s[0], s[1], s[2], s[3], s[4]
		for i := range dst {
			dst[i] = (x[i]-mean[i])*rstd[i]*w[i] + b[i]
		}
	}, n.x, mean, rstd, n.expandAffine(n.weight, 1), n.expandAffine(n.bias, 0))
}

// scale is the sum of the magnitudes behind a result: |x| + rms, which the
// deviation is the difference of, the deviation again with the error of the
// variance, all times rstd and weight; and the bias.
func (n *normalisation) scale() *tensor.Tensor {
	mean, rstd := n.statistics()
	rms := opdef.Abs(mean)
	if n.vari == nil {
		rms = opdef.Unreduce(opdef.Collect(n.moments(), tensor.Float64, func(a *momentsSoFar) float64 {
			return rootMeanSquare(a.n, a.mean*a.mean, a.m2)
		}), n.x.Shape, n.dims)
	}
	return opdef.ZipN(tensor.Float64, n.x.Shape, func(dst []float64, s [][]float64) {
		x, mean, rstd, w, b, rms := s[0], s[1], s[2], s[3], s[4], s[5]
		for i := range dst {
			d := math.Abs(x[i]-mean[i]) * (1 + rms[i]*rstd[i])
			dst[i] = (math.Abs(x[i])+rms[i]+d)*rstd[i]*math.Abs(w[i]) + math.Abs(b[i])
		}
	}, n.x, mean, rstd, n.expandAffine(n.weight, 1), n.expandAffine(n.bias, 0), rms)
}

// scaleOf is Op.Scale of a normalisation that the kernel has accepted.
func scaleOf(n *normalisation, err error) func([]*tensor.Tensor) []*tensor.Tensor {
	return func(outs []*tensor.Tensor) []*tensor.Tensor {
		if err != nil {
			return single(opdef.Abs(outs[0]))
		}
		return single(n.scale())
	}
}

// A projection holds the sums that the gradient through mean and variance
// needs: of h = g*weight and of h*xhat.
type projection struct{ h, hx float64 }

// grads are the gradients of x (named arg), weight and bias:
// rstd*(h - mean(h) - xhat*mean(h*xhat)) with h = g*weight, sum(g*xhat), sum(g).
func (n *normalisation) grads(arg string, g *opdef.Grad) opdef.Grads {
	up, shape := g.Out[0], n.x.Shape
	mean, rstd := n.statistics()
	w := n.expandAffine(n.weight, 1)
	gr := opdef.Grads{}
	if g.Need(arg) {
		gr.Set(arg, n.inputGrad(up, mean, rstd, w))
	}
	if n.weight != nil {
		xhat := opdef.ZipN(tensor.Float64, shape, func(dst []float64, s [][]float64) {
			for i := range dst {
				dst[i] = s[0][i] * (s[1][i] - s[2][i]) * s[3][i]
			}
		}, up, n.x, mean, rstd)
		gr.Set("weight", opdef.Sum(tensor.Float64, xhat, n.others(), false).Reshape(n.weight.Shape...))
	}
	if n.bias != nil {
		gr.Set("bias", opdef.Sum(tensor.Float64, up, n.others(), false).Reshape(n.bias.Shape...))
	}
	return gr
}

func (n *normalisation) inputGrad(up, mean, rstd, w *tensor.Tensor) *tensor.Tensor {
	shape := n.x.Shape
	if n.vari != nil {
		return opdef.ZipN(n.x.DType, shape, func(dst []float64, s [][]float64) {
			for i := range dst {
				dst[i] = s[0][i] * s[1][i] * s[2][i]
			}
		}, up, w, rstd)
	}
	sums := opdef.FoldDims(opdef.Fold[float64, projection]{
		Add: func(acc *projection, _ int, v [][]float64) {
			g, w, x, mean, rstd := v[0], v[1], v[2], v[3], v[4]
			var h, hx float64
			for i, gi := range g {
				t := gi * w[i]
				h += t
				hx += t * (x[i] - mean[i]) * rstd[i]
			}
			acc.h += h
			acc.hx += hx
		},
		Join: func(acc *projection, next projection) { acc.h, acc.hx = acc.h+next.h, acc.hx+next.hx },
	}, n.dims, false, up, w, n.x, mean, rstd)
	k := 1 / float64(sums.N)
	meanH := opdef.Unreduce(opdef.Collect(sums, tensor.Float64, func(p *projection) float64 {
		if n.rms {
			return 0
		}
		return p.h * k
	}), shape, n.dims)
	meanHX := opdef.Unreduce(opdef.Collect(sums, tensor.Float64, func(p *projection) float64 { return p.hx * k }), shape, n.dims)
	return opdef.ZipN(n.x.DType, shape, func(dst []float64, s [][]float64) {
		g, w, x, mean, rstd, mh, mhx := s[0], s[1], s[2], s[3], s[4], s[5], s[6]
		for i := range dst {
			dst[i] = rstd[i] * (g[i]*w[i] - mh[i] - (x[i]-mean[i])*rstd[i]*mhx[i])
		}
	}, up, w, n.x, mean, rstd, meanH, meanHX)
}

// running is the change of the running statistics, whose channels are
// dimension 1 of x: (1-momentum)*old + momentum*new, new being the average over
// the batch where it has statistics of its own.
func (n *normalisation) running(mean, vari *tensor.Tensor, momentum float64) map[string][]*tensor.Tensor {
	m := n.moments()
	average := func(get func(*momentsSoFar) float64) *tensor.Tensor {
		t := opdef.Collect(m, tensor.Float64, get)
		if t.Dim() == 1 {
			return t
		}
		return times(opdef.Sum(tensor.Float64, t, []int{0}, false), 1/float64(t.Shape[0]))
	}
	move := func(old, now *tensor.Tensor) *tensor.Tensor {
		return opdef.Zip(old.DType, old, now, func(o, n float64) float64 { return (1-momentum)*o + momentum*n })
	}
	after := map[string][]*tensor.Tensor{}
	if mean != nil {
		after["running_mean"] = single(move(mean, average(meanSoFar)))
	}
	if vari != nil {
		after["running_var"] = single(move(vari, average(func(a *momentsSoFar) float64 { return a.m2 / (a.n - 1) })))
	}
	return after
}

// floating refuses a normalisation of anything but floating elements.
func floating(arg string, t *tensor.Tensor) error {
	if !t.DType.IsFloat() {
		return opdef.Refuse(arg, "want a floating dtype, got %s", t.DType)
	}
	return nil
}

// lastDims are the dimensions of a normalized_shape, after torch's checks.
func lastDims(x *tensor.Tensor, shape []int, affine map[string]*tensor.Tensor) ([]int, error) {
	if err := floating("input", x); err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		return nil, opdef.Refuse("normalized_shape", "want at least one dimension")
	}
	lead := x.Dim() - len(shape)
	if lead < 0 || !slices.Equal(x.Shape[lead:], shape) {
		return nil, opdef.Refuse("input", "shape %s does not end in normalized_shape %s", tensor.ShapeString(x.Shape), tensor.ShapeString(shape))
	}
	for _, name := range []string{"weight", "bias"} {
		if t := affine[name]; t != nil && !slices.Equal(t.Shape, shape) {
			return nil, opdef.Refuse(name, "shape %s differs from normalized_shape %s", tensor.ShapeString(t.Shape), tensor.ShapeString(shape))
		}
	}
	return allDims(x.Dim())[lead:], nil
}

func (a *layerNormArgs) norm() (*normalisation, error) {
	dims, err := lastDims(a.Input, a.NormalizedShape, map[string]*tensor.Tensor{"weight": a.Weight, "bias": a.Bias})
	return &normalisation{x: a.Input, dims: dims, affine: dims, eps: a.Eps, weight: a.Weight, bias: a.Bias}, err
}

func (a *rmsNormArgs) norm() (*normalisation, error) {
	dims, err := lastDims(a.Input, a.NormalizedShape, map[string]*tensor.Tensor{"weight": a.Weight})
	eps := a.Input.DType.Eps()
	if a.Eps != nil {
		eps = *a.Eps
	}
	return &normalisation{x: a.Input, dims: dims, affine: dims, eps: eps, rms: true, weight: a.Weight}, err
}

// channels checks what is given per channel, dimension 1 of x.
func channels(x *tensor.Tensor, given map[string]*tensor.Tensor) error {
	if err := floating("input", x); err != nil {
		return err
	}
	if x.Dim() < 2 {
		return opdef.Refuse("input", "want at least 2 dimensions, got shape %s", tensor.ShapeString(x.Shape))
	}
	for _, name := range []string{"running_mean", "running_var", "weight", "bias"} {
		if t := given[name]; t != nil && (t.Dim() != 1 || t.Shape[0] != x.Shape[1]) {
			return opdef.Refuse(name, "want %d elements, one per channel, got shape %s", x.Shape[1], tensor.ShapeString(t.Shape))
		}
	}
	return nil
}

func (a *groupNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if err := channels(x, map[string]*tensor.Tensor{"weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	if a.NumGroups <= 0 || x.Shape[1]%a.NumGroups != 0 {
		return nil, opdef.Refuse("num_groups", "%d channels cannot be divided into %d groups", x.Shape[1], a.NumGroups)
	}
	perGroup := x.Shape[1] / a.NumGroups
	n := &normalisation{
		x: x.Reshape(x.Shape[0], a.NumGroups, perGroup, tensor.Numel(x.Shape[2:])), dims: []int{2, 3}, affine: []int{1, 2}, eps: a.Eps,
		weight: a.Weight, bias: a.Bias,
	}
	return n, nil
}

// perChannel lays running statistics out over x.
func perChannel(t, x *tensor.Tensor) *tensor.Tensor {
	return opdef.Unreduce(t, x.Shape, slices.Delete(allDims(x.Dim()), 1, 2))
}

func (a *batchNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if err := channels(x, map[string]*tensor.Tensor{"running_mean": a.RunningMean, "running_var": a.RunningVar, "weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	n := &normalisation{x: x, dims: slices.Delete(allDims(x.Dim()), 1, 2), affine: []int{1}, eps: a.Eps, weight: a.Weight, bias: a.Bias}
	if a.Training {
		if count(x.Shape, n.dims) == 1 {
			return nil, opdef.Refuse("input", "want more than one value per channel when training, got shape %s", tensor.ShapeString(x.Shape))
		}
		return n, nil
	}
	if a.RunningMean == nil || a.RunningVar == nil {
		return nil, opdef.Refuse("running_mean", "running statistics are needed outside training")
	}
	n.mean, n.vari = perChannel(a.RunningMean, x), perChannel(a.RunningVar, x)
	return n, nil
}

func (a *instanceNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if err := channels(x, map[string]*tensor.Tensor{"running_mean": a.RunningMean, "running_var": a.RunningVar, "weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	n := &normalisation{x: x, dims: allDims(x.Dim())[2:], affine: []int{1}, eps: a.Eps, weight: a.Weight, bias: a.Bias}
	if a.UseInputStats {
		if count(x.Shape, n.dims) == 1 {
			return nil, opdef.Refuse("input", "want more than one position per channel, got shape %s", tensor.ShapeString(x.Shape))
		}
		return n, nil
	}
	if a.RunningMean == nil || a.RunningVar == nil {
		return nil, opdef.Refuse("running_mean", "running statistics are needed without use_input_stats")
	}
	n.mean, n.vari = perChannel(a.RunningMean, x), perChannel(a.RunningVar, x)
	return n, nil
}
