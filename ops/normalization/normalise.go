package normalization

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
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

	// Mistakes of kernels: the variance lacks elements, or eps is added to the square root.
	correction float64
	skewed     func(a reduction.Moments) reduction.Moments // of other numbers, nil for none
	outside    bool
	floored    bool // the larger of eps and the variance is taken
	unrooted   bool // it is divided by the variance
	// Mistakes in the gradient of the input: it lacks the part through the mean or the part
	// through the variance.
	noMean, noVariance bool
	coarse             statistic // those that are rounded to grid
	grid               opdef.Grid
	biased             bool // the running variance is that of n
	square             bool // the mean square replaces the variance
	uncentred          bool // the mean is not subtracted
	undivided          bool // the gradient of the input is not divided by the deviation
	rooted             bool // the running variance is that of the deviation
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

// leastRun is the smallest number of elements that is worth a run. Fewer are computed one by one.
const leastRun = 16

// run splits the dimensions of x. All statistics are constant over the last ones: run
// returns the number of dimensions before them, and the number of elements of the last
// ones. These elements have one weight and bias together (shared), or one each.
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
	if length < leastRun || !shared && length != elements.NumelOver(n.x.Shape, n.affine) {
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

// statistics returns the subtracted mean, the factor 1/sqrt(var + eps) and the root mean
// square of the elements, for each run: all have x's first dims dimensions. If the
// statistics are given, the last one is the magnitude of the mean.
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

// perRun expands a tensor with one element for each mean to x's first dims dimensions.
func (n *normalisation) perRun(t *tensor.Tensor, dims int) *tensor.Tensor {
	return opdef.Unreduce(t, n.x.Shape[:dims], before(dims, n.dims))
}

// computed are the statistics that are not given, one for each mean and variance.
func (n *normalisation) computed() (mean, rstd, rms *tensor.Tensor) {
	m := n.moments()
	mean = opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
		if n.rms || n.uncentred {
			return 0
		}
		return n.rounded(centre, reduction.MeanOf(n.taken(a)))
	})
	rstd = opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
		a = n.taken(a)
		v := a.M2 / (a.N - n.correction)
		if off := n.rounded(centre, a.Mean) - a.Mean; n.coarse&apart != 0 && !n.rms {
			v += off * off
		}
		if n.rms || n.square {
			v += a.Mean * a.Mean
			if math.IsInf(a.Mean, 0) { // infinite squares, whose distances from the mean are NaN
				v = math.Inf(1)
			}
		}
		switch {
		case n.unrooted:
			return 1 / (v + n.eps)
		case n.outside:
			return 1 / (math.Sqrt(v) + n.eps)
		case n.floored:
			return 1 / math.Sqrt(max(v, n.eps))
		}
		v = n.rounded(variance, v)
		return n.rounded(inverse, 1/n.rounded(deviation, math.Sqrt(v+n.eps)))
	})
	return mean, rstd, opdef.Collect(m, tensor.Float64, func(a *reduction.Moments) float64 {
		return reduction.RootMeanSquare(a.N, a.Mean*a.Mean, a.M2)
	})
}

// taken are the moments that a kernel takes those for.
func (n *normalisation) taken(a *reduction.Moments) *reduction.Moments {
	if n.skewed == nil {
		return a
	}
	b := n.skewed(*a)
	return &b
}

// A statistic is a number that a kernel may keep in fewer bits than it computes with.
type statistic int

const (
	centre statistic = 1 << iota
	variance
	deviation // the root of variance and eps
	inverse   // 1 over that
	apart     // the variance is about the mean as it is kept
	share     // what flows through the variance to each element
)

// rounded is a statistic of value v as it is kept.
func (n *normalisation) rounded(s statistic, v float64) float64 {
	if n.coarse&s == 0 {
		return v
	}
	return n.grid.Round(v)
}

// A run holds elements of x, and the gradients of their results if the caller wants them. Weights,
// biases and other numbers of a run have one element for each of them or one for all. The caller may
// overwrite all except weights and biases.
type run struct {
	x, up, w, b []float64
	of          [mostNumbers][]float64
}

// mostNumbers is the largest number of tensors that give a run one number each.
const mostNumbers = 5

// byRuns computes a tensor of x's shape run by run. Its inputs are x, up (unless it is nil), weight and
// bias (1 and 0 if they are nil), and tensors of x's dimensions before those of a run.
func (n *normalisation) byRuns(dt tensor.DType, up, weight, bias *tensor.Tensor, of []*tensor.Tensor,
	f func(dst []float64, r run)) *tensor.Tensor {
	dims, length, shared := n.run()
	numbers, each := slices.Clone(of), []*tensor.Tensor{n.x}
	if up != nil {
		each = append(each, up)
	}
	var weights, biases []float64
	if shared {
		numbers = append(numbers, selected(n.expandAffine(weight, 1), dims), selected(n.expandAffine(bias, 0), dims))
	} else {
		weights, biases = affineData(weight, length, 1), affineData(bias, length, 0)
	}
	return opdef.ZipAt(dt, n.x.Shape, func(lo int, dst []float64, src [][]float64) {
		if len(dst) == 0 {
			return
		}
		first, last := lo/length, (lo+len(dst)-1)/length
		runs := last - first + 1
		held := opdef.Scratch[float64](len(numbers) * runs)
		defer opdef.Release(held)
		for k, t := range numbers {
			tensor.Load(t, first, (*held)[k*runs:(k+1)*runs])
		}
		// part takes the elements i to j of the block and the numbers of runs k to l.
		part := func(i, j, k, l int) {
			number := func(m int) []float64 { return (*held)[m*runs:][k:l] }
			r := run{x: src[0][i:j]}
			for m := range of {
				r.of[m] = number(m)
			}
			if up != nil {
				r.up = src[1][i:j]
			}
			if shared {
				r.w, r.b = number(len(of)), number(len(of)+1)
			} else {
				at := (lo + i) % length
				r.w, r.b = weights[at:at+j-i], biases[at:at+j-i]
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

// affineData are the elements of a weight or bias, n times v if it is nil.
func affineData(t *tensor.Tensor, n int, v float64) []float64 {
	if t == nil {
		t = tensor.Full(tensor.Float64, []int{n}, v)
	}
	return tensor.Data[float64](t)
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
		vmath.Scale(dst, x, k[0])
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
	of := []*tensor.Tensor{mean, rstd}
	return n.byRuns(n.x.DType, nil, n.weight, n.bias, of, func(dst []float64, r run) {
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

// scale is the sum of the magnitudes behind a result. The deviation from the mean adds
// |x| + rms, and once more its own magnitude for the error of the variance. Both are
// multiplied by rstd and weight. The magnitude of the bias is added.
func (n *normalisation) scale() *tensor.Tensor {
	dims, _, _ := n.run()
	mean, rstd, rms := n.statistics(dims)
	of := []*tensor.Tensor{mean, rstd, rms}
	return n.byRuns(tensor.Float64, nil, absolute(n.weight), absolute(n.bias), of, func(dst []float64, r run) {
		mean, rstd, rms := r.of[0], r.of[1], r.of[2]
		grown := opdef.Scratch[float64](len(rstd))
		vmath.Mul(*grown, rms, rstd)
		plus(*grown, *grown, one)
		vmath.Magnitudes(dst, r.x, one, r.x, mean, *grown, rms)
		opdef.Release(grown)
		times(dst, dst, rstd)
		times(dst, dst, r.w)
		plus(dst, dst, r.b)
	})
}

// absolute are the magnitudes of a weight or bias, nil if it is.
func absolute(t *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return nil
	}
	return opdef.Abs(t)
}

// After is the change of the running statistics, whose channels are
// dimension 1 of x: (1-momentum)*old + momentum*new, new being the average over
// the batch where it has statistics of its own.
func (n *normalisation) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return n.moved(func(_ tensor.DType, old, now float64) float64 {
		return (1-n.moves.momentum)*old + n.moves.momentum*now
	}), nil
}

// moved are the running statistics after a change of each element.
func (n *normalisation) moved(change func(d tensor.DType, old, now float64) float64) map[string][]*tensor.Tensor {
	if n.moves == nil || n.x.Numel() == 0 {
		return nil
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
				return change(old.DType, o, now)
			}))
		}
	}
	move("running_mean", n.moves.mean, reduction.MeanOf)
	move("running_var", n.moves.vari, func(a *reduction.Moments) float64 {
		switch {
		case n.biased:
			return a.M2 / a.N
		case n.rooted:
			return math.Sqrt(a.M2 / (a.N - 1))
		}
		return a.M2 / (a.N - 1)
	})
	return after
}

// AfterElse is the change of the running statistics by a momentum in their dtype, to which torch's CPU kernels
// round it. In bfloat16 they round both products and their sum, too.
func (n *normalisation) AfterElse() map[string][][]*tensor.Tensor {
	after := map[string][][]*tensor.Tensor{}
	for _, change := range []func(d tensor.DType, old, now float64) float64{
		func(d tensor.DType, old, now float64) float64 {
			m := d.Round(n.moves.momentum)
			return (1-m)*old + m*now
		},
		func(d tensor.DType, old, now float64) float64 {
			m := d.Round(n.moves.momentum)
			return d.Round(d.Round(1-m)*old) + d.Round(m*d.Round(now))
		},
	} {
		for arg, ts := range n.moved(change) {
			if after[arg] == nil {
				after[arg] = [][]*tensor.Tensor{nil}
			}
			after[arg][0] = append(after[arg][0], ts...)
		}
	}
	return after
}

// AfterScale is the sum of the magnitudes behind the running statistics: elements
// cancel in a mean, and in a variance that is computed from the mean square.
func (n *normalisation) AfterScale() map[string][]*tensor.Tensor {
	if n.moves == nil || n.x.Numel() == 0 {
		return nil
	}
	perChannel := func(t *tensor.Tensor, fewer int) *tensor.Tensor { // the sum over so many fewer than there are
		sum := opdef.Sum(tensor.Float64, t, n.others(), false)
		return elements.Scaled(sum, 1/float64(max(1, t.Numel()/sum.Numel()-fewer)))
	}
	after := map[string][]*tensor.Tensor{}
	move := func(arg string, old, magnitude *tensor.Tensor) {
		if old != nil {
			after[arg] = elements.Single(opdef.Zip(tensor.Float64, old, magnitude, func(o, now float64) float64 {
				return math.Abs((1-n.moves.momentum)*o) + math.Abs(n.moves.momentum)*now
			}))
		}
	}
	move("running_mean", n.moves.mean, perChannel(opdef.Abs(n.x), 0))
	move("running_var", n.moves.vari, perChannel(opdef.Map(tensor.Float64, n.x, func(x float64) float64 {
		return x * x
	}), 1)) // a variance is divided by one fewer
	return after
}
