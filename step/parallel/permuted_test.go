package parallel

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestPermuted: elements in another order are told from others of about the same sizes, also in a narrow dtype.
func TestPermuted(t *testing.T) {
	values := func(f func(i int) float64) *array {
		x := make([]float64, 60)
		for i := range x {
			x[i] = f(i)
		}
		return &array{tensor.BFloat16, []int{60}, x}
	}
	a := values(func(i int) float64 { return math.Sin(float64(7 * i * i)) })
	others := values(func(i int) float64 { return a.x[7*i%60] + 0.025*math.Cos(float64(i)) })
	rolled := &array{a.dtype, a.shape, slices.Concat(a.x[5:], a.x[:5])}
	for _, tc := range []struct {
		name string
		b    *array
		want bool
	}{{"rolled", rolled, true}, {"rolled and scaled", rolled.times(2), true}, {"others", others, false},
		{"the same", a.times(1), false}} {
		if got := permuted(tc.b, a); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
