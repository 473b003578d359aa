package replay_test

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfDropout: the factor of what is kept, the mask of a gradient and its factor.
func TestCausesOfDropout(t *testing.T) {
	const n = 600
	r := rand.New(rand.NewPCG(7, 3))
	x, up := make([]float64, n), make([]float64, n)
	kept, other := make([]float64, n), make([]float64, n)
	shifted, kept256, half := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], up[i] = r.NormFloat64(), r.NormFloat64()
		kept[i], other[i] = float64(min(1, r.IntN(4))), float64(min(1, r.IntN(4)))
	}
	for i := range x {
		shifted[i], kept256[i], half[i] = kept[(i+n-1)%n], kept[i], kept[i]
		if i >= 512 {
			kept256[i] = 1
		}
		if i%4 == 0 {
			half[i] = other[i]
		}
	}
	times := func(v, mask []float64, k float64) *tensor.Tensor {
		out := make([]float64, n)
		for i := range out {
			if out[i] = v[i] * k; mask != nil {
				out[i] *= mask[i]
			}
		}
		return stored(tensor.Float32, []int{n}, out...)
	}
	const scale = 4. / 3
	for _, tc := range []struct {
		want       string
		gave, grad *tensor.Tensor
	}{
		{"elements that are kept are not multiplied by 1/(1-p)", times(x, kept, 1), nil},
		{"p is taken for the probability of keeping: elements that are kept are multiplied by 1/p",
			times(x, kept, 4), nil},
		{"the gradient is not multiplied by 1/(1-p)", times(x, kept, scale), times(up, kept, 1)},
		{"the mask is not applied to the gradient, only the factor 1/(1-p)",
			times(x, kept, scale), times(up, nil, scale)},
		{"the gradient has another mask than the result: it is drawn anew",
			times(x, kept, scale), times(up, other, scale)},
		{"the gradient has the mask of the result, shifted by 1: element i uses that of element i-1",
			times(x, kept, scale), times(up, shifted, scale)},
		{"none of the last 95 elements of the result is dropped, but 28 of them are in the gradient: the mask is not " +
			"applied there to elements of the result", times(x, kept256, scale), times(up, kept, scale)},
		{"none of the last 95 elements of the gradient is dropped, but 28 of them are in the result: the mask is not " +
			"applied there to elements of the gradient", times(x, kept, scale), times(up, kept256, scale)},
		{"the gradient has another mask than the result", times(x, kept, scale), times(up, half, scale)},
	} {
		var grads []value.Value
		if tc.grad != nil {
			grads = []value.Value{value.NewTuple(tc.grad), value.NewTuple(times(up, nil, 1))}
		}
		args := []value.Value{needsGrad(times(x, nil, 1)), 0.25, true}
		found := explain(entries(t, record(t, "torch.nn.functional.dropout", args, tc.gave, grads...))[0], options(t))
		if len(found) != 1 || found[0].Text != tc.want {
			t.Errorf("causes %+v, want %q", found, tc.want)
		}
	}
}

// TestCausesOfDropoutBehindZeros: where the operand is 0, as after a relu, the result does not tell the mask.
func TestCausesOfDropoutBehindZeros(t *testing.T) {
	const n, scale = 600, 4. / 3
	r := rand.New(rand.NewPCG(8, 3))
	x, out, up, grad := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x {
		kept := float64(min(1, r.IntN(4)))
		x[i], up[i] = max(0, r.NormFloat64()), r.NormFloat64()
		out[i], grad[i] = x[i]*kept*scale, up[i]*kept*scale*scale
	}
	of := func(v []float64) *tensor.Tensor { return stored(tensor.Float32, []int{n}, v...) }
	found := explain(entries(t, record(t, "torch.nn.functional.dropout", []value.Value{needsGrad(of(x)), 0.25, true},
		of(out), value.NewTuple(of(grad)), value.NewTuple(of(up))))[0], options(t))
	if len(found) != 1 || found[0].Text != "the gradient is multiplied by 1/(1-p) twice" {
		t.Errorf("causes %+v", found)
	}
}
