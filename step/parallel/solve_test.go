package parallel

import "testing"

// TestSolveLengths: a vector is the sum of others, is none, or has another length than one of them.
func TestSolveLengths(t *testing.T) {
	x, y := []float64{1, 0, 2}, []float64{0, 1, 1}
	for _, tc := range []struct {
		name  string
		basis [][]float64
		sum   []float64
		want  bool
	}{
		{"sum", [][]float64{x, y}, []float64{2, 3, 7}, true},
		{"no sum", [][]float64{x, y}, []float64{2, 3, 8}, false},
		{"longer", [][]float64{x, {0, 1, 1, 1}}, []float64{2, 3, 7}, false},
		{"shorter", [][]float64{x, {0, 1}}, []float64{2, 3, 7}, false},
	} {
		if _, ok := solve(tc.basis, tc.sum, 1e-9); ok != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, ok, tc.want)
		}
	}
}
