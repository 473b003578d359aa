package fused

import (
	"slices"

	"github.com/optool/optool/tensor"
)

// Unpacked are the int4 of which int32 hold eight each, the first in the lowest bits.
func Unpacked(t *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	shape[len(shape)-1] *= 8
	out := tensor.Make[int64](tensor.Numel(shape))
	for i, x := range tensor.Data[int64](t) {
		for j := range 8 {
			out[8*i+j] = int64(int32(x)<<(28-4*j)) << 32 >> 60
		}
	}
	return tensor.New(tensor.Int8, shape, out)
}
