package causes

import (
	"iter"
	"slices"

	"github.com/optool/optool/tensor"
)

// unfilledHalves are matrices of which only the part on one side of the diagonal is written: the other one holds what
// an operand has there, or what is due on the other side.
func (c *Search) unfilledHalves(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.floats()
		if !ok {
			return
		}
		last := got.Dim() - 1
		if last < 1 || got.Shape[last] != got.Shape[last-1] || got.Shape[last] < 3 {
			return
		}
		n := got.Shape[last]
		var sources []knownValue
		for _, a := range c.operands() {
			if slices.Equal(a.Tensor.Shape, want.Shape) {
				sources = append(sources, knownValue{"what " + argName(a) + " has there", a.Tensor})
			}
		}
		sources = append(sources, knownValue{"what is due on the other side", nil})
		for _, side := range []struct {
			text  string
			above bool
		}{{"above the diagonal", true}, {"below the diagonal", false}} {
			for _, s := range sources {
				if !yield(Mistake{Text: side.text + " it holds " + s.text, Rounds: true,
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != r.Target || !slices.Equal(t.Shape, got.Shape) {
							return t
						}
						other := s.t
						if other == nil {
							mirror := *t.Transpose(last-1, last)
							other = &mirror
						}
						v, w := elements(t), elements(other)
						for i := range v {
							if row, column := i/n%n, i%n; column > row == side.above && column != row {
								v[i] = w[i]
							}
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
					return
				}
			}
		}
	}
}
