package sorting

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestHeap selects from rows long enough for the heap of topk and, with all
// elements, for radix sort.
func TestHeap(t *testing.T) {
	row := make([]uint64, 1000)
	for i := range row {
		row[i] = uint64(i*7919%101) * 0x0123456789abcdef
	}
	for _, flip := range []uint64{0, math.MaxUint64} {
		all := lowestKeys(row, len(row), flip, nil)
		if got := lowestKeys(row, 40, flip, nil); !slices.Equal(got, all[:40]) {
			t.Errorf("flip %x: got %v, want %v", flip, got, all[:40])
		}
	}
}

// TestSelector compares each way to the lowest elements, of few and many and of one rank, with sorting by comparison:
// of values with equal ones, both zeros, infinities and NaN, in dtypes whose keys fit a word with their place, and in
// others.
func TestSelector(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 11))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}
	for _, n := range []int{1, 17, fewRanked, 3000, manyRanked + 1} {
		for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float32, tensor.Float64, tensor.Int64, tensor.Bool} {
			v := make([]float64, n)
			for i := range v {
				v[i] = r.NormFloat64()
				if r.IntN(20) == 0 {
					v[i] = special[r.IntN(len(special))]
				}
			}
			x := tensor.New(tensor.Float64, []int{n}, v)
			if !dt.IsFloat() {
				w := make([]int64, n)
				for i := range w {
					w[i] = r.Int64N(3) - 1
				}
				if w[0] = math.MinInt64; dt == tensor.Bool {
					w[0] = 0
				}
				x = tensor.New(tensor.Int64, []int{n}, w)
			} else if dt != tensor.Float64 {
				x = tensor.New(dt, []int{n}, v).Rounded()
			}
			for _, descending := range []bool{false, true} {
				s := newSelector(dt, n, descending)
				row := slices.Clone(s.load(x, 0))
				want := make([]int64, n)
				for i := range want {
					want[i] = int64(i)
				}
				slices.SortStableFunc(want, func(a, b int64) int { return cmp.Compare(row[a]^s.flip, row[b]^s.flip) })
				for _, k := range []int{1, n / 20, n/2 + 1, n} {
					got := make([]int64, k)
					if s.lowest(got, row, k); !slices.Equal(got, want[:k]) {
						t.Errorf("%s, %d of %d, descending %v: not the lowest", dt, k, n, descending)
					}
					if k > 0 {
						if s.lowest(got[:1], row, k); got[0] != want[k-1] {
							t.Errorf("%s, rank %d of %d, descending %v: %d", dt, k, n, descending, got[0])
						}
					}
					if s.few(k) {
						if s.fewest(got, x, 0); !slices.Equal(got, want[:k]) {
							t.Errorf("%s, few: %d of %d, descending %v: not the lowest", dt, k, n, descending)
						}
					}
				}
			}
		}
	}
}
