package blas

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
)

// TestVectorUnits: the bits of a product do not depend on the width of the vectors, whole
// tiles, edges and several blocks of k alike.
func TestVectorUnits(t *testing.T) {
	if vectors != avx512 {
		t.Skip("no AVX-512")
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range [][3]int{{16, 16, 16}, {13, 24, 19}, {67, 131, 513}, {64, 600, 100}, {130, 47, 700},
		{61, 32, 385}, {64, 88, 400}} {
		m, n, k := s[0], s[1], s[2]
		a, b := normal(r, m*k), normal(r, k*n)
		product := func(u *unit) []float64 {
			defer func(was *unit) { vectors = was }(vectors)
			vectors = u
			c := make([]float64, m*n)
			Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, m, n, k, 1.5, a, k, b, n, 0, c, n)
			return c
		}
		narrow, wide := product(avx2), product(avx512)
		for i := range wide {
			if math.Float64bits(wide[i]) != math.Float64bits(narrow[i]) {
				t.Fatalf("%v: element %d is %v with AVX-512, %v with AVX2", s, i, wide[i], narrow[i])
			}
		}
	}
}
