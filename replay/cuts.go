package replay

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// cuts are the indices that a part of a call has of the dimensions of a label, in order; all
// of labels that are not there.
type cuts map[int][]int

// of are the indices along a dimension of this label and size; nil for all.
func (c cuts) of(label, size int, sizes map[int]int) []int {
	if label == opdef.Uncut || size != sizes[label] {
		return nil
	}
	return c[label]
}

// numelOf is how many elements of a tensor a part has.
func numelOf(shape, labels []int, at cuts) int {
	n := 1
	for d, size := range shape {
		if idx, ok := at[labels[d]]; ok && labels[d] != opdef.Uncut {
			size = min(size, len(idx))
		}
		n *= size
	}
	return n
}

// upTo are the numbers from lo to below hi.
func upTo(lo, hi int) []int {
	idx := make([]int, hi-lo)
	for i := range idx {
		idx[i] = lo + i
	}
	return idx
}

// tileEdges are the sizes of tiles that kernels compute at a time.
var tileEdges = []int{16, 32, 64, 128, 256}

// pick picks m of n indices: the first and the last, those on both sides of the edges of the
// first and of the last tile of each usual size, and others at random.
func pick(n, m int, r *rand.Rand) []int {
	if m >= n {
		return upTo(0, n)
	}
	chosen := map[int]bool{}
	choose := func(i int) {
		if i >= 0 && i < n && len(chosen) < m {
			chosen[i] = true
		}
	}
	choose(0)
	choose(n - 1)
	for k := len(tileEdges) - 1; k >= 0 && len(chosen) < (m+1)/2; k-- { // half of them
		edge := tileEdges[k]
		last := (n - 1) / edge * edge
		for _, i := range []int{last, last - 1, edge, edge - 1} {
			choose(i)
		}
	}
	for len(chosen) < m {
		choose(r.IntN(n))
	}
	idx := make([]int, 0, m)
	for i := range chosen {
		idx = append(idx, i)
	}
	slices.Sort(idx)
	return idx
}

// How many elements of a value are compared one by one if nothing else is said, and at least.
const (
	elementsEach  = 1 << 18
	elementsLeast = 1 << 10
)

// grid picks indices along the labels of a value, as many along each as there can be, so that
// the part has no more elements than asked for and takes no more operations than a call that
// is checked whole.
func (s *sampler) grid(v *sampledValue, shape []int, numel int) cuts {
	at := cuts{}
	own := s.axes.Own(v.labels, shape, s.sizes)
	all := 1.0
	for _, l := range own {
		all *= float64(s.sizes[l])
	}
	most := max(min(float64(s.elements()), float64(numel)*s.Over/s.flops), elementsLeast) * all / float64(max(numel, 1))
	each := 1 // along each label
	for i := 1 << 40; i > 0; i /= 2 {
		n := 1.0
		for _, l := range own {
			n *= float64(min(s.sizes[l], each+i))
		}
		if n <= most {
			each += i
		}
	}
	r := s.random(v)
	for _, l := range own {
		at[l] = pick(s.sizes[l], each, r)
	}
	return at
}

// elements is how many elements of a value are compared one by one.
func (s *sampler) elements() int { return cmp.Or(s.Elements, elementsEach) }

// random numbers for a value: the same for the same call.
func (s *sampler) random(v *sampledValue) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(s.bound.Name + " " + v.of.Name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(v.node)<<32+math.Float64bits(s.flops)))
}

// take is the part of a tensor whose dimensions have these labels.
func (s *sampler) take(t *tensor.Tensor, labels []int, at cuts) *tensor.Tensor {
	picked := make([][]int, t.Dim())
	any := false
	u := t
	for d, l := range labels {
		idx := at.of(l, t.Shape[d], s.sizes)
		switch n := len(idx); {
		case idx == nil:
		case n > 0 && idx[n-1]-idx[0] == n-1:
			u = u.Slice(d, idx[0], n, 1)
			u.RequiresGrad = t.RequiresGrad
		default:
			picked[d], any = idx, true
		}
	}
	if !any {
		return u
	}
	return gather(u, picked)
}

// gather copies the elements of a floating tensor at the products of the indices picked of
// its dimensions, nil for all, of at least one.
func gather(t *tensor.Tensor, picked [][]int) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	for d, idx := range picked {
		if idx != nil {
			shape[d] = len(idx)
		}
	}
	last, run := t.Dim()-1, 1 // the last dimension picked of, and the elements that follow each other behind it
	for ; picked[last] == nil; last-- {
		run *= shape[last]
	}
	n, idx := t.Shape[last], picked[last]
	data := tensor.Make[float64](tensor.Numel(shape))
	tensor.Parallel(tensor.Numel(shape[:last]), 1+1<<12/max(n*run, 1), func(lo, hi int) {
		var row []float64
		if run == 1 {
			row = tensor.Make[float64](n)
		}
		for k := lo; k < hi; k++ {
			from, size, rest := 0, 1, k
			for d := last - 1; d >= 0; d-- {
				i := rest % shape[d]
				rest /= shape[d]
				if picked[d] != nil {
					i = picked[d][i]
				}
				from, size = from+i*size, size*t.Shape[d]
			}
			tensor.Load(t, from*n, row)
			dst := data[k*len(idx)*run : (k+1)*len(idx)*run]
			for j, i := range idx {
				if run == 1 {
					dst[j] = row[i]
				} else {
					tensor.Load(t, (from*n+i)*run, dst[j*run:(j+1)*run])
				}
			}
		}
	})
	u := tensor.New(t.DType, shape, data)
	u.Device, u.RequiresGrad = t.Device, t.RequiresGrad
	return u
}
