package parallel

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

func floats(shape []int, x ...float64) *array { return &array{tensor.Float32, shape, x} }

// TestMesh: dimensions follow from the groups that communicate, and one along which nothing did is added.
func TestMesh(t *testing.T) {
	for _, tc := range []struct {
		ranks  []int
		groups [][]int
		want   string
	}{
		{[]int{0, 1}, nil, "2 (ranks 0-1)"},
		{[]int{0, 1, 2, 3}, [][]int{{0, 1}, {2, 3}, {0, 2}, {1, 3}}, "2 x 2 (ranks 0-1 2-3 | 0,2 1,3)"},
		{[]int{0, 1, 2, 3}, [][]int{{0, 1, 2, 3}, {0, 1}, {2, 3}}, "2 x 2 (ranks 0-1 2-3 | 0,2 1,3)"},
		{[]int{0, 1, 2, 3}, [][]int{{0, 1, 2, 3}}, "4 (ranks 0-3)"},
		{[]int{0, 1, 2, 3}, [][]int{{0, 1, 2}}, "4 (ranks 0-3)"},
	} {
		if got := newMesh(tc.ranks, tc.groups).String(); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.groups, got, tc.want)
		}
	}
}

// TestMatch: the places by which values of two ranks make a whole.
func TestMatch(t *testing.T) {
	m := newMesh([]int{0, 1}, nil)
	for name, tc := range map[string]struct {
		values []*array
		whole  *array
		want   place
		none   bool
	}{
		"replicated": {[]*array{floats([]int{2}, 1, 2), floats([]int{2}, 1, 2)}, floats([]int{2}, 1, 2), whole, false},
		"rows": {[]*array{floats([]int{1, 2}, 1, 2), floats([]int{1, 2}, 3, 4)}, floats([]int{2, 2}, 1, 2, 3,
			4), place{sharded, 0, 0, 1}, false},
		"columns": {[]*array{floats([]int{2, 1}, 1, 3), floats([]int{2, 1}, 2, 4)}, floats([]int{2, 2}, 1, 2, 3,
			4), place{sharded, 1, 0, 1}, false},
		"sum":   {[]*array{floats([]int{2}, 1, 2), floats([]int{2}, 3, 4)}, floats([]int{2}, 4, 6), sum(1), false},
		"means": {[]*array{floats(nil, 1), floats(nil, 3)}, floats(nil, 2), sum(2), false},
		"maximum": {[]*array{floats([]int{2}, 1, 5), floats([]int{2}, 3, 4)}, floats([]int{2}, 3, 5),
			place{maximum, 0, 0, 1}, false},
		"norm":    {[]*array{floats(nil, 3), floats(nil, 4)}, floats(nil, 5), place{norm, 0, 0, 1}, false},
		"nothing": {[]*array{floats([]int{2}, 1, 2), floats([]int{2}, 3, 4)}, floats([]int{2}, 9, 9), place{}, true},
	} {
		values := map[int]*array{0: tc.values[0], 1: tc.values[1]}
		cands := m.outcomes(len(tc.values[0].shape), [][]place{m.everywhere(sum(1))})
		got, ok := m.match(values, tc.whole, cands, false, exact)
		if ok == tc.none || ok && got[0] != tc.want {
			t.Errorf("%s: got %v %v, want %v", name, got, ok, tc.want)
		}
	}
}

// TestOuter: a sharded dimension that was made one with those before it holds the parts of the ranks in turn.
func TestOuter(t *testing.T) {
	got := concat(0, 2, []*array{floats([]int{4}, 1, 2, 5, 6), floats([]int{4}, 3, 4, 7, 8)})
	if want := []float64{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got.x, want) {
		t.Errorf("got %v, want %v", got.x, want)
	}
}

// TestSolve: the numbers with which parts add up to a gradient.
func TestSolve(t *testing.T) {
	k, ok := solve([][]float64{{1, 2, 3}, {0, 1, 1}}, []float64{2, 5, 7}, 1e-6)
	if !ok || !nearly(k, []float64{2, 1}, 1e-9) {
		t.Errorf("got %v %v, want [2 1]", k, ok)
	}
	if _, ok := solve([][]float64{{1, 2, 3}}, []float64{2, 5, 7}, 1e-6); ok {
		t.Error("a vector is no multiple of another")
	}
}

// TestMatchCloser: of several places that a narrow dtype allows, one that fits much closer counts; else the first.
func TestMatchCloser(t *testing.T) {
	m := newMesh([]int{0, 1}, nil)
	values := map[int]*array{0: floats([]int{1, 1}, 1), 1: floats([]int{1, 1}, 0.9)}
	candidates := [][]place{{{kind: sharded, dim: 0, factor: 1}, sum(1), sum(2)}}
	for _, tc := range []struct {
		whole *array
		want  kind
	}{
		{floats([]int{2, 1}, 0.99, 0.91), sharded},
		{floats([]int{1, 1}, 1.901), partial},
	} {
		got, ok := m.match(values, tc.whole, candidates, false, 0.25)
		if !ok || got[0].kind != tc.want {
			t.Errorf("%v: got %v, want %s", tc.whole.x, got, string(tc.want))
		}
	}
	near := map[int]*array{0: floats([]int{1}, 1), 1: floats([]int{1}, 0.95)}
	lists := [][]place{{whole, sum(2)}}
	if got, ok := m.match(near, floats([]int{1}, 0.976), lists, false, 0.25); !ok || got[0] != sum(2) {
		t.Errorf("got %v: one place fits 20 times closer than the other", got)
	}
	if got, ok := m.match(near, floats([]int{1}, 1), lists, false, 0.25); !ok || got[0] != whole {
		t.Errorf("got %v: the first that fits about as well counts", got)
	}
}
