package fused

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// limits are the largest magnitudes of the dtypes that are quantized to.
var limits = map[tensor.DType]float64{tensor.Int8: 127, tensor.Float8E4M3FN: 448, tensor.Float8E5M2: 57344}

// Rounded is x, in at least float32, as numbers of dtype dt, within its limits.
func Rounded(g *compose.Graph, x *compose.Value, dt tensor.DType) *compose.Value {
	limit, ok := limits[dt]
	switch {
	case !ok:
		g.Refuse("dtype", "want int8, float8_e4m3fn or float8_e5m2, got %s", dt)
	case dt.Kind() == tensor.KindInt:
		return g.Quantize(x, dt, -limit-1, limit)
	}
	return g.To(g.Clamp(x, -limit, limit), dt)
}

// DynamicQuant is x with each row divided by a scale of its own, which makes its largest
// magnitude that of dtype dt; and the scales, in float32, without the last dimension. A
// row of zeros stays one, its scale is 0.
func DynamicQuant(g *compose.Graph, name string, x *compose.Value, dt tensor.DType) (y, scale *compose.Value) {
	limit, ok := limits[dt]
	if !ok {
		g.Refuse("dtype", "want int8, float8_e4m3fn or float8_e5m2, got %s", dt)
	}
	if x.Dim() == 0 || !x.DType().IsFloat() || x.Shape()[x.Dim()-1] == 0 {
		g.Refuse(name, "want floating rows, got %s", x.T.Meta())
	}
	x = g.AtLeast(x, tensor.Float32)
	scale = g.Scale(g.Amax(g.Abs(x), true, -1), 1/limit)
	divisor := g.Where(notZero(scale.T), scale, g.Full(scale.DType(), nil, 1))
	y = Rounded(g, g.Div(x, divisor), dt)
	return y, g.To(g.Squeeze(scale, -1), tensor.Float32)
}

// notZero is where t is not 0.
func notZero(t *tensor.Tensor) *tensor.Tensor {
	return opdef.Map(tensor.Bool, t, func(x float64) int64 {
		if x != 0 {
			return 1
		}
		return 0
	})
}

// QuantizedMatmul is the product of int8 or float8 x [..., k] and weight [k, n], sums of
// integers being exact, times scale of its columns and, if given, of its rows, plus bias, in float32:
// a bias of integers is added to the sums.
func QuantizedMatmul(g *compose.Graph, x, weight, scale, rows, bias *compose.Value) *compose.Value {
	if x.DType() != weight.DType() || limits[x.DType()] == 0 || x.Dim() < 2 || weight.Dim() < 2 {
		g.Refuse("x1", "want matrices of int8 or float8, got %s and %s", x.T.Meta(), weight.T.Meta())
	}
	wide := tensor.Float32
	if x.DType() == tensor.Int8 {
		wide = tensor.Int64
	}
	sums := g.Matmul(g.To(x, wide), g.To(weight, wide))
	if bias != nil && bias.DType().Kind() == tensor.KindInt {
		sums, bias = g.Add(sums, bias), nil
	}
	y := g.To(sums, tensor.Float32)
	columns := sums.Shape()[sums.Dim()-1]
	if n := scale.T.Numel(); n != 1 && n != columns {
		g.Refuse("scale", "want 1 or %d numbers, got %s", columns, scale.T.Meta())
	}
	y = g.Mul(y, g.To(g.Reshape(scale, scale.T.Numel()), tensor.Float32))
	if rows != nil {
		shape := append(slices.Clone(sums.Shape()[:sums.Dim()-1]), 1)
		if rows.T.Numel() != tensor.Numel(shape) {
			g.Refuse("pertoken_scale", "want a number for each of %d rows, got %s", tensor.Numel(shape), rows.T.Meta())
		}
		y = g.Mul(y, g.To(g.Reshape(rows, shape...), tensor.Float32))
	}
	if bias != nil {
		y = g.Add(y, g.To(bias, tensor.Float32))
	}
	return y
}

// WeightNotes say how weights are quantized that WeightQuantMatmul takes.
const WeightNotes = "The weight is (k, n) of int8, or int32 of eight int4 each, the first in the lowest bits. Scale " +
	"and offset have a number for all, for each of n columns, or for each column of each group of rows."

// WeightQuantMatmul is x times (weight + offset)*scale, plus bias, in x's dtype; offset and
// bias may be nil. Rows of weight are in groups of that size, 0 for one of all.
func WeightQuantMatmul(g *compose.Graph, x, weight, scale, offset, bias *compose.Value, group int) *compose.Value {
	if weight.Dim() != 2 || x.Dim() < 2 || !x.DType().IsFloat() {
		g.Refuse("weight", "want rows and a matrix, got %s and %s", x.T.Meta(), weight.T.Meta())
	}
	if weight.DType() == tensor.Int32 {
		weight = g.Const(unpacked(weight.T))
	}
	k, n := weight.Shape()[0], weight.Shape()[1]
	each := func(name string, p *compose.Value) *compose.Value {
		switch size := p.T.Numel(); {
		case size == 1:
			return g.Reshape(p, 1)
		case size == n:
			return g.Reshape(p, n)
		case group > 0 && k%group == 0 && size == k/group*n:
			return g.RepeatInterleave(g.Reshape(p, k/group, n), group, 0)
		}
		g.Refuse(name, "%s does not fit a weight %s in groups of %d rows", p.T.Meta(), weight.T.Meta(), group)
		return nil
	}
	w := g.To(weight, x.DType())
	if offset != nil {
		w = g.Add(w, each("antiquant_offset", offset))
	}
	y := g.Matmul(x, g.To(g.Mul(w, each("antiquant_scale", scale)), x.DType()))
	if bias != nil {
		y = g.Add(y, bias)
	}
	return g.To(y, x.DType())
}

// unpacked are the int4 of which int32 hold eight each, the first in the lowest bits.
func unpacked(t *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	shape[len(shape)-1] *= 8
	out := tensor.Make[int64](tensor.Numel(shape))
	for i, x := range tensor.Data[int64](t) {
		for j := range 8 {
			out[8*i+j] = int64(int32(x)<<(28-4*j)) << 32 >> 60
		}
	}
	return tensor.New(tensor.Int8, shape, out)
}
