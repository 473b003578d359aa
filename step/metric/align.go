package metric

import (
	"cmp"
	"slices"
)

// A match is a run of equal tokens in a sequence of each side.
type match struct{ a, b, i, j, n int } // rows, places in them, and length

// alignTokens pairs the tokens of two sides: each is part of the longest run of equal tokens that it can be in.
// Padding at the ends of rows is left out, and so are masked tokens.
func alignTokens(a, b [][]Score) [][2]*Score {
	pad := padding(a, b)
	trimA, trimB := trimmed(a, pad), trimmed(b, pad)
	var all []match
	for x, s := range trimA {
		for y, t := range trimB {
			all = append(all, commonRuns(x, y, s, t)...)
		}
	}
	slices.SortStableFunc(all, func(m, n match) int { return cmp.Compare(n.n, m.n) })
	usedA, usedB := map[[2]int]bool{}, map[[2]int]bool{}
	type placed struct {
		at   [2]int
		pair [2]*Score
	}
	var out []placed
	for _, m := range all {
		for k := range m.n {
			at, to := [2]int{m.a, m.i + k}, [2]int{m.b, m.j + k}
			pair := [2]*Score{&trimA[m.a][m.i+k], &trimB[m.b][m.j+k]}
			if usedA[at] || usedB[to] || pair[0].masked() || pair[1].masked() {
				continue
			}
			usedA[at], usedB[to] = true, true
			out = append(out, placed{at, pair})
		}
	}
	slices.SortFunc(out, func(x, y placed) int { return cmp.Or(x.at[0]-y.at[0], x.at[1]-y.at[1]) })
	pairs := make([][2]*Score, len(out))
	for i, p := range out {
		pairs[i] = p.pair
	}
	return pairs
}

// commonRuns are the runs of equal tokens of two rows that are long enough not to be chance.
func commonRuns(x, y int, s, t []Score) []match {
	least := min(8, max(1, (min(len(s), len(t))+1)/2))
	var out []match
	length := make([]int, len(t)+1) // of the run that ends before token j of t
	for i := range s {
		before := 0
		for j := range t {
			now := 0
			if s[i].ID == t[j].ID {
				now = before + 1
			}
			before, length[j+1] = length[j+1], now
			ends := i+1 == len(s) || j+1 == len(t) || s[i+1].ID != t[j+1].ID
			if now >= least && ends {
				out = append(out, match{x, y, i + 1 - now, j + 1 - now, now})
			}
		}
	}
	return out
}

// padding is the token that rows of a batch begin or end with more than once, the most often in all; none if there is
// no such token.
func padding(sides ...[][]Score) int64 {
	count := map[int64]int{}
	for _, rows := range sides {
		if len(rows) < 2 {
			continue
		}
		for _, r := range rows {
			n := len(r)
			if n <= 2 {
				continue
			}
			begin, end := r[0].token(), r[n-1].token()
			first, _ := unpadded(n, func(k int) bool { return r[k].token() == begin })
			_, last := unpadded(n, func(k int) bool { return r[k].token() == end })
			if r[0].reads > 0 && r[0].before == begin {
				first++ // the token that no position tells
			}
			if first > 1 {
				count[begin] += first
			}
			if n-last > 1 {
				count[end] += n - last
			}
		}
	}
	best, most := int64(none), 0
	for id, n := range count {
		if n > most || n == most && id < best {
			best, most = id, n
		}
	}
	return best
}

// trimmed are the rows of a batch without padding, and without the token that only padding tells.
func trimmed(rows [][]Score, pad int64) [][]Score {
	if len(rows) < 2 || pad == none {
		return rows
	}
	out := make([][]Score, len(rows))
	for i, r := range rows {
		first, last := unpadded(len(r), func(k int) bool { return r[k].token() == pad })
		if first < last && (first > 0 || r[0].reads > 0 && r[0].before == pad) {
			first++ // it is told by the last padding
		}
		out[i] = r[first:last]
	}
	return out
}

// unpadded are the places of n where what is no padding begins and ends.
func unpadded(n int, pad func(k int) bool) (first, last int) {
	for last = n; last > 0 && pad(last-1); {
		last--
	}
	for first < last && pad(first) {
		first++
	}
	return first, last
}

// onlyPadding reports whether places of rows without a finite value are padding: at their begin or end, each reads the
// same token. length is that of a row; at tells what a place reads, and whether it has no finite value.
func onlyPadding(rows int, length func(r int) int, at func(r, k int) (id int64, unknown bool)) bool {
	pad, differs := int64(none), false // differs: not each row has one such place, as a mistake may make it
	for r := range rows {
		n := length(r)
		first, last := unpadded(n, func(k int) bool { _, unknown := at(r, k); return unknown })
		if n > 0 && first == last {
			return false
		}
		differs = differs || first+n-last != 1
		for k := range n {
			id, unknown := at(r, k)
			if !unknown {
				continue
			}
			if k >= first && k < last || pad != none && id != pad {
				return false
			}
			pad = id
		}
	}
	return pad != none && differs
}
