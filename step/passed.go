package step

import "slices"

// reached is the number of the loss whose backward pass reached a call: the last of those that began before it did. It
// is -1 if no pass did, or if the recording does not say when passes began.
func (c *Call) reached(roots []*Call) int {
	found := -1
	for i, r := range roots {
		switch at := r.Entry.BackwardOrder; {
		case at < 0 || c.Entry.BackwardOrder < 0:
			return -1
		case at <= c.Entry.BackwardOrder && (found < 0 || at > roots[found].Entry.BackwardOrder):
			found = i
		}
	}
	return found
}

// takesPart finds the first of the calls between two losses that the backward pass of loss i reached, though the loss
// need not be linked to it: what lies between may not have been recorded. Where the recording does not say when
// backward passes ran, an update tells: calls with gradients behind it belong to the next pass. It is nil if there is
// none.
func takesPart(calls, roots []*Call, i int) *Call {
	updated := false
	k := slices.IndexFunc(calls, func(c *Call) bool {
		if c.Entry.BackwardOrder >= 0 {
			return c.HasBackward() && c.reached(roots) == i
		}
		updated = updated || c.updatesParameter()
		return updated && c.HasBackward()
	})
	if k < 0 {
		return nil
	}
	return calls[k]
}

// gaveBefore reports whether the backward pass had reached the call of a reading before another call was made. Where
// the recording does not say when, the call itself came before.
func (v *Value) gaveBefore(c *Call) bool {
	if at := v.Call.Entry.BackwardOrder; at >= 0 && c.Entry.Order >= 0 {
		return at < c.Entry.Order
	}
	return v.Call.Order < c.Order
}
