package fused

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// maskedScore is what scores become where the mask is set.
const maskedScore = -1e4

// MaskedSoftmax is the softmax of scale*x along rows, with the Hidden scores at their lowest.
func MaskedSoftmax(g *compose.Graph, x *compose.Value, mask *tensor.Tensor, scale float64,
	triangle bool) *compose.Value {
	if x.Dim() == 0 {
		g.Refuse("", "want at least one dimension")
	}
	return g.Softmax(g.MaskedFill(g.Scale(x, scale), Hidden(g, mask, triangle), maskedScore), -1)
}

// Hidden is where mask is not 0, or with triangle what is behind the diagonal of its last two
// dimensions.
func Hidden(g *compose.Graph, mask *tensor.Tensor, triangle bool) *tensor.Tensor {
	if !triangle {
		return opdef.Cast(mask, tensor.Bool)
	}
	if mask.Dim() < 2 {
		g.Refuse("mask", "want at least 2 dimensions, got %d", mask.Dim())
	}
	return Behind(mask.Shape[mask.Dim()-2], mask.Shape[mask.Dim()-1], 0)
}

// Behind is where the columns of a matrix are behind its diagonal, which begins at column offset.
func Behind(rows, cols, offset int) *tensor.Tensor {
	above := tensor.Make[int64](rows * cols)
	for i := range rows {
		for j := max(0, i+1+offset); j < cols; j++ {
			above[i*cols+j] = 1
		}
	}
	return tensor.New(tensor.Bool, []int{rows, cols}, above)
}
