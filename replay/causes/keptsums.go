package causes

import (
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// keptSums are gradients that are sums of the incoming one, or of its products with an operand, as that of a bias or of
// an operand that is broadcast. They are kept in few bits: rounded after each term, so that they grow no more.
func (c *Search) keptSums(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if len(c.Incoming) == 0 || c.Incoming[0] == nil || !c.Incoming[0].DType.IsFloat() ||
			c.Incoming[0].Numel() > largestOperand {
			return
		}
		up := c.Incoming[0]
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || !r.Backward() || got.Numel() >= up.Numel() || got.Numel() == 0 {
				continue
			}
			terms := []knownValue{{"the incoming gradient", nil}}
			for _, a := range c.operands() {
				if x, err := a.Tensor.Expand(up.Shape...); err == nil && slices.Equal(x.Shape, up.Shape) {
					terms = append(terms, knownValue{"the incoming gradient times " + argName(a), x})
				}
			}
			for _, k := range terms {
				var v []float64
				var at []int
				if c.Guard(func() error { v, at = summed(up, k.t, want); return nil }) != nil || at == nil {
					continue
				}
				c.Work.Elements(len(v))
				for _, g := range opdef.SumGrids(got.DType) {
					text := "the sum of " + k.text + " is kept in " + g.Name + ", rounded after each term"
					if !yield(Mistake{Text: text,
						Rounds: true, Precision: g.Keeps(got.DType), Gradients: true, OnlyHere: true, Known: true,
						Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
							if target != r.Target || t.Numel() != want.Numel() {
								return t
							}
							sums := tensor.Make[float64](t.Numel())
							for i, x := range v {
								sums[at[i]] = g.Round(sums[at[i]] + g.Round(x))
							}
							return tensor.New(t.DType, t.Shape, sums)
						})}) {
						return
					}
				}
			}
		}
	}
}

// summed are terms, those of up or of its products with x, and to which element of a sum each is added; nil if no sum
// along dimensions gives what is due.
func summed(up, x, due *tensor.Tensor) (terms []float64, at []int) {
	terms = elements(up)
	if x != nil {
		for i, y := range elements(x) {
			terms[i] *= y
		}
	}
	want := elements(due)
	size := rms(want)
	for _, stride := range summations(up.Shape, due.Shape) {
		at = make([]int, len(terms))
		sums := make([]float64, len(want))
		place := placeIn(up.Shape, stride)
		for i := range terms {
			at[i] = place(i)
			sums[at[i]] += terms[i]
		}
		if !slices.ContainsFunc(upTo(0, len(sums)), func(i int) bool {
			return !(math.Abs(sums[i]-want[i]) <= 1e-6*size)
		}) {
			return terms, at
		}
	}
	return nil, nil
}

// summations are the strides by which the elements of a shape are added up to another: of the same dimensions at its
// end, or of one dimension that is any of those.
func summations(from, to []int) (all [][]int) {
	if len(to) <= len(from) {
		stride, inner, ok := make([]int, len(from)), 1, true
		for d := len(from) - 1; d >= 0; d-- {
			n := 1
			if k := d - len(from) + len(to); k >= 0 {
				n = to[k]
			}
			ok = ok && (n == 1 || n == from[d])
			if n > 1 {
				stride[d] = inner
			}
			inner *= n
		}
		if ok {
			all = append(all, stride)
		}
	}
	for d, n := range from {
		if len(to) == 1 && n == to[0] && d < len(from)-1 {
			stride := make([]int, len(from))
			stride[d] = 1
			all = append(all, stride)
		}
	}
	return all
}
