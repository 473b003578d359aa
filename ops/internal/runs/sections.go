package runs

import (
	"runtime"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Single elements go to places that the caches may not hold, section by section: the elements of a round are listed by
// the section they go to first.
const (
	section = 1 << 16
	round   = 1 << 20 // elements that each goroutine lists at a time
)

// A batch is what one goroutine lists in a round: places within sections and what goes there, those of section k
// from from[k] to from[k+1].
type batch[T tensor.Elem] struct {
	from []int
	at   []uint16
	v    []T // nil: places alone are wanted
}

// bySection calls f for the single elements that go to each section of n places, of each place in the order of the
// source: k is the section, at are places within it, v the elements of src. A nil src has none. f is called from
// several goroutines, for one section from one at a time.
func bySection[T tensor.Elem](r Runs, src *tensor.Tensor, n int, f func(k int, at []uint16, v []T)) {
	sections := (n + section - 1) / section
	batches := make([]batch[T], runtime.GOMAXPROCS(0))
	for i := range batches {
		l, each := &batches[i], min(round, r.Count)
		l.from, l.at = tensor.Make[int](sections+1), tensor.Make[uint16](each)
		if src != nil {
			l.v = tensor.Make[T](each)
		}
	}
	for first := 0; first < r.Count; first += round * len(batches) {
		tensor.Parallel(len(batches), 1, func(a, b int) {
			for i := a; i < b; i++ {
				batches[i].list(r, src, first+i*round)
			}
		})
		tensor.Parallel(sections, 1, func(a, b int) {
			for k := a; k < b; k++ {
				for i := range batches {
					l := &batches[i]
					lo, hi := l.from[k], l.from[k+1]
					var v []T
					if l.v != nil {
						v = l.v[lo:hi]
					}
					f(k, l.at[lo:hi], v)
				}
			}
		})
	}
}

// list lists the elements of a round from first on, which may be past the last.
func (l *batch[T]) list(r Runs, src *tensor.Tensor, first int) {
	clear(l.from)
	n := min(round, r.Count-first)
	if n <= 0 {
		return
	}
	to := opdef.Scratch[int64](n)
	defer opdef.Release(to)
	r.Starts(first, *to)
	for _, p := range *to {
		l.from[p/section+1]++
	}
	for k := range l.from[1:] {
		l.from[k+1] += l.from[k]
	}
	next := slices.Clone(l.from)
	if l.v == nil {
		for _, p := range *to {
			k := p / section
			l.at[next[k]] = uint16(p % section)
			next[k]++
		}
		return
	}
	const block = 1 << 13
	from := opdef.Scratch[T](min(n, block))
	defer opdef.Release(from)
	for lo := 0; lo < n; lo += block {
		v := (*from)[:min(block, n-lo)]
		tensor.Load(src, first+lo, v)
		for i, p := range (*to)[lo : lo+len(v)] {
			k := p / section
			l.at[next[k]], l.v[next[k]] = uint16(p%section), v[i]
			next[k]++
		}
	}
}

// sums is all for single elements that are added to what base holds. Each element's terms are added in the order
// of the source.
func (w *writer[T]) sums() []T {
	out := tensor.Make[T](w.base.Numel())
	part := func(k int) []T { return out[k*section : min((k+1)*section, len(out))] }
	tensor.Parallel((len(out)+section-1)/section, 1, func(a, b int) {
		for k := a; k < b; k++ {
			tensor.Load(w.base, k*section, part(k))
		}
	})
	bySection(w.Runs, w.src, len(out), func(k int, at []uint16, v []T) {
		dst := part(k)
		v = v[:len(at)]
		for j, p := range at {
			dst[p] += v[j]
		}
	})
	return out
}

// Most is how many runs at most meet one element of a tensor of n, or twice as many where they begin anywhere.
func (r Runs) Most(n int) int {
	if r.Count == 0 || r.Len == 0 {
		return 0
	}
	switch cells := n/r.Len + 1; {
	case cells > sparse*r.Count:
		return r.mostOfFew()
	case r.Len == 1:
		return r.mostOfSingle(n)
	default:
		met := tensor.Make[int32](cells)
		aligned := r.cells(func(k int) { met[k]++ })
		return whereAligned(int(slices.Max(met)), aligned)
	}
}

// sparse is from how many places for each run on they are sorted instead of counted.
const sparse = 8

// mostOfFew is Most of few runs of a large tensor.
func (r Runs) mostOfFew() (most int) {
	at := tensor.Make[int](r.Count)[:0]
	aligned := r.cells(func(k int) { at = append(at, k) })
	slices.Sort(at)
	for i := 0; i < len(at); {
		first := i
		for ; i < len(at) && at[i] == at[first]; i++ {
		}
		most = max(most, i-first)
	}
	return whereAligned(most, aligned)
}

// mostOfSingle is Most of single elements.
func (r Runs) mostOfSingle(n int) int {
	met := tensor.Make[int32](n)
	bySection[int64](r, nil, n, func(k int, at []uint16, _ []int64) {
		part := met[k*section:]
		for _, p := range at {
			part[p]++
		}
	})
	return largest(met)
}

// largest is the largest of counts.
func largest(v []int32) int {
	var most [4]int32
	for i, x := range v {
		most[i%len(most)] = max(most[i%len(most)], x)
	}
	return int(slices.Max(most[:]))
}

// whereAligned is a number of runs that meet, or twice as many where they begin anywhere.
func whereAligned(most int, aligned bool) int {
	if aligned {
		return most
	}
	return 2 * most
}

// cells calls f with where each run begins, in lengths of a run, and reports whether all begin at multiples of theirs.
func (r Runs) cells(f func(k int)) (aligned bool) {
	const chunk = 1 << 13
	starts := opdef.Scratch[int64](min(chunk, r.Count))
	defer opdef.Release(starts)
	aligned = true
	for lo := 0; lo < r.Count; lo += chunk {
		some := (*starts)[:min(chunk, r.Count-lo)]
		r.Starts(lo, some)
		for _, p := range some {
			k := int(p) / r.Len
			aligned = aligned && k*r.Len == int(p)
			f(k)
		}
	}
	return aligned
}
