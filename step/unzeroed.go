package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/tensor"
)

// An unzeroed gradient is the sum of what the calls gave since the parameter was last written, and of what lay there
// when that update had used it.
type unzeroed struct {
	v, left *Value
	parts   []*Value // that the calls gave since
}

// findUnzeroed finds gradients to which backward passes added though an update had used what was there before: nothing
// set them to zero in between. Some programs add up the gradients of several losses on purpose and write a parameter in
// between, as adversarial training does: then the gradients of the others that were not written are such sums too.
func (u *updater) findUnzeroed(before []*updater) {
	var all []unzeroed
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			if v.From.first != nil || v.From.Role == "collective" || !v.DType.IsFloat() || !v.tellsNumber() ||
				v.Call.leavesState(v) {
				continue
			}
			at := u.parameter(v)
			parts, ok := u.givenSince(v, at)
			if !ok || hooked(u.since[at]) {
				continue
			}
			sum, ok := sumOf(parts)
			if ok && sum.is(v) && u.sumsBefore(at) {
				return
			}
			if !ok || sum.is(v) {
				continue
			}
			if x, ok := (unzeroed{v: v, parts: parts}).after(before, at, sum); ok {
				all = append(all, x)
			}
		}
	}
	for _, x := range all {
		u.blame("unzeroed", x.v, x.left, 0, fmt.Sprintf("it is what the calls give that read the parameter, added to what "+
			"%s of %s had there, which an update has used: the gradient was not set to zero in between", x.left.Target,
			x.left.Call))
		x.v.right = x.right
	}
}

// tellsNumber reports whether the elements tell a value from others: a single one that is not 0, 1 or -1, too.
func (v *Value) tellsNumber() bool {
	if v.Numel() == 1 {
		return v.tellsApart()
	}
	return !v.content.plain
}

// givenSince are the gradients that the calls gave for the parameter at an address since it was last written; not ok if
// one is not known, or if v is not one of the gradients.
func (u *updater) givenSince(v *Value, at uint64) (parts []*Value, ok bool) {
	if at == 0 || at == v.Address {
		return nil, false
	}
	for _, r := range u.since[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) || r.Call.failsAt(g.Target) {
			return u.computedSince(v, at)
		}
		if !slices.Contains(parts, g) {
			parts = append(parts, g)
		}
	}
	return parts, len(parts) > 0
}

// computedSince is what the reference gives for the parameter, where the recorder does not have it; not ok if that was
// not computed for the same calls.
func (u *updater) computedSince(v *Value, at uint64) (parts []*Value, ok bool) {
	if v.wants == nil || !slices.Equal(u.since[at], u.parameters[at]) {
		return nil, false
	}
	return []*Value{v.wants}, true
}

// sumsBefore reports whether the calls that gave the gradient of a parameter belong to several losses, and other
// parameters were written behind the first of them that are written again now.
func (u *updater) sumsBefore(at uint64) bool {
	first := u.since[at][0].Call.Step
	if first == u.step {
		return false
	}
	for other := range first.firstWrites() {
		if u.writes[other] != nil && u.since[other] != nil {
			return true
		}
	}
	return false
}

// after looks for what the update before left where the gradient lies, and reports whether the calls added to it.
func (x unzeroed) after(before []*updater, at uint64, given addition) (unzeroed, bool) {
	for _, b := range slices.Backward(before) {
		if b.writes[at] == nil {
			continue
		}
		x.left = b.leftGradient(x.v, at)
		if x.left == nil || x.left.leaves().zero() || !given.addElements(x.left.leaves().numbers(x.v.DType)) {
			return x, false
		}
		return x, given.is(x.v)
	}
	return x, false
}

// leftGradient is what an update left where a later gradient of the parameter lies, if it had used that; nil if another
// call wrote there since: the program may go on with a part of it, as of a momentum.
func (u *updater) leftGradient(v *Value, at uint64) (left *Value) {
	used := false
	for _, w := range u.step.tailAt[v.Address] {
		if !w.like(v) {
			continue
		}
		used = used || u.parameter(w) == at
		if left == nil || left.Call.Order <= w.Call.Order {
			left = w
		}
	}
	if !used {
		return nil
	}
	if left.Call.writes {
		for _, o := range left.Call.Outputs {
			if o.Address == v.Address && o.like(v) {
				left = o
			}
		}
	}
	if left.overwrote() != nil && left.Call.Order > u.lastWrite(at) {
		return nil
	}
	return left
}

// lastWrite is the order of the last call behind the loss that writes at an address.
func (u *updater) lastWrite(at uint64) (order int) {
	for _, v := range u.step.tailAt[at] {
		if v.Call.returns(v) {
			order = max(order, v.Call.Order)
		}
	}
	return order
}

// right is the gradient without what the update before had used.
func (x unzeroed) right(opt Options) (*tensor.Tensor, error) {
	t, err := x.v.Recorded(opt)
	if err != nil {
		return nil, err
	}
	left, err := x.left.left(opt)
	if err != nil || left == nil {
		return nil, err
	}
	return plus(t, left, -1), nil
}
