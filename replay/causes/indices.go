package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// exchangedArguments exchanges the values of two arguments that are numbers or lists of them, or gives one of them
// the value of the other. One of the two can be None.
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
				if !yield(Mistake{Text: text, Argument: true, Make: func() (Way, error) {
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
					if !yield(Mistake{Text: one.name + " is " + shown(one.v) + ", which is " + one.of, Argument: true,
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

// movedTensors are optional tensors that are read in place of others which are absent: pos_weight as weight.
func (c *Search) movedTensors() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.Bound.Arguments() {
			if a.Required || !isTensor(a.Python()) {
				continue
			}
			for _, b := range c.Bound.Arguments() {
				if b.Python() != nil || !b.MayBeNone() {
					continue
				}
				if !yield(Mistake{Text: a.Name + " is taken for " + b.Name, Make: func() (Way, error) {
					return c.withArguments(map[string]value.Value{a.Name: nil, b.Name: a.Python()})
				}}) {
					return
				}
			}
		}
	}
}

// leftOut leaves out two optional tensors at once: a weight and a bias.
func (c *Search) leftOut() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := slices.DeleteFunc(c.Bound.Arguments(), func(a opdef.Argument) bool {
			return a.Required || !isTensor(a.Python())
		})
		for i, a := range all {
			for _, b := range all[i+1:] {
				if !yield(Mistake{Text: a.Name + " and " + b.Name + " are left out", Make: func() (Way, error) {
					return c.withArguments(map[string]value.Value{a.Name: nil, b.Name: nil})
				}}) {
					return
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

// misindexed are calls that read other tensors of indices than they were given.
func (c *Search) misindexed() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.Bound.Nested() {
			for _, f := range ofIndices(a.Tensor) {
				if !yield(Mistake{Text: fmt.Sprintf(f.text, argName(a)), Numbers: f.numbers, Make: func() (Way, error) {
					way := Way{Original: map[*tensor.Tensor]*tensor.Tensor{}}
					way.Call = c.Bound.MapNested(func(b opdef.Arg) *tensor.Tensor {
						if t := f.of(b.Tensor); t != nil && same(a, b) {
							way.Original[t] = c.recorded(b.Tensor)
							return t
						}
						return b.Tensor
					})
					return way, nil
				}}) {
					return
				}
			}
		}
	}
}
