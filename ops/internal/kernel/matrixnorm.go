package kernel

import (
	"math"

	"github.com/optool/optool/internal/quota"
)

// MatrixNorm is a norm of m and its gradient: the Frobenius norm (word fro), the
// sum of the singular values (nuc), or by order the largest (2) or smallest
// (-2) singular value, the largest (1) or smallest (-1) sum of magnitudes of a
// column, or of a row (inf, -inf). Ties share the gradient.
func MatrixNorm[T Field](m Mat[T], word string, order float64) (v float64, slope Mat[T]) {
	switch {
	case word == "fro":
		v = m.Frobenius()
		if v == 0 {
			return v, Zeros[T](m.R, m.C)
		}
		return v, m.Scale(From[T](1 / v))
	case word == "nuc":
		u, s, vh := SVD(m)
		for _, x := range s {
			v += x
		}
		return v, u.Mul(vh)
	case math.Abs(order) == 2:
		u, s, vh := SVD(m)
		v, share := extremum(s, order < 0)
		d := make([]T, len(s))
		for i, x := range share {
			d[i] = From[T](x)
		}
		return v, u.Mul(Diag(d)).Mul(vh)
	case math.IsInf(order, 0):
		v, slope = MatrixNorm(m.H(), "", math.Copysign(1, order))
		return v, slope.H()
	}
	sums := quota.Make[float64](m.C)
	for i := range m.R {
		for j, x := range m.Row(i) {
			sums[j] += Abs(x)
		}
	}
	v, share := extremum(sums, order < 0)
	return v, m.Map(func(_, j int, x T) T {
		if r := Abs(x); r != 0 {
			return x * From[T](share[j]/r)
		}
		return 0
	})
}

// extremum is the largest or smallest of v and the shares of those equal to it.
func extremum(v []float64, smallest bool) (best float64, share []float64) {
	best = v[0]
	for _, x := range v {
		if smallest {
			best = math.Min(best, x)
		} else {
			best = math.Max(best, x)
		}
	}
	share = make([]float64, len(v))
	n := 0.0
	for i, x := range v {
		if x == best {
			share[i] = 1
			n++
		}
	}
	for i := range share {
		share[i] /= math.Max(n, 1)
	}
	return best, share
}
