package conv

import (
	"math"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Else are the results without and with the products of padding: oneDNN's kernels leave them out, others multiply a
// zero by an infinite weight.
func (cc *convCall) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	if cc.transposed || !cc.meetsPadding(cc.weight) {
		return nil
	}
	either := cc.skipPadding(cc.input, cc.weight, func(c *kernel.Conv, x, w *tensor.Tensor) *tensor.Tensor {
		return convForward(tensor.Float64, c, cc.shape, x, w)
	})
	for i, y := range either {
		either[i] = opdef.Must(cc.withBias(y))
	}
	return [][]*tensor.Tensor{either[:]}
}

// GradElse are the gradients without and with the products of padding.
func (cc *convCall) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	padded, factor := cc.input, g.Out[0]
	if cc.transposed {
		padded, factor = factor, padded
	}
	if !g.Need("weight") || !cc.meetsPadding(factor) {
		return nil, nil
	}
	var out []opdef.Grads
	for _, w := range cc.skipPadding(padded, factor, func(c *kernel.Conv, x, y *tensor.Tensor) *tensor.Tensor {
		return convWeightGrad(tensor.Float64, c, cc.weight.Shape, x, y)
	}) {
		out = append(out, opdef.Grads{"weight": {w}})
	}
	return out, nil
}

// meetsPadding reports whether zeros of the padding are multiplied by factors that are not finite.
func (cc *convCall) meetsPadding(factor *tensor.Tensor) bool {
	if cc.c.Pad == [3]int{} && cc.extra == [3]int{} || factor.DType.Kind() != tensor.KindFloat {
		return false
	}
	for _, v := range tensor.Data[float64](factor) {
		if v-v != 0 {
			return true
		}
	}
	return false
}

// skipPadding is product(x, y), a sum of products of elements of x and y, without those of the zeros that x is padded
// with, and with them. It adds the finite products, and counts the others by what they are.
func (cc *convCall) skipPadding(x, y *tensor.Tensor,
	product func(c *kernel.Conv, x, y *tensor.Tensor) *tensor.Tensor) [2]*tensor.Tensor {
	kinds := []func(v float64) bool{
		func(v float64) bool { return v != v },
		func(v float64) bool { return v == 0 },
		func(v float64) bool { return v > 0 && v <= math.MaxFloat64 },
		func(v float64) bool { return v < 0 && v >= -math.MaxFloat64 },
		func(v float64) bool { return v > math.MaxFloat64 },
		func(v float64) bool { return v < -math.MaxFloat64 },
	}
	examples := []float64{math.NaN(), 0, 1, -1, math.Inf(1), math.Inf(-1)}
	only := func(t *tensor.Tensor, is func(v float64) bool) *tensor.Tensor {
		return opdef.Map(tensor.Float64, t, func(v float64) float64 {
			if is(v) {
				return 1
			}
			return 0
		})
	}
	finite := func(t *tensor.Tensor) *tensor.Tensor {
		return opdef.Map(tensor.Float64, t, func(v float64) float64 {
			if v-v != 0 {
				return 0
			}
			return v
		})
	}
	sum := product(&cc.c, finite(x), finite(y))
	for i, a := range kinds {
		for j, b := range kinds {
			if v := examples[i] * examples[j]; v-v != 0 {
				many := product(&cc.c, only(x, a), only(y, b))
				sum = opdef.Zip(tensor.Float64, sum, many, func(s, n float64) float64 {
					if n > 0 {
						return s + v
					}
					return s
				})
			}
		}
	}
	whole := cc.c // the padding as a part of the input
	for d := range whole.In {
		whole.In[d] += 2*whole.Pad[d] + cc.extra[d]
	}
	whole.Pad = [3]int{}
	ones := func(c *kernel.Conv) *tensor.Tensor {
		return tensor.Full(tensor.Float64, []int{c.Batch * c.InC, tensor.Numel(c.In[:])}, 1.0)
	}
	infinite := only(y, func(v float64) bool { return v-v != 0 })
	padding := opdef.Zip(tensor.Float64, product(&whole, ones(&whole), infinite), product(&cc.c, ones(&cc.c), infinite),
		func(all, inside float64) float64 { return all - inside })
	return [2]*tensor.Tensor{sum, opdef.Zip(tensor.Float64, sum, padding, func(s, n float64) float64 {
		if n > 0 {
			return math.NaN()
		}
		return s
	})}
}
