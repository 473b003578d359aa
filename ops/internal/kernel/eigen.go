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

// sweepLimit is how many times Jacobi rotations go over all pairs: about ten
// suffice for random matrices of hundreds of rows, twenty for graded ones.
const sweepLimit = 60

// Eigh gives the eigenvalues of a Hermitian matrix, ascending, and its
// eigenvectors as columns, by Jacobi rotations. It panics with a
// *ConvergenceError if these do not end.
//
// LAPACK's syev is faster (gonum's takes a tenth of the time at 200 rows) but
// finds small eigenvalues only to the precision of the largest. Rotations keep
// their digits where the matrix determines them: of A^T*A, where column j of a
// random A of 12 columns is scaled by 2**-6j, the product of the eigenvalues is
// right to 5e-15 here and has no right digit, nor the right sign, from syev.
//
// Source: Golub and Van Loan, Matrix Computations, 8.5
func Eigh[T Field](m Mat[T]) (w []float64, v Mat[T]) { return eigh(m, sweepLimit) }

func eigh[T Field](m Mat[T], limit int) (w []float64, v Mat[T]) {
	n := m.R
	a, exponent := balanced(m)
	rows := Eye[T](n, n) // rows of V^H
	for sweep, off := 0, math.Inf(1); !(off < 1e-15 || off != off); sweep++ {
		if sweep == limit {
			panic(&ConvergenceError{"eigenvalues", limit, "sweeps"})
		}
		off = 0
		for p := range n {
			for q := p + 1; q < n; q++ {
				g := a.At(p, q)
				r := Abs(g)
				if r < negligible {
					a.D[p*n+q], a.D[q*n+p] = 0, 0
					continue
				}
				size := math.Sqrt(math.Abs(Re(a.At(p, p)))) * math.Sqrt(math.Abs(Re(a.At(q, q))))
				off = math.Max(off, r/(size+math.SmallestNonzeroFloat64))
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
	}
	order := quota.Make[int](n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmpFloat(Re(a.At(x, x)), Re(a.At(y, y))) })
	w = quota.Make[float64](n)
	v = Zeros[T](n, n)
	for k, i := range order {
		w[k] = math.Ldexp(Re(a.At(i, i)), exponent)
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

// Eig gives the eigenvalues of a square matrix and its eigenvectors as columns
// of norm 1: NaN if an element is not finite. It panics with a *ConvergenceError
// if its iterations do not end.
//
// Real matrices are LAPACK's: geev is as precise, takes a fifth of the time at
// 200 rows, and gives conjugate pairs that are exactly so.
func Eig(m Mat[complex128]) (w []complex128, v Mat[complex128]) {
	isReal := true
	for _, x := range m.D {
		if !finite(x) {
			nan := complex(math.NaN(), math.NaN())
			return slices.Repeat([]complex128{nan}, m.R), m.Map(func(int, int, complex128) complex128 { return nan })
		}
		isReal = isReal && imag(x) == 0
	}
	if isReal {
		return realEig(m)
	}
	m, exponent := balanced(m)
	w, v = eig(m, 300)
	for i, x := range w {
		w[i] = complex(math.Ldexp(real(x), exponent), math.Ldexp(imag(x), exponent))
	}
	return w, v
}

// realEig is Eig of a matrix without imaginary parts.
func realEig(m Mat[complex128]) (w []complex128, v Mat[complex128]) {
	n := m.R
	general := func() blas64.General {
		return blas64.General{Rows: n, Cols: n, Stride: max(n, 1), Data: quota.Make[float64](n * n)}
	}
	a, right, none := general(), general(), blas64.General{Stride: 1}
	for i, x := range m.D {
		a.Data[i] = real(x)
	}
	re, im := quota.Make[float64](n), quota.Make[float64](n)
	geev := func(work []float64, size int) int {
		return lapack64.Geev(lapack.LeftEVNone, lapack.RightEVCompute, a, re, im, none, right, work, size)
	}
	size := []float64{0}
	geev(size, -1) // how much room it needs
	if first := geev(quota.Make[float64](int(size[0])), int(size[0])); first > 0 {
		panic(&ConvergenceError{"eigenvalues", 30 * max(10, n), "iterations"})
	}
	w, v = quota.Make[complex128](n), Zeros[complex128](n, n)
	for j := 0; j < n; j++ {
		w[j] = complex(re[j], im[j])
		if im[j] == 0 {
			for i := range n {
				v.D[i*n+j] = complex(right.Data[i*n+j], 0)
			}
			continue
		}
		w[j+1] = complex(re[j+1], im[j+1])
		for i := range n {
			x := complex(right.Data[i*n+j], right.Data[i*n+j+1])
			v.D[i*n+j], v.D[i*n+j+1] = x, cmplx.Conj(x)
		}
		j++
	}
	return w, v
}

// eig is Eig by QR iterations with Wilkinson's shift on the Hessenberg form, at
// most limit for one eigenvalue.
// Source: Golub and Van Loan, Matrix Computations, 7.5, 7.6.4
func eig(m Mat[complex128], limit int) (w []complex128, v Mat[complex128]) {
	n := m.R
	s := schur{m.Clone(), Eye[complex128](n, n)}
	s.toHessenberg()
	s.toTriangle(limit, 0x1p-60*m.Frobenius()) // far below what rounding did already
	w = s.h.Diagonal()
	v = s.q.Mul(triangleVectors(s.h, w))
	for k := range n {
		col := quota.Make[complex128](n)
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

// A schur is a matrix on its way to a triangle: q*h*q^H stays the same.
type schur struct{ h, q Mat[complex128] }

// turn applies the rotation [c, s; -conj(s), c] to rows i, k of h from
// column from on, its adjoint to columns.
func (sc schur) turn(i, k int, c float64, s complex128, from, to int) {
	n, cc := sc.h.R, complex(c, 0)
	x, y := sc.h.Row(i), sc.h.Row(k)
	for j := from; j < n; j++ {
		a, b := x[j], y[j]
		x[j], y[j] = cc*a+s*b, -cmplx.Conj(s)*a+cc*b
	}
	for j := range to {
		r := sc.h.Row(j)
		a, b := r[i], r[k]
		r[i], r[k] = cc*a+cmplx.Conj(s)*b, -s*a+cc*b
	}
	for j := range n {
		r := sc.q.Row(j)
		a, b := r[i], r[k]
		r[i], r[k] = cc*a+cmplx.Conj(s)*b, -s*a+cc*b
	}
}

// givens is the rotation that makes (a, b) into (r, 0).
func givens(a, b complex128) (float64, complex128) {
	r := math.Hypot(cmplx.Abs(a), cmplx.Abs(b))
	if r == 0 || b == 0 {
		return 1, 0
	}
	if a == 0 {
		return 0, cmplx.Conj(b) / complex(cmplx.Abs(b), 0)
	}
	return cmplx.Abs(a) / r, a / complex(cmplx.Abs(a), 0) * cmplx.Conj(b) / complex(r, 0)
}

// toHessenberg makes zeros of what is more than one below the diagonal.
func (sc schur) toHessenberg() {
	h, n := sc.h, sc.h.R
	for j := 0; j < n-2; j++ {
		for i := n - 1; i > j+1; i-- {
			if h.At(i, j) != 0 {
				c, s := givens(h.At(i-1, j), h.At(i, j))
				sc.turn(i-1, i, c, s, j, n)
				h.D[i*n+j] = 0
			}
		}
	}
}

// toTriangle makes zeros of what is below the diagonal; what is up to small is taken as one.
func (sc schur) toTriangle(limit int, small float64) {
	for hi, tries := sc.h.R-1, 0; hi > 0; {
		lo := sc.block(hi, small)
		if lo == hi {
			hi, tries = hi-1, 0
			continue
		}
		if tries++; tries > limit {
			panic(&ConvergenceError{"eigenvalues", limit, "iterations"})
		}
		sc.iterate(lo, hi, tries%11 == 10)
	}
}

// block is the first row of the block that ends with row hi: before it, the element below the diagonal is 0.
func (sc schur) block(hi int, small float64) (lo int) {
	h, n := sc.h, sc.h.R
	for lo = hi; lo > 0; lo-- {
		beside := cmplx.Abs(h.At(lo, lo)) + cmplx.Abs(h.At(lo-1, lo-1))
		if cmplx.Abs(h.At(lo, lo-1)) <= math.Max(1e-16*beside, small) {
			h.D[lo*n+lo-1] = 0
			break
		}
	}
	return lo
}

// iterate does one step of QR on the block of rows lo to hi. An exceptional shift ends a cycle.
func (sc schur) iterate(lo, hi int, exceptional bool) {
	h, n := sc.h, sc.h.R
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
	if exceptional {
		shift += complex(cmplx.Abs(c), 0)
	}
	x, y := h.At(lo, lo)-shift, h.At(lo+1, lo)
	for k := lo; k < hi; k++ {
		if k > lo {
			x, y = h.At(k, k-1), h.At(k+1, k-1)
		}
		cs, sn := givens(x, y)
		sc.turn(k, k+1, cs, sn, max(k-1, 0), min(k+3, hi+1))
		if k > lo {
			h.D[(k+1)*n+k-1] = 0
		}
	}
}

// triangleVectors are the eigenvectors of a triangle with diagonal w, by back substitution.
func triangleVectors(h Mat[complex128], w []complex128) Mat[complex128] {
	n := h.R
	scale := math.Max(h.Norm1(), negligible)
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
			if cmplx.Abs(t.D[i*n+k]) > 0x1p300 { // it is normalised at the end
				for j := i; j <= k; j++ {
					t.D[j*n+k] *= 0x1p-300
				}
			}
		}
	}
	return t
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
