package kernel

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/quota"
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
func Zeros[T Field](r, c int) Mat[T] { return Mat[T]{r, c, quota.Make[T](r * c)} }

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
	v := quota.Make[T](min(m.R, m.C))
	for i := range v {
		v[i] = m.At(i, i)
	}
	return v
}

// Norm1 is the largest sum of magnitudes of a column.
func (m Mat[T]) Norm1() float64 {
	sum := quota.Make[float64](m.C)
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
