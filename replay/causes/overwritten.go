package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// overwritten are values to which several elements are added, where a kernel writes each. The last one stays, or the
// first: where windows overlap in fold, in the gradient of a pool, or where indices repeat. One run finds which element
// of a source goes where. For a result it is the gradient of positions. For a gradient it is how the result moves when
// each element moves by its position. Sources whose elements do not count once, at one place, have no such map.
func (c *Search) overwritten(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) == 0 {
			return
		}
		r := &fails[0]
		_, want, ok := r.floats()
		if !ok || want.Numel() > mostReduced {
			return
		}
		for _, a := range c.operands() {
			source, name := a.Tensor, argName(a)
			if r.Backward() {
				if len(c.Incoming) != 1 || !slices.Equal(source.Shape, want.Shape) {
					continue
				}
				source, name = c.Incoming[0], "the incoming gradient"
			}
			if source.Numel() > mostReduced || !source.DType.IsFloat() {
				continue
			}
			c.Work.Whole()
			if c.Work.Over() {
				return
			}
			var to []int
			if c.Guard(func() error { to = c.targets(r, a); return nil }) != nil || len(to) != source.Numel() {
				continue
			}
			for _, first := range []bool{false, true} {
				kept := keptOf(to, first)
				if kept == nil {
					break
				}
				which := "last"
				if first {
					which = "first"
				}
				text := fmt.Sprintf("of the elements of %s that are added to one element only the %s counts", name,
					which)
				if !yield(Mistake{Text: text, Rounds: true, Make: c.losing(r.Target, source, to, kept)}) {
					return
				}
			}
		}
	}
}

// overwrittenResults are results where only the first or the last index of an operand's dimension counts: a loop
// overwrites what the indices before gave.
func (c *Search) overwrittenResults(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Forward() {
			return
		}
		for _, a := range c.operands() {
			for d, n := range a.Tensor.Shape {
				for k, which := range []string{"first", "last"} {
					at := k * (n - 1)
					if n > 2 && !yield(Mistake{
						Text: fmt.Sprintf("of dimension %d of %s only the %s index counts", d, argName(a), which),
						Make: c.one(a, func() *tensor.Tensor {
							return without(without(a.Tensor, d, 0, at), d, at+1, n)
						})}) {
						return
					}
				}
			}
		}
	}
}

// losing is the call of whose value the elements of a source are taken away that are not kept.
func (c *Search) losing(target string, source *tensor.Tensor, to []int, kept []bool) func() (Way, error) {
	return c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
		if of != target {
			return t
		}
		out := elements(t)
		for j, x := range elements(source) {
			if to[j] >= 0 && !kept[j] {
				out[to[j]] -= x
			}
		}
		return tensor.New(t.DType, t.Shape, out)
	})
}

// targets are for each element of an operand, or of the incoming gradient, the element of a result or of the operand's
// gradient to which it is added, -1 for none; nil where elements count more than once, or not as they are.
func (c *Search) targets(r *Wrong, a opdef.Arg) []int {
	out := c.Ran.Outs[0]
	var at []float64
	if r.Backward() {
		moved, err := c.one(a, func() *tensor.Tensor {
			return shifted(a.Tensor, -step)
		})()
		if err != nil || moved.Call == nil || !slices.Equal(out.Shape, c.Incoming[0].Shape) {
			return nil
		}
		f, err := moved.Call.Forward()
		if err != nil || len(f.Outs) == 0 || !slices.Equal(f.Outs[0].Shape, out.Shape) {
			return nil
		}
		at = elements(f.Outs[0])
		for i, y := range elements(out) {
			at[i] = (y - at[i]) / step
		}
	} else {
		up := make([]*tensor.Tensor, len(c.Ran.Outs))
		up[0] = shifted(tensor.Full(tensor.Float64, out.Shape, 0.0), 1)
		grads, err := c.Bound.Backward(c.Ran, up, map[string]bool{a.Name: true})
		if err != nil || len(grads[a.Name]) <= max(a.Index, 0) || grads[a.Name][max(a.Index, 0)] == nil {
			return nil
		}
		at = elements(grads[a.Name][max(a.Index, 0)])
	}
	to := make([]int, len(at))
	for j, x := range at {
		n := math.Round(x)
		if !(math.Abs(x-n) <= 1e-2) || n < 0 || int(n) > r.Want.Numel() {
			return nil
		}
		to[j] = int(n) - 1
	}
	return to
}

// step is by how much an element moves for each place that it is further from the first: by so little that the largest
// of some elements stays it, and by much more than roundings.
const step = 1e-9

// shifted is t to whose elements their positions from 1 on are added, times so much.
func shifted(t *tensor.Tensor, by float64) *tensor.Tensor {
	v := elements(t)
	for i := range v {
		v[i] += by * float64(i+1)
	}
	return tensor.New(t.DType, t.Shape, v)
}

// keptOf are the elements that stay where each is written to a place, the last or the first of each place; nil if no
// two have one place.
func keptOf(to []int, first bool) []bool {
	kept, by, some := make([]bool, len(to)), map[int]int{}, false
	for j, at := range to {
		if at < 0 {
			continue
		}
		was, seen := by[at]
		if some = some || seen; seen && first {
			continue
		}
		if seen {
			kept[was] = false
		}
		by[at], kept[j] = j, true
	}
	if !some {
		return nil
	}
	return kept
}
