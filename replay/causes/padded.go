package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// paddedOperands are operands of reductions that a kernel fills up with zeros to whole tiles. The zeros count: as the
// largest of negative elements, in a product, among the terms of a mean.
func (c *Search) paddedOperands(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Forward() || fails[0].Want == nil {
			return
		}
		for _, a := range c.operands() {
			t := a.Tensor
			if a.Index >= 0 || !t.DType.IsFloat() || t.Numel() <= fails[0].Want.Numel() {
				continue
			}
			for d, n := range t.Shape {
				sizes := []int{n + 1} // first: of extrema one 0 says as much as many
				for _, tile := range opdef.Tiles {
					if whole := (n + tile - 1) / tile * tile; whole > n && !slices.Contains(sizes, whole) {
						sizes = append(sizes, whole)
					}
				}
				for _, whole := range sizes {
					name := argName(a)
					text := fmt.Sprintf("%d elements of 0 that pad dimension %d of %s to %d count",
						whole-n, d, name, whole)
					if whole == n+1 {
						text = fmt.Sprintf("a 0 counts along dimension %d of %s, as a start or a padding", d, name)
					}
					if !yield(Mistake{Text: text, Rounds: true,
						Make: c.one(a, func() *tensor.Tensor { return paddedTo(t, d, whole) })}) {
						return
					}
				}
			}
		}
	}
}

// paddedTo is t with zeros behind its elements along a dimension, which then has n.
func paddedTo(t *tensor.Tensor, d, n int) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	shape[d] = n
	inner, v := tensor.Numel(t.Shape[d+1:]), elements(t)
	out := tensor.Make[float64](tensor.Numel(shape))
	for i, x := range v {
		row, at := i/(inner*t.Shape[d]), i%(inner*t.Shape[d])
		out[row*inner*n+at] = x
	}
	return tensor.New(t.DType, shape, out)
}

// keptTails are the tensors that a call changes in place, where nothing is written behind the last whole tile of each.
func (c *Search) keptTails(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		before := c.before(fails)
		if len(before) == 0 {
			return
		}
		each := cond(len(before) > 2 || before["input[0]"] == nil, " of each tensor")
		cuts := func(tile int) (sum int) {
			for _, t := range before {
				sum += t.Numel() / tile * tile
			}
			return sum
		}
		for tile := 4; tile <= 4096; tile *= 2 {
			of := fmt.Sprint(tile)
			for ; tile < 4096 && cuts(2*tile) == cuts(tile); tile *= 2 { // which no value tells apart
				of += fmt.Sprint(" or ", 2*tile)
			}
			text := fmt.Sprintf("nothing is written behind a multiple of %s elements%s: what was there "+
				"before the call stays", of, each)
			if !yield(Mistake{Text: text, Rounds: true, All: true,
				Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					was := before[target]
					if was == nil || !slices.Equal(was.Shape, t.Shape) {
						return t
					}
					whole := t.Numel() / tile * tile
					return opdef.ZipAt(t.DType, t.Shape, func(lo int, dst []float64, src [][]float64) {
						for i := range dst {
							dst[i] = src[btoi(lo+i >= whole)][i]
						}
					}, t, was)
				})}) {
				return
			}
		}
	}
}

// before are the operands that lie where values of a list that failed are written, by their targets; nil if some are
// elsewhere.
func (c *Search) before(fails []Wrong) map[string]*tensor.Tensor {
	if c.Ran == nil || c.Changed == nil {
		return nil
	}
	of := map[string]*tensor.Tensor{}
	for _, r := range fails {
		if !r.Forward() {
			continue
		}
		if a := c.changes(r.Target); a != nil {
			of[r.Target] = a.Tensor
			continue
		}
		for _, a := range c.operands() { // what a call in place returns is what it has changed
			after := c.Ran.After[a.Name]
			if i := max(a.Index, 0); i < len(after) && after[i] != nil && r.Target == fmt.Sprintf("output[%d]", i) {
				of[r.Target] = a.Tensor
			}
		}
		if of[r.Target] == nil {
			return nil
		}
	}
	return of
}

// piledUp are gradients all of whose indices of a dimension are added to the first one: an offset is ignored.
func (c *Search) piledUp(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || !r.Backward() || got.Numel() > mostReduced {
				continue
			}
			for d, n := range got.Shape {
				inner := tensor.Numel(got.Shape[d+1:])
				if n < 2 {
					continue
				}
				empty := false
				var made *tensor.Tensor
				if c.Guard(func() error {
					empty = true
					for k, x := range elements(got) {
						empty = empty && (x == 0 || k/inner%n == 0)
					}
					sums := tensor.Make[float64](got.Numel())
					for k, x := range elements(want) {
						sums[k-k/inner%n*inner] += x
					}
					made = tensor.New(want.DType, want.Shape, sums)
					return nil
				}) != nil || !empty {
					continue
				}
				text := fmt.Sprintf("all of dimension %d of the gradient is added to index 0: its offset is ignored", d)
				if !yield(Mistake{Text: text, Rounds: true, Make: c.valueHas(r.Target, made)}) {
					return
				}
			}
		}
	}
}
