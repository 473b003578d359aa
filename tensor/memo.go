package tensor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// memoLargest is the number of elements of the largest block Memo keeps.
const memoLargest = 1 << 18

// Memo returns t with the blocks that were computed last kept, once one was asked
// for twice in a row: who asks for one again soon, or for a part of it, gets a
// copy. It is for lazy floating tensors that several functions of the same block
// may read; any other is returned as it is.
func Memo(t *Tensor) *Tensor {
	l := t.back.lazy
	if l == nil || l.f == nil || blockSize(l.grain) > memoLargest {
		return t
	}
	m := &memo{fill: l.f, block: blockSize(l.grain), kept: make([]keptBlock, 4*runtime.GOMAXPROCS(0))}
	u := *t
	u.back = backing{lazy: &lazy{numel: l.numel, grain: l.grain, f: m.load}}
	return &u
}

type memo struct {
	fill  func(lo int, dst []float64)
	block int
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
	if !m.again.Load() || 2*len(dst) < m.block { // single elements and rows are not what others ask for
		return
	}
	b.mu.Lock()
	b.lo, b.v = lo, append(b.v[:0], dst...)
	b.mu.Unlock()
}
