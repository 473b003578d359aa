package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

func random[T Field](r *rand.Rand, rows, cols int) Mat[T] {
	return Zeros[T](rows, cols).Map(func(int, int, T) T { return FromParts[T](r.NormFloat64(), r.NormFloat64()) })
}

// structured are square matrices on which iterations are known to be slow.
func structured[T Field](r *rand.Rand, n int) map[string]Mat[T] {
	low, a := random[T](r, n, 2), random[T](r, n, n)
	entries := func(f func(i, j int) float64) Mat[T] {
		return Zeros[T](n, n).Map(func(i, j int, _ T) T { return From[T](f(i, j)) })
	}
	equal := func(a, b int) float64 {
		if a == b {
			return 1
		}
		return 0
	}
	return map[string]Mat[T]{
		"random": a, "rank 2": low.Mul(low.H()), "zero": Zeros[T](n, n), "identity": Eye[T](n, n),
		"ones":          entries(func(i, j int) float64 { return 1 }),
		"Hilbert":       entries(func(i, j int) float64 { return 1 / float64(i+j+1) }),
		"nilpotent":     entries(func(i, j int) float64 { return equal(i, j+1) }),
		"permutation":   entries(func(i, j int) float64 { return equal(i, (j+1)%n) }),
		"anti-diagonal": entries(func(i, j int) float64 { return equal(i, n-1-j) }),
		"graded":        a.Map(func(i, j int, x T) T { return x * From[T](math.Ldexp(1, -20*j)) }),
		"steep":         a.Map(func(i, j int, x T) T { return x * From[T](math.Ldexp(1, -70*(i+j))) }),
		"companion":     entries(func(i, j int) float64 { return equal(i, j+1) + float64(j+1)*equal(i, 0) }),
		"huge":          a.Map(func(_, _ int, x T) T { return x * From[T](0x1p1012) }),
		"tiny":          a.Scale(From[T](0x1p-1000)),
		"isolated":      entries(func(i, j int) float64 { return equal(i+j, 0) + 1e-301*equal(i+j, 2*n-3) }),
	}
}

// far is the largest magnitude in a-b over that in a, which is 1 for zeros.
func far[T Field](a, b Mat[T]) float64 {
	most, size := 0.0, 0.0
	for i, x := range a.D {
		most, size = math.Max(most, Abs(x/2-b.D[i]/2)), math.Max(size, Abs(x/2))
	}
	if size == 0 {
		return most
	}
	return most / size
}

func testDecompositions[T Field](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 8, 24} {
		limit := 100 * float64(n) * 0x1p-52
		for name, m := range structured[T](r, n) {
			name := fmt.Sprint(name, " ", n)
			u, s, vh := SVD(m)
			scaled := make([]T, len(s))
			for i, x := range s {
				scaled[i] = From[T](x)
				if i > 0 && x > s[i-1] {
					t.Errorf("SVD of %s: %v is not in order", name, s)
				}
			}
			if d := far(m, u.Mul(Diag(scaled)).Mul(vh)); !(d <= limit) {
				t.Errorf("SVD of %s: the product is off by %g", name, d)
			}
			if d, e := far(Eye[T](n, n), u.H().Mul(u)), far(Eye[T](n, n), vh.Mul(vh.H())); !(d+e <= limit) {
				t.Errorf("SVD of %s: vectors are off by %g and %g", name, d, e)
			}
			h := Symmetrize(m, false)
			w, v := Eigh(h)
			for i, x := range w {
				scaled[i] = From[T](x)
			}
			if d := far(h, v.Mul(Diag(scaled)).Mul(v.H())); !(d <= limit) {
				t.Errorf("Eigh of %s: the product is off by %g", name, d)
			}
			if d := far(Eye[T](n, n), v.H().Mul(v)); !(d <= limit) {
				t.Errorf("Eigh of %s: vectors are off by %g", name, d)
			}
		}
	}
}

func TestDecompositions(t *testing.T) {
	t.Run("real", testDecompositions[float64])
	t.Run("complex", testDecompositions[complex128])
}

// TestEig checks m*v = v*w, for real matrices also that eigenvalues are pairs.
func TestEig(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	check := func(name string, m Mat[complex128], w []complex128, v Mat[complex128]) {
		t.Helper()
		m, exponent := balanced(m)
		for i, x := range w {
			w[i] = complex(math.Ldexp(real(x), -exponent), math.Ldexp(imag(x), -exponent))
		}
		limit := 200 * float64(m.R) * 0x1p-52 * m.Frobenius()
		for k, x := range w {
			sum := 0.0
			for i := range m.R {
				var y complex128
				for j, a := range m.Row(i) {
					y += a * v.At(j, k)
				}
				if d := cmplx.Abs(y - x*v.At(i, k)); !(d <= limit) {
					t.Fatalf("%s %d: eigenvalue %v is off by %g, want at most %g", name, m.R, x, d, limit)
				}
				sum += cmplx.Abs(v.At(i, k)) * cmplx.Abs(v.At(i, k))
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Fatalf("%s %d: vector %d has the length %g", name, m.R, k, math.Sqrt(sum))
			}
		}
	}
	for _, n := range []int{1, 2, 3, 8, 24} {
		for name, m := range structured[float64](r, n) {
			c := m.toComplex()
			w, v := Eig(c)
			check(name, c, w, v)
			for k := 0; k < n; k++ {
				if imag(w[k]) == 0 {
					continue
				}
				if w[k+1] != cmplx.Conj(w[k]) {
					t.Errorf("%s %d: %v and %v are no pair", name, n, w[k], w[k+1])
				}
				k++
			}
			if name != "huge" && name != "tiny" { // Eig takes care of these
				w, v = eig(c, 300)
				check(name+", complex", c, w, v)
			}
		}
		for name, m := range structured[complex128](r, n) {
			w, v := Eig(m)
			check(name, m, w, v)
		}
	}
	for _, bad := range []complex128{complex(math.NaN(), 0), complex(0, math.Inf(1))} {
		m := random[complex128](r, 3, 3)
		m.D[4] = bad
		if w, v := Eig(m); !cmplx.IsNaN(w[0]) || !cmplx.IsNaN(v.D[8]) {
			t.Errorf("with %v: eigenvalues %v", bad, w)
		}
	}
}

func (m Mat[T]) toComplex() Mat[complex128] {
	c := Zeros[complex128](m.R, m.C)
	for i, x := range m.D {
		c.D[i] = complex(Re(x), Im(x))
	}
	return c
}

// TestSmallValues compares products of singular values and of eigenvalues of
// graded matrices with their determinants: no digit of a small value is lost.
func TestSmallValues(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{4, 8, 12} {
		a := random[float64](r, n, n).Map(func(_, j int, x float64) float64 { return math.Ldexp(x, -6*j) })
		_, s, _ := SVD(a)
		if d := offDeterminant(s, a); !(d < 1e-13) {
			t.Errorf("%d singular values: the product is off by %g", n, d)
		}
		h := Symmetrize(a.H().Mul(a), false)
		w, _ := Eigh(h)
		if d := offDeterminant(w, h); !(d < 1e-11) {
			t.Errorf("%d eigenvalues: the product is off by %g", n, d)
		}
	}
}

// offDeterminant is how far, relatively, the product of v is from the
// determinant of m up to sign, by elimination in 2000 bits.
func offDeterminant(v []float64, m Mat[float64]) float64 {
	number := func() *big.Float { return new(big.Float).SetPrec(2000) }
	a := make([][]*big.Float, m.R)
	for i := range a {
		for _, x := range m.Row(i) {
			a[i] = append(a[i], number().SetFloat64(x))
		}
	}
	ratio := number().SetInt64(1)
	for k := range a {
		ratio.Quo(ratio.Mul(ratio, number().SetFloat64(v[k])), a[k][k])
		for i := k + 1; i < m.R; i++ {
			f := number().Quo(a[i][k], a[k][k])
			for j := k; j < m.C; j++ {
				a[i][j].Sub(a[i][j], number().Mul(f, a[k][j]))
			}
		}
	}
	x, _ := ratio.Float64()
	return math.Abs(math.Abs(x) - 1)
}

// TestConvergence: an iteration that does not end gives no numbers.
func TestConvergence(t *testing.T) {
	m := random[complex128](rand.New(rand.NewPCG(7, 8)), 9, 9)
	for _, c := range []struct {
		name, want string
		run        func()
	}{
		{"svd", "singular values did not converge in 2 sweeps", func() { svd(m, 2) }},
		{"svd of a wide matrix", "singular values did not converge in 1 sweeps", func() { svd(m.Rows(0, 4), 1) }},
		{"eigh", "eigenvalues did not converge in 3 sweeps", func() { eigh(Symmetrize(m, true), 3) }},
		{"eig", "eigenvalues did not converge in 1 iterations", func() { eig(m, 1) }},
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				var e *ConvergenceError
				if !errors.As(err, &e) || e.Error() != c.want {
					t.Errorf("%s: got %v, want %s", c.name, err, c.want)
				}
			}()
			c.run()
		}()
	}
}

// The singular values alone are those of the whole decomposition to the precision of the largest.
func TestSingularValues(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 3, 8, 24} {
		real, complex := structured[float64](r, n), structured[complex128](r, n)
		real["tall"], complex["wide"] = random[float64](r, n+5, n), random[complex128](r, n, n+3)
		for name, m := range real {
			complex["real "+name] = Mat[complex128]{R: m.R, C: m.C, D: make([]complex128, len(m.D))}
			for i, x := range m.D {
				complex["real "+name].D[i] = From[complex128](x)
			}
		}
		for name, m := range complex {
			_, want, _ := SVD(m)
			got := SingularValues(m)
			if len(got) != len(want) {
				t.Fatalf("%s of %d: %d values, want %d", name, n, len(got), len(want))
			}
			for i, x := range got {
				if !(math.Abs(x-want[i]) <= 100*float64(n)*0x1p-52*want[0]) {
					t.Errorf("%s of %d: value %d is %g, want %g; the largest is %g", name, n, i, x, want[i], want[0])
				}
			}
		}
	}
	for _, x := range []complex128{cmplx.NaN(), cmplx.Inf(), 1i * cmplx.Inf()} {
		if s := SingularValues(Mat[complex128]{R: 2, C: 2, D: []complex128{1, x, 0, 1}}); s[0] == s[0] || s[1] == s[1] {
			t.Errorf("singular values of a matrix with %v: %v, want NaN", x, s)
		}
	}
}
