package linalg

import (
	"errors"
	"testing"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// TestNoConvergence: the reference has no result, and no gradient, where one
// matrix of a batch did not converge.
func TestNoConvergence(t *testing.T) {
	data := make([]float64, 256)
	data[20] = 1
	a := tensor.New(tensor.Float64, []int{64, 2, 2}, data)
	fails := func(in []kernel.Mat[float64]) []kernel.Mat[float64] {
		if in[0].D[0] == 1 {
			panic(&kernel.ConvergenceError{What: "singular values", Limit: 60, Unit: "sweeps"})
		}
		return in
	}
	m := &matrixCall{args: []string{"A"}, ins: []*tensor.Tensor{a}, ranks: []int{2},
		outs: []matrixOut{{tensor.Float64, []int{2, 2}}}, run: algorithm{f: fails}}
	outs, err := m.forward()
	var e *kernel.ConvergenceError
	if outs != nil || !errors.As(err, &e) || err.Error() != "singular values did not converge in 60 sweeps" {
		t.Errorf("got %v, %v", outs, err)
	}
}
