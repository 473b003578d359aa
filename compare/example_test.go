package compare_test

import (
	"fmt"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/tensor"
)

// A device adds 1 + 2^-12 in bfloat16: the nearest bfloat16 is 1, which
// op_tools' tolerance and the model both accept. 1.0078125 is the next one.
func ExampleCheck() {
	ref := tensor.New(tensor.BFloat16, []int{2}, []float64{1 + 0x1p-12, 3})
	for _, v := range [][]float64{{1, 3}, {1.0078125, 3}, {1, -3}} {
		got := tensor.New(tensor.BFloat16, []int{2}, v).Rounded()
		res := compare.Check(got, ref, compare.Model{ULPs: 1}, compare.DefaultTolerance(got.DType), nil)
		fmt.Println(res.Verdict, res.OpTools.AllClose, res.MaxULP)
		if res.Reason != "" {
			fmt.Println(res.Reason)
		}
	}
	// Output:
	// pass true 0
	// pass false 1
	// fail false 32896
	// 1 of 2 elements differ by more than rounding: at [1] got -3 want 3 (3.29e+04 ulp); the sign is flipped
}
