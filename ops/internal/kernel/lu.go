package kernel

import (
	"math"

	"github.com/optool/optool/internal/quota"
)

// LU factors m = P*L*U with partial pivoting: lu holds U and, below the
// diagonal, L without its unit diagonal; at step i rows i and piv[i] were
// swapped. zero is 1 + the first zero pivot, 0 if there is none.
//
// Source: LAPACK getrf, which compares |Re| + |Im| in the search for pivots.
func LU[T Field](m Mat[T]) (lu Mat[T], piv []int, zero int) {
	lu = m.Clone()
	k := min(m.R, m.C)
	piv = quota.Make[int](k)
	for j := range k {
		p, best := j, -1.0
		for i := j; i < m.R; i++ {
			if a := math.Abs(Re(lu.At(i, j))) + math.Abs(Im(lu.At(i, j))); a > best {
				p, best = i, a
			}
		}
		piv[j] = p
		if best == 0 {
			if zero == 0 {
				zero = j + 1
			}
			continue
		}
		if p != j {
			swapRows(lu, p, j)
		}
		d := lu.At(j, j)
		top := lu.Row(j)
		for i := j + 1; i < m.R; i++ {
			row := lu.Row(i)
			f := row[j] / d
			row[j] = f
			for l := j + 1; l < m.C; l++ {
				row[l] -= f * top[l]
			}
		}
	}
	return lu, piv, zero
}

func swapRows[T Field](m Mat[T], a, b int) {
	x, y := m.Row(a), m.Row(b)
	for i := range x {
		x[i], y[i] = y[i], x[i]
	}
}

// Permute applies the row swaps of LU to m in place, or undoes them.
func Permute[T Field](m Mat[T], piv []int, undo bool) {
	if undo {
		for j := len(piv) - 1; j >= 0; j-- {
			swapRows(m, j, piv[j])
		}
		return
	}
	for j, p := range piv {
		swapRows(m, j, p)
	}
}

// SolveTriangular gives x with t*x = b, where t is upper or lower triangular
// (the other half is not read), with a unit diagonal if unit.
func SolveTriangular[T Field](t, b Mat[T], upper, unit bool) Mat[T] {
	x := b.Clone()
	for k := range t.R {
		i := k
		if upper {
			i = t.R - 1 - k
		}
		row := x.Row(i)
		lo, hi := 0, i
		if upper {
			lo, hi = i+1, t.R
		}
		for j := lo; j < hi; j++ {
			f := t.At(i, j)
			if f == 0 {
				continue
			}
			for l, v := range x.Row(j) {
				row[l] -= f * v
			}
		}
		if !unit {
			d := t.At(i, i)
			for l := range row {
				row[l] /= d
			}
		}
	}
	return x
}

// LUSolve gives x with (P*L*U)*x = b from a factorisation.
func LUSolve[T Field](lu Mat[T], piv []int, b Mat[T]) Mat[T] {
	x := b.Clone()
	Permute(x, piv, false)
	return SolveTriangular(lu, SolveTriangular(lu, x, false, true), true, false)
}

// Solve gives x with a*x = b; zero is as in LU.
func Solve[T Field](a, b Mat[T]) (x Mat[T], zero int) {
	lu, piv, zero := LU(a)
	return LUSolve(lu, piv, b), zero
}

// Cholesky gives the lower triangular l with l*l^H = m, of which only the lower
// triangle is read; fail is 1 + the first row that is not positive, 0 if all are.
func Cholesky[T Field](m Mat[T]) (l Mat[T], fail int) {
	l = m.Tril(0)
	for j := range m.R {
		rj := l.Row(j)
		d := Re(rj[j])
		for _, x := range rj[:j] {
			a := Abs(x)
			d -= a * a
		}
		if !(d > 0) {
			return l, j + 1
		}
		d = math.Sqrt(d)
		rj[j] = From[T](d)
		for i := j + 1; i < m.R; i++ {
			ri := l.Row(i)
			s := ri[j]
			for k, x := range rj[:j] {
				s -= ri[k] * Conj(x)
			}
			ri[j] = s / From[T](d)
		}
	}
	return l, 0
}

// Householder factors m = Q*R as LAPACK geqrf does: R on and above the
// diagonal, the reflectors I - tau*v*v^H below it, with v[i] = 1 left out. The
// diagonal of R is real, of the sign opposite to what it was.
func Householder[T Field](m Mat[T]) (qr Mat[T], tau []T) {
	qr = m.Clone()
	tau = quota.Make[T](min(m.R, m.C))
	for j := range tau {
		v := quota.Make[T](m.R - j)
		for i := range v {
			v[i] = qr.At(j+i, j)
		}
		alpha := v[0]
		rest := norm(v[1:])
		if rest == 0 && Im(alpha) == 0 {
			continue
		}
		beta := -math.Copysign(math.Hypot(math.Hypot(Re(alpha), Im(alpha)), rest), Re(alpha))
		tau[j] = FromParts[T]((beta-Re(alpha))/beta, -Im(alpha)/beta)
		f := 1 / (alpha - From[T](beta))
		v[0] = 1
		for i := 1; i < len(v); i++ {
			v[i] *= f
		}
		reflect(qr, v, Conj(tau[j]), j, j+1)
		qr.D[j*qr.C+j] = From[T](beta)
		for i := 1; i < len(v); i++ {
			qr.D[(j+i)*qr.C+j] = v[i]
		}
	}
	return qr, tau
}

// reflect applies I - tau*v*v^H from the left to rows at and below top of
// columns from col on, in place.
func reflect[T Field](m Mat[T], v []T, tau T, top, col int) {
	if tau == 0 {
		return
	}
	w := quota.Make[T](m.C)
	for i, x := range v {
		c := Conj(x)
		for l, y := range m.Row(top + i)[col:] {
			w[col+l] += c * y
		}
	}
	for i, x := range v {
		row := m.Row(top + i)
		f := tau * x
		for l := col; l < m.C; l++ {
			row[l] -= f * w[l]
		}
	}
}

// reflector is v of column j of a factorisation.
func reflector[T Field](qr Mat[T], j int) []T {
	v := quota.Make[T](qr.R - j)
	v[0] = 1
	for i := 1; i < len(v); i++ {
		v[i] = qr.At(j+i, j)
	}
	return v
}

// ApplyQ is Q*b, or Q^H*b, of a factorisation with reflectors tau.
func ApplyQ[T Field](qr Mat[T], tau []T, b Mat[T], adjoint bool) Mat[T] {
	c := b.Clone()
	for k := range tau {
		j := len(tau) - 1 - k
		t := tau[j]
		if adjoint {
			j = k
			t = Conj(tau[j])
		}
		reflect(c, reflector(qr, j), t, j, 0)
	}
	return c
}
