package kernel

import (
	"math"
	"math/cmplx"
	"slices"
)

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
	b := [...]float64{64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
		10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}
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
