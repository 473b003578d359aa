package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// croppedElsewhere are gradients that are cut from the incoming one, which is larger, at another index than is due, and
// results that are cut from an operand likewise.
func (c *Search) croppedElsewhere(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || got.Dim() == 0 || got.Numel() < leastInPart {
				continue
			}
			for _, from := range c.cutFrom(r) {
				t := from.t
				if t == nil || t.DType.IsComplex() || t.Dim() != got.Dim() || slices.Equal(t.Shape, got.Shape) ||
					t.Numel() > largestOperand {
					continue
				}
				for _, at := range croppings(t.Shape, got.Shape) {
					part := t
					var where []string
					for d, n := range got.Shape {
						if part = part.Slice(d, at[d], n, 1); t.Shape[d] > n {
							where = append(where, fmt.Sprintf("index %d of dimension %d", at[d], d))
						}
					}
					if !c.alikeNearly(got, want, part) {
						continue
					}
					text := fmt.Sprintf("it is cut from %s at %s", from.text, strings.Join(where, " and "))
					if !yield(Mistake{Text: text, Rounds: true, Cost: math.Log2(27),
						Make: c.valueHas(r.Target, part)}) {
						return
					}
				}
			}
		}
	}
}

// cutFrom are the tensors from which a value may be cut.
func (c *Search) cutFrom(r *Wrong) (all []knownValue) {
	if r.Backward() {
		for _, t := range c.Incoming {
			all = append(all, knownValue{"the incoming gradient", t})
		}
		return all
	}
	for _, a := range c.operands() {
		all = append(all, knownValue{argName(a), a.Tensor})
	}
	return all
}

// croppings are the indices at which a part of a shape may be cut from a larger one: the first that it can be, the
// last, and that in the middle.
func croppings(of, part []int) [][]int {
	all := [][]int{nil}
	larger := 0
	for d, n := range part {
		rest := of[d] - n
		if rest < 0 {
			return nil
		}
		starts := []int{0}
		if rest > 0 {
			if larger++; larger > 3 {
				return nil
			}
			starts = slices.Compact([]int{0, rest / 2, rest})
		}
		var more [][]int
		for _, a := range all {
			for _, s := range starts {
				more = append(more, append(slices.Clone(a), s))
			}
		}
		all = more
	}
	return all
}

// alikeNearly reports whether most of some wrong elements of a value are those of a tensor.
func (c *Search) alikeNearly(got, want, made *tensor.Tensor) (is bool) {
	_ = c.Guard(func() error { // what cannot be read is not
		v := elementwise{got: sample(got), want: sample(want), x: sample(made), y: sample(made)}
		is = v.are(func(x, _ float64) float64 { return x }, got.DType)
		return nil
	})
	return is
}

// spreadSums are values each of whose indices along a dimension holds the sum, or the mean, of what is due there.
func (c *Search) spreadSums(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || got.Numel() < 2 || got.Numel() > mostReduced {
				continue
			}
			for d, n := range got.Shape {
				if n < 2 || !c.constantAlong(got, d) {
					continue
				}
				for _, what := range []struct {
					text string
					by   float64
				}{{"the sum", 1}, {"the mean", 1 / float64(n)}} {
					t := c.alongTo(want, d, func(v []float64) float64 {
						return what.by * total(v, func(x float64) float64 { return x })
					}, got.Shape)
					if t == nil {
						continue
					}
					text := fmt.Sprintf("each index of dimension %d holds %s of what is due along it", d, what.text)
					if !yield(Mistake{Text: text, Rounds: true, Make: c.valueHas(r.Target, t)}) {
						return
					}
				}
			}
		}
	}
}

// constantAlong reports whether a value is the same at all indices of a dimension.
func (c *Search) constantAlong(t *tensor.Tensor, d int) bool {
	is := false
	_ = c.Guard(func() error { // what cannot be read is not
		first, all := elements(reordered(t, d, func(int, int) int { return 0 })), elements(t)
		is = slices.Equal(first, all)
		return nil
	})
	return is
}

// gatheredIncoming are gradients that are the incoming one read at indices, where it is due to be written there.
func (c *Search) gatheredIncoming(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if len(c.Incoming) == 0 || c.Incoming[0] == nil {
			return
		}
		up := c.Incoming[0]
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || !r.Backward() || up.Dim() != got.Dim() || got.Dim() == 0 || got.Numel() < leastInPart {
				continue
			}
			for _, a := range c.positions() {
				for d := range got.Shape {
					t := c.readAt(up, a.t, d, got.Shape)
					if t == nil || !c.alikeNearly(got, want, t) {
						continue
					}
					text := fmt.Sprintf("the incoming gradient is read at %s along dimension %d, not written there",
						a.text, d)
					if !yield(Mistake{Text: text, Rounds: true,
						Make: c.altering(func(target string, due *tensor.Tensor) *tensor.Tensor {
							if target != r.Target || !slices.Equal(due.Shape, t.Shape) {
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
}

// positions are whole numbers that may say where something is: operands, and results such as those of a sort.
func (c *Search) positions() (all []knownValue) {
	for _, a := range c.readable() {
		if a.Tensor.DType.IsIntegral() {
			all = append(all, knownValue{argName(a), a.Tensor})
		}
	}
	for i, t := range c.Recorded {
		if t != nil && t.DType.IsIntegral() {
			all = append(all, knownValue{fmt.Sprintf("output[%d]", i), t})
		}
	}
	return all
}

// readAt is a tensor read at indices along a dimension, in a shape; nil where they do not fit.
func (c *Search) readAt(t, at *tensor.Tensor, d int, shape []int) (made *tensor.Tensor) {
	whole := slices.Equal(at.Shape, shape)
	if !whole && (at.Dim() != 1 || at.Shape[0] != shape[d]) {
		return nil
	}
	for k, n := range shape {
		if k != d && t.Shape[k] != n {
			return nil
		}
	}
	_ = c.Guard(func() error { // what cannot be read does not fit
		p, n, m := whole64(at), shape[d], t.Shape[d]
		inner := tensor.Numel(shape[d+1:])
		from := tensor.Make[int](tensor.Numel(shape))
		for i := range from {
			k := p[i/inner%n]
			if whole {
				k = p[i]
			}
			if k < 0 || int(k) >= m {
				return nil
			}
			from[i] = (i/inner/n*m+int(k))*inner + i%inner
		}
		if t.DType.IsFloat() {
			made = tensor.New(t.DType, shape, elementsAt(elements(t), from))
		} else {
			made = tensor.New(t.DType, shape, elementsAt(whole64(t), from))
		}
		return nil
	})
	return made
}

// elementsAt are the elements of v at some places.
func elementsAt[T any](v []T, from []int) []T {
	out := tensor.Make[T](len(from))
	for i, k := range from {
		out[i] = v[k]
	}
	return out
}

// chosenInPlace are results that hold, where a mask is true, the element of one operand at the same place, and that of
// another elsewhere.
func (c *Search) chosenInPlace(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.floats()
		if !ok || !r.Forward() || got.Numel() < leastInNarrow {
			return
		}
		var up *tensor.Tensor
		if len(c.Incoming) > 0 && c.Incoming[0] != nil && slices.Equal(c.Incoming[0].Shape, got.Shape) {
			up = c.Incoming[0]
		}
		for _, m := range c.readable() {
			mask, err := m.Tensor.Expand(got.Shape...)
			if m.Tensor.DType != tensor.Bool || err != nil || !slices.Equal(mask.Shape, got.Shape) {
				continue
			}
			for _, a := range c.operands() {
				for _, b := range c.operands() {
					x, y := a.Tensor, b.Tensor
					if same(a, b) || !slices.Equal(x.Shape, got.Shape) || !slices.Equal(y.Shape, got.Shape) {
						continue
					}
					made := opdef.ZipN(got.DType, got.Shape, func(dst []float64, src [][]float64) {
						for i := range dst {
							if dst[i] = src[2][i]; src[0][i] != 0 {
								dst[i] = src[1][i]
							}
						}
					}, opdef.Cast(mask, tensor.Float64), x, y)
					if !c.alikeNearly(got, want, made) {
						continue
					}
					text := fmt.Sprintf("where %s is true, it is the element of %s at the same place, and that of %s "+
						"elsewhere", argName(m), argName(a), argName(b))
					alter := func(target string, due *tensor.Tensor) *tensor.Tensor {
						switch {
						case target == r.Target:
							return made
						case up != nil && slices.Equal(due.Shape, got.Shape) &&
							slices.ContainsFunc(fails,
								func(f Wrong) bool { return f.Target == target && f.Backward() }):
							return opdef.Zip(due.DType, up, opdef.Cast(mask, tensor.Float64),
								func(g, is float64) float64 { return g * is })
						}
						return due
					}
					if !yield(Mistake{Text: text, Make: c.altering(alter)}) {
						return
					}
				}
			}
		}
	}
}
