package parallel

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestPositionsOf: a causal mask says the positions of queries and keys. Masks of another form, and those of ranks that
// have all queries, say nothing.
func TestPositionsOf(t *testing.T) {
	mask := func(queries, keys []int, sees func(q, k int) bool) *grid {
		g := &grid{rows: len(queries), columns: len(keys)}
		for _, q := range queries {
			for _, k := range keys {
				g.sees = append(g.sees, sees(q, k))
			}
		}
		return g
	}
	causal := func(q, k int) bool { return k <= q }
	for _, tc := range []struct {
		name string
		of   [2][]int // the queries' positions, by rank
		keys []int
		sees func(q, k int) bool
		ok   bool
	}{
		{"zigzag", [2][]int{{0, 3}, {1, 2}}, []int{0, 1, 2, 3}, causal, true},
		{"keys by rank", [2][]int{{0, 3}, {1, 2}}, []int{0, 3, 1, 2}, causal, true},
		{"window", [2][]int{{0, 1}, {2, 3}}, []int{0, 1, 2, 3}, func(q, k int) bool { return q-k < 2 && k <= q },
			false},
		{"prefix", [2][]int{{0, 1}, {2, 3}}, []int{0, 1, 2, 3}, func(q, k int) bool { return k <= max(q, 1) }, false},
		{"all queries", [2][]int{{0, 1, 2, 3}, {0, 1, 2, 3}}, []int{0, 1, 2, 3}, causal, false},
	} {
		seen := map[int]*grid{0: mask(tc.of[0], tc.keys, tc.sees), 1: mask(tc.of[1], tc.keys, tc.sees)}
		queries, keys := positionsOf([]int{0, 1}, seen)
		if !tc.ok {
			if queries != nil {
				t.Errorf("%s: %v and %v", tc.name, queries, keys)
			}
			continue
		}
		for r, of := range tc.of {
			for i, at := range of {
				if queries[row{r, i}] != at {
					t.Errorf("%s: query %d of rank %d is at %d, not %d", tc.name, i, r, queries[row{r, i}], at)
				}
			}
		}
		if !slices.Equal(keys, tc.keys) {
			t.Errorf("%s: keys at %v, not %v", tc.name, keys, tc.keys)
		}
	}
}

// TestMatchRows: keys are found among the rows of the ranks, also repeated for several heads; keys of other elements
// say nothing, and rows that are alike can each be the other.
func TestMatchRows(t *testing.T) {
	parts := map[int]*array{
		0: {tensor.Float32, []int{1, 2, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8}}, // two rows of two heads of two elements
		1: {tensor.Float32, []int{1, 2, 4}, []float64{11, 12, 13, 14, 15, 16, 17, 18}},
	}
	for _, tc := range []struct {
		name string
		x    []float64 // by head, position and element
		want []row
	}{
		{"by rank", []float64{1, 2, 5, 6, 11, 12, 15, 16, 3, 4, 7, 8, 13, 14, 17, 18},
			[]row{{0, 0}, {0, 1}, {1, 0}, {1, 1}}},
		{"reversed", []float64{15, 16, 11, 12, 5, 6, 1, 2, 17, 18, 13, 14, 7, 8, 3, 4},
			[]row{{1, 1}, {1, 0}, {0, 1}, {0, 0}}},
		{"another element", []float64{1, 2, 5, 6, 11, 12, 15, 19, 3, 4, 7, 8, 13, 14, 17, 18}, nil},
		{"heads apart", []float64{1, 2, 5, 6, 11, 12, 15, 16, 7, 8, 3, 4, 13, 14, 17, 18}, nil},
	} {
		keys := &array{tensor.Float32, []int{2, 4, 2}, tc.x}
		got := matchRows(keys.vectors(1, 4), parts, []int{0, 1}, 1, 2)
		if !slices.EqualFunc(got, tc.want, func(a []row, b row) bool { return slices.Equal(a, []row{b}) }) {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	transposed := &array{tensor.Float32, []int{2, 4}, []float64{1, 5, 11, 15, 2, 6, 12, 16}}
	got := matchRows(transposed.vectors(1, 4), parts, []int{0, 1}, 1, 2)
	if len(got) != 4 || !slices.Equal(got[1], []row{{0, 1}}) {
		t.Errorf("transposed: %v", got)
	}
	copy(parts[1].x[4:], parts[0].x[:4]) // the last row is the first one again
	again := &array{tensor.Float32, []int{1, 4, 2}, []float64{1, 2, 5, 6, 11, 12, 1, 2}}
	got = matchRows(again.vectors(1, 4), parts, []int{0, 1}, 1, 2)
	if len(got) != 4 || !slices.Equal(got[3], []row{{0, 0}, {1, 1}}) {
		t.Errorf("again: %v", got)
	}
}
