package kernel

import (
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/optool/optool/internal/quota"
)

// SVD factors m = U*diag(s)*V^H with min(R, C) singular values in descending
// order, by one-sided Jacobi rotations. It panics with a *ConvergenceError if
// these do not end.
//
// LAPACK's gesvd is faster but precise only relative to the largest singular
// value, while the errors of rotations are relative to the columns they turn:
// scaling columns costs no digits. See Eigh.
//
// Source: Golub and Van Loan, Matrix Computations, 8.6.3; Drmač and Veselić,
// "New fast and accurate Jacobi SVD algorithm", 2008, and LAPACK gesvj for when
// columns are orthogonal
func SVD[T Field](m Mat[T]) (u Mat[T], s []float64, vh Mat[T]) { return svd(m, sweepLimit) }

func svd[T Field](m Mat[T], limit int) (u Mat[T], s []float64, vh Mat[T]) {
	if m.R < m.C {
		v, s, uh := svd(m.H(), limit)
		return uh.H(), s, v.H()
	}
	n := m.C
	balance, exponent := balanced(m)
	// Rows of a are the columns of m; rows of r accumulate V.
	a, r := balance.H(), Eye[T](n, n)
	for i := range a.D {
		a.D[i] = Conj(a.D[i])
	}
	tol := math.Sqrt(float64(m.R)) * 0x1p-53
	for sweep, turned := 0, true; turned; sweep++ {
		if sweep == limit {
			panic(&ConvergenceError{"singular values", limit, "sweeps"})
		}
		turned = false
		for p := range n {
			for q := p + 1; q < n; q++ {
				if orthogonalize(a, r, p, q, tol) {
					turned = true
				}
			}
		}
	}
	order := quota.Make[int](n)
	size := quota.Make[float64](n)
	for i := range order {
		order[i], size[i] = i, norm(a.Row(i))
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmpFloat(size[y], size[x]) })
	s = quota.Make[float64](n)
	cols, vh := Zeros[T](n, m.R), Zeros[T](n, n)
	for k, i := range order {
		s[k] = math.Ldexp(size[i], exponent)
		for j, x := range a.Row(i) {
			if size[i] > 0 {
				cols.D[k*m.R+j] = x / From[T](size[i])
			}
		}
		for j, x := range r.Row(i) {
			vh.D[k*n+j] = Conj(x)
		}
	}
	rank := 0
	for rank < n && s[rank] > 0 {
		rank++
	}
	return complete(cols, rank, n), s, vh
}

// orthogonalize turns rows p and q of a and r so that those of a are orthogonal;
// it reports whether they were not, by more than tol.
func orthogonalize[T Field](a, r Mat[T], p, q int, tol float64) (turned bool) {
	x, y := a.Row(p), a.Row(q)
	var alpha, beta float64
	var g T
	for i := range x {
		ax, ay := Abs(x[i]), Abs(y[i])
		alpha += ax * ax
		beta += ay * ay
		g += Conj(x[i]) * y[i]
	}
	nx, ny := math.Sqrt(alpha), math.Sqrt(beta)
	if math.Min(nx, ny) > 1e-140 {
		g /= From[T](nx * ny)
	} else { // squares may have underflown
		nx, ny = norm(x), norm(y)
		if nx < negligible {
			clear(x)
		}
		if ny < negligible {
			clear(y)
		}
		if nx < negligible || ny < negligible {
			return false
		}
		g = 0
		for i := range x {
			g += Conj(x[i]) / From[T](nx) * (y[i] / From[T](ny))
		}
	}
	size := Abs(g) // the cosine of their angle
	if !(size > tol) {
		return false
	}
	phase := Conj(g / From[T](size))
	zeta := (ny/nx - nx/ny) / (2 * size)
	t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Hypot(1, zeta))
	c := 1 / math.Sqrt(1+t*t)
	rotate(x, y, From[T](c), From[T](c*t), phase)
	rotate(r.Row(p), r.Row(q), From[T](c), From[T](c*t), phase)
	return true
}

// rotate replaces x, y by c*x - s*phase*y, s*x + c*phase*y.
func rotate[T Field](x, y []T, c, s, phase T) {
	for i, v := range x {
		w := phase * y[i]
		x[i], y[i] = c*v-s*w, s*v+c*w
	}
}

// complete returns the matrix with count orthonormal columns whose first rank
// ones are the rows of rows.
func complete[T Field](rows Mat[T], rank, count int) Mat[T] {
	m := rows.C
	basis := Zeros[T](count, m)
	copy(basis.D, rows.D[:rank*m])
	next := 0
	for k := rank; k < count; k++ {
		for ; next < m; next++ {
			e := basis.Row(k)
			clear(e)
			e[next] = 1
			for range 2 { // twice is enough
				for j := range k {
					b := basis.Row(j)
					var d T
					for i, x := range b {
						d += Conj(x) * e[i]
					}
					for i, x := range b {
						e[i] -= d * x
					}
				}
			}
			if n := norm(e); n > 0.5/math.Sqrt(float64(m)) {
				for i := range e {
					e[i] /= From[T](n)
				}
				next++
				break
			}
		}
	}
	out := Zeros[T](m, count)
	for k := range count {
		for i, x := range basis.Row(k) {
			out.D[i*count+k] = x
		}
	}
	return out
}

// Complete extends the orthonormal columns of u to count of them.
func Complete[T Field](u Mat[T], count int) Mat[T] {
	rows := u.H()
	for i := range rows.D {
		rows.D[i] = Conj(rows.D[i])
	}
	return complete(rows, u.C, count)
}

// SingularValues are the min(R, C) singular values of m in descending order, to the precision of
// the largest, which is enough for what scales bounds: by gonum's LAPACK, of complex matrices
// each found twice in the real one of twice the size. They are NaN if m is not finite or they
// are not found.
func SingularValues(m Mat[complex128]) []float64 {
	times := 1
	for _, x := range m.D {
		if imag(x) != 0 {
			times = 2
			break
		}
	}
	rows, cols := times*m.R, times*m.C
	a := quota.Make[float64](rows * cols)
	ok := true
	for i := range m.R {
		for j := range m.C {
			x := m.At(i, j)
			ok = ok && !cmplx.IsNaN(x) && !cmplx.IsInf(x)
			a[i*cols+j] = real(x)
			if times == 2 {
				a[i*cols+m.C+j], a[(m.R+i)*cols+j], a[(m.R+i)*cols+m.C+j] = -imag(x), imag(x), real(x)
			}
		}
	}
	all := make([]float64, min(rows, cols))
	s := all[:len(all)/times]
	general := blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: a}
	none := blas64.General{Stride: 1}
	gesvd := func(work []float64, n int) bool {
		return lapack64.Gesvd(lapack.SVDNone, lapack.SVDNone, general, none, none, all, work, n)
	}
	var best [1]float64
	if ok {
		gesvd(best[:], -1)
		work := quota.Make[float64](int(best[0]))
		ok = gesvd(work, len(work))
	}
	for i := range s {
		s[i] = all[i*times]
		if !ok {
			s[i] = math.NaN()
		}
	}
	return s
}
