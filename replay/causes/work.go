package causes

import "time"

// Work is how much the search for the causes of a call may compute. It is an estimate in floating-point operations.
// It does not depend on the machine or its load, so that all runs find the same causes.
type Work struct {
	whole, glance, done, most float64
	allowed                   *Allowance
}

// An Allowance is what the search for the causes of a call may compute, and has computed.
type Allowance struct {
	Most   float64   // work; 0: as much as one search does
	Until  time.Time // when it ends at the latest; zero: when the work is done
	Likely []string  // causes of other calls of the operator, which are tried first
	Took   float64   // work
	Short  bool      // the search ended before all mistakes were tried
}

const (
	glanceWork  = 1 << 21 // of a look at few elements
	operandWork = 1 << 4  // of an element of the operands, in such a look
	tensorWork  = 1 << 13 // of a tensor of the operands, in such a look: an operator on a list runs for each
	elementWork = 1 << 9  // of an element that is compared, or looked at by all that needs no run of the call
	searchWork  = 1 << 34 // of all looks at few elements
	wholeRuns   = 4       // of the call, as a whole
)

// RunWork is the work of a run of a call of so many floating-point operations that reads and writes so many elements.
func RunWork(flops float64, elements int) float64 { return flops + elementWork*float64(elements) }

// NewWork is the work for a call of which a run takes so much, and whose operands have so many elements in so many
// tensors.
func NewWork(run float64, elements, tensors int, a *Allowance) *Work {
	glance := glanceWork + operandWork*float64(elements) + tensorWork*float64(tensors)
	w := &Work{whole: run, glance: glance, done: run / 2,
		most: searchWork + (1+wholeRuns)*run, allowed: a}
	if a.Most > 0 {
		w.most = min(w.most, a.Most)
	}
	return w
}

// Glance counts a look at few elements.
func (w *Work) Glance() {
	if w != nil {
		w.done += w.glance
	}
}

// Whole counts a run of the whole call.
func (w *Work) Whole() {
	if w != nil {
		w.done += w.glance + w.whole
	}
}

// Elements counts so many elements that are looked at one by one.
func (w *Work) Elements(n int) {
	if w != nil {
		w.done += elementWork * float64(n)
	}
}

// Over reports whether the work is done, or the deadline is over.
func (w *Work) Over() bool {
	if w == nil {
		return false
	}
	over := w.done >= w.most || !w.allowed.Until.IsZero() && time.Now().After(w.allowed.Until)
	w.allowed.Short = w.allowed.Short || over
	return over
}

// Aside reports from now on whether so much more was done, or all work.
func (w *Work) Aside(most float64) (over func() bool) {
	if w == nil {
		return func() bool { return false }
	}
	most = min(w.most, w.done+most)
	return func() bool {
		return w.done >= most || !w.allowed.Until.IsZero() && time.Now().After(w.allowed.Until)
	}
}

// End notes in the allowance how much was done.
func (w *Work) End() { w.allowed.Took = w.done }

// A Budget is the work of all searches for causes of a run: a tenth of what comparing its calls takes. A short run has
// more, since a search tells more than it costs there.
type Budget struct{ compared, took float64 }

const (
	// leastBudget is the work of the searches of a short run, about two seconds.
	leastBudget = 1 << 35
	// furtherBudget is the work that further findings may take beside, about four seconds.
	furtherBudget = 1 << 36
	// leastShare is the least work that a search for one of them may take, about a tenth of a second.
	leastShare = furtherBudget / 32
)

// Compared adds the work of comparing a call.
func (b *Budget) Compared(work float64) { b.compared += work }

// Allow is the allowance for the first of so many findings: half of what is left, more for the last.
func (b *Budget) Allow(findings int) *Allowance {
	left := max(leastBudget, b.compared/10) - b.took
	return &Allowance{Most: max(1, left/float64(max(1, min(2, findings))))}
}

// Further is the allowance for the first of so many further findings, of which a run prints a line: an even share of
// what is left, of which looking at the call again takes a part. It is nil if nothing is left.
func (b *Budget) Further(findings int, again float64) *Allowance {
	b.took += again
	left := max(leastBudget, b.compared/10) + furtherBudget - b.took
	if left <= 0 {
		return nil
	}
	return &Allowance{Most: max(leastShare, left/float64(max(1, findings)))}
}

// Spend notes work that was done.
func (b *Budget) Spend(work float64) { b.took += work }
