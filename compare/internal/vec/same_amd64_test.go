//go:build goexperiment.simd && amd64 && !go1.27

package vec

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What is known of the same bits on both sides is what the loop for others gives, to the bit.
func TestSame(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	c := newConsts(Rule{Atol: 1e-3, Rtol: 1e-3, Eps: 1e-6}, Float32Grid)
	for _, n := range []int{8, 16, 24, 264, 520, stretch} {
		a := make([]float32, n)
		for i := range a {
			a[i] = float32(r.NormFloat64())
		}
		a[n/2], a[n/3] = 0, -a[n/3]
		b := slices.Clone(a)
		if got, want := c.same32(a, b), float32Stretch(a, b, &c); got != want {
			t.Errorf("n=%d: %+v, want %+v", n, got, want)
		}
		b[n-1] += 1
		if got := c.same32(a, b); got.N != 0 {
			t.Errorf("n=%d: %+v of others", n, got)
		}
	}
	never := newConsts(Rule{Atol: -1, Eps: 1e-6}, Float32Grid)
	x := make([]float32, 16)
	if got, want := Float32(x, x, Rule{Atol: -1, Eps: 1e-6}), scalar32(x, x, &never); got.NotClose != want.NotClose {
		t.Errorf("%d are not close, want %d", got.NotClose, want.NotClose)
	}
}
