package shape

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// viewDTypeOp reads the bytes of a tensor as another dtype.
var viewDTypeOp = opdef.Op[viewDTypeArgs]{
	Schema: "view.dtype(Tensor self, dtype dtype) -> Tensor",
	Names:  "Tensor.view view_copy",
	Doc: opdef.Doc{Summary: "The bytes of the elements read as another dtype",
		Notes: "The last dimension is scaled by the ratio of the sizes."},
	Error:  opdef.Error{Class: opdef.Exact},
	Traits: opdef.Traits{Uncast: "view", NoGrad: "reinterprets bits"},
	Exempt: map[string]string{"strides": "not every layout can be read as the dtype",
		"dtypes": "reads the bits of the dtype", "bounds": "reads the bits of the dtype"},
	Kernel: func(a *viewDTypeArgs) ([]*tensor.Tensor, error) {
		if !a.Dtype.Computable() {
			return nil, opdef.Refuse("dtype", "no values can be computed in %s", a.Dtype)
		}
		t := a.Self.Rounded()
		shape, stride, offset := slices.Clone(t.Shape), slices.Clone(t.Stride), t.Offset
		from, to := t.DType.Size(), a.Dtype.Size()
		last := t.Dim() - 1
		if from != to {
			if last < 0 {
				return nil, opdef.Refuse("self", "a 0-d tensor cannot be viewed as a dtype of another size")
			}
			if stride[last] != 1 {
				return nil, opdef.Refuse("self", "stride %d of the last dimension is not 1", stride[last])
			}
			for d := range stride[:last] {
				if stride[d]*from%to != 0 {
					return nil, opdef.Refuse("self", "stride %d is not divisible by %d", stride[d], to/from)
				}
				stride[d] = stride[d] * from / to
			}
			if shape[last]*from%to != 0 || offset*from%to != 0 {
				return nil, opdef.Refuse("self", "size %d of the last dimension is not divisible by %d",
					shape[last], to/from)
			}
			shape[last], offset = shape[last]*from/to, offset*from/to
		}
		v, err := tensor.NewView(t.Storage(), tensor.View{DType: a.Dtype, Shape: shape, Stride: stride, Offset: offset})
		if err != nil {
			return nil, opdef.Refuse("self", "%v", err)
		}
		return []*tensor.Tensor{v}, nil
	},
	Cases: opdef.Calls[viewDTypeArgs](`
		f32[2, 3], i32; f64[2, 3], f32; i16[2, 4]{-9..9}, i64; bf16[], i16; u8[8]{0..255}, f16`),
}.Entry()

type viewDTypeArgs struct {
	Self  *tensor.Tensor
	Dtype tensor.DType
}

var complexAsRealOp = viewOp[opdef.UnaryArgs]{
	Schema: "view_as_real(Tensor self) -> Tensor",
	Names:  "view_as_real view_as_real_copy",
	Doc:    opdef.Doc{Summary: "Complex numbers as pairs of real and imaginary part"},
	Self:   func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
	View:   func(_ *opdef.UnaryArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return asReal(t) },
	Back: func(_ *opdef.UnaryArgs, g *tensor.Tensor) *tensor.Tensor {
		// The gradient has pairs in the last dimension.
		return opdef.Must(asComplex(g))
	},
	Cases: opdef.Calls[opdef.UnaryArgs](`c64[2, 3]; c128[]; c64[0, 2]`),
}.Entry()

var realAsComplexOp = viewOp[opdef.UnaryArgs]{
	Schema: "view_as_complex(Tensor self) -> Tensor",
	Names:  "view_as_complex view_as_complex_copy",
	Doc:    opdef.Doc{Summary: "Pairs of real and imaginary part as complex numbers"},
	Self:   func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
	View: func(_ *opdef.UnaryArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
		d := t.Dim() - 1
		if d < 0 || t.Shape[d] != 2 {
			return nil, opdef.Refuse("self", "want a last dimension of size 2, got %s", t.Meta())
		}
		if t.Stride[d] != 1 {
			return nil, opdef.Refuse("self", "want stride 1 in the last dimension, got %d", t.Stride[d])
		}
		for _, s := range t.Stride[:d] {
			if s%2 != 0 {
				return nil, opdef.Refuse("self", "stride %d is not divisible by 2", s)
			}
		}
		return asComplex(t)
	},
	Back:   func(_ *opdef.UnaryArgs, g *tensor.Tensor) *tensor.Tensor { return opdef.Must(asReal(g)) },
	Cases:  opdef.Calls[opdef.UnaryArgs](`f32[3, 2]; f64[2]; f32[0, 2]`),
	Exempt: map[string]string{"strides": "the parts must be adjacent"},
}.Entry().WithAutocast(opdef.AutocastFloat32)

func asReal(t *tensor.Tensor) (*tensor.Tensor, error) {
	if !t.DType.IsComplex() {
		return nil, opdef.Refuse("self", "want complex numbers, got %s", t.DType)
	}
	return tensor.Lazy(t.DType.Real(), append(slices.Clone(t.Shape), 2), 2, func(lo int, dst []float64) {
		first := lo / 2
		z := opdef.Scratch[complex128]((lo+len(dst)+1)/2 - first)
		tensor.Load(t, first, *z)
		for i := range dst {
			if at := lo + i; at%2 == 0 {
				dst[i] = real((*z)[at/2-first])
			} else {
				dst[i] = imag((*z)[at/2-first])
			}
		}
		opdef.Release(z)
	}), nil
}

func asComplex(t *tensor.Tensor) (*tensor.Tensor, error) {
	dt := t.DType.Complex()
	if !t.DType.IsFloat() || dt.Real() != t.DType {
		return nil, opdef.Refuse("self", "want float16, float32 or float64, got %s", t.DType)
	}
	return tensor.Lazy(dt, t.Shape[:t.Dim()-1], 1, func(lo int, dst []complex128) {
		x := opdef.Scratch[float64](2 * len(dst))
		tensor.Load(t, 2*lo, *x)
		for i := range dst {
			dst[i] = complex((*x)[2*i], (*x)[2*i+1])
		}
		opdef.Release(x)
	}), nil
}
