package fused

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// maskedScore is what scores become where the mask is set.
const maskedScore = -1e4

// MaskedSoftmax is the softmax of scale*x along rows, with scores hidden where mask is not
// 0, or with triangle behind the diagonal of its last two dimensions.
func MaskedSoftmax(g *compose.Graph, x *compose.Value, mask *tensor.Tensor, scale float64,
	triangle bool) *compose.Value {
	mask = opdef.Cast(mask, tensor.Bool)
	if x.Dim() == 0 {
		g.Refuse("", "want at least one dimension")
	}
	if triangle {
		if mask.Dim() < 2 {
			g.Refuse("mask", "want at least 2 dimensions, got %d", mask.Dim())
		}
		rows, cols := mask.Shape[mask.Dim()-2], mask.Shape[mask.Dim()-1]
		above := tensor.Make[int64](rows * cols)
		for i := range rows {
			for j := i + 1; j < cols; j++ {
				above[i*cols+j] = 1
			}
		}
		mask = tensor.New(tensor.Bool, []int{rows, cols}, above)
	}
	return g.Softmax(g.MaskedFill(g.Scale(x, scale), mask, maskedScore), -1)
}
