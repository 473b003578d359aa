package reduction

import (
	"math/cmplx"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A factor is a product so far; its zero value is the empty product.
type factor[T tensor.Elem] struct {
	v   T
	any bool
}

func multiplying[T tensor.Elem]() opdef.Fold[T, factor[T]] {
	join := func(acc *factor[T], p T) {
		if acc.any {
			p *= acc.v
		}
		acc.v, acc.any = p, true
	}
	return opdef.Fold[T, factor[T]]{
		Add: func(acc *factor[T], _ int, v [][]T) {
			var p T = 1
			for _, x := range v[0] {
				p *= x
			}
			join(acc, p)
		},
		Join: func(acc *factor[T], next factor[T]) { join(acc, next.v) },
	}
}

func prodOf[T tensor.Elem](x *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	return opdef.Collect(opdef.FoldDims(multiplying[T](), dims, keepdim, x), x.DType, func(a *factor[T]) T {
		if !a.any {
			return 1
		}
		return a.v
	})
}

func prod(a *OneDimArgs) ([]*tensor.Tensor, error) {
	if a.Dim == nil && a.Keepdim {
		return nil, opdef.Refuse("keepdim", "needs dim")
	}
	dims, err := opdef.Dims("dim", elements.OptionalDim(a.Dim), a.Self.Dim())
	if err != nil {
		return nil, err
	}
	x := inSumDType(a.Self, a.Dtype)
	switch x.DType.Kind() {
	case tensor.KindComplex:
		return elements.Single(prodOf[complex128](x, dims, a.Keepdim)), nil
	case tensor.KindFloat:
		return elements.Single(prodOf[float64](x, dims, a.Keepdim)), nil
	}
	return elements.Single(prodOf[int64](x, dims, a.Keepdim)), nil
}

func prodGrad(a *OneDimArgs, g *opdef.Grad) (opdef.Grads, error) {
	x := a.Self
	dims, err := opdef.Dims("dim", elements.OptionalDim(a.Dim), x.Dim())
	if err != nil {
		return nil, err
	}
	up, shape, dim := opdef.Unreduce(g.Out[0], x.Shape, dims), x.Shape, 0
	if a.Dim == nil {
		x, up = x.Reshape(x.Numel()), up.Reshape(x.Numel())
	} else if len(dims) > 0 {
		dim = dims[0]
	}
	dt := g.Outs[0].DType
	if dt.IsComplex() {
		return elements.GradOf("self", opdef.AlongDimN(dt, dim, func(s [][]complex128, dst []complex128) {
			othersProduct(s[0], dst)
			for i, p := range dst {
				dst[i] = s[1][i] * cmplx.Conj(p)
			}
		}, x, up).Reshape(shape...)), nil
	}
	return elements.GradOf("self", opdef.AlongDimN(dt, dim, func(s [][]float64, dst []float64) {
		othersProduct(s[0], dst)
		for i, p := range dst {
			dst[i] = s[1][i] * p
		}
	}, x, up).Reshape(shape...)), nil
}

// othersProduct stores in dst[i] the product of all elements of x but x[i].
func othersProduct[T tensor.Elem](x, dst []T) {
	var p T = 1
	for i, v := range x {
		dst[i] = p
		p *= v
	}
	p = 1
	for i := len(x) - 1; i >= 0; i-- {
		dst[i] *= p
		p *= x[i]
	}
}
