package opdef

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/tensor"
)

// TestFoldDims sums integers, whose sums are exact in any order, over every set
// of dimensions, in every layout and on both sides of the sizes at which work
// is cut up.
func TestFoldDims(t *testing.T) {
	shorttest.Computes(t)
	r := rand.New(rand.NewPCG(1, 2))
	shapes := [][]int{{}, {0}, {7}, {3, 0, 2}, {5, 1, 4}, {2, 3, 4, 5}, {600, 70}, {3, 40000}, {40000, 3},
		{300, 2, 300}, {2, 1100000}, {1100000, 2}}
	for _, shape := range shapes {
		data := make([]float64, tensor.Numel(shape))
		for i := range data {
			data[i] = float64(r.IntN(9) - 4)
		}
		dense := tensor.New(tensor.Float64, shape, data)
		lazy := Map(tensor.Float64, dense, func(x float64) float64 { return x })
		for mask := range 1 << len(shape) {
			var dims []int
			for d := range shape {
				if mask>>d&1 == 1 {
					dims = append(dims, d)
				}
			}
			want := naiveSum(dense, dims)
			layouts := []*tensor.Tensor{dense, lazy}
			if len(shape) > 1 && len(data) < 1e5 {
				layouts = append(layouts, NonContiguous(dense))
			}
			for k, u := range layouts {
				if got := tensor.Data[float64](Sum(tensor.Float64, u, dims, false)); !slices.Equal(got, want) {
					t.Errorf("Sum of shape %v layout %d over %v: got %.20v..., want %.20v...", shape, k,
						dims, got, want)
				}
				f := FoldDims(Summing[float64](), dims, true, u)
				f.accs = nil // as for results too many to keep
				if got := tensor.Data[float64](Collect(f, tensor.Float64,
					func(a *float64) float64 { return *a })); !slices.Equal(got, want) {
					t.Errorf("lazy sum of shape %v layout %d over %v: got %.20v..., want %.20v...", shape, k,
						dims, got, want)
				}
			}
		}
	}
}

func naiveSum(t *tensor.Tensor, dims []int) []float64 {
	keep := slices.Clone(t.Shape)
	for _, d := range dims {
		keep[d] = 1
	}
	out := make([]float64, tensor.Numel(keep))
	stride := tensor.Contiguous(keep)
	for i, x := range tensor.Data[float64](t) {
		at := 0
		for d := len(keep) - 1; d >= 0; d-- {
			if keep[d] != 1 {
				at += i % t.Shape[d] * stride[d]
			}
			i /= t.Shape[d]
		}
		out[at] += x
	}
	return out
}

// TestFoldOrder checks that runs arrive in order with their position.
func TestFoldOrder(t *testing.T) {
	const n = 3_000_000
	x := Rows(tensor.Float64, []int{n}, 1, func(row int, dst []float64) { dst[0] = float64(row) })
	type acc struct{ next, bad int }
	f := Fold[float64, acc]{
		Add: func(a *acc, at int, v [][]float64) {
			if a.next == 0 {
				a.next = at
			}
			for i, x := range v[0] {
				if int(x) != at+i {
					a.bad++
				}
			}
			if a.next != at {
				a.bad++
			}
			a.next = at + len(v[0])
		},
		Join: func(a *acc, b acc) { a.next, a.bad = b.next, a.bad+b.bad },
	}
	r := FoldDims(f, []int{0}, false, x)
	for range 2 {
		if got, want := r.All()[0], (acc{next: n}); got != want {
			t.Errorf("fold of %d elements: got %+v, want %+v", n, got, want)
		}
		r.accs = nil // as for results too many to keep
	}
}

func TestAlongDim(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{2, 3, 2}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	running := func(src, dst []float64) {
		s := 0.0
		for i, v := range src {
			s += v
			dst[i] = s
		}
	}
	for dim, want := range [][]float64{
		{1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18},
		{1, 2, 4, 6, 9, 12, 7, 8, 16, 18, 27, 30},
		{1, 3, 3, 7, 5, 11, 7, 15, 9, 19, 11, 23},
	} {
		if got := tensor.Data[float64](AlongDim(tensor.Float64, x, dim, running)); !slices.Equal(got, want) {
			t.Errorf("running sum along %d: got %v, want %v", dim, got, want)
		}
	}
	if got := AlongDim(tensor.Float64, tensor.Scalar(tensor.Float64, 4.0), 0, running).Item(); got != 4 {
		t.Errorf("running sum of a 0-d tensor: got %v, want 4", got)
	}
}
