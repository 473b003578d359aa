package runs

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestPut writes random runs, many and few, that fall on the borders of blocks
// too, and compares with a plain loop over the elements in the order of the
// runs.
func TestPut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	for _, count := range []int{0, 7, 900, 30000} {
		for _, n := range []int{1, 3, 20000} {
			if n > 3 && count > 7 {
				continue
			}
			for how := Assign; how <= Mean; how++ {
				for _, keep := range []bool{true, false} {
					size := 40000
					starts, base, src := make([]int64, count), make([]int64, size), make([]int64, count*n)
					for i := range starts {
						starts[i] = int64(r.IntN((size - n + 1) / n * n))
						if how != Assign && how != Add { // runs that do not overlap in part
							starts[i] -= starts[i] % int64(n)
						}
					}
					for i := range base {
						base[i] = r.Int64N(9)
					}
					for i := range src {
						src[i] = r.Int64N(9)
					}
					want, times := slices.Clone(base), make([]int64, size)
					for i, x := range src {
						p := starts[i/n] + int64(i%n)
						first := times[p] == 0 && !keep
						times[p]++
						switch {
						case how == Assign || first:
							want[p] = x
						case how == Multiply:
							want[p] *= x
						case how == Minimum:
							want[p] = min(want[p], x)
						case how == Maximum:
							want[p] = max(want[p], x)
						default:
							want[p] += x
						}
					}
					for p, k := range times {
						if how == Mean && k > 0 {
							if keep {
								k++
							}
							want[p] /= k
						}
					}
					got := tensor.Data[int64](Put(tensor.New(tensor.Int64, []int{size}, base),
						tensor.New(tensor.Int64, []int{len(src)}, src), AtStarts(n, starts), how, keep))
					if !slices.Equal(got, want) {
						t.Errorf("%d runs of %d, combine %d, keep %v: wrong elements", count, n, how, keep)
					}
				}
			}
		}
	}
}

// TestMost counts runs that begin at multiples of their length, and anywhere, of small tensors and of those that
// have no room in memory.
func TestMost(t *testing.T) {
	for _, tc := range []struct {
		length int
		starts []int64
		want   int
	}{
		{1, []int64{3, 9, 3, 3, 0, 9}, 3}, {2, []int64{4, 8, 4}, 2}, {2, []int64{3, 4, 2}, 4}, {3, nil, 0},
		{1, []int64{9}, 1}, {2, []int64{2, 6, 2, 6, 6}, 3}, {1, slices.Repeat([]int64{4, 7, 4}, 300), 600},
	} {
		for _, n := range []int{10, 1 << 50} {
			if got := AtStarts(tc.length, tc.starts).Most(n); got != tc.want {
				t.Errorf("runs of %d at %v of %d: %d at most, want %d", tc.length, tc.starts, n, got, tc.want)
			}
		}
	}
}

// TestPutSpread adds single elements to more than the caches hold, in more than one round, and compares with a plain
// loop to the last bit, which the order of the sums decides.
func TestPutSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	const size, count = 3*section + 5, 2*round + 77
	starts, base, src := make([]int64, count), make([]float64, size), make([]float64, count)
	for i := range starts {
		starts[i], src[i] = r.Int64N(size), r.NormFloat64()
	}
	starts[0], starts[count-1] = 0, size-1
	for i := range base {
		base[i] = r.NormFloat64()
	}
	want, met := slices.Clone(base), make([]int, size)
	for i, p := range starts {
		want[p] += src[i]
		met[p]++
	}
	if got, want := AtStarts(1, starts).Most(size), slices.Max(met); got != want {
		t.Errorf("at most %d meet, want %d", got, want)
	}
	got := tensor.Data[float64](Put(tensor.New(tensor.Float64, []int{size}, base),
		tensor.New(tensor.Float64, []int{count}, src), AtStarts(1, starts), Add, true))
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestSummed finds sums, magnitudes and the number of terms of single elements in one walk of the source, and of other
// runs, to the last bit of a plain loop.
func TestSummed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 10))
	for _, tc := range []struct {
		length, size, count int
		once                bool
	}{
		{1, 3*section + 5, 2*round + 77, true}, {1, 40, 3, false}, {4, 4000, 700, false}, {1, 9, 0, false},
	} {
		starts, base, src := make([]int64, tc.count), make([]float64, tc.size), make([]float64, tc.count*tc.length)
		for i := range base {
			base[i] = r.NormFloat64()
		}
		for i := range src {
			src[i] = r.NormFloat64()
		}
		sum, size, met := slices.Clone(base), slices.Clone(base), make([]int, tc.size)
		for i, x := range size {
			size[i] = math.Abs(x)
		}
		for i := range starts {
			starts[i] = r.Int64N(int64(tc.size/tc.length)) * int64(tc.length)
			for k := range tc.length {
				p, x := int(starts[i])+k, src[i*tc.length+k]
				sum[p] += x
				size[p] += math.Abs(x)
				met[p]++
			}
		}
		var read atomic.Int64
		lazy := tensor.Lazy(tensor.Float64, []int{len(src)}, 1, func(lo int, dst []float64) {
			read.Add(int64(len(dst)))
			copy(dst, src[lo:])
		})
		got := Summed(tensor.New(tensor.Float64, []int{tc.size}, base), lazy, AtStarts(tc.length, starts))
		if most := slices.Max(met); got.Most() != most {
			t.Errorf("%+v: at most %d meet, want %d", tc, got.Most(), most)
		}
		if !slices.Equal(tensor.Data[float64](got.Total), sum) {
			t.Errorf("%+v: wrong sums", tc)
		}
		if !slices.Equal(tensor.Data[float64](got.Magnitudes), size) {
			t.Errorf("%+v: wrong magnitudes", tc)
		}
		if n := read.Load(); tc.once && n != int64(len(src)) {
			t.Errorf("%+v: %d elements of the source were read, want each once", tc, n)
		}
	}
}

// TestPutNaN keeps NaN as the smallest and the largest number, beside an infinity, too.
func TestPutNaN(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, how := range []Combine{Minimum, Maximum} {
		for _, pair := range [][2]float64{{nan, inf}, {nan, -inf}, {inf, nan}, {-inf, nan}, {nan, 1}, {1, nan}} {
			got := tensor.Data[float64](Put(tensor.New(tensor.Float64, []int{1}, []float64{pair[0]}),
				tensor.New(tensor.Float64, []int{1}, []float64{pair[1]}), AtStarts(1, []int64{0}), how, true))
			if !math.IsNaN(got[0]) {
				t.Errorf("combine %d of %v: %v, want NaN", how, pair, got[0])
			}
		}
	}
}
