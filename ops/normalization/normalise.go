package normalization

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// A normalisation of x: (x - mean) / sqrt(var + eps) * weight + bias, with mean
// and variance taken over dims, or given.
type normalisation struct {
	x            *tensor.Tensor
	shape        []int // of the input, which x may divide further
	dims         []int
	eps          float64
	older        float64        // eps of other versions of torch, 0 if it is the same
	rms          bool           // no mean is subtracted
	mean, vari   *tensor.Tensor // given statistics, of x's shape; else nil
	weight, bias *tensor.Tensor // nil if absent
	affine       []int          // x's dimensions that weight and bias have
	stats        *opdef.Folded[reduction.Moments]
	moves        *movement // nil: running statistics stay as they are
	// unplaced: samples without positions, whose mean is NaN. torch computes the weight's
	// gradient of group_norm from sums and the mean (group_norm_kernel.cpp), so that it
	// is NaN too.
	unplaced bool

	// What kernels get wrong: elements that the variance is short of, eps that is added to
	// the square root instead.
	correction float64
	outside    bool
	// The same of the gradient of the input: it lacks what flows through the mean, through
	// the variance.
	noMean, noVariance bool
	coarse             statistic // those that are rounded to grid
	grid               opdef.Grid
	biased             bool // the running variance is that of n
	square             bool // the mean square stands for the variance
}

// A movement of running statistics, nil if absent, towards new ones.
type movement struct {
	mean, vari *tensor.Tensor
	momentum   float64
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
	return slices.DeleteFunc(elements.AllDims(n.x.Dim()), func(d int) bool { return slices.Contains(n.affine, d) })
}

func (n *normalisation) moments() *opdef.Folded[reduction.Moments] {
	if n.stats == nil {
		n.stats = opdef.FoldDims(reduction.MomentsFold, n.dims, false, n.x)
	}
	return n.stats
}

// run is the number of dimensions of x before the last ones, over which all
// statistics are constant, and the number of elements of those. Either all of
// these, if shared, have the same weight and bias, or each has its own.
func (n *normalisation) run() (dims, length int, shared bool) {
	dims, length, shared = n.x.Dim(), 1, true
	for ; dims > 0 && slices.Contains(n.dims, dims-1); dims-- {
		size := n.x.Shape[dims-1]
		if size == 1 {
			continue
		}
		same := !slices.Contains(n.affine, dims-1)
		if length > 1 && same != shared {
			break
		}
		length, shared = length*size, same
	}
	return dims, length, shared
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
		return mean, opdef.Map(tensor.Float64, vari, func(v float64) float64 { return 1 / math.Sqrt(v+n.eps) }),
			opdef.Abs(mean)
	}
	shape, m := n.x.Shape[:dims], n.moments()
	over := slices.DeleteFunc(slices.Clone(n.dims), func(d int) bool { return d >= dims })
	expand := func(get func(a *reduction.Moments) float64) *tensor.Tensor {
		return opdef.Unreduce(opdef.Collect(m, tensor.Float64, get), shape, over)
	}
	mean = expand(func(a *reduction.Moments) float64 {
		if n.rms {
			return 0
		}
		return n.rounded(centre, reduction.MeanOf(a))
	})
	rstd = expand(func(a *reduction.Moments) float64 {
		v := a.M2 / (a.N - n.correction)
		if n.rms || n.square {
			v += a.Mean * a.Mean
			if math.IsInf(a.Mean, 0) { // infinite squares, whose distances from the mean are NaN
				v = math.Inf(1)
			}
		}
		if n.outside {
			return 1 / (math.Sqrt(v) + n.eps)
		}
		v = n.rounded(variance, v)
		return n.rounded(inverse, 1/n.rounded(deviation, math.Sqrt(v+n.eps)))
	})
	return mean, rstd,
		expand(func(a *reduction.Moments) float64 { return reduction.RootMeanSquare(a.N, a.Mean*a.Mean, a.M2) })
}

// A statistic is a number that a kernel may keep in fewer bits than it computes with.
type statistic int

const (
	centre statistic = 1 << iota
	variance
	deviation // the root of variance and eps
	inverse   // 1 over that
)

// rounded is a statistic of value v as it is kept.
func (n *normalisation) rounded(s statistic, v float64) float64 {
	if n.coarse&s == 0 {
		return v
	}
	return n.grid.Round(v)
}

// A run of elements of x that share their statistics, with the weights and
// biases of each, or one for all.
type run struct {
	x, w, b         []float64
	mean, rstd, rms float64
}

// byRuns is a tensor of x's shape computed run by run.
func (n *normalisation) byRuns(dt tensor.DType, f func(dst []float64, r run)) *tensor.Tensor {
	dims, length, shared := n.run()
	mean, rstd, rms := n.statistics(dims)
	ofRun, each := []*tensor.Tensor{mean, rstd, rms}, []*tensor.Tensor{n.x}
	for _, t := range []*tensor.Tensor{n.expandAffine(n.weight, 1), n.expandAffine(n.bias, 0)} {
		if !shared {
			each = append(each, t)
			continue
		}
		for t.Dim() > dims {
			t = t.Select(dims, 0)
		}
		ofRun = append(ofRun, t)
	}
	return opdef.ZipAt(dt, n.x.Shape, func(lo int, dst []float64, src [][]float64) {
		if len(dst) == 0 {
			return
		}
		first, last := lo/length, (lo+len(dst)-1)/length
		runs := last - first + 1
		held := opdef.Scratch[float64](len(ofRun) * runs)
		defer opdef.Release(held)
		var of [5][]float64
		for k, t := range ofRun {
			of[k] = (*held)[k*runs : (k+1)*runs]
			tensor.Load(t, first, of[k])
		}
		for k := range runs {
			i, j := max((first+k)*length-lo, 0), min((first+k+1)*length-lo, len(dst))
			r := run{x: src[0][i:j], mean: of[0][k], rstd: of[1][k], rms: of[2][k]}
			if shared {
				r.w, r.b = of[3][k:k+1], of[4][k:k+1]
			} else {
				r.w, r.b = src[1][i:j], src[2][i:j]
			}
			f(dst[i:j], r)
		}
	}, each...)
}

func (n *normalisation) forward() *tensor.Tensor {
	return n.byRuns(n.x.DType, func(dst []float64, r run) { vmath.Normalize(dst, r.x, -r.mean, r.rstd, r.w, r.b) })
}

// scale is the sum of the magnitudes behind a result: |x| + rms, which the
// deviation is the difference of, the deviation again with the error of the
// variance, all times rstd and weight; and the bias.
func (n *normalisation) scale() *tensor.Tensor {
	return n.byRuns(tensor.Float64, func(dst []float64, r run) {
		vmath.Affine(dst, r.x, -r.mean, 1+r.rms*r.rstd)
		for _, v := range [][]float64{dst, r.x, r.w, r.b} {
			vmath.Abs(v, v)
		}
		vmath.Affine(r.x, r.x, r.rms, 1)
		vmath.Add(dst, dst, r.x)
		vmath.Normalize(dst, dst, 0, r.rstd, r.w, r.b)
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
			up, x, mean, rstd, rms := v[0], v[2], v[3], v[4], v[5]
			vmath.Sub(dst, x, mean)
			vmath.Mul(dst, dst, rstd)
			if magnitudes {
				for i, xhat := range dst {
					xhat, r := math.Abs(xhat), rms[i]
					dst[i] = xhat + (math.Abs(x[i])+r)*rstd[i] + xhat*r*rstd[i]
				}
			}
			vmath.Mul(dst, dst, up)
		}, operands...)
		gr.Set("weight", opdef.Sum(tensor.Float64, t, n.others(), false).Reshape(n.weight.Shape...))
		if n.unplaced {
			gr.Set("weight", tensor.Full(tensor.Float64, n.weight.Shape, math.NaN()))
		}
	}
	if n.bias != nil {
		gr.Set("bias", opdef.Sum(tensor.Float64, up, n.others(), false).Reshape(n.bias.Shape...))
	}
	return gr
}

// partialSums are, for the gradients of weight and bias, the sums of the magnitudes of
// the partial sums as torch's CPU kernels form them in the gradient's dtype, row after
// row, and of the terms, which are rounded too.
func (n *normalisation) partialSums(g *opdef.Grad) opdef.Grads {
	up := g.Out[0].Reshape(n.x.Shape...)
	mean, rstd, _ := n.statistics(n.x.Dim())
	gr := opdef.Grads{}
	of := func(name string, param, terms *tensor.Tensor) {
		if param == nil || !g.Need(name) {
			return
		}
		t := terms.Permute(append(slices.Clone(n.affine), n.others()...)...)
		each := param.Numel()
		v, sums := tensor.Data[float64](t), tensor.Make[float64](each)
		rows := len(v) / max(each, 1)
		for c := range sums {
			sum := 0.0
			for _, x := range v[c*rows : (c+1)*rows] {
				sum += x
				sums[c] += math.Abs(sum) + math.Abs(x)
			}
		}
		gr.Set(name, tensor.New(tensor.Float64, param.Shape, sums))
	}
	of("weight", n.weight, opdef.ZipN(tensor.Float64, n.x.Shape, func(dst []float64, v [][]float64) {
		for i := range dst {
			dst[i] = v[0][i] * (v[1][i] - v[2][i]) * v[3][i]
		}
	}, up, n.x, mean, rstd))
	of("bias", n.bias, up)
	return gr
}

func (n *normalisation) inputGrad(operands []*tensor.Tensor, parts func(v [][]float64, i int) (h, xhat, e,
	rstd float64), magnitudes bool) *tensor.Tensor {
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
			if !magnitudes {
				up := v[0]
				w, x, mean, rstd := v[1][:len(up)], v[2][:len(up)], v[3][:len(up)], v[4][:len(up)]
				for i, g := range up {
					h := g * w[i]
					p.h += h
					p.hx += h * ((x[i] - mean[i]) * rstd[i])
				}
			} else {
				for i := range v[0] {
					h, xhat, e, _ := parts(v, i)
					p.h += h
					p.hx += h * xhat
					p.he += h * e
				}
			}
			acc.h, acc.hx, acc.he = acc.h+p.h, acc.hx+p.hx, acc.he+p.he
		},
		Join: func(acc *projection, p projection) { acc.h, acc.hx, acc.he = acc.h+p.h, acc.hx+p.hx, acc.he+p.he },
	}, n.dims, false, operands...)
	k := 1 / float64(sums.N)
	mean := func(get func(p *projection) float64) *tensor.Tensor {
		return opdef.Unreduce(opdef.Collect(sums, tensor.Float64, func(p *projection) float64 { return k * get(p) }),
			shape, n.dims)
	}
	meanH := mean(func(p *projection) float64 {
		if n.rms || n.noMean {
			return 0
		}
		return p.h
	})
	meanHX, meanHE := mean(func(p *projection) float64 {
		if n.noVariance {
			return 0
		}
		return p.hx
	}),
		mean(func(p *projection) float64 { return p.he })
	return opdef.ZipN(n.x.DType, shape, func(dst []float64, v [][]float64) {
		mh, mhx, mhe := v[6][:len(dst)], v[7][:len(dst)], v[8]
		if !magnitudes {
			up, w, x := v[0][:len(dst)], v[1][:len(dst)], v[2][:len(dst)]
			mean, rstd := v[3][:len(dst)], v[4][:len(dst)]
			for i := range dst {
				dst[i] = rstd[i] * (up[i]*w[i] - mh[i] - (x[i]-mean[i])*rstd[i]*mhx[i])
			}
			return
		}
		for i := range dst {
			h, xhat, e, rstd := parts(v, i)
			dst[i] = rstd * (h + mh[i] + xhat*(mhx[i]+mhe[i]) + e*mhx[i])
		}
	}, append(slices.Clip(operands), meanH, meanHX, meanHE)...)
}

// running is the change of the running statistics, whose channels are
// dimension 1 of x: (1-momentum)*old + momentum*new, new being the average over
// the batch where it has statistics of its own.
func (n *normalisation) running([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if n.moves == nil || n.x.Numel() == 0 {
		return nil, nil
	}
	m := n.moments()
	average := func(get func(*reduction.Moments) float64) *tensor.Tensor {
		t := opdef.Collect(m, tensor.Float64, get)
		if t.Dim() == 1 {
			return t
		}
		return elements.Scaled(opdef.Sum(tensor.Float64, t, []int{0}, false), 1/float64(t.Shape[0]))
	}
	after := map[string][]*tensor.Tensor{}
	move := func(arg string, old *tensor.Tensor, get func(*reduction.Moments) float64) {
		if old != nil {
			after[arg] = elements.Single(opdef.Zip(old.DType, old, average(get), func(o, now float64) float64 {
				return (1-n.moves.momentum)*o + n.moves.momentum*now
			}))
		}
	}
	move("running_mean", n.moves.mean, reduction.MeanOf)
	move("running_var", n.moves.vari, func(a *reduction.Moments) float64 {
		if n.biased {
			return a.M2 / a.N
		}
		return a.M2 / (a.N - 1)
	})
	return after, nil
}

// runningScale is the sum of the magnitudes behind the running statistics: elements
// cancel in a mean, and in a variance that is computed from the mean square.
func (n *normalisation) runningScale() map[string][]*tensor.Tensor {
	if n.moves == nil || n.x.Numel() == 0 {
		return nil
	}
	perChannel := func(t *tensor.Tensor) *tensor.Tensor {
		sum := opdef.Sum(tensor.Float64, t, n.others(), false)
		return elements.Scaled(sum, float64(sum.Numel())/float64(t.Numel()))
	}
	after := map[string][]*tensor.Tensor{}
	move := func(arg string, old, magnitude *tensor.Tensor) {
		if old != nil {
			after[arg] = elements.Single(opdef.Zip(tensor.Float64, old, magnitude, func(o, now float64) float64 {
				return math.Abs((1-n.moves.momentum)*o) + math.Abs(n.moves.momentum)*now
			}))
		}
	}
	move("running_mean", n.moves.mean, perChannel(opdef.Abs(n.x)))
	move("running_var", n.moves.vari, perChannel(opdef.Map(tensor.Float64, n.x, func(x float64) float64 {
		return x * x
	})))
	return after
}
