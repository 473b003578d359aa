package ops

import "slices"

// fewRanked is the number of elements from which radix sort is the faster one.
const fewRanked = 1 << 9

// sortRanked puts v in the order of keys, elements of equal keys in the order
// in which they are: v must come in the order of places. The result may lie in
// v or elsewhere.
func sortRanked(v []ranked) []ranked {
	if len(v) < fewRanked {
		slices.SortFunc(v, compareRanked)
		return v
	}
	// Radix sort from the lowest byte up; bytes that all keys share are left out,
	// such as the low ones of float32 values.
	var counts [8][256]int
	for _, x := range v {
		for d := range counts {
			counts[d][uint8(x.key>>(8*d))]++
		}
	}
	to := make([]ranked, len(v))
	for d := range counts {
		next, shift := &counts[d], 8*d
		if next[uint8(v[0].key>>shift)] == len(v) {
			continue
		}
		at := 0
		for i, n := range next {
			next[i] = at
			at += n
		}
		for _, x := range v {
			p := &next[uint8(x.key>>shift)]
			to[*p] = x
			*p++
		}
		v, to = to, v
	}
	return v
}
