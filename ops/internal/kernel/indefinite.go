package kernel

import (
	"math"

	"github.com/optool/optool/internal/quota"
)

// magnitude1 is |Re| + |Im|, by which LAPACK compares pivots.
func magnitude1[T Field](x T) float64 { return math.Abs(Re(x)) + math.Abs(Im(x)) }

// conjIf is the conjugate of x if hermitian, else x.
func conjIf[T Field](x T, hermitian bool) T {
	if hermitian {
		return Conj(x)
	}
	return x
}

// LDL factors a symmetric, or Hermitian, matrix of which the lower triangle is
// read: P^T*m*P = L*D*L^T with blocks of D of size 1 or 2. ld holds D and, below
// it, L without its unit diagonal. piv[k] > 0: row k was swapped with row
// piv[k]-1; piv[k] = piv[k+1] < 0: row k+1 was swapped with row -piv[k]-1 and
// the block has size 2. zero is 1 + the first zero block of size 1, 0 if none.
//
// Source: LAPACK sytf2 and hetf2, lower triangle (Bunch and Kaufman, 1977)
func LDL[T Field](m Mat[T], hermitian bool) (ld Mat[T], piv []int, zero int) {
	alpha := (1 + math.Sqrt(17)) / 8
	a := m.Tril(0)
	n := a.R
	at := func(i, j int) *T { return &a.D[i*n+j] }
	realDiagonal := func(i int) {
		if hermitian {
			*at(i, i) = From[T](Re(*at(i, i)))
		}
	}
	for i := range n {
		realDiagonal(i)
	}
	piv = quota.Make[int](n)
	for k := 0; k < n; {
		step, kp := 1, k
		diag := magnitude1(*at(k, k))
		imax, colmax := k, 0.0
		for i := k + 1; i < n; i++ {
			if v := magnitude1(*at(i, k)); v > colmax {
				imax, colmax = i, v
			}
		}
		if math.Max(diag, colmax) == 0 {
			if zero == 0 {
				zero = k + 1
			}
			piv[k] = k + 1
			k++
			continue
		}
		if diag < alpha*colmax {
			rowmax := 0.0
			for j := k; j < imax; j++ {
				rowmax = math.Max(rowmax, magnitude1(*at(imax, j)))
			}
			for i := imax + 1; i < n; i++ {
				rowmax = math.Max(rowmax, magnitude1(*at(i, imax)))
			}
			switch {
			case diag >= alpha*colmax*(colmax/rowmax):
			case magnitude1(*at(imax, imax)) >= alpha*rowmax:
				kp = imax
			default:
				kp, step = imax, 2
			}
		}
		if kk := k + step - 1; kp != kk {
			swapSymmetric(a, k, kk, kp, hermitian)
		}
		if step == 1 {
			eliminate(a, k, hermitian)
			piv[k] = kp + 1
		} else {
			eliminatePair(a, k, hermitian)
			piv[k], piv[k+1] = -kp-1, -kp-1
		}
		for i := k; i < n; i++ {
			realDiagonal(i)
		}
		k += step
	}
	return a, piv, zero
}

// swapSymmetric exchanges rows and columns kk and kp of the trailing matrix
// from column k on, kk < kp, in the lower triangle.
func swapSymmetric[T Field](a Mat[T], k, kk, kp int, hermitian bool) {
	n := a.R
	swap := func(i, j, p, q int) { a.D[i*n+j], a.D[p*n+q] = a.D[p*n+q], a.D[i*n+j] }
	for i := kp + 1; i < n; i++ {
		swap(i, kk, i, kp)
	}
	for j := kk + 1; j < kp; j++ {
		swap(j, kk, kp, j)
		a.D[j*n+kk], a.D[kp*n+j] = conjIf(a.D[j*n+kk], hermitian), conjIf(a.D[kp*n+j], hermitian)
	}
	a.D[kp*n+kk] = conjIf(a.D[kp*n+kk], hermitian)
	swap(kk, kk, kp, kp)
	if kk > k {
		swap(kk, k, kp, k)
	}
}

// eliminate uses the pivot (k, k).
func eliminate[T Field](a Mat[T], k int, hermitian bool) {
	n := a.R
	r := 1 / a.At(k, k)
	for j := k + 1; j < n; j++ {
		f := r * conjIf(a.At(j, k), hermitian)
		for i := j; i < n; i++ {
			a.D[i*n+j] -= a.At(i, k) * f
		}
	}
	for i := k + 1; i < n; i++ {
		a.D[i*n+k] *= r
	}
}

// eliminatePair uses the pivot of size 2 at (k, k).
func eliminatePair[T Field](a Mat[T], k int, hermitian bool) {
	n := a.R
	off := a.At(k+1, k)
	scale := off // what the block is divided by
	if hermitian {
		scale = From[T](Abs(off))
	}
	d11, d22, u := a.At(k+1, k+1)/scale, a.At(k, k)/scale, off/scale
	f := 1 / (d11*d22 - 1) / scale
	for j := k + 2; j < n; j++ {
		x, y := a.At(j, k), a.At(j, k+1)
		w0, w1 := f*(d11*x-u*y), f*(d22*y-conjIf(u, hermitian)*x)
		c0, c1 := conjIf(w0, hermitian), conjIf(w1, hermitian)
		for i := j; i < n; i++ {
			a.D[i*n+j] -= a.At(i, k)*c0 + a.At(i, k+1)*c1
		}
		a.D[j*n+k], a.D[j*n+k+1] = w0, w1
	}
}

// LDLSolve gives x with m*x = b from the factorisation of m by LDL.
//
// Source: LAPACK sytrs and hetrs, lower triangle
func LDLSolve[T Field](ld Mat[T], piv []int, b Mat[T], hermitian bool) Mat[T] {
	x := b.Clone()
	n := ld.R
	subtract := func(to, from int, f T) {
		row := x.Row(to)
		for l, v := range x.Row(from) {
			row[l] -= f * v
		}
	}
	for k := 0; k < n; {
		if piv[k] > 0 {
			swapRows(x, k, piv[k]-1)
			for i := k + 1; i < n; i++ {
				subtract(i, k, ld.At(i, k))
			}
			for l := range x.Row(k) {
				x.Row(k)[l] /= ld.At(k, k)
			}
			k++
			continue
		}
		swapRows(x, k+1, -piv[k]-1)
		for i := k + 2; i < n; i++ {
			subtract(i, k, ld.At(i, k))
			subtract(i, k+1, ld.At(i, k+1))
		}
		p, q, off := ld.At(k, k), ld.At(k+1, k+1), ld.At(k+1, k)
		det := p*q - off*conjIf(off, hermitian)
		for l := range x.Row(k) {
			u, v := x.At(k, l), x.At(k+1, l)
			x.Row(k)[l], x.Row(k + 1)[l] = (q*u-conjIf(off, hermitian)*v)/det, (p*v-off*u)/det
		}
		k += 2
	}
	for k := n - 1; k >= 0; {
		size := 1
		if piv[k] < 0 {
			size = 2
		}
		for j := k; j > k-size; j-- {
			for i := k + 1; i < n; i++ {
				subtract(j, i, conjIf(ld.At(i, j), hermitian))
			}
		}
		swapRows(x, k, max(piv[k], -piv[k])-1)
		k -= size
	}
	return x
}
