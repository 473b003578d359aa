package indexing

import (
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type unravelArgs struct {
	Indices *tensor.Tensor
	Shape   []int
}

var unravelIndex = opdef.Op[unravelArgs]{
	Schema: "unravel_index(Tensor indices, int[1] shape) -> Tensor[]", Names: "functional.unravel_index unravel_index",
	Doc: opdef.Doc{Summary: "The coordinates of positions in row-major order",
		Formula: "indices // (size of an index of dimension d) % shape[d], for each d",
		Notes:   "int64 whatever the dtype of indices.", Source: "torch.unravel_index"},
	Error:  elements.ExactError,
	Traits: opdef.Traits{NoGrad: "positions are integers"},
	Kernel: func(a *unravelArgs) ([]*tensor.Tensor, error) {
		if !a.Indices.DType.IsIntegral() {
			return nil, opdef.Refuse("indices", "want integers, got %s", a.Indices.DType)
		}
		tensor.Numel(a.Shape) // overflow
		outs := make([]*tensor.Tensor, len(a.Shape))
		size := int64(1)
		for d := len(a.Shape) - 1; d >= 0; d-- {
			n := int64(a.Shape[d])
			if n <= 0 {
				return nil, opdef.Refuse("shape", "want sizes of 1 or more, got %d", n)
			}
			unit := size
			outs[d] = opdef.Map(tensor.Int64, a.Indices,
				func(i int64) int64 { return kernel.FloorMod(kernel.FloorDiv(i, unit), n) })
			size *= n
		}
		return outs, nil
	},
	Cases: opdef.Calls[unravelArgs](`i64[5]{0..23}, [2, 3, 4]; u8[2, 3]{0..11}, [3, 4]; i32[]{0..5}, [6]`),
}.Entry()
