package replay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/opdef"
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

// A projector projects one value: along the label p, in chunks of rows along another, if there is one.
type projector struct {
	*sampler
	got       *tensor.Tensor
	v         *sampledValue
	precision tensor.DType

	own        []int // labels of the value
	p, row     int   // row is Uncut where the value has no other
	rows, step int
	signs      []float64
	kept       map[*tensor.Tensor]blockSum // of what has no rows

	largest float64
	worst   []cell
}

// A blockSum is a tensor of which blocks of columns were added up with signs, and the roots of the
// sums of their squares.
type blockSum struct{ sum, root *tensor.Tensor }

// project projects a value along a label.
func (s *sampler) project(got *tensor.Tensor, v *sampledValue, precision tensor.DType) *projection {
	x := &projector{sampler: s, got: got, v: v, precision: precision, own: s.axes.Own(v.labels, got.Shape, s.sizes),
		p: s.along(v, got), row: opdef.Uncut, rows: 1, kept: map[*tensor.Tensor]blockSum{}}
	x.signs = randomSigns(s.sizes[x.p], s.random(v))
	// Rows are taken some at a time, along the largest of the other labels.
	for _, l := range x.own {
		if n := s.sizes[l]; l != x.p && n > x.rows {
			x.row, x.rows = l, n
		}
	}
	most := got.Numel()
	for _, a := range s.bound.Tensors() {
		most = max(most, a.Tensor.Numel())
	}
	x.step = max(1, min(x.rows, projectedChunk/max(1, most/x.rows)))
	for lo := 0; lo < x.rows; lo += x.step {
		x.chunk(lo)
	}
	return &projection{x.largest, x.cells()}
}

// sums are those of a tensor of these labels, in the rows that at has.
func (x *projector) sums(t *tensor.Tensor, labels []int, at cuts) blockSum {
	d := slices.Index(labels, x.p)
	if d < 0 || t.Shape[d] != x.sizes[x.p] {
		part := x.take(t, labels, at)
		return blockSum{part, part}
	}
	hasRows := slices.Contains(labels, x.row)
	if k, ok := x.kept[t]; ok && !hasRows {
		return k
	}
	var k blockSum
	k.sum, k.root = blockSums(x.take(t, labels, at), d, x.signs)
	if !hasRows {
		x.kept[t] = k
	}
	return k
}

// chunk compares the sums of rows from lo on.
func (x *projector) chunk(lo int) {
	at := cuts{}
	if x.row != opdef.Uncut {
		at[x.row] = upTo(lo, min(lo+x.step, x.rows))
	}
	of := map[string][]blockSum{}
	args := func(root bool) *opdef.Call {
		seen := map[string]int{}
		return x.bound.Map(func(a opdef.Arg) *tensor.Tensor {
			labels := x.axes.Of(a)
			if labels == nil {
				return a.Tensor
			}
			k := seen[a.Name]
			seen[a.Name]++
			if k == len(of[a.Name]) {
				of[a.Name] = append(of[a.Name], x.sums(a.Tensor, labels, at))
			}
			if s := of[a.Name][k]; root {
				return s.root
			} else {
				return s.sum
			}
		})
	}
	var sumOut, rootOut []*tensor.Tensor
	for _, t := range x.v.out {
		k := x.sums(t, x.axes.Out, at)
		sumOut, rootOut = append(sumOut, k.sum), append(rootOut, k.root)
	}
	want, bound := x.v.make(args(false), sumOut)
	_, rootBound := x.v.make(args(true), rootOut)
	g := x.sums(x.got, x.v.labels, at)
	w, sum, root := tensor.Data[float64](want), tensor.Data[float64](g.sum), tensor.Data[float64](g.root)
	var scale []float64
	if rootBound.Scale != nil {
		scale = tensor.Data[float64](rootBound.Scale())
	}
	allowed := newAllowance(bound, x.got.DType, x.precision, len(w)*((x.rows+x.step-1)/x.step))
	for i := range w {
		big := 0.0
		if scale != nil {
			big = scale[i]
		}
		ratio := math.Abs(sum[i]-w[i]) / allowed.of(root[i], big)
		switch wild := !finite(sum[i]); {
		case wild && !finite(w[i]):
			ratio = 1 // it says nothing, but is worth a look
		case math.IsNaN(ratio):
			ratio = math.Inf(1)
		}
		x.largest = max(x.largest, ratio)
		if len(x.worst) < projectedCells || ratio > x.worst[len(x.worst)-1].ratio {
			x.worst = offered(x.worst, cell{x.place(tensor.Unravel(i, want.Shape), lo), ratio})
		}
	}
}

// place is where the block is that an index of the sums of rows from lo on names: it is looked at along
// all labels that the value does not own.
func (x *projector) place(index []int, lo int) []int {
	if d := slices.Index(x.v.labels, x.row); d >= 0 && x.row != opdef.Uncut {
		index[d] += lo
	}
	for d, l := range x.v.labels {
		if !slices.Contains(x.own, l) {
			index[d] = 0
		}
	}
	return index
}

// cells are the blocks to look at, those that are off most, as many as may be looked at.
func (x *projector) cells() (out []cuts) {
	dim, elements := slices.Index(x.v.labels, x.p), 0
	for _, c := range x.worst {
		at := cuts{}
		for _, l := range x.own {
			i := c.index[slices.Index(x.v.labels, l)]
			at[l] = []int{i}
			if l == x.p {
				at[l] = upTo(i*projectedWidth, min((i+1)*projectedWidth, x.got.Shape[dim]))
			}
		}
		if elements += numelOf(x.got.Shape, x.v.labels, at); len(out) > 0 && elements > x.elements() {
			break
		}
		out = append(out, at)
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
