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
	summed       [2]runSums // of the gradient asked for last, and of its magnitudes
	moves        *movement  // nil: running statistics stay as they are
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
	switch {
	case t == nil:
		return tensor.Full(tensor.Float64, n.x.Shape, v)
	case t.DType != tensor.Float64 && t.Numel() <= n.x.Numel()/leastRun: // read for each row, widened once
		t = tensor.New(tensor.Float64, t.Shape, tensor.Data[float64](t))
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

// leastRun is the fewest elements that are worth a run: of less each is one by itself.
const leastRun = 16

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
	if length < leastRun {
		return n.x.Dim(), 1, true
	}
	return dims, length, shared
}

// before are those of some dimensions of x that come before its last ones, from dims on.
func before(dims int, some []int) []int {
	return slices.DeleteFunc(slices.Clone(some), func(d int) bool { return d >= dims })
}

// selected is t, of x's shape and constant over its last dimensions, without these.
func selected(t *tensor.Tensor, dims int) *tensor.Tensor {
	for t.Dim() > dims {
		t = t.Select(dims, 0)
	}
	return t
}

// statistics are the mean subtracted, the factor 1/sqrt(var + eps) and the root
// mean square of the elements that both are taken over (of given statistics the
// magnitude of the mean): of x's first dims dimensions, those of each run.
func (n *normalisation) statistics(dims int) (mean, rstd, rms *tensor.Tensor) {
	if n.vari != nil {
		mean := selected(n.mean, dims)
		return mean, opdef.Map(tensor.Float64, selected(n.vari, dims), func(v float64) float64 {
			return 1 / math.Sqrt(v+n.eps)
		}), opdef.Abs(mean)
	}
	mean, rstd, rms = n.computed()
	return n.perRun(mean, dims), n.perRun(rstd, dims), n.perRun(rms, dims)
}

// perRun expands what there is one of for each mean and variance to x's first dims dimensions.
func (n *normalisation) perRun(t *tensor.Tensor, dims int) *tensor.Tensor {
	return opdef.Unreduce(t, n.x.Shape[:dims], before(dims, n.dims))
}

// computed are the statistics that are not given, one for each mean and variance.
func (n *normalisation) computed() (mean, rstd, rms *tensor.Tensor) {
	m := n.moments()
	mean = opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
		if n.rms {
			return 0
		}
		return n.rounded(centre, reduction.MeanOf(a))
	})
	rstd = opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
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
	return mean, rstd, opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
		return reduction.RootMeanSquare(a.N, a.Mean*a.Mean, a.M2)
	})
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

// A run of elements of x, and of the gradients of their results if these were asked for. What
// goes with them has a number for each or one for all: the weights and biases (of gradients no
// biases), and what else was asked for. All may be overwritten.
type run struct {
	x, up, w, b []float64
	of          [][]float64
}

// byRuns is a tensor of x's shape computed run by run from x, from up if it is not nil, and
// from tensors of x's dimensions before those of a run.
func (n *normalisation) byRuns(dt tensor.DType, up *tensor.Tensor, of []*tensor.Tensor,
	f func(dst []float64, r run)) *tensor.Tensor {
	dims, length, shared := n.run()
	affine, each := []*tensor.Tensor{n.expandAffine(n.weight, 1)}, []*tensor.Tensor{n.x}
	if up != nil {
		each = append(each, up)
	} else {
		affine = append(affine, n.expandAffine(n.bias, 0))
	}
	numbers := slices.Clone(of)
	for _, t := range affine {
		if shared {
			numbers = append(numbers, selected(t, dims))
		} else {
			each = append(each, t)
		}
	}
	return opdef.ZipAt(dt, n.x.Shape, func(lo int, dst []float64, src [][]float64) {
		if len(dst) == 0 {
			return
		}
		first, last := lo/length, (lo+len(dst)-1)/length
		runs := last - first + 1
		held := opdef.Scratch[float64](len(numbers) * runs)
		defer opdef.Release(held)
		numbersOf := make([][]float64, len(numbers))
		for k, t := range numbers {
			numbersOf[k] = (*held)[k*runs : (k+1)*runs]
			tensor.Load(t, first, numbersOf[k])
		}
		// part is elements i to j of the block, of which the numbers of runs k to l are.
		parts := make([][]float64, len(src)+len(numbers))
		part := func(i, j, k, l int) {
			for m, v := range src {
				parts[m] = v[i:j]
			}
			for m, v := range numbersOf {
				parts[len(src)+m] = v[k:l]
			}
			r, rest := run{x: parts[0], of: parts[len(src):][:len(of)]}, parts[1:len(src)]
			if up != nil {
				r.up, rest = rest[0], rest[1:]
			}
			if shared {
				rest = parts[len(src)+len(of):]
			}
			r.w = rest[0]
			if up == nil {
				r.b = rest[1]
			}
			f(dst[i:j], r)
		}
		if length == 1 {
			part(0, len(dst), 0, runs)
			return
		}
		for k := range runs {
			part(max((first+k)*length-lo, 0), min((first+k+1)*length-lo, len(dst)), k, k+1)
		}
	}, each...)
}

// plus and times store sums and products of x and k, which has an element for each or one for all.
func plus(dst, x, k []float64) {
	if len(k) == 1 {
		vmath.Affine(dst, x, k[0], 1)
		return
	}
	vmath.Add(dst, x, k)
}

func times(dst, x, k []float64) {
	if len(k) == 1 {
		vmath.Affine(dst, x, math.Copysign(0, -1), k[0])
		return
	}
	vmath.Mul(dst, x, k)
}

// centred stores (x - mean) * rstd.
func centred(dst, x, mean, rstd []float64) {
	if len(mean) == 1 {
		vmath.Affine(dst, x, -mean[0], rstd[0])
		return
	}
	vmath.Sub(dst, x, mean)
	vmath.Mul(dst, dst, rstd)
}

func (n *normalisation) forward() *tensor.Tensor {
	dims, _, _ := n.run()
	mean, rstd, _ := n.statistics(dims)
	return n.byRuns(n.x.DType, nil, []*tensor.Tensor{mean, rstd}, func(dst []float64, r run) {
		if mean, rstd := r.of[0], r.of[1]; len(mean) == 1 {
			vmath.Normalize(dst, r.x, -mean[0], rstd[0], r.w, r.b)
			return
		}
		centred(dst, r.x, r.of[0], r.of[1])
		times(dst, dst, r.w)
		plus(dst, dst, r.b)
	})
}

var one = []float64{1}

// scale is the sum of the magnitudes behind a result: |x| + rms, which the
// deviation is the difference of, the deviation again with the error of the
// variance, all times rstd and weight; and the bias.
func (n *normalisation) scale() *tensor.Tensor {
	dims, _, _ := n.run()
	mean, rstd, rms := n.statistics(dims)
	return n.byRuns(tensor.Float64, nil, []*tensor.Tensor{mean, rstd, rms}, func(dst []float64, r run) {
		mean, rstd, rms := r.of[0], r.of[1], r.of[2]
		grown := opdef.Scratch[float64](len(rstd))
		vmath.Mul(*grown, rms, rstd)
		plus(*grown, *grown, one)
		vmath.Magnitudes(dst, r.x, one, r.x, mean, *grown, rms)
		opdef.Release(grown)
		vmath.Abs(r.w, r.w)
		vmath.Abs(r.b, r.b)
		times(dst, dst, rstd)
		times(dst, dst, r.w)
		plus(dst, dst, r.b)
	})
}

// runSums are sums over the elements of each run: of h, of h*(x - mean), of magnitudes also of
// h*x. h is the gradient of a result, times its weight where those of a run are not the same.
type runSums struct {
	of                 *tensor.Tensor // the gradient that they are of
	sum, apart, whole  *tensor.Tensor // of x's dimensions before those of a run
	mean, rstd, weight *tensor.Tensor // of the same; weight is nil if h has it
	rms                *tensor.Tensor
}

// A projection adds up runSums.
type projection struct{ mean, sum, apart, whole float64 }

// sums are the runSums of the gradients of the results, or of all magnitudes.
func (n *normalisation) sums(g *opdef.Grad, magnitudes bool) *runSums {
	s := &n.summed[elements.BoolInt(magnitudes)]
	if s.of == g.Out[0] {
		return s
	}
	dims, length, shared := n.run()
	up := n.up(g)
	*s = runSums{of: g.Out[0]}
	s.mean, s.rstd, s.rms = n.statistics(dims)
	if shared {
		s.weight = selected(n.expandAffine(n.weight, 1), dims)
	}
	if length == 1 {
		if !magnitudes {
			s.sum, s.apart = up, opdef.ZipN(tensor.Float64, up.Shape, func(dst []float64, v [][]float64) {
				vmath.Sub(dst, v[1], v[2])
				vmath.Mul(dst, dst, v[0])
			}, up, n.x, s.mean)
			return s
		}
		s.sum, s.apart = opdef.Abs(up), opdef.ZipN(tensor.Float64, up.Shape, func(dst []float64, v [][]float64) {
			vmath.Sub(dst, v[1], v[2])
			vmath.Mul(dst, dst, v[0])
			vmath.Abs(dst, dst)
		}, up, n.x, s.mean)
		s.whole = opdef.ZipBlock(tensor.Float64, up, n.x, func(dst, up, x []float64) {
			vmath.Mul(dst, up, x)
			vmath.Abs(dst, dst)
		})
		return s
	}
	means := tensor.Data[float64](s.mean)
	operands := []*tensor.Tensor{up, n.x}
	if !shared && n.weight != nil {
		operands = append(operands, n.expandAffine(n.weight, 1))
	}
	folded := opdef.FoldDims(opdef.Fold[float64, projection]{
		Begin: func(acc *projection, result int) { acc.mean = means[result] },
		Add: func(acc *projection, _ int, v [][]float64) {
			if len(v) > 2 {
				vmath.Mul(v[0], v[0], v[2])
			}
			var sum, apart, whole float64
			if magnitudes {
				sum, apart, whole = vmath.ProjectionMagnitudes(v[0], v[1], acc.mean)
			} else {
				sum, apart = vmath.Projections(v[0], v[1], acc.mean)
			}
			acc.sum, acc.apart, acc.whole = acc.sum+sum, acc.apart+apart, acc.whole+whole
		},
		Join: func(acc *projection, next projection) {
			acc.sum, acc.apart, acc.whole = acc.sum+next.sum, acc.apart+next.apart, acc.whole+next.whole
		},
	}, elements.AllDims(n.x.Dim())[dims:], false, operands...)
	get := func(of func(*projection) float64) *tensor.Tensor { return opdef.Collect(folded, tensor.Float64, of) }
	s.sum = get(func(p *projection) float64 { return p.sum })
	s.apart = get(func(p *projection) float64 { return p.apart })
	s.whole = get(func(p *projection) float64 { return p.whole })
	return s
}

// up is the gradient of the result, of x's shape.
func (n *normalisation) up(g *opdef.Grad) *tensor.Tensor { return g.Out[0].Reshape(n.x.Shape...) }

// grads are the gradients of input, weight and bias, with xhat the normalised
// elements: rstd*(h - mean(h) - xhat*mean(h*xhat)) with h = g*weight,
// sum(g*xhat) and sum(g). With magnitudes they are the sums of the magnitudes
// of their terms, xhat being known to e = rstd*(|x| + rms) and all to the
// error of rstd.
func (n *normalisation) grads(g *opdef.Grad, magnitudes bool) opdef.Grads {
	gr := opdef.Grads{}
	if g.Need("input") {
		gr.Set("input", n.inputGrad(g, magnitudes).Reshape(n.shape...))
	}
	if n.weight != nil && g.Need("weight") {
		t := tensor.Full(tensor.Float64, n.weight.Shape, math.NaN())
		if !n.unplaced {
			t = n.weightGrad(g, magnitudes).Reshape(n.weight.Shape...)
		}
		gr.Set("weight", t)
	}
	if n.bias != nil && g.Need("bias") {
		gr.Set("bias", n.biasGrad(g, magnitudes).Reshape(n.bias.Shape...))
	}
	return gr
}

// weightGrad is the gradient of the weight, of its elements or magnitudes.
func (n *normalisation) weightGrad(g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	dims, _, shared := n.run()
	if shared {
		s := n.sums(g, magnitudes)
		t := opdef.ZipBlock(tensor.Float64, s.apart, s.rstd, vmath.Mul)
		if magnitudes {
			t = opdef.ZipN(tensor.Float64, s.sum.Shape, func(dst []float64, v [][]float64) {
				for i, sum := range v[0] {
					rstd, rms := v[3][i], v[4][i]
					dst[i] = rstd * (v[1][i]*(1+rms*rstd) + v[2][i] + rms*sum)
				}
			}, s.sum, s.apart, s.whole, s.rstd, s.rms)
		}
		return opdef.Sum(tensor.Float64, t, before(dims, n.others()), false)
	}
	mean, rstd, rms := n.statistics(dims)
	t := n.byRuns(tensor.Float64, n.up(g), []*tensor.Tensor{mean, rstd, rms}, func(dst []float64, r run) {
		mean, rstd, rms := r.of[0], r.of[1], r.of[2]
		if !magnitudes {
			centred(dst, r.x, mean, rstd)
		} else {
			grown := [1]float64{rstd[0] * (1 + rms[0]*rstd[0])}
			rms[0] *= rstd[0]
			vmath.Magnitudes(dst, r.x, rstd, r.x, mean, grown[:], rms)
			vmath.Abs(r.up, r.up)
		}
		vmath.Mul(dst, dst, r.up)
	})
	return opdef.Sum(tensor.Float64, t, n.others(), false)
}

// biasGrad is the gradient of the bias.
func (n *normalisation) biasGrad(g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	if dims, _, shared := n.run(); shared {
		return opdef.Sum(tensor.Float64, n.sums(g, magnitudes).sum, before(dims, n.others()), false)
	}
	up := n.up(g)
	if magnitudes {
		up = opdef.Abs(up)
	}
	return opdef.Sum(tensor.Float64, up, n.others(), false)
}

// inputGrad is the gradient of the input.
func (n *normalisation) inputGrad(g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	dims, _, _ := n.run()
	if n.vari != nil {
		_, rstd, rms := n.statistics(dims)
		return n.byRuns(n.x.DType, n.up(g), []*tensor.Tensor{rstd, rms}, func(dst []float64, r run) {
			times(dst, r.up, r.w)
			if !magnitudes {
				times(dst, dst, r.of[0])
				return
			}
			for i, rstd := range r.of[0] {
				r.of[0][i] = rstd * (1 + r.of[1][i]*rstd)
			}
			times(dst, dst, r.of[0])
			vmath.Abs(dst, dst)
		})
	}
	s := n.sums(g, magnitudes)
	k := 1 / float64(elements.NumelOver(n.x.Shape, n.dims))
	// The means over what has one mean and variance, with weights.
	total := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil {
			return nil
		}
		if s.weight != nil && n.weight != nil {
			t = opdef.ZipN(tensor.Float64, t.Shape, func(dst []float64, v [][]float64) {
				vmath.Mul(dst, v[0], v[1])
				if magnitudes {
					vmath.Abs(dst, dst)
				}
			}, t, s.weight)
		}
		return elements.Scaled(opdef.Sum(tensor.Float64, t, before(dims, n.dims), false), k)
	}
	sum, apart, whole := total(s.sum), total(s.apart), total(s.whole)
	mean, rstd, rms := n.computed()
	// The factors of h, of x - mean, of |x| (magnitudes only), and what is added.
	factor := func(of func(sum, apart, whole, rstd, rms float64) float64) *tensor.Tensor {
		operands := []*tensor.Tensor{sum, apart, rstd, rms}
		if magnitudes {
			operands = append(operands, whole)
		}
		t := opdef.ZipN(tensor.Float64, rstd.Shape, func(dst []float64, v [][]float64) {
			for i := range dst {
				sum, apart, rstd, rms, whole := v[0][i], v[1][i], v[2][i], v[3][i], 0.0
				if magnitudes {
					whole = v[4][i]
				}
				if n.rms || n.noMean {
					sum = 0
				}
				if n.noVariance {
					apart = 0
				}
				dst[i] = of(sum, apart*rstd, (whole+rms*v[0][i])*rstd, rstd, rms)
			}
		}, operands...)
		return n.perRun(tensor.New(tensor.Float64, t.Shape, tensor.Data[float64](t)), dims)
	}
	if !magnitudes {
		return n.byRuns(n.x.DType, n.up(g), []*tensor.Tensor{n.perRun(mean, dims), n.perRun(rstd, dims),
			factor(func(_, hx, _, rstd, _ float64) float64 { return -rstd * (rstd * hx) }),
			factor(func(h, _, _, rstd, _ float64) float64 { return -rstd * h }),
		}, func(dst []float64, r run) {
			times(r.up, r.up, r.w)
			vmath.Combine(dst, r.up, r.of[1], r.x, r.of[0], r.of[2], r.of[3])
		})
	}
	grown := func(rstd, rms float64) float64 { return rstd * (1 + rms*rstd) }
	return n.byRuns(tensor.Float64, n.up(g), []*tensor.Tensor{n.perRun(mean, dims),
		factor(func(_, _, _, rstd, rms float64) float64 { return grown(rstd, rms) }),
		factor(func(_, hx, he, rstd, rms float64) float64 { return grown(rstd, rms) * rstd * (hx + he) }),
		factor(func(_, hx, _, rstd, rms float64) float64 { return grown(rstd, rms) * rstd * hx }),
		factor(func(h, hx, _, rstd, rms float64) float64 { return grown(rstd, rms) * (h + rstd*rms*hx) }),
	}, func(dst []float64, r run) {
		times(r.up, r.up, r.w)
		times(r.up, r.up, r.of[1])
		vmath.Abs(r.up, r.up)
		vmath.Magnitudes(dst, r.x, r.of[3], r.x, r.of[0], r.of[2], r.of[4])
		vmath.Add(dst, dst, r.up)
	})
}

// partialSums are, for the gradients of weight and bias, the sums of the magnitudes of
// the partial sums as torch's CPU kernels form them in the gradient's dtype, row after
// row, and of the terms, which are rounded too.
func (n *normalisation) partialSums(g *opdef.Grad) opdef.Grads {
	up := n.up(g)
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
