package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// otherwiseAdded are results to which an operand of one dimension, a bias, is added along another dimension than it
// should, and lists whose tensors of one dimension are left out or count twice.
func (c *Search) otherwiseAdded(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !c.alongAnother(fails, yield) {
			return
		}
		lists := map[string]bool{}
		for _, a := range c.operands() {
			if a.Index < 0 || a.Tensor.Dim() != 1 || lists[a.Name] {
				continue
			}
			lists[a.Name] = true
			for _, m := range []struct {
				text string
				by   float64
			}{{"are taken for 0", 0}, {"count twice", 2}} {
				if !yield(Mistake{Text: fmt.Sprintf("the tensors of one dimension of %s, biases, %s", a.Name, m.text),
					Make: func() (Way, error) {
						return c.replaced(func(b opdef.Arg) *tensor.Tensor {
							if b.Name != a.Name || b.Tensor.Dim() != 1 || !b.Tensor.DType.IsFloat() {
								return nil
							}
							return opdef.Map(b.Tensor.DType, b.Tensor, func(x float64) float64 { return m.by * x })
						})
					}}) {
					return
				}
			}
		}
	}
}

// alongAnother yields the results to which an operand is added along another dimension; it is false when no more are
// wanted.
func (c *Search) alongAnother(fails []Wrong, yield func(Mistake) bool) bool {
	got, want := c.wrongResult(fails)
	if got == nil || !got.DType.IsFloat() || got.Numel() > largestOperand {
		return true
	}
	for _, a := range c.operands() {
		t := a.Tensor
		if a.Index >= 0 || t.Dim() != 1 || t.Numel() < 2 || !t.DType.IsFloat() {
			continue
		}
		without := c.one(a, func() *tensor.Tensor { return tensor.Full(t.DType, t.Shape, 0.0) })
		for d, n := range got.Shape {
			if n != t.Numel() {
				continue
			}
			shape := slices.Repeat([]int{1}, got.Dim())
			shape[d] = n
			b, err := t.Reshape(shape...).Expand(got.Shape...)
			if err != nil {
				continue
			}
			text := fmt.Sprintf("%s is added along dimension %d", argName(a), d)
			if !yield(Mistake{Text: text, Rounds: true, Make: func() (Way, error) {
				way, err := without()
				way.Alter = func(target string, y *tensor.Tensor) *tensor.Tensor {
					if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Target == target && w.Backward() }) &&
						slices.Equal(y.Shape, t.Shape) {
						return c.summedTo(d, y)
					}
					if target != "output[0]" || !slices.Equal(y.Shape, want.Shape) {
						return y
					}
					return opdef.Zip(y.DType, y, b, func(p, q float64) float64 { return p + q })
				}
				return way, err
			}}) {
				return false
			}
		}
	}
	return true
}

// summedTo is the incoming gradient summed over all of its dimensions but one, y if there is none of them.
func (c *Search) summedTo(d int, y *tensor.Tensor) *tensor.Tensor {
	if len(c.Incoming) == 0 || c.Incoming[0].Dim() <= d || c.Incoming[0].Shape[d] != y.Numel() {
		return y
	}
	up := c.Incoming[0]
	v, sums, inner := elements(up), make([]float64, y.Numel()), tensor.Numel(up.Shape[d+1:])
	for i, x := range v {
		sums[i/inner%len(sums)] += x
	}
	return tensor.New(y.DType, y.Shape, sums)
}
