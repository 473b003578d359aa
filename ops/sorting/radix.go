package sorting

import (
	"slices"
	"sync"
)

// fewRanked is the number of elements from which radix sort is the faster one,
// manyRanked that from which halves are sorted at the same time.
const (
	fewRanked  = 1 << 9
	manyRanked = 1 << 16
)

// sortRanked puts v in the order of keys, elements of equal keys in the order
// in which they are: v must come in the order of places. The result may lie in
// v or elsewhere.
func sortRanked(v []ranked) []ranked {
	if len(v) < fewRanked {
		slices.SortFunc(v, compareRanked)
		return v
	}
	if len(v) >= manyRanked {
		return mergeSort(v)
	}
	return radixSort(v)
}

// mergeSort sorts the halves of v, then merges the lower half of the result
// forwards and the upper one backwards.
func mergeSort(v []ranked) []ranked {
	half := len(v) / 2
	a, b, to := v[:half], v[half:], make([]ranked, len(v))
	var wg sync.WaitGroup
	wg.Go(func() { a = radixSort(a) })
	b = radixSort(b)
	wg.Wait()
	wg.Go(func() {
		i, j := 0, 0
		for n := range to[:half] {
			if j == len(b) || i < len(a) && a[i].key <= b[j].key {
				to[n], i = a[i], i+1
			} else {
				to[n], j = b[j], j+1
			}
		}
	})
	i, j := len(a), len(b)
	for n := len(to) - 1; n >= half; n-- {
		if i == 0 || j > 0 && a[i-1].key <= b[j-1].key {
			j--
			to[n] = b[j]
		} else {
			i--
			to[n] = a[i]
		}
	}
	wg.Wait()
	return to
}

// radixSort goes from the lowest byte up; bytes that all keys share are left
// out, such as the low ones of float32 values.
func radixSort(v []ranked) []ranked {
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
