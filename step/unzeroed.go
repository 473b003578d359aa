package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/tensor"
)

// An unzeroed gradient is the sum of what the calls gave since the parameter was last written, and of what lay there
// when that update had used it.
type unzeroed struct{ v, left *Value }

// findUnzeroed finds gradients to which backward passes added though an update had used what was there before: nothing
// set them to zero in between. Some programs add up the gradients of several losses on purpose and write a parameter in
// between, as adversarial training does: then the gradients of the others that were not written are such sums too.
func (u *updater) findUnzeroed(before []*updater, opt Options) {
	var all []unzeroed
	added := map[*Value]uint64{} // gradients of several losses behind the first of which a parameter was written
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			at, ok := u.gradientFor(v)
			if !ok {
				continue
			}
			if u.sumsBefore(at) {
				added[v] = at
			}
			_, sum, ok := u.givenSince(v, at, opt, func() bool {
				return !v.isGradient() && v.From.How != IsChanged && lastLeft(before, v, at) != nil
			})
			if !ok || sum.is(v) {
				continue
			}
			if x, ok := (unzeroed{v: v}).after(before, at, sum); ok {
				all = append(all, x)
			}
		}
	}
	if len(all) > 0 && u.addsUp(added, opt) {
		return
	}
	for _, x := range all {
		u.blame("unzeroed", x.v, x.left, 0, fmt.Sprintf("it is what the calls give that read the parameter, added to what "+
			"%s of %s had there, which an update has used: the gradient was not set to zero in between", x.left.Target,
			x.left.Call))
		x.v.right = x.right
	}
}

// gradientFor is the address of the parameter whose gradient an input may be; ok is false if it is none.
func (u *updater) gradientFor(v *Value) (at uint64, ok bool) {
	if v.From.first != nil || v.From.Role == "collective" || !v.DType.IsFloat() || !v.tellsNumber() ||
		v.Call.leavesState(v) {
		return 0, false
	}
	at = u.parameter(v)
	return at, at != 0 && at != v.Address && !hooked(u.since[at])
}

// addsUp reports whether one of the gradients is the sum of what the calls gave since its parameter was written.
func (u *updater) addsUp(added map[*Value]uint64, opt Options) bool {
	always := func() bool { return true }
	for v, at := range added {
		parts, sum, ok := u.givenSince(v, at, opt, always)
		if ok && (sum.is(v) || len(parts) == 1 && v.near(parts[0])) {
			return true
		}
	}
	return false
}

// tellsNumber reports whether the elements tell a value from others: a single one that is not 0, 1 or -1, too.
func (v *Value) tellsNumber() bool {
	if v.Numel() == 1 {
		return v.tellsApart()
	}
	return !v.content.plain
}

// givenSince are the gradients that the calls gave for the parameter at an address since it was last written, and their
// sum. Where one is not known and compute says so, the reference computes what they give; else not ok.
func (u *updater) givenSince(v *Value, at uint64, opt Options, compute func() bool) (parts []*Value, sum addition,
	ok bool) {
	if parts, ok = u.recordedSince(v, at); !ok && compute() {
		parts, ok = computedFor(u.since[at], opt)
	}
	if ok {
		sum, ok = sumOf(parts)
	}
	return parts, sum, ok
}

// recordedSince are those gradients as they were recorded; not ok if one is not known. What the reference gave for the
// same calls was kept.
func (u *updater) recordedSince(v *Value, at uint64) (parts []*Value, ok bool) {
	for _, r := range u.since[at] {
		g := r.Call.gradientOf(r)
		if g == nil || !sameShape(g.Shape, v.Shape) || r.Call.failsAt(g.Target) {
			return []*Value{v.wants}, v.wants != nil && slices.Equal(u.since[at], u.parameters[at])
		}
		if !slices.Contains(parts, g) {
			parts = append(parts, g)
		}
	}
	return parts, len(parts) > 0
}

// computedFor is what the reference gives for the readings of a parameter; not ok if it does not say.
func computedFor(readings []*Value, opt Options) (parts []*Value, ok bool) {
	if len(readings) == 0 {
		return nil, false
	}
	// What cannot be computed is not known.
	t, err := gradientOf(readings)(opt)
	if err != nil || t == nil {
		return nil, false
	}
	return []*Value{computed(t)}, true
}

// sumsBefore reports whether the calls that gave the gradient of a parameter belong to several losses, and other
// parameters were written behind the first of them that are written again now.
func (u *updater) sumsBefore(at uint64) bool {
	if len(u.since[at]) == 0 || u.since[at][0].Call.Step == u.step {
		return false
	}
	first := u.since[at][0].Call.Step
	for other := range first.firstWrites() {
		if u.writes[other] != nil && u.since[other] != nil {
			return true
		}
	}
	return false
}

// after looks for what the update before left where the gradient lies, and reports whether the calls added to it: what
// is there now is the sum, and not just what was left.
func (x unzeroed) after(before []*updater, at uint64, given addition) (unzeroed, bool) {
	x.left = lastLeft(before, x.v, at)
	return x, x.left != nil && x.addedTo(given)
}

// addedTo reports whether a backward pass added what calls gave to what was left.
func (x unzeroed) addedTo(given addition) bool {
	if x.left.leaves().sum == x.v.content.sum || x.v.began().content.sum == x.left.leaves().sum {
		return false
	}
	was := x.left.leaves().numbers(x.v.DType)
	return given.addElements(was) && given.is(x.v) && given.exceeds(was, x.v.DType)
}

// began is what the first call behind the loss read where a value lies: what recorded calls made of it since, no
// backward pass did. A momentum begins as the update before left it.
func (v *Value) began() *Value {
	first := v
	for _, w := range v.Call.Step.tailAt[v.Address] {
		if w.like(v) && w.Call.Order < first.Call.Order {
			first = w
		}
	}
	return first
}

// lastLeft is what the last update of a parameter before left where its gradient lies; nil if it had not used that, or
// left zeros.
func lastLeft(before []*updater, v *Value, at uint64) *Value {
	for _, b := range slices.Backward(before) {
		if b.writes[at] == nil {
			continue
		}
		if left := b.leftGradient(v, at); left != nil && !left.leaves().zero() {
			return left
		}
		break
	}
	return nil
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
