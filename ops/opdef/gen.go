package opdef

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/tensor"
)

// Gen makes tensors for cases: values that every dtype holds well, layouts as
// captures have them. Floating tensors ask for a gradient.
type Gen struct {
	R   *rand.Rand
	Nth int // which case of PerDType is being made, from 0: for what the others do not have

	declared *operator // whose cases are made, for Calls
}

// Uniform returns a floating or complex tensor with values in [lo, hi],
// rounded to dt as a captured tensor would be.
func (g Gen) Uniform(dt tensor.DType, lo, hi float64, shape ...int) *tensor.Tensor {
	n := tensor.Numel(shape)
	var t *tensor.Tensor
	if dt.IsComplex() {
		v := make([]complex128, n)
		for i := range v {
			v[i] = complex(lo+(hi-lo)*g.R.Float64(), lo+(hi-lo)*g.R.Float64())
		}
		t = tensor.New(dt, shape, v)
	} else {
		v := make([]float64, n)
		for i := range v {
			v[i] = lo + (hi-lo)*g.R.Float64()
		}
		t = tensor.New(dt, shape, v)
	}
	t = t.Rounded()
	t.RequiresGrad = true
	return t
}

// Normal returns a tensor of standard normal values.
func (g Gen) Normal(dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Numel(shape)
	if dt.IsComplex() {
		v := make([]complex128, n)
		for i := range v {
			v[i] = complex(g.R.NormFloat64(), g.R.NormFloat64())
		}
		t := tensor.New(dt, shape, v).Rounded()
		t.RequiresGrad = true
		return t
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = g.R.NormFloat64()
	}
	t := tensor.New(dt, shape, v).Rounded()
	t.RequiresGrad = dt.IsFloat()
	return t
}

// Int returns an integer (or bool) tensor with values in [lo, hi].
func (g Gen) Int(dt tensor.DType, lo, hi int, shape ...int) *tensor.Tensor {
	v := make([]int64, tensor.Numel(shape))
	for i := range v {
		v[i] = int64(lo + g.R.IntN(hi-lo+1))
	}
	return tensor.New(dt, shape, v).Rounded()
}

// Distinct returns a floating tensor whose values differ from each other by at
// least 0.1, in random order: for ops whose gradient jumps at ties.
func (g Gen) Distinct(dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Numel(shape)
	v := make([]float64, n)
	for i, p := range g.R.Perm(n) {
		v[i] = 0.125*float64(p-n/2) + 0.0625
	}
	t := tensor.New(dt, shape, v).Rounded()
	t.RequiresGrad = dt.IsFloat()
	return t
}

// LongRows are lengths of rows that kernels take in several blocks, none a multiple of a block: a part of each is left
// after the last whole one.
var LongRows = []int{133, 1030}

// Rows returns rows (last dimension) of values in turn: rising, so that the largest are in the part after the last
// whole block; a large one first; standard normal ones. A kernel that is wrong about a block is wrong about a row.
func (g Gen) Rows(dt tensor.DType, shape ...int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	n := shape[len(shape)-1]
	for i := range v {
		row, at := i/n, i%n
		v[i] = g.R.NormFloat64()
		switch {
		case row%3 == 0:
			v[i] = -4 + 12*float64(at)/float64(max(n-1, 1))
		case row%3 == 1 && at == 0:
			v[i] = 8
		}
	}
	t := tensor.New(dt, shape, v).Rounded()
	t.RequiresGrad = dt.IsFloat()
	return t
}

// Tails returns rows (last dimension) of normal values for functions that subtract the maximum of a row, in turn: the
// last element is so much larger that exponentials overflow if it is left out of the maximum; what is left over after
// the whole blocks of 64 is -inf, as a mask leaves it; only what is left over is not.
func (g Gen) Tails(dt tensor.DType, shape ...int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	n := shape[len(shape)-1]
	whole := (n - 1) / 64 * 64
	for i := range v {
		row, at := i/n, i%n
		v[i] = g.R.NormFloat64()
		switch {
		case row%3 == 0 && at == n-1:
			v[i] = 800 // exp(710) is the largest of float64
		case row%3 == 1 && at >= whole, row%3 == 2 && at < whole:
			v[i] = math.Inf(-1)
		}
	}
	t := tensor.New(dt, shape, v).Rounded()
	t.RequiresGrad = dt.IsFloat()
	return t
}

// Apart returns standard normal values kept at least 0.2 away from the points:
// for functions with a kink or a pole there.
func (g Gen) Apart(dt tensor.DType, points []float64, shape ...int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	for i := range v {
	draw:
		for {
			v[i] = g.R.NormFloat64()
			for _, p := range points {
				if math.Abs(v[i]-p) < 0.2 {
					continue draw
				}
			}
			break
		}
	}
	t := tensor.New(dt, shape, v).Rounded()
	t.RequiresGrad = dt.IsFloat()
	return t
}

// Regular returns square matrices near a multiple of the identity; positive makes them Hermitian and positive definite.
func (g Gen) Regular(dt tensor.DType, positive bool, shape ...int) *tensor.Tensor {
	data := slices.Clone(tensor.Data[complex128](g.Uniform(dt, -0.5, 0.5, shape...)))
	n := shape[len(shape)-1]
	for at := 0; at < len(data); at += n * n {
		m := data[at : at+n*n]
		for i := range n {
			m[i*n+i] += complex(float64(n)/2+0.5+0.75*float64(i), 0)
			if positive {
				m[i*n+i] = complex(real(m[i*n+i]), 0)
				for j := range i {
					m[j*n+i] = cmplx.Conj(m[i*n+j])
				}
			}
		}
	}
	t := Cast(tensor.New(tensor.Complex128, shape, data), dt).Rounded()
	t.RequiresGrad = true
	return t
}

// NonContiguous returns a tensor equal to t whose elements are not adjacent:
// dimensions in reverse order in memory and gaps between the innermost.
func NonContiguous(t *tensor.Tensor) *tensor.Tensor {
	if t.Dim() == 0 || t.Numel() == 0 {
		return t
	}
	rev := make([]int, t.Dim())
	for i := range rev {
		rev[i] = t.Dim() - 1 - i
	}
	raw := t.Permute(rev...).Dense().Rounded().AppendBytes(nil)
	size := t.DType.Size()
	// Every element is followed by a gap holding another pattern.
	wide := make([]byte, 2*len(raw)+size)
	for i := range wide {
		wide[i] = 0x7b
	}
	for i := 0; i < len(raw); i += size {
		copy(wide[size+2*i:], raw[i:i+size])
	}
	stride := make([]int, t.Dim())
	n := 2
	for i := range t.Shape {
		stride[i] = n
		n *= t.Shape[i]
	}
	u, err := tensor.NewView(tensor.NewStorage(wide), tensor.View{DType: t.DType, Shape: slices.Clone(t.Shape),
		Stride: stride, Offset: 1})
	if err != nil {
		panic(err)
	}
	u.RequiresGrad, u.Device = t.RequiresGrad, t.Device
	return u
}

// PerDType makes cases of one for every floating dtype operators are checked with.
func PerDType[A any](one func(g Gen, dt tensor.DType) *A) func(g Gen) []*A {
	return func(g Gen) (out []*A) {
		for i, dt := range tensor.Floats() {
			g.Nth = i
			out = append(out, one(g, dt))
		}
		return out
	}
}
