package sorting

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortRanked compares with sorting by comparison on either side of the
// lengths from which other ways are taken, with many equal keys and with few.
func TestSortRanked(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for _, n := range []int{0, 1, fewRanked - 1, fewRanked, manyRanked - 1, manyRanked, manyRanked + 1,
		3*manyRanked + 5} {
		for _, keys := range []uint64{1, 100, 1 << 40, 1 << 63} {
			v := make([]ranked, n)
			for i := range v {
				v[i] = ranked{r.Uint64N(keys), i}
			}
			want := slices.Clone(v)
			slices.SortFunc(want, compareRanked)
			if got := sortRanked(v); !slices.Equal(got, want) {
				t.Errorf("%d elements with %d keys are not in order", n, keys)
			}
		}
	}
}
