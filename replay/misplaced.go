package replay

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// misplacedResults are results whose end was not written, or whose parts along a
// dimension, heads or channels or rows, lie in another order.
func (c *Call) misplacedResults(fails []Result) iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for i := range fails {
			got, want, ok := c.Pair(&fails[i])
			if !ok || !got.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) || got.Numel() > largestOperand {
				continue
			}
			var x, y []float64
			if Guard(func() error { x, y = elements(got), elements(want); return nil }) != nil {
				continue
			}
			m := &misplaced{shape: got.Shape, got: x, want: y, near: 16 * got.DType.Eps()}
			if got.DType.Size() < 4 {
				m.near = 4 * got.DType.Eps()
			}
			for d := range got.Shape {
				if m.length(d) < 2 {
					continue
				}
				if from := m.unwritten(d); from > 0 {
					n := m.length(d) - from
					text := fmt.Sprintf("the last %d of dimension %d are not written", n, d)
					if n == 1 {
						text = fmt.Sprintf("the last of dimension %d is not written", d)
					}
					if !yield(mistake{text: text, make: c.resultIs(fails[i].Target, func(j int) int {
						if j/m.inner(d)%m.length(d) >= from {
							return -1
						}
						return j
					})}) {
						return
					}
				}
				if order := m.permuted(d); order != nil && !yield(mistake{rounds: true,
					text: fmt.Sprintf("the result's dimension %d is in the order %s", d, orderText(order)),
					make: c.resultIs(fails[i].Target, func(j int) int {
						at := j / m.inner(d) % m.length(d)
						return j + (order[at]-at)*m.inner(d)
					})}) {
					return
				}
			}
		}
	}
}

// resultIs is the call of which one value has at place i the element at place from(i), 0
// where that is negative.
func (c *Call) resultIs(target string, from func(i int) int) func() (reading, error) {
	return func() (reading, error) {
		return reading{call: c.bound, original: c.original, alter: func(of string, t *tensor.Tensor) *tensor.Tensor {
			if of != target {
				return t
			}
			v := elements(t)
			out := make([]float64, len(v))
			for i := range out {
				if j := from(i); j >= 0 {
					out[i] = v[j]
				}
			}
			return tensor.New(t.DType, t.Shape, out)
		}}, nil
	}
}

// A misplaced is a recorded value and the one that is due, of one shape.
type misplaced struct {
	shape     []int
	got, want []float64
	near      float64 // of the largest element of a part, that rounding may change an element by
}

func (m *misplaced) length(d int) int { return m.shape[d] }

// inner is how far apart neighbours along a dimension lie.
func (m *misplaced) inner(d int) int { return tensor.Numel(m.shape[d+1:]) }

// unwritten is where the end of a dimension begins that holds zeros alone where other
// numbers are due; 0 if there is none.
func (m *misplaced) unwritten(d int) int {
	n, inner := m.length(d), m.inner(d)
	last := -1 // part that holds another number
	for i, x := range m.got {
		if x != 0 {
			last = max(last, i/inner%n)
		}
	}
	from := last + 1
	if from == n {
		return 0
	}
	for i, y := range m.want {
		if y != 0 && i/inner%n >= from {
			return from
		}
	}
	return 0
}

const (
	mostPermuted  = 256 // length up to which a dimension is looked at for another order
	leastInPart   = 4   // elements of a part that show which it is
	leastInNarrow = 16  // the same of 16-bit values
)

// permuted is for each recorded part along a dimension which of those due it is, nil if
// they are not all there, once each, or all in place.
func (m *misplaced) permuted(d int) []int {
	n, least := m.length(d), leastInPart
	if m.near > 1e-3 {
		least = leastInNarrow
	}
	if n > mostPermuted || len(m.got)/n < least {
		return nil
	}
	order, used, moved := make([]int, n), make([]bool, n), false
	for i := range n {
		order[i] = -1
		for k := range n {
			if j := (i + k) % n; !used[j] && m.same(d, i, j) {
				order[i], used[j] = j, true
				moved = moved || k > 0
				break
			}
		}
		if order[i] < 0 {
			return nil
		}
	}
	if !moved {
		return nil
	}
	return order
}

// same reports whether the recorded part i along a dimension is the part j that is due.
func (m *misplaced) same(d, i, j int) bool {
	n, inner := m.length(d), m.inner(d)
	size := 0.0
	for base := 0; base < len(m.want); base += n * inner {
		for _, y := range m.want[base+j*inner : base+(j+1)*inner] {
			size = math.Max(size, math.Abs(y))
		}
	}
	for base := 0; base < len(m.want); base += n * inner {
		for k := range inner {
			if !(math.Abs(m.got[base+i*inner+k]-m.want[base+j*inner+k]) <= m.near*size) {
				return false
			}
		}
	}
	return size > 0
}

// orderText is a permutation, the beginning of a long one.
func orderText(order []int) string {
	const shown = 8
	s := strings.Trim(fmt.Sprint(order[:min(len(order), shown)]), "[]")
	if len(order) > shown {
		s += " ..."
	}
	return s
}

// A permutation is an order in which kernels read parts by mistake.
type permutation struct {
	text string
	of   func(i, n int) int
}

var permutations = []permutation{
	{"read one back", func(i, n int) int { return (i + n - 1) % n }},
	{"read with neighbours exchanged", func(i, n int) int { return min(i^1, n-1) }},
	{"read with halves exchanged", func(i, n int) int { return (i + n/2) % n }},
	{"read backwards", func(i, n int) int { return n - 1 - i }},
	{"read in two interleaved halves", func(i, n int) int { return i%2*((n+1)/2) + i/2 }},
}

// permutedOperands reads an operand, or all but the first that have one shape (keys and
// values), in another order along a dimension.
func (c *Call) permutedOperands() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		all := c.operands()
		var groups [][]opdef.Arg
		for _, a := range all {
			groups = append(groups, []opdef.Arg{a})
		}
		if len(all) == 3 && slices.Equal(all[1].Tensor.Shape, all[2].Tensor.Shape) {
			groups = append(groups, all[1:])
		}
		for _, group := range groups {
			var names []string
			for _, a := range group {
				names = append(names, argName(a))
			}
			what := strings.Join(names, " and ") + " are "
			if len(names) == 1 {
				what = names[0] + " is "
			}
			for d, n := range group[0].Tensor.Shape {
				for k, p := range permutations {
					if n < 2 || n > mostPermuted || k > 0 && n == 2 { // of two there is one other order
						continue
					}
					if !yield(mistake{
						text: fmt.Sprintf("%s%s along dimension %d", what, p.text, d),
						make: func() (reading, error) {
							return c.replaced(func(a opdef.Arg) *tensor.Tensor {
								if !slices.ContainsFunc(group, func(b opdef.Arg) bool {
									return a.Name == b.Name && a.Index == b.Index
								}) {
									return nil
								}
								return reordered(a.Tensor, d, p.of)
							})
						}}) {
						return
					}
				}
			}
		}
	}
}

// reordered is t with part of(i) in place of part i along a dimension.
func reordered(t *tensor.Tensor, d int, of func(i, n int) int) *tensor.Tensor {
	n, inner, v := t.Shape[d], tensor.Numel(t.Shape[d+1:]), elements(t)
	out := make([]float64, len(v))
	for i := range v {
		at := i / inner % n
		out[i] = v[i+(of(at, n)-at)*inner]
	}
	return tensor.New(t.DType, t.Shape, out)
}
