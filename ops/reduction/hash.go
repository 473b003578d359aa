package reduction

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type hashArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
	Mode    int
}

// hashTensor is the exclusive or of the bits of elements.
var hashTensor = opdef.Op[hashArgs]{
	Schema: "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
	Doc: opdef.Doc{Summary: "Exclusive or of the bits of elements", Formula: "xor over dim of the bits of self",
		Notes: "Floating elements are taken as float64, others as 64-bit integers; the result is uint64. mode 0 is " +
			"the " +
			"only one. A tensor without elements needs dim."},
	Traits: opdef.Traits{NoGrad: "bits have no gradient", Trivial: true},

	Exempt: map[string]string{"dtypes": "the result is uint64 whatever the dtype"},
	Kernel: func(a *hashArgs) ([]*tensor.Tensor, error) {
		x := a.Self
		if a.Mode != 0 {
			return nil, opdef.Refuse("mode", "want 0, got %d", a.Mode)
		}
		if x.DType.IsComplex() || len(a.Dim) == 0 && x.Numel() == 0 {
			return nil, opdef.Refuse("self", "want real elements, or dim, got %s", x.Meta())
		}
		dims, err := opdef.Dims("dim", a.Dim, x.Dim())
		if err != nil {
			return nil, err
		}
		var order, shape []int
		for d, n := range x.Shape {
			switch {
			case !slices.Contains(dims, d):
				order, shape = append(order, d), append(shape, n)
			case a.Keepdim:
				shape = append(shape, 1)
			}
		}
		rows := tensor.Numel(shape)
		inner := 1
		for _, d := range dims {
			order, inner = append(order, d), inner*x.Shape[d]
		}
		out := tensor.Make[int64](rows)
		x = x.Permute(order...)
		if x.DType.IsFloat() {
			for i, v := range tensor.Data[float64](x) {
				out[i/inner] ^= int64(math.Float64bits(v))
			}
		} else {
			for i, v := range tensor.Data[int64](x) {
				out[i/inner] ^= v
			}
		}
		return []*tensor.Tensor{tensor.New(tensor.Uint64, shape, out)}, nil
	},
	Cases: opdef.Calls[hashArgs](`
		f64[3, 4]; bf16[2, 3], dim=[1]; i32[2, 3]{-9..9}, dim=[0], keepdim=True; bool[3]{0..1}; f32[0, 3], dim=[0]
		f32[]`),
}.Entry()
