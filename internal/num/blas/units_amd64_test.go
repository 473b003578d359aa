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

// TestWindows compares products with windows with those of copies of them, for both units.
func TestWindows(t *testing.T) {
	var units []*unit
	switch vectors {
	case nil:
		t.Skip("no AVX2")
	case avx512:
		units = []*unit{avx2, avx512}
	default:
		units = []*unit{vectors}
	}
	defer func(was *unit) { vectors = was }(vectors)
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][3]int{{1, 1, 1}, {3, 30, 9}, {8, 24, 192}, {13, 100, 193}, {130, 47, 700}, {5, 191, 20}} {
		m, n, k := s[0], s[1], s[2]
		x, a, b := normal(r, 5000), normal(r, m*k), normal(r, n*k)
		rows, cols := make([]int, m), make([]int, k)
		for l := range cols {
			cols[l] = r.IntN(2000)
		}
		for i := range rows {
			rows[i] = r.IntN(2000)
		}
		slid, gathered := make([]float64, m*n), make([]float64, m*n)
		for i := range m {
			for j := range n {
				for l := range k {
					slid[i*n+j] += a[i*k+l] * x[cols[l]+j]
					gathered[i*n+j] += x[rows[i]+cols[l]] * b[j*k+l]
				}
			}
		}
		var first [2][]float64
		for _, u := range units {
			vectors = u
			left := make([]float64, Left(m, k))
			columns := make([]int, k)
			for l := range columns {
				columns[l] = l
			}
			PackLeft(left, m, a, columns, k)
			ld := n + Beyond
			c := make([]float64, (m+3)*ld)
			for i := 0; i < m; i += 8 {
				Slide(left, m, i, min(m, i+8), n, x, cols, c[i*ld:], ld)
			}
			d := make([]float64, m*n)
			for lo := 0; lo < k; lo += GatherStep {
				hi := min(k, lo+GatherStep)
				right, half := make([]float64, Right(hi-lo, n)), (hi-lo+1)/2
				PackRight(right, hi-lo, n, 0, half, b[lo:], k)
				if half < hi-lo {
					PackRight(right, hi-lo, n, half, hi-lo-half, b[lo+half:], k)
				}
				Gather(x, rows, cols[lo:hi], right, n, d, n, lo > 0)
			}
			for i, got := range [][]float64{c, d} {
				want, ld := [][]float64{slid, gathered}[i], []int{ld, n}[i]
				var sums []float64
				for r := range m {
					sums = append(sums, got[r*ld:][:n]...)
				}
				for q, v := range sums {
					if !(math.Abs(v-want[q]) <= 1e-11) {
						t.Fatalf("%v: element %d is %v, want %v", s, q, v, want[q])
					}
					if first[i] != nil && v != first[i][q] {
						t.Fatalf("%v: element %d is %v with AVX-512, %v with AVX2", s, q, v, first[i][q])
					}
				}
				first[i] = sums
			}
		}
	}
}
