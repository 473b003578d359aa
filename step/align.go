package step

import (
	"slices"
	"strings"
)

// An alignment pairs the calls of two runs.
type alignment struct {
	pairs    [][2]*Call // in order of both
	missing  []*Call    // only in the first run
	inserted []*Call    // only in the second
}

// align pairs the calls of two sequences so that the pairs' likeness is largest,
// without crossings. Numbers of calls say nothing: one more call shifts them all.
func align(a, b []*Call) alignment {
	var out alignment
	for len(a) > 0 && len(b) > 0 && likeness(a[0], b[0]) >= sure {
		out.pairs = append(out.pairs, [2]*Call{a[0], b[0]})
		a, b = a[1:], b[1:]
	}
	var tail [][2]*Call
	for len(a) > 0 && len(b) > 0 && likeness(a[len(a)-1], b[len(b)-1]) >= sure {
		tail = append(tail, [2]*Call{a[len(a)-1], b[len(b)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	from := [2]int{}
	for _, at := range append(anchors(a, b), [2]int{len(a), len(b)}) {
		out.fill(a[from[0]:at[0]], b[from[1]:at[1]])
		if at[0] < len(a) {
			out.pairs = append(out.pairs, [2]*Call{a[at[0]], b[at[1]]})
		}
		from = [2]int{at[0] + 1, at[1] + 1}
	}
	slices.Reverse(tail)
	out.pairs = append(out.pairs, tail...)
	return out
}

// sure is the likeness from which two calls at the same end of both runs are a pair.
const sure = 5

// likeness is how much speaks for two calls being the same one in two runs, 0 if
// they cannot be: operator, shapes, and elements.
func likeness(a, b *Call) int {
	if operator(a) != operator(b) {
		return 0
	}
	n := 1
	if slices.EqualFunc(a.Outputs, b.Outputs, func(x, y *Value) bool { return sameShape(x.Shape, y.Shape) }) {
		n++
		if slices.EqualFunc(a.Inputs, b.Inputs, func(x, y *Value) bool { return sameShape(x.Shape, y.Shape) }) {
			n++
		}
		if len(a.Outputs) > 0 && slices.EqualFunc(a.Outputs, b.Outputs, (*Value).equals) {
			n += 3
		}
	}
	return n
}

// operator is the name of a call's operator, the same for a function, the method
// and the form that writes in place.
func operator(c *Call) string {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	if !strings.HasPrefix(name, "__") {
		name = strings.TrimSuffix(name, "_")
	}
	return name
}

// anchors are the pairs of calls whose result only one call has in each run, as far
// as they do not cross.
func anchors(a, b []*Call) [][2]int {
	index := func(calls []*Call) map[contentKey]int {
		at := map[contentKey]int{}
		for i, c := range calls {
			if len(c.Outputs) == 0 || c.Outputs[0].content.plain {
				continue
			}
			k := c.Outputs[0].key()
			if _, twice := at[k]; twice {
				at[k] = -1
				continue
			}
			at[k] = i
		}
		return at
	}
	inB := index(b)
	var all [][2]int
	for k, i := range index(a) {
		if j, ok := inB[k]; ok && i >= 0 && j >= 0 && likeness(a[i], b[j]) >= sure {
			all = append(all, [2]int{i, j})
		}
	}
	slices.SortFunc(all, func(x, y [2]int) int { return x[0] - y[0] })
	return increasing(all)
}

// increasing is the longest part of pairs, which are in order of their first number,
// that is in order of the second.
func increasing(pairs [][2]int) [][2]int {
	var ends []int // index of the smallest end of a part of each length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(ends, p[1], func(e, j int) int { return pairs[e][1] - j })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	var out [][2]int
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = before[i] {
			out = append(out, pairs[i])
		}
	}
	slices.Reverse(out)
	return out
}

// largestTable bounds the table of fill, in bytes.
const largestTable = 1 << 28

// fill aligns what lies between two anchors: the largest sum of likenesses
// (Needleman and Wunsch, without a price of gaps).
func (out *alignment) fill(a, b []*Call) {
	if len(a) == 0 || len(b) == 0 || len(a)*len(b) > largestTable {
		out.missing, out.inserted = append(out.missing, a...), append(out.inserted, b...)
		return
	}
	const (
		skipA = iota
		skipB
		both
	)
	way := make([]uint8, len(a)*len(b)) // of the best alignment of what is left from (i, j) on
	next, row := make([]int32, len(b)+1), make([]int32, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		row[len(b)] = 0
		for j := len(b) - 1; j >= 0; j-- {
			best, dir := next[j], uint8(skipA)
			if row[j+1] > best {
				best, dir = row[j+1], skipB
			}
			if n := likeness(a[i], b[j]); n > 0 && next[j+1]+int32(n) >= best {
				best, dir = next[j+1]+int32(n), both
			}
			row[j], way[i*len(b)+j] = best, dir
		}
		next, row = row, next
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch way[i*len(b)+j] {
		case skipA:
			out.missing = append(out.missing, a[i])
			i++
		case skipB:
			out.inserted = append(out.inserted, b[j])
			j++
		default:
			out.pairs = append(out.pairs, [2]*Call{a[i], b[j]})
			i, j = i+1, j+1
		}
	}
	out.missing, out.inserted = append(out.missing, a[i:]...), append(out.inserted, b[j:]...)
}
