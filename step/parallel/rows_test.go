package parallel

import "testing"

// TestDifferSeveral: the weights of a token's experts, in order of the tokens, belong to its rows; in another order
// they do not, unless they cannot be told apart.
func TestDifferSeveral(t *testing.T) {
	p := &part{mesh: &mesh{ranks: []int{0, 1}}}
	tokens := func(of ...int) *rows {
		return &rows{of: map[int][]int{0: of, 1: nil}, start: map[int]int{0: 0, 1: 3}, count: map[int]int{0: 3, 1: 3}}
	}
	weights := func(of ...int) *rows {
		return &rows{of: map[int][]int{0: of, 1: nil}, start: map[int]int{0: 0, 1: 6}, count: map[int]int{0: 6, 1: 6}}
	}
	for _, tc := range []struct {
		a, b  *rows
		wrong bool
	}{
		{tokens(0, 2, 1, 0), weights(1, 4, 3, 0), false}, // weight k of token k/2
		{tokens(0, 2, 1, 0), weights(0, 5, 4, 3), false}, // of token k%3
		{tokens(0, 2, 1, 0), weights(0, 1, 2, 3), true},
		{tokens(0, 1), tokens(0, 2), true},
		{tokens(0, 1), &rows{of: map[int][]int{0: {0, 2}}, start: map[int]int{0: 0, 1: 3},
			count: map[int]int{0: 3, 1: 3}, same: map[int]int{2: 0}}, false},
	} {
		if _, wrong := p.differ(tc.a, tc.b); wrong != tc.wrong {
			t.Errorf("%v and %v: wrong %t", tc.a.of[0], tc.b.of[0], wrong)
		}
	}
}

// TestUnevenParts: rows are followed through a split into parts of other sizes on each rank.
func TestUnevenParts(t *testing.T) {
	p := &part{mesh: &mesh{ranks: []int{0, 1}}}
	one := func() *side { return &side{ins: make([]argument, 1), outs: make([]*array, 2)} }
	sides := map[int]*side{0: one(), 1: one()}
	for _, tc := range []struct {
		in *info
		ok bool
	}{{nil, true}, {&info{}, true}, {&info{rows: &rows{}}, false}} {
		s := &site{op: "torch.Tensor.split", in: []*info{tc.in}}
		if ok := p.rankwise(s, sides, nil); ok != tc.ok {
			t.Errorf("%v: %t", tc.in, ok)
		}
	}
}

// TestRowsPermuted: rows that should have been others are in another order only if those that lack are there elsewhere.
func TestRowsPermuted(t *testing.T) {
	p := &part{mesh: &mesh{ranks: []int{0, 1}}}
	at := func(a, b []int) *rows {
		return &rows{of: map[int][]int{0: a, 1: b}, start: map[int]int{0: 0, 1: 3}, count: map[int]int{0: 3, 1: 3}}
	}
	due := at([]int{0, 1, 2}, []int{3, 4, 5})
	for _, tc := range []struct {
		have *rows
		want bool
	}{
		{at([]int{3, 1, 2}, []int{0, 4, 5}), true},
		{at([]int{1, 2, 0}, []int{3, 4, 5}), true},
		{at([]int{0, 1, 2}, []int{0, 1, 2}), false}, // those of the first rank twice
	} {
		if got := p.permuted(tc.have, due); got != tc.want {
			t.Errorf("%v: %t", tc.have.of, got)
		}
	}
}
