package tensor

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/optool/optool/internal/quota"
)

// memoLargest is the number of elements of the largest block Memo keeps.
const memoLargest = 1 << 18

// Memo returns t with a memory of the blocks that were computed last. It begins to keep blocks once one is asked for
// twice in a row. Then a block, or a part of it, that is soon asked for again is copied. Memo is for lazy floating
// tensors of which several functions read the same block. It returns any other tensor as it is.
func Memo(t *Tensor) *Tensor {
	quota.Check() // a list may make results of any number
	l := t.back.lazy
	if l == nil || l.f == nil || blockSize(l.grain) > memoLargest {
		return t
	}
	m := &memo{fill: l.f, block: blockSize(l.grain), numel: l.numel, kept: make([]keptBlock, 4*runtime.GOMAXPROCS(0))}
	u := *t
	u.back = backing{lazy: &lazy{numel: l.numel, grain: l.grain, f: m.load}}
	return &u
}

// Whole returns the lazy tensor t with all elements computed and kept once the first is asked for. It computes the lazy
// tensors before first, in order. So a chain of tensors, each of which reads the last, recurses by one tensor only.
func Whole(t *Tensor, before []*Tensor) *Tensor {
	full := sync.OnceValue(func() backing {
		for _, b := range before {
			b.solid()
		}
		return t.solid()
	})
	l := &lazy{numel: t.back.lazy.numel, grain: 1}
	switch o := t.back.lazy; {
	case o.f != nil:
		l.f = func(lo int, dst []float64) { copy(dst, full().f[lo:]) }
	case o.i != nil:
		l.i = func(lo int, dst []int64) { copy(dst, full().i[lo:]) }
	default:
		l.c = func(lo int, dst []complex128) { copy(dst, full().c[lo:]) }
	}
	u := *t
	u.back = backing{lazy: l}
	return &u
}

type memo struct {
	fill  func(lo int, dst []float64)
	block int
	numel int
	kept  []keptBlock // block k, or a part of it, at k modulo their number
	again atomic.Bool // some block was asked for twice in a row
}

type keptBlock struct {
	mu    sync.Mutex
	asked int // one more than where the block asked for last begins
	lo    int
	v     []float64
}

func (m *memo) load(lo int, dst []float64) {
	k := lo / m.block
	if lo+len(dst) > (k+1)*m.block {
		m.fill(lo, dst)
		return
	}
	b := &m.kept[k%len(m.kept)]
	b.mu.Lock()
	if lo >= b.lo && lo+len(dst) <= b.lo+len(b.v) {
		copy(dst, b.v[lo-b.lo:])
		b.mu.Unlock()
		return
	}
	if b.asked == lo+1 {
		m.again.Store(true)
	}
	b.asked = lo + 1
	b.mu.Unlock()
	m.fill(lo, dst)
	// Single elements and rows are not what others ask for.
	if !m.again.Load() || 2*len(dst) < min(m.block, m.numel-k*m.block) {
		return
	}
	b.mu.Lock()
	b.lo, b.v = lo, append(b.v[:0], dst...)
	b.mu.Unlock()
}
