package replay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// A projection is a value of which blocks of columns were added up with random signs, after
// Freivalds, and compared with the call on arguments that were: C x with A (B x). It takes one
// 1/projectedWidth of the operations. A wrong element is as far off in the sum as by itself,
// whereas rounding of the others adds up like the root of their number.
//
// If each element is off by no more than b, a sum over elements with random signs is off by
// no more than t times the root of the sum of the squares of b, but for a probability of
// 2 exp(-t*t/2). Of the terms of b, the ULPs are those of the recorded elements; the roots of the
// sums of squares of S are no larger than the S of the call on arguments whose columns are
// roots of sums of squares, by Minkowski's inequality.
//
// What is far off decides nothing by itself: its elements are compared one by one.
type projection struct {
	largest float64 // of differences over what is allowed
	cells   []cuts  // blocks to look at
}

const (
	projectedWidth = 256     // columns of a block
	projectedCells = 8       // that are looked at, those that are off most
	projectedRisk  = 1e-9    // that a difference of a sound value is larger than allowed
	projectedChunk = 1 << 24 // elements of a tensor that are projected at a time
	leastProjected = 16      // columns, of which a sum says more than they do
)

// A cell is a block of a row, and how far it is off.
type cell struct {
	index []int // in the projected value
	ratio float64
}

// along is the last label of a value along which it can be projected, Uncut if there is none.
func (s *sampler) along(v *sampledValue, got *tensor.Tensor) int {
	along := opdef.Uncut
	for _, l := range s.axes.Own(v.labels, got.Shape, s.sizes) {
		if s.linear(v, l) && got.DType.Size() > 1 { // roundings to 8 bits hide what is wrong
			along = l
		}
	}
	return along
}

// project projects a value along a label.
func (s *sampler) project(got *tensor.Tensor, v *sampledValue, precision tensor.DType) *projection {
	own := s.axes.Own(v.labels, got.Shape, s.sizes)
	p := s.along(v, got)
	signs := randomSigns(s.sizes[p], s.random(v))
	dim := slices.Index(v.labels, p)

	// Rows are taken some at a time, along the largest of the other labels.
	row, rows := opdef.Uncut, 1
	for _, l := range own {
		if n := s.sizes[l]; l != p && n > rows {
			row, rows = l, n
		}
	}
	most := got.Numel()
	for _, a := range s.bound.Tensors() {
		most = max(most, a.Tensor.Numel())
	}
	step := max(1, min(rows, projectedChunk/max(1, most/rows)))

	type pair struct{ sum, root *tensor.Tensor }
	kept := map[*tensor.Tensor]pair{} // of what has no rows
	sums := func(t *tensor.Tensor, labels []int, at cuts) pair {
		d := slices.Index(labels, p)
		if d < 0 || t.Shape[d] != s.sizes[p] {
			part := s.take(t, labels, at)
			return pair{part, part}
		}
		hasRows := slices.Contains(labels, row)
		if k, ok := kept[t]; ok && !hasRows {
			return k
		}
		var k pair
		k.sum, k.root = blockSums(s.take(t, labels, at), d, signs)
		if !hasRows {
			kept[t] = k
		}
		return k
	}
	out := &projection{}
	var worst []cell
	for lo := 0; lo < rows; lo += step {
		at := cuts{}
		if row != opdef.Uncut {
			at[row] = upTo(lo, min(lo+step, rows))
		}
		of := map[string][]pair{}
		args := func(root bool) *opdef.Call {
			seen := map[string]int{}
			return s.bound.Map(func(a opdef.Arg) *tensor.Tensor {
				labels := s.axes.Of(a)
				if labels == nil {
					return a.Tensor
				}
				k := seen[a.Name]
				seen[a.Name]++
				if k == len(of[a.Name]) {
					of[a.Name] = append(of[a.Name], sums(a.Tensor, labels, at))
				}
				if x := of[a.Name][k]; root {
					return x.root
				} else {
					return x.sum
				}
			})
		}
		var sumOut, rootOut []*tensor.Tensor
		for _, t := range v.out {
			k := sums(t, s.axes.Out, at)
			sumOut, rootOut = append(sumOut, k.sum), append(rootOut, k.root)
		}
		want, bound := v.make(args(false), sumOut)
		_, rootBound := v.make(args(true), rootOut)
		g := sums(got, v.labels, at)
		w, x, root := tensor.Data[float64](want), tensor.Data[float64](g.sum), tensor.Data[float64](g.root)
		var scale []float64
		if rootBound.Scale != nil {
			scale = tensor.Data[float64](rootBound.Scale())
		}
		allowed := newAllowance(bound, got.DType, precision, len(w)*((rows+step-1)/step))
		for i := range w {
			big := 0.0
			if scale != nil {
				big = scale[i]
			}
			ratio := math.Abs(x[i]-w[i]) / allowed.of(root[i], big)
			switch wild := !finite(x[i]); {
			case wild && !finite(w[i]):
				ratio = 1 // it says nothing, but is worth a look
			case math.IsNaN(ratio):
				ratio = math.Inf(1)
			}
			if ratio > out.largest {
				out.largest = ratio
			}
			if len(worst) < projectedCells || ratio > worst[len(worst)-1].ratio {
				index := tensor.Unravel(i, want.Shape)
				if d := slices.Index(v.labels, row); d >= 0 && row != opdef.Uncut {
					index[d] += lo
				}
				for d, l := range v.labels { // the block is looked at along all of these
					if !slices.Contains(own, l) {
						index[d] = 0
					}
				}
				worst = offered(worst, cell{index, ratio})
			}
		}
	}
	elements := 0
	for _, c := range worst {
		at := cuts{}
		for _, l := range own {
			i := c.index[slices.Index(v.labels, l)]
			at[l] = []int{i}
			if l == p {
				at[l] = upTo(i*projectedWidth, min((i+1)*projectedWidth, got.Shape[dim]))
			}
		}
		if elements += numelOf(got.Shape, v.labels, at); len(out.cells) > 0 && elements > s.elements() {
			break
		}
		out.cells = append(out.cells, at)
	}
	return out
}

// offered are the cells that are off most, with another one among them if it is.
func offered(worst []cell, c cell) []cell {
	if i := slices.IndexFunc(worst, func(w cell) bool { return slices.Equal(w.index, c.index) }); i >= 0 {
		worst[i].ratio = max(worst[i].ratio, c.ratio)
	} else {
		worst = append(worst, c)
	}
	slices.SortStableFunc(worst, func(a, b cell) int { return cmp.Compare(b.ratio, a.ratio) })
	return worst[:min(len(worst), projectedCells)]
}

// linear reports whether a value can be projected along a label: whether just one of the
// tensors that it is a product of has it, and what is added to the product too.
func (s *sampler) linear(v *sampledValue, label int) bool {
	if !slices.Contains(s.axes.Linear, label) || s.sizes[label] < leastProjected {
		return false
	}
	has := func(labels, shape []int) bool { return slices.Contains(s.axes.Own(labels, shape, s.sizes), label) }
	n, added := 0, true
	for _, a := range s.bound.Tensors() {
		labels := s.axes.Of(a)
		switch {
		case labels == nil:
		case a.Name == s.axes.Added:
			added = has(labels, a.Tensor.Shape)
		case v.out != nil && a.Name == v.of.Name && a.Index == v.of.Index:
		case has(labels, a.Tensor.Shape):
			n++
		}
	}
	if v.out != nil {
		added = true
		if slices.Contains(s.axes.Out, label) {
			n++
		}
	}
	return n == 1 && added
}

// sameLabels reports whether two tensors have the same labels, in any order.
func sameLabels(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func randomSigns(n int, r *rand.Rand) []float64 {
	signs := make([]float64, n)
	for i := range signs {
		signs[i] = float64(1 - 2*int(r.Uint64()>>63))
	}
	return signs
}

// blockSums adds up the elements of blocks of a dimension with signs, and their squares, of
// which it gives the roots.
func blockSums(t *tensor.Tensor, dim int, signs []float64) (sum, root *tensor.Tensor) {
	n := t.Shape[dim]
	blocks := (n + projectedWidth - 1) / projectedWidth
	outer, inner := tensor.Numel(t.Shape[:dim]), tensor.Numel(t.Shape[dim+1:])
	shape := slices.Clone(t.Shape)
	shape[dim] = blocks
	sums, roots := tensor.Make[float64](tensor.Numel(shape)), tensor.Make[float64](tensor.Numel(shape))
	tensor.Parallel(outer*blocks, 1+1<<13/(projectedWidth*inner), func(from, to int) {
		buf := tensor.Make[float64](max(inner, min(n, projectedWidth)))
		for k := from; k < to; k++ {
			o, lo := k/blocks, k%blocks*projectedWidth
			hi := min(lo+projectedWidth, n)
			s, q := sums[k*inner:(k+1)*inner], roots[k*inner:(k+1)*inner]
			if inner == 1 {
				row := buf[:hi-lo]
				tensor.Load(t, o*n+lo, row)
				s[0], q[0] = vmath.Dot(signs[lo:hi], row), vmath.Dot(row, row)
			} else {
				row := buf[:inner]
				for i := lo; i < hi; i++ {
					tensor.Load(t, (o*n+i)*inner, row)
					vmath.Axpy(s, signs[i], row)
					vmath.Mul(row, row, row)
					vmath.Add(q, q, row)
				}
			}
			for j, x := range q {
				q[j] = math.Sqrt(x)
			}
		}
	})
	return tensor.New(t.DType, shape, sums), tensor.New(t.DType, shape, roots)
}

// An allowance is what a sum with random signs may be off by.
type allowance struct{ t, ulp, terms, least float64 }

// newAllowance is that of elements with this bound; so many sums are looked at.
func newAllowance(b opdef.Bound, dt, precision tensor.DType, sums int) allowance {
	eps := max(dt.Eps(), precision.Eps())
	u, acc := roundoff.U32, tensor.Float32
	if dt == tensor.Float64 {
		u, acc = roundoff.U64, dt
	}
	c := roundoff.Growth(b.Terms)
	return allowance{t: math.Sqrt(2 * math.Log(2*float64(sums)/projectedRisk)), ulp: b.ULPs * eps, terms: c * u,
		least: math.Sqrt(projectedWidth) * (c*acc.SmallestNormal() + b.ULPs*dt.ULP(0))}
}

// of is the allowance of a sum of elements whose root of squares is root, and that of S scale.
func (a *allowance) of(root, scale float64) float64 {
	return a.t * (a.ulp*root + a.terms*scale + a.least)
}
