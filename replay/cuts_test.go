package replay

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// What is gathered are the elements at the indices picked, in every layout.
func TestGather(t *testing.T) {
	shape := []int{4, 5, 4, 6}
	data := make([]float64, tensor.Numel(shape))
	for i := range data {
		data[i] = float64(i)
	}
	plain := tensor.New(tensor.Float32, shape, data)
	for name, x := range map[string]*tensor.Tensor{
		"contiguous": plain, "permuted": plain.Permute(3, 1, 0, 2), "sliced": plain.Slice(3, 1, 4, 1),
	} {
		for _, picks := range [][][]int{
			{{0, 2}, nil, nil, nil}, {nil, nil, nil, {0, 2}}, {{1}, {0, 3}, nil, nil}, {nil, {1, 2}, nil, {1}},
			{{0, 1}, {2}, {0, 2}, {0, 1}}, {nil, nil, {2, 0}, nil},
		} {
			got := gather(x, picks)
			var want []float64
			var walk func(d, at int)
			walk = func(d, at int) {
				if d == x.Dim() {
					want = append(want, tensor.At[float64](x, at))
					return
				}
				for i := range got.Shape[d] {
					if picks[d] != nil {
						i = picks[d][i]
					}
					walk(d+1, at*x.Shape[d]+i)
				}
			}
			walk(0, 0)
			if !slices.Equal(tensor.Data[float64](got), want) {
				t.Errorf("%s, %v: got %v, want %v", name, picks, tensor.Data[float64](got), want)
			}
		}
	}
}
