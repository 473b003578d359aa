package normalization

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// runSums are sums over the elements of each run, of x's dimensions before those of a run: of h,
// of h*(x - mean) and, of magnitudes, of h*x, with h the gradient of a result, times its weight if
// a run has all weights. Then weight and bias are the sums over all runs that their gradients are.
type runSums struct {
	of                *tensor.Tensor // the gradient that they are of
	sum, apart, whole *tensor.Tensor
	mean, rstd, rms   *tensor.Tensor // of the runs
	weight, bias      *tensor.Tensor // nil if a run has one weight
}

// sums are the runSums of the gradients of the results, or of all magnitudes.
func (n *normalisation) sums(g *opdef.Grad, magnitudes bool) *runSums {
	s := &n.summed[elements.BoolInt(magnitudes)]
	if s.of == g.Out[0] {
		return s
	}
	dims, length, shared := n.run()
	*s = runSums{of: g.Out[0]}
	s.mean, s.rstd, s.rms = n.statistics(dims)
	switch {
	case length == 1:
		n.sumElements(s, magnitudes)
	case shared:
		n.sumRuns(s, dims, magnitudes)
	default:
		n.sumRowsAndColumns(s, dims, length, magnitudes)
	}
	return s
}

// up is the gradient of the result, of x's shape.
func (n *normalisation) up(of *tensor.Tensor) *tensor.Tensor { return of.Reshape(n.x.Shape...) }

// sumElements are the sums of runs of one element.
func (n *normalisation) sumElements(s *runSums, magnitudes bool) {
	up := n.up(s.of)
	zip := func(f func(dst []float64, v [][]float64), ts ...*tensor.Tensor) *tensor.Tensor {
		return opdef.ZipN(tensor.Float64, up.Shape, func(dst []float64, v [][]float64) {
			f(dst, v)
			if magnitudes {
				vmath.Abs(dst, dst)
			}
		}, ts...)
	}
	s.sum = zip(func(dst []float64, v [][]float64) { copy(dst, v[0]) }, up)
	s.apart = zip(func(dst []float64, v [][]float64) {
		vmath.Sub(dst, v[1], v[2])
		vmath.Mul(dst, dst, v[0])
	}, up, n.x, s.mean)
	s.whole = zip(func(dst []float64, v [][]float64) { vmath.Mul(dst, v[0], v[1]) }, up, n.x)
}

// A projection adds up runSums.
type projection struct{ mean, sum, apart, whole float64 }

// add adds elements of x and their h.
func (p *projection) add(h, x []float64, magnitudes bool) {
	var sum, apart, whole float64
	if magnitudes {
		sum, apart, whole = vmath.ProjectionMagnitudes(h, x, p.mean)
	} else {
		sum, apart = vmath.Projections(h, x, p.mean)
	}
	p.join(projection{0, sum, apart, whole})
}

func (p *projection) join(next projection) {
	p.sum, p.apart, p.whole = p.sum+next.sum, p.apart+next.apart, p.whole+next.whole
}

// sumRuns are the sums of runs that have one weight.
func (n *normalisation) sumRuns(s *runSums, dims int, magnitudes bool) {
	means := tensor.Data[float64](s.mean)
	folded := opdef.FoldDims(opdef.Fold[float64, projection]{
		Begin: func(p *projection, result int) { p.mean = means[result] },
		Add:   func(p *projection, _ int, v [][]float64) { p.add(v[0], v[1], magnitudes) },
		Join:  func(p *projection, next projection) { p.join(next) },
	}, elements.AllDims(n.x.Dim())[dims:], false, n.up(s.of), n.x)
	get := func(of func(*projection) float64) *tensor.Tensor { return opdef.Collect(folded, tensor.Float64, of) }
	s.sum = get(func(p *projection) float64 { return p.sum })
	s.apart = get(func(p *projection) float64 { return p.apart })
	s.whole = get(func(p *projection) float64 { return p.whole })
}

// Sizes of what sumRowsAndColumns takes together: elements that are loaded at a time, elements
// of a band of rows, which have sums of columns of their own, and rows that it has at least.
const (
	sumTile  = 1 << 14
	sumBand  = 1 << 20
	bandRows = 64
)

// sumRowsAndColumns are the sums of runs that have all weights, which are rows of x, and those
// of the columns: both from elements that are read once. Bands of rows and strips of columns are
// fixed by the sizes and joined in order.
func (n *normalisation) sumRowsAndColumns(s *runSums, dims, length int, magnitudes bool) {
	up, rows := n.up(s.of), tensor.Numel(n.x.Shape[:dims])
	weights := affineData(n.weight, length, 1)
	mean, rstd, rms := tensor.Data[float64](s.mean), tensor.Data[float64](s.rstd), tensor.Data[float64](s.rms)
	wide := min(length, sumTile)
	tall := max(bandRows, sumBand/wide)
	strips, bands := (length+wide-1)/wide, (rows+tall-1)/tall
	sums := tensor.Make[projection](strips * rows)
	columns := tensor.Make[float64](2 * bands * length)
	tensor.Parallel(bands*strips, 1, func(a, b int) {
		tile := max(1, sumTile/wide)
		held := opdef.Scratch[float64](3 * tile * wide)
		defer opdef.Release(held)
		for task := a; task < b; task++ {
			band, from := task/strips, task%strips*wide
			to := min(from+wide, length)
			w := to - from
			ofBand := columns[2*band*length:]
			weightSums, biasSums := ofBand[from:to], ofBand[length+from:length+to]
			last := min((band+1)*tall, rows)
			for r := band * tall; r < last; r += tile {
				h := min(tile, last-r)
				ups, xs, xhats := (*held)[:h*w], (*held)[h*w:2*h*w], (*held)[2*h*w:3*h*w]
				loadTile(ups, up, r*length+from, w, length)
				loadTile(xs, n.x, r*length+from, w, length)
				if magnitudes {
					vmath.Abs(ups, ups)
				}
				for i := range h {
					x, xhat, k := xs[i*w:(i+1)*w], xhats[i*w:(i+1)*w], r+i
					if !magnitudes {
						vmath.Affine(xhat, x, -mean[k], rstd[k])
						continue
					}
					grown := [1]float64{rstd[k] * (1 + rms[k]*rstd[k])}
					rest := [1]float64{rms[k] * rstd[k]}
					vmath.Magnitudes(xhat, x, rstd[k:k+1], x, mean[k:k+1], grown[:], rest[:])
				}
				vmath.Mul(xhats, xhats, ups)
				addRows(weightSums, xhats)
				for i := range h {
					of := xhats[i*w : (i+1)*w]
					vmath.Mul(of, ups[i*w:(i+1)*w], weights[from:to])
					p := &sums[from/wide*rows+r+i]
					p.mean = mean[r+i]
					p.add(of, xs[i*w:(i+1)*w], magnitudes)
				}
				addRows(biasSums, ups)
			}
		}
	})
	for k := 1; k < strips; k++ {
		for r := range rows {
			sums[r].join(sums[k*rows+r])
		}
	}
	get := func(of func(*projection) float64) *tensor.Tensor {
		v := tensor.Make[float64](rows)
		for r := range v {
			v[r] = of(&sums[r])
		}
		return tensor.New(tensor.Float64, n.x.Shape[:dims], v)
	}
	s.sum = get(func(p *projection) float64 { return p.sum })
	s.apart = get(func(p *projection) float64 { return p.apart })
	s.whole = get(func(p *projection) float64 { return p.whole })
	all := tensor.Make[float64](2 * length)
	for band := range bands {
		vmath.Add(all, all, columns[2*band*length:2*(band+1)*length])
	}
	s.weight = tensor.New(tensor.Float64, []int{length}, all[:length])
	s.bias = tensor.New(tensor.Float64, []int{length}, all[length:])
}

// loadTile loads rows of w elements, which begin length elements apart.
func loadTile(dst []float64, t *tensor.Tensor, from, w, length int) {
	if w == length {
		tensor.Load(t, from, dst)
		return
	}
	for i := 0; i < len(dst); i += w {
		tensor.Load(t, from, dst[i:i+w])
		from += length
	}
}

// addRows adds the rows of v, which have as many elements as dst, to dst: pairwise, where they are.
func addRows(dst, v []float64) {
	w := len(dst)
	for n := len(v) / w; n > 1; n -= n / 2 {
		half := n / 2 * w
		vmath.Add(v[:half], v[:half], v[n*w-half:n*w])
	}
	vmath.Add(dst, dst, v[:w])
}

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
	dims, _, _ := n.run()
	s := n.sums(g, magnitudes)
	if s.weight != nil {
		return s.weight
	}
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

// biasGrad is the gradient of the bias.
func (n *normalisation) biasGrad(g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	dims, _, _ := n.run()
	s := n.sums(g, magnitudes)
	if s.bias != nil {
		return s.bias
	}
	return opdef.Sum(tensor.Float64, s.sum, before(dims, n.others()), false)
}

// inputGrad is the gradient of the input.
func (n *normalisation) inputGrad(g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	dims, _, _ := n.run()
	up := n.up(g.Out[0])
	if n.vari != nil {
		return n.givenGrad(up, dims, magnitudes)
	}
	s := n.sums(g, magnitudes)
	k := 1 / float64(elements.NumelOver(n.x.Shape, n.dims))
	var weight *tensor.Tensor
	if n.weight != nil && s.weight == nil {
		weight = selected(n.expandAffine(n.weight, 1), dims)
	}
	// The means over what has one mean and variance, with weights.
	total := func(t *tensor.Tensor) *tensor.Tensor {
		t = weighted(t, weight, magnitudes)
		return elements.Scaled(opdef.Sum(tensor.Float64, t, before(dims, n.dims), false), k)
	}
	sum, apart := total(s.sum), total(s.apart)
	var whole *tensor.Tensor
	if magnitudes {
		whole = total(s.whole)
	}
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
		lead := func(rstd float64) float64 {
			if n.undivided {
				return 1
			}
			return rstd
		}
		of := []*tensor.Tensor{n.perRun(mean, dims),
			factor(func(_, _, _, rstd, _ float64) float64 { return lead(rstd) }),
			factor(func(_, hx, _, rstd, _ float64) float64 { return -lead(rstd) * (rstd * hx) }),
			factor(func(h, _, _, rstd, _ float64) float64 { return -lead(rstd) * h }),
		}
		return n.byRuns(n.x.DType, up, n.weight, nil, of, func(dst []float64, r run) {
			times(r.up, r.up, r.w)
			if n.coarse&share != 0 {
				n.combineRounded(dst, r)
				return
			}
			vmath.Combine(dst, r.up, r.of[1], r.x, r.of[0], r.of[2], r.of[3])
		})
	}
	grown := func(rstd, rms float64) float64 { return rstd * (1 + rms*rstd) }
	of := []*tensor.Tensor{n.perRun(mean, dims),
		factor(func(_, _, _, rstd, rms float64) float64 { return grown(rstd, rms) }),
		factor(func(_, hx, he, rstd, rms float64) float64 { return grown(rstd, rms) * rstd * (hx + he) }),
		factor(func(_, hx, _, rstd, rms float64) float64 { return grown(rstd, rms) * rstd * hx }),
		factor(func(h, hx, _, rstd, rms float64) float64 { return grown(rstd, rms) * (h + rstd*rms*hx) }),
	}
	return n.byRuns(tensor.Float64, up, n.weight, nil, of, addMagnitudes)
}

// addMagnitudes stores the sum of the magnitudes of the terms of an input's gradient.
func addMagnitudes(dst []float64, r run) {
	times(r.up, r.up, r.w)
	times(r.up, r.up, r.of[1])
	vmath.Abs(r.up, r.up)
	vmath.Magnitudes(dst, r.x, r.of[3], r.x, r.of[0], r.of[2], r.of[4])
	vmath.Add(dst, dst, r.up)
}

// givenGrad is the gradient of the input where the mean and the variance are given.
func (n *normalisation) givenGrad(up *tensor.Tensor, dims int, magnitudes bool) *tensor.Tensor {
	_, rstd, rms := n.statistics(dims)
	of := []*tensor.Tensor{rstd, rms}
	return n.byRuns(n.x.DType, up, n.weight, nil, of, func(dst []float64, r run) {
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

// weighted is t times weight, of magnitudes their absolute values; weight may be nil.
func weighted(t, weight *tensor.Tensor, magnitudes bool) *tensor.Tensor {
	if weight == nil {
		return t
	}
	return opdef.ZipN(tensor.Float64, t.Shape, func(dst []float64, v [][]float64) {
		vmath.Mul(dst, v[0], v[1])
		if magnitudes {
			vmath.Abs(dst, dst)
		}
	}, t, weight)
}

// combineRounded stores the gradient of the input from its three terms, the second of which is rounded before it is
// multiplied by 1/deviation and weight.
func (n *normalisation) combineRounded(dst []float64, r run) {
	of := func(v []float64, i int) float64 { return v[min(i, len(v)-1)] }
	for i, x := range r.x {
		rstd := of(r.of[1], i)
		second, after := (x-of(r.of[0], i))*of(r.of[2], i), rstd*of(r.w, i)
		if after != 0 {
			second = n.rounded(share, second/after) * after
		}
		dst[i] = r.up[i]*rstd + second + of(r.of[3], i)
	}
}

// partialSums are, for the gradients of weight and bias, the sums of the magnitudes of
// the partial sums as torch's CPU kernels form them in the gradient's dtype, row after
// row, and of the terms, which are rounded too.
func (n *normalisation) partialSums(g *opdef.Grad) opdef.Grads {
	up := n.up(g.Out[0])
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
