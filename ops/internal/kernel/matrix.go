package kernel

import (
	"math"
	"math/cmplx"
	"slices"
)

// A Field is a compute type with division.
type Field interface{ float64 | complex128 }

// Mat is a dense matrix, row by row. Functions that return a Mat leave their
// arguments as they are unless they say otherwise. One algorithm serves real
// and complex matrices; sizes are those of captured calls, a few hundred.
type Mat[T Field] struct {
	R, C int
	D    []T
}

// Zeros is the r-by-c matrix of zeros.
func Zeros[T Field](r, c int) Mat[T] { return Mat[T]{r, c, make([]T, r*c)} }

// Eye is the r-by-c matrix with ones on the diagonal.
func Eye[T Field](r, c int) Mat[T] {
	m := Zeros[T](r, c)
	for i := range min(r, c) {
		m.D[i*c+i] = 1
	}
	return m
}

// Diag is the square matrix with v on the diagonal.
func Diag[T Field](v []T) Mat[T] {
	m := Zeros[T](len(v), len(v))
	for i, x := range v {
		m.D[i*m.C+i] = x
	}
	return m
}

// At is element (i, j).
func (m Mat[T]) At(i, j int) T { return m.D[i*m.C+j] }

// Row is row i, sharing its data.
func (m Mat[T]) Row(i int) []T { return m.D[i*m.C : (i+1)*m.C] }

// Clone is a copy of m.
func (m Mat[T]) Clone() Mat[T] { return Mat[T]{m.R, m.C, slices.Clone(m.D)} }

// H is the conjugate transpose.
func (m Mat[T]) H() Mat[T] {
	t := Zeros[T](m.C, m.R)
	for i := range m.R {
		for j, x := range m.Row(i) {
			t.D[j*m.R+i] = Conj(x)
		}
	}
	return t
}

// Mul is m*b.
func (m Mat[T]) Mul(b Mat[T]) Mat[T] {
	c := Zeros[T](m.R, b.C)
	Gemm(Dense(m.R, m.C, m.D), Dense(b.R, b.C, b.D), 0, Dense(c.R, c.C, c.D))
	return c
}

// Add is m + k*b.
func (m Mat[T]) Add(k T, b Mat[T]) Mat[T] {
	c := m.Clone()
	for i, x := range b.D {
		c.D[i] += k * x
	}
	return c
}

// Map is f of every element.
func (m Mat[T]) Map(f func(i, j int, x T) T) Mat[T] {
	c := Zeros[T](m.R, m.C)
	for i := range m.R {
		for j, x := range m.Row(i) {
			c.D[i*m.C+j] = f(i, j, x)
		}
	}
	return c
}

// Scale is k*m.
func (m Mat[T]) Scale(k T) Mat[T] { return m.Map(func(_, _ int, x T) T { return k * x }) }

// Tril keeps elements on and below diagonal k; Triu on and above.
func (m Mat[T]) Tril(k int) Mat[T] {
	return m.Map(func(i, j int, x T) T {
		if j-i > k {
			return 0
		}
		return x
	})
}

// Triu keeps elements on and above diagonal k.
func (m Mat[T]) Triu(k int) Mat[T] {
	return m.Map(func(i, j int, x T) T {
		if j-i < k {
			return 0
		}
		return x
	})
}

// Cols is the submatrix of columns [lo, hi); Rows of rows.
func (m Mat[T]) Cols(lo, hi int) Mat[T] {
	c := Zeros[T](m.R, hi-lo)
	for i := range m.R {
		copy(c.Row(i), m.Row(i)[lo:hi])
	}
	return c
}

// Rows is the submatrix of rows [lo, hi).
func (m Mat[T]) Rows(lo, hi int) Mat[T] {
	return Mat[T]{hi - lo, m.C, slices.Clone(m.D[lo*m.C : hi*m.C])}
}

// Diagonal is the diagonal of m.
func (m Mat[T]) Diagonal() []T {
	v := make([]T, min(m.R, m.C))
	for i := range v {
		v[i] = m.At(i, i)
	}
	return v
}

// Norm1 is the largest sum of magnitudes of a column.
func (m Mat[T]) Norm1() float64 {
	sum := make([]float64, m.C)
	for i := range m.R {
		for j, x := range m.Row(i) {
			sum[j] += Abs(x)
		}
	}
	best := 0.0
	for _, s := range sum {
		best = math.Max(best, s)
	}
	return best
}

// Frobenius is the root of the sum of squared magnitudes.
func (m Mat[T]) Frobenius() float64 { return norm(m.D) }

func norm[T Field](v []T) float64 {
	scale := 0.0
	for _, x := range v {
		scale = math.Max(scale, Abs(x))
	}
	if scale == 0 || math.IsInf(scale, 0) || scale != scale {
		return scale
	}
	s := 0.0
	for _, x := range v {
		a := Abs(x) / scale
		s += a * a
	}
	return scale * math.Sqrt(s)
}

// Conj is the complex conjugate.
func Conj[T Field](x T) T {
	if c, ok := any(x).(complex128); ok {
		return any(cmplx.Conj(c)).(T)
	}
	return x
}

// Abs is the magnitude.
func Abs[T Field](x T) float64 {
	if c, ok := any(x).(complex128); ok {
		return cmplx.Abs(c)
	}
	return math.Abs(any(x).(float64))
}

// Re is the real part.
func Re[T Field](x T) float64 {
	if c, ok := any(x).(complex128); ok {
		return real(c)
	}
	return any(x).(float64)
}

// Im is the imaginary part.
func Im[T Field](x T) float64 {
	if c, ok := any(x).(complex128); ok {
		return imag(c)
	}
	return 0
}

// From is a real number as a T.
func From[T Field](x float64) T {
	var t T
	switch p := any(&t).(type) {
	case *float64:
		*p = x
	case *complex128:
		*p = complex(x, 0)
	}
	return t
}

// FromParts is the number re + i*im as a T; a real T drops im.
func FromParts[T Field](re, im float64) T {
	var t T
	switch p := any(&t).(type) {
	case *float64:
		*p = re
	case *complex128:
		*p = complex(re, im)
	}
	return t
}

// LU factors m = P*L*U with partial pivoting: lu holds U and, below the
// diagonal, L without its unit diagonal; at step i rows i and piv[i] were
// swapped. zero is 1 + the first zero pivot, 0 if there is none.
//
// Source: LAPACK getrf, which compares |Re| + |Im| in the search for pivots.
func LU[T Field](m Mat[T]) (lu Mat[T], piv []int, zero int) {
	lu = m.Clone()
	k := min(m.R, m.C)
	piv = make([]int, k)
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
	tau = make([]T, min(m.R, m.C))
	for j := range tau {
		v := make([]T, m.R-j)
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
	w := make([]T, m.C)
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
	v := make([]T, qr.R-j)
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

// Symmetrize fills a matrix from its lower, or upper, triangle so that it is
// Hermitian.
func Symmetrize[T Field](m Mat[T], upper bool) Mat[T] {
	return m.Map(func(i, j int, x T) T {
		switch {
		case i == j:
			return From[T](Re(x))
		case (j > i) == upper:
			return x
		}
		return Conj(m.At(j, i))
	})
}

// Eigh gives the eigenvalues of a Hermitian matrix, ascending, and its
// eigenvectors as columns, by Jacobi rotations.
// Source: Golub and Van Loan, Matrix Computations, 8.5
func Eigh[T Field](m Mat[T]) (w []float64, v Mat[T]) {
	n := m.R
	a := m.Clone()
	rows := Eye[T](n, n) // rows of V^H
	for range 60 {
		off := 0.0
		for p := range n {
			for q := p + 1; q < n; q++ {
				g := a.At(p, q)
				r := Abs(g)
				off = math.Max(off, r/(math.Sqrt(math.Abs(Re(a.At(p, p))*Re(a.At(q, q))))+math.SmallestNonzeroFloat64))
				if r == 0 || r < 1e-300 {
					continue
				}
				phase := g / From[T](r)
				theta := (Re(a.At(q, q)) - Re(a.At(p, p))) / (2 * r)
				t := math.Copysign(1, theta) / (math.Abs(theta) + math.Sqrt(theta*theta+1))
				c := 1 / math.Sqrt(1+t*t)
				s := t * c
				cs, sp := From[T](c), From[T](s)*phase
				// Columns p, q times [c, s*phase; -s*conj(phase), c].
				for i := range n {
					row := a.Row(i)
					x, y := row[p], row[q]
					row[p], row[q] = cs*x-Conj(sp)*y, sp*x+cs*y
				}
				rp, rq := a.Row(p), a.Row(q)
				vp, vq := rows.Row(p), rows.Row(q)
				for i := range n {
					x, y := rp[i], rq[i]
					rp[i], rq[i] = cs*x-sp*y, Conj(sp)*x+cs*y
					x, y = vp[i], vq[i]
					vp[i], vq[i] = cs*x-sp*y, Conj(sp)*x+cs*y
				}
				rp[q], rq[p] = 0, 0
			}
		}
		if off < 1e-15 || off != off {
			break
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmpFloat(Re(a.At(x, x)), Re(a.At(y, y))) })
	w = make([]float64, n)
	v = Zeros[T](n, n)
	for k, i := range order {
		w[k] = Re(a.At(i, i))
		for j, x := range rows.Row(i) {
			v.D[j*n+k] = Conj(x)
		}
	}
	return w, v
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// SVD factors m = U*diag(s)*V^H with min(R, C) singular values in descending
// order, by one-sided Jacobi rotations.
// Source: Golub and Van Loan, Matrix Computations, 8.6.3
func SVD[T Field](m Mat[T]) (u Mat[T], s []float64, vh Mat[T]) {
	if m.R < m.C {
		v, s, uh := SVD(m.H())
		return uh.H(), s, v.H()
	}
	n := m.C
	// Rows of a are the columns of m; rows of r accumulate V.
	a, r := m.H(), Eye[T](n, n)
	for i := range a.D {
		a.D[i] = Conj(a.D[i])
	}
	for range 60 {
		turned := false
		for p := range n {
			for q := p + 1; q < n; q++ {
				x, y := a.Row(p), a.Row(q)
				var alpha, beta float64
				var g T
				for i := range x {
					ax, ay := Abs(x[i]), Abs(y[i])
					alpha += ax * ax
					beta += ay * ay
					g += Conj(x[i]) * y[i]
				}
				size := Abs(g)
				if size == 0 || size <= 1e-16*math.Sqrt(alpha)*math.Sqrt(beta) || size != size {
					continue
				}
				turned = true
				phase := Conj(g / From[T](size))
				zeta := (beta - alpha) / (2 * size)
				t := math.Copysign(1, zeta) / (math.Abs(zeta) + math.Sqrt(1+zeta*zeta))
				c := 1 / math.Sqrt(1+t*t)
				rotate(x, y, From[T](c), From[T](c*t), phase)
				rotate(r.Row(p), r.Row(q), From[T](c), From[T](c*t), phase)
			}
		}
		if !turned {
			break
		}
	}
	order := make([]int, n)
	size := make([]float64, n)
	for i := range order {
		order[i], size[i] = i, norm(a.Row(i))
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmpFloat(size[y], size[x]) })
	s = make([]float64, n)
	cols, vh := Zeros[T](n, m.R), Zeros[T](n, n)
	for k, i := range order {
		s[k] = size[i]
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

// Eig gives the eigenvalues of a square matrix and its eigenvectors as columns
// of norm 1, by QR iterations with Wilkinson's shift on its Hessenberg form.
// Source: Golub and Van Loan, Matrix Computations, 7.5, 7.6.4
func Eig(m Mat[complex128]) (w []complex128, v Mat[complex128]) {
	n := m.R
	h, q := m.Clone(), Eye[complex128](n, n)
	// turn applies the rotation [c, s; -conj(s), c] to rows i, k of h from
	// column from on, its adjoint to columns, and keeps q*h*q^H = m.
	turn := func(i, k int, c float64, s complex128, from, to int) {
		x, y := h.Row(i), h.Row(k)
		cc := complex(c, 0)
		for j := from; j < n; j++ {
			a, b := x[j], y[j]
			x[j], y[j] = cc*a+s*b, -cmplx.Conj(s)*a+cc*b
		}
		for j := range to {
			r := h.Row(j)
			a, b := r[i], r[k]
			r[i], r[k] = cc*a+cmplx.Conj(s)*b, -s*a+cc*b
		}
		for j := range n {
			r := q.Row(j)
			a, b := r[i], r[k]
			r[i], r[k] = cc*a+cmplx.Conj(s)*b, -s*a+cc*b
		}
	}
	// givens makes (a, b) into (r, 0).
	givens := func(a, b complex128) (float64, complex128) {
		r := math.Hypot(cmplx.Abs(a), cmplx.Abs(b))
		if r == 0 || b == 0 {
			return 1, 0
		}
		if a == 0 {
			return 0, cmplx.Conj(b) / complex(cmplx.Abs(b), 0)
		}
		return cmplx.Abs(a) / r, a / complex(cmplx.Abs(a), 0) * cmplx.Conj(b) / complex(r, 0)
	}
	for j := 0; j < n-2; j++ {
		for i := n - 1; i > j+1; i-- {
			if h.At(i, j) != 0 {
				c, s := givens(h.At(i-1, j), h.At(i, j))
				turn(i-1, i, c, s, j, n)
				h.D[i*n+j] = 0
			}
		}
	}
	for hi, tries := n-1, 0; hi > 0; {
		lo := hi
		for ; lo > 0; lo-- {
			if cmplx.Abs(h.At(lo, lo-1)) <= 1e-16*(cmplx.Abs(h.At(lo, lo))+cmplx.Abs(h.At(lo-1, lo-1))) {
				h.D[lo*n+lo-1] = 0
				break
			}
		}
		if lo == hi {
			hi, tries = hi-1, 0
			continue
		}
		if tries++; tries > 300 {
			break
		}
		// The eigenvalue of the last 2x2 block nearest its corner.
		a, b, c, d := h.At(hi-1, hi-1), h.At(hi-1, hi), h.At(hi, hi-1), h.At(hi, hi)
		half := (a - d) / 2
		root := cmplx.Sqrt(half*half + b*c)
		if real(half)*real(root)+imag(half)*imag(root) < 0 {
			root = -root
		}
		shift := d
		if half+root != 0 {
			shift = d - b*c/(half+root)
		}
		if tries%11 == 10 {
			shift += complex(cmplx.Abs(c), 0)
		}
		x, y := h.At(lo, lo)-shift, h.At(lo+1, lo)
		for k := lo; k < hi; k++ {
			if k > lo {
				x, y = h.At(k, k-1), h.At(k+1, k-1)
			}
			cs, sn := givens(x, y)
			turn(k, k+1, cs, sn, max(k-1, 0), min(k+3, hi+1))
			if k > lo {
				h.D[(k+1)*n+k-1] = 0
			}
		}
	}
	w = h.Diagonal()
	// Eigenvectors of the triangle by back substitution.
	scale := math.Max(h.Norm1(), math.SmallestNonzeroFloat64)
	t := Zeros[complex128](n, n)
	for k := range n {
		t.D[k*n+k] = 1
		for i := k - 1; i >= 0; i-- {
			var s complex128
			for j := i + 1; j <= k; j++ {
				s += h.At(i, j) * t.At(j, k)
			}
			d := w[k] - w[i]
			if cmplx.Abs(d) < 1e-16*scale {
				d = complex(1e-16*scale, 0)
			}
			t.D[i*n+k] = s / d
		}
	}
	v = q.Mul(t)
	for k := range n {
		col := make([]complex128, n)
		for i := range col {
			col[i] = v.At(i, k)
		}
		r := complex(norm(col), 0)
		for i := range col {
			v.D[i*n+k] /= r
		}
	}
	return w, v
}

// Expm is the matrix exponential, by a Padé approximant of degree 13 with
// scaling and squaring.
// Source: Higham, "The scaling and squaring method for the matrix exponential
// revisited", 2005
func Expm[T Field](m Mat[T]) Mat[T] {
	n := m.R
	squarings := 0
	if x := m.Norm1() / 5.371920351148152; x > 1 && !math.IsInf(x, 0) {
		squarings = int(math.Ceil(math.Log2(x)))
	}
	a := m.Scale(From[T](math.Ldexp(1, -squarings)))
	b := [...]float64{64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}
	id := Eye[T](n, n)
	a2 := a.Mul(a)
	a4 := a2.Mul(a2)
	a6 := a4.Mul(a2)
	sum := func(c6, c4, c2 float64) Mat[T] {
		return a6.Scale(From[T](c6)).Add(From[T](c4), a4).Add(From[T](c2), a2)
	}
	u := a.Mul(a6.Mul(sum(b[13], b[11], b[9])).Add(1, sum(b[7], b[5], b[3])).Add(From[T](b[1]), id))
	v := a6.Mul(sum(b[12], b[10], b[8])).Add(1, sum(b[6], b[4], b[2])).Add(From[T](b[0]), id)
	x, _ := Solve(v.Add(-1, u), v.Add(1, u))
	for range squarings {
		x = x.Mul(x)
	}
	return x
}
