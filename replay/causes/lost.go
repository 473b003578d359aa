package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// lanes are how many indices kernels take at once, so that equal ones among these race; 0: all.
var lanes = []int{0, 4, 8, 16, 32, 64, 128, 256}

// lostDuplicates are sums over equal indices, as of embeddings' gradients, to which only the last of them contributes,
// or the first: a race, of all or of those that are taken at once. The terms are an operand, or the incoming gradient.
func (c *Search) lostDuplicates(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, index := range c.readable() {
			t := index.Tensor
			if !t.DType.IsIntegral() || t.Numel() < 2 {
				continue
			}
			v := tensor.Make[int64](t.Numel())
			if c.Guard(func() error { tensor.Load(t, 0, v); return nil }) != nil {
				continue
			}
			for k := range 2 * len(lanes) {
				first, at := k%2 == 1, lanes[k/2]
				if at >= t.Numel() {
					break
				}
				which := "last"
				if first {
					which = "first"
				}
				text := fmt.Sprintf("of equal elements of %s only the %s counts", argName(index), which)
				if at > 0 {
					text = fmt.Sprintf("among each %d of %s, only the %s of equal elements counts", at, argName(index),
						which)
				}
				for _, a := range c.operands() {
					for kept := range masks(t.Shape, v, a.Tensor.Shape, first, at) {
						if !yield(Mistake{Text: text, Make: c.one(a, func() *tensor.Tensor {
							return masked(a.Tensor, kept)
						})}) {
							return
						}
					}
				}
				if len(c.Incoming) != 1 || !fails[0].Backward() {
					continue
				}
				shape := c.Incoming[0].Shape
				for kept := range masks(t.Shape, v, shape, first, at) {
					lose := func(t *tensor.Tensor) *tensor.Tensor {
						if !slices.Equal(t.Shape, shape) {
							return t
						}
						return masked(t, kept)
					}
					if !yield(Mistake{Text: text, Make: c.alteringIncoming(lose)}) {
						return
					}
				}
			}
		}
	}
}

// masks are, for each way in which indices may belong to the elements of a shape, which elements belong to the last, or
// the first, of equal indices among so many in turn (0: among all); none if no indices are equal.
func masks(index []int, v []int64, shape []int, first bool, lanes int) iter.Seq[[]bool] {
	return func(yield func([]bool) bool) {
		type key struct {
			at           int64
			place, group int
		}
		group := func(k int) int { // of index k along its dimension
			if lanes == 0 {
				return 0
			}
			return k / lanes
		}
		mask := func(n int, of func(i int) key) []bool {
			keeper, kept, some := map[key]int{}, tensor.Make[bool](n), false
			for i := range n {
				k := of(i)
				was, seen := keeper[k]
				if some = some || seen; seen && first {
					continue
				}
				if seen {
					kept[was] = false
				}
				keeper[k], kept[i] = i, true
			}
			if !some {
				return nil
			}
			return kept
		}
		whole := func(kept []bool) bool { return kept == nil || yield(kept) }
		numel := tensor.Numel(shape)
		if slices.Equal(index, shape) && len(shape) > 1 { // gather and scatter, along a dimension
			for d := range shape {
				n, inner := shape[d], tensor.Numel(shape[d+1:])
				if !whole(mask(numel, func(i int) key {
					return key{v[i], i/(n*inner)*inner + i%inner, group(i / inner % n)}
				})) {
					return
				}
			}
			return
		}
		for d := 0; d+len(index) <= len(shape); d++ { // rows, at a dimension
			if !slices.Equal(shape[d:d+len(index)], index) {
				continue
			}
			n, inner := tensor.Numel(index), tensor.Numel(shape[d+len(index):])
			if !whole(mask(numel, func(i int) key {
				k := i / inner % n
				return key{v[k], i/(n*inner)*inner + i%inner, group(k)}
			})) {
				return
			}
		}
	}
}

// masked is t with zeros where kept is false.
func masked(t *tensor.Tensor, kept []bool) *tensor.Tensor {
	return gathered(t, func(i int) int {
		if kept[i] {
			return i
		}
		return -1
	})
}

// untransposed are gradients to which the operator is applied as it is, where its transpose is due.
func (c *Search) untransposed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Incoming) != 1 || !fails[0].Backward() {
			return
		}
		shape := c.Incoming[0].Shape
		for _, a := range c.operands() {
			if !slices.Equal(a.Tensor.Shape, shape) {
				continue
			}
			if !yield(Mistake{Text: "the operator is applied to the incoming gradient, not its transpose",
				Make: func() (Way, error) {
					way, err := c.one(a, func() *tensor.Tensor { return c.Incoming[0].Rounded() })()
					if err != nil || way.Call == nil {
						return way, err
					}
					f, err := way.Call.Forward()
					if err != nil || len(f.Outs) == 0 {
						return Way{}, err
					}
					return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Target == target }) &&
							slices.Equal(t.Shape, f.Outs[0].Shape) {
							return f.Outs[0]
						}
						return t
					})()
				}}) {
				return
			}
		}
	}
}

// together are all floating operands taken for something else in the same way.
func (c *Search) together(transformations transformer) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		if len(all) < 2 {
			return
		}
		sets := [][]opdef.Arg{all}
		if len(all) > 2 {
			sets = append(sets, all[:2], all[1:])
		}
		for k, some := range sets {
			names := "the operands"
			switch {
			case len(some) == 2:
				names = argName(some[0]) + " and " + argName(some[1])
			case k > 0:
				names = "the operands but " + argName(all[0])
			}
			for _, f := range transformations(some[0].Tensor) {
				if !yield(Mistake{Text: "each of " + names + ": " + fmt.Sprintf(f.text, "it"), Rounds: f.rounds,
					Make: func() (Way, error) {
						return c.replaced(func(a opdef.Arg) *tensor.Tensor {
							if !slices.ContainsFunc(some, func(b opdef.Arg) bool { return same(a, b) }) ||
								a.Tensor.Dim() != some[0].Tensor.Dim() {
								return nil
							}
							for _, own := range transformations(a.Tensor) {
								if own.text == f.text {
									return own.of(a.Tensor)
								}
							}
							return nil
						})
					}}) {
					return
				}
			}
		}
	}
}
