package compare

import (
	"math"
	"sync/atomic"
)

// A candidate is the worst element so far; score is distance over bound. The
// score of one that is not valid tells which elements need not be offered.
type candidate struct {
	score float64
	at    int
	valid bool
}

func (c *candidate) offer(score float64, at int) {
	if score != score {
		score = math.Inf(1)
	}
	if !c.valid || score > c.score {
		*c = candidate{score, at, true}
	}
}

// A highest is the largest score that any span has come across: elements that
// are less than it need not be looked at elsewhere. Which elements that spares
// depends on the order in which spans are done, the worst element does not.
type highest struct{ bits atomic.Uint64 }

// raise takes note of a score.
func (h *highest) raise(score float64) {
	b := math.Float64bits(math.Min(score, math.MaxFloat64)) // in the order of the numbers, which are not negative
	for old := h.bits.Load(); b > old && !h.bits.CompareAndSwap(old, b); old = h.bits.Load() {
	}
}

// candidate has a score that is surely below the highest, however both are
// rounded: an equal element that comes first is still offered.
func (h *highest) candidate() candidate {
	return candidate{score: math.Float64frombits(h.bits.Load()) * (1 - 0x1p-40)}
}
