package causes

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
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

// of is t quantized, so many elements in row-major order with one scale, that of top if it is all. Those that are read
// are, and the others of their scale; once that is much, all are.
func (q quantization) of(t *tensor.Tensor, each int, top func() float64) *tensor.Tensor {
	n := t.Numel()
	if each >= n {
		return opdef.Map(t.DType, t, func(x float64) float64 { return q.scaled(x, top()) })
	}
	part := func(lo int, dst []float64) {
		v, from, to := dst, lo/each*each, min(n, (lo+len(dst)+each-1)/each*each)
		if to-from > len(dst) {
			v = tensor.Make[float64](to - from)
		}
		tensor.Load(t, from, v)
		for part := range slices.Chunk(v, each) {
			top := largest(part)
			for i, x := range part {
				part[i] = q.scaled(x, top)
			}
		}
		if len(v) > len(dst) {
			copy(dst, v[lo-from:])
		}
	}
	read := reader[float64](tensor.LazyOf(t.DType, t.Shape, part, t))
	return tensor.LazyOf(t.DType, t.Shape, func(lo int, dst []float64) {
		if v := read(max(len(dst), each)); v != nil {
			copy(dst, v[lo:])
			return
		}
		part(lo, dst)
	}, t)
}

// scaled quantizes a number, where the largest that shares its scale is top.
func (q quantization) scaled(x, top float64) float64 {
	if top == 0 {
		return x
	}
	return q.round(x*q.largest/top) * top / q.largest
}

// largest is the largest magnitude among numbers.
func largest(v []float64) (top float64) {
	for _, x := range v {
		top = max(top, math.Abs(x))
	}
	return top
}
