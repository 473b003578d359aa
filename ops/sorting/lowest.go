package sorting

import (
	"cmp"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// A ranked element is its key and its place in the row.
type ranked struct {
	key   uint64
	index int
}

func compareRanked(a, b ranked) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.index, b.index)
}

// A selector finds the lowest elements, descending: the highest, of rows of n elements; equal ones in order of place.
// It belongs to one goroutine.
type selector struct {
	keys       orderKeys
	dtype      tensor.DType
	n          int
	descending bool
	flip       uint64 // makes keys whose lowest ones are wanted of keys
	row        []uint64
	values     []float64
	heap       heap
	words      [2][]uint64
}

func newSelector(dt tensor.DType, n int, descending bool) *selector {
	s := &selector{keys: orderKeys{dt.Kind(), dt == tensor.Uint64}, dtype: dt, n: n, descending: descending}
	if descending {
		s.flip = math.MaxUint64
	}
	return s
}

// load gives the keys of the row at lo of t, until it is called again.
func (s *selector) load(t *tensor.Tensor, lo int) []uint64 {
	if s.row == nil {
		s.row = tensor.Make[uint64](s.n)
	}
	s.keys.load(lo, s.row, t)
	return s.row
}

// few reports whether the k lowest elements are so few that most of a row is passed over.
func (s *selector) few(k int) bool { return s.dtype.IsFloat() && k > 0 && k <= s.n/heapPart }

// heapPart is the part of a row up to which a heap of the lowest elements is faster than sorting.
const heapPart = 8

// fewest stores the places of the len(dst) lowest elements of the row at lo of t. Values alone say of most that they
// are not among them.
func (s *selector) fewest(dst []int64, t *tensor.Tensor, lo int) {
	if s.values == nil {
		s.values = tensor.Make[float64](s.n)
	}
	tensor.Load(t, lo, s.values)
	k := len(dst)
	s.heap = s.heap[:0]
	for i, x := range s.values[:k] {
		s.heap.offer(ranked{floatKey(x) ^ s.flip, i}, k)
	}
	limit := s.values[s.heap[0].index]
	for i, x := range s.values[k:] {
		if s.descending && x <= limit || !s.descending && x >= limit {
			continue
		}
		s.heap.offer(ranked{floatKey(x) ^ s.flip, k + i}, k) // of NaN the key decides
		limit = s.values[s.heap[0].index]
	}
	slices.SortFunc(s.heap, compareRanked)
	s.heap.places(dst)
}

// lowest stores the places of the last len(dst) of the k lowest elements of a row.
func (s *selector) lowest(dst []int64, row []uint64, k int) {
	from := k - len(dst)
	if k > len(row)/heapPart && len(row) >= fewRanked {
		if p, ok := packingOf(row, s.dtype, s.flip); ok {
			if s.words[0] == nil {
				s.words = [2][]uint64{tensor.Make[uint64](len(row)), tensor.Make[uint64](len(row))}
			}
			p.words(s.words[0], row)
			p.places(dst, p.sort(s.words[0], s.words[1])[from:])
			return
		}
	}
	s.heap = lowestKeys(row, k, s.flip, s.heap)
	s.heap[from:].places(dst)
}

// lowestKeys returns the k elements of row with the lowest keys after flip, in order, equal ones in order of place. buf
// is reused.
func lowestKeys(row []uint64, k int, flip uint64, buf heap) heap {
	h := buf[:0]
	if k > len(row)/heapPart {
		for i, key := range row {
			h = append(h, ranked{key ^ flip, i})
		}
		return sortRanked(h)[:k]
	}
	if k == 0 {
		return h
	}
	for i, key := range row {
		h.offer(ranked{key ^ flip, i}, k)
	}
	slices.SortFunc(h, compareRanked)
	return h
}

// A heap has the lowest elements so far, the highest of them first.
type heap []ranked

// places stores the places of elements.
func (h heap) places(dst []int64) {
	for i := range dst {
		dst[i] = int64(h[i].index)
	}
}

// offer adds an element that comes after those so far if it is one of the k lowest.
func (h *heap) offer(x ranked, k int) {
	v := *h
	switch {
	case len(v) < k:
		v = append(v, x)
		for c := len(v) - 1; c > 0; {
			p := (c - 1) / 2
			if compareRanked(v[p], v[c]) >= 0 {
				break
			}
			v[p], v[c] = v[c], v[p]
			c = p
		}
		*h = v
	case x.key < v[0].key: // an equal key comes later
		v[0] = x
		for p := 0; ; {
			c := 2*p + 1
			if c >= k {
				break
			}
			if c+1 < k && compareRanked(v[c+1], v[c]) > 0 {
				c++
			}
			if compareRanked(v[p], v[c]) >= 0 {
				break
			}
			v[p], v[c] = v[c], v[p]
			p = c
		}
	}
}
