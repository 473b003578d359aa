package recurrent

import (
	"math"
	"testing"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// The sizes that bound the gradients of a cell cover the gradients, and do not shrink with those of a gate near its
// limit: 1 - g*g has the rounding of 1.
func TestSizesOfGatesNearTheirLimit(t *testing.T) {
	one := func(shape ...int) *tensor.Tensor { return tensor.Full(tensor.BFloat16, shape, 1.0) }
	n := &network{hx: []*tensor.Tensor{one(1, 1), one(1, 1)}}
	// The new gate has tanh(6); the others are logistic(0).
	wih := tensor.New(tensor.BFloat16, []int{4, 1}, []float64{0, 0, 6, 0})
	n.cell = kernel.LSTMCell
	if err := n.single(one(1, 1), wih, tensor.Full(tensor.BFloat16, []int{4, 1}, 0.0), nil, nil); err != nil {
		t.Fatal(err)
	}
	g := &opdef.Grad{Out: []*tensor.Tensor{nil, one(1, 1)}}
	gr, sizes := n.grads(g), n.sizes(g)
	for name, ts := range gr {
		for i, x := range ts {
			for _, v := range tensor.Data[float64](x) {
				if s := sizes[name][i]; math.Abs(v) > s*(1+1e-12) {
					t.Errorf("%s[%d] is %g, and its terms add up to %g", name, i, v, s)
				}
			}
		}
	}
	near := math.Abs(tensor.Data[float64](gr["w_hh"][0])[2])
	if s := sizes["w_hh"][0]; near > 1e-4 || s < 0.4 {
		t.Errorf("w_hh of the new gate: gradient %g, size %g, want next to nothing of about a half", near, s)
	}
	if s := n.gradReach() / n.reach(); s < 2 {
		t.Errorf("gradients have %g times the reach of results: their further roundings do not count", s)
	}
}
