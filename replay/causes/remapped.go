package causes

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// remapped are a tensor's elements of which some indices of a dimension are read at others: a last tile that is not
// whole at the tile before it, a table that begins anew, an end that is read again, groups in another order.
func remapped(t *tensor.Tensor) (all []transformation) {
	for d, n := range t.Shape {
		if n < 3 || n > mostRemapped {
			continue
		}
		for _, p := range distinct(n, indexMaps(n), permutations, factored(n)) {
			all = append(all, transformation{text: fmt.Sprintf("%%s is %s, along dimension %d", p.text, d),
				of: func(t *tensor.Tensor) *tensor.Tensor { return reordered(t, d, p.of) }})
		}
	}
	return all
}

// mostRemapped is the length up to which the indices of a dimension are read at others.
const mostRemapped = 1 << 16

// rolled are a tensor's elements read any number of indices back along a dimension, around its end. They are tried
// where the errors are.
func rolled(t *tensor.Tensor) (all []transformation) {
	for d, n := range t.Shape {
		if n > mostRolled {
			continue
		}
		for by := 2; by < n-1; by++ {
			text := fmt.Sprintf("%%s is read %d back along dimension %d, around its end", by, d)
			all = append(all, transformation{text: text,
				of: func(t *tensor.Tensor) *tensor.Tensor {
					return reordered(t, d, func(i, n int) int { return (i + n - by) % n })
				}})
		}
	}
	return all
}

// mostRolled is the length up to which a dimension is read any number of indices back.
const mostRolled = 64

// indexMaps are the orders in which n indices are read where only some are read elsewhere.
func indexMaps(n int) (all []permutation) {
	add := func(of func(i, n int) int, format string, args ...any) {
		all = append(all, permutation{fmt.Sprintf(format, args...), of})
	}
	add(func(i, n int) int { return min(i, n-2) }, "read at %d in place of %d", n-2, n-1)
	add(func(i, _ int) int { return max(i, 1) }, "read at 1 in place of 0")
	for size := 2; size < n; size *= 2 {
		if tail := n / size * size; tail < n {
			add(func(i, _ int) int {
				if i >= tail {
					return i - size
				}
				return i
			}, "read %d back from index %d on", size, tail)
		}
		add(func(i, _ int) int { return i % size }, "read from the beginning again from index %d on, each %d indices",
			size, size)
		add(func(i, _ int) int { return min(i, size-1) }, "read at %d from index %d on", size-1, size-1)
		for from := size; size > 2 && from < n && from < 4*size; from += size {
			if from != size && from&(from-1) == 0 {
				continue
			}
			add(func(i, n int) int { return min(i+btoi(i >= from), n-1) }, "read one further from index %d on", from)
			add(func(i, _ int) int { return i - btoi(i >= from) }, "read one back from index %d on", from)
		}
		if size == 2 {
			continue
		}
		within := func(of func(k int) int) func(i, n int) int {
			return func(i, n int) int {
				if i/size*size+size > n {
					return i // in a group that is not whole
				}
				return i/size*size + of(i%size)
			}
		}
		half := size / 2
		if size == 4 {
			add(within(func(k int) int { return []int{0, 2, 1, 3}[k] }), "read with the middle two of each 4 exchanged")
		} else {
			add(within(func(k int) int { return k%2*half + k/2 }), "read in two interleaved halves of each %d", size)
			add(within(func(k int) int { return k%half*2 + k/half }), "read with even and odd indices of each %d apart",
				size)
		}
		add(within(func(k int) int { return size - 1 - k }), "read backwards within each %d", size)
		add(within(func(k int) int { return (k + 1) % size }), "read one further within each %d, around its end", size)
		add(within(func(k int) int { return (k + size - 1) % size }), "read one back within each %d, around its end",
			size)
		add(func(i, n int) int {
			if whole := n / size * size; i < whole {
				return whole - size - i/size*size + i%size
			}
			return i
		}, "read with the groups of %d from the end", size)
	}
	for _, parts := range []int{3, 4} { // of packed operands: queries, keys and values, or gates
		if n%parts != 0 || n == parts {
			continue
		}
		size := n / parts
		for i := range parts {
			for j := range parts {
				if j == i {
					continue
				}
				add(func(k, _ int) int { return k + btoi(k/size == i)*(j-i)*size },
					"read with part %d of %d in place of part %d", j, parts, i)
				if j > i {
					add(func(k, _ int) int { return k + (btoi(k/size == i)-btoi(k/size == j))*(j-i)*size },
						"read with parts %d and %d of %d exchanged", i, j, parts)
				}
			}
		}
	}
	return all
}

// distinct are the orders in which n indices are read that are no order of others before, nor that in which they are.
func distinct(n int, maps []permutation, others ...[]permutation) (out []permutation) {
	seen := map[uint64]bool{}
	isNew := func(p permutation) bool {
		h, moved := uint64(14695981039346656037), false // FNV
		for i := range n {
			j := p.of(i, n)
			h, moved = (h^uint64(j))*1099511628211, moved || j != i
		}
		was := seen[h]
		seen[h] = true
		return moved && !was
	}
	if n <= mostPermuted {
		for _, ps := range others {
			for _, p := range ps {
				isNew(p)
			}
		}
	}
	for _, p := range maps {
		if isNew(p) {
			out = append(out, p)
		}
	}
	return out
}

// wholeFrom are the whole numbers of an index that are wrong from some number on: of a second tile of a table.
func wholeFrom(t *tensor.Tensor) (all []transformation) {
	v := tensor.Make[int64](t.Numel())
	tensor.Load(t, 0, v)
	for from := int64(4); from <= min(slices.Max(v), math.MaxInt32); from *= 2 {
		all = append(all,
			ofWhole(fmt.Sprintf("elements of %%s from %d on are one too high", from), func(_ int, x int64) int64 {
				return x + int64(btoi(x >= from))
			}),
			ofWhole(fmt.Sprintf("elements of %%s from %d on are one too low", from), func(_ int, x int64) int64 {
				return x - int64(btoi(x >= from))
			}),
			ofWhole(fmt.Sprintf("elements of %%s from %d on are taken for %d", from, from-1),
				func(_ int, x int64) int64 { return min(x, from-1) }),
			ofWhole(fmt.Sprintf("elements of %%s from %d on are taken for 0", from), func(_ int, x int64) int64 {
				return x * int64(btoi(x < from))
			}))
	}
	return all
}
