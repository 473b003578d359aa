package step

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// findReturned finds inputs that lie where a recorded call wrote last, and hold what had lain there before, or what the
// same place of the program made in an earlier step. No gradient is needed: a value that no recorded call wrote is not
// by chance an old one. A tensor with a name in the model, which torch has not written since, may not hold any other
// recorded value either.
func (p *Process) findReturned() {
	first := map[*Value]*Value{} // readings by what was written
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			w := v.overwritten()
			if w == nil {
				continue
			}
			old := w.before(v)
			if old == nil {
				old = v.old
			}
			switch {
			case first[w] != nil && first[w].equals(v): // a further reading of it
				old = w
			case old != nil && w.Call.encloses(old.Call):
				if lost := w.lostUpdate(v); lost == nil || w.equals(v) {
					old = lost
				}
			case old == nil || old.Call.Order > w.Call.Order || old.Call != w.Call && !old.made() && !w.Call.updates(v):
				old = v.fromSamePlace(w)
			}
			if old == nil {
				old = v.copiedOver()
			}
			if old == nil || old.Call.encloses(w.Call) { // it was written when the outer call returned
				continue
			}
			// It is w's tensor, whatever reads that later, if its name and torch's count say so.
			if !v.isStillNamed(v.latest) && slices.ContainsFunc(w.readers, func(r *Value) bool {
				return r.Call.Order > c.Order
			}) {
				continue
			}
			v.unlink()
			v.From.Value = old
			reason := w.stale(v, "")
			if v.From = (Link{How: IsChanged, Value: w}); first[w] == nil {
				first[w], v.reason = v, reason
			} else {
				v.From = v.From.again(first[w])
			}
			w.readers = append(w.readers, v)
		}
	}
}

// overwritten is what a recorded call wrote last where an input lies, which is not known to have come from elsewhere;
// nil if there is none.
func (v *Value) overwritten() *Value {
	w := v.latest
	if w == nil || v.From.How == IsChanged || v.From.first != nil || v.From.written || v.From.Role == "collective" ||
		!v.DType.IsFloat() || v.isGradient() && w.before(v) == nil ||
		w.after == nil && w.Call.collective() != "" { // it wrote there after it was recorded
		return nil
	}
	if w.Kind == inputKind && w.after == nil && w.From.How != IsChanged {
		w = w.From.Value
	}
	if w == nil || !w.made() || w.content.plain || w.Call.random == opdef.Uninitialised ||
		w.after != nil && w.after.sum == v.content.sum { // it wrote what was there
		return nil
	}
	return w
}

// before is the argument that a call wrote in place when it left w there, if v holds in the same pass what lay there
// before; nil if it does not.
func (w *Value) before(v *Value) *Value {
	if w.Call.Step != v.Call.Step || w.Call.phase() != v.Call.phase() || !v.telling() {
		return nil
	}
	for _, in := range w.Call.Inputs {
		if in.Address == w.Address && in.equals(v) && (in != w || w.after != nil) {
			return in
		}
	}
	return nil
}

// lostUpdate is w, an argument that a call changed by calls that it made, if v holds what w did before, or what one of
// these calls left there for the next, and torch has counted no other write; else nil. The calls inside read the old
// value, too, and later than their outer call.
func (w *Value) lostUpdate(v *Value) *Value {
	if w.after == nil || !w.made() && !w.Call.updates(v) ||
		v.version >= 0 && w.writtenLast().version >= 0 && !v.isUncounted(w) {
		return nil
	}
	return w
}

// encloses reports whether a call made another one, itself or by calls that it made.
func (c *Call) encloses(o *Call) bool {
	for o = o.outer; o != nil && o != c; o = o.outer {
	}
	return o != nil
}

// updates reports whether a call without gradients writes a parameter that holds what v does.
func (c *Call) updates(v *Value) bool {
	return !c.HasBackward() && slices.ContainsFunc(c.Inputs, func(u *Value) bool {
		return u.Address == v.Address && u.RequiresGrad && u.equals(v)
	})
}

// fromSamePlace is the value that an input is linked to, if the place of the program that made w made it in an earlier
// step; else nil. What a loss was computed from belongs to its step, though the program may have made it behind the
// loss before.
func (v *Value) fromSamePlace(w *Value) *Value {
	old := v.From.Value
	if old == nil || old.Kind != outputKind || w.Kind != outputKind || old.Target != w.Target ||
		old.Call.Op != w.Call.Op || old.Call.phase() < 0 || old.Call.phase() >= w.Call.phase() {
		return nil
	}
	if at := w.Call.place(); at != old.Call.place() || at == (site{}) && w.Call.nth() != old.Call.nth() {
		return nil
	}
	return old
}

// copiedOver is the result that an input is linked to, if the input is still the tensor that lay last at its address,
// by torch's count of writes, so that no recorded call copied the result there; else nil.
func (v *Value) copiedOver() *Value {
	old := v.From.Value
	if old == nil || old.Kind != outputKind || old.Address == v.Address || !v.telling() ||
		v.latest.named != "" && v.named != v.latest.named || v.version != v.latest.writtenLast().version ||
		!v.isStill(v.latest) {
		return nil
	}
	return old
}

// A site is where the program makes a call, as far as that was recorded.
type site struct{ module, location string }

func (c *Call) place() site { return site{c.Entry.Module, c.Entry.Location} }

// nth counts the calls of the operator in the same phase of the step, up to the call.
func (c *Call) nth() (n int) {
	for _, o := range c.Process.Calls[:c.Order] {
		if o.Op == c.Op && o.phase() == c.phase() {
			n++
		}
	}
	return n
}

// A master is what an optimizer writes in place behind a loss, in more bits than the parameter has.
type master struct {
	before, after *fingerprint
	dtype         tensor.DType
	wrote         *Value
}

// findUncopied finds parameters in 16 bits that were not rounded anew from the value in more bits that an optimizer
// keeps for them (master weights): they equal its rounding before the update, and not after it.
func (p *Process) findUncopied() {
	masters := map[*Step]map[string][]master{}
	read := map[*Value]*Step{}     // the last step that read a parameter, by what its readings have in common
	changed := map[*Value]*Value{} // the reading that finds it old
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if !v.isParameter() || v.DType.Size() != 2 || !v.telling() || c.phase() < 0 || c.phase()%2 == 1 ||
				!c.HasBackward() && c.passes(v) != nil { // it can be what the new weight is then copied to
				continue
			}
			first := cmp.Or(v.From.first, v.From.Value, v)
			if old := changed[first]; old != nil {
				v.unlink()
				v.From = old.From.again(old)
				continue
			}
			before := read[first]
			if before == nil && c.HasBackward() {
				read[first] = c.Step
			}
			if before == nil || v.From.How == IsChanged {
				continue
			}
			if read[first] = c.Step; before == c.Step {
				continue
			}
			if masters[before] == nil {
				masters[before] = before.masters()
			}
			for _, m := range masters[before][tensor.ShapeString(v.Shape)] {
				if !m.rounds(m.before, v) || m.rounds(m.after, v) {
					continue
				}
				v.unlink()
				v.From = Link{How: IsChanged, Value: m.wrote}
				v.reason = fmt.Sprintf("it is rounded from what was there before %s wrote the master weight (%s): no call "+
					"copied the new weight here", m.wrote.Call, m.wrote.Target)
				m.wrote.readers = append(m.wrote.readers, v)
				changed[first] = v
				break
			}
		}
	}
}

// masters lists what the calls behind a loss write in place in float32 or more, by shape.
func (s *Step) masters() map[string][]master {
	byAddress := map[uint64]*master{}
	var order []uint64
	shape := map[uint64]string{}
	for _, c := range s.Tail {
		for _, v := range c.Inputs {
			if v.Address == 0 || !v.DType.IsFloat() || v.DType.Size() < 4 || !v.telling() || c.HasBackward() {
				continue
			}
			after, wrote := v.after, v
			for _, o := range c.Outputs {
				if o.Address == v.Address && o.like(v) && !o.equals(v) {
					after, wrote = &o.content, o
				}
			}
			if after == nil {
				continue
			}
			if byAddress[v.Address] == nil {
				byAddress[v.Address] = &master{before: &v.content, dtype: v.DType}
				order = append(order, v.Address)
				shape[v.Address] = tensor.ShapeString(v.Shape)
			}
			m := byAddress[v.Address]
			m.after, m.wrote = after, wrote
		}
	}
	out := map[string][]master{}
	for _, at := range order {
		out[shape[at]] = append(out[shape[at]], *byAddress[at])
	}
	return out
}

// rounds reports whether v is what a master weight is rounded to.
func (m master) rounds(f *fingerprint, v *Value) bool {
	if len(f.samples) != len(v.content.samples) {
		return false
	}
	for i, s := range f.samples {
		if v.DType.Round(m.dtype.Number(s)) != v.DType.Number(v.content.samples[i]) {
			return false
		}
	}
	return true
}
