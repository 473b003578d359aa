package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// TestAdds: a gradient that autograd added in place explains what a value has become.
func TestAdds(t *testing.T) {
	x, y := []float64{1, 2, 3}, []float64{0.5, 0, -1}
	for _, tc := range []struct {
		now, y []float64
		want   bool
	}{
		{[]float64{1.5, 2, 2}, y, true},
		{[]float64{1.5, 2, 2.1}, y, false},
		{[]float64{1.5, 2}, y, false},
		{[]float64{1.5, 2, 2}, nil, false}, // it cannot be read
	} {
		if got := adds(&Value{DType: tensor.Float32}, tc.now, x, tc.y); got != tc.want {
			t.Errorf("%v: %t", tc.now, got)
		}
	}
}

// TestOthersOfUnknownMaker: where the maker of a value is not known, as that of a collective's, its readers are those
// that read the same there.
func TestOthersOfUnknownMaker(t *testing.T) {
	p := &Process{}
	reader := func(address uint64, sum uint64) *Value {
		c := &Call{Process: p, Order: len(p.Calls)}
		c.Inputs = []*Value{{Call: c, Kind: capture.Input, DType: tensor.Float32, Shape: []int{2, 3}, Address: address,
			RequiresGrad: true}}
		c.Inputs[0].content.sum = sum
		c.Grads = []*Value{{Call: c, Kind: capture.GradInputs, DType: tensor.Float32, Shape: []int{2, 3}}}
		p.Calls = append(p.Calls, c)
		return c.Grads[0]
	}
	first, same := reader(64, 1), reader(64, 1)
	reader(64, 2)  // other values
	reader(128, 1) // elsewhere
	if all, ok := first.others(); !ok || len(all) != 1 || all[0] != same {
		t.Errorf("%d others, %t; want the gradient of the second reader", len(all), ok)
	}
}
