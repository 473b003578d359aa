package blas

import (
	"fmt"
	"math"
	"sync/atomic"
)

// A dgemm is the product of a shared library, its arguments those of
// cblas_dgemm.
type dgemm func(order, tA, tB, m, n, k int, alpha float64, a *float64, lda int, b *float64, ldb int, beta float64,
	c *float64, ldc int)

// chosen is nil until Use is called; "auto" is meant then.
var chosen atomic.Pointer[func() dgemm]

// libraryProduct is the number of multiplications from which a library is
// called: smaller products are not worth loading one.
const libraryProduct = 1 << 24

// Use says what computes large products of the whole process: "auto" is OpenBLAS where the
// system has it, and "go" is only this package. Anything else is the path of a shared library
// with the function cblas_dgemm. With "auto" the library is loaded by the first large product;
// another name that cannot be loaded is an error. Libraries need a build with the tag openblas.
func Use(which string) error {
	var f func() dgemm
	switch which {
	case "auto":
		f = openBLAS
	case "go":
		f = func() dgemm { return nil }
	default:
		g, err := load(which)
		if err != nil {
			return fmt.Errorf("BLAS library %q: %w", which, err)
		}
		f = func() dgemm { return g }
	}
	chosen.Store(&f)
	return nil
}

// byLibrary computes the product and reports true if it is large and there is a
// library.
func (p *product) byLibrary() bool {
	if p.m*p.n*p.k < libraryProduct || max(p.m, p.n, p.k, p.a.stride, p.b.stride, p.ldc) > math.MaxInt32 {
		return false
	}
	find := openBLAS
	if f := chosen.Load(); f != nil {
		find = *f
	}
	f := find()
	if f == nil {
		return false
	}
	f(rowMajor, p.a.code(), p.b.code(), p.m, p.n, p.k, p.alpha, &p.a.data[0], p.a.stride, &p.b.data[0], p.b.stride,
		p.beta, &p.c[0], p.ldc)
	return true
}

// The constants of cblas.h.
const (
	rowMajor = 101
	noTrans  = 111
	trans    = 112
)

func (x *matrix) code() int {
	if x.trans {
		return trans
	}
	return noTrans
}
