package causes

import (
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// zeroTimes are values to which 0 times an operand, or the incoming gradient, is added that is due to be left out: it
// is NaN where that is not finite.
func (c *Search) zeroTimes(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || i > 0 && fails[0].Forward() {
				continue
			}
			var factors []knownValue
			_ = c.Guard(func() error { // what cannot be read is not tried
				if !slices.ContainsFunc(elements(got), func(x float64) bool { return x != x }) {
					return nil
				}
				for _, a := range c.operands() {
					if x, err := a.Tensor.Expand(want.Shape...); err == nil && slices.Equal(x.Shape, want.Shape) {
						factors = append(factors, knownValue{argName(a), x})
					}
				}
				if r.Backward() && len(c.Incoming) > 0 {
					if up := asOf(c.Incoming[0], want.Shape); up != nil {
						factors = append(factors, knownValue{"the incoming gradient", up})
					}
				}
				factors = slices.DeleteFunc(factors, func(k knownValue) bool {
					return !slices.ContainsFunc(elements(k.t), func(x float64) bool { return !finite(x) })
				})
				return nil
			})
			for _, k := range factors {
				if !yield(Mistake{NotFinite: true, Rounds: true,
					Text: "0 times " + k.text + " is added, which is NaN where that is not finite",
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != r.Target || !slices.Equal(t.Shape, k.t.Shape) {
							return t
						}
						return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
							for i := range dst {
								dst[i] = src[0][i] + 0*src[1][i]
							}
						}, t, k.t)
					})}) {
					return
				}
			}
		}
	}
}
