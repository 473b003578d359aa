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

// piledUp are values all of whose groups of indices of a dimension are added to the first one: an offset is ignored.
func (c *Search) piledUp(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || got.Numel() > mostReduced {
				continue
			}
			for d, n := range got.Shape {
				for group := 1; group < n; group++ {
					if n%group != 0 || group > 1 && n/group > mostGroups {
						continue
					}
					made, last := c.piled(got, want, d, group)
					if made == nil {
						continue
					}
					which := "index 0"
					if group > 1 {
						which = fmt.Sprintf("its first %d indices", group)
					}
					text := fmt.Sprintf("all of dimension %d is added to %s: its offset is ignored", d, which)
					if !yield(Mistake{Text: text, Rounds: true, Make: c.valueHas(r.Target, made)}) {
						return
					}
					text = fmt.Sprintf("all of dimension %d is written to %s: its offset is ignored", d, which)
					if !yield(Mistake{Text: text, Rounds: true, Make: c.valueHas(r.Target, last)}) {
						return
					}
					break // as larger groups would
				}
			}
		}
	}
}

// mostGroups is how many groups of several indices are added to the first one.
const mostGroups = 16

// piled is what is due with all groups of indices of a dimension added to the first, and with the last written there;
// nil if something else is recorded than zeros where the others are.
func (c *Search) piled(got, want *tensor.Tensor, d, group int) (sum, last *tensor.Tensor) {
	_ = c.Guard(func() error { // what cannot be read is not
		n, inner := got.Shape[d], tensor.Numel(got.Shape[d+1:])
		for k, x := range elements(got) {
			if x != 0 && k/inner%n >= group {
				return nil
			}
		}
		sums, lasts := tensor.Make[float64](got.Numel()), tensor.Make[float64](got.Numel())
		for k, x := range elements(want) {
			to := k - k/inner%n/group*group*inner
			sums[to] += x
			lasts[to] = x
		}
		sum, last = tensor.New(want.DType, want.Shape, sums), tensor.New(want.DType, want.Shape, lasts)
		return nil
	})
	return sum, last
}
