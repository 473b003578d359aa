package compose

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// summing is the bound of the rounding of t, sums of up to n terms whose
// magnitudes add up to sizes: of the additions and of the result stored.
func (g *Graph) summing(t, sizes *tensor.Tensor, n int) *tensor.Tensor {
	dt := t.DType.Real()
	if !dt.IsFloat() {
		return tensor.Full(tensor.Float64, t.Shape, 0.0)
	}
	k := growth(n)
	if dt == tensor.Float64 && !g.double {
		k *= roundoff.U64 / roundoff.U32
	}
	k, own := g.of(k), g.rounding(dt, 0.5)
	return opdef.Zip(tensor.Float64, g.magnitude(t), sizes, func(m, s float64) float64 {
		return k*g.of(s) + times(own, g.digits(dt, m))
	})
}

// Sum adds x over dims (none: all), which are dropped or, with keepdim, of size
// 1. Integers and bool become int64.
func (g *Graph) Sum(x *Value, keepdim bool, dims ...int) *Value {
	ds, err := opdef.Dims("dim", dims, x.Dim())
	g.Check(err)
	dt := x.DType()
	if dt.Kind() < tensor.KindFloat {
		dt = tensor.Int64
	}
	return g.reduced("sum", x, keepdim, ds, func() *Value { return g.sum(x, dt, ds, keepdim) })
}

// reduced is a reduction of x over dims, or what the graph does in its place.
func (g *Graph) reduced(name string, x *Value, keepdim bool, dims []int, sound func() *Value) *Value {
	if g.muted || g.planned && !g.deriving || !x.DType().IsFloat() {
		return sound()
	}
	shape := slices.Clone(x.Shape())
	for d := len(shape) - 1; d >= 0; d-- {
		switch {
		case !slices.Contains(dims, d):
		case keepdim:
			shape[d] = 1
		default:
			shape = slices.Delete(shape, d, d+1)
		}
	}
	options := func() []option { return reduceOptions(name, x, keepdim, dims) }
	return g.varied(name, options, shape, x.DType(), []*Value{x}, sound)
}

// Rows is Sum of x in dtype dt of 16 bits over dims, in the given shape, as dtype out. torch's CPU kernels may round
// all terms and partial sums to dt; only a result of the call says so.
func (g *Graph) Rows(x *Value, dt, out tensor.DType, shape []int, dims ...int) *Value {
	x = g.To(x, dt)
	v := g.To(g.Reshape(g.Sum(x, true, dims...), shape...), out)
	v.partial, v.chain = dt, func() *tensor.Tensor {
		order := slices.DeleteFunc(elements.AllDims(x.Dim()), func(d int) bool { return slices.Contains(dims, d) })
		terms := tensor.Data[float64](x.T.Permute(append(order, dims...)...))
		sums, least := tensor.Make[float64](v.T.Numel()), dt.SmallestNormal()
		rows := len(terms) / max(len(sums), 1)
		for i := range sums {
			partial := 0.0
			for _, t := range terms[i*rows : (i+1)*rows] {
				if partial += t; t != 0 {
					sums[i] += math.Abs(partial) + max(math.Abs(t), least)
				}
			}
		}
		return tensor.New(tensor.Float64, v.T.Shape, sums)
	}
	return v
}

func (g *Graph) sum(x *Value, dt tensor.DType, dims []int, keepdim bool) *Value {
	x = g.lacking(x, dims)
	n := 1
	for _, d := range dims {
		n *= x.Shape()[d]
	}
	t := opdef.Sum(dt, x.T, dims, keepdim)
	v := g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		e := opdef.Sum(tensor.Float64, x.bound(), dims, keepdim)
		if n < 2 {
			return e
		}
		return plus(e, g.summing(t, opdef.Sum(tensor.Float64, opdef.Abs(x.T), dims, keepdim), n))
	}, func(up *Value) []*Value { return []*Value{g.unreduce(up, x.Shape(), dims)} }, x)
	v.weak, v.what = elements.SpreadOnly, "sum"
	return v
}

// unreduce expands a reduction over dims of a tensor of shape back to it.
func (g *Graph) unreduce(x *Value, shape, dims []int) *Value {
	kept := slices.Clone(shape)
	for _, d := range dims {
		kept[d] = 1
	}
	return g.Expand(g.Reshape(x, kept...), shape...)
}

// sumTo is x summed over the dimensions in which shape was broadcast to its own.
func (g *Graph) sumTo(x *Value, shape []int) *Value {
	if slices.Equal(x.Shape(), shape) {
		return x
	}
	lead := x.Dim() - len(shape)
	var dims []int
	for d, n := range x.Shape() {
		if d < lead || n != 1 && shape[d-lead] == 1 {
			dims = append(dims, d)
		}
	}
	return g.Reshape(g.sum(x, x.DType(), dims, true), shape...)
}

// Mean is the mean over dims (none: all) of floating elements.
func (g *Graph) Mean(x *Value, keepdim bool, dims ...int) *Value {
	ds, err := opdef.Dims("dim", dims, x.Dim())
	g.Check(err)
	if x.DType().Kind() < tensor.KindFloat {
		g.Refuse("input", "the mean is not defined for dtype %s", x.DType())
	}
	n := 1
	for _, d := range ds {
		n *= x.Shape()[d]
	}
	return g.reduced("mean", x, keepdim, ds, func() *Value {
		v := g.AsOne(func(in []*Value) *Value {
			count := g.Number(float64(n))
			count.what = termCount
			return g.Div(g.sum(in[0], x.DType(), ds, keepdim), count)
		}, x)
		v.weak, v.what = elements.SpreadOnly, "mean"
		return v
	})
}

// Amax is the largest element over dims (none: all); equal ones share the gradient.
func (g *Graph) Amax(x *Value, keepdim bool, dims ...int) *Value {
	return g.extremum(x, keepdim, dims, false)
}

// Amin is the smallest element over dims (none: all); equal ones share the gradient.
func (g *Graph) Amin(x *Value, keepdim bool, dims ...int) *Value {
	return g.extremum(x, keepdim, dims, true)
}

func (g *Graph) extremum(x *Value, keepdim bool, dims []int, least bool) *Value {
	dims, err := opdef.Dims("dim", dims, x.Dim())
	g.Check(err)
	name := "largest"
	if least {
		name = "smallest"
	}
	return g.reduced(name, x, keepdim, dims, func() *Value { return g.extreme(x, keepdim, dims, least) })
}

func (g *Graph) extreme(x *Value, keepdim bool, dims []int, least bool) *Value {
	t, err := reduction.Extreme(x.T, dims, keepdim, least)
	g.Check(err)
	v := g.value(t, func(*tensor.Tensor) *tensor.Tensor {
		return opdef.Must(reduction.Extreme(x.bound(), dims, keepdim, false))
	}, nil, x)
	v.vjp = func(up *Value) []*Value {
		most := opdef.Unreduce(v.T, x.Shape(), dims)
		same := opdef.Zip(tensor.Bool, x.T, most, func(a, b float64) int64 {
			if a == b {
				return 1
			}
			return 0
		})
		weights := g.Derived(opdef.Map(x.DType(), same, func(s int64) float64 { return float64(s) }), x, v)
		share := g.Div(weights, g.Derived(opdef.Unreduce(opdef.Sum(x.DType(), weights.T, dims, true), x.Shape(), dims),
			weights))
		return []*Value{g.Mul(g.unreduce(up, x.Shape(), dims), share)}
	}
	return v
}

// Cumsum is the running sum along dim.
func (g *Graph) Cumsum(x *Value, dim int) *Value {
	dim = g.dim("dim", dim, x)
	n := elements.LengthOf(x.Shape(), dim)
	t := running(x.T.DType, x.T, dim)
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		return plus(running(tensor.Float64, x.bound(), dim), g.summing(t, running(tensor.Float64, opdef.Abs(x.T), dim),
			n))
	}, func(up *Value) []*Value { return []*Value{g.Flip(g.Cumsum(g.Flip(up, dim), dim), dim)} }, x)
}

func running(dt tensor.DType, t *tensor.Tensor, dim int) *tensor.Tensor {
	if t.DType.IsComplex() {
		return opdef.AlongDim(dt, t, dim, reduction.RunningSum[complex128])
	}
	return opdef.AlongDim(dt, t, dim, reduction.RunningSum[float64])
}

// Softmax is exp(x)/sum(exp(x)) along dim.
func (g *Graph) Softmax(x *Value, dim int) *Value {
	dim = g.dim("dim", dim, x)
	if !x.DType().IsFloat() {
		g.Refuse("input", "softmax is not defined for dtype %s", x.DType())
	}
	t := opdef.AlongDim(x.DType(), x.T, dim, func(src, dst []float64) { kernel.Softmax(dst, src) })
	var v *Value
	v = g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		own, sum := g.rounding(x.DType(), 4), g.of(growth(elements.LengthOf(x.Shape(), dim)))
		return opdef.AlongDimN(tensor.Float64, dim, func(src [][]float64, dst []float64) {
			mean := 0.0
			for i, w := range src[0] {
				mean += times(g.of(w), src[1][i])
			}
			for i, w := range src[0] {
				dst[i] = times(g.of(w), own+sum+src[1][i]+mean)
			}
		}, v.T, x.bound())
	}, nil, x)
	v.normal = elements.LengthOf(x.Shape(), dim)
	v.vjp = func(up *Value) []*Value { // w*(g - sum(g*w))
		product := g.Mul(up, v)
		return []*Value{g.Sub(product, g.Mul(v, g.Sum(product, true, dim)))}
	}
	return v
}

// LogSumExp is log(sum(exp(x))) along dim.
func (g *Graph) LogSumExp(x *Value, dim int, keepdim bool) *Value {
	dim = g.dim("dim", dim, x)
	top := g.Detach(g.Amax(x, true, dim))
	top = g.Where(g.Derived(opdef.Map(tensor.Bool, top.T, func(v float64) int64 { // -inf - -inf would be NaN
		if math.IsInf(v, 0) {
			return 0
		}
		return 1
	}), top).T, top, g.Full(x.DType(), nil, 0))
	sum := g.Add(g.Log(g.Sum(g.Exp(g.Sub(x, top)), true, dim)), top)
	if keepdim {
		return sum
	}
	return g.Squeeze(sum, dim)
}

// LogSoftmax is x - log(sum(exp(x))) along dim.
func (g *Graph) LogSoftmax(x *Value, dim int) *Value { return g.Sub(x, g.LogSumExp(x, dim, true)) }
