package compare

import (
	"math"

	"github.com/optool/optool/tensor"
)

// RMSE is the root of the mean squared difference of two tensors of one shape,
// in float64 (of complex numbers: of the magnitude of the difference). Elements
// that are equal, also infinite or NaN in both, differ by 0; a NaN or infinity on
// one side gives NaN or infinity. An empty tensor gives 0.
func RMSE(a, b *tensor.Tensor) float64 {
	n := a.Numel()
	if n == 0 {
		return 0
	}
	var sum float64
	step := max(a.Block(), b.Block())
	if a.DType.IsComplex() || b.DType.IsComplex() {
		sum = sumSquares(a, b, step, func(x, y complex128) float64 {
			re, im := difference(real(x), real(y)), difference(imag(x), imag(y))
			return re*re + im*im
		})
	} else {
		sum = sumSquares(a, b, step, func(x, y float64) float64 {
			d := difference(x, y)
			return d * d
		})
	}
	return math.Sqrt(sum / float64(n))
}

func difference(x, y float64) float64 {
	if x == y || x != x && y != y {
		return 0
	}
	return x - y
}

func sumSquares[T tensor.Elem](a, b *tensor.Tensor, step int, square func(x, y T) float64) float64 {
	n := a.Numel()
	x, y := tensor.Make[T](min(step, n)), tensor.Make[T](min(step, n))
	sum := 0.0
	for lo := 0; lo < n; lo += step {
		k := min(step, n-lo)
		tensor.Load(a, lo, x[:k])
		tensor.Load(b, lo, y[:k])
		for i, v := range x[:k] {
			sum += square(v, y[i])
		}
	}
	return sum
}
