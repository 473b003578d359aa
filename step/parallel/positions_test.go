package parallel

import "testing"

// TestTile: which positions the ranks of a program may have together.
func TestTile(t *testing.T) {
	run := func(from, n int) (x []float64) {
		for i := range n {
			x = append(x, float64(from+i))
		}
		return x
	}
	for _, tc := range []struct {
		name  string
		parts [][]float64
		want  bool
	}{
		{"all the same", [][]float64{run(0, 4), run(0, 4), run(0, 4)}, true},
		{"one after the other", [][]float64{run(0, 4), run(4, 4), run(8, 4)}, true},
		{"unequal parts", [][]float64{run(0, 5), run(5, 4), run(9, 4)}, true},
		{"the second half of a zigzag", [][]float64{run(20, 4), run(16, 4), run(12, 4)}, true},
		{"of another dimension of the mesh, too", [][]float64{run(0, 4), run(0, 4), run(4, 4), run(4, 4)}, true},
		{"the part of the next rank", [][]float64{run(4, 4), run(4, 4), run(8, 4)}, false},
		{"an offset that is too small", [][]float64{run(0, 5), run(4, 5), run(8, 5)}, false},
		{"a gap", [][]float64{run(0, 4), run(8, 4), run(12, 4)}, false},
		{"slots of buffers", [][]float64{run(0, 4), run(5, 4)}, true},
	} {
		if got := tile(tc.parts); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
	if follow([][]float64{run(0, 4), run(5, 4)}) || !follow([][]float64{run(4, 4), run(0, 4)}) {
		t.Error("follow: want parts without a gap, in any order")
	}
}
