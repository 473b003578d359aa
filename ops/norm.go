package ops

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/internal/vmath"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// normOps normalise by mean and variance, or by root mean square, taken over
// some dimensions.
var normOps = []*opdef.Entry{
	normEntry(opdef.Op[layerNormArgs]{
		Schema: "layer_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
		DIOPI:  "layer_norm -cudnn_enable",
		Names:  "F.layer_norm layer_norm",
		Doc:    opdef.Doc{Summary: "Normalisation over the last dimensions", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "var is not corrected.", Source: "torch.nn.functional.layer_norm"},
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
	}, (*layerNormArgs).norm),
	normEntry(opdef.Op[rmsNormArgs]{
		Schema: "rms_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
		Names:  "F.rms_norm rms_norm",
		Doc:    opdef.Doc{Summary: "Scaling by the root mean square over the last dimensions", Formula: "input / sqrt(mean(input^2) + eps) * weight", Notes: "eps is the dtype's machine epsilon by default.", Source: "torch.nn.functional.rms_norm"},
		Cases: func(r *rand.Rand) []*rmsNormArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			return []*rmsNormArgs{
				{Input: g.Normal(f64, 3, 4), NormalizedShape: []int{4}, Weight: g.Normal(f64, 4), Eps: ptr(1e-6)}, {Input: g.Normal(f64, 2, 3, 4), NormalizedShape: []int{3, 4}, Eps: ptr(1e-3)},
				{Input: g.Normal(tensor.Float32, 2, 5), NormalizedShape: []int{5}, Eps: ptr(1e-5)}, {Input: opdef.NonContiguous(g.Normal(f64, 3, 4)), NormalizedShape: []int{4}, Eps: ptr(1e-5)},
			}
		},
	}, (*rmsNormArgs).norm),
	normEntry(opdef.Op[groupNormArgs]{
		Schema: "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
		DIOPI:  "group_norm -cudnn_enabled",
		Names:  "F.group_norm group_norm",
		Doc:    opdef.Doc{Summary: "Normalisation over groups of channels", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *); mean and var are taken over each sample's C/num_groups channels and all positions.", Source: "torch.nn.functional.group_norm"},
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
	}, (*groupNormArgs).norm),
	batchNorm("batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor", "F.batch_norm"),
	batchNorm("batch_norm.native(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, ignored cudnn_enabled) -> Tensor", "batch_norm"),
	instanceNorm("instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor", "F.instance_norm"),
	instanceNorm("instance_norm.native(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, ignored cudnn_enabled) -> Tensor", "instance_norm").WithDIOPI("none"),
}

// batchNorm declares a batch normalisation, whose arguments have two orders.
func batchNorm(schema, names string) *opdef.Entry {
	return normEntry(opdef.Op[batchNormArgs]{
		Schema: schema, Names: names,
		Doc: opdef.Doc{Summary: "Normalisation of each channel over the batch", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *). In training mean and var are those of the batch, and the running statistics move towards them by momentum (var corrected); otherwise they are the running statistics.", Source: "torch.nn.functional.batch_norm"},
		After: func(a *batchNormArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil || !a.Training || a.Input.Numel() == 0 {
				return nil, err
			}
			return n.running(a.RunningMean, a.RunningVar, a.Momentum), nil
		},
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
	}, (*batchNormArgs).norm)
}

// instanceNorm is batchNorm for each sample by itself.
func instanceNorm(schema, names string) *opdef.Entry {
	return normEntry(opdef.Op[instanceNormArgs]{
		Schema: schema, Names: names,
		Doc: opdef.Doc{Summary: "Normalisation of each channel of each sample", Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "input is (N, C, *). With running statistics given, these move towards the average over the batch; without use_input_stats they are used instead.", Source: "torch.nn.functional.instance_norm"},
		After: func(a *instanceNormArgs, _ []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
			n, err := a.norm()
			if err != nil || !a.UseInputStats || a.Input.Numel() == 0 {
				return nil, err
			}
			return n.running(a.RunningMean, a.RunningVar, a.Momentum), nil
		},
		// The last node is a view of the batch normalisation of N*C channels.
		Node: func(a *instanceNormArgs, g *opdef.Grad) (opdef.Node, error) {
			s := a.Input.Shape
			return opdef.Node{Grads: single(g.Out[0].Reshape(slices.Concat([]int{1, s[0] * s[1]}, s[2:])...)), Weak: "the incoming gradient reshaped"}, nil
		},
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
	}, (*instanceNormArgs).norm)
}

// normEntry completes the declaration of a normalisation. A result is a sum of a
// few products of numbers known to normalisation.scale.
func normEntry[A any](o opdef.Op[A], call func(*A) (*normalisation, error)) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
	o.Terms = func(a *A) int {
		n, err := call(a)
		if err != nil {
			return 1
		}
		return count(n.x.Shape, n.dims)
	}
	o.GradTerms = func(a *A) int {
		n, err := call(a)
		if err != nil {
			return 1
		}
		return max(1, n.x.Numel())
	}
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		return single(n.forward().Reshape(n.shape...)), nil
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		n, err := call(a)
		if err != nil {
			return single(opdef.Abs(outs[0]))
		}
		return single(n.scale().Reshape(n.shape...))
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		return n.grads(g, false), nil
	}
	o.GradScale = func(a *A, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		return n.grads(g, true), nil
	}
	return o.Entry()
}

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
	shape        []int // of the input, which x may divide further
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

// run is the number of dimensions of x before the last ones, over which all
// statistics are constant, and the number of elements of those.
func (n *normalisation) run() (dims, length int) {
	dims, length = n.x.Dim(), 1
	for dims > 0 && slices.Contains(n.dims, dims-1) {
		dims--
		length *= n.x.Shape[dims]
	}
	return dims, length
}

// statistics are the mean subtracted, the factor 1/sqrt(var + eps) and the root
// mean square of the elements that both are taken over (of given statistics the
// magnitude of the mean): of x's shape, or of its first dims dimensions, those
// of each run.
func (n *normalisation) statistics(dims int) (mean, rstd, rms *tensor.Tensor) {
	if n.vari != nil {
		mean, vari := n.mean, n.vari
		for mean.Dim() > dims {
			mean, vari = mean.Select(dims, 0), vari.Select(dims, 0)
		}
		return mean, opdef.Map(tensor.Float64, vari, func(v float64) float64 { return 1 / math.Sqrt(v+n.eps) }), opdef.Abs(mean)
	}
	shape, m := n.x.Shape[:dims], n.moments()
	over := slices.DeleteFunc(slices.Clone(n.dims), func(d int) bool { return d >= dims })
	expand := func(get func(a *momentsSoFar) float64) *tensor.Tensor {
		return opdef.Unreduce(opdef.Collect(m, tensor.Float64, get), shape, over)
	}
	mean = expand(func(a *momentsSoFar) float64 {
		if n.rms {
			return 0
		}
		return meanSoFar(a)
	})
	rstd = expand(func(a *momentsSoFar) float64 {
		v := a.m2 / a.n
		if n.rms {
			v += a.mean * a.mean
		}
		return 1 / math.Sqrt(v+n.eps)
	})
	return mean, rstd, expand(func(a *momentsSoFar) float64 { return rootMeanSquare(a.n, a.mean*a.mean, a.m2) })
}

// byRuns is a tensor of x's shape computed run by run: f gets elements of x that
// share their statistics, and the weights and biases of each.
func (n *normalisation) byRuns(dt tensor.DType, f func(dst, x, w, b []float64, mean, rstd, rms float64)) *tensor.Tensor {
	dims, run := n.run()
	mean, rstd, rms := n.statistics(dims)
	return opdef.ZipAt(dt, n.x.Shape, func(lo int, dst []float64, src [][]float64) {
		if len(dst) == 0 {
			return
		}
		first, last := lo/run, (lo+len(dst)-1)/run
		var of [3]*[]float64
		for k, t := range []*tensor.Tensor{mean, rstd, rms} {
			of[k] = opdef.Scratch[float64](last - first + 1)
			defer opdef.Release(of[k])
			tensor.Load(t, first, *of[k])
		}
		for r := first; r <= last; r++ {
			i, j := max(r*run-lo, 0), min((r+1)*run-lo, len(dst))
			f(dst[i:j], src[0][i:j], src[1][i:j], src[2][i:j], (*of[0])[r-first], (*of[1])[r-first], (*of[2])[r-first])
		}
	}, n.x, n.expandAffine(n.weight, 1), n.expandAffine(n.bias, 0))
}

func (n *normalisation) forward() *tensor.Tensor {
	return n.byRuns(n.x.DType, func(dst, x, w, b []float64, mean, rstd, _ float64) {
		vmath.Affine(dst, x, -mean, rstd)
		vmath.Mul(dst, dst, w)
		vmath.Add(dst, dst, b)
	})
}

// scale is the sum of the magnitudes behind a result: |x| + rms, which the
// deviation is the difference of, the deviation again with the error of the
// variance, all times rstd and weight; and the bias.
func (n *normalisation) scale() *tensor.Tensor {
	return n.byRuns(tensor.Float64, func(dst, x, w, b []float64, mean, rstd, rms float64) {
		held := opdef.Scratch[float64](len(dst))
		defer opdef.Release(held)
		t := *held
		vmath.Affine(dst, x, -mean, 1+rms*rstd)
		vmath.Abs(dst, dst)
		vmath.Abs(t, x)
		vmath.Affine(t, t, rms, 1)
		vmath.Add(dst, t, dst)
		vmath.Affine(dst, dst, 0, rstd)
		vmath.Abs(t, w)
		vmath.Mul(dst, dst, t)
		vmath.Abs(t, b)
		vmath.Add(dst, dst, t)
	})
}

// A projection holds the sums that the gradient through mean and variance
// needs: of h = g*weight and of h*xhat; for its scale those of their magnitudes,
// and of |h|*e.
type projection struct{ h, hx, he float64 }

// grads are the gradients of input, weight and bias, with xhat the normalised
// elements: rstd*(h - mean(h) - xhat*mean(h*xhat)) with h = g*weight,
// sum(g*xhat) and sum(g). With magnitudes they are the sums of the magnitudes
// of their terms, xhat being known to e = rstd*(|x| + rms) and all to the
// error of rstd.
func (n *normalisation) grads(g *opdef.Grad, magnitudes bool) opdef.Grads {
	up, shape := g.Out[0].Reshape(n.x.Shape...), n.x.Shape
	mean, rstd, rms := n.statistics(n.x.Dim())
	w := n.expandAffine(n.weight, 1)
	if magnitudes {
		up, w = opdef.Abs(up), opdef.Abs(w)
	}
	// v are the elements of the operands below; parts gives h, xhat and e, the
	// latter two as magnitudes with all that makes them uncertain.
	operands := []*tensor.Tensor{up, w, n.x, mean, rstd, rms}
	parts := func(v [][]float64, i int) (h, xhat, e, rstd float64) {
		h, rstd = v[0][i]*v[1][i], v[4][i]
		xhat = (v[2][i] - v[3][i]) * rstd
		if magnitudes {
			e = (math.Abs(v[2][i]) + v[5][i]) * rstd
			xhat = math.Abs(xhat)
			rstd *= 1 + v[5][i]*rstd
		}
		return h, xhat, e, rstd
	}
	gr := opdef.Grads{}
	if g.Need("input") {
		gr.Set("input", n.inputGrad(operands, parts, magnitudes).Reshape(n.shape...))
	}
	if n.weight != nil {
		t := opdef.ZipN(tensor.Float64, shape, func(dst []float64, v [][]float64) {
			for i := range dst {
				_, xhat, e, _ := parts(v, i)
				dst[i] = v[0][i] * (xhat + e + xhat*v[5][i]*v[4][i])
				if !magnitudes {
					dst[i] = v[0][i] * xhat
				}
			}
		}, operands...)
		gr.Set("weight", opdef.Sum(tensor.Float64, t, n.others(), false).Reshape(n.weight.Shape...))
	}
	if n.bias != nil {
		gr.Set("bias", opdef.Sum(tensor.Float64, up, n.others(), false).Reshape(n.bias.Shape...))
	}
	return gr
}

func (n *normalisation) inputGrad(operands []*tensor.Tensor, parts func(v [][]float64, i int) (h, xhat, e, rstd float64), magnitudes bool) *tensor.Tensor {
	shape := n.x.Shape
	if n.vari != nil {
		return opdef.ZipN(n.x.DType, shape, func(dst []float64, v [][]float64) {
			for i := range dst {
				h, _, _, rstd := parts(v, i)
				dst[i] = h * rstd
			}
		}, operands...)
	}
	sums := opdef.FoldDims(opdef.Fold[float64, projection]{
		Add: func(acc *projection, _ int, v [][]float64) {
			var p projection
			for i := range v[0] {
				h, xhat, e, _ := parts(v, i)
				p.h += h
				p.hx += h * xhat
				p.he += h * e
			}
			acc.h, acc.hx, acc.he = acc.h+p.h, acc.hx+p.hx, acc.he+p.he
		},
		Join: func(acc *projection, p projection) { acc.h, acc.hx, acc.he = acc.h+p.h, acc.hx+p.hx, acc.he+p.he },
	}, n.dims, false, operands...)
	k := 1 / float64(sums.N)
	mean := func(get func(p *projection) float64) *tensor.Tensor {
		return opdef.Unreduce(opdef.Collect(sums, tensor.Float64, func(p *projection) float64 { return k * get(p) }), shape, n.dims)
	}
	meanH := mean(func(p *projection) float64 {
		if n.rms {
			return 0
		}
		return p.h
	})
	meanHX, meanHE := mean(func(p *projection) float64 { return p.hx }), mean(func(p *projection) float64 { return p.he })
	return opdef.ZipN(n.x.DType, shape, func(dst []float64, v [][]float64) {
		mh, mhx, mhe := v[6], v[7], v[8]
		for i := range dst {
			h, xhat, e, rstd := parts(v, i)
			if magnitudes {
				dst[i] = rstd * (h + mh[i] + xhat*(mhx[i]+mhe[i]) + e*mhx[i])
			} else {
				dst[i] = rstd * (h - mh[i] - xhat*mhx[i])
			}
		}
	}, append(slices.Clip(operands), meanH, meanHX, meanHE)...)
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
	return &normalisation{x: a.Input, shape: a.Input.Shape, dims: dims, affine: dims, eps: a.Eps, weight: a.Weight, bias: a.Bias}, err
}

func (a *rmsNormArgs) norm() (*normalisation, error) {
	dims, err := lastDims(a.Input, a.NormalizedShape, map[string]*tensor.Tensor{"weight": a.Weight})
	eps := a.Input.DType.Eps()
	if a.Eps != nil {
		eps = *a.Eps
	}
	return &normalisation{x: a.Input, shape: a.Input.Shape, dims: dims, affine: dims, eps: eps, rms: true, weight: a.Weight}, err
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
		shape: x.Shape, x: x.Reshape(x.Shape[0], a.NumGroups, perGroup, tensor.Numel(x.Shape[2:])), dims: []int{2, 3}, affine: []int{1, 2}, eps: a.Eps,
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
	if x.Dim() == 1 && x.Numel() == 0 { // torch returns nothing of nothing before it looks at dimensions
		return &normalisation{x: x, shape: x.Shape, mean: x, vari: x}, nil
	}
	if err := channels(x, map[string]*tensor.Tensor{"running_mean": a.RunningMean, "running_var": a.RunningVar, "weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	n := &normalisation{x: x, shape: x.Shape, dims: slices.Delete(allDims(x.Dim()), 1, 2), affine: []int{1}, eps: a.Eps, weight: a.Weight, bias: a.Bias}
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
	n := &normalisation{x: x, shape: x.Shape, dims: allDims(x.Dim())[2:], affine: []int{1}, eps: a.Eps, weight: a.Weight, bias: a.Bias}
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
