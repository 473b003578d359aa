package causes

import (
	"fmt"
	"math"

	"github.com/optool/optool/tensor"
)

// Plain are the causes that a value shows by itself, before anything is computed with a mistake: nothing was written,
// or each element is the neighbour of the reference on one side. rest are the failures that have none.
func (c *Search) Plain(fails []Wrong) (causes []Cause, rest []Wrong) {
	for _, r := range fails {
		text := ""
		if got, want, ok := r.Pair(); ok && got.Numel() <= largestOperand {
			_ = c.Guard(func() error { // what cannot be read shows nothing
				if text = unwritten(got, want); text == "" {
					text = directed(got, want)
				}
				return nil
			})
		}
		if text == "" {
			rest = append(rest, r)
			continue
		}
		causes = append(causes, Cause{Text: text, Targets: []string{r.Target}, Exact: true, Share: 1})
	}
	return causes, rest
}

// unwritten says of a value all of whose elements are zero that nothing was written, if most are due to be others.
func unwritten(got, want *tensor.Tensor) string {
	if got.DType.IsComplex() || want.DType.IsComplex() || got.Numel() < 2 || got.Numel() != want.Numel() {
		return ""
	}
	due := 0
	for i, x := range elements(got) {
		if x != 0 {
			return ""
		}
		if tensor.At[float64](want, i) != 0 {
			due++
		}
	}
	if 2*due < got.Numel() {
		return ""
	}
	return fmt.Sprintf("nothing was written: all %d elements are zero", got.Numel())
}

// directed says how a value is rounded each of whose elements is a neighbour of the exact one, always on the same side.
func directed(got, want *tensor.Tensor) string {
	dt := got.DType
	if !dt.IsFloat() || !want.DType.IsFloat() || got.Numel() != want.Numel() {
		return ""
	}
	sides := []struct {
		text string
		on   func(x, exact float64) bool
	}{
		{"toward zero", func(x, exact float64) bool { return math.Abs(x) <= math.Abs(exact) }},
		{"away from zero", func(x, exact float64) bool { return math.Abs(x) >= math.Abs(exact) }},
		{"down", func(x, exact float64) bool { return x <= exact }},
		{"up", func(x, exact float64) bool { return x >= exact }},
	}
	exact, off := elements(want), 0
	for i, x := range elements(got) {
		w := dt.Round(exact[i])
		if x == w || x != x && w != w {
			if w == exact[i] || x != x || math.IsInf(x, 0) {
				continue
			}
		} else if m := dt.Round((x + w) / 2); m != x && m != w || x*w < 0 || math.IsInf(x-w, 0) { // no neighbours
			return ""
		} else {
			off++
		}
		left := sides[:0]
		for _, s := range sides {
			if s.on(x, exact[i]) {
				left = append(left, s)
			}
		}
		if sides = left; len(sides) == 0 {
			return ""
		}
	}
	if off < leastInNarrow {
		return ""
	}
	return "results are rounded " + sides[0].text
}
