package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/tensor"
)

// strided are results whose elements are those of an operand at every so many indices: one of each window in place of
// what is due of all of it.
func (c *Search) strided(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, _ := c.wrongResult(fails)
		if got == nil || got.Numel() < leastInPart {
			return
		}
		for _, a := range c.operands() {
			dims, step := stridden(a.Tensor.Shape, got.Shape)
			if len(dims) == 0 {
				continue
			}
			for _, first := range corners(len(dims), step) {
				t := a.Tensor
				for k, d := range dims {
					t = t.Slice(d, first[k], got.Shape[d], step)
				}
				text := fmt.Sprintf("it is each index of dimensions %s of %s that is %s mod %d", beginning(dims),
					argName(a), beginning(first), step)
				if !yield(Mistake{Text: text, Make: c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
					if of != fails[0].Target || !slices.Equal(due.Shape, t.Shape) {
						return due
					}
					return t
				})}) {
					return
				}
			}
		}
	}
}

// stridden are the dimensions of which a part has one of each step indices, as many of all; none if it is no such part.
func stridden(whole, part []int) (dims []int, step int) {
	if len(whole) != len(part) {
		return nil, 0
	}
	for d, n := range whole {
		if n == part[d] {
			continue
		}
		if part[d] == 0 || n/part[d] < 2 || step > 0 && n/part[d] != step {
			return nil, 0
		}
		step, dims = n/part[d], append(dims, d)
	}
	return dims, step
}

// corners are the indices of a window of n dimensions; the first and the last of many.
func corners(n, side int) (out [][]int) {
	out = [][]int{nil}
	for range n {
		var longer [][]int
		for _, o := range out {
			for i := range side {
				longer = append(longer, append(slices.Clone(o), i))
			}
		}
		if out = longer; len(out) > mostCorners {
			return [][]int{slices.Repeat([]int{0}, n), slices.Repeat([]int{side - 1}, n)}
		}
	}
	return out
}

// mostCorners are those of a window of which each is tried.
const mostCorners = 32
