package step

import (
	"cmp"
	"fmt"
	"slices"
)

// findScalars finds numbers (tensors of few elements: a loss weight, a counter, a learning rate), frozen weights and
// buffers that are not what was made or read last where they lie. Elements do not tell a number from others, and its
// memory is soon used again, so that it must be known to be the same tensor.
func (p *Process) findScalars() {
	changed := map[*Value]bool{}
	updated := p.updatedFrozen()
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if first := v.From.first; changed[first] {
				v.From = first.From.again(first)
				continue
			}
			w := v.latest.whole()
			if w == nil || v.From.Value != nil || v.From.first != nil || v.From.Role == "collective" ||
				v.Numel() > few && (!v.isFrozen(w) || updated[c.phase()]) || v.isGradient() || c.random != "" ||
				!v.isStill(w) {
				continue
			}
			from := w
			if w.Kind == inputKind && w.after == nil {
				from = cmp.Or(w.From.Value, w.first())
			}
			v.From, changed[v] = Link{How: IsChanged, Value: from}, true
			v.reason = fmt.Sprintf("it is not what %s of %s has, the same tensor: no recorded call wrote there in between",
				w.Target, w.Call)
			if w.after == nil {
				v.reason = cmp.Or(v.otherNumber(w), v.reason)
			}
			from.readers = append(from.readers, v)
		}
	}
}

// isFrozen reports whether an input is a frozen weight or a buffer that no recorded call wrote before, by its name in
// the model.
func (v *Value) isFrozen(w *Value) bool {
	return v.named != "" && v.named == w.named && !v.RequiresGrad && !w.made() && v.like(w)
}

// whole is the tensor of which v is a view of all elements, such as x[:n] or x.detach(), as the call read it that made
// the view; v itself if it is no such view.
func (v *Value) whole() *Value {
	for v != nil && v.named == "" {
		of := v.From.Value
		if v.Kind == outputKind && !v.Call.writes {
			i := slices.IndexFunc(v.Call.Inputs, func(u *Value) bool {
				return u.Address != 0 && u.Address == v.Address && u.DType == v.DType && u.Numel() == v.Numel() &&
					u.after == nil
			})
			if i >= 0 {
				of = v.Call.Inputs[i]
			}
		}
		if of == nil || of.Address != v.Address || of.Numel() != v.Numel() {
			break
		}
		v = of
	}
	return v
}

// updatedFrozen are the phases in which many frozen weights have other elements than before, and most have: calls that
// were not recorded, and that torch does not count, update them (an average of weights).
func (p *Process) updatedFrozen() map[int]bool {
	kept, changed := map[int]int{}, map[int]int{}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			before, w := cmp.Or(v.From.first, v.From.Value).whole(), v.latest.whole()
			switch {
			case before != nil:
				if v.isFrozen(before) && before.Call.phase() != c.phase() {
					kept[c.phase()]++
				}
			case w != nil && v.isFrozen(w) && v.isStill(w):
				changed[c.phase()]++
			}
		}
	}
	out := map[int]bool{}
	for phase, n := range changed {
		out[phase] = n > few && kept[phase] < 3*n
	}
	return out
}

// isStill reports whether an input is the tensor w, which lay last at its address, and torch has not counted a write
// since. Tensors with a name in the model and those that were written are no new ones; nor is the result of a call of
// the same phase, or of the loss before its backward pass, that nothing has read. Optimizers that are not recorded need
// not count their writes.
func (v *Value) isStill(w *Value) bool {
	if v.RequiresGrad && !w.made() || !v.isUncounted(w) {
		return false
	}
	return v.version > 0 || v.named != "" && v.named == w.named ||
		w.Kind == outputKind && len(w.readers) == 0 && w.RequiresGrad == v.RequiresGrad &&
			(w.Call.phase() == v.Call.phase() || v.Call.beforeBackwardOf(w.Call))
}

// beforeBackwardOf reports whether a call ran before the backward pass began with another one, a loss: until then the
// program has its result.
func (c *Call) beforeBackwardOf(loss *Call) bool {
	return c.Step != nil && c.Step.root == loss && 0 <= c.Entry.Order && c.Entry.Order < loss.Entry.BackwardOrder
}

// isStillNamed reports whether an input is the tensor w by its name in the model, and torch has not counted a write
// since. A write that follows is one too many even where the call that left w may not have counted its own.
func (v *Value) isStillNamed(w *Value) bool {
	return v.named != "" && v.named == w.named && v.version == w.writtenLast().version && v.isStill(w)
}
