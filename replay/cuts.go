package replay

import (
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

// sameLabels reports whether two tensors have the same labels, in any order.
func sameLabels(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
