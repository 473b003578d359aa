package parallel

import (
	"maps"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestBucketOfNearlyEqualGradients: gradients that differ by rounding, as those of two biases behind residual
// connections do, lie at places of their own.
func TestBucketOfNearlyEqualGradients(t *testing.T) {
	late, early, other := []float64{1, 2, -3}, []float64{1.000002, 2, -3}, []float64{5, 6}
	p := &part{mesh: &mesh{ranks: []int{0}}, order: []string{"late", "early", "other"}, grads: map[string]*gradient{}}
	for n, x := range map[string][]float64{"late": late, "early": early, "other": other} {
		p.grads[n] = &gradient{sum: map[int]*array{0: {tensor.Float32, []int{len(x)}, x}}}
	}
	b := p.bucket([]float64{5, 6, 1.000002, 2, -3, 1, 2, -3}, []int{0, 1})
	if want := map[string]int{"late": 5, "early": 2, "other": 0}; !maps.Equal(b.at, want) {
		t.Errorf("got %v, want %v", b.at, want)
	}
}

// TestScaleOfRounding: a rank whose part of a gradient is nothing but rounding, as that of the bias of keys is, says
// nothing of how often it is the right one.
func TestScaleOfRounding(t *testing.T) {
	of := func(x ...float64) *array { return &array{tensor.Float32, []int{len(x)}, x} }
	g := &gradient{unit: 1, sum: map[int]*array{0: of(3, -2, 1e-9, 2e-9), 1: of(1, 1, -2e-9, 1e-9)}}
	scale := map[int]float64{0: 0.8, 1: 1}
	g.asOthers(scale, map[int]*array{0: of(4, -1), 1: of(-1e-9, 3e-9)})
	if scale[0] != 0.8 || scale[1] != 0.8 {
		t.Errorf("got %v, want 0.8 of both", scale)
	}
}
