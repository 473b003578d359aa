package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// positioned are positions that count from elsewhere, or in another order: flat ones of all elements in place of those
// along a dimension, those within a tile, from the end, ranks in place of positions; of windows, those within the
// window, of all planes, or column by column; coordinates column by column. So are counts that are sums.
func (c *Search) positioned(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			got, want, ok := fails[i].Pair()
			if !ok || !fails[i].Forward() || !got.DType.IsIntegral() || got.DType == tensor.Bool ||
				!slices.Equal(got.Shape, want.Shape) || got.Numel() > largestOperand || got.Numel() < leastInPart {
				continue
			}
			var x, y []int64
			if c.Guard(func() error { x, y = whole64(got), whole64(want); return nil }) != nil {
				continue
			}
			n := 0
			for _, m := range slices.Concat(c.alongRows(want), c.inWindows(want), c.ofRows(want)) {
				made := make([]int64, len(y))
				if n++; !m.of(y, made) || !slices.Equal(made, x) {
					continue
				}
				if !yield(Mistake{Text: m.text, Cost: math.Log2(float64(n)), Make: c.resultOf(fails[i].Target, made)}) {
					return
				}
			}
			c.Work.Elements(n * got.Numel() / 64)
		}
	}
}

// resultOf is the call whose result of that target has these elements.
func (c *Search) resultOf(target string, made []int64) func() (Way, error) {
	return c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
		if of != target || t.Numel() != len(made) {
			return t
		}
		return tensor.New(t.DType, t.Shape, made)
	})
}

func whole64(t *tensor.Tensor) []int64 {
	v := tensor.Make[int64](t.Numel())
	tensor.Load(t, 0, v)
	return v
}

// A positionMap is what positions are taken for; of stores what is made of those that are due, and is false if they
// are no such positions.
type positionMap struct {
	text string
	of   func(due, made []int64) bool
}

func eachPosition(text string, f func(i int, p int64) int64) positionMap {
	return positionMap{text, func(due, made []int64) bool {
		for i, p := range due {
			made[i] = f(i, p)
		}
		return true
	}}
}

// alongRows are maps of positions along a dimension of an operand. The result has that dimension, of any size, or not.
func (c *Search) alongRows(want *tensor.Tensor) (out []positionMap) {
	for _, a := range c.readable() {
		for d, n := range a.Tensor.Shape {
			inner := tensor.Numel(a.Tensor.Shape[d+1:])
			width := 0 // of the dimension in the result
			removed := slices.Delete(slices.Clone(a.Tensor.Shape), d, d+1)
			if slices.Equal(want.Shape, removed) {
				width = 1
			} else if len(want.Shape) == a.Tensor.Dim() && n > 1 &&
				slices.Equal(slices.Delete(slices.Clone(want.Shape), d, d+1), removed) {
				width = want.Shape[d]
			}
			if width == 0 || n < 2 {
				continue
			}
			row := func(i int) int64 { return int64(i / (inner * width)) }
			along := fmt.Sprintf("along dimension %d of %s", d, argName(a))
			out = append(out,
				eachPosition("positions count all elements of "+argName(a)+", not those "+along,
					func(i int, p int64) int64 { return (row(i)*int64(n)+p)*int64(inner) + int64(i%inner) }),
				eachPosition("positions "+along+" are counted from the end", func(_ int, p int64) int64 {
					return int64(n) - 1 - p
				}),
				eachPosition("positions "+along+" are counted from 1", func(_ int, p int64) int64 { return p + 1 }),
				eachPosition("positions "+along+" are the largest number: none is written", func(int, int64) int64 {
					return math.MaxInt64
				}))
			for _, k := range sections(n) {
				out = append(out,
					eachPosition(fmt.Sprintf("positions %s count from the beginning of each %d", along, k),
						func(_ int, p int64) int64 { return p % int64(k) }),
					eachPosition(fmt.Sprintf("positions %s are those of the tile of %d, not in it", along, k),
						func(_ int, p int64) int64 { return p / int64(k) }),
					eachPosition(fmt.Sprintf("positions %s are those at which the tile of %d begins", along, k),
						func(_ int, p int64) int64 { return p / int64(k) * int64(k) }))
			}
			if width == n {
				out = append(out, positionMap{"ranks " + along + " are given, not positions: the inverse of the order",
					func(due, made []int64) bool {
						for i, p := range due {
							if p < 0 || p >= int64(n) {
								return false
							}
							at := i / inner % n
							made[i+(int(p)-at)*inner] = int64(at)
						}
						return true
					}})
			}
		}
	}
	return out
}

// inWindows are maps of positions in planes of an operand, of which the results are those of windows.
func (c *Search) inWindows(want *tensor.Tensor) (out []positionMap) {
	if want.Dim() < 3 {
		return nil
	}
	for _, a := range c.readable() {
		if a.Tensor.Dim() != want.Dim() {
			continue
		}
		last := want.Dim() - 1
		h, w := int64(a.Tensor.Shape[last-1]), int64(a.Tensor.Shape[last])
		oh, ow := int64(want.Shape[last-1]), int64(want.Shape[last])
		out = append(out,
			eachPosition("positions in a plane are counted column by column", func(_ int, p int64) int64 {
				return p%w*h + p/w
			}),
			eachPosition("positions count the elements of all planes, not those of one", func(i int, p int64) int64 {
				return int64(i)/(oh*ow)*h*w + p
			}),
			eachPosition("positions in a plane are counted in rows of the length that the result has",
				func(_ int, p int64) int64 { return p/w*ow + p%w }),
			eachPosition("positions in a plane are counted in rows of its height", func(_ int, p int64) int64 {
				return p/w*h + p%w
			}),
			eachPosition("positions in a plane are those along the last dimension", func(_ int, p int64) int64 {
				return p % w
			}),
			eachPosition("positions in a plane are those along the dimension before the last",
				func(_ int, p int64) int64 { return p / w }))
		if k, s, p, ok := c.windows(); ok {
			out = append(out, eachPosition("positions count within each window", func(i int, at int64) int64 {
				y, x := int64(i)/ow%oh*s[0]-p[0], int64(i)%ow*s[1]-p[1]
				return (at/w-y)*k[1] + at%w - x
			}))
		}
	}
	return out
}

// windows are the sizes of windows, how far one is from the next, and by how much they begin beyond the plane: the
// first three arguments that are lists of whole numbers. The second is the first where it is not given.
func (c *Search) windows() (size, step, before [2]int64, ok bool) {
	var all [][2]int64
	for _, a := range c.Bound.Arguments() {
		switch v := a.Value.(type) {
		case []int:
			switch {
			case len(v) == 1 || len(v) == 2:
				all = append(all, [2]int64{int64(v[0]), int64(v[len(v)-1])})
			case len(v) == 0 && len(all) == 1:
				all = append(all, all[0])
			}
		}
	}
	if len(all) < 3 {
		return size, step, before, false
	}
	return all[0], all[1], all[2], true
}

// ofRows are maps of rows of coordinates, and of counts. A result element for element has neither.
func (c *Search) ofRows(want *tensor.Tensor) (out []positionMap) {
	switch {
	case slices.ContainsFunc(c.readable(), func(a opdef.Arg) bool { return slices.Equal(a.Tensor.Shape, want.Shape) }):
	case want.Dim() == 1:
		out = append(out,
			positionMap{"each is the sum of those up to it", func(due, made []int64) bool {
				sum := int64(0)
				for i, x := range due {
					sum += x
					made[i] = sum
				}
				return true
			}},
			positionMap{"each is the sum of those before it", func(due, made []int64) bool {
				sum := int64(0)
				for i, x := range due {
					made[i] = sum
					sum += x
				}
				return true
			}})
	case want.Dim() == 2 && want.Shape[1] > 1 && want.Shape[1] <= mostDimensions:
		n := want.Shape[1]
		for _, a := range c.readable() {
			if a.Tensor.Dim() != n {
				continue
			}
			for d, size := range a.Tensor.Shape { // of each dimension that follows the first
				text := fmt.Sprintf("the position of each element is split by %d, the length of dimension %d of %s, not by "+
					"that of the last", size, d, argName(a))
				if size == 0 || size == a.Tensor.Shape[n-1] {
					continue
				}
				out = append(out, positionMap{text, func(due, made []int64) bool {
					for i := 0; i < len(due); i += n {
						at := int64(0)
						for k := range n {
							at = at*int64(a.Tensor.Shape[k]) + due[i+k]
						}
						for k := n - 1; k > 0; k-- {
							by := int64(a.Tensor.Shape[k])
							if k == n-1 {
								by = int64(size)
							}
							made[i+k], at = at%by, at/by
						}
						made[i] = at
					}
					return true
				}})
			}
		}
		out = append(out,
			positionMap{"the coordinates of each element are in reverse order", func(due, made []int64) bool {
				for i := range due {
					made[i] = due[i/n*n+n-1-i%n]
				}
				return true
			}},
			positionMap{"elements are found column by column, not row by row", func(due, made []int64) bool {
				var rows [][]int64
				for r := range slices.Chunk(due, n) {
					rows = append(rows, r)
				}
				slices.SortStableFunc(rows, func(a, b []int64) int {
					x, y := slices.Clone(a), slices.Clone(b)
					slices.Reverse(x)
					slices.Reverse(y)
					return slices.Compare(x, y)
				})
				for i, r := range rows {
					copy(made[i*n:], r)
				}
				return true
			}})
	}
	return out
}
