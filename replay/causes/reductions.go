package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// reductions are what kernels make of the elements along a dimension.
var reductions = []struct {
	text string
	of   func(v []float64) float64
}{
	{"the largest", slices.Max[[]float64]},
	{"the smallest", slices.Min[[]float64]},
	{"the sum", func(v []float64) float64 { return total(v, func(x float64) float64 { return x }) }},
	{"the mean", func(v []float64) float64 {
		return total(v, func(x float64) float64 { return x }) / float64(len(v))
	}},
	{"the norm", func(v []float64) float64 { return math.Sqrt(dot(v, v)) }},
	{"the sum of squares", func(v []float64) float64 { return dot(v, v) }},
	{"the mean of squares", func(v []float64) float64 { return dot(v, v) / float64(len(v)) }},
	{"the sum of magnitudes", func(v []float64) float64 { return total(v, math.Abs) }},
	{"the variance", func(v []float64) float64 { return variance(v, 0) }},
	{"the variance of n - 1", func(v []float64) float64 { return variance(v, 1) }},
	{"the standard deviation", func(v []float64) float64 { return math.Sqrt(variance(v, 0)) }},
	{"the standard deviation of n - 1", func(v []float64) float64 { return math.Sqrt(variance(v, 1)) }},
	{"the first", func(v []float64) float64 { return v[0] }},
	{"the last", func(v []float64) float64 { return v[len(v)-1] }},
}

// variance is that of numbers, the sum of whose squares is divided by so many less than there are.
func variance(v []float64, less int) float64 {
	mean := total(v, func(x float64) float64 { return x }) / float64(len(v))
	return total(v, func(x float64) float64 { return (x - mean) * (x - mean) }) / float64(len(v)-less)
}

func total(v []float64, f func(float64) float64) (sum float64) {
	for _, x := range v {
		sum += f(x)
	}
	return sum
}

// joins are what a result may be of what is due and a reduction.
var joins = []struct {
	text string
	f    func(due, r float64) float64
}{
	{"it is %s", func(_, r float64) float64 { return r }},
	{"%s is subtracted", func(due, r float64) float64 { return due - r }},
	{"%s is added", func(due, r float64) float64 { return due + r }},
	{"it is multiplied by %s", func(due, r float64) float64 { return due * r }},
	{"it is divided by %s", func(due, r float64) float64 { return due / r }},
}

// reduced are results that are a reduction of an operand, or from which one is missing or in which it counts once too
// often: the maximum of a row that is not added back, the norm by which it is not divided.
func (c *Search) reduced(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil || got.Numel() < leastInPart {
			return
		}
		target, tried := fails[0].Target, 0
		for _, a := range c.operands() {
			for d, n := range a.Tensor.Shape {
				if n < 2 || a.Tensor.Numel() > mostReduced {
					continue
				}
				for _, r := range reductions {
					t := c.alongTo(a.Tensor, d, r.of, got.Shape)
					if t == nil {
						continue
					}
					for _, j := range joins {
						if tried++; !c.joined(got, want, t, j.f) {
							continue
						}
						text := fmt.Sprintf("%s of %s along dimension %d", r.text, argName(a), d)
						if !yield(Mistake{Text: fmt.Sprintf(j.text, text), Rounds: true,
							Cost: math.Log2(float64(tried)),
							Make: c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
								t := c.alongTo(a.Tensor, d, r.of, got.Shape)
								if of != target || t == nil || !slices.Equal(due.Shape, t.Shape) {
									return due
								}
								return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
									for i := range dst {
										dst[i] = j.f(src[0][i], src[1][i])
									}
								}, due, t)
							})}) {
							return
						}
					}
				}
			}
		}
	}
}

// mostReduced is the number of elements up to which an operand is reduced in all these ways.
const mostReduced = 1 << 18

// alongTo is a reduction of a tensor along a dimension, in the shape of a result which has that dimension, or has it
// not, or has 1 there; nil of other shapes.
func (c *Search) alongTo(t *tensor.Tensor, d int, of func([]float64) float64, shape []int) (out *tensor.Tensor) {
	kept := slices.Clone(t.Shape)
	kept[d] = 1
	removed := slices.Delete(slices.Clone(t.Shape), d, d+1)
	if !slices.Equal(shape, t.Shape) && !slices.Equal(shape, kept) && !slices.Equal(shape, removed) {
		return nil
	}
	_ = c.Guard(func() error { // what cannot be read is no reduction
		v, n, inner := elements(t), t.Shape[d], tensor.Numel(t.Shape[d+1:])
		each, part := tensor.Make[float64](len(v)/n), make([]float64, n)
		for i := range each {
			from := i/inner*n*inner + i%inner
			for k := range part {
				part[k] = v[from+k*inner]
			}
			each[i] = of(part)
		}
		x := tensor.New(tensor.Float64, kept, each)
		if slices.Equal(shape, removed) {
			out = x.Reshape(shape...)
			return nil
		}
		out, _ = x.Expand(shape...)
		return nil
	})
	return out
}

// joined reports whether most of some elements that are wrong are what f makes of those due and of t.
func (c *Search) joined(got, want, t *tensor.Tensor, f func(due, r float64) float64) (is bool) {
	_ = c.Guard(func() error { // what cannot be read is not
		v := elementwise{got: sample(got), want: sample(want), x: sample(want), y: sample(t)}
		is = v.are(f, got.DType)
		return nil
	})
	return is
}
