package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type vandermondeArgs struct {
	X *tensor.Tensor
	N *int
}

// powers are those of the elements of x, in the columns of a matrix.
type powers struct {
	x     *tensor.Tensor
	shape []int
}

func (a *vandermondeArgs) powers() (*powers, error) {
	shape := slices.Clone(a.X.Shape)
	if len(shape) == 0 {
		shape = []int{1}
	}
	n := shape[len(shape)-1]
	if a.N != nil {
		if n = *a.N; n <= 1 {
			return nil, opdef.Refuse("N", "want more than 1 column, got %d", n)
		}
	}
	return &powers{a.X, append(shape, n)}, nil
}

// powersOf is f of each element of x and of the number k of the column.
func powersOf[T tensor.Elem](dt tensor.DType, shape []int, x *tensor.Tensor, f func(x T, k int) T) *tensor.Tensor {
	n, src := shape[len(shape)-1], tensor.Data[T](x)
	out := tensor.Make[T](len(src) * n)
	for i := range out {
		out[i] = f(src[i/n], i%n)
	}
	return tensor.New(dt, shape, out)
}

// wholePower is x^k.
func wholePower[T tensor.Elem](x T, k int) T {
	p := T(1)
	for range k {
		p *= x
	}
	return p
}

var vandermonde = opdef.Planned[*vandermondeArgs, *powers]{
	Schema: "linalg_vander(Tensor x, *, int? N=None) -> Tensor", Names: "linalg.vander",
	Traits: opdef.Traits{Composite: true, LastTakes: 2},
	Doc: opdef.Doc{Summary: "Powers of elements along a new last dimension", Formula: "x^k, k from 0 to N-1",
		Notes: "N is the size of the last dimension by default. Of integers and bool the result is int64. A 0-d " +
			"tensor counts as one element."},
	Error: opdef.Error{Class: opdef.Elementwise, ULPs: 16, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 16}},
	Plan:  (*vandermondeArgs).powers,
	Kernel: func(p *powers) ([]*tensor.Tensor, error) {
		switch dt := p.x.DType; dt.Kind() {
		case tensor.KindFloat:
			return elements.Result(powersOf(dt, p.shape, p.x, wholePower[float64]))
		case tensor.KindComplex:
			return elements.Result(powersOf(dt, p.shape, p.x, wholePower[complex128]))
		}
		return elements.Result(powersOf(tensor.Int64, p.shape, opdef.Cast(p.x, tensor.Int64), wholePower[int64]))
	},
	Bounds: opdef.Bounds[*powers]{
		Scale: func(_ *powers, outs []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{elements.AbsIfComplex(outs[0])}
		},
		GradScale: func(p *powers, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return elements.GradOf("x", p.grad(opdef.Abs(p.x), opdef.Abs(g.Out[0])).WithDType(tensor.Float64)), nil
		},
		GradTerms: func(p *powers) int { return p.shape[len(p.shape)-1] },
	},
	Grad: func(p *powers, g *opdef.Grad) (opdef.Grads, error) {
		return elements.GradOf("x", p.grad(p.x, g.Out[0])), nil
	},
	Cases: opdef.Calls[vandermondeArgs](`
		f64[3]; f64[2, 3], N=4; c128[3], N=4; f32[3], N=4; bf16[2], N=4; i32[3]{-3..3}, N=4; f32[0], N=4`),
}.Entry()

// grad is the sum of k*x^(k-1)*up over the columns.
func (p *powers) grad(x, up *tensor.Tensor) *tensor.Tensor {
	last := []int{len(p.shape) - 1}
	if x.DType.IsComplex() {
		slopes := powersOf(x.DType, p.shape, x, func(x complex128, k int) complex128 {
			return complex(float64(k), 0) * wholePower(x, max(k-1, 0))
		})
		t := opdef.Zip(x.DType, up, slopes, func(g, s complex128) complex128 { return g * complex(real(s), -imag(s)) })
		return opdef.Sum(x.DType, t, last, false).Reshape(p.x.Shape...)
	}
	slopes := powersOf(x.DType, p.shape, x, func(x float64, k int) float64 {
		return float64(k) * math.Pow(x, float64(max(k-1, 0)))
	})
	t := opdef.Zip(x.DType, up, slopes, func(g, s float64) float64 { return g * s })
	return opdef.Sum(x.DType, t, last, false).Reshape(p.x.Shape...)
}
