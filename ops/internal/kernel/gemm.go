package kernel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/cblas128"

	ourblas "github.com/optool/optool/internal/num/blas"
	"github.com/optool/optool/internal/num/vmath"
)

// floats computes the products of floats, also those within gonum's LAPACK.
var floats = func() ourblas.Implementation {
	var impl ourblas.Implementation
	blas64.Use(impl)
	return impl
}()

// A Number is a compute type of the reference.
type Number interface {
	float64 | int64 | complex128
}

// A Matrix is a row-major view of a slice: element (i, j) is Data[i*Stride+j],
// or Data[j*Stride+i] if Trans is set. Rows and Cols are those of the matrix
// meant, after transposition.
type Matrix[T Number] struct {
	Rows, Cols int
	Data       []T
	Stride     int
	Trans      bool
}

// Dense is the rows-by-cols matrix stored row by row in data.
func Dense[T Number](rows, cols int, data []T) Matrix[T] {
	return Matrix[T]{Rows: rows, Cols: cols, Data: data, Stride: cols}
}

// T is the transpose of m, sharing its data.
func (m Matrix[T]) T() Matrix[T] {
	m.Rows, m.Cols, m.Trans = m.Cols, m.Rows, !m.Trans
	return m
}

// steps are the distances between neighbours in a column and in a row.
func (m Matrix[T]) steps() (row, col int) {
	if m.Trans {
		return 1, m.Stride
	}
	return m.Stride, 1
}

// Gemm computes c = a*b + beta*c, where c is not transposed and beta is 0 or 1;
// with beta 0 what c held does not matter. Complex numbers go through gonum's
// cblas128, integers wrap around.
func Gemm[T Number](a, b Matrix[T], beta T, c Matrix[T]) {
	m, n, k := c.Rows, c.Cols, a.Cols
	if m == 0 || n == 0 {
		return
	}
	if k == 0 || m*n*k <= smallProduct {
		gemmSmall(a, b, beta, c)
		return
	}
	ta, tb := blas.NoTrans, blas.NoTrans
	if a.Trans {
		ta = blas.Trans
	}
	if b.Trans {
		tb = blas.Trans
	}
	switch cd := any(c.Data).(type) {
	case []float64:
		ad, bd := any(a.Data).([]float64), any(b.Data).([]float64)
		floats.Dgemm(ta, tb, m, n, k, 1, ad, a.Stride, bd, b.Stride, any(beta).(float64), cd, c.Stride)
	case []complex128:
		ad, bd := any(a.Data).([]complex128), any(b.Data).([]complex128)
		cblas128.Implementation().Zgemm(ta, tb, m, n, k, 1, ad, a.Stride, bd, b.Stride, any(beta).(complex128),
			cd, c.Stride)
	default:
		gemmRows(a, b, beta, c)
	}
}

// Dot is the sum of the products of the elements of x and y, which are of one length.
func Dot[T Number](x, y []T) (sum T) {
	if xs, ok := any(x).([]float64); ok {
		*any(&sum).(*float64) = vmath.Dot(xs, any(y).([]float64))
		return sum
	}
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// smallProduct is the number of multiplications up to which a plain loop beats
// the call of a BLAS routine.
const smallProduct = 64

func gemmSmall[T Number](a, b Matrix[T], beta T, c Matrix[T]) {
	ai, ak := a.steps()
	bk, bj := b.steps()
	for i := range c.Rows {
		row := c.Data[i*c.Stride : i*c.Stride+c.Cols]
		for j := range row {
			var s T
			for l, p, q := 0, i*ai, j*bj; l < a.Cols; l, p, q = l+1, p+ak, q+bk {
				s += a.Data[p] * b.Data[q]
			}
			if beta != 0 {
				s += row[j]
			}
			row[j] = s
		}
	}
}

// gemmRows adds multiples of the rows of b to each row of c, or takes inner
// products where b is transposed.
func gemmRows[T Number](a, b Matrix[T], beta T, c Matrix[T]) {
	if b.Trans {
		gemmSmall(a, b, beta, c)
		return
	}
	ai, ak := a.steps()
	for i := range c.Rows {
		row := c.Data[i*c.Stride : i*c.Stride+c.Cols]
		if beta == 0 {
			clear(row)
		}
		for l := range a.Cols {
			x := a.Data[i*ai+l*ak]
			for j, y := range b.Data[l*b.Stride : l*b.Stride+c.Cols] {
				row[j] += x * y
			}
		}
	}
}
