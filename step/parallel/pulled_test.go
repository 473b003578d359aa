package parallel

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// TestGradientOfUnread: what nothing reads of a message has a gradient of zeros, whatever lay in its memory before.
func TestGradientOfUnread(t *testing.T) {
	buffer := &array{tensor.Float32, []int{3}, []float64{1, math.NaN(), math.Inf(1)}}
	q := &pulled{call: &step.Call{Op: "torch.distributed.irecv"}, side: &side{ins: []argument{{array: buffer}}},
		written: make([]*array, 1)}
	if got := q.gradient(0).x; !slices.Equal(got, make([]float64, 3)) {
		t.Errorf("%v", got)
	}
}

// TestDerivativeWithoutANumber: a derivative that is not a number somewhere is not known.
func TestDerivativeWithoutANumber(t *testing.T) {
	one := &array{tensor.Float32, []int{2}, []float64{1, 2}}
	d := &pull{part: &part{mesh: &mesh{ranks: []int{0}}}}
	sides := map[int]*side{0: {ins: []argument{{array: one}}}}
	for _, x := range []float64{1, math.NaN()} {
		d.found = map[int]map[int]*array{0: {0: {tensor.Float64, []int{2}, []float64{3, x}}}}
		if got := d.of(0, sides); (got != nil) != (x == 1) {
			t.Errorf("%g: %v", x, got)
		}
	}
}
