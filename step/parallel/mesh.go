package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// A mesh arranges the ranks of one program part as a grid: each dimension splits them into groups of one size.
type mesh struct {
	ranks []int // ascending
	dims  []dimension
	loose bool // replicated values can differ: something before them is wrong
}

// A dimension is the groups of ranks that differ only in this coordinate.
type dimension struct {
	groups [][]int
	size   int
}

// of is the group of a rank.
func (d *dimension) of(rank int) []int {
	for _, g := range d.groups {
		if slices.Contains(g, rank) {
			return g
		}
	}
	return []int{rank}
}

// has reports whether a group is one of the dimension.
func (d *dimension) has(group []int) bool {
	return slices.ContainsFunc(d.groups, func(g []int) bool { return slices.Equal(g, group) })
}

// newMesh finds the dimensions from the groups over which the ranks communicated. Where these make no grid,
// all ranks are one group.
func newMesh(ranks []int, groups [][]int) *mesh {
	m := &mesh{ranks: ranks}
	if len(ranks) == 1 {
		return m
	}
	if m.dims = gridOf(ranks, groups); product(m.dims) != len(ranks) {
		m.dims = []dimension{{[][]int{ranks}, len(ranks)}}
	}
	return m
}

// gridOf finds the dimensions; the product of their sizes is another than the number of ranks where they make no grid.
func gridOf(ranks []int, groups [][]int) []dimension {
	var dims []dimension
	for _, g := range groups {
		if len(g) < 2 || slices.ContainsFunc(g, func(r int) bool { return !slices.Contains(ranks, r) }) {
			continue
		}
		if slices.ContainsFunc(dims, func(d dimension) bool { return d.has(g) }) {
			continue
		}
		place := slices.IndexFunc(dims, func(d dimension) bool {
			return d.size == len(g) && !slices.ContainsFunc(d.groups, func(h []int) bool { return overlap(g, h) })
		})
		if place < 0 {
			dims = append(dims, dimension{size: len(g)})
			place = len(dims) - 1
		}
		dims[place].groups = append(dims[place].groups, g)
	}
	dims = slices.DeleteFunc(dims, func(d dimension) bool { return d.size*len(d.groups) != len(ranks) })
	if product(dims) != len(ranks) {
		dims = slices.DeleteFunc(dims, func(d dimension) bool { return d.size == len(ranks) })
	}
	if n := product(dims); n > 1 && n < len(ranks) && len(ranks)%n == 0 {
		rest := restOf(ranks, dims, len(ranks)/n)
		if !slices.ContainsFunc(rest.groups, func(g []int) bool { return len(g) != rest.size }) {
			dims = append(dims, rest)
		}
	}
	return dims
}

// restOf is a dimension along which nothing was exchanged: its groups are the ranks at the same place in all others.
func restOf(ranks []int, dims []dimension, size int) dimension {
	rest := dimension{size: size}
	number := map[string]int{} // of the group, by place
	for _, r := range ranks {
		var place []int
		for _, d := range dims {
			place = append(place, slices.Index(d.of(r), r))
		}
		k, known := number[fmt.Sprint(place)]
		if !known {
			k = len(rest.groups)
			number[fmt.Sprint(place)] = k
			rest.groups = append(rest.groups, nil)
		}
		rest.groups[k] = append(rest.groups[k], r)
	}
	return rest
}

func product(dims []dimension) int {
	n := 1
	for _, d := range dims {
		n *= d.size
	}
	return n
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(r int) bool { return slices.Contains(b, r) })
}

// String lists the dimensions and their groups: "2 x 2: 0-1 2-3 | 0,2 1,3".
func (m *mesh) String() string {
	var sizes, groups []string
	for _, d := range m.dims {
		sizes = append(sizes, fmt.Sprint(d.size))
		var gs []string
		for _, g := range d.groups {
			gs = append(gs, rankList(g))
		}
		if len(gs) > 8 {
			gs = append(gs[:2:2], "...", gs[len(gs)-1])
		}
		groups = append(groups, strings.Join(gs, " "))
	}
	return strings.Join(sizes, " x ") + " (ranks " + strings.Join(groups, " | ") + ")"
}

// rankList writes ranks as people do: "0-3", "0,2", many as "0,2,...,126".
func rankList(ranks []int) string {
	if n := len(ranks); n > 16 && ranks[n-1]-ranks[0] != n-1 {
		return fmt.Sprintf("%d,%d,...,%d", ranks[0], ranks[1], ranks[n-1])
	}
	if n := len(ranks); n > 1 && ranks[n-1]-ranks[0] == n-1 && slices.IsSorted(ranks) {
		return fmt.Sprintf("%d-%d", ranks[0], ranks[n-1])
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ",")
}

func ranksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return "ranks " + rankList(ranks)
}

// groupsOf are the distinct groups that calls name, in order.
func groupsOf(ps []*step.Process) [][]int {
	var out [][]int
	for _, p := range ps {
		for _, c := range p.Calls {
			g := slices.Sorted(slices.Values(c.Entry.Group))
			if len(g) > 1 && !slices.ContainsFunc(out, func(h []int) bool { return slices.Equal(g, h) }) {
				out = append(out, g)
			}
		}
	}
	return out
}
