package reduction

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// CheckNorm refuses norms that no elements have.
func CheckNorm(arg string, x *tensor.Tensor, p float64, dims []int) error {
	if (p < 0 || math.IsInf(p, 1)) && elements.NumelOver(x.Shape, dims) == 0 {
		return opdef.Refuse(arg, "a norm of order %v of no elements is not defined", p)
	}
	return nil
}

// KeptShape is shape with dimensions of size 1 in place of dims.
func KeptShape(shape, dims []int) []int {
	s := slices.Clone(shape)
	for _, d := range dims {
		s[d] = 1
	}
	return s
}

// VectorNorm is the norm of order p of floating or complex x over dims.
func VectorNorm(x *tensor.Tensor, p float64, dims []int, keepdim bool) *tensor.Tensor {
	if x.DType.IsComplex() {
		x = opdef.Abs(x)
	}
	if math.IsInf(p, 0) {
		return opdef.Must(Extreme(opdef.Abs(x), dims, keepdim, p < 0)) // CheckNorm refused no elements
	}
	f := opdef.Fold[float64, float64]{Join: func(acc *float64, next float64) { *acc += next }}
	// adding sets what is added up of a run, which of may overwrite.
	adding := func(of func(run []float64) float64) {
		f.Add = func(acc *float64, _ int, v [][]float64) { *acc += of(v[0]) }
	}
	root := func(s float64) float64 { return s }
	switch p {
	case 0:
		adding(func(run []float64) float64 {
			n := 0
			for _, x := range run {
				if x != 0 {
					n++
				}
			}
			return float64(n)
		})
	case 1:
		adding(func(run []float64) float64 {
			vmath.Abs(run, run)
			return vmath.Sum(run)
		})
	case 2:
		adding(func(run []float64) float64 { return vmath.Dot(run, run) })
		root = math.Sqrt
	default:
		adding(func(run []float64) float64 {
			for i, x := range run {
				run[i] = math.Pow(math.Abs(x), p)
			}
			return vmath.Sum(run)
		})
		root = func(s float64) float64 { return math.Pow(s, 1/p) }
	}
	return opdef.Collect(opdef.FoldDims(f, dims, keepdim, x), x.DType, func(s *float64) float64 { return root(*s) })
}

// NormSlope is the magnitude of the derivative of the norm y of order p by an
// element of magnitude a; ties is how many elements share an extreme one. Where
// y is nan or infinite it is what torch's formula gives.
func NormSlope(p, a, y, ties float64) float64 {
	switch {
	case p == 0:
		return 0
	case math.IsInf(p, 0):
		if a == y || a != a {
			return 1 / ties
		}
		return 0
	case p == 1:
		return 1
	case y == 0 && p > 1:
		return 0
	case a == 0:
		return 0 * math.Pow(y, 1-p)
	case p == 2:
		return a / y
	}
	return math.Pow(a/y, p-1)
}

// WithSign is m*sgn(x): the sign of a real nan is 0, as torch's.
func WithSign(x, m *tensor.Tensor) *tensor.Tensor {
	if x.DType.IsComplex() {
		return opdef.Zip(x.DType, x, m, func(x, m complex128) complex128 {
			if x == 0 {
				return 0 * m
			}
			return m * (x / complex(cmplx.Abs(x), 0))
		})
	}
	return opdef.Zip(x.DType, x, m, func(x, m float64) float64 {
		switch {
		case x > 0:
			return m
		case x < 0:
			return -m
		}
		return 0 * m
	})
}

// NormGrad is the gradient of x for the gradient up of its norm y of order p.
func NormGrad(x, y, up *tensor.Tensor, p float64, dims []int) *tensor.Tensor {
	up = opdef.Unreduce(up, x.Shape, dims)
	if p == 2 && !x.DType.IsComplex() {
		y := opdef.Map(y.DType, y, func(y float64) float64 {
			if y == 0 { // where all elements are 0, so is their gradient
				return math.Inf(1)
			}
			return y
		})
		return opdef.ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
			vmath.Div(dst, s[0], s[1])
			vmath.Mul(dst, dst, s[2])
		}, x, opdef.Unreduce(y, x.Shape, dims), up)
	}
	yy := opdef.Unreduce(y, x.Shape, dims)
	ax, ties := opdef.Abs(x), tensor.Full(tensor.Float64, x.Shape, 1.0)
	if math.IsInf(p, 0) {
		same := opdef.Zip(tensor.Float64, ax, yy, func(a, y float64) float64 { return NormSlope(p, a, y, 1) })
		ties = opdef.Unreduce(opdef.Sum(tensor.Float64, same, dims, false), x.Shape, dims)
	}
	m := opdef.ZipN(tensor.Float64, x.Shape, func(dst []float64, s [][]float64) {
		for i, a := range s[0] {
			dst[i] = s[3][i] * NormSlope(p, a, s[1][i], s[2][i])
		}
	}, ax, yy, ties, up)
	return WithSign(x, m)
}
