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

// TestMultiplesOfOne: of gradients that are multiples of one, that counts which the update reads.
func TestMultiplesOfOne(t *testing.T) {
	at := func(address uint64, k float64) sighting { return sighting{address: address, k: k} }
	for _, tc := range []struct {
		a, b sighting
		want bool
	}{
		{at(2, 1), at(1, 1.5), true}, {at(1, 1.5), at(2, 1), false},
		{at(7, 1.5), at(1, 1), true}, {at(1, 1), at(7, 1.5), false},
	} {
		if got := tc.a.before(tc.b, 7); got != tc.want {
			t.Errorf("%v before %v: %t", tc.a, tc.b, got)
		}
	}
}

// TestRowsOfFewer: the first of two ranks can have all rows of a parameter, and the other none.
func TestRowsOfFewer(t *testing.T) {
	of := func(shape ...int) *array {
		return &array{tensor.Float32, shape, []float64{1, 2, 3, 4}[:numel(shape)]}
	}
	p := &part{mesh: &mesh{ranks: []int{0, 1}, dims: []dimension{{groups: [][]int{{0, 1}}, size: 2}}}}
	got := p.updated(map[int]*array{0: of(1, 4), 1: of(1, 4)}, map[int]*array{0: of(1, 4), 1: of(0, 4)})
	if len(got[0].x) != 4 || len(got[1].x) != 0 {
		t.Errorf("got %v and %v", got[0].x, got[1].x)
	}
}

// TestTerms: the rounding of a gradient is that of its terms, divided by a loss scale as the gradient is.
func TestTerms(t *testing.T) {
	of := func(x ...float64) *array { return &array{tensor.Float32, []int{len(x)}, x} }
	g := &gradient{unit: 1. / 1024, sum: map[int]*array{0: of(1024, 2048)}}
	if near(of(0.5, 1), of(1, 2), 1e-2, g) {
		t.Error("half of a gradient is not the gradient")
	}
}
