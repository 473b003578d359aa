package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// listed are calls of operators on lists that read the tensors of one list in another order: each that of a neighbour,
// or the first for all.
func (c *Search) listed() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		lists := map[string][]*tensor.Tensor{}
		var names []string
		for _, a := range c.Bound.Tensors() {
			if a.Index < 0 {
				continue
			}
			if a.Index == 0 {
				names = append(names, a.Name)
			}
			lists[a.Name] = append(lists[a.Name], a.Tensor)
		}
		for _, name := range names {
			list := lists[name]
			for p := range turns(len(list)) {
				if !alikeInOrder(list, p) {
					continue
				}
				text := fmt.Sprintf("the tensors of %s are %s", name, p.text)
				if !yield(Mistake{Text: text, Make: func() (Way, error) {
					return c.replaced(func(a opdef.Arg) *tensor.Tensor {
						if a.Name != name || a.Index < 0 || p.of(a.Index, len(list)) == a.Index {
							return nil
						}
						n := *list[p.of(a.Index, len(list))]
						return &n
					})
				}}) {
					return
				}
			}
		}
	}
}

// incompleteTiles are calls of operators on lists that leave out what lies in each tensor behind the last whole tile of
// so many elements.
func (c *Search) incompleteTiles() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		var names []string
		for _, a := range c.operands() {
			if a.Index >= 0 && !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
		for _, name := range names {
			for tile := 4; tile <= 4096; tile *= 2 {
				text := fmt.Sprintf("of each tensor of %s, what lies behind a multiple of %d elements is left out",
					name, tile)
				if !yield(Mistake{Text: text, Make: func() (Way, error) {
					return c.replaced(func(a opdef.Arg) *tensor.Tensor {
						n := a.Tensor.Numel()
						if a.Name != name || a.Index < 0 || !a.Tensor.DType.IsFloat() || n < tile || n%tile == 0 {
							return nil
						}
						return gathered(a.Tensor, func(i int) int { return cut(i, n-n%tile) })
					})
				}}) {
					return
				}
			}
		}
	}
}

// cut is i, or -1 from n on.
func cut(i, n int) int {
	if i >= n {
		return -1
	}
	return i
}

// listedResults are results of several, or gradients, that stand in another order: each in the place of a neighbour, or
// backwards. Two of them: see exchanged.
func (c *Search) listedResults(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, pass := range []struct{ prefix, what string }{{"output", "results"}, {"grad", "gradients"}} {
			var targets []string
			var due []*tensor.Tensor
			for target, t := range c.Due(pass.prefix) {
				targets, due = append(targets, target), append(due, t)
			}
			if len(due) < 3 || !slices.ContainsFunc(fails, func(w Wrong) bool {
				return slices.Contains(targets, w.Target)
			}) {
				continue
			}
			for p := range turns(len(due)) {
				if !alikeInOrder(due, p) {
					continue
				}
				if !yield(Mistake{Text: fmt.Sprintf("the %d %s are %s", len(due), pass.what, p.text),
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if i := slices.Index(targets, target); i >= 0 {
							return due[p.of(i, len(due))]
						}
						return t
					})}) {
					return
				}
			}
		}
	}
}

// alikeInOrder reports whether each tensor of a list can stand in the place that an order gives it.
func alikeInOrder(list []*tensor.Tensor, p permutation) bool {
	for i, t := range list {
		if u := list[p.of(i, len(list))]; !slices.Equal(u.Shape, t.Shape) || u.DType != t.DType {
			return false
		}
	}
	return true
}
