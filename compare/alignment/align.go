// Package alignment pairs the items of two sequences that differ in places. An example is the calls of two
// recordings, if one recording has an additional call.
package alignment

import "slices"

// An Alignment pairs the items of two sequences, given by their places.
type Alignment struct {
	Pairs    [][2]int // in order of both
	Missing  []int    // only in the first sequence
	Inserted []int    // only in the second
}

// A Likeness is a score of two items, one of each sequence: the higher it is, the more likely they
// belong together. 0 means that they cannot.
type Likeness func(i, j int) int

// Sequences pairs the items of two sequences of n and m items. No pairs cross, and the sum of their
// likenesses is as large as possible. Items at the same end of both sequences become a pair if their
// likeness is at least sure. Anchors are pairs that the caller knows; the largest set of them that does
// not cross is kept.
func Sequences(n, m int, likeness Likeness, sure int, anchors [][2]int) Alignment {
	var out Alignment
	a, b := 0, 0
	for a < n && b < m && likeness(a, b) >= sure {
		out.Pairs = append(out.Pairs, [2]int{a, b})
		a, b = a+1, b+1
	}
	var tail [][2]int
	for a < n && b < m && likeness(n-1, m-1) >= sure {
		n, m = n-1, m-1
		tail = append(tail, [2]int{n, m})
	}
	anchors = slices.DeleteFunc(slices.Clone(anchors), func(p [2]int) bool {
		return p[0] < a || p[0] >= n || p[1] < b || p[1] >= m
	})
	slices.SortFunc(anchors, func(x, y [2]int) int { return x[0] - y[0] })
	for _, at := range append(Increasing(anchors), [2]int{n, m}) {
		out.fill(a, at[0], b, at[1], likeness)
		if at[0] < n {
			out.Pairs = append(out.Pairs, at)
		}
		a, b = at[0]+1, at[1]+1
	}
	slices.Reverse(tail)
	out.Pairs = append(out.Pairs, tail...)
	return out
}

// Increasing returns the longest subsequence of pairs whose second numbers increase. The pairs are
// sorted by their first number.
func Increasing(pairs [][2]int) [][2]int {
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

// Settle moves pairs into the gaps beside them. Sequences takes the first of several items that have the
// same likeness. If the two items of a pair are not alike, Settle replaces one of them by the nearest unpaired
// item that is alike. So w, w, b, b and w, b make the pairs w, w and b, b.
func (al *Alignment) Settle(alike func(i, j int) bool) {
	if len(al.Missing) == 0 && len(al.Inserted) == 0 {
		return
	}
	al.Inserted = al.settle(1, al.Inserted, alike)
	al.Missing = al.settle(0, al.Missing, alike)
}

// settle moves pairs to unpaired items of one sequence and returns the items that are unpaired then.
func (al *Alignment) settle(side int, unpaired []int, alike func(i, j int) bool) []int {
	free := map[int]bool{}
	for _, at := range unpaired {
		free[at] = true
	}
	move := func(p *[2]int, step int) {
		q := *p
		if q[side] += step; !free[q[side]] || alike(p[0], p[1]) {
			return
		}
		for ; free[q[side]]; q[side] += step {
			if alike(q[0], q[1]) {
				free[p[side]], free[q[side]] = true, false
				*p = q
				return
			}
		}
	}
	for n := range al.Pairs {
		move(&al.Pairs[len(al.Pairs)-1-n], 1)
	}
	for n := range al.Pairs {
		move(&al.Pairs[n], -1)
	}
	unpaired = unpaired[:0]
	for at, is := range free {
		if is {
			unpaired = append(unpaired, at)
		}
	}
	slices.Sort(unpaired)
	return unpaired
}

// largestTable bounds the table of fill, in bytes.
const largestTable = 1 << 28

// fill aligns the items [a, n) and [b, m), which lie between two anchors, with the algorithm of
// Needleman and Wunsch. Gaps cost nothing.
func (out *Alignment) fill(a, n, b, m int, likeness Likeness) {
	if (n-a)*(m-b) == 0 || (n-a)*(m-b) > largestTable {
		out.unpair(a, n, b, m)
		return
	}
	const (
		skipA = iota
		skipB
		both
	)
	width := m - b
	way := make([]uint8, (n-a)*width) // the first move of the best alignment of [i, n) and [j, m)
	next, row := make([]int32, width+1), make([]int32, width+1)
	for i := n - 1; i >= a; i-- {
		row[width] = 0
		for j := m - 1; j >= b; j-- {
			best, dir := next[j-b], uint8(skipA)
			if row[j-b+1] > best {
				best, dir = row[j-b+1], skipB
			}
			if l := likeness(i, j); l > 0 && next[j-b+1]+int32(l) >= best {
				best, dir = next[j-b+1]+int32(l), both
			}
			row[j-b], way[(i-a)*width+j-b] = best, dir
		}
		next, row = row, next
	}
	i, j := a, b
	for i < n && j < m {
		switch way[(i-a)*width+j-b] {
		case skipA:
			out.Missing = append(out.Missing, i)
			i++
		case skipB:
			out.Inserted = append(out.Inserted, j)
			j++
		default:
			out.Pairs = append(out.Pairs, [2]int{i, j})
			i, j = i+1, j+1
		}
	}
	out.unpair(i, n, j, m)
}

// unpair adds items that have no partner.
func (out *Alignment) unpair(a, n, b, m int) {
	for ; a < n; a++ {
		out.Missing = append(out.Missing, a)
	}
	for ; b < m; b++ {
		out.Inserted = append(out.Inserted, b)
	}
}
