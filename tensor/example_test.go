package tensor_test

import (
	"fmt"

	"github.com/optool/optool/tensor"
)

// Tensors are computed in float64 and rounded once, to the dtype they are
// compared in; a view shares its elements.
func Example() {
	x := tensor.New(tensor.BFloat16, []int{2, 2}, []float64{1, 1 + 0x1p-8 + 0x1p-40, 3, 4})
	fmt.Println(x.Meta(), tensor.Data[float64](x.Rounded()))
	t := x.Transpose(0, 1)
	fmt.Println(t.Shape, tensor.Data[float64](t.Rounded()), t.IsContiguous())
	// Output:
	// bfloat16[2, 2] [1 1.0078125 3 4]
	// [2 2] [1 3 1.0078125 4] false
}
