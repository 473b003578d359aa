package causes

import "time"

// Work is how much the search for the causes of a call may compute. It is an estimate in floating-point operations.
// It does not depend on the machine or its load, so that all runs find the same causes.
type Work struct {
	whole, done, most float64
	until             time.Time
}

const (
	glanceWork  = 1 << 18 // of a look at few elements
	elementWork = 1 << 9  // of an element that is compared
	glancesWork = 1 << 29 // of all looks at few elements
	wholeRuns   = 4       // of the call, as a whole
)

// NewWork is the work for a call of so many floating-point operations that reads and writes so many elements.
// A deadline is its last guard.
func NewWork(flops float64, elements int, until time.Time) *Work {
	whole := flops + elementWork*float64(elements)
	return &Work{whole: whole, most: glancesWork + wholeRuns*whole, until: until}
}

// Glance counts a look at few elements.
func (w *Work) Glance() {
	if w != nil {
		w.done += glanceWork
	}
}

// Whole counts a run of the whole call.
func (w *Work) Whole() {
	if w != nil {
		w.done += glanceWork + w.whole
	}
}

// Over reports whether the work is done, or the deadline is over.
func (w *Work) Over() bool { return w != nil && (w.done >= w.most || time.Now().After(w.until)) }
