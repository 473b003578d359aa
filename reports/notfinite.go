package reports

import "fmt"

// firstNotFinite finds which call made the first value that is not finite of values that are, and where such values go.
type firstNotFinite struct {
	made, mask *Result // the first call; mask is that of -inf, which masks have
	ofMask     *Result // the first call that made NaN or +inf of values that are finite or -inf
	calls      int     // whose values are not finite, but for masks
	last       *Result // the latest of these
}

// add adds what a call gave.
func (n *firstNotFinite) add(f *Finding) {
	for _, r := range f.Results {
		x := r.NotFinite
		if x == nil {
			continue
		}
		if x.Mask {
			if x.Made && (n.mask == nil || sooner(r, n.mask)) {
				n.mask = r
			}
			continue
		}
		n.calls++
		if x.Made && (n.made == nil || sooner(r, n.made)) {
			n.made = r
		}
		if x.OfMask && (n.ofMask == nil || sooner(r, n.ofMask)) {
			n.ofMask = r
		}
		if n.last == nil || sooner(n.last, r) {
			n.last = r
		}
	}
}

// sooner orders values that are not finite by the time at which they were made: forward passes first, backward passes
// the last call first.
func sooner(a, b *Result) bool {
	x, y := a.NotFinite.Phase == "backward", b.NotFinite.Phase == "backward"
	if x != y {
		return y
	}
	if x {
		a, b = b, a
	}
	return compareKnown(a.Order, b.Order) < 0
}

// first is the call that made the first value, nil if all are finite. A value of -inf counts only if NaN or +inf
// follow, and not if it is due: then the call counts that made NaN or +inf of it.
func (n *firstNotFinite) first() *Result {
	switch {
	case n.made != nil || n.calls == 0:
		return n.made
	case n.mask != nil && !n.mask.NotFinite.Due:
		return n.mask
	}
	return n.ofMask
}

const notFiniteHead = "First value that is not finite: "

// text is the line that says so, "" if all values are finite.
func (n *firstNotFinite) text() string {
	r := n.first()
	if r == nil {
		return ""
	}
	s := fmt.Sprintf(notFiniteHead+"%s: %s.", r.Title(), r.NotFinite.Text)
	if more := n.calls - btoi(r == n.made || r == n.ofMask); more > 0 {
		have := "have"
		if more == 1 {
			have = "has"
		}
		s += fmt.Sprintf(" %s after it %s such values", Count(more, "call"), have)
		if n.last != r {
			s += ", the last is " + n.last.Title()
		}
		s += "."
	}
	return s
}
