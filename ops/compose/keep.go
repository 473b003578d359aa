package compose

import (
	"sync"

	"github.com/optool/optool/tensor"
)

// Two limits of a composition. A value that is read twice, by values that are read
// twice, and so on, would be computed 2^n times: from mostWork on it is computed once
// and kept whole. Up to that tensor.Memo keeps blocks, so that what is large and read a
// few times takes no memory. Compositions of more than mostNodes values are refused.
const (
	mostWork  = 1 << 10
	mostNodes = 1 << 17
)

// works are what elements of the tensors of a graph cost.
type works struct {
	mu sync.Mutex
	// of is how many elements of other tensors, each counted as often as it is read,
	// make one element of a tensor.
	of   map[*tensor.Tensor]float64
	kept []*tensor.Tensor // in the order in which they can be computed
}

// keep is t, computed of the tensors from, for several readers: lazy, but kept whole
// once its elements cost too much to compute them again.
func (w *works) keep(t *tensor.Tensor, from ...*tensor.Tensor) *tensor.Tensor {
	if !t.IsLazy() {
		return t
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	work := 1.0
	for _, f := range from {
		work += w.of[f]
	}
	if work <= mostWork {
		t = tensor.Memo(t)
	} else {
		w.kept = append(w.kept, t)
		t, work = tensor.Whole(t, w.kept[:len(w.kept):len(w.kept)]), 1
	}
	if w.of == nil {
		w.of = map[*tensor.Tensor]float64{}
	}
	w.of[t] = work
	return t
}
