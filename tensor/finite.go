package tensor

import (
	"sync/atomic"

	"github.com/optool/optool/internal/num/vmath"
)

// exponents are where the exponents of dtypes lie whose stored elements AllFinite looks at where they are.
var exponents = map[DType]vmath.Exponent{BFloat16: vmath.ExponentBF16, Float16: vmath.ExponentF16,
	Float32: vmath.Exponent32, Float64: vmath.Exponent64}

// AllFinite reports whether no element of a floating tensor is infinite or NaN.
//
// It panics with a *ReadError if the storage cannot be read.
func (t *Tensor) AllFinite() bool {
	finite := func(lo, hi int) bool {
		v := make([]float64, hi-lo)
		Load(t, lo, v)
		sum := 0.0 // of others than finite numbers the product with 0 is NaN
		for _, x := range v {
			sum += x * 0
		}
		return sum == 0
	}
	if e, ok := exponents[t.DType]; ok && t.back.stored != nil && t.IsContiguous() && t.Numel() > 0 {
		size := t.DType.Size()
		raw := t.back.stored.mustLoad()[t.Offset*size : (t.Offset+t.Numel())*size]
		finite = func(lo, hi int) bool { return vmath.Finite(raw[lo*size:hi*size], e) }
	}
	var other atomic.Bool
	parallelBlocks(t.Numel(), t.Grain(), func(lo, hi int) {
		if !other.Load() && !finite(lo, hi) {
			other.Store(true)
		}
	})
	return !other.Load()
}
