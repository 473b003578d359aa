package blas

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Implementation is gonum's BLAS with products and vector updates of its own.
// Unlike gonum's, Dgemm never skips a zero: 0*NaN and 0*Inf are NaN. It is safe
// for concurrent use; results do not depend on the number of cores.
type Implementation struct{ gonum.Implementation }

// smallProduct is the largest number of multiplications for which packing does not pay.
const smallProduct = 12 * 12 * 12

// Dgemm computes c = alpha*op(a)*op(b) + beta*c, where op transposes or not. op(a) is m by k,
// op(b) is k by n and c is m by n. All are stored row by row, with rows lda, ldb and ldc
// elements apart. With beta 0 what c held does not matter, with alpha 0 a and b do not. It
// panics as gonum's does on sizes that do not fit.
func (i Implementation) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64,
	ldb int, beta float64, c []float64, ldc int) {
	if alpha == 0 || m < 3 || n < 4 || k < 2 || m*n*k <= smallProduct ||
		!fits(tA, tB, m, n, k, a, lda, b, ldb, c, ldc) {
		i.plain(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	p := product{m, n, k, alpha, matrix{a, lda, tA != blas.NoTrans}, matrix{b, ldb, tB != blas.NoTrans}, beta, c, ldc}
	if !p.byLibrary() && !p.packed() {
		i.plain(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	}
}

// A product is one call of Dgemm.
type product struct {
	m, n, k int
	alpha   float64
	a, b    matrix
	beta    float64
	c       []float64
	ldc     int
}

// A matrix has element (i, j) at data[i*stride+j], or data[j*stride+i] if trans
// is set.
type matrix struct {
	data   []float64
	stride int
	trans  bool
}

// fits reports whether the operands are as large as the product needs; gonum
// panics with the reason if not.
func fits(tA, tB blas.Transpose, m, n, k int, a []float64, lda int, b []float64, ldb int, c []float64, ldc int) bool {
	known := func(t blas.Transpose) bool { return t == blas.NoTrans || t == blas.Trans || t == blas.ConjTrans }
	holds := func(t blas.Transpose, rows, cols int, x []float64, ld int) bool {
		if t != blas.NoTrans {
			rows, cols = cols, rows
		}
		return ld >= cols && len(x) >= (rows-1)*ld+cols
	}
	return known(tA) && known(tB) && holds(tA, m, k, a, lda) && holds(tB, k, n, b, ldb) &&
		holds(blas.NoTrans, m, n, c, ldc)
}

// plain is gonum's product, with the NaN that it loses where it skips zeros of
// a.
func (i Implementation) plain(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64,
	ldb int, beta float64, c []float64, ldc int) {
	i.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	if alpha == 0 || tA == blas.NoTrans && tB != blas.NoTrans { // inner products skip nothing
		return
	}
	bt := tB != blas.NoTrans
	outer, inner := k, n
	if bt {
		outer, inner = inner, outer
	}
	for o := range outer {
		for e, x := range b[o*ldb : o*ldb+inner] {
			if x-x == 0 { // finite
				continue
			}
			l, j := o, e
			if bt {
				l, j = e, o
			}
			for r := range m {
				at := r*lda + l
				if tA != blas.NoTrans {
					at = l*lda + r
				}
				if a[at] == 0 {
					c[r*ldc+j] = math.NaN()
				}
			}
		}
	}
}
