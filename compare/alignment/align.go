// Package alignment pairs the items of two sequences that differ in places, such as the calls of two
// recordings of which one has a call more.
package alignment

import "slices"

// An Alignment pairs the items of two sequences, given by their places.
type Alignment struct {
	Pairs    [][2]int // in order of both
	Missing  []int    // only in the first sequence
	Inserted []int    // only in the second
}

// A Likeness says how much speaks for two items of two sequences being the same
// one, 0 if they cannot be.
type Likeness func(i, j int) int

// Sequences pairs the items of two sequences of n and m items so that the pairs'
// likeness is largest, without crossings. Items at the same end of both are a pair
// if they are sure alike, and so are anchors: pairs that are known, of which as many
// are kept as do not cross.
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

// Increasing is the longest part of pairs, which are in order of their first number,
// that is in order of the second.
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

// largestTable bounds the table of fill, in bytes.
const largestTable = 1 << 28

// fill aligns the items [a, n) and [b, m), which lie between two anchors: the largest
// sum of likenesses (Needleman and Wunsch, without a price of gaps).
func (out *Alignment) fill(a, n, b, m int, likeness Likeness) {
	if (n-a)*(m-b) == 0 || (n-a)*(m-b) > largestTable {
		out.alone(a, n, b, m)
		return
	}
	const (
		skipA = iota
		skipB
		both
	)
	width := m - b
	way := make([]uint8, (n-a)*width) // of the best alignment of what is left from (i, j) on
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
	out.alone(i, n, j, m)
}

// alone adds items that have no partner.
func (out *Alignment) alone(a, n, b, m int) {
	for ; a < n; a++ {
		out.Missing = append(out.Missing, a)
	}
	for ; b < m; b++ {
		out.Inserted = append(out.Inserted, b)
	}
}
