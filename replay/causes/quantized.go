package causes

import (
	"fmt"
	"math"

	"github.com/optool/optool/tensor"
)

// A quantization brings numbers that share a scale to few values: the largest magnitude among them becomes the
// largest of these.
type quantization struct {
	name    string
	largest float64
	round   func(float64) float64
}

var quantizations = []quantization{
	{"8 bits", 127, math.RoundToEven}, {"4 bits", 7, math.RoundToEven},
	{"float8_e4m3fn", 448, tensor.Float8E4M3FN.Round}, {"float8_e5m2", 57344, tensor.Float8E5M2.Round},
}

// A sharing says which numbers of a tensor share a scale: each so many in row-major order, or all of an index of
// dimension 0.
type sharing struct {
	text string
	size func(shape []int) int
}

func sharings(shape []int) []sharing {
	out := []sharing{{"all alike", tensor.Numel}}
	if len(shape) < 2 {
		return out
	}
	out = append(out, sharing{"by index of dimension 0", func(shape []int) int { return tensor.Numel(shape[1:]) }})
	last := shape[len(shape)-1]
	if len(shape) > 2 {
		out = append(out, sharing{"by row", func([]int) int { return last }})
	}
	for _, group := range []int{32, 64, 128} {
		if group < last && last%group == 0 {
			out = append(out, sharing{fmt.Sprintf("by %d of a row", group), func([]int) int { return group }})
		}
	}
	return out
}

// of is t quantized, so many elements in row-major order with one scale.
func (q quantization) of(t *tensor.Tensor, each int) *tensor.Tensor {
	v := elements(t)
	for from := 0; from < len(v); from += each {
		part, top := v[from:min(from+each, len(v))], 0.0
		for _, x := range part {
			top = max(top, math.Abs(x))
		}
		if top == 0 {
			continue
		}
		for i, x := range part {
			part[i] = q.round(x*q.largest/top) * top / q.largest
		}
	}
	return tensor.New(t.DType, t.Shape, v)
}
