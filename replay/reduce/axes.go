package reduce

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// number names a positional argument.
func number(i int) string { return strconv.Itoa(i) }

// mostTried bounds how many sets of places of one size are tried.
const mostTried = 600

// places are those of the arguments that may be part of an axis, by their size.
func (m *maker) places() map[int][]place {
	bySize := map[int][]place{}
	seen, ints := map[*tensor.Tensor]bool{}, 0
	var walk func(v value.Value)
	walk = func(v value.Value) {
		switch v := v.(type) {
		case *tensor.Tensor:
			if seen[v] {
				return
			}
			seen[v] = true
			for d, n := range v.Shape {
				if n > 1 {
					bySize[n] = append(bySize[n], place{v, d})
				}
			}
		case int64:
			if v > 1 && v < tensor.MaxElements {
				bySize[int(v)] = append(bySize[int(v)], place{dim: ints})
			}
			ints++
		case *value.Sequence:
			for _, it := range v.Items {
				walk(it)
			}
		}
	}
	for _, v := range m.rec.Args {
		walk(v)
	}
	for _, it := range m.rec.Kwargs.Items {
		walk(it.Value)
	}
	for n, ps := range bySize { // integers alone have nothing to be the size of
		if !slices.ContainsFunc(ps, func(p place) bool { return p.tensor != nil }) {
			delete(bySize, n)
		}
	}
	return bySize
}

// find finds the axes, the largest first: of the places of one size the smallest sets
// with which a call that is one larger, or twice as large, is accepted.
func (m *maker) find(accepted func(*maker, candidate) bool) {
	bySize := m.places()
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(bySize))) {
		left, tried := bySize[n], 0
		for k := 1; k <= len(left); k++ {
			for set := range subsets(left, k) {
				if tried++; tried > mostTried {
					return
				}
				used := slices.ContainsFunc(set, func(p place) bool { return !slices.Contains(left, p) })
				if used || !slices.ContainsFunc(set, func(p place) bool { return p.tensor != nil }) {
					continue
				}
				for _, larger := range []int{n + 1, 2 * n} {
					with := &maker{rec: m.rec, axes: append(slices.Clone(m.axes), axis{n, set, larger})}
					if accepted(with, with.whole().with(len(m.axes), span{0, larger})) {
						m.axes = with.axes
						left = slices.DeleteFunc(slices.Clone(left), func(p place) bool {
							return slices.Contains(set, p)
						})
						break
					}
				}
			}
		}
	}
}

// follow finds out which axes the dimensions of results follow: those that change when the
// axis is larger. shapes are those of a candidate's results.
func (m *maker) follow(shapes func(candidate) [][]int) {
	before := shapes(m.whole())
	m.results = make([][]int, len(before))
	for i, shape := range before {
		m.results[i] = slices.Repeat([]int{-1}, len(shape))
	}
	for k, a := range m.axes {
		for i, shape := range shapes(m.whole().with(k, span{0, a.larger})) {
			for d, n := range shape {
				if i < len(before) && len(shape) == len(before[i]) && n != before[i][d] && m.results[i][d] < 0 {
					m.results[i][d] = k
				}
			}
		}
	}
}

// subsets yields the sets of k of the places, in order.
func subsets(of []place, k int) iter.Seq[[]place] {
	return func(yield func([]place) bool) {
		at := make([]int, k)
		for i := range at {
			at[i] = i
		}
		for {
			set := make([]place, k)
			for i, j := range at {
				set[i] = of[j]
			}
			if !yield(set) {
				return
			}
			i := k - 1
			for i >= 0 && at[i] == len(of)-k+i {
				i--
			}
			if i < 0 {
				return
			}
			for at[i]++; i < k-1; i++ {
				at[i+1] = at[i] + 1
			}
		}
	}
}
