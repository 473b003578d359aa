package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// misreadIndices reads indices and masks wrongly: one too high or low, at other places, not at
// all; a mask the other way round.
func (c *Search) misreadIndices() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.Bound.Tensors() {
			t, name := a.Tensor, argName(a)
			if t.Wrapped || !t.DType.IsIntegral() && t.DType != tensor.Bool || t.Dim() == 0 || t.Numel() == 0 ||
				t.Numel() > largestOperand {
				continue
			}
			is := func(text string, of func(i int, v []int64) int64) bool {
				return yield(Mistake{Text: name + " is " + text, Make: c.one(a, func() *tensor.Tensor {
					v := make([]int64, t.Numel())
					tensor.Load(t, 0, v)
					out := make([]int64, len(v))
					for i := range v {
						out[i] = of(i, v)
					}
					if slices.Equal(v, out) {
						return nil
					}
					return tensor.New(t.DType, t.Shape, out)
				})})
			}
			n := t.Shape[t.Dim()-1]
			if t.DType == tensor.Bool {
				if !is("taken the other way round", func(i int, v []int64) int64 { return 1 - v[i] }) ||
					!is("taken for True everywhere", func(int, []int64) int64 { return 1 }) ||
					!is("taken for False everywhere", func(int, []int64) int64 { return 0 }) ||
					!is("taken for as many True, which come first", first) {
					return
				}
			} else if !is("one too high", func(i int, v []int64) int64 { return v[i] + 1 }) ||
				!is("one too low", func(i int, v []int64) int64 { return v[i] - 1 }) ||
				!is("taken for 0 1 2 ...", func(i int, _ []int64) int64 { return int64(i % n) }) ||
				!is("taken for 0", func(int, []int64) int64 { return 0 }) {
				return
			} else {
				for _, bits := range []int{7, 8, 15, 16} {
					if mod := int64(1) << bits; !is(fmt.Sprintf("taken modulo %d", mod), func(i int, v []int64) int64 {
						return v[i] & (mod - 1)
					}) {
						return
					}
				}
			}
			for d, n := range t.Shape {
				inner := tensor.Numel(t.Shape[d+1:])
				for _, p := range slices.Concat([]permutation{{"read one further", func(i, n int) int {
					return (i + 1) % n
				}}}, permutations) {
					if n > 1 && !is(fmt.Sprintf("%s along dimension %d", p.text, d), func(i int, v []int64) int64 {
						at := i / inner % n
						return v[i+(p.of(at, n)-at)*inner]
					}) {
						return
					}
				}
			}
		}
	}
}

// first has as many ones as v, at the beginning.
func first(i int, v []int64) int64 {
	var n int64
	for _, x := range v {
		n += x
	}
	if int64(i) < n {
		return 1
	}
	return 0
}

// exchangedArguments gives two arguments, numbers or lists of them, each other's value, or one that of the other: what
// one has where the other is None, too.
func (c *Search) exchangedArguments() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		var all []opdef.Argument
		for _, a := range c.Bound.Arguments() {
			if isNumbers(a.Python()) || a.Python() == nil {
				all = append(all, a)
			}
		}
		for i, a := range all {
			for _, b := range all[i+1:] {
				x, y := a.Python(), b.Python()
				if shown(x) == shown(y) {
					continue
				}
				text := a.Name + " and " + b.Name + " are exchanged"
				if x == nil {
					text = b.Name + " is taken for " + a.Name
				} else if y == nil {
					text = a.Name + " is taken for " + b.Name
				}
				if !yield(Mistake{Text: text, Make: func() (Way, error) {
					return c.withArguments(map[string]value.Value{a.Name: y, b.Name: x})
				}}) {
					return
				}
				if x == nil || y == nil {
					continue
				}
				for _, one := range []struct {
					name, of string
					v        value.Value
				}{{a.Name, b.Name, y}, {b.Name, a.Name, x}} {
					if !yield(Mistake{Text: one.name + " is " + shown(one.v) + ", which is " + one.of,
						Make: func() (Way, error) {
							return c.withArguments(map[string]value.Value{one.name: one.v})
						}}) {
						return
					}
				}
			}
		}
	}
}

// isNumbers reports whether v is a number or a list of them.
func isNumbers(v value.Value) bool {
	switch x := v.(type) {
	case int64, float64:
		return true
	case *value.Sequence:
		return len(x.Items) > 0 && !slices.ContainsFunc(x.Items, func(v value.Value) bool { return !isNumbers(v) })
	}
	return false
}
