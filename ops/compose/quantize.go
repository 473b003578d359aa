package compose

import (
	"math"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// mostSteps limits how many integers on each side of a result Else has.
const mostSteps = 16

// Quantize is x rounded to integers of dtype dt, ties to the even one, from lo to hi.
// No gradient passes. Its error is how many integers away the rounding of x may be,
// which has an error of its own: the result may be any of these.
func (g *Graph) Quantize(x *Value, dt tensor.DType, lo, hi float64) *Value {
	if !x.DType().IsFloat() || dt.Kind() != tensor.KindInt {
		g.Refuse("", "want floating numbers to be quantized to integers, got %s and %s", x.DType(), dt)
	}
	round := func(x float64) float64 { return min(max(math.RoundToEven(x), lo), hi) }
	t := opdef.Map(dt, x.T, func(x float64) int64 {
		if x != x {
			return 0
		}
		return int64(round(x))
	})
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		return opdef.Zip(tensor.Float64, x.T, x.bound(), func(x, b float64) float64 {
			e, q := g.plain(b)*g.unit(), round(x)
			if !(e > 0) {
				return 0
			}
			return g.of(max(round(x+e)-q, q-round(x-e)) / g.unit())
		})
	}, nil, x)
}

// neighbours are results as right as v, if v is of integers that something was rounded
// to: those as many steps away as the errors allow.
func (g *Graph) neighbours(v *Value) []*tensor.Tensor {
	if v.errors == nil || v.DType().Kind() != tensor.KindInt {
		return nil
	}
	steps := opdef.Map(tensor.Int64, v.errors(), func(b float64) int64 {
		if s := g.plain(b) * g.unit(); s == s {
			return int64(min(math.Round(s), mostSteps))
		}
		return 0
	})
	most := int64(0)
	for _, n := range tensor.Data[int64](steps) {
		most = max(most, n)
	}
	var out []*tensor.Tensor
	for k := int64(1); k <= most; k++ {
		for _, step := range []int64{k, -k} {
			out = append(out, opdef.Zip(v.DType(), v.T, steps, func(q, n int64) int64 {
				return q + min(max(step, -n), n)
			}))
		}
	}
	return out
}
